/* Counting what two sequences of symbols have in common. Everything is exact: hashes only say where to look. */
#ifndef TFM_LIB_NGRAMS_H
#define TFM_LIB_NGRAMS_H

#include "base/base.h"

/* Pairs of numbers, numbered from 0 in the order in which they come. With a number for the pair of what came so
 * far and what comes next, a sequence of any length has a number too: words are made of bytes so, and n-grams of
 * symbols. */
typedef struct tfm__pairs {
    struct tfm__pair_slot {
        uint64_t key; /* 0: nothing here */
        int32_t id;
    } * slots;
    size_t allocated; /* slots */
    int shift;        /* how far a hash goes down to be a slot's number; the slots in use are 2^(64 - shift) */
    int32_t count;
} tfm__pairs;

/* Empties it, and makes room for `most` pairs. */
tfm_status tfm__pairs_clear(tfm__pairs *pairs, size_t most);
/* The pair's number, a new one if need be. a and b are at least 0. */
int32_t tfm__pairs_add(tfm__pairs *pairs, int32_t a, int32_t b);
/* The pair's number, or -1. */
int32_t tfm__pairs_find(const tfm__pairs *pairs, int32_t a, int32_t b);

/* Scratch memory that is kept from line to line. Zeroed at first. */
typedef struct tfm__ngrams {
    tfm__pairs pairs;
    int32_t *numbers; /* of the n-grams that begin at each position: hypothesis, reference; then how often each is
                         there */
    size_t allocated;
} tfm__ngrams;

void tfm__ngrams_free(tfm__ngrams *scratch);

/* For n = 1 ... orders, *matches gets added how many n-grams of the hypothesis are in the reference, each at most
 * as often as it is there. Symbols are at least 0; one of the hypothesis may be -1, which matches nothing. */
tfm_status tfm__ngrams_match(tfm__ngrams *scratch, uint64_t *matches, int orders, const int32_t *hypothesis,
                             size_t hypothesis_count, const int32_t *reference, size_t reference_count);

/* How many n-grams a sequence of `count` symbols has. */
static inline uint64_t tfm__ngrams_in(size_t count, int n) {
    return count >= (size_t)n ? count - (size_t)n + 1 : 0;
}

#endif
