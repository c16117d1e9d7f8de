/* Contract of contexts: scopes free memory and keep listed tensors, stale tensors are rejected, the first failure
 * sticks, kernels are checked by name and overridden by file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dev/device/context_internal.h"
#include "support/harness.h"
#include "ops/ops.h"
#include "support/scratch.h"
#include "tfm/opencl.h"

static tfm_tensor fresh(int64_t count) {
    tfm_tensor x = {0};
    harness_ok(tfm_tensor_new(harness_context(), &x, TFM_F32, 1, &count));
    return x;
}

static void test_scope_reuses_pooled_memory(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_buffer *first = NULL;
    /* In steady state a step gets its memory from the pool. */
    for (int step = 0; step < 5; step++) {
        harness_ok(tfm_scope_open(ctx));
        tfm_tensor x = fresh(1000);
        if (step == 0)
            first = x.buffer;
        assert_ptr_equal(x.buffer, first);
        harness_ok(tfm_scope_close(ctx, 0, NULL));
    }
}

static void test_scope_keeps_listed_tensors(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const float value = 42;
    tfm_scope_open(ctx);
    tfm_scope_open(ctx);
    tfm_scope_open(ctx);
    tfm_tensor kept = fresh(3), lost = fresh(3), empty = {0};
    harness_ok(tfm__tensor_fill(ctx, kept, &value));
    harness_ok(tfm_scope_close(ctx, 2, (tfm_tensor *[]){&kept, &empty}));
    assert_false(tfm__tensor_alive(ctx, lost));
    /* Kept for the next scope only; freed there, its memory is reused and the old handle is detected as stale. */
    float *host = harness_floats(kept);
    assert_true(host[0] == 42 && host[2] == 42);
    free(host);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    assert_false(tfm__tensor_alive(ctx, kept));
    harness_ok(tfm_scope_close(ctx, 0, NULL));
}

/* A caller's output stays in its own scope, even if another scope keeps it. */
static void test_outer_tensor_stays_with_its_scope(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor outer = fresh(8);
    tfm_scope_open(ctx);
    tfm_scope_open(ctx);
    harness_ok(tfm_scope_close(ctx, 1, (tfm_tensor *[]){&outer}));
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    assert_true(tfm__tensor_alive(ctx, outer));
    tfm_tensor_free(ctx, &outer);
    assert_null(outer.buffer);
}

static void test_stale_and_foreign_tensors_are_rejected(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_scope_open(ctx);
    tfm_tensor x = fresh(16), y = {0};
    tfm_scope_close(ctx, 0, NULL);
    harness_refused(tfm_softmax(ctx, &y, x), TFM_ERROR_ARGUMENT, "scope was closed");
    float host[16];
    harness_refused(tfm_tensor_read(ctx, host, x), TFM_ERROR_ARGUMENT, "scope was closed");
    tfm_context *other = NULL;
    harness_ok(tfm_context_open(&other, NULL));
    tfm_tensor foreign = {0};
    harness_ok(tfm_tensor_new(other, &foreign, TFM_F32, 1, (int64_t[]){16}));
    harness_refused(tfm_softmax(ctx, &y, foreign), TFM_ERROR_ARGUMENT, "another context");
    tfm_context_free(&other);
}

static void test_first_error_is_sticky(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor a = fresh(4), b = fresh(5), y = {0}, z = {0};
    tfm_scope_open(ctx);
    assert_int_equal(tfm_add(ctx, &y, a, b), TFM_ERROR_ARGUMENT);
    char first[256];
    snprintf(first, sizeof(first), "%s", tfm_context_error(ctx));
    assert_non_null(strstr(first, "add"));
    /* Ops after a failure do nothing and return its status. */
    assert_int_equal(tfm_softmax(ctx, &z, a), TFM_ERROR_ARGUMENT);
    assert_null(z.buffer);
    assert_int_equal(tfm_tensor_new(ctx, &z, TFM_F32, 9, (int64_t[]){1}), TFM_ERROR_ARGUMENT);
    assert_string_equal(tfm_context_error(ctx), first);
    tfm_context_clear_error(ctx);
    assert_int_equal(tfm_context_status(ctx), TFM_OK);
    assert_string_equal(tfm_context_error(ctx), "");
    harness_ok(tfm_softmax(ctx, &z, a));
    /* The open scope is closed: one more close is an error. */
    harness_refused(tfm_scope_close(ctx, 0, NULL), TFM_ERROR_ARGUMENT, "no scope");
}

/* An output tensor is empty after a failure, whatever the caller's struct held before. */
static void test_failed_output_tensor_is_empty(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const int64_t dims[] = {2, 2}, bad[] = {-1};
    const tfm_tensor x = fresh(4);
    tfm_tensor out;
    for (int call = 0; call < 8; call++) {
        const bool failed = call < 4; /* before the call, and for another reason */
        if (failed)
            tfm__context_fail(ctx, TFM_ERROR_INPUT, "failed before");
        memset(&out, 0x5a, sizeof(out));
        const tfm_status status =
            call % 4 == 0   ? tfm_tensor_new(ctx, &out, TFM_F32, failed ? 2 : 1, failed ? dims : bad)
            : call % 4 == 1 ? tfm_tensor_wrap(ctx, &out, failed ? tfm_tensor_cl(x) : NULL, 0, TFM_F32, 2, dims)
            : call % 4 == 2 ? tfm_tensor_reshape(ctx, &out, x, 2, failed ? dims : NULL)
                            : tfm_tensor_rows(ctx, &out, x, failed ? 0 : 9, 1);
        assert_int_equal(status, failed ? TFM_ERROR_INPUT : TFM_ERROR_ARGUMENT);
        if (out.buffer || out.rank || out.generation)
            fail_msg("call %d: *out is not NULL", call);
        tfm_context_clear_error(ctx);
    }
    /* The dims of a view may point into its own output struct. */
    out = (tfm_tensor){.dims = {2, 2}};
    harness_ok(tfm_tensor_reshape(ctx, &out, x, 2, out.dims));
    assert_true(out.dims[0] == 2 && out.dims[1] == 2);
}

/* A NULL list still closes the scope, so that calls stay paired. */
static void test_scope_close_without_list_still_closes(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const int depth = tfm__scope_depth(ctx);
    harness_ok(tfm_scope_open(ctx));
    const tfm_status status = tfm_scope_close(ctx, 1, NULL);
    assert_int_equal(tfm__scope_depth(ctx), depth);
    harness_refused(status, TFM_ERROR_ARGUMENT, "scope_close: keep is NULL");
}

static void test_invalid_tensor_shapes_are_rejected(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor x = {0}, view = {0};
    harness_refused(tfm_tensor_new(ctx, &x, TFM_F32, 0, (int64_t[]){1}), TFM_ERROR_ARGUMENT, "dimensions");
    harness_refused(tfm_tensor_new(ctx, &x, TFM_F32, 2, (int64_t[]){3, -1}), TFM_ERROR_ARGUMENT, "dimensions");
    harness_refused(tfm_tensor_new(ctx, &x, TFM_F32, 3, (int64_t[]){1LL << 31, 1LL << 31, 1LL << 31}),
                    TFM_ERROR_ARGUMENT, "dimensions");
    harness_refused(tfm_tensor_new(ctx, &x, (tfm_dtype)(TFM_I8 + 1), 1, (int64_t[]){1}), TFM_ERROR_ARGUMENT, "dtype");
    const int64_t huge = (int64_t)(tfm__context_limits(ctx)->max_alloc / 4) + 1;
    harness_refused(tfm_tensor_new(ctx, &x, TFM_F32, 1, &huge), TFM_ERROR_MEMORY, "smaller batch");
    x = fresh(12);
    harness_ok(tfm_tensor_reshape(ctx, &view, x, 2, (int64_t[]){3, 4}));
    harness_refused(tfm_tensor_rows(ctx, &view, view, 2, 2), TFM_ERROR_ARGUMENT, "rows");
    harness_refused(tfm_tensor_reshape(ctx, &view, x, 2, (int64_t[]){3, 5}), TFM_ERROR_ARGUMENT, "(3, 5)");
    harness_refused(tfm_tensor_reshape(ctx, &view, x, 2, (int64_t[]){-3, -4}), TFM_ERROR_ARGUMENT, "(-3, -4)");
    /* A product of dims that overflows to the right number. */
    harness_refused(tfm_tensor_reshape(ctx, &view, x, 2, (int64_t[]){12, (INT64_C(1) << 62) + 1}), TFM_ERROR_ARGUMENT,
                    "cannot be seen");
}

static void test_unclosed_scopes_are_reported(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_status status = TFM_OK;
    for (int i = 0; i < 100 && status == TFM_OK; i++)
        status = tfm_scope_open(ctx);
    harness_refused(status, TFM_ERROR_ARGUMENT, "close each scope");
}

/* A no-op reports why, also after another failure; free functions keep the message. */
static void test_error_message_survives_frees(void **state) {
    (void)state;
    const int64_t dims[] = {-1};
    tfm_context *broken = NULL, *ctx = harness_context();
    tfm_tensor x = {0}, y = {0};
    float host = 0;
    harness_ok(tfm_context_open(&broken, NULL));
    assert_int_equal(tfm_tensor_new(broken, &x, TFM_F32, 1, dims), TFM_ERROR_ARGUMENT);
    char first[256];
    snprintf(first, sizeof(first), "%s", tfm_error_message());
    for (int i = 0; i < 4; i++) {
        harness_refused(tfm_tensor_new(ctx, &y, TFM_F32, TFM_MAX_RANK + 1, dims), TFM_ERROR_ARGUMENT, "dimensions");
        tfm__fail(TFM_ERROR_INPUT, "another");
        const tfm_status status = i == 0   ? tfm_tensor_new(broken, &x, TFM_F32, 1, &(int64_t){1})
                                  : i == 1 ? tfm_add(broken, &x, x, x)
                                  : i == 2 ? tfm_tensor_read(broken, &host, x)
                                           : tfm_context_finish(broken);
        assert_int_equal(status, TFM_ERROR_ARGUMENT);
        assert_string_equal(tfm_error_message(), first);
    }
    /* Internal failures with a fallback leave no message; failures that the caller saw stay. */
    tfm__fail(TFM_ERROR_INPUT, "kept");
    assert_int_equal(tfm_tensor_new(ctx, &y, TFM_F32, 1, dims), TFM_ERROR_ARGUMENT);
    tfm__context_recover(ctx, 0);
    assert_string_equal(tfm_error_message(), "kept");
    harness_ok(tfm_context_status(ctx));
    assert_int_equal(tfm_tensor_new(ctx, &y, TFM_F32, 1, dims), TFM_ERROR_ARGUMENT);
    tfm_context_clear_error(ctx);
    assert_string_not_equal(tfm_error_message(), "kept");
    /* Freed like a valid one, with a kernel to store. */
    const char *folder = getenv("TFM_CACHE_DIR");
    char *kept = folder ? strdup(folder) : NULL;
    setenv("TFM_CACHE_DIR", "/proc/no/such/folder", 1);
    tfm_context_clear_error(broken);
    harness_ok(tfm_tensor_new(broken, &x, TFM_F32, 1, &(int64_t){1}));
    harness_ok(tfm_tensor_write(broken, x, &host));
    harness_ok(tfm_add(broken, &y, x, x));
    tfm__fail(TFM_ERROR_INPUT, "kept");
    tfm_context_free(&broken);
    assert_string_equal(tfm_error_message(), "kept");
    if (kept)
        setenv("TFM_CACHE_DIR", kept, 1);
    else
        unsetenv("TFM_CACHE_DIR");
    free(kept);
}

/* A struct filled by hand is checked before memory is accessed. */
static void test_hand_filled_tensor_is_validated(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    float host[8] = {0};
    tfm_tensor x = fresh(8);
    const int64_t counts[] = {100000, ((int64_t)1 << 62) + 1, -1, -8};
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
        tfm_tensor bad = x;
        bad.dims[0] = counts[i];
        harness_refused(tfm_tensor_read(ctx, host, bad), TFM_ERROR_ARGUMENT, "does not lie within its memory");
        harness_refused(tfm_tensor_write(ctx, bad, host), TFM_ERROR_ARGUMENT, "does not lie within its memory");
    }
    tfm_tensor part = {0};
    harness_refused(tfm_tensor_rows(ctx, &part, x, INT64_MAX, 2), TFM_ERROR_ARGUMENT, "has no 2 rows from");
}

static void test_unknown_kernel_and_wrong_arguments_are_rejected(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor y = fresh(4), x = fresh(4);
    tfm__kernel *kernel = tfm__kernel_get(ctx, "softmax", "no_such_kernel", "");
    assert_null(kernel);
    harness_refused(tfm_context_status(ctx), TFM_ERROR_BUILD, "no_such_kernel");
    assert_null(tfm__kernel_get(ctx, "no_such_file", "kernel", ""));
    harness_refused(tfm_context_status(ctx), TFM_ERROR_ARGUMENT, "no_such_file.cl");
    kernel = tfm__kernel_get(ctx, "add", "add", "");
    assert_non_null(kernel);
    harness_refused(tfm__launch(ctx, kernel, TFM__GRID_1D(1, 1), TFM__ARGS(TFM__T(y), TFM__T(x))), TFM_ERROR_ARGUMENT,
                    "parameter");
}

/* A kernel source in TFM_CL_DIR replaces the embedded one; compiler errors name file and line. */
static void test_tfm_cl_dir_overrides_kernel_source(void **state) {
    (void)state;
    char path[4200];
    snprintf(path, sizeof(path), "%s/add.cl", scratch_root);
    FILE *file = fopen(path, "w");
    fprintf(file, "TFM_KERNEL void add(TFM_TENSOR(float, y),\n    TFM_INPUT(flaot, a)) {\n}\n");
    fclose(file);
    setenv("TFM_CL_DIR", scratch_root, 1);
    tfm_context *ctx = NULL;
    tfm_tensor a = {0}, y = {0};
    harness_ok(tfm_context_open(&ctx, NULL));
    harness_ok(tfm_tensor_new(ctx, &a, TFM_F32, 1, (int64_t[]){4}));
    assert_int_equal(tfm_add(ctx, &y, a, a), TFM_ERROR_BUILD);
    if (!strstr(tfm_error_message(), "add.cl:2"))
        fail_msg("no file and line in: %s", tfm_error_message());
    tfm_context_free(&ctx);
    unsetenv("TFM_CL_DIR");
}

/* Functions that opencl_builtins.cl declares have the results of OpenCL C; one that it lacks builds, too: with the
 * driver's header. */
static void test_kernels_may_use_any_built_in_function(void **state) {
    (void)state;
    static const char *const values[] = {"max(0x80000000u, 1u)", "convert_float4((uchar4)(200)).w",
                                         "hypot(3.0f, 4.0f)"};
    static const float want[] = {2147483648.0f, 200, 5};
    setenv("TFM_CL_DIR", scratch_root, 1);
    for (size_t i = 0; i < TFM__COUNT(want); i++) {
        char path[4200];
        snprintf(path, sizeof(path), "%s/add.cl", scratch_root);
        FILE *file = fopen(path, "w");
        fprintf(file, "TFM_KERNEL void value(TFM_TENSOR(float, y)) { TFM_AT(y)[get_global_id(0)] = %s; }\n", values[i]);
        fclose(file);
        tfm_context *ctx = NULL;
        tfm_tensor y = {0};
        float got;
        harness_ok(tfm_context_open(&ctx, NULL));
        harness_ok(tfm_tensor_new(ctx, &y, TFM_F32, 1, (int64_t[]){1}));
        tfm__kernel *kernel = tfm__kernel_get(ctx, "add", "value", "");
        assert_non_null(kernel);
        harness_ok(tfm__launch(ctx, kernel, tfm__row_grid(ctx, 1), TFM__ARGS(TFM__T(y))));
        harness_ok(tfm_tensor_read(ctx, &got, y));
        assert_true(got == want[i]);
        tfm_context_free(&ctx);
    }
    unsetenv("TFM_CL_DIR");
}

static void count_builds(void *user, int count, double seconds) {
    int *builds = user;
    assert_int_equal(count, ++*builds);
    assert_true(seconds >= 0);
}

/* The build callback reports programs that no cache has, and their build time; others are not reported. PoCL's binaries
 * are stored at the second use. */
static void test_kernel_builds_are_reported_until_stored(void **state) {
    (void)state;
    const char *cache = getenv("TFM_CACHE_DIR");
    char *kept = cache ? strdup(cache) : NULL;
    int builds;
    const tfm_context_options options = {.on_build = count_builds, .on_build_user = &builds};
    for (int run = 0; run < 3; run++) {
        tfm_context *ctx = NULL;
        tfm_tensor x = {0}, y = {0};
        char folder[4200];
        builds = 0;
        snprintf(folder, sizeof(folder), "%s/builds", scratch_root);
        setenv("TFM_CACHE_DIR", folder, 1);
        harness_ok(tfm_context_open(&ctx, &options));
        assert_true(tfm_context_build_seconds(ctx) == 0);
        harness_ok(tfm_tensor_new(ctx, &x, TFM_F32, 1, (int64_t[]){3}));
        harness_ok(tfm_tensor_write(ctx, x, (float[3]){1, 2, 3}));
        harness_ok(tfm_add(ctx, &y, x, x));
        const int uses = strcmp(tfm_context_device(ctx)->platform, "Portable Computing Language") == 0 ? 2 : 1;
        assert_int_equal(builds, run < uses);
        assert_true((tfm_context_build_seconds(ctx) > 0) == (run < uses));
        tfm_context_free(&ctx);
    }
    if (kept)
        setenv("TFM_CACHE_DIR", kept, 1);
    else
        unsetenv("TFM_CACHE_DIR");
    free(kept);
}

/* Kernels of another device class on this device, by name. */
static void test_context_opens_a_named_variant(void **state) {
    (void)state;
    tfm_context *ctx = NULL;
    const float host[] = {3, -4, 0.5f};
    float got[3];
    harness_ok(tfm_context_open(&ctx, &(tfm_context_options){.variant = "scalar"}));
    assert_string_equal(tfm_context_variant(ctx), "scalar");
    tfm_tensor x = {0}, y = {0};
    harness_ok(tfm_tensor_new(ctx, &x, TFM_F32, 1, (int64_t[]){3}));
    harness_ok(tfm_tensor_write(ctx, x, host));
    harness_ok(tfm_add(ctx, &y, x, x));
    harness_ok(tfm_tensor_read(ctx, got, y));
    for (int i = 0; i < 3; i++)
        assert_true(got[i] == 2 * host[i]);
    tfm_context_free(&ctx);

    size_t count = 0, own = 0;
    for (; tfm_variant_name(count); count++)
        own += strcmp(tfm_variant_name(count), tfm_context_variant(harness_context())) == 0;
    assert_true(count > 1 && own == 1);
    assert_int_equal(tfm_context_open(&ctx, &(tfm_context_options){.variant = "round"}), TFM_ERROR_ARGUMENT);
    assert_null(ctx);
    assert_non_null(strstr(tfm_error_message(), "no variant 'round'"));
}

static void options_are(const tfm__capabilities *capabilities, const char *source, const char *want) {
    char *got = tfm__capability_options(capabilities, source, "-DX=1");
    assert_non_null(got);
    assert_string_equal(got, want);
    free(got);
}

/* A source is built with the OpenCL C version it needs, and receives the defines of the device's capabilities. */
static void test_kernel_source_selects_c_version_and_defines(void **state) {
    (void)state;
    const tfm__capabilities old = {.opencl_c = 12, .has = TFM__HAS_FP16},
                            later = {.opencl_c = 20, .has = TFM__HAS_SUBGROUPS},
                            latest = {.opencl_c = 30, .has = TFM__HAS_SUBGROUPS | TFM__HAS_INT_DOT | TFM__HAS_FP16};
    const char *plain = "kernel void f() {}", *half = "#ifdef TFM_HAS_FP16", *groups = "#ifdef TFM_HAS_SUBGROUPS",
               *both = "#if defined(TFM_HAS_FP16) && defined(TFM_HAS_INT_DOT)";
    options_are(&old, plain, "-cl-std=CL1.2 -DX=1");
    options_are(&latest, plain, "-cl-std=CL1.2 -DX=1");
    options_are(&old, half, "-cl-std=CL1.2 -DX=1 -DTFM_HAS_FP16");
    options_are(&later, half, "-cl-std=CL1.2 -DX=1");
    options_are(&old, groups, "-cl-std=CL1.2 -DX=1");
    options_are(&later, groups, "-cl-std=CL2.0 -DX=1 -DTFM_HAS_SUBGROUPS");
    options_are(&latest, groups, "-cl-std=CL3.0 -DX=1 -DTFM_HAS_SUBGROUPS");
    options_are(&latest, both, "-cl-std=CL3.0 -DX=1 -DTFM_HAS_FP16 -DTFM_HAS_INT_DOT");

    const tfm__capabilities *own = &harness_context()->capabilities;
    assert_true(own->opencl_c == 0 || own->opencl_c >= 12);
    assert_true(own->limits.max_group > 0 && own->limits.max_alloc > 0);
    assert_int_equal(!!(own->has & TFM__HAS_FP16), tfm_context_device(harness_context())->fp16);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scope_reuses_pooled_memory),
        cmocka_unit_test(test_scope_keeps_listed_tensors),
        cmocka_unit_test(test_outer_tensor_stays_with_its_scope),
        cmocka_unit_test(test_stale_and_foreign_tensors_are_rejected),
        cmocka_unit_test(test_first_error_is_sticky),
        cmocka_unit_test(test_error_message_survives_frees),
        cmocka_unit_test(test_hand_filled_tensor_is_validated),
        cmocka_unit_test(test_failed_output_tensor_is_empty),
        cmocka_unit_test(test_scope_close_without_list_still_closes),
        cmocka_unit_test(test_invalid_tensor_shapes_are_rejected),
        cmocka_unit_test(test_unclosed_scopes_are_reported),
        cmocka_unit_test(test_unknown_kernel_and_wrong_arguments_are_rejected),
        cmocka_unit_test_setup_teardown(test_kernel_builds_are_reported_until_stored, scratch_setup, scratch_teardown),
        cmocka_unit_test(test_context_opens_a_named_variant),
        cmocka_unit_test(test_kernel_source_selects_c_version_and_defines),
        cmocka_unit_test_setup_teardown(test_tfm_cl_dir_overrides_kernel_source, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_kernels_may_use_any_built_in_function, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
