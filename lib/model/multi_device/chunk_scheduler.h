/* Distributes lines over several devices: guided self-scheduling by measured throughput. Pure logic without devices,
 * threads or a clock; the caller passes the device and the time.
 *
 * Lines are in processing order; each window of lines is sorted by length, longest first. A device gets lines for half
 * of its share of the remaining work, by its throughput so far; at most a full batch, or as many as take it twice as
 * long as the fastest device needs for a full batch. So chunks get smaller towards the end, and a slow device always
 * gets small ones. It gets none if the other devices would finish the next line sooner. An unmeasured device starts
 * with a few short lines, and a chunk is at most four times the previous one. If there is less than one batch in total
 * and nothing is measured, the first device does it. Lines of a failed device go to the others.
 *
 * Contexts on the same device are equally fast, and each gets the batch that a single one would have next: the results
 * then do not depend on timing. */
#ifndef TFM_LIB_CHUNK_SCHEDULER_H
#define TFM_LIB_CHUNK_SCHEDULER_H

#include "model/tasks/batch.h"

/* Throughput of a device for one kind of work; outlives a call. Newer chunks have more weight. All zero: unknown. */
typedef struct tfm__throughput {
    double work, seconds; /* tokens, and their time */
    double last;          /* tokens of the last chunk */
} tfm__throughput;

/* Lines from `first` to `end` - 1. */
typedef struct tfm__line_range {
    size_t first, end;
} tfm__line_range;

/* Lines assigned to a device. */
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
    bool same_device;             /* all contexts are on one device */
    tfm__throughput *throughputs; /* [members]: the caller's */
    bool *excluded;               /* [members]: gets no more work */
    tfm__work_chunk *chunks;      /* [members] */
    tfm__line_range *ranges;      /* [members + 1]: unassigned lines; the first range is the current window */
    size_t range_count, sorted;
    double left; /* tokens of all unassigned lines */
} tfm__chunk_scheduler;

/* Starts distributing `count` lines to `members` devices; `same_device` if all are on one device. Free it by
 * tfm__chunk_scheduler_free, also after a failure. */
tfm_status tfm__chunk_scheduler_begin(tfm__chunk_scheduler *scheduler, tfm__line **order, size_t count,
                                      tfm__batch_limit limit, tfm__throughput *throughputs, size_t members,
                                      bool same_device);
void tfm__chunk_scheduler_free(tfm__chunk_scheduler *scheduler);

/* Assigns the next lines to device `member`: *batch, *n. False: no work for it now; try again when another device has
 * finished a chunk. */
bool tfm__chunk_scheduler_next(tfm__chunk_scheduler *scheduler, size_t member, double now, tfm__line *const **batch,
                               size_t *n);
/* Device `member` has finished its chunk in this time. */
void tfm__chunk_scheduler_complete(tfm__chunk_scheduler *scheduler, size_t member, double seconds);
/* Device `member` has failed: it is excluded, and its chunk is returned. */
void tfm__chunk_scheduler_drop(tfm__chunk_scheduler *scheduler, size_t member);
/* Whether all lines are finished. */
bool tfm__chunk_scheduler_finished(const tfm__chunk_scheduler *scheduler);

#endif
