/* Token sampling, against a sort in double precision and known answers of Philox. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "support/harness.h"
#include "ops/reduce/sample.h"

static void philox(uint32_t out[4], const uint32_t counter[4], uint32_t key0, uint32_t key1) {
    uint32_t c[4];
    memcpy(c, counter, sizeof(c));
    for (int round = 0; round < 10; round++, key0 += 0x9E3779B9u, key1 += 0xBB67AE85u) {
        const uint64_t p = (uint64_t)0xD2511F53u * c[0], q = (uint64_t)0xCD9E8D57u * c[2];
        const uint32_t next[4] = {(uint32_t)(q >> 32) ^ c[1] ^ key0, (uint32_t)q, (uint32_t)(p >> 32) ^ c[3] ^ key1,
                                  (uint32_t)p};
        memcpy(c, next, sizeof(c));
    }
    memcpy(out, c, sizeof(c));
}

static double uniform(uint64_t seed, uint64_t step, uint32_t row) {
    const uint32_t counter[4] = {(uint32_t)step, (uint32_t)(step >> 32), row, 0};
    uint32_t out[4];
    philox(out, counter, (uint32_t)seed, (uint32_t)(seed >> 32));
    return (out[0] >> 8) / 16777216.0;
}

static void test_philox_gives_random123_answers(void **state) {
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } answers[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
        uint32_t got[4];
        philox(got, answers[i].counter, answers[i].key[0], answers[i].key[1]);
        assert_memory_equal(got, answers[i].want, sizeof(got));
    }
}

static const float *sorted_row;

static int descending(const void *a, const void *b) {
    const int i = *(const int *)a, j = *(const int *)b;
    const float x = sorted_row[i], y = sorted_row[j];
    return x > y ? -1 : x < y ? 1 : i - j;
}

/* The weight of each entry, 0 if excluded; the sum. */
static double weigh(double *weights, const float *x, int n, const tfm_sample_options *o) {
    int *order = malloc((size_t)n * sizeof(int));
    assert_non_null(order);
    for (int i = 0; i < n; i++)
        order[i] = i;
    sorted_row = x;
    qsort(order, (size_t)n, sizeof(int), descending);
    const double temperature = o->temperature == 0 ? 1 : o->temperature, p = o->top_p == 0 ? 1 : o->top_p;
    const int k = o->top_k && o->top_k < n ? o->top_k : n;
    double total = 0, passed = 0;
    memset(weights, 0, (size_t)n * sizeof(double));
    for (int i = 0; i < k; i++)
        total += weights[order[i]] = exp((x[order[i]] - x[order[0]]) / temperature);
    for (int i = 0; i < k; i++) {
        if ((p < 1 && passed >= p * total) || weights[order[i]] < o->min_p)
            weights[order[i]] = 0;
        passed += weights[order[i]];
    }
    free(order);
    return passed;
}

static void check(const float *host, int64_t rows, int64_t n, tfm_sample_options o) {
    tfm_context *ctx = harness_context();
    double *weights = malloc((size_t)n * sizeof(double));
    assert_non_null(weights);
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor logits = HARNESS_TENSOR(TFM_F32, host, rows, n), ids = HARNESS_TENSOR(TFM_I32, NULL, rows);
    tfm_tensor probabilities = HARNESS_TENSOR(TFM_F32, NULL, rows);
    harness_ok(tfm_sample(ctx, &ids, &probabilities, logits, &o));
    int32_t *got = harness_ints(ids);
    float *chance = harness_floats(probabilities);
    for (int64_t r = 0; r < rows; r++) {
        const double total = weigh(weights, host + r * n, (int)n, &o), u = uniform(o.seed, o.step, (uint32_t)r);
        double before = 0;
        assert_true(got[r] >= 0 && got[r] < n);
        for (int i = 0; i < got[r]; i++)
            before += weights[i] / total;
        const double own = weights[got[r]] / total;
        if (!(own > 0 && before <= u + 1e-5 && before + own >= u - 1e-5 && fabs(chance[r] - own) < 1e-5))
            fail_msg("row %lld of %lld x %lld, k %d, p %g: sampled %d with %g, cumulative %g, u %g: returned %g",
                     (long long)r, (long long)rows, (long long)n, o.top_k, (double)o.top_p, got[r], own, before, u,
                     (double)chance[r]);
    }
    harness_guards(ids);
    harness_guards(probabilities);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    free(weights);
    free(got);
    free(chance);
}

static void test_top_k_and_top_p_sampling_matches_oracle(void **state) {
    (void)state;
    const int64_t sizes[] = {1, 17, 1000, 3, 16, 65, 5003};
    const int ks[] = {0, 1, 2, 7, 50, 900};
    const float ps[] = {0, 1e-6f, 0.3f, 0.9f, 0.999f};
    harness_random random = {1};
    uint64_t seed = 7;
    for (size_t s = 0; s < (harness_brief() ? 3 : sizeof(sizes) / sizeof(*sizes)); s++) {
        float *host = malloc((size_t)(9 * sizes[s]) * sizeof(float));
        assert_non_null(host);
        harness_fill(&random, host, (size_t)(9 * sizes[s]), 3);
        for (int64_t i = 0; i < sizes[s]; i++)
            host[i] = i % 5 ? -INFINITY : host[i] + 1e4f;
        for (size_t k = 0; k < sizeof(ks) / sizeof(*ks); k++)
            for (size_t p = 0; p < sizeof(ps) / sizeof(*ps); p++, seed += UINT64_C(0x123456789abcdef))
                check(host, 1 + (int64_t)(k + p) % 9, sizes[s],
                      (tfm_sample_options){.temperature = p % 2 ? 0 : 0.7f,
                                           .top_k = ks[k],
                                           .top_p = ps[p],
                                           .seed = seed,
                                           .step = seed >> 20});
        free(host);
    }
}

static void test_min_p_sampling_matches_oracle(void **state) {
    (void)state;
    const int64_t sizes[] = {17, 1000, 1, 16, 65, 5003};
    const float least[] = {1e-6f, 0.01f, 0.1f, 0.5f, 1};
    harness_random random = {2};
    uint64_t seed = 11;
    for (size_t s = 0; s < (harness_brief() ? 2 : sizeof(sizes) / sizeof(*sizes)); s++) {
        float *host = malloc((size_t)(9 * sizes[s]) * sizeof(float));
        assert_non_null(host);
        harness_fill(&random, host, (size_t)(9 * sizes[s]), 3);
        for (size_t i = 0; i < sizeof(least) / sizeof(*least); i++)
            for (int way = 0; way < 4; way++, seed += 77)
                check(host, 9, sizes[s],
                      (tfm_sample_options){.temperature = i % 2 ? 0 : 1.7f,
                                           .top_k = way & 1 ? 40 : 0,
                                           .top_p = way & 2 ? 0.8f : 0,
                                           .min_p = least[i],
                                           .seed = seed,
                                           .step = seed >> 3});
        free(host);
    }
}

/* Of equal values the first are kept, for any number of items per row. */
static void test_equal_logits_keep_the_first_tokens(void **state) {
    (void)state;
    enum { N = 1000, ROWS = 33 };
    float *host = malloc(ROWS * N * sizeof(float));
    assert_non_null(host);
    for (int i = 0; i < ROWS * N; i++)
        host[i] = i % N % 3 ? -(float)(i % 2) * 0.0f : -1; /* both zeros are equal */
    check(host, ROWS, N, (tfm_sample_options){.seed = 1});
    check(host, ROWS, N, (tfm_sample_options){.seed = 2, .top_k = 5});
    check(host, ROWS, N, (tfm_sample_options){.seed = 3, .top_k = 500});
    check(host, ROWS, N, (tfm_sample_options){.seed = 4, .top_k = 800});
    check(host, ROWS, N, (tfm_sample_options){.seed = 5, .top_p = 0.30003f});
    check(host, ROWS, N, (tfm_sample_options){.seed = 6, .top_p = 0.90003f, .top_k = 900});
    check(host, ROWS, N, (tfm_sample_options){.seed = 7, .top_p = 0.50003f, .top_k = 601});
    for (int i = 0; i < N; i++)
        host[i] = 0;
    tfm_context *ctx = harness_context();
    tfm_tensor logits = HARNESS_TENSOR(TFM_F32, host, 1, N), ids = {0};
    harness_ok(tfm_sample(ctx, &ids, NULL, logits, NULL));
    int32_t *got = harness_ints(ids);
    assert_int_equal(got[0], (int)(0x6627e8d5 / 4294967296.0 * N)); /* Known answer of Philox for zeros */
    free(got);
    tfm_tensor_free(ctx, &ids);
    free(host);
}

static void test_sampling_handles_nan_and_infinite_rows(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    enum { N = 35 };
    float host[5][N];
    for (int i = 0; i < N; i++) {
        host[0][i] = -INFINITY;
        host[1][i] = NAN;
        host[2][i] = i == 19 ? INFINITY : (float)i;
        host[3][i] = i == 33 ? -1e30f : NAN;
        host[4][i] = i == 2 ? 3e38f : -3e38f;
    }
    tfm_tensor logits = HARNESS_TENSOR(TFM_F32, host, 5, N);
    const tfm_sample_options options[] = {{0}, {.top_k = 3}, {.top_p = 0.5f}, {.temperature = 1e-40f, .top_p = 0.9f}};
    for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
        tfm_tensor ids = HARNESS_TENSOR(TFM_I32, NULL, 5), chance = HARNESS_TENSOR(TFM_F32, NULL, 5);
        harness_ok(tfm_sample(ctx, &ids, &chance, logits, &options[i]));
        int32_t *got = harness_ints(ids);
        float *p = harness_floats(chance);
        assert_memory_equal(got, ((int32_t[]){-1, -1, 19, 33, 2}), 5 * sizeof(int32_t));
        assert_true(p[0] == 0 && p[1] == 0 && p[2] == 1 && p[3] == 1 && p[4] == 1);
        free(got);
        free(p);
    }
}

/* Frequencies over many rows; equal calls sample equally, other steps and seeds differ. */
static void test_sampling_frequencies_match_probabilities(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    enum { ROWS = 20000, N = 5 };
    const double chances[N] = {0.5, 0.25, 0.125, 0.0625, 0.0625};
    float *host = malloc(ROWS * N * sizeof(float));
    assert_non_null(host);
    for (int i = 0; i < ROWS * N; i++)
        host[i] = (float)log(chances[i % N]);
    tfm_tensor logits = HARNESS_TENSOR(TFM_F32, host, ROWS, N);
    int32_t *samples[4];
    for (int i = 0; i < 4; i++) {
        tfm_tensor ids = {0};
        harness_ok(tfm_sample(ctx, &ids, NULL, logits, &(tfm_sample_options){.seed = 5 + i / 3, .step = i == 2}));
        samples[i] = harness_ints(ids);
        tfm_tensor_free(ctx, &ids);
        int counts[N] = {0};
        for (int r = 0; r < ROWS; r++)
            counts[samples[i][r]]++;
        for (int c = 0; c < N; c++)
            assert_true(fabs(counts[c] - ROWS * chances[c]) < 5 * sqrt(ROWS * chances[c]));
    }
    assert_memory_equal(samples[0], samples[1], ROWS * sizeof(int32_t));
    assert_memory_not_equal(samples[0], samples[2], ROWS * sizeof(int32_t));
    assert_memory_not_equal(samples[0], samples[3], ROWS * sizeof(int32_t));
    for (int i = 0; i < 4; i++)
        free(samples[i]);
    free(host);
}

/* A sample depends on the row's stream, not on the row. */
static void test_row_samples_by_its_random_stream(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    enum { ROWS = 40, N = 300 };
    float *host = calloc(ROWS * N, sizeof(float));
    int32_t streams[ROWS];
    tfm_tensor own = {0}, other = {0};
    const tfm_sample_options options = {.seed = 9, .step = 4};
    assert_non_null(host);
    for (int i = 0; i < ROWS; i++)
        streams[i] = (i * 7 + 3) % ROWS;
    tfm_tensor logits = HARNESS_TENSOR(TFM_F32, host, ROWS, N), chosen = HARNESS_TENSOR(TFM_I32, streams, ROWS);
    harness_ok(tfm_sample(ctx, &own, NULL, logits, &options));
    harness_ok(tfm__sample(ctx, &other, NULL, logits, chosen, &options));
    int32_t *a = harness_ints(own), *b = harness_ints(other);
    for (int i = 0; i < ROWS; i++)
        assert_int_equal(b[i], a[streams[i]]);
    assert_memory_not_equal(a, b, ROWS * sizeof(*a));
    tfm_tensor_free(ctx, &own);
    harness_refused(tfm__sample(ctx, &own, NULL, logits, HARNESS_TENSOR(TFM_I32, streams, 2), &options),
                    TFM_ERROR_ARGUMENT, "streams is (2)");
    tfm_tensor_free(ctx, &other);
    free(a);
    free(b);
    free(host);
}

/* Rows of different options get what each option gives all rows. */
static void test_each_row_may_have_its_own_options(void **state) {
    (void)state;
    enum { ROWS = 24, N = 301, WAYS = 6 };
    tfm_context *ctx = harness_context();
    const tfm_sample_options ways[WAYS] = {{.top_k = 1},
                                           {.seed = 1ULL << 40, .step = 7},
                                           {.temperature = 0.7f, .top_p = 0.8f, .seed = 3, .step = 1ULL << 33},
                                           {.temperature = 2, .top_k = 5, .seed = 4},
                                           {.min_p = 0.2f, .seed = 5, .step = 2},
                                           {.top_k = 9, .top_p = 0.5f, .min_p = 0.01f, .temperature = 1.5f}};
    float *host = calloc(ROWS * N, sizeof(float)), settings[ROWS * TFM__SAMPLE_SETTINGS];
    int32_t streams[ROWS], numbers[ROWS * TFM__SAMPLE_NUMBERS];
    harness_random random = {6};
    assert_non_null(host);
    harness_fill(&random, host, ROWS * N, 4);
    for (int i = 0; i < N; i++)
        host[3 * N + i] = -INFINITY;
    host[N - 1] = host[7] = 50; /* a tie: the first one */
    for (int r = 0; r < ROWS; r++) {
        streams[r] = 100 - r;
        tfm__sample_row(settings + r * TFM__SAMPLE_SETTINGS, numbers + r * TFM__SAMPLE_NUMBERS,
                        r % WAYS ? &ways[r % WAYS] : NULL, (uint32_t)streams[r]);
    }
    tfm_tensor logits = HARNESS_TENSOR(TFM_F32, host, ROWS, N), ids = HARNESS_TENSOR(TFM_I32, NULL, ROWS);
    harness_ok(tfm__sample_rows(ctx, &ids, logits, HARNESS_TENSOR(TFM_F32, settings, ROWS, TFM__SAMPLE_SETTINGS),
                                HARNESS_TENSOR(TFM_I32, numbers, ROWS, TFM__SAMPLE_NUMBERS)));
    harness_guards(ids);
    int32_t *got = harness_ints(ids);
    for (int way = 0; way < WAYS; way++) {
        tfm_tensor all = {0};
        harness_ok(tfm__sample(ctx, &all, NULL, logits, HARNESS_TENSOR(TFM_I32, streams, ROWS), &ways[way]));
        int32_t *want = harness_ints(all);
        for (int r = way; r < ROWS; r += WAYS)
            assert_int_equal(got[r], want[r]);
        free(want);
        tfm_tensor_free(ctx, &all);
    }
    assert_int_equal(got[0], 7);
    assert_int_equal(got[3], -1);
    harness_refused(tfm__sample_rows(ctx, &ids, logits, HARNESS_TENSOR(TFM_F32, settings, 2, TFM__SAMPLE_SETTINGS),
                                     HARNESS_TENSOR(TFM_I32, numbers, ROWS, TFM__SAMPLE_NUMBERS)),
                    TFM_ERROR_ARGUMENT, "settings is (2, 4)");
    free(got);
    free(host);
}

static void test_sample_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 2, 6), flat = HARNESS_TENSOR(TFM_F32, NULL, 6), y = {0};
    harness_refused(tfm_sample(ctx, &y, NULL, (tfm_tensor){0}, NULL), TFM_ERROR_ARGUMENT, "sample: input 1");
    harness_refused(tfm_sample(ctx, &y, NULL, flat, NULL), TFM_ERROR_ARGUMENT, "sample: logits is (6) F32");
    harness_refused(tfm_sample(ctx, &flat, NULL, x, NULL), TFM_ERROR_ARGUMENT, "sample: the output is (6) F32");
    const tfm_sample_options cold = {.temperature = -1}, hot = {.temperature = INFINITY}, none = {.top_k = -1},
                             more = {.top_p = 1.5f}, less = {.top_p = -0.1f}, odd = {.top_p = NAN},
                             all = {.min_p = 1.1f};
    harness_refused(tfm_sample(ctx, &y, NULL, x, &cold), TFM_ERROR_ARGUMENT, "temperature is -1");
    harness_refused(tfm_sample(ctx, &y, NULL, x, &hot), TFM_ERROR_ARGUMENT, "temperature is inf");
    harness_refused(tfm_sample(ctx, &y, NULL, x, &none), TFM_ERROR_ARGUMENT, "top_k is -1");
    harness_refused(tfm_sample(ctx, &y, NULL, x, &more), TFM_ERROR_ARGUMENT, "top_p is 1.5");
    harness_refused(tfm_sample(ctx, &y, NULL, x, &less), TFM_ERROR_ARGUMENT, "top_p is -0.1");
    harness_refused(tfm_sample(ctx, &y, NULL, x, &odd), TFM_ERROR_ARGUMENT, "top_p is");
    harness_refused(tfm_sample(ctx, &y, NULL, x, &all), TFM_ERROR_ARGUMENT, "min_p is 1.1");
}

static void test_sample_rejects_overlapping_output(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const tfm_status no = TFM_ERROR_ARGUMENT;
    const char *why = "shares memory";
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 2, 6), ids = HARNESS_TENSOR(TFM_I32, NULL, 2), part = x;
    part.rank = 1;
    tfm_tensor whole = part, same = ids;
    whole.dtype = TFM_I32;
    same.dtype = TFM_F32;
    harness_refused(tfm_sample(ctx, &whole, NULL, x, NULL), no, why);
    harness_refused(tfm_sample(ctx, &ids, &part, x, NULL), no, why);
    harness_refused(tfm_sample(ctx, &ids, &same, x, NULL), no, why);
}

/* In one launch: the same samples for the texts' streams; logits of the sampled tokens, and log-sum-exp. */
static void test_scored_sampling_equals_sampling_and_log_sum(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    enum { ROWS = 4, N = 333, TEXTS = 6 };
    float host[ROWS * N];
    const int32_t streams[TEXTS] = {11, 7, 0, 123456, 5, 9}, sources[ROWS] = {5, 0, 3, 1};
    int32_t own[ROWS];
    harness_random random = {31};
    const tfm_sample_options options[] = {{.seed = 3, .step = 9},
                                          {.seed = 4, .temperature = 0.7f, .top_k = 20, .top_p = 0.8f},
                                          {.seed = 5, .min_p = 0.1f}};
    harness_fill(&random, host, ROWS * N, 3);
    for (int i = 0; i < N; i++)
        host[N + i] = i % 3 ? -INFINITY : host[N + i];
    for (int i = 0; i < N; i++)
        host[2 * N + i] = i % 2 ? -INFINITY : NAN; /* nothing to sample */
    for (int r = 0; r < ROWS; r++)
        own[r] = streams[sources[r]];
    for (size_t k = 0; k < sizeof(options) / sizeof(*options); k++) {
        harness_ok(tfm_scope_open(ctx));
        tfm_tensor logits = HARNESS_TENSOR(TFM_F32, host, ROWS, N), ids = HARNESS_TENSOR(TFM_I32, NULL, ROWS),
                   one = {0};
        tfm_tensor values = HARNESS_TENSOR(TFM_F32, NULL, ROWS), sums = HARNESS_TENSOR(TFM_F32, NULL, ROWS);
        harness_ok(tfm__sample(ctx, &one, NULL, logits, HARNESS_TENSOR(TFM_I32, own, ROWS), &options[k]));
        harness_ok(tfm__sample_with_scores(ctx, &ids, &values, &sums, logits, HARNESS_TENSOR(TFM_I32, streams, TEXTS),
                                           HARNESS_TENSOR(TFM_I32, sources, ROWS), &options[k]));
        harness_guards(ids);
        harness_guards(values);
        harness_guards(sums);
        int32_t *got = harness_ints(ids), *want = harness_ints(one);
        float *value = harness_floats(values), *sum = harness_floats(sums);
        double exact[ROWS] = {0};
        for (int r = 0; r < ROWS; r++) {
            for (int i = 0; i < N; i++)
                exact[r] += isnan(host[r * N + i]) ? 0 : exp((double)host[r * N + i]);
            exact[r] = log(exact[r]);
            assert_int_equal(got[r], want[r]);
            assert_int_equal(got[r] < 0, r == 2);
            assert_true(value[r] == (r == 2 ? -INFINITY : host[r * N + got[r]]));
        }
        harness_close(sum, exact, ROWS, 1e-6, "log sums");
        free(got);
        free(want);
        free(value);
        free(sum);
        harness_ok(tfm_scope_close(ctx, 0, NULL));
    }
    tfm_tensor logits = HARNESS_TENSOR(TFM_F32, NULL, 2, 5), few = HARNESS_TENSOR(TFM_I32, NULL, 3), out[3] = {{0}};
    harness_refused(tfm__sample_with_scores(ctx, &out[0], &out[1], &out[2], logits, few, few, &options[0]),
                    TFM_ERROR_ARGUMENT, "they must be (N) and (2)");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scored_sampling_equals_sampling_and_log_sum),
        cmocka_unit_test(test_philox_gives_random123_answers),
        cmocka_unit_test(test_top_k_and_top_p_sampling_matches_oracle),
        cmocka_unit_test(test_min_p_sampling_matches_oracle),
        cmocka_unit_test(test_equal_logits_keep_the_first_tokens),
        cmocka_unit_test(test_row_samples_by_its_random_stream),
        cmocka_unit_test(test_each_row_may_have_its_own_options),
        cmocka_unit_test(test_sampling_handles_nan_and_infinite_rows),
        cmocka_unit_test(test_sampling_frequencies_match_probabilities),
        cmocka_unit_test(test_sample_rejects_bad_arguments),
        cmocka_unit_test(test_sample_rejects_overlapping_output),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
