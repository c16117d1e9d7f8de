/* How a stack tells positions apart where nothing is added to the embedding: what queries and keys turn by, and the
 * bias of scores by distance. */
#ifndef TFM_LIB_POSITIONS_H
#define TFM_LIB_POSITIONS_H

#include "model/core/model.h"

/* Makes stack->rope for `positions` positions of texts of `length` tokens, where the stack's layers turn and the
 * tables are shorter than that or are for texts of other lengths. They are kept with the stack. */
tfm_status tfm__positions_rope(tfm_model *model, tfm__stack *stack, const tfm__stack_arch *arch, int64_t positions,
                               int64_t length);

/* Which rows of a table of biases by distance are meant: *buckets (T, S) I32 are those of T queries, the first at
 * position `first`, over all S = first + T keys. With ALiBi they are the distances themselves, F32 from 0 down. Leaves
 * it empty where the stack has neither. */
tfm_status tfm__positions_buckets(tfm_model *model, tfm_tensor *buckets, const tfm__stack_arch *arch, int64_t first,
                                  int64_t targets);

/* *bias (H, T, S) is what the table of a layer, 0 where all share one, has in these rows, or the slopes of ALiBi make
 * of them. Leaves it empty where `buckets` is. */
tfm_status tfm__positions_bias(tfm_model *model, tfm_tensor *bias, const tfm__stack *stack, const tfm__stack_arch *arch,
                               int layer, tfm_tensor buckets);

/* The same for one query of the decoder at `position`, out of what tfm__model_position_bias gave: *bias (H, 1, position
 * + 1). Leaves it empty where `position_bias` is. */
tfm_status tfm__positions_bias_row(tfm_model *model, tfm_tensor *bias, tfm_tensor position_bias, int layer,
                                   int64_t position);

#endif
