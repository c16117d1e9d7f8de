#include <string.h>
#include "text/grammar/token_trie.h"

tfm__token_trie *tfm__token_trie_retain(const tfm__token_trie *trie) {
    tfm__token_trie *owned = (tfm__token_trie *)trie; /* the reference count is mutable */
    atomic_fetch_add(&owned->owners, 1);
    return owned;
}

void tfm__token_trie_free(tfm__token_trie **pointer) {
    tfm__token_trie *trie = *pointer;
    *pointer = NULL;
    if (!trie || atomic_fetch_sub(&trie->owners, 1) > 1)
        return;
    free(trie->nodes);
    free(trie->same);
    free(trie->begin);
    free(trie->bytes);
    free(trie);
}

/* A token for sorting. */
typedef struct entry {
    const unsigned char *bytes;
    size_t length;
    int32_t token;
} entry;

static int by_bytes(const void *a, const void *b) {
    const entry *x = a, *y = b;
    const int order = memcmp(x->bytes, y->bytes, x->length < y->length ? x->length : y->length);
    if (order)
        return order;
    return x->length != y->length ? (x->length > y->length ? 1 : -1) : (x->token > y->token) - (x->token < y->token);
}

/* Adds the nodes of sorted tokens; `open` are the nodes on the path of the last one, by depth. */
static tfm_status add_nodes(tfm__token_trie *trie, const entry *entries, size_t count, uint32_t *open) {
    size_t capacity = 0, depth = 0;
    tfm_status status = tfm__grow(&trie->nodes, &capacity, 1, sizeof(*trie->nodes));
    if (status != TFM_OK)
        return status;
    trie->nodes[trie->node_count++] = (tfm__token_trie_node){.token = -1};
    open[0] = 0;
    for (size_t i = 0; i < count; i++) {
        const entry *e = &entries[i];
        size_t shared = 0;
        while (shared < e->length && shared < depth && trie->nodes[open[shared + 1]].byte == e->bytes[shared])
            shared++;
        for (; depth > shared; depth--)
            trie->nodes[open[depth]].end = (uint32_t)trie->node_count;
        for (; depth < e->length; depth++) {
            status = tfm__grow(&trie->nodes, &capacity, trie->node_count + 1, sizeof(*trie->nodes));
            if (status != TFM_OK)
                return status;
            open[depth + 1] = (uint32_t)trie->node_count;
            trie->nodes[trie->node_count++] =
                (tfm__token_trie_node){.token = -1, .depth = (uint16_t)(depth + 1), .byte = e->bytes[depth]};
        }
        tfm__token_trie_node *last = &trie->nodes[open[depth]];
        trie->same[e->token] = last->token;
        last->token = e->token;
        trie->depth = depth > trie->depth ? depth : trie->depth;
    }
    for (depth++; depth-- > 0;)
        trie->nodes[open[depth]].end = (uint32_t)trie->node_count;
    return TFM_OK;
}

static tfm_status fill(tfm__token_trie *trie, entry *entries, const char *const *bytes, const uint32_t *lengths) {
    size_t count = 0, deepest = 0;
    for (size_t i = 0; i < trie->vocabulary; i++) {
        const size_t length = lengths[i] > UINT16_MAX ? 0 : lengths[i];
        trie->begin[i + 1] = trie->begin[i] + length;
        trie->same[i] = -1;
    }
    trie->bytes = tfm__alloc(trie->begin[trie->vocabulary] + 1, 1);
    for (size_t i = 0; i < trie->vocabulary && trie->bytes; i++) {
        const size_t length = trie->begin[i + 1] - trie->begin[i];
        if (!length)
            continue;
        memcpy(trie->bytes + trie->begin[i], bytes[i], length);
        entries[count++] = (entry){trie->bytes + trie->begin[i], length, (int32_t)i};
        deepest = length > deepest ? length : deepest;
    }
    uint32_t *open = trie->bytes ? tfm__alloc(deepest + 2, sizeof(*open)) : NULL;
    if (!open)
        return TFM_ERROR_MEMORY;
    if (count)
        qsort(entries, count, sizeof(*entries), by_bytes);
    const tfm_status status = add_nodes(trie, entries, count, open);
    free(open);
    return status;
}

tfm_status tfm__token_trie_new(tfm__token_trie **out, size_t vocabulary, const char *const *bytes,
                               const uint32_t *lengths) {
    tfm__token_trie *trie = tfm__alloc(1, sizeof(*trie));
    entry *entries = trie ? tfm__alloc(vocabulary + 1, sizeof(*entries)) : NULL;
    tfm_status status = TFM_ERROR_MEMORY;
    *out = NULL;
    if (trie) {
        atomic_init(&trie->owners, 1);
        trie->vocabulary = vocabulary;
        trie->same = tfm__alloc(vocabulary + 1, sizeof(*trie->same));
        trie->begin = tfm__alloc(vocabulary + 1, sizeof(*trie->begin));
    }
    if (entries && trie->same && trie->begin)
        status = fill(trie, entries, bytes, lengths);
    free(entries);
    if (status == TFM_OK)
        *out = trie;
    else
        tfm__token_trie_free(&trie);
    return status;
}
