/* Token sampling: cl/reduce/sample.cl. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "ops/reduce/sample.h"
#include "ops/selftest/selftest.h"
#include "ops/autograd/tape.h"

static tfm_status check_options(tfm_context *ctx, const tfm_sample_options *o) {
    if (!(o->temperature >= 0.0f) || isinf(o->temperature))
        return tfm__op_error(ctx, "sample", "temperature is %g: it must be positive, or 0 for 1",
                             (double)o->temperature);
    if (o->top_k < 0)
        return tfm__op_error(ctx, "sample", "top_k is %d: it must be positive, or 0 for all", o->top_k);
    if (!(o->top_p >= 0.0f && o->top_p <= 1.0f))
        return tfm__op_error(ctx, "sample", "top_p is %g: it must be at most 1 and positive, or 0 for 1",
                             (double)o->top_p);
    if (!(o->min_p >= 0.0f && o->min_p <= 1.0f))
        return tfm__op_error(ctx, "sample", "min_p is %g: it must be at most 1 and positive, or 0 for all",
                             (double)o->min_p);
    return TFM_OK;
}

tfm_status tfm_sample(tfm_context *ctx, tfm_tensor *ids, tfm_tensor *probabilities, tfm_tensor logits,
                      const tfm_sample_options *options) {
    return tfm__sample(ctx, ids, probabilities, logits, (tfm_tensor){0}, options);
}

/* Scalar kernel arguments, with room for them after the tensors. */
enum { SCALAR_ARGS = 8 };

static float inverse_temperature(const tfm_sample_options *options) {
    return options->temperature == 0.0f ? 1.0f : 1.0f / options->temperature;
}

/* The min-p threshold as a distance below the largest logit; unlimited if min p is off. */
static float min_p_distance_of(const tfm_sample_options *options) {
    return options->min_p == 0.0f ? INFINITY : -logf(options->min_p) / inverse_temperature(options);
}

static void scalar_args(tfm__arg *args, tfm_tensor logits, const tfm_sample_options *options) {
    const int64_t n = logits.dims[1], k = options->top_k == 0 || options->top_k > n ? n : options->top_k;
    const float inv_temperature = inverse_temperature(options), p = options->top_p == 0.0f ? 1.0f : options->top_p;
    const float min_p_distance = min_p_distance_of(options);
    const tfm__arg all[SCALAR_ARGS] = {TFM__I_AS("rows", logits.dims[0]),
                                       TFM__I(n),
                                       TFM__I(k),
                                       TFM__F(p),
                                       TFM__F(min_p_distance),
                                       TFM__F(inv_temperature),
                                       TFM__I_AS("seed", options->seed),
                                       TFM__I_AS("counter", options->step)};
    memcpy(args, all, sizeof(all));
}

static tfm_status begin(tfm_context *ctx, tfm_tensor logits, tfm_tensor streams, tfm_tensor sources,
                        const tfm_sample_options *options) {
    const char *op = "sample";
    if (TFM__OP_BEGIN(ctx, op, "fII", logits, streams, sources) != TFM_OK ||
        TFM__TAPE_NO_BACKWARD(ctx, op, logits) != TFM_OK || TFM__OP_OPTIONS(ctx, op, options) != TFM_OK ||
        check_options(ctx, options) != TFM_OK)
        return tfm_context_status(ctx);
    if (logits.rank != 2 || logits.dims[1] > 1 << 24)
        return tfm__op_error(ctx, op, "logits is %s: it must be (R, V), V at most 2^24", TFM__SHAPE(logits));
    return TFM_OK;
}

tfm_status tfm__sample(tfm_context *ctx, tfm_tensor *ids, tfm_tensor *probabilities, tfm_tensor logits,
                       tfm_tensor streams, const tfm_sample_options *options) {
    const char *op = "sample";
    const tfm_sample_options defaults = {0};
    const tfm_tensor none = {0};
    options = options ? options : &defaults;
    if (begin(ctx, logits, streams, none, options) != TFM_OK)
        return tfm_context_status(ctx);
    const int64_t rows = logits.dims[0];
    if (streams.buffer && (streams.rank != 1 || streams.dims[0] != rows))
        return tfm__op_error(ctx, op, "streams is %s: it must be (%lld)", TFM__SHAPE(streams), (long long)rows);
    if (tfm__op_output(ctx, op, ids, TFM_I32, 1, &rows) != TFM_OK ||
        (probabilities && tfm__op_output(ctx, op, probabilities, TFM_F32, 1, &rows) != TFM_OK))
        return tfm_context_status(ctx);
    const tfm_tensor probs = probabilities ? *probabilities : none;
    if (TFM__OP_NO_OVERLAP(ctx, op, *ids, logits, probs) != TFM_OK ||
        TFM__OP_NO_OVERLAP(ctx, op, probs, logits) != TFM_OK)
        return tfm_context_status(ctx);
    const tfm__arg tensors[] = {TFM__T_AS("ids", *ids), TFM__T_AS("probabilities", probs), TFM__T(logits),
                                TFM__T(streams)};
    tfm__arg args[TFM__COUNT(tensors) + SCALAR_ARGS];
    memcpy(args, tensors, sizeof(tensors));
    scalar_args(args + TFM__COUNT(tensors), logits, options);
    return tfm__launch(ctx, tfm__kernel_get(ctx, op, "sample", ""), tfm__row_grid(ctx, rows), TFM__COUNT(args), args);
}

tfm_status tfm__sample_with_scores(tfm_context *ctx, tfm_tensor *ids, tfm_tensor *values, tfm_tensor *lse,
                                   tfm_tensor logits, tfm_tensor streams, tfm_tensor sources,
                                   const tfm_sample_options *options) {
    const char *op = "sample";
    if (begin(ctx, logits, streams, sources, options) != TFM_OK)
        return tfm_context_status(ctx);
    const int64_t rows = logits.dims[0];
    if (streams.rank != 1 || sources.rank != 1 || sources.dims[0] != rows)
        return tfm__op_error(ctx, op, "streams is %s and sources %s: they must be (N) and (%lld)", TFM__SHAPE(streams),
                             TFM__SHAPE(sources), (long long)rows);
    if (tfm__op_output(ctx, op, ids, TFM_I32, 1, &rows) != TFM_OK ||
        tfm__op_output(ctx, op, values, TFM_F32, 1, &rows) != TFM_OK ||
        tfm__op_output(ctx, op, lse, TFM_F32, 1, &rows) != TFM_OK ||
        TFM__OP_NO_OVERLAP(ctx, op, *ids, logits, streams, sources, *values, *lse) != TFM_OK ||
        TFM__OP_NO_OVERLAP(ctx, op, *values, logits, streams, sources, *lse) != TFM_OK ||
        TFM__OP_NO_OVERLAP(ctx, op, *lse, logits, streams, sources) != TFM_OK)
        return tfm_context_status(ctx);
    const tfm__arg tensors[] = {TFM__T_AS("ids", *ids), TFM__T_AS("probabilities", ((tfm_tensor){0})),
                                TFM__T(logits),         TFM__T(streams),
                                TFM__T(sources),        TFM__T_AS("values", *values),
                                TFM__T_AS("lse", *lse)};
    tfm__arg args[TFM__COUNT(tensors) + SCALAR_ARGS];
    memcpy(args, tensors, sizeof(tensors));
    scalar_args(args + TFM__COUNT(tensors), logits, options);
    return tfm__launch(ctx, tfm__kernel_get(ctx, op, "sample", "-DWITH_SCORES"), tfm__row_grid(ctx, rows),
                       TFM__COUNT(args), args);
}

void tfm__sample_row(float *settings, int32_t *numbers, const tfm_sample_options *options, uint32_t stream) {
    const tfm_sample_options greedy = {.top_k = 1}, *o = options ? options : &greedy;
    settings[0] = o->top_k == 0 ? 0x1p30f : (float)o->top_k;
    settings[1] = o->top_p == 0.0f ? 1.0f : o->top_p;
    settings[2] = min_p_distance_of(o);
    settings[3] = inverse_temperature(o);
    numbers[0] = (int32_t)stream;
    numbers[1] = (int32_t)(uint32_t)o->seed;
    numbers[2] = (int32_t)(uint32_t)(o->seed >> 32);
    numbers[3] = (int32_t)(uint32_t)o->step;
    numbers[4] = (int32_t)(uint32_t)(o->step >> 32);
}

tfm_status tfm__sample_rows(tfm_context *ctx, tfm_tensor *ids, tfm_tensor logits, tfm_tensor settings,
                            tfm_tensor numbers) {
    const char *op = "sample";
    const tfm_sample_options none = {0};
    const int64_t rows = logits.dims[0];
    if (begin(ctx, logits, numbers, (tfm_tensor){0}, &none) != TFM_OK ||
        TFM__OP_BEGIN(ctx, op, "f", settings) != TFM_OK || tfm__op_output(ctx, op, ids, TFM_I32, 1, &rows) != TFM_OK)
        return tfm_context_status(ctx);
    if (tfm_tensor_count(settings) != (size_t)(rows * TFM__SAMPLE_SETTINGS) ||
        tfm_tensor_count(numbers) != (size_t)(rows * TFM__SAMPLE_NUMBERS))
        return tfm__op_error(ctx, op, "settings is %s and numbers %s: each of the %lld rows needs %d and %d",
                             TFM__SHAPE(settings), TFM__SHAPE(numbers), (long long)rows, TFM__SAMPLE_SETTINGS,
                             TFM__SAMPLE_NUMBERS);
    return tfm__launch(ctx, tfm__kernel_get(ctx, op, "sample", "-DPER_ROW"), tfm__row_grid(ctx, rows),
                       TFM__ARGS(TFM__T_AS("ids", *ids), TFM__T(logits), TFM__T(settings), TFM__T(numbers),
                                 TFM__I(rows), TFM__I_AS("n", logits.dims[1])));
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

/* Logits -i/8, with one far above: within the top 4 the probabilities are known, and the first random number of seed 0
 * is 0x6627e8d5 / 2^32, the published answer of Philox. */
static void check(tfm__check *c) {
    enum { V = 333, AT = 97 };
    tfm_tensor ids = {0}, probabilities = {0}, logits = {0};
    float *host = tfm__check_alloc(c, V, sizeof(*host));
    double *want = EXPECTED(1), total = 0, sum = 0;
    const double u = 0x6627e8 / 16777216.0;
    int32_t sampled = 0;
    for (int i = 0; host && i < V; i++)
        host[i] = -(float)abs(i - AT) / 8;
    tfm_tensor_new(c->ctx, &logits, TFM_F32, 2, (int64_t[]){1, V});
    if (host)
        tfm_tensor_write(c->ctx, logits, host);
    tfm_sample_options options = {.top_k = c->number ? 0 : 4};
    /* Kept by k: AT, both neighbors, and of the next two the one with the lower index; by p, 5 of them. */
    const int first = AT - 2, kept = c->number ? 5 : 4;
    for (int i = -2; c->number && i <= 2; i++)
        sum += exp(-abs(i) / 8.0);
    for (int i = 0; c->number && i < V; i++)
        total += exp(-abs(i - AT) / 8.0);
    if (c->number)
        options.top_p = (float)((sum - 0.5 * exp(-0.25)) / total); /* half of the fifth is missing */
    sum = 0;
    for (int i = 0; i < kept; i++)
        sum += exp(-abs(first + i - AT) / 8.0);
    double passed = 0;
    for (int i = 0; want && i < kept; i++) {
        const double weight = exp(-abs(first + i - AT) / 8.0) / sum;
        if (passed <= u) {
            sampled = first + i;
            *want = weight;
        }
        passed += weight;
    }
    tfm_sample(c->ctx, &ids, &probabilities, logits, &options);
    tfm__check_compare_ints(c, ids, &sampled);
    tfm__check_compare(c, probabilities, want);
}

const tfm__check_entry tfm__selftest_sample[] = {
    {"sample", "top k", check, 0},
    {"sample", "top p", check, 1},
    {0},
};
