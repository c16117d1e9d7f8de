/* Partitions a CPU's cores among contexts that run at the same time.
 *
 * When all cores run each kernel, they synchronize at its end, and a small model's kernel takes less time than waking
 * the idle threads. Two contexts on half of the cores each never wait for each other, and finish a tenth to a third
 * sooner than on all cores. When one becomes idle, the other takes all cores again.
 *
 * A partition is a sub-device with a queue; program, kernels and memory are those of the device. PoCL accepts such a
 * queue in the device's own context. Other drivers might require sub-devices when the context is created, so only PoCL
 * uses this. */
#include "dev/pocl/cpu_partition.h"
#include <pthread.h>
#include "dev/pocl/launch_order.h"

enum { MAX_PARTITIONS = 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tfm_context *sharing;
static atomic_uint partition_changes; /* changes of that list */

/* The context's partition, by its position among the contexts on the device; all cores for the others. */
static void find_partition(const tfm_context *ctx, size_t *part, size_t *parts) {
    bool shares = false;
    *part = *parts = 0;
    for (const tfm_context *other = sharing; other; other = other->next_sharing) {
        if (other->device != ctx->device)
            continue;
        if (other == ctx) {
            *part = *parts;
            shares = true;
        }
        ++*parts;
    }
    if (!shares || *parts > MAX_PARTITIONS || *parts > (size_t)ctx->info.compute_units)
        *parts = 1;
    if (*parts == 1)
        *part = 0;
}

/* The sub-devices of a device in `partitions` parts, or NULL. Created once and never released: driver threads may
 * access one after its last queue is released. */
static const cl_device_id *sub_devices(const tfm_context *ctx, size_t parts) {
    static struct {
        cl_device_id device, made[MAX_PARTITIONS];
        size_t parts;
    } known[8];
    static size_t count;
    for (size_t i = 0; i < count; i++)
        if (known[i].device == ctx->device && known[i].parts == parts)
            return known[i].made;
    if (count == TFM__COUNT(known))
        return NULL;
    const size_t units = (size_t)ctx->info.compute_units;
    cl_device_partition_property counts[MAX_PARTITIONS + 2] = {CL_DEVICE_PARTITION_BY_COUNTS};
    for (size_t i = 0; i < parts; i++)
        counts[i + 1] = (cl_device_partition_property)(units / parts + (i < units % parts));
    counts[parts + 1] = CL_DEVICE_PARTITION_BY_COUNTS_LIST_END;
    if (clCreateSubDevices(ctx->device, counts, (cl_uint)parts, known[count].made, NULL) != CL_SUCCESS)
        return NULL;
    known[count].device = ctx->device;
    known[count].parts = parts;
    return known[count++].made;
}

static cl_command_queue create_queue(const tfm_context *ctx, size_t part, size_t parts) {
    cl_int error = CL_SUCCESS;
    pthread_mutex_lock(&lock);
    const cl_device_id *devices = sub_devices(ctx, parts);
    pthread_mutex_unlock(&lock);
    cl_command_queue queue = devices ? clCreateCommandQueue(ctx->cl, devices[part], 0, &error) : NULL;
    return error == CL_SUCCESS ? queue : NULL;
}

/* Switches to this partition, or to all cores on failure. */
static void switch_partition(tfm_context *ctx, size_t part, size_t parts) {
    cl_command_queue to = parts > 1 ? create_queue(ctx, part, parts) : NULL;
    if (!to) {
        to = ctx->full_queue ? ctx->full_queue : ctx->queue;
        part = 0;
        parts = 1;
    }
    if (to == ctx->queue)
        return;
    const cl_int error = clFinish(tfm__queue(ctx));
    if (error != CL_SUCCESS) {
        if (to != ctx->full_queue)
            clReleaseCommandQueue(to);
        tfm__cl_fail_wait(ctx, error, "clFinish");
        return;
    }
    if (!ctx->full_queue)
        ctx->full_queue = ctx->queue;
    cl_command_queue before = tfm__pocl_replace_queue(ctx, to);
    if (before != ctx->full_queue)
        clReleaseCommandQueue(before);
    ctx->partition = part;
    ctx->partitions = parts;
}

/* Whether its queue may change: it is neither the caller's nor a profiling one. */
static bool may_share(const tfm_context *ctx) {
    return ctx->on_pocl && ctx->cl_shared && !ctx->profile;
}

void tfm__cpu_partition_update(tfm_context *ctx) {
    size_t part, parts;
    const unsigned now = atomic_load(&partition_changes);
    if (!may_share(ctx) || ctx->partition_epoch == now)
        return;
    ctx->partition_epoch = now;
    pthread_mutex_lock(&lock);
    find_partition(ctx, &part, &parts);
    pthread_mutex_unlock(&lock);
    if (part != ctx->partition || parts != (ctx->partitions ? ctx->partitions : 1))
        switch_partition(ctx, part, parts);
}

void tfm__cpu_partition_share(tfm_context *ctx, bool shares) {
    shares = shares && may_share(ctx);
    pthread_mutex_lock(&lock);
    tfm_context **at = &sharing;
    while (*at && *at != ctx)
        at = &(*at)->next_sharing;
    if (shares != (*at != NULL)) {
        *at = shares ? ctx : ctx->next_sharing;
        ctx->next_sharing = NULL;
        atomic_fetch_add(&partition_changes, 1);
    }
    pthread_mutex_unlock(&lock);
    tfm__cpu_partition_update(ctx);
}
