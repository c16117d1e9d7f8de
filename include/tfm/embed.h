/* Encoders by themselves: what stands after BERT and its like.
 *
 *     tfm_tensor encoded = {0}, logits = {0};
 *     tfm_model_encode(model, &encoded, ids, lengths);
 *     tfm_model_class_logits(model, &logits, encoded, lengths);
 *
 * The rules are those of model.h. */
#ifndef TFM_EMBED_H
#define TFM_EMBED_H

#include "model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Heads of encoders ----------------------------------------------------------------------------------------- */

/* Does what tfm_model_encode does for ids of two texts each: types (B, T) I32 is 0 for tokens of the first text and 1
 * for those of the second. A model without a table of token types leaves them aside. */
TFM_API tfm_status tfm_model_encode_pairs(tfm_model *model, tfm_tensor *encoded, tfm_tensor ids, tfm_tensor types,
                                          tfm_tensor lengths);

/* logits (..., V) of which word stands at each position of encoded (..., E), what tfm_model_encode gave or rows of it.
 * TFM_ERROR_ARGUMENT for a model without a head for masked words. */
TFM_API tfm_status tfm_model_word_logits(tfm_model *model, tfm_tensor *logits, tfm_tensor encoded);

/* logits (B, C) of the classes of texts, of which encoded (B, T, E) is what tfm_model_encode gave with these `lengths`,
 * which may be empty. TFM_ERROR_ARGUMENT for a model without a head for classes. */
TFM_API tfm_status tfm_model_class_logits(tfm_model *model, tfm_tensor *logits, tfm_tensor encoded, tfm_tensor lengths);

/* How many classes a model tells apart; 0 if it has no such head. 0 for NULL. */
TFM_API size_t tfm_model_class_count(const tfm_model *model);
/* What config.json calls a class, such as "POSITIVE", or "LABEL_1" where it does not. The string belongs to the model.
 * NULL for a class that there is not. */
TFM_API const char *tfm_model_class_name(const tfm_model *model, size_t index);

#ifdef __cplusplus
}
#endif
#endif
