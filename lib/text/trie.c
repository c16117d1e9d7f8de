#include <string.h>
#include "text/trie.h"

/* From this many children on, a table is faster than a search. */
enum { WIDE = 16 };

static int compare(const void *left, const void *right) {
    const tfm__trie_key *a = left, *b = right;
    const size_t common = a->bytes < b->bytes ? a->bytes : b->bytes;
    const int order = common ? memcmp(a->text, b->text, common) : 0;
    if (order)
        return order;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return (a->value > b->value) - (a->value < b->value);
}

/* A node's keys and their common prefix length, until its children are added. */
typedef struct range {
    size_t begin, end, depth;
} range;

/* Adds the children of `node`, whose keys are sorted, and stores their ranges. */
static tfm_status add_children(tfm__trie *t, range **ranges, size_t *range_capacity, const tfm__trie_key *keys,
                               uint32_t node) {
    range r = (*ranges)[node];
    while (r.begin < r.end && keys[r.begin].bytes == r.depth)
        t->nodes[node].value = keys[r.begin++].value;
    const size_t first = t->count;
    while (r.begin < r.end) {
        const char label = keys[r.begin].text[r.depth];
        size_t end = r.begin + 1;
        while (end < r.end && keys[end].text[r.depth] == label)
            end++;
        if (t->count >= UINT32_MAX || tfm__grow(&t->nodes, &t->capacity, t->count + 1, sizeof(*t->nodes)) != TFM_OK ||
            tfm__grow(ranges, range_capacity, t->count + 1, sizeof(**ranges)) != TFM_OK)
            return TFM_ERROR_MEMORY;
        t->nodes[t->count] = (tfm__trie_node){.value = -1, .label = (uint8_t)label};
        (*ranges)[t->count++] = (range){r.begin, end, r.depth + 1};
        r.begin = end;
    }
    t->nodes[node].first = (uint32_t)first;
    t->nodes[node].count = (uint16_t)(t->count - first);
    return TFM_OK;
}

static tfm_status widen(tfm__trie *t, uint32_t node) {
    if (tfm__grow(&t->wide, &t->wide_capacity, t->wide_count + 1, sizeof(*t->wide)) != TFM_OK)
        return TFM_ERROR_MEMORY;
    tfm__trie_node *n = &t->nodes[node];
    memset(t->wide[t->wide_count], 0, sizeof(*t->wide));
    for (uint32_t i = 0; i < n->count; i++)
        t->wide[t->wide_count][t->nodes[n->first + i].label] = n->first + i;
    n->first = (uint32_t)t->wide_count++;
    n->wide = 1;
    return TFM_OK;
}

tfm_status tfm__trie_make(tfm__trie *t, tfm__trie_key *keys, size_t count) {
    range *ranges = NULL;
    size_t range_capacity = 0, begin = 0;
    *t = (tfm__trie){0};
    if (count)
        qsort(keys, count, sizeof(*keys), compare);
    while (begin < count && keys[begin].bytes == 0)
        begin++;
    tfm_status status = tfm__grow(&t->nodes, &t->capacity, 1, sizeof(*t->nodes));
    if (status == TFM_OK)
        status = tfm__grow(&ranges, &range_capacity, 1, sizeof(*ranges));
    if (status == TFM_OK) {
        t->nodes[t->count++] = (tfm__trie_node){.value = -1};
        ranges[0] = (range){begin, count, 0};
    }
    for (uint32_t node = 0; status == TFM_OK && node < t->count; node++)
        status = add_children(t, &ranges, &range_capacity, keys, node);
    for (uint32_t node = 0; status == TFM_OK && node < t->count; node++)
        if (t->nodes[node].count >= WIDE)
            status = widen(t, node);
    free(ranges);
    if (status != TFM_OK)
        tfm__trie_free(t);
    return status;
}

void tfm__trie_free(tfm__trie *t) {
    free(t->nodes);
    free(t->wide);
    *t = (tfm__trie){0};
}

int32_t tfm__trie_longest(const tfm__trie *t, const char *text, size_t bytes, size_t *length) {
    int32_t value = -1;
    uint32_t node = 0;
    for (size_t i = 0; i < bytes && (node = tfm__trie_step(t, node, (unsigned char)text[i])) != 0; i++)
        if (t->nodes[node].value >= 0) {
            value = t->nodes[node].value;
            *length = i + 1;
        }
    return value;
}
