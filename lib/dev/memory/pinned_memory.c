/* Pinned host memory, for frequent transfers such as gradients of the all-reduce: the bus runs at full speed, while
 * drivers copy other memory through a small staging buffer. OpenCL provides it as a mapped buffer
 * (CL_MEM_ALLOC_HOST_PTR). CPU devices, and drivers without it, use ordinary memory. */
#include <string.h>
#include "dev/device/context_internal.h"

struct tfm__pinned_memory {
    cl_mem memory; /* NULL: `data` is ordinary memory */
    void *data;
};

/* The mapping, or NULL; a failure does not affect the context. */
static void *map(tfm_context *ctx, cl_mem *memory, size_t bytes) {
    cl_int error;
    *memory = clCreateBuffer(ctx->cl, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, bytes, NULL, &error);
    if (error != CL_SUCCESS) {
        *memory = NULL;
        return NULL;
    }
    void *data = clEnqueueMapBuffer(tfm__queue(ctx), *memory, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, bytes, 0, NULL,
                                    NULL, &error);
    if (error == CL_SUCCESS && data)
        return data;
    clReleaseMemObject(*memory);
    *memory = NULL;
    return NULL;
}

void *tfm__pinned_memory_new(tfm_context *ctx, tfm__pinned_memory **out, size_t bytes) {
    tfm__pinned_memory *r = *out = tfm__alloc(1, sizeof(*r));
    if (!r)
        return NULL;
    const bool own = ctx->status == TFM_OK && ctx->tuning.class != TFM__CLASS_CPU && bytes <= ctx->limits.max_alloc;
    if (own && (r->data = map(ctx, &r->memory, bytes)))
        memset(r->data, 0, bytes);
    else
        r->data = tfm__alloc(bytes, 1);
    if (!r->data)
        tfm__pinned_memory_free(ctx, out);
    return *out ? r->data : NULL;
}

/* The queue is in order: when the unmap runs, earlier commands are done with the memory. */
void tfm__pinned_memory_free(tfm_context *ctx, tfm__pinned_memory **pinned) {
    tfm__pinned_memory *r = *pinned;
    *pinned = NULL;
    if (!r)
        return;
    if (r->memory) {
        clEnqueueUnmapMemObject(tfm__queue(ctx), r->memory, r->data, 0, NULL, NULL);
        clFinish(tfm__queue(ctx));
        clReleaseMemObject(r->memory);
    } else
        free(r->data);
    free(r);
}

bool tfm__pinned_memory_is_mapped(const tfm__pinned_memory *pinned) {
    return pinned->memory;
}
