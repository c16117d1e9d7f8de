/* Batches of lines: limits, sorting by length, splitting by tokens, and splitting a batch that does not fit. */
#include "model/multi_device/fleet.h"
#include "model/tasks/batch.h"

/* Minimum over the model's devices of the largest buffer. */
static uint64_t min_max_alloc(const tfm_model *model) {
    uint64_t least = tfm__context_limits(model->ctx)->max_alloc;
    for (size_t i = 0; model->replicas && i < model->replicas->fleet->count; i++) {
        if (!tfm__replicas_has(model->replicas, i))
            continue;
        const uint64_t other = tfm__context_limits(model->replicas->models[i]->ctx)->max_alloc;
        least = other < least ? other : least;
    }
    return least;
}

tfm_status tfm__batch_check(const char *call, int batch_tokens) {
    return batch_tokens >= 0
               ? TFM_OK
               : tfm__fail(TFM_ERROR_ARGUMENT, "%s: batch_tokens is %d: give at least 1, or 0 for the default", call,
                           batch_tokens);
}

tfm__batch_limit tfm__batch_limits(const tfm_model *model, int batch_tokens, int beam) {
    const uint64_t most_logits = 256 << 20, allowed = min_max_alloc(model);
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

/* The window of limit.ahead full batches. */
size_t tfm__batch_window(tfm__line **order, size_t first, size_t count, tfm__batch_limit limit) {
    /* A small first window: the first results come early, and an interrupted call has some. */
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

tfm_status tfm__batches_report(const tfm_text_options *options, uint64_t done, uint64_t total) {
    return !options->progress || options->progress(options->progress_user, done, total)
               ? TFM_OK
               : tfm__fail(TFM_ERROR_CANCELLED, "stopped with %llu of %llu source tokens done",
                           (unsigned long long)done, (unsigned long long)total);
}

tfm_status tfm__batch_run_split(tfm_model *on, tfm__line *const *batch, size_t n, const tfm__batch_work *work) {
    int depth = tfm__scope_depth(on->ctx);
    tfm_status status;
    char saved_message[TFM__MESSAGE_MAX];
    tfm__error_save(saved_message);
    do
        status = work->run(work->user, on, batch, n);
    while (tfm__context_retry(on->ctx, depth, status));
    if (status != TFM_ERROR_MEMORY || n < 2)
        return status;
    tfm__log(TFM_LOG_INFO, "a batch of %zu lines does not fit and is split: %s", n, tfm_error_message());
    tfm__context_recover(on->ctx, depth);
    tfm__error_restore(saved_message);
    status = tfm__batch_run_split(on, batch, n / 2, work);
    return status == TFM_OK ? tfm__batch_run_split(on, batch + n / 2, n - n / 2, work) : status;
}
