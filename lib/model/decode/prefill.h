/* Prompts in the KV cache, where text generation starts. */
#ifndef TFM_LIB_PREFILL_H
#define TFM_LIB_PREFILL_H

#include "model/decode/beam.h"

typedef struct tfm__prompts {
    size_t count;              /* N */
    const int32_t *const *ids; /* [count][counts[i]] */
    const size_t *counts;      /* [count], >= 1 */
    int64_t longest;           /* largest count */
    bool ragged;               /* lengths differ */
    int64_t cached;            /* first tokens of the only prompt, in slots 0 to cached - 1 already; else 0 */
    /* Results of prefill: */
    int64_t slots;    /* cache slots in use */
    int32_t *tokens;  /* [slots]: token of each slot; -1: padding */
    int32_t *slot_of; /* [count * (longest - 1)]: cache slot of each token except the last */
} tfm__prompts;

/* `ids` and `counts` belong to the caller and outlive the prompts. Free *out also after a failure. */
tfm_status tfm__prompts_make(tfm__prompts *out, const int32_t *const *ids, const size_t *counts, size_t count);
void tfm__prompts_free(tfm__prompts *prompts);

/* Called between chunks; false ends the prefill. */
typedef struct tfm__prefill_check {
    bool (*should_continue)(void *user); /* NULL: always */
    void *user;
} tfm__prefill_check;

/* Runs all tokens except each prompt's last, in chunks, into a cache with room for `slots` rows, which has the `cached`
 * first ones. `position_bias` as in tfm__decode_step. TFM_ERROR_CANCELLED if `check` ends it; chunks before that are
 * in the cache. */
tfm_status tfm__prompts_prefill(tfm_model *model, tfm_kv_cache *cache, const tfm__prompts *prompts,
                                tfm_tensor position_bias, tfm__prefill_check check);

/* Recomputes the keys and values of a beam's rows for the length after the next step. Required once if RoPE frequencies
 * change with the length (tfm__model_rope_matches). */
tfm_status tfm__prompts_recompute(tfm_model *model, tfm_kv_cache *cache, const tfm__beam *beam,
                                  tfm_tensor position_bias);

/* Fills a block_table (count * copies, longest - 1) and the last tokens [count * copies] for tfm__beam_past: prompts
 * are right-aligned, with the padding slot before shorter ones. */
void tfm__prompts_block_table(const tfm__prompts *prompts, int copies, int32_t *block_table, int32_t *last);

#endif
