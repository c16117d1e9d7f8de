/* tfm_model_quantize_int4: the directory opens as its rounded weights, calibration brings it nearer to the model, and
 * models that are quantized already are refused. */
#include "support/packed_builder.h"

enum { TEXT = 4000 };

/* A model with random weights, and a tokenizer of letters. */
static void write_plain(void) {
    static float values[PACKED_MAX * PACKED_MAX];
    harness_random random = {79};
    packed_file plain = {0};
    char text[2048], *to = text;
    make_dirs();
    add_rest(&plain);
    for (size_t i = 0; i < TFM__COUNT(MATRICES); i++) {
        const int64_t n = i == 4 || i == 5 ? INNER : WIDTH, k = i == 6 ? INNER : WIDTH;
        char name[160];
        harness_fill(&random, values, (size_t)(n * k), 0.2f);
        snprintf(name, sizeof(name), "model.layers.0.%s.weight", MATRICES[i]);
        add_floats(&plain, name, values, 2, n, k);
    }
    packed_write(&plain, "plain/model.safetensors");
    write_config("plain/config.json", NULL);
    for (char letter = 'a'; letter <= 'z'; letter++)
        to += sprintf(to, "\"%c\": %d, ", letter, letter - 'a' + 3);
    char all[4096];
    snprintf(all, sizeof(all),
             "{\"version\": \"1.0\", \"added_tokens\": [], \"normalizer\": null, \"pre_tokenizer\": {\"type\": "
             "\"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": true}, "
             "\"post_processor\": null, \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
             "\"trim_offsets\": true, \"use_regex\": true}, \"model\": {\"type\": \"BPE\", \"dropout\": null, "
             "\"unk_token\": null, \"continuing_subword_prefix\": null, \"end_of_word_suffix\": null, \"fuse_unk\": "
             "false, \"byte_fallback\": false, \"vocab\": {%s\"\\u0120\": 29}, \"merges\": []}}",
             text);
    scratch_text("plain/tokenizer.json", all);
}

static const char *calibration_text(void) {
    static char text[TEXT + 1];
    harness_random random = {80};
    for (int i = 0; i < TEXT; i++)
        text[i] = harness_range(&random, 0, 5) ? (char)('a' + harness_range(&random, 0, 25)) : ' ';
    return text;
}

static void quantized(const char *name, const tfm_int4_options *options) {
    char out[4200];
    snprintf(out, sizeof(out), "%s/%s", scratch_root, name);
    harness_ok(tfm_model_quantize_int4(out, scratch_path("plain"), options));
}

static double distance_to_plain(const char *name) {
    float *a = logits_of(name, TFM_PRECISION_AUTO, TFM_PRECISION_FP32),
          *b = logits_of("plain", TFM_PRECISION_FP32, TFM_PRECISION_FP32);
    const double distance = distance_of(a, b);
    free(a);
    free(b);
    return distance;
}

static void test_int4_directory_opens_as_its_rounded_weights(void **state) {
    (void)state;
    tfm_model_info info;
    char *config;
    write_plain();
    quantized("rounded", &(tfm_int4_options){.group = 128});
    harness_ok(tfm_model_read_info(&info, scratch_path("rounded"), NULL));
    assert_string_equal(info.stored_dtype, "compressed-tensors int4");
    harness_ok(tfm__file_read(&config, NULL, scratch_path("rounded/config.json")));
    assert_non_null(strstr(config, "\"group_size\": 32")); /* 96 inputs */
    free(config);
    const double distance = distance_to_plain("rounded");
    if (!(distance > 1e-3 && distance < 0.5))
        print_error("distance %g\n", distance);
    assert_true(distance > 1e-3 && distance < 0.5);
    harness_ok(tfm_model_quantize(scratch_path("halves"), scratch_path("rounded"), TFM_F16));
    harness_ok(tfm__file_read(&config, NULL, scratch_path("halves/config.json")));
    assert_null(strstr(config, "quantization_config"));
    free(config);
    float *a = logits_of("rounded", TFM_PRECISION_FP32, TFM_PRECISION_FP32),
          *b = logits_of("halves", TFM_PRECISION_FP32, TFM_PRECISION_FP32);
    assert_true(distance_of(b, a) < 2e-3);
    free(a);
    free(b);
}

static void test_calibration_brings_int4_nearer_to_the_model(void **state) {
    (void)state;
    write_plain();
    quantized("rounded", NULL);
    quantized("calibrated",
              &(tfm_int4_options){.text = calibration_text(), .text_bytes = TEXT, .ctx = harness_context()});
    const double rounded = distance_to_plain("rounded"), calibrated = distance_to_plain("calibrated");
    if (!(calibrated < rounded))
        print_error("calibrated %g, rounded to nearest %g\n", calibrated, rounded);
    assert_true(calibrated < 0.9 * rounded && calibrated > 1e-4);
    assert_true(distance_to_plain("plain") == 0); /* the calibration changed no weight of another model */
}

static void refused(const char *from, const tfm_int4_options *options, tfm_status status, const char *part) {
    scratch_refused(tfm_model_quantize_int4(scratch_path("other"), scratch_path(from), options), status, part);
}

static void test_int4_refusals(void **state) {
    (void)state;
    write_plain();
    quantized("rounded", NULL);
    refused("plain", &(tfm_int4_options){.group = 16}, TFM_ERROR_ARGUMENT, "groups of 16 inputs");
    refused("plain", &(tfm_int4_options){.text = "a", .text_bytes = 1}, TFM_ERROR_ARGUMENT, "needs a context");
    refused("plain", &(tfm_int4_options){.text = "a b", .text_bytes = 3, .ctx = harness_context()}, TFM_ERROR_INPUT,
            "the calibration text has 3 tokens");
    refused("plain", &(tfm_int4_options){.reserved = {1}}, TFM_ERROR_ARGUMENT, "reserved word");
    refused("rounded", NULL, TFM_ERROR_ARGUMENT,
            "quantized already (model.layers.0.mlp.down_proj.weight is compressed");
    scratch_refused(tfm_model_quantize(scratch_path("other"), scratch_path("rounded"), TFM_I8), TFM_ERROR_ARGUMENT,
                    "quantized already");
    refused("missing", NULL, TFM_ERROR_IO, "missing");
}

static int setup(void **state) {
    return harness_setup(state) == 0 ? scratch_setup(state) : -1;
}

static int teardown(void **state) {
    return scratch_teardown(state) == 0 ? harness_teardown(state) : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_int4_directory_opens_as_its_rounded_weights),
        cmocka_unit_test(test_calibration_brings_int4_nearer_to_the_model),
        cmocka_unit_test(test_int4_refusals),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
