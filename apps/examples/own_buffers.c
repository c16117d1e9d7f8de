/* An op on the caller's own OpenCL context, queue and buffers: y = softmax(x) of two rows.
 *
 *     cc own_buffers.c $(pkg-config --cflags --libs tfm OpenCL) -o own_buffers && ./own_buffers */
#include <stdio.h>
#include <tfm/opencl.h>
#include <tfm/tfm.h>

/* The first device of the first platform that has one. */
static cl_device_id first_device(void) {
    cl_platform_id platforms[16];
    cl_uint count = 0;
    cl_device_id device = NULL;
    clGetPlatformIDs(16, platforms, &count);
    for (cl_uint i = 0; i < count && i < 16; i++)
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &device, NULL) == CL_SUCCESS)
            return device;
    return NULL;
}

/* Ops are enqueued on the caller's queue, which is in order: between a write and a read that the caller
 * enqueues, nobody has to wait. */
static tfm_status softmax(tfm_context *ctx, cl_mem y, cl_mem x) {
    const int64_t dims[] = {2, 4};
    tfm_tensor wrapped_x = {0}, wrapped_y = {0};
    tfm_scope_open(ctx); /* at its end the buffers are the caller's alone again */
    tfm_tensor_wrap(ctx, &wrapped_x, x, 0, TFM_F32, 2, dims);
    tfm_tensor_wrap(ctx, &wrapped_y, y, 0, TFM_F32, 2, dims);
    tfm_softmax(ctx, &wrapped_y, wrapped_x);
    return tfm_scope_close(ctx, 0, NULL);
}

int main(void) {
    const float numbers[2][4] = {{0, 1, 2, 3}, {5, 5, 5, 5}};
    float result[2][4];
    cl_device_id device = first_device();
    if (!device) {
        fprintf(stderr, "there is no OpenCL device\n");
        return 1;
    }
    cl_int error = CL_SUCCESS, got = CL_SUCCESS;
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    cl_command_queue queue = error ? NULL : clCreateCommandQueue(context, device, 0, &error);
    cl_mem x = error ? NULL : clCreateBuffer(context, CL_MEM_READ_ONLY, sizeof(numbers), NULL, &error);
    cl_mem y = error ? NULL : clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof(result), NULL, &error);
    tfm_context *ctx = NULL;
    if (error) {
        fprintf(stderr, "OpenCL says %d\n", error);
        return 1;
    }
    got = clEnqueueWriteBuffer(queue, x, CL_FALSE, 0, sizeof(numbers), numbers, 0, NULL, NULL);
    if (tfm_context_wrap(&ctx, context, device, queue, NULL) != TFM_OK || softmax(ctx, y, x) != TFM_OK)
        fprintf(stderr, "%s\n", tfm_error_message());
    else if (!got)
        got = clEnqueueReadBuffer(queue, y, CL_TRUE, 0, sizeof(result), result, 0, NULL, NULL);
    const bool done = ctx && tfm_context_status(ctx) == TFM_OK && !got;
    for (int i = 0; done && i < 2; i++)
        printf("%.5f %.5f %.5f %.5f\n", (double)result[i][0], (double)result[i][1], (double)result[i][2],
               (double)result[i][3]);
    tfm_context_free(&ctx); /* it retained what it was given: the caller's objects are still there */
    clReleaseMemObject(y);
    clReleaseMemObject(x);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    return done ? 0 : 1;
}
