/* The probe detects devices that list and build but do not compute correctly. It runs only if the ranking has a choice,
 * and once per device and driver, because compilation costs more than the rest of a warm start. */
#include <math.h>
#include <string.h>
#include "dev/cache/cache.h"
#include "dev/device/device_select.h"
#include "dev/program/kernel_text.h"

#define ITEMS 64
#define TOLERANCE 1e-5

/* OpenCL objects of the probe, released together. */
struct probe_objects {
    cl_context context;
    cl_command_queue queue;
    cl_program program;
    cl_kernel kernel;
    cl_mem x, y;
};

static const char *probe_source(void) {
    const tfm__kernel_source *entry = TFM__KERNEL_SOURCES;
    while (entry->name && strcmp(entry->name, "probe") != 0)
        entry++;
    return entry->text;
}

static cl_int build(struct probe_objects *objects, const tfm__device *device, const char *text, float *input) {
    cl_int error;
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)device->platform, 0};
    const size_t bytes = ITEMS * sizeof(*input);
    objects->context = clCreateContext(properties, 1, &device->device, NULL, NULL, &error);
    if (error == CL_SUCCESS)
        objects->queue = clCreateCommandQueue(objects->context, device->device, 0, &error);
    if (error == CL_SUCCESS)
        objects->program = clCreateProgramWithSource(objects->context, 1, &text, NULL, &error);
    if (error == CL_SUCCESS)
        error = clBuildProgram(objects->program, 1, &device->device, "-cl-std=CL1.2", NULL, NULL);
    if (error == CL_SUCCESS)
        objects->kernel = clCreateKernel(objects->program, "probe", &error);
    if (error == CL_SUCCESS)
        objects->x = clCreateBuffer(objects->context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, bytes, input, &error);
    if (error == CL_SUCCESS)
        objects->y = clCreateBuffer(objects->context, CL_MEM_WRITE_ONLY, bytes, NULL, &error);
    return error;
}

static cl_int compute(struct probe_objects *objects, float *output) {
    const cl_int n = ITEMS;
    const size_t items = ITEMS;
    cl_int error = clSetKernelArg(objects->kernel, 0, sizeof(objects->x), &objects->x);
    if (error == CL_SUCCESS)
        error = clSetKernelArg(objects->kernel, 1, sizeof(objects->y), &objects->y);
    if (error == CL_SUCCESS)
        error = clSetKernelArg(objects->kernel, 2, sizeof(n), &n);
    if (error == CL_SUCCESS)
        error = clEnqueueNDRangeKernel(objects->queue, objects->kernel, 1, NULL, &items, NULL, 0, NULL, NULL);
    if (error == CL_SUCCESS)
        error =
            clEnqueueReadBuffer(objects->queue, objects->y, CL_TRUE, 0, ITEMS * sizeof(*output), output, 0, NULL, NULL);
    return error;
}

static void release(struct probe_objects *objects) {
    if (objects->queue)
        clFinish(objects->queue); /* the kernel may still run after a failed read */
    if (objects->y)
        clReleaseMemObject(objects->y);
    if (objects->x)
        clReleaseMemObject(objects->x);
    if (objects->kernel)
        clReleaseKernel(objects->kernel);
    if (objects->program)
        clReleaseProgram(objects->program);
    if (objects->queue)
        clReleaseCommandQueue(objects->queue);
    if (objects->context)
        clReleaseContext(objects->context);
}

/* Whether y matches the kernel's formula in double precision. */
static bool is_correct(const float *x, const float *y) {
    for (int i = 0; i < ITEMS; i++) {
        double expected = exp((double)x[i]);
        for (int j = 0; j < 8; j++)
            expected += (double)x[(i + j) % ITEMS];
        if (!(fabs((double)y[i] - expected) <= TOLERANCE * (fabs(expected) + 1)))
            return false;
    }
    return true;
}

static tfm_status run_probe(const tfm__device *device, const char *text) {
    struct probe_objects objects = {0};
    float x[ITEMS], y[ITEMS];
    for (int i = 0; i < ITEMS; i++) {
        x[i] = (float)(i - ITEMS / 2) / 16;
        y[i] = NAN;
    }
    cl_int error = build(&objects, device, text, x);
    if (error == CL_SUCCESS)
        error = compute(&objects, y);
    release(&objects);
    if (error != CL_SUCCESS)
        return tfm__fail(TFM_ERROR_DEVICE, "%s does not run the probe kernel: %s (%d)", device->info.name,
                         tfm__cl_error_name(error), (int)error);
    if (!is_correct(x, y))
        return tfm__fail(TFM_ERROR_DEVICE, "%s computes wrong results in the probe kernel", device->info.name);
    return TFM_OK;
}

tfm_status tfm__device_probe(const tfm__device *device) {
    static const char PASSED[] = "passed";
    const char *text = probe_source();
    char *identity = tfm__device_fingerprint_text(device->device);
    char *key = identity
                    ? tfm__format("probe %016llx\n%s", (unsigned long long)tfm__hash64(text, strlen(text), 0), identity)
                    : NULL;
    free(identity);
    size_t bytes = 0;
    void *known = key ? tfm__cache_get(key, &bytes) : NULL;
    tfm_status status = TFM_OK;
    if (!known || bytes != sizeof(PASSED) || memcmp(known, PASSED, bytes) != 0) {
        status = run_probe(device, text);
        if (status == TFM_OK && key)
            tfm__cache_put(key, PASSED, sizeof(PASSED));
    }
    free(known);
    free(key);
    return status;
}
