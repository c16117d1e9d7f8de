#include "text/grammar/char_set.h"

void tfm__char_set_free(tfm__char_set *set) {
    free(set->ranges);
    *set = (tfm__char_set){0};
}

void tfm__char_set_add(tfm__char_set *set, uint32_t low, uint32_t high) {
    if (low > high)
        return;
    if (tfm__grow(&set->ranges, &set->capacity, set->count + 1, sizeof(*set->ranges)) != TFM_OK)
        set->failed = true;
    else
        set->ranges[set->count++] = (tfm__char_range){low, high};
}

static int by_low(const void *a, const void *b) {
    const tfm__char_range *x = a, *y = b;
    return (x->low > y->low) - (x->low < y->low);
}

/* Sorts and joins the ranges. */
static void normalize(tfm__char_set *set) {
    size_t kept = 0;
    if (set->count)
        qsort(set->ranges, set->count, sizeof(*set->ranges), by_low);
    for (size_t i = 0; i < set->count; i++) {
        const tfm__char_range next = set->ranges[i];
        if (!kept || next.low > set->ranges[kept - 1].high + 1)
            set->ranges[kept++] = next;
        else if (next.high > set->ranges[kept - 1].high)
            set->ranges[kept - 1].high = next.high;
    }
    set->count = kept;
}

void tfm__char_set_finish(tfm__char_set *set, bool negated) {
    static const tfm__char_range NO_SURROGATES[] = {{0, 0xd7ff}, {0xe000, 0x10ffff}};
    const tfm__char_set all = {(tfm__char_range *)(uintptr_t)NO_SURROGATES, 2, 0, false};
    tfm__char_set chosen = {0}, result = {0};
    normalize(set);
    uint32_t next = 0;
    for (size_t i = 0; negated && i < set->count; i++) {
        if (set->ranges[i].low > next)
            tfm__char_set_add(&chosen, next, set->ranges[i].low - 1);
        next = set->ranges[i].high + 1;
    }
    if (negated && next <= 0x10ffff)
        tfm__char_set_add(&chosen, next, 0x10ffff);
    tfm__char_set_intersect(&result, negated ? &chosen : set, &all);
    result.failed |= set->failed || chosen.failed;
    tfm__char_set_free(&chosen);
    tfm__char_set_free(set);
    *set = result;
}

void tfm__char_set_intersect(tfm__char_set *out, const tfm__char_set *a, const tfm__char_set *b) {
    for (size_t i = 0, k = 0; i < a->count && k < b->count;) {
        const tfm__char_range x = a->ranges[i], y = b->ranges[k];
        tfm__char_set_add(out, x.low > y.low ? x.low : y.low, x.high < y.high ? x.high : y.high);
        if (x.high < y.high)
            i++;
        else
            k++;
    }
}

bool tfm__char_set_has(const tfm__char_set *set, uint32_t c) {
    size_t low = 0, high = set->count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (c > set->ranges[middle].high)
            low = middle + 1;
        else
            high = middle;
    }
    return low < set->count && c >= set->ranges[low].low;
}

bool tfm__char_set_is_full(const tfm__char_set *set) {
    return set->count == 2 && set->ranges[0].low == 0 && set->ranges[0].high == 0xd7ff &&
           set->ranges[1].low == 0xe000 && set->ranges[1].high == 0x10ffff;
}
