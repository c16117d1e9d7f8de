/* The text part of multimodal models: configurations and files. test_families.c compares the results. */
#include <unistd.h>
#include "base/json.h"
#include "support/decoder_models.h"

#define GOLDEN "tests/golden/families/gemma3-linear-f16"

static void test_text_config_of_multimodal_model_is_read(void **state) {
    (void)state;
    said *c = malloc(sizeof(*c));
    /* As google/gemma-3-4b-it: without the class defaults. */
    harness_ok(load(c,
                    "{\"architectures\": [\"Gemma3ForConditionalGeneration\"], \"eos_token_id\": [1, 106], "
                    "\"image_token_index\": 262144, \"model_type\": \"gemma3\", \"text_config\": {\"hidden_size\": "
                    "2560, \"intermediate_size\": 10240, \"model_type\": \"gemma3_text\", \"num_hidden_layers\": 34, "
                    "\"rope_scaling\": {\"factor\": 8.0, \"rope_type\": \"linear\"}, \"sliding_window\": 1024}, "
                    "\"vision_config\": {\"hidden_size\": 1152}}"));
    const tfm__stack_arch *s = &c->arch.decoder;
    assert_string_equal(c->family->name, "gemma3_text");
    assert_non_null(c->arch.multimodal);
    assert_true(s->width == 2560 && s->feed_forward == 10240 && s->layers == 34 && s->heads == 8 && s->kv_heads == 4 &&
                s->head_width == 256 && s->vocabulary == 262208 && s->window == 1024);
    assert_true(s->rotary.config.positions == 131072 && s->rotary.config.type == TFM__ROPE_LINEAR &&
                s->rotary.config.factor == 8 && s->rotary.config.theta == 1e6 &&
                s->local_rotary.config.type == TFM__ROPE_DEFAULT && s->local_rotary.config.theta == 1e4);
    assert_true(s->layer[4] == TFM__LOCAL_LAYER && s->layer[5] == 0 && s->score_scale == 1 / 16.0f);
    assert_true(c->arch.tied_embeddings && !c->arch.headless && c->rules.eos_id_count == 2 &&
                c->rules.eos_ids[1] == 106);
    /* As Qwen/Qwen2-VL-7B-Instruct: the text's keys next to the others. */
    harness_ok(
        load(c, "{\"architectures\": [\"Qwen2VLForConditionalGeneration\"], \"eos_token_id\": 151645, \"hidden_size\": "
                "3584, \"intermediate_size\": 18944, \"max_window_layers\": 28, \"model_type\": \"qwen2_vl\", "
                "\"num_attention_heads\": 28, \"num_hidden_layers\": 28, \"num_key_value_heads\": 4, "
                "\"rms_norm_eps\": 1e-06, \"sliding_window\": 32768, \"use_sliding_window\": false, "
                "\"vision_config\": {\"hidden_size\": 3584}, \"rope_scaling\": {\"type\": \"mrope\", "
                "\"mrope_section\": [16, 24, 24]}}"));
    assert_string_equal(c->family->name, "qwen2");
    assert_true(s->width == 3584 && s->layers == 28 && s->heads == 28 && s->kv_heads == 4 && s->head_width == 128 &&
                s->epsilon == 1e-6f && s->vocabulary == 152064 && s->window == 0 && s->input_biases &&
                !s->output_biases);
    assert_true(s->rotary.config.type == TFM__ROPE_DEFAULT && s->rotary.config.theta == 1e6 && s->rotary.width == 128 &&
                !c->arch.tied_embeddings && c->rules.eos_id == 151645);
    harness_ok(load(c, "{\"model_type\": \"qwen2_5_vl\", \"text_config\": {\"rope_parameters\": {\"rope_type\": "
                       "\"mrope\", \"rope_theta\": 70.0}}}"));
    assert_true(s->width == 8192 && s->feed_forward == 29568 && s->layers == 80 && s->heads == 64 && s->kv_heads == 8 &&
                s->max_positions == 32768 && s->epsilon == 1e-5f && s->rotary.config.theta == 70);
    /* The logit cap is read, but transformers does not apply it; without `text_config` the class defaults apply. */
    harness_ok(load(c, "{\"model_type\": \"gemma3\", \"text_config\": {\"final_logit_softcapping\": 30.0, "
                       "\"model_type\": \"another\"}}"));
    assert_true(c->arch.logit_cap == 0);
    harness_ok(load(c, "{\"model_type\": \"mistral3\"}"));
    assert_true(s->width == 5120 && s->feed_forward == 32768 && s->layers == 40 && s->heads == 32 && s->kv_heads == 8 &&
                s->head_width == 128 && s->vocabulary == 131072 && s->max_positions == 131072 && s->window == 0 &&
                s->rotary.config.theta == 1e9 && s->epsilon == 1e-5f && c->arch.tied_embeddings);
    harness_ok(load(c, "{\"architectures\": [\"LlavaForConditionalGeneration\"]}"));
    assert_true(s->width == 4096 && s->layers == 32 && !c->arch.tied_embeddings);
    assert_string_equal(c->family->name, "llama");
    free(c);
}

/* The source of tie_word_embeddings. */
static void test_tied_output_of_multimodal_config_is_resolved(void **state) {
    (void)state;
    said *c = malloc(sizeof(*c));
    static const struct {
        const char *config;
        bool tied;
    } TIES[] = {
        {"\"gemma3\", \"text_config\": {\"tie_word_embeddings\": false}", true},
        {"\"gemma3\", \"tie_word_embeddings\": false, \"text_config\": {\"tie_word_embeddings\": true}", false},
        {"\"gemma3\", \"tie_word_embeddings\": null, \"text_config\": {}", false},
        {"\"mistral3\", \"text_config\": {}", true},
        {"\"llava\", \"text_config\": {\"tie_word_embeddings\": true}", true},
        {"\"llava\", \"tie_word_embeddings\": false, \"text_config\": {\"tie_word_embeddings\": true}", true},
        {"\"llava\", \"tie_word_embeddings\": true, \"text_config\": {\"tie_word_embeddings\": false}", true},
        {"\"llava\", \"text_config\": {\"model_type\": \"qwen2\"}", false},
        {"\"qwen2_vl\", \"tie_word_embeddings\": true", true},
        {"\"qwen2_vl\"", false},
        {"\"qwen2_5_vl\", \"text_config\": {\"tie_word_embeddings\": true}", true},
    };
    for (size_t i = 0; i < TFM__COUNT(TIES); i++) {
        char config[200];
        snprintf(config, sizeof(config), "{\"model_type\": %s}", TIES[i].config);
        harness_ok(load(c, config));
        if (c->arch.tied_embeddings != TIES[i].tied)
            fail_msg("%s: tied is %d", config, c->arch.tied_embeddings);
    }
    free(c);
}

/* A Mistral text part does not become another family by a list of layer types. */
static void test_mistral_text_config_ignores_layer_types(void **state) {
    (void)state;
    said *c = malloc(sizeof(*c));
    harness_ok(load(c,
                    "{\"model_type\": \"mistral3\", \"text_config\": {\"num_hidden_layers\": 2, \"sliding_window\": 4, "
                    "\"layer_types\": [\"full_attention\", \"sliding_attention\"]}}"));
    assert_int_equal(c->arch.decoder.window, 4);
    assert_true(c->arch.decoder.layer[0] == TFM__LOCAL_LAYER && c->arch.decoder.layer[1] == TFM__LOCAL_LAYER);
    free(c);
}

static void test_invalid_text_config_is_rejected(void **state) {
    (void)state;
    static const struct {
        const char *config, *part;
        tfm_status status;
    } CASES[] = {
        {"{\"model_type\": \"gemma3\", \"text_config\": \"gemma3_text\"}", "`text_config` is \"gemma3_text\"",
         TFM_ERROR_FORMAT},
        {"{\"model_type\": \"mistral3\", \"text_config\": {\"model_type\": \"ministral3\"}}",
         "`model_type` within `text_config` is \"ministral3\"", TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"llava\", \"text_config\": {\"model_type\": \"gpt2\"}}",
         "is supported with text models of \"llama\", \"mistral\", \"qwen2\"", TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"llava\", \"text_config\": {\"model_type\": 7}}", "within `text_config` is 7",
         TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"gemma3\", \"architectures\": [\"Gemma3ForSequenceClassification\"]}",
         "`architectures` has \"Gemma3ForSequenceClassification\"", TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"llava\", \"architectures\": [\"LlavaLlamaForCausalLM\"], \"hidden_size\": 24}",
         "has LlavaLlamaForCausalLM; of the `model_type` \"llava\" only LlavaForConditionalGeneration",
         TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": 7, \"architectures\": [\"LlavaForConditionalGeneration\"]}", "`model_type` is 7",
         TFM_ERROR_FORMAT},
        {"{\"model_type\": \"gemma3\", \"quantization_config\": {\"quant_method\": \"eetq\"}}",
         "the weights are quantized (\"eetq\")", TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"gemma3\", \"text_config\": {\"use_bidirectional_attention\": true}}",
         "`use_bidirectional_attention` is true", TFM_ERROR_UNSUPPORTED},
        {"{\"model_type\": \"gemma3\", \"text_config\": {\"hidden_size\": \"x\"}}", "`hidden_size` is \"x\"",
         TFM_ERROR_FORMAT},
    };
    said *c = malloc(sizeof(*c));
    for (size_t i = 0; i < TFM__COUNT(CASES); i++)
        scratch_refused(load(c, CASES[i].config), CASES[i].status, CASES[i].part);
    free(c);
}

/* ---- Files ---------------------------------------------------------------------------------------------------- */

static int lines;
static char line[512];

static void keep_line(void *user, tfm_log_level level, const char *message) {
    (void)user;
    (void)level;
    lines++;
    snprintf(line, sizeof(line), "%s", message);
}

static tfm_status open_dir(tfm_model **out, const char *dir) {
    return tfm_model_open(out, harness_context(), dir, &(tfm_model_options){.no_tokenizer = true});
}

/* One line at opening reports the ignored parts, and `tfm info` mentions them. */
static void test_vision_part_left_out_is_logged_once(void **state) {
    (void)state;
    char *dir = harness_source(GOLDEN);
    tfm_model *model;
    tfm_model_info info;
    for (int i = 0; i < 2; i++) {
        lines = 0;
        tfm_log_set(keep_line, NULL, TFM_LOG_WARNING);
        if (i)
            harness_ok(tfm_model_read_info(&info, dir, &(tfm_model_options){.no_tokenizer = true}));
        else
            harness_ok(open_dir(&model, dir));
        tfm_log_set(NULL, NULL, TFM_LOG_WARNING);
        assert_int_equal(lines, 1);
        assert_non_null(strstr(line, "34 tensors of the vision tower are ignored"));
    }
    assert_string_equal(info.multimodal_class, "Gemma3ForConditionalGeneration");
    assert_string_equal(info.family, "gemma3_text");
    assert_int_equal(info.parameters, tfm_model_get_info(model)->parameters);
    tfm_model_free(&model);
    free(dir);
}

/* The saved model is text-only, with bit-identical logits. */
static void test_saved_multimodal_model_is_text_only_and_equal(void **state) {
    (void)state;
    char *dir = harness_source(GOLDEN);
    tfm_model *model, *again;
    harness_ok(open_dir(&model, dir));
    harness_ok(tfm_model_save(model, scratch_path("saved"), TFM_F32));
    harness_ok(open_dir(&again, scratch_path("saved")));
    assert_null(tfm_model_get_info(again)->multimodal_class);
    float *want = decoder_logits(model, 2, 9), *got = decoder_logits(again, 2, 9);
    assert_memory_equal(got, want, sizeof(*got) * 2 * 9 * 66);
    assert_true(again->rules.eos_id == model->rules.eos_id && again->rules.start_id == model->rules.start_id);
    free(want);
    free(got);
    tfm_model_free(&again);
    tfm_model_free(&model);
    free(dir);
}

/* Quantization keeps the vision tower unchanged. */
static void test_quantize_keeps_vision_tensors(void **state) {
    (void)state;
    char *dir = harness_source(GOLDEN);
    tfm__weights *before, *after;
    tfm_model *model;
    size_t shrunk = 0;
    harness_ok(tfm_model_quantize(scratch_path("small"), dir, TFM_I8));
    harness_ok(tfm__weights_open_dir(&before, dir));
    harness_ok(tfm__weights_open_dir(&after, scratch_path("small")));
    for (size_t i = 0; i < tfm__weights_count(before); i++) {
        const tfm__stored_tensor *x = tfm__weights_at(before, i), *y = tfm__weights_find(after, x->name);
        assert_non_null(y);
        const bool is_text = strncmp(x->name, "language_model.", 15) == 0;
        shrunk += y->dtype == TFM_I8;
        assert_true(is_text || (y->bytes == x->bytes && memcmp(y->data, x->data, x->bytes) == 0));
    }
    assert_int_equal(shrunk, 4 * 7 + 1);
    harness_ok(open_dir(&model, scratch_path("small")));
    tfm_model_free(&model);
    tfm__weights_free(&before);
    tfm__weights_free(&after);
    free(dir);
}

/* Copies the configuration of a golden, with one key of its text changed, and its weights into the scratch folder. */
static void put_changed(const char *golden, const char *weights, const char *key, json_t *value) {
    char from[4200], *dir = harness_source(golden);
    json_t *config;
    snprintf(from, sizeof(from), "%s/config.json", dir);
    harness_ok(tfm__json_load(&config, from));
    json_t *text = json_object_get(config, "text_config");
    json_object_set_new(text, key, value);
    json_array_remove(json_object_get(text, "layer_types"), 3);
    harness_ok(tfm__json_write(scratch_root, "config.json", config, "test"));
    snprintf(from, sizeof(from), "%s/%s", dir, weights);
    assert_int_equal(symlink(from, scratch_path(weights)), 0);
    free(dir);
}

/* A text layer that the configuration lacks is rejected, and so is a single tensor of it. */
static void test_tensors_of_unknown_text_layers_are_rejected(void **state) {
    (void)state;
    tfm_model *model;
    put_changed(GOLDEN, "model.safetensors", "num_hidden_layers", json_integer(3));
    scratch_refused(open_dir(&model, scratch_root), TFM_ERROR_FORMAT,
                    "language_model.model.layers.3.input_layernorm.weight is not part of the model");
    assert_int_equal(remove(scratch_path("model.safetensors")), 0);
    put_changed("tests/golden/families/gemma3-untied-capped-bin", "pytorch_model.bin", "attention_bias", json_false());
    scratch_refused(open_dir(&model, scratch_root), TFM_ERROR_FORMAT,
                    "language_model.model.layers.0.self_attn.k_proj.bias is not part of the model");
}

static int setup(void **state) {
    return harness_setup(state) || scratch_setup(state);
}

static int teardown(void **state) {
    return scratch_teardown(state) || harness_teardown(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_config_of_multimodal_model_is_read),
        cmocka_unit_test(test_tied_output_of_multimodal_config_is_resolved),
        cmocka_unit_test(test_mistral_text_config_ignores_layer_types),
        cmocka_unit_test(test_invalid_text_config_is_rejected),
        cmocka_unit_test(test_vision_part_left_out_is_logged_once),
        cmocka_unit_test(test_saved_multimodal_model_is_text_only_and_equal),
        cmocka_unit_test(test_quantize_keeps_vision_tensors),
        cmocka_unit_test(test_tensors_of_unknown_text_layers_are_rejected),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
