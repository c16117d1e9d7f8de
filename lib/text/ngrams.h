/* Counts common n-grams of two symbol sequences. Results are exact; hashes only locate slots. */
#ifndef TFM_LIB_NGRAMS_H
#define TFM_LIB_NGRAMS_H

#include "base/base.h"

/* Pairs of numbers, numbered from 0 in order of insertion. Sequences get numbers too: the number of a prefix and the
 * next symbol are a pair. This numbers words by bytes, and n-grams by symbols. */
typedef struct tfm__pair_map {
    struct tfm__pair_map_slot {
        uint64_t key; /* The pair, or 0 if empty. */
        int32_t id;
    } * slots;
    size_t allocated; /* Allocated slots. */
    int shift;        /* A hash shifted right by this is the slot; 2^(64 - shift) slots are in use. */
    int32_t count;
} tfm__pair_map;

/* Removes all pairs, and allocates for `most`. */
tfm_status tfm__pair_map_clear(tfm__pair_map *pairs, size_t most);
/* The number of a pair, a new one if needed. a and b are at least 0. */
int32_t tfm__pair_map_add(tfm__pair_map *pairs, int32_t a, int32_t b);
/* The number of a pair, or -1. */
int32_t tfm__pair_map_find(const tfm__pair_map *pairs, int32_t a, int32_t b);

/* Working memory reused across lines, initially {0}. */
typedef struct tfm__ngram_scratch {
    tfm__pair_map pairs;
    int32_t *numbers; /* Numbers of the n-grams at each position of the hypothesis and of the reference; then their
                         counts. */
    size_t allocated;
} tfm__ngram_scratch;

void tfm__ngram_scratch_free(tfm__ngram_scratch *scratch);

/* For n = 1 ... orders, adds to *matches the clipped matches: n-grams of the hypothesis that are in the reference, each
 * at most as often as there. Symbols are at least 0; -1 in the hypothesis matches nothing. */
tfm_status tfm__ngram_match(tfm__ngram_scratch *scratch, uint64_t *matches, int orders, const int32_t *hypothesis,
                            size_t hypothesis_count, const int32_t *reference, size_t reference_count);

/* n-grams of a sequence of `count` symbols. */
static inline uint64_t tfm__ngram_count(size_t count, int n) {
    return count >= (size_t)n ? count - (size_t)n + 1 : 0;
}

#endif
