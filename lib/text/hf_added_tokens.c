#include "text/hf_added_tokens.h"
#include "text/char_class.h"

tfm_status tfm__hf_added_tokens_add(tfm__hf_added_tokens *a, tfm__token_map *token_map,
                                    const tfm__hf_added_token *token, const char *path) {
    const size_t bytes = strlen(token->text);
    tfm_status status = TFM_OK;
    if (bytes == 0)
        return TFM_OK;
    int32_t id = tfm__token_map_find(token_map, token->text, bytes);
    bool literal = id < 0;
    if (literal) {
        const bool taken = token->id < 0 || tfm__token_map_piece(token_map, token->id, NULL);
        id = taken ? tfm__token_map_size(token_map) : token->id;
        if (id >= TFM__MAX_IDS)
            return tfm__fail(TFM_ERROR_FORMAT,
                             "%s: the id of the added token \"%.100s\" is %d; ids below %d are allowed", path,
                             token->text, (int)id, TFM__MAX_IDS);
        status = tfm__token_map_add(token_map, token->text, bytes, id, false);
    }
    for (size_t i = 0; i < a->count && !literal && status == TFM_OK; i++)
        if (a->items[i].id == id && strcmp(a->items[i].text, token->text) == 0) {
            char *text = a->items[i].text;
            literal = a->items[i].literal;
            a->items[i] = *token;
            a->items[i].literal = literal;
            a->items[i].text = text;
            a->items[i].normal = NULL;
            a->items[i].id = id;
            return TFM_OK;
        }
    if (status == TFM_OK)
        status = tfm__grow(&a->items, &a->capacity, a->count + 1, sizeof(*a->items));
    char *copy = status == TFM_OK ? tfm__strdup(token->text) : NULL;
    if (!copy)
        return status == TFM_OK ? TFM_ERROR_MEMORY : status;
    a->items[a->count] = *token;
    a->items[a->count].text = copy;
    a->items[a->count].normal = NULL;
    a->items[a->count].literal = literal;
    a->items[a->count++].id = id;
    return TFM_OK;
}

tfm_status tfm__hf_added_token_flags(tfm__hf_added_token *out, const json_t *value, tfm__json_location location) {
    tfm_status status = tfm__hf_bool(&out->single_word, value, "single_word", false, location);
    if (status == TFM_OK)
        status = tfm__hf_bool(&out->lstrip, value, "lstrip", false, location);
    if (status == TFM_OK)
        status = tfm__hf_bool(&out->rstrip, value, "rstrip", false, location);
    if (status == TFM_OK)
        status = tfm__hf_bool(&out->special, value, "special", false, location);
    return status == TFM_OK ? tfm__hf_bool(&out->normalized, value, "normalized", !out->special, location) : status;
}

/* More would be slow: all pairs are compared. */
enum { MAX_ADDED = 1 << 15 };

tfm_status tfm__hf_added_tokens_read(tfm__hf_added_tokens *a, tfm__token_map *token_map, const json_t *list,
                                     const char *path) {
    const tfm__json_location location = {path, "added_tokens"};
    size_t i;
    json_t *item;
    if (list && !json_is_null(list) && !json_is_array(list))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `added_tokens` is %s; a list is needed", path, tfm__json_kind(list));
    if (json_array_size(list) > MAX_ADDED)
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: %zu `added_tokens`; up to %d are allowed", path,
                         json_array_size(list), MAX_ADDED);
    json_array_foreach(list, i, item) {
        const char *text;
        int64_t id = -1;
        tfm__hf_added_token token = {0};
        tfm_status status = tfm__hf_string(&text, item, "content", NULL, location);
        if (status == TFM_OK)
            status = tfm__hf_int(&id, item, "id", -1, location);
        if (status == TFM_OK && (!text || id < -1 || id >= TFM__MAX_IDS))
            status = tfm__fail(TFM_ERROR_FORMAT, "%s: entry %zu of `added_tokens` is %s; a token with its id is needed",
                               path, i, tfm__json_text((char[TFM__JSON_TEXT]){0}, item));
        if (status == TFM_OK)
            status = tfm__hf_added_token_flags(&token, item, location);
        token.text = (char *)(uintptr_t)text;
        token.id = (int32_t)id;
        if (status == TFM_OK)
            status = tfm__hf_added_tokens_add(a, token_map, &token, path);
        if (status != TFM_OK)
            return status;
    }
    return TFM_OK;
}

/* ---- Finding them ------------------------------------------------------------------------------------- */

static tfm_status normalize(tfm__hf_added_token *token, const tfm__normalizer *normalizer) {
    tfm__bytes text = {0}, spare = {0};
    tfm__regex_memory memory = {0};
    bool start = true;
    tfm__bytes_add(&text, token->text, strlen(token->text));
    tfm_status status =
        text.failed ? TFM_ERROR_MEMORY : tfm__normalizer_run(normalizer, &text, &spare, &start, &memory);
    token->normal = tfm__bytes_take(&text);
    if (status == TFM_OK && !token->normal)
        status = TFM_ERROR_MEMORY;
    tfm__bytes_free(&spare);
    tfm__regex_memory_free(&memory);
    return status;
}

/* The tokens to find in raw or in normalized text. */
static tfm_status make_trie(tfm__trie *out, tfm__hf_added_tokens *a, bool normal, const tfm__normalizer *normalizer) {
    tfm__trie_key *keys = tfm__alloc(a->count, sizeof(*keys));
    tfm_status status = keys ? TFM_OK : TFM_ERROR_MEMORY;
    size_t count = 0;
    for (size_t i = 0; i < a->count && status == TFM_OK; i++) {
        if (a->items[i].normalized != normal || (a->split_special && a->items[i].special))
            continue;
        if (normal)
            status = normalize(&a->items[i], normalizer);
        const char *text = normal ? a->items[i].normal : a->items[i].text;
        if (status == TFM_OK)
            keys[count++] = (tfm__trie_key){text, strlen(text), (int32_t)i};
    }
    if (status == TFM_OK)
        status = tfm__trie_make(out, keys, count);
    free(keys);
    return status;
}

/* Finds tokens without text in decoding. */
static tfm_status find_skipped(tfm__hf_added_tokens *a) {
    tfm__token_map *special;
    tfm_status status = tfm__token_map_new(&special);
    for (size_t i = 0; i < a->count && status == TFM_OK; i++)
        if (a->items[i].special)
            status = tfm__token_map_add(special, a->items[i].text, strlen(a->items[i].text), (int32_t)i, true);
    for (size_t i = 0; i < a->count && status == TFM_OK; i++) {
        const char *text = a->items[i].normal ? a->items[i].normal : a->items[i].text;
        a->items[i].skipped = tfm__token_map_find(special, text, strlen(text)) >= 0;
    }
    if (special)
        tfm__token_map_free(&special);
    return status;
}

tfm_status tfm__hf_added_tokens_finish(tfm__hf_added_tokens *a, const tfm__token_map *token_map,
                                       const tfm__normalizer *normalizer) {
    a->by_id_count = (size_t)tfm__token_map_size(token_map);
    a->by_id = tfm__alloc(a->by_id_count, sizeof(*a->by_id));
    if (!a->by_id)
        return TFM_ERROR_MEMORY;
    memset(a->by_id, 0xff, a->by_id_count * sizeof(*a->by_id));
    for (size_t i = 0; i < a->count; i++)
        a->by_id[a->items[i].id] = (int32_t)i;
    tfm_status status = make_trie(&a->raw, a, false, normalizer);
    if (status == TFM_OK)
        status = make_trie(&a->normal, a, true, normalizer);
    return status == TFM_OK ? find_skipped(a) : status;
}

void tfm__hf_added_tokens_free(tfm__hf_added_tokens *a) {
    for (size_t i = 0; i < a->count; i++) {
        free(a->items[i].text);
        free(a->items[i].normal);
    }
    free(a->items);
    free(a->by_id);
    tfm__trie_free(&a->raw);
    tfm__trie_free(&a->normal);
    *a = (tfm__hf_added_tokens){0};
}

const tfm__hf_added_token *tfm__hf_added_token_by_id(const tfm__hf_added_tokens *a, int32_t id) {
    return id >= 0 && (size_t)id < a->by_id_count && a->by_id[id] >= 0 ? &a->items[a->by_id[id]] : NULL;
}

/* Whether a word continues across a position. */
static bool word_before(const char *text, size_t at) {
    return at > 0 && tfm__char_is_word(tfm__char_before(text, at));
}

static bool word_after(const char *text, size_t at, size_t bytes) {
    return at < bytes && tfm__char_is_word(tfm__char_next(text, &at));
}

static size_t blanks_before(const char *text, size_t at, size_t least) {
    while (at > least && tfm__char_is_space(tfm__char_before(text, at)))
        do
            at--;
        while (((unsigned char)text[at] & 0xc0) == 0x80);
    return at;
}

static size_t blanks_after(const char *text, size_t at, size_t bytes) {
    for (size_t next = at; next < bytes && tfm__char_is_space(tfm__char_next(text, &next));)
        at = next;
    return at;
}

void tfm__hf_added_tokens_split(const tfm__hf_added_tokens *a, bool normal, tfm__spans *out, const char *text,
                                size_t bytes, size_t base, bool start) {
    const tfm__trie *trie = normal ? &a->normal : &a->raw;
    size_t last = 0; /* the beginning of the part without a span */
    for (size_t at = 0, length = 0; at < bytes && trie->count > 1;) {
        const int32_t found = tfm__trie_longest(trie, text + at, bytes - at, &length);
        if (found < 0) {
            at++;
            continue;
        }
        const tfm__hf_added_token *token = tfm__hf_added_token_by_id(a, a->items[found].id);
        size_t begin = at, end = at + length;
        at = end;
        if (token->single_word && (word_before(text, begin) || word_after(text, end, bytes)))
            continue;
        if (token->lstrip) { /* not beyond the previous token's end */
            begin = blanks_before(text, begin, last < begin ? last : begin);
            begin = begin < last ? last : begin;
        }
        if (token->rstrip)
            end = blanks_after(text, end, bytes);
        if (last < begin)
            tfm__spans_add(out, base + last, base + begin, -1, start && last == 0);
        end = end < begin ? begin : end;
        tfm__spans_add(out, base + begin, base + end, token->id, start && begin == 0);
        last = end; /* also if the previous token took the text after it: then it occurs twice */
    }
    if (last < bytes)
        tfm__spans_add(out, base + last, base + bytes, -1, start && last == 0);
}
