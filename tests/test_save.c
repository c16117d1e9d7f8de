/* A model on disk and back. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "harness.h"
#include "tfm/model.h"

enum { B = 2, S = 5, T = 4 };

static float *logits_of(tfm_model *model, int vocabulary, size_t *count) {
    tfm_context *ctx = harness_context();
    const int32_t source[B * S] = {3, 4, 5, 6, 0, 7, 8, 0, 1, 1}, target[B * T] = {9, 1, 2, 3, 9, 4, 4, 5},
                             lengths[B] = {5, 3};
    tfm_tensor encoded = {0}, logits = {0};
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor n = HARNESS_TENSOR(TFM_I32, lengths, B);
    harness_ok(tfm_model_encode(model, &encoded, HARNESS_TENSOR(TFM_I32, source, B, S), n));
    harness_ok(tfm_model_decode(model, &logits, HARNESS_TENSOR(TFM_I32, target, B, T), encoded, n));
    *count = (size_t)(B * T * vocabulary);
    assert_int_equal(tfm_tensor_count(logits), *count);
    float *host = harness_floats(logits);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    return host;
}

static void remove_dir(const char *dir) {
    char path[600];
    DIR *folder = opendir(dir);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
        unlink(path);
    }
    closedir(folder);
    rmdir(dir);
}

/* The model, saved and opened again, gives the same logits: to the bit from F32, nearly from halves. */
static void check(tfm_model *model, int vocabulary, tfm_dtype dtype) {
    char root[] = "/tmp/tfm-test-save-XXXXXX", dir[64];
    tfm_model *again;
    size_t count;
    assert_non_null(mkdtemp(root));
    snprintf(dir, sizeof(dir), "%s/made", root);
    harness_ok(tfm_model_save(model, dir, dtype));
    harness_ok(tfm_model_open(&again, harness_context(), dir, &(tfm_model_options){.no_tokenizer = true}));
    float *want = logits_of(model, vocabulary, &count), *got = logits_of(again, vocabulary, &count);
    const double most = dtype == TFM_F32 ? 0 : dtype == TFM_F16 ? 1e-2 : 1e-1;
    for (size_t i = 0; i < count; i++)
        assert_true(fabs((double)want[i] - got[i]) <= most);
    const tfm_model_info a = tfm_model_describe(model), b = tfm_model_describe(again);
    assert_int_equal(a.parameters, b.parameters);
    assert_int_equal(a.tied_output, b.tied_output);
    assert_int_equal(a.activation, b.activation);
    assert_string_equal(b.stored_dtype, tfm_dtype_name(dtype));
    free(want);
    free(got);
    tfm_model_free(&again);
    remove_dir(dir);
    rmdir(root);
}

static void test_created(void **state) {
    (void)state;
    const tfm_activation activations[] = {TFM_RELU, TFM_GELU, TFM_GELU_TANH, TFM_SILU};
    for (int i = 0; i < 4; i++) {
        tfm_model *model;
        harness_ok(tfm_model_create(&model, harness_context(),
                                    &(tfm_model_shape){.width = 24,
                                                       .heads = 3,
                                                       .feed_forward = 17,
                                                       .encoder_layers = 2,
                                                       .decoder_layers = 1,
                                                       .source_vocabulary = 11,
                                                       .target_vocabulary = i % 2 ? 13 : 0,
                                                       .max_positions = 9,
                                                       .pad_id = 10,
                                                       .start_id = 9,
                                                       .eos_id = 0,
                                                       .activation = activations[i],
                                                       .pre_norm = i >= 2,
                                                       .init = (tfm_init)(i % 3),
                                                       .seed = 5}));
        check(model, i % 2 ? 13 : 11, TFM_F32);
        check(model, i % 2 ? 13 : 11, i % 2 ? TFM_F16 : TFM_BF16);
        tfm_model_free(&model);
    }
}

/* Models of other makers: separate vocabularies, stored positions, a bias, norms after the embeddings. */
static void test_opened(void **state) {
    (void)state;
    static const char *const names[] = {"prenorm-silu-f16", "untied-gelu-bf16", "postnorm-relu-bias",
                                        "prenorm-embedding-norm"};
    for (int i = 0; i < 4; i++) {
        char path[64];
        tfm_model *model;
        snprintf(path, sizeof(path), "tests/golden/%s", names[i]);
        char *dir = harness_source(path);
        harness_ok(
            tfm_model_open(&model, harness_context(), dir, &(tfm_model_options){.no_tokenizer = true}));
        check(model, tfm_model_describe(model).target_vocabulary, TFM_F32);
        tfm_model_free(&model);
        free(dir);
    }
}

static void test_refused(void **state) {
    (void)state;
    tfm_model *model;
    char *dir = harness_source("tests/golden/gradients");
    harness_ok(tfm_model_open(&model, harness_context(), dir, &(tfm_model_options){.no_tokenizer = true}));
    assert_int_equal(tfm_model_save(model, "/tmp", TFM_I32), TFM_ERROR_ARGUMENT);
    assert_int_equal(tfm_model_save(model, "/proc/nowhere", TFM_F32), TFM_ERROR_IO);
    tfm_model_free(&model);
    free(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_created),
        cmocka_unit_test(test_opened),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
