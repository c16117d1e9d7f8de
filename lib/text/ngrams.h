/* Counting what two sequences of symbols have in common. Everything is exact: hashes only say where to look. */
#ifndef TFM_LIB_NGRAMS_H
#define TFM_LIB_NGRAMS_H

#include "base/base.h"

/* Pairs of numbers. They are numbered from 0 in the order in which they come. A sequence of any length gets a number
 * too, since the number of what came so far and what comes next are a pair: words get theirs from bytes, and n-grams
 * from symbols. */
typedef struct tfm__pair_map {
    struct tfm__pair_map_slot {
        uint64_t key; /* The pair, or 0 if there is none. */
        int32_t id;
    } * slots;
    size_t allocated; /* How many slots there is memory for. */
    int shift;        /* A hash shifted down by this is the number of a slot; 2^(64 - shift) slots are in use. */
    int32_t count;
} tfm__pair_map;

/* Removes all pairs, and makes room for `most`. */
tfm_status tfm__pair_map_clear(tfm__pair_map *pairs, size_t most);
/* Returns the number of a pair, a new one if it has none. a and b are at least 0. */
int32_t tfm__pair_map_add(tfm__pair_map *pairs, int32_t a, int32_t b);
/* Returns the number of a pair, or -1 if it has none. */
int32_t tfm__pair_map_find(const tfm__pair_map *pairs, int32_t a, int32_t b);

/* Working memory that is kept from line to line. It starts as {0}. */
typedef struct tfm__ngram_scratch {
    tfm__pair_map pairs;
    int32_t *numbers; /* The numbers of the n-grams that begin at each position of the hypothesis and of the reference;
                         then how often each occurs. */
    size_t allocated;
} tfm__ngram_scratch;

void tfm__ngram_scratch_free(tfm__ngram_scratch *scratch);

/* For n = 1 ... orders, *matches gets added how many n-grams of the hypothesis are in the reference, each at most
 * as often as it is there. Symbols are at least 0; one of the hypothesis may be -1, which matches nothing. */
tfm_status tfm__ngram_match(tfm__ngram_scratch *scratch, uint64_t *matches, int orders, const int32_t *hypothesis,
                            size_t hypothesis_count, const int32_t *reference, size_t reference_count);

/* Returns how many n-grams a sequence of `count` symbols has. */
static inline uint64_t tfm__ngram_count(size_t count, int n) {
    return count >= (size_t)n ? count - (size_t)n + 1 : 0;
}

#endif
