/* NumPy files: every format version opens; damaged and unsupported ones are rejected. The files are by
 * tests/golden/make_npz.py. */
#include <math.h>
#include "model/weights/weight_file.h"
#include "support/scratch.h"

#define FOLDER "tests/golden/npz/"

static void refused(const char *name, tfm_status want, const char *part) {
    tfm__weights *weights;
    const tfm_status status = tfm__weights_open(&weights, scratch_path(name));
    scratch_refused(status, want, part);
    assert_null(weights);
}

/* An element of a tensor of any dtype. */
static double value_of(const tfm__stored_tensor *x, size_t i) {
    unsigned char bytes[8] = {0};
    const size_t size = x->bytes / x->count;
    float single;
    double number;
    memcpy(bytes, x->data + i * size, size);
    if (strcmp(x->dtype_name, "F32") == 0)
        return memcpy(&single, bytes, sizeof(single)), single;
    if (strcmp(x->dtype_name, "F64") == 0)
        return memcpy(&number, bytes, sizeof(number)), number;
    const int integer = bytes[0] | bytes[1] << 8;
    if (strcmp(x->dtype_name, "F16") == 0) /* 0, and normal numbers */
        return integer ? ldexp(1024 + (integer & 1023), (integer >> 10) - 25) : 0;
    return integer;
}

static void check_all(const char *name) {
    static const struct {
        const char *name, *dtype;
        bool usable;
        int rank;
        int64_t dims[TFM_MAX_RANK];
    } WANTED[] = {
        {"bool", "BOOL", false, 1, {2}}, {"column", "F32", true, 1, {5}}, {"deep", "F32", false, 9, {0}},
        {"f16", "F16", true, 1, {5}},    {"f32", "F32", true, 2, {2, 3}}, {"f64", "F64", false, 1, {3}},
        {"i32", "I32", true, 2, {2, 2}}, {"i8", "I8", true, 1, {4}},      {"none", "F32", true, 2, {0, 7}},
        {"row", "F32", true, 2, {1, 6}}, {"scalar", "F32", true, 0, {0}},
    };
    tfm__weights *weights;
    char path[256], *whole;
    snprintf(path, sizeof(path), FOLDER "%s", name);
    whole = harness_source(path);
    harness_ok(tfm__weights_open(&weights, whole));
    assert_int_equal(tfm__weights_count(weights), TFM__COUNT(WANTED));
    for (size_t i = 0; i < TFM__COUNT(WANTED); i++) {
        const tfm__stored_tensor *x = tfm__weights_at(weights, i);
        assert_string_equal(x->name, WANTED[i].name);
        assert_string_equal(x->dtype_name, WANTED[i].dtype);
        assert_string_equal(x->file, whole);
        assert_int_equal(x->usable, WANTED[i].usable);
        assert_int_equal(x->rank, WANTED[i].rank);
        for (int k = 0; k < x->rank && x->rank <= TFM_MAX_RANK; k++)
            assert_int_equal(x->dims[k], WANTED[i].dims[k]);
        for (size_t k = 0; k < x->count; k++)
            assert_true(value_of(x, k) == (double)k);
    }
    assert_int_equal(tfm__weights_find(weights, "none")->count, 0);
    assert_string_equal(tfm__weights_kind(weights), "NumPy .npz");
    assert_string_equal(tfm__weights_metadata(weights, TFM__MARIAN_CONFIG), "type: transformer\ndim-emb: 4\n");
    assert_null(tfm__weights_metadata(weights, "format"));
    tfm__weights_free(&weights);
    free(whole);
}

static void test_npz_of_every_version_is_read(void **state) {
    (void)state;
    check_all("plain.npz");
    check_all("versions.npz");
    tfm__weights *weights;
    char *path = harness_source(FOLDER "old.npz");
    harness_ok(tfm__weights_open(&weights, path));
    assert_true(value_of(tfm__weights_find(weights, "x"), 5) == 5);
    assert_null(tfm__weights_metadata(weights, TFM__MARIAN_CONFIG));
    tfm__weights_free(&weights);
    free(path);
}

/* Valid, but unsupported. */
static void test_unsupported_npz_features_are_rejected(void **state) {
    (void)state;
    static const struct {
        const char *name, *part;
    } CASES[] = {
        {"deflated.npz", "tensor x is compressed or encrypted"},
        {"fortran.npz", "column by column (fortran_order)"},
        {"big.npz", "is big-endian"},
        {"complex.npz", "NumPy's dtype '<c8'"},
    };
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        char from[256];
        snprintf(from, sizeof(from), FOLDER "%s", CASES[i].name);
        scratch_copy(from, "x.npz");
        refused("x.npz", TFM_ERROR_UNSUPPORTED, CASES[i].part);
    }
    scratch_copy(FOLDER "records.npz", "x.npz");
    refused("x.npz", TFM_ERROR_FORMAT, "tensor x has a header that is not as NumPy writes it");
    scratch_text("x.npz", "");
    refused("x.npz", TFM_ERROR_FORMAT, "is empty");
    scratch_text("x.npz", "\n<!DOCTYPE html><html>");
    refused("x.npz", TFM_ERROR_FORMAT, "a web page");
    scratch_text("x.npz", "\x01\x02\x03");
    refused("x.npz", TFM_ERROR_FORMAT, "not a NumPy .npz");
    scratch_write("x.npz", "PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 22);
    refused("x.npz", TFM_ERROR_FORMAT, "holds no tensors");
}

/* One defect at a time: `with` replaces the beginning of `old`. */
static void test_inconsistent_npz_is_rejected(void **state) {
    (void)state;
    static const struct {
        const char *old, *with;
        tfm_status status;
        const char *part;
    } CASES[] = {
        {"\x93NUMPY\x01", "\x92", TFM_ERROR_FORMAT, "tensor x is not a NumPy array"},
        {"\x01\0v\0{'de", "\4", TFM_ERROR_UNSUPPORTED, "version 4 of NumPy's format"},
        {"v\0{'de", "u", TFM_ERROR_FORMAT, "6 elements of F32 do not fill its 25 bytes"},
        {"v\0{'de", "v\x7f", TFM_ERROR_FORMAT, "a header that is not as NumPy"},
        {"{'descr'", "['descr'", TFM_ERROR_FORMAT, "a header that is not as NumPy"},
        {"'descr'", "'order'", TFM_ERROR_FORMAT, "a header that is not as NumPy"},
        {"'shape'", "'descr'", TFM_ERROR_FORMAT, "a header that is not as NumPy"},
        {"'<f4'", "'<f8'", TFM_ERROR_FORMAT, "6 elements of F64 do not fill its 24 bytes"},
        {"False", "True ", TFM_ERROR_UNSUPPORTED, "column by column"},
        {"False", "false", TFM_ERROR_FORMAT, "a header that is not as NumPy"},
        {"(2, 3)", "(3, 3)", TFM_ERROR_FORMAT, "9 elements of F32 do not fill its 24 bytes"},
        {"(2, 3)", "(-2,3)", TFM_ERROR_FORMAT, "a header that is not as NumPy"},
        {"(2, 3)", "(2 3, ", TFM_ERROR_FORMAT, "a header that is not as NumPy"},
        {"}      ", "},     ", TFM_ERROR_FORMAT, "a header that is not as NumPy"},
        {"PK\x05\x06", "Q", TFM_ERROR_FORMAT, "its end is missing"},
    };
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        size_t size;
        char *content = scratch_source(FOLDER "small.npz", &size);
        /* Some patterns contain a NUL: the part after it is enough. */
        const size_t nul = CASES[i].old[0] == '\x01' || CASES[i].old[0] == 'v' ? strlen(CASES[i].old) + 1 : 0;
        const size_t more = nul ? strlen(CASES[i].old + nul) : 0;
        char *at = memmem(content, size, CASES[i].old, nul + more ? nul + more : strlen(CASES[i].old));
        if (!at)
            fail_msg("case %zu: \"%s\" is not in the file", i, CASES[i].old);
        memcpy(at, CASES[i].with, strlen(CASES[i].with));
        scratch_write("x.npz", content, size);
        free(content);
        refused("x.npz", CASES[i].status, CASES[i].part);
    }
}

/* Truncated at every byte, and randomly damaged: an error, or tensors inside the file, and no fault (under the
 * sanitizers). */
static void test_damaged_npz_never_reads_outside(void **state) {
    (void)state;
    static const char *const FILES[] = {"small.npz", "versions.npz"};
    unsigned sum = 0;
    int opened = 0;
    for (size_t f = 0; f < TFM__COUNT(FILES); f++) {
        char from[256];
        size_t size;
        snprintf(from, sizeof(from), FOLDER "%s", FILES[f]);
        char *content = scratch_source(from, &size);
        unsigned char *bytes = malloc(size);
        harness_random random = {f};
        assert_non_null(bytes);
        for (size_t i = 0; i < 600; i++) {
            size_t left = size;
            memcpy(bytes, content, size);
            for (int64_t n = harness_range(&random, 1, 3); n > 0 && left > 0; n--)
                scratch_damage(&random, bytes, &left);
            scratch_write("x.npz", bytes, left);
            tfm__weights *weights;
            if (tfm__weights_open(&weights, scratch_path("x.npz")) != TFM_OK)
                continue;
            opened++;
            for (size_t k = 0; k < tfm__weights_count(weights); k++) {
                const tfm__stored_tensor *x = tfm__weights_at(weights, k);
                for (size_t b = 0; b < x->bytes; b++)
                    sum += x->data[b];
            }
            tfm__weights_free(&weights);
        }
        free(bytes);
        free(content);
    }
    assert_in_range(opened, 20, 1000);
    assert_int_not_equal(sum, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_npz_of_every_version_is_read),
        cmocka_unit_test(test_unsupported_npz_features_are_rejected),
        cmocka_unit_test(test_inconsistent_npz_is_rejected),
        cmocka_unit_test(test_damaged_npz_never_reads_outside),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
