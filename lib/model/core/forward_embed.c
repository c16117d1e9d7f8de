/* First part of the forward pass: embedding and positions. */
#include "model/core/forward_pass.h"
#include "ops/gemm/quantize.h"
#include "ops/ops.h"

/* (P, E): position embeddings, or empty. */
static tfm_tensor positions_of(tfm_context *ctx, const tfm__stack *stack, const tfm__stack_arch *arch) {
    tfm_tensor used = stack->positions;
    if (stack->learned_positions.value.buffer)
        tfm_tensor_rows(ctx, &used, stack->learned_positions.value, arch->position_offset, arch->max_positions);
    return used;
}

/* *x (R, 1, e): embeddings of ids (R, 1) at p->positions, except padding. */
static tfm_status embed_except_padding(tfm_model *model, tfm_tensor *x, const tfm__forward_pass *p, tfm_tensor ids,
                                       tfm_tensor table) {
    tfm_context *ctx = model->ctx;
    const int64_t tokens = ids.dims[0] * ids.dims[1];
    const tfm__padding_token skip = {.id = p->arch->skipped_id, .blank = true};
    tfm_tensor flat = {0}, rows = {0}, line = {0}, made = {0};
    tfm_scope_open(ctx);
    tfm_tensor_reshape(ctx, &flat, p->positions, 1, &tokens);
    tfm_gather(ctx, &rows, table, flat);
    tfm_tensor_reshape(ctx, &line, ids, 2, (int64_t[]){1, tokens});
    tfm__embedding_param(ctx, &made, p->stack->table, line, p->arch->embedding_scale, rows, 0, &skip);
    tfm_tensor_reshape(ctx, x, made, 3, (int64_t[]){ids.dims[0], ids.dims[1], made.dims[2]});
    return tfm_scope_close(ctx, 1, (tfm_tensor *[]){x});
}

/* *sum = x (B, T, E) + rows of the table at p->positions, or consecutive from `first`; a table of one row applies to
 * all. */
static tfm_status add_positions(tfm_model *model, tfm_tensor *sum, const tfm__forward_pass *p, tfm_tensor x,
                                tfm_tensor table, bool scattered, int64_t first) {
    tfm_context *ctx = model->ctx;
    const int64_t tokens = x.dims[0] * x.dims[1];
    tfm_tensor flat = {0}, rows = {0}, placed = {0};
    tfm_scope_open(ctx);
    if (scattered) {
        tfm_tensor_reshape(ctx, &flat, p->positions, 1, &tokens);
        tfm_gather(ctx, &rows, table, flat);
        tfm_tensor_reshape(ctx, &placed, rows, 3, x.dims);
    } else {
        tfm_tensor_rows(ctx, &placed, table, first, x.dims[1]);
    }
    tfm_add(ctx, sum, x, placed);
    return tfm_scope_close(ctx, 1, (tfm_tensor *[]){sum});
}

/* x (B, T, E) = projected embedding without norm + positions, then dropout in training. */
static tfm_status embed_projected(tfm_model *model, tfm_tensor *x, const tfm__forward_pass *p, tfm_tensor ids) {
    tfm_context *ctx = model->ctx;
    const tfm__stack *stack = p->stack;
    tfm_dropout_options draw;
    const tfm_dropout_options *dropout = tfm_dropout_next(model->training, &draw, TFM_DROPOUT_RESIDUAL);
    const tfm_tensor positions = positions_of(ctx, stack, p->arch);
    tfm_tensor narrow = {0}, wide = {0}, placed = {0};
    tfm_scope_open(ctx);
    tfm__embedding_param(ctx, &narrow, stack->table, ids, p->arch->embedding_scale, (tfm_tensor){0}, 0, NULL);
    tfm_dense_forward(ctx, &wide, &p->stack->embedding_dense, narrow, TFM_NO_ACTIVATION);
    add_positions(model, dropout ? &placed : x, p, wide, positions, p->positions.buffer, p->position);
    if (dropout)
        tfm_dropout(ctx, x, placed, dropout);
    return tfm_scope_close(ctx, 1, (tfm_tensor *[]){x});
}

/* x (B, T, e) = embedding * scale + positions, then the norm if the stack has one, then dropout in training. */
static tfm_status embed_tokens(tfm_model *model, tfm_tensor *x, const tfm__forward_pass *p, tfm_tensor ids) {
    tfm_context *ctx = model->ctx;
    const tfm__stack *stack = p->stack;
    tfm_dropout_options draw;
    const tfm_dropout_options *dropout = tfm_dropout_next(model->training, &draw, TFM_DROPOUT_RESIDUAL);
    const bool normed = p->arch->embedding_norm, typed = p->arch->token_types > 0;
    const tfm_tensor positions = positions_of(ctx, stack, p->arch);
    const bool scattered = p->positions.buffer && positions.buffer;
    tfm_tensor bare = {0}, words = {0}, first = {0}, sum = {0}, between = {0};
    tfm_tensor *last = normed || dropout ? &sum : x, *placed = typed ? &words : last;
    const tfm__padding_token skip = {
        .id = p->arch->skipped_id, .counted = true, .blank = p->arch->skips == TFM__SKIPS_TO_NOTHING};
    const bool skips = p->arch->skips != TFM__SKIPS_NONE && positions.buffer;
    tfm_scope_open(ctx);
    if (scattered && skips)
        embed_except_padding(model, placed, p, ids, positions);
    else
        tfm__embedding_param(ctx, scattered ? &bare : placed, stack->table, ids, p->arch->embedding_scale,
                             scattered ? (tfm_tensor){0} : positions, p->position, skips ? &skip : NULL);
    if (scattered && !skips)
        add_positions(model, placed, p, bare, positions, true, 0);
    if (typed) {
        if (p->types.buffer)
            tfm_embedding(ctx, &first, stack->token_types.value, p->types, 1, (tfm_tensor){0}, 0);
        else
            tfm_tensor_rows(ctx, &first, stack->token_types.value, 0, 1);
        tfm_add(ctx, last, words, first);
    }
    if (normed)
        tfm_norm_forward(ctx, dropout ? &between : x, NULL, &stack->embedding_norm, sum, (tfm_tensor){0});
    if (dropout)
        tfm_dropout(ctx, x, normed ? between : sum, dropout);
    return tfm_scope_close(ctx, 1, (tfm_tensor *[]){x});
}

tfm_status tfm__forward_embed(tfm_model *model, tfm_tensor *x, const tfm__forward_pass *p, tfm_tensor ids) {
    tfm_tensor narrow = {0};
    if (p->arch->projected)
        return embed_projected(model, x, p, ids);
    if (!p->arch->narrow_width)
        return embed_tokens(model, x, p, ids);
    tfm_scope_open(model->ctx);
    embed_tokens(model, &narrow, p, ids);
    tfm_dense_forward(model->ctx, x, &p->stack->embedding_dense, narrow, TFM_NO_ACTIVATION);
    return tfm_scope_close(model->ctx, 1, (tfm_tensor *[]){x});
}

tfm_status tfm__model_embed_target(tfm_model *model, tfm_tensor *x, tfm_tensor ids, int64_t position) {
    return tfm__forward_embed(
        model, x, &(tfm__forward_pass){.stack = &model->decoder, .arch = &model->arch.decoder, .position = position},
        ids);
}
