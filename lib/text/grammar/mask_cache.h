/* Masks of sets of nodes, shared by the matchers of a grammar. */
#ifndef TFM_LIB_MASK_CACHE_H
#define TFM_LIB_MASK_CACHE_H

#include "text/grammar/grammar_nodes.h"
#include "text/grammar/token_trie.h"

/* The tokens that may follow these nodes, whatever their stack is. Immutable. */
typedef struct tfm__mask {
    uint32_t *nodes; /* ascending */
    size_t node_count;
    uint32_t *bits;   /* of all tokens; or NULL, then: */
    uint32_t *tokens; /* a list of them */
    size_t token_count;
    uint32_t *leaves; /* nodes of the trie at which the rule of the nodes ends, and the stack decides about the rest */
    size_t leave_count;
} tfm__mask;

void tfm__mask_free(tfm__mask *mask);

/* The masks of one vocabulary. */
typedef struct tfm__mask_cache tfm__mask_cache;

/* The cache of a grammar for this vocabulary, new if there is none; belongs to the grammar. */
tfm_status tfm__mask_cache_of(tfm__mask_cache **out, const tfm_grammar *grammar, const tfm__token_trie *trie);
void tfm__mask_caches_free(tfm__mask_cache *first);

/* Replaces nodes by ones with the same mask; the result is ascending, and its count is returned. */
size_t tfm__mask_cache_unify(const tfm__mask_cache *cache, uint32_t *nodes, size_t count);

/* The mask of nodes, or NULL. */
const tfm__mask *tfm__mask_cache_find(tfm__mask_cache *cache, const uint32_t *nodes, size_t count);
/* Moves *mask into the cache if that has space, else it stays. */
void tfm__mask_cache_add(tfm__mask_cache *cache, tfm__mask **mask);

#endif
