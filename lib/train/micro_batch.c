/* Micro-batches: validation of batches, and upload of row ranges. */
#include "train/micro_batch.h"

int64_t tfm__trainer_target_shift(const tfm_trainer *t) {
    return t->model->arch.encoder.layers > 0 ? 0 : 1;
}

/* Checks the rows of a language model. */
static tfm_status check_lm_batch(const tfm_trainer *t, const char *call, const tfm_batch *b) {
    const int64_t most = (int64_t)t->model->arch.decoder.max_positions + 1;
    if (b->count < 1 || b->source_width != 0 || b->target_width < 2 || b->target_width > most)
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "%s: a batch of %lld texts, %lld wide, with sources %lld wide: a language model takes at "
                         "least one text, no sources, and widths from 2 to %lld, one more than its positions",
                         call, (long long)b->count, (long long)b->target_width, (long long)b->source_width,
                         (long long)most);
    const void *const arrays[] = {b->targets, b->target_lengths};
    if (tfm__needs(call, "batch.targets, batch.target_lengths", TFM__COUNT(arrays), arrays) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    for (int64_t i = 0; i < b->count; i++)
        if (b->target_lengths[i] < 2 || b->target_lengths[i] > b->target_width)
            return tfm__fail(TFM_ERROR_ARGUMENT,
                             "%s: text %lld has length %d in a batch %lld wide: at least two tokens are needed", call,
                             (long long)i + 1, (int)b->target_lengths[i], (long long)b->target_width);
    return TFM_OK;
}

tfm_status tfm__train_batch_check(const tfm_trainer *t, const char *call, const tfm_batch *b) {
    const tfm__arch *arch = &t->model->arch;
    if (tfm__trainer_target_shift(t))
        return check_lm_batch(t, call, b);
    const int64_t most = arch->encoder.max_positions < arch->decoder.max_positions ? arch->encoder.max_positions
                                                                                   : arch->decoder.max_positions;
    if (b->count < 1 || b->source_width < 1 || b->target_width < 1 || b->source_width > most || b->target_width > most)
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "%s: a batch of %lld pairs, %lld and %lld wide: at least one pair is needed, and widths from "
                         "1 to %lld, the model's positions",
                         call, (long long)b->count, (long long)b->source_width, (long long)b->target_width,
                         (long long)most);
    const void *const arrays[] = {b->sources, b->targets, b->source_lengths, b->target_lengths};
    if (tfm__needs(call, "batch.sources, batch.targets, batch.source_lengths, batch.target_lengths", TFM__COUNT(arrays),
                   arrays) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    for (int64_t i = 0; i < b->count; i++)
        if (b->source_lengths[i] < 1 || b->source_lengths[i] > b->source_width || b->target_lengths[i] < 1 ||
            b->target_lengths[i] > b->target_width)
            return tfm__fail(TFM_ERROR_ARGUMENT, "%s: pair %lld has lengths %d and %d in a batch %lld and %lld wide",
                             call, (long long)i + 1, (int)b->source_lengths[i], (int)b->target_lengths[i],
                             (long long)b->source_width, (long long)b->target_width);
    return TFM_OK;
}

static int64_t longest(const int32_t *lengths, int64_t first, int64_t count) {
    int64_t most = 0;
    for (int64_t i = first; i < first + count; i++)
        most = lengths[i] > most ? lengths[i] : most;
    return most;
}

uint64_t tfm__train_batch_targets(const tfm_trainer *t, const tfm_batch *b) {
    uint64_t count = 0;
    for (int64_t i = 0; i < b->count; i++)
        for (int64_t k = tfm__trainer_target_shift(t); k < b->target_lengths[i]; k++)
            count += b->targets[i * b->target_width + k] >= 0;
    return count;
}

tfm__micro_batch tfm__micro_batch_slice(const tfm_batch *b, int64_t first, int64_t rows) {
    tfm__micro_batch p = {b, first, b->count - first < rows ? b->count - first : rows, b->source_width,
                          b->target_width};
    if (p.count < b->count) {
        p.source_width = b->source_width ? longest(b->source_lengths, first, p.count) : 0;
        p.target_width = longest(b->target_lengths, first, p.count);
    }
    return p;
}

static void view_part(tfm_context *ctx, tfm_tensor *out, tfm_tensor all, int64_t *at, int rank, const int64_t *dims) {
    const int64_t count = dims[0] * (rank == 2 ? dims[1] : 1);
    tfm_tensor_rows(ctx, out, all, *at, count);
    tfm_tensor_reshape(ctx, out, *out, rank, dims);
    *at += count;
}

/* Replaces each ~id of the inputs by the id. Returns how many of the targets have a loss. */
static uint64_t read_marks(int32_t *input, const int32_t *target, int64_t count) {
    uint64_t learned = 0;
    for (int64_t k = 0; k < count; k++) {
        input[k] = input[k] < 0 ? ~input[k] : input[k];
        learned += target[k] >= 0;
    }
    return learned;
}

/* Pads the arrays: sources and inputs with the padding id, targets with -1, which does not count. */
static void fill_pairs(int32_t *host, const tfm__generation_rules *rules, const tfm__micro_batch *p,
                       tfm__token_counts *s) {
    const tfm_batch *b = p->batch;
    const int64_t n = p->count, width = p->source_width, w = p->target_width;
    int32_t *input = host + n * width, *target = input + n * w, *lengths = target + n * w;
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = p->first + i;
        const int32_t *sources = b->sources + row * b->source_width, *targets = b->targets + row * b->target_width;
        const int32_t source_length = b->source_lengths[row], length = b->target_lengths[row];
        tfm__ids_pad(host + i * width, width, sources, (size_t)source_length, 0, 0, rules->pad_id);
        tfm__ids_pad(input + i * w, w, targets, (size_t)length, 1, rules->start_id, rules->pad_id);
        tfm__ids_pad(target + i * w, w, targets, (size_t)length, 0, 0, -1);
        lengths[i] = source_length;
        s->source += (uint64_t)source_length;
        s->target += read_marks(input + i * w, target + i * w, length);
    }
}

/* The same for texts: inputs and targets, shifted by one token. */
static void fill_lm(int32_t *host, const tfm__micro_batch *p, tfm__token_counts *s) {
    const tfm_batch *b = p->batch;
    const int64_t n = p->count, w = p->target_width - 1;
    int32_t *input = host, *target = input + n * w;
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = p->first + i, count = b->target_lengths[row] - 1;
        const int32_t *text = b->targets + row * b->target_width;
        tfm__ids_pad(input + i * w, w, text, (size_t)count, 0, 0, 0); /* causal, so padding needs no mask */
        tfm__ids_pad(target + i * w, w, text + 1, (size_t)count, 0, 0, -1);
        const uint64_t learned = read_marks(input + i * w, target + i * w, count);
        s->source += (uint64_t)count - learned;
        s->target += learned;
    }
}

tfm_status tfm__micro_batch_upload(tfm_trainer *t, tfm__device_batch *u, const tfm__micro_batch *p,
                                   tfm__token_counts *sent) {
    const bool texts = tfm__trainer_target_shift(t) > 0;
    const int64_t n = p->count, s = p->source_width, w = p->target_width - tfm__trainer_target_shift(t);
    const int64_t total = n * (s + 2 * w + (texts ? 0 : 1));
    int32_t *host = tfm__alloc((size_t)total, sizeof(*host));
    if (!host)
        return tfm__context_fail(t->ctx, TFM_ERROR_MEMORY, "update: out of host memory");
    if (texts)
        fill_lm(host, p, sent);
    else
        fill_pairs(host, &t->model->rules, p, sent);
    tfm_tensor all = {0};
    int64_t at = 0;
    tfm_tensor_new(t->ctx, &all, TFM_I32, 1, &total);
    tfm_tensor_write(t->ctx, all, host);
    free(host);
    if (!texts)
        view_part(t->ctx, &u->sources, all, &at, 2, (int64_t[]){n, s});
    view_part(t->ctx, &u->inputs, all, &at, 2, (int64_t[]){n, w});
    view_part(t->ctx, &u->targets, all, &at, 2, (int64_t[]){n, w});
    if (!texts)
        view_part(t->ctx, &u->lengths, all, &at, 1, &n);
    return tfm_context_status(t->ctx);
}
