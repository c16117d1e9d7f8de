/* SentencePiece's byte-pair encoding: pieces have scores instead of merges with ranks. Of the adjacent pairs whose text
 * is a piece, the one with the highest score is merged first, of equal ones the leftmost. */
#include "text/bytes.h"
#include "text/subword_model.h"

typedef struct scored_bpe {
    float *scores;  /* by id */
    size_t longest; /* bytes of the longest piece */
    int32_t bytes[256];
    bool has_bytes; /* all of them */
} scored_bpe;

/* A part of the word. */
typedef struct symbol {
    uint32_t at, bytes; /* a merged symbol has no bytes */
    uint32_t previous, next;
    int32_t id; /* -1 if it is no piece */
} symbol;

#define NO_SYMBOL UINT32_MAX

typedef struct candidate {
    float score;
    uint32_t left, bytes; /* of both symbols, to detect stale candidates */
    int32_t id;
} candidate;

typedef struct merging {
    const tfm__subword_model *model;
    const char *word;
    symbol *symbols;
    candidate *heap;
    size_t count;
} merging;

static bool comes_before(candidate a, candidate b) {
    return a.score != b.score ? a.score > b.score : a.left < b.left;
}

static void push(merging *m, candidate c) {
    size_t at = m->count++;
    for (; at > 0 && comes_before(c, m->heap[(at - 1) / 2]); at = (at - 1) / 2)
        m->heap[at] = m->heap[(at - 1) / 2];
    m->heap[at] = c;
}

static candidate pop(merging *m) {
    const candidate first = m->heap[0], last = m->heap[--m->count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < m->count; at = child) {
        if (child + 1 < m->count && comes_before(m->heap[child + 1], m->heap[child]))
            child++;
        if (!comes_before(m->heap[child], last))
            break;
        m->heap[at] = m->heap[child];
    }
    m->heap[at] = last;
    return first;
}

/* The pair of a symbol and the next one, if their text is a piece. */
static void push_pair(merging *m, uint32_t left) {
    const scored_bpe *s = m->model->self;
    if (left == NO_SYMBOL || m->symbols[left].next == NO_SYMBOL)
        return;
    const uint32_t bytes = m->symbols[left].bytes + m->symbols[m->symbols[left].next].bytes;
    if (bytes > s->longest)
        return;
    const int32_t id = tfm__token_map_find_base(m->model->token_map, m->word + m->symbols[left].at, bytes);
    if (id >= 0)
        push(m, (candidate){s->scores[id], left, bytes, id});
}

/* Each merge removes a symbol and adds at most two candidates, so the heap has at most three per symbol. */
static void merge_all(merging *m, uint32_t count) {
    for (uint32_t i = 0; i + 1 < count; i++)
        push_pair(m, i);
    while (m->count) {
        const candidate c = pop(m);
        symbol *left = &m->symbols[c.left];
        if (left->bytes == 0 || left->next == NO_SYMBOL)
            continue;
        symbol *right = &m->symbols[left->next];
        if (left->bytes + right->bytes != c.bytes)
            continue;
        left->bytes = c.bytes;
        left->id = c.id;
        left->next = right->next;
        right->bytes = 0;
        if (left->next != NO_SYMBOL)
            m->symbols[left->next].previous = c.left;
        push_pair(m, left->previous);
        push_pair(m, c.left);
    }
}

/* The ids of the symbols; characters without a piece as bytes, or as one unknown piece for adjacent ones. */
static tfm_status add_ids(const merging *m, tfm__id_buffer *out) {
    const scored_bpe *s = m->model->self;
    bool unknown = false;
    for (uint32_t i = 0; i != NO_SYMBOL; i = m->symbols[i].next) {
        const symbol *part = &m->symbols[i];
        const bool was_unknown = unknown;
        unknown = part->id < 0 && !s->has_bytes;
        if (part->id >= 0)
            out->ids[out->count++] = part->id;
        else if (s->has_bytes)
            for (uint32_t k = 0; k < part->bytes; k++)
                out->ids[out->count++] = s->bytes[(unsigned char)m->word[part->at + k]];
        else if (m->model->unk < 0)
            return tfm__fail(TFM_ERROR_INPUT, "the text has a character that the tokenizer has no piece for, and it "
                                              "has no unknown piece");
        else if (!was_unknown)
            out->ids[out->count++] = m->model->unk;
    }
    return TFM_OK;
}

static tfm_status encode_word(const tfm__subword_model *model, tfm__id_buffer *out, const char *word, size_t bytes,
                              tfm__scratch *scratch) {
    if (bytes >= NO_SYMBOL)
        return tfm__fail(TFM_ERROR_INPUT, "a word of %zu bytes is too long", bytes);
    uint32_t count = 0;
    for (size_t at = 0; at < bytes; at += tfm__char_bytes(word + at))
        count++;
    char *memory = tfm__scratch_reserve(scratch, count * (sizeof(symbol) + 3 * sizeof(candidate)));
    if (!memory || tfm__id_buffer_reserve(out, bytes + 8) != TFM_OK)
        return TFM_ERROR_MEMORY;
    merging m = {model, word, (symbol *)memory, (candidate *)(memory + count * sizeof(symbol)), 0};
    uint32_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t length = (uint32_t)tfm__char_bytes(word + at);
        m.symbols[i] = (symbol){at, length, i ? i - 1 : NO_SYMBOL, i + 1 < count ? i + 1 : NO_SYMBOL,
                                tfm__token_map_find_base(model->token_map, word + at, length)};
        at += length;
    }
    merge_all(&m, count);
    return add_ids(&m, out);
}

static void close_scored(void *self) {
    scored_bpe *s = self;
    free(s->scores);
    free(s);
}

tfm_status tfm__scored_bpe_new(tfm__subword_model *out, float *scores, int32_t unk) {
    scored_bpe *s = out->self = tfm__alloc(1, sizeof(*s));
    out->close = close_scored;
    out->encode_word = encode_word;
    out->is_bpe = true;
    out->unk = unk;
    if (!s) {
        free(scores);
        return TFM_ERROR_MEMORY;
    }
    s->scores = scores;
    for (int32_t id = 0; id < tfm__token_map_size(out->token_map); id++) {
        size_t bytes = 0;
        tfm__token_map_piece(out->token_map, id, &bytes);
        s->longest = bytes > s->longest ? bytes : s->longest;
    }
    tfm__find_byte_pieces(s->bytes, out->token_map);
    s->has_bytes = true;
    for (int i = 0; i < 256; i++)
        s->has_bytes &= s->bytes[i] >= 0;
    return TFM_OK;
}
