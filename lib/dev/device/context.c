/* A context: one device, one in-order queue, one memory pool, one set of programs. */
#include <stdio.h>
#include <string.h>
#include "dev/device/device_select.h"
#include "dev/device/context_internal.h"
#include "dev/offline/kernel_export.h"
#include "dev/pocl/cpu_partition.h"
#include "dev/offline/kernel_pack.h"
#include "dev/pocl/launch_order.h"
#include "dev/launch/megakernel.h"
#include "dev/launch/profile.h"

/* Opens the pack of TFM_KERNELS; the context fails to open if the pack is for another device. */
static tfm_status open_pack(tfm_context *ctx) {
    const char *path = getenv("TFM_KERNELS");
    if (!path || !*path)
        return TFM_OK;
    tfm__device_fingerprint words;
    tfm_status status = tfm__device_fingerprint_query(&words, ctx->device);
    if (status == TFM_OK)
        status = tfm__kernel_pack_open(&ctx->pack, path);
    if (status == TFM_OK)
        status = tfm__kernel_pack_check(ctx->pack, &words);
    ctx->info.compiler = false; /* a pack disables compilation */
    return status == TFM_OK ? TFM_OK : tfm__fail(status, "TFM_KERNELS: %s", tfm_error_message());
}

/* Initializes everything that follows from the device and the OpenCL context. */
static tfm_status init_context(tfm_context *ctx, const tfm_context_options *options, bool own_queue) {
    const bool profile = tfm__profile_wanted(options && options->profile);
    if (own_queue) {
        cl_int error;
        cl_command_queue_properties flags = profile ? CL_QUEUE_PROFILING_ENABLE : 0;
        ctx->queue = clCreateCommandQueue(ctx->cl, ctx->device, flags, &error);
        if (error != CL_SUCCESS)
            return tfm__cl_fail(ctx, error, "clCreateCommandQueue");
    }
    tfm__pocl_register(ctx);
    tfm_status status = tfm__context_query_capabilities(ctx, ctx->device);
    if (status != TFM_OK)
        return status;
    ctx->limits = ctx->capabilities.limits;
    const uint64_t limit = options ? options->memory_limit : 0, all = ctx->info.memory_bytes;
    ctx->memory_limit = limit > 0 && (all == 0 || limit < all) ? limit : all;
    status = open_pack(ctx);
    if (status == TFM_OK)
        status = tfm__kernel_export_begin(ctx);
    if (status == TFM_OK)
        status = tfm__tuning_choose(&ctx->tuning, &ctx->capabilities, &ctx->info, options ? options->variant : NULL);
    if (status != TFM_OK)
        return status;
    tfm__tuning_db_load(ctx);
    return profile ? tfm__profile_open(&ctx->profile) : TFM_OK;
}

/* A context with a reference count of 1, or NULL with the error message set. */
static tfm_status context_new(tfm_context **out, const char *what, const tfm_context_options *options) {
    if (!out)
        return tfm__fail(TFM_ERROR_ARGUMENT, "%s: out is NULL", what);
    *out = NULL;
    if (TFM__RESERVED_SET(options))
        return tfm__fail(TFM_ERROR_ARGUMENT, "%s: %s", what, TFM__RESERVED_SET_MESSAGE);
    *out = tfm__alloc(1, sizeof(**out));
    if (!*out)
        return TFM_ERROR_MEMORY;
    atomic_init(&(*out)->refcount, 1);
    (*out)->on_build = options ? options->on_build : NULL;
    (*out)->on_build_user = options ? options->on_build_user : NULL;
    return TFM_OK;
}

/* The rest of opening a context after device selection, if that succeeded. */
static tfm_status open_device(tfm_context **out, const tfm_context_options *options, tfm_status status) {
    tfm_context *ctx = *out;
    if (status == TFM_OK) {
        cl_int error;
        ctx->cl = tfm__cl_context_acquire(ctx->platform, ctx->device, &error);
        ctx->cl_shared = true;
        status = error == CL_SUCCESS ? init_context(ctx, options, true) : tfm__cl_fail(ctx, error, "clCreateContext");
    }
    if (status != TFM_OK)
        tfm_context_free(out);
    return status;
}

tfm_status tfm_context_open(tfm_context **out, const tfm_context_options *options) {
    const tfm_status status = context_new(out, "context_open", options);
    if (status != TFM_OK)
        return status;
    tfm_context *ctx = *out;
    return open_device(out, options,
                       tfm__device_choose(&ctx->info, &ctx->platform, &ctx->device, options ? options->device : NULL));
}

tfm_status tfm__context_open_on(tfm_context **out, const tfm__device *devices, size_t index,
                                const tfm_context_options *options) {
    const tfm_status status = context_new(out, "context_open", options);
    if (status != TFM_OK)
        return status;
    (*out)->info = devices[index].info;
    (*out)->platform = devices[index].platform;
    (*out)->device = devices[index].device;
    tfm__device_log(&(*out)->info);
    return open_device(out, options, TFM_OK);
}

tfm_context *tfm_context_retain(tfm_context *ctx) {
    if (ctx)
        atomic_fetch_add(&ctx->refcount, 1);
    return ctx;
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
        return tfm__cl_fail(ctx, error, "context_wrap: the queue is not a cl_command_queue: clGetCommandQueueInfo");
    if (owner != ctx->cl || device != ctx->device)
        return tfm__context_fail(
            ctx, TFM_ERROR_ARGUMENT,
            "context_wrap: the queue belongs to another context or device: create it on the given ones");
    if (flags & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
        return tfm__context_fail(ctx, TFM_ERROR_ARGUMENT,
                                 "context_wrap: the queue is out of order: pass an in-order queue");
    if (profile && !(flags & CL_QUEUE_PROFILING_ENABLE))
        return tfm__context_fail(ctx, TFM_ERROR_ARGUMENT,
                                 "context_wrap: the queue does not profile: create it with CL_QUEUE_PROFILING_ENABLE");
    return TFM_OK;
}

/* Retains the caller's objects. */
static tfm_status retain_objects(tfm_context *ctx, cl_context context, cl_device_id device, cl_command_queue queue,
                                 const tfm_context_options *options) {
    const tfm_status status = tfm__device_describe(&ctx->info, &ctx->platform, device);
    if (status != TFM_OK)
        return status;
    if (clRetainContext(context) != CL_SUCCESS)
        return tfm__fail(TFM_ERROR_ARGUMENT, "context_wrap: the context is not a cl_context");
    ctx->cl = context;
    ctx->device = device;
    if (queue && clRetainCommandQueue(queue) != CL_SUCCESS)
        return tfm__fail(TFM_ERROR_ARGUMENT, "context_wrap: the queue is not a cl_command_queue");
    ctx->queue = queue;
    return queue ? check_queue(ctx, tfm__profile_wanted(options && options->profile)) : TFM_OK;
}

tfm_status tfm_context_wrap(tfm_context **out, cl_context context, cl_device_id device, cl_command_queue queue,
                            const tfm_context_options *options) {
    tfm_status status = context_new(out, "context_wrap", options);
    if (status == TFM_OK && (!context || !device))
        status = tfm__fail(TFM_ERROR_ARGUMENT, "context_wrap: needs a cl_context and a cl_device_id");
    if (status == TFM_OK)
        status = retain_objects(*out, context, device, queue, options);
    if (status == TFM_OK)
        status = init_context(*out, options, !queue);
    if (status != TFM_OK && out)
        tfm_context_free(out);
    return status;
}

void tfm_context_free(tfm_context **pointer) {
    tfm_context *ctx = pointer ? *pointer : NULL;
    if (!ctx)
        return;
    *pointer = NULL;
    if (atomic_fetch_sub(&ctx->refcount, 1) > 1)
        return;
    char saved_message[TFM__MESSAGE_MAX]; /* failures of the cache, the trace or an export must not replace the caller's
                                             error message */
    tfm__error_save(saved_message);
    tfm__cpu_partition_share(ctx, false);
    if (ctx->queue)
        clFinish(tfm__queue(ctx));
    tfm__context_storage_free(ctx);
    if (ctx->profile)
        tfm__profile_close(&ctx->profile);
    if (ctx->status == TFM_OK) {
        tfm__megakernel_store(ctx);
        tfm__programs_export(ctx);
    }
    tfm__pocl_unregister(ctx); /* after the last launch */
    tfm__kernel_export_add(ctx);
    tfm__error_restore(saved_message);
    /* Kernels before programs, programs before the context: PoCL requires it. */
    tfm__megakernel_free(ctx);
    tfm__programs_free(ctx);
    tfm__kernel_pack_close(&ctx->pack);
    tfm__pool_free(ctx);
    if (ctx->queue)
        clReleaseCommandQueue(ctx->queue);
    if (ctx->full_queue && ctx->full_queue != ctx->queue) /* switching back to all cores failed */
        clReleaseCommandQueue(ctx->full_queue);
    if (ctx->cl && !(ctx->cl_shared && tfm__cl_context_release(ctx->cl)))
        clReleaseContext(ctx->cl);
    tfm__tuning_db_free(ctx);
    free(ctx);
}

const tfm_device_info *tfm_context_device(const tfm_context *ctx) {
    return ctx ? &ctx->info : NULL;
}

double tfm_context_build_seconds(const tfm_context *ctx) {
    return ctx ? ctx->build_seconds : 0;
}

const char *tfm_context_variant(const tfm_context *ctx) {
    return ctx ? ctx->tuning.name : NULL;
}

int tfm__scope_depth(const tfm_context *ctx) {
    return ctx->depth;
}

void tfm__context_clear_on_build(tfm_context *ctx) {
    ctx->on_build = NULL;
}

static void recover(tfm_context *ctx, int depth) {
    bool out_of_memory = ctx->status == TFM_ERROR_MEMORY;
    ctx->status = TFM_OK;
    ctx->message[0] = 0;
    while (ctx->depth > depth)
        tfm_scope_close(ctx, 0, NULL);
    if (out_of_memory) /* a driver that allocates lazily ran out of memory: free unused blocks */
        tfm__pool_trim(ctx);
}

void tfm__context_recover(tfm_context *ctx, int depth) {
    const bool failed = ctx->status != TFM_OK;
    recover(ctx, depth);
    if (failed)
        tfm__error_restore(ctx->previous_message);
}

bool tfm__context_retry(tfm_context *ctx, int depth, tfm_status status) {
    if (status != TFM_ERROR_AGAIN)
        return false;
    tfm__context_recover(ctx, depth);
    return true;
}

void tfm_context_clear_error(tfm_context *ctx) {
    if (ctx)
        recover(ctx, 0);
}

tfm_status tfm_context_finish(tfm_context *ctx) {
    if (!ctx)
        return tfm__context_sticky(ctx);
    ctx->waits++;
    cl_int error = clFinish(tfm__queue(ctx));
    return error == CL_SUCCESS ? tfm__context_sticky(ctx) : tfm__cl_fail_wait(ctx, error, "clFinish");
}

bool tfm__context_is_profiling(const tfm_context *ctx) {
    return ctx->profile != NULL;
}

const tfm__tuning *tfm__context_tuning(const tfm_context *ctx) {
    return &ctx->tuning;
}

tfm_dtype tfm__context_set_gemm_input_dtype(tfm_context *ctx, tfm_dtype inputs) {
    const tfm_dtype before = ctx->tuning.gemm_input_dtype;
    ctx->tuning.gemm_input_dtype = inputs;
    return before;
}

const char *tfm__context_build_restriction(const tfm_context *ctx) {
    return ctx->pack             ? "kernels are loaded from a pack"
           : ctx->exports        ? "kernels are exported, and the library's own would be missing"
           : !ctx->info.compiler ? "the device has no compiler"
                                 : NULL;
}

void tfm__context_span(tfm_context *ctx, const char *name, double begun, double ended) {
    tfm__profile_span(ctx->profile, name, begun, ended);
}

const tfm__limits *tfm__context_limits(const tfm_context *ctx) {
    return &ctx->limits;
}

cl_context tfm_context_cl(const tfm_context *ctx) {
    return ctx ? ctx->cl : NULL;
}

cl_device_id tfm_context_cl_device(const tfm_context *ctx) {
    return ctx ? ctx->device : NULL;
}

cl_command_queue tfm_context_cl_queue(const tfm_context *ctx) {
    return ctx ? ctx->queue : NULL;
}
