/* Transfers between host and device. */
#include <string.h>
#include "dev/device/context_internal.h"
#include "dev/memory/memory_pool.h"
#include "dev/pocl/cpu_partition.h"

static size_t byte_count(tfm_tensor x) {
    return tfm_tensor_count(x) * tfm_dtype_size(x.dtype);
}

static size_t byte_offset(tfm_tensor x) {
    return x.offset * tfm_dtype_size(x.dtype);
}

static tfm_status check(tfm_context *ctx, const char *what, tfm_tensor x) {
    if (tfm__context_sticky(ctx) != TFM_OK)
        return ctx->status;
    if (!tfm__tensor_alive(ctx, x))
        return tfm__context_fail(ctx, TFM_ERROR_ARGUMENT,
                                 "%s: the tensor is empty, of another context, or used after its scope was closed",
                                 what);
    if (!tfm__tensor_fits(x))
        return tfm__context_fail(ctx, TFM_ERROR_ARGUMENT, "%s: the tensor does not lie within its memory", what);
    return TFM_OK;
}

tfm_status tfm_tensor_write(tfm_context *ctx, tfm_tensor x, const void *host) {
    if (TFM__NEEDS_ON(ctx, "tensor_write", host) != TFM_OK)
        return tfm_context_status(ctx);
    if (check(ctx, "tensor_write", x) != TFM_OK || byte_count(x) == 0)
        return ctx->status;
    ctx->waits++;
    cl_int error = clEnqueueWriteBuffer(tfm__queue(ctx), x.buffer->memory, CL_TRUE, byte_offset(x), byte_count(x), host,
                                        0, NULL, NULL);
    return error == CL_SUCCESS ? ctx->status : tfm__cl_fail_wait(ctx, error, "tensor_write: clEnqueueWriteBuffer");
}

void *tfm__tensor_map(tfm_context *ctx, tfm_tensor x) {
    cl_int error = CL_SUCCESS;
    void *memory = NULL;
    const bool shared = ctx->tuning.class == TFM__CLASS_CPU && ctx->capabilities.has & TFM__HAS_UNIFIED_MEMORY;
    if (!shared || check(ctx, "tensor_map", x) != TFM_OK || byte_count(x) == 0)
        return NULL;
    ctx->waits++;
    memory = clEnqueueMapBuffer(tfm__queue(ctx), x.buffer->memory, CL_TRUE, CL_MAP_WRITE_INVALIDATE_REGION,
                                byte_offset(x), byte_count(x), 0, NULL, NULL, &error);
    return error == CL_SUCCESS ? memory : NULL;
}

tfm_status tfm__tensor_unmap(tfm_context *ctx, tfm_tensor x, void *memory) {
    const cl_int error = clEnqueueUnmapMemObject(tfm__queue(ctx), x.buffer->memory, memory, 0, NULL, NULL);
    return error == CL_SUCCESS ? ctx->status : tfm__cl_fail(ctx, error, "tensor_unmap: clEnqueueUnmapMemObject");
}

tfm_status tfm_tensor_read(tfm_context *ctx, void *host, tfm_tensor x) {
    if (TFM__NEEDS_ON(ctx, "tensor_read", host) != TFM_OK)
        return tfm_context_status(ctx);
    if (check(ctx, "tensor_read", x) != TFM_OK || byte_count(x) == 0)
        return ctx->status;
    ctx->waits++;
    cl_int error = clEnqueueReadBuffer(tfm__queue(ctx), x.buffer->memory, CL_TRUE, byte_offset(x), byte_count(x), host,
                                       0, NULL, NULL);
    if (error != CL_SUCCESS)
        return tfm__cl_fail_wait(ctx, error, "tensor_read: clEnqueueReadBuffer");
    tfm__cpu_partition_update(ctx);
    return ctx->status;
}

tfm_status tfm__tensor_copy(tfm_context *ctx, tfm_tensor to, tfm_tensor from) {
    if (check(ctx, "tensor_copy", to) != TFM_OK || check(ctx, "tensor_copy", from) != TFM_OK)
        return ctx->status;
    if (byte_count(to) != byte_count(from))
        return tfm__context_fail(ctx, TFM_ERROR_ARGUMENT, "tensor_copy: %zu bytes from a tensor of %zu", byte_count(to),
                                 byte_count(from));
    if (byte_count(to) == 0)
        return TFM_OK;
    ctx->launches++;
    cl_int error = clEnqueueCopyBuffer(tfm__queue(ctx), from.buffer->memory, to.buffer->memory, byte_offset(from),
                                       byte_offset(to), byte_count(to), 0, NULL, NULL);
    return error == CL_SUCCESS ? ctx->status : tfm__cl_fail(ctx, error, "tensor_copy: clEnqueueCopyBuffer");
}

tfm_status tfm__tensor_fill(tfm_context *ctx, tfm_tensor x, const void *element) {
    if (check(ctx, "tensor_fill", x) != TFM_OK || byte_count(x) == 0)
        return ctx->status;
    ctx->launches++;
    cl_int error = clEnqueueFillBuffer(tfm__queue(ctx), x.buffer->memory, element, tfm_dtype_size(x.dtype),
                                       byte_offset(x), byte_count(x), 0, NULL, NULL);
    return error == CL_SUCCESS ? ctx->status : tfm__cl_fail(ctx, error, "tensor_fill: clEnqueueFillBuffer");
}

struct tfm__async_read {
    cl_event event;
    void *host, *own; /* destination; `own` is the same if this read frees it, else NULL */
};

static tfm_status enqueue_read(tfm_context *ctx, tfm__async_read **out, void *host, void *own, tfm_tensor x) {
    tfm__async_read *read = tfm__alloc(1, sizeof(*read));
    if (!read || !host) {
        free(read);
        free(own);
        return tfm__context_fail(ctx, TFM_ERROR_MEMORY, "out of host memory for a read of %zu bytes", byte_count(x));
    }
    *read = (struct tfm__async_read){.host = host, .own = own};
    cl_int error = clEnqueueReadBuffer(tfm__queue(ctx), x.buffer->memory, CL_FALSE, byte_offset(x), byte_count(x), host,
                                       0, NULL, &read->event);
    if (error != CL_SUCCESS) {
        free(own);
        free(read);
        return tfm__cl_fail(ctx, error, "read_start: clEnqueueReadBuffer");
    }
    clFlush(tfm__queue(ctx));
    *out = read;
    return TFM_OK;
}

tfm_status tfm__async_read_start(tfm_context *ctx, tfm__async_read **out, tfm_tensor x) {
    *out = NULL;
    if (check(ctx, "read_start", x) != TFM_OK)
        return ctx->status;
    void *own = tfm__alloc(byte_count(x), 1);
    return enqueue_read(ctx, out, own, own, x);
}

tfm_status tfm__async_read_into(tfm_context *ctx, tfm__async_read **out, void *host, tfm_tensor x) {
    *out = NULL;
    return check(ctx, "read_into", x) == TFM_OK ? enqueue_read(ctx, out, host, NULL, x) : ctx->status;
}

bool tfm__async_read_done(const tfm__async_read *read) {
    cl_int state = CL_QUEUED;
    const cl_int error = clGetEventInfo(read->event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(state), &state, NULL);
    return error != CL_SUCCESS || state <= CL_COMPLETE; /* negative states are errors, which the wait reports */
}

const void *tfm__async_read_wait(tfm_context *ctx, tfm__async_read *read) {
    if (!read || ctx->status != TFM_OK)
        return NULL;
    ctx->waits++;
    tfm__queue(ctx); /* the device runs meanwhile */
    cl_int error = clWaitForEvents(1, &read->event);
    if (error != CL_SUCCESS) {
        tfm__cl_fail_wait(ctx, error, "read_wait: clWaitForEvents");
        return NULL;
    }
    tfm__cpu_partition_update(ctx);
    return read->host;
}

void tfm__async_read_free(tfm_context *ctx, tfm__async_read **pointer) {
    tfm__async_read *read = *pointer;
    if (!read)
        return;
    *pointer = NULL;
    /* The driver may still write to the host memory, so wait regardless of other failures. If the wait fails too, leak
     * the memory. */
    if (clWaitForEvents(1, &read->event) == CL_SUCCESS || clFinish(tfm__queue(ctx)) == CL_SUCCESS)
        free(read->own);
    clReleaseEvent(read->event);
    free(read);
}
