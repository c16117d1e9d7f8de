/* Time per kernel, measured by the device's own events.
 *
 *     if (tfm__profile_wanted(options->profile)) properties |= CL_QUEUE_PROFILING_ENABLE;
 *     tfm__profile_open(&profile);
 *     clEnqueueNDRangeKernel(..., &event);
 *     tfm__profile_add(profile, "softmax_rows", event, &grid);
 *     clFinish(queue); tfm__profile_close(&profile);
 *
 * TFM_PROFILE=1 (or tfm_context_options.profile) ends with a table: one reported line per kernel, most time first.
 * TFM_PROFILE=x.json, or any other path, writes a trace in Chrome's trace-event JSON, which ui.perfetto.dev
 * opens, and no table. A process's second context writes x-2.json, and so on. TFM_PROFILE unset, empty or 0
 * is off. */
#ifndef TFM_LIB_DEV_PROFILE_H
#define TFM_LIB_DEV_PROFILE_H

#include "dev/device/context_internal.h"

/* Whether a context should make its queue with CL_QUEUE_PROFILING_ENABLE: `asked` by its options, or by
 * TFM_PROFILE. */
bool tfm__profile_wanted(bool asked);

/* Starts a profile; a trace that cannot be written is TFM_ERROR_IO now, not after the run. */
tfm_status tfm__profile_open(tfm__profile **out);

/* Takes the event over, success or not. Events of an in-order queue only. Memory is bounded: every thousand
 * launches the oldest are read and released, which waits for them if the host is that far ahead. `grid` may
 * be NULL (a copy, a read). */
void tfm__profile_add(tfm__profile *profile, const char *name, cl_event event, const tfm__grid *grid);

/* What the host did from one second of tfm__seconds to another, such as waiting for other ranks; in the trace it is a
 * row of its own beside the device's. The clocks are laid beside each other by when launches were enqueued, to some
 * microseconds. `name` lives on. */
void tfm__profile_span(tfm__profile *profile, const char *name, double begun, double ended);

/* Call after clFinish. Prints the table or completes the trace, gives everything back and nulls *profile;
 * takes NULL. */
void tfm__profile_close(tfm__profile **profile);

#endif
