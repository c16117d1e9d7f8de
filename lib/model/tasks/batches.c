/* Runs the batches of a call, on one device or on several (worker_pool.c). */
#include "model/multi_device/fleet.h"
#include "model/tasks/batch.h"

/* A second worker is opened where there is work for so many batches at least. */
#define BATCHES_OF_TWO 3

bool tfm__halt_no(void *halt) {
    return !atomic_load(&((tfm__halt *)halt)->halted);
}

bool tfm__batches_shared(const tfm_model *model) {
    return model->mates && tfm__mates_count(model->mates) > 1;
}

void tfm__batches_share(const tfm_model *model, const tfm__line *lines, size_t count, tfm__batch_limit limit) {
    uint64_t tokens = 0;
    for (size_t i = 0; i < count; i++)
        tokens += lines[i].ids ? lines[i].cost : 0;
    if (model->mates && tokens > BATCHES_OF_TWO * (uint64_t)limit.tokens)
        model->mates->open_spare(model);
}

/* The model on the first device that has not failed. Where there is none on which it lies, as another model of the
 * fleet has failed there, the caller's own is tried again. */
static tfm_model *first_of(tfm_model *model, size_t *who) {
    const struct tfm__mates *mates = model->mates;
    *who = mates ? mates->lead : 0;
    for (size_t i = 0; mates && i < mates->fleet->count; i++) {
        if (!tfm__mates_has(mates, i))
            continue;
        *who = i;
        return mates->models[i];
    }
    return model;
}

/* One batch on one device; on the next one, where it fails and there is one. */
static tfm_status run_one(tfm_model *model, tfm__line *const *batch, size_t n, const tfm__batch_work *work) {
    char saved_message[TFM__MESSAGE_MAX];
    tfm__error_save(saved_message);
    for (;;) {
        size_t who;
        tfm_model *on = first_of(model, &who);
        const tfm_status status = tfm__batch_fit(on, batch, n, work);
        if (status == TFM_OK && model->mates)
            tfm__fleet_worked(model->mates->fleet, who);
        if (!tfm__fleet_may_drop(status) || !model->mates || tfm__mates_count(model->mates) < 2)
            return status;
        tfm__fleet_drop_from_call(model->mates->fleet, who, status);
        tfm__fleet_say_dropped(model->mates->fleet, who);
        tfm__error_restore(saved_message);
    }
}

/* The lines that have ids, in their order; NULL without memory. */
static tfm__line **lines_of(tfm__line *lines, size_t count, size_t *ordered) {
    tfm__line **order = tfm__alloc(count, sizeof(*order));
    *ordered = 0;
    for (size_t i = 0; order && i < count; i++)
        if (lines[i].ids)
            order[(*ordered)++] = &lines[i];
    return order;
}

tfm_status tfm__batches_run(tfm_model *model, tfm__line *lines, size_t count, tfm__batch_limit limit,
                            const tfm_text_options *options, const tfm__batch_work *work) {
    size_t ordered, sorted = 0;
    tfm__line **order = lines_of(lines, count, &ordered);
    if (!order)
        return TFM_ERROR_MEMORY;
    if (model->mates)
        tfm__fleet_wake(model->mates->fleet);
    if (!work->in_turn)
        tfm__batches_share(model, lines, count, limit);
    const bool several = tfm__batches_shared(model) && !work->in_turn;
    const uint64_t total = tfm__batch_tokens(order, ordered);
    uint64_t done = 0;
    tfm_status status = TFM_OK;
    if (ordered > 0)
        status =
            several ? tfm__crew_run(model, order, ordered, limit, options, work) : tfm__batches_tell(options, 0, total);
    for (size_t first = 0, n; !several && first < ordered && status == TFM_OK; first += n) {
        if (first == sorted)
            sorted += tfm__batch_window(order, first, ordered, limit);
        n = tfm__batch_next(order, first, sorted, limit);
        status = run_one(model, order + first, n, work);
        if (status == TFM_OK && work->done)
            status = work->done(work->user, order + first, n);
        done += tfm__batch_tokens(order + first, n);
        if (status == TFM_OK)
            status = tfm__batches_tell(options, done, total);
    }
    free(order);
    return status;
}
