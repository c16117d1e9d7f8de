/* Splits the rows of an update's batches among trainers by a fixed ratio. */
#ifndef TFM_LIB_BATCH_SPLIT_H
#define TFM_LIB_BATCH_SPLIT_H

#include "train/process_group.h"

/* Enough for the shares of hundreds of ranks as text. Checkpoints omit longer texts. */
enum { TFM__BALANCE_TEXT = 4096 };

/* Allocates the shares of `world` ranks, initially equal. */
tfm_status tfm__balance_init(tfm_trainer *t, int world);
void tfm__balance_free(tfm_trainer *t);

/* Writes the shares as text of TFM__BALANCE_TEXT bytes ("" if equal), and parses them. A NULL text, or another number
 * of shares than ranks, makes them equal. */
void tfm__balance_format(char *text, const tfm_trainer *t);
void tfm__balance_parse(tfm_trainer *t, const char *text);

#endif
