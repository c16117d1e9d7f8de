/* Contexts that are at work on one CPU at the same time have a part of its cores each: cpu_partition.c says why.
 *
 * All of it is called by the thread that uses the context. Where a part cannot be had, commands run on all cores; where
 * the device fails, the context does. */
#ifndef TFM_LIB_DEV_CPU_PARTITION_H
#define TFM_LIB_DEV_CPU_PARTITION_H

#include "dev/device/context_internal.h"

/* From now on the context is one of those that share the cores of its device, or no longer. The others take a larger or
 * smaller part when they next wait for a result. */
void tfm__cpu_partition_share(tfm_context *ctx, bool shares);
/* Takes the part that is the context's by now; waits for its commands where that is another one. */
void tfm__cpu_partition_update(tfm_context *ctx);

#endif
