/* What chats need of a GGUF file's tokenizer: templates and special tokens. */
#include <string.h>
#include "base/file.h"
#include "text/gguf_tokenizer.h"
#include "text/gguf_vocab.h"

#define TEMPLATE "tokenizer.chat_template"

static tfm_status damaged(const tfm__gguf_vocab *v, const char *what) {
    return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` is not text in UTF-8", v->path, what);
}

/* The text of a value as JSON; NULL if it is none. */
static json_t *text_of(const tfm__gguf_value *value) {
    tfm__gguf_text text;
    return tfm__gguf_string(&text, value, 0) && !value->is_array ? json_stringn(text.data, text.bytes) : NULL;
}

/* The named templates: `tokenizer.chat_template.NAME`. */
static tfm_status add_named(json_t *list, const tfm__gguf_vocab *v) {
    const size_t prefix = sizeof(TEMPLATE ".") - 1;
    for (size_t i = 0; i < tfm__gguf_values(v->file); i++) {
        const tfm__gguf_value *value = tfm__gguf_value_at(v->file, i);
        if (value->key.bytes <= prefix || memcmp(value->key.data, TEMPLATE ".", prefix) != 0)
            continue;
        json_t *name = json_stringn(value->key.data + prefix, value->key.bytes - prefix), *text = text_of(value);
        json_t *entry = name && text ? json_pack("{s:O, s:O}", "name", name, "template", text) : NULL;
        json_decref(name);
        json_decref(text);
        if (!entry || json_array_append_new(list, entry) != 0)
            return damaged(v, TEMPLATE ".*");
    }
    return TFM_OK;
}

static tfm_status add_templates(json_t *config, const tfm__gguf_vocab *v) {
    const tfm__gguf_value *value = tfm__gguf_find(v->file, TEMPLATE);
    json_t *text = value ? text_of(value) : NULL, *list = json_array();
    tfm_status status = value && !text ? damaged(v, TEMPLATE) : list ? add_named(list, v) : TFM_ERROR_MEMORY;
    if (status == TFM_OK && json_array_size(list) && text &&
        json_array_insert_new(list, 0, json_pack("{s:s, s:O}", "name", "default", "template", text)) != 0)
        status = TFM_ERROR_MEMORY;
    json_t *found = json_array_size(list) ? list : text;
    if (status == TFM_OK && found && json_object_set(config, "chat_template", found) != 0)
        status = TFM_ERROR_MEMORY;
    json_decref(text);
    json_decref(list);
    return status;
}

static tfm_status add_specials(json_t *config, const tfm__gguf_vocab *v) {
    tfm_status status = TFM_OK;
    for (int i = 0; i < TFM__SPECIALS && status == TFM_OK; i++) {
        char spare[32];
        tfm__gguf_text text;
        if (v->ids[i] < 0)
            continue;
        status = tfm__gguf_vocab_token(&text, v, v->ids[i], spare);
        if (status == TFM_OK &&
            json_object_set_new(config, tfm__special_keys[i], json_stringn(text.data, text.bytes)) != 0)
            status = TFM_ERROR_MEMORY;
    }
    return status;
}

tfm_status tfm__gguf_tokenizer_config(json_t **out, const tfm__gguf *file) {
    tfm__gguf_vocab v;
    json_t *config = *out = json_object();
    tfm_status status = config ? TFM_OK : tfm__fail(TFM_ERROR_MEMORY, "out of host memory for a tokenizer");
    if (status != TFM_OK || !tfm__gguf_vocab_exists(file))
        return status;
    status = tfm__gguf_vocab_read(&v, file);
    if (status == TFM_OK)
        status = add_templates(config, &v);
    if (status == TFM_OK)
        status = add_specials(config, &v);
    if (status == TFM_OK && (json_object_set_new(config, "add_bos_token", json_boolean(v.add_bos)) != 0 ||
                             json_object_set_new(config, "add_eos_token", json_boolean(v.add_eos)) != 0))
        status = TFM_ERROR_MEMORY;
    if (status != TFM_OK) {
        json_decref(config);
        *out = NULL;
    }
    return status;
}

tfm_status tfm__gguf_tokenizer_config_of(json_t **out, const char *path) {
    char *name = NULL;
    tfm__gguf *file = NULL;
    *out = NULL;
    tfm_status status = tfm__gguf_locate(&name, path);
    if (status == TFM_OK && name)
        status = tfm__gguf_open(&file, name);
    if (status == TFM_OK && file && tfm__gguf_vocab_exists(file))
        status = tfm__gguf_tokenizer_config(out, file);
    tfm__gguf_close(&file);
    free(name);
    return status;
}

/* ---- Writing ------------------------------------------------------------------------------------------ */

static bool is_name(const char *text) {
    return text && *text &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == strlen(text);
}

/* A list of {"name", "template"}. */
static tfm_status write_named(tfm__gguf_writer *w, const json_t *list) {
    json_t *entry;
    size_t i;
    json_array_foreach(list, i, entry) {
        const char *name = json_string_value(json_object_get(entry, "name"));
        const char *text = json_string_value(json_object_get(entry, "template"));
        char *key = !is_name(name) || !text        ? NULL
                    : strcmp(name, "default") == 0 ? tfm__strdup("tokenizer.chat_template")
                                                   : tfm__format("tokenizer.chat_template.%s", name);
        if (!is_name(name) || !text)
            continue;
        if (!key)
            return TFM_ERROR_MEMORY;
        tfm__gguf_add_string(w, key, text);
        free(key);
    }
    return TFM_OK;
}

tfm_status tfm__gguf_templates_write(tfm__gguf_writer *w, const json_t *config, const char *dir) {
    const json_t *value = json_object_get(config, "chat_template");
    char *path = tfm__path_join(dir, "chat_template.jinja"), *text = NULL;
    size_t size = 0;
    tfm_status status = path ? TFM_OK : TFM_ERROR_MEMORY;
    if (status == TFM_OK && tfm__file_exists(path))
        status = tfm__file_read(&text, &size, path);
    if (status == TFM_OK && (text || json_is_string(value)))
        tfm__gguf_add_string(w, "tokenizer.chat_template", text ? text : json_string_value(value));
    else if (status == TFM_OK)
        status = write_named(w, value);
    free(text);
    free(path);
    return status;
}
