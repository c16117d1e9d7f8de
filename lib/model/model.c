/* A model's life, and its forward passes on tensors. */
#include <math.h>
#include <string.h>
#include "model/model.h"

static void fill_info(tfm_model_info *info, const tfm__config *config) {
    info->family = "marian";
    info->width = config->d_model;
    info->encoder_layers = config->encoder_layers;
    info->decoder_layers = config->decoder_layers;
    info->encoder_heads = config->encoder_heads;
    info->decoder_heads = config->decoder_heads;
    info->encoder_feed_forward = config->encoder_ffn;
    info->decoder_feed_forward = config->decoder_ffn;
    info->source_vocabulary = config->vocab_size;
    info->target_vocabulary = config->decoder_vocab_size;
    info->max_positions = config->max_positions;
    info->activation = config->activation;
    info->pre_norm = config->normalize_before;
    info->pad_id = config->pad_id;
    info->eos_id = config->eos_id;
    info->start_id = config->start_id;
    info->beam = config->beams ? config->beams : 4;
}

/* Bytes on the device while a default batch is translated: what lasts, and the largest of what comes and goes. */
static void estimate(tfm_model_info *info) {
    const uint64_t tokens = 4096, rows = tokens / 16 * (uint64_t)info->beam, steps = 32, width = (uint64_t)info->width;
    const uint64_t inner = (uint64_t)info->encoder_feed_forward;
    uint64_t encoder = tokens * (6 * width + inner), cross = 2 * tokens * width * (uint64_t)info->decoder_layers;
    uint64_t cache = 2 * rows * steps * width * (uint64_t)info->decoder_layers;
    uint64_t logits = rows * (uint64_t)info->target_vocabulary;
    info->parameter_bytes = 4 * info->parameters;
    info->estimated_bytes = 2 * info->parameter_bytes + 4 * (encoder + cross + cache + logits);
}

void tfm__model_describe_config(tfm_model *model) {
    fill_info(&model->info, &model->config);
    model->info.stored_dtype = tfm_dtype_name(TFM_F32);
    estimate(&model->info);
}

/* The dtype of the file's largest tensor, as the file spells it but static. */
static const char *stored_dtype(const tfm__safetensors *file) {
    const tfm__stored *largest = NULL;
    for (size_t i = 0; i < tfm__safetensors_count(file); i++) {
        const tfm__stored *stored = tfm__safetensors_at(file, i);
        if (stored->usable && (!largest || stored->count > largest->count))
            largest = stored;
    }
    return largest ? tfm_dtype_name(largest->dtype) : "none";
}

tfm_status tfm_model_inspect(tfm_model_info *out, const char *dir) {
    tfm__config config;
    tfm__safetensors *file = NULL;
    *out = (tfm_model_info){0};
    tfm_status status = tfm__config_load(&config, dir);
    if (status == TFM_OK)
        status = tfm__safetensors_open_dir(&file, dir);
    if (status != TFM_OK)
        return status;
    fill_info(out, &config);
    out->stored_dtype = stored_dtype(file);
    const tfm__stored *tables[TFM__TABLES] = {NULL};
    for (int role = 0; role < TFM__TABLES && status == TFM_OK; role++)
        if (!(tables[role] = tfm__model_find_table(file, &config, role)))
            status = TFM_ERROR_FORMAT;
    for (size_t i = 0; i < tfm__safetensors_count(file); i++) {
        const tfm__stored *stored = tfm__safetensors_at(file, i);
        bool position = strstr(stored->name, "embed_positions") != NULL, bias = strstr(stored->name, "logits_bias") != NULL;
        bool table = strstr(stored->name, "embed_tokens") || strstr(stored->name, "shared.") ||
                     strstr(stored->name, "lm_head");
        bool used = stored == tables[0] || stored == tables[1] || stored == tables[2];
        if (!bias && !(position && config.static_positions) && (!table || used))
            out->parameters += stored->count;
    }
    out->tied_output = tables[TFM__OUTPUT_TABLE] == tables[TFM__TARGET_TABLE];
    estimate(out);
    tfm__safetensors_free(&file);
    return status;
}

/* Rows of an embedding that have no piece: some checkpoints round the number of rows up. */
enum { MOST_PADDING = 256 };

static int64_t nameless_ids(const tfm_tokenizer *tokenizer, tfm_side side, int rows) {
    int64_t count = 0;
    for (int32_t id = 0; id < rows; id++)
        count += tfm_tokenizer_piece(tokenizer, side, id) == NULL;
    return count;
}

static tfm_status check_vocabulary(const tfm_model *model, const char *dir) {
    tfm_tokenizer_info text = tfm_tokenizer_get_info(model->tokenizer);
    const tfm__config *config = &model->config;
    if (text.source_size > config->vocab_size || text.target_size > config->decoder_vocab_size)
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s: the vocabulary, with added tokens, has ids up to %d (source) and %d (target), the embeddings "
                         "%d and %d rows: they are not of one model",
                         dir, text.source_size - 1, text.target_size - 1, config->vocab_size,
                         config->decoder_vocab_size);
    int64_t nameless = nameless_ids(model->tokenizer, TFM_SOURCE, config->vocab_size) +
                       nameless_ids(model->tokenizer, TFM_TARGET, config->decoder_vocab_size);
    if (nameless > 2 * MOST_PADDING)
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s: %lld rows of the embeddings have no piece in the vocabulary: vocab.json is not the model's", dir,
                         (long long)nameless);
    /* The configuration's is what pads. A vocabulary of its own may have the target's elsewhere. */
    if (text.source_pad >= 0 && text.source_pad != config->pad_id)
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s: <pad> is id %d in vocab.json, pad_token_id in the configuration is %d: they are not of one "
                         "model",
                         dir, text.source_pad, config->pad_id);
    if (text.source_eos != config->eos_id || text.target_eos != config->eos_id)
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s: </s> is id %d in %s, eos_token_id in the configuration is %d: they are not of one model",
                         dir, text.source_eos != config->eos_id ? text.source_eos : text.target_eos,
                         text.source_eos != config->eos_id ? "vocab.json" : "target_vocab.json", config->eos_id);
    return TFM_OK;
}

tfm_status tfm_model_open_tokenizer(tfm_model *model, const char *dir) {
    if (model->tokenizer)
        return tfm__fail(TFM_ERROR_ARGUMENT, "%s: the model has a tokenizer already", dir);
    tfm_status status = tfm_tokenizer_open(&model->tokenizer, dir);
    if (status == TFM_OK && (status = check_vocabulary(model, dir)) != TFM_OK)
        tfm_tokenizer_free(&model->tokenizer);
    return status;
}

tfm_status tfm_model_open(tfm_model **out, tfm_context *ctx, const char *dir, const tfm_model_options *options) {
    *out = NULL;
    if (tfm_context_status(ctx) != TFM_OK)
        return tfm__fail(tfm_context_status(ctx), "model_open: the context has failed before: %s", tfm_context_error(ctx));
    tfm_model *model = tfm__alloc(1, sizeof(*model));
    if (!model)
        return TFM_ERROR_MEMORY;
    tfm__safetensors *file = NULL;
    model->ctx = ctx;
    tfm_status status = tfm__config_load(&model->config, dir);
    if (status == TFM_OK && !(options && options->no_tokenizer))
        status = tfm_model_open_tokenizer(model, dir);
    if (status == TFM_OK)
        status = tfm__safetensors_open_dir(&file, dir);
    if (status == TFM_OK) {
        fill_info(&model->info, &model->config);
        model->encoder = tfm__alloc((size_t)model->config.encoder_layers, sizeof(*model->encoder));
        model->decoder = tfm__alloc((size_t)model->config.decoder_layers, sizeof(*model->decoder));
        status = model->encoder && model->decoder ? tfm__model_load(model, file) : TFM_ERROR_MEMORY;
        model->info.stored_dtype = stored_dtype(file);
        estimate(&model->info);
    }
    tfm__safetensors_free(&file);
    if (status != TFM_OK) {
        tfm_model_free(&model);
        return status;
    }
    *out = model;
    return TFM_OK;
}

tfm_status tfm__model_set_biases(tfm_model *model, float *bias) {
    const int64_t size = model->config.decoder_vocab_size;
    tfm_tensor *const tensors[] = {&model->logits_bias, &model->score_bias, &model->search_bias};
    bool (*const without[])(const tfm__config *, int32_t) = {NULL, tfm__config_is_padding, tfm__config_bans};
    tfm_status status = TFM_OK;
    for (size_t k = 0; k < TFM_COUNT(tensors) && status == TFM_OK; k++) {
        tfm__tensor_new_lasting(model->ctx, tensors[k], TFM_F32, 1, &size);
        for (int64_t i = 0; without[k] && i < size; i++)
            bias[i] = without[k](&model->config, (int32_t)i) ? -INFINITY : bias[i];
        status = tfm_tensor_write(model->ctx, *tensors[k], bias);
    }
    return status;
}

void tfm_model_free(tfm_model **pointer) {
    tfm_model *model = pointer ? *pointer : NULL;
    if (!model)
        return;
    *pointer = NULL;
    tfm_context *ctx = model->ctx;
    for (int i = 0; i < TFM__TABLES; i++)
        tfm_param_free(ctx, &model->tables[i]);
    tfm_tensor_free(ctx, &model->source_positions);
    tfm_tensor_free(ctx, &model->target_positions);
    tfm_tensor_free(ctx, &model->logits_bias);
    tfm_tensor_free(ctx, &model->search_bias);
    tfm_tensor_free(ctx, &model->score_bias);
    tfm_norm_free(ctx, &model->source_norm);
    tfm_norm_free(ctx, &model->target_norm);
    tfm_norm_free(ctx, &model->encoder_norm);
    tfm_norm_free(ctx, &model->decoder_norm);
    for (int i = 0; model->encoder && i < model->config.encoder_layers; i++)
        tfm_encoder_block_free(ctx, &model->encoder[i]);
    for (int i = 0; model->decoder && i < model->config.decoder_layers; i++)
        tfm_decoder_block_free(ctx, &model->decoder[i]);
    free(model->encoder);
    free(model->decoder);
    tfm_tokenizer_free(&model->tokenizer);
    free(model);
}

tfm_model_info tfm_model_describe(const tfm_model *model) {
    return model->info;
}

tfm_context *tfm_model_context(const tfm_model *model) {
    return model->ctx;
}

const tfm_tokenizer *tfm_model_tokenizer(const tfm_model *model) {
    return model->tokenizer;
}

/* x (B, T, E) = embedding * scale + positions, then the norm over it where the model has one, and in training dropout. */
static tfm_status embed(tfm_model *model, tfm_tensor *x, const tfm_param *table, tfm_tensor ids, tfm_tensor positions,
                        int64_t first, const tfm_norm *norm) {
    tfm_context *ctx = model->ctx;
    float scale = model->config.scale_embedding ? sqrtf((float)model->config.d_model) : 1;
    tfm_dropout_options draw;
    const tfm_dropout_options *dropout = tfm_training_draw(model->training, TFM_DROP_RESIDUAL, &draw);
    const bool normed = norm->gamma.value.buffer != NULL;
    tfm_tensor sum = {0}, between = {0};
    tfm_scope_open(ctx);
    tfm_embedding(ctx, normed || dropout ? &sum : x, table->value, ids, scale, positions, first);
    if (normed)
        tfm_norm_forward(ctx, dropout ? &between : x, NULL, norm, sum, (tfm_tensor){0});
    if (dropout)
        tfm_dropout(ctx, x, normed ? between : sum, dropout);
    return tfm_scope_close(ctx, 1, (tfm_tensor *[]){x});
}

tfm_status tfm__model_embed_target(tfm_model *model, tfm_tensor *x, tfm_tensor ids, int64_t position) {
    return embed(model, x, model->target, ids, model->target_positions, position, &model->target_norm);
}

tfm_status tfm__model_logits(tfm_model *model, tfm_tensor *logits, tfm_tensor x, tfm_tensor bias) {
    tfm_tensor normed = x;
    tfm_scope_open(model->ctx);
    if (model->decoder_norm.gamma.value.buffer) {
        normed = (tfm_tensor){0};
        tfm_norm_forward(model->ctx, &normed, NULL, &model->decoder_norm, x, (tfm_tensor){0});
    }
    tfm_linear(model->ctx, logits, normed, model->output, bias, TFM_NO_ACTIVATION);
    return tfm_scope_close(model->ctx, 1, (tfm_tensor *[]){logits});
}

static tfm_status check_ids(tfm_model *model, const char *what, tfm_tensor ids) {
    if (TFM_OP_BEGIN(model->ctx, what, "i", ids) != TFM_OK)
        return tfm_context_status(model->ctx);
    if (ids.rank != 2 || ids.dims[1] > model->config.max_positions)
        return tfm__op_refuse(model->ctx, what, "ids are %s: (B, T) with T up to %d, the model's positions, is needed",
                              TFM_SHAPE(ids), model->config.max_positions);
    return TFM_OK;
}

/* One layer's weights to whoever watches. After a failure there are none. */
static void show(tfm_model *model, tfm__watch *watch, tfm_attention_kind kind, int layer, tfm_tensor weights) {
    if (watch && !watch->stopped && tfm_context_status(model->ctx) == TFM_OK)
        watch->stopped = !watch->see(watch->user, kind, layer, weights);
}

tfm_status tfm_model_encode(tfm_model *model, tfm_tensor *encoded, tfm_tensor ids, tfm_tensor lengths) {
    return tfm__model_encode_watched(model, encoded, ids, lengths, NULL);
}

tfm_status tfm__model_encode_watched(tfm_model *model, tfm_tensor *encoded, tfm_tensor ids, tfm_tensor lengths,
                                     tfm__watch *watch) {
    tfm_context *ctx = model->ctx;
    if (check_ids(model, "model_encode", ids) != TFM_OK)
        return tfm_context_status(ctx);
    tfm_tensor x = {0};
    tfm_scope_open(ctx);
    embed(model, &x, model->source, ids, model->source_positions, 0, &model->source_norm);
    bool final_norm = model->encoder_norm.gamma.value.buffer != NULL;
    for (int i = 0; i < model->config.encoder_layers; i++) {
        tfm_tensor y = {0}, weights = {0};
        bool last = i + 1 == model->config.encoder_layers && !final_norm;
        tfm_encoder_block_attend(ctx, last ? encoded : &y, watch ? &weights : NULL, &model->encoder[i], x, lengths);
        show(model, watch, TFM_ENCODER_SELF, i, weights);
        tfm_tensor_free(ctx, &weights);
        tfm_tensor_free(ctx, &x);
        x = y;
    }
    if (final_norm)
        tfm_norm_forward(ctx, encoded, NULL, &model->encoder_norm, x, (tfm_tensor){0});
    return tfm_scope_close(ctx, 1, (tfm_tensor *[]){encoded});
}

tfm_status tfm__model_decode_hidden(tfm_model *model, tfm_tensor *hidden, tfm_tensor ids, tfm_tensor encoded,
                                    tfm_tensor lengths, tfm__watch *watch) {
    tfm_context *ctx = model->ctx;
    if (check_ids(model, "model_decode", ids) != TFM_OK)
        return tfm_context_status(ctx);
    tfm_tensor x = {0};
    tfm_scope_open(ctx);
    tfm__model_embed_target(model, &x, ids, 0);
    for (int i = 0; i < model->config.decoder_layers; i++) {
        tfm_decoder_memory memory = {.lengths = lengths};
        tfm_tensor y = {0}, self = {0}, cross = {0};
        tfm_scope_open(ctx);
        tfm_multi_head_project(ctx, &memory.cross, &model->decoder[i].cross, encoded);
        tfm_decoder_block_attend(ctx, &y, watch ? &self : NULL, watch ? &cross : NULL, &model->decoder[i], x, &memory);
        show(model, watch, TFM_DECODER_SELF, i, self);
        show(model, watch, TFM_DECODER_CROSS, i, cross);
        tfm_scope_close(ctx, 1, (tfm_tensor *[]){&y});
        tfm_tensor_free(ctx, &x);
        x = y;
    }
    *hidden = x;
    return tfm_scope_close(ctx, 1, (tfm_tensor *[]){hidden});
}

tfm_status tfm_model_decode(tfm_model *model, tfm_tensor *logits, tfm_tensor ids, tfm_tensor encoded,
                            tfm_tensor lengths) {
    tfm_tensor hidden = {0};
    tfm_scope_open(model->ctx);
    tfm__model_decode_hidden(model, &hidden, ids, encoded, lengths, NULL);
    tfm__model_logits(model, logits, hidden, model->logits_bias);
    return tfm_scope_close(model->ctx, 1, (tfm_tensor *[]){logits});
}
