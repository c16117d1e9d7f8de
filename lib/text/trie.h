/* A trie of byte strings with values, for longest prefix matches. */
#ifndef TFM_LIB_TRIE_H
#define TFM_LIB_TRIE_H

#include "base/base.h"

typedef struct tfm__trie_key {
    const char *text;
    size_t bytes;
    int32_t value; /* at least 0 */
} tfm__trie_key;

typedef struct tfm__trie_node {
    uint32_t first; /* child; or with `wide`, the table in `wide` */
    int32_t value;  /* of the string that ends here, or -1 */
    uint16_t count; /* of children */
    uint8_t label;  /* the byte of the edge to this node */
    uint8_t wide;   /* the children are in a table of 256 */
} tfm__trie_node;

/* Children of a node are adjacent, sorted by byte; nodes with many also have a table. */
typedef struct tfm__trie {
    tfm__trie_node *nodes;
    uint32_t (*wide)[256];
    size_t count, capacity, wide_count, wide_capacity;
} tfm__trie;

/* Sorts the keys, and builds the trie, which is initially {0} and does not keep them. Empty keys are skipped; of equal
 * keys the largest value counts. */
tfm_status tfm__trie_make(tfm__trie *trie, tfm__trie_key *keys, size_t count);
void tfm__trie_free(tfm__trie *trie);

/* The child of a node by a byte, or 0 if there is none. Node 0 is the root. */
static inline uint32_t tfm__trie_step(const tfm__trie *trie, uint32_t node, unsigned char byte) {
    const tfm__trie_node *n = &trie->nodes[node];
    if (n->wide)
        return trie->wide[n->first][byte];
    for (uint32_t i = 0; i < n->count; i++) {
        const tfm__trie_node *child = &trie->nodes[n->first + i];
        if (child->label >= byte)
            return child->label == byte ? n->first + i : 0;
    }
    return 0;
}

/* The value of the longest key that is a prefix of `text`, and its length; -1 if none. */
int32_t tfm__trie_longest(const tfm__trie *trie, const char *text, size_t bytes, size_t *length);

#endif
