/* Runs the batches of a call on one device, or on several (worker_pool.c). */
#include "model/multi_device/fleet.h"
#include "model/tasks/batch.h"

/* Minimum number of batches to open a second worker. */
#define MIN_BATCHES_FOR_SPARE 3

bool tfm__not_cancelled(void *cancellation) {
    return !atomic_load(&((tfm__cancellation *)cancellation)->cancelled);
}

bool tfm__batches_are_parallel(const tfm_model *model) {
    return model->replicas && tfm__replicas_count(model->replicas) > 1;
}

void tfm__batches_open_spare(const tfm_model *model, const tfm__line *lines, size_t count, tfm__batch_limit limit) {
    uint64_t tokens = 0;
    for (size_t i = 0; i < count; i++)
        tokens += lines[i].ids ? lines[i].cost : 0;
    if (model->replicas && tokens > MIN_BATCHES_FOR_SPARE * (uint64_t)limit.tokens)
        model->replicas->open_spare(model);
}

/* The model on the first available device. If all are excluded because of another model's failure, the caller's own is
 * retried. */
static tfm_model *first_available(tfm_model *model, size_t *member) {
    const struct tfm__replicas *replicas = model->replicas;
    *member = replicas ? replicas->lead : 0;
    for (size_t i = 0; replicas && i < replicas->fleet->count; i++) {
        if (!tfm__replicas_has(replicas, i))
            continue;
        *member = i;
        return replicas->models[i];
    }
    return model;
}

/* Runs a batch on one device; if it fails, on the next. */
static tfm_status run_one(tfm_model *model, tfm__line *const *batch, size_t n, const tfm__batch_work *work) {
    char saved_message[TFM__MESSAGE_MAX];
    tfm__error_save(saved_message);
    for (;;) {
        size_t member;
        tfm_model *on = first_available(model, &member);
        const tfm_status status = tfm__batch_run_split(on, batch, n, work);
        if (status == TFM_OK && model->replicas)
            tfm__fleet_reset_backoff(model->replicas->fleet, member);
        if (!tfm__fleet_may_drop(status) || !model->replicas || tfm__replicas_count(model->replicas) < 2)
            return status;
        tfm__fleet_drop_from_call(model->replicas->fleet, member, status);
        tfm__fleet_log_dropped(model->replicas->fleet, member);
        tfm__error_restore(saved_message);
    }
}

/* Lines with ids, in order; NULL if out of memory. */
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
    if (model->replicas)
        tfm__fleet_count_down_backoffs(model->replicas->fleet);
    if (!work->serial)
        tfm__batches_open_spare(model, lines, count, limit);
    const bool several = tfm__batches_are_parallel(model) && !work->serial;
    const uint64_t total = tfm__batch_tokens(order, ordered);
    uint64_t done = 0;
    tfm_status status = TFM_OK;
    if (ordered > 0)
        status = several ? tfm__worker_pool_run(model, order, ordered, limit, options, work)
                         : tfm__batches_report(options, 0, total);
    for (size_t first = 0, n; !several && first < ordered && status == TFM_OK; first += n) {
        if (first == sorted)
            sorted += tfm__batch_window(order, first, ordered, limit);
        n = tfm__batch_next(order, first, sorted, limit);
        status = run_one(model, order + first, n, work);
        if (status == TFM_OK && work->done)
            status = work->done(work->user, order + first, n);
        done += tfm__batch_tokens(order + first, n);
        if (status == TFM_OK)
            status = tfm__batches_report(options, done, total);
    }
    free(order);
    return status;
}
