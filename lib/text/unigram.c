/* A unigram model (Kudo 2018): the segmentation of a word with the largest sum of scores. */
#include <math.h>
#include "text/bytes.h"
#include "text/subword_model.h"
#include "text/trie.h"

/* Score of an unknown character below the worst piece. */
#define UNKNOWN_PENALTY 10.0

typedef struct unigram {
    tfm__trie trie;
    double *scores; /* by id */
    double unknown; /* the score of an unknown character */
    bool byte_fallback;
    int32_t bytes[256];
} unigram;

/* The best path to a position. */
typedef struct lattice_node {
    double score;
    uint32_t from; /* NO_PATH if there is none yet */
    int32_t id;
} lattice_node;

#define NO_PATH UINT32_MAX

static void relax(lattice_node *node, double score, size_t from, int32_t id) {
    if (node->from == NO_PATH || score > node->score)
        *node = (lattice_node){score, (uint32_t)from, id};
}

/* Viterbi search of the best path to each position. */
static bool viterbi(const tfm__subword_model *model, lattice_node *best, const char *word, size_t bytes) {
    const unigram *u = model->self;
    for (size_t i = 0; i <= bytes; i++)
        best[i] = (lattice_node){0, NO_PATH, -1};
    for (size_t at = 0, next; at < bytes; at = next) {
        next = at + tfm__char_bytes(word + at);
        const double here = best[at].score;
        bool single = false;
        uint32_t node = 0;
        for (size_t i = at; i < bytes && (node = tfm__trie_step(&u->trie, node, (unsigned char)word[i])) != 0; i++) {
            const int32_t id = u->trie.nodes[node].value;
            if (id < 0)
                continue;
            relax(&best[i + 1], u->scores[id] + here, at, id);
            single |= i + 1 == next;
        }
        if (!single && model->unk < 0)
            return false;
        if (!single)
            relax(&best[next], u->unknown + here, at, model->unk);
    }
    return true;
}

/* The ids of an unknown part; adjacent unknown characters are one part. */
static void add_unknown(const tfm__subword_model *model, tfm__id_buffer *out, const char *text, size_t bytes) {
    const unigram *u = model->self;
    const int32_t id = tfm__token_map_find_base(model->token_map, text, bytes);
    bool known = u->byte_fallback && id < 0;
    for (size_t i = 0; i < bytes && known; i++)
        known = u->bytes[(unsigned char)text[i]] >= 0;
    if (known)
        for (size_t i = 0; i < bytes; i++)
            out->ids[out->count++] = u->bytes[(unsigned char)text[i]];
    else
        out->ids[out->count++] = id < 0 ? model->unk : id;
}

/* Reverses the best path: each position gets its successor instead of its predecessor. */
static void backtrack(lattice_node *best, size_t bytes) {
    uint32_t next = NO_PATH;
    for (size_t at = bytes; at > 0;) {
        const uint32_t from = best[at].from;
        best[at].from = next;
        next = (uint32_t)at;
        at = from;
    }
    best[0].from = next;
}

static tfm_status encode_word(const tfm__subword_model *model, tfm__id_buffer *out, const char *word, size_t bytes,
                              tfm__scratch *scratch) {
    if (bytes >= NO_PATH)
        return tfm__fail(TFM_ERROR_INPUT, "a word of %zu bytes is too long", bytes);
    lattice_node *best = tfm__scratch_reserve(scratch, (bytes + 1) * sizeof(*best));
    if (!best || tfm__id_buffer_reserve(out, bytes + 8) != TFM_OK)
        return TFM_ERROR_MEMORY;
    if (!viterbi(model, best, word, bytes))
        return tfm__fail(TFM_ERROR_INPUT, "the text has a character that the tokenizer has no piece for, and it has no "
                                          "unknown piece");
    backtrack(best, bytes);
    for (size_t at = 0, next; at < bytes; at = next) {
        next = best[at].from;
        const int32_t id = best[next].id;
        if (id != model->unk) {
            out->ids[out->count++] = id;
            continue;
        }
        while (next < bytes && best[best[next].from].id == id)
            next = best[next].from;
        add_unknown(model, out, word + at, next - at);
    }
    return TFM_OK;
}

static void close_unigram(void *self) {
    unigram *u = self;
    tfm__trie_free(&u->trie);
    free(u->scores);
    free(u);
}

/* Builds the trie of the pieces that have a score, and derives the score of unknown characters. */
static tfm_status make_trie(unigram *u, const tfm__token_map *token_map, size_t count) {
    tfm__trie_key *keys = tfm__alloc(count, sizeof(*keys));
    size_t used = 0;
    double least = 0;
    for (size_t i = 0; keys && i < count; i++) {
        if (isnan(u->scores[i]))
            continue;
        least = used == 0 || u->scores[i] < least ? u->scores[i] : least;
        keys[used].text = tfm__token_map_piece(token_map, (int32_t)i, &keys[used].bytes);
        keys[used++].value = (int32_t)i;
    }
    u->unknown = least - UNKNOWN_PENALTY;
    const tfm_status status = keys ? tfm__trie_make(&u->trie, keys, used) : TFM_ERROR_MEMORY;
    free(keys);
    return status;
}

/* The model, with space for scores. */
static tfm_status start(tfm__subword_model *out, size_t count) {
    unigram *u = out->self = tfm__alloc(1, sizeof(*u));
    out->close = close_unigram;
    out->encode_word = encode_word;
    if (u)
        u->scores = tfm__alloc(count, sizeof(*u->scores));
    return u && u->scores ? TFM_OK : TFM_ERROR_MEMORY;
}

tfm_status tfm__unigram_new(tfm__subword_model *out, const float *scores, int32_t unk) {
    const size_t count = (size_t)tfm__token_map_size(out->token_map);
    tfm_status status = start(out, count);
    unigram *u = out->self;
    out->unk = unk;
    if (status != TFM_OK)
        return status;
    for (size_t i = 0; i < count; i++)
        u->scores[i] = (double)scores[i];
    tfm__find_byte_pieces(u->bytes, out->token_map);
    u->byte_fallback = true;
    return make_trie(u, out->token_map, count);
}

tfm_status tfm__unigram_read(tfm__subword_model *out, const json_t *value, tfm__json_location location) {
    const json_t *vocab = json_object_get(value, "vocab");
    const size_t count = json_array_size(vocab);
    int64_t unk;
    tfm_status status = start(out, count);
    unigram *u = out->self;
    if (status == TFM_OK)
        status = tfm__hf_int(&unk, value, "unk_id", -1, location);
    if (status == TFM_OK && (unk < -1 || unk >= (int64_t)count))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `unk_id` in `%s` is %lld; the vocabulary has %zu pieces", location.path,
                         location.section, (long long)unk, count);
    if (status == TFM_OK)
        status = tfm__hf_bool(&u->byte_fallback, value, "byte_fallback", false, location);
    if (status != TFM_OK)
        return status;
    out->unk = (int32_t)unk;
    for (size_t i = 0; i < count; i++)
        u->scores[i] = json_number_value(json_array_get(json_array_get(vocab, i), 1));
    tfm__find_byte_pieces(u->bytes, out->token_map);
    return make_trie(u, out->token_map, count);
}
