/* The tape: an array of records, and the gradients of what they touch.
 *
 * A block of memory that takes part has a *slot*, which the block's mark names: the gradient of a tensor lies
 * in its slot's gradient where the tensor lies in its block, so views need no records. A watched tensor's
 * slot has the gradient that the caller gave; other slots get theirs when it is first written, and lose it
 * when the op that made the tensor has gone backwards. */
#include <string.h>
#include "ops/tape.h"

typedef struct slot {
    tfm_tensor gradient; /* of elements begin .. end - 1 of the block */
    size_t begin, end;
    bool given; /* by the caller: added to, never freed here */
    bool written;
    int producers; /* records that have yet to go backwards and whose output lies here */
    uint32_t next; /* another slot of the same block, or 0 */
} slot;

/* Who is told of gradients while the walk goes on. */
typedef struct teller {
    tfm_tensor x;
    size_t count;
    const tfm__tape_part *parts;
    void (*done)(void *user, size_t part);
    void *user;
} teller;

typedef struct tape {
    bool recording;
    teller teller;
    uint32_t epoch; /* a mark of another epoch is stale */
    tfm_tensor end; /* where a walk began without dy */
    slot *slots;    /* from 1 on */
    size_t slot_count, slot_room;
    tfm__record *records;
    size_t record_count, record_room;
} tape;

static void tape_release(void *data) {
    tape *t = data;
    free(t->slots);
    free(t->records);
    free(t);
}

/* Its address is the key under which a context keeps its tape. */
static char SLOT;

static tape *tape_of(const tfm_context *ctx) {
    if (!ctx)
        return NULL;
    return tfm__context_slot(ctx, &SLOT);
}

/* Room for one more element. */
static tfm_status grow(tfm_context *ctx, void *array, size_t *room, size_t count, size_t size) {
    return tfm__grow(array, room, count + 1, size) == TFM_OK
               ? TFM_OK
               : tfm__context_fail(ctx, TFM_ERROR_MEMORY, "tape: out of host memory");
}

bool tfm__tape_on(tfm_context *ctx) {
    const tape *t = tape_of(ctx);
    return t && t->recording && tfm_context_status(ctx) == TFM_OK;
}

/* The slot that a tensor lies in, or 0: a watched one that it has elements of, else that of what ops made in its
 * block. */
static uint32_t slot_find(const tape *t, tfm_tensor x) {
    if (!x.buffer || x.dtype != TFM_F32)
        return 0;
    const uint64_t mark = *tfm__tensor_mark(x);
    uint32_t by_ops = 0;
    for (uint32_t i = mark >> 32 == t->epoch ? (uint32_t)mark : 0; i; i = t->slots[i].next) {
        const slot *s = &t->slots[i];
        if (!s->given)
            by_ops = i;
        else if (x.offset < s->end && s->begin < x.offset + tfm_tensor_count(x))
            return i;
    }
    return by_ops;
}

static bool slot_watched(const tape *t, tfm_tensor x) {
    const uint32_t i = slot_find(t, x);
    return i && t->slots[i].given;
}

static uint32_t slot_new(tfm_context *ctx, tape *t, tfm_tensor x) {
    if (grow(ctx, &t->slots, &t->slot_room, t->slot_count + 1, sizeof(slot)) != TFM_OK)
        return 0;
    uint64_t *mark = tfm__tensor_mark(x);
    const uint32_t i = (uint32_t)++t->slot_count;
    t->slots[i] = (slot){.next = *mark >> 32 == t->epoch ? (uint32_t)*mark : 0};
    *mark = (uint64_t)t->epoch << 32 | i;
    return i;
}

/* Whether a recorded op has made elements of x. Of blocks that were given back and serve again, it has not. */
static bool made(const tape *t, tfm_tensor x) {
    for (size_t i = slot_find(t, x) ? t->record_count : 0; i-- > 0;)
        for (int o = 0; o < TFM__TAPE_OUT; o++) {
            const tfm_tensor y = t->records[i].out[o];
            if (y.buffer && y.generation == x.generation && tfm__overlap(y, x))
                return true;
        }
    return false;
}

/* Unpins and forgets; the epoch makes all marks stale. */
static void tape_clear(tfm_context *ctx, tape *t) {
    t->recording = false;
    for (size_t i = 0; i < t->record_count; i++)
        for (int k = 0; k < TFM__TAPE_KEEP; k++)
            tfm__tensor_unpin(ctx, t->records[i].keep[k]);
    for (size_t i = 1; i <= t->slot_count; i++)
        if (!t->slots[i].given)
            tfm_tensor_free(ctx, &t->slots[i].gradient);
    t->record_count = t->slot_count = 0;
    t->teller = (teller){0};
    t->epoch++;
}

tfm_status tfm_tape_start(tfm_context *ctx) {
    tape *t = tape_of(ctx);
    if (tfm__context_sticky(ctx) != TFM_OK)
        return tfm_context_status(ctx);
    if (!t) {
        t = tfm__alloc(1, sizeof(*t));
        if (!t)
            return tfm__context_fail(ctx, TFM_ERROR_MEMORY, "tape: out of host memory");
        if (tfm__context_set_slot(ctx, &SLOT, t, tape_release) != TFM_OK)
            return tfm_context_status(ctx);
    }
    tape_clear(ctx, t);
    t->recording = true;
    return TFM_OK;
}

void tfm_tape_stop(tfm_context *ctx) {
    tape *t = tape_of(ctx);
    if (t)
        tape_clear(ctx, t);
}

tfm_status tfm_tape_watch(tfm_context *ctx, tfm_tensor x, tfm_tensor gradient) {
    if (TFM__OP_BEGIN(ctx, "tape_watch", "ff", x, gradient) != TFM_OK)
        return tfm_context_status(ctx);
    tape *t = tape_of(ctx);
    if (!t || !t->recording)
        return tfm__op_refuse(ctx, "tape_watch", "the tape does not record: call tfm_tape_start first");
    if (tfm_tensor_count(x) != tfm_tensor_count(gradient) || tfm__overlap(x, gradient))
        return tfm__op_refuse(ctx, "tape_watch", "x is %s, the gradient %s: it must be as large, in other memory",
                              TFM__SHAPE(x), TFM__SHAPE(gradient));
    const slot *old = slot_watched(t, x) ? &t->slots[slot_find(t, x)] : NULL;
    if (old && old->begin == x.offset && old->end == x.offset + tfm_tensor_count(x) &&
        old->gradient.buffer == gradient.buffer && old->gradient.offset == gradient.offset)
        return TFM_OK; /* as a loop over layers with weights in common does */
    if (old)
        return tfm__op_refuse(ctx, "tape_watch", "%s lies on a tensor that the tape watches already: watch it once",
                              TFM__SHAPE(x));
    if (made(t, x))
        return tfm__op_refuse(ctx, "tape_watch",
                              "%s is the result of an op that the tape has written down: watch what ops begin with, "
                              "before they run",
                              TFM__SHAPE(x));
    const uint32_t i = slot_new(ctx, t, x);
    if (!i)
        return tfm_context_status(ctx);
    slot *s = &t->slots[i];
    s->gradient = gradient;
    s->begin = x.offset;
    s->end = x.offset + tfm_tensor_count(x);
    s->given = s->written = true;
    return TFM_OK;
}

bool tfm__tape_wants(tfm_context *ctx, size_t count, const tfm_tensor *x) {
    if (!tfm__tape_on(ctx))
        return false;
    for (size_t i = 0; i < count; i++)
        if (slot_find(tape_of(ctx), x[i]))
            return true;
    return false;
}

/* A slot reaches as far as the tensors in it; a watched one is as it was given. */
static void slot_reach(tfm_context *ctx, const char *op, slot *s, tfm_tensor x) {
    const size_t end = x.offset + tfm_tensor_count(x);
    if (!s->given && s->end < end)
        s->end = end;
    if (s->given && (x.offset < s->begin || end > s->end))
        tfm__op_refuse(ctx, op, "%s lies only partly in a tensor that the tape watches", TFM__SHAPE(x));
}

static uint32_t slot_for_input(tfm_context *ctx, tape *t, const char *op, tfm_tensor x) {
    const uint32_t i = slot_find(t, x);
    if (i)
        slot_reach(ctx, op, &t->slots[i], x);
    return i;
}

static uint32_t slot_for_output(tfm_context *ctx, tape *t, const char *op, tfm_tensor y) {
    uint32_t i = slot_find(t, y); /* none that is watched: see tfm__tape_holds */
    if (!i)
        i = slot_new(ctx, t, y);
    if (!i)
        return 0;
    slot_reach(ctx, op, &t->slots[i], y);
    t->slots[i].producers++;
    return i;
}

static bool kept(const tape *t, tfm_tensor x) {
    for (size_t i = t->record_count; i-- > 0;)
        for (int k = 0; k < TFM__TAPE_KEEP; k++)
            if (t->records[i].keep[k].buffer && tfm__overlap(t->records[i].keep[k], x))
                return true;
    return false;
}

const char *tfm__tape_holds(tfm_context *ctx, tfm_tensor x) {
    const tape *t = tape_of(ctx);
    if (!tfm__tape_on(ctx))
        return NULL;
    if (slot_watched(t, x))
        return "a tensor that the tape watches";
    if (made(t, x))
        return "the result of an op that the tape has written down";
    return tfm__tensor_pinned(x) && kept(t, x) ? "what a backward pass needs" : NULL;
}

tfm_status tfm__tape_add(tfm_context *ctx, const tfm__record *record) {
    if (!tfm__tape_wants(ctx, TFM__TAPE_IN, record->in))
        return tfm_context_status(ctx);
    tape *t = tape_of(ctx);
    for (int i = 0; i < TFM__TAPE_IN; i++)
        for (int o = 0; o < TFM__TAPE_OUT; o++)
            if (record->in[i].buffer && record->out[o].buffer && tfm__overlap(record->in[i], record->out[o]))
                return tfm__op_refuse(ctx, record->op,
                                      "the output lies on an input, whose gradient the tape needs: "
                                      "give the output memory of its own");
    if (grow(ctx, &t->records, &t->record_room, t->record_count, sizeof(tfm__record)) != TFM_OK)
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
    for (int k = 0; k < TFM__TAPE_KEEP; k++)
        if (r.keep[k].buffer)
            tfm__tensor_pin(ctx, r.keep[k]);
    t->records[t->record_count++] = r;
    return TFM_OK;
}

/* The part of a slot's gradient that belongs to x. */
static tfm_tensor part_of(const slot *s, tfm_tensor x) {
    tfm_tensor part = x;
    part.buffer = s->gradient.buffer;
    part.generation = s->gradient.generation;
    part.offset = s->gradient.offset + (x.offset - s->begin);
    return part;
}

tfm_tensor tfm__tape_out(tfm_context *ctx, const tfm__record *record, int i) {
    const slot *s = &tape_of(ctx)->slots[record->out_slot[i]];
    return record->out_slot[i] && s->written ? part_of(s, record->out[i]) : (tfm_tensor){0};
}

bool tfm__tape_ones(tfm_context *ctx, const tfm__record *record, int i) {
    const tfm_tensor y = tape_of(ctx)->end, out = record->out[i];
    return y.buffer == out.buffer && y.generation == out.generation && y.offset == out.offset &&
           tfm_tensor_count(y) == tfm_tensor_count(out);
}

/* The gradient of x in its slot, made if there is none yet. */
static tfm__gradient gradient_to(tfm_context *ctx, slot *s, tfm_tensor x) {
    tfm__gradient to = {{0}, s->written};
    if (!s->gradient.buffer &&
        tfm__tensor_new_lasting(ctx, &s->gradient, TFM_F32, 1, (int64_t[]){(int64_t)(s->end - s->begin)}) != TFM_OK)
        return to;
    if (!s->written && tfm_tensor_count(x) != s->end - s->begin) {
        tfm__tensor_fill(ctx, s->gradient, &(float){0});
        to.add = true;
    }
    s->written = true;
    to.to = part_of(s, x);
    return to;
}

tfm__gradient tfm__tape_in(tfm_context *ctx, const tfm__record *record, int i) {
    if (!record->in_slot[i] || tfm_context_status(ctx) != TFM_OK)
        return (tfm__gradient){{0}, false};
    return gradient_to(ctx, &tape_of(ctx)->slots[record->in_slot[i]], record->in[i]);
}

tfm_tensor tfm__tape_now(tfm_context *ctx, const char *op, tfm_tensor x) {
    tape *t = tape_of(ctx);
    const uint32_t i = tfm__tape_on(ctx) ? slot_for_input(ctx, t, op, x) : 0;
    if (!i || tfm_context_status(ctx) != TFM_OK)
        return (tfm_tensor){0};
    if (!t->slots[i].given) {
        tfm__op_refuse(ctx, op, "%s is the result of an op: its gradient is made here only for what the tape watches",
                       TFM__SHAPE(x));
        return (tfm_tensor){0};
    }
    return part_of(&t->slots[i], x);
}

bool tfm__tape_pause(tfm_context *ctx) {
    tape *t = tape_of(ctx);
    const bool recorded = t && t->recording;
    if (t)
        t->recording = false;
    return recorded;
}

void tfm__tape_resume(tfm_context *ctx, bool recorded) {
    if (recorded)
        tape_of(ctx)->recording = true;
}

/* After an op has gone backwards: what it kept, and the gradients of what it made, are not needed any more.
 */
static void record_done(tfm_context *ctx, tape *t, tfm__record *r) {
    for (int k = 0; k < TFM__TAPE_KEEP; k++) {
        tfm__tensor_unpin(ctx, r->keep[k]);
        r->keep[k] = (tfm_tensor){0};
    }
    for (int o = 0; o < TFM__TAPE_OUT; o++) {
        slot *s = r->out_slot[o] ? &t->slots[r->out_slot[o]] : NULL;
        if (s && --s->producers == 0 && !s->given)
            tfm_tensor_free(ctx, &s->gradient);
    }
}

void tfm__tape_tell(tfm_context *ctx, tfm_tensor x, size_t count, const tfm__tape_part *parts,
                    void (*done)(void *user, size_t part), void *user) {
    if (tfm__tape_on(ctx))
        tape_of(ctx)->teller = (teller){x, count, parts, done, user};
}

/* Whether an op adds to the gradient of that part when it goes backwards. */
static bool touches(const tape *t, const tfm__record *r, tfm__tape_part part) {
    const tfm_tensor x = t->teller.x;
    const size_t begin = x.offset + (size_t)part.at, end = begin + (size_t)part.count;
    for (int i = 0; i < TFM__TAPE_IN; i++)
        if (r->in_slot[i] && r->in[i].buffer == x.buffer && r->in[i].offset < end &&
            begin < r->in[i].offset + tfm_tensor_count(r->in[i]))
            return true;
    return false;
}

/* The record after which each part is done: the first one that has to do with it, since the walk goes back. A part
 * without one is done before the walk. NULL without memory, and where nobody is to be told. */
static size_t *find_last(tfm_context *ctx, const tape *t) {
    size_t *last = t->teller.count ? tfm__alloc(t->teller.count, sizeof(*last)) : NULL;
    if (t->teller.count && !last)
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "tape: out of host memory");
    for (size_t k = 0; last && k < t->teller.count; k++)
        while (last[k] < t->record_count && !touches(t, &t->records[last[k]], t->teller.parts[k]))
            last[k]++;
    return last;
}

static void tell(const tape *t, const size_t *last, size_t record) {
    for (size_t k = 0; last && k < t->teller.count; k++)
        if (last[k] == record)
            t->teller.done(t->teller.user, k);
}

static tfm_status walk(tfm_context *ctx, tape *t) {
    size_t *last = find_last(ctx, t);
    tell(t, last, t->record_count);
    for (size_t i = t->record_count; i-- > 0 && tfm_context_status(ctx) == TFM_OK;) {
        tfm__record *r = &t->records[i];
        bool reached = false;
        r->data = r->copy;
        for (int o = 0; o < TFM__TAPE_OUT; o++)
            reached |= r->out_slot[o] && t->slots[r->out_slot[o]].written;
        tfm_scope_open(ctx);
        if (reached)
            r->backward(ctx, r);
        else if (r->done)
            tfm__op_refuse(
                ctx, r->op,
                "its loss has no part in y, but its gradients are added already: walk back from the loss, or "
                "take one without");
        tfm_scope_close(ctx, 0, NULL);
        record_done(ctx, t, r);
        if (tfm_context_status(ctx) == TFM_OK)
            tell(t, last, i);
    }
    free(last);
    return tfm_context_status(ctx);
}

/* Whether the walk can begin at y, with dy. */
static tfm_status check_end(tfm_context *ctx, const tape *t, tfm_tensor y, tfm_tensor dy) {
    const char *op = "backward";
    if (!t || !t->recording)
        return tfm__op_refuse(ctx, op,
                              "the tape is empty, as every backward pass leaves it: call tfm_tape_start and "
                              "tfm_tape_watch, then run the ops that make y %s",
                              TFM__SHAPE(y));
    if (t->slot_count == 0)
        return tfm__op_refuse(ctx, op, "the tape watches nothing: call tfm_tape_watch before the ops that make y %s",
                              TFM__SHAPE(y));
    if (slot_watched(t, y))
        return tfm__op_refuse(ctx, op, "y %s lies on a tensor that the tape watches: give what ops made of it",
                              TFM__SHAPE(y));
    if (!made(t, y))
        return tfm__op_refuse(ctx, op, "no recorded op made y %s of anything that the tape watches", TFM__SHAPE(y));
    if (dy.buffer && tfm_tensor_count(dy) != tfm_tensor_count(y))
        return tfm__op_refuse(ctx, op, "dy is %s for y %s", TFM__SHAPE(dy), TFM__SHAPE(y));
    return TFM_OK;
}

tfm_status tfm_backward(tfm_context *ctx, tfm_tensor y, tfm_tensor dy) {
    tape *t = tape_of(ctx);
    if (TFM__OP_BEGIN(ctx, "backward", "fF", y, dy) == TFM_OK) {
        check_end(ctx, t, y, dy);
        if (t)
            t->recording = false;
        if (tfm_context_status(ctx) == TFM_OK) {
            slot *s = &t->slots[slot_find(t, y)];
            slot_reach(ctx, "backward", s, y); /* elements of y that no op made pass nothing on */
            const tfm__gradient to = gradient_to(ctx, s, y);
            t->end = dy.buffer ? (tfm_tensor){0} : y;
            if (dy.buffer)
                tfm__tensor_copy(ctx, to.to, dy);
            else
                tfm__tensor_fill(ctx, to.to, &(float){1});
            walk(ctx, t);
        }
    }
    if (t)
        tape_clear(ctx, t);
    return tfm_context_status(ctx);
}
