/* What the sentences of a batch may write where the model has a shortlist: the output projection is computed for these
 * words alone. Each sentence has a list of its own, so that it is translated as it would be by itself. */
#ifndef TFM_LIB_SHORTLIST_PROJECTION_H
#define TFM_LIB_SHORTLIST_PROJECTION_H

#include "model/core/model.h"

/* It starts as {0}, which stands for all words. */
typedef struct tfm__shortlist_projection {
    int32_t *ids;       /* [count]: those of all sentences, ascending; NULL: all words */
    int64_t count;      /* K */
    tfm_tensor list;    /* (K): the ids on the device */
    tfm_tensor allowed; /* (N, K) U8: which of them each sentence may write */
    tfm_tensor bias;    /* (K): what their logits have added */
    tfm_param output;   /* (K, E): their rows of the output projection */
} tfm__shortlist_projection;

/* Finds the words for N sentences of `lengths` ids each, `width` apart; for one that is to begin with `forced` words
 * and has some, all of the vocabulary. What is on the device lies in the current scope, but for `output`. Free it, also
 * after a failure. */
tfm_status tfm__shortlist_projection_make(tfm__shortlist_projection *out, tfm_model *model, const int32_t *ids,
                                          const int32_t *lengths, const int32_t *forced, int64_t sentences,
                                          int64_t width, tfm_tensor bias);
void tfm__shortlist_projection_free(tfm_context *ctx, tfm__shortlist_projection *shortlist);

/* The place of an id among the words, or -1. */
int32_t tfm__shortlist_projection_index(const tfm__shortlist_projection *shortlist, int32_t id);

#endif
