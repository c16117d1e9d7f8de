/* Config files of a sentence-transformers directory except modules: maximum tokens, lower case, prompts. */
#include <stdio.h>
#include <string.h>
#include "base/file.h"
#include "base/gguf.h"
#include "base/json.h"
#include "model/tasks/embedder.h"

tfm_status tfm__embed_load_optional(json_t **out, const char *dir, const char *name) {
    char *path = tfm__path_join(dir, name);
    tfm_status status = path ? TFM_OK : TFM_ERROR_MEMORY;
    if (path && tfm__file_exists(path))
        status = tfm__json_load(out, path);
    free(path);
    return status;
}

tfm_status tfm__embed_read_gguf(tfm_pooling *out, const char *path) {
    static const tfm_pooling KINDS[] = {[1] = TFM_POOL_MEAN, [2] = TFM_POOL_CLS, [3] = TFM_POOL_LAST};
    static const char end[] = ".pooling_type";
    char *file = NULL;
    tfm__gguf *gguf = NULL;
    tfm_status status = tfm__gguf_locate(&file, path);
    if (status == TFM_OK && file)
        status = tfm__gguf_open(&gguf, file);
    for (size_t i = 0; gguf && i < tfm__gguf_values(gguf); i++) {
        const tfm__gguf_value *value = tfm__gguf_value_at(gguf, i);
        const size_t bytes = value->key.bytes, length = sizeof(end) - 1;
        uint64_t kind;
        if (bytes > length && memcmp(value->key.data + bytes - length, end, length) == 0 &&
            tfm__gguf_u64(&kind, value, 0) && kind >= 1 && kind < TFM__COUNT(KINDS))
            *out = KINDS[kind];
    }
    tfm__gguf_close(&gguf);
    free(file);
    return status;
}

tfm_status tfm__embed_check_word(const json_t *config, const char *path, const char *key, const char *word) {
    const json_t *value = json_object_get(config, key);
    const bool good =
        !value || json_is_null(value) || (json_is_string(value) && !strcmp(json_string_value(value), word));
    return good ? TFM_OK
                : tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: `%s` is %s, which is not supported: only \"%s\" is", path, key,
                            tfm__json_text((char[TFM__JSON_TEXT]){0}, value), word);
}

static void lower_to(int *most, const json_t *value) {
    if (json_is_number(value) && json_number_value(value) >= 1 && json_number_value(value) < *most)
        *most = (int)json_number_value(value);
}

/* Keys of newer versions about the encoder: class, task, and the output used. */
static tfm_status check_encoder(const json_t *config, const char *dir) {
    static const char *const others[] = {"processing_kwargs", "config_args", "config_kwargs"};
    const json_t *text = json_object_get(json_object_get(config, "modality_config"), "text");
    tfm_status status = tfm__embed_check_word(config, dir, "transformer_task", "feature-extraction");
    if (status == TFM_OK)
        status = tfm__embed_check_word(config, dir, "module_output_name", "token_embeddings");
    if (status == TFM_OK)
        status = tfm__embed_check_word(text, dir, "method", "forward");
    if (status == TFM_OK)
        status = tfm__embed_check_word(text, dir, "method_output_name", "last_hidden_state");
    for (size_t i = 0; i < TFM__COUNT(others) && status == TFM_OK; i++) {
        const json_t *value = json_object_get(config, others[i]);
        if (json_object_size(value) > 0)
            status = tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: `%s` is %s, which is not supported: use a model without it",
                               dir, others[i], tfm__json_text((char[TFM__JSON_TEXT]){0}, value));
    }
    return status;
}

/* sentence_bert_config.json has the maximum number of tokens, else the tokenizer's files. Old directories have a file
 * named after another family. */
tfm_status tfm__embed_read_limits(tfm_embedder *e, const char *encoder) {
    static const char *const families[] = {"bert",   "roberta",     "distilbert", "camembert",
                                           "albert", "xlm-roberta", "xlnet"};
    char name[64];
    json_t *config = NULL, *tokenizer = NULL;
    e->info.max_tokens = e->encoder_positions;
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < TFM__COUNT(families) && status == TFM_OK && !config; i++) {
        snprintf(name, sizeof(name), "sentence_%s_config.json", families[i]);
        status = tfm__embed_load_optional(&config, encoder, name);
    }
    if (status == TFM_OK)
        status = check_encoder(config, encoder);
    if (status == TFM_OK)
        status = tfm__embed_load_optional(&tokenizer, encoder, "tokenizer_config.json");
    const json_t *most = json_object_get(config, "max_seq_length");
    lower_to(&e->info.max_tokens, json_is_number(most) ? most : json_object_get(tokenizer, "model_max_length"));
    e->info.lower_case = json_is_true(json_object_get(config, "do_lower_case"));
    json_decref(config);
    json_decref(tokenizer);
    return status;
}

tfm_status tfm__embed_read_prompts(tfm_embedder *e, const char *dir, bool late) {
    json_t *config = NULL;
    tfm_status status = tfm__embed_load_optional(&config, dir, "config_sentence_transformers.json");
    if (status == TFM_OK && !late) /* PyLate's own, or absent */
        status = tfm__embed_check_word(config, dir, "model_type", "SentenceTransformer");
    const char *name = json_string_value(json_object_get(config, "default_prompt_name"));
    json_t *prompts = json_object_get(config, "prompts");
    if (json_is_object(prompts))
        e->prompts = json_incref(prompts);
    e->info.prompt_count = json_object_size(e->prompts);
    if (status == TFM_OK && name && !json_is_string(json_object_get(e->prompts, name)))
        status =
            tfm__fail(TFM_ERROR_FORMAT,
                      "%s/config_sentence_transformers.json: `default_prompt_name` is \"%s\", and `prompts` has no "
                      "text of that name",
                      dir, name);
    if (status == TFM_OK && name && !(e->default_prompt = tfm__strdup(name)))
        status = TFM_ERROR_MEMORY;
    json_decref(config);
    return status;
}
