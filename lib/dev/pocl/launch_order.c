/* Which launches PoCL must be given alone.
 *
 * PoCL keeps the machine code that it has loaded in a list of items, the newest first. An item is of a kernel, of a
 * local size, and of grids up to the width of the one that it was made for. When a command begins, PoCL takes the first
 * item that fits and adds to its count of users; if none fits it makes one. When the command is over, PoCL 3.1 takes 1
 * from the count of the first item of that kernel and local size, whatever its width; newer releases take the right
 * one. So where narrow grids are running while another queue's wider one makes an item, the count of the new item goes
 * down for each of them, and below 0 PoCL ends the process by an assertion. Contexts of one process share the list.
 *
 * It cannot happen while a launch that makes an item runs alone: from then on that item comes before all that are
 * narrower, and nothing takes those any more. So this file keeps a list as PoCL's is, of all contexts on PoCL, and a
 * launch for which no item is there waits until what the others have enqueued is over, and is waited for. A translation
 * by four workers has 38 such launches in 15,000.
 *
 * PoCL's list has room for 128 items, and forgets the one that was used longest ago if its count is 0. This one has
 * room for fewer, since commands begin in another order than they are enqueued in, and since programs may use PoCL
 * besides. To think that an item is gone costs some waiting; to think that it is there would be wrong. For the same
 * reason, what makes two kernels different to PoCL must make them different here, but not the reverse. */
#include <pthread.h>
#include <string.h>
#include "dev/pocl/env.h"
#include "dev/pocl/launch_order.h"

enum { ITEMS = 96 };

typedef struct item {
    uint64_t key; /* of device, kernel and local size */
    size_t width;
} item;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    tfm_context *contexts; /* those on PoCL */
    size_t launching;      /* of them are between begin and end, beside each other; */
    bool exclusive;        /* or one is alone there, or waits until it is */
    item items[ITEMS];     /* while there are two contexts or more: that which was used last comes first */
    size_t count;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* What PoCL calls the width of a grid; it takes local sizes for the numbers of groups in the third dimension. */
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

/* Whether an item is there for it; in either case it comes first now. */
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
        all.count = 0; /* what one context alone has launched was not noted */
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
    wait_for_exclusive(); /* who is alone looks at the queues of all */
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
    /* Nobody else launches, joins or parts now. What a queue fails with its own context finds when it waits. */
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
        all.items[0].width = 0; /* there is none for it, and nobody has looked since: nothing fits */
    if (order == TFM__POCL_EXCLUSIVE)
        all.exclusive = false;
    else
        all.launching--;
    if (order == TFM__POCL_EXCLUSIVE || (all.exclusive && all.launching == 0))
        pthread_cond_broadcast(&all.changed);
    pthread_mutex_unlock(&all.lock);
}
