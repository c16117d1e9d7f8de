/* WordPiece, which takes the longest piece that a word begins with, then the longest that goes on; and WordLevel, which
 * knows whole words only. */
#include "text/bytes.h"
#include "text/piece_model.h"
#include "text/trie.h"

typedef struct wordpiece {
    tfm__trie trie;
    uint32_t within; /* the node of the prefix of pieces within words; 0 with `prefixed` where no piece has it */
    bool prefixed;
    int64_t longest; /* words with more characters are unknown */
} wordpiece;

static tfm_status unknown(const tfm__piece_model *model, tfm__ids *out) {
    if (model->unk < 0)
        return tfm__fail(TFM_ERROR_INPUT, "the text has a word that the tokenizer does not know, and it has no unknown "
                                          "piece");
    return tfm__ids_add(out, model->unk);
}

/* The longest piece from `at` on, and its end. */
static int32_t longest(const wordpiece *w, const char *word, size_t at, size_t bytes, size_t *end) {
    uint32_t node = at ? w->within : 0;
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

static tfm_status cut_wordpiece(const tfm__piece_model *model, tfm__ids *out, const char *word, size_t bytes,
                                tfm__scratch *scratch) {
    const wordpiece *w = model->self;
    const size_t before = out->count;
    int64_t characters = 0;
    (void)scratch;
    for (size_t at = 0; at < bytes && characters <= w->longest; characters++)
        at += tfm__char_bytes(word + at);
    if (characters > w->longest)
        return unknown(model, out);
    for (size_t at = 0; at < bytes;) {
        const int32_t id = longest(w, word, at, bytes, &at);
        if (id < 0) {
            out->count = before;
            return unknown(model, out);
        }
        if (tfm__ids_add(out, id) != TFM_OK)
            return TFM_ERROR_MEMORY;
    }
    return TFM_OK;
}

static void close_wordpiece(void *self) {
    wordpiece *w = self;
    tfm__trie_free(&w->trie);
    free(w);
}

static tfm_status make_trie(tfm__trie *trie, const tfm__lexicon *lexicon) {
    const int32_t size = tfm__lexicon_size(lexicon);
    tfm__trie_key *keys = tfm__alloc((size_t)size, sizeof(*keys));
    size_t count = 0;
    if (!keys)
        return TFM_ERROR_MEMORY;
    for (int32_t id = 0; id < size; id++) {
        tfm__trie_key *key = &keys[count];
        key->text = tfm__lexicon_piece(lexicon, id, &key->bytes);
        key->value = id;
        count += key->text != NULL;
    }
    const tfm_status status = tfm__trie_make(trie, keys, count);
    free(keys);
    return status;
}

tfm_status tfm__wordpiece_read(tfm__piece_model *out, const json_t *value, tfm__place place) {
    wordpiece *w = out->self = tfm__alloc(1, sizeof(*w));
    const char *prefix;
    out->close = close_wordpiece;
    out->cut = cut_wordpiece;
    if (!w)
        return TFM_ERROR_MEMORY;
    tfm_status status = tfm__unk_read(&out->unk, out->lexicon, value, place);
    if (status == TFM_OK)
        status = tfm__hf_string(&prefix, value, "continuing_subword_prefix", "##", place);
    if (status == TFM_OK)
        status = tfm__hf_int(&w->longest, value, "max_input_chars_per_word", 100, place);
    if (status == TFM_OK)
        status = make_trie(&w->trie, out->lexicon);
    if (status != TFM_OK)
        return status;
    w->prefixed = *prefix != '\0';
    for (const char *at = prefix; *at; at++)
        if ((w->within = tfm__trie_step(&w->trie, w->within, (unsigned char)*at)) == 0)
            break;
    return TFM_OK;
}

static tfm_status cut_wordlevel(const tfm__piece_model *model, tfm__ids *out, const char *word, size_t bytes,
                                tfm__scratch *scratch) {
    (void)scratch;
    const int32_t id = tfm__lexicon_find_own(model->lexicon, word, bytes);
    return id >= 0 ? tfm__ids_add(out, id) : unknown(model, out);
}

tfm_status tfm__wordlevel_read(tfm__piece_model *out, const json_t *value, tfm__place place) {
    out->cut = cut_wordlevel;
    return tfm__unk_read(&out->unk, out->lexicon, value, place);
}
