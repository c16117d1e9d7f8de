/* The context's memory: blocks in size classes, given back by scope. The queue is in order, so a block may serve a new
 * tensor as soon as its scope is closed, even while kernels that read the old one wait in the queue. Blocks that nobody
 * uses are kept for the next who need some, but not for ever; in a context that trains, not too many. */
#include "dev/memory/memory_pool.h"
#include <inttypes.h>
#include "dev/device/context_internal.h"

enum { OCTAVE = 4, LEAST_RESERVE = 4 << 20 };
/* A block goes when so many others have come back since it did; and how often it is looked for such blocks. */
enum { KEPT = 1 << 14, REVIEW = 1 << 10 };

/* Four classes an octave: at most a quarter of a block is wasted. */
static int size_class(uint64_t bytes, uint64_t *rounded) {
    uint64_t base = 256;
    for (int octave = 0;; octave++, base *= 2) {
        for (int quarter = 0; quarter < OCTAVE; quarter++) {
            const uint64_t size = base + base / OCTAVE * (uint64_t)quarter;
            if (size >= bytes) {
                *rounded = size;
                return octave * OCTAVE + quarter;
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

void tfm__pool_leave(tfm_buffer *buffer) {
    *buffer->link = buffer->next;
    if (buffer->next)
        buffer->next->link = buffer->link;
}

void tfm__pool_enter(tfm_context *ctx, int depth, tfm_buffer *buffer) {
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

static void unused_take(tfm_context *ctx, tfm_buffer *buffer) {
    ctx->unused -= buffer->bytes;
    tfm__pool_leave(buffer);
}

/* The driver keeps it until the kernels that use it have run. */
static void let_go(tfm_context *ctx, tfm_buffer *buffer) {
    ctx->released += buffer->bytes;
    unused_take(ctx, buffer);
    release_memory(buffer);
}

/* Batches of many shapes leave blocks of many sizes, and the rarest shape is still to come: without this the memory of
 * a server grew for as long as it ran. */
static void let_old_go(tfm_context *ctx) {
    for (int i = 0; i < TFM__SIZE_CLASSES; i++)
        for (tfm_buffer *buffer = ctx->free[i], *next; buffer; buffer = next) {
            next = buffer->next;
            if (ctx->waited - buffer->waiting > KEPT)
                let_go(ctx, buffer);
        }
}

static void unused_push(tfm_context *ctx, int class, tfm_buffer *buffer) {
    buffer->waiting = ++ctx->waited;
    ctx->unused += buffer->bytes;
    list_push(&ctx->free[class], buffer);
    if (ctx->waited % REVIEW == 0)
        let_old_go(ctx);
}

bool tfm__pool_trim(tfm_context *ctx) {
    bool any = false;
    clFinish(ctx->queue);
    ctx->released = 0;
    for (int i = 0; i < TFM__SIZE_CLASSES; i++) {
        while (ctx->free[i]) {
            tfm_buffer *buffer = ctx->free[i];
            unused_take(ctx, buffer);
            release_memory(buffer);
            any = true;
        }
    }
    return any;
}

uint64_t tfm_context_memory(const tfm_context *ctx) {
    return ctx ? ctx->held_most : 0;
}

tfm_buffer *tfm__pool_struct(tfm_context *ctx) {
    tfm_buffer *buffer = ctx->spare;
    if (buffer) {
        tfm__pool_leave(buffer);
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

/* The one that has waited longest. */
static tfm_buffer *longest_unused(const tfm_context *ctx) {
    tfm_buffer *longest = NULL;
    for (int i = 0; i < TFM__SIZE_CLASSES; i++)
        for (tfm_buffer *buffer = ctx->free[i]; buffer; buffer = buffer->next)
            if (!longest || buffer->waiting < longest->waiting)
                longest = buffer;
    return longest;
}

static uint64_t used_with(const tfm_context *ctx, size_t more) {
    const uint64_t used = ctx->held - ctx->unused + more;
    return ctx->used_most < used ? used : ctx->used_most;
}

void tfm__pool_bound(tfm_context *ctx) {
    ctx->bounded = true;
}

/* How large the pool may become with so many bytes more, while there are blocks that nobody uses. */
static uint64_t pool_most(const tfm_context *ctx, size_t more) {
    const uint64_t used = used_with(ctx, more), reserve = used / 16;
    return !ctx->bounded ? UINT64_MAX : used + (reserve < LEAST_RESERVE ? LEAST_RESERVE : reserve);
}

/* Lets go what has waited longest. */
static void make_way(tfm_context *ctx, size_t bytes) {
    const uint64_t most = pool_most(ctx, bytes);
    tfm_buffer *buffer;
    while (ctx->held + bytes > most && (buffer = longest_unused(ctx)))
        let_go(ctx, buffer);
}

/* What was let go counts until it is sure that the driver has it back. */
static bool has_room_soon(tfm_context *ctx, size_t bytes) {
    if (ctx->released > 0 && !has_room(ctx, bytes + ctx->released)) {
        clFinish(ctx->queue);
        ctx->released = 0;
    }
    return has_room(ctx, bytes);
}

/* A block up to twice as large serves too: batches shrink and grow, and the pool should stop growing. */
static tfm_buffer *free_block(tfm_buffer *const *lists, int class, size_t bytes) {
    for (int i = class > 0 ? class - 1 : 0; i <= class + OCTAVE && i < TFM__SIZE_CLASSES; i++)
        if (lists[i] && lists[i]->bytes >= bytes) /* the class below has blocks cut at the largest allocation */
            return lists[i];
    return NULL;
}

tfm_buffer *tfm__pool_take(tfm_context *ctx, size_t bytes) {
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
    tfm_buffer *buffer = free_block(ctx->free, class, bytes);
    if (buffer) {
        unused_take(ctx, buffer);
        ctx->used_most = used_with(ctx, 0);
        tfm__pool_enter(ctx, ctx->depth, buffer);
        return buffer;
    }
    make_way(ctx, rounded);
    if (!has_room_soon(ctx, rounded) && !(tfm__pool_trim(ctx) && has_room(ctx, rounded))) {
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
    buffer = tfm__pool_struct(ctx);
    if (!buffer) {
        clReleaseMemObject(memory);
        return NULL;
    }
    buffer->memory = memory;
    buffer->bytes = rounded;
    ctx->held += rounded;
    ctx->used_most = used_with(ctx, 0);
    if (ctx->held_most < ctx->held)
        ctx->held_most = ctx->held;
    tfm__pool_enter(ctx, ctx->depth, buffer);
    return buffer;
}

void tfm__pool_give_back(tfm_buffer *buffer) {
    tfm_context *ctx = buffer->ctx;
    tfm__pool_leave(buffer);
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
    if (rounded > buffer->bytes && class > 0)
        class -= 1;
    unused_push(ctx, class, buffer);
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
