/* Prompts in the log of keys and values: what a search begins with where it goes on with texts. */
#ifndef TFM_LIB_PREFILL_H
#define TFM_LIB_PREFILL_H

#include "model/decode/beam.h"

typedef struct tfm__prompts {
    size_t count;              /* N */
    const int32_t *const *ids; /* [count][counts[i]] */
    const size_t *counts;      /* [count], at least 1 each */
    int64_t longest;           /* of the counts */
    bool ragged;               /* they are not all alike */
    /* What reading them makes: */
    int64_t slots;    /* places in the log */
    int32_t *tokens;  /* [slots]: the token at each place; -1: none that counts */
    int32_t *slot_of; /* [count * (longest - 1)]: where in the log each token but the last lies */
} tfm__prompts;

/* `ids` and `counts` stay the caller's, and outlive the prompts; who frees them does that also after a failure. */
tfm_status tfm__prompts_make(tfm__prompts *out, const int32_t *const *ids, const size_t *counts, size_t count);
void tfm__prompts_free(tfm__prompts *prompts);

/* Runs all tokens of the prompts but the last of each, in pieces, into an empty log that has room for `slots` rows.
 * `position_bias` is as in tfm__decode_step. */
tfm_status tfm__prompts_prefill(tfm_model *model, tfm_kv_cache *cache, const tfm__prompts *prompts,
                                tfm_tensor position_bias);

/* Makes the keys and values in `cache` of a beam's rows anew, for texts that are as long as theirs will be with the
 * next step: a model that turns by other rates in longer texts (tfm__model_rope_matches) needs that once. */
tfm_status tfm__prompts_recompute(tfm_model *model, tfm_kv_cache *cache, const tfm__beam *beam,
                                  tfm_tensor position_bias);

/* Fills a block_table (count * copies, longest - 1) and the last tokens [count * copies] as tfm__beam_past has them:
 * prompts end in the same column, and what is before a shorter one is no token. */
void tfm__prompts_block_table(const tfm__prompts *prompts, int copies, int32_t *block_table, int32_t *last);

#endif
