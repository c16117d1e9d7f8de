/* Strings of JSON schemas. `pattern`, `format`, `minLength` and `maxLength` are each a graph of characters; a string
 * with several of them has the product of their graphs. */
#include <string.h>
#include "text/grammar/schema_compiler.h"
#include "text/grammar/schema_formats.h"
#include "text/grammar/schema_pattern.h"

/* A graph of nodes with code points; `exprs` has their sets. Initially {0}. */
typedef struct graph {
    tfm__grammar_builder builder;
    tfm__exprs exprs;
    uint32_t start;
} graph;

enum { INLINE_NODES = 4096 }; /* of a graph whose characters are copied into each place, which is faster to match */

static void graph_free(graph *g) {
    tfm__grammar_builder_free(&g->builder);
    tfm__exprs_free(&g->exprs);
}

static void graph_emit(graph *g, uint32_t expr) {
    if (g->exprs.failed && g->builder.status == TFM_OK)
        g->builder.status = TFM_ERROR_MEMORY;
    tfm__grammar_node_reserve(&g->builder); /* so that there are nodes, also of the empty text */
    if (g->builder.status == TFM_OK)
        g->start = tfm__expr_emit(&g->builder, &g->exprs, expr, true, TFM__NODE_END);
}

/* Texts of `low` to `high` characters. */
static void graph_length(graph *g, int64_t low, int64_t high) {
    const uint32_t sequence = tfm__expr_new(&g->exprs, TFM__EXPR_SEQUENCE, 0);
    tfm__char_set all = {0};
    tfm__char_set_finish(&all, true);
    tfm__expr_add(&g->exprs, sequence, tfm__expr_char_set(&g->exprs, &all));
    tfm__expr_repeat_last(&g->exprs, sequence, (int32_t)low, (int32_t)high);
    graph_emit(g, sequence);
}

/* ---- Products ----------------------------------------------------------------------------------------- */

/* Pairs of nodes of two graphs, each with its node of the product; and pairs of sets with their intersection. */
typedef struct product {
    graph *out;
    const graph *sides[2];
    uint32_t (*pairs)[3];
    size_t pair_count, pair_capacity;
    uint32_t (*sets)[2];
    size_t set_capacity;
    tfm__id_table pair_table, set_table;
} product;

static uint32_t find_pair(product *p, uint32_t x, uint32_t y) {
    tfm__grammar_builder *b = &p->out->builder;
    const uint64_t hash = tfm__id_hash(tfm__id_hash(3, x), y);
    uint32_t id;
    if (x == TFM__NODE_FAIL || y == TFM__NODE_FAIL || b->status != TFM_OK)
        return TFM__NODE_FAIL;
    if (x == TFM__NODE_END && y == TFM__NODE_END)
        return TFM__NODE_END;
    for (size_t at = 0; (id = tfm__id_table_next(&p->pair_table, hash, &at)) != TFM__NO_ID;)
        if (p->pairs[id][0] == x && p->pairs[id][1] == y)
            return p->pairs[id][2];
    const uint32_t node = tfm__grammar_node_reserve(b);
    if (b->status == TFM_OK)
        b->status = tfm__grow(&p->pairs, &p->pair_capacity, p->pair_count + 1, sizeof(*p->pairs));
    if (b->status == TFM_OK)
        b->status = tfm__id_table_add(&p->pair_table, hash, (uint32_t)p->pair_count);
    if (b->status != TFM_OK)
        return TFM__NODE_FAIL;
    memcpy(p->pairs[p->pair_count++], (uint32_t[]){x, y, node}, sizeof(*p->pairs));
    return node;
}

/* The number of the intersection of two sets, or TFM__NO_ID if it is empty. */
static uint32_t find_set(product *p, uint32_t x, uint32_t y) {
    tfm__exprs *exprs = &p->out->exprs;
    tfm__grammar_builder *b = &p->out->builder;
    const uint64_t hash = tfm__id_hash(tfm__id_hash(4, x), y);
    uint32_t id;
    for (size_t at = 0; (id = tfm__id_table_next(&p->set_table, hash, &at)) != TFM__NO_ID;)
        if (p->sets[id][0] == x && p->sets[id][1] == y)
            return exprs->sets[id].count ? id : TFM__NO_ID;
    tfm__char_set both = {0};
    tfm__char_set_intersect(&both, &p->sides[0]->exprs.sets[x], &p->sides[1]->exprs.sets[y]);
    id = (uint32_t)exprs->set_count;
    tfm__expr_char_set(exprs, &both);
    b->status = exprs->failed ? TFM_ERROR_MEMORY : tfm__grow(&p->sets, &p->set_capacity, id + 1, sizeof(*p->sets));
    if (b->status == TFM_OK)
        b->status = tfm__id_table_add(&p->set_table, hash, id);
    if (b->status != TFM_OK)
        return TFM__NO_ID;
    memcpy(p->sets[id], (uint32_t[]){x, y}, sizeof(*p->sets));
    return exprs->sets[id].count ? id : TFM__NO_ID;
}

static void expand_pair(product *p, const uint32_t pair[3]) {
    tfm__grammar_builder *b = &p->out->builder;
    const tfm__grammar_node x = p->sides[0]->builder.nodes[pair[0]], y = p->sides[1]->builder.nodes[pair[1]];
    const uint32_t node = pair[2], first = pair[0], second = pair[1];
    if (x.kind == TFM__NODE_KIND_EITHER) {
        const uint32_t a = find_pair(p, x.a, second);
        tfm__grammar_node_set(b, node, a, find_pair(p, x.b, second));
    } else if (y.kind == TFM__NODE_KIND_EITHER) {
        const uint32_t a = find_pair(p, first, y.a);
        tfm__grammar_node_set(b, node, a, find_pair(p, first, y.b));
    } else if (x.kind == TFM__NODE_KIND_CHAR && y.kind == TFM__NODE_KIND_CHAR) {
        const uint32_t set = find_set(p, x.a, y.a), next = set == TFM__NO_ID ? set : find_pair(p, x.b, y.b);
        const bool some = set != TFM__NO_ID && next != TFM__NODE_FAIL;
        if (some && b->status == TFM_OK)
            tfm__grammar_node_set(b, node, tfm__grammar_node_add(b, TFM__NODE_KIND_CHAR, set, next), TFM__NODE_FAIL);
    }
}

/* Pairs with similar second nodes are similar. */
static void hint_pairs(product *p) {
    const tfm__grammar_builder *b = &p->sides[1]->builder;
    uint32_t *similar = tfm__alloc(b->node_count + 1, sizeof(*similar));
    if (!similar && p->out->builder.status == TFM_OK)
        p->out->builder.status = TFM_ERROR_MEMORY;
    for (size_t i = 0; similar && i < b->hint_count; i++)
        similar[b->hints[i][0]] = b->hints[i][1];
    for (size_t i = p->pair_count; similar && i-- > 0;) {
        const uint32_t *pair = p->pairs[i], other = similar[pair[1]];
        const uint64_t hash = tfm__id_hash(tfm__id_hash(3, pair[0]), other);
        uint32_t id;
        for (size_t at = 0; other && (id = tfm__id_table_next(&p->pair_table, hash, &at)) != TFM__NO_ID;)
            if (p->pairs[id][0] == pair[0] && p->pairs[id][1] == other)
                tfm__grammar_hint(&p->out->builder, pair[2], p->pairs[id][2]);
    }
    free(similar);
}

/* Replaces *a by the texts of both. */
static void graph_multiply(graph *a, const graph *b) {
    graph out = {.builder = {.name = a->builder.name}};
    product p = {.out = &out, .sides = {a, b}};
    out.start = find_pair(&p, a->start, b->start);
    for (size_t i = 0; i < p.pair_count && out.builder.status == TFM_OK; i++) {
        const uint32_t pair[3] = {p.pairs[i][0], p.pairs[i][1], p.pairs[i][2]};
        expand_pair(&p, pair);
    }
    hint_pairs(&p);
    free(p.pairs);
    free(p.sets);
    tfm__id_table_free(&p.pair_table);
    tfm__id_table_free(&p.set_table);
    graph_free(a);
    *a = out;
}

/* ---- Strings ------------------------------------------------------------------------------------------ */

/* The characters as bytes of JSON. Each node gets one of the grammar, because there are loops. */
static uint32_t write_graph(tfm__schema_compiler *c, const graph *g, uint32_t next) {
    tfm__grammar_builder *b = c->builder;
    const size_t count = g->builder.node_count;
    uint32_t *to = tfm__alloc(count + 2, sizeof(*to)), start = TFM__NODE_FAIL;
    if (!to && b->status == TFM_OK)
        b->status = TFM_ERROR_MEMORY;
    for (size_t i = 2; to && i < count; i++)
        to[i] = tfm__grammar_node_reserve(b);
    if (to)
        to[TFM__NODE_END] = next;
    for (size_t i = 2; i < count && b->status == TFM_OK; i++) {
        const tfm__grammar_node *n = &g->builder.nodes[i];
        if (n->kind == TFM__NODE_KIND_EITHER) {
            tfm__grammar_node_set(b, to[i], to[n->a], to[n->b]);
            continue;
        }
        const tfm__char_set *set = &g->exprs.sets[n->a];
        const uint32_t one = tfm__char_set_is_full(set) ? tfm__json_any_char(c, to[n->b], count > INLINE_NODES)
                                                        : tfm__json_char(c, set, to[n->b]);
        tfm__grammar_node_set(b, to[i], one, TFM__NODE_FAIL);
    }
    for (size_t i = 0; i < g->builder.hint_count && b->status == TFM_OK; i++)
        tfm__grammar_hint(b, to[g->builder.hints[i][0]], to[g->builder.hints[i][1]]);
    if (b->status == TFM_OK)
        start = to[g->start];
    free(to);
    return start;
}

/* Restricts *all by *one, which is consumed. */
/* A builder that counts on from the steps of the schema's. */
static tfm__grammar_builder part_of(const tfm__schema_compiler *c) {
    return (tfm__grammar_builder){.name = c->builder->name, .steps = c->builder->steps};
}

static void add_graph(tfm__schema_compiler *c, graph *all, bool *any, graph *one) {
    if (c->builder->status == TFM_OK)
        c->builder->status = one->builder.status;
    c->builder->steps = one->builder.steps;
    if (*any && c->builder->status == TFM_OK) {
        graph_multiply(all, one);
        c->builder->status = all->builder.status;
        c->builder->steps += all->builder.steps;
        graph_free(one);
    } else if (!*any) {
        *all = *one;
    } else {
        graph_free(one);
    }
    *any = true;
}

static void add_pattern(tfm__schema_compiler *c, graph *all, bool *any, const char *text) {
    graph one = {.builder = part_of(c)};
    graph_emit(&one, tfm__schema_pattern_read(&one.exprs, &one.builder, text, c->pointer));
    add_graph(c, all, any, &one);
}

uint32_t tfm__schema_string_emit(tfm__schema_compiler *c, const json_t *schema, uint32_t next) {
    const char *pattern = tfm__schema_string(c, schema, "pattern"), *format = tfm__schema_string(c, schema, "format");
    const int64_t low = tfm__schema_count(c, schema, "minLength", 0);
    const int64_t high = tfm__schema_count(c, schema, "maxLength", TFM__EXPR_UNBOUNDED);
    const char *known = format ? tfm__schema_format(format) : NULL;
    graph all = {0};
    bool any = false;
    if (format && !known)
        tfm__schema_refuse(c, TFM_ERROR_UNSUPPORTED, format, "is not a supported `format`; use `pattern`");
    if (pattern && c->builder->status == TFM_OK)
        add_pattern(c, &all, &any, pattern);
    if (known && c->builder->status == TFM_OK)
        add_pattern(c, &all, &any, known);
    if ((low > 0 || high >= 0) && c->builder->status == TFM_OK) {
        tfm__grammar_steps(c->builder, 4 * (size_t)(high > low ? high : low)); /* nodes, which are visited again */
        graph one = {.builder = part_of(c)};
        if (high < 0 || low <= high)
            graph_length(&one, low, high);
        add_graph(c, &all, &any, &one);
    }
    uint32_t at = TFM__NODE_FAIL;
    if (!any && c->builder->status == TFM_OK)
        at = tfm__json_string(c, next);
    else if (c->builder->status == TFM_OK)
        at = tfm__grammar_text(c->builder, "\"", 1, write_graph(c, &all, tfm__grammar_text(c->builder, "\"", 1, next)));
    graph_free(&all);
    return at;
}
