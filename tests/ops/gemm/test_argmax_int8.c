/* The largest entries of products, found by bytes and proven by floats; and greedy searches without scores, which take
 * their tokens so. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "support/harness.h"
#include "model/core/model.h"
#include "support/model_shapes.h"
#include "ops/gemm/argmax_int8.h"
#include "tfm/train.h"

typedef struct product {
    int64_t rows, n, k;
    float *x, *w, *bias;
} product;

static float *floats(int64_t count) {
    float *host = malloc((size_t)count * sizeof(*host));
    assert_non_null(host);
    return host;
}

static product product_of(harness_random *random, int64_t rows, int64_t n, int64_t k) {
    product p = {rows, n, k, floats(rows * k), floats(n * k), floats(n)};
    harness_fill(random, p.x, (size_t)(rows * k), 1);
    harness_fill(random, p.w, (size_t)(n * k), 1);
    harness_fill(random, p.bias, (size_t)n, 1);
    return p;
}

static void product_free(product *p) {
    free(p->x);
    free(p->w);
    free(p->bias);
}

static double entry_of(const product *p, int64_t row, int64_t j) {
    double sum = (double)p->bias[j];
    for (int64_t i = 0; i < p->k; i++)
        sum += (double)p->x[row * p->k + i] * (double)p->w[j * p->k + i];
    return sum;
}

/* What the device finds, [rows] each. Of entries j with j % 3 = `barred` none is chosen; -1 bars none, and then what it
 * finds by itself is the same to the bit. `bytes`, if it is not NULL, gets where the largest is by bytes alone. Returns
 * how many entries were multiplied in floats. */
static int32_t find(const product *p, int barred, float *values, int32_t *tokens, int32_t *bytes) {
    tfm_context *ctx = harness_context();
    tfm__int8_screen screen = {0};
    int32_t tried = 0;
    harness_ok(tfm_scope_open(ctx));
    tfm_param weight = {.value = HARNESS_TENSOR(TFM_F32, p->w, p->n, p->k), .version = 4};
    tfm_tensor near = HARNESS_TENSOR(TFM_F32, NULL, p->rows, p->n), value = {0}, token = {0};
    const tfm__argmax_int8_task task = {.screen = &screen,
                                        .weight = &weight,
                                        .bias = HARNESS_TENSOR(TFM_F32, p->bias, p->n),
                                        .x = HARNESS_TENSOR(TFM_F32, p->x, p->rows, p->k),
                                        .verified = HARNESS_TENSOR(TFM_I32, &tried, 1)};
    harness_ok(tfm__int8_screen_update(ctx, &screen, &weight));
    assert_int_equal(screen.version, 5);
    harness_ok(tfm__argmax_int8_approximate(ctx, &near, &task));
    float *host = harness_floats(near);
    for (int64_t i = 0; i < p->rows * p->n && barred >= 0; i++)
        host[i] = i % p->n % 3 == barred ? -INFINITY : host[i];
    harness_ok(tfm_tensor_write(ctx, near, host));
    harness_ok(tfm__argmax_int8_verify(ctx, &value, &token, near, &task));
    harness_guards(near);
    harness_ok(tfm_tensor_read(ctx, values, value));
    harness_ok(tfm_tensor_read(ctx, tokens, token));
    harness_ok(tfm_tensor_read(ctx, &tried, task.verified));
    for (int64_t r = 0; bytes && r < p->rows; r++)
        for (int64_t j = 0; j < p->n; j++)
            bytes[r] = j == 0 || host[r * p->n + j] > host[r * p->n + bytes[r]] ? (int32_t)j : bytes[r];
    free(host);
    if (barred < 0) {
        tfm_tensor other_value = {0}, other_token = {0};
        harness_ok(tfm__argmax_int8(ctx, &other_value, &other_token, &task));
        float *other_values = harness_floats(other_value);
        int32_t *other_tokens = harness_ints(other_token);
        for (int64_t r = 0; r < p->rows; r++) {
            assert_true(other_values[r] == values[r] || (isnan(other_values[r]) && isnan(values[r])));
            assert_int_equal(other_tokens[r], tokens[r]);
        }
        free(other_values);
        free(other_tokens);
    }
    harness_guards(task.verified);
    tfm__int8_screen_free(ctx, &screen);
    assert_int_equal(screen.version, 0);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    return tried;
}

/* The largest of each row, but for what floats cannot tell apart; with `few`, by few products of floats. Returns in how
 * many rows bytes alone miss it. */
static int check(const product *p, int barred, bool few) {
    float *values = floats(p->rows);
    int32_t *tokens = malloc((size_t)p->rows * sizeof(*tokens)), *bytes = malloc((size_t)p->rows * sizeof(*bytes));
    int missed = 0;
    assert_true(tokens && bytes);
    const int32_t tried = find(p, barred, values, tokens, bytes);
    assert_in_range(tried, p->rows, p->rows * p->n);
    assert_true(!few || tried < p->rows * p->n / 64);
    for (int64_t r = 0; r < p->rows; r++) {
        double best = -INFINITY, scale = 1;
        for (int64_t j = 0; j < p->n; j++)
            best = j % 3 == barred ? best : fmax(best, entry_of(p, r, j));
        for (int64_t i = 0; i < p->k; i++)
            scale += fabs((double)p->x[r * p->k + i] * (double)p->w[tokens[r] * p->k + i]);
        const double got = entry_of(p, r, tokens[r]), bound = 1e-6 * scale; /* floats are summed up */
        if (tokens[r] % 3 == barred || !(got >= best - bound) || !(fabs((double)values[r] - got) <= bound))
            fail_msg("%lld rows of %lld x %lld: row %lld has %g at %d, which is %g, and %g is the largest",
                     (long long)p->rows, (long long)p->n, (long long)p->k, (long long)r, (double)values[r], tokens[r],
                     got, best);
        missed += !(entry_of(p, r, bytes[r]) >= best - bound);
    }
    free(values);
    free(tokens);
    free(bytes);
    return missed;
}

static bool serves(void) {
    const tfm_tensor weight = {.dtype = TFM_F32, .rank = 2, .dims = {1000, 64}};
    if (tfm__argmax_int8_supported(harness_context(), weight))
        return true;
    print_message("# int8 GEMM is not faster here: no screening\n");
    return false;
}

static void test_int8_screened_argmax_equals_fp32(void **state) {
    (void)state;
    static const int64_t SHAPES[][3] = {
        {1, 1, 1},      {1, 7, 3},      {3, 16, 16},    {2, 333, 33},   {5, 1501, 65},
        {1, 20000, 31}, {67, 613, 128}, {1, 4099, 512}, {500, 5003, 16}}; /* the last one in two pieces */
    harness_random random = {11};
    if (!serves())
        skip();
    for (size_t s = 0; s < sizeof(SHAPES) / sizeof(*SHAPES); s++)
        for (int barred = -1; barred < (SHAPES[s][1] > 3 ? 1 : 0); barred++) {
            product p = product_of(&random, SHAPES[s][0], SHAPES[s][1], SHAPES[s][2]);
            check(&p, barred, p.n > 600 && p.k > 30);
            product_free(&p);
        }
}

typedef enum exactness { NEITHER, X, WEIGHT, EXACTNESSES } exactness;

static float whole(float x) {
    return fminf(fmaxf(rintf(40 * x), -127), 127);
}

/* Entries that differ by less than bytes can tell; or x, or w, that bytes are exactly, so that only the other one is
 * bounded by what they miss. */
static product close_product(harness_random *random, exactness exact, int64_t rows, int64_t n, int64_t k) {
    product p = product_of(random, rows, n, k);
    for (int64_t i = 0; i < n * k; i++)
        if (exact == WEIGHT)
            p.w[i] = i % k == 0 ? 127 : whole(p.w[i]);
        else if (i >= k)
            p.w[i] = p.w[i % k] + 0.002f * p.w[i];
    for (int64_t i = 0; i < rows * k; i++) { /* what is far from the others makes bytes of them coarse */
        p.x[i] = exact == X ? i % k == 0 ? 127 : whole(p.x[i]) : p.x[i];
        p.x[i] = exact == WEIGHT && i % k == 0 ? 60 : p.x[i];
    }
    for (int64_t j = 0; j < n; j++)
        p.bias[j] = 0.5f;
    return p;
}

static void test_close_entries_are_verified_in_fp32(void **state) {
    (void)state;
    harness_random random = {12};
    if (!serves())
        skip();
    for (exactness exact = NEITHER; exact < EXACTNESSES; exact++) {
        int missed = 0;
        for (int turn = 0; turn < 2; turn++) {
            product p = close_product(&random, exact, 50, 700, 100 + 37 * turn);
            missed += check(&p, turn - 1, false);
            product_free(&p);
        }
        print_message("# bytes alone miss %d of 100\n", missed);
        assert_true(missed > 20);
    }
}

/* In two pieces, with bounds that are 64 times as large from some rows before the second one on. */
static void test_close_entries_across_chunks_are_verified(void **state) {
    (void)state;
    enum { N = 5003, K = 24, FROM = 4200 };
    harness_random random = {17};
    if (!serves())
        skip();
    product p = close_product(&random, NEITHER, 450, N, K);
    for (int i = FROM * K; i < N * K; i++)
        p.w[i] *= 64;
    assert_true(check(&p, -1, false) > 100);
    product_free(&p);
}

/* Equal entries, rows of zeros, and entries of which none may be chosen. */
static void test_ties_zeros_and_barred_entries_are_handled(void **state) {
    (void)state;
    enum { ROWS = 6, N = 5000, K = 40 };
    float values[ROWS];
    int32_t tokens[ROWS];
    harness_random random = {13};
    if (!serves())
        skip();
    product p = product_of(&random, ROWS, N, K);
    memset(p.x, 0, sizeof(float) * K); /* the bias alone */
    for (int i = 0; i < K; i++)
        p.x[K + i] *= 1e-36f;
    for (int j = 0; j < N; j++)
        p.bias[j] = j == 77 || j == 4100 ? 3.0f : fminf(p.bias[j], 2.5f);
    find(&p, -1, values, tokens, NULL);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(tokens[r], 77);
        assert_true(fabsf(values[r] - 3) < 1e-6f);
    }
    for (int j = 0; j < N; j++) { /* rows of w that are the same, of which the first one counts */
        memcpy(p.w + j * K, p.w, sizeof(float) * K);
        p.bias[j] = 0.25f;
    }
    find(&p, -1, values, tokens, NULL);
    for (int r = 0; r < ROWS; r++)
        assert_int_equal(tokens[r], 0);
    for (int j = 0; j < N; j++)
        p.bias[j] = -INFINITY;
    find(&p, -1, values, tokens, NULL);
    for (int r = 0; r < ROWS; r++) {
        assert_int_equal(tokens[r], 0);
        assert_true(values[r] == -INFINITY);
    }
    product_free(&p);
}

/* Numbers whose squares leave the range of floats, beside a row of zeros. */
static void test_argmax_survives_squares_beyond_float_range(void **state) {
    (void)state;
    enum { ROWS = 4, N = 1000, K = 200 };
    static const float SIZES[][2] = {{1e-25f, 1},    {1, 1e-25f},     {1e25f, 1e-3f},
                                     {1e-3f, 1e25f}, {1e-28f, 1e28f}, {3e37f, 1e-5f}};
    harness_random random = {16};
    if (!serves())
        skip();
    for (size_t s = 0; s < sizeof(SIZES) / sizeof(*SIZES); s++) {
        float values[ROWS];
        int32_t tokens[ROWS];
        product p = product_of(&random, ROWS, N, K);
        for (int i = 0; i < ROWS * K; i++)
            p.x[i] *= SIZES[s][0];
        for (int i = 0; i < N * K; i++)
            p.w[i] = i / K == 300 ? 0 : p.w[i] * SIZES[s][1];
        memset(p.bias, 0, sizeof(float) * N);
        find(&p, -1, values, tokens, NULL);
        for (int r = 0; r < ROWS; r++) {
            int best = 0;
            for (int j = 1; j < N; j++)
                best = entry_of(&p, r, j) > entry_of(&p, r, best) ? j : best;
            assert_int_equal(tokens[r], best);
        }
        for (int i = 0; i < N * K; i++) /* the row of zeros is the largest */
            p.w[i] = -fabsf(p.w[i]);
        for (int i = 0; i < ROWS * K; i++)
            p.x[i] = fabsf(p.x[i]);
        find(&p, -1, values, tokens, NULL);
        for (int r = 0; r < ROWS; r++)
            assert_int_equal(tokens[r], 300);
        product_free(&p);
    }
}

/* What is not finite: in x it leaves nothing to choose; in a row of w it counts as in floats. */
static void test_argmax_handles_non_finite_entries(void **state) {
    (void)state;
    enum { ROWS = 4, N = 900, K = 50 };
    float values[ROWS];
    int32_t tokens[ROWS];
    harness_random random = {14};
    if (!serves())
        skip();
    product p = product_of(&random, ROWS, N, K);
    for (int i = 0; i < K; i++) {
        p.x[3 * K + i] = fabsf(p.x[3 * K + i]);
        p.w[500 * K + i] = i == 20 ? -INFINITY : p.w[500 * K + i];
    }
    p.x[9] = NAN;
    p.x[K + 9] = INFINITY;
    p.x[2 * K + 20] = 1; /* so that the infinite one is the least */
    find(&p, -1, values, tokens, NULL);
    assert_true(isnan(values[0]) && isnan(values[1]));
    for (int r = 2; r < ROWS; r++) {
        double best = -INFINITY;
        for (int64_t j = 0; j < N; j++)
            best = fmax(best, entry_of(&p, r, j));
        assert_true(fabs(best - entry_of(&p, r, tokens[r])) < 1e-4);
    }
    p.w[500 * K + 20] = INFINITY;
    find(&p, -1, values, tokens, NULL);
    assert_int_equal(tokens[3], 500);
    assert_true(values[3] == INFINITY);
    p.w[7 * K + 3] = NAN; /* a damaged weight is not passed over in silence */
    find(&p, -1, values, tokens, NULL);
    assert_true(isnan(values[2]) && isnan(values[3]));
    p.bias[7] = -INFINITY;
    find(&p, -1, values, tokens, NULL);
    assert_int_equal(tokens[3], 500);
    product_free(&p);
}

/* ---- Searches ---- */

enum { TEXTS = 5, LONGEST = 9 };

/* Large enough for a screen, but on emulators. */
static tfm_model *model_of(const char *family) {
    tfm_model_shape shape = harness_slow() ? TINY_TRANSLATOR : TRANSLATOR;
    tfm_model *model;
    if (!harness_slow()) {
        shape.width = 128;
        shape.source_vocab_size = 4200;
        shape.pad_id = shape.start_id = 4199;
    }
    if (family)
        shape = language_model(shape, family);
    harness_ok(tfm_model_new(&model, harness_context(), &shape));
    return model;
}

/* All but the scores, which are 0 without, of texts of `least` tokens or more together. */
static void same(const tfm_hypotheses *with, const tfm_hypotheses *without, int64_t least) {
    int64_t tokens = 0;
    for (size_t i = 0; i < with->sentences; i++) {
        const tfm_hypothesis *a = &with->items[i], *b = &without->items[i];
        assert_int_equal(a->tokens, b->tokens);
        assert_int_equal(a->count, b->count);
        for (int k = 0; k < a->tokens; k++) {
            assert_int_equal(a->ids[k], b->ids[k]);
            assert_true(a->log_probs[k] < 0 && b->log_probs[k] == 0);
        }
        assert_true(a->score < 0 && b->score == 0 && a->log_prob < 0 && b->log_prob == 0);
        tokens += a->tokens;
    }
    assert_true(tokens >= least);
}

static void fill_ids(int32_t *ids, size_t *counts, size_t texts) {
    size_t used = 0;
    for (size_t i = 0; i < texts; i++) {
        counts[i] = LONGEST - i;
        for (size_t k = 0; k < counts[i]; k++)
            ids[used++] = (int32_t)(3 + (i * 7 + k * 5) % 16);
    }
}

static bool screens(const tfm_model *model) {
    return !harness_slow() && tfm__argmax_int8_supported(model->ctx, model->output->value);
}

static void test_screened_greedy_search_equals_scored(void **state) {
    (void)state;
    int32_t ids[TEXTS * LONGEST];
    size_t counts[TEXTS];
    static const int32_t PREFIXES[] = {5, 6, 7};
    static const size_t PREFIX_COUNTS[TEXTS] = {0, 2, 0, 1, 0};
    fill_ids(ids, counts, TEXTS);
    tfm_model *model = model_of(NULL);
    enum { PLAIN, PREFIXED, RULED, WAYS };
    for (size_t texts = 1; texts <= TEXTS; texts += TEXTS - 1)
        for (int way = PLAIN; way < WAYS; way++) {
            tfm_hypotheses with, without;
            const int32_t *prefixes = way == PREFIXED && texts == TEXTS ? PREFIXES : NULL;
            const size_t *prefix_counts = prefixes ? PREFIX_COUNTS : NULL;
            tfm_search_options options = {.beam_size = 1, .max_length = 12};
            model->rules.no_repeat_ngram = way == RULED ? 1 : 0; /* no token comes twice */
            harness_ok(tfm_search(model, &with, ids, counts, texts, prefixes, prefix_counts, &options));
            assert_true(way > PLAIN || texts > 1 || model->output_int8.version == 0);
            options.skip_scores = true;
            harness_ok(tfm_search(model, &without, ids, counts, texts, prefixes, prefix_counts, &options));
            assert_int_equal(model->output_int8.version != 0, screens(model));
            same(&with, &without, 3 * (int64_t)texts);
            for (int k = 1; way == RULED && k < without.items[0].tokens; k++)
                assert_int_not_equal(without.items[0].ids[k], without.items[0].ids[0]);
            tfm_hypotheses_free(&with);
            tfm_hypotheses_free(&without);
        }
    model->rules.no_repeat_ngram = 0;
    tfm_hypotheses best; /* a beam has its scores all the same */
    harness_ok(tfm_search(model, &best, ids, counts, 1, NULL, NULL,
                          &(tfm_search_options){.beam_size = 2, .skip_scores = true}));
    assert_true(best.items[0].score < 0 && best.items[0].log_probs[0] < 0);
    tfm_hypotheses_free(&best);
    tfm_model_free(&model);
}

/* A change of the weights is one of the screen: that of other weights would find other tokens. */
static void test_changed_weights_rebuild_the_int8_screen(void **state) {
    (void)state;
    int32_t ids[TEXTS * LONGEST];
    size_t counts[TEXTS];
    fill_ids(ids, counts, TEXTS);
    tfm_model *model = model_of(NULL);
    tfm_param *table = model->output;
    const tfm_search_options scored = {.beam_size = 1, .max_length = 12};
    const tfm_search_options skip_scores = {.beam_size = 1, .max_length = 12, .skip_scores = true};
    tfm_hypotheses first, with, without;
    harness_ok(tfm_search(model, &first, ids, counts, TEXTS, NULL, NULL, &skip_scores));
    const size_t count = tfm_tensor_count(table->value);
    float *host = harness_floats(table->value);
    harness_fill(&(harness_random){15}, host, count, 0.1f);
    harness_ok(tfm_tensor_write(model->ctx, table->value, host));
    table->version++;
    free(host);
    harness_ok(tfm_search(model, &with, ids, counts, TEXTS, NULL, NULL, &scored));
    harness_ok(tfm_search(model, &without, ids, counts, TEXTS, NULL, NULL, &skip_scores));
    same(&with, &without, 3 * TEXTS);
    bool changed = false;
    for (size_t i = 0; i < TEXTS; i++)
        changed = changed || first.items[i].ids[0] != without.items[i].ids[0];
    assert_true(changed);
    tfm_hypotheses_free(&first);
    tfm_hypotheses_free(&with);
    tfm_hypotheses_free(&without);
    tfm_model_free(&model);
}

/* Where all entries are as good as equal, bytes tell nothing, and the search goes on by logits, as do later ones. */
static void test_indistinct_logits_disable_screening(void **state) {
    (void)state;
    int32_t ids[TEXTS * LONGEST];
    size_t counts[TEXTS];
    fill_ids(ids, counts, TEXTS);
    tfm_model *model = model_of(NULL);
    const tfm_search_options options = {.beam_size = 1, .max_length = 9, .skip_scores = true};
    const tfm_tensor table = model->output->value;
    const size_t count = tfm_tensor_count(table);
    float *host = harness_floats(table);
    for (size_t i = 0; i < count; i++)
        host[i] = host[i % (size_t)table.dims[1]] + 1e-5f * host[i];
    harness_ok(tfm_tensor_write(model->ctx, table, host));
    free(host);
    for (int turn = 0; turn < 2; turn++) {
        tfm_hypotheses found;
        harness_ok(tfm_search(model, &found, ids, counts, TEXTS, NULL, NULL, &options));
        assert_true(found.items[0].tokens > 2 && found.items[0].score == 0);
        assert_int_equal(model->no_greedy_int8, screens(model));
        assert_int_equal(model->output_int8.version, 0);
        tfm_hypotheses_free(&found);
    }
    tfm_model_free(&model);
}

/* A trainer changes the parameters whenever it likes. */
static void test_training_disables_screening(void **state) {
    (void)state;
    int32_t ids[TEXTS * LONGEST];
    size_t counts[TEXTS];
    tfm_trainer_options training = {0};
    tfm_trainer *trainer;
    fill_ids(ids, counts, TEXTS);
    tfm_trainer_paper(&training);
    tfm_model *model = model_of(NULL);
    const tfm_search_options options = {.beam_size = 1, .max_length = 4, .skip_scores = true};
    for (int turn = 0; turn < 3; turn++) {
        tfm_hypotheses found;
        if (turn == 1) {
            harness_ok(tfm_trainer_new(&trainer, model, &training));
            assert_int_equal(model->output_int8.version, 0);
        }
        harness_ok(tfm_search(model, &found, ids, counts, TEXTS, NULL, NULL, &options));
        assert_int_equal(model->output_int8.version != 0, turn != 1 && screens(model));
        tfm_hypotheses_free(&found);
        if (turn == 1)
            tfm_trainer_free(&trainer);
    }
    tfm_model_free(&model);
}

static void test_screened_generation_equals_scored(void **state) {
    (void)state;
    int32_t ids[TEXTS * LONGEST];
    size_t counts[TEXTS];
    fill_ids(ids, counts, TEXTS);
    tfm_model *model = model_of("gpt2");
    tfm_hypotheses with, without;
    const tfm_generate_options ways[] = {{.max_new_tokens = 8},
                                         {.max_new_tokens = 8, .min_new_tokens = 5},
                                         {.max_new_tokens = 8, .repetition_penalty = 1.3f}};
    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
        tfm_generate_options options = ways[i];
        harness_ok(tfm_generate_ids(model, &with, ids, counts, TEXTS, &options));
        options.skip_scores = true;
        harness_ok(tfm_generate_ids(model, &without, ids, counts, TEXTS, &options));
        assert_int_equal(model->output_int8.version != 0, screens(model));
        same(&with, &without, 3 * TEXTS);
        tfm_hypotheses_free(&with);
        tfm_hypotheses_free(&without);
    }
    harness_ok(tfm_generate_ids(model, &with, ids, counts, TEXTS,
                                &(tfm_generate_options){.max_new_tokens = 4, .sample = true, .skip_scores = true}));
    assert_true(with.items[0].score < 0); /* what is drawn has its scores all the same */
    tfm_hypotheses_free(&with);
    tfm_model_free(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_int8_screened_argmax_equals_fp32),
        cmocka_unit_test(test_close_entries_are_verified_in_fp32),
        cmocka_unit_test(test_close_entries_across_chunks_are_verified),
        cmocka_unit_test(test_ties_zeros_and_barred_entries_are_handled),
        cmocka_unit_test(test_argmax_survives_squares_beyond_float_range),
        cmocka_unit_test(test_argmax_handles_non_finite_entries),
        cmocka_unit_test(test_screened_greedy_search_equals_scored),
        cmocka_unit_test(test_changed_weights_rebuild_the_int8_screen),
        cmocka_unit_test(test_indistinct_logits_disable_screening),
        cmocka_unit_test(test_training_disables_screening),
        cmocka_unit_test(test_screened_generation_equals_scored),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
