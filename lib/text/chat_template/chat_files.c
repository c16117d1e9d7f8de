#include "text/chat_template/chat_files.h"
#include <string.h>
#include "base/file.h"
#include "base/json.h"
#include "text/gguf_tokenizer.h"

/* A JSON file of the directory; an empty object if it is missing. */
static tfm_status load(json_t **out, const char *dir, const char *name) {
    *out = NULL;
    if (!tfm__file_exists_in(dir, name)) {
        *out = json_object();
        return *out ? TFM_OK : tfm__fail(TFM_ERROR_MEMORY, "out of host memory for %s", name);
    }
    char *path = tfm__path_join(dir, name);
    const tfm_status status = path ? tfm__json_load(out, path) : TFM_ERROR_MEMORY;
    free(path);
    return status;
}

/* Adds a template, unless it is blank or there is one of the name. */
static void add(json_t *templates, const char *name, const char *text, size_t bytes) {
    const size_t from = tfm__json_skip_bom(text, bytes); /* after blanks too */
    if (from == bytes || json_object_get(templates, name))
        return;
    const size_t mark = bytes >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    json_object_set_new(templates, name, json_stringn(text + mark, bytes - mark));
}

static void add_json(json_t *templates, const char *name, const json_t *value) {
    if (name && json_is_string(value))
        add(templates, name, json_string_value(value), json_string_length(value));
}

/* A template, a list of {"name", "template"}, or an object of templates. */
static void add_value(json_t *templates, json_t *value) {
    const char *name;
    json_t *item;
    size_t i;
    add_json(templates, "default", value);
    json_array_foreach(value, i, item) {
        add_json(templates, json_string_value(json_object_get(item, "name")), json_object_get(item, "template"));
    }
    json_object_foreach(value, name, item) {
        add_json(templates, name, item);
    }
}

static tfm_status add_file(json_t *templates, const char *name, const char *dir, const char *file) {
    char *path = tfm__path_join(dir, file), *text = NULL;
    size_t bytes = 0;
    const tfm_status status = path ? tfm__file_read(&text, &bytes, path) : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        add(templates, name, text, bytes);
    free(text);
    free(path);
    return status;
}

/* additional_chat_templates/NAME.jinja */
static tfm_status add_folder(json_t *templates, const char *dir) {
    static const char folder[] = "additional_chat_templates", end[] = ".jinja";
    char *path = tfm__path_join(dir, folder), **names = NULL;
    size_t count = 0;
    tfm_status status = !path                              ? TFM_ERROR_MEMORY
                        : tfm__file_exists_in(dir, folder) ? tfm__dir_list(&names, &count, path)
                                                           : TFM_OK;
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        const size_t bytes = strlen(names[i]);
        char *name = bytes > strlen(end) && strcmp(names[i] + bytes - strlen(end), end) == 0
                         ? strndup(names[i], bytes - strlen(end))
                         : NULL;
        if (name)
            status = add_file(templates, name, path, names[i]);
        free(name);
    }
    tfm__names_free(names, count);
    free(path);
    return status;
}

/* Special tokens: a string, or an object with its content. */
static void add_tokens(json_t *tokens, json_t *from) {
    const char *name;
    json_t *value;
    json_object_foreach(from, name, value) {
        const size_t bytes = strlen(name);
        json_t *text = json_is_object(value) ? json_object_get(value, "content") : value;
        if (bytes > 6 && strcmp(name + bytes - 6, "_token") == 0 && json_is_string(text) &&
            !json_object_get(tokens, name))
            json_object_set(tokens, name, text);
    }
}

tfm_status tfm__chat_files_read(json_t **templates, json_t **tokens, const char *dir) {
    json_t *config = NULL, *map = NULL, *processor = NULL;
    *templates = json_object();
    *tokens = json_object();
    tfm_status status = *templates && *tokens ? tfm__gguf_tokenizer_config_of(&config, dir)
                                              : tfm__fail(TFM_ERROR_MEMORY, "out of host memory for a chat template");
    if (status == TFM_OK && !config)
        status = load(&config, dir, "tokenizer_config.json");
    if (status == TFM_OK)
        status = load(&map, dir, "special_tokens_map.json");
    if (status == TFM_OK)
        status = load(&processor, dir, "chat_template.json");
    if (status == TFM_OK && tfm__file_exists_in(dir, "chat_template.jinja"))
        status = add_file(*templates, "default", dir, "chat_template.jinja");
    if (status == TFM_OK)
        status = add_folder(*templates, dir);
    if (status == TFM_OK) {
        if (!json_object_get(*templates, "default"))
            add_value(*templates, json_object_get(processor, "chat_template"));
        if (!json_object_get(*templates, "default"))
            add_value(*templates, json_object_get(config, "chat_template"));
        add_tokens(*tokens, config);
        add_tokens(*tokens, json_object_get(config, "extra_special_tokens"));
        add_tokens(*tokens, map);
    }
    json_decref(config);
    json_decref(map);
    json_decref(processor);
    return status;
}
