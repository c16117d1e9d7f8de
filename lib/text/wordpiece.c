/* WordPiece: the longest piece that is a prefix of the word, then the longest continuations; and WordLevel: whole words
 * only. */
#include "text/bytes.h"
#include "text/subword_model.h"
#include "text/trie.h"

typedef struct wordpiece {
    tfm__trie trie;
    uint32_t continuation; /* the trie node of the continuation prefix; 0 with `prefixed` if no piece has it */
    bool prefixed;
    int64_t max_chars; /* longer words are unknown */
} wordpiece;

static tfm_status add_unk(const tfm__subword_model *model, tfm__id_buffer *out) {
    if (model->unk < 0)
        return tfm__fail(TFM_ERROR_INPUT, "the text has a word that the tokenizer does not know, and it has no unknown "
                                          "piece");
    return tfm__id_buffer_add(out, model->unk);
}

/* The longest piece from `at` on, and its end. */
static int32_t longest_piece(const wordpiece *w, const char *word, size_t at, size_t bytes, size_t *end) {
    uint32_t node = at ? w->continuation : 0;
    int32_t id = -1;
    if (at && w->prefixed && node == 0)
        return -1;
    for (size_t i = at; i < bytes && (node = tfm__trie_step(&w->trie, node, (unsigned char)word[i])) != 0; i++)
        if (w->trie.nodes[node].value >= 0) {
            id = w->trie.nodes[node].value;
            *end = i + 1;
        }
    return id;
}

static tfm_status encode_wordpiece(const tfm__subword_model *model, tfm__id_buffer *out, const char *word, size_t bytes,
                                   tfm__scratch *scratch) {
    const wordpiece *w = model->self;
    const size_t before = out->count;
    int64_t characters = 0;
    (void)scratch;
    for (size_t at = 0; at < bytes && characters <= w->max_chars; characters++)
        at += tfm__char_bytes(word + at);
    if (characters > w->max_chars)
        return add_unk(model, out);
    for (size_t at = 0; at < bytes;) {
        const int32_t id = longest_piece(w, word, at, bytes, &at);
        if (id < 0) {
            out->count = before;
            return add_unk(model, out);
        }
        if (tfm__id_buffer_add(out, id) != TFM_OK)
            return TFM_ERROR_MEMORY;
    }
    return TFM_OK;
}

static void close_wordpiece(void *self) {
    wordpiece *w = self;
    tfm__trie_free(&w->trie);
    free(w);
}

static tfm_status make_trie(tfm__trie *trie, const tfm__token_map *token_map) {
    const int32_t size = tfm__token_map_size(token_map);
    tfm__trie_key *keys = tfm__alloc((size_t)size, sizeof(*keys));
    size_t count = 0;
    if (!keys)
        return TFM_ERROR_MEMORY;
    for (int32_t id = 0; id < size; id++) {
        tfm__trie_key *key = &keys[count];
        key->text = tfm__token_map_piece(token_map, id, &key->bytes);
        key->value = id;
        count += key->text != NULL;
    }
    const tfm_status status = tfm__trie_make(trie, keys, count);
    free(keys);
    return status;
}

tfm_status tfm__wordpiece_read(tfm__subword_model *out, const json_t *value, tfm__json_location location) {
    wordpiece *w = out->self = tfm__alloc(1, sizeof(*w));
    const char *prefix;
    out->close = close_wordpiece;
    out->encode_word = encode_wordpiece;
    if (!w)
        return TFM_ERROR_MEMORY;
    tfm_status status = tfm__read_unk_token(&out->unk, out->token_map, value, location);
    if (status == TFM_OK)
        status = tfm__hf_string(&prefix, value, "continuing_subword_prefix", "##", location);
    if (status == TFM_OK)
        status = tfm__hf_int(&w->max_chars, value, "max_input_chars_per_word", 100, location);
    if (status == TFM_OK)
        status = make_trie(&w->trie, out->token_map);
    if (status != TFM_OK)
        return status;
    w->prefixed = *prefix != '\0';
    for (const char *at = prefix; *at; at++)
        if ((w->continuation = tfm__trie_step(&w->trie, w->continuation, (unsigned char)*at)) == 0)
            break;
    return TFM_OK;
}

static tfm_status encode_wordlevel(const tfm__subword_model *model, tfm__id_buffer *out, const char *word, size_t bytes,
                                   tfm__scratch *scratch) {
    (void)scratch;
    const int32_t id = tfm__token_map_find_base(model->token_map, word, bytes);
    return id >= 0 ? tfm__id_buffer_add(out, id) : add_unk(model, out);
}

tfm_status tfm__wordlevel_read(tfm__subword_model *out, const json_t *value, tfm__json_location location) {
    out->encode_word = encode_wordlevel;
    return tfm__read_unk_token(&out->unk, out->token_map, value, location);
}
