#include "text/grammar/grammar_expr.h"

void tfm__exprs_free(tfm__exprs *exprs) {
    for (size_t i = 0; i < exprs->set_count; i++)
        tfm__char_set_free(&exprs->sets[i]);
    free(exprs->sets);
    free(exprs->items);
    *exprs = (tfm__exprs){0};
}

uint32_t tfm__expr_new(tfm__exprs *exprs, tfm__expr_kind kind, uint32_t value) {
    if (tfm__grow(&exprs->items, &exprs->capacity, exprs->count + 1, sizeof(*exprs->items)) != TFM_OK) {
        exprs->failed = true;
        return 0;
    }
    exprs->items[exprs->count] = (tfm__expr){kind, TFM__NO_ID, TFM__NO_ID, value, 0, 0};
    return (uint32_t)exprs->count++;
}

void tfm__expr_add(tfm__exprs *exprs, uint32_t parent, uint32_t child) {
    if (exprs->failed)
        return;
    exprs->items[child].before = exprs->items[parent].last;
    exprs->items[parent].last = child;
}

void tfm__expr_repeat_last(tfm__exprs *exprs, uint32_t parent, int32_t low, int32_t high) {
    const uint32_t repeat = tfm__expr_new(exprs, TFM__EXPR_REPEAT, 0);
    if (exprs->failed)
        return;
    const uint32_t child = exprs->items[parent].last;
    exprs->items[parent].last = exprs->items[child].before;
    exprs->items[repeat].low = low;
    exprs->items[repeat].high = high;
    tfm__expr_add(exprs, repeat, child);
    exprs->items[child].before = TFM__NO_ID;
    tfm__expr_add(exprs, parent, repeat);
}

uint32_t tfm__expr_char_set(tfm__exprs *exprs, tfm__char_set *set) {
    exprs->failed |= set->failed;
    if (tfm__grow(&exprs->sets, &exprs->set_capacity, exprs->set_count + 1, sizeof(*exprs->sets)) != TFM_OK) {
        exprs->failed = true;
        tfm__char_set_free(set);
        return 0;
    }
    exprs->sets[exprs->set_count] = *set;
    *set = (tfm__char_set){0};
    return tfm__expr_new(exprs, TFM__EXPR_CHAR, (uint32_t)exprs->set_count++);
}

uint32_t tfm__expr_char(tfm__exprs *exprs, uint32_t c) {
    tfm__char_set set = {0};
    tfm__char_set_add(&set, c, c);
    tfm__char_set_finish(&set, false);
    return tfm__expr_char_set(exprs, &set);
}

/* ---- Graphs ------------------------------------------------------------------------------------------- */

/* x{m,n} is m copies, and n - m copies that may each be the last. */
static uint32_t emit_repeat(tfm__grammar_builder *b, const tfm__exprs *exprs, const tfm__expr *e, bool characters,
                            uint32_t next) {
    uint32_t at = next;
    if (e->high == TFM__EXPR_UNBOUNDED) {
        at = tfm__grammar_node_reserve(b);
        tfm__grammar_node_set(b, at, tfm__expr_emit(b, exprs, e->last, characters, at), next);
    }
    for (int32_t i = e->low; i < e->high && tfm__grammar_step(b); i++) {
        const uint32_t after = at;
        at = tfm__grammar_either(b, tfm__expr_emit(b, exprs, e->last, characters, after), next);
        tfm__grammar_hint(b, at, after);
    }
    for (int32_t i = 0; i < e->low && tfm__grammar_step(b); i++) {
        const uint32_t after = at;
        at = tfm__expr_emit(b, exprs, e->last, characters, after);
        tfm__grammar_hint(b, at, after);
    }
    return at;
}

uint32_t tfm__expr_emit(tfm__grammar_builder *b, const tfm__exprs *exprs, uint32_t expr, bool characters,
                        uint32_t next) {
    if (!tfm__grammar_step(b))
        return TFM__NODE_FAIL;
    const tfm__expr *e = &exprs->items[expr];
    uint32_t at = TFM__NODE_FAIL;
    switch (e->kind) {
    case TFM__EXPR_SEQUENCE:
        at = next;
        for (uint32_t i = e->last; i != TFM__NO_ID; i = exprs->items[i].before)
            at = tfm__expr_emit(b, exprs, i, characters, at);
        return at;
    case TFM__EXPR_ALTERNATIVE:
        for (uint32_t i = e->last; i != TFM__NO_ID; i = exprs->items[i].before)
            at = tfm__grammar_either(b, tfm__expr_emit(b, exprs, i, characters, next), at);
        return at;
    case TFM__EXPR_CHAR:
        return characters ? tfm__grammar_node_add(b, TFM__NODE_KIND_CHAR, e->value, next)
                          : tfm__grammar_char(b, &exprs->sets[e->value], next);
    case TFM__EXPR_REPEAT:
        return emit_repeat(b, exprs, e, characters, next);
    default:
        return tfm__grammar_call(b, e->value, next);
    }
}
