/* A context around the caller's OpenCL objects: what it accepts and rejects, and that it releases its references. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "support/harness.h"
#include "tfm/opencl.h"

static struct {
    cl_device_id device;
    cl_context context, other;
    cl_command_queue queue, unordered, profiled, foreign;
} own;

/* The reference counts, after waiting for the driver to reach `least`: its worker retains a queue briefly after a
 * command. */
static cl_uint context_count(cl_uint least) {
    cl_uint count = 0;
    for (int i = 0; i < 1000 && count != least; i++) {
        if (i > 0)
            usleep(1000);
        assert_int_equal(clGetContextInfo(own.context, CL_CONTEXT_REFERENCE_COUNT, sizeof(count), &count, NULL),
                         CL_SUCCESS);
    }
    return count;
}

static cl_uint queue_count(cl_command_queue queue, cl_uint least) {
    cl_uint count = 0;
    for (int i = 0; i < 1000 && count != least; i++) {
        if (i > 0)
            usleep(1000);
        assert_int_equal(clGetCommandQueueInfo(queue, CL_QUEUE_REFERENCE_COUNT, sizeof(count), &count, NULL),
                         CL_SUCCESS);
    }
    return count;
}

/* Of the context: ours, and one per queue if the driver counts those (measured before the tests). */
static cl_uint context_base;

static cl_command_queue make_queue(cl_context context, cl_command_queue_properties flags) {
    cl_int error;
    cl_command_queue queue = clCreateCommandQueue(context, own.device, flags, &error);
    return error == CL_SUCCESS ? queue : NULL;
}

/* The caller's objects, on the harness's device. */
static int setup(void **state) {
    tfm_context *ctx;
    cl_int error;
    (void)state;
    unsetenv("TFM_PROFILE");
    if (tfm_context_open(&ctx, NULL) != TFM_OK)
        return -1;
    own.device = tfm_context_cl_device(ctx);
    own.context = clCreateContext(NULL, 1, &own.device, NULL, NULL, &error);
    own.other = clCreateContext(NULL, 1, &own.device, NULL, NULL, &error);
    tfm_context_free(&ctx);
    own.queue = make_queue(own.context, 0);
    own.profiled = make_queue(own.context, CL_QUEUE_PROFILING_ENABLE);
    own.unordered = make_queue(own.context, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    own.foreign = make_queue(own.other, 0);
    if (!own.context || !own.other || !own.queue || !own.foreign)
        return -1;
    clGetContextInfo(own.context, CL_CONTEXT_REFERENCE_COUNT, sizeof(context_base), &context_base, NULL);
    return 0;
}

/* Only our references remain: no leak, no extra release. */
static int teardown(void **state) {
    (void)state;
    cl_command_queue queues[] = {own.queue, own.profiled, own.unordered, own.foreign};
    int failed = 0;
    for (size_t i = 0; i < sizeof(queues) / sizeof(queues[0]); i++) {
        if (!queues[i])
            continue;
        failed |= queue_count(queues[i], 1) != 1;
        clReleaseCommandQueue(queues[i]);
    }
    clReleaseContext(own.context);
    clReleaseContext(own.other);
    return failed ? -1 : 0;
}

/* A tensor round trip, and a view of the caller's buffer. */
static void use(tfm_context *ctx) {
    const int64_t dims[] = {3, 65};
    float sent[3 * 65], got[3 * 65], buffer[100];
    tfm_tensor x = {0}, wrapped = {0};
    cl_int error;
    for (int i = 0; i < 3 * 65; i++)
        sent[i] = (float)i;
    harness_ok(tfm_tensor_new(ctx, &x, TFM_F32, 2, dims));
    harness_ok(tfm_tensor_write(ctx, x, sent));
    harness_ok(tfm_tensor_read(ctx, got, x));
    assert_memory_equal(sent, got, sizeof(sent));
    tfm_tensor_free(ctx, &x);
    memcpy(buffer, sent, sizeof(buffer));
    cl_mem memory =
        clCreateBuffer(tfm_context_cl(ctx), CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof(buffer), buffer, &error);
    assert_int_equal(error, CL_SUCCESS);
    const int64_t most[] = {93}, more[] = {94};
    harness_ok(tfm_tensor_wrap(ctx, &wrapped, memory, 7, TFM_F32, 1, most));
    assert_ptr_equal(tfm_tensor_cl(wrapped), memory);
    harness_ok(tfm_tensor_read(ctx, got, wrapped));
    assert_memory_equal(got, sent + 7, 93 * sizeof(float));
    tfm_tensor_free(ctx, &wrapped);
    assert_int_equal(tfm_tensor_wrap(ctx, &wrapped, memory, 7, TFM_F32, 1, more), TFM_ERROR_ARGUMENT);
    tfm_context_clear_error(ctx);
    cl_uint count = 0;
    for (int i = 0; i < 1000 && count != 1; i++) {
        if (i > 0)
            usleep(1000);
        clGetMemObjectInfo(memory, CL_MEM_REFERENCE_COUNT, sizeof(count), &count, NULL);
    }
    assert_int_equal(count, 1);
    clReleaseMemObject(memory);
}

static void test_wrapped_context_uses_the_callers_queue(void **state) {
    (void)state;
    tfm_context *ctx;
    harness_ok(tfm_context_wrap(&ctx, own.context, own.device, own.queue, NULL));
    assert_ptr_equal(tfm_context_cl(ctx), own.context);
    assert_ptr_equal(tfm_context_cl_device(ctx), own.device);
    assert_ptr_equal(tfm_context_cl_queue(ctx), own.queue);
    assert_true(tfm_context_device(ctx)->index >= 0);
    assert_int_equal(tfm_context_device(ctx)->error[0], 0);
    use(ctx);
    tfm_context_free(&ctx);
    assert_null(ctx);
    assert_int_equal(context_count(context_base), context_base);
    assert_int_equal(queue_count(own.queue, 1), 1);
}

static void test_wrapped_context_makes_its_queue(void **state) {
    (void)state;
    tfm_context *ctx;
    harness_ok(tfm_context_wrap(&ctx, own.context, own.device, NULL, NULL));
    use(ctx);
    tfm_context_free(&ctx);
    assert_int_equal(context_count(context_base), context_base);
}

/* Two around one cl_context, in turn and at once. */
static void test_two_contexts_wrap_one_cl_context(void **state) {
    (void)state;
    tfm_context *first, *second;
    harness_ok(tfm_context_wrap(&first, own.context, own.device, own.queue, NULL));
    harness_ok(tfm_context_wrap(&second, own.context, own.device, NULL, NULL));
    use(first);
    use(second);
    tfm_context_free(&first);
    use(second);
    tfm_context_free(&second);
}

static void refused(cl_context context, cl_device_id device, cl_command_queue queue, bool profile, const char *part) {
    tfm_context *ctx = (tfm_context *)&own; /* anything but NULL */
    const tfm_context_options options = {.profile = profile};
    assert_int_equal(tfm_context_wrap(&ctx, context, device, queue, &options), TFM_ERROR_ARGUMENT);
    assert_null(ctx);
    if (!strstr(tfm_error_message(), part))
        fail_msg("the message lacks \"%s\": %s", part, tfm_error_message());
    assert_int_equal(context_count(context_base), context_base);
}

static void test_unsuitable_opencl_objects_are_rejected(void **state) {
    (void)state;
    refused(NULL, own.device, NULL, false, "cl_context");
    refused(own.context, NULL, NULL, false, "cl_device_id");
    refused(own.context, own.device, own.foreign, false, "another context");
    refused(own.context, own.device, own.queue, true, "CL_QUEUE_PROFILING_ENABLE");
    if (own.unordered)
        refused(own.context, own.device, own.unordered, false, "out of order");
}

static void test_wrapped_context_profiles(void **state) {
    (void)state;
    tfm_context *ctx;
    const tfm_context_options options = {.profile = true};
    harness_ok(tfm_context_wrap(&ctx, own.context, own.device, own.profiled, &options));
    use(ctx);
    tfm_context_free(&ctx);
    harness_ok(tfm_context_wrap(&ctx, own.context, own.device, NULL, &options));
    use(ctx);
    tfm_context_free(&ctx);
}

/* Contexts are independent: a stale tensor or one of another context is an error, not a wrong number. */
static void test_tensors_of_another_context_are_rejected(void **state) {
    (void)state;
    tfm_context *first, *second;
    const int64_t dims[] = {17};
    float host[17] = {0};
    tfm_tensor x = {0};
    harness_ok(tfm_context_wrap(&first, own.context, own.device, NULL, NULL));
    harness_ok(tfm_context_wrap(&second, own.context, own.device, NULL, NULL));
    harness_ok(tfm_tensor_new(first, &x, TFM_F32, 1, dims));
    assert_int_equal(tfm_tensor_read(second, host, x), TFM_ERROR_ARGUMENT);
    tfm_context_clear_error(second);
    tfm_tensor stale = x;
    tfm_tensor_free(first, &x);
    assert_int_equal(tfm_tensor_read(first, host, stale), TFM_ERROR_ARGUMENT);
    tfm_context_free(&first);
    tfm_context_free(&second);
}

/* A tensor around the caller's buffer is stale after it was freed or its scope was closed, also if another one took its
 * place. */
static void test_freed_wrapped_tensor_is_stale(void **state) {
    (void)state;
    tfm_context *ctx;
    cl_int error;
    const int64_t dims[] = {17};
    float host[17] = {0}, numbers[17];
    for (int i = 0; i < 17; i++)
        numbers[i] = (float)i;
    harness_ok(tfm_context_wrap(&ctx, own.context, own.device, own.queue, NULL));
    for (int by_scope = 0; by_scope < 2; by_scope++) {
        cl_mem memory =
            clCreateBuffer(own.context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof(numbers), numbers, &error);
        assert_int_equal(error, CL_SUCCESS);
        tfm_tensor x = {0}, next = {0};
        harness_ok(tfm_scope_open(ctx));
        harness_ok(tfm_tensor_wrap(ctx, &x, memory, 0, TFM_F32, 1, dims));
        const tfm_tensor stale = x;
        if (!by_scope)
            tfm_tensor_free(ctx, &x);
        harness_ok(tfm_scope_close(ctx, 0, NULL));
        for (int replaced = 0; replaced < 2; replaced++) {
            if (replaced)
                harness_ok(tfm_tensor_wrap(ctx, &next, memory, 0, TFM_F32, 1, dims));
            assert_int_equal(tfm_tensor_read(ctx, host, stale), TFM_ERROR_ARGUMENT);
            tfm_context_clear_error(ctx);
            assert_int_equal(tfm_tensor_write(ctx, stale, numbers), TFM_ERROR_ARGUMENT);
            tfm_context_clear_error(ctx);
        }
        harness_ok(tfm_tensor_read(ctx, host, next));
        assert_memory_equal(host, numbers, sizeof(numbers));
        tfm_tensor_free(ctx, &next);
        clReleaseMemObject(memory);
    }
    tfm_context_free(&ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrapped_context_uses_the_callers_queue),
        cmocka_unit_test(test_wrapped_context_makes_its_queue),
        cmocka_unit_test(test_two_contexts_wrap_one_cl_context),
        cmocka_unit_test(test_unsuitable_opencl_objects_are_rejected),
        cmocka_unit_test(test_wrapped_context_profiles),
        cmocka_unit_test(test_tensors_of_another_context_are_rejected),
        cmocka_unit_test(test_freed_wrapped_tensor_is_stale),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
