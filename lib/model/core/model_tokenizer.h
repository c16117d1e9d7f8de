/* The tokenizer of a model directory. */
#ifndef TFM_LIB_MODEL_TOKENIZER_H
#define TFM_LIB_MODEL_TOKENIZER_H

#include "model/core/model.h"
#include "text/tokenizer.h"

/* The directory's tokenizer, if it fits the model. */
tfm_status tfm__model_tokenizer_open(tfm_tokenizer **out, const tfm__family *family, const tfm__arch *arch,
                                     const tfm__generation_rules *rules, const char *dir);
/* Ends an opening that ran while the weights were loaded, with the status `loaded`. If both failed, the tokenizer's
 * failure is reported, and the context recovers to the scope `depth`. */
tfm_status tfm__model_tokenizer_end(tfm_model *model, tfm__tokenizer_opening *opening, tfm_status loaded,
                                    const char *dir, int depth);

#endif
