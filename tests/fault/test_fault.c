/* Fault injection: whichever OpenCL call fails, a translation ends with the right answer or one sentence, and nothing
 * leaks. TFM_FAULT_ALL=1 fails every call instead of a sample, TFM_FAULT_SAMPLE=N so many, however slow a run is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dev/device/context_internal.h"
#include "fault/runs.h"
#include "support/harness.h"
#include "tfm/tfm.h"

#define SAMPLE 40
#define HEAD 20 /* the sample has every one of the first calls, which select a device */
#define EITHER (RUNS_RIGHT | RUNS_SENTENCE)

static bool all_wanted(void) {
    const char *all = getenv("TFM_FAULT_ALL");
    return all && strcmp(all, "1") == 0;
}

/* Fails call `number`, of function `name` unless NULL; `more`: further settings, or NULL. */
static void fail_call(unsigned long number, const char *name, const char *const *more) {
    char title[128], call[64], only[96];
    const char *settings[8] = {call};
    int count = 1;
    snprintf(title, sizeof(title), "%s %lu", name ? name : "call", number);
    snprintf(call, sizeof(call), "TFM_FAULT_CALL=%lu", number);
    if (name) {
        snprintf(only, sizeof(only), "TFM_FAULT_NAME=%s", name);
        settings[count++] = only;
    }
    for (; more && *more; more++)
        settings[count++] = *more;
    runs_add(title, settings, EITHER);
}

/* The call number of sample i: the first ones, then evenly to a little beyond the end. */
static unsigned long sampled(unsigned turn, unsigned sample, unsigned head) {
    if (turn < head)
        return turn + 1;
    unsigned long calls = runs_plain()->calls + 50 - head;
    return head + 1 + calls * (turn - head) / (sample - head);
}

static void test_any_failing_call_gives_one_error_or_the_result(void **state) {
    (void)state;
    if (all_wanted()) {
        for (unsigned long call = 1; call <= runs_plain()->calls + 50; call++)
            fail_call(call, NULL, NULL);
    } else {
        unsigned sample = runs_sample()     ? runs_sample()
                          : runs_slow()     ? SAMPLE / 6
                          : harness_brief() ? SAMPLE / 2
                                            : SAMPLE,
                 head = runs_slow() ? HEAD / 10 : HEAD;
        for (unsigned turn = 0; turn < sample; turn++)
            fail_call(sampled(turn, sample, head), NULL, NULL);
    }
    runs_finish("one call fails");
}

/* Most calls set kernel arguments, so this also fails a middle and the last call of each function, and the first with
 * TFM_FAULT_ALL; in brief runs only the middle one. */
static void test_failing_call_of_each_function_is_reported(void **state) {
    (void)state;
    if (runs_slow())
        skip();
    const runs_report *plain = runs_plain();
    for (int i = 0; i < plain->function_count; i++) {
        const unsigned long calls = plain->functions[i].calls, turns[] = {1, (calls + 1) / 2, calls};
        const int first = all_wanted() ? 0 : 1;
        for (int turn = first; turn < (harness_brief() ? 2 : 3); turn++)
            if (turn == first || turns[turn] > turns[turn - 1])
                fail_call(turns[turn], plain->functions[i].name, NULL);
    }
    runs_finish("one call of each function fails");
}

static void test_lost_device_gives_one_error(void **state) {
    (void)state;
    const char *const dead[] = {"TFM_FAULT_DEAD=1", NULL};
    unsigned sample = all_wanted() ? 2 * SAMPLE : runs_slow() ? 4 : SAMPLE / 3;
    for (unsigned turn = 0; turn < sample; turn++)
        fail_call(sampled(turn, sample, sample / 5), NULL, dead);
    runs_finish("the device is gone from a call on");
}

/* With an empty disk cache programs are built; the second run stores their binaries at exit. Brief runs alternate
 * between a first and a later call. */
static void test_failing_build_with_cold_cache_is_reported(void **state) {
    (void)state;
    static const char *const NAMES[] = {"clCreateProgramWithSource", "clBuildProgram", "clGetProgramInfo",
                                        "clGetProgramBuildInfo", "clCreateKernel"};
    if (runs_slow())
        skip();
    for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++) {
        for (unsigned long call = 1; call <= 7; call += 6) {
            char cold[4300];
            if (harness_brief() && (call > 1) != (i % 2 == 0))
                continue;
            snprintf(cold, sizeof(cold), "TFM_CACHE_DIR=%s/cold-%zu-%lu", runs_folder(), i, call);
            if (strcmp(NAMES[i], "clGetProgramInfo") == 0)
                runs_add_alone("the first run", (const char *const[]){cold, NULL});
            fail_call(call, NAMES[i], (const char *const[]){cold, NULL});
        }
    }
    runs_finish("one call fails, and the cache is cold");
}

/* Number of calls of a function in a fault-free run. */
static unsigned long calls_of(const char *name) {
    const runs_report *plain = runs_plain();
    for (int i = 0; i < plain->function_count; i++)
        if (strcmp(plain->functions[i].name, name) == 0)
            return plain->functions[i].calls;
    fail_msg("a run does not call %s", name);
    return 0;
}

/* Errors that a smaller batch cannot fix are not treated as out of memory: a failed build, whatever its error code, and
 * a crashed kernel, after which every call fails. */
static void test_build_failure_and_crash_are_not_out_of_memory(void **state) {
    (void)state;
    char cold[4300], call[64];
    snprintf(cold, sizeof(cold), "TFM_CACHE_DIR=%s/cold-build", runs_folder());
    /* Two lines are one batch. Out of memory would split it, and the second build would succeed. */
    runs_lines(2);
    runs_add_refused(
        "a build out of host memory",
        (const char *const[]){cold, "TFM_FAULT_NAME=clBuildProgram", "TFM_FAULT_CALL=7", "TFM_FAULT_CODE=-6", NULL},
        "does not build");
    runs_finish("a build fails");
    runs_lines(1);
    runs_add_refused(
        "a kernel crashed",
        (const char *const[]){"TFM_FAULT_NAME=clEnqueueNDRangeKernel", "TFM_FAULT_CALL=200", "TFM_FAULT_DEAD=1", NULL},
        "a kernel may have crashed");
    runs_finish("a kernel crashed");
    assert_null(strstr(runs_sentence(), "smaller batch"));
    runs_lines(2);
    snprintf(call, sizeof(call), "TFM_FAULT_CALL=%lu", calls_of("clCreateBuffer"));
    runs_add_refused(
        "a kernel crashed before a buffer was made",
        (const char *const[]){"TFM_FAULT_NAME=clCreateBuffer", call, "TFM_FAULT_CODE=-5", "TFM_FAULT_DEAD=1", NULL},
        "a kernel may have crashed");
    runs_finish("a kernel crashed before a buffer was made");
    snprintf(call, sizeof(call), "TFM_FAULT_CALL=%lu", calls_of("clEnqueueWriteBuffer"));
    runs_add_refused("a kernel crashed before a write",
                     (const char *const[]){"TFM_FAULT_NAME=clEnqueueWriteBuffer", call, NULL},
                     "a kernel may have crashed");
    runs_finish("a kernel crashed before a write");
    runs_lines(1);
}

/* If a driver compiles at the first launch, the library waits for it and reports its failure. */
static void test_failing_first_launch_is_reported(void **state) {
    (void)state;
    static const char *const PARTS[] = {"what was launched before kernel ", "the first launch of kernel "};
    for (int i = 0; i < 2; i++) {
        char cold[4300], profile[4300], call[64];
        snprintf(cold, sizeof(cold), "TFM_CACHE_DIR=%s/cold-launch-%d", runs_folder(), i);
        snprintf(profile, sizeof(profile), "TFM_PROFILE=%s/first.json", runs_folder());
        snprintf(call, sizeof(call), "TFM_FAULT_CALL=%d", 4 + i);
        runs_add_refused(PARTS[i], (const char *const[]){cold, profile, "TFM_FAULT_NAME=clFinish", call, NULL},
                         PARTS[i]);
    }
    runs_finish("waiting for a first launch fails");
}

/* Without a queue, the error names neither a batch nor a kernel. */
static void test_failing_queue_creation_is_reported(void **state) {
    (void)state;
    runs_add_refused("no queue", (const char *const[]){"TFM_FAULT_NAME=clCreateCommandQueue", "TFM_FAULT_CALL=1", NULL},
                     "clCreateCommandQueue failed on");
    runs_finish("no queue");
    assert_null(strstr(runs_sentence(), "crashed"));
    assert_null(strstr(runs_sentence(), "batch"));
}

/* If a driver cannot run or build a kernel with the tuned work-group size, the library uses a smaller one. */
static void test_rejected_workgroup_size_is_reduced(void **state) {
    (void)state;
    static const char *const LIES[] = {"TFM_FAULT_LIE=type=4,width=1,local=32768",
                                       "TFM_FAULT_LIE=type=4,width=1,local=32768,kernel_group=32",
                                       "TFM_FAULT_LIE=type=4,width=1,local=32768,kernel_quiet=32"};
    char own[4300], cold[4300];
    snprintf(own, sizeof(own), "TFM_CACHE_DIR=%s", harness_brief() ? "off" : runs_cache());
    snprintf(cold, sizeof(cold), "TFM_CACHE_DIR=%s/small-groups", runs_folder());
    if (runs_slow())
        skip();
    if (harness_brief()) {
        runs_short();
        strcpy(cold, own); /* kernels are compiled once; storing binaries would compile them again */
    }
    runs_add("groups of 32", (const char *const[]){RUNS_HASTY, own, LIES[1], "TFM_GEMM=builtin", NULL}, RUNS_RIGHT);
    runs_finish("kernels take small groups");
    runs_add("groups of 32, and larger ones run wrong",
             (const char *const[]){RUNS_HASTY, own, LIES[2], "TFM_GEMM=builtin", NULL}, RUNS_RIGHT);
    runs_finish("kernels take what the driver says of them");
    runs_add("a build out of host memory, for its groups",
             (const char *const[]){RUNS_HASTY, cold, LIES[0], "TFM_GEMM=builtin", "TFM_FAULT_NAME=clBuildProgram",
                                   "TFM_FAULT_CALL=9", "TFM_FAULT_CODE=-6", NULL},
             RUNS_RIGHT);
    runs_finish("a build takes smaller groups");
    runs_lines(1);
}

/* Events are only requested with profiling on. */
static void test_failing_event_call_is_reported_while_profiling(void **state) {
    (void)state;
    static const char *const NAMES[] = {"clGetEventProfilingInfo", "clWaitForEvents", "clReleaseEvent",
                                        "clEnqueueNDRangeKernel"};
    char profile[4300];
    snprintf(profile, sizeof(profile), "TFM_PROFILE=%s/trace.json", runs_folder());
    const char *const settings[] = {profile, NULL};
    for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++)
        for (unsigned long call = 1; call <= (runs_slow() ? 1 : 901); call += harness_brief() ? 600 : 300)
            fail_call(call, NAMES[i], settings);
    runs_finish("one call fails, and kernels are timed");
}

/* OpenCL calls of CLBlast fail the same way; it prints its own message on standard error before our sentence. */
static void test_failing_call_inside_clblast_is_reported(void **state) {
    (void)state;
    static const char *const NAMES[] = {
        "clSetKernelArg",          "clEnqueueNDRangeKernel", "clGetDeviceInfo",           "clGetProgramInfo",
        "clGetCommandQueueInfo",   "clBuildProgram",         "clCreateProgramWithSource", "clCreateKernel",
        "clGetKernelWorkGroupInfo"};
    const char *const settings[] = {"TFM_GEMM=clblast", NULL};
    if (runs_slow() || harness_brief()) {
        printf("skipped: CLBlast compiles for long\n");
        skip();
    }
    runs_add_alone("CLBlast", settings); /* compiles its kernels */
    for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++)
        for (unsigned long call = 10; call <= 1000; call *= 10)
            fail_call(call, NAMES[i], settings);
    runs_finish("one call fails, and CLBlast multiplies");
    runs_add_refused("CLBlast's kernel crashed",
                     (const char *const[]){"TFM_GEMM=clblast", "TFM_FAULT_NAME=clEnqueueNDRangeKernel",
                                           "TFM_FAULT_CALL=98", "TFM_FAULT_DEAD=1", NULL}, /* after 95 casts: a GEMM */
                     "CLBlast fails with -5");
    runs_finish("CLBlast's kernel crashed");
    assert_non_null(strstr(runs_sentence(), "a kernel may have crashed"));
    assert_null(strstr(runs_sentence(), "smaller batch"));
}

/* If the library chose CLBlast, as on a GPU whose local memory is too small for its own tiles, it falls back to the
 * reference kernel. */
static void test_failing_clblast_falls_back_to_own_gemm(void **state) {
    (void)state;
    const char *const settings[] = {RUNS_HASTY, "TFM_FAULT_LIE=type=4,width=1,local=4096",
                                    "TFM_FAULT_NAME=clGetCommandQueueInfo", "TFM_FAULT_CALL=1", NULL};
    if (runs_slow() || harness_brief()) {
        printf("skipped: it compiles for long\n");
        skip();
    }
    runs_add("CLBlast fails at once", settings, RUNS_RIGHT);
    runs_finish("CLBlast fails, and the library had chosen it");
    runs_lines(1);
}

/* ---- Going on after a failure ------------------------------------------------------------------------------------ */

static bool print(void *user, size_t line, int best, const char *text, double score) {
    (void)user, (void)line, (void)best, (void)score;
    return puts(text) >= 0;
}

/* Argument "again": each step is retried after a failure. */
static int again(void) {
    char line[1024];
    const char *const lines[] = {line};
    const tfm_search_options options = {.beam_size = 4};
    tfm_context *ctx;
    tfm_model *model = NULL;
    if (!fgets(line, sizeof(line), stdin))
        return 1;
    line[strcspn(line, "\n")] = 0;
    tfm_status status = tfm_context_open(&ctx, NULL);
    if (status != TFM_OK)
        status = tfm_context_open(&ctx, NULL);
    if (status == TFM_OK && tfm_model_open(&model, ctx, TFM_ROOT "/apps/demo", NULL) != TFM_OK) {
        tfm_context_clear_error(ctx);
        status = tfm_model_open(&model, ctx, TFM_ROOT "/apps/demo", NULL);
    }
    if (status == TFM_OK && tfm_translate(model, lines, 1, &options, print, NULL) != TFM_OK) {
        tfm_context_clear_error(ctx);
        status = tfm_translate(model, lines, 1, &options, print, NULL);
    }
    if (status != TFM_OK)
        fprintf(stderr, "tfm: %s\n", tfm_error_message());
    tfm_model_free(&model);
    tfm_context_free(&ctx);
    return status == TFM_OK ? 0 : 1;
}

static void again_after(unsigned long number, const char *name) {
    char title[128], call[64], only[96];
    snprintf(title, sizeof(title), "again after %s %lu", name ? name : "call", number);
    snprintf(call, sizeof(call), "TFM_FAULT_CALL=%lu", number);
    snprintf(only, sizeof(only), "TFM_FAULT_NAME=%s", name ? name : "");
    runs_add_again(title, (const char *const[]){call, only, NULL}, RUNS_RIGHT);
}

/* After a failure and with the error cleared, the same call gives the right answer. */
static void test_call_after_cleared_error_gives_the_result(void **state) {
    (void)state;
    const runs_report *plain = runs_plain();
    unsigned sample = all_wanted() ? 2 * SAMPLE : runs_slow() ? 4 : SAMPLE / 3;
    for (unsigned turn = 0; turn < sample; turn++)
        again_after(sampled(turn, sample, sample / 5), NULL);
    for (int i = 0; i < plain->function_count && !runs_slow(); i += harness_brief() ? 4 : 1)
        again_after(1 + plain->functions[i].calls / 2, plain->functions[i].name);
    runs_finish("one call fails, and the caller goes on");
}

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "again") == 0)
        return again();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_failing_call_gives_one_error_or_the_result),
        cmocka_unit_test(test_failing_call_of_each_function_is_reported),
        cmocka_unit_test(test_lost_device_gives_one_error),
        cmocka_unit_test(test_failing_build_with_cold_cache_is_reported),
        cmocka_unit_test(test_call_after_cleared_error_gives_the_result),
        cmocka_unit_test(test_build_failure_and_crash_are_not_out_of_memory),
        cmocka_unit_test(test_failing_first_launch_is_reported),
        cmocka_unit_test(test_failing_queue_creation_is_reported),
        cmocka_unit_test(test_failing_event_call_is_reported_while_profiling),
        cmocka_unit_test(test_failing_call_inside_clblast_is_reported),
        cmocka_unit_test(test_failing_clblast_falls_back_to_own_gemm),
        cmocka_unit_test(test_rejected_workgroup_size_is_reduced),
    };
    return cmocka_run_group_tests(tests, runs_setup, runs_teardown);
}
