/* Interoperation with OpenCL: contexts and tensors around the caller's OpenCL objects. The only public header with
 * OpenCL types; tfm.h does not include it.
 *
 *     tfm_context_wrap(&ctx, context, device, queue, NULL);
 *     tfm_tensor_wrap(ctx, &x, memory, 0, TFM_F32, 2, (int64_t[]){4, 128}); */
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

/* Makes a tfm_context around the caller's objects. The call retains them, and the last tfm_context_free releases them.
 * `queue` must be an in-order queue of `context` and `device`, because ops rely on the order; NULL makes one. `options`
 * may be NULL; options->profile needs a queue made with CL_QUEUE_PROFILING_ENABLE, options->device is ignored. On
 * failure *out is NULL and nothing stays retained: TFM_ERROR_ARGUMENT for a queue of another context or device,
 * TFM_ERROR_DEVICE for a device that is unusable or not in `context`. */
TFM_API tfm_status tfm_context_wrap(tfm_context **out, cl_context context, cl_device_id device, cl_command_queue queue,
                                    const tfm_context_options *options);

/* Makes `out` a tensor in the caller's buffer, beginning at element `offset`. The call retains the buffer until
 * tfm_tensor_free or the end of the current scope. TFM_ERROR_ARGUMENT if the buffer is too small. Wrap a buffer only
 * once and take parts of it with tfm_tensor_rows: neither the tape nor the ops that refuse overlapping tensors can see
 * that two wrapped tensors share memory. */
TFM_API tfm_status tfm_tensor_wrap(tfm_context *ctx, tfm_tensor *out, cl_mem memory, size_t offset, tfm_dtype dtype,
                                   int rank, const int64_t *dims);

/* The OpenCL objects of a context or a tensor. The context owns them: retain an object that must outlive it. A view
 * returns its whole buffer; the view begins at its `offset`. NULL for NULL, and for an empty tensor. During a call of a
 * model on a fleet, its contexts may temporarily use other queues, on some of a CPU's cores. */
TFM_API cl_context tfm_context_cl(const tfm_context *ctx);
TFM_API cl_device_id tfm_context_cl_device(const tfm_context *ctx);
TFM_API cl_command_queue tfm_context_cl_queue(const tfm_context *ctx);
TFM_API cl_mem tfm_tensor_cl(tfm_tensor x);

#ifdef __cplusplus
}
#endif
#endif
