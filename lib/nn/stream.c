#include "nn/stream.h"

/* *out = x + dropout(added), or the norm of it where that stands after; it is the stream's x from now on. */
static void join(tfm_context *ctx, tfm_tensor *out, tfm__stream *s, const tfm_dropout_options *dropout) {
    tfm_tensor dropped = s->added;
    const tfm_norm *after = s->after;
    if (dropout && !(after && after->kind == TFM_NORM_LAYER)) {
        dropped = (tfm_tensor){0};
        tfm_dropout(ctx, &dropped, s->added, dropout);
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
    s->added = (tfm_tensor){0};
}

static tfm__fused_input input_of(const tfm_norm *norm, tfm_tensor x, tfm_tensor residual) {
    return (tfm__fused_input){.x = x,
                              .residual = residual,
                              .normed = true,
                              .root_mean_square = norm->kind == TFM_NORM_RMS,
                              .gamma = norm->gamma.value,
                              .beta = norm->beta.value,
                              .epsilon = norm->epsilon};
}

/* Norm before, and dropout: one op, which has the sum too. */
static void norm_dropped(tfm_context *ctx, tfm_tensor *normed, tfm__stream *s, const tfm_norm *before,
                         const tfm_dropout_options *dropout) {
    tfm_tensor sum = {0}, dropped = {0};
    if (before->kind == TFM_NORM_LAYER) {
        tfm_layernorm_dropout(ctx, normed, &sum, s->x, s->added, before->gamma.value, before->beta.value,
                              before->epsilon, dropout);
    } else {
        tfm_dropout(ctx, &dropped, s->added, dropout);
        tfm_norm_forward(ctx, normed, &sum, before, s->x, dropped);
    }
    s->x = sum;
    s->added = (tfm_tensor){0};
}

/* What reads the stream: layers, or two of which one is the gate of the other. */
typedef struct reader {
    int count;
    const tfm__fused_output *layers;
    tfm_activation activation;
    tfm_tensor *gated; /* gets the result of the two; NULL: the layers have theirs */
} reader;

static tfm_status run(tfm_context *ctx, const tfm__fused_input *in, const reader *r) {
    return r->gated ? tfm__fused_linear_gated(ctx, in, r->gated, r->layers[0], r->layers[1], r->activation)
                    : tfm__fused_linear(ctx, in, r->count, r->layers, r->activation);
}

static tfm_status read_by(tfm_context *ctx, tfm__stream *s, const tfm_norm *before, const reader *r) {
    tfm_dropout_options draw;
    const tfm_dropout_options *dropout =
        s->added.buffer ? tfm_training_draw(s->training, &draw, TFM_DROP_RESIDUAL) : NULL;
    tfm__fused_input in = {0};
    tfm_tensor whole = {0}, normed = {0};
    if (dropout && before && !s->after) {
        norm_dropped(ctx, &normed, s, before, dropout);
        in.x = normed;
        return run(ctx, &in, r);
    }
    /* What is dropped is joined apart; so is a sum without a norm, or with one on either side. */
    if (dropout || (s->added.buffer && (s->after != NULL) == (before != NULL)))
        join(ctx, &whole, s, dropout);
    const bool joins = s->added.buffer != NULL;
    if (joins && s->after) {
        in = input_of(s->after, s->x, s->added);
        in.norm = &whole;
    } else if (before) {
        in = input_of(before, s->x, s->added);
        in.sum = joins ? &whole : NULL;
    } else {
        in.x = s->x;
    }
    run(ctx, &in, r);
    if (s->added.buffer) {
        s->x = whole;
        s->added = (tfm_tensor){0};
    }
    return tfm_context_status(ctx);
}

tfm_status tfm__stream_read(tfm_context *ctx, tfm__stream *s, const tfm_norm *before, int count,
                            const tfm__fused_output *layers, tfm_activation activation) {
    return read_by(ctx, s, before, &(reader){.count = count, .layers = layers, .activation = activation});
}

tfm_status tfm__stream_read_gated(tfm_context *ctx, tfm_tensor *y, tfm__stream *s, const tfm_norm *before,
                                  const tfm__fused_output *up_and_gate, tfm_activation activation) {
    return read_by(ctx, s, before, &(reader){.layers = up_and_gate, .activation = activation, .gated = y});
}

tfm_status tfm__stream_settle(tfm_context *ctx, tfm_tensor *out, tfm__stream *s) {
    tfm_dropout_options draw;
    if (s->added.buffer)
        join(ctx, out, s, tfm_training_draw(s->training, &draw, TFM_DROP_RESIDUAL));
    else if (out->buffer)
        tfm__tensor_copy(ctx, *out, s->x);
    else
        *out = s->x;
    return tfm_context_status(ctx);
}
