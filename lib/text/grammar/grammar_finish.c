/* Checks of a built grammar: nodes without an end are removed, left recursion is refused, bytes get classes. */
#include <string.h>
#include "text/grammar/grammar_builder.h"

/* ---- Properties of nodes ------------------------------------------------------------------------------ */

/* The nodes that depend on each node. */
typedef struct dependents {
    uint32_t *begin, *items;
} dependents;

/* The nodes that a node depends on; returns their number. */
static int needs(const tfm__grammar_builder *b, uint32_t node, uint32_t out[2]) {
    const tfm__grammar_node *n = &b->nodes[node];
    if (n->kind == TFM__NODE_KIND_FAIL || n->kind == TFM__NODE_KIND_END)
        return 0;
    out[0] = n->b;
    out[1] = n->kind == TFM__NODE_KIND_CALL ? b->rules[n->a].start : n->a;
    return n->kind == TFM__NODE_KIND_BYTES ? 1 : 2;
}

static tfm_status find_dependents(dependents *d, const tfm__grammar_builder *b) {
    uint32_t of[2];
    d->begin = tfm__alloc(b->node_count + 2, sizeof(*d->begin));
    d->items = d->begin ? tfm__alloc(2 * b->node_count, sizeof(*d->items)) : NULL;
    if (!d->items)
        return TFM_ERROR_MEMORY;
    for (uint32_t i = 0; i < b->node_count; i++)
        for (int k = needs(b, i, of); k-- > 0;)
            d->begin[of[k] + 2]++;
    for (size_t i = 2; i < b->node_count + 2; i++)
        d->begin[i] += d->begin[i - 1];
    for (uint32_t i = 0; i < b->node_count; i++)
        for (int k = needs(b, i, of); k-- > 0;)
            d->items[d->begin[of[k] + 1]++] = i;
    return TFM_OK;
}

static bool holds(const tfm__grammar_builder *b, const bool *value, uint32_t node, bool empty) {
    const tfm__grammar_node *n = &b->nodes[node];
    switch (n->kind) {
    case TFM__NODE_KIND_END:
        return true;
    case TFM__NODE_KIND_BYTES:
        return !empty && value[n->b];
    case TFM__NODE_KIND_EITHER:
        return value[n->a] || value[n->b];
    case TFM__NODE_KIND_CALL:
        return value[b->rules[n->a].start] && value[n->b];
    default:
        return false;
    }
}

/* Which nodes reach an end; with `empty`, without reading a byte. `list` has a place for each node. */
static void find_ends(bool *value, uint32_t *list, const tfm__grammar_builder *b, const dependents *d, bool empty) {
    size_t count = 1;
    list[0] = TFM__NODE_END;
    value[TFM__NODE_END] = true;
    while (count > 0) {
        const uint32_t node = list[--count];
        for (uint32_t i = d->begin[node]; i < d->begin[node + 1]; i++) {
            const uint32_t user = d->items[i];
            if (!value[user] && holds(b, value, user, empty)) {
                value[user] = true;
                list[count++] = user;
            }
        }
    }
}

/* ---- Left recursion ----------------------------------------------------------------------------------- */

/* Calls between rules before any byte is read. */
typedef struct left_calls {
    uint32_t (*items)[2]; /* caller, callee */
    size_t count, capacity;
    uint32_t *seen; /* by node: the last rule that visited it, plus one */
    uint32_t *list;
} left_calls;

static tfm_status find_left_calls(left_calls *calls, const tfm__grammar_builder *b, const bool *empty, uint32_t rule) {
    size_t count = 0;
    calls->list[count++] = b->rules[rule].start;
    while (count > 0) {
        const uint32_t node = calls->list[--count];
        const tfm__grammar_node *n = &b->nodes[node];
        if (calls->seen[node] == rule + 1)
            continue;
        calls->seen[node] = rule + 1;
        if (n->kind == TFM__NODE_KIND_CALL) {
            if (tfm__grow(&calls->items, &calls->capacity, calls->count + 1, sizeof(*calls->items)) != TFM_OK)
                return TFM_ERROR_MEMORY;
            calls->items[calls->count][0] = rule;
            calls->items[calls->count++][1] = n->a;
        }
        if (n->kind == TFM__NODE_KIND_EITHER)
            calls->list[count++] = n->a;
        if (n->kind == TFM__NODE_KIND_EITHER || (n->kind == TFM__NODE_KIND_CALL && empty[b->rules[n->a].start]))
            calls->list[count++] = n->b;
    }
    return TFM_OK;
}

/* The callers of each rule, by callee. */
static tfm_status find_callers(dependents *d, const left_calls *calls, size_t rules) {
    d->begin = tfm__alloc(rules + 2, sizeof(*d->begin));
    d->items = d->begin ? tfm__alloc(calls->count, sizeof(*d->items)) : NULL;
    if (!d->begin || (!d->items && calls->count))
        return TFM_ERROR_MEMORY;
    for (size_t i = 0; i < calls->count; i++)
        d->begin[calls->items[i][1] + 2]++;
    for (size_t i = 2; i < rules + 2; i++)
        d->begin[i] += d->begin[i - 1];
    for (size_t i = 0; i < calls->count; i++)
        d->items[d->begin[calls->items[i][1] + 1]++] = calls->items[i][0];
    return TFM_OK;
}

/* Removes rules whose left calls all end: each of the others has a call to another one, and so leads to a cycle.
 * `waiting` counts a rule's calls, `list` has a place for each rule. */
static bool find_cycle(uint32_t *rule, uint32_t *waiting, uint32_t *list, const left_calls *calls, const dependents *d,
                       size_t rules) {
    size_t count = 0;
    for (size_t i = 0; i < calls->count; i++)
        waiting[calls->items[i][0]]++;
    for (size_t i = 0; i < rules; i++)
        if (waiting[i] == 0)
            list[count++] = (uint32_t)i;
    while (count > 0) {
        const uint32_t done = list[--count];
        for (uint32_t i = d->begin[done]; i < d->begin[done + 1]; i++)
            if (--waiting[d->items[i]] == 0)
                list[count++] = d->items[i];
    }
    bool found = false;
    for (size_t i = 0; i < calls->count; i++)
        if (waiting[calls->items[i][0]] && waiting[calls->items[i][1]]) {
            list[calls->items[i][0]] = calls->items[i][1];
            *rule = calls->items[i][0];
            found = true;
        }
    for (size_t k = 0; found && k < rules; k++) /* onto the cycle */
        *rule = list[*rule];
    return found;
}

static tfm_status refuse_left_recursion(tfm__grammar_builder *b, const bool *empty) {
    left_calls calls = {.seen = tfm__alloc(b->node_count, sizeof(*calls.seen)),
                        .list = tfm__alloc(2 * b->node_count + 1, sizeof(*calls.list))};
    tfm_status status = calls.seen && calls.list ? TFM_OK : TFM_ERROR_MEMORY;
    for (uint32_t i = 0; i < b->rule_count && status == TFM_OK; i++)
        status = find_left_calls(&calls, b, empty, i);
    dependents callers = {0};
    uint32_t rule = 0, *waiting = tfm__alloc(b->rule_count, sizeof(*waiting)),
             *list = tfm__alloc(b->rule_count, sizeof(*list));
    if (status == TFM_OK)
        status = waiting && list ? find_callers(&callers, &calls, b->rule_count) : TFM_ERROR_MEMORY;
    if (status == TFM_OK && find_cycle(&rule, waiting, list, &calls, &callers, b->rule_count)) {
        tfm__grammar_fail(b, TFM_ERROR_UNSUPPORTED,
                          "the rule `%.100s` is left-recursive; let it begin with something else than itself",
                          b->rules[rule].name);
        status = b->status;
    }
    free(waiting);
    free(list);
    free(callers.begin);
    free(callers.items);
    free(calls.items);
    free(calls.seen);
    free(calls.list);
    return status;
}

/* ---- The grammar -------------------------------------------------------------------------------------- */

static void find_classes(tfm_grammar *grammar, size_t sets) {
    grammar->class_count = 1;
    for (size_t i = 0; i < sets && grammar->class_count < 256; i++) {
        int in[256], count = 0; /* by class: the class of its bytes in the set */
        memset(in, 0xff, sizeof(in));
        unsigned char first[256], next[256];
        for (int byte = 0; byte < 256; byte++) {
            const int key = grammar->class_of[byte];
            const bool has = tfm__byte_set_has(&grammar->sets[i], (unsigned char)byte);
            if (in[key] < 0) { /* the first byte of a class keeps its number */
                in[key] = key;
                first[key] = has;
                next[key] = 0;
            }
            if (has == first[key])
                continue;
            if (!next[key])
                next[key] = (unsigned char)(grammar->class_count + count++);
            grammar->class_of[byte] = next[key];
        }
        grammar->class_count += count;
    }
    for (int byte = 255; byte >= 0; byte--)
        grammar->member[grammar->class_of[byte]] = (unsigned char)byte;
}

static tfm_status check(tfm__grammar_builder *b) {
    dependents d = {0};
    bool *ends = tfm__alloc(b->node_count, sizeof(*ends)), *empty = tfm__alloc(b->node_count, sizeof(*empty));
    uint32_t *list = tfm__alloc(b->node_count, sizeof(*list));
    tfm_status status = ends && empty && list ? find_dependents(&d, b) : TFM_ERROR_MEMORY;
    if (status == TFM_OK) {
        find_ends(ends, list, b, &d, false);
        if (!ends[b->rules[0].start])
            tfm__grammar_fail(b, TFM_ERROR_FORMAT, "it matches no text at all");
        for (size_t i = 0; i < b->node_count; i++)
            if (!ends[i])
                b->nodes[i] = (tfm__grammar_node){.kind = TFM__NODE_KIND_FAIL};
        find_ends(empty, list, b, &d, true);
        status = b->status == TFM_OK ? refuse_left_recursion(b, empty) : b->status;
    }
    free(ends);
    free(empty);
    free(list);
    free(d.begin);
    free(d.items);
    return status;
}

tfm_status tfm__grammar_finish(tfm_grammar **out, tfm__grammar_builder *b) {
    tfm__grammar_node_add(b, TFM__NODE_KIND_EITHER, TFM__NODE_FAIL, TFM__NODE_FAIL); /* so that there are nodes */
    tfm__grammar_alike *alike = NULL;
    tfm_status status = b->status == TFM_OK ? check(b) : b->status;
    if (status == TFM_OK)
        status = tfm__grammar_find_alike(&alike, b);
    tfm_grammar *grammar = status == TFM_OK ? tfm__alloc(1, sizeof(*grammar)) : NULL;
    if (grammar) {
        atomic_init(&grammar->owners, 1);
        pthread_mutex_init(&grammar->lock, NULL);
        grammar->nodes = b->nodes;
        grammar->node_count = b->node_count;
        grammar->sets = b->sets;
        grammar->rules = b->rules;
        grammar->rule_count = b->rule_count;
        grammar->alike = alike;
        find_classes(grammar, b->set_count);
        b->nodes = NULL;
        b->sets = NULL;
        b->rules = NULL;
        b->rule_count = 0;
        *out = grammar;
    } else {
        free(alike);
        status = status == TFM_OK ? TFM_ERROR_MEMORY : status;
    }
    tfm__grammar_builder_free(b);
    return status;
}
