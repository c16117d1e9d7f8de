/* Profiles: the table, the trace, and events without times. */
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "support/harness.h"
#include "base/base.h"
#include "dev/launch/profile.h"
#include "tfm/opencl.h"

enum { LAUNCHES = 3000 }; /* several times the number buffered */

static char lines[65536];
static bool emulator; /* the device is one */

static void keep_line(void *user, tfm_log_level level, const char *line) {
    (void)user, (void)level;
    size_t used = strlen(lines);
    snprintf(lines + used, sizeof(lines) - used, "%s\n", line);
}

static int setup(void **state) {
    (void)state;
    lines[0] = 0;
    unsetenv("TFM_PROFILE");
    emulator = harness_slow();
    tfm_log_set(keep_line, NULL, TFM_LOG_WARNING);
    return 0;
}

/* Adds one small transfer per call, under the name and grid given: any event works. */
static void add(tfm_context *ctx, tfm__profile *profile, const char *name, cl_mem buffer, const tfm__grid *grid) {
    cl_event event = NULL;
    const float value = 1;
    assert_int_equal(
        clEnqueueFillBuffer(tfm_context_cl_queue(ctx), buffer, &value, sizeof(value), 0, 256, 0, NULL, &event),
        CL_SUCCESS);
    tfm__profile_add(profile, name, event, grid);
}

/* A profile of LAUNCHES fills as "many", one as "a \"quoted\" name", one without a grid, in a separate context. */
static void run_profile(bool profiled_queue) {
    tfm_context *ctx;
    tfm__profile *profile;
    const tfm__grid grid = TFM__GRID_2D(128, 3, 16, 1);
    const tfm_context_options options = {.profile = profiled_queue};
    cl_int error;
    harness_ok(tfm__profile_open(&profile));
    /* The context has another profile, which records nothing here. */
    char *trace = getenv("TFM_PROFILE") ? strdup(getenv("TFM_PROFILE")) : NULL;
    unsetenv("TFM_PROFILE");
    harness_ok(tfm_context_open(&ctx, &options));
    if (trace)
        setenv("TFM_PROFILE", trace, 1);
    free(trace);
    cl_mem buffer = clCreateBuffer(tfm_context_cl(ctx), CL_MEM_READ_WRITE, 256, NULL, &error);
    assert_int_equal(error, CL_SUCCESS);
    for (int i = 0; i < LAUNCHES; i++)
        add(ctx, profile, "many", buffer, &grid);
    add(ctx, profile, "a \"quoted\" name\n", buffer, &grid);
    const double begun = tfm__seconds(); /* host work around the next one */
    add(ctx, profile, "copy", buffer, NULL);
    clFinish(tfm_context_cl_queue(ctx));
    tfm__profile_span(profile, "waits", begun, tfm__seconds());
    lines[0] = 0;
    tfm__profile_close(&profile);
    assert_null(profile);
    tfm__profile_close(&profile);
    clReleaseMemObject(buffer);
    char *kept = strdup(lines); /* without the context's table */
    tfm_context_free(&ctx);
    snprintf(lines, sizeof(lines), "%s", kept);
    free(kept);
}

static void test_tfm_profile_enables_profiling(void **state) {
    (void)state;
    assert_false(tfm__profile_wanted(false));
    assert_true(tfm__profile_wanted(true));
    setenv("TFM_PROFILE", "", 1);
    assert_false(tfm__profile_wanted(false));
    setenv("TFM_PROFILE", "0", 1);
    assert_false(tfm__profile_wanted(false));
    setenv("TFM_PROFILE", "1", 1);
    assert_true(tfm__profile_wanted(false));
}

static void test_profile_table_has_calls_and_times(void **state) {
    (void)state;
    setenv("TFM_PROFILE", "1", 1);
    run_profile(true);
    const char *many = strstr(lines, "profile: many ");
    assert_non_null(many);
    unsigned long long calls = 0;
    double total = 0, share = 0, mean = 0;
    assert_int_equal(sscanf(many, "profile: many %llu %lf %lf%% %lf", &calls, &total, &share, &mean), 4);
    assert_int_equal(calls, LAUNCHES);
    assert_true(total > 0 && share > 50 && share <= 100);
    assert_true(mean * (double)calls / 1000 > total * 0.99 - 0.02 * (double)calls / 1000);
    assert_true(many < strstr(lines, "profile: copy ")); /* most time first */
    assert_non_null(strstr(lines, "profile: all "));
    assert_null(strstr(lines, "no times"));
}

/* A queue without the flag: no times and the reason, once; or times all the same, if the driver always has them. */
static void test_queue_without_profiling_says_why(void **state) {
    (void)state;
    run_profile(false);
    char wanted[64];
    snprintf(wanted, sizeof(wanted), "%d launches have no times: CL_PROFILING_INFO_NOT_AVAILABLE", LAUNCHES + 2);
    if (!strstr(lines, "no times"))
        snprintf(wanted, sizeof(wanted), " %d ", LAUNCHES);
    assert_non_null(strstr(lines, wanted));
}

static json_t *load_trace(const char *path) {
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    if (!root)
        fail_msg("%s:%d: %s", path, error.line, error.text);
    return root;
}

/* Perfetto's trace format: an object with traceEvents, each with name, ph, pid, tid, and ts and dur in microseconds for
 * a complete event; here in order and without overlap, as in an in-order queue. */
static void check_trace(const char *path) {
    json_t *root = load_trace(path), *events = json_object_get(root, "traceEvents"), *event;
    size_t index, kernels = 0, transfers = 0, quoted = 0;
    double last_end = 0, waits = -1, waited = -1;
    assert_true(json_is_array(events));
    json_array_foreach(events, index, event) {
        const char *phase = json_string_value(json_object_get(event, "ph"));
        const char *name = json_string_value(json_object_get(event, "name"));
        assert_non_null(name);
        assert_non_null(phase);
        assert_true(json_is_integer(json_object_get(event, "pid")) && json_is_integer(json_object_get(event, "tid")));
        if (strcmp(phase, "X") != 0)
            continue;
        json_t *ts = json_object_get(event, "ts"), *duration = json_object_get(event, "dur");
        assert_true(json_is_number(ts) && json_is_number(duration));
        if (json_integer_value(json_object_get(event, "tid")) == 2) { /* the copy's, the last of the device's */
            assert_string_equal(name, "waits");
            waits = json_number_value(ts), waited = waits + json_number_value(duration);
            continue;
        }
        assert_true(json_number_value(ts) >= last_end - 0.0015 && json_number_value(duration) >= 0);
        last_end = json_number_value(ts) + json_number_value(duration);
        json_t *args = json_object_get(event, "args");
        if (args) {
            assert_string_equal(json_string_value(json_object_get(args, "global")), "128x3x1");
            assert_string_equal(json_string_value(json_object_get(args, "local")), "16x1x1");
        }
        kernels += args != NULL;
        transfers += args == NULL;
        quoted += strcmp(name, "a \"quoted\" name\n") == 0;
    }
    assert_int_equal(kernels, LAUNCHES + 1);
    assert_int_equal(transfers, 1);
    assert_int_equal(quoted, 1);
    if (waits < 0 && emulator) { /* an emulator with equal times for every command, as llvmpipe */
        json_decref(root);
        return;
    }
    /* Within it on the same clock, to half a millisecond on a busy machine. */
    assert_true(waits >= 0 && waits < last_end + 500 && waited > last_end - 500);
    json_decref(root);
}

static void test_profile_writes_chrome_trace(void **state) {
    (void)state;
    char folder[256], path[300], second[300], third[300];
    const char *temporary = getenv("TMPDIR");
    snprintf(folder, sizeof(folder), "%s/tfm-profile.XXXXXX", temporary ? temporary : P_tmpdir);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/run.json", folder);
    snprintf(second, sizeof(second), "%s/run-2.json", folder);
    snprintf(third, sizeof(third), "%s/plain-3", folder);
    setenv("TFM_PROFILE", path, 1);
    run_profile(true);
    assert_string_equal(lines, ""); /* a trace, no table */
    check_trace(path);
    run_profile(true);
    check_trace(second);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof(path), "%s/plain", folder);
    setenv("TFM_PROFILE", path, 1);
    run_profile(true);
    check_trace(third);
    assert_int_equal(unlink(second), 0);
    assert_int_equal(unlink(third), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void test_unwritable_trace_is_an_error(void **state) {
    (void)state;
    tfm_context *ctx = NULL;
    tfm__profile *profile;
    setenv("TFM_PROFILE", "/dev/null/below.json", 1);
    assert_int_equal(tfm__profile_open(&profile), TFM_ERROR_IO);
    assert_null(profile);
    assert_non_null(strstr(tfm_error_message(), "/dev/null/below"));
    assert_int_equal(tfm_context_open(&ctx, NULL), TFM_ERROR_IO);
    assert_null(ctx);
}

/* A full disk, simulated by a file size limit. */
static void test_trace_on_full_disk_is_reported(void **state) {
    (void)state;
    char folder[256], path[300], name[320];
    const char *temporary = getenv("TMPDIR");
    struct rlimit old, small;
    tfm__profile *profile;
    snprintf(folder, sizeof(folder), "%s/tfm-profile-XXXXXX", temporary ? temporary : P_tmpdir);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/full.json", folder);
    setenv("TFM_PROFILE", path, 1);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = 20;
    setrlimit(RLIMIT_FSIZE, &small);
    harness_ok(tfm__profile_open(&profile));
    tfm__profile_close(&profile);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_non_null(strstr(lines, "could not be written in full"));
    snprintf(name, sizeof(name), "rm -r %s", folder);
    assert_int_equal(system(name), 0);
}

int main(void) {
    /* The traces first: files are numbered by the contexts of a process. */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_profile_writes_chrome_trace, setup),
        cmocka_unit_test_setup(test_tfm_profile_enables_profiling, setup),
        cmocka_unit_test_setup(test_profile_table_has_calls_and_times, setup),
        cmocka_unit_test_setup(test_queue_without_profiling_says_why, setup),
        cmocka_unit_test_setup(test_unwritable_trace_is_an_error, setup),
        cmocka_unit_test_setup(test_trace_on_full_disk_is_reported, setup),
    };
    return cmocka_run_group_tests(tests, NULL, harness_teardown);
}
