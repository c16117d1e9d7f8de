/* GGUF files of every architecture compute what the directories of Hugging Face that they were made from compute
 * (tests/support/gguf_fixture.h), which test_families compares with transformers. */
#include <math.h>
#include "support/gguf_fixture.h"
#include "tfm/tfm.h"

#define FAMILIES "tests/golden/families/"

/* `edit`: keys that replace those of config.json, for what GGUF cannot express; NULL: none. */
static const struct gguf_case {
    const char *folder, *arch, *edit;
} CASES[] = {
    {"llama-plain-2023-f16", "llama", NULL},
    {"llama-base-narrow-f16", "llama", NULL},
    {"llama-linear-bias-bin", "llama", NULL},
    {"llama-llama3-gqa-bf16", "llama", NULL},
    {"mistral-window-f16", "llama", NULL},
    {"qwen2-windows-f16", "qwen2", NULL},
    {"qwen2-uneven-f16", "qwen2", NULL},
    {"qwen3-bias-2025-bf16", "qwen3", NULL},
    {"qwen3-wide-heads-f16", "qwen3", NULL},
    {"gemma-wide-heads-f16", "gemma", NULL},
    {"gemma-bias-bin", "gemma", NULL},
    {"gemma2-caps-f16", "gemma2", "{\"query_pre_attn_scalar\": 8}"},
    {"gemma3_text-2025-bf16", "gemma3", "{\"query_pre_attn_scalar\": 10}"},
    {"gemma3_text-linear-f16", "gemma3", NULL},
    {"phi-half-f16", "phi2", NULL},
    {"phi-head-norms-f16", "phi2", NULL},
    {"phi3-longrope-short-2024-bf16", "phi3", NULL},
    {"phi3-longrope-crossing-bin", "phi3", NULL},
    {"phi3-partial-f16", "phi3", NULL},
    {"gpt2-base-masks-f16", "gpt2", NULL},
    {"gpt2-inner-untied-bf16", "gpt2", "{\"activation_function\": \"gelu_new\"}"},
    {"gpt_neox-parallel-2022-f16", "gptneox", NULL},
    {"gpt_neox-serial-tied-bf16", "gptneox", "{\"hidden_act\": \"gelu\"}"},
    {"gptj-part-f16", "gptj", NULL},
    {"gptj-inner-bin", "gptj", "{\"activation_function\": \"gelu_new\"}"},
    {"falcon-7b-f16", "falcon", NULL},
    {"falcon-40b-bf16", "falcon", NULL},
    {"falcon-11b-bin", "falcon", "{\"activation\": \"gelu\"}"},
    {"falcon-serial-f16", "falcon", "{\"activation\": \"gelu\"}"},
    {"bloom-four-heads-f16", "bloom", NULL},
    {"bloom-three-heads-bf16", "bloom", NULL},
    {"mpt-two-heads-f16", "mpt", NULL},
    {"mpt-untied-bin", "mpt", NULL},
    {"cohere-grouped-f16", "command-r", NULL},
    {"cohere-head-norms-bf16", "command-r", NULL},
    {"cohere-biases-bin", "command-r", NULL},
    {"starcoder2-window-f16", "starcoder2", NULL},
    {"starcoder2-yarn-bin", "starcoder2", "{\"hidden_act\": \"gelu_pytorch_tanh\"}"},
    {"starcoder2-no-biases-bf16", "starcoder2", NULL},
    {"stablelm-biases-2024-bf16", "stablelm", NULL},
    {"stablelm-head-norms-f16", "stablelm", NULL},
    {"stablelm-parallel-bin", "stablelm", NULL},
    {"granite-multipliers-f16", "granite", NULL},
    {"granite-biases-bin", "granite", NULL},
    {"olmo2-biases-bf16", "olmo2", NULL},
    {"olmo2-llama3-bin", "olmo2", NULL},
    {"smollm3-nope-f16", "smollm3", "{\"no_rope_layers\": [1, 1, 1, 0], \"no_rope_layer_interval\": 4}"},
    {"bert-base-f16", "bert", NULL},
    {"roberta-base-f16", "bert", NULL},
    {"nomic_bert-base-f16", "nomic-bert", NULL},
    {"t5-v1.0-f16", "t5", NULL},
    {"t5-v1.1-bf16", "t5", "{\"scale_decoder_outputs\": true}"},
    {"t5-own-output-f16", "t5", "{\"relative_attention_max_distance\": 128}"},
    {"t5-alone-bin", "t5encoder", "{\"relative_attention_max_distance\": 128}"},
};

enum { ROWS = 2, LENGTH = 11, SMALLEST_VOCABULARY = 20 };

static void remove_case(void) {
    char **names = NULL;
    size_t count = 0;
    if (tfm__file_exists(scratch_path("hf")))
        harness_ok(tfm__dir_list(&names, &count, scratch_path("hf")));
    for (size_t i = 0; i < count; i++) {
        char to[512];
        snprintf(to, sizeof(to), "hf/%s", names[i]);
        assert_int_equal(remove(scratch_path(to)), 0);
    }
    tfm__names_free(names, count);
}

/* A copy of the case's directory in the scratch folder, with the edit. */
static void copy_case(const struct gguf_case *c) {
    remove_case(); /* of a test that failed */
    char from[256];
    char **names;
    size_t count;
    snprintf(from, sizeof(from), FAMILIES "%s", c->folder);
    char *dir = harness_source(from);
    harness_ok(tfm__dir_list(&names, &count, dir));
    harness_ok(tfm__dir_make(scratch_path("hf"), 0777));
    for (size_t i = 0; i < count; i++) {
        char to[512];
        snprintf(from, sizeof(from), FAMILIES "%s/%s", c->folder, names[i]);
        snprintf(to, sizeof(to), "hf/%s", names[i]);
        if (strncmp(names[i], "golden", 6) != 0)
            scratch_copy(from, to);
    }
    tfm__names_free(names, count);
    free(dir);
    if (!c->edit)
        return;
    json_t *config = NULL, *edit = json_loads(c->edit, 0, NULL);
    harness_ok(tfm__json_load(&config, scratch_path("hf/config.json")));
    assert_int_equal(json_object_update(config, edit), 0);
    json_decref(edit);
    harness_ok(tfm__json_write(scratch_path("hf"), "config.json", config, "test"));
}

/* Encoder output, and logits if there is a decoder, of fixed ids; for free(). */
static float *outputs(size_t *count, const char *path) {
    tfm_context *ctx = harness_context();
    tfm_model *model = NULL;
    tfm_tensor encoded = {0}, logits = {0};
    int32_t ids[ROWS * LENGTH], lengths[ROWS] = {LENGTH, LENGTH - 4};
    for (int i = 0; i < ROWS * LENGTH; i++)
        ids[i] = 3 + (7 * i + i / 5) % (SMALLEST_VOCABULARY - 3);
    harness_ok(tfm_model_open(&model, ctx, path, &(tfm_model_options){.no_tokenizer = true}));
    const tfm_model_info *info = tfm_model_get_info(model);
    tfm_scope_open(ctx);
    const tfm_tensor in = HARNESS_TENSOR(TFM_I32, ids, ROWS, LENGTH), valid = HARNESS_TENSOR(TFM_I32, lengths, ROWS);
    if (info->encoder_layers)
        harness_ok(tfm_model_encode(model, &encoded, in, valid));
    if (info->decoder_layers)
        harness_ok(tfm_model_decode(model, &logits, in, encoded, valid));
    const tfm_tensor last = info->decoder_layers ? logits : encoded;
    *count = tfm_tensor_count(last) / ROWS; /* the first row has no padding */
    float *out = harness_floats(last);
    tfm_scope_close(ctx, 0, NULL);
    tfm_model_free(&model);
    return out;
}

static double distance(const char *a, const char *b) {
    size_t count, other;
    float *x = outputs(&count, a), *y = outputs(&other, b);
    double worst = 0, largest = 0;
    assert_int_equal(count, other);
    for (size_t i = 0; i < count; i++) {
        const double off = fabs((double)x[i] - (double)y[i]);
        worst = off <= worst ? worst : off; /* NaN propagates */
        largest = fmax(largest, fabs((double)y[i]));
    }
    free(x);
    free(y);
    return worst / largest;
}

static void test_gguf_model_computes_what_its_source_computes(void **state) {
    const struct gguf_case *c = *state;
    copy_case(c);
    gguf_fixture_write(scratch_path("hf"), c->arch, "x.gguf");
    const double off = distance(scratch_path("x.gguf"), scratch_path("hf"));
    print_message("# within %.2g\n", off);
    assert_true(off <= 2e-6);
}

/* As tfm train --init-from needs it: a directory of the same model. */
static void test_gguf_model_saved_as_a_directory_computes_the_same(void **state) {
    const struct gguf_case *c = *state;
    tfm_model *model = NULL;
    copy_case(c);
    gguf_fixture_write(scratch_path("hf"), c->arch, "x.gguf");
    harness_ok(tfm_model_open(&model, harness_context(), scratch_path("x.gguf"),
                              &(tfm_model_options){.no_tokenizer = true, .precision = TFM_PRECISION_FP32}));
    const bool can_save = tfm_model_get_info(model)->can_save;
    if (can_save)
        harness_ok(tfm_model_save(model, scratch_path("saved"), TFM_F32));
    tfm_model_free(&model);
    const double off = can_save ? distance(scratch_path("saved"), scratch_path("hf")) : 0;
    print_message("# within %.2g\n", off);
    assert_true(off <= 2e-6);
}

/* tfm_model_write_gguf reverses the reading. The tokenizer is another model's: it is cut to the rows of the embedding.
 */
static void test_gguf_written_model_computes_what_its_source_computes(void **state) {
    const struct gguf_case *c = *state;
    copy_case(c);
    scratch_copy("tests/golden/tokenizers/gpt2/tokenizer.json", "hf/tokenizer.json");
    const tfm_status status = tfm_model_write_gguf(scratch_path("y.gguf"), scratch_path("hf"), "F32");
    if (strncmp(c->folder, "roberta", 7) == 0) {
        harness_refused(status, TFM_ERROR_UNSUPPORTED, "no architecture for the family roberta");
        return;
    }
    harness_ok(status);
    const double off = distance(scratch_path("y.gguf"), scratch_path("hf"));
    print_message("# within %.2g\n", off);
    assert_true(off <= 2e-6);
}

static void test_gguf_encoder_pools_as_its_metadata_say(void **state) {
    (void)state;
    const struct gguf_case bert = {"bert-base-f16", "bert", NULL};
    tfm_embedder_info info;
    tfm_model_info encoder;
    copy_case(&bert);
    gguf_fixture_write(scratch_path("hf"), "bert", "x.gguf");
    tfm_embedder_options options = {.no_tokenizer = true};
    harness_ok(tfm_embedder_read_info(&info, &encoder, scratch_path("x.gguf"), &options));
    assert_string_equal(info.pooling, "cls");
    options.has_pooling = true;
    options.pooling = TFM_POOL_MEAN;
    harness_ok(tfm_embedder_read_info(&info, &encoder, scratch_path("x.gguf"), &options));
    assert_string_equal(info.pooling, "mean");
}

/* What metadata cannot express is refused, and no file stays. */
static void test_gguf_is_not_written_for_what_it_cannot_express(void **state) {
    (void)state;
    static const struct {
        struct gguf_case source;
        const char *part;
    } REFUSED[] = {
        {{"llama-relu2-f16", "llama", NULL}, "has no metadata for its activation"},
        {{"smollm3-nope-f16", "smollm3", NULL}, "has no metadata for its types of layers"},
        {{"gemma2-caps-f16", "gemma2", NULL}, "has no metadata for its scale of attention scores"},
        {{"gpt2-inverse-layers-f32", "gpt2", "{\"activation_function\": \"gelu_new\"}"},
         "has no metadata for its scale of attention scores"},
        {{"opt-before-base-f16", "opt", NULL}, "for the family opt"},
    };
    for (size_t i = 0; i < TFM__COUNT(REFUSED); i++) {
        copy_case(&REFUSED[i].source);
        scratch_copy("tests/golden/tokenizers/gpt2/tokenizer.json", "hf/tokenizer.json");
        harness_refused(tfm_model_write_gguf(scratch_path("z.gguf"), scratch_path("hf"), "F16"), TFM_ERROR_UNSUPPORTED,
                        REFUSED[i].part);
        assert_false(tfm__file_exists(scratch_path("z.gguf")));
    }
    harness_refused(tfm_model_write_gguf(scratch_path("z.gguf"), scratch_path("hf"), "Q4_K"), TFM_ERROR_ARGUMENT,
                    "not Q4_K");
}

static int setup(void **state) {
    return harness_setup(state) == 0 ? scratch_setup(state) : -1;
}

static int teardown(void **state) {
    return scratch_teardown(state) == 0 ? harness_teardown(state) : -1;
}

int main(int argc, char **argv) {
    static struct CMUnitTest tests[3 * TFM__COUNT(CASES) + 2];
    size_t count = 0;
    for (size_t i = 0; i < 3 * TFM__COUNT(CASES); i++) {
        static const CMUnitTestFunction EACH[] = {test_gguf_model_computes_what_its_source_computes,
                                                  test_gguf_model_saved_as_a_directory_computes_the_same,
                                                  test_gguf_written_model_computes_what_its_source_computes};
        const struct gguf_case *c = &CASES[i / 3];
        if (argc < 2 || strstr(c->folder, argv[1]))
            tests[count++] =
                (struct CMUnitTest){.name = c->folder, .test_func = EACH[i % 3], .initial_state = (void *)(uintptr_t)c};
    }
    tests[count++] = (struct CMUnitTest){.name = "test_gguf_encoder_pools_as_its_metadata_say",
                                         .test_func = test_gguf_encoder_pools_as_its_metadata_say};
    tests[count++] = (struct CMUnitTest){.name = "test_gguf_is_not_written_for_what_it_cannot_express",
                                         .test_func = test_gguf_is_not_written_for_what_it_cannot_express};
    return _cmocka_run_group_tests("gguf_models", tests, count, setup, teardown);
}
