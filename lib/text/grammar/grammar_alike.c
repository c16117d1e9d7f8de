/* Nodes with the same texts up to a length: the copies of a repetition, far from its end. */
#include <string.h>
#include "text/grammar/grammar_builder.h"

/* A comparison ends at so many nodes in a row; all of them together take so many steps. */
enum { MAX_ROW = 64, MAX_COMPARED = 1 << 21 };

typedef struct comparison {
    const tfm__grammar_builder *builder;
    tfm__grammar_alike *alike;
    size_t steps;
} comparison;

/* A number of bytes for which two nodes have the same texts, perhaps not the largest. A node that is compared already
 * counts as 0 bytes, and so do loops. */
static uint32_t compare(comparison *c, uint32_t x, uint32_t y, int row) {
    const tfm__grammar_node *a = &c->builder->nodes[x], *b = &c->builder->nodes[y];
    uint32_t bytes, other;
    if (x == y || (a->kind == TFM__NODE_KIND_FAIL && b->kind == TFM__NODE_KIND_FAIL))
        return UINT32_MAX;
    if (c->alike[x].node == y)
        return c->alike[x].bytes;
    if (a->kind != b->kind || row > MAX_ROW || ++c->steps > MAX_COMPARED)
        return 0;
    const bool chooses = a->kind == TFM__NODE_KIND_EITHER;
    if (a->kind == TFM__NODE_KIND_END || (!chooses && a->a != b->a))
        return 0;
    c->alike[x] = (tfm__grammar_alike){y, 0};
    bytes = compare(c, a->b, b->b, row + 1);
    other = chooses ? compare(c, a->a, b->a, row + 1) : bytes;
    bytes = other < bytes ? other : bytes;
    bytes += a->kind == TFM__NODE_KIND_BYTES && bytes < UINT32_MAX;
    c->alike[x] = (tfm__grammar_alike){y, bytes};
    return bytes;
}

tfm_status tfm__grammar_find_alike(tfm__grammar_alike **out, const tfm__grammar_builder *b) {
    comparison c = {.builder = b, .alike = tfm__alloc(b->node_count, sizeof(*c.alike))};
    *out = c.alike;
    if (!c.alike)
        return TFM_ERROR_MEMORY;
    for (size_t i = 0; i < b->hint_count; i++)
        compare(&c, b->hints[i][0], b->hints[i][1], 0);
    return TFM_OK;
}
