/* The context's memory: blocks in size classes, given back by scope. The queue is in order, so a block may serve a new
 * tensor as soon as its scope is closed, even while kernels that read the old one wait in the queue. */
#include <inttypes.h>
#include <string.h>
#include "dev/cl.h"
#include "dev/recording.h"

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
    if (buffer->shared && !buffer->foreign)
        buffer->ctx->offered -= buffer->bytes;
    if (buffer->shared)
        tfm__shared_drop(buffer->shared);
    buffer->shared = NULL;
    clReleaseMemObject(buffer->memory);
    if (!buffer->foreign)
        buffer->ctx->held -= buffer->bytes;
    buffer->memory = NULL;
    list_push(&buffer->ctx->spare, buffer);
}

void tfm__pool_join(tfm_context *ctx, tfm_buffer **others) {
    for (int i = 0; i < TFM__SIZE_CLASSES; i++)
        while (others[i]) {
            tfm_buffer *buffer = others[i];
            list_take(buffer);
            list_push(&ctx->free[i], buffer);
        }
}

bool tfm__pool_trim(tfm_context *ctx) {
    bool any = false;
    tfm__recording_give_up(ctx); /* its blocks may be all that there are */
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
    return ctx ? ctx->held_most : 0;
}

static tfm_buffer *buffer_struct(tfm_context *ctx) {
    tfm_buffer *buffer = ctx->spare;
    if (buffer) {
        list_take(buffer);
        buffer->foreign = false;
        buffer->pages = NULL;
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

static bool fits(uint64_t bytes, uint64_t used, uint64_t all) {
    return all == 0 || (used <= all && bytes <= all - used);
}

/* Some drivers promise more than the device has, and end the program where they cannot keep it. What others have
 * offered is on the device too, also after they are gone; the caller's limit is on the context's own. */
static bool has_room(const tfm_context *ctx, size_t bytes) {
    const uint64_t others = tfm__shared_bytes(ctx->cl) - ctx->offered;
    return fits(bytes, ctx->held, ctx->room) && fits(bytes, ctx->held + others, ctx->info.memory_bytes);
}

static void no_room(tfm_context *ctx, size_t bytes) {
    const bool limited = !fits(bytes, ctx->held, ctx->room) && ctx->room != ctx->info.memory_bytes;
    const uint64_t others = limited ? 0 : tfm__shared_bytes(ctx->cl) - ctx->offered;
    tfm__context_fail(ctx, TFM_ERROR_MEMORY,
                      "%s has no room for %zu more bytes (it has %" PRIu64 "%s, and %" PRIu64
                      " are in use): use a smaller batch or model",
                      ctx->info.name, bytes, limited ? ctx->room : ctx->info.memory_bytes,
                      limited ? " by the context's memory_limit" : "", ctx->held + others);
}

/* Drivers say "out of resources" of a device that is full, and after a kernel that crashed. */
static void buffer_refused(tfm_context *ctx, size_t bytes, cl_int error) {
    const tfm_status status = error == CL_INVALID_BUFFER_SIZE ? TFM_ERROR_MEMORY : tfm__cl_status(ctx, error);
    if (status == TFM_ERROR_MEMORY)
        tfm__context_fail(ctx, status, "%s has no room for %zu more bytes (%s): use a smaller batch or model",
                          ctx->info.name, bytes, tfm__cl_error_name(error));
    else
        tfm__context_fail(ctx, status, "%s gave no buffer of %zu bytes: %s (%d)%s", ctx->info.name, bytes,
                          tfm__cl_error_name(error), (int)error, tfm__cl_advice(status, error));
}

/* A block up to twice as large serves too: batches shrink and grow, and the pool should stop growing. */
static tfm_buffer *free_block(tfm_buffer *const *lists, int class, size_t bytes) {
    for (int i = class > 0 ? class - 1 : 0; i <= class + 4 && i < TFM__SIZE_CLASSES; i++)
        if (lists[i] && lists[i]->bytes >= bytes) /* the class below has blocks cut at the largest allocation */
            return lists[i];
    return NULL;
}

static tfm_buffer *buffer_take(tfm_context *ctx, size_t bytes) {
    if (bytes > ctx->limits.max_alloc) {
        tfm__context_fail(ctx, TFM_ERROR_MEMORY,
                          "%s takes at most %" PRIu64
                          " bytes in one allocation, %zu asked: use a smaller batch or model",
                          ctx->info.name, ctx->limits.max_alloc, bytes);
        return NULL;
    }
    uint64_t block;
    int class = size_class(bytes, &block);
    const size_t rounded = block > ctx->limits.max_alloc ? bytes : (size_t)block;
    /* Those of a recording come first: others that it takes are its own from then on. */
    tfm_buffer *free_one = ctx->recording ? free_block(tfm__recording_blocks(ctx->recording), class, bytes) : NULL;
    if (!free_one)
        free_one = free_block(ctx->free, class, bytes);
    if (free_one) {
        list_take(free_one);
        scope_push(ctx, ctx->depth, free_one);
        return free_one;
    }
    if (!has_room(ctx, rounded) && !(tfm__pool_trim(ctx) && has_room(ctx, rounded))) {
        no_room(ctx, rounded);
        return NULL;
    }
    cl_int error;
    cl_mem memory = clCreateBuffer(ctx->cl, CL_MEM_READ_WRITE, rounded, NULL, &error);
    if (error != CL_SUCCESS && tfm__pool_trim(ctx))
        memory = clCreateBuffer(ctx->cl, CL_MEM_READ_WRITE, rounded, NULL, &error);
    if (error != CL_SUCCESS) {
        buffer_refused(ctx, rounded, error);
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
    if (buffer->foreign || buffer->shared) {
        release_memory(buffer);
        return;
    }
    uint64_t rounded;
    int class = size_class(buffer->bytes, &rounded);
    tfm_buffer **lists = ctx->recording ? tfm__recording_blocks(ctx->recording) : ctx->free;
    list_push(&lists[rounded > buffer->bytes && class > 0 ? class - 1 : class], buffer);
}

/* Elements of dims; false if a dimension is negative or the bytes overflow. That is asked of the dims that are not 0,
 * so that strides, which are products of some dims, do not overflow either. */
static bool checked_count(size_t *count, tfm_dtype dtype, int rank, const int64_t *dims) {
    size_t product = 1;
    bool none = false;
    if (rank < 1 || rank > TFM_MAX_RANK)
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
                                 "a tensor needs 1 to %d dimensions, none of them negative, that fit in memory",
                                 TFM_MAX_RANK);
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
    if (tfm__tensor_begin(ctx, "tensor_wrap", out) != TFM_OK ||
        TFM__NEEDS_ON(ctx, "tensor_wrap", memory, dims) != TFM_OK)
        return tfm_context_status(ctx);
    size_t count, bytes = 0;
    if (!checked_count(&count, dtype, rank, dims) || offset > SIZE_MAX / 2 / tfm_dtype_size(dtype))
        return tfm__context_fail(ctx, TFM_ERROR_ARGUMENT, "tensor_wrap: bad rank, dimensions or offset");
    cl_int error = clGetMemObjectInfo(memory, CL_MEM_SIZE, sizeof(bytes), &bytes, NULL);
    if (error != CL_SUCCESS)
        return tfm__cl_fail(ctx, error, "tensor_wrap: the cl_mem is not one");
    if (bytes / tfm_dtype_size(dtype) < offset + count)
        return tfm__context_fail(ctx, TFM_ERROR_ARGUMENT,
                                 "tensor_wrap: the buffer holds %zu bytes, the tensor ends at element %zu of %s", bytes,
                                 offset + count, tfm_dtype_name(dtype));
    error = clRetainMemObject(memory);
    if (error != CL_SUCCESS)
        return tfm__cl_fail(ctx, error, "tensor_wrap: clRetainMemObject");
    tfm_buffer *buffer = buffer_struct(ctx);
    if (!buffer) {
        clReleaseMemObject(memory);
        return ctx->status;
    }
    buffer->memory = memory;
    buffer->bytes = bytes;
    buffer->foreign = true;
    scope_push(ctx, ctx->depth, buffer);
    place(ctx, out, buffer, dtype, rank, dims);
    out->offset = offset;
    return TFM_OK;
}

bool tfm__tensor_share(tfm_context *ctx, tfm_tensor *out, tfm__shared_key key, tfm_dtype dtype, int rank,
                       const int64_t *dims) {
    cl_mem memory;
    size_t bytes;
    *out = (tfm_tensor){0};
    tfm__shared *shared = ctx->status == TFM_OK ? tfm__shared_find(ctx->cl, key, &memory, &bytes) : NULL;
    if (!shared)
        return false;
    size_t count;
    const bool fits = checked_count(&count, dtype, rank, dims) && count > 0 && count <= bytes / tfm_dtype_size(dtype);
    tfm_buffer *buffer = fits ? buffer_struct(ctx) : NULL;
    if (!buffer) {
        tfm__shared_drop(shared);
        clReleaseMemObject(memory);
        return false;
    }
    buffer->memory = memory;
    buffer->bytes = bytes;
    buffer->foreign = true;
    buffer->shared = shared;
    scope_push(ctx, 0, buffer);
    return place(ctx, out, buffer, dtype, rank, dims) == TFM_OK;
}

void tfm__tensor_offer(tfm_context *ctx, tfm_tensor x, tfm__shared_key key) {
    if (!tfm__tensor_alive(ctx, x) || x.buffer->shared)
        return;
    x.buffer->shared = tfm__shared_add(ctx->cl, key, x.buffer->memory, x.buffer->bytes);
    if (x.buffer->shared)
        ctx->offered += x.buffer->bytes;
}

cl_mem tfm_tensor_cl(tfm_tensor x) {
    return x.buffer ? x.buffer->memory : NULL;
}

bool tfm__tensor_alive(const tfm_context *ctx, tfm_tensor x) {
    return x.buffer && x.buffer->ctx == ctx && x.buffer->generation == x.generation;
}

bool tfm__tensor_fits(tfm_tensor x) {
    const size_t room = x.buffer->bytes / tfm_dtype_size(x.dtype);
    size_t count;
    return checked_count(&count, x.dtype, x.rank, x.dims) && count <= room && x.offset <= room - count;
}

void tfm_tensor_free(tfm_context *ctx, tfm_tensor *tensor) {
    if (!ctx)
        return;
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
    if (!ctx)
        return tfm__context_sticky(ctx);
    if (ctx->depth + 1 >= TFM__MAX_SCOPES)
        return tfm__context_fail(ctx, TFM_ERROR_ARGUMENT, "scope_open: %d scopes are open: one is never closed",
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
        /* An output that the caller gave may lie in a scope further out: it stays there. */
        if (keep[i] && tfm__tensor_alive(ctx, *keep[i]) && keep[i]->buffer->depth == ctx->depth) {
            list_take(keep[i]->buffer);
            scope_push(ctx, ctx->depth - 1, keep[i]->buffer);
        }
    }
    while (ctx->scopes[ctx->depth])
        buffer_give_back(ctx->scopes[ctx->depth]);
    ctx->depth--;
    return count > 0 ? TFM__NEEDS_ON(ctx, "scope_close", keep) : ctx->status;
}

void tfm__pool_free(tfm_context *ctx) {
    while (ctx->buffers) {
        tfm_buffer *buffer = ctx->buffers;
        ctx->buffers = buffer->all;
        if (buffer->shared)
            tfm__shared_drop(buffer->shared);
        if (buffer->memory)
            clReleaseMemObject(buffer->memory);
        free(buffer);
    }
}
