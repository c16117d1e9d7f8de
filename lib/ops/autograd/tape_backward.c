/* Backward pass of the tape: runs records from last to first, recomputes checkpointed ops, and calls the hooks of
 * gradients that are ready. */
#include "ops/autograd/tape_internal.h"

/* After an op's backward: frees what it saved and the gradients of its outputs. */
static void release_record(tfm_context *ctx, tfm__tape *t, tfm__record *r) {
    for (int k = 0; k < TFM__TAPE_SAVED; k++) {
        tfm__tensor_unpin(ctx, r->saved[k]);
        r->saved[k] = (tfm_tensor){0};
    }
    for (int o = 0; o < TFM__TAPE_OUT; o++) {
        tfm__grad_slot *s = r->out_slot[o] ? &t->slots[r->out_slot[o]] : NULL;
        if (s && --s->producers == 0 && !s->watched)
            tfm_tensor_free(ctx, &s->gradient);
    }
}

size_t tfm__tape_checkpoint_begin(tfm_context *ctx) {
    return tfm__tape_recording(ctx) ? tfm__tape_of(ctx)->record_count : 0;
}

/* Notes the ranges of watched tensors that a record reads, before it is checkpointed. */
static tfm_status note_checkpoint_inputs(tfm_context *ctx, tfm__tape *t, const tfm__record *r) {
    for (int i = 0; i < TFM__TAPE_IN; i++) {
        if (!r->in_slot[i] || !t->slots[r->in_slot[i]].watched)
            continue;
        if (tfm__tape_grow(ctx, &t->checkpoint_inputs, &t->checkpoint_input_capacity, t->checkpoint_input_count,
                           sizeof(*t->checkpoint_inputs)) != TFM_OK)
            return tfm_context_status(ctx);
        t->checkpoint_inputs[t->checkpoint_input_count++] = r->in[i];
    }
    return TFM_OK;
}

tfm_status tfm__tape_checkpoint_end(tfm_context *ctx, size_t place, const tfm__record *record) {
    tfm__tape *t = tfm__tape_of(ctx);
    if (!tfm__tape_recording(ctx) || t->record_count <= place)
        return tfm_context_status(ctx);
    tfm__record r = *record;
    r.first_checkpoint_input = t->checkpoint_input_count;
    for (size_t i = place; i < t->record_count; i++) {
        if (t->records[i].gradients_done || t->records[i].recompute)
            return tfm__op_error(ctx, r.op, "%s cannot be recomputed in the backward pass", t->records[i].op);
        if (note_checkpoint_inputs(ctx, t, &t->records[i]) != TFM_OK)
            return tfm_context_status(ctx);
    }
    r.checkpoint_input_count = t->checkpoint_input_count - r.first_checkpoint_input;
    for (int k = 0; k < TFM__TAPE_SAVED; k++) /* before the ops release their tensors, some of which may be the same */
        if (r.saved[k].buffer)
            tfm__tensor_pin(ctx, r.saved[k]);
    for (size_t i = place; i < t->record_count; i++)
        release_record(ctx, t, &t->records[i]);
    t->record_count = place;
    for (int o = 0; o < TFM__TAPE_OUT; o++)
        if (!tfm__grad_slot_find(t, r.out[o]))
            r.out[o] = (tfm_tensor){0}; /* no gradient flows to it */
    tfm__tape_append(ctx, t, &r);
    for (int k = 0; k < TFM__TAPE_SAVED; k++)
        tfm__tensor_unpin(ctx, r.saved[k]);
    return tfm_context_status(ctx);
}

void tfm__tape_on_grad_ready(tfm_context *ctx, tfm_tensor x, size_t count, const tfm__grad_range *parts,
                             void (*done)(void *user, size_t part), void *user) {
    if (tfm__tape_recording(ctx))
        tfm__tape_of(ctx)->hook = (tfm__grad_hook){x, count, parts, done, user};
}

/* Whether y overlaps that range of the hooked tensor. */
static bool in_range(const tfm__tape *t, tfm_tensor y, tfm__grad_range part) {
    const tfm_tensor x = t->hook.x;
    const size_t begin = x.offset + (size_t)part.at, end = begin + (size_t)part.count;
    return y.buffer == x.buffer && y.offset < end && begin < y.offset + tfm_tensor_count(y);
}

/* Whether the op's backward adds to the gradient of that range. */
static bool touches(const tfm__tape *t, const tfm__record *r, tfm__grad_range part) {
    for (int i = 0; i < TFM__TAPE_IN; i++)
        if (r->in_slot[i] && in_range(t, r->in[i], part))
            return true;
    for (size_t i = 0; i < r->checkpoint_input_count; i++)
        if (in_range(t, t->checkpoint_inputs[r->first_checkpoint_input + i], part))
            return true;
    return false;
}

/* The record after whose backward each range is final: the first one that uses it, since the pass runs in reverse. An
 * unused range is final before the pass. NULL without a hook or without memory. */
static size_t *find_last_uses(tfm_context *ctx, const tfm__tape *t) {
    size_t *last = t->hook.count ? tfm__alloc(t->hook.count, sizeof(*last)) : NULL;
    if (t->hook.count && !last)
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "tape: out of host memory");
    for (size_t k = 0; last && k < t->hook.count; k++)
        while (last[k] < t->record_count && !touches(t, &t->records[last[k]], t->hook.parts[k]))
            last[k]++;
    return last;
}

static void call_hooks(const tfm__tape *t, const size_t *last, size_t record) {
    for (size_t k = 0; last && k < t->hook.count; k++)
        if (last[k] == record)
            t->hook.done(t->hook.user, k);
}

/* Recomputes checkpoint record `at`, records its ops after it, and passes on the gradients. */
static void recompute_checkpoint(tfm_context *ctx, tfm__tape *t, size_t at) {
    tfm__record r = t->records[at]; /* the array may move */
    tfm_tensor out[TFM__TAPE_OUT] = {0};
    r.data = r.copy;
    t->record_count = at + 1;
    t->recording = true;
    r.recompute(ctx, &r, out);
    t->recording = false;
    for (int o = 0; o < TFM__TAPE_OUT && tfm_context_status(ctx) == TFM_OK; o++) {
        const tfm_tensor from = tfm__tape_grad_output(ctx, &r, o);
        const uint32_t i = from.buffer ? tfm__grad_slot_find(t, out[o]) : 0;
        if (!i)
            continue;
        tfm__grad_slot_extend(ctx, r.op, &t->slots[i], out[o]);
        tfm__tensor_copy(ctx, tfm__grad_slot_gradient(ctx, &t->slots[i], out[o]).to, from);
        if (t->slots[r.out_slot[o]].producers == 1)
            tfm_tensor_free(ctx, &t->slots[r.out_slot[o]].gradient);
    }
}

static void backward_from(tfm_context *ctx, tfm__tape *t, size_t begin, const size_t *last) {
    for (size_t i = t->record_count; i-- > begin && tfm_context_status(ctx) == TFM_OK;) {
        tfm__record *r = &t->records[i];
        bool reached = false;
        r->data = r->copy;
        for (int o = 0; o < TFM__TAPE_OUT; o++)
            reached |= r->out_slot[o] && t->slots[r->out_slot[o]].written;
        tfm_scope_open(ctx);
        if (reached && r->recompute) {
            recompute_checkpoint(ctx, t, i);
            backward_from(ctx, t, i + 1, NULL); /* no hooks for recomputed ops: a range is final after record i */
        } else if (reached) {
            r->backward(ctx, r);
        } else if (r->gradients_done) {
            tfm__op_error(ctx, r->op,
                          "its loss does not contribute to y, but its gradients are added already: start the "
                          "backward pass at the loss, or use an op without");
        }
        tfm_scope_close(ctx, 0, NULL);
        release_record(ctx, t, &t->records[i]);
        if (tfm_context_status(ctx) == TFM_OK)
            call_hooks(t, last, i);
    }
}

static void backward_all(tfm_context *ctx, tfm__tape *t) {
    size_t *last = find_last_uses(ctx, t);
    call_hooks(t, last, t->record_count);
    backward_from(ctx, t, 0, last);
    free(last);
}

/* Whether the backward pass can start at y, with dy. */
static tfm_status check_root(tfm_context *ctx, const tfm__tape *t, tfm_tensor y, tfm_tensor dy) {
    const char *op = "backward";
    if (!t || !t->recording)
        return tfm__op_error(ctx, op,
                             "the tape is empty, as every backward pass leaves it: call tfm_tape_start and "
                             "tfm_tape_watch, then run the ops that produce y %s",
                             TFM__SHAPE(y));
    if (t->slot_count == 0)
        return tfm__op_error(ctx, op, "the tape watches nothing: call tfm_tape_watch before the ops that produce y %s",
                             TFM__SHAPE(y));
    if (tfm__grad_slot_watched(t, y))
        return tfm__op_error(ctx, op, "y %s overlaps a watched tensor: give the result of an op", TFM__SHAPE(y));
    if (!tfm__tape_produced(t, y))
        return tfm__op_error(ctx, op, "no recorded op produced y %s from a watched tensor", TFM__SHAPE(y));
    if (dy.buffer && tfm_tensor_count(dy) != tfm_tensor_count(y))
        return tfm__op_error(ctx, op, "dy is %s for y %s", TFM__SHAPE(dy), TFM__SHAPE(y));
    return TFM_OK;
}

tfm_status tfm_backward(tfm_context *ctx, tfm_tensor y, tfm_tensor dy) {
    tfm__tape *t = tfm__tape_of(ctx);
    if (TFM__OP_BEGIN(ctx, "backward", "fF", y, dy) == TFM_OK) {
        check_root(ctx, t, y, dy);
        if (t)
            t->recording = false;
        if (tfm_context_status(ctx) == TFM_OK) {
            tfm__grad_slot *s = &t->slots[tfm__grad_slot_find(t, y)];
            tfm__grad_slot_extend(ctx, "backward", s, y); /* elements of y that no op produced propagate nothing */
            const tfm__gradient to = tfm__grad_slot_gradient(ctx, s, y);
            t->root = dy.buffer ? (tfm_tensor){0} : y;
            if (dy.buffer)
                tfm__tensor_copy(ctx, to.to, dy);
            else
                tfm__tensor_fill(ctx, to.to, &(float){1});
            backward_all(ctx, t);
        }
    }
    if (t)
        tfm__tape_clear(ctx, t);
    return tfm_context_status(ctx);
}
