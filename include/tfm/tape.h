/* The tape: while it records, each op writes down what its backward pass needs, and tfm_backward walks back.
 *
 *     tfm_tape_start(ctx);
 *     tfm_tape_watch(ctx, weight.value, weight_gradient);
 *     tfm_linear(ctx, &y, x, &weight, bias, TFM_NO_ACTIVATION);
 *     tfm_softmax(ctx, &p, y);
 *     tfm_backward(ctx, p, dp);
 *
 * Only ops that a watched tensor has a part in are written down, and the tape holds only what their backward reads;
 * everything else dies with its scope as ever. Gradients of what lies between are made when they are first needed and
 * given back as soon as they were used. Gradients are F32 and deterministic: the same calls give the same bits.
 *
 * While the tape records an op may not write onto what is watched, onto the result of an op that was written down, onto
 * what its backward pass reads, nor onto its own input: such a call is refused with a sentence. Rows
 * of one block that have no element in common do not disturb each other. What is written by other means than ops, such
 * as tfm_tensor_write, is not looked at. One tape a context; the context's rules for threads hold.
 *
 * All ops of ops.h have a backward pass but tfm_topk, tfm_sample, tfm_l2_norm, tfm_score_additive and tfm_adam, a cast to
 * less than F32, a product that accumulates, attention with `rows` or `sources` as over cached keys, and the gradients of attention's mask and of
 * rotary tables. Such a call is refused while the tape records, if a watched tensor has a part in it. */
#ifndef TFM_TAPE_H
#define TFM_TAPE_H

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Forgets what was recorded and watched before, and records from here on. */
TFM_API tfm_status tfm_tape_start(tfm_context *ctx);

/* Asks for the gradient of x (F32, any dims): tfm_backward ADDS it to `gradient`, of the same number of elements. Views
 * of x (tfm_tensor_rows, tfm_tensor_reshape, the parameters in one flat tensor) are watched with it. To be called before
 * the ops that read x; refused for what is watched already with another gradient, and for the result of a recorded op. Both are borrowed until
 * the backward pass is over. */
TFM_API tfm_status tfm_tape_watch(tfm_context *ctx, tfm_tensor x, tfm_tensor gradient);

/* Stops recording and walks back from y with dy, the gradient of y by its dims, or empty for ones: the gradients of what
 * is watched are added where tfm_tape_watch said. A recorded op must have made y, or a part of it: the rest passes
 * nothing on. Empties the tape, also after a failure: for another pass start it again. An op that has no backward pass,
 * between y and what is watched, was refused when it was recorded. What ops give beside their result carries no
 * gradient: a norm's mean and deviation, attention's scores and log sums, nll. */
TFM_API tfm_status tfm_backward(tfm_context *ctx, tfm_tensor y, tfm_tensor dy);

/* Stops recording and forgets everything, without a backward pass. */
TFM_API void tfm_tape_stop(tfm_context *ctx);

#ifdef __cplusplus
}
#endif
#endif
