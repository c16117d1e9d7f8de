/* Blocks of GGUF tensor types against the PyPI package `gguf` (tests/golden/quant.txt, make_quant.py). */
#include "ops/quant/quant_format.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/half.h"
#include "support/harness.h"

enum { BLOCKS = 200 };

static void random_bytes(uint64_t state, uint8_t *out, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (i % 4 == 0)
            state = state * 6364136223846793005u + 1442695040888963407u;
        out[i] = (uint8_t)(state >> (32 + 8 * (i % 4)));
    }
}

static uint64_t fnv(const void *data, size_t bytes) {
    uint64_t value = 14695981039346656037u;
    for (size_t i = 0; i < bytes; i++)
        value = (value ^ ((const uint8_t *)data)[i]) * 1099511628211u;
    return value;
}

/* The golden line of an operation. */
static void expect(const char *what, const char *name, uint64_t hash, const uint32_t first[4]) {
    char *path = harness_source("tests/golden/quant.txt"), op[16], format[16];
    FILE *file = fopen(path, "r");
    uint64_t want = 0;
    uint32_t w[4] = {0};
    bool found = false;
    assert_non_null(file);
    while (!found && fscanf(file, "%15s %15s %" SCNx64 " %" SCNx32 " %" SCNx32 " %" SCNx32 " %" SCNx32, op, format,
                            &want, &w[0], &w[1], &w[2], &w[3]) == 7)
        found = strcmp(op, what) == 0 && strcmp(format, name) == 0;
    fclose(file);
    free(path);
    if (!found || memcmp(w, first, sizeof(w)) != 0 || want != hash)
        print_error("%s %s: got %08x %08x, want %08x %08x\n", what, name, first[0], first[1], w[0], w[1]);
    assert_true(found);
    assert_memory_equal(w, first, sizeof(w));
    assert_true(want == hash);
}

static void test_unpack_equals_gguf_to_the_bit(void **state) {
    (void)state;
    static uint8_t blocks[BLOCKS * 256 + 1];
    static float out[BLOCKS * TFM__QUANT_MAX_BLOCK];
    static uint32_t bits[BLOCKS * TFM__QUANT_MAX_BLOCK];
    for (int i = 0; i < TFM__QUANT_FORMATS; i++) {
        const tfm__quant_format *f = tfm__quant_formats() + i;
        const size_t count = (size_t)(BLOCKS * f->block);
        random_bytes((uint64_t)f->type + 1, blocks + 1, (size_t)(BLOCKS * f->bytes)); /* unaligned */
        tfm__quant_unpack(f, out, blocks + 1, BLOCKS);
        memcpy(bits, out, 4 * count);
        for (size_t j = 0; j < count; j++)
            bits[j] = isnan(out[j]) ? 0x7fc00000 : bits[j];
        expect("unpack", f->name, fnv(bits, 4 * count), bits);
    }
}

static void test_pack_equals_gguf(void **state) {
    (void)state;
    static const char *const NAMES[] = {"F32", "F16", "BF16", "Q8_0", "Q4_0"};
    static float in[BLOCKS * 32];
    static uint8_t raw[BLOCKS * 32 * 4], out[BLOCKS * 32 * 4];
    for (size_t n = 0; n < 5; n++) {
        const tfm__quant_format *f = tfm__quant_format_named(NAMES[n]);
        const size_t blocks = (size_t)(BLOCKS * 32 / f->block);
        random_bytes(100 + (uint64_t)f->type, raw, sizeof(raw));
        for (int i = 0; i < BLOCKS * 32; i++) {
            const uint32_t word = raw[4 * i] | (uint32_t)raw[4 * i + 1] << 8 | (uint32_t)raw[4 * i + 2] << 16 |
                                  (uint32_t)raw[4 * i + 3] << 24;
            in[i] = i < 32 ? 0 : ldexpf((float)((int64_t)word - (1LL << 31)) / 0x1p31f, i / 32 % 40 - 30);
        }
        assert_true(tfm__quant_pack(f, out, in, blocks));
        expect("pack", f->name, fnv(out, blocks * (size_t)f->bytes), (uint32_t[]){out[0], out[1], out[2], out[3]});
    }
}

static void test_pack_refuses_what_the_format_cannot_hold(void **state) {
    (void)state;
    static const char *const NAMES[] = {"F16", "BF16", "Q8_0", "Q4_0"};
    const float bad[] = {INFINITY, -INFINITY, NAN, 1e8f, -0x1.ffffp127f}, few[32] = {1};
    uint8_t out[256];
    for (size_t n = 0; n < 4; n++)
        for (size_t b = 0; b < 5; b++) {
            float in[32] = {0};
            const tfm__quant_format *f = tfm__quant_format_named(NAMES[n]);
            in[17] = bad[b];
            assert_true(tfm__quant_pack(f, out, in, (size_t)(32 / f->block)) == (b == 3 && f->type == TFM__QUANT_BF16));
        }
    assert_false(tfm__quant_pack(tfm__quant_format_named("Q5_0"), out, few, 1));
    assert_null(tfm__quant_format_of(9));
    assert_null(tfm__quant_format_of(UINT32_MAX));
    assert_null(tfm__quant_format_named("Q9_9"));
    assert_ptr_equal(tfm__quant_format_named("q4_k"), tfm__quant_format_of(TFM__QUANT_Q4_K));
}

static void test_half_conversion_round_trips(void **state) {
    (void)state;
    for (int h = 0; h < 65536; h++) {
        const float x = tfm__half_to_float((uint16_t)h);
        if (!isnan(x))
            assert_int_equal(tfm__half_from_float(x), h);
    }
    assert_int_equal(tfm__half_from_float(65519.99f), 0x7bff);
    assert_int_equal(tfm__half_from_float(65520), 0x7c00);
    assert_int_equal(tfm__half_from_float(0x1p-25f), 0);
    assert_int_equal(tfm__half_from_float(0x1.8p-25f), 1);
    assert_true(isnan(tfm__half_to_float(tfm__half_from_float(NAN))));
}

/* Every number is at most half a step from its code, with the minimum or as in Q8_0; a block of Q8_0 is kept. */
static void test_int8_with_a_minimum_is_close_and_keeps_q8_0(void **state) {
    (void)state;
    const tfm__quant_format *f = tfm__quant_format_of(TFM__QUANT_INT8_M32);
    harness_random random = {31};
    unsigned char block[36];
    float in[32], out[32];
    for (int turn = 0; turn < 400; turn++) {
        const float step = turn % 4 == 3 ? 0.0078125f : 0, shift = turn % 4 == 2 ? 5 : 0;
        for (int i = 0; i < 32; i++) /* random numbers, all above 0, and multiples of a step */
            in[i] = step > 0 ? step * (float)(i ? harness_range(&random, -127, 127) : 127)
                             : shift + harness_normal(&random) * (turn % 2 ? 1e-3f : 1);
        float least = in[0], most = in[0];
        for (int i = 1; i < 32; i++) {
            least = fminf(least, in[i]);
            most = fmaxf(most, in[i]);
        }
        assert_true(tfm__quant_pack(f, block, in, 1));
        tfm__quant_unpack(f, out, block, 1);
        for (int i = 0; i < 32; i++)
            assert_true(fabsf(out[i] - in[i]) <= (step > 0 ? 0 : fmaxf(most - least, 0.005f * shift) / 254 + 1e-7f));
    }
    memset(in, 0, sizeof(in));
    assert_true(tfm__quant_pack(f, block, in, 1));
    tfm__quant_unpack(f, out, block, 1);
    assert_memory_equal(out, in, sizeof(in));
    const float bad[] = {-70000, INFINITY, NAN};
    for (int i = 0; i < 3; i++) {
        in[7] = bad[i];
        assert_false(tfm__quant_pack(f, block, in, 1));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unpack_equals_gguf_to_the_bit),
        cmocka_unit_test(test_pack_equals_gguf),
        cmocka_unit_test(test_pack_refuses_what_the_format_cannot_hold),
        cmocka_unit_test(test_half_conversion_round_trips),
        cmocka_unit_test(test_int8_with_a_minimum_is_close_and_keeps_q8_0),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
