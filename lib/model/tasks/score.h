/* Shared by scoring of translations and of texts. */
#ifndef TFM_LIB_SCORE_H
#define TFM_LIB_SCORE_H

#include "model/tasks/batch.h"

/* The most probable tokens of each row, best first, and their log p: [rows][count], on the host. */
typedef struct tfm__top_tokens {
    int count;
    int32_t *ids;
    float *log_probs;
} tfm__top_tokens;

/* log p of the targets (B, T), in `out` [B T] on the host; hidden is (B, T, E). `top` may be NULL. */
tfm_status tfm__token_log_probs(tfm_model *model, float *out, const tfm__top_tokens *top, tfm_tensor hidden,
                                tfm_tensor targets);

#endif
