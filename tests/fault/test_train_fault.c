/* Fault injection in training: whichever OpenCL call fails, an update is right, or it fails with one sentence, keeps
 * the parameters so that a retry can succeed, and leaks nothing. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fault/runs.h"
#include "support/harness.h"
#include "support/small_model.h"
#include "tfm/tfm.h"

enum { UPDATES = 3 };

static bool print(void *user, size_t line, int best, const char *text, double score) {
    (void)user, (void)line, (void)best, (void)score;
    return puts(text) >= 0;
}

/* Host copy of the parameters; NULL if a call fails. */
static float *read_values(tfm_trainer *t) {
    float *values = calloc((size_t)t->count, sizeof(*values));
    for (int attempt = 0; values && attempt < 2; attempt++) {
        if (tfm_tensor_read(t->ctx, values, t->value) == TFM_OK)
            return values;
        tfm_context_clear_error(t->ctx);
    }
    free(values);
    return NULL;
}

/* A successful update must not change the thread's error message, even if it retried a step. */
static bool update_once(tfm_trainer *t, const tfm_batch *batch) {
    static const char BEFORE[] = "what failed before";
    tfm__fail(TFM_ERROR_INPUT, "%s", BEFORE);
    if (tfm_trainer_update(t, NULL, batch, 1) != TFM_OK)
        return false;
    if (strcmp(tfm_error_message(), BEFORE) == 0)
        return true;
    fprintf(stderr, "tfm: a successful update has set an error message: %s\n", tfm_error_message());
    puts("spoiled");
    return true;
}

/* One update, with one retry after a failure, which must keep the parameters unless its message says otherwise. */
static bool update(tfm_trainer *t, const tfm_batch *batch) {
    float *before = read_values(t);
    bool good = before && update_once(t, batch);
    if (!good && getenv("TFM_TEST_ONCE")) {
        fprintf(stderr, "tfm: an update failed: %s\n", tfm_error_message());
    } else if (before && !good && !strstr(tfm_error_message(), "load the last checkpoint")) {
        tfm_context_clear_error(t->ctx);
        float *after = read_values(t);
        good = after && memcmp(before, after, (size_t)t->count * sizeof(*after)) == 0;
        if (!good)
            fprintf(stderr, "tfm: a failed update has changed the parameters\n");
        good = good && update_once(t, batch);
        free(after);
    } else if (!good) {
        puts("spoiled");
    }
    free(before);
    return good;
}

/* The same short run each time. Its parameters, or NULL. */
static float *train(tfm_context *ctx, int64_t *count) {
    tfm_trainer_options o = plain_options();
    tfm_model *model = NULL;
    tfm_trainer *trainer = NULL;
    float *values = NULL;
    harness_random random = {5};
    int32_t ids[8 * 9], lengths[8];
    o.epsilon = 1e-3; /* else Adam makes a full step from a gradient of pure rounding noise */
    if (tfm_model_new(&model, ctx, &SMALL) != TFM_OK) {
        tfm_context_clear_error(ctx);
        tfm_model_new(&model, ctx, &SMALL);
    }
    if (model && tfm_trainer_new(&trainer, model, &o) != TFM_OK) {
        tfm_context_clear_error(ctx);
        tfm_trainer_new(&trainer, model, &o); /* the model is unchanged */
    }
    bool good = trainer != NULL;
    for (int i = 0; i < UPDATES && good; i++) {
        const tfm_batch batch = copy_batch(&random, ids, lengths);
        good = update(trainer, &batch);
    }
    if (good) {
        *count = trainer->count;
        values = read_values(trainer);
    }
    tfm_trainer_free(&trainer);
    tfm_model_free(&model);
    return values;
}

/* Argument "again": trains twice, only one of them can hit the fault; then translates. */
static int again(int most_tokens) {
    char line[1024];
    const char *const lines[] = {line};
    const tfm_search_options options = {.beam_size = 4, .max_length = most_tokens};
    tfm_context *ctx;
    tfm_model *model = NULL;
    int64_t count = 0;
    if (!fgets(line, sizeof(line), stdin))
        return 1;
    line[strcspn(line, "\n")] = 0;
    tfm_status status = tfm_context_open(&ctx, NULL);
    if (status != TFM_OK)
        status = tfm_context_open(&ctx, NULL);
    if (status != TFM_OK)
        return 1;
    float *a = train(ctx, &count), *b = train(ctx, &count);
    double worst = a && b ? 0 : INFINITY;
    for (int64_t i = 0; a && b && i < count; i++)
        worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
    if (!(worst < 1e-4))
        fprintf(stderr, "tfm: two runs, one of them with a fault, differ by %g: %s\n", worst, tfm_error_message());
    free(a);
    free(b);
    if (tfm_model_open(&model, ctx, TFM_ROOT "/apps/demo", NULL) != TFM_OK)
        status = tfm_model_open(&model, ctx, TFM_ROOT "/apps/demo", NULL);
    if (status == TFM_OK)
        status = tfm_translate(model, lines, 1, &options, print, NULL);
    if (status != TFM_OK && model) { /* the fault may occur here */
        tfm_context_clear_error(ctx);
        status = tfm_translate(model, lines, 1, &options, print, NULL);
    }
    tfm_model_free(&model);
    tfm_context_free(&ctx);
    return status == TFM_OK ? 0 : 1;
}

static void add(const char *name, unsigned long number) {
    char title[128], call[64], only[96];
    snprintf(title, sizeof(title), "%s %lu", name, number);
    snprintf(call, sizeof(call), "TFM_FAULT_CALL=%lu", number);
    snprintf(only, sizeof(only), "TFM_FAULT_NAME=%s", name);
    runs_add_again(title, (const char *const[]){call, only, NULL}, RUNS_RIGHT);
}

/* Calls of the first training, and some later ones. */
static void test_failing_call_of_training_leaves_parameters_unchanged(void **state) {
    (void)state;
    static const struct {
        const char *name;
        unsigned long first, step, last;
    } CALLS[] = {
        {"clCreateBuffer", 1, 9, 120},     {"clEnqueueNDRangeKernel", 1, 37, 700},
        {"clSetKernelArg", 50, 997, 6000}, {"clEnqueueWriteBuffer", 1, 7, 60},
        {"clEnqueueFillBuffer", 1, 5, 40}, {"clEnqueueCopyBuffer", 1, 11, 40},
        {"clEnqueueReadBuffer", 1, 2, 8},  {"clFinish", 1, 1, 4},
    };
    /* It compiles the kernels of training, for all runs. */
    runs_add_again("no fault", (const char *const[]){"TFM_FAULT_CALL=0", harness_brief() ? RUNS_HASTY : NULL, NULL},
                   RUNS_RIGHT);
    runs_finish("training without a fault");
    const unsigned long sparse = runs_slow() ? 8 : harness_brief() ? 3 : 1;
    for (size_t i = 0; i < sizeof(CALLS) / sizeof(*CALLS); i++)
        for (unsigned long call = CALLS[i].first; call <= CALLS[i].last; call += CALLS[i].step * sparse)
            add(CALLS[i].name, call);
    runs_finish("one call of a training run fails");
}

/* A driver with small work-groups: neither the updates nor the translation fail. */
static void test_training_runs_in_small_workgroups(void **state) {
    (void)state;
    if (runs_slow())
        skip();
    if (harness_brief())
        runs_short();
    runs_add_again("groups of 32",
                   (const char *const[]){RUNS_HASTY, "TFM_FAULT_LIE=type=4,width=1,local=32768,kernel_group=32",
                                         "TFM_GEMM=builtin", "TFM_TEST_ONCE=1",
                                         harness_brief() ? "TFM_CACHE_DIR=off" : NULL, NULL},
                   RUNS_RIGHT);
    runs_finish("training in small groups");
    runs_lines(1);
}

int main(int count, char **arguments) {
    if (count > 2 && strcmp(arguments[1], "again") == 0)
        return again(atoi(arguments[2]));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failing_call_of_training_leaves_parameters_unchanged),
        cmocka_unit_test(test_training_runs_in_small_workgroups),
    };
    return cmocka_run_group_tests(tests, runs_setup, runs_teardown);
}
