/* Lines of text to checked ids, and groups of similar length. */
#include <stdio.h>
#include <string.h>
#include "model/batch.h"

tfm_status tfm__line_reject(tfm__line *line, const char *what, const tfm_search_options *options, tfm_status status) {
    char reason[512];
    snprintf(reason, sizeof(reason), "%s%s", what, tfm_error_message());
    free(line->ids);
    line->ids = NULL;
    line->count = 0;
    line->rejected = true;
    if (!options || !options->reject)
        return tfm__fail(status, "line %zu: %s", line->index + 1, reason);
    if (!options->reject(options->reject_user, line->index, reason))
        return tfm__fail(TFM_ERROR_CANCELLED, "stopped at line %zu: %s", line->index + 1, reason);
    return TFM_OK;
}

tfm_status tfm__line_encode(const tfm_model *model, tfm__line *line, const char *text, size_t bytes, tfm_side side,
                            bool truncate) {
    size_t most = (size_t)model->config.max_positions;
    tfm_status status = tfm_tokenizer_encode(model->tokenizer, &line->ids, &line->count, side, text, bytes);
    if (status != TFM_OK || line->count <= most)
        return status;
    if (!truncate)
        return tfm__fail(TFM_ERROR_INPUT, "%zu tokens, the model has %zu positions: split it, or ask for truncation",
                         line->count, most);
    line->ids[most - 1] = line->ids[line->count - 1];
    line->count = most;
    return TFM_OK;
}

/* Whatever the tokenizer would make of it. */
static bool is_blank(const char *text, size_t bytes) {
    static const char BLANKS[] = {' ', '\t', '\v', '\f', '\r'};
    size_t i = 0;
    while (i < bytes && memchr(BLANKS, text[i], sizeof(BLANKS)))
        i++;
    return i == bytes;
}

tfm_status tfm__lines_encode(tfm_model *model, tfm__line **out, const char *const *lines, size_t count, tfm_side side,
                             const char *what, const tfm_search_options *options) {
    *out = NULL;
    if (!model->tokenizer)
        return tfm__fail(TFM_ERROR_ARGUMENT, "the model was opened without its tokenizer: it takes ids, not text");
    tfm__line *encoded = tfm__alloc(count, sizeof(*encoded));
    tfm_status status = encoded ? TFM_OK : TFM_ERROR_MEMORY;
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        size_t bytes = options && options->line_bytes && side == TFM_SOURCE ? options->line_bytes[i] : strlen(lines[i]);
        encoded[i].index = i;
        if (is_blank(lines[i], bytes))
            continue;
        status = tfm__line_encode(model, &encoded[i], lines[i], bytes, side, options && options->truncate);
        if (status == TFM_ERROR_INPUT)
            status = tfm__line_reject(&encoded[i], what, options, status);
        if (encoded[i].count == 1) { /* other blanks leave nothing but EOS */
            tfm_ids_free(&encoded[i].ids);
            encoded[i].count = 0;
        }
        encoded[i].cost = encoded[i].count;
    }
    if (status != TFM_OK)
        tfm__lines_free(&encoded, count);
    *out = encoded;
    return status;
}

void tfm__lines_free(tfm__line **lines, size_t count) {
    for (size_t i = 0; *lines && i < count; i++)
        free((*lines)[i].ids);
    free(*lines);
    *lines = NULL;
}

tfm__batch_limit tfm__batch_limits(const tfm_model *model, int batch_tokens, int beam) {
    const uint64_t most_logits = 256 << 20, allowed = tfm__context_limits(model->ctx)->max_alloc;
    uint64_t bytes = most_logits < allowed ? most_logits : allowed;
    uint64_t lines = bytes / (4 * (uint64_t)model->config.decoder_vocab_size * (uint64_t)beam);
    return (tfm__batch_limit){batch_tokens > 0 ? (size_t)batch_tokens : TFM__BATCH_TOKENS, lines ? (size_t)lines : 1};
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

static tfm_status run_fitting(tfm_model *model, tfm__line *const *batch, size_t n, tfm__batch_fn run, void *user) {
    int depth = tfm__scope_depth(model->ctx);
    tfm_status status = run(user, batch, n);
    if (status != TFM_ERROR_MEMORY || n < 2)
        return status;
    tfm__log(TFM_LOG_INFO, "a batch of %zu lines does not fit and is split: %s", n, tfm_error_message());
    tfm__context_recover(model->ctx, depth);
    status = run_fitting(model, batch, n / 2, run, user);
    return status == TFM_OK ? run_fitting(model, batch + n / 2, n - n / 2, run, user) : status;
}

tfm_status tfm__batches_run(tfm_model *model, tfm__line *lines, size_t count, tfm__batch_limit limit,
                            const tfm_search_options *options, tfm__batch_fn run, void *user) {
    tfm__line **order = tfm__alloc(count, sizeof(*order));
    size_t ordered = 0;
    tfm_status status = order ? TFM_OK : TFM_ERROR_MEMORY;
    for (size_t i = 0; order && i < count; i++)
        if (lines[i].ids)
            order[ordered++] = &lines[i];
    if (order)
        qsort(order, ordered, sizeof(*order), longer_first);
    for (size_t first = 0, n; first < ordered && status == TFM_OK; first += n) {
        n = tfm__batch_next(order, first, ordered, limit);
        status = !options->go_on || options->go_on(options->go_on_user)
                     ? run_fitting(model, order + first, n, run, user)
                     : tfm__fail(TFM_ERROR_CANCELLED, "stopped with %zu of %zu lines done", first, ordered);
    }
    free(order);
    return status;
}
