/* Marian's binary format: numbers and quantized matrices are read correctly, and damaged files are rejected. */
#include <math.h>
#include "support/marian_files.h"
#include "model/weights/weight_file.h"

static void refused(const char *name, tfm_status want, const char *part) {
    tfm__weights *weights;
    const tfm_status status = tfm__weights_open(&weights, scratch_path(name));
    scratch_refused(status, want, part);
    assert_null(weights);
}

static const float NUMBERS[6] = {0, -1, 2.5f, 3, 4, 5};
/* Marian stores (2, 3) as three rows of two. */
static const struct {
    int8_t q[6];
    unsigned char multiplier[4];
} MATRIX = {{1, 2, 3, -4, 5, 127}, {0, 0, 0, 0x42}}, TABLE = {{1, 2, 3, -4, 5, -127}, {0, 0, 0, 0x42}}; /* 32 */
static const unsigned char WORDS[] = {1, 0, 0xff, 0xff, 0, 0, 0, 0x42}; /* 1, -1, and 32 */
static const uint16_t HALVES[2] = {0x3c00, 0xbc00};
static const char CONFIG[] = "dim-emb: 3\n";

static const marian_item ITEMS[] = {
    {"encoder_l1_self_Wq", MARIAN_INTGEMM8, 2, {2, 3}, &MATRIX, 10, 246},
    {"Wemb", MARIAN_INTGEMM8, 2, {2, 3}, &TABLE, 10, 0},
    {"encoder_l1_self_Wq_QuantMultA", MARIAN_F32, 2, {1, 1}, NUMBERS + 2, 4, 252},
    {"decoder_ff_logit_out_b", MARIAN_F32, 2, {1, 6}, NUMBERS, 24, 0},
    {"half", MARIAN_F16, 1, {2}, HALVES, 4, 0},
    {"words", MARIAN_INTGEMM16, 2, {1, 2}, WORDS, 8, 0},
    {"special:model.yml", MARIAN_I8, 1, {sizeof(CONFIG)}, CONFIG, sizeof(CONFIG), 0},
};

static void check(const tfm__weights *weights, const char *name, int64_t rows, int64_t columns, const float *want,
                  const char *coded) {
    const tfm__stored_tensor *x = tfm__weights_find(weights, name);
    assert_non_null(x);
    assert_true(x->usable);
    assert_string_equal(x->dtype_name, "F32");
    assert_int_equal(x->rank, 2);
    assert_int_equal(x->dims[0], rows);
    assert_int_equal(x->dims[1], columns);
    assert_int_equal(x->bytes, 4 * rows * columns);
    for (size_t i = 0; i < x->count; i++) {
        float got;
        memcpy(&got, x->data + 4 * i, 4);
        if (got != want[i])
            fail_msg("%s: %g at %zu instead of %g", name, got, i, want[i]);
    }
    if (coded)
        assert_string_equal(x->encoding, coded);
    else
        assert_null(x->encoding);
}

static void test_marian_bin_tensors_are_read(void **state) {
    (void)state;
    tfm__weights *weights;
    marian_write("model.bin", ITEMS, TFM__COUNT(ITEMS));
    harness_ok(tfm__weights_open(&weights, scratch_path("model.bin")));
    assert_int_equal(tfm__weights_count(weights), TFM__COUNT(ITEMS) - 1);
    assert_string_equal(tfm__weights_kind(weights), "Marian .bin");
    assert_string_equal(tfm__weights_metadata(weights, TFM__MARIAN_CONFIG), CONFIG);
    const float u = 1 / 32.0f;
    check(weights, "encoder_l1_self_Wq", 2, 3, (float[]){u, 3 * u, 5 * u, 2 * u, -4 * u, 127 * u}, "int8");
    check(weights, "Wemb", 2, 3, (float[]){u, 2 * u, 3 * u, -4 * u, 5 * u, -127 * u}, "int8");
    check(weights, "words", 1, 2, (float[]){u, -u}, "int16");
    check(weights, "decoder_ff_logit_out_b", 1, 6, NUMBERS, NULL);
    check(weights, "encoder_l1_self_Wq_QuantMultA", 1, 1, NUMBERS + 2, NULL);
    assert_string_equal(tfm__weights_find(weights, "half")->dtype_name, "F16");
    tfm__weights_free(&weights);
}

/* One invalid item at a time. */
static void test_invalid_marian_bin_item_is_rejected(void **state) {
    (void)state;
    static const unsigned char NONE[10] = {0}, BELOW[10] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0xc2};
    static const struct {
        marian_item item;
        tfm_status status;
        const char *part;
    } CASES[] = {
        {{"x", 0x802, 1, {4}, NUMBERS, 8, 0}, TFM_ERROR_UNSUPPORTED, "tensor x is packed for one processor type"},
        {{"x", 0x1801, 1, {4}, NUMBERS, 8, 0},
         TFM_ERROR_UNSUPPORTED,
         "(type 0x1801): convert the model with marian-conv"},
        {{"x", 0x7, 1, {4}, NUMBERS, 8, 0}, TFM_ERROR_FORMAT, "has an unknown type (0x7)"},
        {{"x", 0x10404, 1, {2}, NUMBERS, 8, 0}, TFM_ERROR_FORMAT, "has an unknown type (0x10404)"},
        {{"x", MARIAN_F32, 1, {-1}, NUMBERS, 8, 0}, TFM_ERROR_FORMAT, "an impossible shape"},
        {{"x", MARIAN_F32, 4, {1 << 30, 1 << 30, 1 << 30, 2}, NUMBERS, 8, 0}, TFM_ERROR_FORMAT, "an impossible shape"},
        {{"x", MARIAN_F32, 1, {3}, NUMBERS, 8, 0}, TFM_ERROR_FORMAT, "tensor x has 8 bytes, which do not fit"},
        {{"x", MARIAN_F32, 1, {2}, NUMBERS, 8, 256}, TFM_ERROR_FORMAT, "tensor x has 264 bytes, which do not fit"},
        {{"x", MARIAN_INTGEMM8, 2, {2, 3}, &MATRIX, 9, 0}, TFM_ERROR_FORMAT, "tensor x has 9 bytes, which do not fit"},
        {{"x", MARIAN_INTGEMM8, 2, {2, 3}, NONE, 10, 0}, TFM_ERROR_FORMAT, "the multiplier of the quantized tensor x"},
        {{"x", MARIAN_INTGEMM8, 2, {2, 3}, BELOW, 10, 0}, TFM_ERROR_FORMAT, "the multiplier of the quantized tensor x"},
        {{"", MARIAN_F32, 1, {2}, NUMBERS, 8, 0}, TFM_ERROR_FORMAT, "a tensor's name has 0 bytes"},
        {{"a\nb", MARIAN_F32, 1, {2}, NUMBERS, 8, 0}, TFM_ERROR_FORMAT, "control character"},
        {{"Wemb", MARIAN_F32, 1, {2}, NUMBERS, 8, 0}, TFM_ERROR_FORMAT, "tensor Wemb occurs twice"},
        {{"special:model.yml", MARIAN_I8, 1, {4}, CONFIG, 4, 0}, TFM_ERROR_FORMAT, "two configurations"},
        {{"special:model.yml", MARIAN_F32, 1, {2}, NUMBERS, 8, 0}, TFM_ERROR_FORMAT, "two configurations"},
    };
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        marian_item items[TFM__COUNT(ITEMS) + 1];
        memcpy(items, ITEMS, sizeof(ITEMS));
        items[TFM__COUNT(ITEMS)] = CASES[i].item;
        marian_write("x.bin", items, TFM__COUNT(items));
        refused("x.bin", CASES[i].status, CASES[i].part);
    }
    marian_write("x.bin", &(marian_item){"special:model.yml", MARIAN_F32, 1, {2}, NUMBERS, 8, 0}, 1);
    refused("x.bin", TFM_ERROR_FORMAT, "holds F32, not a string");
}

/* Invalid numbers in the file, by offset: the headers begin at 16, with 32 bytes each. */
static void test_inconsistent_marian_bin_header_is_rejected(void **state) {
    (void)state;
    static const struct {
        size_t at;
        unsigned char value;
        const char *part;
    } CASES[] = {
        {8, 8, "a tensor's name does not end"},    {15, 1, "fewer headers than it says"},
        {16, 18, "a tensor's name does not end"},  {16, 0, "a tensor's name does not end"},
        {23, 1, "ends within the names"},          {32, 17, "more than 16 dimensions"},
        {32, 3, "ends within the padding before"}, {47, 1, "ends within the data"},
    };
    marian_bytes file = marian_file(ITEMS, TFM__COUNT(ITEMS));
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        const unsigned char old = file.data[CASES[i].at];
        file.data[CASES[i].at] = CASES[i].value;
        scratch_write("x.bin", file.data, file.size);
        refused("x.bin", TFM_ERROR_FORMAT, CASES[i].part);
        file.data[CASES[i].at] = old;
    }
    marian_add(&file, "more", 4);
    scratch_write("x.bin", file.data, file.size);
    refused("x.bin", TFM_ERROR_FORMAT, "there are bytes after its last tensor");
    scratch_write("x.bin", file.data, 12);
    refused("x.bin", TFM_ERROR_FORMAT, "is not a torch.save file"); /* which may have this name too */
    free(file.data);
    scratch_write("x.bin", "\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24);
    refused("x.bin", TFM_ERROR_FORMAT, "holds no tensors");
}

/* Truncated at every byte, and randomly damaged: an error, or tensors inside the file, and no fault (under the
 * sanitizers). */
static void test_damaged_marian_bin_never_reads_outside(void **state) {
    (void)state;
    marian_bytes file = marian_file(ITEMS, TFM__COUNT(ITEMS));
    unsigned char *bytes = malloc(file.size);
    harness_random random = {1};
    unsigned sum = 0;
    int opened = 0;
    assert_non_null(bytes);
    for (size_t i = 0; i < file.size + 1500; i++) {
        size_t left = i < file.size ? i : file.size;
        memcpy(bytes, file.data, file.size);
        for (int64_t n = i < file.size ? 0 : harness_range(&random, 1, 3); n > 0 && left > 0; n--)
            scratch_damage(&random, bytes, &left);
        scratch_write("x.bin", bytes, left);
        tfm__weights *weights;
        if (tfm__weights_open(&weights, scratch_path("x.bin")) != TFM_OK)
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
    free(file.data);
    assert_in_range(opened, 100, 1400);
    assert_int_not_equal(sum, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_marian_bin_tensors_are_read),
        cmocka_unit_test(test_invalid_marian_bin_item_is_rejected),
        cmocka_unit_test(test_inconsistent_marian_bin_header_is_rejected),
        cmocka_unit_test(test_damaged_marian_bin_never_reads_outside),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
