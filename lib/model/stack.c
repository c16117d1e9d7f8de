/* The one forward of a stack: embedding and positions, its blocks, its final norm. Encoder and decoder differ by their
 * arch alone. */
#include "model/model.h"
#include "nn/stream.h"

void tfm__model_set_training(tfm_model *model, tfm_training *training) {
    model->training = training;
    for (int i = 0; i < model->arch.encoder.layers; i++)
        model->encoder.blocks[i].training = model->encoder.blocks[i].feed_forward.training = training;
    for (int i = 0; i < model->arch.decoder.layers; i++)
        model->decoder.blocks[i].training = model->decoder.blocks[i].feed_forward.training = training;
}

/* What one pass through a stack works on besides ids. */
typedef struct pass {
    const tfm__stack *stack;
    const tfm__stack_arch *arch;
    int64_t position;         /* of the first id of each row */
    tfm_tensor lengths;       /* (B) of the stack's own input, or empty */
    tfm_tensor encoded;       /* (N, S, E) to be projected by each block, or empty: `step` has it */
    tfm_tensor cross_lengths; /* (N) */
    const tfm__step *step;    /* NULL: whole sequences */
    tfm__observer *observer;  /* or NULL */
    tfm_attention_kind own, cross;
} pass;

static bool has_stopped(const pass *p) {
    return p->observer && p->observer->stopped;
}

/* x (B, T, E) = embedding * scale + positions, then the norm over it where the stack has one, and in training
 * dropout. */
static tfm_status embed(tfm_model *model, tfm_tensor *x, const pass *p, tfm_tensor ids) {
    tfm_context *ctx = model->ctx;
    const tfm__stack *stack = p->stack;
    tfm_dropout_options draw;
    const tfm_dropout_options *dropout = tfm_training_draw(model->training, TFM_DROP_RESIDUAL, &draw);
    const bool normed = p->arch->embedding_norm;
    tfm_tensor sum = {0}, between = {0};
    tfm_scope_open(ctx);
    tfm_embedding(ctx, normed || dropout ? &sum : x, stack->table->value, ids, p->arch->embedding_scale,
                  stack->positions, p->position);
    if (normed)
        tfm_norm_forward(ctx, dropout ? &between : x, NULL, &stack->embedding_norm, sum, (tfm_tensor){0});
    if (dropout)
        tfm_dropout(ctx, x, normed ? between : sum, dropout);
    return tfm_scope_close(ctx, 1, (tfm_tensor *[]){x});
}

tfm_status tfm__model_embed_target(tfm_model *model, tfm_tensor *x, tfm_tensor ids, int64_t position) {
    return embed(model, x, &(pass){.stack = &model->decoder, .arch = &model->arch.decoder, .position = position}, ids);
}

/* ---- Blocks ---- */

static bool is_wanted(const pass *p, tfm_attention_kind kind, int layer) {
    const tfm__observer *o = p->observer;
    return o && !o->stopped && (!o->wants || o->wants(o->user, kind, layer));
}

/* Shows one layer's weights to the observer. There are none where he does not want them, and after a failure. */
static void show(tfm_model *model, const pass *p, tfm_attention_kind kind, int layer, tfm_tensor weights) {
    if (weights.buffer && !has_stopped(p) && tfm_context_status(model->ctx) == TFM_OK)
        p->observer->stopped = !p->observer->see(p->observer->user, kind, layer, &weights);
}

static void run_block(tfm_model *model, int layer, tfm__stream *stream, const pass *p) {
    tfm_context *ctx = model->ctx;
    tfm_block *block = &p->stack->blocks[layer];
    const bool cross = p->arch->cross;
    tfm_block_memory memory = {.lengths = p->lengths, .cross_lengths = p->cross_lengths};
    tfm_tensor own = {0}, over_source = {0};
    tfm_scope_open(ctx);
    if (p->step) {
        const int64_t rows = stream->x.dims[0];
        memory.cross = cross ? p->step->cross[layer] : memory.cross;
        memory.cross_lengths = p->step->cross_lengths;
        memory.cross_sources = p->step->sources;
        memory.log = p->step->cache->logs[layer];
        memory.rows = p->step->table;
        tfm_tensor_rows(ctx, &memory.fresh.keys, memory.log.keys, p->step->node, rows);
        tfm_tensor_rows(ctx, &memory.fresh.values, memory.log.values, p->step->node, rows);
    } else if (cross) {
        tfm_multi_head_project(ctx, &memory.cross, &block->cross, p->encoded);
    }
    tfm__block_run(ctx, stream, is_wanted(p, p->own, layer) ? &own : NULL,
                   cross && is_wanted(p, p->cross, layer) ? &over_source : NULL, block, &memory);
    show(model, p, p->own, layer, own);
    show(model, p, p->cross, layer, over_source);
    tfm_scope_close(ctx, 2, (tfm_tensor *[]){&stream->x, &stream->added});
}

/* What a block has read is given back: memory for one layer at a time. */
static void run_blocks(tfm_model *model, tfm__stream *stream, const pass *p) {
    for (int i = 0; i < p->arch->layers && !has_stopped(p); i++) {
        tfm__stream read = *stream;
        run_block(model, i, stream, p);
        tfm_tensor_free(model->ctx, &read.added);
        if (read.x.buffer != stream->x.buffer)
            tfm_tensor_free(model->ctx, &read.x);
    }
}

/* out (B, T, E): all of a stack, from ids (B, T) to the norm at its end. Empty where the observer stopped it. */
static tfm_status run_stack(tfm_model *model, tfm_tensor *out, tfm_tensor ids, const pass *p) {
    tfm_context *ctx = model->ctx;
    tfm__stream stream = {0};
    tfm_tensor last = {0};
    tfm_scope_open(ctx);
    embed(model, &stream.x, p, ids);
    run_blocks(model, &stream, p);
    if (!has_stopped(p)) {
        tfm__stream_settle(ctx, p->arch->final_norm ? &last : out, &stream);
        if (p->arch->final_norm)
            tfm_norm_forward(ctx, out, NULL, &p->stack->final_norm, last, (tfm_tensor){0});
    }
    return tfm_scope_close(ctx, 1, (tfm_tensor *[]){out});
}

/* ---- Passes ---- */

static tfm_status check_ids(tfm_model *model, const char *what, tfm_tensor ids, int max_positions) {
    if (TFM__OP_BEGIN(model->ctx, what, "i", ids) != TFM_OK)
        return tfm_context_status(model->ctx);
    if (ids.rank != 2 || ids.dims[1] > max_positions)
        return tfm__op_refuse(model->ctx, what, "ids are %s: (B, T) with T up to %d, the model's positions, is needed",
                              TFM__SHAPE(ids), max_positions);
    return TFM_OK;
}

tfm_status tfm_model_encode(tfm_model *model, tfm_tensor *encoded, tfm_tensor ids, tfm_tensor lengths) {
    if (TFM__NEEDS("model_encode", model, encoded) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    return tfm__model_encode_observed(model, encoded, ids, lengths, NULL);
}

tfm_status tfm__model_encode_observed(tfm_model *model, tfm_tensor *encoded, tfm_tensor ids, tfm_tensor lengths,
                                      tfm__observer *observer) {
    const tfm__stack_arch *arch = &model->arch.encoder;
    if (check_ids(model, "model_encode", ids, arch->max_positions) != TFM_OK)
        return tfm_context_status(model->ctx);
    return run_stack(
        model, encoded, ids,
        &(pass){
            .stack = &model->encoder, .arch = arch, .lengths = lengths, .observer = observer, .own = TFM_ENCODER_SELF});
}

tfm_status tfm__model_decode_hidden(tfm_model *model, tfm_tensor *hidden, tfm_tensor ids, tfm_tensor encoded,
                                    tfm_tensor lengths, tfm__observer *observer) {
    const tfm__stack_arch *arch = &model->arch.decoder;
    if (check_ids(model, "model_decode", ids, arch->max_positions) != TFM_OK)
        return tfm_context_status(model->ctx);
    return run_stack(model, hidden, ids,
                     &(pass){.stack = &model->decoder,
                             .arch = arch,
                             .encoded = encoded,
                             .cross_lengths = lengths,
                             .observer = observer,
                             .own = TFM_DECODER_SELF,
                             .cross = TFM_DECODER_CROSS});
}

tfm_status tfm__model_logits(tfm_model *model, tfm_tensor *logits, tfm_tensor hidden, tfm_tensor bias) {
    return tfm_linear(model->ctx, logits, hidden, model->output, bias, TFM_NO_ACTIVATION);
}

tfm_status tfm_model_decode(tfm_model *model, tfm_tensor *logits, tfm_tensor ids, tfm_tensor encoded,
                            tfm_tensor lengths) {
    if (TFM__NEEDS("model_decode", model, logits) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    tfm_tensor hidden = {0};
    tfm_scope_open(model->ctx);
    tfm__model_decode_hidden(model, &hidden, ids, encoded, lengths, NULL);
    tfm__model_logits(model, logits, hidden, model->logits_bias);
    return tfm_scope_close(model->ctx, 1, (tfm_tensor *[]){logits});
}

tfm_status tfm__model_step(tfm_model *model, tfm_tensor *logits, tfm_tensor ids, const tfm__step *step,
                           tfm_tensor bias) {
    tfm_context *ctx = model->ctx;
    const tfm__stack_arch *arch = &model->arch.decoder;
    const int64_t rows = ids.dims[0];
    tfm_tensor column = {0}, last = {0};
    const tfm__linear_output output = {&last, model->output, bias};
    tfm__stream stream = {0};
    const pass p = {.stack = &model->decoder, .arch = arch, .position = step->position, .step = step};
    tfm_scope_open(ctx);
    tfm_tensor_reshape(ctx, &column, ids, 2, (int64_t[]){rows, 1});
    embed(model, &stream.x, &p, column);
    run_blocks(model, &stream, &p);
    tfm__stream_read(ctx, &stream, arch->final_norm ? &p.stack->final_norm : NULL, 1, &output, TFM_NO_ACTIVATION);
    tfm_tensor_reshape(ctx, logits, last, 2, (int64_t[]){rows, arch->vocabulary});
    return tfm_scope_close(ctx, 1, (tfm_tensor *[]){logits});
}
