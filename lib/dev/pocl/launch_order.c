/* Orders launches on PoCL, some of which must run exclusively.
 *
 * PoCL lists its loaded machine code as items, newest first. An item belongs to a kernel, a local size, and grids up to
 * the width it was created for. When a command begins, PoCL takes the first item that fits and increments its use
 * count; if none fits, it creates one. When the command completes, PoCL 3.1 decrements the count of the first item of
 * that kernel and local size, whatever its width; newer releases decrement the right one. So if narrow grids run while
 * another queue's wider grid creates an item, each decrements the new item's count, and below 0 an assertion aborts the
 * process. Contexts of one process share the list.
 *
 * The error cannot happen if a launch that creates an item runs alone: afterwards that item precedes all narrower ones,
 * which are never taken again. So this file mirrors PoCL's list for all contexts, and a launch without an item waits
 * until the other queues are empty, and is waited for. A translation with four workers has 38 such launches in 15,000.
 *
 * PoCL's list holds 128 items and evicts the least recently used one with count 0. The mirror holds fewer, because
 * commands begin in another order than they are enqueued, and the program may also use PoCL directly. A false miss
 * costs a wait; a false hit would be wrong. For the same reason, keys must distinguish all kernels that PoCL
 * distinguishes, but may distinguish more. */
#include <pthread.h>
#include <string.h>
#include "dev/pocl/env.h"
#include "dev/pocl/launch_order.h"

enum { ITEMS = 96 };

typedef struct item {
    uint64_t key; /* hash of device, kernel and local size */
    size_t width;
} item;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    tfm_context *contexts; /* all contexts on PoCL */
    size_t launching;      /* contexts between begin and end, running concurrently; */
    bool exclusive;        /* or one runs exclusively, or waits to */
    item items[ITEMS];     /* most recently used first; maintained while there are at least two contexts */
    size_t count;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* PoCL's width of a grid; in the third dimension it uses local sizes instead of group counts. */
static size_t width_of(const tfm__grid *grid) {
    size_t most = grid->local[2] * grid->local[2];
    for (int i = 0; i < 2; i++)
        most = grid->global[i] > most ? grid->global[i] : most;
    return most;
}

static uint64_t key_of(const tfm_context *ctx, const tfm__kernel *kernel, const tfm__grid *grid) {
    const uint64_t device = tfm__hash64(&ctx->device, sizeof(ctx->device), kernel->identity);
    return tfm__hash64(grid->local, sizeof(grid->local), device);
}

/* Whether the mirror has an item for it; moves or adds it to the front. */
static bool find_or_add(uint64_t key, size_t width) {
    size_t at = 0;
    while (at < all.count && (all.items[at].key != key || all.items[at].width < width))
        at++;
    const bool found = at < all.count;
    const item first = found ? all.items[at] : (item){key, width};
    if (!found && all.count < ITEMS)
        all.count++;
    const size_t behind = found ? at : all.count - 1;
    memmove(&all.items[1], &all.items[0], behind * sizeof(item));
    all.items[0] = first;
    return found;
}

static bool has_several_contexts(void) {
    return all.contexts && all.contexts->next_on_pocl;
}

static void wait_for_exclusive(void) {
    while (all.exclusive)
        pthread_cond_wait(&all.changed, &all.lock);
}

void tfm__pocl_register(tfm_context *ctx) {
    if (strcmp(ctx->info.platform, TFM__POCL) != 0)
        return;
    pthread_mutex_lock(&all.lock);
    wait_for_exclusive();
    if (!has_several_contexts())
        all.count = 0; /* launches of a single context are not recorded */
    ctx->next_on_pocl = all.contexts;
    all.contexts = ctx;
    ctx->on_pocl = true;
    pthread_mutex_unlock(&all.lock);
}

void tfm__pocl_unregister(tfm_context *ctx) {
    if (!ctx->on_pocl)
        return;
    pthread_mutex_lock(&all.lock);
    wait_for_exclusive();
    tfm_context **at = &all.contexts;
    while (*at != ctx)
        at = &(*at)->next_on_pocl;
    *at = ctx->next_on_pocl;
    ctx->on_pocl = false;
    pthread_mutex_unlock(&all.lock);
}

cl_command_queue tfm__pocl_replace_queue(tfm_context *ctx, cl_command_queue queue) {
    pthread_mutex_lock(&all.lock);
    wait_for_exclusive(); /* an exclusive launch inspects the queues of all contexts */
    cl_command_queue before = ctx->queue;
    ctx->queue = queue;
    pthread_mutex_unlock(&all.lock);
    return before;
}

static tfm__pocl_order begin(tfm_context *ctx, bool exclusive) {
    if (!exclusive) {
        all.launching++;
        pthread_mutex_unlock(&all.lock);
        return TFM__POCL_CONCURRENT;
    }
    all.exclusive = true;
    while (all.launching > 0)
        pthread_cond_wait(&all.changed, &all.lock);
    pthread_mutex_unlock(&all.lock);
    /* No other context launches, registers or unregisters now. A queue's failure is reported when its own context
     * waits. */
    for (const tfm_context *other = all.contexts; other; other = other->next_on_pocl)
        if (other != ctx)
            clFinish(other->queue);
    return TFM__POCL_EXCLUSIVE;
}

tfm__pocl_order tfm__pocl_begin(tfm_context *ctx, const tfm__kernel *kernel, const tfm__grid *grid) {
    if (!ctx->on_pocl)
        return TFM__POCL_UNORDERED;
    const uint64_t key = key_of(ctx, kernel, grid);
    pthread_mutex_lock(&all.lock);
    wait_for_exclusive();
    return begin(ctx, has_several_contexts() && !find_or_add(key, width_of(grid)));
}

tfm__pocl_order tfm__pocl_begin_external(tfm_context *ctx) {
    if (!ctx->on_pocl)
        return TFM__POCL_UNORDERED;
    pthread_mutex_lock(&all.lock);
    wait_for_exclusive();
    return begin(ctx, has_several_contexts());
}

void tfm__pocl_end(tfm__pocl_order order, bool run) {
    if (order == TFM__POCL_UNORDERED)
        return;
    pthread_mutex_lock(&all.lock);
    if (order == TFM__POCL_EXCLUSIVE && !run && all.count > 0)
        all.items[0].width = 0; /* nothing fits a new item before the next lookup */
    if (order == TFM__POCL_EXCLUSIVE)
        all.exclusive = false;
    else
        all.launching--;
    if (order == TFM__POCL_EXCLUSIVE || (all.exclusive && all.launching == 0))
        pthread_cond_broadcast(&all.changed);
    pthread_mutex_unlock(&all.lock);
}
