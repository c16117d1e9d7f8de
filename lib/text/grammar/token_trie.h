/* The bytes of all tokens of a vocabulary as a trie, in preorder. */
#ifndef TFM_LIB_TOKEN_TRIE_H
#define TFM_LIB_TOKEN_TRIE_H

#include <stdatomic.h>
#include "text/grammar/matcher.h"

typedef struct tfm__token_trie_node {
    uint32_t end;   /* the node after its subtree */
    int32_t token;  /* the first one that ends here, or -1; others by `same` */
    uint16_t depth; /* the number of bytes; 0 for the root only */
    unsigned char byte;
} tfm__token_trie_node;

struct tfm__token_trie {
    atomic_int owners;
    size_t vocabulary, node_count, depth; /* `depth`: of the deepest node */
    tfm__token_trie_node *nodes;
    int32_t *same; /* by token: the next one with these bytes, or -1 */
    size_t *begin; /* by token, and the end: offsets in `bytes` */
    unsigned char *bytes;
};

tfm__token_trie *tfm__token_trie_retain(const tfm__token_trie *trie);

#endif
