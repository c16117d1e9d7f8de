/* Which rows of an update's batches each of several trainers has, by a fixed ratio. */
#ifndef TFM_LIB_BATCH_SPLIT_H
#define TFM_LIB_BATCH_SPLIT_H

#include "train/process_group.h"

/* Enough for the shares of hundreds of ranks as text. Checkpoints leave out what is longer. */
enum { TFM__BALANCE_TEXT = 4096 };

/* Makes room for the shares of `world` ranks, all equal at first. */
tfm_status tfm__balance_init(tfm_trainer *t, int world);
void tfm__balance_free(tfm_trainer *t);

/* Writes the shares as text of TFM__BALANCE_TEXT bytes, "" where they are equal; and reads them. Text with another
 * number of shares than there are ranks, or none (NULL), makes them equal. */
void tfm__balance_format(char *text, const tfm_trainer *t);
void tfm__balance_parse(tfm_trainer *t, const char *text);

#endif
