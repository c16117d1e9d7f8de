#include <string.h>
#include "text/bytes.h"
#include "text/token_map.h"

typedef struct entry {
    size_t at;      /* offset of the text in `texts` */
    uint32_t bytes; /* of the text */
    int32_t id;
} entry;

/* Most searches of a piece that is not there end without a look at an entry. */
typedef struct slot {
    uint32_t hash;
    int32_t number; /* of an entry, or -1 */
} slot;

struct tfm__token_map {
    tfm__bytes texts; /* each with a terminating NUL */
    entry *entries;
    size_t count, capacity;
    size_t base_count; /* entries of the model itself, once it is sealed */
    int32_t *by_id;    /* entries, or -1 */
    size_t size, id_capacity;
    slot *slots;
    size_t mask; /* number of slots (a power of two) - 1 */
};

static slot *new_slots(size_t count) {
    slot *slots = tfm__realloc(NULL, count, sizeof(*slots));
    if (slots)
        memset(slots, 0xff, count * sizeof(*slots));
    return slots;
}

tfm_status tfm__token_map_new(tfm__token_map **out) {
    enum { SLOTS = 1024 };
    tfm__token_map *l = *out = tfm__alloc(1, sizeof(*l));
    if (l)
        l->slots = new_slots(SLOTS);
    if (!l || !l->slots) {
        tfm__token_map_free(out);
        return TFM_ERROR_MEMORY;
    }
    l->mask = SLOTS - 1;
    return TFM_OK;
}

void tfm__token_map_free(tfm__token_map **token_map) {
    tfm__token_map *l = *token_map;
    if (!l)
        return;
    tfm__bytes_free(&l->texts);
    free(l->entries);
    free(l->by_id);
    free(l->slots);
    free(l);
    *token_map = NULL;
}

/* Pieces are short: FNV-1a on eight bytes at a time is fast and good enough. */
static uint32_t hash_of(const char *text, size_t bytes) {
    uint64_t hash = 0xcbf29ce484222325u ^ bytes, word;
    for (; bytes >= sizeof(word); text += sizeof(word), bytes -= sizeof(word)) {
        memcpy(&word, text, sizeof(word));
        hash = (hash ^ word) * 0x9fb21c651e98df25u;
        hash ^= hash >> 32;
    }
    word = 0;
    memcpy(&word, text, bytes);
    hash = (hash ^ word) * 0x9fb21c651e98df25u;
    return (uint32_t)(hash ^ hash >> 35);
}

static size_t slot_of(const tfm__token_map *l, const char *text, size_t bytes, uint32_t hash) {
    size_t at = hash & l->mask;
    for (; l->slots[at].number >= 0; at = (at + 1) & l->mask) {
        const entry *e = &l->entries[l->slots[at].number];
        if (l->slots[at].hash == hash && e->bytes == bytes && memcmp(l->texts.data + e->at, text, bytes) == 0)
            break;
    }
    return at;
}

static tfm_status rehash(tfm__token_map *l, size_t count) {
    slot *wider = new_slots(count);
    if (!wider)
        return TFM_ERROR_MEMORY;
    for (size_t i = 0; i <= l->mask; i++) {
        size_t at = l->slots[i].hash & (count - 1);
        while (l->slots[i].number >= 0 && wider[at].number >= 0)
            at = (at + 1) & (count - 1);
        if (l->slots[i].number >= 0)
            wider[at] = l->slots[i];
    }
    free(l->slots);
    l->slots = wider;
    l->mask = count - 1;
    return TFM_OK;
}

tfm_status tfm__token_map_reserve(tfm__token_map *l, size_t count, size_t bytes) {
    size_t slots = l->mask + 1;
    while (slots < 2 * count)
        slots *= 2;
    if (count > TFM__MAX_IDS || tfm__grow(&l->entries, &l->capacity, count, sizeof(*l->entries)) != TFM_OK ||
        tfm__grow(&l->by_id, &l->id_capacity, count, sizeof(*l->by_id)) != TFM_OK)
        return TFM_ERROR_MEMORY;
    tfm__bytes_reserve(&l->texts, bytes);
    return slots > l->mask + 1 ? rehash(l, slots) : TFM_OK;
}

static tfm_status set_id(tfm__token_map *l, int32_t id, int32_t number, bool instead) {
    if (tfm__grow(&l->by_id, &l->id_capacity, (size_t)id + 1, sizeof(*l->by_id)) != TFM_OK)
        return TFM_ERROR_MEMORY;
    for (; l->size <= (size_t)id; l->size++)
        l->by_id[l->size] = -1;
    if (l->by_id[id] < 0 || instead)
        l->by_id[id] = number;
    return TFM_OK;
}

tfm_status tfm__token_map_add(tfm__token_map *l, const char *text, size_t bytes, int32_t id, bool instead) {
    const uint32_t hash = hash_of(text, bytes);
    size_t place = slot_of(l, text, bytes, hash);
    const size_t before = l->mask;
    if (l->slots[place].number >= 0) {
        l->entries[l->slots[place].number].id = id;
        return set_id(l, id, l->slots[place].number, instead);
    }
    if (bytes >= UINT32_MAX || l->count >= TFM__MAX_IDS)
        return tfm__fail(TFM_ERROR_FORMAT, "a vocabulary has more than %d pieces", TFM__MAX_IDS);
    if (2 * l->count > l->mask && rehash(l, 2 * (l->mask + 1)) != TFM_OK)
        return TFM_ERROR_MEMORY;
    if (tfm__grow(&l->entries, &l->capacity, l->count + 1, sizeof(*l->entries)) != TFM_OK)
        return TFM_ERROR_MEMORY;
    const size_t at = l->texts.count;
    tfm__bytes_add(&l->texts, text, bytes);
    tfm__bytes_add(&l->texts, "", 1);
    if (l->texts.failed || set_id(l, id, (int32_t)l->count, instead) != TFM_OK)
        return TFM_ERROR_MEMORY;
    if (l->mask != before)
        place = slot_of(l, text, bytes, hash);
    l->slots[place] = (slot){hash, (int32_t)l->count};
    l->entries[l->count++] = (entry){at, (uint32_t)bytes, id};
    return TFM_OK;
}

int32_t tfm__token_map_find(const tfm__token_map *l, const char *text, size_t bytes) {
    const int32_t number = l->slots[slot_of(l, text, bytes, hash_of(text, bytes))].number;
    return number < 0 ? -1 : l->entries[number].id;
}

int32_t tfm__token_map_find_near(const tfm__token_map *l, const char *text, size_t bytes, int32_t guess) {
    const int32_t number = guess >= 0 && (size_t)guess < l->size ? l->by_id[guess] : -1;
    const entry *e = number < 0 ? NULL : &l->entries[number];
    return e && e->id == guess && e->bytes == bytes && memcmp(l->texts.data + e->at, text, bytes) == 0
               ? guess
               : tfm__token_map_find(l, text, bytes);
}

void tfm__token_map_seal(tfm__token_map *l) {
    l->base_count = l->count;
}

int32_t tfm__token_map_find_base(const tfm__token_map *l, const char *text, size_t bytes) {
    const int32_t number = l->slots[slot_of(l, text, bytes, hash_of(text, bytes))].number;
    return number < 0 || (size_t)number >= l->base_count ? -1 : l->entries[number].id;
}

const char *tfm__token_map_piece(const tfm__token_map *l, int32_t id, size_t *bytes) {
    const int32_t number = id >= 0 && (size_t)id < l->size ? l->by_id[id] : -1;
    if (number < 0)
        return NULL;
    if (bytes)
        *bytes = l->entries[number].bytes;
    return l->texts.data + l->entries[number].at;
}

int32_t tfm__token_map_size(const tfm__token_map *l) {
    return (int32_t)l->size;
}

int32_t tfm__token_map_count(const tfm__token_map *l) {
    return (int32_t)l->count;
}
