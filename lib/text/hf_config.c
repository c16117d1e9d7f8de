/* Settings of tokenizer_config.json and its older companions, next to a tokenizer.json. */
#include <errno.h>
#include "base/file.h"
#include "text/hf_class.h"

static const tfm__hf_added_token *find_added(const tfm__hf_tokenizer *t, const char *text) {
    for (size_t i = 0; text && i < t->added.count; i++)
        if (strcmp(t->added.items[i].text, text) == 0)
            return &t->added.items[i];
    return NULL;
}

/* Adds a token: a string, or an object with `content` and flags. Known properties stay, except those in the object;
 * those of a token named as special all stay, as in transformers. */
static tfm_status add_token(tfm__hf_tokenizer *t, const json_t *value, int64_t id, bool special, bool named,
                            tfm__json_location location) {
    tfm__hf_added_token piece = {.special = special, .normalized = !special, .id = (int32_t)id};
    const char *text = json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
    if (!text || id >= TFM__MAX_IDS)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` has %s; a token is needed", location.path, location.section,
                         tfm__json_text((char[TFM__JSON_TEXT]){0}, value));
    const tfm__hf_added_token *known = find_added(t, text);
    tfm_status status = TFM_OK;
    if (json_is_object(value) && !(known && named))
        status = tfm__hf_added_token_flags(&piece, value, location);
    else if (known)
        piece = *known;
    piece.special |= special;
    piece.text = (char *)(uintptr_t)text;
    return status == TFM_OK ? tfm__hf_added_tokens_add(&t->added, t->model.token_map, &piece, location.path) : status;
}

/* {"8001": {"content": "<|user|>", ...}, ...}, in the order of the ids. */
static tfm_status add_added_tokens_decoder(tfm__hf_tokenizer *t, const json_t *decoder, const char *path) {
    const tfm__json_location location = {path, "added_tokens_decoder"};
    const char *key;
    json_t *value;
    int64_t last = -1;
    tfm_status status = TFM_OK;
    if (json_object_size(decoder) > 4096) /* finding the next id would be slow: the ids are explicit anyway */
        last = INT64_MAX;
    for (size_t left = json_object_size(decoder); left > 0 && status == TFM_OK; left--) {
        const json_t *next = NULL;
        int64_t id = INT64_MAX;
        json_object_foreach((json_t *)(uintptr_t)decoder, key, value) {
            char *end;
            errno = 0;
            const long long number = strtoll(key, &end, 10);
            if (errno || end == key || *end || number < 0 || number >= TFM__MAX_IDS)
                return tfm__fail(TFM_ERROR_FORMAT, "%s: `added_tokens_decoder` has the id \"%.100s\"", path, key);
            if (last == INT64_MAX && status == TFM_OK)
                status = add_token(t, value, number, false, false, location);
            else if (number > last && number < id) {
                id = number;
                next = value;
            }
        }
        if (!next)
            break;
        if (status == TFM_OK)
            status = add_token(t, next, id, false, false, location);
        last = id;
    }
    return status;
}

/* {"<|user|>": 8001, ...} */
static tfm_status add_added_tokens_file(tfm__hf_tokenizer *t, const char *dir) {
    char *path = tfm__path_join(dir, "added_tokens.json");
    json_t *tokens = NULL, *id;
    const char *text;
    if (!path)
        return TFM_ERROR_MEMORY;
    tfm_status status = tfm__file_exists(path) ? tfm__json_load(&tokens, path) : TFM_OK;
    json_object_foreach(tokens, text, id) {
        json_t *token = status == TFM_OK ? json_string(text) : NULL;
        if (token)
            status = add_token(t, token, json_is_integer(id) ? json_integer_value(id) : -1, false, false,
                               (tfm__json_location){path, text});
        json_decref(token);
    }
    json_decref(tokens);
    free(path);
    return status;
}

/* A list of tokens, or an object with tokens as values. As in transformers, a list does not make a token special that
 * was added as a normal one. */
static tfm_status add_extra(tfm__hf_tokenizer *t, const json_t *config, const char *key, const char *path) {
    const json_t *list = json_object_get(config, key);
    const char *name;
    json_t *value;
    size_t i;
    tfm_status status = TFM_OK;
    json_array_foreach(list, i, value) {
        if (status == TFM_OK && !find_added(t, json_string_value(value)))
            status = add_token(t, value, -1, true, false, (tfm__json_location){path, key});
    }
    json_object_foreach((json_t *)(uintptr_t)list, name, value) {
        if (status == TFM_OK)
            status = add_token(t, value, -1, true, false, (tfm__json_location){path, key});
    }
    return status;
}

/* Finds the special tokens, adds missing ones, and stores their ids. */
static tfm_status find_specials(int32_t ids[TFM__SPECIALS], tfm__hf_tokenizer *t, const json_t *config,
                                const json_t *map, const tfm__hf_class *kind, const char *path) {
    tfm_status status = TFM_OK;
    for (int i = 0; i < TFM__SPECIALS && status == TFM_OK; i++) {
        const json_t *value = json_object_get(map, tfm__special_keys[i]);
        if (!value)
            value = json_object_get(config, tfm__special_keys[i]);
        const char *text = json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
        if (!value && kind) /* default name */
            text = kind->specials[i];
        if (value && !json_is_null(value))
            status = add_token(t, value, -1, true, true, (tfm__json_location){path, tfm__special_keys[i]});
        ids[i] = text ? tfm__token_map_find(t->model.token_map, text, strlen(text)) : -1;
        /* A default counts if the vocabulary has it; with older files transformers adds it. */
        if (!value && text && (ids[i] >= 0 || t->legacy_files)) {
            json_t *name = json_string(text);
            status = name ? add_token(t, name, -1, true, true, (tfm__json_location){path, tfm__special_keys[i]})
                          : TFM_ERROR_MEMORY;
            json_decref(name);
            ids[i] = tfm__token_map_find(t->model.token_map, text, strlen(text));
        }
    }
    return status;
}

/* Without configured special tokens: common names, if they are added tokens. */
static void guess_special_tokens(int32_t ids[TFM__SPECIALS], const tfm__hf_tokenizer *t) {
    static const char *const NAMES[][2] = {
        {"<s>", "<bos>"},   {"</s>", "<eos>"}, {"<unk>", "[UNK]"},   {"[SEP]", NULL},
        {"<pad>", "[PAD]"}, {"[CLS]", NULL},   {"<mask>", "[MASK]"},
    };
    for (int i = 0; i < TFM__SPECIALS; i++)
        for (int j = 0; j < 2 && ids[i] < 0; j++)
            for (size_t k = 0; k < t->added.count && NAMES[i][j]; k++)
                if (t->added.items[k].special && strcmp(t->added.items[k].text, NAMES[i][j]) == 0)
                    ids[i] = t->added.items[k].id;
}

/* The language of texts of either side, if the class has one. */
static tfm_status set_languages(tfm__hf_tokenizer *t, const json_t *config, const tfm__hf_class *kind) {
    tfm_status status = tfm__tokenizer_languages(t->languages, config);
    t->language_position = kind->language_position;
    if (json_is_true(json_object_get(config, "legacy_behavior")))
        t->language_position = TFM__LANGUAGE_LAST;
    t->language_prefix = kind->language_prefix;
    t->language_suffix = kind->language_suffix;
    t->codes = kind->codes;
    if (status == TFM_OK && !t->languages[TFM_SOURCE]) {
        t->languages[TFM_SOURCE] = tfm__strdup(kind->language);
        status = t->languages[TFM_SOURCE] ? TFM_OK : TFM_ERROR_MEMORY;
    }
    if (status == TFM_OK && !t->languages[TFM_TARGET]) { /* as transformers does */
        t->languages[TFM_TARGET] = tfm__strdup(t->languages[TFM_SOURCE]);
        status = t->languages[TFM_TARGET] ? TFM_OK : TFM_ERROR_MEMORY;
    }
    return status;
}

static void fill_info(tfm_tokenizer_info *info, const tfm__hf_tokenizer *t, const int32_t ids[TFM__SPECIALS]) {
    const int32_t size = tfm__token_map_size(t->model.token_map),
                  unk = ids[TFM__UNK] < 0 ? t->model.unk : ids[TFM__UNK];
    *info = (tfm_tokenizer_info){
        .source_size = size,
        .target_size = size,
        .source_eos = ids[TFM__EOS],
        .target_eos = ids[TFM__EOS],
        .source_unk = unk,
        .target_unk = unk,
        .source_pad = ids[TFM__PAD],
        .target_pad = ids[TFM__PAD],
        .bos = ids[TFM__BOS],
        .cls = ids[TFM__CLS],
        .sep = ids[TFM__SEP],
        .mask = ids[TFM__MASK],
    };
}

static tfm_status configure(tfm__hf_tokenizer *t, tfm_tokenizer_info *info, const json_t *config, const json_t *map,
                            const tfm__hf_class *kind, const char *path, const char *dir) {
    int32_t ids[TFM__SPECIALS];
    const json_t *decoder = json_object_get(config, "added_tokens_decoder");
    tfm_status status =
        json_is_object(decoder) ? add_added_tokens_decoder(t, decoder, path) : add_added_tokens_file(t, dir);
    if (status == TFM_OK)
        status = find_specials(ids, t, config, map, kind, path);
    if (status == TFM_OK)
        status = add_extra(t, config, "extra_special_tokens", path);
    if (status == TFM_OK)
        status = add_extra(t, config, "additional_special_tokens", path);
    if (status == TFM_OK)
        status = add_extra(t, map, "additional_special_tokens", path);
    if (status == TFM_OK && kind && kind->language_position != TFM__LANGUAGE_NONE)
        status = set_languages(t, config, kind);
    if (status != TFM_OK)
        return status;
    if (!kind && !json_object_size(config))
        guess_special_tokens(ids, t);
    t->eos = ids[TFM__EOS];
    fill_info(info, t, ids);
    return TFM_OK;
}

static bool is_one_of(const tfm__hf_class *kind, const char *const *names) {
    while (kind && *names && strcmp(kind->name, *names) != 0)
        names++;
    return kind && *names;
}

static bool flag_of(const json_t *config, const char *key, bool fallback) {
    const json_t *value = json_object_get(config, key);
    return json_is_boolean(value) ? json_is_true(value) : fallback;
}

/* The normalizer that BERT's classes build: new, or NULL without memory. */
static json_t *bert_normalizer(const json_t *config) {
    const json_t *accents = json_object_get(config, "strip_accents");
    return json_pack("{s:s, s:b, s:b, s:b, s:o}", "type", "BertNormalizer", "clean_text", 1, "lowercase",
                     (int)flag_of(config, "do_lower_case", true), "handle_chinese_chars",
                     (int)flag_of(config, "tokenize_chinese_chars", true), "strip_accents",
                     json_is_boolean(accents) ? json_boolean(json_is_true(accents)) : json_null());
}

tfm_status tfm__hf_override(json_t *root, const json_t *config, const char *dir) {
    static const char *const berts[] = {"Bert", "DistilBert", "MPNet", NULL};
    static const char *const bytes[] = {"GPT2", "Roberta", "Bart", NULL};
    /* Other classes use tokenizer.json as it is, whatever the model is. */
    const char *name = json_string_value(json_object_get(config, "tokenizer_class"));
    const tfm__hf_class *kind = NULL;
    const tfm_status status = !name || tfm__hf_class_by_name(name) ? tfm__hf_class_find(&kind, config, dir) : TFM_OK;
    if (status != TFM_OK)
        return status;
    const json_t *norm = json_object_get(json_object_get(root, "normalizer"), "type");
    json_t *cut = json_object_get(root, "pre_tokenizer");
    const json_t *type = json_object_get(cut, "type"), *space = json_object_get(config, "add_prefix_space");
    if (is_one_of(kind, berts) && json_is_string(norm) && strcmp(json_string_value(norm), "BertNormalizer") == 0 &&
        json_object_set_new(root, "normalizer", bert_normalizer(config)) != 0)
        return TFM_ERROR_MEMORY;
    if (is_one_of(kind, bytes) && json_is_boolean(space) && json_is_string(type) &&
        strcmp(json_string_value(type), "ByteLevel") == 0 &&
        json_object_set(cut, "add_prefix_space", (json_t *)(uintptr_t)space) != 0)
        return TFM_ERROR_MEMORY;
    return TFM_OK;
}

tfm_status tfm__hf_configure(tfm__hf_tokenizer *t, tfm_tokenizer_info *info, const json_t *config, const char *dir) {
    const tfm__hf_class *kind;
    char *path = tfm__path_join(dir, "tokenizer_config.json"),
         *map_path = tfm__path_join(dir, "special_tokens_map.json");
    json_t *map = NULL;
    tfm_status status = path && map_path ? tfm__hf_class_find(&kind, config, dir) : TFM_ERROR_MEMORY;
    /* The older file counts if the newer key is missing. */
    if (status == TFM_OK && !json_object_get(config, "added_tokens_decoder") && tfm__file_exists(map_path))
        status = tfm__json_load(&map, map_path);
    if (status == TFM_OK)
        status = configure(t, info, config, map, kind, path, dir);
    if (status == TFM_OK)
        status = tfm__hf_bool(&t->clean_up, config, "clean_up_tokenization_spaces", false,
                              (tfm__json_location){path, "tokenizer_config.json"});
    if (status == TFM_OK)
        status = tfm__hf_bool(&t->added.split_special, config, "split_special_tokens", false,
                              (tfm__json_location){path, "tokenizer_config.json"});
    if (t->model.is_bpe)
        t->clean_up = false; /* transformers does not clean up the text of byte-pair models */
    json_decref(map);
    free(map_path);
    free(path);
    return status;
}
