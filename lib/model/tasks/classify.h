/* Sequence classification, also of cross-encoders. */
#ifndef TFM_LIB_CLASSIFY_H
#define TFM_LIB_CLASSIFY_H

#include "model/core/model.h"
#include "tfm/embed.h"

/* tfm_classify with scores of this kind, for a checked model with a classification head and checked arguments; `what`
 * is the name of the call. */
tfm_status tfm__classify(tfm_model *model, const char *what, float *scores, const char *const *lines, size_t count,
                         const tfm_embed_options *options, tfm__scores kind);

#endif
