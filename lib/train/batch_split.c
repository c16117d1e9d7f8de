/* Load balancing of data-parallel training by a fixed ratio. Checkpoints store the ratio, because it determines the
 * order of gradient sums and so their last bits. */
#include "train/batch_split.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "train/local_process_group.h"

/* The largest share is scaled to this value. */
enum { MAX_SHARE = 1 << 16 };

static int world_size(const tfm_trainer *t) {
    return t->group.world_size > 1 ? t->group.world_size : 1;
}

/* ---- Splitting ---- */

/* Tokens per row of a batch, with padding. */
static double row_tokens(const tfm_batch *b) {
    return (double)b->source_width + (double)b->target_width;
}

static double batch_tokens(const tfm_batch *b) {
    return (double)b->count * row_tokens(b);
}

/* Checks what splitting needs; the trainer checks the rest. */
static tfm_status check_batches(const tfm_batch *batches, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const tfm_batch *b = &batches[i];
        if (b->count < 1 || b->source_width < 0 || b->target_width < 1)
            return tfm__fail(
                TFM_ERROR_ARGUMENT,
                "batches_split: batch %zu has %lld rows, %lld and %lld wide: at least one row and one target "
                "are needed",
                i + 1, (long long)b->count, (long long)b->source_width, (long long)b->target_width);
        if (!b->targets || !b->target_lengths || (b->source_width > 0 && (!b->sources || !b->source_lengths)))
            return tfm__fail(TFM_ERROR_ARGUMENT, "batches_split: an array of batch %zu is NULL", i + 1);
    }
    return TFM_OK;
}

/* A range of rows of a batch. */
static tfm_batch slice_rows(const tfm_batch *b, int64_t first, int64_t end) {
    tfm_batch part = *b;
    part.count = end - first;
    part.targets += first * b->target_width;
    part.target_lengths += first;
    if (b->source_width > 0) {
        part.sources += first * b->source_width;
        part.source_lengths += first;
    }
    return part;
}

/* The first row whose midpoint is at or after `place`, in tokens from the start of the batch. */
static int64_t row_at(const tfm_batch *b, double place) {
    const double row = ceil(place / row_tokens(b) - 0.5);
    return row <= 0 ? 0 : row >= (double)b->count ? b->count : (int64_t)row;
}

static tfm_status check_shares(const char *call, const double *shares, size_t count) {
    double sum = 0;
    bool good = true;
    for (size_t i = 0; i < count; i++) {
        good = good && isfinite(shares[i]) && shares[i] >= 0;
        sum += shares[i];
    }
    if (good && sum > 0 && isfinite(sum))
        return TFM_OK;
    return tfm__fail(TFM_ERROR_ARGUMENT, "%s: shares must be finite, >= 0, and not all 0", call);
}

tfm_status tfm_batches_split(tfm_batch *own, size_t *own_count, const tfm_batch *batches, size_t count,
                             const double *ratio, int world_size, int rank) {
    if (TFM__NEEDS("batches_split", own, own_count, batches, ratio) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    *own_count = 0;
    if (check_batches(batches, count) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (world_size < 1 || rank < 0 || rank >= world_size)
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "batches_split: rank %d of %d: it must be from 0 to below the number of ranks", rank,
                         world_size);
    if (check_shares("batches_split", ratio, (size_t)world_size) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    double all = 0, before = 0, total = 0, at = 0;
    for (int i = 0; i < world_size; i++) {
        before += i < rank ? ratio[i] : 0;
        all += ratio[i];
    }
    for (size_t i = 0; i < count; i++)
        total += batch_tokens(&batches[i]);
    /* The same sum on the next rank, so that each row is in exactly one part. */
    const double begin = rank == 0 ? 0 : total * (before / all),
                 end = rank + 1 == world_size ? total : total * ((before + ratio[rank]) / all);
    for (size_t i = 0; i < count; i++) {
        const tfm_batch *b = &batches[i];
        const int64_t first = rank == 0 ? 0 : row_at(b, begin - at),
                      last = rank + 1 == world_size ? b->count : row_at(b, end - at);
        if (first < last)
            own[(*own_count)++] = slice_rows(b, first, last);
        at += batch_tokens(b);
    }
    return TFM_OK;
}

/* ---- Shares ---- */

tfm_status tfm__balance_init(tfm_trainer *t, int world) {
    tfm__balance_free(t);
    if (world < 2)
        return TFM_OK;
    t->balance.shares = tfm__alloc((size_t)world, sizeof(double));
    return t->balance.shares ? TFM_OK : TFM_ERROR_MEMORY;
}

void tfm__balance_free(tfm_trainer *t) {
    free(t->balance.shares);
    t->balance = (tfm__balance){0};
}

/* Sets whether the shares differ. */
static void update_uneven(tfm_trainer *t) {
    t->balance.uneven = false;
    for (int i = 1; i < world_size(t); i++)
        t->balance.uneven = t->balance.uneven || t->balance.shares[i] != t->balance.shares[0];
}

const double *tfm_trainer_balance(const tfm_trainer *t) {
    return t && t->balance.uneven ? t->balance.shares : NULL;
}

/* Shares are integers, which checkpoints store exactly as text. */
static void set_balance(tfm_trainer *t, const double *shares) {
    double most = 0;
    for (int i = 0; i < world_size(t) && shares; i++)
        most = fmax(most, shares[i]);
    for (int i = 0; i < world_size(t); i++)
        t->balance.shares[i] = shares ? round(shares[i] / most * MAX_SHARE) : 1;
    update_uneven(t);
}

tfm_status tfm_trainer_set_balance(tfm_trainer *t, const double *ratio, size_t count) {
    if (TFM__NEEDS("trainer_set_balance", t) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    const int world = world_size(t);
    if (ratio && count != (size_t)world)
        return tfm__fail(TFM_ERROR_ARGUMENT, "trainer_set_balance: %zu shares for %d: pass one per %s", count, world,
                         t->local_group ? "device" : "rank");
    if (ratio && check_shares("trainer_set_balance", ratio, count) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    for (size_t i = 0; i < tfm__trainer_replica_count(t) && world > 1; i++)
        set_balance(tfm__trainer_replica(t, i), ratio);
    return TFM_OK;
}

/* ---- Checkpoints ---- */

void tfm__balance_format(char *text, const tfm_trainer *t) {
    size_t at = 0;
    text[0] = 0;
    for (int i = 0; i < world_size(t) && t->balance.uneven; i++) {
        const int wrote = snprintf(text + at, TFM__BALANCE_TEXT - at, "%s%.0f", i ? " " : "", t->balance.shares[i]);
        if (wrote < 0 || (size_t)wrote >= TFM__BALANCE_TEXT - at) {
            text[0] = 0;
            return;
        }
        at += (size_t)wrote;
    }
}

void tfm__balance_parse(tfm_trainer *t, const char *text) {
    const int world = world_size(t);
    char *end = NULL;
    if (!t->balance.shares)
        return;
    t->balance.uneven = false;
    if (!text)
        return;
    for (int i = 0; i < world; i++) {
        t->balance.shares[i] = (double)strtoll(text, &end, 10);
        if (end == text || *end != (i + 1 < world ? ' ' : 0))
            return;
        text = end + 1;
    }
    if (check_shares("checkpoint", t->balance.shares, (size_t)world) == TFM_OK)
        update_uneven(t);
}
