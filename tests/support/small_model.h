/* A model that trains within seconds, and its data. */
#ifndef TFM_TESTS_SMALL_MODEL_H
#define TFM_TESTS_SMALL_MODEL_H

#include "support/harness.h"
#include "train/trainer.h"

static const tfm_model_shape SMALL = {.width = 32,
                                      .heads = 4,
                                      .ffn_dim = 64,
                                      .encoder_layers = 1,
                                      .decoder_layers = 1,
                                      .source_vocab_size = 20,
                                      .max_positions = 32,
                                      .pad_id = 19,
                                      .start_id = 19,
                                      .activation = TFM_RELU,
                                      .seed = 3};

/* A batch of eight lines for a copy task. */
static inline tfm_batch copy_batch(harness_random *random, int32_t *ids, int32_t *lengths) {
    for (int i = 0; i < 8; i++) {
        lengths[i] = (int32_t)harness_range(random, 2, 9);
        for (int k = 0; k < 9; k++)
            ids[i * 9 + k] = k < lengths[i] - 1 ? (int32_t)harness_range(random, 1, 18) : 0;
    }
    return (tfm_batch){8, 9, 9, ids, ids, lengths, lengths};
}

static inline tfm_trainer_options plain_options(void) {
    tfm_trainer_options o = {0};
    tfm_trainer_paper(&o);
    o.dropout = 0;
    o.beta1 = 0.5;
    o.lr_scheduler_type = TFM_LR_SCHEDULER_CONSTANT;
    o.warmup_steps = 1;
    o.learning_rate = 1e-3;
    return o;
}

/* Trains for ten updates; sets the first and last loss, returns the parameters. */
static inline float *train_ten(const tfm_model_shape *shape, const tfm_trainer_options *options, double *first,
                               double *last) {
    tfm_context *ctx = harness_context();
    tfm_model *model;
    tfm_trainer *trainer;
    harness_random random = {5};
    int32_t ids[8 * 9], lengths[8];
    harness_ok(tfm_model_new(&model, ctx, shape));
    harness_ok(tfm_trainer_new(&trainer, model, options));
    for (int i = 0; i < 10; i++) {
        tfm_update_report report;
        const tfm_batch batch = copy_batch(&random, ids, lengths);
        harness_ok(tfm_trainer_update(trainer, &report, &batch, 1));
        assert_int_equal(report.update, i + 1);
        *(i == 0 ? first : last) = report.loss;
    }
    float *result = harness_floats(trainer->value);
    tfm_trainer_free(&trainer);
    tfm_model_free(&model);
    return result;
}

#endif
