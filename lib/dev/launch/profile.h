/* Time per kernel, measured by OpenCL events.
 *
 *     if (tfm__profile_wanted(options->profile)) properties |= CL_QUEUE_PROFILING_ENABLE;
 *     tfm__profile_open(&profile);
 *     clEnqueueNDRangeKernel(..., &event);
 *     tfm__profile_add(profile, "softmax_rows", event, &grid);
 *     clFinish(queue); tfm__profile_close(&profile);
 *
 * TFM_PROFILE=1 (or tfm_context_options.profile) prints a table: one line per kernel, most time first. Any other path,
 * such as TFM_PROFILE=x.json, writes a trace in Chrome's trace-event JSON for ui.perfetto.dev instead; a process's
 * second context writes x-2.json, and so on. TFM_PROFILE unset, empty or 0 is off. */
#ifndef TFM_LIB_DEV_PROFILE_H
#define TFM_LIB_DEV_PROFILE_H

#include "dev/device/context_internal.h"

/* Whether the queue needs CL_QUEUE_PROFILING_ENABLE: requested by the options (`asked`) or by TFM_PROFILE. */
bool tfm__profile_wanted(bool asked);

/* Starts a profile; an unwritable trace is TFM_ERROR_IO now, not after the run. */
tfm_status tfm__profile_open(tfm__profile **out);

/* Takes ownership of the event, also on failure. In-order queues only. Memory is bounded: every thousand launches the
 * oldest are read and released, which waits for them if the host is that far ahead. `grid` may be NULL (a copy, a
 * read). */
void tfm__profile_add(tfm__profile *profile, const char *name, cl_event event, const tfm__grid *grid);

/* Adds a host span, in tfm__seconds, such as waiting for other ranks; the trace shows it in a host row below the
 * device's. The clocks are aligned by enqueue times, to some microseconds. `name` must stay valid. */
void tfm__profile_span(tfm__profile *profile, const char *name, double begun, double ended);

/* Call after clFinish. Prints the table or completes the trace, frees everything and sets *profile to NULL; accepts
 * NULL. */
void tfm__profile_close(tfm__profile **profile);

#endif
