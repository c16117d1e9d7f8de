/* Who of several devices works on which lines: guided self-scheduling by measured speed. There is no device, no thread
 * and no clock in it: whoever deals says who asks, and what time it is.
 *
 * The lines lie in the order in which they are to be done, and those that are sorted together go longest first. A
 * device that asks gets lines for half of its share of what is left, measured by how fast it has been, and at most a
 * full batch, or what takes it twice as long as that takes the fastest: so chunks get smaller towards the end, and a
 * slow device has small ones always. It gets nothing where the others would sooner be done with the line than it would
 * be. Nothing is known of a device at first, so it begins with a few short lines, and each chunk is at most four times
 * the one before. Where there is less than a batch in all and nothing is known, the first device does it. What a device
 * failed at goes back, and to the others.
 *
 * Where all are contexts on one device, none is slower than another, and each gets the batch that one alone would have
 * next: what is computed then does not depend on who was done first. */
#ifndef TFM_LIB_CHUNK_SCHEDULER_H
#define TFM_LIB_CHUNK_SCHEDULER_H

#include "model/tasks/batch.h"

/* How fast a device is at one kind of work, which outlives a deal. Newer chunks count for more. All zero: unknown. */
typedef struct tfm__throughput {
    double work, seconds; /* tokens, and the time that they took */
    double last;          /* tokens of the last chunk */
} tfm__throughput;

/* Lines from `first` to before `end`. */
typedef struct tfm__line_range {
    size_t first, end;
} tfm__line_range;

/* What a device works on. */
typedef struct tfm__work_chunk {
    tfm__line_range lines;
    double work, since;
    bool busy;
} tfm__work_chunk;

typedef struct tfm__chunk_scheduler {
    tfm__line **order; /* [count] */
    size_t count;
    tfm__batch_limit limit;
    size_t members;               /* devices */
    bool same_device;             /* they are one device */
    tfm__throughput *throughputs; /* [members]: the caller's */
    bool *excluded;               /* [members]: gets nothing more */
    tfm__work_chunk *chunks;      /* [members] */
    tfm__line_range *ranges; /* [members + 1]: what nobody works on; the first is of the window that was sorted last */
    size_t range_count, sorted;
    double left; /* tokens of all lines that nobody works on */
} tfm__chunk_scheduler;

/* Deals `count` lines to `members` devices, which are `same_device` where they are one. tfm__chunk_scheduler_free frees
 * it, also after a failure. */
tfm_status tfm__chunk_scheduler_begin(tfm__chunk_scheduler *scheduler, tfm__line **order, size_t count,
                                      tfm__batch_limit limit, tfm__throughput *throughputs, size_t members,
                                      bool same_device);
void tfm__chunk_scheduler_free(tfm__chunk_scheduler *scheduler);

/* Gives device `member` its next lines, whose place is in *batch and *n. False: there is nothing for it now, and it
 * asks again when another device has ended a chunk. */
bool tfm__chunk_scheduler_next(tfm__chunk_scheduler *scheduler, size_t member, double now, tfm__line *const **batch,
                               size_t *n);
/* Device `member` is done with its chunk, which took so long. */
void tfm__chunk_scheduler_complete(tfm__chunk_scheduler *scheduler, size_t member, double seconds);
/* Device `member` has failed: it is out, and what it worked on goes back. */
void tfm__chunk_scheduler_drop(tfm__chunk_scheduler *scheduler, size_t member);
/* Whether all lines are done. */
bool tfm__chunk_scheduler_finished(const tfm__chunk_scheduler *scheduler);

#endif
