/* Translation of one batch, and continuous batching. */
#ifndef TFM_LIB_SEARCH_H
#define TFM_LIB_SEARCH_H

#include "model/decode/beam.h"

/* Host arrays of a batch. */
typedef struct tfm__search_batch {
    int64_t count, width, longest, prefix_width;
    int32_t *ids;     /* [count * width], padded */
    int32_t *lengths; /* [count] */
    int32_t *limits;  /* [count] */
    int32_t *prefixes, *prefix_counts;
    float *penalty; /* [longest + 1] */
} tfm__search_batch;

/* Checks the ids and fills the batch; free it by tfm__search_batch_free, also after a failure. prefixes may be NULL. */
tfm_status tfm__search_batch_make(tfm__search_batch *b, const tfm_model *model, const tfm__search_params *rules,
                                  const tfm__generation_rules *forced, const int32_t *ids, const size_t *counts,
                                  size_t sentences, const int32_t *prefixes, const size_t *prefix_counts);
void tfm__search_batch_free(tfm__search_batch *b);

/* Inputs of all steps of a batch. */
typedef struct tfm__search_source {
    tfm_kv *cross;                       /* [layers] */
    tfm_tensor lengths;                  /* (N) */
    tfm_tensor position_bias;            /* see tfm__decode_step */
    tfm__shortlist_projection shortlist; /* tokens that may be generated */
} tfm__search_source;

/* ---- Parameters (search_params.c) ---- */

tfm_status tfm__search_check_ids(const char *what, const int32_t *ids, size_t count, int vocabulary);
/* The directory's rules; *own is a copy with overrides from the options. */
tfm_status tfm__search_override_rules(const tfm__generation_rules **forced, tfm__generation_rules **own,
                                      const tfm_model *model, const tfm_search_options *options);
/* lp(n) for n from 0 to `longest`; NULL if out of memory. */
float *tfm__search_penalty(const tfm__search_params *rules, int64_t longest);

/* ---- Continuous batching (fed.c) ---- */

/* A sentence and its owner. Its ids are checked, within the model's length, and valid until it has been found. */
typedef struct tfm__fed_sentence {
    const int32_t *ids;
    size_t count;
    void *owner;
} tfm__fed_sentence;

typedef struct tfm__feed {
    /* Returns up to `most` new sentences. Called before the first step (0 ends the search) and between steps. */
    size_t (*take)(void *user, tfm__fed_sentence *out, size_t most);
    /* Receives the hypotheses of a sentence, [n_best], best first; may move them out. */
    tfm_status (*found)(void *user, void *owner, tfm_hypothesis *items);
    void *user;
    size_t most; /* maximum batch size, >= 1 */
} tfm__feed;

/* State of such a search. */
typedef struct tfm__fed tfm__fed;

/* Searches until the feed returns no sentences; prefixes are not supported. Sentences are admitted during a search if
 * device and model allow; else they form the next batch. After a failure some may have been found. */
tfm_status tfm__search_fed(tfm_model *model, const tfm__feed *feed, const tfm_search_options *options);

/* Takes the first sentences from the feed; tfm__fed_ids returns them in tfm_search's format; none if there is no work.
 * Feed and rules outlive it. Free it by tfm__fed_free, also after a failure. */
tfm_status tfm__fed_begin(tfm__fed **out, tfm_model *model, const tfm__feed *feed, const tfm__search_params *rules,
                          const tfm__generation_rules *forced);
const int32_t *tfm__fed_ids(const tfm__fed *fed, const size_t **counts, size_t *sentences);
void tfm__fed_free(tfm__fed *fed);
/* The array of live sentences that the beam updates, and its size. */
int32_t *tfm__fed_present(tfm__fed *fed, int64_t *most);
/* After a step: returns finished sentences, and admits new ones. */
tfm_status tfm__fed_turn(tfm__fed *fed, tfm__beam *beam, tfm_kv_cache *cache, tfm__search_source *from,
                         tfm__search_batch *batch);
/* Returns all hypotheses of a search without admission. */
tfm_status tfm__fed_all(tfm__fed *fed, const tfm_hypotheses *found);

#endif
