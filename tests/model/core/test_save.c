/* Save round trips. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "support/harness.h"
#include "model/core/model.h"
#include "model/weights/tensors_write.h"

enum { B = 2, S = 5, T = 4 };

static float *logits_of(tfm_model *model, int vocabulary, size_t *count) {
    tfm_context *ctx = harness_context();
    const int32_t source[B * S] = {3, 4, 5, 6, 0, 7, 8, 0, 1, 1}, target[B * T] = {9, 1, 2, 3, 9, 4, 4, 5},
                             lengths[B] = {5, 3};
    tfm_tensor encoded = {0}, logits = {0};
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor n = HARNESS_TENSOR(TFM_I32, lengths, B);
    if (model->arch.encoder.layers > 0)
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

/* A saved and reopened model gives the same logits: bit-identical from F32, close from 16 bits. */
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
    const tfm_model_info a = *tfm_model_get_info(model), b = *tfm_model_get_info(again);
    assert_int_equal(a.parameters, b.parameters);
    assert_int_equal(a.tied_embeddings, b.tied_embeddings);
    assert_int_equal(a.activation, b.activation);
    assert_string_equal(b.stored_dtype, tfm_dtype_name(dtype));
    free(want);
    free(got);
    tfm_model_free(&again);
    remove_dir(dir);
    rmdir(root);
}

static void test_new_model_is_saved_and_opened(void **state) {
    (void)state;
    const tfm_activation activations[] = {TFM_RELU, TFM_GELU, TFM_GELU_TANH, TFM_SILU, TFM_NO_ACTIVATION};
    for (int i = 0; i < 5; i++) {
        tfm_model *model;
        harness_ok(tfm_model_new(&model, harness_context(),
                                 &(tfm_model_shape){.width = 24,
                                                    .heads = 3,
                                                    .ffn_dim = 17,
                                                    .encoder_layers = 2,
                                                    .decoder_layers = 1,
                                                    .source_vocab_size = 11,
                                                    .target_vocab_size = i % 2 ? 13 : 0,
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

/* Other architectures: separate vocabularies, stored positions, a bias, norms after the embeddings; other tensor names
 * and orders. */
static void test_opened_models_are_saved_and_opened(void **state) {
    (void)state;
    static const char *const names[] = {"prenorm-silu-f16",
                                        "untied-gelu-bf16",
                                        "postnorm-relu-bias",
                                        "prenorm-embedding-norm",
                                        "families/bart-untied-f32",
                                        "families/mbart-unscaled-bias-bf16",
                                        "families/pegasus-bin",
                                        "families/m2m_100-pad-9-bin",
                                        "families/t5-own-output-f16",
                                        "families/mt5-relu-bin",
                                        "families/umt5-odd-buckets-shards",
                                        "families/gpt_neox-parallel-2022-f16",
                                        "families/gpt_neox-serial-tied-bf16",
                                        "families/phi-head-norms-f16",
                                        "families/starcoder2-window-f16",
                                        "families/starcoder2-no-biases-bf16",
                                        "families/stablelm-parallel-bf16",
                                        "families/stablelm-tied-bin",
                                        "families/granite-multipliers-f16",
                                        "families/olmo2-grouped-f16",
                                        "families/gemma3_text-linear-f16",
                                        "families/phi3-partial-f16",
                                        "families/gptj-part-f16",
                                        "families/gptj-inner-bin",
                                        "families/codegen-three-heads-f16",
                                        "families/codegen-tied-bf16",
                                        "families/falcon-7b-f16",
                                        "families/falcon-40b-bf16",
                                        "families/falcon-11b-bin",
                                        "families/falcon-serial-f16",
                                        "families/bloom-three-heads-bf16",
                                        "families/mpt-scaled-bf16",
                                        "families/mpt-untied-bin",
                                        "families/cohere-head-norms-bf16",
                                        "families/cohere-biases-bin"};
    for (size_t i = 0; i < TFM__COUNT(names); i++) {
        char path[64];
        tfm_model *model;
        snprintf(path, sizeof(path), "tests/golden/%s", names[i]);
        char *dir = harness_source(path);
        print_message("# %s\n", names[i]);
        harness_ok(tfm_model_open(&model, harness_context(), dir, &(tfm_model_options){.no_tokenizer = true}));
        check(model, tfm_model_get_info(model)->target_vocab_size, TFM_F32);
        tfm_model_free(&model);
        free(dir);
    }
}

/* With a separate output projection, BART in transformers ties no table: both sides' tables are in the file. */
static void test_untied_bart_saves_both_embedding_tables(void **state) {
    (void)state;
    char root[] = "/tmp/tfm-test-save-XXXXXX", path[64], *dir = harness_source("tests/golden/families/bart-untied-f32");
    tfm_model *model;
    tfm__weights *saved;
    assert_non_null(mkdtemp(root));
    harness_ok(tfm_model_open(&model, harness_context(), dir, &(tfm_model_options){.no_tokenizer = true}));
    harness_ok(tfm_model_save(model, root, TFM_F32));
    snprintf(path, sizeof(path), "%s/model.safetensors", root);
    harness_ok(tfm__weights_open(&saved, path));
    assert_non_null(tfm__weights_find(saved, "model.encoder.embed_tokens.weight"));
    assert_non_null(tfm__weights_find(saved, "model.decoder.embed_tokens.weight"));
    assert_non_null(tfm__weights_find(saved, "lm_head.weight"));
    tfm__weights_free(&saved);
    tfm_model_free(&model);
    remove_dir(root);
    free(dir);
}

/* The files of two directories, byte by byte. */
static void same_files(const char *a, const char *b) {
    static const char *const names[] = {"model.safetensors", "config.json", "generation_config.json"};
    for (size_t i = 0; i < 3; i++) {
        char path[600], *bytes[2];
        size_t sizes[2];
        for (int k = 0; k < 2; k++) {
            snprintf(path, sizeof(path), "%s/%s", k ? b : a, names[i]);
            harness_ok(tfm__file_read(&bytes[k], &sizes[k], path));
        }
        assert_int_equal(sizes[0], sizes[1]);
        assert_memory_equal(bytes[0], bytes[1], sizes[0]);
        free(bytes[0]);
        free(bytes[1]);
    }
}

static bool append(void *user, size_t line, int best, const char *translation, double score) {
    char *text = user;
    snprintf(text + strlen(text), 4096 - strlen(text), "%zu %d %s %a\n", line, best, translation, score);
    return true;
}

/* Saving does not change the model: its translations, and a second save, are the same. */
static void test_saving_does_not_change_the_model(void **state) {
    (void)state;
    static const char *const names[] = {"prenorm-silu-f16", "untied-gelu-bf16", "postnorm-relu-bias",
                                        "prenorm-embedding-norm"};
    static const char *const lines[] = {"Ein Haus.", "Wo ist der Hund?"};
    for (int i = 0; i < 4; i++) {
        char path[64], root[] = "/tmp/tfm-test-save-XXXXXX", dirs[2][64], texts[2][4096] = {"", ""};
        tfm_model *model;
        assert_non_null(mkdtemp(root));
        snprintf(path, sizeof(path), "tests/golden/%s", names[i]);
        print_message("# %s\n", names[i]);
        char *dir = harness_source(path);
        harness_ok(tfm_model_open(&model, harness_context(), dir, NULL));
        const tfm_model_info before = *tfm_model_get_info(model);
        harness_ok(tfm_translate(model, lines, 2, NULL, append, texts[0]));
        for (int k = 0; k < 2; k++) {
            snprintf(dirs[k], sizeof(dirs[k]), "%s/%d", root, k);
            harness_ok(tfm_model_save(model, dirs[k], TFM_BF16));
            texts[1][0] = 0;
            harness_ok(tfm_translate(model, lines, 2, NULL, append, texts[1]));
            assert_string_equal(texts[0], texts[1]);
        }
        assert_memory_equal(&before, tfm_model_get_info(model), sizeof(before));
        same_files(dirs[0], dirs[1]);
        tfm_model_free(&model);
        free(dir);
        for (int k = 0; k < 2; k++)
            remove_dir(dirs[k]);
        rmdir(root);
    }
}

/* ---- File formats of other families ---------------------------------------------------------------------------- */

static tfm_model *small_model(void) {
    tfm_model *model = NULL;
    harness_ok(tfm_model_new(&model, harness_context(),
                             &(tfm_model_shape){.width = 8,
                                                .heads = 2,
                                                .ffn_dim = 12,
                                                .encoder_layers = 1,
                                                .decoder_layers = 1,
                                                .source_vocab_size = 10,
                                                .max_positions = 6,
                                                .pad_id = 9,
                                                .start_id = 9}));
    return model;
}

/* One tensor from the output of tfm_model_save, on the host. */
static float *saved_tensor(tfm_model *model, const char *name, int64_t rows, int64_t columns) {
    char dir[] = "/tmp/tfm-test-save-XXXXXX", path[64];
    tfm__weights *file = NULL;
    const tfm__stored_tensor *stored;
    assert_non_null(mkdtemp(dir));
    harness_ok(tfm_model_save(model, dir, TFM_F32));
    snprintf(path, sizeof(path), "%s/model.safetensors", dir);
    harness_ok(tfm__weights_open(&file, path));
    harness_ok(tfm__weights_get(file, &stored, name, 2, (int64_t[]){rows, columns}));
    float *values = malloc(stored->bytes);
    memcpy(values, stored->data, stored->bytes);
    tfm__weights_free(&file);
    remove_dir(dir);
    return values;
}

/* Three matrices fused in one tensor along the outputs, also if stored as (inputs, outputs). */
static void test_fused_qkv_tensor_is_split_and_joined(void **state) {
    (void)state;
    enum { WIDTH = 8 };
    for (int transposed = 0; transposed < 2; transposed++) {
        tfm_model *model = small_model();
        tfm__naming encoder[TFM__ROLES];
        memcpy(encoder, model->family->encoder, sizeof(encoder));
        for (tfm__role role = TFM__SELF_QUERY; role <= TFM__SELF_VALUE; role++)
            encoder[role] = (tfm__naming){"layers.#.qkv.weight", "layers.#.qkv.bias", transposed};
        tfm__family family = *model->family;
        family.encoder = encoder;
        model->family = &family;
        tfm_multi_head *a = &model->encoder.blocks[0].attention;
        float *parts[] = {harness_floats(a->query.weight.value), harness_floats(a->key.weight.value),
                          harness_floats(a->value.weight.value)};
        float *got = transposed ? saved_tensor(model, "layers.0.qkv.weight", WIDTH, 3 * WIDTH)
                                : saved_tensor(model, "layers.0.qkv.weight", 3 * WIDTH, WIDTH);
        for (int row = 0; row < 3 * WIDTH; row++)
            for (int column = 0; column < WIDTH; column++)
                assert_true(got[transposed ? column * 3 * WIDTH + row : row * WIDTH + column] ==
                            parts[row / WIDTH][row % WIDTH * WIDTH + column]);
        free(got);
        for (int i = 0; i < 3; i++)
            free(parts[i]);
        tfm_model_free(&model);
    }
}

/* Parts added as query, key, value and stored by row, in each order of rows; with 4 groups as CodeGen's Q, V, K. */
static void test_fused_parts_are_stored_by_first_row(void **state) {
    (void)state;
    enum { PARTS = 3, ROWS = 8, WIDTH = 2 };
    static const int64_t places[][PARTS] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    float values[PARTS][ROWS * WIDTH];
    tfm_tensor parts[PARTS];
    for (int i = 0; i < PARTS; i++) {
        for (int k = 0; k < ROWS * WIDTH; k++)
            values[i][k] = (float)(100 * i + k);
        parts[i] = HARNESS_TENSOR(TFM_F32, values[i], ROWS, WIDTH);
    }
    for (int test = 0; test < 12; test++) {
        const int64_t *place = places[test / 2], groups = test % 2 ? 4 : 1, run = ROWS / groups;
        char dir[] = "/tmp/tfm-test-save-XXXXXX", path[64];
        tfm__tensor_entry entry = {.name = "qkv", .x = parts[0], .dtype = TFM_F32, .groups = groups};
        tfm__weights *file;
        const tfm__stored_tensor *stored;
        entry.part_first[0] = place[0] * run;
        for (int i = 1; i < PARTS; i++)
            tfm__tensor_entry_add_part(&entry, parts[i], place[i] * run);
        assert_non_null(mkdtemp(dir));
        snprintf(path, sizeof(path), "%s/model.safetensors", dir);
        harness_ok(tfm__tensors_write(harness_context(), path, &entry, 1, NULL, 0, false));
        harness_ok(tfm__weights_open(&file, path));
        harness_ok(tfm__weights_get(file, &stored, "qkv", 2, (int64_t[]){PARTS * ROWS, WIDTH}));
        for (int i = 0; i < PARTS; i++)
            for (int64_t g = 0; g < groups; g++)
                assert_memory_equal(stored->data + (g * PARTS + place[i]) * run * WIDTH * (int64_t)sizeof(float),
                                    values[i] + g * run * WIDTH, (size_t)(run * WIDTH) * sizeof(float));
        tfm__weights_free(&file);
        remove_dir(dir);
    }
}

/* A learned position table with rows before position 0 is saved with them. */
static void test_position_table_offset_is_saved(void **state) {
    (void)state;
    enum { ROWS = 6, OFFSET = 2, WIDTH = 8 };
    tfm_context *ctx = harness_context();
    tfm_model *model = small_model();
    tfm__stack *stacks[] = {&model->encoder, &model->decoder};
    tfm__stack_arch *archs[] = {&model->arch.encoder, &model->arch.decoder};
    float table[(ROWS + OFFSET) * WIDTH];
    for (int i = 0; i < (ROWS + OFFSET) * WIDTH; i++)
        table[i] = (float)i;
    for (int i = 0; i < 2; i++) {
        tfm_tensor *whole = &stacks[i]->learned_positions.value;
        tfm_tensor_free(ctx, &stacks[i]->positions);
        harness_ok(tfm__tensor_new_persistent(ctx, whole, TFM_F32, 2, (int64_t[]){ROWS + OFFSET, WIDTH}));
        harness_ok(tfm_tensor_write(ctx, *whole, table));
        archs[i]->positions = TFM__LEARNED_POSITIONS;
        archs[i]->position_offset = OFFSET;
    }
    float *got =
        saved_tensor(model, tfm__role_naming(model->family, true, TFM__POSITIONS)->weight, ROWS + OFFSET, WIDTH);
    assert_memory_equal(got, table, sizeof(table));
    free(got);
    model->info.parameters += 2 * sizeof(table) / sizeof(table[0]); /* they are learned now */
    check(model, 10, TFM_F32);
    tfm_model_free(&model);
}

/* The saved generation_config.json of a model opened with this one; it has `words`. */
static json_t *saved_rules(const char *from, const char *rules, bool chosen, const char *words) {
    char root[] = "/tmp/tfm-test-save-XXXXXX", path[128], *text;
    size_t bytes_read;
    static const char *const files[] = {"config.json", "model.safetensors"};
    tfm_model *model;
    assert_non_null(mkdtemp(root));
    for (size_t i = 0; i < TFM__COUNT(files); i++) {
        char *dir = harness_source(from), *source = tfm__path_join(dir, files[i]), *bytes;
        size_t size;
        snprintf(path, sizeof(path), "%s/%s", root, files[i]);
        harness_ok(tfm__file_read(&bytes, &size, source));
        harness_ok(tfm__file_write(path, bytes, size));
        free(bytes);
        free(source);
        free(dir);
    }
    snprintf(path, sizeof(path), "%s/generation_config.json", root);
    harness_ok(tfm__file_write(path, rules, strlen(rules)));
    harness_ok(tfm_model_open(&model, harness_context(), root, &(tfm_model_options){.no_tokenizer = true}));
    if (chosen)
        model->rules.forced_bos_id = 7; /* as tfm_model_set_target_language does */
    harness_ok(tfm_model_save(model, root, TFM_F32));
    tfm_model_free(&model);
    harness_ok(tfm__file_read(&text, &bytes_read, path));
    json_t *saved = json_loadb(text, bytes_read, 0, NULL);
    assert_non_null(saved);
    assert_non_null(memmem(text, bytes_read, words, strlen(words)));
    free(text);
    remove_dir(root);
    return saved;
}

#define SAMPLING                                                                                                       \
    "\"do_sample\": true, \"temperature\": 0.6, \"top_k\": 0, \"typical_p\": 0.9, \"stop_strings\": [\"x\"], "         \
    "\"use_cache\": false, \"cache_implementation\": \"static\", \"of_later\": {\"a\": [1]}, \"min_length\": null, "   \
    "\"suppress_tokens\": [3, 4], \"bad_words_ids\": [[5], [6, 7]], \"eos_token_id\": [1, 2], \"max_length\": 20, "    \
    "\"transformers_version\": \"4.40\""
#define BEAMS                                                                                                          \
    "\"do_sample\": true, \"of_later\": 0.30000000000000004, \"length_penalty\": 0.5, \"forced_eos_token_id\": 4, "

/* A directory's generation_config.json is preserved: also unknown and unsupported keys. */
static void test_unknown_generation_config_keys_are_saved(void **state) {
    (void)state;
    static const struct {
        const char *from, *rules, *want, *words; /* numbers keep their text and value */
        bool chosen;
    } cases[] = {
        {"tests/golden/gradients-llama", "{\"_from_model_config\": true, " SAMPLING "}",
         "{" SAMPLING ", \"bos_token_id\": null, \"pad_token_id\": null}", "\"temperature\": 0.6,", false},
        /* Ids from config.json, and a first id chosen later. */
        {"tests/golden/postnorm-relu-bias", "{" BEAMS "\"forced_bos_token_id\": 3}",
         "{" BEAMS "\"forced_bos_token_id\": 7, \"decoder_start_token_id\": 5, \"eos_token_id\": 5, "
         "\"pad_token_id\": 0}",
         "\"of_later\": 0.30000000000000004,", true},
    };
    for (size_t i = 0; i < TFM__COUNT(cases); i++) {
        json_t *got = saved_rules(cases[i].from, cases[i].rules, cases[i].chosen, cases[i].words);
        json_t *want = json_loads(cases[i].want, 0, NULL);
        char *text = json_dumps(got, JSON_COMPACT);
        print_message("# %s\n", text);
        assert_non_null(want);
        assert_true(json_equal(got, want));
        free(text);
        json_decref(got);
        json_decref(want);
    }
}

static void test_save_rejects_bad_dtype_and_path(void **state) {
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
        cmocka_unit_test(test_new_model_is_saved_and_opened),
        cmocka_unit_test(test_opened_models_are_saved_and_opened),
        cmocka_unit_test(test_untied_bart_saves_both_embedding_tables),
        cmocka_unit_test(test_saving_does_not_change_the_model),
        cmocka_unit_test(test_fused_qkv_tensor_is_split_and_joined),
        cmocka_unit_test(test_fused_parts_are_stored_by_first_row),
        cmocka_unit_test(test_position_table_offset_is_saved),
        cmocka_unit_test(test_unknown_generation_config_keys_are_saved),
        cmocka_unit_test(test_save_rejects_bad_dtype_and_path),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
