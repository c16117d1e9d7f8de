/* A model to the directory that tfm_model_open and Hugging Face's MarianMTModel read. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include "base/file.h"
#include "model/model.h"
#include "model/tensors_write.h"

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
    json_t *root = json_pack("{s:i, s:i, s:i, s:i, s:i}", "decoder_start_token_id", c->start_id, "eos_token_id", c->eos_id,
                             "pad_token_id", c->pad_id, "max_length", c->max_positions, "num_beams",
                             c->beams ? c->beams : 4);
    if (root && c->bad_id_count > 0) /* transformers refuses an empty list */
        json_object_set_new(root, "bad_words_ids", json_array());
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

typedef struct list {
    tfm__entry *entries; /* NULL while they are counted */
    size_t count;
    tfm_dtype dtype;
} list;

static void put(list *l, const char *name, tfm_tensor x, tfm_dtype dtype) {
    if (l->entries) {
        tfm__entry *entry = &l->entries[l->count];
        snprintf(entry->name, sizeof(entry->name), "%s", name);
        entry->x = x;
        entry->dtype = dtype;
    }
    l->count++;
}

/* Matrices and tables in the dtype asked for; what is small, and adds up, in F32. */
static tfm_status put_parameter(void *user, const tfm__parameter *p) {
    list *l = user;
    put(l, p->name, p->param->value, p->kind == TFM__MATRIX || p->kind == TFM__TABLE ? l->dtype : TFM_F32);
    return TFM_OK;
}

static void put_all(list *l, tfm_model *model) {
    tfm_tensor bias = model->logits_bias; /* (1, V) in files */
    bias.rank = 2;
    bias.dims[1] = bias.dims[0];
    bias.dims[0] = 1;
    l->count = 0;
    put(l, "final_logits_bias", bias, TFM_F32);
    if (model->stored_positions) {
        put(l, "model.encoder.embed_positions.weight", model->source_positions, TFM_F32);
        put(l, "model.decoder.embed_positions.weight", model->target_positions, TFM_F32);
    }
    tfm__model_walk_tables(model, put_parameter, l);
    tfm__model_walk(model, put_parameter, l);
}

static tfm_status write_tensors(tfm_model *model, const char *path, tfm_dtype dtype) {
    list l = {.dtype = dtype};
    put_all(&l, model);
    l.entries = tfm__alloc(l.count, sizeof(*l.entries));
    if (!l.entries)
        return TFM_ERROR_MEMORY;
    put_all(&l, model);
    /* Hugging Face's loader asks for this word before it reads a tensor. */
    const tfm__remark format = {"format", "pt"};
    tfm_status status = tfm__tensors_write(model->ctx, path, l.entries, l.count, &format, 1, false);
    free(l.entries);
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
