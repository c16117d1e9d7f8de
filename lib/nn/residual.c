#include "nn/residual.h"

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

/* What layers read of a stream, and what it is afterwards. */
typedef struct reading {
    tfm__fused_input in;
    tfm_tensor whole, normed;
    bool settled; /* the stream is what it is afterwards */
} reading;

/* `r` must stay where it is until read_end: the input points into it. */
static void read_begin(tfm_context *ctx, reading *r, tfm__stream *s, const tfm_norm *before) {
    tfm_dropout_options draw;
    const tfm_dropout_options *dropout =
        s->added.buffer ? tfm_training_draw(s->training, &draw, TFM_DROP_RESIDUAL) : NULL;
    *r = (reading){.settled = dropout && before && !s->after};
    if (r->settled) {
        norm_dropped(ctx, &r->normed, s, before, dropout);
        r->in.x = r->normed;
        return;
    }
    /* What is dropped is joined apart; so is a sum without a norm, or with one on either side. */
    if (dropout || (s->added.buffer && (s->after != NULL) == (before != NULL)))
        join(ctx, &r->whole, s, dropout);
    const bool joins = s->added.buffer != NULL;
    if (joins && s->after) {
        r->in = input_of(s->after, s->x, s->added);
        r->in.norm = &r->whole;
    } else if (before) {
        r->in = input_of(before, s->x, s->added);
        r->in.sum = joins ? &r->whole : NULL;
    } else {
        r->in.x = s->x;
    }
}

static tfm_status read_end(tfm_context *ctx, const reading *r, tfm__stream *s) {
    if (!r->settled && s->added.buffer) {
        s->x = r->whole;
        s->added = (tfm_tensor){0};
    }
    return tfm_context_status(ctx);
}

tfm_status tfm__stream_read(tfm_context *ctx, tfm__stream *s, const tfm_norm *before, int count,
                            const tfm__fused_output *layers, tfm_activation activation) {
    reading r;
    read_begin(ctx, &r, s, before);
    tfm__fused_linear(ctx, &r.in, count, layers, activation);
    return read_end(ctx, &r, s);
}

tfm_status tfm__stream_read_gated(tfm_context *ctx, tfm_tensor *y, tfm__stream *s, const tfm_norm *before,
                                  const tfm__fused_output *up_and_gate, tfm_activation activation) {
    reading r;
    read_begin(ctx, &r, s, before);
    tfm__fused_linear_gated(ctx, &r.in, y, up_and_gate[0], up_and_gate[1], activation);
    return read_end(ctx, &r, s);
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
