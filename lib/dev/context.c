/* One context: one device, one in-order queue, one pool, one set of programs. */
#include <stdio.h>
#include <string.h>
#include "dev/choose.h"
#include "dev/cl.h"
#include "dev/profile.h"

tfm_status tfm__context_fail(tfm_context *ctx, tfm_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    tfm__vfail(status, format, args);
    va_end(args);
    if (ctx->status == TFM_OK) {
        ctx->status = status;
        snprintf(ctx->message, sizeof(ctx->message), "%s", tfm_error_message());
    }
    return status;
}

tfm_status tfm__context_sticky(const tfm_context *ctx) {
    return ctx->status == TFM_OK ? TFM_OK : tfm__fail(ctx->status, "%s", ctx->message);
}

tfm_status tfm__cl_fail(tfm_context *ctx, cl_int code, const char *what) {
    const bool memory = tfm__cl_is_memory(code);
    return tfm__context_fail(ctx, memory ? TFM_ERROR_MEMORY : TFM_ERROR_DEVICE, "%s failed on %s with %s (%d)%s", what,
                             ctx->info.name, tfm__cl_error_name(code), (int)code,
                             memory ? ": use a smaller batch" : "");
}

/* Everything that follows from the device and the OpenCL context, which are set. */
static tfm_status set_up(tfm_context *ctx, const char *variant, bool profile, bool own_queue) {
    if (own_queue) {
        cl_int error;
        cl_command_queue_properties flags = profile ? CL_QUEUE_PROFILING_ENABLE : 0;
        ctx->queue = clCreateCommandQueue(ctx->cl, ctx->device, flags, &error);
        if (error != CL_SUCCESS)
            return tfm__cl_fail(ctx, error, "clCreateCommandQueue");
    }
    cl_ulong local = 0;
    size_t group = 1;
    clGetDeviceInfo(ctx->device, CL_DEVICE_LOCAL_MEM_SIZE, sizeof(local), &local, NULL);
    clGetDeviceInfo(ctx->device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(group), &group, NULL);
    ctx->limits.local_bytes = local;
    ctx->limits.max_group = group;
    tfm__max_items(ctx->limits.max_items, ctx->device);
    ctx->limits.max_alloc = ctx->info.max_alloc_bytes;
    const tfm_status status = tfm__row_choose(&ctx->row, ctx->device, &ctx->info, variant);
    if (status != TFM_OK)
        return status;
    return profile ? tfm__profile_open(&ctx->profile) : TFM_OK;
}

tfm_status tfm_context_open(tfm_context **out, const tfm_context_options *options) {
    *out = NULL;
    tfm_context *ctx = tfm__alloc(1, sizeof(*ctx));
    if (!ctx)
        return TFM_ERROR_MEMORY;
    tfm_status status = tfm__device_choose(&ctx->info, &ctx->platform, &ctx->device, options ? options->device : NULL);
    if (status == TFM_OK) {
        cl_int error;
        cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)ctx->platform, 0};
        ctx->cl = clCreateContext(properties, 1, &ctx->device, NULL, NULL, &error);
        const char *variant = options ? options->variant : NULL;
        status = error == CL_SUCCESS ? set_up(ctx, variant, tfm__profile_wanted(options && options->profile), true)
                                     : tfm__cl_fail(ctx, error, "clCreateContext");
    }
    if (status != TFM_OK) {
        tfm_context_free(&ctx);
        return status;
    }
    *out = ctx;
    return TFM_OK;
}

static tfm_status check_queue(tfm_context *ctx, bool profile) {
    cl_command_queue_properties flags = 0;
    cl_context owner = NULL;
    cl_device_id device = NULL;
    cl_int error = clGetCommandQueueInfo(ctx->queue, CL_QUEUE_PROPERTIES, sizeof(flags), &flags, NULL);
    if (error == CL_SUCCESS)
        error = clGetCommandQueueInfo(ctx->queue, CL_QUEUE_CONTEXT, sizeof(owner), &owner, NULL);
    if (error == CL_SUCCESS)
        error = clGetCommandQueueInfo(ctx->queue, CL_QUEUE_DEVICE, sizeof(device), &device, NULL);
    if (error != CL_SUCCESS)
        return tfm__cl_fail(ctx, error, "context_wrap: the queue is not one: clGetCommandQueueInfo");
    if (owner != ctx->cl || device != ctx->device)
        return tfm__context_fail(ctx, TFM_ERROR_ARGUMENT,
                                 "context_wrap: the queue is of another context or device: make it of the ones given");
    if (flags & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
        return tfm__context_fail(ctx, TFM_ERROR_ARGUMENT,
                                 "context_wrap: the queue is out of order and ops rely on order: give an in-order one");
    if (profile && !(flags & CL_QUEUE_PROFILING_ENABLE))
        return tfm__context_fail(
            ctx, TFM_ERROR_ARGUMENT,
            "context_wrap: profiling needs a queue made with CL_QUEUE_PROFILING_ENABLE, this one is not");
    return TFM_OK;
}

tfm_status tfm_context_wrap(tfm_context **out, cl_context context, cl_device_id device, cl_command_queue queue,
                            const tfm_context_options *options) {
    *out = NULL;
    if (!context || !device)
        return tfm__fail(TFM_ERROR_ARGUMENT, "context_wrap: needs a cl_context and a cl_device_id");
    tfm_context *ctx = tfm__alloc(1, sizeof(*ctx));
    if (!ctx)
        return TFM_ERROR_MEMORY;
    tfm_status status = tfm__device_describe(&ctx->info, &ctx->platform, device);
    if (status == TFM_OK && clRetainContext(context) == CL_SUCCESS) {
        ctx->cl = context;
        ctx->device = device;
        if (queue && clRetainCommandQueue(queue) == CL_SUCCESS)
            ctx->queue = queue;
        bool profile = tfm__profile_wanted(options && options->profile);
        if (queue && !ctx->queue)
            status = tfm__fail(TFM_ERROR_ARGUMENT, "context_wrap: the queue is not a cl_command_queue");
        else if (queue)
            status = check_queue(ctx, profile);
        if (status == TFM_OK)
            status = set_up(ctx, options ? options->variant : NULL, profile, !queue);
    } else if (status == TFM_OK) {
        status = tfm__fail(TFM_ERROR_ARGUMENT, "context_wrap: the context is not a cl_context");
    }
    if (status != TFM_OK) {
        tfm_context_free(&ctx);
        return status;
    }
    *out = ctx;
    return TFM_OK;
}

void tfm_context_free(tfm_context **pointer) {
    tfm_context *ctx = pointer ? *pointer : NULL;
    if (!ctx)
        return;
    *pointer = NULL;
    if (ctx->queue)
        clFinish(ctx->queue);
    for (int i = 0; i < TFM__SLOTS; i++)
        if (ctx->slots[i].data)
            ctx->slots[i].release(ctx->slots[i].data);
    if (ctx->profile)
        tfm__profile_close(&ctx->profile);
    if (ctx->status == TFM_OK) { /* what the cache cannot do is no failure */
        char kept[TFM__MESSAGE];
        snprintf(kept, sizeof(kept), "%s", tfm_error_message());
        tfm__programs_export(ctx);
        tfm__error_restore(kept);
    }
    /* Kernels before programs, programs before the context: PoCL insists. */
    tfm__programs_free(ctx);
    tfm__pool_free(ctx);
    if (ctx->queue)
        clReleaseCommandQueue(ctx->queue);
    if (ctx->cl)
        clReleaseContext(ctx->cl);
    free(ctx);
}

const tfm_device_info *tfm_context_device(const tfm_context *ctx) {
    return &ctx->info;
}

const char *tfm_context_variant(const tfm_context *ctx) {
    return ctx->row.name;
}

tfm_status tfm_context_status(const tfm_context *ctx) {
    return ctx->status;
}

const char *tfm_context_error(const tfm_context *ctx) {
    return ctx->message;
}

int tfm__scope_depth(const tfm_context *ctx) {
    return ctx->depth;
}

void tfm__context_recover(tfm_context *ctx, int depth) {
    bool crowded = ctx->status == TFM_ERROR_MEMORY;
    ctx->status = TFM_OK;
    ctx->message[0] = 0;
    while (ctx->depth > depth)
        tfm_scope_close(ctx, 0, NULL);
    if (crowded) /* a driver that allocates late found no room beside the free blocks */
        tfm__pool_trim(ctx);
}

void tfm_context_clear_error(tfm_context *ctx) {
    tfm__context_recover(ctx, 0);
}

tfm_status tfm_context_finish(tfm_context *ctx) {
    cl_int error = clFinish(ctx->queue);
    return error == CL_SUCCESS ? tfm__context_sticky(ctx) : tfm__cl_fail(ctx, error, "clFinish");
}

const tfm__row *tfm__context_row(const tfm_context *ctx) {
    return &ctx->row;
}

const tfm__limits *tfm__context_limits(const tfm_context *ctx) {
    return &ctx->limits;
}

cl_context tfm_context_cl(const tfm_context *ctx) {
    return ctx->cl;
}

cl_device_id tfm_context_cl_device(const tfm_context *ctx) {
    return ctx->device;
}

cl_command_queue tfm_context_cl_queue(const tfm_context *ctx) {
    return ctx->queue;
}

void *tfm__context_slot(const tfm_context *ctx, tfm__slot slot) {
    return ctx->slots[slot].data;
}

void tfm__context_set_slot(tfm_context *ctx, tfm__slot slot, void *data, void (*release)(void *data)) {
    ctx->slots[slot].data = data;
    ctx->slots[slot].release = release;
}
