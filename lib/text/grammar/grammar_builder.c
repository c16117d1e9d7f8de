#include <stdio.h>
#include <string.h>
#include "text/grammar/grammar_builder.h"

void tfm__grammar_builder_free(tfm__grammar_builder *b) {
    for (size_t i = 0; i < b->rule_count; i++)
        free(b->rules[i].name);
    free(b->nodes);
    free(b->sets);
    free(b->rules);
    free(b->hints);
    tfm__id_table_free(&b->node_table);
    tfm__id_table_free(&b->set_table);
    *b = (tfm__grammar_builder){.name = b->name};
}

void tfm__grammar_fail(tfm__grammar_builder *b, tfm_status status, const char *format, ...) {
    if (b->status != TFM_OK)
        return;
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    b->status = tfm__fail(status, "%s: %s", b->name, text);
}

bool tfm__grammar_steps(tfm__grammar_builder *b, size_t count) {
    b->steps = count > SIZE_MAX - b->steps ? SIZE_MAX : b->steps + count;
    if (b->steps > TFM__GRAMMAR_MAX_STEPS)
        tfm__grammar_fail(b, TFM_ERROR_UNSUPPORTED, "it takes more than %d steps to build; make it smaller",
                          TFM__GRAMMAR_MAX_STEPS);
    return b->status == TFM_OK;
}

bool tfm__grammar_step(tfm__grammar_builder *b) {
    return tfm__grammar_steps(b, 1);
}

/* ---- Nodes -------------------------------------------------------------------------------------------- */

static uint32_t append(tfm__grammar_builder *b, tfm__grammar_node node) {
    if (b->node_count >= TFM__GRAMMAR_MAX_NODES)
        tfm__grammar_fail(b, TFM_ERROR_UNSUPPORTED, "it has more than %d nodes; use fewer or smaller repetitions",
                          TFM__GRAMMAR_MAX_NODES);
    if (b->status == TFM_OK)
        b->status = tfm__grow(&b->nodes, &b->node_capacity, b->node_count + 3, sizeof(*b->nodes));
    if (b->status != TFM_OK)
        return TFM__NODE_FAIL;
    if (b->node_count == 0) {
        b->nodes[TFM__NODE_FAIL] = (tfm__grammar_node){.kind = TFM__NODE_KIND_FAIL};
        b->nodes[TFM__NODE_END] = (tfm__grammar_node){.kind = TFM__NODE_KIND_END};
        b->node_count = 2;
    }
    b->nodes[b->node_count] = node;
    return (uint32_t)b->node_count++;
}

uint32_t tfm__grammar_node_add(tfm__grammar_builder *b, tfm__grammar_node_kind kind, uint32_t x, uint32_t y) {
    const uint64_t hash = tfm__id_hash(tfm__id_hash(kind, x), y);
    uint32_t id;
    if (!tfm__grammar_step(b))
        return TFM__NODE_FAIL;
    for (size_t at = 0; (id = tfm__id_table_next(&b->node_table, hash, &at)) != TFM__NO_ID;)
        if (b->nodes[id].kind == kind && b->nodes[id].a == x && b->nodes[id].b == y)
            return id;
    id = append(b, (tfm__grammar_node){kind, x, y});
    if (b->status == TFM_OK)
        b->status = tfm__id_table_add(&b->node_table, hash, id);
    return id;
}

uint32_t tfm__grammar_node_reserve(tfm__grammar_builder *b) {
    return tfm__grammar_step(b) ? append(b, (tfm__grammar_node){.kind = TFM__NODE_KIND_EITHER}) : TFM__NODE_FAIL;
}

void tfm__grammar_node_set(tfm__grammar_builder *b, uint32_t node, uint32_t x, uint32_t y) {
    if (b->status == TFM_OK)
        b->nodes[node] = (tfm__grammar_node){TFM__NODE_KIND_EITHER, x, y};
}

void tfm__grammar_hint(tfm__grammar_builder *b, uint32_t node, uint32_t similar) {
    if (b->status == TFM_OK && node != similar)
        b->status = tfm__grow(&b->hints, &b->hint_capacity, b->hint_count + 1, sizeof(*b->hints));
    if (b->status == TFM_OK && node != similar) {
        b->hints[b->hint_count][0] = node;
        b->hints[b->hint_count++][1] = similar;
    }
}

uint32_t tfm__grammar_either(tfm__grammar_builder *b, uint32_t x, uint32_t y) {
    if (x == y || y == TFM__NODE_FAIL)
        return x;
    return x == TFM__NODE_FAIL ? y : tfm__grammar_node_add(b, TFM__NODE_KIND_EITHER, x, y);
}

uint32_t tfm__grammar_call(tfm__grammar_builder *b, uint32_t rule, uint32_t next) {
    return next == TFM__NODE_FAIL ? next : tfm__grammar_node_add(b, TFM__NODE_KIND_CALL, rule, next);
}

/* ---- Bytes -------------------------------------------------------------------------------------------- */

static uint32_t find_set(tfm__grammar_builder *b, const tfm__byte_set *set) {
    uint64_t hash = 0;
    uint32_t id;
    for (int i = 0; i < 4; i++)
        hash = tfm__id_hash(hash, set->words[i]);
    for (size_t at = 0; (id = tfm__id_table_next(&b->set_table, hash, &at)) != TFM__NO_ID;)
        if (memcmp(&b->sets[id], set, sizeof(*set)) == 0)
            return id;
    if (b->status == TFM_OK)
        b->status = tfm__grow(&b->sets, &b->set_capacity, b->set_count + 1, sizeof(*b->sets));
    if (b->status == TFM_OK)
        b->status = tfm__id_table_add(&b->set_table, hash, (uint32_t)b->set_count);
    if (b->status != TFM_OK)
        return 0;
    b->sets[b->set_count] = *set;
    return (uint32_t)b->set_count++;
}

uint32_t tfm__grammar_bytes(tfm__grammar_builder *b, const tfm__byte_set *set, uint32_t next) {
    const bool any = set->words[0] | set->words[1] | set->words[2] | set->words[3];
    if (!any || next == TFM__NODE_FAIL || b->status != TFM_OK)
        return TFM__NODE_FAIL;
    return tfm__grammar_node_add(b, TFM__NODE_KIND_BYTES, find_set(b, set), next);
}

static void add_range(tfm__byte_set *set, unsigned low, unsigned high) {
    for (unsigned c = low; c <= high; c++)
        set->words[c >> 6] |= (uint64_t)1 << (c & 63);
}

uint32_t tfm__grammar_byte_range(tfm__grammar_builder *b, unsigned low, unsigned high, uint32_t next) {
    tfm__byte_set set = {0};
    add_range(&set, low, high);
    return tfm__grammar_bytes(b, &set, next);
}

uint32_t tfm__grammar_text(tfm__grammar_builder *b, const char *text, size_t bytes, uint32_t next) {
    while (bytes-- > 0)
        next = tfm__grammar_byte_range(b, (unsigned char)text[bytes], (unsigned char)text[bytes], next);
    return next;
}

/* ---- Characters --------------------------------------------------------------------------------------- */

/* Alternatives by their node after the first byte. */
typedef struct alternatives {
    uint32_t after[16];
    tfm__byte_set sets[16];
    size_t count;
    uint32_t rest; /* earlier ones */
} alternatives;

static void flush(tfm__grammar_builder *b, alternatives *all) {
    for (size_t i = 0; i < all->count; i++)
        all->rest = tfm__grammar_either(b, tfm__grammar_bytes(b, &all->sets[i], all->after[i]), all->rest);
    all->count = 0;
}

static void add_first(tfm__grammar_builder *b, alternatives *all, unsigned low, unsigned high, uint32_t after) {
    size_t i = 0;
    while (i < all->count && all->after[i] != after)
        i++;
    if (i == TFM__COUNT(all->after)) {
        flush(b, all);
        i = 0;
    }
    if (i == all->count) {
        all->after[i] = after;
        all->sets[i] = (tfm__byte_set){0};
        all->count++;
    }
    add_range(&all->sets[i], low, high);
}

static unsigned lead(uint32_t c, int tail) {
    static const unsigned MARKS[] = {0, 0xc0, 0xe0, 0xf0};
    return MARKS[tail] | c >> (6 * tail);
}

/* Characters low to high, all with `tail` bytes after the first: splits the range until every byte has a range. */
static void add_chars(tfm__grammar_builder *b, alternatives *all, uint32_t low, uint32_t high, int tail,
                      uint32_t next) {
    for (int i = 1; i <= tail; i++) {
        const uint32_t mask = ((uint32_t)1 << (6 * i)) - 1;
        if ((low & ~mask) == (high & ~mask))
            continue;
        if (low & mask) {
            add_chars(b, all, low, low | mask, tail, next);
            add_chars(b, all, (low | mask) + 1, high, tail, next);
            return;
        }
        if ((high & mask) != mask) {
            add_chars(b, all, low, (high & ~mask) - 1, tail, next);
            add_chars(b, all, high & ~mask, high, tail, next);
            return;
        }
    }
    for (int i = 0; i < tail; i++)
        next = tfm__grammar_byte_range(b, 0x80 | (low >> 6 * i & 0x3f), 0x80 | (high >> 6 * i & 0x3f), next);
    if (b->status == TFM_OK && next != TFM__NODE_FAIL)
        add_first(b, all, lead(low, tail), lead(high, tail), next);
}

uint32_t tfm__grammar_char(tfm__grammar_builder *b, const tfm__char_set *set, uint32_t next) {
    static const uint32_t LAST[] = {0x7f, 0x7ff, 0xffff, 0x10ffff};
    alternatives all = {.rest = TFM__NODE_FAIL};
    if (set->failed && b->status == TFM_OK)
        b->status = TFM_ERROR_MEMORY;
    for (size_t i = 0; i < set->count && b->status == TFM_OK; i++)
        for (int tail = 0; tail < 4; tail++) {
            const uint32_t least = tail ? LAST[tail - 1] + 1 : 0;
            const uint32_t low = set->ranges[i].low > least ? set->ranges[i].low : least;
            const uint32_t high = set->ranges[i].high < LAST[tail] ? set->ranges[i].high : LAST[tail];
            if (low <= high)
                add_chars(b, &all, low, high, tail, next);
        }
    flush(b, &all);
    return all.rest;
}

/* ---- Rules -------------------------------------------------------------------------------------------- */

uint32_t tfm__grammar_rule_add(tfm__grammar_builder *b, const char *name, size_t bytes) {
    if (b->rule_count >= TFM__GRAMMAR_MAX_RULES)
        tfm__grammar_fail(b, TFM_ERROR_UNSUPPORTED, "it has more than %d rules", TFM__GRAMMAR_MAX_RULES);
    if (b->status == TFM_OK)
        b->status = tfm__grow(&b->rules, &b->rule_capacity, b->rule_count + 1, sizeof(*b->rules));
    char *copy = b->status == TFM_OK ? tfm__format("%.*s", (int)bytes, name) : NULL;
    if (!copy) {
        b->status = b->status == TFM_OK ? TFM_ERROR_MEMORY : b->status;
        return 0;
    }
    b->rules[b->rule_count] = (tfm__grammar_rule){copy, TFM__NODE_FAIL};
    return (uint32_t)b->rule_count++;
}

void tfm__grammar_rule_set(tfm__grammar_builder *b, uint32_t rule, uint32_t start) {
    if (b->status == TFM_OK)
        b->rules[rule].start = start;
}
