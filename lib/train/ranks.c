/* Trainers that share updates. What goes between them is in the host's memory, and by which means is the caller's. */
#include <string.h>
#include "train/ranks.h"

/* How many numbers of the gradient are sent at a time. */
enum { PIECE = 1 << 22 };
/* After so many updates the ranks compare what they have. */
enum { COMPARED = 64 };

tfm_status tfm_trainer_set_ranks(tfm_trainer *t, const tfm_ranks *ranks) {
    enum { MOST = 1 << 16 };
    if (TFM__NEEDS("trainer_set_ranks", t) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (ranks && (ranks->world < 1 || ranks->world > MOST || ranks->rank < 0 || ranks->rank >= ranks->world ||
                  !ranks->exchange || !ranks->gather))
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "trainer_set_ranks: rank %d of %d: it must be from 0 to below the number of ranks, of which "
                         "there are up to %d, and both calls must be given",
                         ranks->rank, ranks->world, MOST);
    const bool several = ranks && ranks->world > 1;
    if (several && !t->shared && !(t->shared = tfm__alloc((size_t)t->count, sizeof(*t->shared))))
        return TFM_ERROR_MEMORY;
    free(t->wire);
    t->wire = NULL;
    t->ranks = (tfm_ranks){0};
    t->compared = false;
    if (!several)
        return TFM_OK;
    t->wire = tfm__alloc(2 * (size_t)(PIECE + ranks->world), sizeof(*t->wire)); /* out and in, in equal blocks */
    if (!t->wire)
        return TFM_ERROR_MEMORY;
    t->ranks = *ranks;
    return TFM_OK;
}

static tfm_status fail_talk(const char *what) {
    return tfm__fail(TFM_ERROR_IO, "%s: the ranks of the run cannot talk with each other any more", what);
}

/* ---- What is told ---- */

static tfm_status compare(const tfm__share *first, const tfm__share *other, int rank, const char *what) {
    if (other->update != first->update)
        return tfm__fail(TFM_ERROR_ARGUMENT, "%s: rank %d is at update %lld and rank 0 at %lld: all must begin alike",
                         what, rank, (long long)other->update, (long long)first->update);
    if (other->state != first->state)
        return tfm__fail(TFM_ERROR_NUMERIC,
                         "%s: the options or the parameters of rank %d are not those of rank 0: all ranks must begin "
                         "alike and have devices of the same kind, with the same driver",
                         what, rank);
    return TFM_OK;
}

tfm_status tfm__ranks_agree(tfm_trainer *t, tfm__share *all, tfm__share mine, tfm_status status, const char *what) {
    const int world = t->ranks.world;
    tfm__share *shares = tfm__alloc((size_t)world, sizeof(*shares));
    if (!shares) /* the others wait for this rank: they are told so in the sum's own memory */
        status = TFM_ERROR_MEMORY;
    mine.status = status;
    if (!t->ranks.gather(t->ranks.user, shares ? (void *)shares : t->wire, &mine, sizeof(mine)))
        status = fail_talk(what);
    *all = (tfm__share){0};
    for (int i = 0; i < world && status == TFM_OK; i++)
        if (shares[i].status != TFM_OK)
            status = tfm__fail(TFM_ERROR_CANCELLED, "%s: rank %d has failed, with %s", what, i,
                               tfm_status_name((tfm_status)shares[i].status));
    for (int i = 0; i < world && status == TFM_OK; i++) {
        status = compare(&shares[0], &shares[i], i, what);
        all->batches += shares[i].batches;
        all->tokens += shares[i].tokens;
        all->source_tokens += shares[i].source_tokens;
        all->loss += shares[i].loss;
        all->nll += shares[i].nll;
    }
    free(shares);
    return status;
}

/* ---- What is compared ---- */

static void add_options(tfm__hash *hash, const tfm_trainer_options *o) {
    const double numbers[] = {o->dropout,
                              o->attention_dropout,
                              o->activation_dropout,
                              o->smoothing,
                              o->schedule,
                              o->rate,
                              (double)o->warmup,
                              (double)o->updates,
                              o->beta1,
                              o->beta2,
                              o->epsilon,
                              o->decay,
                              o->clip};
    tfm__hash_add(hash, numbers, sizeof(numbers));
    tfm__hash_add(hash, &o->seed, sizeof(o->seed));
}

tfm_status tfm__ranks_state(tfm_trainer *t, uint64_t *state) {
    const tfm_tensor parts[] = {t->value, t->m, t->v};
    *state = 0;
    if (t->compared && t->update % COMPARED != 0)
        return TFM_OK;
    tfm__hash hash = {0};
    add_options(&hash, &t->options);
    for (size_t i = 0; i < TFM__COUNT(parts); i++) {
        if (tfm_tensor_read(t->ctx, t->shared, parts[i]) != TFM_OK)
            return tfm_context_status(t->ctx);
        tfm__hash_add(&hash, t->shared, (size_t)t->count * sizeof(*t->shared));
    }
    *state = tfm__hash_end(&hash);
    return TFM_OK;
}

/* ---- What is added up ---- */

tfm_status tfm__ranks_take(tfm_trainer *t) {
    return tfm_tensor_read(t->ctx, t->shared, t->gradient);
}

/* Each rank adds up one block of the piece, and all get all blocks: twice the piece goes over the wire, however many
 * ranks there are, and the order of a sum is always that of the ranks. */
static bool sum_piece(tfm_trainer *t, float *values, int64_t count) {
    const tfm_ranks *r = &t->ranks;
    const int64_t block = tfm__divide_up(count, r->world), whole = block * r->world;
    float *out = t->wire, *in = t->wire + whole;
    memcpy(out, values, (size_t)count * sizeof(*out));
    memset(out + count, 0, (size_t)(whole - count) * sizeof(*out));
    if (!r->exchange(r->user, in, out, (size_t)block * sizeof(*out)))
        return false;
    memcpy(out, in, (size_t)block * sizeof(*out));
    for (int64_t i = 1; i < r->world; i++)
        for (int64_t k = 0; k < block; k++)
            out[k] += in[i * block + k];
    if (!r->gather(r->user, in, out, (size_t)block * sizeof(*out)))
        return false;
    memcpy(values, in, (size_t)count * sizeof(*values));
    return true;
}

tfm_status tfm__ranks_sum(tfm_trainer *t, const char *what) {
    for (int64_t at = 0; at < t->count; at += PIECE)
        if (!sum_piece(t, t->shared + at, t->count - at < PIECE ? t->count - at : PIECE))
            return fail_talk(what);
    return TFM_OK;
}
