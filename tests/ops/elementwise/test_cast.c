/* Casts: bit-exact, against an oracle that searches the nearest value instead of rounding. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "support/gradient.h"
#include "tfm/ops.h"

static uint32_t bits_of(float v) {
    uint32_t u;
    memcpy(&u, &v, 4);
    return u;
}

static float float_of(uint32_t u) {
    float v;
    memcpy(&v, &u, 4);
    return v;
}

/* The value of a 16-bit pattern, by the definition of the format. */
static double widen(tfm_dtype dtype, uint16_t bits) {
    const int fraction_bits = dtype == TFM_F16 ? 10 : 7, bias = dtype == TFM_F16 ? 15 : 127;
    const int fraction = bits & ((1 << fraction_bits) - 1), exponent = (bits & 0x7fff) >> fraction_bits;
    double v;
    if (exponent == 2 * bias + 1)
        v = fraction ? NAN : INFINITY;
    else if (exponent == 0)
        v = ldexp(fraction, 1 - bias - fraction_bits);
    else
        v = ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
    return bits & 0x8000 ? -v : v;
}

/* The 16-bit pattern nearest to v, ties to even. Magnitudes are in pattern order, so bisection finds it. */
static uint16_t narrow(tfm_dtype dtype, float v) {
    const uint16_t sign = signbit(v) ? 0x8000 : 0, infinity = dtype == TFM_F16 ? 0x7c00 : 0x7f80;
    const double size = fabs((double)v);
    if (isnan(v))
        return infinity | 1;
    if (isinf(v))
        return sign | infinity;
    uint16_t low = 0, high = infinity;
    while (high - low > 1) {
        const uint16_t middle = (uint16_t)((low + high) / 2);
        if (widen(dtype, middle) <= size)
            low = middle;
        else
            high = middle;
    }
    /* Beyond the largest value, rounding acts as if the next power of two existed. */
    const double below = widen(dtype, low), step = low ? below - widen(dtype, (uint16_t)(low - 1)) : 0;
    const double above = high == infinity ? below + step : widen(dtype, high);
    if (size - below != above - size)
        return sign | (size - below < above - size ? low : high);
    return sign | (low % 2 ? high : low);
}

static bool is_nan16(tfm_dtype dtype, uint16_t bits) {
    return isnan(widen(dtype, bits));
}

static void check_narrow(tfm_dtype dtype, const float *host, int64_t n) {
    tfm_context *ctx = harness_context();
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, host, n), y = HARNESS_TENSOR(dtype, NULL, n);
    uint16_t *got = malloc((size_t)n * 2);
    assert_non_null(got);
    harness_ok(tfm_cast(ctx, &y, x, dtype));
    harness_ok(tfm_tensor_read(ctx, got, y));
    for (int64_t i = 0; i < n; i++) {
        const uint16_t want = narrow(dtype, host[i]);
        if (is_nan16(dtype, want) ? !is_nan16(dtype, got[i]) : got[i] != want)
            fail_msg("%s of %.9g (%08x): got %04x, wanted %04x (%lld of %lld)", tfm_dtype_name(dtype), (double)host[i],
                     bits_of(host[i]), got[i], want, (long long)i, (long long)n);
    }
    harness_guards(y);
    harness_guards(x);
    free(got);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
}

/* All 65536 patterns, also in odd sizes. */
static void check_widen(tfm_dtype dtype, int64_t n) {
    tfm_context *ctx = harness_context();
    uint16_t *host = malloc((size_t)n * 2);
    assert_non_null(host);
    for (int64_t i = 0; i < n; i++)
        host[i] = (uint16_t)(n == 65536 ? i : i * 257);
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor x = HARNESS_TENSOR(dtype, host, n), y = HARNESS_TENSOR(TFM_F32, NULL, n);
    harness_ok(tfm_cast(ctx, &y, x, TFM_F32));
    float *got = harness_floats(y);
    for (int64_t i = 0; i < n; i++) {
        const double want = widen(dtype, host[i]);
        if (isnan(want) ? !isnan(got[i]) : bits_of(got[i]) != bits_of((float)want))
            fail_msg("%s %04x: got %.9g, wanted %.9g", tfm_dtype_name(dtype), host[i], (double)got[i], want);
    }
    harness_guards(y);
    free(got);
    free(host);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
}

static void test_half_to_float_cast_is_exact(void **state) {
    (void)state;
    const int64_t sizes[] = {1, 3, 17, 65, 1000, 65536};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        check_widen(TFM_F16, sizes[i]);
        check_widen(TFM_BF16, sizes[i]);
    }
}

static void test_float_to_half_cast_rounds_to_nearest(void **state) {
    (void)state;
    const int64_t sizes[] = {1, 3, 17, 65, 1000, 40000};
    harness_random random = {1};
    float *host = malloc(40000 * sizeof(float));
    assert_non_null(host);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        /* Every exponent of F16, and some beyond. */
        for (int64_t j = 0; j < sizes[i]; j++)
            host[j] = ldexpf(harness_normal(&random), (int)harness_range(&random, -28, 18));
        check_narrow(TFM_F16, host, sizes[i]);
        check_narrow(TFM_BF16, host, sizes[i]);
    }
    free(host);
}

/* Midpoints between neighbors and one float step to either side; the ends; NaN patterns that a carry could break. */
static void test_float_to_half_cast_ties_go_to_even(void **state) {
    (void)state;
    const tfm_dtype dtypes[] = {TFM_F16, TFM_BF16};
    for (int d = 0; d < 2; d++) {
        const uint16_t infinity = dtypes[d] == TFM_F16 ? 0x7c00 : 0x7f80;
        float *host = malloc(6 * 0x8000 * sizeof(float));
        assert_non_null(host);
        int64_t n = 0;
        /* BF16 subnormals are fp32 subnormals, which a device may flush: not compared. */
        for (uint16_t u = dtypes[d] == TFM_F16 ? 0 : 0x0080; u + 1 < infinity; u++) {
            const float middle = (float)((widen(dtypes[d], u) + widen(dtypes[d], (uint16_t)(u + 1))) / 2);
            host[n++] = middle;
            host[n++] = nextafterf(middle, 0);
            host[n++] = -nextafterf(middle, INFINITY);
        }
        const float ends[] = {0.0f,
                              -0.0f,
                              INFINITY,
                              -INFINITY,
                              NAN,
                              float_of(0x7fffffff),
                              float_of(0xffffffff),
                              65504,
                              65519.99f,
                              65520,
                              65536,
                              3.4e38f,
                              float_of(0x7f7f7fff),
                              float_of(0x7f7f8000),
                              -65520,
                              float_of(0x7f800001),
                              float_of(0xffbfffff),
                              float_of(0x7f808000)};
        memcpy(host + n, ends, sizeof(ends));
        n += (int64_t)(sizeof(ends) / sizeof(*ends));
        check_narrow(dtypes[d], host, n);
        free(host);
    }
}

/* Between the two 16-bit formats: through F32, which represents both. */
static void test_fp16_and_bf16_casts_go_through_fp32(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const tfm_dtype dtypes[] = {TFM_F16, TFM_BF16};
    for (int d = 0; d < 2; d++) {
        const tfm_dtype from = dtypes[d], to = dtypes[1 - d];
        uint16_t *host = malloc(65536 * 2), *got = malloc(65536 * 2);
        assert_true(host && got);
        for (int i = 0; i < 65536; i++)
            host[i] = (uint16_t)i;
        harness_ok(tfm_scope_open(ctx));
        tfm_tensor x = HARNESS_TENSOR(from, host, 65536), y = HARNESS_TENSOR(to, NULL, 65536);
        harness_ok(tfm_cast(ctx, &y, x, to));
        harness_ok(tfm_tensor_read(ctx, got, y));
        for (int i = 0; i < 65536; i++) {
            const uint16_t want = narrow(to, (float)widen(from, host[i]));
            if (is_nan16(to, want) ? !is_nan16(to, got[i]) : got[i] != want)
                fail_msg("%s %04x to %s: got %04x, wanted %04x", tfm_dtype_name(from), i, tfm_dtype_name(to), got[i],
                         want);
        }
        harness_guards(y);
        harness_ok(tfm_scope_close(ctx, 0, NULL));
        free(host);
        free(got);
    }
}

/* A cast to the same dtype is a bit copy. */
static void test_cast_to_own_dtype_copies(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    uint16_t host[77], got[77];
    for (int i = 0; i < 77; i++)
        host[i] = (uint16_t)(0xffff - 600 * i);
    tfm_tensor x = HARNESS_TENSOR(TFM_F16, host, 7, 11), y = {0};
    harness_ok(tfm_cast(ctx, &y, x, TFM_F16));
    assert_int_equal(y.rank, 2);
    harness_ok(tfm_tensor_read(ctx, got, y));
    assert_memory_equal(got, host, sizeof(host));
    tfm_tensor_free(ctx, &y);
}

static void oracle_backward(const gradient_case *c, double *y, double *const *inputs) {
    memcpy(y, inputs[0], c->count * sizeof(*y));
}

static tfm_status run_backward(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    tfm_tensor copy = {0};
    (void)c;
    tfm_cast(ctx, &copy, inputs[0], TFM_F32);
    return tfm_cast(ctx, y, copy, TFM_F32);
}

/* F32 to F32 passes the gradient; a 16-bit tensor has none, and a result of one needs none. */
static void test_cast_gradients_flow_through_fp32_only(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    harness_random random = {9};
    float host[65];
    harness_fill(&random, host, 65, 1);
    gradient_check(&(gradient_case){.name = "cast",
                                    .inputs = {{2, {5, 13}, host, false}},
                                    .oracle = oracle_backward,
                                    .run = run_backward,
                                    .count = 65,
                                    .tolerance = 1e-6});
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, host, 65), dx = HARNESS_TENSOR(TFM_F32, host, 65), y = {0};
    tfm_tensor half = HARNESS_TENSOR(TFM_F16, NULL, 65);
    harness_ok(tfm_tape_start(ctx));
    harness_ok(tfm_tape_watch(ctx, x, dx));
    harness_ok(tfm_cast(ctx, &y, half, TFM_F32));
    tfm_tensor_free(ctx, &y);
    harness_refused(tfm_cast(ctx, &y, x, TFM_BF16), TFM_ERROR_ARGUMENT, "cast: BF16 has no gradient");
    tfm_tape_stop(ctx);
}

static void test_cast_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 4, 3), ints = HARNESS_TENSOR(TFM_I32, NULL, 4), y = {0};
    tfm_tensor half = HARNESS_TENSOR(TFM_F16, NULL, 3, 4), over = x;
    harness_refused(tfm_cast(ctx, &y, ints, TFM_F32), TFM_ERROR_ARGUMENT, "cast: input 1 is (4) I32");
    harness_refused(tfm_cast(ctx, &y, x, TFM_I32), TFM_ERROR_ARGUMENT, "cast: cannot make I32 of (4, 3) F32");
    harness_refused(tfm_cast(ctx, &half, x, TFM_F16), TFM_ERROR_ARGUMENT, "cast: the output is (3, 4) F16");
    over.dtype = TFM_F16;
    over.offset = 2 * x.offset + 1;
    harness_refused(tfm_cast(ctx, &over, x, TFM_F16), TFM_ERROR_ARGUMENT, "cast: the output");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_half_to_float_cast_is_exact),
        cmocka_unit_test(test_float_to_half_cast_rounds_to_nearest),
        cmocka_unit_test(test_float_to_half_cast_ties_go_to_even),
        cmocka_unit_test(test_fp16_and_bf16_casts_go_through_fp32),
        cmocka_unit_test(test_cast_to_own_dtype_copies),
        cmocka_unit_test(test_cast_rejects_bad_arguments),
        cmocka_unit_test(test_cast_gradients_flow_through_fp32_only),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
