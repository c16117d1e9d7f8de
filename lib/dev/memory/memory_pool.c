/* The context's memory pool: blocks in size classes, freed by scope. The queue is in order, so a block is reusable once
 * its scope closes, even while enqueued kernels still read the old tensor. Unused blocks are cached, but not forever;
 * contexts that train keep fewer. */
#include "dev/memory/memory_pool.h"
#include <inttypes.h>
#include "dev/device/context_internal.h"
#include "dev/launch/megakernel.h"

enum { CLASSES_PER_OCTAVE = 4, MIN_RESERVE = 4 << 20 };
/* A block is released after this many later frees; and the interval of that check, in frees. */
enum { MAX_AGE = 1 << 14, AGE_CHECK_INTERVAL = 1 << 10 };

/* Four classes per octave: at most a quarter of a block is wasted. */
static int size_class(uint64_t bytes, uint64_t *rounded) {
    uint64_t base = 256;
    for (int octave = 0;; octave++, base *= 2) {
        for (int quarter = 0; quarter < CLASSES_PER_OCTAVE; quarter++) {
            const uint64_t size = base + base / CLASSES_PER_OCTAVE * (uint64_t)quarter;
            if (size >= bytes) {
                *rounded = size;
                return octave * CLASSES_PER_OCTAVE + quarter;
            }
        }
    }
}

uint64_t tfm__pool_block_bytes(uint64_t bytes) {
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

void tfm__pool_list_remove(tfm_buffer *buffer) {
    *buffer->link = buffer->next;
    if (buffer->next)
        buffer->next->link = buffer->link;
}

void tfm__pool_scope_add(tfm_context *ctx, int depth, tfm_buffer *buffer) {
    buffer->depth = depth;
    list_push(&ctx->scopes[depth], buffer);
}

static void release_memory(tfm_buffer *buffer) {
    if (buffer->shared && !buffer->external)
        buffer->ctx->published_bytes -= buffer->bytes;
    if (buffer->shared)
        tfm__shared_buffer_drop(buffer->shared);
    buffer->shared = NULL;
    if (buffer->address)
        tfm__megakernel_settle(buffer->ctx);
    buffer->address = 0;
    clReleaseMemObject(buffer->memory);
    if (!buffer->external)
        buffer->ctx->pool_bytes -= buffer->bytes;
    buffer->memory = NULL;
    list_push(&buffer->ctx->spare, buffer);
}

static void free_list_remove(tfm_context *ctx, tfm_buffer *buffer) {
    ctx->unused_bytes -= buffer->bytes;
    tfm__pool_list_remove(buffer);
}

/* The driver keeps the memory until the kernels that use it have run. */
static void release_block(tfm_context *ctx, tfm_buffer *buffer) {
    ctx->releasing_bytes += buffer->bytes;
    free_list_remove(ctx, buffer);
    release_memory(buffer);
}

/* Batches of many shapes leave blocks of many sizes: without this a server's memory grew for as long as it ran. */
static void release_old_blocks(tfm_context *ctx) {
    for (int i = 0; i < TFM__SIZE_CLASSES; i++)
        for (tfm_buffer *buffer = ctx->free[i], *next; buffer; buffer = next) {
            next = buffer->next;
            if (ctx->frees - buffer->freed_at > MAX_AGE)
                release_block(ctx, buffer);
        }
}

static void free_list_push(tfm_context *ctx, int class, tfm_buffer *buffer) {
    buffer->freed_at = ++ctx->frees;
    ctx->unused_bytes += buffer->bytes;
    list_push(&ctx->free[class], buffer);
    if (ctx->frees % AGE_CHECK_INTERVAL == 0)
        release_old_blocks(ctx);
}

bool tfm__pool_trim(tfm_context *ctx) {
    bool any = false;
    clFinish(tfm__queue(ctx));
    ctx->releasing_bytes = 0;
    for (int i = 0; i < TFM__SIZE_CLASSES; i++) {
        while (ctx->free[i]) {
            tfm_buffer *buffer = ctx->free[i];
            free_list_remove(ctx, buffer);
            release_memory(buffer);
            any = true;
        }
    }
    return any;
}

uint64_t tfm_context_peak_memory(const tfm_context *ctx) {
    return ctx ? ctx->pool_bytes_peak : 0;
}

tfm_buffer *tfm__pool_new_buffer(tfm_context *ctx) {
    tfm_buffer *buffer = ctx->spare;
    if (buffer) {
        tfm__pool_list_remove(buffer);
        buffer->external = false;
        buffer->mapping = NULL;
        return buffer;
    }
    buffer = tfm__alloc(1, sizeof(*buffer));
    if (!buffer) {
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "out of host memory");
        return NULL;
    }
    buffer->ctx = ctx;
    buffer->generation = 1;
    buffer->next_all = ctx->buffers;
    ctx->buffers = buffer;
    return buffer;
}

static bool fits(uint64_t bytes, uint64_t used, uint64_t all) {
    return all == 0 || (used <= all && bytes <= all - used);
}

/* Some drivers promise more memory than the device has, and abort the program later. Published memory of other contexts
 * occupies the device too, even after they are closed; the caller's limit counts only this context's. */
static bool has_room(const tfm_context *ctx, size_t bytes) {
    const uint64_t others = tfm__shared_buffer_bytes(ctx->cl) - ctx->published_bytes;
    return fits(bytes, ctx->pool_bytes, ctx->memory_limit) &&
           fits(bytes, ctx->pool_bytes + others, ctx->info.memory_bytes);
}

uint64_t tfm__pool_available(const tfm_context *ctx) {
    const uint64_t others = tfm__shared_buffer_bytes(ctx->cl) - ctx->published_bytes;
    const uint64_t used = ctx->pool_bytes - ctx->unused_bytes, all = ctx->info.memory_bytes;
    const uint64_t limited = !ctx->memory_limit ? UINT64_MAX : ctx->memory_limit > used ? ctx->memory_limit - used : 0;
    const uint64_t free = all == 0 ? UINT64_MAX : all > used + others ? all - used - others : 0;
    return limited < free ? limited : free;
}

static void fail_out_of_memory(tfm_context *ctx, size_t bytes) {
    const bool limited =
        !fits(bytes, ctx->pool_bytes, ctx->memory_limit) && ctx->memory_limit != ctx->info.memory_bytes;
    const uint64_t others = limited ? 0 : tfm__shared_buffer_bytes(ctx->cl) - ctx->published_bytes;
    tfm__context_fail(ctx, TFM_ERROR_MEMORY,
                      "%s has no room for %zu more bytes (it has %" PRIu64 "%s, and %" PRIu64
                      " are in use): use a smaller batch or model",
                      ctx->info.name, bytes, limited ? ctx->memory_limit : ctx->info.memory_bytes,
                      limited ? " by the context's memory_limit" : "", ctx->pool_bytes + others);
}

/* Drivers report "out of resources" for a full device, and after a crashed kernel. */
static void fail_buffer_refused(tfm_context *ctx, size_t bytes, cl_int error) {
    const tfm_status status = error == CL_INVALID_BUFFER_SIZE ? TFM_ERROR_MEMORY : tfm__cl_status(ctx, error);
    if (status == TFM_ERROR_MEMORY)
        tfm__context_fail(ctx, status, "%s has no room for %zu more bytes (%s): use a smaller batch or model",
                          ctx->info.name, bytes, tfm__cl_error_name(error));
    else
        tfm__context_fail(ctx, status, "%s failed to allocate %zu bytes: %s (%d)%s", ctx->info.name, bytes,
                          tfm__cl_error_name(error), (int)error, tfm__cl_advice(status, error));
}

/* The block that has been unused the longest. */
static tfm_buffer *longest_unused(const tfm_context *ctx) {
    tfm_buffer *longest = NULL;
    for (int i = 0; i < TFM__SIZE_CLASSES; i++)
        for (tfm_buffer *buffer = ctx->free[i]; buffer; buffer = buffer->next)
            if (!longest || buffer->freed_at < longest->freed_at)
                longest = buffer;
    return longest;
}

static uint64_t used_bytes_with(const tfm_context *ctx, size_t more) {
    const uint64_t used = ctx->pool_bytes - ctx->unused_bytes + more;
    return ctx->used_bytes_peak < used ? used : ctx->used_bytes_peak;
}

void tfm__pool_limit_unused(tfm_context *ctx) {
    ctx->limits_unused = true;
}

/* The largest pool size after an allocation of `bytes`, while there are unused blocks. */
static uint64_t pool_bytes_limit(const tfm_context *ctx, size_t more) {
    const uint64_t used = used_bytes_with(ctx, more), reserve = used / 16;
    return !ctx->limits_unused ? UINT64_MAX : used + (reserve < MIN_RESERVE ? MIN_RESERVE : reserve);
}

/* Releases the block that has been unused the longest. */
static void release_longest_unused(tfm_context *ctx, size_t bytes) {
    const uint64_t most = pool_bytes_limit(ctx, bytes);
    tfm_buffer *buffer;
    while (ctx->pool_bytes + bytes > most && (buffer = longest_unused(ctx)))
        release_block(ctx, buffer);
}

/* Released memory counts as used until the driver is known to have it back. */
static bool has_room_after_release(tfm_context *ctx, size_t bytes) {
    if (ctx->releasing_bytes > 0 && !has_room(ctx, bytes + ctx->releasing_bytes)) {
        clFinish(tfm__queue(ctx));
        ctx->releasing_bytes = 0;
    }
    return has_room(ctx, bytes);
}

/* Accepts a block of up to twice the size: batches shrink and grow, and the pool should stop growing. */
static tfm_buffer *find_free_block(tfm_buffer *const *lists, int class, size_t bytes) {
    for (int i = class > 0 ? class - 1 : 0; i <= class + CLASSES_PER_OCTAVE && i < TFM__SIZE_CLASSES; i++)
        if (lists[i] && lists[i]->bytes >= bytes) /* the class below has blocks truncated at the largest allocation */
            return lists[i];
    return NULL;
}

tfm_buffer *tfm__pool_alloc(tfm_context *ctx, size_t bytes) {
    if (bytes > ctx->limits.max_alloc) {
        tfm__context_fail(ctx, TFM_ERROR_MEMORY,
                          "%s takes at most %" PRIu64
                          " bytes in one allocation, %zu requested: use a smaller batch or model",
                          ctx->info.name, ctx->limits.max_alloc, bytes);
        return NULL;
    }
    uint64_t block;
    int class = size_class(bytes, &block);
    const size_t rounded = block > ctx->limits.max_alloc ? bytes : (size_t)block;
    tfm_buffer *buffer = find_free_block(ctx->free, class, bytes);
    if (buffer) {
        free_list_remove(ctx, buffer);
        ctx->used_bytes_peak = used_bytes_with(ctx, 0);
        tfm__pool_scope_add(ctx, ctx->depth, buffer);
        return buffer;
    }
    release_longest_unused(ctx, rounded);
    if (!has_room_after_release(ctx, rounded) && !(tfm__pool_trim(ctx) && has_room(ctx, rounded))) {
        fail_out_of_memory(ctx, rounded);
        return NULL;
    }
    cl_int error;
    cl_mem memory = clCreateBuffer(ctx->cl, CL_MEM_READ_WRITE, rounded, NULL, &error);
    if (error != CL_SUCCESS && tfm__pool_trim(ctx))
        memory = clCreateBuffer(ctx->cl, CL_MEM_READ_WRITE, rounded, NULL, &error);
    if (error != CL_SUCCESS) {
        fail_buffer_refused(ctx, rounded, error);
        return NULL;
    }
    buffer = tfm__pool_new_buffer(ctx);
    if (!buffer) {
        clReleaseMemObject(memory);
        return NULL;
    }
    buffer->memory = memory;
    buffer->bytes = rounded;
    ctx->pool_bytes += rounded;
    ctx->used_bytes_peak = used_bytes_with(ctx, 0);
    if (ctx->pool_bytes_peak < ctx->pool_bytes)
        ctx->pool_bytes_peak = ctx->pool_bytes;
    tfm__pool_scope_add(ctx, ctx->depth, buffer);
    return buffer;
}

void tfm__pool_release(tfm_buffer *buffer) {
    tfm_context *ctx = buffer->ctx;
    tfm__pool_list_remove(buffer);
    if (buffer->pins > 0) {
        buffer->depth = TFM__PINNED;
        list_push(&ctx->pinned, buffer);
        return;
    }
    buffer->generation++;
    buffer->tag = 0;
    if (buffer->external || buffer->shared) {
        release_memory(buffer);
        return;
    }
    uint64_t rounded;
    int class = size_class(buffer->bytes, &rounded);
    if (rounded > buffer->bytes && class > 0)
        class -= 1;
    free_list_push(ctx, class, buffer);
}

void tfm__pool_free(tfm_context *ctx) {
    while (ctx->buffers) {
        tfm_buffer *buffer = ctx->buffers;
        ctx->buffers = buffer->next_all;
        if (buffer->shared)
            tfm__shared_buffer_drop(buffer->shared);
        if (buffer->memory)
            clReleaseMemObject(buffer->memory);
        free(buffer);
    }
}
