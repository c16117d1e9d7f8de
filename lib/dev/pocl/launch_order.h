/* Order of PoCL's launches, some of which must run exclusively (launch_order.c gives the reason). Every launch is
 * enclosed in
 *
 *     const tfm__pocl_order order = tfm__pocl_begin(ctx, kernel, &grid);
 *     ...                                   // clEnqueueNDRangeKernel; with TFM__POCL_EXCLUSIVE clFinish, too
 *     tfm__pocl_end(order, error == CL_SUCCESS);
 *
 * No-op on other drivers. Thread-safe. */
#ifndef TFM_LIB_DEV_LAUNCH_ORDER_H
#define TFM_LIB_DEV_LAUNCH_ORDER_H

#include "dev/device/context_internal.h"

typedef enum tfm__pocl_order {
    TFM__POCL_UNORDERED,  /* another driver */
    TFM__POCL_CONCURRENT, /* other launches may run concurrently */
    TFM__POCL_EXCLUSIVE,  /* all other contexts' queues are empty and stay so: the caller waits for completion before it
                             ends */
} tfm__pocl_order;

/* Call after a context's queue is created, and before it is released. */
void tfm__pocl_register(tfm_context *ctx);
void tfm__pocl_unregister(tfm_context *ctx);

/* Sets the context's new queue and returns the old one, which is empty. */
cl_command_queue tfm__pocl_replace_queue(tfm_context *ctx, cl_command_queue queue);

tfm__pocl_order tfm__pocl_begin(tfm_context *ctx, const tfm__kernel *kernel, const tfm__grid *grid);
/* The same for launches of another library. Exclusive if there is another context. */
tfm__pocl_order tfm__pocl_begin_external(tfm_context *ctx);
/* `run`: whether the driver accepted it. */
void tfm__pocl_end(tfm__pocl_order order, bool run);

#endif
