/* Recordings: launches that are enqueued once, and again as a command buffer (cl_khr_command_buffer), which takes a
 * driver one call where it took one for each kernel and each argument.
 *
 * While a part of a recording is under way, what is launched runs as ever, and is written down besides. So nothing is
 * lost where a recording comes to nothing: it is given up, and its user goes on with launches. Kernels alone are
 * recorded, since the extension's functions for copies and fills have changed since it was provisional; whatever else
 * is enqueued gives a recording up.
 *
 * Its launches keep the memory that they were given. Blocks that are given back meanwhile become the recording's own,
 * so that nothing else comes to lie in them until it is freed. */
#include <string.h>
#include "dev/cl.h"
#include "dev/cores.h"
#include "dev/pocl_launch.h"
#include "dev/recording.h"

/* The extension's interface, which headers hide or do not have, as far as it is the same in all versions. */
typedef struct command_buffer command_buffer;
typedef command_buffer *(CL_API_CALL *create_fn)(cl_uint queues, const cl_command_queue *list,
                                                 const cl_bitfield *properties, cl_int *error);
typedef cl_int(CL_API_CALL *one_fn)(command_buffer *buffer);
typedef cl_int(CL_API_CALL *kernel_fn)(command_buffer *buffer, cl_command_queue queue, const void *properties,
                                       cl_kernel kernel, cl_uint dimensions, const size_t *offset, const size_t *global,
                                       const size_t *local, cl_uint waits, const cl_uint *list, cl_uint *point,
                                       void *handle);
typedef cl_int(CL_API_CALL *enqueue_fn)(cl_uint queues, cl_command_queue *list, command_buffer *buffer, cl_uint waits,
                                        const cl_event *events, cl_event *event);
enum {
    DEVICE_CAPABILITIES = 0x12A9,
    DEVICE_REQUIRED_QUEUE_PROPERTIES = 0x12AA,
    CAPABILITY_SIMULTANEOUS_USE = 1 << 2,
    PROPERTY_FLAGS = 0x1293,
    FLAG_SIMULTANEOUS_USE = 1 << 0
};

typedef struct interface {
    create_fn create;
    one_fn finalize, release;
    kernel_fn kernel;
    enqueue_fn enqueue;
    bool simultaneous; /* a command buffer may be enqueued again before it has ended */
} interface;

typedef struct part {
    command_buffer *buffer;
    cl_event newest; /* of its newest run, or NULL */
    uint64_t launches;
    bool whole;
} part;

struct tfm__recording {
    interface with;
    part parts[TFM__RECORDED_PARTS];
    part *now; /* under way */
    bool given_up;
    cl_kernel *kernels; /* one for each launch: see add_kernel */
    size_t count, room;
    tfm_buffer *blocks[TFM__SIZE_CLASSES]; /* tfm__recording_blocks */
};

static void *function(const tfm_context *ctx, const char *name) {
    return clGetExtensionFunctionAddressForPlatform(ctx->platform, name);
}

/* A function's address comes as one of data. */
#define FIND(to, name)                                                                                                 \
    do {                                                                                                               \
        void *address = function(ctx, name);                                                                           \
        memcpy(&(to), &address, sizeof(to));                                                                           \
    } while (0)

static bool find_interface(interface *out, const tfm_context *ctx) {
    cl_bitfield can = 0, needs = 0;
    *out = (interface){0};
    if (!(ctx->capabilities.has & TFM__HAS_COMMANDS) ||
        clGetDeviceInfo(ctx->device, DEVICE_CAPABILITIES, sizeof(can), &can, NULL) != CL_SUCCESS ||
        clGetDeviceInfo(ctx->device, DEVICE_REQUIRED_QUEUE_PROPERTIES, sizeof(needs), &needs, NULL) != CL_SUCCESS ||
        needs != 0)
        return false;
    FIND(out->create, "clCreateCommandBufferKHR");
    FIND(out->finalize, "clFinalizeCommandBufferKHR");
    FIND(out->release, "clReleaseCommandBufferKHR");
    FIND(out->kernel, "clCommandNDRangeKernelKHR");
    FIND(out->enqueue, "clEnqueueCommandBufferKHR");
    out->simultaneous = (can & CAPABILITY_SIMULTANEOUS_USE) != 0;
    return out->create && out->finalize && out->release && out->kernel && out->enqueue;
}

bool tfm__context_records(const tfm_context *ctx) {
    /* Profiles are of single kernels; and whoever collects kernels for others, or has them from others, has those that
     * are always asked for. */
    return !ctx->profile && !tfm__context_closed(ctx) && ctx->capabilities.has & TFM__HAS_COMMANDS;
}

bool tfm__context_set_records(tfm_context *ctx, bool records) {
    const bool before = ctx->tuning.records;
    ctx->tuning.records = records;
    return before;
}

uint64_t tfm__recording_runs(const tfm_context *ctx) {
    return ctx->recorded_runs;
}

tfm_buffer **tfm__recording_blocks(tfm__recording *recording) {
    return recording->blocks;
}

/* ---- Recording --------------------------------------------------------------------------------------------------- */

void tfm__recording_give_up(tfm_context *ctx) {
    tfm__recording *r = ctx->recording;
    if (!r)
        return;
    tfm__pool_join(ctx, r->blocks);
    r->given_up = true;
    r->now = NULL;
    ctx->recording = NULL;
}

tfm_status tfm__recording_begin(tfm_context *ctx, tfm__recording **recording, int number) {
    if (ctx->status != TFM_OK || ctx->recording)
        return ctx->status;
    if (!*recording && !(*recording = tfm__alloc(1, sizeof(**recording))))
        return tfm__context_fail(ctx, TFM_ERROR_MEMORY, "out of host memory for a recording");
    tfm__recording *r = *recording;
    if (r->given_up)
        return TFM_OK;
    if (!r->with.create && !find_interface(&r->with, ctx)) {
        r->given_up = true;
        return TFM_OK;
    }
    const cl_bitfield properties[] = {PROPERTY_FLAGS, FLAG_SIMULTANEOUS_USE, 0};
    cl_int error = CL_SUCCESS;
    tfm__cores_keep(ctx, true); /* a recording is of one queue */
    part *p = &r->parts[number];
    p->buffer = r->with.create(1, &ctx->queue, r->with.simultaneous ? properties : NULL, &error);
    if (error != CL_SUCCESS || !p->buffer) {
        p->buffer = NULL;
        r->given_up = true;
        tfm__cores_keep(ctx, false);
        return TFM_OK;
    }
    r->now = p;
    ctx->recording = r;
    return TFM_OK;
}

bool tfm__recording_end(tfm_context *ctx, tfm__recording *r) {
    if (!r || ctx->recording != r)
        return false;
    if (ctx->status != TFM_OK || r->with.finalize(r->now->buffer) != CL_SUCCESS) {
        tfm__recording_give_up(ctx);
        return false;
    }
    r->now->whole = true;
    r->now = NULL;
    ctx->recording = NULL;
    return true;
}

static cl_int set_args(cl_kernel kernel, size_t count, const tfm__arg *args) {
    cl_int error = CL_SUCCESS;
    cl_uint index = 0;
    for (size_t i = 0; i < count && error == CL_SUCCESS; i++) {
        const cl_long number =
            args[i].kind == TFM__ARG_TENSOR ? (cl_long)args[i].tensor.offset : (cl_long)args[i].integer;
        const cl_float real = args[i].real;
        if (args[i].kind == TFM__ARG_TENSOR) {
            const tfm_buffer *buffer = args[i].tensor.buffer;
            error = clSetKernelArg(kernel, index++, sizeof(cl_mem), buffer ? &buffer->memory : NULL);
        }
        if (error == CL_SUCCESS && args[i].kind == TFM__ARG_FLOAT)
            error = clSetKernelArg(kernel, index++, sizeof(real), &real);
        else if (error == CL_SUCCESS && args[i].kind == TFM__ARG_STRUCT)
            error = clSetKernelArg(kernel, index++, args[i].bytes, args[i].data);
        else if (error == CL_SUCCESS)
            error = clSetKernelArg(kernel, index++, sizeof(number), &number);
    }
    return error;
}

/* A kernel object for this launch alone. One that is launched with other arguments later would be enough by the
 * extension's text; but PoCL 3.1 takes the arguments that a kernel has when the command buffer is enqueued. */
static cl_kernel add_kernel(tfm__recording *r, const tfm__kernel *kernel) {
    cl_program program = NULL;
    cl_int error = CL_SUCCESS;
    if (r->count == r->room) {
        const size_t room = r->room ? 2 * r->room : 64;
        cl_kernel *more = realloc(r->kernels, room * sizeof(*more));
        if (!more)
            return NULL;
        r->kernels = more;
        r->room = room;
    }
    if (clGetKernelInfo(kernel->cl, CL_KERNEL_PROGRAM, sizeof(program), &program, NULL) != CL_SUCCESS)
        return NULL;
    cl_kernel own = clCreateKernel(program, kernel->name, &error);
    if (error != CL_SUCCESS || !own)
        return NULL;
    return r->kernels[r->count++] = own;
}

void tfm__recording_add(tfm_context *ctx, const tfm__kernel *kernel, const tfm__grid *grid, size_t count,
                        const tfm__arg *args) {
    tfm__recording *r = ctx->recording;
    cl_kernel own = add_kernel(r, kernel);
    if (!own || set_args(own, count, args) != CL_SUCCESS ||
        r->with.kernel(r->now->buffer, NULL, NULL, own, 3, NULL, grid->global, grid->local, 0, NULL, NULL, NULL) !=
            CL_SUCCESS)
        tfm__recording_give_up(ctx);
    else
        r->now->launches++;
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

tfm_status tfm__recording_run(tfm_context *ctx, tfm__recording *r, int number) {
    part *p = &r->parts[number];
    cl_event event = NULL;
    if (ctx->status != TFM_OK)
        return ctx->status;
    if (!r->with.simultaneous && p->newest) {
        const cl_int waited = clWaitForEvents(1, &p->newest);
        if (waited != CL_SUCCESS)
            return tfm__cl_fail_wait(ctx, waited, "a recorded step: clWaitForEvents");
    }
    const tfm__pocl_turn turn = tfm__pocl_begin_again(ctx);
    const cl_int error = r->with.enqueue(0, NULL, p->buffer, 0, NULL, &event);
    tfm__pocl_end(turn, error == CL_SUCCESS);
    if (error != CL_SUCCESS)
        return tfm__cl_fail(ctx, error, "a recorded step: clEnqueueCommandBufferKHR");
    if (p->newest)
        clReleaseEvent(p->newest);
    p->newest = event;
    ctx->launches += p->launches;
    ctx->recorded_runs++;
    return TFM_OK;
}

void tfm__recording_free(tfm_context *ctx, tfm__recording **recording) {
    tfm__recording *r = *recording;
    if (!r)
        return;
    *recording = NULL;
    if (ctx->recording == r)
        tfm__recording_give_up(ctx);
    for (int i = 0; i < TFM__RECORDED_PARTS; i++) {
        if (r->parts[i].newest)
            clReleaseEvent(r->parts[i].newest);
        if (r->parts[i].buffer)
            r->with.release(r->parts[i].buffer);
    }
    for (size_t i = 0; i < r->count; i++)
        clReleaseKernel(r->kernels[i]);
    free(r->kernels);
    tfm__pool_join(ctx, r->blocks);
    free(r);
}
