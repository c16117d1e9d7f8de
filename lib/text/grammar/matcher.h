/* Constrained decoding: which tokens of a vocabulary may follow a text by a grammar. */
#ifndef TFM_LIB_MATCHER_H
#define TFM_LIB_MATCHER_H

#include "base/base.h"
#include "tfm/grammar.h"

/* The bytes of each token of a vocabulary. Immutable; any number of threads may use it. */
typedef struct tfm__token_trie tfm__token_trie;

/* `bytes` and `lengths` have `vocabulary` entries, and are copied. A token of length 0, or of more than 65,535 bytes,
 * is never allowed. */
tfm_status tfm__token_trie_new(tfm__token_trie **out, size_t vocabulary, const char *const *bytes,
                               const uint32_t *lengths);
/* Matchers and grammars keep the trie alive. */
void tfm__token_trie_free(tfm__token_trie **trie);

/* The state of one sequence: one thread at a time. Matchers of one grammar share masks, also on several threads. */
typedef struct tfm__matcher tfm__matcher;

/* At the beginning of a text. Both objects may be freed before the matcher. */
tfm_status tfm__matcher_new(tfm__matcher **out, const tfm_grammar *grammar, const tfm__token_trie *trie);
/* Fills ceil(vocabulary / 32) words: bit t % 32 of word t / 32 is set if token t may be the next one. No bit is set at
 * the end of the text, or if no token of the vocabulary fits. TFM_ERROR_UNSUPPORTED if the grammar is so
 * ambiguous that it needs too many states. */
tfm_status tfm__matcher_mask(tfm__matcher *matcher, uint32_t *bits);
/* Whether the text so far is complete, so that an end-of-sequence token is allowed. */
bool tfm__matcher_may_end(const tfm__matcher *matcher);
/* Adds a token to the text. TFM_ERROR_INPUT if it is not allowed; the state stays. */
tfm_status tfm__matcher_accept(tfm__matcher *matcher, int32_t token);
void tfm__matcher_free(tfm__matcher **matcher);

#endif
