/* Positions that are not added to the embedding: RoPE tables and position bias. */
#ifndef TFM_LIB_POSITIONS_H
#define TFM_LIB_POSITIONS_H

#include "model/core/model.h"

/* Extends stack->rope to `positions` positions for sequences of `length` tokens, if the stack uses RoPE and its tables
 * are shorter or for another length. The stack owns them. */
tfm_status tfm__positions_rope(tfm_model *model, tfm__stack *stack, const tfm__stack_arch *arch, int64_t positions,
                               int64_t length);

/* Rows of a relative position table: *buckets (T, S) I32 of T queries from position `first` on, over all S = first + T
 * keys. For ALiBi: the distances, F32 <= 0. Stays empty if the stack has neither. */
tfm_status tfm__positions_buckets(tfm_model *model, tfm_tensor *buckets, const tfm__stack_arch *arch, int64_t first,
                                  int64_t targets);

/* *bias (H, T, S): these rows of a layer's table (layer 0 if shared), or ALiBi's slopes times them. Stays empty if
 * `buckets` is. */
tfm_status tfm__positions_bias(tfm_model *model, tfm_tensor *bias, const tfm__stack *stack, const tfm__stack_arch *arch,
                               int layer, tfm_tensor buckets);

/* The same for one decoder query at `position`, from tfm__model_position_bias: *bias (H, 1, position + 1). Stays empty
 * if `position_bias` is. */
tfm_status tfm__positions_bias_row(tfm_model *model, tfm_tensor *bias, tfm_tensor position_bias, int layer,
                                   int64_t position);

#endif
