/* Who of several devices works on which lines: guided self-scheduling by measured speed. There is no device, no thread
 * and no clock in it: whoever deals says who asks, and what time it is.
 *
 * The lines lie in the order in which they are to be done, and those that are sorted together go longest first. A
 * device that asks gets lines for half of its share of what is left, measured by how fast it has been, and at most a
 * full batch, or what takes it twice as long as that takes the fastest: so pieces get smaller towards the end, and a
 * slow device has small ones always. It gets nothing where the others would sooner be done with the line than it would
 * be. Nothing is known of a device at first, so it begins with a few short lines, and each piece is at most four times
 * the one before. Where there is less than a batch in all and nothing is known, the first device does it. What a device
 * failed at goes back, and to the others.
 *
 * Where all are contexts on one device, none is slower than another, and each gets the batch that one alone would have
 * next: what is computed then does not depend on who was done first. */
#ifndef TFM_LIB_CHUNK_SCHEDULER_H
#define TFM_LIB_CHUNK_SCHEDULER_H

#include "model/tasks/batch.h"

/* How fast a device is at one kind of work, which outlives a deal. Newer pieces count for more. All zero: unknown. */
typedef struct tfm__pace {
    double work, seconds; /* tokens, and the time that they took */
    double last;          /* tokens of the last piece */
} tfm__pace;

/* Lines from `first` to before `end`. */
typedef struct tfm__range {
    size_t first, end;
} tfm__range;

/* What a device works on. */
typedef struct tfm__piece {
    tfm__range lines;
    double work, since;
    bool busy;
} tfm__piece;

typedef struct tfm__deal {
    tfm__line **order; /* [count] */
    size_t count;
    tfm__batch_limit limit;
    size_t members;     /* devices */
    bool alike;         /* they are one device */
    tfm__pace *paces;   /* [members]: the caller's */
    bool *out;          /* [members]: gets nothing more */
    tfm__piece *pieces; /* [members] */
    tfm__range *ranges; /* [members + 1]: what nobody works on; the first is of the window that was sorted last */
    size_t range_count, sorted;
    double left; /* tokens of all lines that nobody works on */
} tfm__deal;

/* Deals `count` lines to `members` devices, which are `alike` where they are one. tfm__deal_free frees it, also after a
 * failure. */
tfm_status tfm__deal_begin(tfm__deal *deal, tfm__line **order, size_t count, tfm__batch_limit limit, tfm__pace *paces,
                           size_t members, bool alike);
void tfm__deal_free(tfm__deal *deal);

/* Gives device `who` its next lines, whose place is in *batch and *n. False: there is nothing for it now, and it asks
 * again when another device has ended a piece. */
bool tfm__deal_take(tfm__deal *deal, size_t who, double now, tfm__line *const **batch, size_t *n);
/* Device `who` is done with its piece, which took so long. */
void tfm__deal_done(tfm__deal *deal, size_t who, double seconds);
/* Device `who` has failed: it is out, and what it worked on goes back. */
void tfm__deal_drop(tfm__deal *deal, size_t who);
/* Whether all lines are done. */
bool tfm__deal_over(const tfm__deal *deal);

#endif
