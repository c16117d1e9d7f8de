/* OpenCL layer for fault injection tests: OPENCL_LAYERS=/path/to/this.so. It makes a chosen call fail (also calls of
 * CLBlast), reports reduced device limits, and counts references of every object. Settings: ledger.h.
 *
 * Keys of TFM_FAULT_LIE:
 *     compiler=0    no compiler: building from source fails
 *     memory=N      reported global memory in bytes; nothing is refused
 *     max_alloc=N   bytes of one buffer; larger ones are refused
 *     max_group=N   work-group size; larger ones are refused
 *     kernel_group=N  work-group size of a kernel (register limit); larger ones are refused
 *     kernel_quiet=N  the same, but a larger launch does nothing and reports success
 *     max_items=N   work-items of a group along one dimension; more are refused
 *     little=0      big-endian device
 *     local=N       bytes of local memory; a kernel that needs more does not run
 *     width=N       native and preferred float vector width
 *     type=N        CL_DEVICE_TYPE: 2 CPU, 4 GPU, 8 accelerator
 *     arg_info=0    no names of kernel parameters
 *     embedded=N    the embedded profile, 1 without 64-bit integers, 2 with them
 *     c_version=N   the newest OpenCL C, times ten
 *     fp_config=N   CL_DEVICE_SINGLE_FP_CONFIG: 2 infinity and NaN, 4 rounding to nearest
 *
 * A failing call does nothing, except release calls: they release and then report a failure.
 */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#include <CL/cl.h>
#include <CL/cl_layer.h>
#include <stdio.h>
#include <string.h>
#include "ledger.h"

static cl_icd_dispatch next, own;

/* A call on an object or a device that creates nothing. */
#define ASK(name, on, error, params, args)                                                                             \
    static cl_int CL_API_CALL my_##name params {                                                                       \
        return ledger_due(#name, on) ? ledger_code(error) : next.name args;                                            \
    }

/* A call that creates an object; its last parameter is `cl_int *code`, passed to the driver as `into`. */
#define MAKE(type, kind, name, on, error, params, args)                                                                \
    static type CL_API_CALL my_##name params {                                                                         \
        cl_int unasked, *into = code ? code : &unasked;                                                                \
        if (ledger_due(#name, on)) {                                                                                   \
            *into = ledger_code(error);                                                                                \
            return NULL;                                                                                               \
        }                                                                                                              \
        type made = next.name args;                                                                                    \
        if (made && *into == CL_SUCCESS)                                                                               \
            ledger_add(made, kind, on);                                                                                \
        return made;                                                                                                   \
    }

/* Retain and release. The slot is dropped before the release, because another thread may get the address. */
#define COUNTED(type, kind, retain, release, error)                                                                    \
    static cl_int CL_API_CALL my_##retain(type object) {                                                               \
        if (ledger_due(#retain, object))                                                                               \
            return ledger_code(CL_OUT_OF_HOST_MEMORY);                                                                 \
        cl_int code = next.retain(object);                                                                             \
        if (code == CL_SUCCESS)                                                                                        \
            ledger_add(object, kind, object);                                                                          \
        return code;                                                                                                   \
    }                                                                                                                  \
    static cl_int CL_API_CALL my_##release(type object) {                                                              \
        bool due = ledger_due(#release, object);                                                                       \
        ledger_drop(object, kind);                                                                                     \
        cl_int code = next.release(object);                                                                            \
        return due ? ledger_code(error) : code;                                                                        \
    }

/* A command of a `queue`; its last parameter is `cl_event *event`. */
#define ENQUEUE(name, error, params, args)                                                                             \
    static cl_int CL_API_CALL my_##name params {                                                                       \
        if (ledger_due(#name, queue))                                                                                  \
            return ledger_code(error);                                                                                 \
        cl_int code = next.name args;                                                                                  \
        if (code == CL_SUCCESS && event)                                                                               \
            ledger_add(*event, LEDGER_EVENT, queue);                                                                   \
        return code;                                                                                                   \
    }

#define WAITS cl_uint waits, const cl_event *list, cl_event *event
#define ANSWER size_t size, void *value, size_t *needed

/* ---- Lies -------------------------------------------------------------------------------------------------------- */

static void set_numbers(void *value, size_t size, size_t count, uint64_t number) {
    cl_uint narrow = (cl_uint)number;
    for (size_t i = 0; i < count; i++)
        memcpy((char *)value + i * size, size == sizeof(narrow) ? (void *)&narrow : (void *)&number, size);
}

static cl_int say(const char *text, ANSWER) {
    const size_t bytes = strlen(text) + 1;
    if (needed)
        *needed = bytes;
    if (value && size < bytes)
        return CL_INVALID_VALUE;
    if (value)
        memcpy(value, text, bytes);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL my_clGetDeviceInfo(cl_device_id device, cl_device_info what, ANSWER) {
    static const struct {
        cl_device_info what;
        const char *name;
        size_t size, count;
    } LIES[] = {
        {CL_DEVICE_COMPILER_AVAILABLE, "compiler", sizeof(cl_bool), 1},
        {CL_DEVICE_LINKER_AVAILABLE, "compiler", sizeof(cl_bool), 1},
        {CL_DEVICE_MAX_MEM_ALLOC_SIZE, "max_alloc", sizeof(cl_ulong), 1},
        {CL_DEVICE_GLOBAL_MEM_SIZE, "memory", sizeof(cl_ulong), 1},
        {CL_DEVICE_MAX_WORK_GROUP_SIZE, "max_group", sizeof(size_t), 1},
        {CL_DEVICE_MAX_WORK_ITEM_SIZES, "max_group", sizeof(size_t), 3},
        {CL_DEVICE_MAX_WORK_ITEM_SIZES, "max_items", sizeof(size_t), 3},
        {CL_DEVICE_ENDIAN_LITTLE, "little", sizeof(cl_bool), 1},
        {CL_DEVICE_LOCAL_MEM_SIZE, "local", sizeof(cl_ulong), 1},
        {CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, "width", sizeof(cl_uint), 1},
        {CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT, "width", sizeof(cl_uint), 1},
        {CL_DEVICE_TYPE, "type", sizeof(cl_device_type), 1},
        {CL_DEVICE_SINGLE_FP_CONFIG, "fp_config", sizeof(cl_device_fp_config), 1},
    };
    uint64_t number;
    if (ledger_due("clGetDeviceInfo", device))
        return ledger_code(CL_OUT_OF_HOST_MEMORY);
    if (what == CL_DEVICE_PROFILE && ledger_lie("embedded", &number))
        return say("EMBEDDED_PROFILE", size, value, needed);
    if (what == CL_DEVICE_EXTENSIONS && ledger_lie("embedded", &number))
        return say(number == 2 ? "cles_khr_int64" : "", size, value, needed);
    if (what == CL_DEVICE_OPENCL_C_VERSION && ledger_lie("c_version", &number)) {
        char text[32];
        snprintf(text, sizeof(text), "OpenCL C %u.%u ", (unsigned)number / 10, (unsigned)number % 10);
        return say(text, size, value, needed);
    }
    cl_int code = next.clGetDeviceInfo(device, what, size, value, needed);
    for (size_t i = 0; i < sizeof(LIES) / sizeof(LIES[0]) && value && code == CL_SUCCESS; i++)
        if (LIES[i].what == what && ledger_lie(LIES[i].name, &number))
            set_numbers(value, LIES[i].size, LIES[i].count, number);
    return code;
}

static cl_int CL_API_CALL my_clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device,
                                                      cl_kernel_work_group_info what, ANSWER) {
    if (ledger_due("clGetKernelWorkGroupInfo", kernel))
        return ledger_code(CL_OUT_OF_RESOURCES);
    cl_int code = next.clGetKernelWorkGroupInfo(kernel, device, what, size, value, needed);
    static const char *const LIMITS[] = {"max_group", "kernel_group", "kernel_quiet"};
    uint64_t most;
    for (int i = 0; i < 3 && code == CL_SUCCESS && value && what == CL_KERNEL_WORK_GROUP_SIZE; i++)
        if (ledger_lie(LIMITS[i], &most) && *(size_t *)value > most)
            *(size_t *)value = (size_t)most;
    return code;
}

static cl_int CL_API_CALL my_clGetKernelArgInfo(cl_kernel kernel, cl_uint index, cl_kernel_arg_info what, ANSWER) {
    uint64_t known;
    if (ledger_due("clGetKernelArgInfo", kernel) || (ledger_lie("arg_info", &known) && !known))
        return CL_KERNEL_ARG_INFO_NOT_AVAILABLE;
    return next.clGetKernelArgInfo(kernel, index, what, size, value, needed);
}

static cl_mem CL_API_CALL my_clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host,
                                            cl_int *code) {
    cl_int unasked, *into = code ? code : &unasked;
    uint64_t most;
    bool due = ledger_due("clCreateBuffer", context);
    if (due || (ledger_lie("max_alloc", &most) && size > most)) {
        *into = due ? ledger_code(CL_MEM_OBJECT_ALLOCATION_FAILURE) : CL_INVALID_BUFFER_SIZE;
        return NULL;
    }
    cl_mem made = next.clCreateBuffer(context, flags, size, host, into);
    if (made && *into == CL_SUCCESS)
        ledger_add(made, LEDGER_MEM, context);
    return made;
}

static cl_program CL_API_CALL my_clCreateProgramWithSource(cl_context context, cl_uint count, const char **strings,
                                                           const size_t *lengths, cl_int *code) {
    cl_int unasked, *into = code ? code : &unasked;
    if (ledger_due("clCreateProgramWithSource", context)) {
        *into = ledger_code(CL_OUT_OF_HOST_MEMORY);
        return NULL;
    }
    cl_program made = next.clCreateProgramWithSource(context, count, strings, lengths, into);
    if (made && *into == CL_SUCCESS)
        ledger_add(made, LEDGER_PROGRAM, context);
    return made;
}

static size_t items_of(cl_uint dimensions, const size_t *local) {
    size_t items = local ? 1 : 0;
    for (cl_uint i = 0; local && i < dimensions; i++)
        items *= local[i];
    return items;
}

/* The answer of a device with the reduced limits to a launch. */
static cl_int too_much(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t *local) {
    uint64_t most;
    if ((ledger_lie("kernel_group", &most) || ledger_lie("max_group", &most)) && items_of(dimensions, local) > most)
        return CL_INVALID_WORK_GROUP_SIZE;
    for (cl_uint i = 0; local && ledger_lie("max_items", &most) && i < dimensions; i++)
        if (local[i] > most)
            return CL_INVALID_WORK_ITEM_SIZE;
    cl_device_id device;
    cl_ulong used;
    if (ledger_lie("local", &most) &&
        next.clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof(device), &device, NULL) == CL_SUCCESS &&
        next.clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof(used), &used, NULL) ==
            CL_SUCCESS &&
        used > most)
        return CL_OUT_OF_RESOURCES;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL my_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                                    const size_t *offset, const size_t *global, const size_t *local,
                                                    WAITS) {
    if (ledger_due("clEnqueueNDRangeKernel", queue))
        return ledger_code(CL_OUT_OF_RESOURCES);
    uint64_t most;
    cl_int code = too_much(queue, kernel, dimensions, local);
    if (code == CL_SUCCESS && ledger_lie("kernel_quiet", &most) && items_of(dimensions, local) > most)
        code = next.clEnqueueMarkerWithWaitList(queue, waits, list, event);
    else if (code == CL_SUCCESS)
        code = next.clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, global, local, waits, list, event);
    if (code == CL_SUCCESS && event)
        ledger_add(*event, LEDGER_EVENT, queue);
    return code;
}

/* ---- The rest of OpenCL 1.2 that has to do with buffers and kernels ---------------------------------------------- */

ASK(clGetPlatformIDs, NULL, CL_OUT_OF_HOST_MEMORY, (cl_uint room, cl_platform_id *ids, cl_uint *count),
    (room, ids, count))
ASK(clGetPlatformInfo, NULL, CL_OUT_OF_HOST_MEMORY, (cl_platform_id platform, cl_platform_info what, ANSWER),
    (platform, what, size, value, needed))

/* Records each device's name before the first call on it. */
static cl_int CL_API_CALL my_clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint room,
                                            cl_device_id *ids, cl_uint *count) {
    char name[256];
    cl_uint found = 0;
    if (ledger_due("clGetDeviceIDs", NULL))
        return ledger_code(CL_DEVICE_NOT_FOUND);
    cl_int code = next.clGetDeviceIDs(platform, type, room, ids, &found);
    if (count)
        *count = found;
    for (cl_uint i = 0; i < (found < room ? found : room) && ids && code == CL_SUCCESS; i++)
        if (next.clGetDeviceInfo(ids[i], CL_DEVICE_NAME, sizeof(name), name, NULL) == CL_SUCCESS)
            ledger_name(ids[i], name);
    return code;
}

#define NOTIFY void(CL_CALLBACK * notify)(const char *, const void *, size_t, void *), void *user
MAKE(cl_context, LEDGER_CONTEXT, clCreateContext, count > 0 ? devices[0] : NULL, CL_DEVICE_NOT_AVAILABLE,
     (const cl_context_properties *properties, cl_uint count, const cl_device_id *devices, NOTIFY, cl_int *code),
     (properties, count, devices, notify, user, into))
MAKE(cl_context, LEDGER_CONTEXT, clCreateContextFromType, NULL, CL_DEVICE_NOT_FOUND,
     (const cl_context_properties *properties, cl_device_type type, NOTIFY, cl_int *code),
     (properties, type, notify, user, into))
COUNTED(cl_context, LEDGER_CONTEXT, clRetainContext, clReleaseContext, CL_OUT_OF_RESOURCES)
ASK(clGetContextInfo, context, CL_OUT_OF_HOST_MEMORY, (cl_context context, cl_context_info what, ANSWER),
    (context, what, size, value, needed))

MAKE(cl_command_queue, LEDGER_QUEUE, clCreateCommandQueue, context, CL_OUT_OF_RESOURCES,
     (cl_context context, cl_device_id device, cl_command_queue_properties flags, cl_int *code),
     (context, device, flags, into))
COUNTED(cl_command_queue, LEDGER_QUEUE, clRetainCommandQueue, clReleaseCommandQueue, CL_OUT_OF_RESOURCES)
ASK(clGetCommandQueueInfo, queue, CL_OUT_OF_HOST_MEMORY, (cl_command_queue queue, cl_command_queue_info what, ANSWER),
    (queue, what, size, value, needed))
ASK(clFlush, queue, CL_OUT_OF_RESOURCES, (cl_command_queue queue), (queue))
ASK(clFinish, queue, CL_OUT_OF_RESOURCES, (cl_command_queue queue), (queue))

MAKE(cl_mem, LEDGER_MEM, clCreateSubBuffer, whole, CL_MEM_OBJECT_ALLOCATION_FAILURE,
     (cl_mem whole, cl_mem_flags flags, cl_buffer_create_type type, const void *region, cl_int *code),
     (whole, flags, type, region, into))
COUNTED(cl_mem, LEDGER_MEM, clRetainMemObject, clReleaseMemObject, CL_OUT_OF_RESOURCES)
ASK(clSetMemObjectDestructorCallback, memory, CL_OUT_OF_HOST_MEMORY,
    (cl_mem memory, void(CL_CALLBACK *notify)(cl_mem, void *), void *user), (memory, notify, user))
ASK(clGetMemObjectInfo, memory, CL_OUT_OF_HOST_MEMORY, (cl_mem memory, cl_mem_info what, ANSWER),
    (memory, what, size, value, needed))

#define BUILT void(CL_CALLBACK * notify)(cl_program, void *), void *user
MAKE(cl_program, LEDGER_PROGRAM, clCreateProgramWithBinary, context, CL_INVALID_BINARY,
     (cl_context context, cl_uint count, const cl_device_id *devices, const size_t *lengths,
      const unsigned char **binaries, cl_int *states, cl_int *code),
     (context, count, devices, lengths, binaries, states, into))
COUNTED(cl_program, LEDGER_PROGRAM, clRetainProgram, clReleaseProgram, CL_OUT_OF_RESOURCES)
/* Without a compiler a program from binaries is built, one from source is not. */
static cl_int CL_API_CALL my_clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices,
                                            const char *options, BUILT) {
    uint64_t compiler;
    size_t bytes = 0;
    if (ledger_due("clBuildProgram", program))
        return ledger_code(CL_BUILD_PROGRAM_FAILURE);
    if (ledger_lie("compiler", &compiler) && !compiler &&
        next.clGetProgramInfo(program, CL_PROGRAM_SOURCE, 0, NULL, &bytes) == CL_SUCCESS && bytes > 1)
        return CL_COMPILER_NOT_AVAILABLE;
    return next.clBuildProgram(program, count, devices, options, notify, user);
}
ASK(clCompileProgram, program, CL_COMPILE_PROGRAM_FAILURE,
    (cl_program program, cl_uint count, const cl_device_id *devices, const char *options, cl_uint headers,
     const cl_program *texts, const char **names, BUILT),
    (program, count, devices, options, headers, texts, names, notify, user))
MAKE(cl_program, LEDGER_PROGRAM, clLinkProgram, context, CL_LINK_PROGRAM_FAILURE,
     (cl_context context, cl_uint count, const cl_device_id *devices, const char *options, cl_uint inputs,
      const cl_program *programs, BUILT, cl_int *code),
     (context, count, devices, options, inputs, programs, notify, user, into))
ASK(clGetProgramInfo, program, CL_OUT_OF_HOST_MEMORY, (cl_program program, cl_program_info what, ANSWER),
    (program, what, size, value, needed))
ASK(clGetProgramBuildInfo, program, CL_OUT_OF_HOST_MEMORY,
    (cl_program program, cl_device_id device, cl_program_build_info what, ANSWER),
    (program, device, what, size, value, needed))

MAKE(cl_kernel, LEDGER_KERNEL, clCreateKernel, program, CL_OUT_OF_HOST_MEMORY,
     (cl_program program, const char *name, cl_int *code), (program, name, into))
COUNTED(cl_kernel, LEDGER_KERNEL, clRetainKernel, clReleaseKernel, CL_OUT_OF_RESOURCES)
ASK(clSetKernelArg, kernel, CL_OUT_OF_RESOURCES, (cl_kernel kernel, cl_uint index, size_t size, const void *value),
    (kernel, index, size, value))
ASK(clGetKernelInfo, kernel, CL_OUT_OF_HOST_MEMORY, (cl_kernel kernel, cl_kernel_info what, ANSWER),
    (kernel, what, size, value, needed))

MAKE(cl_event, LEDGER_EVENT, clCreateUserEvent, context, CL_OUT_OF_HOST_MEMORY, (cl_context context, cl_int *code),
     (context, into))
COUNTED(cl_event, LEDGER_EVENT, clRetainEvent, clReleaseEvent, CL_OUT_OF_RESOURCES)
ASK(clWaitForEvents, count > 0 ? events[0] : NULL, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
    (cl_uint count, const cl_event *events), (count, events))
ASK(clGetEventInfo, event, CL_OUT_OF_HOST_MEMORY, (cl_event event, cl_event_info what, ANSWER),
    (event, what, size, value, needed))
ASK(clGetEventProfilingInfo, event, CL_PROFILING_INFO_NOT_AVAILABLE, (cl_event event, cl_profiling_info what, ANSWER),
    (event, what, size, value, needed))

#define READ cl_command_queue queue, cl_mem memory, cl_bool wait, size_t offset, size_t bytes
ENQUEUE(clEnqueueReadBuffer, CL_OUT_OF_RESOURCES, (READ, void *host, WAITS),
        (queue, memory, wait, offset, bytes, host, waits, list, event))
ENQUEUE(clEnqueueWriteBuffer, CL_OUT_OF_RESOURCES, (READ, const void *host, WAITS),
        (queue, memory, wait, offset, bytes, host, waits, list, event))
ENQUEUE(clEnqueueCopyBuffer, CL_MEM_OBJECT_ALLOCATION_FAILURE,
        (cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset, size_t to_offset, size_t bytes, WAITS),
        (queue, from, to, from_offset, to_offset, bytes, waits, list, event))
ENQUEUE(clEnqueueFillBuffer, CL_MEM_OBJECT_ALLOCATION_FAILURE,
        (cl_command_queue queue, cl_mem memory, const void *pattern, size_t size, size_t offset, size_t bytes, WAITS),
        (queue, memory, pattern, size, offset, bytes, waits, list, event))
static void *CL_API_CALL my_clEnqueueMapBuffer(cl_command_queue queue, cl_mem memory, cl_bool wait, cl_map_flags flags,
                                               size_t offset, size_t bytes, WAITS, cl_int *code) {
    cl_int unasked, *into = code ? code : &unasked;
    if (ledger_due("clEnqueueMapBuffer", queue)) {
        *into = ledger_code(CL_MAP_FAILURE);
        return NULL;
    }
    void *mapped = next.clEnqueueMapBuffer(queue, memory, wait, flags, offset, bytes, waits, list, event, into);
    if (mapped && *into == CL_SUCCESS && event)
        ledger_add(*event, LEDGER_EVENT, queue);
    return mapped;
}
ENQUEUE(clEnqueueUnmapMemObject, CL_OUT_OF_RESOURCES, (cl_command_queue queue, cl_mem memory, void *mapped, WAITS),
        (queue, memory, mapped, waits, list, event))
ENQUEUE(clEnqueueMarkerWithWaitList, CL_OUT_OF_RESOURCES, (cl_command_queue queue, WAITS), (queue, waits, list, event))
ENQUEUE(clEnqueueBarrierWithWaitList, CL_OUT_OF_RESOURCES, (cl_command_queue queue, WAITS), (queue, waits, list, event))

/* ---- The layer's own interface ----------------------------------------------------------------------------------- */

#pragma GCC visibility push(default)

CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, ANSWER) {
    static const char NAME[] = "tfm test layer";
    const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    const void *answer = what == CL_LAYER_API_VERSION ? (const void *)&version : NAME;
    size_t bytes = what == CL_LAYER_API_VERSION ? sizeof(version) : sizeof(NAME);
    if ((what != CL_LAYER_API_VERSION && what != CL_LAYER_NAME) || (value && size < bytes))
        return CL_INVALID_VALUE;
    if (value)
        memcpy(value, answer, bytes);
    if (needed)
        *needed = bytes;
    return CL_SUCCESS;
}

#define OWN(name) own.name = my_##name

CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint count, const cl_icd_dispatch *target, cl_uint *own_count,
                                            const cl_icd_dispatch **out) {
    if (!target || !own_count || !out)
        return CL_INVALID_VALUE;
    size_t entries = sizeof(next) / sizeof(next.clGetPlatformIDs);
    memcpy(&next, target, (count < entries ? count : entries) * sizeof(next.clGetPlatformIDs));
    own = next;
    ledger_open();
    OWN(clGetPlatformIDs), OWN(clGetPlatformInfo), OWN(clGetDeviceIDs), OWN(clGetDeviceInfo);
    OWN(clCreateContext), OWN(clCreateContextFromType), OWN(clRetainContext), OWN(clReleaseContext);
    OWN(clGetContextInfo), OWN(clCreateCommandQueue), OWN(clRetainCommandQueue), OWN(clReleaseCommandQueue);
    OWN(clGetCommandQueueInfo), OWN(clFlush), OWN(clFinish);
    OWN(clCreateBuffer), OWN(clCreateSubBuffer), OWN(clRetainMemObject), OWN(clReleaseMemObject),
        OWN(clSetMemObjectDestructorCallback), OWN(clGetMemObjectInfo);
    OWN(clCreateProgramWithSource), OWN(clCreateProgramWithBinary), OWN(clRetainProgram), OWN(clReleaseProgram);
    OWN(clBuildProgram), OWN(clCompileProgram), OWN(clLinkProgram), OWN(clGetProgramInfo), OWN(clGetProgramBuildInfo);
    OWN(clCreateKernel), OWN(clRetainKernel), OWN(clReleaseKernel), OWN(clSetKernelArg), OWN(clGetKernelInfo);
    OWN(clGetKernelArgInfo), OWN(clGetKernelWorkGroupInfo);
    OWN(clCreateUserEvent), OWN(clRetainEvent), OWN(clReleaseEvent), OWN(clWaitForEvents), OWN(clGetEventInfo);
    OWN(clGetEventProfilingInfo);
    OWN(clEnqueueNDRangeKernel), OWN(clEnqueueReadBuffer), OWN(clEnqueueWriteBuffer), OWN(clEnqueueCopyBuffer);
    OWN(clEnqueueFillBuffer), OWN(clEnqueueMapBuffer), OWN(clEnqueueUnmapMemObject);
    OWN(clEnqueueMarkerWithWaitList), OWN(clEnqueueBarrierWithWaitList);
    *own_count = (cl_uint)entries;
    *out = &own;
    return CL_SUCCESS;
}

#pragma GCC visibility pop
