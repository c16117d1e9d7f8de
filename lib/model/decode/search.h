/* One batch of translations, and sentences that join it while it is searched. */
#ifndef TFM_LIB_SEARCH_H
#define TFM_LIB_SEARCH_H

#include "model/decode/beam.h"

/* What a batch needs as host arrays. */
typedef struct tfm__search_batch {
    int64_t count, width, longest, prefix_width;
    int32_t *ids;     /* [count * width], padded */
    int32_t *lengths; /* [count] */
    int32_t *limits;  /* [count] */
    int32_t *prefixes, *prefix_counts;
    float *penalty; /* [longest + 1] */
} tfm__search_batch;

/* Checks the ids and fills the batch in; tfm__search_batch_free also after a failure. prefixes may be NULL. */
tfm_status tfm__search_batch_make(tfm__search_batch *b, const tfm_model *model, const tfm__search_params *rules,
                                  const tfm__generation_rules *forced, const int32_t *ids, const size_t *counts,
                                  size_t sentences, const int32_t *prefixes, const size_t *prefix_counts);
void tfm__search_batch_free(tfm__search_batch *b);

/* What all steps of a batch read. */
typedef struct tfm__search_source {
    tfm_kv *cross;                       /* [layers] */
    tfm_tensor lengths;                  /* (N) */
    tfm_tensor position_bias;            /* as tfm__decode_step has it */
    tfm__shortlist_projection shortlist; /* what may be written */
} tfm__search_source;

/* ---- Rules (search_params.c) ---- */

tfm_status tfm__search_check_ids(const char *what, const int32_t *ids, size_t count, int vocabulary);
/* The directory's rules, in *own with what the options have in the place of some of them. */
tfm_status tfm__search_override_rules(const tfm__generation_rules **forced, tfm__generation_rules **own,
                                      const tfm_model *model, const tfm_search_options *options);
/* lp(n) for n from 0 to `longest`; NULL without memory. */
float *tfm__search_penalty(const tfm__search_params *rules, int64_t longest);

/* ---- Sentences that come while others are searched (fed.c) ---- */

/* A sentence, and whose it is. Its ids are checked, and as many as the model takes; they stay where they are until it
 * has been found. */
typedef struct tfm__fed_sentence {
    const int32_t *ids;
    size_t count;
    void *owner;
} tfm__fed_sentence;

typedef struct tfm__feed {
    /* Gives up to `most` sentences that may begin now, and returns how many. It is asked before the first step, when
     * none ends the search, and between the steps. */
    size_t (*take)(void *user, tfm__fed_sentence *out, size_t most);
    /* Takes what was found for a sentence, [n_best], best first; what it wants to keep it moves. */
    tfm_status (*found)(void *user, void *owner, tfm_hypothesis *items);
    void *user;
    size_t most; /* sentences at a time, 1 at least */
} tfm__feed;

/* The state of such a search. */
typedef struct tfm__fed tfm__fed;

/* Searches for sentences until the feed gives none, without caller's prefixes. They join those that are under way where
 * the device and the model allow that; else those that are there make a batch, and those that come the next one. After
 * a failure some may have been found. */
tfm_status tfm__search_fed(tfm_model *model, const tfm__feed *feed, const tfm_search_options *options);

/* Asks the feed for the sentences that a search begins with, which tfm__fed_ids gives as tfm_search takes them; none
 * where there is nothing to do. The feed and the rules outlive it. tfm__fed_free frees it, also after a failure. */
tfm_status tfm__fed_begin(tfm__fed **out, tfm_model *model, const tfm__feed *feed, const tfm__search_params *rules,
                          const tfm__generation_rules *forced);
const int32_t *tfm__fed_ids(const tfm__fed *fed, const size_t **counts, size_t *sentences);
void tfm__fed_free(tfm__fed *fed);
/* The array in which the beam keeps which sentences are live; and how many it has room for. */
int32_t *tfm__fed_present(tfm__fed *fed, int64_t *most);
/* After a step: hands out what is over, and has others join. */
tfm_status tfm__fed_turn(tfm__fed *fed, tfm__beam *beam, tfm_kv_cache *cache, tfm__search_source *from,
                         tfm__search_batch *batch);
/* Hands out all that was found in a search that none could join. */
tfm_status tfm__fed_all(tfm__fed *fed, const tfm_hypotheses *found);

#endif
