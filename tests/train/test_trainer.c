/* The trainer: gradients of whole models against PyTorch's, reproducible updates, and errors. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dev/device/context_internal.h"
#include "support/harness.h"
#include "model/weights/weight_file.h"
#include "support/scratch.h"
#include "support/small_model.h"

/* ---- PyTorch's gradients: tests/golden/make_gradients.py ---- */

enum { PAIRS = 3, MOST = 3 * 16 }; /* a language model has no sources */

typedef struct golden {
    int32_t sources[MOST], targets[MOST], source_lengths[PAIRS], target_lengths[PAIRS];
    tfm_batch pairs;
    double loss, nll;
} golden;

static int64_t read_rows(int32_t *out, const json_t *rows) {
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(rows); i++)
        for (size_t k = 0; k < json_array_size(json_array_get(rows, i)); k++)
            out[n++] = (int32_t)json_integer_value(json_array_get(json_array_get(rows, i), k));
    return json_array_size(rows) ? (int64_t)(n / json_array_size(rows)) : 0;
}

static void read_golden(golden *g, const char *dir) {
    char path[1024];
    snprintf(path, sizeof(path), "%s/batch.json", dir);
    json_t *root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    g->pairs = (tfm_batch){PAIRS,
                           read_rows(g->sources, json_object_get(root, "sources")),
                           read_rows(g->targets, json_object_get(root, "targets")),
                           g->sources,
                           g->targets,
                           g->source_lengths,
                           g->target_lengths};
    for (size_t i = 0; i < PAIRS; i++) {
        g->source_lengths[i] = (int32_t)json_integer_value(json_array_get(json_object_get(root, "source_lengths"), i));
        g->target_lengths[i] = (int32_t)json_integer_value(json_array_get(json_object_get(root, "target_lengths"), i));
    }
    g->loss = json_real_value(json_object_get(root, "loss"));
    g->nll = json_real_value(json_object_get(root, "nll"));
    json_decref(root);
}

typedef struct comparison {
    const tfm_trainer *trainer;
    const float *m; /* half of the gradients: Adam's first moment after one step with beta1 = 1/2 */
    const tfm__weights *file;
    double most; /* tolerance per number */
    int count;
} comparison;

static tfm_status compare(void *user, const tfm__parameter *p) {
    comparison *c = user;
    const tfm__stored_tensor *stored = tfm__weights_find(c->file, p->name);
    assert_non_null(stored);
    double want[32 * 32];
    float got[32 * 32];
    const int64_t columns = p->rank == 2 ? p->dims[1] : 1, count = p->dims[0] * columns;
    assert_true(count <= 32 * 32);
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = p->first + i / columns, column = i % columns;
        float value;
        memcpy(&value, stored->data + 4 * (p->transposed ? column * p->total + row : row * columns + column), 4);
        want[i] = 10 * (double)value; /* gradients are of order 0.1 */
        got[i] = 20 * c->m[p->param->value.offset + (size_t)i];
    }
    harness_close(got, want, (size_t)count, c->most, p->name);
    c->count += p->first == 0; /* else part of a tensor already counted */
    return TFM_OK;
}

/* In one batch, and accumulated over two. */
static void check_gradients(const char *folder, double most) {
    tfm_context *ctx = harness_context();
    char *dir = harness_source(folder), path[1024];
    golden g;
    read_golden(&g, dir);
    snprintf(path, sizeof(path), "%s/gradients.safetensors", dir);
    for (int batches = 1; batches <= 2; batches++) {
        tfm_model *model;
        tfm_trainer *trainer;
        tfm__weights *file;
        tfm_update_report report;
        const tfm_trainer_options options = plain_options();
        harness_ok(tfm_model_open(&model, ctx, dir, &(tfm_model_options){.no_tokenizer = true}));
        harness_ok(tfm_trainer_new(&trainer, model, &options));
        tfm_batch parts[2] = {g.pairs, g.pairs};
        if (batches == 2) {
            parts[0].count = 1;
            parts[1].count = PAIRS - 1;
            parts[1].sources += g.pairs.source_width;
            parts[1].targets += g.pairs.target_width;
            parts[1].source_lengths++;
            parts[1].target_lengths++;
        }
        const bool alone = g.pairs.source_width == 0;
        for (int i = 0; i < 2 && alone; i++)
            parts[i].sources = parts[i].source_lengths = NULL;
        harness_ok(tfm_trainer_update(trainer, &report, parts, (size_t)batches));
        assert_true(fabs(report.loss / g.loss - 1) < 1e-5);
        assert_true(fabs(report.nll / g.nll - 1) < 1e-5);
        assert_int_equal(report.source_tokens, alone ? 0 : 15);
        assert_int_equal(report.target_tokens, alone ? 7 + 2 + 10 : 11);
        harness_ok(tfm__weights_open(&file, path));
        comparison c = {trainer, harness_floats(trainer->m), file, most, 0};
        tfm__params_visit(model->family, &model->arch, model, compare, &c);
        assert_int_equal(c.count, tfm__weights_count(file));
        free((void *)(uintptr_t)c.m);
        tfm__weights_free(&file);
        tfm_trainer_free(&trainer);
        tfm_model_free(&model);
    }
    free(dir);
}

static void test_gradients_match_pytorch(void **state) {
    (void)state;
    check_gradients("tests/golden/gradients", 1e-5);
}

/* Learned positions with a norm; fairseq sinusoids and pre-norms; relative position biases, RMS norms, gates, and a
 * scaled output; a relative position bias per layer. */
static void test_gradients_of_encoder_decoders_match_pytorch(void **state) {
    (void)state;
    /* Gradients like those of UMT5 and mT5 are up to 6 and 1.5. Work-groups that split a row, as on GPUs, sum in
     * another order, and were off by up to 3.3e-5. */
    const double large = tfm__context_tuning(harness_context())->class == TFM__CLASS_CPU ? 2e-5 : 5e-5;
    check_gradients("tests/golden/gradients-bart", 1e-5);
    check_gradients("tests/golden/gradients-m2m100", 1e-5);
    check_gradients("tests/golden/gradients-t5", 1e-5);
    check_gradients("tests/golden/gradients-umt5", large);
    check_gradients("tests/golden/gradients-mbart", 1e-5);
    check_gradients("tests/golden/gradients-pegasus", 1e-5);
    check_gradients("tests/golden/gradients-mt5", large);
}

/* Learned positions, transposed and fused matrices; projected embeddings and outputs, and norms without parameters;
 * RoPE, RMS norms, gates and GQA; QK norm, and a window; sandwich norms, and capped scores and logits. */
static void test_gradients_of_decoders_match_pytorch(void **state) {
    (void)state;
    check_gradients("tests/golden/gradients-gpt2", 1e-5);
    check_gradients("tests/golden/gradients-opt", 1e-5);
    check_gradients("tests/golden/gradients-llama", 1e-5);
    check_gradients("tests/golden/gradients-qwen3", 1e-5);
    check_gradients("tests/golden/gradients-gemma2", 1e-5);
}

/* ---- New models ----------- */

static void test_training_is_deterministic_by_seed(void **state) {
    (void)state;
    tfm_trainer_options o = {0};
    tfm_trainer_paper(&o);
    double first = 0, last = 0;
    o.dropout = 0.2f;
    o.activation_dropout = 0.1f;
    o.attention_dropout = 0.1f;
    o.learning_rate = 5e-3;
    o.warmup_steps = 4;
    o.max_grad_norm = 1;
    o.weight_decay = 0.01;
    for (int pre_norm = 0; pre_norm < 2; pre_norm++) {
        tfm_model_shape shape = SMALL;
        shape.pre_norm = pre_norm;
        shape.activation = pre_norm ? TFM_GELU : TFM_RELU;
        shape.target_vocab_size = pre_norm ? 20 : 0;
        float *a = train_ten(&shape, &o, &first, &last), *b = train_ten(&shape, &o, &first, &last);
        assert_memory_equal(a, b, 10000 * sizeof(float));
        assert_true(last < first - 0.3);
        o.seed = 1; /* another seed, other parameters */
        float *c = train_ten(&shape, &o, &first, &last);
        assert_memory_not_equal(a, c, 10000 * sizeof(float));
        o.seed = 0;
        free(a);
        free(b);
        free(c);
    }
}

/* Each of the three dropout rates has an effect, reproducibly. */
static void test_each_dropout_rate_has_its_own_effect(void **state) {
    (void)state;
    double first, last;
    float *trained[4];
    for (int i = 0; i < 4; i++) {
        tfm_trainer_options o = plain_options();
        o.dropout = i == 1 ? 0.2f : 0;
        o.attention_dropout = i == 2 ? 0.2f : 0;
        o.activation_dropout = i == 3 ? 0.2f : 0;
        trained[i] = train_ten(&SMALL, &o, &first, &last);
        for (int k = 0; k < i; k++)
            assert_memory_not_equal(trained[i], trained[k], 10000 * sizeof(float));
        float *again = train_ten(&SMALL, &o, &first, &last);
        assert_memory_equal(trained[i], again, 10000 * sizeof(float));
        free(again);
    }
    for (int i = 0; i < 4; i++)
        free(trained[i]);
}

/* An evaluation has no dropout and changes nothing; its perplexity is the update's without dropout and smoothing. */
static void test_evaluation_changes_nothing(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_model *model;
    tfm_trainer *trainer;
    tfm_update_report report;
    tfm_trainer_options o = plain_options();
    harness_random random = {6};
    int32_t ids[8 * 9], lengths[8];
    const tfm_batch batch = copy_batch(&random, ids, lengths);
    double nll;
    uint64_t tokens;
    harness_ok(tfm_model_new(&model, ctx, &SMALL));
    harness_ok(tfm_trainer_new(&trainer, model, &o));
    harness_ok(tfm_trainer_evaluate(trainer, &nll, &tokens, &batch));
    harness_ok(tfm_trainer_update(trainer, &report, &batch, 1));
    assert_int_equal(tokens, report.target_tokens);
    assert_true(fabs(nll / (double)tokens - report.nll) < 1e-5 * report.nll);
    double again;
    harness_ok(tfm_trainer_evaluate(trainer, &again, &tokens, &batch));
    assert_true(again < nll); /* it has been trained */
    tfm_trainer_free(&trainer);
    tfm_model_free(&model);
}

static tfm_status update_or_look(tfm_trainer *trainer, const tfm_batch *batch, bool learn) {
    double nll;
    uint64_t tokens;
    return learn ? tfm_trainer_update(trainer, NULL, batch, 1) : tfm_trainer_evaluate(trainer, &nll, &tokens, batch);
}

/* A batch that was split after memory ran out is no failure: the thread's error message is unchanged. */
static void test_split_batch_leaves_no_error_message(void **state) {
    (void)state;
    enum { PARTS = 64 };
    static const char BEFORE[] = "what failed before";
    tfm_context *ctx = harness_context();
    const uint64_t all = ctx->memory_limit;
    tfm_model *model;
    tfm_trainer *trainer;
    tfm_trainer_options o = plain_options();
    harness_random random = {6};
    int32_t ids[8 * 9], lengths[8];
    const tfm_batch batch = copy_batch(&random, ids, lengths);
    harness_ok(tfm_model_new(&model, ctx, &SMALL));
    harness_ok(tfm_trainer_new(&trainer, model, &o));
    for (int learn = 0; learn < 2; learn++) {
        harness_ok(update_or_look(trainer, &batch, learn)); /* which allocates the persistent state */
        tfm__pool_trim(ctx);
        const uint64_t held = ctx->pool_bytes;
        ctx->pool_bytes_peak = held;
        harness_ok(update_or_look(trainer, &batch, learn));
        const uint64_t needs = ctx->pool_bytes_peak - held;
        trainer->micro_batch_tokens = 0;
        for (int part = PARTS; part > 0 && trainer->micro_batch_tokens == 0; part--) {
            tfm__pool_trim(ctx);
            ctx->memory_limit = held + needs * (uint64_t)part / PARTS;
            tfm__fail(TFM_ERROR_INPUT, "%s", BEFORE);
            harness_ok(update_or_look(trainer, &batch, learn));
            assert_string_equal(tfm_error_message(), BEFORE);
        }
        assert_true(trainer->micro_batch_tokens > 0);
        ctx->memory_limit = all;
    }
    tfm_trainer_free(&trainer);
    tfm_model_free(&model);
}

/* If padding is also EOS it is generated, by a new model and by an opened one. */
static void test_eos_used_as_padding_is_generated(void **state) {
    (void)state;
    tfm_model_shape shape = SMALL;
    tfm_model *model;
    shape.pad_id = shape.eos_id;
    harness_ok(tfm_model_new(&model, harness_context(), &shape));
    assert_false(tfm__generation_is_banned(&model->rules, shape.eos_id));
    float *bias = harness_floats(model->search_bias);
    assert_true(bias[shape.eos_id] == 0);
    free(bias);
    tfm_model_free(&model);
}

/* Two-stage training: the second trainer continues with the first one's parameters. Two trainers at once would have
 * separate parameters, and the first would learn from passes through the second's. */
static void test_second_trainer_continues_with_the_parameters(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_model *model;
    tfm_trainer *trainer, *another;
    tfm_trainer_options o = plain_options();
    harness_random random = {6};
    int32_t ids[8 * 9], lengths[8];
    const tfm_batch batch = copy_batch(&random, ids, lengths);
    double nll[3];
    uint64_t tokens;
    harness_ok(tfm_model_new(&model, ctx, &SMALL));
    for (int i = 0; i < 3; i++) {
        harness_ok(tfm_trainer_new(&trainer, model, &o));
        harness_refused(tfm_trainer_new(&another, model, &o), TFM_ERROR_ARGUMENT, "already has a trainer");
        assert_null(another);
        harness_ok(tfm_trainer_evaluate(trainer, &nll[i], &tokens, &batch));
        if (i == 0)
            harness_ok(tfm_trainer_update(trainer, NULL, &batch, 1));
        if (i < 2)
            harness_ok(tfm_trainer_evaluate(trainer, &nll[i], &tokens, &batch));
        if (i > 0)
            assert_true(nll[i] == nll[i - 1]);
        tfm_trainer_free(&trainer);
    }
    tfm_model_free(&model);
}

/* All parameters of a model concatenated, and how many numbers are frozen. */
typedef struct values {
    float *host;
    size_t count, frozen;
    bool *stays;
} values;

static tfm_status take(void *user, const tfm__parameter *p) {
    values *v = user;
    float *part = harness_floats(p->param->value);
    const size_t n = tfm_tensor_count(p->param->value);
    v->host = realloc(v->host, (v->count + n) * sizeof(float));
    v->stays = realloc(v->stays, (v->count + n) * sizeof(bool));
    assert_true(v->host && v->stays);
    const bool stays = strncmp(p->name, "encoder.", 8) == 0 || strcmp(p->name, "shared.weight") == 0;
    for (size_t i = 0; i < n; i++) {
        v->host[v->count + i] = part[i];
        v->stays[v->count + i] = stays;
    }
    v->count += n;
    v->frozen += stays ? n : 0;
    free(part);
    return TFM_OK;
}

static values values_of(tfm_model *model) {
    values v = {0};
    harness_ok(tfm__params_visit(model->family, &model->arch, model, take, &v));
    return v;
}

/* Frozen parameters keep their values and need no optimizer memory, even after an earlier trainer moved all into one
 * block; a later trainer trains them again. */
static void test_frozen_parameters_keep_their_values(void **state) {
    (void)state;
    char *dir = harness_source("tests/golden/gradients-t5");
    golden g;
    tfm_model *model;
    tfm_trainer *trainer;
    read_golden(&g, dir);
    harness_ok(tfm_model_open(&model, harness_context(), dir, &(tfm_model_options){.no_tokenizer = true}));
    values last = values_of(model);
    for (int run = 0; run < 3; run++) {
        tfm_trainer_options o = plain_options();
        const uint64_t whole = tfm_trainer_estimate_memory(model, &o, 1);
        o.freeze = run == 1 ? "encoder.*,shared.weight" : NULL;
        harness_ok(tfm_trainer_new(&trainer, model, &o));
        harness_ok(tfm_trainer_update(trainer, NULL, &g.pairs, 1));
        tfm_trainer_free(&trainer);
        values now = values_of(model);
        size_t same = 0, same_frozen = 0;
        for (size_t i = 0; i < now.count; i++) {
            same += now.host[i] == last.host[i];
            same_frozen += now.stays[i] && now.host[i] == last.host[i];
        }
        /* A word in no line never changes. */
        assert_true(run == 1 ? same_frozen == now.frozen && same < now.frozen + (now.count - now.frozen) / 10
                             : same < now.count / 10);
        assert_true(run == 1 ? tfm_trainer_estimate_memory(model, &o, 1) < whole
                             : tfm_trainer_estimate_memory(model, &o, 1) == whole);
        free(last.host);
        free(last.stays);
        last = now;
    }
    free(last.host);
    free(last.stays);
    /* Weight decay is for matrices: all of a kind may be frozen. T5's other parameters are norm gammas. */
    static const char *const KINDS[] = {"*layer_norm.weight", "*.q.weight,*.k.weight,*.v.weight,*.o.weight,*.w*.weight,"
                                                              "*bias.weight,shared.weight"};
    for (size_t i = 0; i < 2; i++) {
        tfm_trainer_options decays = plain_options();
        decays.weight_decay = 0.1;
        decays.freeze = KINDS[i];
        harness_ok(tfm_trainer_new(&trainer, model, &decays));
        harness_ok(tfm_trainer_update(trainer, NULL, &g.pairs, 1));
        tfm_trainer_free(&trainer);
    }
    tfm_trainer_options o = {.freeze = "no.such.name"};
    harness_refused(tfm_trainer_new(&trainer, model, &o), TFM_ERROR_ARGUMENT, "no parameter matches \"no.such.name\"");
    o.freeze = "shared.weight,encodr.*";
    harness_refused(tfm_trainer_new(&trainer, model, &o), TFM_ERROR_ARGUMENT,
                    "no parameter matches \"encodr.*\" in freeze");
    o.freeze = "*";
    harness_refused(tfm_trainer_new(&trainer, model, &o), TFM_ERROR_ARGUMENT, "leaves no parameter to train");
    o.freeze = "";
    harness_refused(tfm_trainer_new(&trainer, model, &o), TFM_ERROR_ARGUMENT, "freeze is empty");
    tfm_model_free(&model);
    free(dir);
}

/* A file saved without its head has names without prefix: parameters are found by either name. */
static void test_freeze_accepts_names_without_prefix(void **state) {
    (void)state;
    static const char FROM[] = "tests/golden/gradients-gpt2/", NAME[] = "\"transformer.", BASE[] = "            \"";
    static const char *const WAYS[] = {"h.0.*,wte.weight", "transformer.h.0.*,transformer.wte.weight",
                                       "h.0.*,transformer.wte.weight"};
    char path[128], *dir = harness_source("tests/golden/gradients-gpt2"), *content;
    golden g;
    values first = {0};
    size_t size;
    read_golden(&g, dir);
    scratch_setup(NULL);
    snprintf(path, sizeof(path), "%sconfig.json", FROM);
    scratch_copy(path, "config.json");
    snprintf(path, sizeof(path), "%smodel.safetensors", FROM);
    content = scratch_source(path, &size);
    for (char *at = content; (at = memmem(at, (size_t)(content + size - at), NAME, strlen(NAME)));)
        memcpy(at, BASE, strlen(BASE));
    scratch_write("model.safetensors", content, size);
    for (size_t i = 0; i < TFM__COUNT(WAYS); i++) {
        tfm_model *model;
        tfm_trainer *trainer;
        tfm_trainer_options o = plain_options();
        harness_ok(tfm_model_open(&model, harness_context(), scratch_root, &(tfm_model_options){.no_tokenizer = true}));
        const uint64_t whole = tfm_trainer_estimate_memory(model, &o, 1);
        o.freeze = WAYS[i];
        assert_true(tfm_trainer_estimate_memory(model, &o, 1) < whole);
        harness_ok(tfm_trainer_new(&trainer, model, &o));
        harness_ok(tfm_trainer_update(trainer, NULL, &g.pairs, 1));
        tfm_trainer_free(&trainer);
        values now = values_of(model);
        if (i > 0)
            assert_memory_equal(now.host, first.host, now.count * sizeof(*now.host));
        free(i > 0 ? now.host : NULL);
        free(now.stays);
        first.host = i > 0 ? first.host : now.host;
        o.freeze = "h.7.*";
        harness_refused(tfm_trainer_new(&trainer, model, &o), TFM_ERROR_ARGUMENT,
                        "\"h.7.*\": give patterns of names such as h.1.");
        tfm_model_free(&model);
    }
    free(first.host);
    free(content);
    free(dir);
    scratch_teardown(NULL);
}

/* A non-finite loss is reported, and nothing changes. */
static void test_non_finite_loss_changes_nothing(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_model *model;
    tfm_trainer *trainer;
    tfm_update_report report;
    tfm_trainer_options o = plain_options();
    harness_random random = {6};
    int32_t ids[8 * 9], lengths[8];
    const tfm_batch batch = copy_batch(&random, ids, lengths);
    harness_ok(tfm_model_new(&model, ctx, &SMALL));
    harness_ok(tfm_trainer_new(&trainer, model, &o));
    tfm_tensor one = {0};
    const float bad = NAN, good = 0.1f;
    harness_ok(tfm_tensor_rows(ctx, &one, trainer->value, trainer->decayed + 3, 1)); /* a bias or a gamma */
    harness_ok(tfm_tensor_write(ctx, one, &bad));
    float *before = harness_floats(trainer->value);
    assert_int_equal(tfm_trainer_update(trainer, &report, &batch, 1), TFM_ERROR_NUMERIC);
    assert_non_null(strstr(tfm_error_message(), "update 1: the loss is nan"));
    float *after = harness_floats(trainer->value);
    assert_memory_equal(before, after, (size_t)trainer->count * sizeof(float));
    harness_ok(tfm_tensor_write(ctx, one, &good));
    harness_ok(tfm_trainer_update(trainer, &report, &batch, 1));
    free(before);
    free(after);
    tfm_trainer_free(&trainer);
    tfm_model_free(&model);
}

static void test_learning_rate_schedules_match_formulas(void **state) {
    (void)state;
    tfm_trainer_options o = {0};
    tfm_trainer_paper(&o);
    /* The paper's formula: 512^-0.5 min(t^-0.5, t 4000^-1.5). */
    const int64_t steps[] = {1, 100, 3999, 4000, 4001, 100000};
    for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
        const double t = (double)steps[i], want = fmin(pow(t, -0.5), t * pow(4000, -1.5)) / sqrt(512);
        assert_true(fabs(tfm_trainer_learning_rate(&o, steps[i]) / want - 1) < 1e-12);
    }
    o.learning_rate = 1;
    o.warmup_steps = 10;
    o.max_steps = 30;
    o.lr_scheduler_type = TFM_LR_SCHEDULER_LINEAR;
    assert_true(fabs(tfm_trainer_learning_rate(&o, 20) - 0.5) < 1e-12 && tfm_trainer_learning_rate(&o, 31) == 0);
    o.lr_scheduler_type = TFM_LR_SCHEDULER_COSINE;
    assert_true(fabs(tfm_trainer_learning_rate(&o, 20) - 0.5) < 1e-12 &&
                fabs(tfm_trainer_learning_rate(&o, 15) - 0.8535533906) < 1e-9);
    assert_true(tfm_trainer_learning_rate(&o, 30) == 0 && tfm_trainer_learning_rate(&o, 5) == 0.5);
    o.warmup_steps = 30; /* at most the warm-up */
    assert_true(tfm_trainer_learning_rate(&o, 30) == 1);
    o.warmup_steps = 1;
    o.max_steps = 1;
    assert_true(tfm_trainer_learning_rate(&o, 1) == 1);
    o.warmup_steps = 10;
    o.lr_scheduler_type = TFM_LR_SCHEDULER_CONSTANT;
    assert_true(tfm_trainer_learning_rate(&o, 1000) == 1);
}

/* Invalid batches for a language model and for a translation model. */
static void test_batches_of_the_wrong_kind_are_rejected(void **state) {
    (void)state;
    char *dir = harness_source("tests/golden/gradients-gpt2");
    tfm_model *model;
    tfm_trainer *trainer;
    golden g;
    read_golden(&g, dir);
    harness_ok(tfm_model_open(&model, harness_context(), dir, &(tfm_model_options){.no_tokenizer = true}));
    harness_ok(tfm_trainer_new(&trainer, model, NULL));
    tfm_batch bad = g.pairs;
    bad.source_width = 2;
    harness_refused(tfm_trainer_update(trainer, NULL, &bad, 1), TFM_ERROR_ARGUMENT, "with sources 2 wide");
    bad = g.pairs;
    bad.target_width = 18; /* one more than the trained positions */
    harness_refused(tfm_trainer_update(trainer, NULL, &bad, 1), TFM_ERROR_ARGUMENT, "from 2 to 17");
    bad = g.pairs;
    g.target_lengths[1] = 1;
    harness_refused(tfm_trainer_update(trainer, NULL, &bad, 1), TFM_ERROR_ARGUMENT, "text 2 has length 1");
    bad.targets = NULL;
    harness_refused(tfm_trainer_update(trainer, NULL, &bad, 1), TFM_ERROR_ARGUMENT, "batch.targets");
    tfm_trainer_free(&trainer);
    tfm_model_free(&model);
    free(dir);
}

/* New models of each trainable family: they learn, save, and give the same results when reopened. */
static void test_new_decoder_models_learn_and_are_saved(void **state) {
    (void)state;
    static const char *const FAMILIES[] = {"gpt2",    "llama", "mistral", "qwen2",  "qwen3",
                                           "smollm3", "phi3",  "gemma",   "gemma2", "gemma3_text"};
    harness_random random = {7};
    int32_t ids[4 * 9];
    const int32_t lengths[4] = {9, 5, 9, 2};
    for (int i = 0; i < 4 * 9; i++)
        ids[i] = (int32_t)harness_range(&random, 0, 19);
    const tfm_batch batch = {4, 0, 9, NULL, ids, NULL, lengths};
    for (size_t i = 0; i < sizeof(FAMILIES) / sizeof(*FAMILIES); i++) {
        tfm_model_shape shape = {.family = FAMILIES[i],
                                 .width = 16,
                                 .heads = 4,
                                 .kv_heads = i ? 2 : 0,
                                 .ffn_dim = 24,
                                 .decoder_layers = 2,
                                 .source_vocab_size = 20,
                                 .max_positions = 8,
                                 .pad_id = -1,
                                 .eos_id = 2,
                                 .start_id = 1};
        tfm_trainer_options o = plain_options();
        tfm_model *model, *again;
        tfm_trainer *trainer;
        double nll[3];
        uint64_t tokens;
        o.learning_rate = 1e-2;
        scratch_setup(NULL);
        harness_ok(tfm_model_new(&model, harness_context(), &shape));
        assert_string_equal(tfm_model_get_info(model)->family, FAMILIES[i]);
        harness_ok(tfm_trainer_new(&trainer, model, &o));
        harness_ok(tfm_trainer_evaluate(trainer, &nll[0], &tokens, &batch));
        assert_int_equal(tokens, 8 + 4 + 8 + 1);
        assert_true(nll[0] < 6 * (double)tokens);
        for (int k = 0; k < 5; k++)
            harness_ok(tfm_trainer_update(trainer, NULL, &batch, 1));
        harness_ok(tfm_trainer_evaluate(trainer, &nll[1], &tokens, &batch));
        assert_true(nll[1] < nll[0] - 1);
        harness_ok(tfm_model_save(model, scratch_root, TFM_F32));
        tfm_trainer_free(&trainer);
        harness_ok(tfm_model_open(&again, harness_context(), scratch_root, &(tfm_model_options){.no_tokenizer = true}));
        harness_ok(tfm_trainer_new(&trainer, again, &o));
        harness_ok(tfm_trainer_evaluate(trainer, &nll[2], &tokens, &batch));
        assert_true(fabs(nll[2] / nll[1] - 1) < 1e-6);
        tfm_trainer_free(&trainer);
        tfm_model_free(&again);
        tfm_model_free(&model);
        scratch_teardown(NULL);
    }
    tfm_model *model;
    tfm_model_shape bad = {.family = "bert"};
    harness_refused(tfm_model_new(&model, harness_context(), &bad), TFM_ERROR_UNSUPPORTED, "family \"bert\"");
    bad = (tfm_model_shape){.family = "llama", .width = 16, .heads = 4, .encoder_layers = 1};
    harness_refused(tfm_model_new(&model, harness_context(), &bad), TFM_ERROR_ARGUMENT, "after an encoder of 1");
    bad = (tfm_model_shape){.family = "gpt2",
                            .width = 16,
                            .heads = 4,
                            .kv_heads = 2,
                            .ffn_dim = 8,
                            .decoder_layers = 1,
                            .source_vocab_size = 9,
                            .max_positions = 8};
    harness_refused(tfm_model_new(&model, harness_context(), &bad), TFM_ERROR_ARGUMENT, "kv_heads is 2 of 4");
    bad.family = "llama";
    bad.width = bad.heads = 2048;
    harness_refused(tfm_model_new(&model, harness_context(), &bad), TFM_ERROR_ARGUMENT, "2048 heads exceed");
    bad = SMALL;
    bad.activation = (tfm_activation)77;
    harness_refused(tfm_model_new(&model, harness_context(), &bad), TFM_ERROR_ARGUMENT, "activation 77, init 0");
    bad = SMALL;
    bad.kv_heads = 2;
    harness_refused(tfm_model_new(&model, harness_context(), &bad), TFM_ERROR_ARGUMENT, "kv_heads is 2 of 4");
    bad = SMALL;
    bad.init = (tfm_init)3;
    harness_refused(tfm_model_new(&model, harness_context(), &bad), TFM_ERROR_ARGUMENT, "init 3");
}

static void test_trainer_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_model *model;
    tfm_trainer *trainer;
    tfm_trainer_options o = plain_options();
    tfm_model_shape bad = SMALL;
    int32_t ids[8 * 9], lengths[8];
    harness_random random = {6};
    tfm_batch batch = copy_batch(&random, ids, lengths);
    bad.heads = 5;
    assert_int_equal(tfm_model_new(&model, ctx, &bad), TFM_ERROR_ARGUMENT);
    assert_null(model);
    harness_ok(tfm_model_new(&model, ctx, &SMALL));
    o.dropout = 1;
    assert_int_equal(tfm_trainer_new(&trainer, model, &o), TFM_ERROR_ARGUMENT);
    assert_null(trainer);
    o.dropout = 0;
    const tfm_trainer_options bad_adam[] = {{.beta1 = 1},          {.beta1 = -0.1},       {.beta2 = 1.5},
                                            {.epsilon = -1},       {.epsilon = NAN},      {.weight_decay = -1},
                                            {.max_grad_norm = -1}, {.max_grad_norm = NAN}};
    for (size_t i = 0; i < sizeof(bad_adam) / sizeof(bad_adam[0]); i++)
        harness_refused(tfm_trainer_new(&trainer, model, &bad_adam[i]), TFM_ERROR_ARGUMENT, "trainer_new: beta1");
    harness_ok(tfm_trainer_new(&trainer, model, &o));
    assert_int_equal(tfm_trainer_update(trainer, NULL, &batch, 0), TFM_ERROR_ARGUMENT);
    lengths[3] = 10;
    assert_int_equal(tfm_trainer_update(trainer, NULL, &batch, 1), TFM_ERROR_ARGUMENT);
    assert_non_null(strstr(tfm_error_message(), "pair 4 has lengths 10"));
    batch.source_width = 33;
    assert_int_equal(tfm_trainer_update(trainer, NULL, &batch, 1), TFM_ERROR_ARGUMENT);
    harness_ok(tfm_context_status(ctx));
    tfm_trainer_free(&trainer);
    tfm_model_free(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients_match_pytorch),
        cmocka_unit_test(test_gradients_of_encoder_decoders_match_pytorch),
        cmocka_unit_test(test_gradients_of_decoders_match_pytorch),
        cmocka_unit_test(test_batches_of_the_wrong_kind_are_rejected),
        cmocka_unit_test(test_new_decoder_models_learn_and_are_saved),
        cmocka_unit_test(test_training_is_deterministic_by_seed),
        cmocka_unit_test(test_each_dropout_rate_has_its_own_effect),
        cmocka_unit_test(test_evaluation_changes_nothing),
        cmocka_unit_test(test_split_batch_leaves_no_error_message),
        cmocka_unit_test(test_eos_used_as_padding_is_generated),
        cmocka_unit_test(test_frozen_parameters_keep_their_values),
        cmocka_unit_test(test_freeze_accepts_names_without_prefix),
        cmocka_unit_test(test_second_trainer_continues_with_the_parameters),
        cmocka_unit_test(test_non_finite_loss_changes_nothing),
        cmocka_unit_test(test_learning_rate_schedules_match_formulas),
        cmocka_unit_test(test_trainer_rejects_bad_arguments),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
