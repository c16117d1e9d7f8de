/* What ops tell the tape. An op's forward, after its launch:
 *
 *     tfm__tape_add(ctx, &(tfm__record){.op = "softmax", .backward = backward, .out = {*y}, .in = {x},
 *                                       .saved = {*y}});
 *
 * and its backward, beside it:
 *
 *     static tfm_status backward(tfm_context *ctx, const tfm__record *record) {
 *         tfm__gradient dx = tfm__tape_grad_input(ctx, record, 0);
 *         tfm_tensor dy = tfm__tape_grad_output(ctx, record, 0);
 *         ... launch, adding to dx.to if dx.add, else overwriting it
 *     }
 */
#ifndef TFM_LIB_TAPE_H
#define TFM_LIB_TAPE_H

#include "ops/ops.h"
#include "tfm/tape.h"

enum { TFM__TAPE_OUT = 2, TFM__TAPE_IN = 4, TFM__TAPE_SAVED = 10, TFM__TAPE_DATA = 1280 };

typedef struct tfm__record tfm__record;
struct tfm__record {
    const char *op;
    tfm_status (*backward)(tfm_context *ctx, const tfm__record *record);
    tfm_tensor out[TFM__TAPE_OUT];     /* whose gradients backward reads */
    tfm_tensor in[TFM__TAPE_IN];       /* whose gradients it makes; empty ones are skipped */
    tfm_tensor saved[TFM__TAPE_SAVED]; /* what it reads besides: held until it has run */
    int64_t ints[4];                   /* small facts */
    float floats[3];
    const void *data; /* larger ones: copied by tfm__tape_add, at most TFM__TAPE_DATA bytes */
    size_t data_bytes;
    bool gradients_done; /* the forward has made gradients already: a walk that does not come to it is refused */
    /* In place of `backward`, see tfm__tape_checkpoint_end: makes `out` once more, in the current scope. */
    tfm_status (*recompute)(tfm_context *ctx, const tfm__record *record, tfm_tensor *out);
    /* The tape's own. */
    uint32_t out_slot[TFM__TAPE_OUT], in_slot[TFM__TAPE_IN];
    size_t first_checkpoint_input, checkpoint_input_count;    /* what of the watched tensors the ops in a fold read */
    _Alignas(max_align_t) unsigned char copy[TFM__TAPE_DATA]; /* of `data`, which is read where it lies */
};

/* Whether the tape records and at least one of `count` tensors, empty ones aside, has a gradient. */
bool tfm__tape_requires_grad(tfm_context *ctx, size_t count, const tfm_tensor *x);
#define TFM__TAPE_REQUIRES_GRAD(ctx, ...)                                                                              \
    tfm__tape_requires_grad(ctx, sizeof((tfm_tensor[]){__VA_ARGS__}) / sizeof(tfm_tensor), (tfm_tensor[]){__VA_ARGS__})

/* Writes an op down, unless the tape is off or none of `in` has a gradient. Fails where an output shares
 * memory with an input that has one. Returns the context's status. */
tfm_status tfm__tape_add(tfm_context *ctx, const tfm__record *record);

/* Recomputation ("Training Deep Nets with Sublinear Memory Cost", Chen et al. 2016): the ops that were written down
 * since tfm__tape_checkpoint_begin become one record, and what they kept is given back. The walk back has
 * record->recompute run them once more, from what the record keeps, which is all that they read but for watched
 * tensors: they are written down then, and walked at once. Where they are the same ops, with the same draws, so are all
 * gradients, to the bit. record->in are what they read that ops before them made; record->out what ops after them read.
 * Nothing is done where none of them was written down. Refused where one of them has made gradients already. */
size_t tfm__tape_checkpoint_begin(tfm_context *ctx);
tfm_status tfm__tape_checkpoint_end(tfm_context *ctx, size_t place, const tfm__record *record);

/* What of the tape's x would overwrite, in words for a sentence; NULL if nothing. A tensor has one gradient, so it must
 * be made once: memory that an op wrote twice would have one for two tensors. */
const char *tfm__tape_overwrites(tfm_context *ctx, tfm_tensor x);

/* For an op that has no backward: fails if the tape would need one. */
#define TFM__TAPE_NO_BACKWARD(ctx, op, ...)                                                                            \
    (TFM__TAPE_REQUIRES_GRAD(ctx, __VA_ARGS__)                                                                         \
         ? tfm__op_error(ctx, op, "it has no backward pass: stop the tape first")                                      \
         : tfm_context_status(ctx))

/* The gradient of record->out[i]: empty if nothing that counts was made of it. Backward may overwrite it. */
tfm_tensor tfm__tape_grad_output(tfm_context *ctx, const tfm__record *record, int i);

/* Whether that is known to be ones: tfm_backward was given this output, and no dy. */
bool tfm__tape_grad_is_ones(tfm_context *ctx, const tfm__record *record, int i);

/* Where the gradient of record->in[i] goes, with in[i]'s dims. */
typedef struct tfm__gradient {
    tfm_tensor to; /* empty: not wanted */
    bool add;      /* add to what is there; else overwrite, all of it */
} tfm__gradient;
tfm__gradient tfm__tape_grad_input(tfm_context *ctx, const tfm__record *record, int i);

/* dx = or += dy f'(x). Of ReLU, x may as well be its result. dx may be dy. */
tfm_status tfm__activate_backward(tfm_context *ctx, tfm__gradient dx, tfm_tensor dy, tfm_tensor x,
                                  tfm_activation activation);

/* For an op that makes gradients while it goes forward: where the gradient of x, which must be watched, is added up.
 * Empty if it has none; fails if it is one of what lies between, whose gradient only a walk back can make. */
tfm_tensor tfm__tape_watched_grad(tfm_context *ctx, const char *op, tfm_tensor x);

/* For whoever sends gradients on while a walk still goes on: x, which is watched as a whole, has `count` parts. The
 * next walk calls done(user, i) once for each, as soon as nothing that follows adds to the gradient of part i: what is
 * enqueued from there on finds all of it. A walk that fails may leave some out. The parts are read until then. */
typedef struct tfm__grad_range {
    int64_t at, count; /* of x's elements */
} tfm__grad_range;
void tfm__tape_on_grad_ready(tfm_context *ctx, tfm_tensor x, size_t count, const tfm__grad_range *parts,
                             void (*done)(void *user, size_t part), void *user);

/* Stops recording for a while; returns whether it did record, for tfm__tape_resume. */
bool tfm__tape_pause(tfm_context *ctx);
void tfm__tape_resume(tfm_context *ctx, bool recorded);

/* Puts an empty tape in the place of the context's, for a pass beside the caller's, which goes on where it was after
 * tfm__tape_pop. What this gives is for that alone: NULL where there was nothing to lay aside, or after a failure.
 */
struct tfm__tape *tfm__tape_push(tfm_context *ctx);
void tfm__tape_pop(tfm_context *ctx, struct tfm__tape *outer);

/* Whether ops are being recorded: for ops that must choose another way then. */
bool tfm__tape_recording(tfm_context *ctx);

#endif
