#include "model/weights/shortlist.h"
#include <string.h>
#include "base/file.h"

/* File format, little-endian: six 8-byte numbers, `offset_count` 8-byte offsets, `word_count` 4-byte words. Candidates
 * of source word s are words offsets[s] .. offsets[s + 1]. */
enum { MAGIC_AT, SUM_AT, FIRST_AT, BEST_AT, OFFSETS_AT, WORDS_AT, HEADER };
#define MAGIC 0xF11A48D5013417F5u

struct tfm__shortlist {
    tfm__file map;
    const unsigned char *offsets, *words;
    int source_size, target_size;
    int first; /* the first, most frequent target words are always included */
    bool shared;
};

static uint64_t number(const unsigned char *at, int bytes) {
    uint64_t value = 0;
    while (bytes-- > 0)
        value = value << 8 | at[bytes];
    return value;
}

/* Marian's checksum of whole 8-byte words; the rest is ignored. */
static uint64_t checksum(const unsigned char *at, size_t bytes) {
    uint64_t sum = 0;
    for (size_t i = 0; i + 8 <= bytes; i += 8)
        sum ^= number(at + i, 8) + 0x9e3779b9u + (sum << 6) + (sum >> 2);
    return sum;
}

static tfm_status damaged(const char *path, const char *what) {
    return tfm__fail(TFM_ERROR_FORMAT, "%s is not a Marian shortlist, or is damaged: %s; copy or download it again",
                     path, what);
}

static tfm_status check(tfm__shortlist *list, const char *path) {
    const unsigned char *data = list->map.data;
    const size_t size = list->map.size, sizes = 8 * HEADER;
    if (size < sizes || number(data, 8) != MAGIC)
        return damaged(path, "its magic number is wrong");
    const uint64_t offsets = number(data + 8 * OFFSETS_AT, 8), words = number(data + 8 * WORDS_AT, 8);
    if (offsets > (size - sizes) / 8 || words != (size - sizes - 8 * offsets) / 4 ||
        (size - sizes - 8 * offsets) % 4 != 0)
        return damaged(path, "its size differs from its header");
    if (checksum(data + 8 * FIRST_AT, size - 8 * FIRST_AT) != number(data + 8 * SUM_AT, 8))
        return damaged(path, "its checksum is wrong");
    if (offsets != (uint64_t)list->source_size + 1)
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s is for a source vocabulary of %llu, and the model's has %d: it belongs to another model",
                         path, (unsigned long long)(offsets ? offsets - 1 : 0), list->source_size);
    list->offsets = data + sizes;
    list->words = list->offsets + 8 * offsets;
    uint64_t last = 0;
    for (uint64_t i = 0; i < offsets; i++) {
        const uint64_t offset = number(list->offsets + 8 * i, 8);
        if (offset < last || offset > words)
            return damaged(path, "its offsets do not ascend, or are out of range");
        last = offset;
    }
    for (uint64_t i = 0; i < words; i++)
        if (number(list->words + 4 * i, 4) >= (uint64_t)list->target_size)
            return tfm__fail(TFM_ERROR_FORMAT,
                             "%s names word %llu of the target vocabulary, which has %d: it belongs to another model",
                             path, (unsigned long long)number(list->words + 4 * i, 4), list->target_size);
    const uint64_t first = number(data + 8 * FIRST_AT, 8);
    list->first = first < (uint64_t)list->target_size ? (int)first : list->target_size;
    return TFM_OK;
}

tfm_status tfm__shortlist_open(tfm__shortlist **out, const char *path, int source_size, int target_size, bool shared) {
    tfm__shortlist *list = *out = tfm__alloc(1, sizeof(*list));
    if (!list)
        return TFM_ERROR_MEMORY;
    list->source_size = source_size;
    list->target_size = target_size;
    list->shared = shared;
    tfm_status status = tfm__file_map(&list->map, path);
    if (status == TFM_OK)
        status = check(list, path);
    if (status != TFM_OK)
        tfm__shortlist_free(out);
    return status;
}

void tfm__shortlist_free(tfm__shortlist **list) {
    if (!*list)
        return;
    tfm__file_unmap(&(*list)->map);
    free(*list);
    *list = NULL;
}

/* Sets `there` [target_size] for all candidates; returns their number. */
static size_t mark(const tfm__shortlist *list, bool *there, const int32_t *ids, size_t count) {
    size_t found = 0;
    for (int i = 0; i < list->first; i++)
        there[i] = true;
    for (size_t i = 0; i < count; i++) {
        if (ids[i] < 0 || ids[i] >= list->source_size)
            continue;
        const unsigned char *at = list->offsets + 8 * (size_t)ids[i];
        for (uint64_t k = number(at, 8); k < number(at + 8, 8); k++)
            there[number(list->words + 4 * k, 4)] = true;
        if (list->shared && ids[i] < list->target_size)
            there[ids[i]] = true;
    }
    for (int i = 0; i < list->target_size; i++)
        found += there[i];
    /* Marian pads the list to a multiple of 8 columns with frequent words; these may be generated too. */
    for (int i = list->first; i < list->target_size && found % 8 != 0; i++)
        if (!there[i]) {
            there[i] = true;
            found++;
        }
    return found;
}

tfm_status tfm__shortlist_find(const tfm__shortlist *list, int32_t **out, size_t *out_count, const int32_t *ids,
                               size_t count) {
    bool *there = tfm__alloc((size_t)list->target_size, sizeof(*there));
    const size_t found = there ? mark(list, there, ids, count) : 0;
    *out = there ? tfm__alloc(found + 1, sizeof(**out)) : NULL;
    *out_count = 0;
    for (int i = 0; *out && i < list->target_size; i++)
        if (there[i])
            (*out)[(*out_count)++] = i;
    free(there);
    return *out ? TFM_OK : TFM_ERROR_MEMORY;
}
