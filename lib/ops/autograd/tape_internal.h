/* The inside of the tape, for the two files of it: recording (tape.c) and the way back (tape_backward.c). */
#ifndef TFM_LIB_TAPE_INTERNAL_H
#define TFM_LIB_TAPE_INTERNAL_H

#include "ops/autograd/tape.h"

typedef struct tfm__grad_slot {
    tfm_tensor gradient; /* of elements begin .. end - 1 of the block */
    size_t begin, end;
    bool watched; /* by the caller: added to, never freed here */
    bool written;
    int producers; /* records that have yet to go backwards and whose output lies here */
    uint32_t next; /* another slot of the same block, or 0 */
} tfm__grad_slot;

/* Who is told of gradients while the walk goes on. */
typedef struct tfm__grad_hook {
    tfm_tensor x;
    size_t count;
    const tfm__grad_range *parts;
    void (*done)(void *user, size_t part);
    void *user;
} tfm__grad_hook;

typedef struct tfm__tape {
    bool recording;
    tfm__grad_hook hook;
    uint32_t epoch;        /* a mark of another epoch is stale */
    tfm_tensor root;       /* where a walk began without dy */
    tfm__grad_slot *slots; /* from 1 on */
    size_t slot_count, slot_capacity;
    tfm__record *records;
    size_t record_count, record_capacity;
    tfm_tensor *checkpoint_inputs; /* what of watched tensors folded ops read, by the records' first_checkpoint_input */
    size_t checkpoint_input_count, checkpoint_input_capacity;
} tfm__tape;

/* The tape of a context; NULL if it never had one. */
tfm__tape *tfm__tape_of(const tfm_context *ctx);
/* Room for one more element. */
tfm_status tfm__tape_grow(tfm_context *ctx, void *array, size_t *room, size_t count, size_t size);
/* Stops recording, unpins and forgets; the epoch makes all marks stale. */
void tfm__tape_clear(tfm_context *ctx, tfm__tape *t);
/* Writes a record down, whether an input has a gradient or not. */
tfm_status tfm__tape_append(tfm_context *ctx, tfm__tape *t, const tfm__record *record);
/* Whether a recorded op has made elements of x. Of blocks that were given back and serve again, it has not. */
bool tfm__tape_produced(const tfm__tape *t, tfm_tensor x);

/* The slot that a tensor lies in, or 0: a watched one that it has elements of, else that of what ops made in its
 * block. */
uint32_t tfm__grad_slot_find(const tfm__tape *t, tfm_tensor x);
bool tfm__grad_slot_watched(const tfm__tape *t, tfm_tensor x);
/* A slot reaches as far as the tensors in it; a watched one is as it was given. */
void tfm__grad_slot_extend(tfm_context *ctx, const char *op, tfm__grad_slot *s, tfm_tensor x);
/* The gradient of x in its slot, made if there is none yet. */
tfm__gradient tfm__grad_slot_gradient(tfm_context *ctx, tfm__grad_slot *s, tfm_tensor x);

#endif
