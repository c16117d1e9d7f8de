/* The tape: an array of records, and the gradients of the tensors involved. tape_backward.c has the backward pass.
 *
 * A memory block that takes part has a *slot*, which the block's mark names. The gradient of a tensor has the same
 * offset in the slot's gradient as the tensor in its block, so views need no records. A watched tensor's slot has the
 * caller's gradient. Other slots get a gradient at its first write and free it after the backward function of the
 * producing op. */
#include <string.h>
#include "ops/autograd/tape_internal.h"

static void tape_release(void *data) {
    tfm__tape *t = data;
    free(t->slots);
    free(t->records);
    free(t->checkpoint_inputs);
    free(t);
}

/* Its address is the key of the context's tape. */
static char STORAGE_KEY;

tfm__tape *tfm__tape_of(const tfm_context *ctx) {
    if (!ctx)
        return NULL;
    return tfm__context_storage_get(ctx, &STORAGE_KEY);
}

tfm_status tfm__tape_grow(tfm_context *ctx, void *array, size_t *room, size_t count, size_t size) {
    return tfm__grow(array, room, count + 1, size) == TFM_OK
               ? TFM_OK
               : tfm__context_fail(ctx, TFM_ERROR_MEMORY, "tape: out of host memory");
}

bool tfm__tape_recording(tfm_context *ctx) {
    const tfm__tape *t = tfm__tape_of(ctx);
    return t && t->recording && tfm_context_status(ctx) == TFM_OK;
}

uint32_t tfm__grad_slot_find(const tfm__tape *t, tfm_tensor x) {
    if (!x.buffer || x.dtype != TFM_F32)
        return 0;
    const uint64_t mark = *tfm__tensor_tag(x);
    uint32_t by_ops = 0;
    for (uint32_t i = mark >> 32 == t->epoch ? (uint32_t)mark : 0; i; i = t->slots[i].next) {
        const tfm__grad_slot *s = &t->slots[i];
        if (!s->watched)
            by_ops = i;
        else if (x.offset < s->end && s->begin < x.offset + tfm_tensor_count(x))
            return i;
    }
    return by_ops;
}

bool tfm__grad_slot_watched(const tfm__tape *t, tfm_tensor x) {
    const uint32_t i = tfm__grad_slot_find(t, x);
    return i && t->slots[i].watched;
}

static uint32_t slot_new(tfm_context *ctx, tfm__tape *t, tfm_tensor x) {
    if (tfm__tape_grow(ctx, &t->slots, &t->slot_capacity, t->slot_count + 1, sizeof(tfm__grad_slot)) != TFM_OK)
        return 0;
    uint64_t *mark = tfm__tensor_tag(x);
    const uint32_t i = (uint32_t)++t->slot_count;
    t->slots[i] = (tfm__grad_slot){.next = *mark >> 32 == t->epoch ? (uint32_t)*mark : 0};
    *mark = (uint64_t)t->epoch << 32 | i;
    return i;
}

bool tfm__tape_produced(const tfm__tape *t, tfm_tensor x) {
    for (size_t i = tfm__grad_slot_find(t, x) ? t->record_count : 0; i-- > 0;)
        for (int o = 0; o < TFM__TAPE_OUT; o++) {
            const tfm_tensor y = t->records[i].out[o];
            if (y.buffer && y.generation == x.generation && tfm__overlap(y, x))
                return true;
        }
    return false;
}

void tfm__tape_clear(tfm_context *ctx, tfm__tape *t) {
    t->recording = false;
    for (size_t i = 0; i < t->record_count; i++)
        for (int k = 0; k < TFM__TAPE_SAVED; k++)
            tfm__tensor_unpin(ctx, t->records[i].saved[k]);
    for (size_t i = 1; i <= t->slot_count; i++)
        if (!t->slots[i].watched)
            tfm_tensor_free(ctx, &t->slots[i].gradient);
    t->record_count = t->slot_count = t->checkpoint_input_count = 0;
    t->hook = (tfm__grad_hook){0};
    t->epoch++;
}

tfm_status tfm_tape_start(tfm_context *ctx) {
    tfm__tape *t = tfm__tape_of(ctx);
    if (tfm__context_sticky(ctx) != TFM_OK)
        return tfm_context_status(ctx);
    if (!t) {
        t = tfm__alloc(1, sizeof(*t));
        if (!t)
            return tfm__context_fail(ctx, TFM_ERROR_MEMORY, "tape: out of host memory");
        if (tfm__context_storage_set(ctx, &STORAGE_KEY, t, tape_release) != TFM_OK)
            return tfm_context_status(ctx);
    }
    tfm__tape_clear(ctx, t);
    t->recording = true;
    return TFM_OK;
}

void tfm_tape_stop(tfm_context *ctx) {
    tfm__tape *t = tfm__tape_of(ctx);
    if (t)
        tfm__tape_clear(ctx, t);
}

tfm_status tfm_tape_watch(tfm_context *ctx, tfm_tensor x, tfm_tensor gradient) {
    if (TFM__OP_BEGIN(ctx, "tape_watch", "ff", x, gradient) != TFM_OK)
        return tfm_context_status(ctx);
    tfm__tape *t = tfm__tape_of(ctx);
    if (!t || !t->recording)
        return tfm__op_error(ctx, "tape_watch", "the tape does not record: call tfm_tape_start first");
    if (tfm_tensor_count(x) != tfm_tensor_count(gradient) || tfm__overlap(x, gradient))
        return tfm__op_error(ctx, "tape_watch", "x is %s, the gradient %s: it must be as large, in other memory",
                             TFM__SHAPE(x), TFM__SHAPE(gradient));
    const tfm__grad_slot *old = tfm__grad_slot_watched(t, x) ? &t->slots[tfm__grad_slot_find(t, x)] : NULL;
    if (old && old->begin == x.offset && old->end == x.offset + tfm_tensor_count(x) &&
        old->gradient.buffer == gradient.buffer && old->gradient.offset == gradient.offset)
        return TFM_OK; /* as a loop over layers with shared weights does */
    if (old)
        return tfm__op_error(ctx, "tape_watch", "%s overlaps a watched tensor: watch it once", TFM__SHAPE(x));
    if (tfm__tape_produced(t, x))
        return tfm__op_error(ctx, "tape_watch",
                             "%s is the result of a recorded op: watch the inputs of ops, before they run",
                             TFM__SHAPE(x));
    const uint32_t i = slot_new(ctx, t, x);
    if (!i)
        return tfm_context_status(ctx);
    tfm__grad_slot *s = &t->slots[i];
    s->gradient = gradient;
    s->begin = x.offset;
    s->end = x.offset + tfm_tensor_count(x);
    s->watched = s->written = true;
    return TFM_OK;
}

bool tfm__tape_requires_grad(tfm_context *ctx, size_t count, const tfm_tensor *x) {
    if (!tfm__tape_recording(ctx))
        return false;
    for (size_t i = 0; i < count; i++)
        if (tfm__grad_slot_find(tfm__tape_of(ctx), x[i]))
            return true;
    return false;
}

void tfm__grad_slot_extend(tfm_context *ctx, const char *op, tfm__grad_slot *s, tfm_tensor x) {
    const size_t end = x.offset + tfm_tensor_count(x);
    if (!s->watched && s->end < end)
        s->end = end;
    if (s->watched && (x.offset < s->begin || end > s->end))
        tfm__op_error(ctx, op, "%s overlaps a watched tensor in part: pass a view within it", TFM__SHAPE(x));
}

static uint32_t slot_for_input(tfm_context *ctx, tfm__tape *t, const char *op, tfm_tensor x) {
    const uint32_t i = tfm__grad_slot_find(t, x);
    if (i)
        tfm__grad_slot_extend(ctx, op, &t->slots[i], x);
    return i;
}

static uint32_t slot_for_output(tfm_context *ctx, tfm__tape *t, const char *op, tfm_tensor y) {
    uint32_t i = tfm__grad_slot_find(t, y); /* none that is watched: see tfm__tape_overwrites */
    if (!i)
        i = slot_new(ctx, t, y);
    if (!i)
        return 0;
    tfm__grad_slot_extend(ctx, op, &t->slots[i], y);
    t->slots[i].producers++;
    return i;
}

static bool is_saved(const tfm__tape *t, tfm_tensor x) {
    for (size_t i = t->record_count; i-- > 0;)
        for (int k = 0; k < TFM__TAPE_SAVED; k++)
            if (t->records[i].saved[k].buffer && tfm__overlap(t->records[i].saved[k], x))
                return true;
    return false;
}

const char *tfm__tape_overwrites(tfm_context *ctx, tfm_tensor x) {
    const tfm__tape *t = tfm__tape_of(ctx);
    if (!tfm__tape_recording(ctx))
        return NULL;
    if (tfm__grad_slot_watched(t, x))
        return "a tensor that the tape watches";
    if (tfm__tape_produced(t, x))
        return "the result of a recorded op";
    return tfm__tensor_pinned(x) && is_saved(t, x) ? "a tensor saved for the backward pass" : NULL;
}

tfm_status tfm__tape_append(tfm_context *ctx, tfm__tape *t, const tfm__record *record) {
    for (int i = 0; i < TFM__TAPE_IN; i++)
        for (int o = 0; o < TFM__TAPE_OUT; o++)
            if (record->in[i].buffer && record->out[o].buffer && tfm__overlap(record->in[i], record->out[o]))
                return tfm__op_error(ctx, record->op,
                                     "the output overlaps an input whose gradient the tape needs: "
                                     "give the output separate memory");
    if (tfm__tape_grow(ctx, &t->records, &t->record_capacity, t->record_count, sizeof(tfm__record)) != TFM_OK)
        return tfm_context_status(ctx);
    tfm__record r = *record;
    for (int i = 0; i < TFM__TAPE_IN; i++)
        r.in_slot[i] = slot_for_input(ctx, t, r.op, r.in[i]);
    for (int o = 0; o < TFM__TAPE_OUT; o++)
        if (r.out[o].buffer)
            r.out_slot[o] = slot_for_output(ctx, t, r.op, r.out[o]);
    if (tfm_context_status(ctx) != TFM_OK)
        return tfm_context_status(ctx);
    if (r.data_bytes > 0)
        memcpy(r.copy, r.data, r.data_bytes);
    for (int k = 0; k < TFM__TAPE_SAVED; k++)
        if (r.saved[k].buffer)
            tfm__tensor_pin(ctx, r.saved[k]);
    t->records[t->record_count++] = r;
    return TFM_OK;
}

tfm_status tfm__tape_add(tfm_context *ctx, const tfm__record *record) {
    if (!tfm__tape_requires_grad(ctx, TFM__TAPE_IN, record->in))
        return tfm_context_status(ctx);
    return tfm__tape_append(ctx, tfm__tape_of(ctx), record);
}

/* The view of a slot's gradient that belongs to x. */
static tfm_tensor gradient_view(const tfm__grad_slot *s, tfm_tensor x) {
    tfm_tensor part = x;
    part.buffer = s->gradient.buffer;
    part.generation = s->gradient.generation;
    part.offset = s->gradient.offset + (x.offset - s->begin);
    return part;
}

tfm_tensor tfm__tape_grad_output(tfm_context *ctx, const tfm__record *record, int i) {
    const tfm__grad_slot *s = &tfm__tape_of(ctx)->slots[record->out_slot[i]];
    return record->out_slot[i] && s->written ? gradient_view(s, record->out[i]) : (tfm_tensor){0};
}

bool tfm__tape_grad_is_ones(tfm_context *ctx, const tfm__record *record, int i) {
    const tfm_tensor y = tfm__tape_of(ctx)->root, out = record->out[i];
    return y.buffer == out.buffer && y.generation == out.generation && y.offset == out.offset &&
           tfm_tensor_count(y) == tfm_tensor_count(out);
}

tfm__gradient tfm__grad_slot_gradient(tfm_context *ctx, tfm__grad_slot *s, tfm_tensor x) {
    tfm__gradient to = {{0}, s->written};
    if (!s->gradient.buffer &&
        tfm__tensor_new_persistent(ctx, &s->gradient, TFM_F32, 1, (int64_t[]){(int64_t)(s->end - s->begin)}) != TFM_OK)
        return to;
    if (!s->written && tfm_tensor_count(x) != s->end - s->begin) {
        tfm__tensor_fill(ctx, s->gradient, &(float){0});
        to.add = true;
    }
    s->written = true;
    to.to = gradient_view(s, x);
    return to;
}

tfm__gradient tfm__tape_grad_input(tfm_context *ctx, const tfm__record *record, int i) {
    if (!record->in_slot[i] || tfm_context_status(ctx) != TFM_OK)
        return (tfm__gradient){{0}, false};
    return tfm__grad_slot_gradient(ctx, &tfm__tape_of(ctx)->slots[record->in_slot[i]], record->in[i]);
}

tfm_tensor tfm__tape_watched_grad(tfm_context *ctx, const char *op, tfm_tensor x) {
    tfm__tape *t = tfm__tape_of(ctx);
    const uint32_t i = tfm__tape_recording(ctx) ? slot_for_input(ctx, t, op, x) : 0;
    if (!i || tfm_context_status(ctx) != TFM_OK)
        return (tfm_tensor){0};
    if (!t->slots[i].watched) {
        tfm__op_error(ctx, op, "%s is the result of an op: the op computes gradients of watched tensors only",
                      TFM__SHAPE(x));
        return (tfm_tensor){0};
    }
    return gradient_view(&t->slots[i], x);
}

bool tfm__tape_pause(tfm_context *ctx) {
    tfm__tape *t = tfm__tape_of(ctx);
    const bool recorded = t && t->recording;
    if (t)
        t->recording = false;
    return recorded;
}

void tfm__tape_resume(tfm_context *ctx, bool recorded) {
    if (recorded)
        tfm__tape_of(ctx)->recording = true;
}

tfm__tape *tfm__tape_push(tfm_context *ctx) {
    tfm__tape *t = tfm__tape_of(ctx);
    if (!t || tfm_context_status(ctx) != TFM_OK)
        return NULL;
    tfm__tape *outer = tfm__alloc(1, sizeof(*outer));
    if (!outer) {
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "tape: out of host memory");
        return NULL;
    }
    *outer = *t;
    *t = (tfm__tape){.epoch = outer->epoch ^ UINT32_C(1) << 31}; /* distinct from the epochs of the pushed tape */
    return outer;
}

void tfm__tape_pop(tfm_context *ctx, tfm__tape *outer) {
    tfm__tape *t = tfm__tape_of(ctx);
    tfm_tape_stop(ctx);
    if (!outer)
        return;
    free(t->slots);
    free(t->records);
    free(t->checkpoint_inputs);
    *t = *outer;
    free(outer);
}
