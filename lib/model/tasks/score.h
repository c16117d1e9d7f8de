/* Shared by scoring of translations and of texts. */
#ifndef TFM_LIB_SCORE_H
#define TFM_LIB_SCORE_H

#include "model/tasks/batch.h"

/* log p of the targets (B, T), in `out` [B T] on the host; hidden is (B, T, E). */
tfm_status tfm__token_log_probs(tfm_model *model, float *out, tfm_tensor hidden, tfm_tensor targets);

#endif
