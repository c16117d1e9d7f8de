/* Which rows of an update's batches each of several trainers has, where some are faster than others. */
#ifndef TFM_LIB_DEALING_H
#define TFM_LIB_DEALING_H

#include "train/ranks.h"

/* Enough for the shares of so many ranks as a text; those of more are measured again by a run that goes on. */
enum { TFM__SHARES_TEXT = 4096 };

/* Begins to measure, where the options say so; what was known is forgotten. `world` is that of the ranks. */
tfm_status tfm__dealing_begin(tfm_trainer *t, int world);
void tfm__dealing_end(tfm_trainer *t);

/* Whether the next update is one of those that are measured. */
bool tfm__dealing_measures(const tfm_trainer *t);
/* Notes what this rank took for its batches of such an update. */
void tfm__dealing_note(tfm_trainer *t, const tfm_pairs *batches, size_t count, double seconds);
/* Counts an update that is done. */
void tfm__dealing_count(tfm_trainer *t);
/* Notes how fast a rank says that it is, 0 if it does not know. */
void tfm__dealing_hear(tfm_trainer *t, int rank, double speed);
/* Makes shares of what was heard, once all have been measured: the same on all ranks. */
void tfm__dealing_settle(tfm_trainer *t);

/* Writes the shares as text, of TFM__SHARES_TEXT bytes: "" if there are none. And the way back: text that is not of as
 * many shares as there are ranks is passed over, and what it was about is measured again. */
void tfm__dealing_say(char *text, const tfm_trainer *t);
void tfm__dealing_read(tfm_trainer *t, const char *text);

#endif
