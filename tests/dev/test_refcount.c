/* Ownership: any order of frees, a memory limit, and parameters shared by models. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "dev/device/context_internal.h"
#include "support/harness.h"
#include "support/scratch.h"
#include "support/small_model.h"

/* Any order of frees is valid. */
static void test_objects_are_freed_in_any_order(void **state) {
    (void)state;
    const tfm_trainer_options options = plain_options();
    int32_t ids[8 * 9], lengths[8];
    harness_random random = {5};
    for (int order = 0; order < 6; order++) {
        tfm_context *ctx = NULL;
        tfm_model *m = NULL;
        tfm_trainer *t = NULL;
        harness_ok(tfm_context_open(&ctx, NULL));
        harness_ok(tfm_model_new(&m, ctx, &SMALL));
        harness_ok(tfm_trainer_new(&t, m, &options));
        tfm_trainer *last = t;
        for (int i = 0; i < 3; i++) {
            const int which = order < 3 ? (order + i) % 3 : (order + 3 - i) % 3;
            if (which == 0)
                tfm_context_free(&ctx);
            else if (which == 1)
                tfm_model_free(&m);
            else
                tfm_trainer_free(&t);
            if (i == 0 && t) { /* surviving objects work */
                const tfm_batch batch = copy_batch(&random, ids, lengths);
                tfm_update_report report;
                harness_ok(tfm_trainer_update(last, &report, &batch, 1));
            }
        }
        assert_true(!ctx && !m && !t);
    }
}

/* A context with a low memory limit reports it and stays usable for smaller work. */
static void test_memory_limit_is_reported_and_recoverable(void **state) {
    (void)state;
    tfm_context *ctx = NULL;
    tfm_tensor y = {0};
    harness_ok(tfm_context_open(&ctx, &(tfm_context_options){.memory_limit = 1 << 20}));
    harness_ok(tfm_tensor_new(ctx, &y, TFM_U8, 1, (int64_t[]){900000}));
    tfm_tensor more = {0};
    assert_int_equal(tfm_tensor_new(ctx, &more, TFM_U8, 1, (int64_t[]){900000}), TFM_ERROR_MEMORY);
    assert_non_null(strstr(tfm_error_message(), "memory_limit"));
    tfm_context_clear_error(ctx);
    tfm_tensor_free(ctx, &y);
    harness_ok(tfm_tensor_new(ctx, &more, TFM_U8, 1, (int64_t[]){900000}));
    assert_true(tfm_context_peak_memory(ctx) <= 1 << 20);
    tfm_context_free(&ctx);
}

static uint64_t held(const tfm_context *ctx) {
    return ctx->pool_bytes;
}

/* A context whose device has failed is not shared with the next one: there every call could fail as well. */
static void test_new_context_does_not_share_a_failed_one(void **state) {
    (void)state;
    tfm_context *first = NULL, *second = NULL, *third = NULL, *fourth = NULL;
    tfm_tensor x = {0};
    harness_ok(tfm_context_open(&first, NULL));
    harness_ok(tfm_context_open(&second, NULL));
    assert_ptr_equal(first->cl, second->cl);
    tfm__context_fail(first, TFM_ERROR_ARGUMENT, "the caller's own fault");
    harness_ok(tfm_context_open(&third, NULL));
    assert_ptr_equal(third->cl, first->cl);
    tfm_context_free(&third);
    tfm__cl_fail_wait(second, CL_OUT_OF_RESOURCES, "a kernel");
    harness_ok(tfm_context_open(&third, NULL));
    harness_ok(tfm_context_open(&fourth, NULL));
    assert_ptr_not_equal(third->cl, first->cl);
    assert_ptr_equal(third->cl, fourth->cl);
    tfm_context_free(&third); /* each cl_context is released with its last user */
    tfm_context_free(&first);
    harness_ok(tfm_tensor_new(fourth, &x, TFM_U8, 1, (int64_t[]){1000}));
    harness_ok(tfm_tensor_write(fourth, x, (char[1000]){0}));
    tfm_context_clear_error(second);
    harness_ok(tfm_tensor_new(second, &x, TFM_U8, 1, (int64_t[]){1000}));
    tfm_context_free(&fourth);
    tfm_context_free(&second);
}

/* Two models of one directory, on one context or on two of one device, share one copy of the parameters and give the
 * same logits, for any order of opening and freeing. */
static void test_models_of_one_directory_share_parameters(void **state) {
    (void)state;
    tfm_context *ctx = harness_context(), *other = NULL;
    tfm_model *made = NULL, *models[3] = {NULL};
    char *dir = tfm__strdup(scratch_path("shared"));
    harness_ok(tfm_model_new(&made, ctx, &SMALL));
    harness_ok(tfm_model_save(made, dir, TFM_F32));
    tfm_model_free(&made);
    harness_ok(tfm_context_open(&other, NULL));
    const tfm_model_options options = {.no_tokenizer = true};
    tfm__pool_trim(ctx);
    const uint64_t before = held(ctx);
    harness_ok(tfm_model_open(&models[0], ctx, dir, &options));
    const uint64_t first = held(ctx) - before, parameters = tfm_model_get_info(models[0])->parameter_bytes;
    assert_true(first >= parameters);
    harness_ok(tfm_model_open(&models[1], ctx, dir, &options));
    harness_ok(tfm_model_open(&models[2], other, dir, &options));
    assert_true(held(ctx) - before - first < parameters / 4);
    assert_true(held(other) < parameters / 2);
    float *logits[3];
    for (int i = 0; i < 3; i++) {
        tfm_context *on = i < 2 ? ctx : other;
        tfm_tensor ids = {0}, lengths = {0}, encoded = {0}, y = {0};
        if (i == 2)
            tfm_model_free(&models[0]); /* the first owner of the parameters is freed first */
        if (i == 2) {                   /* parameters still in use keep their memory on the device */
            tfm_tensor large = {0};
            const uint64_t all = on->info.memory_bytes;
            on->info.memory_bytes = held(on) + parameters + (64 << 10);
            assert_int_equal(tfm_tensor_new(on, &large, TFM_U8, 1, (int64_t[]){128 << 10}), TFM_ERROR_MEMORY);
            assert_non_null(strstr(tfm_error_message(), "has no room for"));
            tfm_context_clear_error(on);
            on->info.memory_bytes += 128 << 10;
            harness_ok(tfm_tensor_new(on, &large, TFM_U8, 1, (int64_t[]){128 << 10}));
            tfm_tensor_free(on, &large);
            tfm__pool_trim(on);
            on->info.memory_bytes = all;
        }
        harness_ok(tfm_scope_open(on));
        harness_ok(tfm_tensor_new(on, &ids, TFM_I32, 2, (int64_t[]){1, 3}));
        harness_ok(tfm_tensor_write(on, ids, (int32_t[]){3, 7, 0}));
        harness_ok(tfm_tensor_new(on, &lengths, TFM_I32, 1, (int64_t[]){1}));
        harness_ok(tfm_tensor_write(on, lengths, (int32_t[]){3}));
        harness_ok(tfm_model_encode(models[i], &encoded, ids, lengths));
        harness_ok(tfm_model_decode(models[i], &y, ids, encoded, lengths));
        logits[i] = calloc(3 * 20, sizeof(float));
        harness_ok(tfm_tensor_read(on, logits[i], y));
        harness_ok(tfm_scope_close(on, 0, NULL));
    }
    for (int i = 1; i < 3; i++)
        assert_memory_equal(logits[0], logits[i], 3 * 20 * sizeof(float));
    assert_true(isfinite(logits[0][0]) && logits[0][0] != 0);
    /* A trainer changes only its own model. */
    tfm_trainer *t = NULL;
    const tfm_trainer_options o = plain_options();
    harness_random random = {5};
    int32_t ids[8 * 9], lengths[8];
    const tfm_batch batch = copy_batch(&random, ids, lengths);
    harness_ok(tfm_trainer_new(&t, models[1], &o));
    harness_ok(tfm_trainer_update(t, NULL, &batch, 1));
    harness_ok(tfm_model_open(&models[0], ctx, dir, &options));
    float *now = harness_floats(models[0]->tables[0].value), *learnt = harness_floats(models[1]->tables[0].value);
    assert_memory_not_equal(now, learnt, sizeof(float) * 20 * 32);
    for (int i = 0; i < 3; i++)
        free(logits[i]);
    free(now);
    free(learnt);
    tfm_trainer_free(&t);
    for (int i = 0; i < 3; i++)
        tfm_model_free(&models[i]);
    tfm_context_free(&other);
    free(dir);
}

/* Bytes of a model's file that are resident in this process. */
static uint64_t file_in_memory(void) {
    char line[512];
    uint64_t sum = 0;
    unsigned long long kib;
    bool inside = false;
    FILE *f = fopen("/proc/self/smaps", "r");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        if (strchr(line, '-') && strchr(line, '-') < strchr(line, ' '))
            inside = strstr(line, "model.safetensors") != NULL;
        else if (inside && sscanf(line, "Rss: %llu kB", &kib) == 1)
            sum += kib << 10;
    }
    fclose(f);
    return sum;
}

static float *logits_of(tfm_model *m, int vocabulary) {
    tfm_context *ctx = tfm_model_context(m);
    tfm_tensor ids = {0}, lengths = {0}, encoded = {0}, y = {0};
    float *out = calloc(3 * (size_t)vocabulary, sizeof(*out));
    harness_ok(tfm_scope_open(ctx));
    harness_ok(tfm_tensor_new(ctx, &ids, TFM_I32, 2, (int64_t[]){1, 3}));
    harness_ok(tfm_tensor_write(ctx, ids, (int32_t[]){3, 7, 0}));
    harness_ok(tfm_tensor_new(ctx, &lengths, TFM_I32, 1, (int64_t[]){1}));
    harness_ok(tfm_tensor_write(ctx, lengths, (int32_t[]){3}));
    harness_ok(tfm_model_encode(m, &encoded, ids, lengths));
    harness_ok(tfm_model_decode(m, &y, ids, encoded, lengths));
    harness_ok(tfm_tensor_read(ctx, out, y));
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    return out;
}

/* On a device with host memory, file parameters are not copied, and the numbers equal those of copied parameters: for a
 * file with any alignment on CPUs, and for one that this library saved. */
static void file_of(const char *dir) {
    tfm_context *contexts[2] = {NULL};
    tfm_model *models[2] = {NULL};
    float *logits[2];
    uint64_t parameters = 0;
    int vocabulary = 0;
    harness_ok(tfm_context_open(&contexts[0], NULL));
    harness_ok(tfm_context_open(&contexts[1], NULL));
    const bool wide = contexts[0]->tuning.class == TFM__CLASS_CPU;
    contexts[1]->capabilities.has &= ~(uint32_t)TFM__HAS_UNIFIED_MEMORY;
    for (int i = 0; i < 2; i++) {
        harness_ok(tfm_model_open(&models[i], contexts[i], dir, &(tfm_model_options){.precision = TFM_PRECISION_FP16}));
        parameters = tfm_model_get_info(models[i])->parameter_bytes;
        vocabulary = tfm__arch_output_stack(&models[i]->arch)->vocabulary;
        assert_true(i == 0 ? held(contexts[i]) < parameters / 4 : held(contexts[i]) >= parameters);
        logits[i] = logits_of(models[i], vocabulary);
        if (wide)
            assert_true(file_in_memory() < parameters / 4); /* packed panels are read, and the file's pages released */
    }
    assert_memory_equal(logits[0], logits[1], 3 * (size_t)vocabulary * sizeof(float));
    for (int i = 0; i < 2; i++) {
        free(logits[i]);
        tfm_model_free(&models[i]);
        tfm_context_free(&contexts[i]);
    }
    assert_int_equal(file_in_memory(), 0); /* the maps are gone with the models */
}

static void test_unified_memory_maps_weights_from_file(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    char *dir = harness_source("apps/demo"), saved[4200];
    if (!(ctx->capabilities.has & TFM__HAS_UNIFIED_MEMORY)) {
        free(dir);
        skip();
    }
    if (ctx->tuning.class == TFM__CLASS_CPU)
        file_of(dir);
    snprintf(saved, sizeof(saved), "%s/saved", scratch_root);
    harness_ok(tfm_model_quantize(saved, dir, TFM_F16));
    file_of(saved);
    free(dir);
}

static int setup(void **state) {
    return scratch_setup(state) || harness_setup(state);
}

static int teardown(void **state) {
    return harness_teardown(state) || scratch_teardown(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_objects_are_freed_in_any_order),
        cmocka_unit_test(test_memory_limit_is_reported_and_recoverable),
        cmocka_unit_test(test_models_of_one_directory_share_parameters),
        cmocka_unit_test(test_unified_memory_maps_weights_from_file),
        cmocka_unit_test(test_new_context_does_not_share_a_failed_one), /* the last test: the harness's context shares
                                                                           with no new one from here on */
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
