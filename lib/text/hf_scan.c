/* Reads the tokenizer.json of a byte-pair model without a JSON tree of its vocabulary and merges, which are nearly the
 * whole file. Anything unusual, and every error, is left to the general reader. */
#include "base/file.h"
#include "text/hf_scan.h"
#include "text/line_file.h"
#include "text/utf8.h"

/* A text of JSON. All functions return false where it is not what they expect. */
typedef struct scan {
    const char *at, *end;
    const char *copied;     /* end of what `rest` has */
    tfm__bytes rest;        /* the text with {} as vocabulary and [] as merges */
    tfm__bytes left, right; /* strings with escapes */
    tfm__token_map *token_map;
    int32_t (*merges)[2]; /* [count] */
    size_t count, room;
    bool has_vocab, has_merges;
} scan;

/* ---- Values ------------------------------------------------------------------------------------------- */

/* The next character that is not blank; 0 at the end. */
static char peek(scan *s) {
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t'))
        s->at++;
    return s->at < s->end ? *s->at : '\0';
}

static bool accept(scan *s, char c) {
    const bool there = peek(s) == c;
    s->at += there;
    return there;
}

static bool hex4(scan *s, int32_t *out) {
    *out = 0;
    for (int i = 0; i < 4; i++, s->at++) {
        const char c = s->at < s->end ? *s->at : '\0';
        const int digit = c >= '0' && c <= '9'                 ? c - '0'
                          : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                               : -1;
        if (digit < 0)
            return false;
        *out = *out << 4 | digit;
    }
    return true;
}

/* The character after a backslash. */
static bool escape(scan *s, tfm__bytes *out) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char c = s->at < s->end ? *s->at++ : '\0', *name = c ? strchr(names, c) : NULL;
    int32_t code = 0, low = 0;
    if (name)
        tfm__bytes_add(out, &values[name - names], 1);
    if (name)
        return true;
    if (c != 'u' || !hex4(s, &code) || code == 0)
        return false;
    if (code >= 0xd800 && code < 0xe000) {
        if (code >= 0xdc00 || s->end - s->at < 2 || *s->at++ != '\\' || *s->at++ != 'u' || !hex4(s, &low) ||
            low < 0xdc00 || low >= 0xe000)
            return false;
        code = 0x10000 + ((code - 0xd800) << 10 | (low - 0xdc00));
    }
    tfm__bytes_add_char(out, code);
    return true;
}

/* A string: a part of the text, or in `own` if it has escapes. */
static bool string(scan *s, tfm__string_view *out, tfm__bytes *own) {
    if (!accept(s, '"'))
        return false;
    const char *from = s->at;
    unsigned char seen = 0;
    own->count = 0;
    for (; s->at < s->end && *s->at != '"'; s->at++) {
        if ((unsigned char)*s->at < ' ')
            return false;
        seen |= (unsigned char)*s->at;
        if (*s->at != '\\')
            continue;
        tfm__bytes_add(own, from, (size_t)(s->at++ - from));
        if (!escape(s, own))
            return false;
        from = s->at--;
    }
    if (s->at == s->end)
        return false;
    *out = (tfm__string_view){from, (size_t)(s->at++ - from)};
    if (own->count) {
        tfm__bytes_add(own, out->text, out->bytes);
        *out = (tfm__string_view){own->data, own->count};
    }
    return !own->failed && (seen < 0x80 || tfm__utf8_valid(out->text, out->bytes) == out->bytes);
}

/* An object: calls `member` at each value. */
static bool object(scan *s, bool (*member)(scan *s, tfm__string_view key)) {
    tfm__string_view key;
    if (!accept(s, '{'))
        return false;
    if (accept(s, '}'))
        return true;
    do
        if (!string(s, &key, &s->left) || !accept(s, ':') || !member(s, key))
            return false;
    while (accept(s, ','));
    return accept(s, '}');
}

/* Any value, unchecked: it is parsed as part of `rest`. */
static bool skip(scan *s) {
    tfm__string_view text;
    size_t depth = 0;
    for (char c; (c = peek(s));) {
        if (depth == 0 && (c == ',' || c == '}' || c == ']'))
            return true;
        if (c == '"') {
            if (!string(s, &text, &s->right))
                return false;
            continue;
        }
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        s->at++;
    }
    return false;
}

/* ---- Vocabulary and merges ---------------------------------------------------------------------------- */

static bool piece(scan *s, tfm__string_view text) {
    int32_t id = 0;
    const char *from = (peek(s), s->at);
    for (; s->at < s->end && *s->at >= '0' && *s->at <= '9' && id < TFM__MAX_IDS; s->at++)
        id = 10 * id + (*s->at - '0');
    if (s->at == from || (*from == '0' && s->at - from > 1) || id >= TFM__MAX_IDS ||
        tfm__token_map_piece(s->token_map, id, NULL))
        return false;
    const int32_t before = tfm__token_map_count(s->token_map);
    return tfm__token_map_add(s->token_map, text.text, text.bytes, id, true) == TFM_OK &&
           tfm__token_map_count(s->token_map) > before;
}

/* "left right" or ["left", "right"] */
static bool merge(scan *s) {
    tfm__string_view left, right;
    if (peek(s) == '"') {
        if (!string(s, &left, &s->left))
            return false;
        const char *blank = memchr(left.text, ' ', left.bytes), *end = left.text + left.bytes;
        if (!blank || memchr(blank + 1, ' ', (size_t)(end - blank - 1)))
            return false;
        right = (tfm__string_view){blank + 1, (size_t)(end - blank - 1)};
        left.bytes = (size_t)(blank - left.text);
    } else if (!accept(s, '[') || !string(s, &left, &s->left) || !accept(s, ',') || !string(s, &right, &s->right) ||
               !accept(s, ']')) {
        return false;
    }
    if (tfm__grow(&s->merges, &s->room, s->count + 1, sizeof(*s->merges)) != TFM_OK)
        return false;
    int32_t *ids = s->merges[s->count++];
    ids[0] = tfm__token_map_find(s->token_map, left.text, left.bytes);
    ids[1] = tfm__token_map_find(s->token_map, right.text, right.bytes);
    return ids[0] >= 0 && ids[1] >= 0;
}

static bool merges(scan *s) {
    if (!accept(s, '['))
        return false;
    if (accept(s, ']'))
        return true;
    do
        if (!merge(s))
            return false;
    while (accept(s, ','));
    return accept(s, ']');
}

/* Adds the text up to here to the rest, and goes on after a value that is replaced there. */
static void copy_until(scan *s, const char *end, const char *instead) {
    tfm__bytes_add(&s->rest, s->copied, (size_t)(end - s->copied));
    tfm__bytes_add(&s->rest, instead, strlen(instead));
    s->copied = s->at;
}

static bool is(tfm__string_view text, const char *word) {
    return text.bytes == strlen(word) && memcmp(text.text, word, text.bytes) == 0;
}

static bool model_member(scan *s, tfm__string_view key) {
    const char *from = (peek(s), s->at);
    if (is(key, "vocab")) {
        if (s->has_vocab || !object(s, piece))
            return false;
        s->has_vocab = true;
        copy_until(s, from, "{}");
        return true;
    }
    if (is(key, "merges")) {
        if (!s->has_vocab || s->has_merges || !merges(s))
            return false;
        s->has_merges = true;
        copy_until(s, from, "[]");
        return true;
    }
    return skip(s);
}

static bool member(scan *s, tfm__string_view key) {
    return is(key, "model") ? object(s, model_member) : skip(s);
}

/* ---- A file ------------------------------------------------------------------------------------------- */

/* The model of the vocabulary and the merges. */
static bool make_model(tfm__subword_model *out, scan *s, const json_t *value, const char *path) {
    const tfm__json_location location = {path, "model"};
    const json_t *type = json_object_get(value, "type");
    if (type && !(json_is_string(type) && strcmp(json_string_value(type), "BPE") == 0))
        return false;
    *out = (tfm__subword_model){.token_map = s->token_map, .unk = -1};
    s->token_map = NULL;
    tfm__token_map_seal(out->token_map);
    tfm_status status = tfm__bpe_new(out, value, s->count, location);
    for (size_t i = 0; i < s->count && status == TFM_OK; i++)
        status = tfm__bpe_add_merge_ids(out, s->merges[i][0], s->merges[i][1], location);
    if (status != TFM_OK)
        tfm__subword_model_free(out);
    return status == TFM_OK;
}

static bool read_file(json_t **root, tfm__subword_model *model, scan *s, const tfm__file *file, const char *path) {
    if (file->size == 0)
        return false;
    s->at = s->copied = (const char *)file->data;
    s->end = s->at + file->size;
    if (tfm__token_map_new(&s->token_map) != TFM_OK || !object(s, member) || peek(s) || s->at != s->end ||
        !s->has_merges)
        return false;
    copy_until(s, s->end, "");
    if (s->rest.failed || tfm__json_parse(root, s->rest.data, s->rest.count, path) != TFM_OK)
        return false;
    if (make_model(model, s, json_object_get(*root, "model"), path))
        return true;
    json_decref(*root);
    return false;
}

bool tfm__hf_scan(json_t **root, tfm__subword_model *model, const char *path) {
    char before[TFM__MESSAGE_MAX];
    scan s = {0};
    tfm__file file;
    tfm__error_save(before);
    const bool good = tfm__file_map(&file, path) == TFM_OK && read_file(root, model, &s, &file, path);
    tfm__error_restore(before);
    tfm__file_unmap(&file);
    tfm__bytes_free(&s.rest);
    tfm__bytes_free(&s.left);
    tfm__bytes_free(&s.right);
    if (s.token_map)
        tfm__token_map_free(&s.token_map);
    free(s.merges);
    if (!good)
        *root = NULL;
    return good;
}
