/* Kernel launches: named arguments, and errors with the kernel's name. */
#include <stdio.h>
#include <string.h>
#include "dev/device/context_internal.h"
#include "dev/pocl/launch_order.h"
#include "dev/launch/megakernel.h"
#include "dev/launch/profile.h"

static int parameter_count(const tfm__arg *arg) {
    return arg->kind == TFM__ARG_TENSOR ? 2 : 1;
}

/* PoCL renames parameters that are named like built-in functions: `length` becomes `_cl_length`. */
static bool same_name(const char *driver, const char *ours) {
    return strcmp(driver, ours) == 0 || (strncmp(driver, "_cl_", 4) == 0 && strcmp(driver + 4, ours) == 0);
}

/* Checks argument names once per kernel, if the driver keeps them. A tensor's second parameter, its offset, follows by
 * the prelude's macro. */
static tfm_status check_names(tfm_context *ctx, tfm__kernel *kernel, size_t count, const tfm__arg *args) {
    cl_uint index = 0;
    for (size_t i = 0; i < count; i++) {
        char name[128] = "";
        if (index < kernel->parameters &&
            clGetKernelArgInfo(kernel->cl, index, CL_KERNEL_ARG_NAME, sizeof(name), name, NULL) == CL_SUCCESS &&
            name[0] && !same_name(name, args[i].name))
            return tfm__context_fail(ctx, TFM_ERROR_ARGUMENT, "kernel %s: parameter %u is '%s', the launch gives '%s'",
                                     kernel->name, (unsigned)index, name, args[i].name);
        index += (cl_uint)parameter_count(&args[i]);
    }
    if (index != kernel->parameters)
        return tfm__context_fail(ctx, TFM_ERROR_ARGUMENT, "kernel %s has %u parameters, the launch gives %u",
                                 kernel->name, (unsigned)kernel->parameters, (unsigned)index);
    kernel->checked = true;
    return TFM_OK;
}

size_t tfm__kernel_max_workgroup(const tfm_context *ctx, tfm__kernel *kernel) {
    if (kernel->max_workgroup > 0)
        return kernel->max_workgroup;
    size_t most = 0, multiple = 0;
    const cl_int asked =
        clGetKernelWorkGroupInfo(kernel->cl, ctx->device, CL_KERNEL_WORK_GROUP_SIZE, sizeof(most), &most, NULL);
    clGetKernelWorkGroupInfo(kernel->cl, ctx->device, CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, sizeof(multiple),
                             &multiple, NULL);
    /* Mesa 22.3 answers either query with the sub-group size, for every kernel. */
    const bool untold = most == multiple && strcmp(ctx->info.platform, "rusticl") == 0;
    kernel->max_workgroup = asked == CL_SUCCESS && most > 0 && !untold ? most : SIZE_MAX;
    return kernel->max_workgroup;
}

static tfm_status refuse(tfm_context *ctx, tfm__kernel *kernel, const tfm__arg *arg, cl_int error) {
    return tfm__context_fail(ctx, TFM_ERROR_DEVICE, "kernel %s: argument '%s' is rejected by %s: %s (%d)", kernel->name,
                             arg->name, ctx->info.name, tfm__cl_error_name(error), (int)error);
}

/* A scalar keeps its value, and most equal those of the last launch. Buffers are set every time: a new buffer may reuse
 * the handle of a freed one. */
static cl_int set_scalar(tfm__kernel *kernel, cl_uint index, const void *value, size_t size) {
    uint64_t bits = 0;
    memcpy(&bits, value, size);
    if (kernel->scalars[index].set && kernel->scalars[index].bits == bits)
        return CL_SUCCESS;
    const cl_int error = clSetKernelArg(kernel->cl, index, size, value);
    kernel->scalars[index].bits = bits;
    kernel->scalars[index].set = error == CL_SUCCESS;
    return error;
}

static tfm_status set_arg(tfm_context *ctx, tfm__kernel *kernel, cl_uint index, const tfm__arg *arg) {
    cl_int error;
    if (arg->kind == TFM__ARG_TENSOR) {
        cl_long offset = (cl_long)arg->tensor.offset;
        cl_mem *memory = arg->tensor.buffer ? &arg->tensor.buffer->memory : NULL;
        error = clSetKernelArg(kernel->cl, index, sizeof(cl_mem), memory);
        if (error == CL_SUCCESS)
            error = set_scalar(kernel, index + 1, &offset, sizeof(offset));
    } else if (arg->kind == TFM__ARG_INT) {
        cl_long value = arg->integer;
        error = set_scalar(kernel, index, &value, sizeof(value));
    } else if (arg->kind == TFM__ARG_STRUCT) {
        error = clSetKernelArg(kernel->cl, index, arg->bytes, arg->data);
    } else {
        cl_float value = arg->real;
        error = set_scalar(kernel, index, &value, sizeof(value));
    }
    return error == CL_SUCCESS ? TFM_OK : refuse(ctx, kernel, arg, error);
}

static size_t workgroup_items(const tfm__grid *grid) {
    return grid->local[0] * grid->local[1] * grid->local[2];
}

/* If work-groups share rows, a group larger than the driver's limit for the kernel is not launched: some drivers run it
 * with wrong results instead of refusing it. Returns whether the context's limit was lowered. */
static bool exceeds_workgroup_limit(tfm_context *ctx, tfm__kernel *kernel, const tfm__grid *grid) {
    const size_t items = workgroup_items(grid);
    if (ctx->tuning.class != TFM__CLASS_GPU || items <= tfm__kernel_max_workgroup(ctx, kernel))
        return false;
    char what[256];
    snprintf(what, sizeof(what), "kernel %s has %zux%zux%zu items per work-group, %s allows %zu", kernel->name,
             grid->local[0], grid->local[1], grid->local[2], ctx->info.name, kernel->max_workgroup);
    return tfm__workgroup_limit_reduce(ctx, what, items, kernel->max_workgroup);
}

/* Whether a launch failed because of its work-group size; the context's limit is lowered then. CPU-style devices use
 * groups of one item, except for the reference GEMM, and CPU drivers report less than they run, so the driver's limit
 * counts only here. "Out of resources" may also mean too little memory, so there the limit must agree. */
static bool refused_for_workgroup(tfm_context *ctx, tfm__kernel *kernel, const tfm__grid *grid, cl_int error) {
    const size_t items = workgroup_items(grid);
    bool large = error == CL_INVALID_WORK_GROUP_SIZE || error == CL_INVALID_WORK_ITEM_SIZE;
    if (error == CL_OUT_OF_RESOURCES) {
        cl_ulong local = 0;
        clGetKernelWorkGroupInfo(kernel->cl, ctx->device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof(local), &local, NULL);
        large = items > tfm__kernel_max_workgroup(ctx, kernel) || local > ctx->limits.local_bytes;
    }
    char what[256];
    snprintf(what, sizeof(what), "kernel %s does not run in work-groups of %zux%zux%zu items on %s: %s (%d)",
             kernel->name, grid->local[0], grid->local[1], grid->local[2], ctx->info.name, tfm__cl_error_name(error),
             (int)error);
    return large && tfm__workgroup_limit_reduce(ctx, what, items, tfm__kernel_max_workgroup(ctx, kernel));
}

static tfm_status wait_failed(tfm_context *ctx, const char *what, const tfm__kernel *kernel, cl_int error) {
    char subject[256];
    snprintf(subject, sizeof(subject), "%s kernel %s", what, kernel->name);
    return tfm__cl_fail_wait(ctx, error, subject);
}

static tfm_status set_args(tfm_context *ctx, tfm__kernel *kernel, size_t count, const tfm__arg *args) {
    cl_uint index = 0;
    for (size_t i = 0; i < count; i++) {
        if (set_arg(ctx, kernel, index, &args[i]) != TFM_OK)
            return ctx->status;
        index += (cl_uint)parameter_count(&args[i]);
    }
    return TFM_OK;
}

static bool tensors_alive(tfm_context *ctx, const tfm__kernel *kernel, size_t count, const tfm__arg *args) {
    for (size_t i = 0; i < count; i++)
        if (args[i].kind == TFM__ARG_TENSOR && args[i].tensor.buffer && !tfm__tensor_alive(ctx, args[i].tensor)) {
            tfm__context_fail(ctx, TFM_ERROR_ARGUMENT, "kernel %s: tensor '%s' is used after its scope was closed",
                              kernel->name, args[i].name);
            return false;
        }
    return true;
}

static tfm_status enqueue(tfm_context *ctx, tfm__kernel *kernel, tfm__grid grid) {
    cl_event event = NULL;
    cl_command_queue queue = tfm__queue(ctx);
    if (ctx->status != TFM_OK)
        return ctx->status;
    ctx->launches++;
    /* PoCL compiles at a kernel's first run and for each new local size: wait for it and count it as a build. */
    const bool compiles = kernel->built_here && memcmp(kernel->local, grid.local, sizeof(grid.local)) != 0;
    cl_int waited = compiles ? clFinish(queue) : CL_SUCCESS;
    if (waited != CL_SUCCESS)
        return wait_failed(ctx, "what was launched before", kernel, waited);
    const double begun = compiles ? tfm__seconds() : 0;
    const tfm__pocl_order order = tfm__pocl_begin(ctx, kernel, &grid);
    cl_int error = clEnqueueNDRangeKernel(queue, kernel->cl, 3, NULL, grid.global, grid.local, 0, NULL,
                                          ctx->profile ? &event : NULL);
    if ((compiles || order == TFM__POCL_EXCLUSIVE) && error == CL_SUCCESS)
        waited = clFinish(queue);
    tfm__pocl_end(order, error == CL_SUCCESS);
    if (waited != CL_SUCCESS) {
        if (event)
            clReleaseEvent(event);
        return wait_failed(ctx, compiles ? "the first launch of" : "the launch of", kernel, waited);
    }
    if (compiles && error == CL_SUCCESS) {
        ctx->build_seconds += tfm__seconds() - begun;
        memcpy(kernel->local, grid.local, sizeof(grid.local));
    }
    if (error != CL_SUCCESS && refused_for_workgroup(ctx, kernel, &grid, error))
        return ctx->status;
    if (error != CL_SUCCESS) {
        const tfm_status status = tfm__cl_status(ctx, error);
        return tfm__context_fail(
            ctx, status, "kernel %s, %zux%zux%zu items in groups of %zux%zux%zu, does not run on %s: %s (%d)%s",
            kernel->name, grid.global[0], grid.global[1], grid.global[2], grid.local[0], grid.local[1], grid.local[2],
            ctx->info.name, tfm__cl_error_name(error), (int)error, tfm__cl_advice(status, error));
    }
    if (event)
        tfm__profile_add(ctx->profile, kernel->name, event, &grid);
    return TFM_OK;
}

tfm_status tfm__launch(tfm_context *ctx, tfm__kernel *kernel, tfm__grid grid, size_t count, const tfm__arg *args) {
    if (ctx->status != TFM_OK || !kernel)
        return ctx->status;
    if (!kernel->checked && check_names(ctx, kernel, count, args) != TFM_OK)
        return ctx->status;
    if (exceeds_workgroup_limit(ctx, kernel, &grid))
        return ctx->status;
    const bool empty = grid.global[0] == 0 || grid.global[1] == 0 || grid.global[2] == 0;
    if (!tensors_alive(ctx, kernel, count, args) || empty)
        return ctx->status;
    if (tfm__megakernel_collect(ctx, kernel, &grid, count, args))
        ctx->launches++, ctx->collected++;
    else if (set_args(ctx, kernel, count, args) == TFM_OK)
        enqueue(ctx, kernel, grid);
    return ctx->status;
}
