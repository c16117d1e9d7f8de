#include "nn/residual.h"

/* *out = x + dropout(added), or its norm for post-norm; it becomes the residual's x. */
static void add_pending(tfm_context *ctx, tfm_tensor *out, tfm__residual *s, const tfm_dropout_options *dropout) {
    tfm_tensor dropped = s->pending;
    const tfm_norm *after = s->post_norm;
    if (dropout && !(after && after->kind == TFM_NORM_LAYER)) {
        dropped = (tfm_tensor){0};
        tfm_dropout(ctx, &dropped, s->pending, dropout);
        dropout = NULL;
    }
    if (dropout)
        tfm_layernorm_dropout(ctx, out, NULL, s->x, dropped, after->gamma.value, after->beta.value, after->epsilon,
                              dropout);
    else if (after)
        tfm_norm_forward(ctx, out, NULL, after, s->x, dropped);
    else
        tfm_add(ctx, out, s->x, dropped);
    s->x = *out;
    s->pending = (tfm_tensor){0};
}

static tfm__fused_input fused_input_of(const tfm_norm *norm, tfm_tensor x, tfm_tensor residual) {
    return (tfm__fused_input){.x = x,
                              .residual = residual,
                              .normed = true,
                              .root_mean_square = norm->kind == TFM_NORM_RMS,
                              .gamma = norm->gamma.value,
                              .beta = norm->beta.value,
                              .epsilon = norm->epsilon};
}

/* Pre-norm with dropout: one op, which also returns the sum. */
static void norm_after_dropout(tfm_context *ctx, tfm_tensor *normed, tfm__residual *s, const tfm_norm *before,
                               const tfm_dropout_options *dropout) {
    tfm_tensor sum = {0}, dropped = {0};
    if (before->kind == TFM_NORM_LAYER) {
        tfm_layernorm_dropout(ctx, normed, &sum, s->x, s->pending, before->gamma.value, before->beta.value,
                              before->epsilon, dropout);
    } else {
        tfm_dropout(ctx, &dropped, s->pending, dropout);
        tfm_norm_forward(ctx, normed, &sum, before, s->x, dropped);
    }
    s->x = sum;
    s->pending = (tfm_tensor){0};
}

/* Input of linear layers, and the residual afterwards. */
typedef struct norm_linear_input {
    tfm__fused_input in;
    tfm_tensor whole, normed;
    bool materialized; /* the residual is already updated */
} norm_linear_input;

/* `r` must not move until input_end: the input points into it. */
static void input_begin(tfm_context *ctx, norm_linear_input *r, tfm__residual *s, const tfm_norm *before) {
    tfm_dropout_options draw;
    const tfm_dropout_options *dropout =
        s->pending.buffer ? tfm_dropout_next(s->training, &draw, TFM_DROPOUT_RESIDUAL) : NULL;
    *r = (norm_linear_input){.materialized = dropout && before && !s->post_norm};
    if (r->materialized) {
        norm_after_dropout(ctx, &r->normed, s, before, dropout);
        r->in.x = r->normed;
        return;
    }
    /* dropout is added separately; so is a sum without a norm, or with one on both sides */
    if (dropout || (s->pending.buffer && (s->post_norm != NULL) == (before != NULL)))
        add_pending(ctx, &r->whole, s, dropout);
    const bool joins = s->pending.buffer != NULL;
    if (joins && s->post_norm) {
        r->in = fused_input_of(s->post_norm, s->x, s->pending);
        r->in.norm = &r->whole;
    } else if (before) {
        r->in = fused_input_of(before, s->x, s->pending);
        r->in.sum = joins ? &r->whole : NULL;
    } else {
        r->in.x = s->x;
    }
}

static tfm_status input_end(tfm_context *ctx, const norm_linear_input *r, tfm__residual *s) {
    if (!r->materialized && s->pending.buffer) {
        s->x = r->whole;
        s->pending = (tfm_tensor){0};
    }
    return tfm_context_status(ctx);
}

tfm_status tfm__residual_linear(tfm_context *ctx, tfm__residual *s, const tfm_norm *before, int count,
                                const tfm__fused_output *layers, tfm_activation activation) {
    norm_linear_input r;
    input_begin(ctx, &r, s, before);
    tfm__fused_linear(ctx, &r.in, count, layers, activation);
    return input_end(ctx, &r, s);
}

tfm_status tfm__residual_linear_gated(tfm_context *ctx, tfm_tensor *y, tfm__residual *s, const tfm_norm *before,
                                      const tfm__fused_output *up_and_gate, tfm_activation activation) {
    norm_linear_input r;
    input_begin(ctx, &r, s, before);
    tfm__fused_linear_gated(ctx, &r.in, y, up_and_gate[0], up_and_gate[1], activation);
    return input_end(ctx, &r, s);
}

tfm_status tfm__residual_materialize(tfm_context *ctx, tfm_tensor *out, tfm__residual *s) {
    tfm_dropout_options draw;
    if (s->pending.buffer)
        add_pending(ctx, out, s, tfm_dropout_next(s->training, &draw, TFM_DROPOUT_RESIDUAL));
    else if (out->buffer)
        tfm__tensor_copy(ctx, *out, s->x);
    else
        *out = s->x;
    return tfm_context_status(ctx);
}
