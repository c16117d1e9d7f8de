/* Models with int8 or 16-bit matrices: quantized at load, or before, in a separate directory; of families that store
 * matrices as they are, transposed, fused, and in several files. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/file.h"
#include "base/json.h"
#include "dev/device/context_internal.h"
#include "support/harness.h"
#include "model/core/quantized_params.h"
#include "model/core/model.h"
#include "support/scratch.h"
#include "tfm/embed.h"
#include "tfm/train.h"
#include "tfm/ops.h"

static const char *const FOLDERS[] = {
    "families/bart-untied-f32",      "families/gpt2-base-masks-f16",    "families/phi3-partial-f16",
    "families/llama-plain-2023-f16", "families/t5-few-buckets-shards",  "families/bert-masked-shards",
    "families/m2m_100-pad-9-bin",    "families/gpt2-inner-untied-bf16", "untied-gelu-bf16",
};

static char *golden(const char *name) {
    char relative[256];
    snprintf(relative, sizeof(relative), "tests/golden/%s", name);
    return harness_source(relative);
}

static tfm_model *open_model(const char *dir, tfm_precision precision) {
    tfm_model *model = NULL;
    harness_ok(tfm_model_open(&model, harness_context(), dir,
                              &(tfm_model_options){.no_tokenizer = true, .precision = precision}));
    return model;
}

/* The model's output for a few ids: logits, or hidden states of an encoder-only model. */
static float *results(tfm_model *model, size_t *count) {
    tfm_context *ctx = harness_context();
    const int32_t ids[] = {3, 4, 5, 6, 2, 7, 8, 9, 10, 11};
    tfm_tensor encoded = {0}, y = {0}, none = {0}, lengths = HARNESS_TENSOR(TFM_I32, ((int32_t[]){5, 3}), 2);
    tfm_tensor x = HARNESS_TENSOR(TFM_I32, ids, 2, 5);
    harness_ok(tfm_scope_open(ctx));
    if (model->arch.encoder.layers)
        harness_ok(tfm_model_encode(model, &encoded, x, lengths));
    if (model->arch.decoder.layers)
        harness_ok(tfm_model_decode(model, &y, x, encoded, model->arch.encoder.layers ? lengths : none));
    else
        y = encoded;
    float *host = harness_floats(y);
    *count = tfm_tensor_count(y);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    return host;
}

/* Relative distance of two results; non-finite values are skipped. */
static double distance(const float *a, const float *b, size_t count) {
    double far = 0, length = 0;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(a[i]) || !isfinite(b[i]))
            continue;
        far += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        length += (double)a[i] * (double)a[i];
    }
    return sqrt(far / length);
}

static void check_folder(const char *name) {
    char *dir = golden(name), made[4200];
    size_t count;
    snprintf(made, sizeof(made), "%s/made/%s", scratch_root, strrchr(name, '/') ? strrchr(name, '/') + 1 : name);
    harness_ok(tfm_model_quantize(made, dir, TFM_I8));
    tfm_model *plain = open_model(dir, TFM_PRECISION_AUTO), *now = open_model(dir, TFM_PRECISION_INT8);
    tfm_model *stored = open_model(made, TFM_PRECISION_AUTO), *back = open_model(made, TFM_PRECISION_FP32);
    float *want = results(plain, &count), *got = results(now, &count), *again = results(stored, &count);
    float *floats = results(back, &count);
    assert_memory_equal(got, again, count * sizeof(*got)); /* the same int8 values */
    if (!harness_poses()) {
        assert_true(distance(want, got, count) > 0 && distance(want, got, count) < 0.06);
        assert_true(distance(want, floats, count) > 0 && distance(want, floats, count) < 0.06);
    }
    const tfm_model_info a = *tfm_model_get_info(plain), b = *tfm_model_get_info(stored);
    assert_int_equal(a.parameters, b.parameters);
    assert_true(b.parameter_bytes < a.parameter_bytes / 2);
    assert_int_equal(tfm_model_get_info(now)->parameter_bytes, b.parameter_bytes);
    assert_int_equal(tfm_model_get_info(back)->parameter_bytes, a.parameter_bytes);
    assert_true(strcmp(b.stored_dtype, "I8") == 0 || strcmp(b.stored_dtype, a.stored_dtype) == 0); /* the maximum's */
    tfm_model_info read;
    harness_ok(tfm_model_read_info(&read, made, &(tfm_model_options){.no_tokenizer = true}));
    assert_int_equal(read.parameter_bytes, b.parameter_bytes);
    harness_refused(tfm_model_save(stored, scratch_root, TFM_F32), TFM_ERROR_UNSUPPORTED, "weights are int8");
    harness_refused(tfm_model_quantize(scratch_root, made, TFM_F16), TFM_ERROR_ARGUMENT, "quantized already");
    free(want);
    free(got);
    free(again);
    free(floats);
    tfm_model_free(&plain);
    tfm_model_free(&now);
    tfm_model_free(&stored);
    tfm_model_free(&back);
    free(dir);
}

static void test_int8_models_are_near_and_equal_when_saved(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(FOLDERS) / sizeof(*FOLDERS); i++)
        if (i == 0 || !harness_slow())
            check_folder(FOLDERS[i]);
}

/* fp16 and bf16 of F32 or of the other 16-bit dtype are close, those of the same dtype equal. */
static void test_half_models_are_near_their_originals(void **state) {
    (void)state;
    const struct {
        const char *name;
        tfm_dtype dtype;
        double most;
    } cases[] = {{"families/bart-untied-f32", TFM_F16, 2e-3},  {"families/bart-untied-f32", TFM_BF16, 2e-2},
                 {"families/gpt2-base-masks-f16", TFM_F16, 0}, {"families/gpt2-base-masks-f16", TFM_BF16, 2e-2},
                 {"untied-gelu-bf16", TFM_F16, 2e-3},          {"untied-gelu-bf16", TFM_BF16, 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char *dir = golden(cases[i].name), made[4200];
        size_t count;
        snprintf(made, sizeof(made), "%s/halves-%zu", scratch_root, i);
        harness_ok(tfm_model_quantize(made, dir, cases[i].dtype));
        tfm_model *plain = open_model(dir, TFM_PRECISION_AUTO), *half = open_model(made, TFM_PRECISION_AUTO);
        float *want = results(plain, &count), *got = results(half, &count);
        assert_true(distance(want, got, count) <= cases[i].most);
        assert_string_equal(tfm_model_get_info(half)->stored_dtype, tfm_dtype_name(cases[i].dtype));
        free(want);
        free(got);
        tfm_model_free(&plain);
        tfm_model_free(&half);
        free(dir);
    }
}

/* 16-bit weights stay so on the device if requested, for directories of any dtype: results are close to F32, and equal
 * in value if the directory has that dtype. */
static void check_kept_halves(const char *name, tfm_dtype dtype, tfm_precision precision, double most) {
    char *dir = golden(name), made[4200];
    size_t count;
    snprintf(made, sizeof(made), "%s/kept-%d/%s", scratch_root, (int)dtype,
             strrchr(name, '/') ? strrchr(name, '/') + 1 : name);
    tfm__tuning *tuning = &harness_context()->tuning;
    const tfm__tuning own = *tuning;
    tuning->avx512_bf16 = tuning->amx_bf16 = false; /* so that only the matrices are rounded */
    tuning->mma = TFM__MMA_NONE;
    harness_ok(tfm_model_quantize(made, dir, dtype));
    tfm_model *plain = open_model(dir, TFM_PRECISION_FP32), *now = open_model(dir, precision);
    tfm_model *stored = open_model(made, precision), *back = open_model(made, TFM_PRECISION_FP32);
    float *want = results(plain, &count), *got = results(now, &count), *again = results(stored, &count);
    float *floats = results(back, &count);
    if (!harness_poses()) {
        assert_true(distance(want, got, count) < most);
        assert_true(distance(floats, again, count) < 1e-5);
        assert_true(distance(got, again, count) < most); /* norms and biases were 16-bit once */
    }
    *tuning = own;
    free(again);
    again = results(now, &count);
    if (!harness_poses())
        assert_true(distance(want, again, count) < most);
    const tfm_model_info a = *tfm_model_get_info(plain), b = *tfm_model_get_info(now), c = *tfm_model_get_info(stored);
    assert_int_equal(a.parameters, b.parameters);
    assert_true(b.parameter_bytes < 4 * a.parameters * 3 / 4 && b.parameter_bytes >= 2 * a.parameters);
    assert_int_equal(b.parameter_bytes, c.parameter_bytes);
    assert_int_equal(a.parameter_bytes, tfm_model_get_info(back)->parameter_bytes);
    tfm_model_info read;
    harness_ok(tfm_model_read_info(&read, made, &(tfm_model_options){.no_tokenizer = true, .precision = precision}));
    assert_int_equal(read.parameter_bytes, b.parameter_bytes);
    const char *word = dtype == TFM_F16 ? "weights are fp16" : "weights are bf16";
    tfm_trainer *trainer = NULL;
    harness_refused(tfm_model_save(now, scratch_root, TFM_F32), TFM_ERROR_UNSUPPORTED, word);
    if (now->arch.decoder.layers)
        harness_refused(tfm_trainer_new(&trainer, now, NULL), TFM_ERROR_UNSUPPORTED, word);
    free(want);
    free(got);
    free(again);
    free(floats);
    tfm_model_free(&plain);
    tfm_model_free(&now);
    tfm_model_free(&stored);
    tfm_model_free(&back);
    free(dir);
}

static void test_models_opened_in_half_precision_are_near(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(FOLDERS) / sizeof(*FOLDERS); i++) {
        if (i % 4 > 1 || (i > 0 && harness_slow()))
            continue;
        check_kept_halves(FOLDERS[i], TFM_F16, TFM_PRECISION_FP16, 3e-3);
        check_kept_halves(FOLDERS[i], TFM_BF16, TFM_PRECISION_BF16, 2.5e-2);
    }
}

/* 16-bit values of int8 are the int8 values times their scales; a number beyond the fp16 range is rejected, not
 * infinite. */
static void test_half_from_int8_multiplies_scales(void **state) {
    (void)state;
    char *dir = golden("families/bart-untied-f32"), made[4200], path[4300], *text;
    size_t count, size;
    snprintf(made, sizeof(made), "%s/halves-of-bytes", scratch_root);
    harness_ok(tfm_model_quantize(made, dir, TFM_I8));
    tfm_model *plain = open_model(made, TFM_PRECISION_FP32), *half = open_model(made, TFM_PRECISION_FP16),
              *model = NULL;
    float *want = results(plain, &count), *got = results(half, &count);
    assert_true(harness_poses() || distance(want, got, count) < 3e-3);
    free(want);
    free(got);
    tfm_model_free(&plain);
    tfm_model_free(&half);
    snprintf(made, sizeof(made), "%s/far", scratch_root);
    harness_ok(tfm_model_quantize(made, dir, TFM_BF16));
    snprintf(path, sizeof(path), "%s/model.safetensors", made);
    harness_ok(tfm__file_read(&text, &size, path));
    /* The first number of the first layer's matrix of the decoder becomes 70144. */
    const char *name = strstr(text + 8, "model.decoder.layers.0.fc1.weight"), *place = strstr(name, "data_offsets\":[");
    const size_t at = 8 + (size_t)(unsigned char)text[0] + 256 * (size_t)(unsigned char)text[1] +
                      (size_t)strtoul(strchr(place, '[') + 1, NULL, 10);
    text[at] = (char)0x89;
    text[at + 1] = 0x47;
    harness_ok(tfm__file_write(path, text, size));
    harness_refused(tfm_model_open(&model, harness_context(), made,
                                   &(tfm_model_options){.no_tokenizer = true, .precision = TFM_PRECISION_FP16}),
                    TFM_ERROR_FORMAT, "decoder.layers.0.fc1.weight has a number as large as 70144");
    snprintf(path, sizeof(path), "%s/not-halves", scratch_root);
    harness_refused(
        tfm_model_quantize(path, made, TFM_F16), TFM_ERROR_FORMAT,
        "decoder.layers.0.fc1.weight has a number as large as 70144, above the fp16 maximum of 65504: use the "
        "precision bf16");
    assert_false(tfm__file_exists(path));
    tfm_model *far = open_model(made, TFM_PRECISION_BF16);
    tfm_model_free(&far);
    free(text);
    free(dir);
}

/* Every 16-bit pattern, and values around the rounding steps, against the device's cast. */
static void test_host_half_rounding_equals_device_cast(void **state) {
    (void)state;
    const float values[] = {0,      -0.0f,    1,     1.00048828125f, 1.0014648f, 65504,    65519.9f,
                            65520,  -70000,   6e-8f, 2.9e-8f,        -2.99e-8f,  5.96e-5f, 6.1e-5f,
                            1e-30f, INFINITY, 3e38f, 3.4e38f,        0.333f,     -1e-7f,   8.9e-8f};
    tfm_context *ctx = harness_context();
    const int64_t n = sizeof(values) / sizeof(*values);
    for (int k = 0; k < 2; k++) {
        const tfm_dtype dtype = k ? TFM_BF16 : TFM_F16;
        uint16_t want[64], got;
        tfm_tensor y = {0}, x = HARNESS_TENSOR(TFM_F32, values, n);
        harness_ok(tfm_cast(ctx, &y, x, dtype));
        harness_ok(tfm_tensor_read(ctx, want, y));
        for (int64_t i = 0; i < n; i++) {
            got = tfm__float_to_half(values[i], dtype);
            assert_int_equal(got, want[i]);
        }
    }
}

/* sentence-transformers keeps the encoder in a folder, with more folders next to it. */
static void test_quantize_copies_embedder_folders(void **state) {
    (void)state;
    char *dir = golden("embedder"), made[4200], path[4300];
    tfm_embedder *before = NULL, *after = NULL;
    snprintf(made, sizeof(made), "%s/embedder", scratch_root);
    harness_ok(tfm_model_quantize(made, dir, TFM_I8));
    const tfm_embedder_options options = {.no_tokenizer = true};
    harness_ok(tfm_embedder_open(&before, harness_context(), dir, &options));
    harness_ok(tfm_embedder_open(&after, harness_context(), made, &options));
    assert_true(tfm_model_get_info(tfm_embedder_model(after))->parameter_bytes <
                tfm_model_get_info(tfm_embedder_model(before))->parameter_bytes / 2);
    snprintf(path, sizeof(path), "%s/2_Dense/config.json", made);
    assert_true(tfm__file_exists(path));
    tfm_embedder_free(&before);
    tfm_embedder_free(&after);
    free(dir);
}

static void test_quantize_rejects_bad_input(void **state) {
    (void)state;
    char *dir = golden("families/bart-untied-f32"), *own = golden("marian-nmt"), made[4200], path[4300], *text;
    tfm_model *model = NULL;
    tfm_trainer *trainer = NULL;
    size_t size;
    snprintf(made, sizeof(made), "%s/broken", scratch_root);
    harness_refused(tfm_model_quantize(dir, dir, TFM_I8), TFM_ERROR_ARGUMENT, "own directory");
    harness_refused(tfm_model_quantize(made, dir, TFM_F32), TFM_ERROR_ARGUMENT, "I8, F16 or BF16");
    harness_refused(tfm_model_quantize(made, scratch_root, TFM_I8), TFM_ERROR_IO, "config.json");
    harness_refused(tfm_model_open(&model, harness_context(), dir, &(tfm_model_options){.precision = 77}),
                    TFM_ERROR_ARGUMENT, "unknown precision");
    harness_ok(tfm_model_quantize(made, dir, TFM_I8));
    model = open_model(made, TFM_PRECISION_AUTO);
    harness_refused(tfm_trainer_new(&trainer, model, NULL), TFM_ERROR_UNSUPPORTED, "weights are int8");
    tfm_model_free(&model);
    /* int8 tensors without scales are rejected. */
    snprintf(path, sizeof(path), "%s/model.safetensors", made);
    harness_ok(tfm__file_read(&text, &size, path));
    for (size_t i = 0; i + 6 < 20000 && i + 6 < size; i++)
        if (memcmp(text + i, "_scale", 6) == 0)
            memcpy(text + i, "_skale", 6);
    harness_ok(tfm__file_write(path, text, size));
    harness_refused(tfm_model_open(&model, harness_context(), made, &(tfm_model_options){.no_tokenizer = true}),
                    TFM_ERROR_FORMAT, "scales");
    free(text);
    free(dir);
    free(own);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_int8_models_are_near_and_equal_when_saved),
        cmocka_unit_test(test_half_models_are_near_their_originals),
        cmocka_unit_test(test_host_half_rounding_equals_device_cast),
        cmocka_unit_test(test_models_opened_in_half_precision_are_near),
        cmocka_unit_test(test_half_from_int8_multiplies_scales),
        cmocka_unit_test(test_quantize_copies_embedder_folders),
        cmocka_unit_test(test_quantize_rejects_bad_input),
    };
    int code = scratch_setup(NULL);
    code = code ? code : cmocka_run_group_tests(tests, harness_setup, harness_teardown);
    scratch_teardown(NULL);
    return code;
}
