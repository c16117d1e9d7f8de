#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/json.h"
#include "text/added_tokens.h"

/* Every line is searched for each of them. */
#define MAX_ADDED_TOKENS 4096

static tfm_status add(tfm__added_tokens *out, tfm__vocab *vocab, const char *text, const json_t *id, const char *path) {
    if (tfm__vocab_id(vocab, text) >= 0)
        return TFM_OK;
    if (!*text || out->count == MAX_ADDED_TOKENS)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: %s; up to %d tokens with a text each are allowed", path,
                         *text ? "too many added tokens" : "an added token is empty", MAX_ADDED_TOKENS);
    tfm_status status = tfm__vocab_add(vocab, text, id, path);
    char *copy = status == TFM_OK ? tfm__format("%s", text) : NULL;
    tfm__added_token *tokens = copy ? tfm__realloc(out->tokens, out->count + 1, sizeof(*tokens)) : NULL;
    if (!tokens) {
        free(copy);
        return status == TFM_OK ? TFM_ERROR_MEMORY : status;
    }
    out->tokens = tokens;
    tokens[out->count++] = (tfm__added_token){copy, strlen(copy), (int32_t)json_integer_value(id)};
    return TFM_OK;
}

/* {"8001": {"content": ">>nds<<", "special": true}, ...} */
static tfm_status read_decoder(tfm__added_tokens *out, tfm__vocab *vocab, const json_t *decoder, const char *path) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)decoder, key, value) {
        char *end;
        errno = 0;
        const long long number = strtoll(key, &end, 10);
        const char *text = json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
        if (!text || end == key || *end || errno)
            return tfm__fail(TFM_ERROR_FORMAT,
                             "%s: `added_tokens_decoder` has %s at \"%.100s\"; an id with a token is needed", path,
                             tfm__json_text((char[TFM__JSON_TEXT]){0}, value), key);
        json_t *id = json_integer(number);
        tfm_status status = id ? add(out, vocab, text, id, path) : TFM_ERROR_MEMORY;
        json_decref(id);
        if (status != TFM_OK)
            return status;
    }
    return TFM_OK;
}

/* {">>nds<<": 8001, ...} */
static tfm_status read_file(tfm__added_tokens *out, tfm__vocab *vocab, const char *path) {
    json_t *tokens, *id;
    const char *text;
    tfm_status status = tfm__json_load(&tokens, path);
    if (status != TFM_OK)
        return status;
    json_object_foreach(tokens, text, id) {
        if (status == TFM_OK)
            status = add(out, vocab, text, id, path);
    }
    json_decref(tokens);
    return status;
}

tfm_status tfm__added_tokens_open(tfm__added_tokens *out, tfm__vocab *vocab, const json_t *config,
                                  const char *config_path, const char *path) {
    const json_t *decoder = json_object_get(config, "added_tokens_decoder");
    if (json_is_object(decoder))
        return read_decoder(out, vocab, decoder, config_path);
    return tfm__file_exists(path) ? read_file(out, vocab, path) : TFM_OK;
}

void tfm__added_tokens_free(tfm__added_tokens *added) {
    for (size_t i = 0; i < added->count; i++)
        free(added->tokens[i].text);
    free(added->tokens);
    *added = (tfm__added_tokens){0};
}

static void look_for(tfm__added_token_scan *w, size_t i, size_t from) {
    const tfm__added_token *t = &w->added->tokens[i];
    const char *found = memmem(w->text + from, w->bytes - from, t->text, t->bytes);
    w->next[i] = found ? (size_t)(found - w->text) : w->bytes;
}

tfm_status tfm__added_token_scan_begin(tfm__added_token_scan *out, const tfm__added_tokens *added, const char *text,
                                       size_t bytes) {
    *out = (tfm__added_token_scan){added, text, bytes, NULL};
    if (added->count == 0)
        return TFM_OK;
    out->next = tfm__alloc(added->count, sizeof(*out->next));
    if (!out->next)
        return TFM_ERROR_MEMORY;
    for (size_t i = 0; i < added->count; i++)
        look_for(out, i, 0);
    return TFM_OK;
}

void tfm__added_token_scan_end(tfm__added_token_scan *scan) {
    free(scan->next);
    *scan = (tfm__added_token_scan){0};
}

const tfm__added_token *tfm__added_token_scan_next(tfm__added_token_scan *scan, size_t *at) {
    const tfm__added_token *best = NULL;
    size_t begin = scan->bytes;
    for (size_t i = 0; i < scan->added->count; i++) {
        const tfm__added_token *t = &scan->added->tokens[i];
        if (scan->next[i] < *at)
            look_for(scan, i, *at);
        if (scan->next[i] < begin || (best && scan->next[i] == begin && t->bytes > best->bytes)) {
            best = t;
            begin = scan->next[i];
        }
    }
    *at = begin;
    return best;
}
