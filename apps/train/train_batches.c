/* The micro-batches of one update. */
#include <stdlib.h>
#include <string.h>
#include "train/train.h"

void train_batches_free(train_batches *b) {
    for (size_t i = 0; i < b->allocated; i++)
        free(b->numbers[i]);
    free(b->items);
    free(b->numbers);
    *b = (train_batches){0};
}

/* NULL if empty, such as the sources of a decoder-only model. */
static const int32_t *copy(int32_t **to, const int32_t *from, int64_t count) {
    int32_t *begin = *to;
    if (!from)
        return NULL;
    memcpy(begin, from, (size_t)count * sizeof(*from));
    *to += count;
    return begin;
}

/* The data of tfm_data_next is valid until the next call. */
static bool hold(train_batches *b, size_t i, const tfm_batch *p) {
    int32_t *to = malloc((size_t)(p->count * (p->source_width + p->target_width + 2)) * sizeof(*to));
    if (!to)
        return false;
    b->numbers[i] = to;
    b->allocated++;
    b->items[i] = *p;
    b->items[i].sources = copy(&to, p->sources, p->count * p->source_width);
    b->items[i].targets = copy(&to, p->targets, p->count * p->target_width);
    b->items[i].source_lengths = copy(&to, p->source_lengths, p->count);
    b->items[i].target_lengths = copy(&to, p->target_lengths, p->count);
    return true;
}

/* Keeps a rank's rows of each micro-batch, by its share. */
static bool keep_own_part(train_run *r, const double *ratio, tfm_status *status) {
    train_batches *b = &r->last;
    tfm_batch *all = b->items;
    tfm_batch *own = calloc(b->count + 1, sizeof(*own));
    if (!own)
        return false;
    *status = tfm_batches_split(own, &b->count, all, b->count, ratio, r->ranks->world_size, r->ranks->rank);
    b->items = own;
    free(all);
    return true;
}

/* Ranks with a distributed reader make the same calls: a failed rank notifies the others only in the update. */
int train_batches_next(train_run *r, tfm_status *status) {
    train_batches *b = &r->last;
    train_batches_free(b);
    const size_t count = (size_t)r->recipe.gradient_accumulation_steps, world = (size_t)train_world(r);
    const size_t rank = r->ranks ? (size_t)r->ranks->rank : 0;
    const double *ratio = r->ranks ? tfm_trainer_balance(r->trainer) : NULL; /* a fleet schedules its own devices */
    b->items = calloc(count, sizeof(*b->items));
    b->numbers = calloc(count, sizeof(*b->numbers));
    *status = TFM_OK;
    bool good = b->items && b->numbers;
    for (size_t i = 0; i < count && (r->ranks || (good && *status == TFM_OK)); i++) {
        tfm_batch p;
        /* The last update of --epochs has the rest of the last pass. */
        if (i > 0 && r->recipe.epochs > 0 && tfm_data_tell(r->data).epoch >= r->recipe.epochs)
            break;
        r->epoch = tfm_data_tell(r->data).epoch + 1;
        const tfm_status given = tfm_data_next(r->data, &p);
        *status = given != TFM_OK ? given : *status;
        if (!good || *status != TFM_OK || (!ratio && i % world != rank)) /* another rank trains on it */
            continue;
        good = hold(b, b->count, &p);
        b->count += good;
    }
    if (good && *status == TFM_OK && ratio)
        good = keep_own_part(r, ratio, status);
    return good ? CLI_OK : cli_fail("out of memory for %zu batches", count);
}
