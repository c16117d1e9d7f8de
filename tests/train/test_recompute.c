/* Activation checkpointing: bit-identical updates in less memory, for every kind of block. */
#include <stdlib.h>
#include <string.h>
#include "ops/autograd/tape.h"
#include "support/scratch.h"
#include "support/small_model.h"

/* Models of all kinds of blocks: post-, pre- and sandwich norms, cross-attention, shared and per-layer relative
 * position biases, gates, windows, QK norm, parallel sub-layers, scaled results. */
static const char *const MODELS[] = {"gradients",
                                     "gradients-bart",
                                     "gradients-t5",
                                     "gradients-umt5",
                                     "gradients-gpt2",
                                     "gradients-gemma2",
                                     "gradients-qwen3",
                                     "families/gpt_neox-parallel-2022-f16",
                                     "gradients-m2m100",
                                     "gradients-pegasus",
                                     "gradients-llama",
                                     "families/granite-multipliers-f16",
                                     "gradients-mt5",
                                     "families/phi-half-f16",
                                     "families/olmo2-grouped-f16",
                                     "families/gptj-part-f16",
                                     "families/codegen-three-heads-f16",
                                     "families/falcon-40b-bf16",
                                     "families/bloom-three-heads-bf16",
                                     "families/stablelm-parallel-bf16",
                                     "families/cohere-head-norms-bf16"};

enum { ROWS = 6, WIDTH = 7 };

typedef struct texts {
    int32_t ids[ROWS * WIDTH], lengths[ROWS];
} texts;

static void draw(texts *t, harness_random *random, int vocabulary) {
    for (int i = 0; i < ROWS; i++) {
        t->lengths[i] = (int32_t)harness_range(random, 2, WIDTH);
        for (int k = 0; k < WIDTH; k++)
            t->ids[i * WIDTH + k] = (int32_t)harness_range(random, 0, vocabulary - 1);
    }
}

static tfm_trainer_options dropping(bool recompute) {
    tfm_trainer_options o = plain_options();
    o.dropout = 0.1f;
    o.attention_dropout = 0.2f;
    o.activation_dropout = 0.1f;
    o.gradient_checkpointing = recompute;
    return o;
}

/* The parameters after two updates of two batches each, and the losses. */
static float *train(const char *dir, const tfm_trainer_options *o, size_t *count, double *losses) {
    tfm_model *model;
    tfm_trainer *trainer;
    harness_random random = {7};
    texts sources[2], targets[2];
    harness_ok(tfm_model_open(&model, harness_context(), dir,
                              &(tfm_model_options){.no_tokenizer = true, .precision = TFM_PRECISION_FP32}));
    harness_ok(tfm_trainer_new(&trainer, model, o));
    const bool pairs = model->arch.encoder.layers > 0;
    for (int i = 0; i < 2; i++) {
        tfm_batch batches[2];
        tfm_update_report report;
        for (int k = 0; k < 2; k++) {
            draw(&sources[k], &random, pairs ? model->arch.encoder.vocabulary : 2);
            draw(&targets[k], &random, model->arch.decoder.vocabulary);
            batches[k] = (tfm_batch){.count = ROWS,
                                     .source_width = pairs ? WIDTH : 0,
                                     .target_width = WIDTH,
                                     .sources = pairs ? sources[k].ids : NULL,
                                     .source_lengths = pairs ? sources[k].lengths : NULL,
                                     .targets = targets[k].ids,
                                     .target_lengths = targets[k].lengths};
        }
        harness_ok(tfm_trainer_update(trainer, &report, batches, 2));
        losses[i] = report.loss;
    }
    *count = (size_t)trainer->count;
    float *result = harness_floats(trainer->value);
    tfm_trainer_free(&trainer);
    tfm_model_free(&model);
    return result;
}

static void compare(const char *dir, tfm_trainer_options plain) {
    tfm_trainer_options again = plain;
    double losses[2][2];
    size_t count, same;
    again.gradient_checkpointing = true;
    float *want = train(dir, &plain, &count, losses[0]), *got = train(dir, &again, &same, losses[1]);
    assert_int_equal(count, same);
    if (memcmp(losses[0], losses[1], sizeof(losses[0])) != 0)
        fail_msg("%s: the losses are %.9g and %.9g, and %.9g and %.9g with recomputation", dir, losses[0][0],
                 losses[0][1], losses[1][0], losses[1][1]);
    for (size_t i = 0; i < count; i++)
        if (memcmp(&want[i], &got[i], sizeof(*want)) != 0)
            fail_msg("%s: parameter %zu of %zu is %.9g, and %.9g with recomputation", dir, i, count, (double)want[i],
                     (double)got[i]);
    free(want);
    free(got);
}

static void test_activation_checkpointing_is_bit_identical(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(MODELS) / sizeof(*MODELS); i += harness_slow() ? 4 : harness_brief() ? 2 : 1) {
        char name[256];
        snprintf(name, sizeof(name), "tests/golden/%s", MODELS[i]);
        char *dir = harness_source(name);
        compare(dir, dropping(false));
        free(dir);
    }
}

/* A frozen block, with the gradient passing through or not needed. */
static void test_activation_checkpointing_of_frozen_blocks(void **state) {
    (void)state;
    static const char *const PARTS[] = {"model.encoder.*", "model.decoder.*", "model.shared.weight,model.encoder.*"};
    char *dir = harness_source("tests/golden/gradients-bart");
    for (size_t i = 0; i < (harness_brief() ? 2 : 3); i++) {
        tfm_trainer_options o = dropping(false);
        o.freeze = PARTS[i];
        compare(dir, o);
    }
    free(dir);
}

/* ---- Memory ---- */

static const tfm_model_shape DEEP = {.width = 64,
                                     .heads = 4,
                                     .ffn_dim = 256,
                                     .encoder_layers = 8,
                                     .decoder_layers = 8,
                                     .source_vocab_size = 60,
                                     .max_positions = 32,
                                     .pad_id = 59,
                                     .start_id = 59,
                                     .activation = TFM_GELU,
                                     .seed = 3};

enum { DEEP_ROWS = 48, DEEP_ROWS_BRIEF = 24, DEEP_WIDTH = 30 };

/* Peak memory of an update in a separate context. */
static uint64_t update_deep(bool recompute, uint64_t limit, double *loss) {
    static int32_t ids[DEEP_ROWS * DEEP_WIDTH], lengths[DEEP_ROWS];
    tfm_context *ctx;
    tfm_model *model;
    tfm_trainer *trainer;
    tfm_update_report report;
    tfm_trainer_options o = plain_options();
    const int rows = harness_brief() ? DEEP_ROWS_BRIEF : DEEP_ROWS;
    o.gradient_checkpointing = recompute;
    for (int i = 0; i < DEEP_ROWS * DEEP_WIDTH; i++)
        ids[i] = 1 + i * 7 % 57;
    for (int i = 0; i < DEEP_ROWS; i++)
        lengths[i] = DEEP_WIDTH - i % 4;
    const tfm_batch batch = {rows, DEEP_WIDTH, DEEP_WIDTH, ids, ids, lengths, lengths};
    harness_ok(tfm_context_open(&ctx, &(tfm_context_options){.memory_limit = limit}));
    harness_ok(tfm_model_new(&model, ctx, &DEEP));
    const uint64_t estimate = tfm_trainer_estimate_memory(model, &o, rows * DEEP_WIDTH);
    harness_ok(tfm_trainer_new(&trainer, model, &o));
    harness_ok(tfm_trainer_update(trainer, &report, &batch, 1));
    *loss = report.loss;
    const uint64_t most = tfm_context_peak_memory(ctx);
    print_message("# %s: %.1f MB, and %.1f by the estimate\n", recompute ? "recomputed" : "saved", (double)most / 1e6,
                  (double)estimate / 1e6);
    if (!limit && !(estimate > 0.97 * most && estimate < 1.25 * most))
        fail_msg("the estimate is %.2f times the pool's peak", (double)estimate / (double)most);
    assert_int_equal(trainer->micro_batch_tokens != 0, limit != 0);
    tfm_trainer_free(&trainer);
    tfm_model_free(&model);
    tfm_context_free(&ctx);
    return most;
}

static void test_activation_checkpointing_saves_memory(void **state) {
    (void)state;
    double want, got;
    if (harness_slow())
        skip();
    const uint64_t kept = update_deep(false, 0, &want), again = update_deep(true, 0, &got);
    assert_true(want == got);
    assert_true(again < kept / 2);
    /* If even that does not fit, the batch is split: memory ran out within a recomputed block. */
    update_deep(true, again - (again >> 3), &got);
    assert_true(want / got < 1.0001 && got / want < 1.0001);
}

/* ---- The autograd tape ---- */

static tfm_status never(tfm_context *ctx, const tfm__record *record, tfm_tensor *out) {
    (void)record;
    (void)out;
    return tfm__op_error(ctx, "never", "it is run again");
}

/* An op that has already computed gradients would compute them twice. */
static void test_op_with_ready_gradients_cannot_be_recomputed(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor x = {0}, gradient = {0}, targets = {0}, loss = {0}, nll = {0};
    tfm_param weight = {0};
    tfm_tensor weight_gradient = {0};
    tfm_scope_open(ctx);
    harness_ok(tfm_tensor_new(ctx, &x, TFM_F32, 2, (int64_t[]){3, 4}));
    harness_ok(tfm_tensor_new(ctx, &weight.value, TFM_F32, 2, (int64_t[]){5, 4}));
    harness_ok(tfm_tensor_new(ctx, &weight_gradient, TFM_F32, 2, (int64_t[]){5, 4}));
    harness_ok(tfm_tensor_new(ctx, &gradient, TFM_F32, 2, (int64_t[]){3, 4}));
    harness_ok(tfm_tensor_new(ctx, &targets, TFM_I32, 1, (int64_t[]){3}));
    harness_ok(tfm_tensor_write(ctx, targets, (int32_t[]){0, 1, 2}));
    tfm__tensor_fill(ctx, x, &(float){0.5f});
    tfm__tensor_fill(ctx, weight.value, &(float){0.25f});
    harness_ok(tfm_tape_start(ctx));
    harness_ok(tfm_tape_watch(ctx, x, gradient));
    harness_ok(tfm_tape_watch(ctx, weight.value, weight_gradient));
    const size_t place = tfm__tape_checkpoint_begin(ctx);
    harness_ok(tfm_linear_cross_entropy(ctx, &loss, &nll, x, &weight, (tfm_tensor){0}, targets,
                                        &(tfm_cross_entropy_options){.scale = 1}));
    harness_refused(
        tfm__tape_checkpoint_end(
            ctx, place, &(tfm__record){.op = "block", .recompute = never, .in = {x}, .out = {loss}, .saved = {x}}),
        TFM_ERROR_ARGUMENT, "cannot be recomputed");
    tfm_tape_stop(ctx);
    tfm_scope_close(ctx, 0, NULL);
    tfm_param_free(ctx, &weight);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_activation_checkpointing_is_bit_identical),
        cmocka_unit_test(test_activation_checkpointing_of_frozen_blocks),
        cmocka_unit_test(test_activation_checkpointing_saves_memory),
        cmocka_unit_test(test_op_with_ready_gradients_cannot_be_recomputed),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
