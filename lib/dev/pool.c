/* The context's memory: blocks in size classes, given back by scope. The queue is in order, so a block may serve a new
 * tensor as soon as its scope is closed, even while kernels that read the old one wait in the queue. */
#include <inttypes.h>
#include <string.h>
#include "dev/cl.h"

/* Four classes an octave: at most a quarter of a block is wasted. */
static int size_class(uint64_t bytes, uint64_t *rounded) {
    uint64_t base = 256;
    for (int octave = 0;; octave++, base *= 2) {
        for (int quarter = 0; quarter < 4; quarter++) {
            const uint64_t size = base + base / 4 * (uint64_t)quarter;
            if (size >= bytes) {
                *rounded = size;
                return octave * 4 + quarter;
            }
        }
    }
}

uint64_t tfm__pool_block(uint64_t bytes) {
    uint64_t rounded;
    size_class(bytes, &rounded);
    return rounded;
}

static void list_push(tfm_buffer **head, tfm_buffer *buffer) {
    buffer->next = *head;
    buffer->link = head;
    if (*head)
        (*head)->link = &buffer->next;
    *head = buffer;
}

static void list_take(tfm_buffer *buffer) {
    *buffer->link = buffer->next;
    if (buffer->next)
        buffer->next->link = buffer->link;
}

static void scope_push(tfm_context *ctx, int depth, tfm_buffer *buffer) {
    buffer->depth = depth;
    list_push(&ctx->scopes[depth], buffer);
}

static void release_memory(tfm_buffer *buffer) {
    clReleaseMemObject(buffer->memory);
    if (!buffer->foreign)
        buffer->ctx->held -= buffer->bytes;
    buffer->memory = NULL;
    list_push(&buffer->ctx->spare, buffer);
}

bool tfm__pool_trim(tfm_context *ctx) {
    bool any = false;
    clFinish(ctx->queue);
    for (int i = 0; i < TFM__SIZE_CLASSES; i++) {
        while (ctx->free[i]) {
            tfm_buffer *buffer = ctx->free[i];
            list_take(buffer);
            release_memory(buffer);
            any = true;
        }
    }
    return any;
}

uint64_t tfm_context_memory(const tfm_context *ctx) {
    return ctx->held_most;
}

static tfm_buffer *buffer_struct(tfm_context *ctx) {
    tfm_buffer *buffer = ctx->spare;
    if (buffer) {
        list_take(buffer);
        buffer->foreign = false;
        return buffer;
    }
    buffer = tfm__alloc(1, sizeof(*buffer));
    if (!buffer) {
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "out of host memory");
        return NULL;
    }
    buffer->ctx = ctx;
    buffer->generation = 1;
    buffer->all = ctx->buffers;
    ctx->buffers = buffer;
    return buffer;
}

/* Some drivers promise more than the device has, and end the program where they cannot keep it. */
static bool has_room(const tfm_context *ctx, size_t bytes) {
    const uint64_t all = ctx->info.memory_bytes;
    return all == 0 || (ctx->held <= all && bytes <= all - ctx->held);
}

static tfm_buffer *buffer_take(tfm_context *ctx, size_t bytes) {
    if (bytes > ctx->limits.max_alloc) {
        tfm__context_fail(ctx, TFM_ERROR_MEMORY,
                          "%s takes at most %" PRIu64 " bytes in one allocation, %zu asked: use a smaller batch or model",
                          ctx->info.name, ctx->limits.max_alloc, bytes);
        return NULL;
    }
    uint64_t block;
    int class = size_class(bytes, &block);
    const size_t rounded = block > ctx->limits.max_alloc ? bytes : (size_t)block;
    /* A block up to twice as large serves too: batches shrink and grow, and the pool should stop growing. */
    for (int i = class > 0 ? class - 1 : 0; i <= class + 4 && i < TFM__SIZE_CLASSES; i++) {
        tfm_buffer *buffer = ctx->free[i];
        if (buffer && buffer->bytes >= bytes) { /* the class below has blocks cut at the largest allocation */
            list_take(buffer);
            scope_push(ctx, ctx->depth, buffer);
            return buffer;
        }
    }
    if (!has_room(ctx, rounded) && !(tfm__pool_trim(ctx) && has_room(ctx, rounded))) {
        tfm__context_fail(ctx, TFM_ERROR_MEMORY,
                          "%s has no room for %zu more bytes (it has %" PRIu64 ", and %" PRIu64
                          " are in use): use a smaller batch or model",
                          ctx->info.name, rounded, ctx->info.memory_bytes, (uint64_t)ctx->held);
        return NULL;
    }
    cl_int error;
    cl_mem memory = clCreateBuffer(ctx->cl, CL_MEM_READ_WRITE, rounded, NULL, &error);
    if (error != CL_SUCCESS && tfm__pool_trim(ctx))
        memory = clCreateBuffer(ctx->cl, CL_MEM_READ_WRITE, rounded, NULL, &error);
    if (error != CL_SUCCESS) {
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "%s has no room for %zu more bytes (%s): use a smaller batch or model",
                          ctx->info.name, rounded, tfm__cl_error_name(error));
        return NULL;
    }
    tfm_buffer *buffer = buffer_struct(ctx);
    if (!buffer) {
        clReleaseMemObject(memory);
        return NULL;
    }
    buffer->memory = memory;
    buffer->bytes = rounded;
    ctx->held += rounded;
    if (ctx->held_most < ctx->held)
        ctx->held_most = ctx->held;
    scope_push(ctx, ctx->depth, buffer);
    return buffer;
}

static void buffer_give_back(tfm_buffer *buffer) {
    tfm_context *ctx = buffer->ctx;
    list_take(buffer);
    if (buffer->pins > 0) {
        buffer->depth = TFM__PINNED;
        list_push(&ctx->pinned, buffer);
        return;
    }
    buffer->generation++;
    buffer->mark = 0;
    if (buffer->foreign) {
        release_memory(buffer);
        return;
    }
    uint64_t rounded;
    int class = size_class(buffer->bytes, &rounded);
    list_push(&ctx->free[rounded > buffer->bytes && class > 0 ? class - 1 : class], buffer);
}

/* Elements of dims, or 0 if a dimension is below 1 or the bytes overflow. */
static size_t checked_count(tfm_dtype dtype, int rank, const int64_t *dims) {
    if (rank < 1 || rank > TFM_MAX_RANK)
        return 0;
    size_t count = 1;
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 1 || (uint64_t)dims[i] > SIZE_MAX / 2 / tfm_dtype_size(dtype) / count)
            return 0;
        count *= (size_t)dims[i];
    }
    return count;
}

static tfm_status place(tfm_context *ctx, tfm_tensor *out, tfm_buffer *buffer, tfm_dtype dtype, int rank,
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

tfm_status tfm_tensor_new(tfm_context *ctx, tfm_tensor *out, tfm_dtype dtype, int rank, const int64_t *dims) {
    if (tfm__context_sticky(ctx) != TFM_OK) {
        *out = (tfm_tensor){0};
        return ctx->status;
    }
    size_t count = checked_count(dtype, rank, dims);
    if (count == 0)
        return tfm__context_fail(ctx, TFM_ERROR_ARGUMENT,
                                 "a tensor needs 1 to %d dimensions of at least 1 that fit in memory", TFM_MAX_RANK);
    return place(ctx, out, buffer_take(ctx, count * tfm_dtype_size(dtype)), dtype, rank, dims);
}

tfm_status tfm__tensor_new_lasting(tfm_context *ctx, tfm_tensor *out, tfm_dtype dtype, int rank, const int64_t *dims) {
    if (tfm_tensor_new(ctx, out, dtype, rank, dims) == TFM_OK) {
        list_take(out->buffer);
        scope_push(ctx, 0, out->buffer);
    }
    return ctx->status;
}

tfm_status tfm_tensor_wrap(tfm_context *ctx, tfm_tensor *out, cl_mem memory, size_t offset, tfm_dtype dtype, int rank,
                           const int64_t *dims) {
    *out = (tfm_tensor){0};
    if (tfm__context_sticky(ctx) != TFM_OK)
        return ctx->status;
    size_t count = checked_count(dtype, rank, dims), bytes = 0;
    if (count == 0 || offset > SIZE_MAX / 2 / tfm_dtype_size(dtype))
        return tfm__context_fail(ctx, TFM_ERROR_ARGUMENT, "tensor_wrap: bad rank, dimensions or offset");
    cl_int error = clGetMemObjectInfo(memory, CL_MEM_SIZE, sizeof(bytes), &bytes, NULL);
    if (error != CL_SUCCESS)
        return tfm__cl_fail(ctx, error, "tensor_wrap: the cl_mem is not one");
    if (bytes / tfm_dtype_size(dtype) < offset + count)
        return tfm__context_fail(ctx, TFM_ERROR_ARGUMENT,
                                 "tensor_wrap: the buffer holds %zu bytes, the tensor ends at element %zu of %s", bytes,
                                 offset + count, tfm_dtype_name(dtype));
    tfm_buffer *buffer = buffer_struct(ctx);
    if (!buffer)
        return ctx->status;
    clRetainMemObject(memory);
    buffer->memory = memory;
    buffer->bytes = bytes;
    buffer->foreign = true;
    scope_push(ctx, ctx->depth, buffer);
    place(ctx, out, buffer, dtype, rank, dims);
    out->offset = offset;
    return TFM_OK;
}

cl_mem tfm_tensor_cl(tfm_tensor x) {
    return x.buffer ? x.buffer->memory : NULL;
}

bool tfm__tensor_alive(const tfm_context *ctx, tfm_tensor x) {
    return x.buffer && x.buffer->ctx == ctx && x.buffer->generation == x.generation;
}

bool tfm__tensor_fits(tfm_tensor x) {
    const size_t count = checked_count(x.dtype, x.rank, x.dims), room = x.buffer->bytes / tfm_dtype_size(x.dtype);
    return count > 0 && count <= room && x.offset <= room - count;
}

void tfm_tensor_free(tfm_context *ctx, tfm_tensor *tensor) {
    if (tensor && tfm__tensor_alive(ctx, *tensor))
        buffer_give_back(tensor->buffer);
    if (tensor)
        *tensor = (tfm_tensor){0};
}

void tfm__tensor_keep(tfm_context *ctx, tfm_tensor x) {
    if (!tfm__tensor_alive(ctx, x) || x.buffer->depth <= 0)
        return;
    list_take(x.buffer);
    scope_push(ctx, 0, x.buffer);
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
        buffer_give_back(x.buffer);
}

bool tfm__tensor_pinned(tfm_tensor x) {
    return x.buffer->pins > 0;
}

uint64_t *tfm__tensor_mark(tfm_tensor x) {
    return &x.buffer->mark;
}

/* Scopes open and close in a failed context too, so that callers stay balanced. */
tfm_status tfm_scope_open(tfm_context *ctx) {
    if (ctx->depth + 1 >= TFM__MAX_SCOPES)
        return tfm__context_fail(ctx, TFM_ERROR_ARGUMENT, "scope_open: %d scopes are open: one is never closed",
                                 ctx->depth);
    ctx->depth++;
    return ctx->status;
}

tfm_status tfm_scope_close(tfm_context *ctx, size_t count, tfm_tensor *const *keep) {
    if (ctx->depth == 0)
        return tfm__context_fail(ctx, TFM_ERROR_ARGUMENT, "scope_close: no scope is open");
    for (size_t i = 0; i < count; i++) {
        /* An output that the caller gave may lie in a scope further out: it stays there. */
        if (keep[i] && tfm__tensor_alive(ctx, *keep[i]) && keep[i]->buffer->depth == ctx->depth) {
            list_take(keep[i]->buffer);
            scope_push(ctx, ctx->depth - 1, keep[i]->buffer);
        }
    }
    while (ctx->scopes[ctx->depth])
        buffer_give_back(ctx->scopes[ctx->depth]);
    ctx->depth--;
    return ctx->status;
}

void tfm__pool_free(tfm_context *ctx) {
    while (ctx->buffers) {
        tfm_buffer *buffer = ctx->buffers;
        ctx->buffers = buffer->all;
        if (buffer->memory)
            clReleaseMemObject(buffer->memory);
        free(buffer);
    }
}
