/* Data-parallel groups: the communication of trainers, in host memory, by collectives of the caller. */
#include <string.h>
#include "train/process_group.h"
#include "train/batch_split.h"
#include "train/local_process_group.h"
#include "train/allreduce.h"

/* Updates between two comparisons of the ranks' states. */
enum { COMPARE_INTERVAL = 64 };

tfm_status tfm__process_group_check(const tfm_process_group *ranks, const char *call) {
    enum { MAX_RANKS = 1 << 16 };
    if (ranks && (ranks->world_size < 1 || ranks->world_size > MAX_RANKS || ranks->rank < 0 ||
                  ranks->rank >= ranks->world_size || !ranks->all_to_all || !ranks->all_gather))
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "%s: rank %d of %d: it must be from 0 to below the number of ranks, of which there are up to "
                         "%d, and both collectives must be set",
                         call, ranks->rank, ranks->world_size, MAX_RANKS);
    return TFM_OK;
}

tfm_status tfm_trainer_set_process_group(tfm_trainer *t, const tfm_process_group *group) {
    if (TFM__NEEDS("trainer_set_process_group", t) != TFM_OK ||
        tfm__process_group_check(group, "trainer_set_process_group") != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (tfm__trainer_replica_count(t) > 1)
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "trainer_set_process_group: the trainer is on several devices, which share updates "
                         "without it: a rank has one device");
    const int world = group ? group->world_size : 1, rank = group ? group->rank : 0;
    if (t->sharded && (world != t->bucket_layout.world || rank != t->group.rank))
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "trainer_set_process_group: rank %d of %d has moments of rank %d of %d, by `shard_optimizer`: "
                         "save a checkpoint "
                         "and load it into a new trainer",
                         rank, world, t->group.rank, t->bucket_layout.world);
    tfm__allreduce_close(t);
    t->group = (tfm_process_group){0};
    t->state_compared = false;
    t->bucket_layout.world = world;
    if ((world > 1 && tfm__allreduce_open(t) != TFM_OK) || tfm__balance_init(t, world) != TFM_OK) {
        tfm__allreduce_close(t);
        tfm__balance_free(t);
        return TFM_ERROR_MEMORY;
    }
    if (world > 1)
        t->group = *group;
    return TFM_OK;
}

tfm_status tfm__process_group_lost(const char *what) {
    return tfm__fail(TFM_ERROR_IO, "%s: the ranks of the run can no longer communicate", what);
}

/* ---- Reports ---- */

static tfm_status compare_reports(const tfm__rank_report *first, const tfm__rank_report *other, int rank,
                                  const char *what) {
    if (other->update != first->update)
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "%s: rank %d is at update %lld and rank 0 at %lld: all must begin with the same state", what,
                         rank, (long long)other->update, (long long)first->update);
    if (other->state_hash != first->state_hash)
        return tfm__fail(TFM_ERROR_NUMERIC,
                         "%s: the options or the parameters of rank %d are not those of rank 0: all ranks must begin "
                         "with the same state and have the same kind of device and driver, or set `shard_optimizer`",
                         what, rank);
    return TFM_OK;
}

tfm_status tfm__process_group_agree(tfm_trainer *t, tfm__rank_report *all, tfm__rank_report mine, tfm_status status,
                                    const char *what) {
    const int world = t->group.world_size;
    tfm__rank_report *reports = tfm__alloc((size_t)world, sizeof(*reports));
    if (!reports) /* the other ranks wait: this rank sends its failure, and receives into recv_buffer */
        status = TFM_ERROR_MEMORY;
    mine.status = status;
    if (!t->group.all_gather(t->group.user, reports ? (void *)reports : t->recv_buffer, &mine, sizeof(mine)))
        status = tfm__process_group_lost(what);
    *all = (tfm__rank_report){0};
    for (int i = 0; i < world && status == TFM_OK; i++)
        if (reports[i].status != TFM_OK)
            status = tfm__fail(TFM_ERROR_CANCELLED, "%s: rank %d has failed, with %s", what, i,
                               tfm_status_name((tfm_status)reports[i].status));
    for (int i = 0; i < world && status == TFM_OK; i++) {
        status = compare_reports(&reports[0], &reports[i], i, what);
        const uint64_t batches = reports[i].batches * (uint64_t)world;
        all->batches = batches > all->batches ? batches : all->batches;
        all->tokens += reports[i].tokens;
        all->source_tokens += reports[i].source_tokens;
        all->loss += reports[i].loss;
        all->nll += reports[i].nll;
        all->squared_norm += reports[i].squared_norm;
    }
    free(reports);
    return status;
}

/* ---- State hash ---- */

static void hash_options(tfm__hash *hash, const tfm_trainer *t) {
    const tfm_trainer_options *o = &t->options;
    const double numbers[] = {o->dropout,
                              o->attention_dropout,
                              o->activation_dropout,
                              o->label_smoothing,
                              o->lr_scheduler_type,
                              o->learning_rate,
                              (double)o->warmup_steps,
                              (double)o->max_steps,
                              o->beta1,
                              o->beta2,
                              o->epsilon,
                              o->weight_decay,
                              o->max_grad_norm,
                              t->sharded,
                              t->comm_dtype,
                              (double)t->bucket_layout.bucket_size};
    tfm__hash_add(hash, numbers, sizeof(numbers));
    tfm__hash_add(hash, &o->seed, sizeof(o->seed));
    if (t->balance.uneven) /* with different shares a row would be in no part or in two */
        tfm__hash_add(hash, t->balance.shares, (size_t)t->group.world_size * sizeof(*t->balance.shares));
}

tfm_status tfm__process_group_state_hash(tfm_trainer *t, uint64_t *state) {
    const tfm_tensor parts[] = {t->value, t->m, t->v};
    *state = 0;
    if (t->state_compared && t->update % COMPARE_INTERVAL != 0)
        return TFM_OK;
    tfm__hash hash = {0};
    hash_options(&hash, t);
    for (size_t i = 0; i < (t->sharded ? 1 : TFM__COUNT(parts)); i++) { /* sharded moments differ per rank */
        if (tfm_tensor_read(t->ctx, t->host_buffer, parts[i]) != TFM_OK)
            return tfm_context_status(t->ctx);
        tfm__hash_add(&hash, t->host_buffer, (size_t)t->count * sizeof(*t->host_buffer));
    }
    *state = tfm__hash_finish(&hash);
    return TFM_OK;
}
