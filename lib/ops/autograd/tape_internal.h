/* Tape internals, shared by recording (tape.c) and the backward pass (tape_backward.c). */
#ifndef TFM_LIB_TAPE_INTERNAL_H
#define TFM_LIB_TAPE_INTERNAL_H

#include "ops/autograd/tape.h"

typedef struct tfm__grad_slot {
    tfm_tensor gradient; /* elements begin .. end - 1 of the block */
    size_t begin, end;
    bool watched; /* owned by the caller: added to, never freed here */
    bool written;
    int producers; /* records without backward so far whose output lies here */
    uint32_t next; /* another slot of the same block, or 0 */
} tfm__grad_slot;

/* Hook for gradients that become final during the backward pass. */
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
    tfm_tensor root;       /* root of a backward pass without dy */
    tfm__grad_slot *slots; /* from 1 on */
    size_t slot_count, slot_capacity;
    tfm__record *records;
    size_t record_count, record_capacity;
    tfm_tensor *checkpoint_inputs; /* ranges of watched tensors that checkpointed ops read, indexed by the records'
                                      first_checkpoint_input */
    size_t checkpoint_input_count, checkpoint_input_capacity;
} tfm__tape;

/* The context's tape; NULL if it never had one. */
tfm__tape *tfm__tape_of(const tfm_context *ctx);
/* Grows an array for one more element. */
tfm_status tfm__tape_grow(tfm_context *ctx, void *array, size_t *room, size_t count, size_t size);
/* Stops recording, releases all tensors and clears the tape; the new epoch invalidates all marks. */
void tfm__tape_clear(tfm_context *ctx, tfm__tape *t);
/* Appends a record, whether or not an input has a gradient. */
tfm_status tfm__tape_append(tfm_context *ctx, tfm__tape *t, const tfm__record *record);
/* Whether a recorded op produced elements of x. False for memory blocks that were freed and reused. */
bool tfm__tape_produced(const tfm__tape *t, tfm_tensor x);

/* The slot that a tensor lies in, or 0: a watched one that it overlaps, else that of the op results in its block. */
uint32_t tfm__grad_slot_find(const tfm__tape *t, tfm_tensor x);
bool tfm__grad_slot_watched(const tfm__tape *t, tfm_tensor x);
/* Extends a slot to cover a tensor; watched slots keep their size. */
void tfm__grad_slot_extend(tfm_context *ctx, const char *op, tfm__grad_slot *s, tfm_tensor x);
/* The gradient of x in its slot, created if needed. */
tfm__gradient tfm__grad_slot_gradient(tfm_context *ctx, tfm__grad_slot *s, tfm_tensor x);

#endif
