/* Sets of Unicode code points without surrogates. */
#ifndef TFM_LIB_CHAR_SET_H
#define TFM_LIB_CHAR_SET_H

#include "base/base.h"

typedef struct tfm__char_range {
    uint32_t low, high; /* inclusive */
} tfm__char_range;

/* Initially {0}, the empty set. After an allocation failure it stays `failed`. */
typedef struct tfm__char_set {
    tfm__char_range *ranges; /* ascending and not adjacent, after tfm__char_set_finish */
    size_t count, capacity;
    bool failed;
} tfm__char_set;

void tfm__char_set_free(tfm__char_set *set);
void tfm__char_set_add(tfm__char_set *set, uint32_t low, uint32_t high);
/* Sorts and joins the ranges, and removes surrogates; with `negated` the set becomes its complement. */
void tfm__char_set_finish(tfm__char_set *set, bool negated);
/* The intersection of finished sets; *out is {0}. */
void tfm__char_set_intersect(tfm__char_set *out, const tfm__char_set *a, const tfm__char_set *b);
bool tfm__char_set_has(const tfm__char_set *set, uint32_t c);
/* Whether it has all code points. */
bool tfm__char_set_is_full(const tfm__char_set *set);

#endif
