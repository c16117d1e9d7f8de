/* Lowers the work-group limit after a driver refused the tuning's. Ops read the tuning at any point of a call, so the
 * current call fails and its caller repeats it. Kernels are keyed by group size, so old and new ones do not mix. */
#include <inttypes.h>
#include "dev/device/context_internal.h"

enum { MIN_SUPPORTED_WORKGROUP = 256 }; /* items per group of the reference GEMM, independent of the tuning */

static void fail_for_retry(tfm_context *ctx, const char *what) {
    tfm__log(ctx->workgroups_reduced ? TFM_LOG_INFO : TFM_LOG_WARNING,
             "%s refuses kernels for the size of their work-groups: the new limit is %zu items, and the call is "
             "repeated (%s)",
             ctx->info.name, ctx->limits.max_group, what);
    ctx->workgroups_reduced = true;
    tfm__context_fail(ctx, TFM_ERROR_AGAIN,
                      "%s: the context's work-groups now have at most %zu items: clear its error and call again", what,
                      ctx->limits.max_group);
}

bool tfm__workgroup_limit_reduce(tfm_context *ctx, const char *what, size_t items, size_t most) {
    const size_t wanted = most > 0 && most < items ? most : items / 2;
    size_t limit = 1;
    while (limit * 2 <= wanted)
        limit *= 2;
    if (wanted < 1 || limit >= ctx->limits.max_group)
        return false;
    ctx->limits.max_group = limit;
    while ((size_t)ctx->tuning.group > limit)
        ctx->tuning.group /= 2;
    fail_for_retry(ctx, what);
    return true;
}

bool tfm__workgroup_limit_reduce_after_build(tfm_context *ctx, const char *what, cl_int error) {
    if ((error != CL_OUT_OF_RESOURCES && error != CL_OUT_OF_HOST_MEMORY) || ctx->tuning.group < 2)
        return false;
    const size_t limit =
        (ctx->limits.max_group < MIN_SUPPORTED_WORKGROUP ? ctx->limits.max_group : MIN_SUPPORTED_WORKGROUP) / 2;
    ctx->tuning.group /= 2;
    ctx->limits.max_group = limit > (size_t)ctx->tuning.group ? limit : (size_t)ctx->tuning.group;
    fail_for_retry(ctx, what);
    return true;
}
