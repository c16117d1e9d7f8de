/* Tensor types of GGUF files: a model computes the same from blocks as from their values, in each precision; types that
 * are not supported are refused by name. */
#include <math.h>
#include "base/gguf.h"
#include "ops/quant/quant_format.h"
#include "support/gguf_scratch.h"
#include "tfm/tfm.h"

enum { WIDTH = 256, VOCABULARY = 32, HEADS = 4, LENGTH = 7 };

static void add_keys(gguf_builder *b) {
    gguf_add_string(b, "general.architecture", "llama");
    gguf_add_u32(b, "llama.block_count", 1);
    gguf_add_u32(b, "llama.embedding_length", WIDTH);
    gguf_add_u32(b, "llama.feed_forward_length", WIDTH);
    gguf_add_u32(b, "llama.context_length", 64);
    gguf_add_u32(b, "llama.attention.head_count", HEADS);
    gguf_add_f32(b, "llama.attention.layer_norm_rms_epsilon", 1e-5);
}

static void add_norms(gguf_builder *b) {
    static const char *const NAMES[] = {"output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"};
    float ones[WIDTH];
    for (int i = 0; i < WIDTH; i++)
        ones[i] = 1 + (float)(i % 3);
    for (size_t i = 0; i < TFM__COUNT(NAMES); i++)
        gguf_add_tensor(b, NAMES[i], TFM__QUANT_F32, 1, (int64_t[]){WIDTH}, ones, sizeof(ones));
}

/* Random blocks without large and non-finite values, and these values. */
static void random_blocks(harness_random *random, const tfm__quant_format *f, unsigned char *blocks, float *values,
                          size_t count) {
    for (size_t i = 0; i < count; i++) {
        bool good = false;
        while (!good) {
            for (int k = 0; k < f->bytes; k++)
                blocks[i * (size_t)f->bytes + (size_t)k] = (unsigned char)harness_next(random);
            tfm__quant_unpack(f, values + i * (size_t)f->block, blocks + i * (size_t)f->bytes, 1);
            good = true;
            for (int k = 0; k < f->block; k++)
                good &= fabsf(values[i * (size_t)f->block + (size_t)k]) < 0.25f; /* false for NaN */
        }
    }
}

/* The same model in blocks of a type (a.gguf) and as F32 (b.gguf). */
static void write_models(const tfm__quant_format *f) {
    static const char *const NAMES[] = {"token_embd.weight",        "blk.0.attn_q.weight",  "blk.0.attn_k.weight",
                                        "blk.0.attn_v.weight",      "blk.0.ffn_up.weight",  "blk.0.ffn_gate.weight",
                                        "blk.0.attn_output.weight", "blk.0.ffn_down.weight"};
    harness_random random = {f->type + 1};
    gguf_builder a = {0}, b = {0};
    add_keys(&a);
    add_keys(&b);
    add_norms(&a);
    add_norms(&b);
    unsigned char *blocks = malloc((size_t)WIDTH * WIDTH * 4);
    float *values = malloc((size_t)WIDTH * WIDTH * sizeof(float));
    assert_true(blocks && values);
    for (size_t i = 0; i < TFM__COUNT(NAMES); i++) {
        const int64_t dims[] = {i ? WIDTH : VOCABULARY, WIDTH};
        const size_t count = (size_t)(dims[0] * dims[1]), number = count / (size_t)f->block;
        random_blocks(&random, f, blocks, values, number);
        gguf_add_tensor(&a, NAMES[i], f->type, 2, dims, blocks, number * (size_t)f->bytes);
        gguf_add_tensor(&b, NAMES[i], TFM__QUANT_F32, 2, dims, values, count * sizeof(float));
    }
    free(blocks);
    free(values);
    gguf_write(&a, "a.gguf");
    gguf_write(&b, "b.gguf");
}

static float *logits_with(const char *name, tfm_precision precision, tfm_precision activations) {
    tfm_context *ctx = harness_context();
    tfm_model *model = NULL;
    tfm_tensor logits = {0};
    const int32_t ids[LENGTH] = {3, 1, 4, 1, 5, 9, 2}, length = LENGTH;
    harness_ok(tfm_model_open(
        &model, ctx, scratch_path(name),
        &(tfm_model_options){.no_tokenizer = true, .precision = precision, .activation_precision = activations}));
    tfm_scope_open(ctx);
    harness_ok(tfm_model_decode(model, &logits, HARNESS_TENSOR(TFM_I32, ids, 1, LENGTH), (tfm_tensor){0},
                                HARNESS_TENSOR(TFM_I32, &length, 1)));
    float *out = harness_floats(logits);
    tfm_scope_close(ctx, 0, NULL);
    tfm_model_free(&model);
    return out;
}

static float *logits_of(const char *name, tfm_precision precision) {
    return logits_with(name, precision, TFM_PRECISION_AUTO);
}

/* The root mean square of the difference of logits, relative to that of the second ones. */
static double distance_of(const float *a, const float *b) {
    double difference = 0, all = 0;
    for (int i = 0; i < LENGTH * VOCABULARY; i++) {
        difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        all += (double)b[i] * b[i];
    }
    return sqrt(difference / all);
}

/* Blocks that are converted give the bits of their values. With TFM_PRECISION_AUTO, and Q8_0 with TFM_PRECISION_INT8,
 * they stay blocks, which compute as the values in fp32 do; a device may round activations to int16. */
static void test_gguf_blocks_compute_as_their_values_in_each_precision(void **state) {
    (void)state;
    static const tfm_precision PRECISIONS[] = {TFM_PRECISION_FP32, TFM_PRECISION_AUTO, TFM_PRECISION_FP16,
                                               TFM_PRECISION_BF16, TFM_PRECISION_INT8};
    for (int i = 0; i < TFM__QUANT_FORMATS; i++) {
        const tfm__quant_format *f = &tfm__quant_formats()[i];
        write_models(f);
        for (size_t k = 0; k < (harness_brief() && i != 5 ? 2 : TFM__COUNT(PRECISIONS)); k++) {
            const bool kept = f->type == TFM__QUANT_Q8_0 && PRECISIONS[k] == TFM_PRECISION_INT8;
            float *a = logits_of("a.gguf", PRECISIONS[k]);
            float *b = logits_of("b.gguf", kept ? TFM_PRECISION_FP32 : PRECISIONS[k]);
            if (PRECISIONS[k] == TFM_PRECISION_AUTO || kept)
                assert_true(distance_of(a, b) < 1e-4);
            else
                assert_memory_equal(a, b, LENGTH * VOCABULARY * sizeof(float));
            assert_true(isfinite(a[0]) && a[0] != a[1]);
            free(a);
            free(b);
        }
    }
}

/* q.gguf: the values of b.gguf, quantized to 8 bits. */
static void write_int8(const tfm__quant_format *f) {
    const tfm__quant_format *int8 = tfm__quant_format_of(TFM__QUANT_INT8_M32);
    tfm__gguf *file = NULL;
    gguf_builder q = {0};
    add_keys(&q);
    add_norms(&q);
    write_models(f);
    harness_ok(tfm__gguf_open(&file, scratch_path("b.gguf")));
    for (size_t i = 0; i < tfm__gguf_tensors(file); i++) {
        const tfm__gguf_tensor *t = tfm__gguf_tensor_at(file, i);
        if (t->rank < 2)
            continue;
        const size_t blocks = (size_t)(t->dims[0] * t->dims[1]) / 32;
        float *values = malloc(blocks * 32 * sizeof(*values));
        unsigned char *packed = malloc(blocks * 36);
        assert_true(values && packed);
        memcpy(values, t->data, blocks * 32 * sizeof(*values));
        assert_true(tfm__quant_pack(int8, packed, values, blocks));
        tfm__quant_unpack(int8, values, packed, blocks);
        gguf_add_tensor(&q, t->name, TFM__QUANT_F32, 2, t->dims, values, blocks * 32 * sizeof(*values));
        free(values);
        free(packed);
    }
    tfm__gguf_close(&file);
    gguf_write(&q, "q.gguf");
}

/* Each type becomes 8-bit blocks of its values; Q8_0 stays as it is. */
static void test_int8_of_any_type_has_blocks_of_8_bits(void **state) {
    (void)state;
    static const tfm__quant_type TYPES[] = {TFM__QUANT_F32, TFM__QUANT_Q4_K, TFM__QUANT_Q8_0};
    for (size_t i = 0; i < TFM__COUNT(TYPES); i++) {
        write_int8(tfm__quant_format_of(TYPES[i]));
        float *want = logits_of("q.gguf", TFM_PRECISION_FP32), *floats = logits_of("b.gguf", TFM_PRECISION_INT8),
              *blocks = logits_of("a.gguf", TFM_PRECISION_INT8), *kept = logits_of("a.gguf", TFM_PRECISION_AUTO),
              *exact = logits_with("b.gguf", TFM_PRECISION_INT8, TFM_PRECISION_FP32);
        const float *same = TYPES[i] == TFM__QUANT_Q8_0 ? kept : floats;
        assert_true(distance_of(exact, want) < 3e-6);
        assert_true(distance_of(floats, want) < 1e-4);
        assert_memory_equal(blocks, same, LENGTH * VOCABULARY * sizeof(float));
        free(want);
        free(exact);
        free(floats);
        free(blocks);
        free(kept);
    }
}

/* Exact activations differ from rounded ones where the device has int16 dot products. */
static void test_fp32_activations_give_the_logits_of_the_values(void **state) {
    (void)state;
    write_models(tfm__quant_format_of(TFM__QUANT_Q4_1));
    float *want = logits_of("b.gguf", TFM_PRECISION_FP32),
          *exact = logits_with("a.gguf", TFM_PRECISION_AUTO, TFM_PRECISION_FP32),
          *rounded = logits_of("a.gguf", TFM_PRECISION_AUTO);
    assert_true(distance_of(exact, want) < 3e-6);
    assert_true(distance_of(rounded, want) < 1e-4);
    tfm_model *model = NULL;
    harness_refused(
        tfm_model_open(&model, harness_context(), scratch_path("a.gguf"),
                       &(tfm_model_options){.no_tokenizer = true, .activation_precision = TFM_PRECISION_INT8}),
        TFM_ERROR_ARGUMENT, "auto or fp32");
    free(want);
    free(exact);
    free(rounded);
}

static void test_gguf_info_counts_types(void **state) {
    (void)state;
    tfm_model_info info;
    write_models(tfm__quant_format_named("Q4_K"));
    harness_ok(tfm_model_read_info(&info, scratch_path("a.gguf"), &(tfm_model_options){.no_tokenizer = true}));
    assert_string_equal(info.weight_format, "GGUF");
    assert_string_equal(info.stored_dtype, "Q4_K");
    assert_int_equal(info.weight_type_count, 2);
    assert_string_equal(info.weight_types[0].name, "Q4_K");
    assert_int_equal(info.weight_types[0].tensors, 8);
    assert_int_equal(info.weight_types[0].bytes, (7 * WIDTH + VOCABULARY) * 144);
    assert_string_equal(info.weight_types[1].name, "F32");
    assert_int_equal(info.weight_types[1].bytes, 3 * WIDTH * 4);
    assert_int_equal(info.kv_token_bytes, 2 * WIDTH * 2); /* quantized: fp16 */
    assert_int_equal(info.parameters, 7 * WIDTH * WIDTH + VOCABULARY * WIDTH + 3 * WIDTH);
    const tfm_model_options exact = {.no_tokenizer = true, .activation_precision = TFM_PRECISION_FP32};
    harness_ok(tfm_model_read_info(&info, scratch_path("a.gguf"), &exact));
    assert_int_equal(info.kv_token_bytes, 2 * WIDTH * 4);
}

/* ---- Refused files ---- */

static void refused(gguf_builder *b, tfm_status want, const char *part) {
    tfm_model_info info;
    gguf_write(b, "x.gguf");
    scratch_refused(tfm_model_read_info(&info, scratch_path("x.gguf"), &(tfm_model_options){.no_tokenizer = true}),
                    want, part);
}

static void test_gguf_models_that_cannot_run_are_refused_by_name(void **state) {
    (void)state;
    gguf_builder b = {0};
    unsigned char blocks[VOCABULARY * 66] = {0};
    add_keys(&b);
    add_norms(&b);
    gguf_add_tensor(&b, "token_embd.weight", 16, 2, (int64_t[]){VOCABULARY, WIDTH}, blocks, sizeof(blocks));
    refused(&b, TFM_ERROR_UNSUPPORTED, "token_embd.weight has dtype IQ2_XXS; F32, F16, BF16, Q4_0");
    add_keys(&b);
    refused(&b, TFM_ERROR_FORMAT, "has no tensor token_embd.weight");
    gguf_add_string(&b, "general.architecture", "mamba");
    refused(&b, TFM_ERROR_UNSUPPORTED, "the GGUF architecture `mamba` is not supported");
    gguf_add_string(&b, "general.architecture", "bad\n\xff");
    refused(&b, TFM_ERROR_UNSUPPORTED, "the GGUF architecture `bad??` is not supported");
    refused(&b, TFM_ERROR_FORMAT, "has no `general.architecture`");
    add_keys(&b);
    gguf_add_u32(&b, "llama.expert_count", 8);
    refused(&b, TFM_ERROR_UNSUPPORTED, "is a mixture of 8 experts");
    gguf_add_string(&b, "general.architecture", "llama");
    refused(&b, TFM_ERROR_FORMAT, "has no `llama.block_count`");
    gguf_add_string(&b, "general.architecture", "llama");
    gguf_add_string(&b, "llama.block_count", "many");
    refused(&b, TFM_ERROR_FORMAT, "`llama.block_count` is no integer");
    add_keys(&b);
    gguf_add_tensor(&b, "token_embd.weight", 0, 2, (int64_t[]){1, WIDTH}, blocks, WIDTH * 4);
    gguf_add_array(&b, "llama.attention.head_count_kv", 4, 2, (uint32_t[]){2, 4}, 8);
    refused(&b, TFM_ERROR_UNSUPPORTED, "`llama.attention.head_count_kv` differs between layers");
    add_keys(&b);
    add_norms(&b);
    gguf_add_u32(&b, "llama.rope.dimension_count", 32);
    gguf_add_tensor(&b, "token_embd.weight", 0, 2, (int64_t[]){1, WIDTH}, blocks, WIDTH * 4);
    refused(&b, TFM_ERROR_UNSUPPORTED, "`llama.rope.dimension_count` is 32");
}

static int setup(void **state) {
    return harness_setup(state) == 0 ? scratch_setup(state) : -1;
}

static int teardown(void **state) {
    return scratch_teardown(state) == 0 ? harness_teardown(state) : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gguf_blocks_compute_as_their_values_in_each_precision),
        cmocka_unit_test(test_int8_of_any_type_has_blocks_of_8_bits),
        cmocka_unit_test(test_fp32_activations_give_the_logits_of_the_values),
        cmocka_unit_test(test_gguf_info_counts_types),
        cmocka_unit_test(test_gguf_models_that_cannot_run_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
