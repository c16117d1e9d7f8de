/* Safetensors: valid files open, inconsistent ones are rejected, and reads never leave the file. */
#include "model/weights/weight_file.h"
#include "support/demo.h"
#include "support/scratch.h"

#define BIG "18446744073709551616"

/* Writes `name`: eight bytes of header size (`claimed`, or the true one if negative), header, `size` bytes of data. */
static void make(const char *name, const char *header, size_t size, int64_t claimed) {
    size_t length = strlen(header);
    uint64_t told = claimed < 0 ? length : (uint64_t)claimed;
    unsigned char *bytes = calloc(8 + length + size, 1);
    assert_non_null(bytes);
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(told >> (8 * i));
    memcpy(bytes + 8, header, length);
    for (size_t i = 0; i < size; i++)
        bytes[8 + length + i] = (unsigned char)i;
    scratch_write(name, bytes, 8 + length + size);
    free(bytes);
}

#define ENTRY(name, dtype, shape, begin, end)                                                                          \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" begin "," end "]}"

/* Seven tensors of several dtypes; the odd header length makes all data unaligned. */
static const char GOOD[] =
    "{\"__metadata__\":{\"format\":\"pt\"}," ENTRY("b.weight", "F32", "2,3", "8", "32") "," ENTRY(
        "a", "F16", "4", "0",
        "8") "," ENTRY("scalar", "BF16", "", "32",
                       "34") ",\n" ENTRY("none", "F32", "0,7", "34",
                                         "34") "," ENTRY("odd", "F6_E2M3", "3", "34",
                                                         "37") "," ENTRY("deep", "U8", "1,1,1,1,1,1,1,1,2", "37",
                                                                         "39") "," ENTRY("long", "I64", "1", "39",
                                                                                         "47") "}";

/* Other writers leave these; the reference reads both. */
static void test_metadata_null_or_with_nul_is_read(void **state) {
    (void)state;
    static const char *const HEADERS[] = {
        "{\"__metadata__\":null," ENTRY("a", "F32", "2", "0", "8") "}",
        "{\"__metadata__\":{\"a\":\"x\\u0000y\"}," ENTRY("a", "F32", "2", "0", "8") "}",
        "{\"__metadata__\":{\"n\":1000000000000000019884624838656}," ENTRY("a", "F32", "2", "0", "8") "}",
    };
    for (size_t i = 0; i < TFM__COUNT(HEADERS); i++) {
        tfm__weights *file;
        make("remarks", HEADERS[i], 8, -1);
        harness_ok(tfm__weights_open(&file, scratch_path("remarks")));
        assert_int_equal(tfm__weights_count(file), 1);
        tfm__weights_free(&file);
    }
}

static void test_safetensors_are_read(void **state) {
    (void)state;
    tfm__weights *file;
    make("good", GOOD, 47, -1);
    harness_ok(tfm__weights_open(&file, scratch_path("good")));
    assert_int_equal(tfm__weights_count(file), 7);
    static const char *const NAMES[] = {"a", "b.weight", "deep", "long", "none", "odd", "scalar"};
    for (size_t i = 0; i < TFM__COUNT(NAMES); i++)
        assert_string_equal(tfm__weights_at(file, i)->name, NAMES[i]);
    assert_null(tfm__weights_at(file, 7));
    assert_null(tfm__weights_find(file, "c"));

    const tfm__stored_tensor *found;
    harness_ok(tfm__weights_get(file, &found, "b.weight", 2, (int64_t[]){2, -1}));
    assert_int_equal(found->dtype, TFM_F32);
    assert_int_equal(found->count, 6);
    assert_int_equal(found->bytes, 24);
    assert_int_equal(found->dims[1], 3);
    for (size_t i = 0; i < found->bytes; i++)
        assert_int_equal(found->data[i], 8 + i);
    harness_ok(tfm__weights_get(file, &found, "a", 1, (int64_t[]){4}));
    assert_int_equal(found->dtype, TFM_F16);
    harness_ok(tfm__weights_get(file, &found, "scalar", 0, NULL));
    assert_int_equal(found->dtype, TFM_BF16);
    assert_int_equal(found->count, 1);
    harness_ok(tfm__weights_get(file, &found, "none", 2, (int64_t[]){0, 7}));
    assert_int_equal(found->count, 0);

    scratch_refused(tfm__weights_get(file, &found, "c", 1, (int64_t[]){1}), TFM_ERROR_FORMAT, "no tensor c");
    scratch_refused(tfm__weights_get(file, &found, "b.weight", 2, (int64_t[]){-1, 2}), TFM_ERROR_FORMAT,
                    "has shape (2, 3); the configuration needs (any, 2)");
    scratch_refused(tfm__weights_get(file, &found, "b.weight", 1, (int64_t[]){6}), TFM_ERROR_FORMAT, "needs (6)");
    scratch_refused(tfm__weights_get(file, &found, "odd", 1, (int64_t[]){3}), TFM_ERROR_UNSUPPORTED, "F6_E2M3");
    scratch_refused(tfm__weights_get(file, &found, "long", 1, (int64_t[]){1}), TFM_ERROR_UNSUPPORTED, "I64");
    scratch_refused(tfm__weights_get(file, &found, "deep", 8, (int64_t[]){1, 1, 1, 1, 1, 1, 1, 1}), TFM_ERROR_FORMAT,
                    "(1, 1, 1, 1, 1, 1, 1, 1, ...)");
    assert_null(found);
    tfm__weights_free(&file);
    assert_null(file);
    tfm__weights_free(&file);
}

#define ONE(dtype, shape, begin, end) "{" ENTRY("x", dtype, shape, begin, end) "}"

static const struct {
    const char *header;
    size_t data;
    int64_t claimed;
    const char *part;
} LIES[] = {
    {ONE("F32", "2", "0", "8"), 8, 1000, "header has 1000 bytes, but only"},
    {ONE("F32", "2", "0", "8"), 8, INT64_MAX, "header has 9223372036854775807 bytes"},
    {ONE("F32", "2", "0", "8"), 8, 0, "is empty"},
    {ONE("F32", "2", "0", "8"), 8, 20, "is not JSON"},
    {"[1]", 0, -1, "a list"},
    {"\xff\xfe", 0, -1, "is not JSON"},
    {"{}", 0, -1, "no tensors"},
    {"{\"__metadata__\":{}}", 0, -1, "no tensors"},
    {"{\"__metadata__\":3}", 0, -1, "__metadata__"},
    {"{\"__metadata__\":null}", 0, -1, "no tensors"},
    {"{\"x\":3}", 0, -1, "tensor x is an integer"},
    {"{\"x\":{}}", 0, -1, "data_offsets"},
    {"{\"\":{}}", 0, -1, "name has 0 bytes"},
    {"{\"x\\n\":{}}", 0, -1, "control character"},
    {"{\"x\\u0000\":{}}", 0, -1, "is not JSON"},
    {"{" ENTRY("x", "F32", "2", "0", "8") "," ENTRY("x", "F32", "2", "0", "8") "}", 8, -1, "duplicate"},
    {ONE("F32", "2", "0", "8"), 7, -1, "the file was truncated"},
    {ONE("F32", "2", "0", "8"), 9, -1, "the last 1 bytes"},
    {ONE("F32", "2", "8", "16"), 8, -1, "the file was truncated"},
    {ONE("F32", "2", "8", "0"), 8, -1, "do not ascend"},
    {ONE("F32", "2", "-8", "0"), 8, -1, "do not ascend"},
    {ONE("F32", "2", "0", "8.0"), 8, -1, "two integers"},
    {ONE("F32", "2", "0", BIG), 8, -1, "`data_offsets` must be two integers"},
    {ONE("F32", "2", "0", "8,8"), 8, -1, "two integers"},
    {ONE("F32", "2", "0", "12"), 12, -1, "2 elements of F32 do not fill its 12 bytes"},
    {ONE("F16", "2", "0", "8"), 8, -1, "do not fill"},
    {ONE("F32", "-2", "0", "8"), 8, -1, "dimension 0 is -2"},
    {ONE("F32", "1,2.0", "0", "8"), 8, -1, "dimension 1 is 2.0"},
    {ONE("F32", "4294967296,4294967296", "0", "8"), 8, -1, "overflows"},
    {ONE("F32", "4611686018427387906", "0", "8"), 8, -1, "do not fill"}, /* times 4 is 8 in 64 bits */
    {ONE("Q4", "4294967296,4294967296", "0", "8"), 8, -1, "overflows"},
    {"{\"x\":{\"dtype\":1,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, -1, "`dtype` must be"},
    {"{\"x\":{\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]}}", 8, -1, "`shape` must be"},
    {"{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":{}}}", 8, -1, "two integers"},
    {"{" ENTRY("x", "F32", "2", "0", "8") "," ENTRY("y", "F32", "2", "4", "12") "}", 12, -1, "x and y overlap"},
    {"{" ENTRY("x", "F32", "2", "0", "8") "," ENTRY("y", "F32", "2", "0", "8") "}", 8, -1, "overlap"},
    {"{" ENTRY("x", "F32", "2", "0", "8") "," ENTRY("y", "F32", "1", "2", "6") "}", 8, -1, "overlap"},
    {"{" ENTRY("x", "F32", "2", "0", "8") "," ENTRY("y", "F32", "1", "12", "16") "}", 16, -1, "belong to no tensor"},
    {ONE("F32", "2", "4", "12"), 12, -1, "bytes 0 to 4"},
};

static void test_inconsistent_safetensors_header_is_rejected(void **state) {
    (void)state;
    tfm__weights *file;
    for (size_t i = 0; i < TFM__COUNT(LIES); i++) {
        make("lie", LIES[i].header, LIES[i].data, LIES[i].claimed);
        scratch_refused(tfm__weights_open(&file, scratch_path("lie")), TFM_ERROR_FORMAT, LIES[i].part);
        assert_null(file);
    }
    scratch_write("lie", "", 0);
    scratch_refused(tfm__weights_open(&file, scratch_path("lie")), TFM_ERROR_FORMAT, "is empty");
    for (size_t size = 1; size < 8; size++) {
        scratch_write("lie", "\x10\0\0\0\0\0\0", size);
        scratch_refused(tfm__weights_open(&file, scratch_path("lie")), TFM_ERROR_FORMAT, "too short");
    }
    scratch_refused(tfm__weights_open(&file, scratch_path("absent")), TFM_ERROR_IO, "absent");
}

/* Reads every byte of every tensor, so that a sanitizer detects a bad one. */
static unsigned touch(const tfm__weights *file) {
    unsigned sum = 0;
    for (size_t i = 0; i < tfm__weights_count(file); i++) {
        const tfm__stored_tensor *x = tfm__weights_at(file, i);
        assert_ptr_equal(tfm__weights_find(file, x->name), x);
        for (size_t k = 0; k < x->bytes; k++)
            sum += x->data[k];
    }
    return sum;
}

static void test_damaged_safetensors_never_reads_outside(void **state) {
    (void)state;
    make("good", GOOD, 47, -1);
    char *good;
    size_t length;
    harness_ok(tfm__file_read(&good, &length, scratch_path("good")));
    unsigned char *bytes = malloc(length);
    assert_non_null(bytes);
    harness_random random = {3};
    unsigned opened = 0, sum = 0;
    for (int i = 0; i < 4000; i++) {
        size_t size = length;
        memcpy(bytes, good, length);
        for (int64_t k = harness_range(&random, 1, 3); k > 0 && size > 0; k--)
            scratch_damage(&random, bytes, &size);
        scratch_write("damaged", bytes, size);
        tfm__weights *file;
        tfm_status status = tfm__weights_open(&file, scratch_path("damaged"));
        if (status == TFM_OK) {
            sum += touch(file);
            opened++;
        } else {
            assert_int_equal(status, TFM_ERROR_FORMAT);
            assert_null(file);
        }
        tfm__weights_free(&file);
    }
    free(bytes);
    free(good);
    /* Damage in names and data is undetectable; nearly all other damage must be found. */
    assert_in_range(opened, 100, 2000);
    assert_int_not_equal(sum, 0);
}

static tfm_status open_dir(void) {
    tfm__weights *file;
    tfm_status status = tfm__weights_open_dir(&file, scratch_root);
    tfm__weights_free(&file);
    return status;
}

static void test_weights_file_of_a_directory_is_selected(void **state) {
    (void)state;
    tfm__weights *file;
    scratch_refused(tfm__weights_open_dir(&file, scratch_path("nowhere")), TFM_ERROR_IO, "no such folder");
    scratch_refused(open_dir(), TFM_ERROR_IO, "has no model.safetensors and no pytorch_model.bin");
    scratch_text("tf_model.h5", "");
    scratch_refused(open_dir(), TFM_ERROR_UNSUPPORTED, "tf_model.h5 is not supported");
    scratch_text("pytorch_model.bin", "");
    scratch_refused(open_dir(), TFM_ERROR_FORMAT, "pytorch_model.bin is empty");

    make("part-1", ONE("F32", "2", "0", "8"), 8, -1);
    make("part-2", "{" ENTRY("y", "F32", "1", "0", "4") "}", 4, -1);
    scratch_text("model.safetensors.index.json", "{\"weight_map\":{\"x\":\"part-1\",\"y\":\"part-2\"}}");
    harness_ok(tfm__weights_open_dir(&file, scratch_root));
    assert_int_equal(tfm__weights_count(file), 2);
    assert_string_equal(tfm__weights_find(file, "y")->file, scratch_path("part-2"));
    touch(file);
    tfm__weights_free(&file);

    static const struct {
        const char *index, *part;
        tfm_status status;
    } CASES[] = {
        {"{", "index.json is not JSON", TFM_ERROR_FORMAT},
        {"{}", "weight_map", TFM_ERROR_FORMAT},
        {"{\"weight_map\":{}}", "weight_map", TFM_ERROR_FORMAT},
        {"{\"weight_map\":{\"x\":3}}", "3 is not a file name", TFM_ERROR_FORMAT},
        {"{\"weight_map\":{\"x\":\"../part-1\"}}", "is not a file name in the same folder", TFM_ERROR_FORMAT},
        {"{\"weight_map\":{\"x\":\"part-3\"}}", "part-3", TFM_ERROR_IO},
        {"{\"weight_map\":{\"x\":\"part-1\",\"z\":\"part-2\"}}", "names tensor z", TFM_ERROR_FORMAT},
    };
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        scratch_text("model.safetensors.index.json", CASES[i].index);
        scratch_refused(open_dir(), CASES[i].status, CASES[i].part);
    }
    make("part-2", ONE("F32", "1", "0", "4"), 4, -1);
    scratch_text("model.safetensors.index.json", "{\"weight_map\":{\"x\":\"part-1\",\"y\":\"part-2\"}}");
    scratch_refused(open_dir(), TFM_ERROR_FORMAT, "tensor x is in both");
}

static void test_demo_weights_are_read(void **state) {
    (void)state;
    tfm__weights *file;
    char *dir = harness_source("apps/demo");
    harness_ok(tfm__weights_open_dir(&file, dir));
    free(dir);
    const tfm__stored_tensor *found;
    const int64_t dims[] = {demo_number("vocab_size"), demo_number("d_model")};
    harness_ok(tfm__weights_get(file, &found, "model.shared.weight", 2, dims));
    assert_int_equal(found->dtype, TFM_F16);
    touch(file);
    tfm__weights_free(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_safetensors_are_read),
        cmocka_unit_test(test_metadata_null_or_with_nul_is_read),
        cmocka_unit_test(test_inconsistent_safetensors_header_is_rejected),
        cmocka_unit_test(test_damaged_safetensors_never_reads_outside),
        cmocka_unit_test(test_demo_weights_are_read),
        cmocka_unit_test(test_weights_file_of_a_directory_is_selected),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
