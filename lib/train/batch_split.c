/* Load balancing of data-parallel training by a fixed ratio. Checkpoints have the ratio: the order in which gradients
 * are added up depends on it, and with it the last bits. */
#include "train/batch_split.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "train/local_process_group.h"

/* What the largest of the shares that a caller gives becomes. */
enum { MOST_SHARE = 1 << 16 };

static int world_of(const tfm_trainer *t) {
    return t->ranks.world > 1 ? t->ranks.world : 1;
}

/* ---- Rows for each ---- */

/* How many tokens of a batch a row has, with padding. */
static double width_of(const tfm_pairs *b) {
    return (double)b->source_width + (double)b->target_width;
}

static double tokens_of(const tfm_pairs *b) {
    return (double)b->count * width_of(b);
}

/* What batches must be so that they can be cut; all else is seen where they are learned. */
static tfm_status check_batches(const tfm_pairs *batches, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const tfm_pairs *b = &batches[i];
        if (b->count < 1 || b->source_width < 0 || b->target_width < 1)
            return tfm__fail(TFM_ERROR_ARGUMENT,
                             "pairs_deal: batch %zu has %lld rows, %lld and %lld wide: at least one row and one target "
                             "are needed",
                             i + 1, (long long)b->count, (long long)b->source_width, (long long)b->target_width);
        if (!b->targets || !b->target_lengths || (b->source_width > 0 && (!b->sources || !b->source_lengths)))
            return tfm__fail(TFM_ERROR_ARGUMENT, "pairs_deal: an array of batch %zu is NULL", i + 1);
    }
    return TFM_OK;
}

/* Some rows of a batch. */
static tfm_pairs rows_of(const tfm_pairs *b, int64_t first, int64_t end) {
    tfm_pairs part = *b;
    part.count = end - first;
    part.targets += first * b->target_width;
    part.target_lengths += first;
    if (b->source_width > 0) {
        part.sources += first * b->source_width;
        part.source_lengths += first;
    }
    return part;
}

/* The first row of a batch whose middle is at `place` or after it, counted in tokens from the batch's first. */
static int64_t row_at(const tfm_pairs *b, double place) {
    const double row = ceil(place / width_of(b) - 0.5);
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
    return tfm__fail(TFM_ERROR_ARGUMENT,
                     "%s: the shares are not numbers from 0 on, one of them above 0, whose sum is finite", call);
}

tfm_status tfm_pairs_deal(tfm_pairs *own, size_t *own_count, const tfm_pairs *batches, size_t count,
                          const double *shares, int world, int rank) {
    if (TFM__NEEDS("pairs_deal", own, own_count, batches, shares) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    *own_count = 0;
    if (check_batches(batches, count) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (world < 1 || rank < 0 || rank >= world)
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "pairs_deal: rank %d of %d: it must be from 0 to below the number of ranks", rank, world);
    if (check_shares("pairs_deal", shares, (size_t)world) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    double all = 0, before = 0, total = 0, at = 0;
    for (int i = 0; i < world; i++) {
        before += i < rank ? shares[i] : 0;
        all += shares[i];
    }
    for (size_t i = 0; i < count; i++)
        total += tokens_of(&batches[i]);
    /* Where the next rank begins is this sum there, too, so that no row is in two parts, or in none. */
    const double begin = rank == 0 ? 0 : total * (before / all),
                 end = rank + 1 == world ? total : total * ((before + shares[rank]) / all);
    for (size_t i = 0; i < count; i++) {
        const tfm_pairs *b = &batches[i];
        const int64_t first = rank == 0 ? 0 : row_at(b, begin - at),
                      last = rank + 1 == world ? b->count : row_at(b, end - at);
        if (first < last)
            own[(*own_count)++] = rows_of(b, first, last);
        at += tokens_of(b);
    }
    return TFM_OK;
}

/* ---- The ratio of a trainer ---- */

tfm_status tfm__dealing_begin(tfm_trainer *t, int world) {
    tfm__dealing_end(t);
    if (world < 2)
        return TFM_OK;
    t->dealing.shares = tfm__alloc((size_t)world, sizeof(double));
    return t->dealing.shares ? TFM_OK : TFM_ERROR_MEMORY;
}

void tfm__dealing_end(tfm_trainer *t) {
    free(t->dealing.shares);
    t->dealing = (tfm__dealing){0};
}

/* Notes whether the shares differ. */
static void settle(tfm_trainer *t) {
    t->dealing.differ = false;
    for (int i = 1; i < world_of(t); i++)
        t->dealing.differ = t->dealing.differ || t->dealing.shares[i] != t->dealing.shares[0];
}

const double *tfm_trainer_shares(const tfm_trainer *t) {
    return t && t->dealing.differ ? t->dealing.shares : NULL;
}

/* Shares are kept as whole numbers, which are text in checkpoints and come back from it as they were. */
static void take(tfm_trainer *t, const double *shares) {
    double most = 0;
    for (int i = 0; i < world_of(t) && shares; i++)
        most = fmax(most, shares[i]);
    for (int i = 0; i < world_of(t); i++)
        t->dealing.shares[i] = shares ? round(shares[i] / most * MOST_SHARE) : 1;
    settle(t);
}

tfm_status tfm_trainer_set_shares(tfm_trainer *t, const double *shares, size_t count) {
    if (TFM__NEEDS("trainer_set_shares", t) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    const int world = world_of(t);
    if (shares && count != (size_t)world)
        return tfm__fail(TFM_ERROR_ARGUMENT, "trainer_set_shares: %zu shares for %d: each %s has one", count, world,
                         t->team ? "device" : "rank");
    if (shares && check_shares("trainer_set_shares", shares, count) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    for (size_t i = 0; i < tfm__team_count(t) && world > 1; i++)
        take(tfm__team_member(t, i), shares);
    return TFM_OK;
}

/* ---- In checkpoints ---- */

void tfm__dealing_say(char *text, const tfm_trainer *t) {
    size_t at = 0;
    text[0] = 0;
    for (int i = 0; i < world_of(t) && t->dealing.differ; i++) {
        const int wrote = snprintf(text + at, TFM__SHARES_TEXT - at, "%s%.0f", i ? " " : "", t->dealing.shares[i]);
        if (wrote < 0 || (size_t)wrote >= TFM__SHARES_TEXT - at) {
            text[0] = 0;
            return;
        }
        at += (size_t)wrote;
    }
}

void tfm__dealing_read(tfm_trainer *t, const char *text) {
    const int world = world_of(t);
    char *end = NULL;
    if (!t->dealing.shares)
        return;
    t->dealing.differ = false;
    if (!text)
        return;
    for (int i = 0; i < world; i++) {
        t->dealing.shares[i] = (double)strtoll(text, &end, 10);
        if (end == text || *end != (i + 1 < world ? ' ' : 0))
            return;
        text = end + 1;
    }
    if (check_shares("checkpoint", t->dealing.shares, (size_t)world) == TFM_OK)
        settle(t);
}
