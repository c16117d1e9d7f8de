/* torch.save files: both layouts open, damaged and unsupported ones are rejected, and reads never leave the file. The
 * files are by tests/golden/make_torch.py. */
#include <math.h>
#include "model/weights/weight_file.h"
#include "support/scratch.h"
#include "tfm/model.h"

#define FOLDER "tests/golden/torch/"

static tfm_status open_scratch(const char *name) {
    tfm__weights *weights;
    tfm_status status = tfm__weights_open(&weights, scratch_path(name));
    tfm__weights_free(&weights);
    return status;
}

static void refused(const char *name, tfm_status want, const char *part) {
    scratch_refused(open_scratch(name), want, part);
}

/* An element of a tensor of any dtype. */
static float value_of(const tfm__stored_tensor *x, size_t i) {
    unsigned char bytes[8] = {0};
    const size_t size = x->bytes / x->count;
    memcpy(bytes, x->data + i * size, size);
    int64_t integer = 0;
    float number = 0;
    memcpy(&integer, bytes, sizeof(integer));
    if (strcmp(x->dtype_name, "F32") == 0)
        memcpy(&number, bytes, sizeof(number));
    else if (strcmp(x->dtype_name, "BF16") == 0)
        memcpy((unsigned char *)&number + 2, bytes, 2);
    else if (strcmp(x->dtype_name, "F16") == 0) /* 0, and normal numbers */
        number = integer ? ldexpf((float)(1024 + (integer & 1023)), (int)(integer >> 10) - 25) : 0;
    else
        number = (float)integer;
    return number;
}

static void check_all(const char *name) {
    static const struct {
        const char *name, *dtype;
        bool usable;
        int rank;
        int64_t dims[TFM_MAX_RANK];
    } WANTED[] = {
        {"bf16", "BF16", true, 2, {2, 2}},
        {"bool", "BOOL", false, 1, {2}},
        {"deep", "F32", true, 6, {1, 1, 1, 1, 1, 2}},
        {"f16", "F16", true, 1, {5}},
        {"f32", "F32", true, 2, {2, 3}},
        {"i64", "I64", false, 1, {3}},
        {"none", "F32", true, 2, {0, 7}},
        {"parameter", "F32", true, 1, {3}},
        {"part", "F32", true, 2, {2, 3}},
        {"scalar", "F32", true, 0, {0}},
        {"steps", "F32", true, 1, {4}},
        {"tied.first", "F32", true, 2, {3, 4}},
        {"tied.second", "F32", true, 2, {3, 4}},
        {"turned", "F32", true, 2, {4, 3}},
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
        for (int k = 0; k < x->rank && k < TFM_MAX_RANK; k++)
            assert_int_equal(x->dims[k], x->rank > TFM_MAX_RANK ? 1 : WANTED[i].dims[k]);
        for (size_t k = 0; k < x->count; k++)
            assert_true(value_of(x, k) == (float)k);
    }
    assert_int_equal(tfm__weights_find(weights, "none")->count, 0);
    assert_ptr_equal(tfm__weights_find(weights, "tied.first")->data, tfm__weights_find(weights, "tied.second")->data);
    assert_string_equal(tfm__weights_kind(weights), "PyTorch .bin");
    assert_null(tfm__weights_metadata(weights, "format"));
    tfm__weights_free(&weights);
    free(whole);
}

static void test_torch_files_of_both_layouts_are_read(void **state) {
    (void)state;
    check_all("zip.bin");
    check_all("legacy.bin");
    check_all("protocol-4.bin");
    check_all("legacy-protocol-4.bin");
    tfm__weights *weights;
    char *path = harness_source(FOLDER "stored.bin"); /* as repacked by another archiver */
    harness_ok(tfm__weights_open(&weights, path));
    assert_true(value_of(tfm__weights_find(weights, "x"), 1) == 1);
    tfm__weights_free(&weights);
    free(path);
}

/* Valid, but not plain tensors. */
static void test_torch_file_without_plain_tensors_is_rejected(void **state) {
    (void)state;
    static const struct {
        const char *name, *part;
    } CASES[] = {
        {"training.bin", "`epoch` is an integer and not a tensor"},
        {"list.bin", "holds a list, not a dict of tensors"},
        {"repeated.bin", "tensor x is a view that repeats"},
        {"module.bin", "refers to `torch.nn.modules.linear.Linear` of Python"},
        {"deflated.bin", "is compressed or encrypted"},
        {"script.bin", "TorchScript"},
    };
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        char from[256];
        snprintf(from, sizeof(from), FOLDER "%s", CASES[i].name);
        scratch_copy(from, "x.bin");
        refused("x.bin", TFM_ERROR_UNSUPPORTED, CASES[i].part);
    }
    scratch_copy(FOLDER "two.bin", "x.bin");
    refused("x.bin", TFM_ERROR_FORMAT, "two folders");
    scratch_text("x.bin", "");
    refused("x.bin", TFM_ERROR_FORMAT, "is empty");
    scratch_text("x.bin", "\n<!DOCTYPE html><html>");
    refused("x.bin", TFM_ERROR_FORMAT, "a web page");
    scratch_text("x.bin", "Entry not found");
    refused("x.bin", TFM_ERROR_FORMAT, "a text, not weights");
    scratch_text("x.bin", "\x80\x02}q.");
    refused("x.bin", TFM_ERROR_FORMAT, "memo index");
    scratch_text("x.bin", "\x80\x02}.");
    refused("x.bin", TFM_ERROR_UNSUPPORTED, "not from torch.save");
    scratch_text("x.bin", "\x01\x02\x03");
    refused("x.bin", TFM_ERROR_FORMAT, "is not a torch.save file");
    scratch_write("x.bin", "PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 22);
    refused("x.bin", TFM_ERROR_UNSUPPORTED, "has no data.pkl");
}

/* Replaces the first `old` of a file by as many bytes: the file size must stay. */
static void changed(const char *source, const char *old, const char *with, size_t bytes, size_t skipped) {
    char from[256];
    size_t size;
    snprintf(from, sizeof(from), FOLDER "%s", source);
    char *content = scratch_source(from, &size), *at = memmem(content, size, old, strlen(old));
    if (!at)
        fail_msg("%s has no \"%s\"", source, old);
    memcpy(at + skipped, with, bytes);
    scratch_write("x.bin", content, size);
    free(content);
}

/* One defect at a time. */
static void test_inconsistent_torch_file_is_rejected(void **state) {
    (void)state;
    static const struct {
        const char *file, *old, *with;
        size_t bytes, skipped; /* `with` starts so many bytes after the beginning of `old` */
        tfm_status status;
        const char *part;
    } CASES[] = {
        {"small.bin", "little", "biggie", 6, 0, TFM_ERROR_UNSUPPORTED, "big-endian"},
        {"legacy.bin", "little_endian", "\x89", 1, 15, TFM_ERROR_UNSUPPORTED, "big-endian"},
        {"legacy.bin", "little_endian", "N", 1, 15, TFM_ERROR_FORMAT, "on what kind of machine"},
        {"legacy.bin", "\xe9\x03", "\xea", 1, 0, TFM_ERROR_FORMAT, "its version is not 1001"},
        {"legacy.bin", "l\xfc\x9c", "m", 1, 0, TFM_ERROR_UNSUPPORTED, "not from torch.save"},
        {"legacy.bin", "_rebuild_tensor_v2", "_rebuild_qtensor_2", 18, 0, TFM_ERROR_UNSUPPORTED,
         "refers to `torch._utils._rebuild_qtensor_2` of Python"},
        {"small.bin", "ctorch._utils\n_rebuild_tensor_v2", "cposix\nsystem_that_is_never_run_", 32, 0,
         TFM_ERROR_UNSUPPORTED, "refers to `posix.system_that_is_never_run_` of Python"},
        {"small.bin", "FloatStorage", "FancyStorage", 12, 0, TFM_ERROR_UNSUPPORTED, "`torch.FancyStorage`"},
        {"small.bin", "FloatStorage", "ShortStorage", 12, 0, TFM_ERROR_FORMAT, "data/0 has 8 bytes, and 4 are needed"},
        {"small.bin", "storage", "sturage", 7, 0, TFM_ERROR_FORMAT, "not a storage"},
        {"small.bin", "K\x02\x85q", "K\x03", 2, 0, TFM_ERROR_FORMAT, "tensor x exceeds its storage of 2 elements"},
        {"small.bin", "K\x02tq", "K\x03", 2, 0, TFM_ERROR_FORMAT, "data/0 has 8 bytes, and 12 are needed"},
        {"small.bin", "X\x01\0\0\0x", "\n", 1, 5, TFM_ERROR_FORMAT, "control character"},
        {"small.bin", "\x89h", "\x81", 1, 0, TFM_ERROR_UNSUPPORTED, "the operation 0x81"},
        {"small.bin",
         "\x80\x02"
         "cc",
         "\x01", 1, 1, TFM_ERROR_FORMAT, "a protocol other than 2 to 5"},
        {"small.bin", "PK\x05\x06", "Q", 1, 0, TFM_ERROR_FORMAT, "its end is missing"},
        {"stored.bin", "small/data/0", "small/data/1", 12, 0, TFM_ERROR_FORMAT,
         "another name than in the central directory"},
        {"small.bin", "PK\x01\x02", "Q", 1, 0, TFM_ERROR_FORMAT, "its central directory is damaged"},
    };
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        changed(CASES[i].file, CASES[i].old, CASES[i].with, CASES[i].bytes, CASES[i].skipped);
        refused("x.bin", CASES[i].status, CASES[i].part);
    }
}

/* Truncated at every byte, and randomly damaged: an error, or tensors inside the file, and no fault (under the
 * sanitizers). */
static void test_damaged_torch_file_never_reads_outside(void **state) {
    (void)state;
    static const char *const FILES[] = {"legacy.bin", "zip.bin", "small.bin"};
    unsigned sum = 0;
    int opened = 0;
    for (size_t f = 0; f < TFM__COUNT(FILES); f++) {
        char from[256];
        size_t size;
        snprintf(from, sizeof(from), FOLDER "%s", FILES[f]);
        char *content = scratch_source(from, &size);
        for (size_t cut = 1; cut < size; cut += 1 + cut / 100) {
            scratch_write("x.bin", content, cut);
            if (open_scratch("x.bin") == TFM_OK)
                fail_msg("%s cut to %zu bytes opens", FILES[f], cut);
        }
        harness_random random = {f + 1};
        char *bytes = malloc(size);
        for (int n = 0; n < 1000; n++) {
            size_t left = size;
            tfm__weights *weights;
            memcpy(bytes, content, size);
            scratch_damage(&random, (unsigned char *)bytes, &left);
            scratch_write("x.bin", bytes, left);
            if (tfm__weights_open(&weights, scratch_path("x.bin")) != TFM_OK) {
                assert_true(strlen(tfm_error_message()) > 0);
                continue;
            }
            opened++;
            for (size_t i = 0; i < tfm__weights_count(weights); i++) {
                const tfm__stored_tensor *x = tfm__weights_at(weights, i);
                for (size_t k = 0; k < x->bytes; k++)
                    sum += x->data[k];
            }
            tfm__weights_free(&weights);
        }
        free(bytes);
        free(content);
    }
    assert_in_range(opened, 100, 2500);
    assert_int_not_equal(sum, 0);
}

static const char *const SHARDS[] = {"pytorch_model.bin.index.json", "pytorch_model-00001-of-00002.bin",
                                     "pytorch_model-00002-of-00002.bin"};

static void copy_shard(const char *name) {
    char from[256];
    snprintf(from, sizeof(from), FOLDER "%s", name);
    scratch_copy(from, name);
}

/* Shards of both layouts, and the precedence of files. */
static void test_torch_shards_are_read_and_safetensors_preferred(void **state) {
    (void)state;
    tfm__weights *weights;
    for (size_t i = 0; i < TFM__COUNT(SHARDS); i++)
        copy_shard(SHARDS[i]);
    harness_ok(tfm__weights_open_dir(&weights, scratch_root));
    assert_int_equal(tfm__weights_files(weights), 2);
    char *path = harness_source("tests/golden/prenorm-embedding-norm/model.safetensors");
    tfm__weights *same;
    harness_ok(tfm__weights_open(&same, path));
    assert_int_equal(tfm__weights_count(weights), tfm__weights_count(same));
    for (size_t i = 0; i < tfm__weights_count(same); i++) {
        const tfm__stored_tensor *x = tfm__weights_at(same, i), *y = tfm__weights_at(weights, i);
        assert_string_equal(x->name, y->name);
        assert_int_equal(x->bytes, y->bytes);
        assert_memory_equal(x->data, y->data, x->bytes);
    }
    tfm__weights_free(&same);
    free(path);
    tfm__weights_free(&weights);
    scratch_edit("pytorch_model.bin.index.json", "model.shared.weight", "model.shared.wider!");
    scratch_refused(tfm__weights_open_dir(&weights, scratch_root), TFM_ERROR_FORMAT,
                    "names tensor model.shared.wider!");
    scratch_copy(FOLDER "small.bin", "pytorch_model.bin");
    harness_ok(tfm__weights_open_dir(&weights, scratch_root));
    assert_int_equal(tfm__weights_count(weights), 1);
    tfm__weights_free(&weights);
    scratch_copy("tests/golden/prenorm-embedding-norm/model.safetensors", "model.safetensors");
    harness_ok(tfm__weights_open_dir(&weights, scratch_root));
    assert_string_equal(tfm__weights_kind(weights), "safetensors");
    tfm__weights_free(&weights);
}

/* Directory info without a device. */
static void test_info_of_torch_directory_needs_no_device(void **state) {
    (void)state;
    tfm_model_info info;
    scratch_copy("tests/golden/prenorm-embedding-norm/config.json", "config.json");
    scratch_copy("tests/golden/prenorm-embedding-norm/model.safetensors", "model.safetensors");
    const tfm_model_options ids_only = {.no_tokenizer = true};
    harness_ok(tfm_model_read_info(&info, scratch_root, &ids_only));
    assert_string_equal(info.weight_format, "safetensors");
    assert_int_equal(info.weight_files, 1);
    const uint64_t parameters = info.parameters;
    assert_int_equal(remove(scratch_path("model.safetensors")), 0);
    remove(scratch_path("pytorch_model.bin")); /* if test_torch_shards_are_read_and_safetensors_preferred has left it */
    for (size_t i = 0; i < TFM__COUNT(SHARDS); i++)
        copy_shard(SHARDS[i]);
    harness_ok(tfm_model_read_info(&info, scratch_root, &ids_only));
    assert_string_equal(info.weight_format, "PyTorch .bin");
    assert_string_equal(info.stored_dtype, "F32");
    assert_int_equal(info.weight_files, 2);
    assert_int_equal(info.parameters, parameters);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_torch_files_of_both_layouts_are_read),
        cmocka_unit_test(test_torch_file_without_plain_tensors_is_rejected),
        cmocka_unit_test(test_inconsistent_torch_file_is_rejected),
        cmocka_unit_test(test_damaged_torch_file_never_reads_outside),
        cmocka_unit_test(test_torch_shards_are_read_and_safetensors_preferred),
        cmocka_unit_test(test_info_of_torch_directory_needs_no_device),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
