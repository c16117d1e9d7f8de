/* Tensors on pool blocks or external memory, and memory scopes. */
#include <string.h>
#include "dev/device/context_internal.h"
#include "dev/memory/memory_pool.h"

static const struct {
    const char *name;
    size_t bytes;
} DTYPES[] = {
    [TFM_F32] = {"F32", 4}, [TFM_F16] = {"F16", 2}, [TFM_BF16] = {"BF16", 2},
    [TFM_I32] = {"I32", 4}, [TFM_U8] = {"U8", 1},   [TFM_I8] = {"I8", 1},
};

size_t tfm_dtype_size(tfm_dtype dtype) {
    return (size_t)dtype < TFM__COUNT(DTYPES) ? DTYPES[dtype].bytes : 1;
}

const char *tfm_dtype_name(tfm_dtype dtype) {
    return (size_t)dtype < TFM__COUNT(DTYPES) ? DTYPES[dtype].name : "unknown dtype";
}

size_t tfm_tensor_count(tfm_tensor x) {
    size_t count = x.rank > 0 ? 1 : 0;
    for (int i = 0; i < x.rank; i++)
        count *= (size_t)x.dims[i];
    return count;
}

/* Elements of dims; false for an invalid dtype, a negative dimension, or overflow of the bytes. The overflow check
 * ignores dims of 0, because strides are products of dims and must not overflow either. */
static bool checked_count(size_t *count, tfm_dtype dtype, int rank, const int64_t *dims) {
    size_t product = 1;
    bool none = false;
    if ((unsigned)dtype > TFM_I8 || rank < 1 || rank > TFM_MAX_RANK)
        return false;
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 0 || (uint64_t)dims[i] > SIZE_MAX / 2 / tfm_dtype_size(dtype) / product)
            return false;
        none |= dims[i] == 0;
        product *= dims[i] ? (size_t)dims[i] : 1;
    }
    *count = none ? 0 : product;
    return true;
}

static tfm_status init_tensor(tfm_context *ctx, tfm_tensor *out, tfm_buffer *buffer, tfm_dtype dtype, int rank,
                              const int64_t *dims) {
    *out = (tfm_tensor){0};
    if (!buffer)
        return ctx->status;
    out->buffer = buffer;
    out->generation = buffer->generation;
    out->dtype = dtype;
    out->rank = rank;
    memcpy(out->dims, dims, (size_t)rank * sizeof(*dims));
    return TFM_OK;
}

tfm_status tfm__tensor_begin(tfm_context *ctx, const char *call, tfm_tensor *out) {
    if (out)
        *out = (tfm_tensor){0};
    return TFM__NEEDS_ON(ctx, call, out);
}

tfm_status tfm_tensor_new(tfm_context *ctx, tfm_tensor *out, tfm_dtype dtype, int rank, const int64_t *dims) {
    if (tfm__tensor_begin(ctx, "tensor_new", out) != TFM_OK || TFM__NEEDS_ON(ctx, "tensor_new", dims) != TFM_OK)
        return tfm_context_status(ctx);
    size_t count;
    if (!checked_count(&count, dtype, rank, dims))
        return tfm__context_fail(ctx, TFM_ERROR_ARGUMENT,
                                 "a tensor needs a dtype that there is, and 1 to %d dimensions, none of them negative, "
                                 "that fit in memory",
                                 TFM_MAX_RANK);
    return init_tensor(ctx, out, tfm__pool_alloc(ctx, count * tfm_dtype_size(dtype)), dtype, rank, dims);
}

tfm_status tfm__tensor_new_persistent(tfm_context *ctx, tfm_tensor *out, tfm_dtype dtype, int rank,
                                      const int64_t *dims) {
    if (tfm_tensor_new(ctx, out, dtype, rank, dims) == TFM_OK) {
        tfm__pool_list_remove(out->buffer);
        tfm__pool_scope_add(ctx, 0, out->buffer);
    }
    return ctx->status;
}

tfm_status tfm_tensor_wrap(tfm_context *ctx, tfm_tensor *out, cl_mem memory, size_t offset, tfm_dtype dtype, int rank,
                           const int64_t *dims) {
    if (tfm__tensor_begin(ctx, "tensor_wrap", out) != TFM_OK ||
        TFM__NEEDS_ON(ctx, "tensor_wrap", memory, dims) != TFM_OK)
        return tfm_context_status(ctx);
    size_t count, bytes = 0;
    if (!checked_count(&count, dtype, rank, dims) || offset > SIZE_MAX / 2 / tfm_dtype_size(dtype))
        return tfm__context_fail(ctx, TFM_ERROR_ARGUMENT, "tensor_wrap: bad dtype, rank, dimensions or offset");
    cl_int error = clGetMemObjectInfo(memory, CL_MEM_SIZE, sizeof(bytes), &bytes, NULL);
    if (error != CL_SUCCESS)
        return tfm__cl_fail(ctx, error, "tensor_wrap: the cl_mem is invalid");
    if (bytes / tfm_dtype_size(dtype) < offset + count)
        return tfm__context_fail(ctx, TFM_ERROR_ARGUMENT,
                                 "tensor_wrap: the buffer holds %zu bytes, the tensor ends at element %zu of %s", bytes,
                                 offset + count, tfm_dtype_name(dtype));
    error = clRetainMemObject(memory);
    if (error != CL_SUCCESS)
        return tfm__cl_fail(ctx, error, "tensor_wrap: clRetainMemObject");
    tfm_buffer *buffer = tfm__pool_new_buffer(ctx);
    if (!buffer) {
        clReleaseMemObject(memory);
        return ctx->status;
    }
    buffer->memory = memory;
    buffer->bytes = bytes;
    buffer->external = true;
    tfm__pool_scope_add(ctx, ctx->depth, buffer);
    init_tensor(ctx, out, buffer, dtype, rank, dims);
    out->offset = offset;
    return TFM_OK;
}

bool tfm__tensor_open_shared(tfm_context *ctx, tfm_tensor *out, tfm__shared_buffer_key key, tfm_dtype dtype, int rank,
                             const int64_t *dims) {
    cl_mem memory;
    size_t bytes;
    *out = (tfm_tensor){0};
    tfm__shared_buffer *shared = ctx->status == TFM_OK ? tfm__shared_buffer_find(ctx->cl, key, &memory, &bytes) : NULL;
    if (!shared)
        return false;
    size_t count;
    const bool fits = checked_count(&count, dtype, rank, dims) && count > 0 && count <= bytes / tfm_dtype_size(dtype);
    tfm_buffer *buffer = fits ? tfm__pool_new_buffer(ctx) : NULL;
    if (!buffer) {
        tfm__shared_buffer_drop(shared);
        clReleaseMemObject(memory);
        return false;
    }
    buffer->memory = memory;
    buffer->bytes = bytes;
    buffer->external = true;
    buffer->shared = shared;
    tfm__pool_scope_add(ctx, 0, buffer);
    return init_tensor(ctx, out, buffer, dtype, rank, dims) == TFM_OK;
}

void tfm__tensor_publish(tfm_context *ctx, tfm_tensor x, tfm__shared_buffer_key key) {
    if (!tfm__tensor_alive(ctx, x) || x.buffer->shared)
        return;
    x.buffer->shared = tfm__shared_buffer_add(ctx->cl, key, x.buffer->memory, x.buffer->bytes);
    if (x.buffer->shared)
        ctx->published_bytes += x.buffer->bytes;
}

cl_mem tfm_tensor_cl(tfm_tensor x) {
    return x.buffer ? x.buffer->memory : NULL;
}

bool tfm__tensor_alive(const tfm_context *ctx, tfm_tensor x) {
    return x.buffer && x.buffer->ctx == ctx && x.buffer->generation == x.generation;
}

bool tfm__tensor_fits(tfm_tensor x) {
    const size_t capacity = x.buffer->bytes / tfm_dtype_size(x.dtype);
    size_t count;
    return checked_count(&count, x.dtype, x.rank, x.dims) && count <= capacity && x.offset <= capacity - count;
}

void tfm_tensor_free(tfm_context *ctx, tfm_tensor *tensor) {
    if (!ctx)
        return;
    if (tensor && tfm__tensor_alive(ctx, *tensor))
        tfm__pool_release(tensor->buffer);
    if (tensor)
        *tensor = (tfm_tensor){0};
}

void tfm__tensor_persist(tfm_context *ctx, tfm_tensor x) {
    if (!tfm__tensor_alive(ctx, x) || x.buffer->depth <= 0)
        return;
    tfm__pool_list_remove(x.buffer);
    tfm__pool_scope_add(ctx, 0, x.buffer);
}

void tfm__tensor_pin(tfm_context *ctx, tfm_tensor x) {
    if (tfm__tensor_alive(ctx, x))
        x.buffer->pins++;
}

void tfm__tensor_unpin(tfm_context *ctx, tfm_tensor x) {
    if (!tfm__tensor_alive(ctx, x) || x.buffer->pins == 0)
        return;
    x.buffer->pins--;
    if (x.buffer->pins == 0 && x.buffer->depth == TFM__PINNED)
        tfm__pool_release(x.buffer);
}

bool tfm__tensor_pinned(tfm_tensor x) {
    return x.buffer->pins > 0;
}

uint64_t *tfm__tensor_tag(tfm_tensor x) {
    return &x.buffer->tag;
}

/* Scopes open and close in a failed context too, so that callers stay balanced. */
tfm_status tfm_scope_open(tfm_context *ctx) {
    if (!ctx)
        return tfm__context_sticky(ctx);
    if (ctx->depth + 1 >= TFM__MAX_SCOPES)
        return tfm__context_fail(ctx, TFM_ERROR_ARGUMENT, "scope_open: %d scopes are open: close each scope",
                                 ctx->depth);
    ctx->depth++;
    return ctx->status;
}

tfm_status tfm_scope_close(tfm_context *ctx, size_t count, tfm_tensor *const *keep) {
    if (!ctx)
        return tfm__context_sticky(ctx);
    if (ctx->depth == 0)
        return tfm__context_fail(ctx, TFM_ERROR_ARGUMENT, "scope_close: no scope is open");
    for (size_t i = 0; keep && i < count; i++) {
        /* A caller's output may belong to an outer scope: it stays there. */
        if (keep[i] && tfm__tensor_alive(ctx, *keep[i]) && keep[i]->buffer->depth == ctx->depth) {
            tfm__pool_list_remove(keep[i]->buffer);
            tfm__pool_scope_add(ctx, ctx->depth - 1, keep[i]->buffer);
        }
    }
    while (ctx->scopes[ctx->depth])
        tfm__pool_release(ctx->scopes[ctx->depth]);
    ctx->depth--;
    return count > 0 ? TFM__NEEDS_ON(ctx, "scope_close", keep) : ctx->status;
}
