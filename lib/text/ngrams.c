#include <string.h>
#include "text/ngrams.h"

static uint64_t key_of(int32_t a, int32_t b) {
    return ((uint64_t)(uint32_t)a << 32 | (uint32_t)b) + 1;
}

/* The slot of the key, or the empty one for it. */
static struct tfm__pair_map_slot *slot_of(const tfm__pair_map *pairs, uint64_t key) {
    const size_t mask = ((size_t)1 << (64 - pairs->shift)) - 1;
    uint64_t hash =
        (key ^ key >> 31) * 0x9e3779b97f4a7c15u; /* Knuth, vol. 3, 6.4: multiplication by the golden ratio */
    size_t at = (size_t)(hash >> pairs->shift);
    while (pairs->slots[at].key != 0 && pairs->slots[at].key != key)
        at = (at + 1) & mask;
    return &pairs->slots[at];
}

tfm_status tfm__pair_map_clear(tfm__pair_map *pairs, size_t most) {
    pairs->shift = 60;
    while ((size_t)1 << (64 - pairs->shift) < 2 * most) /* at least half stays empty, for short probes */
        pairs->shift--;
    const size_t slots = (size_t)1 << (64 - pairs->shift);
    pairs->count = 0;
    if (slots > pairs->allocated) {
        struct tfm__pair_map_slot *larger = tfm__realloc(pairs->slots, slots, sizeof(*larger));
        if (!larger)
            return TFM_ERROR_MEMORY;
        pairs->slots = larger;
        pairs->allocated = slots;
    }
    memset(pairs->slots, 0, slots * sizeof(*pairs->slots));
    return TFM_OK;
}

int32_t tfm__pair_map_add(tfm__pair_map *pairs, int32_t a, int32_t b) {
    const uint64_t key = key_of(a, b);
    struct tfm__pair_map_slot *slot = slot_of(pairs, key);
    if (slot->key == 0)
        *slot = (struct tfm__pair_map_slot){key, pairs->count++};
    return slot->id;
}

int32_t tfm__pair_map_find(const tfm__pair_map *pairs, int32_t a, int32_t b) {
    const struct tfm__pair_map_slot *slot = slot_of(pairs, key_of(a, b));
    return slot->key == 0 ? -1 : slot->id;
}

void tfm__ngram_scratch_free(tfm__ngram_scratch *scratch) {
    free(scratch->pairs.slots);
    free(scratch->numbers);
    *scratch = (tfm__ngram_scratch){0};
}

/* Extends (n - 1)-grams to n-grams: an n-gram is the pair of the number of its first n - 1 symbols and its last symbol.
 * Only n-grams of the reference are numbered; others, and their extensions, cannot match. */
static uint64_t match_order(tfm__ngram_scratch *scratch, int n, int32_t *numbers_h, const int32_t *h, size_t count_h,
                            int32_t *numbers_r, const int32_t *r, size_t count_r) {
    int32_t *left = numbers_r + count_r; /* unmatched occurrences of each n-gram of the reference */
    const size_t last = (size_t)n - 1;
    memset(left, 0, count_r * sizeof(*left));
    for (size_t i = 0; i + last < count_r; i++) {
        numbers_r[i] = tfm__pair_map_add(&scratch->pairs, numbers_r[i], r[i + last]);
        left[numbers_r[i]]++;
    }
    uint64_t matches = 0;
    for (size_t i = 0; i + last < count_h; i++) {
        if (numbers_h[i] >= 0)
            numbers_h[i] = h[i + last] >= 0 ? tfm__pair_map_find(&scratch->pairs, numbers_h[i], h[i + last]) : -1;
        if (numbers_h[i] >= 0 && left[numbers_h[i]] > 0) {
            left[numbers_h[i]]--;
            matches++;
        }
    }
    return matches;
}

tfm_status tfm__ngram_match(tfm__ngram_scratch *scratch, uint64_t *matches, int orders, const int32_t *hypothesis,
                            size_t hypothesis_count, const int32_t *reference, size_t reference_count) {
    const size_t needed = hypothesis_count + 2 * reference_count;
    if (needed > scratch->allocated) {
        int32_t *larger = tfm__realloc(scratch->numbers, needed, sizeof(*larger));
        if (!larger)
            return TFM_ERROR_MEMORY;
        scratch->numbers = larger;
        scratch->allocated = needed;
    }
    const size_t shorter = hypothesis_count < reference_count ? hypothesis_count : reference_count;
    if (shorter > 0)
        memset(scratch->numbers, 0, needed * sizeof(*scratch->numbers)); /* 0 is the empty prefix */
    for (int n = 1; n <= orders && (size_t)n <= shorter; n++) {
        if (tfm__pair_map_clear(&scratch->pairs, reference_count) != TFM_OK)
            return TFM_ERROR_MEMORY;
        matches[n - 1] += match_order(scratch, n, scratch->numbers, hypothesis, hypothesis_count,
                                      scratch->numbers + hypothesis_count, reference, reference_count);
    }
    return TFM_OK;
}
