/* The context's first failure, which is sticky until it is cleared. */
#include <stdio.h>
#include "dev/device/context_internal.h"

static const char NO_CONTEXT[] = "the context is NULL: open one with tfm_context_open";

tfm_status tfm__context_fail(tfm_context *ctx, tfm_status status, const char *format, ...) {
    va_list args;
    if (ctx && ctx->status == TFM_OK)
        tfm__error_save(ctx->previous_message);
    va_start(args, format);
    tfm__vfail(status, format, args);
    va_end(args);
    if (ctx && ctx->status == TFM_OK) {
        ctx->status = status;
        if (status == TFM_ERROR_DEVICE && ctx->cl_shared)
            tfm__cl_context_invalidate(ctx->cl);
        snprintf(ctx->message, sizeof(ctx->message), "%s", tfm_error_message());
    }
    return status;
}

tfm_status tfm__context_sticky(const tfm_context *ctx) {
    if (!ctx)
        return tfm__fail(TFM_ERROR_ARGUMENT, "%s", NO_CONTEXT);
    return ctx->status == TFM_OK ? TFM_OK : tfm__fail(ctx->status, "%s", ctx->message);
}

tfm_status tfm__context_ready(const tfm_context *ctx, const char *what) {
    return ctx->status == TFM_OK ? TFM_OK
                                 : tfm__fail(ctx->status, "%s: the context has failed before: %s", what, ctx->message);
}

tfm_status tfm__cl_status(tfm_context *ctx, cl_int code) {
    if (!tfm__cl_is_memory(code))
        return TFM_ERROR_DEVICE;
    /* Drivers also report "out of resources" after a kernel crashed, and then for every call: if the queue no longer
     * finishes, less work would not help. */
    return code != CL_OUT_OF_RESOURCES || (ctx->queue && clFinish(ctx->queue) == CL_SUCCESS) ? TFM_ERROR_MEMORY
                                                                                             : TFM_ERROR_DEVICE;
}

const char *tfm__cl_advice(tfm_status status, cl_int code) {
    if (status == TFM_ERROR_MEMORY)
        return ": use a smaller batch";
    return code == CL_OUT_OF_RESOURCES ? ": a kernel may have crashed there; `tfm selftest` tells which" : "";
}

/* Without a queue yet, neither batch size nor a kernel is the cause. */
tfm_status tfm__cl_fail(tfm_context *ctx, cl_int code, const char *what) {
    const tfm_status status = tfm__cl_status(ctx, code);
    return tfm__context_fail(ctx, status, "%s failed on %s with %s (%d)%s", what, ctx->info.name,
                             tfm__cl_error_name(code), (int)code, ctx->queue ? tfm__cl_advice(status, code) : "");
}

tfm_status tfm__cl_fail_wait(tfm_context *ctx, cl_int code, const char *what) {
    const bool memory = code != CL_OUT_OF_RESOURCES && tfm__cl_is_memory(code);
    const tfm_status status = memory ? TFM_ERROR_MEMORY : TFM_ERROR_DEVICE;
    return tfm__context_fail(ctx, status, "%s failed on %s with %s (%d)%s", what, ctx->info.name,
                             tfm__cl_error_name(code), (int)code, tfm__cl_advice(status, code));
}

tfm_status tfm_context_status(const tfm_context *ctx) {
    return ctx ? ctx->status : TFM_ERROR_ARGUMENT;
}

const char *tfm_context_error(const tfm_context *ctx) {
    return ctx ? ctx->message : NO_CONTEXT;
}

tfm_status tfm__context_needs(tfm_context *ctx, const char *call, const char *names, size_t count,
                              const void *const *pointers) {
    if (tfm__needs(call, names, count, pointers) == TFM_OK)
        return tfm__context_sticky(ctx);
    return tfm__context_fail(ctx, TFM_ERROR_ARGUMENT, "%s", tfm_error_message());
}
