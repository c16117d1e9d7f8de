/* One launch for many: PoCL needs some 13 us for a launch, mostly to wake its threads, and a decode step has hundreds
 * of launches of that length. Between
 *
 *     tfm__megakernel_begin(ctx);          // dev.h
 *     ...                                  // launches
 *     tfm__megakernel_end(ctx);
 *
 * tfm__launch collects, and a kernel that contains the collected kernels as functions runs them one after the other
 * (cl/launch/megakernel.cl). */
#ifndef TFM_LIB_DEV_MEGAKERNEL_H
#define TFM_LIB_DEV_MEGAKERNEL_H

#include "dev/device/context_internal.h"

/* Collects a launch whose arguments were checked. False if it is to be launched as usual. */
bool tfm__megakernel_collect(tfm_context *ctx, tfm__kernel *kernel, const tfm__grid *grid, size_t count,
                             const tfm__arg *args);

/* Call before memory with an address is released: PoCL does not know that the megakernel uses it. */
void tfm__megakernel_settle(tfm_context *ctx);

/* Links the kernels for later processes, if this is not the first one. Call before programs are exported. */
void tfm__megakernel_store(tfm_context *ctx);

/* Call before programs are freed, with an empty queue. */
void tfm__megakernel_free(tfm_context *ctx);

#endif
