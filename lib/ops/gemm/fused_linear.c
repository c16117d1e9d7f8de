/* Linear layers of one input with the preceding norm: one launch for few rows if the device has the kernel, else
 * grouped GEMM, else one layer at a time. */
#include "ops/gemm/fused_linear.h"
#include <string.h>
#include "ops/gemm/gemm_gpu_skinny.h"

static tfm_status norm(tfm_context *ctx, tfm_tensor *y, const tfm__fused_input *in) {
    return in->root_mean_square ? tfm_rmsnorm(ctx, y, in->sum, in->x, in->residual, in->gamma, -1, in->epsilon)
                                : tfm_layernorm(ctx, y, in->sum, in->x, in->residual, in->gamma, in->beta, in->epsilon);
}

static tfm_status run_unfused(tfm_context *ctx, const tfm__fused_input *in, int count, const tfm__fused_output *out,
                              tfm_activation activation) {
    tfm_tensor own = {0}, *x = in->norm ? in->norm : &own;
    tfm_tensor *kept[TFM__GEMM_MAX_GROUP + 2] = {in->norm ? in->norm : &own, in->sum ? in->sum : &own};
    tfm_scope_open(ctx);
    if (in->normed)
        norm(ctx, x, in);
    const bool joined = tfm__linear_grouped(ctx, in->normed ? *x : in->x, count, out, activation);
    for (int i = 0; i < count; i++) {
        kept[2 + i] = out[i].y;
        if (joined)
            continue;
        tfm_tensor wide = {0};
        const bool narrow = out[i].y && tfm__is_half(*out[i].y);
        tfm_linear(ctx, narrow ? &wide : out[i].y, in->normed ? *x : in->x, out[i].weight, out[i].bias, activation);
        if (narrow) {
            tfm__cast_saturating(ctx, *out[i].y, wide);
            tfm_tensor_free(ctx, &wide);
        }
    }
    if (!in->norm)
        tfm_tensor_free(ctx, &own);
    return tfm_scope_close(ctx, (size_t)count + 2, kept);
}

/* Plans output `i`; false: the weights do not fit into one launch. */
static bool plan_output(tfm_context *ctx, tfm__skinny_launch *l, const tfm__fused_input *in, int i,
                        const tfm__fused_output *out, tfm_activation activation) {
    const tfm_tensor w = out[i].weight->value, bias = out[i].bias;
    const tfm_dtype kept = out[i].y && tfm__is_half(*out[i].y) ? out[i].y->dtype : l->kept;
    if (l->kept != TFM_F32 && kept != l->kept)
        return false;
    l->kept = kept;
    if (!w.buffer || w.dtype > TFM_BF16 || w.dtype != out[0].weight->value.dtype || w.rank != 2 || w.dims[1] != l->k ||
        TFM__TAPE_REQUIRES_GRAD(ctx, w, bias) || (bias.buffer && (bias.rank != 1 || bias.dims[0] != w.dims[0])))
        return false;
    l->w[i] = w;
    l->bias[i] = bias;
    l->n[i] = w.dims[0];
    return tfm__gemm_select(ctx, &(tfm__gemm_task){.batch = 1,
                                                   .m = l->m,
                                                   .n = l->n[i],
                                                   .k = l->k,
                                                   .a = in->x,
                                                   .b = w,
                                                   .bias = bias,
                                                   .transpose_b = true,
                                                   .shared_b = true,
                                                   .alpha = 1,
                                                   .activation = activation,
                                                   .weight = out[i].weight}) == &tfm__gemm_gpu_skinny;
}

/* Plans the fused launch, with the argument checks of the ops it replaces; false: run those ops instead. */
static bool plan(tfm_context *ctx, tfm__skinny_launch *l, const tfm__fused_input *in, int count,
                 const tfm__fused_output *out, tfm_activation activation) {
    const tfm_tensor *params[] = {&in->gamma, &in->beta, &in->residual, &in->x};
    if (tfm_context_status(ctx) != TFM_OK || tfm__linear_get_observer(ctx) || !in->x.buffer ||
        (in->sum && !tfm__skinny_aligned_vec4(*in->sum)) || (in->norm && !tfm__skinny_aligned_vec4(*in->norm)) ||
        TFM__TAPE_REQUIRES_GRAD(ctx, in->x, in->residual, in->gamma, in->beta))
        return false;
    for (size_t i = 0; i < TFM__COUNT(params); i++)
        if (!tfm__skinny_aligned_vec4(*params[i]) ||
            (params[i]->buffer && tfm__last_dim(*params[i]) != tfm__last_dim(in->x)))
            return false;
    if (in->residual.buffer && (!in->normed || !tfm__same_dims(in->residual, in->x)))
        return false;
    *l = (tfm__skinny_launch){
        .a = in->x, .m = tfm__row_count(in->x), .k = tfm__last_dim(in->x), .activation = activation};
    if (in->normed) {
        l->norm = in->root_mean_square ? 2 : 1;
        l->residual = in->residual;
        l->gamma = in->gamma;
        l->beta = in->beta;
        l->epsilon = in->epsilon;
    }
    for (int i = 0; i < count; i++)
        if (!plan_output(ctx, l, in, i, out, activation))
            return false;
    l->stored = out[0].weight->value.dtype;
    return !in->normed || tfm__skinny_fits_norm(ctx, l->m, l->k);
}

/* Creates the outputs of a launch for `count` layers (a gate layer has none) and enqueues it. */
static tfm_status launch_fused(tfm_context *ctx, tfm__skinny_launch *l, const tfm__fused_input *in, int count,
                               const tfm__fused_output *out) {
    const char *op = "linear";
    if (TFM__OP_BEGIN(ctx, op, "fFFF", in->x, l->residual, l->gamma, l->beta) != TFM_OK)
        return tfm_context_status(ctx);
    for (int i = 0; i < count; i++) {
        int64_t dims[TFM_MAX_RANK];
        memcpy(dims, in->x.dims, sizeof(dims));
        dims[in->x.rank - 1] = l->n[i];
        if (TFM__OP_BEGIN(ctx, op, "hF", l->w[i], l->bias[i]) != TFM_OK)
            return tfm_context_status(ctx);
        if (l->n[i] == 0)
            continue;
        const tfm_dtype dtype = out[i].y && tfm__is_half(*out[i].y) ? out[i].y->dtype : TFM_F32;
        if (tfm__op_output(ctx, op, out[i].y, dtype, in->x.rank, dims) != TFM_OK ||
            TFM__OP_NO_OVERLAP(ctx, op, *out[i].y, in->x, l->residual, l->w[i], l->bias[i]) != TFM_OK)
            return tfm_context_status(ctx);
        l->c[i] = *out[i].y;
    }
    tfm_tensor *more[] = {in->normed ? in->sum : NULL, in->normed ? in->norm : NULL}, *to[] = {&l->sum, &l->normed};
    for (int i = 0; i < 2; i++) {
        if (!more[i])
            continue;
        if (tfm__op_output_like(ctx, op, more[i], in->x) != TFM_OK ||
            TFM__OP_NO_OVERLAP(ctx, op, *more[i], in->x, l->residual, l->gamma, l->beta) != TFM_OK)
            return tfm_context_status(ctx);
        *to[i] = *more[i];
    }
    return tfm__skinny_enqueue(ctx, l);
}

tfm_status tfm__fused_linear(tfm_context *ctx, const tfm__fused_input *in, int count, const tfm__fused_output *out,
                             tfm_activation activation) {
    tfm__skinny_launch l;
    if (count > TFM__GEMM_MAX_GROUP)
        return tfm__op_error(ctx, "linear", "%d layers of one input: at most %d are supported", count,
                             TFM__GEMM_MAX_GROUP);
    if (!plan(ctx, &l, in, count, out, activation) || (!in->normed && count == 1))
        return run_unfused(ctx, in, count, out, activation);
    return launch_fused(ctx, &l, in, count, out);
}

tfm_status tfm__fused_linear_gated(tfm_context *ctx, const tfm__fused_input *in, tfm_tensor *y, tfm__fused_output up,
                                   tfm__fused_output gate, tfm_activation activation) {
    tfm__skinny_launch l;
    tfm_tensor values = {0}, gates = {0};
    if (plan(ctx, &l, in, 2, (tfm__fused_output[]){up, gate}, TFM_NO_ACTIVATION) && l.n[0] == l.n[1]) {
        l.gated = true;
        l.activation = activation;
        l.n[1] = 0;
        up.y = y;
        return launch_fused(ctx, &l, in, 2, (tfm__fused_output[]){up, gate});
    }
    up.y = &values;
    gate.y = &gates;
    tfm_scope_open(ctx);
    run_unfused(ctx, in, 2, (tfm__fused_output[]){up, gate}, TFM_NO_ACTIVATION);
    tfm_glu(ctx, y, values, gates, activation, TFM_GLU_GATE_FIRST);
    return tfm_scope_close(ctx, 3, (tfm_tensor *[]){y, in->sum, in->norm}); /* tfm_scope_close skips NULL */
}
