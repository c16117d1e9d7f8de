/* The tape computes gradients. While it records, each op notes what its backward pass needs; tfm_backward then goes
 * through these records from the last to the first.
 *
 *     tfm_tape_start(ctx);
 *     tfm_tape_watch(ctx, weight.value, weight_gradient);
 *     tfm_linear(ctx, &y, x, &weight, bias, TFM_NO_ACTIVATION);
 *     tfm_softmax(ctx, &p, y);
 *     tfm_backward(ctx, p, dp);
 *
 * The tape records only ops whose inputs depend on a watched tensor, and keeps only the tensors that their backward
 * passes read; all others are freed with their scope as usual. The gradient of a tensor between the ops is made when it
 * is first needed and freed as soon as it has been used. Gradients are F32, and the same calls give the same bits.
 *
 * While the tape records, an op must not write over a watched tensor, over the result of a recorded op, over what a
 * backward pass will read, or, if it is recorded, over its own input. Such a call is refused with TFM_ERROR_ARGUMENT.
 * Views of one block that have no element in common do not disturb each other. The tape does not notice what is written
 * by other means than ops, such as tfm_tensor_write. A context has one tape, and one thread at a time may use both.
 *
 * All ops of ops.h have a backward pass except tfm_topk, tfm_sample, tfm_pool, tfm_l2_norm, tfm_score_additive and
 * tfm_adam, and those that give steps: tfm_equal, tfm_less, tfm_less_equal, tfm_and, tfm_or, tfm_xor and tfm_onehot.
 * There is also none for a cast to less than F32, for weights and tables of words that are bytes or of 16 bits, for a
 * product that accumulates, for attention with keys of 16 bits or with `kv_indices` or `kv_batch` as over cached keys,
 * and none that gives gradients of rotary tables and of `initial` of tfm_ssru. Such a call is refused while the tape
 * records if it depends on a watched tensor. Steps are not refused: no gradient passes through them. */
#ifndef TFM_TAPE_H
#define TFM_TAPE_H

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Forgets all that was recorded and watched before, and begins to record. */
TFM_API tfm_status tfm_tape_start(tfm_context *ctx);

/* Asks for the gradient of x, an F32 tensor of any dims. tfm_backward ADDS it to `gradient`, an F32 tensor with the
 * same number of elements in other memory. Views of x, made by tfm_tensor_rows or tfm_tensor_reshape, are watched with
 * it. Call this before the ops that read x. Refused if x overlaps a tensor that is already watched, unless both calls
 * are the same, and if x is the result of a recorded op. Keep both tensors until the backward pass is over. */
TFM_API tfm_status tfm_tape_watch(tfm_context *ctx, tfm_tensor x, tfm_tensor gradient);

/* Stops recording and computes the gradients of y with respect to all watched tensors, which are added where
 * tfm_tape_watch said. y is F32, and a recorded op must have made it or a part of it; the rest of y has no effect. dy
 * is the gradient of the final result with respect to y, F32 with as many elements as y; an empty dy stands for ones.
 * The call empties the tape even if it fails, so call tfm_tape_start again before another pass. These outputs of ops
 * carry no gradient: a norm's mean and deviation, attention's scores and log sums, dropout's mask, and nll. */
TFM_API tfm_status tfm_backward(tfm_context *ctx, tfm_tensor y, tfm_tensor dy);

/* Stops recording and forgets everything without a backward pass. Does nothing for NULL. */
TFM_API void tfm_tape_stop(tfm_context *ctx);

#ifdef __cplusplus
}
#endif
#endif
