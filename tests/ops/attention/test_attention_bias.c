/* Gradient of the attention score bias: all broadcast shapes, with causal, padding, windows, soft cap, dropout and GQA,
 * together with the gradients of q, k and v. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "support/attention_oracle.h"
#include "support/gradient.h"

enum { Q, K, V, BIAS };

typedef struct biased {
    int64_t batch, targets, length, heads, kv_heads, dk, dv;
    int rank; /* of the bias */
    int64_t dims[4];
    bool heads_first, causal, padded, windowed, causal_bottom_right;
    float cap;
    tfm_dropout_options dropout;
    const int32_t *lengths;
    const double *factors; /* dropout mask (B, H, T, S), or NULL */
} biased;

static int64_t query_at(const biased *a, int64_t b, int64_t t, int64_t h) {
    return a->heads_first ? (b * a->heads + h) * a->targets + t : (b * a->targets + t) * a->heads + h;
}

static int64_t key_at(const biased *a, int64_t b, int64_t s, int64_t h) {
    return a->heads_first ? (b * a->kv_heads + h) * a->length + s : (b * a->length + s) * a->kv_heads + h;
}

/* Offset of a score's bias; -1: past its last column, where keys are masked. */
static int64_t bias_at(const biased *a, int64_t b, int64_t h, int64_t t, int64_t s) {
    const int64_t place[] = {b, h, t, s};
    int64_t at = 0;
    for (int i = 0; i < a->rank; i++) {
        const int64_t x = a->dims[i] == 1 ? 0 : place[4 - a->rank + i];
        if (x >= a->dims[i])
            return -1;
        at = at * a->dims[i] + x;
    }
    return at;
}

static bool sees(const biased *a, int64_t b, int64_t h, int64_t t, int64_t s) {
    const int64_t visible = a->padded ? a->lengths[b] : a->length,
                  at = t + (a->causal_bottom_right ? visible - a->targets : 0);
    return s < visible && (!a->causal || s <= at) && (!a->windowed || (s >= at - 2 && s <= at + 1)) &&
           bias_at(a, b, h, t, s) >= 0;
}

/* One query's contribution to y. */
static void attend(const biased *a, double *y, double *const *inputs, double *w, int64_t b, int64_t h, int64_t t) {
    const int64_t q = query_at(a, b, t, h), group = h / (a->heads / a->kv_heads);
    double sum = 0;
    for (int64_t s = 0; s < a->length; s++) {
        double z = 0;
        for (int64_t d = 0; d < a->dk; d++)
            z += inputs[Q][q * a->dk + d] * inputs[K][key_at(a, b, s, group) * a->dk + d];
        z /= sqrt((double)a->dk);
        z = a->cap > 0 ? a->cap * tanh(z / a->cap) : z;
        w[s] = sees(a, b, h, t, s) ? exp(z + inputs[BIAS][bias_at(a, b, h, t, s)]) : 0;
        sum += w[s];
    }
    for (int64_t s = 0; s < a->length && sum > 0; s++) {
        const double factor = a->factors ? a->factors[((b * a->heads + h) * a->targets + t) * a->length + s] : 1;
        for (int64_t d = 0; d < a->dv; d++)
            y[q * a->dv + d] += factor * w[s] / sum * inputs[V][key_at(a, b, s, group) * a->dv + d];
    }
}

static void oracle(const gradient_case *c, double *y, double *const *inputs) {
    const biased *a = c->user;
    double *w = attention_take(a->length, sizeof(double));
    memset(y, 0, c->count * sizeof(*y));
    for (int64_t i = 0; i < a->batch * a->heads * a->targets; i++)
        attend(a, y, inputs, w, i / (a->heads * a->targets), i / a->targets % a->heads, i % a->targets);
    free(w);
}

static tfm_status run(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    const biased *a = c->user;
    tfm_attention_options o = {.heads = a->heads_first ? 0 : (int)a->heads,
                               .kv_heads = (int)a->kv_heads,
                               .causal = a->causal,
                               .soft_cap = a->cap,
                               .causal_bottom_right = a->causal_bottom_right,
                               .window = a->windowed,
                               .window_left = 2,
                               .window_right = 1,
                               .mask = inputs[BIAS],
                               .dropout = &a->dropout};
    if (a->padded)
        o.lengths = HARNESS_TENSOR(TFM_I32, a->lengths, a->batch);
    return tfm_attention(ctx, y, inputs[Q], inputs[K], inputs[V], &o);
}

static double *factors_of(const biased *a) {
    double *factors = attention_take(a->batch * a->heads * a->targets * a->length, sizeof(double)), *to = factors;
    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t h = 0; h < a->heads; h++)
            for (int64_t t = 0; t < a->targets; t++)
                for (int64_t s = 0; s < a->length; s++)
                    *to++ = attention_factor(&a->dropout, a->heads, a->kv_heads, a->targets, b, h, t, s);
    return factors;
}

static void check(uint64_t seed, biased a) {
    static int number;
    if (harness_left_out(&number, 8))
        return;
    harness_random random = {seed};
    const int64_t queries = a.batch * a.targets * a.heads, keys = a.batch * a.length * a.kv_heads;
    int64_t count = 1;
    for (int i = 0; i < a.rank; i++)
        count *= a.dims[i];
    const int64_t sizes[] = {queries * a.dk, keys * a.dk, keys * a.dv, count};
    float *host[4];
    int32_t lengths[8];
    for (int i = 0; i < 4; i++) {
        host[i] = attention_take(sizes[i], sizeof(float));
        harness_fill(&random, host[i], (size_t)sizes[i], 1);
    }
    for (int64_t b = 0; b < a.batch; b++) /* the last query attends to no key */
        lengths[b] = (int32_t)(b == a.batch - 1 && a.batch > 2 ? 0 : harness_range(&random, 1, a.length));
    a.lengths = lengths;
    double *factors = a.dropout.rate > 0 ? factors_of(&a) : NULL;
    a.factors = factors;
    gradient_case c = {.name = "attention with a bias",
                       .oracle = oracle,
                       .run = run,
                       .user = &a,
                       .count = (size_t)(queries * a.dv),
                       .tolerance = 5e-6};
    for (int i = Q; i <= V; i++) {
        const int64_t n = i == Q ? a.targets : a.length, heads = i == Q ? a.heads : a.kv_heads,
                      width = i == V ? a.dv : a.dk;
        c.inputs[i] = a.heads_first ? (gradient_input){4, {a.batch, heads, n, width}, host[i], false}
                                    : (gradient_input){3, {a.batch, n, heads * width}, host[i], false};
    }
    c.inputs[BIAS] = (gradient_input){.rank = a.rank, .host = host[BIAS]};
    memcpy(c.inputs[BIAS].dims, a.dims, sizeof(a.dims));
    gradient_check(&c);
    free(factors);
    for (int i = 0; i < 4; i++)
        free(host[i]);
}

/* A bias per score; shared by sequences, by heads, by queries, by keys, and by all. */
static void test_broadcast_bias_gradients_match_oracle(void **state) {
    (void)state;
    check(1, (biased){2, 5, 7, 2, 2, 8, 8, .rank = 4, .dims = {2, 2, 5, 7}});
    check(2, (biased){3, 9, 20, 2, 2, 17, 5, .rank = 4, .dims = {1, 2, 9, 20}});
    check(3, (biased){2, 5, 7, 2, 2, 8, 8, .rank = 4, .dims = {2, 1, 5, 7}});
    check(4, (biased){2, 5, 19, 2, 2, 8, 8, .rank = 2, .dims = {1, 19}});
    check(5, (biased){2, 5, 7, 2, 2, 8, 8, .rank = 3, .dims = {2, 5, 1}});
    check(6, (biased){2, 5, 7, 2, 2, 8, 8, .rank = 1, .dims = {1}});
    check(7, (biased){2, 5, 19, 2, 2, 8, 8, .rank = 3, .dims = {2, 5, 11}}); /* fewer columns than keys */
    check(8, (biased){1, 1, 1, 1, 1, 8, 8, .rank = 4, .dims = {1, 1, 1, 1}});
}

static void test_masked_bias_gradients_match_oracle(void **state) {
    (void)state;
    check(11, (biased){2, 20, 20, 2, 2, 8, 8, .rank = 4, .dims = {1, 2, 20, 20}, .causal = true});
    check(12, (biased){3, 9, 20, 2, 2, 8, 8, .rank = 4, .dims = {1, 2, 9, 20}, .padded = true});
    check(13, (biased){3, 9, 20, 4, 2, 8, 8, .rank = 4, .dims = {1, 4, 9, 20}, .padded = true, .causal = true,
                       .causal_bottom_right = true});
    check(14,
          (biased){2, 20, 20, 6, 1, 8, 8, .rank = 4, .dims = {1, 6, 20, 20}, .windowed = true, .heads_first = true});
    check(15, (biased){2, 6, 20, 4, 2, 8, 8, .rank = 4, .dims = {1, 1, 6, 20}, .cap = 1.5f});
}

/* Backward drops the weights that forward dropped, wherever a head's queries begin within a Philox block. */
static void test_bias_gradient_drops_what_forward_dropped(void **state) {
    (void)state;
    const tfm_dropout_options drops = {.rate = 0.3f, .seed = 7, .stream = 3};
    check(21, (biased){2, 17, 20, 2, 2, 8, 8, .rank = 4, .dims = {1, 2, 17, 20}, .dropout = drops});
    check(22, (biased){2, 5, 20, 6, 2, 8, 8, .rank = 4, .dims = {1, 6, 5, 20}, .dropout = drops, .causal = true});
    check(23, (biased){3, 3, 37, 6, 1, 17, 5, .rank = 3, .dims = {1, 3, 37}, .dropout = drops, .heads_first = true,
                       .padded = true});
    /* A sequence without keys: no tile of it is read. */
    check(24, (biased){3, 3, 37, 6, 1, 8, 8, .rank = 3, .dims = {1, 3, 37}, .dropout = drops, .heads_first = true,
                       .padded = true});
}

/* More rows than a work-group, more columns than one work-group, and a head too wide for private memory. */
static void test_large_bias_gradients_match_oracle(void **state) {
    (void)state;
    check(31, (biased){1, 70, 150, 1, 1, 8, 8, .rank = 4, .dims = {1, 1, 70, 150}});
    check(32, (biased){2, 131, 9, 1, 1, 8, 8, .rank = 4, .dims = {1, 1, 131, 9}});
    check(33, (biased){1, 2, 3, 1, 1, 600, 3, .rank = 4, .dims = {1, 1, 2, 3}});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broadcast_bias_gradients_match_oracle),
        cmocka_unit_test(test_masked_bias_gradients_match_oracle),
        cmocka_unit_test(test_bias_gradient_drops_what_forward_dropped),
        cmocka_unit_test(test_large_bias_gradients_match_oracle),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
