/* Automatic differentiation (reverse mode). While the tape records, each op saves what its backward pass needs;
 * tfm_backward then runs the records from last to first.
 *
 *     tfm_tape_start(ctx);
 *     tfm_tape_watch(ctx, weight.value, weight_gradient);
 *     tfm_linear(ctx, &y, x, &weight, bias, TFM_NO_ACTIVATION);
 *     tfm_softmax(ctx, &p, y);
 *     tfm_backward(ctx, p, dp);
 *
 * The tape records only ops whose inputs depend on a watched tensor, and keeps only the tensors needed by their
 * backward passes; the others are freed with their scope as usual. Gradients of intermediate tensors are allocated at
 * first use and freed after their last. Gradients are F32 and deterministic.
 *
 * While the tape records, an op must not overwrite a watched tensor, the result of a recorded op, a tensor saved for a
 * backward pass, or, if it is recorded, its own input: TFM_ERROR_ARGUMENT. Views of one block without common elements
 * are independent. Writes by other means than ops, such as tfm_tensor_write, are not detected. A context has one tape,
 * and one thread at a time may use both.
 *
 * All ops of ops.h have a backward pass except tfm_topk, tfm_sample, tfm_pool, tfm_l2_norm, tfm_score_additive and
 * tfm_adam, and the step functions: tfm_equal, tfm_less, tfm_less_equal, tfm_and, tfm_or, tfm_xor and tfm_onehot. There
 * is also none for a cast to a type narrower than F32, for weights and embedding tables in int8, fp16 or bf16, for an
 * accumulating GEMM, for attention with fp16 or bf16 keys or with `kv_indices` or `kv_batch` (cached keys), nor
 * gradients of rotary tables and of `initial` of tfm_ssru. Such a call is refused while the tape records if it depends
 * on a watched tensor. Step functions are allowed: no gradient passes through them. */
#ifndef TFM_TAPE_H
#define TFM_TAPE_H

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Starts recording; discards earlier records and watched tensors. */
TFM_API tfm_status tfm_tape_start(tfm_context *ctx);

/* Requests the gradient of x, an F32 tensor of any dims. tfm_backward ADDS it to `gradient`, an F32 tensor with the
 * same number of elements in other memory. Views of x (tfm_tensor_rows, tfm_tensor_reshape) are watched with it. Call
 * this before the ops that read x. Refused if x is the result of a recorded op, or overlaps a watched tensor, unless
 * both calls are the same. Keep both tensors until the backward pass is over. */
TFM_API tfm_status tfm_tape_watch(tfm_context *ctx, tfm_tensor x, tfm_tensor gradient);

/* Stops recording and adds the gradients of y with respect to all watched tensors to the tensors given to
 * tfm_tape_watch. y is F32, and is the result of a recorded op or contains one; the rest of y has no effect. dy is the
 * gradient of the final result with respect to y, F32 with as many elements as y; an empty dy stands for ones. The call
 * clears the tape even if it fails: call tfm_tape_start before another pass. No gradient passes through a norm's mean
 * and deviation, attention's scores and log-sum-exp, dropout's mask, and nll. */
TFM_API tfm_status tfm_backward(tfm_context *ctx, tfm_tensor y, tfm_tensor dy);

/* Stops recording and clears the tape without a backward pass. Does nothing for NULL. */
TFM_API void tfm_tape_stop(tfm_context *ctx);

#ifdef __cplusplus
}
#endif
#endif
