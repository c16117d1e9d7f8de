/* Training whose products round to bf16 what they read: near what it is in fp32, the same to the bit when it goes on,
 * and nothing else of the context does so. By the device's own products of bf16, or by their emulation. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dev/device/context_internal.h"
#include "ops/gemm/gemm.h"
#include "support/scratch.h"
#include "support/small_model.h"

enum { UPDATES = 12, HALF = UPDATES / 2 };

static tfm__tuning *tuning(void) {
    return &harness_context()->tuning;
}

/* A device that has none is given an emulation. */
static void provide(void) {
    if (!tfm__gemm_half_declines(harness_context(), TFM_BF16))
        return;
    tuning()->mma_emulated = true;
    tuning()->mma = TFM__MMA_M16N8K16;
    if (!harness_slow() || !tfm__gemm_half_declines(harness_context(), TFM_BF16)) {
        assert_null(tfm__gemm_half_declines(harness_context(), TFM_BF16));
        return;
    }
    tuning()->mma_emulated = false;
    tuning()->mma = TFM__MMA_NONE;
    printf("skipped: this kind of device uses no matrix cores for GEMM\n");
    skip();
}

static tfm_trainer_options options_of(tfm_dtype precision) {
    tfm_trainer_options o = plain_options();
    o.dropout = 0.1f;
    o.precision = precision;
    return o;
}

/* A run of twelve updates; at the sixth, if `path`, another model and trainer go on from there. The parameters at the
 * end, and the losses. */
static float *train(double *losses, size_t *count, tfm_dtype precision, const char *path) {
    tfm_context *ctx = harness_context();
    const tfm_trainer_options o = options_of(precision);
    tfm_model *model;
    tfm_trainer *trainer;
    harness_random random = {5};
    int32_t ids[8 * 9], lengths[8];
    harness_ok(tfm_model_new(&model, ctx, &SMALL));
    harness_ok(tfm_trainer_new(&trainer, model, &o));
    for (int i = 0; i < UPDATES; i++) {
        tfm_update_report report;
        const tfm_batch batch = copy_batch(&random, ids, lengths);
        if (path && i == HALF) {
            harness_ok(tfm_trainer_save(trainer, NULL, path));
            tfm_trainer_free(&trainer);
            tfm_model_free(&model);
            harness_ok(tfm_model_new(&model, ctx, &SMALL));
            harness_ok(tfm_trainer_new(&trainer, model, &o));
            harness_ok(tfm_trainer_load(trainer, NULL, path));
        }
        harness_ok(tfm_trainer_update(trainer, &report, &batch, 1));
        assert_int_equal(tuning()->gemm_input_dtype, TFM_F32);
        losses[i] = report.loss;
    }
    *count = (size_t)trainer->count;
    float *result = harness_floats(trainer->value);
    tfm_trainer_free(&trainer);
    tfm_model_free(&model);
    return result;
}

/* bf16 has 8 bits, so that what products read moves by 2^-9 of itself at most, and by a third of that as a root mean
 * square. Losses here are means over dozens of targets after a dozen products, whose errors add up as roots do: 2^-9
 * sqrt(12) / 3 of a loss is 2^-9 and some, and the steps of Adam differ by as much. Twice 2^-9 is the bound. */
static void test_bf16_training_losses_are_near_fp32(void **state) {
    (void)state;
    double plain[UPDATES], narrow[UPDATES], after[UPDATES];
    size_t count;
    provide();
    float *before = train(plain, &count, TFM_F32, NULL), *rounded = train(narrow, &count, TFM_BF16, NULL);
    double worst = 0;
    for (int i = 0; i < UPDATES; i++)
        worst = fmax(worst, fabs(narrow[i] - plain[i]) / plain[i]);
    print_message("# losses from %.4f to %.4f, in bf16 to %.4f: at most %.2g apart\n", plain[0], plain[UPDATES - 1],
                  narrow[UPDATES - 1], worst);
    assert_true(worst > 0 && worst < 2.0 / 512);
    assert_true(narrow[UPDATES - 1] < narrow[0]);
    assert_true(memcmp(before, rounded, count * sizeof(*before)) != 0);
    /* In the same context fp32 is what it was. */
    float *again = train(after, &count, TFM_F32, NULL);
    assert_memory_equal(before, again, count * sizeof(*before));
    assert_memory_equal(plain, after, sizeof(plain));
    free(before);
    free(rounded);
    free(again);
}

static void test_resumed_bf16_training_is_bit_identical(void **state) {
    double whole[UPDATES], parts[UPDATES];
    char path[4200];
    size_t count;
    provide();
    assert_int_equal(scratch_setup(state), 0);
    snprintf(path, sizeof(path), "%s/checkpoint", scratch_root);
    float *want = train(whole, &count, TFM_BF16, NULL), *got = train(parts, &count, TFM_BF16, path);
    assert_memory_equal(whole, parts, sizeof(whole));
    assert_memory_equal(want, got, count * sizeof(*want));
    free(want);
    free(got);
    scratch_teardown(state);
}

static int told;

static void listen(void *user, tfm_log_level level, const char *line) {
    (void)user;
    told += level == TFM_LOG_WARNING && strstr(line, "another kind of device") != NULL;
}

/* Whether a checkpoint that a trainer of this precision wrote is told to be of another kind of device. */
static int loads(const char *path, tfm_dtype precision) {
    const tfm_trainer_options o = options_of(precision);
    tfm_model *model;
    tfm_trainer *trainer;
    told = 0;
    harness_ok(tfm_model_new(&model, harness_context(), &SMALL));
    harness_ok(tfm_trainer_new(&trainer, model, &o));
    tfm_log_set(listen, NULL, TFM_LOG_WARNING);
    harness_ok(tfm_trainer_load(trainer, NULL, path));
    tfm_log_set(NULL, NULL, TFM_LOG_WARNING);
    tfm_trainer_free(&trainer);
    tfm_model_free(&model);
    return told;
}

/* A device that multiplies bf16 by another instruction adds in another order; fp32 does not depend on that. */
static void test_checkpoint_of_another_bf16_instruction_is_rejected(void **state) {
    double losses[UPDATES];
    char path[4200];
    size_t count;
    provide();
    assert_int_equal(scratch_setup(state), 0);
    snprintf(path, sizeof(path), "%s/checkpoint", scratch_root);
    free(train(losses, &count, TFM_BF16, path));
    assert_int_equal(loads(path, TFM_BF16), 0);
    assert_int_equal(loads(path, TFM_F32), 0);
    tuning()->avx512_bf16 = !tuning()->avx512_bf16;
    tuning()->mma_emulated = true;
    assert_int_equal(loads(path, TFM_BF16), 1);
    assert_int_equal(loads(path, TFM_F32), 0);
    scratch_teardown(state);
    harness_teardown(state);
    assert_int_equal(harness_setup(state), 0);
}

/* An evaluation is of the model as it is saved. */
static void test_bf16_training_evaluates_in_fp32(void **state) {
    (void)state;
    double nll[2];
    provide();
    for (int i = 0; i < 2; i++) {
        const tfm_trainer_options o = options_of(i ? TFM_BF16 : TFM_F32);
        tfm_model *model;
        tfm_trainer *trainer;
        harness_random random = {5};
        int32_t ids[8 * 9], lengths[8];
        uint64_t tokens;
        const tfm_batch batch = copy_batch(&random, ids, lengths);
        harness_ok(tfm_model_new(&model, harness_context(), &SMALL));
        harness_ok(tfm_trainer_new(&trainer, model, &o));
        harness_ok(tfm_trainer_evaluate(trainer, &nll[i], &tokens, &batch));
        tfm_trainer_free(&trainer);
        tfm_model_free(&model);
    }
    assert_memory_equal(&nll[0], &nll[1], sizeof(*nll));
}

/* A device without, and numbers that nothing rounds to. The model may then be trained in fp32. */
static void test_bf16_training_without_device_support_is_rejected(void **state) {
    tfm_context *ctx = harness_context();
    tfm_trainer_options o = options_of(TFM_F16);
    tfm_model *model;
    tfm_trainer *trainer;
    harness_ok(tfm_model_new(&model, ctx, &SMALL));
    harness_refused(tfm_trainer_new(&trainer, model, &o), TFM_ERROR_ARGUMENT, "precision");
    assert_null(trainer);
    tuning()->avx512_bf16 = tuning()->amx_bf16 = tuning()->mma_emulated = false;
    tuning()->mma = TFM__MMA_NONE;
    o.precision = TFM_BF16;
    harness_refused(tfm_trainer_new(&trainer, model, &o), TFM_ERROR_UNSUPPORTED, "has no");
    assert_null(trainer);
    harness_ok(tfm_context_status(ctx));
    o.precision = TFM_F32;
    harness_ok(tfm_trainer_new(&trainer, model, &o));
    tfm_trainer_free(&trainer);
    tfm_model_free(&model);
    harness_teardown(state);
    assert_int_equal(harness_setup(state), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bf16_training_losses_are_near_fp32),
                                       cmocka_unit_test(test_resumed_bf16_training_is_bit_identical),
                                       cmocka_unit_test(test_checkpoint_of_another_bf16_instruction_is_rejected),
                                       cmocka_unit_test(test_bf16_training_evaluates_in_fp32),
                                       cmocka_unit_test(test_bf16_training_without_device_support_is_rejected)};
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
