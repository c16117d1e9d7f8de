/* Interop: tfm on the caller's own OpenCL objects. The only public header that shows OpenCL types. */
#ifndef TFM_OPENCL_H
#define TFM_OPENCL_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>
#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a context around the caller's objects. They are retained, and released by tfm_context_free. `queue` must be
 * an in-order queue of `context` and `device` (an out-of-order one is refused: ops rely on the order); NULL makes one.
 * options->profile needs a queue made with CL_QUEUE_PROFILING_ENABLE. options->device is ignored. */
TFM_API tfm_status tfm_context_wrap(tfm_context **out, cl_context context, cl_device_id device, cl_command_queue queue,
                                    const tfm_context_options *options);

/* A tensor over the caller's buffer, starting `offset` elements into it. The buffer is retained until
 * tfm_tensor_free or the end of the current scope. Its size is checked. Wrap a buffer once, and cut it by tfm_tensor_rows:
 * that two wraps share memory is not seen, neither by ops that refuse it nor by the tape. */
TFM_API tfm_status tfm_tensor_wrap(tfm_context *ctx, tfm_tensor *out, cl_mem memory, size_t offset, tfm_dtype dtype,
                                   int rank, const int64_t *dims);

/* The OpenCL objects under a context or a tensor. Borrowed. */
TFM_API cl_context tfm_context_cl(const tfm_context *ctx);
TFM_API cl_device_id tfm_context_cl_device(const tfm_context *ctx);
TFM_API cl_command_queue tfm_context_cl_queue(const tfm_context *ctx);
TFM_API cl_mem tfm_tensor_cl(tfm_tensor x);

#ifdef __cplusplus
}
#endif
#endif
