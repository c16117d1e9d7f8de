/* Directories of GPTQ, AWQ and compressed-tensors: a model computes the same from packed integers as from the
 * dequantized weights; damaged and unsupported ones are refused. */
#include "support/packed_builder.h"

#define GPTQ(bits, group, more) "{\"quant_method\": \"gptq\", \"bits\": " bits ", \"group_size\": " group more "}"
#define AWQ(group, more) "{\"quant_method\": \"awq\", \"bits\": 4, \"group_size\": " group more "}"
#define ROWS(bits, strategy, group, more)                                                                              \
    "{\"quant_method\": \"compressed-tensors\", \"format\": \"pack-quantized\", \"ignore\": [\"lm_head\"], "           \
    "\"config_groups\": {\"group_0\": {\"targets\": [\"Linear\"], \"input_activations\": null, \"weights\": "          \
    "{\"num_bits\": " bits ", \"type\": \"int\", \"strategy\": \"" strategy "\", \"group_size\": " group more "}}}}"

static const packed_form FORMS[] = {
    {"gptq", GPTQ("4", "32", ", \"desc_act\": false"), PACKED_GPTQ, 4, 32, 1, false, 0, "F16", false, true},
    {"gptq act order", GPTQ("4", "32", ", \"desc_act\": true"), PACKED_GPTQ, 4, 32, 1, false, 1, "F16", false, false},
    {"gptq uneven groups in order", GPTQ("4", "64", ""), PACKED_GPTQ, 4, 64, 1, true, 1, "F16", false, false},
    {"gptq groups of any size", GPTQ("4", "32", ""), PACKED_GPTQ, 4, 32, 1, false, 2, "F16", false, false},
    {"gptq v2", GPTQ("4", "-1", ", \"checkpoint_format\": \"gptq_v2\""), PACKED_GPTQ, 4, 0, 0, false, 0, "F16", false,
     true},
    {"gptq 8 bits", GPTQ("8", "64", ", \"format\": \"gptq\", \"lm_head\": false"), PACKED_GPTQ, 8, 64, 1, false, 0,
     "F16", false, false},
    {"gptq small groups", GPTQ("4", "16", ""), PACKED_GPTQ, 4, 16, 1, false, 0, "F16", false, false},
    {"gptq dynamic", GPTQ("8", "64", ", \"dynamic\": {\"+:x\": {\"bits\": 4}}"), PACKED_GPTQ, 4, 32, 1, false, 0,
     "BF16", false, false},
    {"awq", AWQ("32", ", \"version\": \"gemm\", \"zero_point\": true"), PACKED_AWQ, 4, 32, 0, false, 0, "F16", false,
     false},
    {"awq rows", AWQ("-1", ", \"version\": \"GEMM\""), PACKED_AWQ, 4, 0, 0, false, 0, "F16", false, false},
    {"awq without zero points", AWQ("32", ", \"zero_point\": false"), PACKED_AWQ, 4, 32, 0, true, 0, "F16", false,
     false},
    {"compressed", ROWS("4", "group", "32", ", \"symmetric\": false"), PACKED_ROWS, 4, 32, 0, false, 0, "BF16", false,
     true},
    {"compressed symmetric", ROWS("4", "channel", "null", ""), PACKED_ROWS, 4, 0, 0, true, 0, "F32", false, false},
    {"compressed act order", ROWS("4", "group", "32", ", \"actorder\": \"group\""), PACKED_ROWS, 4, 32, 0, false, 1,
     "F16", false, false},
    {"compressed int8 zeros", ROWS("4", "group", "32", ""), PACKED_ROWS, 4, 32, 0, false, 0, "F16", true, false},
    {"compressed 8 bits", ROWS("8", "group", "32", ""), PACKED_ROWS, 8, 32, 0, false, 0, "F16", false, false},
};

/* The model packed, and with the dequantized weights. */
static void write_models(const packed_form *f) {
    static packed_matrix m;
    static float values[PACKED_MAX * PACKED_MAX];
    harness_random random = {77};
    packed_file packed = {0}, plain = {0};
    make_dirs();
    add_rest(&packed);
    add_rest(&plain);
    for (size_t i = 0; i < TFM__COUNT(MATRICES); i++) {
        char stem[128], name[160];
        packed_random(&m, f, &random, i == 4 || i == 5 ? INNER : WIDTH, i == 6 ? INNER : WIDTH);
        for (int64_t e = 0; e < m.n * m.k; e++)
            values[e] = packed_value(&m, e / m.k, e % m.k);
        snprintf(stem, sizeof(stem), "model.layers.0.%s", MATRICES[i]);
        snprintf(name, sizeof(name), "%s.weight", stem);
        packed_add_matrix(&packed, f, &m, stem);
        add_floats(&plain, name, values, 2, m.n, m.k);
    }
    packed_write(&packed, "packed/model.safetensors");
    packed_write(&plain, "plain/model.safetensors");
    write_config("packed/config.json", f->config);
    write_config("plain/config.json", NULL);
}

static void check_logits(const char *what, tfm_precision precision, tfm_precision activations, double most) {
    float *a = logits_of("packed", precision, activations), *b = logits_of("plain", precision, activations);
    const double distance = distance_of(a, b);
    if (!(distance <= most))
        print_error("%s: distance %g, at most %g\n", what, distance, most);
    assert_true(distance <= most && isfinite(a[0]) && a[0] != a[1]);
    free(a);
    free(b);
}

/* Converted weights give the bits of the dequantized ones; with TFM_PRECISION_AUTO they stay packed. */
static void test_packed_models_compute_as_their_dequantized_weights(void **state) {
    (void)state;
    for (size_t i = 0; i < TFM__COUNT(FORMS); i++) {
        write_models(&FORMS[i]);
        if (!harness_brief() || i < 2)
            check_logits(FORMS[i].name, TFM_PRECISION_FP32, TFM_PRECISION_FP32, 0);
        check_logits(FORMS[i].name, TFM_PRECISION_AUTO, TFM_PRECISION_FP32, 1e-5);
        check_logits(FORMS[i].name, TFM_PRECISION_AUTO, TFM_PRECISION_AUTO, 1e-3);
    }
}

/* ---- int8 weights of compressed-tensors ---- */

#define W8A8                                                                                                           \
    "{\"quant_method\": \"compressed-tensors\", \"format\": \"int-quantized\", \"config_groups\": {\"group_0\": "      \
    "{\"targets\": [\"Linear\"], \"weights\": {\"num_bits\": 8, \"type\": \"int\", \"strategy\": \"channel\"}, "       \
    "\"input_activations\": {\"num_bits\": 8, \"type\": \"int\", \"strategy\": \"token\", \"dynamic\": true}}}}"

/* `own`: the directory of tfm, with F32 scales, as older versions wrote for every model. */
static void write_int8(int64_t scales, int8_t zero, bool own) {
    static int8_t bytes[PACKED_MAX * PACKED_MAX], zeros[PACKED_MAX];
    static float values[PACKED_MAX * PACKED_MAX];
    harness_random random = {78};
    packed_file packed = {0}, plain = {0};
    make_dirs();
    add_rest(&packed);
    add_rest(&plain);
    for (size_t i = 0; i < TFM__COUNT(MATRICES); i++) {
        const int64_t n = i == 4 || i == 5 ? INNER : WIDTH, k = i == 6 ? INNER : WIDTH;
        uint16_t halves[PACKED_MAX];
        char name[160];
        for (int64_t e = 0; e < n * k; e++) {
            if (e % k == 0)
                halves[e / k] = tfm__bfloat_from_float((float)harness_range(&random, 5, 15) / 10000);
            bytes[e] = (int8_t)harness_range(&random, -127, 127);
            values[e] = tfm__bfloat_to_float(halves[scales == 1 ? 0 : e / k]) * (float)bytes[e];
        }
        memset(zeros, zero, sizeof(zeros));
        snprintf(name, sizeof(name), "model.layers.0.%s.weight", MATRICES[i]);
        packed_add(&packed, name, "I8", 2, (int64_t[]){n, k}, bytes, (size_t)(n * k));
        add_floats(&plain, name, values, 2, n, k);
        snprintf(name, sizeof(name), "model.layers.0.%s.weight_scale", MATRICES[i]);
        float wide[PACKED_MAX];
        for (int64_t e = 0; e < n; e++)
            wide[e] = tfm__bfloat_to_float(halves[e]);
        if (own) {
            packed_add(&packed, name, "F32", 1, &n, wide, (size_t)n * 4);
            continue;
        }
        packed_add(&packed, name, "BF16", 2, (int64_t[]){scales ? scales : n, 1}, halves,
                   (size_t)(scales ? scales : n) * 2);
        snprintf(name, sizeof(name), "model.layers.0.%s.weight_zero_point", MATRICES[i]);
        packed_add(&packed, name, "I8", 2, (int64_t[]){n, 1}, zeros, (size_t)n);
    }
    packed_write(&packed, "packed/model.safetensors");
    packed_write(&plain, "plain/model.safetensors");
    write_config("packed/config.json", own ? "{\"quant_method\": \"tfm\", \"bits\": 8}" : W8A8);
    write_config("plain/config.json", NULL);
}

static void test_int8_weights_of_compressed_tensors_are_exact(void **state) {
    (void)state;
    for (int64_t scales = 0; scales < 3; scales++) { /* one for each output, or one; and in a directory of tfm */
        write_int8(scales % 2, 0, scales == 2);
        check_logits("int8", TFM_PRECISION_FP32, TFM_PRECISION_FP32, 0);
        check_logits("int8 blocks", TFM_PRECISION_AUTO, TFM_PRECISION_FP32, 1e-5);
        check_logits("int8 blocks and int16 activations", TFM_PRECISION_AUTO, TFM_PRECISION_AUTO, 1e-3);
    }
}

/* ---- Information ---- */

static void test_info_names_the_packing(void **state) {
    (void)state;
    static const char *const WANTED[] = {"GPTQ int4", "AWQ int4", "compressed-tensors int8"};
    const size_t forms[] = {0, 8, 15};
    for (size_t i = 0; i < TFM__COUNT(WANTED); i++) {
        tfm_model_info info;
        write_models(&FORMS[forms[i]]);
        harness_ok(tfm_model_read_info(&info, scratch_path("packed"), &(tfm_model_options){.no_tokenizer = true}));
        assert_string_equal(info.stored_dtype, WANTED[i]);
        assert_int_equal(info.parameters, 4 * WIDTH * WIDTH + 3 * WIDTH * INNER + VOCABULARY * WIDTH + 3 * WIDTH);
        if (i == 0) /* blocks of 32 with an fp32 scale and minimum */
            assert_int_equal(info.parameter_bytes,
                             (4 * WIDTH * WIDTH + 3 * WIDTH * INNER) / 32 * 24 + (VOCABULARY * WIDTH + 3 * WIDTH) * 4);
    }
}

/* ---- Refusals ---- */

static void refused(tfm_status want, const char *part) {
    tfm_model_info info;
    scratch_refused(tfm_model_read_info(&info, scratch_path("packed"), &(tfm_model_options){.no_tokenizer = true}),
                    want, part);
}

static void test_unsupported_quantization_configs_are_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *config, *part;
        tfm_status status;
    } CASES[] = {
        {"{\"quant_method\": \"bitsandbytes\"}", "quantized (\"bitsandbytes\"), which is not supported",
         TFM_ERROR_UNSUPPORTED},
        {"{\"bits\": 4}", "quantized ({\"bits\":4})", TFM_ERROR_UNSUPPORTED},
        {GPTQ("3", "32", ""), "`bits` of `quantization_config` is 3, which is not supported: use a model with 4 or 8",
         TFM_ERROR_UNSUPPORTED},
        {GPTQ("\"4\"", "32", ""), "`bits` of `quantization_config` is \"4\"", TFM_ERROR_UNSUPPORTED},
        {"{\"quant_method\": \"gptq\"}", "has no `bits`", TFM_ERROR_FORMAT},
        {GPTQ("4", "0", ""), "`group_size` is 0; -1 or a positive", TFM_ERROR_FORMAT},
        {GPTQ("4", "-2", ""), "`group_size` is -2", TFM_ERROR_FORMAT},
        {GPTQ("4", "32", ", \"checkpoint_format\": \"marlin\""), "`checkpoint_format` of `quantization_config` is",
         TFM_ERROR_UNSUPPORTED},
        {GPTQ("4", "32", ", \"format\": 2"), "`format` of `quantization_config` is 2", TFM_ERROR_UNSUPPORTED},
        {GPTQ("4", "32", ", \"is_marlin_format\": true"), "`is_marlin_format`", TFM_ERROR_UNSUPPORTED},
        {GPTQ("4", "32", ", \"pack_dtype\": \"int16\""), "`pack_dtype`", TFM_ERROR_UNSUPPORTED},
        {GPTQ("4", "64", ""), "3 groups, but 96 inputs in groups of 64 are 2", TFM_ERROR_FORMAT},
        {GPTQ("8", "32", ""), "3 groups, but 48 inputs in groups of 32 are 2", TFM_ERROR_FORMAT},
        {AWQ("32", ", \"version\": \"gemv\""), "`version` of `quantization_config` is \"gemv\"", TFM_ERROR_UNSUPPORTED},
        {ROWS("4", "block", "32", ""), "`strategy` of `quantization_config` is \"block\"", TFM_ERROR_UNSUPPORTED},
        {"{\"quant_method\": \"compressed-tensors\", \"format\": \"float-quantized\"}", "is \"float-quantized\"",
         TFM_ERROR_UNSUPPORTED},
        {"{\"quant_method\": \"compressed-tensors\", \"format\": \"pack-quantized\"}", "`config_groups`",
         TFM_ERROR_FORMAT},
        {"{\"quant_method\": \"compressed-tensors\", \"format\": \"pack-quantized\", \"config_groups\": {\"a\": 1}}",
         "`weights` of `config_groups`", TFM_ERROR_FORMAT},
    };
    write_models(&FORMS[0]);
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        write_config("packed/config.json", CASES[i].config);
        refused(CASES[i].status, CASES[i].part);
    }
}

/* Renames a tensor, or edits its dtype or shape: `old` and `with` have one length. */
static void damage(const packed_form *f, const char *old, const char *with, const char *part) {
    char *bytes;
    size_t size;
    write_models(f);
    harness_ok(tfm__file_read(&bytes, &size, scratch_path("packed/model.safetensors")));
    char *at = memmem(bytes, size, old, strlen(old));
    assert_non_null(at);
    memcpy(at, with, strlen(with));
    scratch_write("packed/model.safetensors", bytes, size);
    free(bytes);
    refused(TFM_ERROR_FORMAT, part);
}

static void test_damaged_packed_tensors_are_refused(void **state) {
    (void)state;
    const packed_form *gptq = &FORMS[0], *rows = &FORMS[11];
    damage(gptq, "self_attn.q_proj.scales", "self_attn.q_proj.scalez", "q_proj.scales: download");
    damage(gptq, "self_attn.q_proj.qzeros", "self_attn.q_proj.qzeroz", "q_proj.qzeros: download");
    damage(gptq, "q_proj.g_idx\":{\"dtype\":\"I32\"", "q_proj.g_idx\":{\"dtype\":\"F32\"", "I32 is needed");
    damage(gptq, "self_attn.q_proj.qweight\":{\"dtype\":\"I32\",\"shape\":[8,64]",
           "self_attn.q_proj.qweight\":{\"dtype\":\"I32\",\"shape\":[64,8]", "q_proj.scales has scales of 2 groups");
    damage(rows, "q_proj.weight_shape\":{\"dtype\":\"I64\"", "q_proj.weight_shape\":{\"dtype\":\"F64\"",
           "is not the shape of a matrix");
    damage(rows, "q_proj.weight_packed\":{\"dtype\":\"I32\"", "q_proj.weight_packed\":{\"dtype\":\"F32\"",
           "I32 is needed");
    packed_form other = *gptq;
    other.order = 1;
    other.group = 16;
    other.config = GPTQ("4", "16", "");
    damage(&other, "self_attn.q_proj.scales\":{\"dtype\":\"F16\",\"shape\":[4,64]",
           "self_attn.q_proj.scales\":{\"dtype\":\"F16\",\"shape\":[64,4]", "q_proj.scales has scales of 64 groups");
    write_int8(3, 0, false);
    refused(TFM_ERROR_UNSUPPORTED, "has 3 scales");
    write_int8(0, 1, false);
    refused(TFM_ERROR_UNSUPPORTED, "has zero points");
}

static int setup(void **state) {
    return harness_setup(state) == 0 ? scratch_setup(state) : -1;
}

static int teardown(void **state) {
    return scratch_teardown(state) == 0 ? harness_teardown(state) : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packed_models_compute_as_their_dequantized_weights),
        cmocka_unit_test(test_int8_weights_of_compressed_tensors_are_exact),
        cmocka_unit_test(test_info_names_the_packing),
        cmocka_unit_test(test_unsupported_quantization_configs_are_refused_by_name),
        cmocka_unit_test(test_damaged_packed_tensors_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
