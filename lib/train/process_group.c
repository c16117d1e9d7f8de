/* Trainers that share updates. What goes between them is in the host's memory, and by which means is the caller's. */
#include <string.h>
#include "train/process_group.h"
#include "train/batch_split.h"
#include "train/local_process_group.h"
#include "train/allreduce.h"

/* After so many updates the ranks compare what they have. */
enum { COMPARED = 64 };

tfm_status tfm__ranks_check(const tfm_ranks *ranks, const char *call) {
    enum { MOST = 1 << 16 };
    if (ranks && (ranks->world < 1 || ranks->world > MOST || ranks->rank < 0 || ranks->rank >= ranks->world ||
                  !ranks->exchange || !ranks->gather))
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "%s: rank %d of %d: it must be from 0 to below the number of ranks, of which there are up to "
                         "%d, and both calls must be given",
                         call, ranks->rank, ranks->world, MOST);
    return TFM_OK;
}

tfm_status tfm_trainer_set_ranks(tfm_trainer *t, const tfm_ranks *ranks) {
    if (TFM__NEEDS("trainer_set_ranks", t) != TFM_OK || tfm__ranks_check(ranks, "trainer_set_ranks") != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (tfm__team_count(t) > 1)
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "trainer_set_ranks: the trainer is on several devices, which share updates "
                         "by themselves: a rank has one device");
    const int world = ranks ? ranks->world : 1, rank = ranks ? ranks->rank : 0;
    if (t->sharded && (world != t->cuts.world || rank != t->ranks.rank))
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "trainer_set_ranks: rank %d of %d has moments of rank %d of %d, by `shard`: save a checkpoint "
                         "and load it into a new trainer",
                         rank, world, t->ranks.rank, t->cuts.world);
    tfm__wire_close(t);
    t->ranks = (tfm_ranks){0};
    t->compared = false;
    t->cuts.world = world;
    if ((world > 1 && tfm__wire_open(t) != TFM_OK) || tfm__dealing_begin(t, world) != TFM_OK) {
        tfm__wire_close(t);
        tfm__dealing_end(t);
        return TFM_ERROR_MEMORY;
    }
    if (world > 1)
        t->ranks = *ranks;
    return TFM_OK;
}

tfm_status tfm__ranks_lost(const char *what) {
    return tfm__fail(TFM_ERROR_IO, "%s: the ranks of the run cannot talk with each other any more", what);
}

/* ---- What is told ---- */

static tfm_status compare(const tfm__share *first, const tfm__share *other, int rank, const char *what) {
    if (other->update != first->update)
        return tfm__fail(TFM_ERROR_ARGUMENT, "%s: rank %d is at update %lld and rank 0 at %lld: all must begin alike",
                         what, rank, (long long)other->update, (long long)first->update);
    if (other->state != first->state)
        return tfm__fail(
            TFM_ERROR_NUMERIC,
            "%s: the options or the parameters of rank %d are not those of rank 0: all ranks must begin "
            "alike and have devices of the same kind, with the same driver, or else make the step on one for all, by "
            "`shard`",
            what, rank);
    return TFM_OK;
}

tfm_status tfm__ranks_agree(tfm_trainer *t, tfm__share *all, tfm__share mine, tfm_status status, const char *what) {
    const int world = t->ranks.world;
    tfm__share *shares = tfm__alloc((size_t)world, sizeof(*shares));
    if (!shares) /* the others wait for this rank: they are told so in the sum's own memory */
        status = TFM_ERROR_MEMORY;
    mine.status = status;
    if (!t->ranks.gather(t->ranks.user, shares ? (void *)shares : t->received, &mine, sizeof(mine)))
        status = tfm__ranks_lost(what);
    *all = (tfm__share){0};
    for (int i = 0; i < world && status == TFM_OK; i++)
        if (shares[i].status != TFM_OK)
            status = tfm__fail(TFM_ERROR_CANCELLED, "%s: rank %d has failed, with %s", what, i,
                               tfm_status_name((tfm_status)shares[i].status));
    for (int i = 0; i < world && status == TFM_OK; i++) {
        status = compare(&shares[0], &shares[i], i, what);
        const uint64_t batches = shares[i].batches * (uint64_t)world;
        all->batches = batches > all->batches ? batches : all->batches;
        all->tokens += shares[i].tokens;
        all->source_tokens += shares[i].source_tokens;
        all->loss += shares[i].loss;
        all->nll += shares[i].nll;
        all->squares += shares[i].squares;
    }
    free(shares);
    return status;
}

/* ---- What is compared ---- */

static void add_options(tfm__hash *hash, const tfm_trainer *t) {
    const tfm_trainer_options *o = &t->options;
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
                              o->clip,
                              t->sharded,
                              t->wire_dtype,
                              (double)t->cuts.bucket};
    tfm__hash_add(hash, numbers, sizeof(numbers));
    tfm__hash_add(hash, &o->seed, sizeof(o->seed));
    if (t->dealing.differ) /* with other shares a row would be nobody's, or that of two */
        tfm__hash_add(hash, t->dealing.shares, (size_t)t->ranks.world * sizeof(*t->dealing.shares));
}

tfm_status tfm__ranks_state(tfm_trainer *t, uint64_t *state) {
    const tfm_tensor parts[] = {t->value, t->m, t->v};
    *state = 0;
    if (t->compared && t->update % COMPARED != 0)
        return TFM_OK;
    tfm__hash hash = {0};
    add_options(&hash, t);
    for (size_t i = 0; i < (t->sharded ? 1 : TFM__COUNT(parts)); i++) { /* of moments each has others */
        if (tfm_tensor_read(t->ctx, t->shared, parts[i]) != TFM_OK)
            return tfm_context_status(t->ctx);
        tfm__hash_add(&hash, t->shared, (size_t)t->count * sizeof(*t->shared));
    }
    *state = tfm__hash_finish(&hash);
    return TFM_OK;
}
