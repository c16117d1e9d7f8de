/* Partitions a CPU's cores among contexts that run at the same time; cpu_partition.c gives the reason.
 *
 * Call on the thread that uses the context. If a partition fails, commands run on all cores; a device failure fails the
 * context. */
#ifndef TFM_LIB_DEV_CPU_PARTITION_H
#define TFM_LIB_DEV_CPU_PARTITION_H

#include "dev/device/context_internal.h"

/* Starts or stops sharing the device's cores. The other contexts resize their partition when they next wait for a
 * result. */
void tfm__cpu_partition_share(tfm_context *ctx, bool shares);
/* Switches to the context's current partition; waits for its commands if that changes. */
void tfm__cpu_partition_update(tfm_context *ctx);

#endif
