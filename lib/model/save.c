/* A model to the directory that tfm_model_open and Hugging Face's MarianMTModel read. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include "base/file.h"
#include "model/model.h"

/* ---- config.json, generation_config.json ---- */

static const char *activation_name(tfm_activation activation) {
    return activation == TFM_RELU        ? "relu"
           : activation == TFM_GELU      ? "gelu"
           : activation == TFM_GELU_TANH ? "gelu_new"
                                         : "silu";
}

static json_t *config_json(const tfm__config *c, tfm_dtype dtype) {
    return json_pack("{s:[s], s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:b, s:b, "
                     "s:b, s:b, s:b, s:b, s:b, s:i, s:i, "
                     "s:i, s:i, s:s}",
                     "architectures", "MarianMTModel", "model_type", "marian", "activation_function",
                     activation_name(c->activation), "d_model", c->d_model, "encoder_layers",
                     c->encoder_layers, "decoder_layers", c->decoder_layers, "encoder_attention_heads",
                     c->encoder_heads, "decoder_attention_heads", c->decoder_heads, "encoder_ffn_dim",
                     c->encoder_ffn, "decoder_ffn_dim", c->decoder_ffn, "max_position_embeddings",
                     c->max_positions, "vocab_size", c->vocab_size, "decoder_vocab_size",
                     c->decoder_vocab_size, "scale_embedding", (int)c->scale_embedding,
                     "static_position_embeddings", (int)c->static_positions, "normalize_before",
                     (int)c->normalize_before, "normalize_embedding", (int)c->normalize_embedding,
                     "add_final_layer_norm", (int)c->add_final_layer_norm, "share_encoder_decoder_embeddings",
                     (int)c->share_embeddings, "tie_word_embeddings", (int)c->tie_embeddings,
                     "is_encoder_decoder", 1, "pad_token_id", c->pad_id, "eos_token_id", c->eos_id,
                     "decoder_start_token_id", c->start_id, "extra_pos_embeddings", 0, "torch_dtype",
                     dtype == TFM_F16    ? "float16"
                     : dtype == TFM_BF16 ? "bfloat16"
                                         : "float32");
}

static json_t *generation_json(const tfm__config *c) {
    json_t *root = json_pack("{s:i, s:i, s:i, s:i, s:i, s:[]}", "decoder_start_token_id", c->start_id,
                             "eos_token_id", c->eos_id, "pad_token_id", c->pad_id, "max_length",
                             c->max_positions, "num_beams", c->beams ? c->beams : 4, "bad_words_ids");
    for (int i = 0; root && i < c->bad_id_count; i++)
        json_array_append_new(json_object_get(root, "bad_words_ids"), json_pack("[i]", c->bad_ids[i]));
    if (root && c->has_length_penalty)
        json_object_set_new(root, "length_penalty", json_real(c->length_penalty));
    if (root && c->forced_bos_id >= 0)
        json_object_set_new(root, "forced_bos_token_id", json_integer(c->forced_bos_id));
    return root;
}

/* Takes the object. */
static tfm_status write_json(const char *dir, const char *name, json_t *root) {
    char *path = tfm__path_join(dir, name), *text = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
    tfm_status status = path && text ? tfm__file_write(path, text, strlen(text))
                                     : tfm__fail(TFM_ERROR_MEMORY, "model_save: out of host memory");
    json_decref(root);
    free(text);
    free(path);
    return status;
}

/* ---- model.safetensors ---- */

typedef struct writer {
    tfm_context *ctx;
    tfm_dtype dtype;
    json_t *header;
    size_t bytes, at;    /* of all tensors; written so far */
    unsigned char *data; /* NULL while sizes are counted */
} writer;

static tfm_status add_entry(writer *w, const char *name, tfm_tensor x, tfm_dtype dtype) {
    const size_t end = w->bytes + tfm_tensor_count(x) * tfm_dtype_size(dtype);
    json_t *shape = json_array(), *entry = NULL;
    for (int i = 0; shape && i < x.rank; i++)
        json_array_append_new(shape, json_integer(x.dims[i]));
    entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", tfm_dtype_name(dtype), "shape", shape, "data_offsets",
                      (json_int_t)w->bytes, (json_int_t)end);
    w->bytes = end;
    return entry && json_object_set_new(w->header, name, entry) == 0
               ? TFM_OK
               : tfm__fail(TFM_ERROR_MEMORY, "model_save: out of host memory");
}

static tfm_status copy_out(writer *w, tfm_tensor x, tfm_dtype dtype) {
    tfm_tensor cast = x;
    tfm_scope_open(w->ctx);
    if (dtype != TFM_F32) {
        cast = (tfm_tensor){0};
        tfm_cast(w->ctx, &cast, x, dtype);
    }
    tfm_tensor_read(w->ctx, w->data + w->at, cast);
    w->at += tfm_tensor_count(x) * tfm_dtype_size(dtype);
    return tfm_scope_close(w->ctx, 0, NULL);
}

/* Matrices and tables in the dtype asked for; what is small, and adds up, in F32. */
static tfm_status save(void *user, const tfm__parameter *p) {
    writer *w = user;
    const tfm_dtype dtype = p->kind == TFM__MATRIX || p->kind == TFM__TABLE ? w->dtype : TFM_F32;
    return w->data ? copy_out(w, p->param->value, dtype) : add_entry(w, p->name, p->param->value, dtype);
}

/* Twice: the header first, then the data in the same order. */
static tfm_status walk(writer *w, tfm_model *model) {
    static const char *const names[] = {"model.encoder.embed_positions.weight",
                                        "model.decoder.embed_positions.weight"};
    const tfm_tensor positions[] = {model->source_positions, model->target_positions};
    tfm_param bias = {.value = model->logits_bias};
    tfm_status status = tfm_tensor_reshape(w->ctx, &bias.value, bias.value, 2,
                                           (int64_t[]){1, model->config.decoder_vocab_size});
    if (status == TFM_OK)
        status = save(w, &(tfm__parameter){&bias, "final_logits_bias", TFM__BIAS, 2, {0}});
    if (status == TFM_OK)
        status = tfm__model_walk_tables(model, save, w);
    for (int i = 0; i < 2 && status == TFM_OK && model->stored_positions; i++) {
        tfm_param learned = {.value = positions[i]};
        status = save(w, &(tfm__parameter){&learned, names[i], TFM__TABLE, 2, {0}});
    }
    return status == TFM_OK ? tfm__model_walk(model, save, w) : status;
}

/* The length of the header, the header, filled up with spaces so that the data is aligned, the data. */
static tfm_status write_tensors(tfm_model *model, const char *path, tfm_dtype dtype) {
    writer w = {.ctx = model->ctx, .dtype = dtype, .header = json_object()};
    tfm_status status = w.header ? walk(&w, model) : TFM_ERROR_MEMORY;
    char *text = status == TFM_OK ? json_dumps(w.header, JSON_COMPACT) : NULL;
    const size_t length = text ? strlen(text) : 0, padded = (length + 7) / 8 * 8, start = 8 + padded;
    unsigned char *file = text ? tfm__alloc(start + w.bytes, 1) : NULL;
    if (status == TFM_OK && !file)
        status = tfm__fail(TFM_ERROR_MEMORY, "%s: no host memory for its %zu bytes", path, start + w.bytes);
    if (file) {
        for (int i = 0; i < 8; i++)
            file[i] = (unsigned char)(padded >> 8 * i);
        memset(file + 8, ' ', padded);
        memcpy(file + 8, text, length);
        w.data = file + start;
        status = walk(&w, model);
    }
    if (status == TFM_OK)
        status = tfm__file_write(path, file, start + w.bytes);
    json_decref(w.header);
    free(text);
    free(file);
    return status;
}

tfm_status tfm_model_save(tfm_model *model, const char *dir, tfm_dtype dtype) {
    if (tfm_context_status(model->ctx) != TFM_OK)
        return tfm__fail(tfm_context_status(model->ctx), "model_save: the context has failed before: %s",
                         tfm_context_error(model->ctx));
    if (dtype != TFM_F32 && dtype != TFM_F16 && dtype != TFM_BF16)
        return tfm__fail(TFM_ERROR_ARGUMENT, "model_save: parameters are stored as F32, F16 or BF16, not %s",
                         tfm_dtype_name(dtype));
    char *path = tfm__path_join(dir, "model.safetensors");
    tfm_status status = path ? tfm__dir_make(dir) : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = write_tensors(model, path, dtype);
    if (status == TFM_OK)
        status = write_json(dir, "config.json", config_json(&model->config, dtype));
    if (status == TFM_OK)
        status = write_json(dir, "generation_config.json", generation_json(&model->config));
    free(path);
    return status;
}
