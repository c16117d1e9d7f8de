/* Lines of similar length to batches, and batches to a device. */
#include "model/fleet.h"
#include "model/task/batch.h"

/* A second worker is opened where there is work for so many batches at least. */
#define BATCHES_OF_TWO 3

/* The largest buffer on any device on which the model lies. */
static uint64_t least_alloc(const tfm_model *model) {
    uint64_t least = tfm__context_limits(model->ctx)->max_alloc;
    for (size_t i = 0; model->mates && i < model->mates->fleet->count; i++) {
        if (!tfm__mates_has(model->mates, i))
            continue;
        const uint64_t other = tfm__context_limits(model->mates->models[i]->ctx)->max_alloc;
        least = other < least ? other : least;
    }
    return least;
}

tfm_status tfm__batch_check(const char *call, int batch_tokens) {
    return batch_tokens >= 0 ? TFM_OK
                             : tfm__fail(TFM_ERROR_ARGUMENT,
                                         "%s: batch_tokens is %d: give at least 1, or 0 for as many "
                                         "as are usual",
                                         call, batch_tokens);
}

tfm__batch_limit tfm__batch_limits(const tfm_model *model, int batch_tokens, int beam) {
    const uint64_t most_logits = 256 << 20, allowed = least_alloc(model);
    uint64_t bytes = most_logits < allowed ? most_logits : allowed;
    uint64_t lines = bytes / (4 * (uint64_t)model->arch.decoder.vocabulary * (uint64_t)beam);
    return (tfm__batch_limit){.tokens = batch_tokens > 0 ? (size_t)batch_tokens : TFM__BATCH_TOKENS,
                              .lines = lines ? (size_t)lines : 1,
                              .ahead = TFM__BATCHES_AHEAD};
}

size_t tfm__batch_next(tfm__line *const *order, size_t first, size_t count, tfm__batch_limit limit) {
    size_t longest = 0, n = 0;
    while (first + n < count && n < limit.lines) {
        size_t length = order[first + n]->cost;
        longest = length > longest ? length : longest;
        if (n > 0 && longest * (n + 1) > limit.tokens)
            break;
        n++;
    }
    return n;
}

static int longer_first(const void *a, const void *b) {
    const tfm__line *x = *(tfm__line *const *)a, *y = *(tfm__line *const *)b;
    if (x->cost != y->cost)
        return x->cost < y->cost ? 1 : -1;
    return x->index < y->index ? -1 : x->index > y->index;
}

tfm_status tfm__batch_fit(tfm_model *on, tfm__line *const *batch, size_t n, const tfm__batch_work *work) {
    int depth = tfm__scope_depth(on->ctx);
    tfm_status status;
    char kept[TFM__MESSAGE];
    tfm__error_keep(kept);
    do
        status = work->run(work->user, on, batch, n);
    while (tfm__context_again(on->ctx, depth, status));
    if (status != TFM_ERROR_MEMORY || n < 2)
        return status;
    tfm__log(TFM_LOG_INFO, "a batch of %zu lines does not fit and is split: %s", n, tfm_error_message());
    tfm__context_recover(on->ctx, depth);
    tfm__error_restore(kept);
    status = tfm__batch_fit(on, batch, n / 2, work);
    return status == TFM_OK ? tfm__batch_fit(on, batch + n / 2, n - n / 2, work) : status;
}

/* Those of so many full batches. */
size_t tfm__batch_window(tfm__line **order, size_t first, size_t count, tfm__batch_limit limit) {
    /* The first results of a long input are waited for, and are what an interruption leaves. */
    const size_t ahead = first == 0 && limit.ahead == TFM__BATCHES_AHEAD ? TFM__BATCHES_FIRST : limit.ahead;
    size_t n = 0, tokens = 0;
    while (first + n < count && tokens / ahead < limit.tokens && n / ahead < limit.lines)
        tokens += order[first + n++]->cost;
    qsort(order + first, n, sizeof(*order), longer_first);
    return n;
}

uint64_t tfm__batch_tokens(tfm__line *const *lines, size_t count) {
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += lines[i]->count;
    return total;
}

tfm_status tfm__batches_tell(const tfm_text_options *options, uint64_t done, uint64_t total) {
    return !options->progress || options->progress(options->progress_user, done, total)
               ? TFM_OK
               : tfm__fail(TFM_ERROR_CANCELLED, "stopped with %llu of %llu source tokens done",
                           (unsigned long long)done, (unsigned long long)total);
}

tfm_status tfm__batch_keep(const tfm_model *on) {
    return !on->turn || on->turn->keep(on->turn->turns)
               ? TFM_OK
               : tfm__fail(TFM_ERROR_CANCELLED, "another device has done it before");
}

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
    if (tokens > BATCHES_OF_TWO * (uint64_t)limit.tokens)
        tfm__mates_complete(model);
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
    char kept[TFM__MESSAGE];
    tfm__error_keep(kept);
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
        tfm__error_restore(kept);
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
