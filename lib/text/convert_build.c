/* Builds a tokenizer.json: settings of a class, sections, tokens and templates. */
#include <stdlib.h>
#include "text/hf_convert.h"

bool tfm__convert_is_class(const tfm__conversion *c, const char *name) {
    return strcmp(c->kind->name, name) == 0;
}

const char *tfm__convert_special_token(const tfm__conversion *c, int special) {
    const json_t *value = json_object_get(c->map, tfm__special_keys[special]);
    if (!value)
        value = json_object_get(c->config, tfm__special_keys[special]);
    const char *text = json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
    return text && *text ? text : c->kind->specials[special];
}

bool tfm__convert_flag(const tfm__conversion *c, const char *key, bool fallback) {
    const json_t *value = json_object_get(c->config, key);
    return json_is_boolean(value) ? json_is_true(value) : fallback;
}

void tfm__convert_set_section(tfm__conversion *c, const char *section, json_t *value) {
    tfm__convert_set_key(c, c->root, section, value);
}

void tfm__convert_append(tfm__conversion *c, json_t *list, json_t *value) {
    c->failed |= json_array_append_new(list, value) != 0;
}

void tfm__convert_set_key(tfm__conversion *c, json_t *object, const char *key, json_t *value) {
    if (key)
        c->failed |= json_object_set_new(object, key, value) != 0;
    else
        json_decref(value);
}

json_t *tfm__convert_json(const char *text) {
    char *copy = tfm__strdup(text);
    for (char *at = copy; at && *at; at++)
        if (*at == '\'')
            *at = '"';
    json_t *value = copy ? json_loads(copy, JSON_DECODE_ANY, NULL) : NULL;
    free(copy);
    return value;
}

void tfm__convert_add_token(tfm__conversion *c, const char *text, bool special, bool lstrip) {
    json_t *token = json_pack("{s:s, s:b, s:b, s:b}", "content", text, "special", (int)special, "normalized", 0,
                              "lstrip", (int)lstrip);
    tfm__convert_append(c, json_object_get(c->root, "added_tokens"), token);
}

void tfm__convert_add_languages(tfm__conversion *c, json_t *vocab, const char *codes, const char *sign) {
    for (size_t length; *codes; codes += length + 1) {
        length = strcspn(codes, " ");
        char *name = tfm__format("%s%.*s%s", sign, (int)length, codes, sign);
        if (name)
            tfm__convert_add_token(c, name, true, false);
        if (name && vocab)
            tfm__convert_append(c, vocab, json_pack("[s, f]", name, 0.0));
        c->failed |= !name;
        free(name);
    }
}

json_int_t tfm__convert_piece_id(const tfm__conversion *c, const char *piece) {
    const json_t *vocab = json_object_get(json_object_get(c->root, "model"), "vocab");
    const json_t *id = json_object_get(vocab, piece);
    if (json_is_integer(id))
        return json_integer_value(id);
    for (size_t i = 0; i < json_array_size(vocab); i++)
        if (strcmp(json_string_value(json_array_get(json_array_get(vocab, i), 0)), piece) == 0)
            return (json_int_t)i;
    return -1;
}

/* The id of a token outside the vocabulary: from tokenizer_config.json, else the next one. */
static json_int_t added_id(tfm__conversion *c, const char *text) {
    json_t *added = json_object_get(c->root, "added_tokens");
    const json_t *vocab = json_object_get(json_object_get(c->root, "model"), "vocab");
    json_int_t next = (json_int_t)(json_array_size(vocab) + json_object_size(vocab));
    const char *key;
    json_t *value;
    size_t i;
    json_object_foreach(json_object_get(c->config, "added_tokens_decoder"), key, value) {
        const char *content = json_string_value(json_object_get(value, "content"));
        if (content && strcmp(content, text) == 0)
            return strtoll(key, NULL, 10);
    }
    json_array_foreach(added, i, value) {
        const char *content = json_string_value(json_object_get(value, "content"));
        if (tfm__convert_piece_id(c, content) >= 0)
            continue;
        if (strcmp(content, text) == 0)
            return next;
        next++;
    }
    tfm__convert_add_token(c, text, true, false);
    return next;
}

const char tfm__convert_seq_a[] = "A", tfm__convert_seq_b[] = "B";

void tfm__convert_set_template(tfm__conversion *c, const char *const *single, const char *const *pair) {
    json_t *post =
        json_pack("{s:s, s:[], s:[], s:{}}", "type", "TemplateProcessing", "single", "pair", "special_tokens");
    for (int both = 0; both < 2; both++)
        for (const char *const *name = both ? pair : single; *name; name++) {
            const bool text = *name == tfm__convert_seq_a || *name == tfm__convert_seq_b;
            json_int_t id = text ? -1 : tfm__convert_piece_id(c, *name);
            if (!text && id < 0)
                id = added_id(c, *name);
            tfm__convert_append(c, json_object_get(post, both ? "pair" : "single"),
                                json_pack("{s:{s:s}}", text ? "Sequence" : "SpecialToken", "id", *name));
            if (!text)
                tfm__convert_set_key(c, json_object_get(post, "special_tokens"), *name,
                                     json_pack("{s:[I]}", "ids", id));
        }
    tfm__convert_set_section(c, "post_processor", post);
}

void tfm__convert_set_bos_eos(tfm__conversion *c) {
    const char *bos = tfm__convert_flag(c, "add_bos_token", false) ? tfm__convert_special_token(c, TFM__BOS) : NULL;
    const char *eos = tfm__convert_flag(c, "add_eos_token", false) ? tfm__convert_special_token(c, TFM__EOS) : NULL;
    const char *names[8] = {0};
    size_t count = 0;
    for (int both = 0; both < 2; both++) {
        if (bos)
            names[count++] = bos;
        names[count++] = both ? tfm__convert_seq_b : tfm__convert_seq_a;
        if (eos)
            names[count++] = eos;
    }
    const char *single[4] = {0};
    memcpy(single, names, count / 2 * sizeof(*names));
    tfm__convert_set_template(c, single, names);
}
