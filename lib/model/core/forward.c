/* Forward pass of a stack: blocks, final norm. Encoder and decoder differ only in their arch. */
#include "model/core/forward_pass.h"
#include "model/core/positions.h"
#include "nn/residual.h"
#include "ops/attention/kv_quantize.h"
#include "ops/gemm/quantize.h"
#include "ops/autograd/tape.h"
#include "ops/ops.h"

void tfm__model_set_training(tfm_model *model, tfm_dropout_state *training, bool recompute) {
    model->training = training;
    model->recompute = training && recompute;
    for (int i = 0; i < model->arch.encoder.layers; i++)
        model->encoder.blocks[i].dropout = model->encoder.blocks[i].feed_forward.dropout = training;
    for (int i = 0; i < model->arch.decoder.layers; i++)
        model->decoder.blocks[i].dropout = model->decoder.blocks[i].feed_forward.dropout = training;
}

static bool has_stopped(const tfm__forward_pass *p) {
    return p->observer && p->observer->stopped;
}

/* ---- Blocks ---- */

static bool is_wanted(const tfm__forward_pass *p, tfm_attention_kind kind, int layer) {
    const tfm__observer *o = p->observer;
    return o && !o->stopped && (!o->wants || o->wants(o->user, kind, layer));
}

/* Passes a layer's attention weights to the observer, unless it does not want them or the pass has failed. */
static void notify_observer(tfm_model *model, const tfm__forward_pass *p, tfm_attention_kind kind, int layer,
                            tfm_tensor weights) {
    if (weights.buffer && !has_stopped(p) && tfm_context_status(model->ctx) == TFM_OK)
        p->observer->stopped = !p->observer->on_weights(p->observer->user, kind, layer, &weights);
}

/* Adds the mask to *bias, which may be empty. */
static void add_mask(tfm_context *ctx, tfm_tensor *bias, tfm_tensor mask) {
    tfm_tensor both = {0};
    if (mask.buffer && bias->buffer)
        tfm_add(ctx, &both, *bias, mask);
    *bias = !mask.buffer ? *bias : both.buffer ? both : mask;
}

/* *bias: the position bias of a layer, or the shared one. */
static void position_bias(tfm_model *model, tfm_tensor *bias, const tfm__forward_pass *p, int layer) {
    if (p->buckets.buffer)
        tfm__positions_bias(model, bias, p->stack, p->arch, layer, p->buckets);
    else if (p->step)
        tfm__positions_bias_row(model, bias, p->step->position_bias, layer, p->position);
    if (p->step)
        add_mask(model->ctx, bias, p->step->mask);
}

static void run_block(tfm_model *model, int layer, tfm__residual *residual, const tfm__forward_pass *p) {
    tfm_context *ctx = model->ctx;
    tfm_block *block = &p->stack->blocks[layer];
    const bool cross = p->arch->cross;
    const unsigned bits = p->arch->layer[layer];
    const tfm__rope_table *rope = &p->stack->rope[bits & TFM__LOCAL_LAYER ? 1 : 0];
    tfm_block_inputs memory = {.lengths = p->lengths,
                               .cross_lengths = p->cross_lengths,
                               .attention_bias = p->bias,
                               .cosines = bits & TFM__NO_ROPE_LAYER ? (tfm_tensor){0} : rope->cosines,
                               .sines = bits & TFM__NO_ROPE_LAYER ? (tfm_tensor){0} : rope->sines,
                               .interleaved = p->arch->rotary.interleaved,
                               .position = p->position,
                               .positions = p->positions};
    tfm_tensor own = {0}, over_source = {0};
    tfm_scope_open(ctx);
    if (p->arch->relative.per_layer)
        position_bias(model, &memory.attention_bias, p, layer);
    if (p->step) {
        const int64_t rows = residual->x.dims[0] * residual->x.dims[1];
        memory.lengths = p->step->lengths;
        memory.cross_kv = cross ? p->step->cross[layer] : memory.cross_kv;
        memory.cross_lengths = p->step->cross_lengths;
        memory.cross_kv_batch = p->step->sources;
        if (p->step->cache->kv) /* else the context has failed, and nothing is computed */
            memory.cache_kv = p->step->cache->kv[layer];
        memory.kv_indices = p->step->block_table;
        tfm_tensor_rows(ctx, &memory.new_kv.keys, memory.cache_kv.keys, p->step->slot, rows);
        tfm_tensor_rows(ctx, &memory.new_kv.values, memory.cache_kv.values, p->step->slot, rows);
    } else if (cross) {
        tfm_multi_head_project(ctx, &memory.cross_kv, &block->cross_attention, p->encoded);
    }
    if (p->kv_only && layer == p->arch->layers - 1) {
        tfm__block_write_kv(ctx, residual, block, &memory);
        tfm_scope_close(ctx, 0, NULL);
        return;
    }
    tfm__block_run(ctx, residual, !p->arch->recurrent && is_wanted(p, p->own, layer) ? &own : NULL,
                   cross && is_wanted(p, p->cross, layer) ? &over_source : NULL, block, &memory);
    notify_observer(model, p, p->own, layer, own);
    notify_observer(model, p, p->cross, layer, over_source);
    tfm_scope_close(ctx, 2, (tfm_tensor *[]){&residual->x, &residual->pending});
}

/* A block to recompute in the backward pass. */
typedef struct recompute_data {
    tfm_model *model;
    int layer;
    tfm__residual residual;
    tfm__forward_pass pass;
    uint64_t rng_stream; /* random number stream of its first dropout */
} recompute_data;

_Static_assert(sizeof(recompute_data) <= TFM__TAPE_DATA, "the tape copies it");

static tfm_status recompute_block(tfm_context *ctx, const tfm__record *record, tfm_tensor *out) {
    const recompute_data *a = record->data;
    tfm_dropout_state *training = a->model->training;
    tfm__residual residual = a->residual;
    const uint64_t rng_stream = training->stream;
    training->stream = a->rng_stream;
    run_block(a->model, a->layer, &residual, &a->pass);
    training->stream = rng_stream;
    out[0] = residual.x;
    out[1] = residual.pending;
    return tfm_context_status(ctx);
}

/* Activation checkpointing: the tape keeps only a block's input. */
static void run_block_checkpointed(tfm_model *model, int layer, tfm__residual *residual, const tfm__forward_pass *p) {
    const size_t place = tfm__tape_checkpoint_begin(model->ctx);
    const recompute_data a = {model, layer, *residual, *p, model->training->stream};
    const tfm_tensor x = residual->x, added = residual->pending;
    run_block(model, layer, residual, p);
    tfm__tape_checkpoint_end(
        model->ctx, place,
        &(tfm__record){.op = "block",
                       .recompute = recompute_block,
                       .out = {residual->x.buffer == x.buffer ? (tfm_tensor){0} : residual->x, residual->pending},
                       .in = {x, added, p->encoded, p->bias},
                       .saved = {x, added, p->encoded, p->bias, p->lengths, p->cross_lengths, p->positions, p->buckets},
                       .data = &a,
                       .data_bytes = sizeof(a)});
}

/* Frees a block's input, so that memory holds one layer at a time. */
static void free_read(tfm_context *ctx, tfm__residual *read, const tfm__residual *residual) {
    tfm_tensor_free(ctx, &read->pending);
    if (read->x.buffer != residual->x.buffer)
        tfm_tensor_free(ctx, &read->x);
}

/* Runs the blocks of a whole pass (not of a decoding step); the tape may record them. */
static void run_blocks(tfm_model *model, tfm__residual *residual, const tfm__forward_pass *p) {
    for (int i = 0; i < p->arch->layers && !has_stopped(p); i++) {
        tfm__residual read = *residual;
        if (model->recompute && !p->observer)
            run_block_checkpointed(model, i, residual, p);
        else
            run_block(model, i, residual, p);
        free_read(model->ctx, &read, residual);
    }
}

/* *out: the output of a stack from its last block's output x (..., E): norm and projection, if present. */
static tfm_status finish_stack(tfm_model *model, tfm_tensor *out, const tfm__forward_pass *p, tfm_tensor x) {
    tfm_context *ctx = model->ctx;
    tfm_tensor normed = {0}, dropped = {0};
    tfm_dropout_options draw;
    const tfm_dropout_options *dropout =
        p->arch->final_dropout ? tfm_dropout_next(model->training, &draw, TFM_DROPOUT_RESIDUAL) : NULL;
    const bool projected = p->arch->projected;
    tfm_scope_open(ctx);
    if (p->arch->final_norm) {
        tfm_norm_forward(ctx, dropout || projected ? &normed : out, NULL, &p->stack->final_norm, x, (tfm_tensor){0});
        x = dropout || projected ? normed : *out;
    }
    if (dropout) {
        tfm_dropout(ctx, projected ? &dropped : out, x, dropout);
        x = dropped;
    }
    if (projected)
        tfm_dense_forward(ctx, out, &p->stack->output_dense, x, TFM_NO_ACTIVATION);
    return tfm_scope_close(ctx, 1, (tfm_tensor *[]){out});
}

/* out (B, T, tfm__stack_output_width): a whole stack from ids (B, T). Empty if the observer stopped it. */
static tfm_status run_stack(tfm_model *model, tfm_tensor *out, tfm_tensor ids, tfm__forward_pass *p) {
    tfm_context *ctx = model->ctx;
    tfm__residual residual = {0};
    tfm_tensor last = {0};
    const bool ends = p->arch->final_norm || p->arch->projected;
    tfm_scope_open(ctx);
    tfm__positions_rope(model, p->stack, p->arch, p->position + ids.dims[1], p->position + ids.dims[1]);
    tfm__positions_buckets(model, &p->buckets, p->arch, p->position, ids.dims[1]);
    if (!p->arch->relative.per_layer)
        position_bias(model, &p->bias, p, 0);
    tfm__forward_embed(model, &residual.x, p, ids);
    run_blocks(model, &residual, p);
    if (!has_stopped(p)) {
        tfm__residual_materialize(ctx, ends ? &last : out, &residual);
        if (ends)
            finish_stack(model, out, p, last);
    }
    return tfm_scope_close(ctx, 1, (tfm_tensor *[]){out});
}

/* ---- Passes ---- */

static tfm_status check_ids(tfm_model *model, const char *what, int parts, tfm_tensor ids, int max_positions) {
    if (tfm__model_needs(model, what, parts) != TFM_OK)
        return tfm__context_fail(model->ctx, TFM_ERROR_ARGUMENT, "%s", tfm_error_message());
    if (TFM__OP_BEGIN(model->ctx, what, "i", ids) != TFM_OK)
        return tfm_context_status(model->ctx);
    if (ids.rank != 2 || ids.dims[1] > max_positions)
        return tfm__op_error(model->ctx, what, "ids are %s: (B, T) with T up to %d, the model's positions, is needed",
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
    if (check_ids(model, "model_encode", TFM__NEEDS_ENCODER, ids, arch->max_positions) != TFM_OK)
        return tfm_context_status(model->ctx);
    return run_stack(
        model, encoded, ids,
        &(tfm__forward_pass){
            .stack = &model->encoder, .arch = arch, .lengths = lengths, .observer = observer, .own = TFM_ENCODER_SELF});
}

tfm_status tfm__model_encode_typed(tfm_model *model, tfm_tensor *encoded, tfm_tensor ids, tfm_tensor types,
                                   tfm_tensor lengths) {
    const tfm__stack_arch *arch = &model->arch.encoder;
    if (check_ids(model, "model_encode", TFM__NEEDS_ENCODER, ids, arch->max_positions) != TFM_OK)
        return tfm_context_status(model->ctx);
    return run_stack(
        model, encoded, ids,
        &(tfm__forward_pass){
            .stack = &model->encoder, .arch = arch, .lengths = lengths, .types = types, .own = TFM_ENCODER_SELF});
}

tfm_status tfm__model_decode_hidden(tfm_model *model, tfm_tensor *hidden, tfm_tensor ids, tfm_tensor encoded,
                                    tfm_tensor lengths, tfm__observer *observer) {
    const tfm__stack_arch *arch = &model->arch.decoder;
    if (check_ids(model, "model_decode", TFM__NEEDS_DECODER, ids, arch->max_positions) != TFM_OK)
        return tfm_context_status(model->ctx);
    return run_stack(model, hidden, ids,
                     &(tfm__forward_pass){.stack = &model->decoder,
                                          .arch = arch,
                                          .encoded = encoded,
                                          .cross_lengths = lengths,
                                          .observer = observer,
                                          .own = TFM_DECODER_SELF,
                                          .cross = TFM_DECODER_CROSS});
}

tfm_status tfm_model_decode(tfm_model *model, tfm_tensor *logits, tfm_tensor ids, tfm_tensor encoded,
                            tfm_tensor lengths) {
    if (TFM__NEEDS("model_decode", model, logits) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (tfm__model_needs(model, "model_decode", TFM__NEEDS_DECODER | TFM__NEEDS_OUTPUT) != TFM_OK)
        return tfm__context_fail(model->ctx, TFM_ERROR_ARGUMENT, "%s", tfm_error_message());
    tfm_tensor hidden = {0};
    tfm_scope_open(model->ctx);
    tfm__model_decode_hidden(model, &hidden, ids, encoded, lengths, NULL);
    tfm__model_logits(model, logits, hidden, model->logits_bias);
    return tfm_scope_close(model->ctx, 1, (tfm_tensor *[]){logits});
}

tfm_status tfm__model_kv_cache_new(const tfm_model *model, tfm_kv_cache *out, int64_t capacity) {
    const tfm__stack_arch *arch = &model->arch.decoder;
    const tfm_dtype dtype = arch->recurrent ? TFM_F32 : model->kv_dtype;
    return tfm_kv_cache_new_dtype(model->ctx, out, arch->layers, arch->kv_heads * tfm__kv_span(dtype, arch->head_width),
                                  capacity, dtype);
}

tfm_status tfm__model_project_cross_kv(tfm_model *model, tfm_kv *cross, tfm_tensor encoded) {
    const tfm__stack_arch *arch = &model->arch.decoder;
    const int64_t dims[] = {encoded.dims[0], encoded.dims[1], (int64_t)arch->kv_heads * arch->head_width};
    const tfm_dtype dtype = model->kv_dtype == TFM_I8 ? TFM_F32 : model->kv_dtype;
    for (int i = 0; i < arch->layers && tfm_context_status(model->ctx) == TFM_OK; i++) {
        tfm_tensor_new(model->ctx, &cross[i].keys, dtype, 3, dims);
        tfm_tensor_new(model->ctx, &cross[i].values, dtype, 3, dims);
        tfm_multi_head_project(model->ctx, &cross[i], &model->decoder.blocks[i].cross_attention, encoded);
    }
    return tfm_context_status(model->ctx);
}

/* Logits of the last of each row's T tokens from the residual, fused with the final norm if nothing is between them;
 * or, with `projection_input`, the input of the output projection. */
static void finish_step(tfm_model *model, tfm_tensor *logits, tfm__residual *residual, const tfm__forward_pass *p,
                        tfm_tensor bias) {
    tfm_context *ctx = model->ctx;
    tfm_param *const projection = p->step->output ? p->step->output : model->output;
    const int64_t tokens = residual->x.dims[1];
    tfm_tensor whole = {0}, ended = {0}, scaled = {0};
    if (tokens == 1 && !p->arch->projected && model->arch.output_scale == 0 && !p->step->projection_input) {
        const tfm__fused_output output = {logits, projection, tfm__model_inner_bias(model, bias)};
        tfm__residual_linear(ctx, residual, p->arch->final_norm ? &p->stack->final_norm : NULL, 1, &output,
                             TFM_NO_ACTIVATION);
        return;
    }
    tfm__residual_materialize(ctx, &whole, residual);
    if (tokens > 1) {
        tfm_tensor last = {0};
        tfm_slice(ctx, &last, whole, (tfm_range[]){TFM_WHOLE, {tokens - 1, tokens, 1}, TFM_WHOLE});
        whole = last;
    }
    if (p->arch->final_norm || p->arch->projected)
        finish_stack(model, &ended, p, whole);
    tfm__model_scale_output(model, &scaled, ended.buffer ? ended : whole);
    if (p->step->projection_input)
        tfm_tensor_reshape(ctx, p->step->projection_input, scaled, 2,
                           (int64_t[]){scaled.dims[0], tfm__last_dim(scaled)});
    else
        tfm_linear(ctx, logits, scaled, projection, tfm__model_inner_bias(model, bias), TFM_NO_ACTIVATION);
}

tfm_status tfm__model_step(tfm_model *model, tfm_tensor *logits, tfm_tensor ids, const tfm__decode_step *step,
                           tfm_tensor bias) {
    tfm_context *ctx = model->ctx;
    const tfm__stack_arch *arch = &model->arch.decoder;
    const int64_t rows = ids.dims[0], tokens = ids.rank == 2 ? ids.dims[1] : 1, end = step->position + tokens;
    tfm_tensor block = {0}, last = {0};
    tfm__residual residual = {0};
    tfm__forward_pass p = {.stack = &model->decoder,
                           .arch = arch,
                           .position = step->position,
                           .positions = step->positions,
                           .step = step,
                           .kv_only = !logits};
    if (step->position > 0 && step->length == 0 && !tfm__model_rope_matches(model, step->position, end))
        return tfm__op_error(ctx, "model_step",
                             "a sequence of %lld tokens has other RoPE frequencies than the keys in the KV cache: "
                             "recompute it from its first token",
                             (long long)end);
    tfm_scope_open(ctx);
    tfm__positions_rope(model, &model->decoder, arch, end, step->length > end ? step->length : end);
    if (tokens > 1)
        tfm__positions_buckets(model, &p.buckets, arch, step->position, tokens);
    if (!arch->relative.per_layer)
        position_bias(model, &p.bias, &p, 0);
    tfm_tensor_reshape(ctx, &block, ids, 2, (int64_t[]){rows, tokens});
    tfm__forward_embed(model, &residual.x, &p, block);
    for (int i = 0; i < arch->layers; i++) {
        tfm__residual read = residual;
        run_block(model, i, &residual, &p);
        free_read(ctx, &read, &residual);
    }
    if (!logits)
        return tfm_scope_close(ctx, 0, NULL);
    finish_step(model, &last, &residual, &p, bias);
    if (step->projection_input)
        return tfm_scope_close(ctx, 1, (tfm_tensor *[]){step->projection_input});
    if (model->arch.logit_cap != 0)
        tfm__model_cap_logits(model, last, bias);
    const int64_t words = step->output ? step->output->value.dims[0] : arch->vocabulary;
    tfm_tensor_reshape(ctx, logits, last, 2, (int64_t[]){rows, words});
    return tfm_scope_close(ctx, 1, (tfm_tensor *[]){logits});
}
