/* Autograd interface for ops. An op's forward, after its launch:
 *
 *     tfm__tape_add(ctx, &(tfm__record){.op = "softmax", .backward = backward, .out = {*y}, .in = {x},
 *                                       .saved = {*y}});
 *
 * and its backward, in the same file:
 *
 *     static tfm_status backward(tfm_context *ctx, const tfm__record *record) {
 *         tfm__gradient dx = tfm__tape_grad_input(ctx, record, 0);
 *         tfm_tensor dy = tfm__tape_grad_output(ctx, record, 0);
 *         ... launch, adding to dx.to if dx.add, else overwriting it
 *     } */
#ifndef TFM_LIB_TAPE_H
#define TFM_LIB_TAPE_H

#include "ops/ops.h"
#include "tfm/tape.h"

enum { TFM__TAPE_OUT = 2, TFM__TAPE_IN = 4, TFM__TAPE_SAVED = 10, TFM__TAPE_DATA = 1280 };

typedef struct tfm__record tfm__record;
struct tfm__record {
    const char *op;
    tfm_status (*backward)(tfm_context *ctx, const tfm__record *record);
    tfm_tensor out[TFM__TAPE_OUT];     /* backward reads their gradients */
    tfm_tensor in[TFM__TAPE_IN];       /* backward computes their gradients; empty ones are skipped */
    tfm_tensor saved[TFM__TAPE_SAVED]; /* other tensors that backward reads: held until it has run */
    int64_t ints[4];                   /* scalar attributes */
    float floats[3];
    const void *data; /* larger attributes: copied by tfm__tape_add, at most TFM__TAPE_DATA bytes */
    size_t data_bytes;
    bool gradients_done; /* by the forward: a backward pass that skips the record is refused */
    /* Set instead of `backward`, see tfm__tape_checkpoint_end: recomputes `out` in the current scope. */
    tfm_status (*recompute)(tfm_context *ctx, const tfm__record *record, tfm_tensor *out);
    /* Internal to the tape. */
    uint32_t out_slot[TFM__TAPE_OUT], in_slot[TFM__TAPE_IN];
    size_t first_checkpoint_input, checkpoint_input_count;    /* ranges of watched tensors that the ops read */
    _Alignas(max_align_t) unsigned char copy[TFM__TAPE_DATA]; /* of `data`, which is not copied */
};

/* Whether the tape records and at least one of `count` tensors, ignoring empty ones, has a gradient. */
bool tfm__tape_requires_grad(tfm_context *ctx, size_t count, const tfm_tensor *x);
#define TFM__TAPE_REQUIRES_GRAD(ctx, ...)                                                                              \
    tfm__tape_requires_grad(ctx, sizeof((tfm_tensor[]){__VA_ARGS__}) / sizeof(tfm_tensor), (tfm_tensor[]){__VA_ARGS__})

/* Records an op, unless the tape is off or no `in` has a gradient. Fails if an output shares memory with an input that
 * has one. Returns the context's status. */
tfm_status tfm__tape_add(tfm_context *ctx, const tfm__record *record);

/* Activation checkpointing ("Training Deep Nets with Sublinear Memory Cost", Chen et al. 2016): replaces the ops
 * recorded since tfm__tape_checkpoint_begin by one record and frees what they saved. In the backward pass
 * record->recompute runs them again from the saved inputs and the watched tensors; they are recorded and differentiated
 * at once. Gradients are equal to the bit if the ops and their random numbers are the same. record->in: inputs produced
 * by earlier ops; record->out: outputs read by later ops. Does nothing if none of the ops was recorded. Refused if one
 * of them has computed gradients already. */
size_t tfm__tape_checkpoint_begin(tfm_context *ctx);
tfm_status tfm__tape_checkpoint_end(tfm_context *ctx, size_t place, const tfm__record *record);

/* Describes the tape's use of x that a write to it would break, as part of a sentence; NULL if none. A tensor has one
 * gradient, so it must be produced once: a second write to its memory would mix the gradients of two tensors. */
const char *tfm__tape_overwrites(tfm_context *ctx, tfm_tensor x);

/* For an op without backward: fails if the tape would need one. */
#define TFM__TAPE_NO_BACKWARD(ctx, op, ...)                                                                            \
    (TFM__TAPE_REQUIRES_GRAD(ctx, __VA_ARGS__)                                                                         \
         ? tfm__op_error(ctx, op, "it has no backward pass: stop the tape first")                                      \
         : tfm_context_status(ctx))

/* The gradient of record->out[i]; empty if it does not contribute. Backward may overwrite it. */
tfm_tensor tfm__tape_grad_output(tfm_context *ctx, const tfm__record *record, int i);

/* Whether that gradient is known to be ones: tfm_backward got this output without dy. */
bool tfm__tape_grad_is_ones(tfm_context *ctx, const tfm__record *record, int i);

/* Destination of the gradient of record->in[i], with in[i]'s dims. */
typedef struct tfm__gradient {
    tfm_tensor to; /* empty: not required */
    bool add;      /* add to the current values; else overwrite all of them */
} tfm__gradient;
tfm__gradient tfm__tape_grad_input(tfm_context *ctx, const tfm__record *record, int i);

/* dx = or += dy f'(x). For ReLU, x may be its result. dx may be dy. */
tfm_status tfm__activate_backward(tfm_context *ctx, tfm__gradient dx, tfm_tensor dy, tfm_tensor x,
                                  tfm_activation activation);

/* For an op that computes gradients in its forward: the accumulated gradient of x, which must be watched. Empty if x
 * has none; fails for an intermediate result, whose gradient needs a backward pass. */
tfm_tensor tfm__tape_watched_grad(tfm_context *ctx, const char *op, tfm_tensor x);

/* Hook to communicate gradients during the backward pass. x, watched as a whole, has `count` ranges. The next backward
 * pass calls done(user, i) once for each, as soon as the gradient of range i is final: commands enqueued from there see
 * all of it. A pass that fails may skip some. `parts` is read until then. */
typedef struct tfm__grad_range {
    int64_t at, count; /* in elements of x */
} tfm__grad_range;
void tfm__tape_on_grad_ready(tfm_context *ctx, tfm_tensor x, size_t count, const tfm__grad_range *parts,
                             void (*done)(void *user, size_t part), void *user);

/* Pauses recording; returns whether it was on, for tfm__tape_resume. */
bool tfm__tape_pause(tfm_context *ctx);
void tfm__tape_resume(tfm_context *ctx, bool recorded);

/* Replaces the context's tape by an empty one, for a pass that is independent of the caller's; tfm__tape_pop restores
 * it. The result is for tfm__tape_pop alone: NULL if there was no tape, or after a failure. */
struct tfm__tape *tfm__tape_push(tfm_context *ctx);
void tfm__tape_pop(tfm_context *ctx, struct tfm__tape *outer);

/* Whether ops are being recorded, for ops that choose their algorithm by it. */
bool tfm__tape_recording(tfm_context *ctx);

#endif
