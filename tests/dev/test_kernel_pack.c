/* Kernel packs: stored binaries are returned for their device, damaged ones never are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dev/offline/kernel_pack.h"
#include "dev/program/program.h"
#include "support/scratch.h"
#include "tfm/kernels.h"

static const tfm__device_fingerprint HERE = {{"Platform", "OpenCL 1.2", "Board", "Vendor", "19.1", "OpenCL 1.0"}};

static char path[4200];

static void write_pack(const tfm__device_fingerprint *device) {
    const tfm__kernel_pack_item items[] = {{"softmax-1", (unsigned char *)"binary\0one", 10},
                                           {"beam-2", (unsigned char *)"2", 1}};
    uint64_t size;
    char *written;
    size_t bytes;
    json_t *said = tfm__device_fingerprint_json(device);
    harness_ok(tfm__kernel_pack_write(&size, path, said, items, 2));
    json_decref(said);
    harness_ok(tfm__file_read(&written, &bytes, path));
    assert_int_equal(bytes, size);
    free(written);
}

/* Whether the pack opens, is for this device, and has the right binaries. A returned binary is correct. */
static bool good(void) {
    tfm__kernel_pack *pack;
    const unsigned char *data;
    size_t bytes;
    if (tfm__kernel_pack_open(&pack, path) != TFM_OK) {
        assert_null(pack);
        return false;
    }
    const bool whole = tfm__kernel_pack_check(pack, &HERE) == TFM_OK;
    const bool first = whole && tfm__kernel_pack_find(pack, &data, &bytes, "softmax-1") == TFM_OK;
    if (first) {
        assert_int_equal(bytes, 10);
        assert_memory_equal(data, "binary\0one", 10);
    }
    const bool second = first && tfm__kernel_pack_find(pack, &data, &bytes, "beam-2") == TFM_OK;
    if (second) {
        assert_int_equal(bytes, 1);
        assert_int_equal(data[0], '2');
    }
    tfm__kernel_pack_close(&pack);
    assert_null(pack);
    return second;
}

static void refused(const char *part) {
    assert_false(good());
    if (!strstr(tfm_error_message(), part))
        fail_msg("\"%s\" is not in: %s", part, tfm_error_message());
}

static void test_kernel_pack_round_trip(void **state) {
    (void)state;
    tfm__kernel_pack *pack;
    const unsigned char *data;
    size_t bytes;
    write_pack(&HERE);
    assert_true(good());
    harness_ok(tfm__kernel_pack_open(&pack, path));
    assert_int_equal(tfm__kernel_pack_find(pack, &data, &bytes, "softmax"), TFM_ERROR_UNSUPPORTED);
    assert_non_null(strstr(tfm_error_message(), "has no program softmax, which"));
    assert_non_null(strstr(tfm_error_message(), "tfm kernels --export"));
    tfm__kernel_pack_close(&pack);
}

/* Every byte changed, and every truncation. */
static void test_damaged_or_truncated_pack_is_rejected(void **state) {
    (void)state;
    char *whole, *harmed;
    size_t bytes;
    write_pack(&HERE);
    harness_ok(tfm__file_read(&whole, &bytes, path));
    harmed = malloc(bytes);
    assert_non_null(harmed);
    for (size_t i = 0; i < bytes; i++) {
        memcpy(harmed, whole, bytes);
        harmed[i] ^= 1;
        harness_ok(tfm__file_write(path, harmed, bytes));
        if (good())
            fail_msg("a change of byte %zu of %zu is not detected", i, bytes);
        harness_ok(tfm__file_write(path, whole, i));
        if (good())
            fail_msg("a pack cut to %zu of %zu bytes opens", i, bytes);
    }
    free(harmed);
    free(whole);
}

/* Writes the given list with a valid hash, followed by `binaries`. */
static void sealed(const char *list, const char *binaries) {
    const size_t bytes = strlen(list), all = 24 + bytes + strlen(binaries);
    const uint64_t numbers[] = {bytes, tfm__hash64(list, bytes, 0)};
    unsigned char *file = malloc(all + 1);
    assert_non_null(file);
    memcpy(file, "tfm pack", 8);
    for (int i = 0; i < 16; i++)
        file[8 + i] = (unsigned char)(numbers[i / 8] >> 8 * (i % 8));
    memcpy(file + 24, list, bytes);
    memcpy(file + 24 + bytes, binaries, strlen(binaries));
    harness_ok(tfm__file_write(path, file, all));
    free(file);
}

static void test_invalid_pack_manifest_is_rejected(void **state) {
    (void)state;
    sealed("[]", "");
    refused("");
    sealed("{\"format\": 2, \"tfm\": \"1\", \"programs\": []}", "");
    refused("does not support its format");
    sealed("{\"format\": 1, \"programs\": []}", "");
    refused("lacks the version of tfm or the programs");
    sealed("{\"format\": 1, \"tfm\": \"1\", \"programs\": [{\"name\": \"a\", \"at\": 0, \"bytes\": 4}]}", "four");
    refused("lacks name, place, size or hash");
    static const char *const PLACES[] = {"1, \"bytes\": 4",
                                         "0, \"bytes\": 5",
                                         "-1, \"bytes\": 4",
                                         "0, \"bytes\": 0",
                                         "9223372036854775807, \"bytes\": 1",
                                         "0, \"bytes\": 9223372036854775807"};
    for (size_t i = 0; i < TFM__COUNT(PLACES); i++) {
        char list[256];
        snprintf(list, sizeof(list),
                 "{\"format\": 1, \"tfm\": \"1\", \"programs\": [{\"name\": \"a\", \"hash\": \"0\", \"at\": %s}]}",
                 PLACES[i]);
        sealed(list, "four");
        refused("it is truncated in its binaries");
    }
    sealed("{\"format\": 1, \"tfm\": \"0.0.1\", \"device\": {}, \"programs\": []}", "");
    refused("is of tfm 0.0.1, and this is tfm ");
}

/* Each word in turn is swapped with another. */
static void test_pack_of_another_device_is_rejected(void **state) {
    (void)state;
    static const char *const SAID[] = {"platform is \"other\"", "platform's version is \"other\"",
                                       "name is \"other\"",     "vendor is \"other\"",
                                       "driver is \"other\"",   "OpenCL version is \"other\""};
    for (int i = 0; i < TFM__FINGERPRINT_FIELDS; i++) {
        tfm__device_fingerprint other = HERE;
        strcpy(other.text[i], "other");
        write_pack(&other);
        refused(SAID[i]);
    }
}

static void test_build_options_are_split_into_defines(void **state) {
    (void)state;
    char *defines, *rest;
    assert_true(tfm__options_split(&defines, &rest, "-cl-std=CL1.2 -DA -DB=2  -cl-kernel-arg-info -DC=(x)=3"));
    assert_string_equal(defines, "#define A 1\n#define B 2\n#define C (x)=3\n");
    assert_string_equal(rest, "-cl-std=CL1.2 -cl-kernel-arg-info");
    free(defines);
    free(rest);
}

/* Two begins, an end without begin, and an empty pack are rejected. */
static void test_kernel_export_rejects_misuse(void **state) {
    (void)state;
    tfm_kernels_report report;
    assert_int_equal(tfm_kernels_end(NULL), TFM_ERROR_ARGUMENT);
    harness_ok(tfm_kernels_begin(scratch_path("export"), NULL));
    assert_int_equal(tfm_kernels_begin(scratch_path("export"), NULL), TFM_ERROR_ARGUMENT);
    assert_int_equal(tfm_kernels_end(&report), TFM_ERROR_INPUT);
    assert_int_equal(report.programs, 0);
    assert_int_equal(tfm_kernels_end(&report), TFM_ERROR_ARGUMENT);
    assert_int_equal(tfm_kernels_pack(NULL, path, scratch_path("nowhere"), NULL), TFM_ERROR_IO);
}

/* Vendor compiler binaries next to an export for another device: no device is opened. */
static void test_vendor_binaries_are_packed_without_device(void **state) {
    (void)state;
    char text[1024];
    tfm_kernels_report report;
    snprintf(text, sizeof(text),
             "{\"tfm\": \"%s\", \"binary_suffixes\": [\".bin\", \".aocx\"], \"device\": {\"platform\": \"Platform\", "
             "\"platform_version\": \"OpenCL 1.2\", \"name\": \"Board\", \"vendor\": \"Vendor\", \"driver\": \"19.1\", "
             "\"opencl\": \"OpenCL 1.0\"}, \"programs\": [{\"name\": \"softmax-1\", \"options\": \"\"}, {\"name\": "
             "\"beam-2\", \"options\": \"\"}]}",
             tfm_version());
    harness_ok(tfm__file_write(scratch_path("manifest.json"), text, strlen(text)));
    harness_ok(tfm__file_write(scratch_path("softmax-1.aocx"), "binary\0one", 10));
    harness_ok(tfm__file_write(scratch_path("beam-2.bin"), "2", 1));
    harness_ok(tfm_kernels_pack(&report, path, scratch_root, NULL));
    assert_int_equal(report.programs, 2);
    assert_int_equal(report.built, 0);
    assert_true(good());
    harness_ok(tfm__file_write(scratch_path("beam-2.bin"), "", 0));
    assert_int_equal(tfm_kernels_pack(NULL, path, scratch_root, NULL), TFM_ERROR_INPUT);
    assert_non_null(strstr(tfm_error_message(), "beam-2.bin is empty"));
}

static int setup(void **state) {
    if (scratch_setup(state) != 0)
        return -1;
    snprintf(path, sizeof(path), "%s/kernels.pack", scratch_root);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernel_pack_round_trip),
        cmocka_unit_test(test_damaged_or_truncated_pack_is_rejected),
        cmocka_unit_test(test_invalid_pack_manifest_is_rejected),
        cmocka_unit_test(test_pack_of_another_device_is_rejected),
        cmocka_unit_test(test_build_options_are_split_into_defines),
        cmocka_unit_test(test_kernel_export_rejects_misuse),
        cmocka_unit_test(test_vendor_binaries_are_packed_without_device),
    };
    return cmocka_run_group_tests(tests, setup, scratch_teardown);
}
