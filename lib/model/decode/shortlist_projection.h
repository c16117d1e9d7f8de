/* Output projection for a shortlist (vocabulary subset): logits are computed only for these tokens. Each sentence keeps
 * a separate list, so its translation does not depend on the batch. */
#ifndef TFM_LIB_SHORTLIST_PROJECTION_H
#define TFM_LIB_SHORTLIST_PROJECTION_H

#include "model/core/model.h"

/* {0}: the whole vocabulary. */
typedef struct tfm__shortlist_projection {
    int32_t *ids;       /* [count]: the union of all sentences' lists, ascending; NULL: the whole vocabulary */
    int64_t count;      /* K */
    tfm_tensor list;    /* (K): ids on the device */
    tfm_tensor allowed; /* (N, K) U8: tokens allowed for each sentence */
    tfm_tensor bias;    /* (K): logit bias */
    tfm_param output;   /* (K, E): rows of the output projection */
} tfm__shortlist_projection;

/* Builds the shortlist of N sentences of `lengths` ids, `width` apart; a sentence with `forced` prefix tokens gets the
 * whole vocabulary. Device data is in the current scope, except `output`. Free it, also after a failure. */
tfm_status tfm__shortlist_projection_make(tfm__shortlist_projection *out, tfm_model *model, const int32_t *ids,
                                          const int32_t *lengths, const int32_t *forced, int64_t sentences,
                                          int64_t width, tfm_tensor bias);
void tfm__shortlist_projection_free(tfm_context *ctx, tfm__shortlist_projection *shortlist);

/* Index of an id in the shortlist, or -1. */
int32_t tfm__shortlist_projection_index(const tfm__shortlist_projection *shortlist, int32_t id);

#endif
