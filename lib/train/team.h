/* The devices of a fleet that train one model: a trainer for each, and a thread for each while they update together.
 * They are ranks to each other, which talk in memory. */
#ifndef TFM_LIB_TEAM_H
#define TFM_LIB_TEAM_H

#include "train/trainer.h"

/* Makes trainers of the model's mates and of the model itself, whose trainer *first owns the others. Until that is
 * freed the model is alone: all other calls run on its own device. */
tfm_status tfm__team_new(tfm_trainer **first, tfm_model *model, const tfm_trainer_options *options);
/* Frees all trainers but the first. */
void tfm__team_free(tfm_trainer *first);

/* The trainers, and how many they are; itself alone for a trainer of one device. */
tfm_trainer *tfm__team_member(tfm_trainer *t, size_t i);
size_t tfm__team_count(const tfm_trainer *t);

/* What tfm_trainer_update and tfm_trainer_save do. */
tfm_status tfm__team_update(tfm_trainer *t, tfm_update_report *report, const tfm_pairs *batches, size_t count);
tfm_status tfm__team_save(tfm_trainer *t, const tfm_data *data, const char *path);

#endif
