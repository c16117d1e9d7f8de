/* Trainers that share updates: what they tell each other. */
#ifndef TFM_LIB_PROCESS_GROUP_H
#define TFM_LIB_PROCESS_GROUP_H

#include "tfm/data.h"
#include "train/trainer.h"

/* What a rank says of an update, before its batches are run and after. */
typedef struct tfm__rank_report {
    int64_t status; /* Whether it fails. */
    int64_t update;
    uint64_t state_hash; /* A hash of what must be the same on all. */
    uint64_t batches;    /* Of all ranks: the most that one has, times their number. */
    uint64_t tokens, source_tokens;
    double loss, nll, squared_norm; /* the last of this rank's part of the gradient */
} tfm__rank_report;

static inline bool tfm__process_group_active(const tfm_trainer *t) {
    return t->group.world_size > 1;
}

/* Refuses a rank that is none; `call` is for the sentence. */
tfm_status tfm__process_group_check(const tfm_process_group *ranks, const char *call);

/* Tells the others `mine`, with this status, and *all becomes the sum over the ranks. Fails on all if it does on one,
 * or if they are not at the same place; `what` is for the sentence. */
tfm_status tfm__process_group_agree(tfm_trainer *t, tfm__rank_report *all, tfm__rank_report mine, tfm_status status,
                                    const char *what);

/* Every so many updates, and at first: sets *state to a hash of options, parameters and moments, else to 0. */
tfm_status tfm__process_group_state_hash(tfm_trainer *t, uint64_t *state);

/* What tfm_trainer_update and tfm_trainer_save do on one of several ranks. */
tfm_status tfm__trainer_update_rank(tfm_trainer *t, tfm_update_report *report, const tfm_batch *batches, size_t count);
tfm_status tfm__trainer_save_rank(tfm_trainer *t, const tfm_data *data, const char *path);

/* The sentence for ranks that cannot talk. */
tfm_status tfm__process_group_lost(const char *what);

#endif
