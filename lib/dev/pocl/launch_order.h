/* PoCL's launches, of which some must be alone (launch_order.c says why). Every kernel that is enqueued is put between
 *
 *     const tfm__pocl_order order = tfm__pocl_begin(ctx, kernel, &grid);
 *     ...                                   // clEnqueueNDRangeKernel; with TFM__POCL_EXCLUSIVE clFinish, too
 *     tfm__pocl_end(order, error == CL_SUCCESS);
 *
 * On other drivers these do nothing. All of it may be called from any thread. */
#ifndef TFM_LIB_DEV_LAUNCH_ORDER_H
#define TFM_LIB_DEV_LAUNCH_ORDER_H

#include "dev/device/context_internal.h"

typedef enum tfm__pocl_order {
    TFM__POCL_UNORDERED,  /* the driver is another one */
    TFM__POCL_CONCURRENT, /* others may run beside it */
    TFM__POCL_EXCLUSIVE,  /* all other contexts' queues are empty and stay so: the caller waits for it before it ends */
} tfm__pocl_order;

/* A context's queue is made, and about to be released. */
void tfm__pocl_register(tfm_context *ctx);
void tfm__pocl_unregister(tfm_context *ctx);

/* The context has another queue from now on, and its old one, which is returned, is empty. */
cl_command_queue tfm__pocl_replace_queue(tfm_context *ctx, cl_command_queue queue);

tfm__pocl_order tfm__pocl_begin(tfm_context *ctx, const tfm__kernel *kernel, const tfm__grid *grid);
/* The same for launches that are not seen here: another library's. Alone where there is another context. */
tfm__pocl_order tfm__pocl_begin_external(tfm_context *ctx);
/* `run`: whether the driver took it. */
void tfm__pocl_end(tfm__pocl_order order, bool run);

#endif
