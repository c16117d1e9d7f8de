/* An OpenCL layer that makes any device report the properties of a GPU, so that the library requests the programs for
 * that GPU: OPENCL_LAYERS=/path/to/this.so. Programs are recorded (record.h), nothing is computed: launches, writes and
 * copies succeed at once, and reads return zeros.
 *
 *     TFM_POSE=a=1,b=2           the reported device:
 *         group=N      maximum work-group size, default 1024
 *         local=N      bytes of local memory, default 32768
 *         fp16=1       cl_khr_fp16
 *         subgroups=1  cl_khr_subgroups, and OpenCL C 3.0
 *         compute=N    NVIDIA, compute capability N / 10
 *         gfx=N,wave=N AMD, instruction set N, waves of so many work-items
 *         intel=1      Intel, with cl_intel_required_subgroup_size
 *         dpas=N       Intel with matrix cores, and sub-groups of N, 2 N or 4 N work-items
 *         width=N      a CPU with vectors of N floats
 *         unbuilt=1    the driver builds none of the library's programs (unbuilt.h)
 *         run=1        kernels run and compute: slow, to compare the recorded programs with a real run
 *     TFM_POSE_PROGRAMS=FOLDER   where the programs are written
 */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#include <CL/cl.h>
#include <CL/cl_layer.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "record.h"
#include "unbuilt.h"

static cl_icd_dispatch next, own;

#define WAITS cl_uint waits, const cl_event *list, cl_event *event
#define ANSWER size_t size, void *value, size_t *needed

/* ---- What the device says of itself ------------------------------------------------------------------------------ */

static uint64_t pose(const char *name, uint64_t otherwise) {
    const size_t length = strlen(name);
    for (const char *at = getenv("TFM_POSE"); at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, length) == 0 && at[length] == '=')
            return strtoull(at + length + 1, NULL, 10);
    }
    return otherwise;
}

static cl_int say(const void *answer, size_t bytes, ANSWER) {
    if (needed)
        *needed = bytes;
    if (value && size < bytes)
        return CL_INVALID_VALUE;
    if (value)
        memcpy(value, answer, bytes);
    return CL_SUCCESS;
}

/* The driver's extensions, replaced by the ones of the pose. */
static cl_int say_extensions(cl_device_id device, ANSWER) {
    static const struct {
        const char *pose, *name;
    } DECIDED[] = {{"fp16", "cl_khr_fp16"},
                   {"subgroups", "cl_khr_subgroups"},
                   {"compute", "cl_nv_device_attribute_query"},
                   {"gfx", "cl_amd_device_attribute_query"},
                   {"intel", "cl_intel_required_subgroup_size"},
                   {"dpas", "cl_intel_subgroup_matrix_multiply_accumulate"}};
    enum { COUNT = sizeof(DECIDED) / sizeof(DECIDED[0]) };
    size_t bytes = 0;
    cl_int code = next.clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, 0, NULL, &bytes);
    char *real = code == CL_SUCCESS ? calloc(bytes + 1, 1) : NULL, *list = real ? calloc(bytes + 256, 1) : NULL;
    if (!list) {
        free(real);
        return code == CL_SUCCESS ? CL_OUT_OF_HOST_MEMORY : code;
    }
    code = next.clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, bytes, real, NULL);
    char *rest = NULL;
    for (char *word = strtok_r(real, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        bool decided = false;
        for (int i = 0; i < COUNT; i++)
            decided = decided || strcmp(word, DECIDED[i].name) == 0;
        if (!decided)
            strcat(strcat(list, word), " ");
    }
    for (int i = 0; i < COUNT; i++)
        if (pose(DECIDED[i].pose, 0))
            strcat(strcat(list, DECIDED[i].name), " ");
    if (code == CL_SUCCESS)
        code = say(list, strlen(list) + 1, size, value, needed);
    free(real);
    free(list);
    return code;
}

/* Answers to vendor-specific queries; false for any other query. */
static bool say_vendors(cl_device_info what, cl_int *code, ANSWER) {
    enum { NV_MAJOR = 0x4000, NV_MINOR = 0x4001, AMD_WAVE = 0x4043, AMD_MAJOR = 0x404a, SUB_GROUP_SIZES = 0x4108 };
    const size_t dpas = (size_t)pose("dpas", 0), sizes[] = {4 * dpas, 2 * dpas, dpas};
    const cl_uint compute = (cl_uint)pose("compute", 0), gfx = (cl_uint)pose("gfx", 0);
    const bool nvidia = compute > 0 && (what == NV_MAJOR || what == NV_MINOR);
    const bool amd = gfx > 0 && (what == AMD_WAVE || what == AMD_MAJOR);
    const cl_uint answer = what == NV_MAJOR   ? compute / 10
                           : what == NV_MINOR ? compute % 10
                           : what == AMD_WAVE ? (cl_uint)pose("wave", 32)
                                              : gfx;
    const bool intel = dpas > 0 && what == SUB_GROUP_SIZES;
    if (nvidia || amd)
        *code = say(&answer, sizeof(answer), size, value, needed);
    if (intel)
        *code = say(sizes, sizeof(sizes), size, value, needed);
    return nvidia || amd || intel;
}

static cl_int CL_API_CALL my_clGetDeviceInfo(cl_device_id device, cl_device_info what, ANSWER) {
    const cl_uint width = (cl_uint)pose("width", 1);
    const bool cpu = width > 1;
    const cl_device_type type = cpu ? CL_DEVICE_TYPE_CPU : CL_DEVICE_TYPE_GPU;
    const cl_ulong local = pose("local", 32768);
    const cl_device_local_mem_type kind = cpu ? CL_GLOBAL : CL_LOCAL;
    const cl_bool unified = cpu;
    const size_t group = (size_t)pose("group", 1024), items[3] = {group, group, group};
    static const char C[] = "OpenCL C 3.0 ";
    switch (what) {
    case CL_DEVICE_TYPE:
        return say(&type, sizeof(type), size, value, needed);
    case CL_DEVICE_LOCAL_MEM_SIZE:
        return say(&local, sizeof(local), size, value, needed);
    case CL_DEVICE_LOCAL_MEM_TYPE:
        return say(&kind, sizeof(kind), size, value, needed);
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT:
    case CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT:
        return say(&width, sizeof(width), size, value, needed);
    case CL_DEVICE_HOST_UNIFIED_MEMORY:
        return say(&unified, sizeof(unified), size, value, needed);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
        return say(&group, sizeof(group), size, value, needed);
    case CL_DEVICE_MAX_WORK_ITEM_SIZES:
        return say(items, sizeof(items), size, value, needed);
    case CL_DEVICE_EXTENSIONS:
        return say_extensions(device, size, value, needed);
    case CL_DEVICE_OPENCL_C_VERSION:
        if (pose("subgroups", 0))
            return say(C, sizeof(C), size, value, needed);
    }
    cl_int code;
    return say_vendors(what, &code, size, value, needed) ? code
                                                         : next.clGetDeviceInfo(device, what, size, value, needed);
}

static cl_int CL_API_CALL my_clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device,
                                                      cl_kernel_work_group_info what, ANSWER) {
    const size_t group = (size_t)pose("group", 1024);
    if (what == CL_KERNEL_WORK_GROUP_SIZE)
        return say(&group, sizeof(group), size, value, needed);
    return next.clGetKernelWorkGroupInfo(kernel, device, what, size, value, needed);
}

/* ---- Programs ---------------------------------------------------------------------------------------------------- */

/* The options without definitions that only this pose adds. */
static char *without_extras(const char *options) {
    static const char *const EXTRAS[] = {" -DTFM_HAS_", " -cl-intel-"};
    char *out = strdup(options);
    for (size_t i = 0; i < sizeof(EXTRAS) / sizeof(EXTRAS[0]); i++)
        for (char *at = out; at && (at = strstr(at, EXTRAS[i]));)
            memmove(at, at + 1 + strcspn(at + 1, " "), strlen(at + 1 + strcspn(at + 1, " ")) + 1);
    return out;
}

static cl_int CL_API_CALL my_clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices,
                                            const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
                                            void *user) {
    size_t bytes = 0;
    next.clGetProgramInfo(program, CL_PROGRAM_SOURCE, 0, NULL, &bytes);
    char *source = calloc(bytes + 1, 1), *plain = without_extras(options ? options : "");
    if (!source || !plain || next.clGetProgramInfo(program, CL_PROGRAM_SOURCE, bytes, source, NULL) != CL_SUCCESS)
        abort();
    /* Leaves out code that the local compiler cannot build, such as MMA instructions. */
    const bool unbuilt = pose("unbuilt", 0) && (unbuilt_program(program, source, options ? options : "") ||
                                                unbuilt_program(program, source, plain));
    cl_int code = unbuilt ? CL_SUCCESS : next.clBuildProgram(program, count, devices, options, notify, user);
    /* The driver builds it only for the kernels' parameters. If it fails with the reported features, it is built
     * without them. */
    if (code != CL_SUCCESS && options && strcmp(plain, options) != 0)
        code = next.clBuildProgram(program, count, devices, plain, notify, user);
    if (*source && code == CL_SUCCESS) /* some tests build programs with errors */
        record_program(program, source, options ? options : "");
    free(source);
    free(plain);
    return code;
}

/* CLBlast reads the binary of its programs, for which PoCL would compile every kernel. */
static cl_int CL_API_CALL my_clGetProgramInfo(cl_program program, cl_program_info what, ANSWER) {
    static const size_t one = 1;
    if (!pose("unbuilt", 0) || (what != CL_PROGRAM_BINARY_SIZES && what != CL_PROGRAM_BINARIES))
        return next.clGetProgramInfo(program, what, size, value, needed);
    if (what == CL_PROGRAM_BINARY_SIZES)
        return say(&one, sizeof(one), size, value, needed);
    if (value)
        **(unsigned char **)value = 0;
    if (needed)
        *needed = sizeof(unsigned char *);
    return CL_SUCCESS;
}

static cl_kernel CL_API_CALL my_clCreateKernel(cl_program program, const char *name, cl_int *code) {
    cl_int unbuilt;
    cl_kernel kernel = unbuilt_kernel(&next, program, name, &unbuilt);
    if (!kernel && unbuilt == CL_SUCCESS)
        return next.clCreateKernel(program, name, code);
    if (code)
        *code = unbuilt;
    return kernel;
}

static cl_int CL_API_CALL my_clGetKernelInfo(cl_kernel kernel, cl_kernel_info what, ANSWER) {
    cl_program program;
    const char *name = unbuilt_name(kernel, &program);
    if (name && what == CL_KERNEL_FUNCTION_NAME)
        return say(name, strlen(name) + 1, size, value, needed);
    if (name && what == CL_KERNEL_PROGRAM)
        return say(&program, sizeof(program), size, value, needed);
    return next.clGetKernelInfo(kernel, what, size, value, needed);
}

static cl_int CL_API_CALL my_clGetKernelArgInfo(cl_kernel kernel, cl_uint index, cl_kernel_arg_info what, ANSWER) {
    cl_program program;
    return unbuilt_name(kernel, &program) ? CL_KERNEL_ARG_INFO_NOT_AVAILABLE
                                          : next.clGetKernelArgInfo(kernel, index, what, size, value, needed);
}

static cl_int CL_API_CALL my_clSetKernelArg(cl_kernel kernel, cl_uint index, size_t size, const void *value) {
    cl_program program;
    return unbuilt_name(kernel, &program) ? CL_SUCCESS : next.clSetKernelArg(kernel, index, size, value);
}

/* ---- Commands, which do nothing ---------------------------------------------------------------------------------- */

static bool runs(void) {
    return pose("run", 0) != 0;
}

/* Returns a completed event with times if the caller wants one. */
static cl_int nothing(cl_command_queue queue, WAITS) {
    return event ? next.clEnqueueMarkerWithWaitList(queue, waits, list, event) : CL_SUCCESS;
}

static cl_int CL_API_CALL my_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                                    const size_t *offset, const size_t *global, const size_t *local,
                                                    WAITS) {
    cl_program program;
    char name[128] = "";
    size_t group[3] = {0};
    for (cl_uint i = 0; local && i < dimensions && i < 3; i++)
        group[i] = local[i];
    if (my_clGetKernelInfo(kernel, CL_KERNEL_PROGRAM, sizeof(program), &program, NULL) == CL_SUCCESS &&
        my_clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof(name), name, NULL) == CL_SUCCESS)
        record_launch(program, name, group);
    return runs() ? next.clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, global, local, waits, list, event)
                  : nothing(queue, waits, list, event);
}

#define READ cl_command_queue queue, cl_mem memory, cl_bool wait, size_t offset, size_t bytes

static cl_int CL_API_CALL my_clEnqueueReadBuffer(READ, void *host, WAITS) {
    if (runs())
        return next.clEnqueueReadBuffer(queue, memory, wait, offset, bytes, host, waits, list, event);
    memset(host, 0, bytes);
    return nothing(queue, waits, list, event);
}

/* A data transfer command. */
#define MOVE(name, params, args)                                                                                       \
    static cl_int CL_API_CALL my_##name params {                                                                       \
        return runs() ? next.name args : nothing(queue, waits, list, event);                                           \
    }
MOVE(clEnqueueWriteBuffer, (READ, const void *host, WAITS),
     (queue, memory, wait, offset, bytes, host, waits, list, event))
MOVE(clEnqueueCopyBuffer,
     (cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset, size_t to_offset, size_t bytes, WAITS),
     (queue, from, to, from_offset, to_offset, bytes, waits, list, event))
MOVE(clEnqueueFillBuffer,
     (cl_command_queue queue, cl_mem memory, const void *pattern, size_t width, size_t offset, size_t bytes, WAITS),
     (queue, memory, pattern, width, offset, bytes, waits, list, event))

/* ---- The layer's own interface ----------------------------------------------------------------------------------- */

#pragma GCC visibility push(default)

CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, ANSWER) {
    static const char NAME[] = "tfm pose layer";
    const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    if (what == CL_LAYER_API_VERSION)
        return say(&version, sizeof(version), size, value, needed);
    return what == CL_LAYER_NAME ? say(NAME, sizeof(NAME), size, value, needed) : CL_INVALID_VALUE;
}

#define OWN(name) own.name = my_##name

CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint count, const cl_icd_dispatch *target, cl_uint *own_count,
                                            const cl_icd_dispatch **out) {
    if (!target || !own_count || !out)
        return CL_INVALID_VALUE;
    const size_t entries = sizeof(next) / sizeof(next.clGetPlatformIDs);
    memcpy(&next, target, (count < entries ? count : entries) * sizeof(next.clGetPlatformIDs));
    own = next;
    OWN(clGetDeviceInfo), OWN(clGetKernelWorkGroupInfo), OWN(clBuildProgram), OWN(clEnqueueNDRangeKernel);
    OWN(clGetProgramInfo), OWN(clCreateKernel), OWN(clGetKernelInfo), OWN(clGetKernelArgInfo), OWN(clSetKernelArg);
    OWN(clEnqueueReadBuffer), OWN(clEnqueueWriteBuffer), OWN(clEnqueueCopyBuffer), OWN(clEnqueueFillBuffer);
    *own_count = (cl_uint)entries;
    *out = &own;
    return CL_SUCCESS;
}

#pragma GCC visibility pop
