/* Entry points of GEMM: argument checks and tape records. */
#include <inttypes.h>
#include <string.h>
#include "ops/gemm/gemm.h"
#include "ops/gemm/quantize.h"
#include "ops/autograd/tape.h"
#include "ops/quant/quant.h"

/* The tape needs the pre-activation of any activation except ReLU, so that activation becomes a separate op. */
static tfm_status multiply_on_tape(tfm_context *ctx, const char *op, const tfm__gemm_provider *provider,
                                   const tfm__gemm_task *task) {
    if (task->accumulate)
        return tfm__op_error(ctx, op, "accumulating has no backward pass: stop the tape first");
    if (task->activation <= TFM_RELU) {
        tfm__gemm_dispatch(ctx, provider, task);
        return tfm__gemm_record(ctx, op, task);
    }
    tfm__gemm_task inner = *task;
    tfm_tensor y = task->c;
    inner.activation = TFM_NO_ACTIVATION;
    inner.c = (tfm_tensor){0};
    tfm_tensor_new(ctx, &inner.c, TFM_F32, y.rank, y.dims);
    if (tfm_context_status(ctx) == TFM_OK)
        tfm__gemm_dispatch(ctx, provider, &inner);
    tfm__gemm_record(ctx, op, &inner);
    tfm_activate(ctx, &y, inner.c, task->activation);
    tfm_tensor_free(ctx, &inner.c); /* the tape keeps it */
    return tfm_context_status(ctx);
}

/* Checks the rest, creates c and runs the GEMM. m, n, k and the inputs are set in the task; `dims`: c's. */
static tfm_status check_and_multiply(tfm_context *ctx, const char *op, const tfm__gemm_provider *provider,
                                     const char **why, tfm_tensor *c, tfm__gemm_task *task, int rank,
                                     const int64_t *dims) {
    if (task->activation < TFM_NO_ACTIVATION || task->activation >= TFM_ACTIVATIONS)
        return tfm__op_error(ctx, op, "there is no activation number %d", (int)task->activation);
    if (task->bias.buffer && (task->bias.rank != 1 || task->bias.dims[0] != task->n))
        return tfm__op_error(ctx, op, "the bias is %s, the result has %" PRId64 " columns", TFM__SHAPE(task->bias),
                             task->n);
    if (task->m > INT32_MAX || task->n > INT32_MAX || task->k > INT32_MAX)
        return tfm__op_error(ctx, op, "a %s by b %s: rows and columns must stay below 2^31", TFM__SHAPE(task->a),
                             TFM__SHAPE(task->b));
    if (task->accumulate && (!c || !c->buffer || task->bias.buffer || task->activation != TFM_NO_ACTIVATION))
        return tfm__op_error(ctx, op, "to accumulate it needs a c to add to, and neither bias nor activation");
    const tfm_tensor scales = task->weight ? task->weight->scales : (tfm_tensor){0};
    if (tfm__op_output(ctx, op, c, TFM_F32, rank, dims) != TFM_OK ||
        TFM__OP_NO_OVERLAP(ctx, op, *c, task->a, task->b, task->bias, scales) != TFM_OK)
        return tfm_context_status(ctx);
    task->c = *c;
    const char *reason = provider ? tfm__gemm_declines(ctx, provider, task) : NULL;
    if (why)
        *why = reason;
    if (reason)
        return tfm_context_status(ctx);
    return TFM__TAPE_REQUIRES_GRAD(ctx, task->a, task->b, task->bias) ? multiply_on_tape(ctx, op, provider, task)
                                                                      : tfm__gemm_dispatch(ctx, provider, task);
}

tfm_status tfm__gemm_with(tfm_context *ctx, const tfm__gemm_provider *provider, const char **why, tfm_tensor *c,
                          tfm_tensor a, tfm_tensor b, const tfm_gemm_options *options) {
    static const tfm_gemm_options none;
    const tfm_gemm_options *o = options ? options : &none;
    if (why)
        *why = NULL;
    if (TFM__OP_BEGIN(ctx, "gemm", "ffF", a, b, o->bias) != TFM_OK || TFM__OP_OPTIONS(ctx, "gemm", o) != TFM_OK)
        return tfm_context_status(ctx);
    if (a.rank < 2 || b.rank < 2)
        return tfm__op_error(ctx, "gemm", "a %s and b %s must have two dimensions at least", TFM__SHAPE(a),
                             TFM__SHAPE(b));
    const int64_t *a_last = a.dims + a.rank - 2, *b_last = b.dims + b.rank - 2;
    const int ta = o->transpose_a, tb = o->transpose_b;
    tfm__gemm_task task = {.batch = 1, .m = a_last[ta], .n = b_last[!tb], .k = a_last[!ta], .a = a, .b = b};
    if (task.k != b_last[tb])
        return tfm__op_error(ctx, "gemm", "a %s%s and b %s%s disagree on the inner dimension", TFM__SHAPE(a),
                             ta ? " transposed" : "", TFM__SHAPE(b), tb ? " transposed" : "");
    if (b.rank > 2 && (a.rank != b.rank || memcmp(a.dims, b.dims, (size_t)(a.rank - 2) * sizeof(*a.dims)) != 0))
        return tfm__op_error(ctx, "gemm", "a %s and b %s disagree on the batch", TFM__SHAPE(a), TFM__SHAPE(b));
    int64_t dims[TFM_MAX_RANK] = {0};
    for (int i = 0; i < a.rank - 2; i++)
        task.batch *= dims[i] = a.dims[i];
    dims[a.rank - 2] = task.m;
    dims[a.rank - 1] = task.n;
    task.shared_b = b.rank == 2;
    if (task.shared_b && !ta) { /* b is shared: fold the batch into the rows */
        task.m *= task.batch;
        task.batch = 1;
    }
    task.transpose_a = ta;
    task.transpose_b = tb;
    task.alpha = o->alpha != 0.0f ? o->alpha : 1.0f;
    task.bias = o->bias;
    task.accumulate = o->accumulate;
    task.activation = o->activation;
    return check_and_multiply(ctx, "gemm", provider, why, c, &task, a.rank, dims);
}

tfm_status tfm_gemm(tfm_context *ctx, tfm_tensor *c, tfm_tensor a, tfm_tensor b, const tfm_gemm_options *options) {
    return tfm__gemm_with(ctx, NULL, NULL, c, a, b, options);
}

tfm_status tfm__gemm_param(tfm_context *ctx, tfm_tensor *c, tfm_tensor a, tfm_param *b) {
    if (TFM__OP_BEGIN(ctx, "gemm", "ff", a, b->value) != TFM_OK)
        return tfm_context_status(ctx);
    tfm__gemm_task task = {
        .batch = 1,
        .m = a.dims[0],
        .n = b->value.dims[1],
        .k = a.dims[1],
        .a = a,
        .b = b->value,
        .shared_b = true,
        .alpha = 1.0f,
        .weight = b,
    };
    return check_and_multiply(ctx, "gemm", NULL, NULL, c, &task, 2, (int64_t[]){task.m, task.n});
}

/* Extra checks of an int8 weight. */
static tfm_status check_int8(tfm_context *ctx, tfm_tensor x, const tfm_param *weight, tfm_tensor bias) {
    const tfm_tensor w = weight->value, scales = weight->scales;
    if (TFM__OP_BEGIN(ctx, "linear", "fbfF", x, w, scales, bias) != TFM_OK)
        return tfm_context_status(ctx);
    if (w.rank == 2 && w.dims[1] > TFM__INT8_MAX_K)
        return tfm__op_error(ctx, "linear", "x %s does not fit a weight %s, which must be (N, K) with K up to %d",
                             TFM__SHAPE(x), TFM__SHAPE(w), TFM__INT8_MAX_K);
    if (scales.rank != 1 || scales.dims[0] != w.dims[0])
        return tfm__op_error(ctx, "linear", "the weight is %s and its scales %s: one for each row is needed",
                             TFM__SHAPE(w), TFM__SHAPE(scales));
    return TFM_OK;
}

static tfm_status linear_with(tfm_context *ctx, const tfm__gemm_provider *provider, const char **why, tfm_tensor *y,
                              tfm_tensor x, tfm_param *weight, tfm_tensor bias, tfm_activation activation) {
    if (why)
        *why = NULL;
    const tfm__linear_observer *observer = tfm__linear_get_observer(ctx);
    if (observer && weight && x.buffer && observer->before(observer->user, x, weight) != TFM_OK)
        return tfm_context_status(ctx);
    if (weight && weight->block_type) {
        if (why && provider)
            *why = "the weight is block-quantized";
        return provider ? tfm_context_status(ctx)
                        : tfm__quant_linear(ctx, x, 1, &(tfm__fused_output){y, weight, bias}, activation,
                                            tfm__quant_activation_of(weight));
    }
    tfm_tensor w = weight ? weight->value : (tfm_tensor){0};
    if (w.dtype == TFM_I8 ? check_int8(ctx, x, weight, bias) != TFM_OK
                          : TFM__OP_BEGIN(ctx, "linear", "fhF", x, w, bias) != TFM_OK)
        return tfm_context_status(ctx);
    if (w.rank != 2 || tfm__last_dim(x) != w.dims[1])
        return tfm__op_error(ctx, "linear", "x %s does not fit a weight %s, which must be (N, K)", TFM__SHAPE(x),
                             TFM__SHAPE(w));
    if (w.dtype != TFM_F32 && TFM__TAPE_REQUIRES_GRAD(ctx, x, w, bias))
        return tfm__op_error(ctx, "linear",
                             w.dtype == TFM_I8
                                 ? "an int8 weight has no backward pass: open the model in floating point to train it"
                                 : "an F16 or BF16 weight has no backward pass: open the model as fp32 to train it");
    tfm__gemm_task task = {
        .batch = 1,
        .m = tfm__row_count(x),
        .n = w.dims[0],
        .k = w.dims[1],
        .a = x,
        .b = w,
        .bias = bias,
        .transpose_b = true,
        .shared_b = true,
        .alpha = 1.0f,
        .activation = activation,
        .weight = weight,
    };
    int64_t dims[TFM_MAX_RANK];
    memcpy(dims, x.dims, sizeof(dims));
    dims[x.rank - 1] = task.n;
    return check_and_multiply(ctx, "linear", provider, why, y, &task, x.rank, dims);
}

tfm_status tfm_linear(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_param *weight, tfm_tensor bias,
                      tfm_activation activation) {
    if (TFM__NEEDS_ON(ctx, "linear", y, weight) != TFM_OK)
        return tfm_context_status(ctx);
    return linear_with(ctx, NULL, NULL, y, x, weight, bias, activation);
}

/* ---- Providers by name ---- */

const char *tfm_gemm_provider(size_t index) {
    return index < TFM__GEMM_PROVIDERS ? tfm__gemm_providers[index]->name : NULL;
}

const char *tfm_gemm_select(tfm_context *ctx, int64_t m, int64_t n, int64_t k) {
    const tfm__gemm_task task = {.batch = 1, .m = m, .n = n, .k = k, .shared_b = true, .alpha = 1.0f};
    if (tfm__context_sticky(ctx) != TFM_OK)
        return NULL;
    if (m < 1 || n < 1 || k < 1) {
        tfm__op_error(ctx, "gemm_select", "m, n and k are %lld, %lld and %lld: they must be at least 1", (long long)m,
                      (long long)n, (long long)k);
        return NULL;
    }
    const tfm__gemm_provider *provider = tfm__gemm_select(ctx, &task);
    return provider ? provider->name : NULL;
}

/* *out: the provider of that name, NULL for NULL. */
static tfm_status provider_named(tfm_context *ctx, const char *op, const tfm__gemm_provider **out, const char *name) {
    *out = name ? tfm__gemm_find_provider(name) : NULL;
    if (name && !*out)
        return tfm__op_error(ctx, op, "there is no provider '%s': tfm_gemm_provider lists them", name);
    return tfm__context_sticky(ctx);
}

tfm_status tfm_gemm_with(tfm_context *ctx, const char *provider, const char **declined, tfm_tensor *c, tfm_tensor a,
                         tfm_tensor b, const tfm_gemm_options *options) {
    const tfm__gemm_provider *found;
    if (!declined)
        return tfm__op_error(ctx, "gemm", "gemm_by needs a place for why a provider declines");
    *declined = NULL;
    const tfm_status status = provider_named(ctx, "gemm", &found, provider);
    return status == TFM_OK ? tfm__gemm_with(ctx, found, declined, c, a, b, options) : status;
}

tfm_status tfm_linear_with(tfm_context *ctx, const char *provider, const char **declined, tfm_tensor *y, tfm_tensor x,
                           tfm_param *weight, tfm_tensor bias, tfm_activation activation) {
    if (TFM__NEEDS_ON(ctx, "linear_by", weight) != TFM_OK)
        return tfm_context_status(ctx);
    const tfm__gemm_provider *found;
    if (!declined)
        return tfm__op_error(ctx, "linear", "linear_by needs a place for why a provider declines");
    *declined = NULL;
    const tfm_status status = provider_named(ctx, "linear", &found, provider);
    return status == TFM_OK ? linear_with(ctx, found, declined, y, x, weight, bias, activation) : status;
}
