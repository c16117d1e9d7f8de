/* What scoring translations and scoring texts share. */
#ifndef TFM_LIB_SCORE_H
#define TFM_LIB_SCORE_H

#include "model/tasks/batch.h"

/* Computes log p of each of the targets (B, T) into `out` [B T] on the host; hidden is (B, T, E). */
tfm_status tfm__token_log_probs(tfm_model *model, float *out, tfm_tensor hidden, tfm_tensor targets);

#endif
