/* Byte-pair encoding (Sennrich et al. 2016): merges the adjacent pair with the lowest rank, leftmost first, until no
 * pair has a merge. */
#include "text/bytes.h"
#include "text/subword_model.h"

typedef struct merge {
    uint64_t pair; /* left, right; EMPTY_SLOT for an empty slot */
    uint32_t rank;
    int32_t id;
} merge;

#define EMPTY_SLOT UINT64_MAX
#define NO_RANK UINT32_MAX
/* Characters below this use a direct table, including all of a byte-level vocabulary. */
enum { DIRECT_CHARS = 0x180 };
/* Up to this many symbols the best pair is found by a linear scan; above, by a heap. */
enum { SMALL_WORD = 40 };

typedef struct bpe {
    merge *merges; /* a hash table */
    size_t mask;
    int32_t direct_ids[DIRECT_CHARS], bytes[256];
    char *prefix, *suffix; /* of pieces within words and at their ends; or NULL */
    uint32_t ranks;        /* number of merges */
    int32_t last;          /* result of the last one */
    tfm__bytes joined;     /* working memory of tfm__bpe_add_merge */
    bool byte_fallback, fuse_unk, ignore_merges;
} bpe;

static size_t slot_of(const bpe *b, uint64_t pair) {
    uint64_t hash = pair * 0x9e3779b97f4a7c15u;
    size_t slot = (size_t)(hash >> 32 ^ hash) & b->mask;
    while (b->merges[slot].pair != pair && b->merges[slot].pair != EMPTY_SLOT)
        slot = (slot + 1) & b->mask;
    return slot;
}

/* The merge of two adjacent symbols; rank NO_RANK if there is none. */
static const merge *find_merge(const bpe *b, int32_t left, int32_t right) {
    static const merge NONE = {EMPTY_SLOT, NO_RANK, -1};
    const merge *m = &b->merges[slot_of(b, (uint64_t)(uint32_t)left << 32 | (uint32_t)right)];
    return m->pair == EMPTY_SLOT ? &NONE : m;
}

/* ---- Merging ------------------------------------------------------------------------------------------ */

static size_t merge_linear(const bpe *b, int32_t *ids, size_t count) {
    const merge *pairs[SMALL_WORD];
    for (size_t i = 0; i + 1 < count; i++)
        pairs[i] = find_merge(b, ids[i], ids[i + 1]);
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; i++)
            if (pairs[i]->rank < pairs[best]->rank)
                best = i;
        if (pairs[best]->rank == NO_RANK)
            break;
        ids[best] = pairs[best]->id;
        count--;
        for (size_t i = best + 1; i < count; i++) {
            ids[i] = ids[i + 1];
            pairs[i - 1] = pairs[i];
        }
        if (best + 1 < count)
            pairs[best] = find_merge(b, ids[best], ids[best + 1]);
        if (best > 0)
            pairs[best - 1] = find_merge(b, ids[best - 1], ids[best]);
    }
    return count;
}

typedef struct candidate {
    uint32_t rank, at;
    int32_t id; /* result of the pair at `at`, to detect stale candidates */
} candidate;

typedef struct symbol {
    int32_t id;
    uint32_t previous, next; /* NO_SYMBOL for none; a merged symbol has id -1 */
} symbol;

#define NO_SYMBOL UINT32_MAX

typedef struct heap {
    candidate *items;
    size_t count;
} heap;

static bool comes_before(candidate a, candidate b) {
    return a.rank != b.rank ? a.rank < b.rank : a.at < b.at;
}

static void push(heap *h, candidate c) {
    size_t at = h->count++;
    for (; at > 0 && comes_before(c, h->items[(at - 1) / 2]); at = (at - 1) / 2)
        h->items[at] = h->items[(at - 1) / 2];
    h->items[at] = c;
}

static candidate pop(heap *h) {
    const candidate first = h->items[0], last = h->items[--h->count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < h->count; at = child) {
        if (child + 1 < h->count && comes_before(h->items[child + 1], h->items[child]))
            child++;
        if (!comes_before(h->items[child], last))
            break;
        h->items[at] = h->items[child];
    }
    h->items[at] = last;
    return first;
}

static void push_candidate(const bpe *b, heap *h, const symbol *symbols, uint32_t at) {
    if (at == NO_SYMBOL || symbols[at].next == NO_SYMBOL)
        return;
    const merge *m = find_merge(b, symbols[at].id, symbols[symbols[at].next].id);
    if (m->rank != NO_RANK)
        push(h, (candidate){m->rank, at, m->id});
}

/* `ids` has space for `count` and is in the scratch memory, followed by the rest. Each merge removes a symbol and adds
 * at most two candidates, so the heap has at most three per symbol. */
static size_t merge_heap(const bpe *b, int32_t *ids, size_t count, char *memory) {
    symbol *symbols = (symbol *)memory;
    heap h = {(candidate *)(memory + count * sizeof(*symbols)), 0};
    for (uint32_t i = 0; i < count; i++)
        symbols[i] = (symbol){ids[i], i ? i - 1 : NO_SYMBOL, i + 1 < count ? i + 1 : NO_SYMBOL};
    for (uint32_t i = 0; i + 1 < count; i++)
        push_candidate(b, &h, symbols, i);
    while (h.count) {
        const candidate c = pop(&h);
        symbol *left = &symbols[c.at];
        if (left->id < 0 || left->next == NO_SYMBOL)
            continue;
        symbol *right = &symbols[left->next];
        const merge *m = find_merge(b, left->id, right->id);
        if (m->rank == NO_RANK || m->id != c.id)
            continue;
        left->id = c.id;
        left->next = right->next;
        right->id = -1;
        if (left->next != NO_SYMBOL)
            symbols[left->next].previous = c.at;
        push_candidate(b, &h, symbols, left->previous);
        push_candidate(b, &h, symbols, c.at);
    }
    size_t used = 0;
    for (uint32_t i = 0; i != NO_SYMBOL; i = symbols[i].next)
        ids[used++] = symbols[i].id;
    return used;
}

/* ---- A word ------------------------------------------------------------------------------------------- */

static int32_t id_of(const tfm__subword_model *model, const char *text, size_t bytes, bool first, bool last) {
    const bpe *b = model->self;
    char with[TFM__JSON_TEXT * 4];
    size_t length = 0;
    const size_t prefix = b->prefix && !first ? strlen(b->prefix) : 0;
    const size_t suffix = b->suffix && last ? strlen(b->suffix) : 0;
    if (!prefix && !suffix) {
        size_t at = 0;
        const int32_t c = tfm__char_next(text, &at);
        return c < DIRECT_CHARS ? b->direct_ids[c] : tfm__token_map_find_base(model->token_map, text, bytes);
    }
    memcpy(with, b->prefix ? b->prefix : "", prefix);
    length += prefix;
    memcpy(with + length, text, bytes);
    length += bytes;
    memcpy(with + length, b->suffix ? b->suffix : "", suffix);
    return tfm__token_map_find_base(model->token_map, with, length + suffix);
}

/* The bytes of a character, with prefix and suffix, as pieces; false if one has none. */
static bool add_byte_fallback(const bpe *b, int32_t *ids, size_t *count, const char *text, size_t bytes, bool first,
                              bool last) {
    const char *parts[] = {first || !b->prefix ? "" : b->prefix, NULL, last && b->suffix ? b->suffix : ""};
    size_t used = *count;
    for (int part = 0; part < 3; part++) {
        const char *at = parts[part] ? parts[part] : text;
        const size_t length = parts[part] ? strlen(at) : bytes;
        for (size_t i = 0; i < length; i++)
            if ((ids[used++] = b->bytes[(unsigned char)at[i]]) < 0)
                return false;
    }
    *count = used;
    return true;
}

/* The initial symbols of a word. An unknown one is held back until the next is known, since adjacent ones fuse; byte
 * pieces may precede it, as in `tokenizers`. */
static size_t initial_symbols(const tfm__subword_model *model, int32_t *ids, const char *word, size_t bytes) {
    const bpe *b = model->self;
    size_t count = 0, next;
    bool waiting = false;
    for (size_t at = 0; at < bytes; at = next) {
        next = at + tfm__char_bytes(word + at);
        const int32_t id = id_of(model, word + at, next - at, at == 0, next == bytes);
        if (id >= 0) {
            if (waiting)
                ids[count++] = model->unk;
            waiting = false;
            ids[count++] = id;
        } else if (b->byte_fallback &&
                   add_byte_fallback(b, ids, &count, word + at, next - at, at == 0, next == bytes)) {
            continue;
        } else if (model->unk >= 0) {
            if (waiting && !b->fuse_unk)
                ids[count++] = model->unk;
            waiting = true;
        }
    }
    if (waiting)
        ids[count++] = model->unk;
    return count;
}

static tfm_status encode_word(const tfm__subword_model *model, tfm__id_buffer *out, const char *word, size_t bytes,
                              tfm__scratch *scratch) {
    const bpe *b = model->self;
    const int32_t whole = b->ignore_merges ? tfm__token_map_find_base(model->token_map, word, bytes) : -1;
    if (whole >= 0)
        return tfm__id_buffer_add(out, whole);
    /* A character has at most four bytes, each with prefix and suffix. */
    const size_t around = (b->prefix ? strlen(b->prefix) : 0) * bytes + (b->suffix ? strlen(b->suffix) : 0);
    tfm_status status = tfm__id_buffer_reserve(out, bytes + around + 8);
    if (status != TFM_OK)
        return status;
    int32_t *ids = out->ids + out->count;
    size_t count = initial_symbols(model, ids, word, bytes);
    if (count > SMALL_WORD) {
        char *memory = tfm__scratch_reserve(scratch, count * (sizeof(symbol) + 3 * sizeof(candidate)));
        if (!memory)
            return TFM_ERROR_MEMORY;
        count = merge_heap(b, ids, count, memory);
    } else if (count > 1) {
        count = merge_linear(b, ids, count);
    }
    out->count += count;
    return TFM_OK;
}

/* ---- Reading ------------------------------------------------------------------------------------------ */

static void close_bpe(void *self) {
    bpe *b = self;
    free(b->merges);
    free(b->prefix);
    free(b->suffix);
    tfm__bytes_free(&b->joined);
    free(b);
}

/* "left right" or ["left", "right"] */
static bool split_merge(const char *sides[2], size_t bytes[2], const json_t *value) {
    const char *line = json_string_value(value), *blank = line ? strchr(line, ' ') : NULL;
    if (line) {
        sides[0] = line;
        sides[1] = blank ? blank + 1 : "";
        bytes[0] = blank ? (size_t)(blank - line) : 0;
        bytes[1] = strlen(sides[1]);
        return blank && !strchr(blank + 1, ' ');
    }
    for (size_t i = 0; i < 2; i++) {
        sides[i] = json_string_value(json_array_get(value, i));
        bytes[i] = sides[i] ? strlen(sides[i]) : 0;
    }
    return json_array_size(value) == 2 && sides[0] && sides[1];
}

/* Adds the merge of two known pieces; their texts are `sides`. */
static tfm_status add_merge(tfm__subword_model *model, int32_t left, int32_t right, const char *const sides[2],
                            const size_t bytes[2], tfm__json_location location) {
    bpe *b = model->self;
    const size_t prefix = b->prefix ? strlen(b->prefix) : 0;
    b->joined.count = 0;
    tfm__bytes_add(&b->joined, sides[0], bytes[0]);
    if (bytes[1] > prefix)
        tfm__bytes_add(&b->joined, sides[1] + prefix, bytes[1] - prefix);
    if (b->joined.failed)
        return TFM_ERROR_MEMORY;
    /* most vocabularies are in the order of merges */
    const int32_t id =
        tfm__token_map_find_near(model->token_map, b->joined.count ? b->joined.data : "", b->joined.count, b->last + 1);
    if (left < 0 || right < 0 || id < 0)
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s: merge %u of `%s`, \"%.*s %.*s\", is of pieces that the vocabulary does not have",
                         location.path, (unsigned)b->ranks, location.section, (int)(bytes[0] < 100 ? bytes[0] : 100),
                         sides[0], (int)(bytes[1] < 100 ? bytes[1] : 100), sides[1]);
    const uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    b->merges[slot_of(b, pair)] = (merge){pair, b->ranks++, id};
    b->last = id;
    return TFM_OK;
}

tfm_status tfm__bpe_add_merge(tfm__subword_model *model, const char *const sides[2], const size_t bytes[2],
                              tfm__json_location location) {
    return add_merge(model, tfm__token_map_find(model->token_map, sides[0], bytes[0]),
                     tfm__token_map_find(model->token_map, sides[1], bytes[1]), sides, bytes, location);
}

tfm_status tfm__bpe_add_merge_ids(tfm__subword_model *model, int32_t left, int32_t right, tfm__json_location location) {
    size_t bytes[2];
    const char *const sides[] = {tfm__token_map_piece(model->token_map, left, &bytes[0]),
                                 tfm__token_map_piece(model->token_map, right, &bytes[1])};
    return add_merge(model, left, right, sides, bytes, location);
}

/* Space for this many merges. */
static tfm_status reserve_merges(bpe *b, size_t count) {
    size_t slots = 16;
    if (count > UINT32_MAX / 4)
        return tfm__fail(TFM_ERROR_FORMAT, "a tokenizer has %zu merges", count);
    while (slots < 2 * count)
        slots *= 2;
    b->mask = slots - 1;
    b->merges = tfm__alloc(slots, sizeof(*b->merges));
    if (!b->merges)
        return TFM_ERROR_MEMORY;
    for (size_t slot = 0; slot < slots; slot++)
        b->merges[slot].pair = EMPTY_SLOT;
    return TFM_OK;
}

static tfm_status read_merges(tfm__subword_model *model, const json_t *merges, tfm__json_location location) {
    json_t *item;
    size_t i;
    tfm_status status = TFM_OK;
    json_array_foreach(merges, i, item) {
        const char *sides[2];
        size_t bytes[2];
        if (status == TFM_OK && !split_merge(sides, bytes, item))
            status = tfm__fail(TFM_ERROR_FORMAT, "%s: merge %zu is %s; two pieces are needed", location.path, i,
                               tfm__json_text((char[TFM__JSON_TEXT]){0}, item));
        if (status == TFM_OK)
            status = tfm__bpe_add_merge(model, sides, bytes, location);
    }
    return status;
}

static tfm_status read_affix(char **out, const json_t *value, const char *key, tfm__json_location location) {
    const char *text;
    tfm_status status = tfm__hf_string(&text, value, key, NULL, location);
    if (status != TFM_OK || !text || !*text)
        return status;
    if (strlen(text) > TFM__JSON_TEXT)
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: `%s` in `%s` is longer than %d bytes", location.path, key,
                         location.section, TFM__JSON_TEXT);
    *out = tfm__strdup(text);
    return *out ? TFM_OK : TFM_ERROR_MEMORY;
}

static tfm_status read_options(bpe *b, const json_t *value, tfm__json_location location) {
    const json_t *dropout = json_object_get(value, "dropout");
    if (json_number_value(dropout) > 0 || (dropout && !json_is_null(dropout) && !json_is_number(dropout)))
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "%s: `dropout` in `%s` is %s, which makes encoding random; set it to null", location.path,
                         location.section, tfm__json_text((char[TFM__JSON_TEXT]){0}, dropout));
    tfm_status status = tfm__hf_bool(&b->byte_fallback, value, "byte_fallback", false, location);
    if (status == TFM_OK)
        status = tfm__hf_bool(&b->fuse_unk, value, "fuse_unk", false, location);
    if (status == TFM_OK)
        status = tfm__hf_bool(&b->ignore_merges, value, "ignore_merges", false, location);
    if (status == TFM_OK)
        status = read_affix(&b->prefix, value, "continuing_subword_prefix", location);
    return status == TFM_OK ? read_affix(&b->suffix, value, "end_of_word_suffix", location) : status;
}

tfm_status tfm__bpe_new(tfm__subword_model *out, const json_t *options, size_t merges, tfm__json_location location) {
    bpe *b = out->self = tfm__alloc(1, sizeof(*b));
    out->close = close_bpe;
    out->encode_word = encode_word;
    out->is_bpe = true;
    if (!b)
        return TFM_ERROR_MEMORY;
    tfm_status status = tfm__read_unk_token(&out->unk, out->token_map, options, location);
    if (status == TFM_OK)
        status = read_options(b, options, location);
    if (status == TFM_OK)
        status = reserve_merges(b, merges);
    tfm__find_byte_pieces(b->bytes, out->token_map);
    for (int32_t c = 0; c < DIRECT_CHARS; c++) {
        char text[4];
        b->direct_ids[c] = tfm__token_map_find_base(out->token_map, text, tfm__char_write(text, c));
    }
    return status;
}

tfm_status tfm__bpe_read(tfm__subword_model *out, const json_t *value, tfm__json_location location) {
    const json_t *merges;
    tfm_status status = tfm__hf_list(&merges, value, "merges", location);
    if (status == TFM_OK)
        status = tfm__bpe_new(out, value, json_array_size(merges), location);
    return status == TFM_OK ? read_merges(out, merges, location) : status;
}
