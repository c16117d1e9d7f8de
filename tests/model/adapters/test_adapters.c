/* Adapters: the weights of an opened model are those of a base model whose files were changed in double precision. */
#include <math.h>
#include "model/core/model.h"
#include "support/adapter_files.h"
#include "support/gguf_fixture.h"

#define FAMILIES "tests/golden/families/"

/* ---- Comparison --------------------------------------------------------------------------------------- */

typedef struct numbers {
    float *values;
    size_t count;
} numbers;

static tfm_status collect(void *user, const tfm__parameter *p) {
    numbers *n = user;
    const size_t count = tfm_tensor_count(p->param->value);
    float *more = realloc(n->values, (n->count + count) * sizeof(*more)), *own = harness_floats(p->param->value);
    assert_non_null(more);
    memcpy(more + n->count, own, count * sizeof(*own));
    n->values = more;
    n->count += count;
    free(own);
    return TFM_OK;
}

static numbers parameters(const char *path, const tfm_adapter *adapters, size_t count) {
    numbers n = {0};
    tfm_model *model;
    harness_ok(tfm_model_open(
        &model, harness_context(), path,
        &(tfm_model_options){
            .no_tokenizer = true, .precision = TFM_PRECISION_FP32, .adapters = adapters, .adapter_count = count}));
    harness_ok(tfm__params_visit(model->family, &model->arch, model, collect, &n));
    tfm_model_free(&model);
    return n;
}

static void check_equal(const char *what, const char *path, const tfm_adapter *adapters, size_t count,
                        const char *want) {
    numbers x = parameters(path, adapters, count), y = parameters(want, NULL, 0);
    assert_int_equal(x.count, y.count);
    for (size_t i = 0; i < x.count; i++)
        if (!(fabsf(x.values[i] - y.values[i]) <= 2e-6f * fmaxf(1, fabsf(y.values[i]))))
            fail_msg("%s: parameter %zu is %g instead of %g", what, i, (double)x.values[i], (double)y.values[i]);
    free(x.values);
    free(y.values);
}

static void path_of(char path[4400], const char *name) {
    snprintf(path, 4400, "%s/%s", scratch_root, name);
}

static void test_adapted_weights_are_those_of_a_base_changed_in_double(void **state) {
    (void)state;
    static const struct {
        const char *folder, *gguf; /* GGUF architecture, or NULL */
    } CASES[] = {
        {"llama-llama3-gqa-bf16", "llama"}, /* query and key rows of the GGUF file are interleaved */
        {"qwen3-wide-heads-f16", "qwen3"},
        {"gemma3_text-linear-f16", "gemma3"},
        {"gemma3-linear-f16", NULL},               /* multimodal */
        {"phi3-partial-f16", "phi3"},              /* fused QKV, and gate and up */
        {"gpt2-inverse-layers-f32", NULL},         /* transposed */
        {"gpt_neox-parallel-2022-f16", "gptneox"}, /* QKV by head */
        {"falcon-40b-bf16", NULL},                 /* QKV by group */
        {"gptj-part-f16", NULL},
        {"opt-before-base-f16", NULL},
        {"t5-v1.0-f16", "t5"},
        {"t5-untied-relu-f32", NULL},
        {"bart-untied-f32", NULL},
        {"bert-base-f16", "bert"},
        {"distilbert-base-f16", NULL},
        {"modernbert-classifier-cls-f32", NULL},
    };
    char first[4400], second[4400], once[4400], twice[4400], gguf[4400], folder[256];
    path_of(first, "first"), path_of(second, "second"), path_of(once, "once"), path_of(twice, "twice");
    path_of(gguf, "base.gguf");
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        snprintf(folder, sizeof(folder), FAMILIES "%s", CASES[i].folder);
        char *dir = harness_source(folder);
        make(dir, "first", "once", 1, false);
        make(once, "second", "twice", -0.5, true);
        const tfm_adapter both[] = {{first, 0}, {second, -0.5}};
        check_equal(CASES[i].folder, dir, both, 2, twice);
        if (CASES[i].gguf) {
            gguf_fixture_write(dir, CASES[i].gguf, "base.gguf");
            check_equal(CASES[i].gguf, gguf, both, 2, twice);
        }
        free(dir);
    }
}

/* ---- Refusals ----------------------------------------------------------------------------------------- */

typedef struct tensor_case {
    const char *name;
    int64_t rows, columns; /* rows 0: a vector */
} tensor_case;

/* An adapter with zeros and this configuration. */
static void write_adapter(const char *config, const tensor_case *tensors, size_t count) {
    files f = {.adapter = {.header = json_object()}, .ranks = json_object(), .alphas = json_object()};
    const float zeros[1024] = {0};
    char path[4400];
    for (size_t i = 0; i < count && tensors[i].name; i++)
        tensors_add(&f.adapter, tensors[i].name, zeros, tensors[i].rows, tensors[i].columns, false);
    finish_adapter(&f, "bad");
    path_of(path, "bad");
    if (config)
        tensors_put(path, "adapter_config.json", config, strlen(config));
}

static tfm_status open_with(const char *dir, double scale) {
    tfm_model *model = NULL;
    tfm_model_info info;
    char path[4400], sentence[512];
    path_of(path, "bad");
    const tfm_adapter adapter = {path, scale};
    const tfm_model_options options = {.no_tokenizer = true, .adapters = &adapter, .adapter_count = 1};
    char *base = harness_source(dir);
    const tfm_status status = tfm_model_open(&model, harness_context(), base, &options);
    snprintf(sentence, sizeof(sentence), "%s", status == TFM_OK ? "" : tfm_error_message());
    tfm_model_free(&model);
    const tfm_status again = tfm_model_read_info(&info, base, &options); /* the same error without a device */
    free(base);
    assert_true(status == again && (status == TFM_OK || strcmp(sentence, tfm_error_message()) == 0));
    return status;
}

#define LLAMA "tests/golden/gradients-llama"
#define LORA(more) "{\"peft_type\": \"LORA\", \"r\": 2" more "}"
#define DOWN "base_model.model.model.layers.0.mlp.down_proj"
#define GOOD                                                                                                           \
    {                                                                                                                  \
        {DOWN ".lora_A.weight", 2, 20}, {                                                                              \
            DOWN ".lora_B.weight", 16, 2                                                                               \
        }                                                                                                              \
    }

static void test_unsupported_adapter_config_is_refused_by_name(void **state) {
    (void)state;
    static const tensor_case good[] = GOOD;
    static const struct {
        const char *config;
        tfm_status status;
        const char *part;
    } CASES[] = {
        {LORA(""), TFM_OK, ""},
        {LORA(", \"use_dora\": false, \"layer_replication\": null, \"target_parameters\": []"), TFM_OK, ""},
        {LORA(", \"use_dora\": true"), TFM_ERROR_UNSUPPORTED, "`use_dora` is true, which is not supported"},
        {LORA(", \"layer_replication\": [[0, 4]]"), TFM_ERROR_UNSUPPORTED, "`layer_replication` is"},
        {LORA(", \"lora_bias\": true"), TFM_ERROR_UNSUPPORTED, "`lora_bias` is true"},
        {LORA(", \"trainable_token_indices\": [1]"), TFM_ERROR_UNSUPPORTED, "`trainable_token_indices` is"},
        {LORA(", \"init_lora_weights\": \"pissa_niter_4\""), TFM_ERROR_UNSUPPORTED, "\"pissa_niter_4\", which"},
        {LORA(", \"init_lora_weights\": \"gaussian\""), TFM_OK, ""},
        {"{\"peft_type\": \"IA3\"}", TFM_ERROR_UNSUPPORTED, "`peft_type` is \"IA3\", and only \"LORA\""},
        {"{}", TFM_ERROR_UNSUPPORTED, "`peft_type` is missing"},
        {"[]", TFM_ERROR_FORMAT, "adapter_config.json"},
        {"{\"peft_type\": \"LORA\", \"r\": 0}", TFM_ERROR_FORMAT, "`r` is 0; an integer from 1 to 65536"},
        {"{\"peft_type\": \"LORA\", \"r\": 2.5}", TFM_ERROR_FORMAT, "`r` is 2.5; an integer"},
        {"{\"peft_type\": \"LORA\", \"r\": 4}", TFM_ERROR_FORMAT, "has rank 2, but"},
        {LORA(", \"lora_alpha\": \"16\""), TFM_ERROR_FORMAT, "`lora_alpha` is \"16\"; a number is needed"},
        {LORA(", \"use_rslora\": 1"), TFM_ERROR_FORMAT, "`use_rslora` is 1; true or false"},
        {LORA(", \"rank_pattern\": []"), TFM_ERROR_FORMAT, "`rank_pattern` must be an object"},
        {LORA(", \"rank_pattern\": {\"down_proj\": -1}"), TFM_ERROR_FORMAT, "`rank_pattern` is -1"},
        {LORA(", \"rank_pattern\": {\"down_proj\": 3}"), TFM_ERROR_FORMAT, "has rank 2, but"},
        {LORA(", \"rank_pattern\": {\"own_proj\": 3, \"layers.1.*\": 5}"), TFM_OK, ""},
        {LORA(", \"alpha_pattern\": {\"(down\": 3}"), TFM_ERROR_FORMAT, "the pattern (down"},
    };
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        write_adapter(CASES[i].config, good, TFM__COUNT(good));
        const tfm_status status = open_with(LLAMA, 1);
        if (CASES[i].status == TFM_OK)
            harness_ok(status);
        else
            scratch_refused(status, CASES[i].status, CASES[i].part);
    }
    write_adapter(NULL, good, TFM__COUNT(good));
    scratch_refused(open_with(LLAMA, (double)NAN), TFM_ERROR_ARGUMENT, "adapters[0]: its scale is not a number");
}

static void test_wrong_adapter_tensors_are_refused_by_name(void **state) {
    (void)state;
    static const struct {
        tensor_case tensors[2];
        tfm_status status;
        const char *part, *base;
    } CASES[] = {
        {GOOD, TFM_OK, "", LLAMA},
        {{{DOWN ".lora_A.weight", 2, 20}}, TFM_ERROR_FORMAT, "but no " DOWN ".lora_B.weight", LLAMA},
        {{{DOWN ".lora_B.weight", 16, 2}}, TFM_ERROR_FORMAT, "but no " DOWN ".lora_A.weight", LLAMA},
        {{{DOWN ".lora_A.weight", 2, 20}, {DOWN ".lora_B.weight", 16, 3}}, TFM_ERROR_FORMAT, "do not fit", LLAMA},
        {{{DOWN ".lora_A.weight", 0, 20}, {DOWN ".lora_B.weight", 16, 2}}, TFM_ERROR_FORMAT, "do not fit", LLAMA},
        {{{DOWN ".lora_A.weight", 2, 16}, {DOWN ".lora_B.weight", 16, 2}},
         TFM_ERROR_FORMAT,
         "which has 16 outputs and 20 inputs: use the adapter's base model, org/base",
         LLAMA},
        {{{"base_model.model.model.layers.9.mlp.down_proj.lora_A.weight", 2, 20},
          {"base_model.model.model.layers.9.mlp.down_proj.lora_B.weight", 16, 2}},
         TFM_ERROR_FORMAT,
         "changes model.layers.9.mlp.down_proj.weight, which the base model does not have",
         LLAMA},
        {{{"model.layers.0.mlp.down_proj.lora_A.weight", 2, 20}}, TFM_ERROR_UNSUPPORTED, "is not supported", LLAMA},
        {{{DOWN ".lora_magnitude_vector", 0, 16}}, TFM_ERROR_UNSUPPORTED, "lora_magnitude_vector is not", LLAMA},
        {{{"base_model.model.model.norm.weight", 0, 16}}, TFM_OK, "", LLAMA},
        {{{"base_model.model.model.norm.weight", 0, 15}}, TFM_ERROR_FORMAT, "which has 16 values", LLAMA},
        {{{"base_model.model.model.norm.weight", 4, 4}}, TFM_ERROR_FORMAT, "which has 16 values", LLAMA},
        {{{"base_model.model.lm_head.modules_to_save.weight", 24, 16}}, TFM_ERROR_FORMAT, "23 outputs", LLAMA},
        {{{"base_model.model.model.embed_tokens.lora_embedding_A", 2, 23},
          {"base_model.model.model.embed_tokens.lora_embedding_B", 16, 2}},
         TFM_OK,
         "",
         LLAMA},
        {{{"base_model.model.model.embed_tokens.lora_embedding_A", 2, 23},
          {"base_model.model.model.embed_tokens.lora_embedding_B", 16, 2}},
         TFM_ERROR_UNSUPPORTED,
         "uses in several places",
         "tests/golden/gradients-qwen3"},
        {{{"base_model.model.lm_head.weight", 23, 16}},
         TFM_ERROR_UNSUPPORTED,
         "uses in several places",
         "tests/golden/gradients-qwen3"},
    };
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        write_adapter(NULL, CASES[i].tensors, TFM__COUNT(CASES[i].tensors));
        const tfm_status status = open_with(CASES[i].base, 1);
        if (CASES[i].status == TFM_OK)
            harness_ok(status);
        else
            scratch_refused(status, CASES[i].status, CASES[i].part);
    }
}

/* Both factors of a table: row v of A^T times B^T. */
static void test_embedding_adapter_changes_an_untied_table(void **state) {
    (void)state;
    enum { V = 23, E = 16 };
    files f = {.adapter = {.header = json_object()}, .ranks = json_object(), .alphas = json_object(), .random = {3}};
    float *a = random_values(&f, RANK * V), *b = random_values(&f, E * RANK);
    char path[4400];
    tensors_add(&f.adapter, "base_model.model.model.embed_tokens.lora_embedding_A.default", a, RANK, V, false);
    tensors_add(&f.adapter, "base_model.model.model.embed_tokens.lora_embedding_B.default", b, E, RANK, false);
    finish_adapter(&f, "bad");
    path_of(path, "bad");
    char *base = harness_source(LLAMA);
    const tfm_adapter adapter = {path, 0.25};
    numbers x = parameters(base, NULL, 0), y = parameters(base, &adapter, 1); /* the table is the first parameter */
    assert_int_equal(x.count, y.count);
    for (size_t i = 0; i < x.count; i++) {
        const size_t v = i / E, e = i % E;
        double want = (double)x.values[i];
        for (size_t r = 0; r < RANK && v < V; r++)
            want += 0.25 * 4 / RANK * (double)a[r * V + v] * (double)b[e * RANK + r];
        assert_true(fabs((double)y.values[i] - want) <= 1e-6);
    }
    free(x.values);
    free(y.values);
    free(a);
    free(b);
    free(base);
}

/* Models of one directory share equal parameters only. */
static void test_adapted_and_plain_models_are_open_at_the_same_time(void **state) {
    (void)state;
    char *base = harness_source(LLAMA);
    char first[4400];
    make(base, "first", "once", 1, false);
    path_of(first, "first");
    const tfm_adapter adapters[] = {{first, 0}, {first, 2}};
    tfm_model *models[3];
    float *logits[3];
    for (int i = 0; i < 3; i++)
        harness_ok(tfm_model_open(&models[i], harness_context(), base,
                                  &(tfm_model_options){.no_tokenizer = true,
                                                       .adapters = i ? &adapters[i - 1] : NULL,
                                                       .adapter_count = i > 0}));
    const int32_t ids[] = {3, 9, 4};
    for (int i = 0; i < 3; i++) {
        tfm_tensor out = {0};
        harness_ok(
            tfm_model_decode(models[i], &out, HARNESS_TENSOR(TFM_I32, ids, 1, 3), (tfm_tensor){0}, (tfm_tensor){0}));
        logits[i] = harness_floats(out);
        tfm_tensor_free(harness_context(), &out);
    }
    for (int i = 0; i < 3; i++)
        assert_true(fabsf(logits[i][0] - logits[(i + 1) % 3][0]) > 1e-4f);
    for (int i = 0; i < 3; i++) {
        tfm_model_free(&models[i]);
        free(logits[i]);
    }
    free(base);
}

static int setup(void **state) {
    return harness_setup(state) || scratch_setup(state);
}

static int teardown(void **state) {
    return scratch_teardown(state) || harness_teardown(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adapted_weights_are_those_of_a_base_changed_in_double),
        cmocka_unit_test(test_unsupported_adapter_config_is_refused_by_name),
        cmocka_unit_test(test_wrong_adapter_tensors_are_refused_by_name),
        cmocka_unit_test(test_embedding_adapter_changes_an_untied_table),
        cmocka_unit_test(test_adapted_and_plain_models_are_open_at_the_same_time),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
