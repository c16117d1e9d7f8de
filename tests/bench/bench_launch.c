/* Cost of a kernel launch that only reads 1 MB: the lower bound for a 1 x 512 x 512 GEMV.
 *
 *     bench_launch    on the first OpenCL CPU device, with plain OpenCL calls, without tfm
 *
 * A turn is 1000 launches in order and a wait. Each line: a kernel and its number of work-groups of one work-item,
 * median and minimum of 31 turns. `empty` reads nothing; `reads` sums 1 MB in four streams. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TURNS = 31, LAUNCHES = 1000, MOST_GROUPS = 256 };

static const char *source = "__kernel void empty(__global const float *b, __global float *c, int lines) {\n"
                            "    if (lines < 0)\n"
                            "        c[get_group_id(0)] = b[0];\n"
                            "}\n"
                            "__kernel void reads(__global const float *b, __global float *c, int lines) {\n"
                            "    __global const float *p = b + (size_t)get_group_id(0) * lines * 64;\n"
                            "    const size_t stream = (size_t)lines * 16;\n"
                            "    float16 s0 = 0, s1 = 0, s2 = 0, s3 = 0;\n"
                            "    for (int i = 0; i < lines; i++) {\n"
                            "        s0 += vload16(i, p);\n"
                            "        s1 += vload16(i, p + stream);\n"
                            "        s2 += vload16(i, p + 2 * stream);\n"
                            "        s3 += vload16(i, p + 3 * stream);\n"
                            "    }\n"
                            "    vstore16(s0 + s1 + s2 + s3, get_group_id(0), c);\n"
                            "}\n";

static void check(cl_int code, const char *call) {
    if (code == CL_SUCCESS)
        return;
    fprintf(stderr, "bench_launch: %s gives error %d\n", call, code);
    exit(1);
}

static cl_device_id first_cpu(void) {
    cl_platform_id platforms[16];
    cl_uint count = 0;
    cl_device_id device = NULL;
    check(clGetPlatformIDs(16, platforms, &count), "clGetPlatformIDs");
    for (cl_uint i = 0; i < count && i < 16; i++)
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_CPU, 1, &device, NULL) == CL_SUCCESS)
            return device;
    fprintf(stderr, "bench_launch: no OpenCL platform here has a CPU\n");
    exit(1);
}

static double turn(cl_command_queue queue, cl_kernel kernel, size_t groups, int launches) {
    struct timespec start, end;
    const size_t one = 1;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < launches; i++)
        check(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &groups, &one, 0, NULL, NULL), "clEnqueueNDRangeKernel");
    check(clFinish(queue), "clFinish");
    clock_gettime(CLOCK_MONOTONIC, &end);
    return ((double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec)) / launches;
}

static int compare(const void *x, const void *y) {
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

int main(int argc, char **argv) {
    const size_t bytes = argc > 1 ? strtoul(argv[1], NULL, 10) : 1 << 20;
    static const char *const names[] = {"empty", "reads"};
    cl_int code = CL_SUCCESS;
    cl_device_id device = first_cpu();
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    check(code, "clCreateContext");
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &code);
    check(code, "clCreateCommandQueue");
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &code);
    check(code, "clCreateProgramWithSource");
    check(clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram");
    cl_mem b = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &code);
    check(code, "clCreateBuffer");
    cl_mem c = clCreateBuffer(context, CL_MEM_READ_WRITE, MOST_GROUPS * 64, NULL, &code);
    check(code, "clCreateBuffer");
    const float value = 1;
    check(clEnqueueFillBuffer(queue, b, &value, sizeof(value), 0, bytes, 0, NULL, NULL), "clEnqueueFillBuffer");
    for (int k = 0; k < 2; k++) {
        cl_kernel kernel = clCreateKernel(program, names[k], &code);
        check(code, "clCreateKernel");
        for (int groups = 1; groups <= MOST_GROUPS; groups *= 4) {
            const cl_int lines = (cl_int)(bytes / 256 / (size_t)groups);
            double seconds[TURNS];
            check(clSetKernelArg(kernel, 0, sizeof(b), &b), "clSetKernelArg");
            check(clSetKernelArg(kernel, 1, sizeof(c), &c), "clSetKernelArg");
            check(clSetKernelArg(kernel, 2, sizeof(lines), &lines), "clSetKernelArg");
            turn(queue, kernel, (size_t)groups, LAUNCHES);
            for (int i = 0; i < TURNS; i++)
                seconds[i] = turn(queue, kernel, (size_t)groups, LAUNCHES);
            qsort(seconds, TURNS, sizeof(*seconds), compare);
            printf("%s, groups %3d: median %6.2f us, least %6.2f us\n", names[k], groups, seconds[TURNS / 2] * 1e6,
                   seconds[0] * 1e6);
        }
        clReleaseKernel(kernel);
    }
    clReleaseMemObject(c);
    clReleaseMemObject(b);
    clReleaseProgram(program);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    return 0;
}
