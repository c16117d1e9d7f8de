/* Data-parallel groups: what trainers exchange. */
#ifndef TFM_LIB_PROCESS_GROUP_H
#define TFM_LIB_PROCESS_GROUP_H

#include "tfm/data.h"
#include "train/trainer.h"

/* A rank's report, before its batches are run and after. */
typedef struct tfm__rank_report {
    int64_t status;
    int64_t update;
    uint64_t state_hash; /* A hash of what must be equal on all ranks. */
    uint64_t batches;    /* Of all ranks: the most batches of a rank, times the number of ranks. */
    uint64_t tokens, source_tokens;
    double loss, nll, squared_norm; /* squared_norm: of this rank's part of the gradient */
} tfm__rank_report;

static inline bool tfm__process_group_active(const tfm_trainer *t) {
    return t->group.world_size > 1;
}

/* Rejects an invalid rank; `call` is used in the error message. */
tfm_status tfm__process_group_check(const tfm_process_group *ranks, const char *call);

/* Exchanges `mine` with this status; *all is the sum over the ranks. Fails on all ranks if it fails on one, or if
 * updates or states differ; `what` is used in the error message. */
tfm_status tfm__process_group_agree(tfm_trainer *t, tfm__rank_report *all, tfm__rank_report mine, tfm_status status,
                                    const char *what);

/* At the first update and every COMPARE_INTERVAL: sets *state to a hash of options, parameters and moments, else to
 * 0. */
tfm_status tfm__process_group_state_hash(tfm_trainer *t, uint64_t *state);

/* tfm_trainer_update and tfm_trainer_save on one of several ranks. */
tfm_status tfm__trainer_update_rank(tfm_trainer *t, tfm_update_report *report, const tfm_batch *batches, size_t count);
tfm_status tfm__trainer_save_rank(tfm_trainer *t, const tfm_data *data, const char *path);

/* The error of ranks that cannot communicate. */
tfm_status tfm__process_group_lost(const char *what);

#endif
