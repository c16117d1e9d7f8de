/* Embeddings, classification and fill-mask against transformers (tests/golden/make_embedder.py), and inconsistent
 * directories. */
#include <dlfcn.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <sys/stat.h>
#include "base/json.h"
#include "dev/device/context_internal.h"
#include "support/scratch.h"
#include "support/tensors_file.h"
#include "tfm/tfm.h"

#define GOLDEN "tests/golden/"

enum { MOST = 16, WIDTH = 10 };

static json_t *golden_of(const char *folder) {
    char name[64];
    json_t *golden = NULL;
    snprintf(name, sizeof(name), GOLDEN "%s/golden.json", folder);
    char *path = harness_source(name);
    harness_ok(tfm__json_load(&golden, path));
    free(path);
    return golden;
}

static size_t strings_of(const char **out, const json_t *list) {
    const size_t count = json_array_size(list);
    assert_true(count > 0 && count <= MOST);
    for (size_t i = 0; i < count; i++)
        out[i] = json_string_value(json_array_get(list, i));
    return count;
}

/* Rows of `width` numbers within `tolerance` of a list of lists. */
static void check_rows(const float *got, const json_t *want, size_t width, double tolerance) {
    for (size_t i = 0; i < json_array_size(want); i++) {
        const json_t *row = json_array_get(want, i);
        assert_int_equal(json_array_size(row), width);
        for (size_t k = 0; k < width; k++) {
            const double off = fabs((double)got[i * width + k] - json_real_value(json_array_get(row, k)));
            if (!(off <= tolerance))
                print_message("# row %zu, number %zu is off by %g\n", i, k, off);
            assert_true(off <= tolerance);
        }
    }
}

static tfm_embedder *open_golden(const tfm_embedder_options *options) {
    tfm_embedder *e = NULL;
    char *dir = harness_source(GOLDEN "embedder");
    harness_ok(tfm_embedder_open(&e, harness_context(), dir, options));
    free(dir);
    return e;
}

/* ---- Embeddings --------------------------------------------------------------------------------------- */

static void test_embeddings_match_sentence_transformers(void **state) {
    (void)state;
    json_t *golden = golden_of("embedder");
    const char *texts[MOST];
    const size_t count = strings_of(texts, json_object_get(golden, "texts"));
    float vectors[MOST * WIDTH];
    tfm_embed_stats stats = {0};
    tfm_embedder *e = open_golden(NULL);
    const tfm_embedder_info *info = tfm_embedder_get_info(e);
    assert_int_equal(info->width, WIDTH);
    assert_int_equal(info->max_tokens, 16);
    assert_string_equal(info->pooling, "cls+max+mean+mean_sqrt_len_tokens+weightedmean+lasttoken");
    assert_true(info->normalized && info->lower_case && info->dense_layers == 1 && info->prompt_count == 1);
    harness_ok(tfm_embed(e, vectors, texts, count, &(tfm_embed_options){.stats = &stats}));
    check_rows(vectors, json_object_get(golden, "vectors"), WIDTH, 2e-6);
    assert_int_equal(stats.lines, count);
    assert_int_equal(stats.truncated, json_integer_value(json_object_get(golden, "truncated")));
    /* Small batches give the same embeddings. */
    harness_ok(tfm_embed(e, vectors, texts, count, &(tfm_embed_options){.batch_tokens = 20}));
    check_rows(vectors, json_object_get(golden, "vectors"), WIDTH, 2e-6);
    assert_null(tfm_embedder_prompt(e, NULL));
    assert_null(tfm_embedder_prompt(e, "document"));
    assert_string_equal(tfm_embedder_prompt_name(e, 0), "query");
    assert_null(tfm_embedder_prompt_name(e, 1));
    harness_ok(tfm_embed(e, vectors, texts, count, &(tfm_embed_options){.prompt = tfm_embedder_prompt(e, "query")}));
    check_rows(vectors, json_object_get(golden, "prompted"), WIDTH, 2e-6);
    tfm_embedder_free(&e);
    assert_null(e);
    json_decref(golden);
}

/* A directory like those of gtr-t5 and sentence-t5. */
static void test_sentence_t5_embeddings_match_reference(void **state) {
    (void)state;
    enum { SIZE = 6 };
    json_t *golden = golden_of("sentence_t5");
    const char *texts[MOST];
    const size_t count = strings_of(texts, json_object_get(golden, "texts"));
    float vectors[MOST * SIZE];
    tfm_embed_stats stats = {0};
    tfm_embedder *e = NULL;
    char *dir = harness_source(GOLDEN "sentence_t5");
    harness_ok(tfm_embedder_open(&e, harness_context(), dir, NULL));
    const tfm_embedder_info *info = tfm_embedder_get_info(e);
    assert_true(info->width == SIZE && info->max_tokens == 24 && info->normalized && info->dense_layers == 1);
    assert_string_equal(info->pooling, "mean");
    harness_ok(tfm_embed(e, vectors, texts, count, &(tfm_embed_options){.stats = &stats}));
    check_rows(vectors, json_object_get(golden, "vectors"), SIZE, 2e-6);
    assert_int_equal(stats.truncated, json_integer_value(json_object_get(golden, "truncated")));
    tfm_embedder_free(&e);
    free(dir);
    json_decref(golden);
}

static double length_of(const float *x, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

/* The caller's options override the directory's. */
static void test_embedder_options_precede_the_directory(void **state) {
    (void)state;
    const char *const texts[] = {"the cat", "a dog plays in the garden"};
    float vectors[2 * 16];
    tfm_embedder *e = open_golden(&(tfm_embedder_options){.normalize = TFM_NORMALIZE_OFF});
    assert_false(tfm_embedder_get_info(e)->normalized);
    harness_ok(tfm_embed(e, vectors, texts, 2, NULL));
    assert_true(fabs(length_of(vectors, WIDTH) - 1) > 0.1);
    tfm_embedder_free(&e);
    /* Without modules.json the mean of the tokens, not normalized. */
    char *dir = harness_source(GOLDEN "embedder/0_Transformer");
    harness_ok(tfm_embedder_open(&e, harness_context(), dir, NULL));
    assert_string_equal(tfm_embedder_get_info(e)->pooling, "mean");
    assert_int_equal(tfm_embedder_get_info(e)->width, 16);
    tfm_embedder_free(&e);
    harness_ok(tfm_embedder_open(
        &e, harness_context(), dir,
        &(tfm_embedder_options){.has_pooling = true, .pooling = TFM_POOL_MAX, .normalize = TFM_NORMALIZE_ON}));
    harness_ok(tfm_embed(e, vectors, texts, 2, NULL));
    assert_true(fabs(length_of(vectors + 16, 16) - 1) < 1e-6);
    tfm_embedder_free(&e);
    free(dir);
}

/* Ids need no tokenizer, and give the embedding of their text. */
static void test_embeddings_of_ids_equal_those_of_text(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const char *const texts[] = {"the cat sits", "a dog plays in the garden"};
    int32_t ids[2 * MOST] = {0}, lengths[2];
    float want[2 * WIDTH];
    tfm_embedder *e = open_golden(NULL), *bare = open_golden(&(tfm_embedder_options){.no_tokenizer = true});
    for (int i = 0; i < 2; i++) {
        int32_t *own = NULL;
        size_t count;
        harness_ok(tfm_tokenizer_encode(tfm_model_tokenizer(tfm_embedder_model(e)), &own, &count, TFM_SOURCE, texts[i],
                                        strlen(texts[i])));
        assert_true(count <= MOST);
        memcpy(ids + i * MOST, own, count * sizeof(*own));
        lengths[i] = (int32_t)count;
        tfm_ids_free(&own);
    }
    harness_ok(tfm_embed(e, want, texts, 2, NULL));
    tfm_tensor vectors = {0}, t = HARNESS_TENSOR(TFM_I32, ids, 2, MOST), l = HARNESS_TENSOR(TFM_I32, lengths, 2);
    harness_ok(tfm_embed_ids(bare, &vectors, t, l, 0));
    float *got = harness_floats(vectors);
    for (int i = 0; i < 2 * WIDTH; i++)
        assert_true(fabs((double)(got[i] - want[i])) < 1e-6);
    free(got);
    const tfm_prompt given[] = {{.ids = ids, .count = (size_t)lengths[0]},
                                {.ids = ids + MOST, .count = (size_t)lengths[1]}};
    float listed[2 * WIDTH];
    harness_ok(tfm_embed(bare, listed, NULL, 2, &(tfm_embed_options){.token_ids = given}));
    for (int i = 0; i < 2 * WIDTH; i++)
        assert_true(fabs((double)(listed[i] - want[i])) < 1e-6);
    harness_refused(tfm_embed(bare, want, texts, 2, NULL), TFM_ERROR_ARGUMENT, "without its tokenizer");
    harness_refused(tfm_embed(bare, want, texts, 2, &(tfm_embed_options){.batch_tokens = -1}), TFM_ERROR_ARGUMENT,
                    "embed: batch_tokens is -1");
    tfm_tensor_free(ctx, &vectors);
    tfm_embedder_free(&e);
    tfm_embedder_free(&bare);
}

static void test_bad_token_ids_are_bad_lines(void **state) {
    (void)state;
    const int32_t ids[2 * MOST + 1] = {2, 5, 3}, large[] = {2, 89}, negative[] = {-1};
    const tfm_prompt cases[] = {{.ids = ids, .count = 0},
                                {.ids = ids, .count = MOST + 1},
                                {.ids = large, .count = 2},
                                {.ids = negative, .count = 1},
                                {.ids = NULL, .count = 1}};
    static const char *const PARTS[] = {"it has 0 token ids", "it has 17 token ids, and the model takes 1 to 16",
                                        "the token id 89, and the vocabulary ends at 88", "the token id -1",
                                        "it has 0 token ids"};
    float vector[WIDTH];
    tfm_embedder *e = open_golden(NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        harness_refused(tfm_embed(e, vector, NULL, 1, &(tfm_embed_options){.token_ids = &cases[i]}), TFM_ERROR_INPUT,
                        PARTS[i]);
    harness_refused(tfm_embed(e, vector, (const char *[]){"a"}, 1,
                              &(tfm_embed_options){.token_ids = cases, .text_pairs = (const char *[]){"b"}}),
                    TFM_ERROR_ARGUMENT, "token_ids and text_pairs");
    tfm_embedder_free(&e);
}

static void test_truncated_embeddings_have_unit_length(void **state) {
    (void)state;
    float x[] = {3, 4, 12, 0, 0, 5, NAN, 1, 1}, same[] = {3, 4};
    const float want[] = {0.6F, 0.8F, 0, 0};
    harness_ok(tfm_embeddings_truncate(x, 3, 3, 2));
    for (int i = 0; i < 4; i++)
        assert_true(fabs((double)(x[i] - want[i])) < 1e-7);
    assert_true(isnan(x[4]));
    harness_ok(tfm_embeddings_truncate(same, 1, 2, 2));
    assert_true(same[0] == 3 && same[1] == 4);
    harness_refused(tfm_embeddings_truncate(same, 1, 2, 3), TFM_ERROR_ARGUMENT, "3 dimensions of 2: give 1 to 2");
    harness_refused(tfm_embeddings_truncate(same, 1, 2, 0), TFM_ERROR_ARGUMENT, "0 dimensions of 2");
}

typedef struct rejects {
    size_t count, line;
} rejects;

static bool on_reject(void *user, size_t line, const char *message) {
    rejects *r = user;
    r->count++;
    r->line = line;
    return strstr(message, "UTF-8") != NULL;
}

static void test_bad_line_has_nan_embedding_and_is_reported(void **state) {
    (void)state;
    const char *const texts[] = {"the cat", "\xff", "a dog"};
    float vectors[3 * WIDTH], alone[WIDTH];
    rejects r = {0};
    tfm_embedder *e = open_golden(NULL);
    harness_ok(tfm_embed(e, vectors, texts, 3, &(tfm_embed_options){.reject = on_reject, .reject_user = &r}));
    assert_true(r.count == 1 && r.line == 1 && isnan(vectors[WIDTH]) && isnan(vectors[2 * WIDTH - 1]));
    harness_ok(tfm_embed(e, alone, texts + 2, 1, NULL));
    for (int i = 0; i < WIDTH; i++)
        assert_true(fabs((double)(alone[i] - vectors[2 * WIDTH + i])) < 1e-6);
    harness_refused(tfm_embed(e, vectors, texts, 3, NULL), TFM_ERROR_INPUT, "line 2: ");
    tfm_embedder_free(&e);
}

/* ---- Heads -------------------------------------------------------------------------------------------- */

static tfm_model *open_model(const char *folder) {
    char name[64];
    tfm_model *model = NULL;
    snprintf(name, sizeof(name), GOLDEN "%s", folder);
    char *dir = harness_source(name);
    harness_ok(tfm_model_open(&model, harness_context(), dir, NULL));
    free(dir);
    return model;
}

static void test_class_probabilities_match_transformers(void **state) {
    (void)state;
    json_t *golden = golden_of("classifier"), *pairs = json_object_get(golden, "pairs");
    const char *texts[MOST], *firsts[MOST], *seconds[MOST];
    const size_t count = strings_of(texts, json_object_get(golden, "texts"));
    float scores[MOST * 3];
    tfm_model *model = open_model("classifier");
    assert_int_equal(tfm_model_class_count(model), 3);
    assert_string_equal(tfm_model_class_name(model, 1), "entailment");
    assert_null(tfm_model_class_name(model, 3));
    harness_ok(tfm_classify(model, scores, texts, count, NULL));
    check_rows(scores, json_object_get(golden, "scores"), 3, 2e-6);
    for (size_t i = 0; i < json_array_size(pairs); i++) {
        firsts[i] = json_string_value(json_array_get(json_array_get(pairs, i), 0));
        seconds[i] = json_string_value(json_array_get(json_array_get(pairs, i), 1));
    }
    harness_ok(
        tfm_classify(model, scores, firsts, json_array_size(pairs), &(tfm_embed_options){.text_pairs = seconds}));
    check_rows(scores, json_object_get(golden, "pair_scores"), 3, 2e-6);
    harness_refused(
        tfm_fill_mask(model, texts, count, 3, NULL, (tfm_mask_prediction_fn)(void (*)(void))on_reject, NULL),
        TFM_ERROR_ARGUMENT, "has no head for masked tokens");
    tfm_model_free(&model);
    json_decref(golden);
}

typedef struct guesses {
    const json_t *words;
    size_t count;
    bool stop;
} guesses;

static bool on_guess(void *user, const tfm_mask_prediction *guess) {
    guesses *g = user;
    const json_t *want = json_array_get(json_array_get(g->words, g->count / 3), g->count % 3);
    assert_int_equal(guess->rank, g->count % 3);
    assert_string_equal(guess->text, json_string_value(json_array_get(want, 0)));
    assert_true(fabs(guess->probability - json_real_value(json_array_get(want, 1))) < 2e-6);
    g->count++;
    return !g->stop;
}

static void test_fill_mask_matches_transformers(void **state) {
    (void)state;
    json_t *golden = golden_of("masked");
    const char *texts[MOST];
    const size_t count = strings_of(texts, json_object_get(golden, "texts"));
    guesses g = {.words = json_object_get(golden, "words")};
    tfm_model *model = open_model("masked");
    harness_ok(tfm_fill_mask(model, texts, count, 3, NULL, on_guess, &g));
    assert_int_equal(g.count, 3 * json_array_size(g.words));
    g = (guesses){.words = g.words, .stop = true};
    harness_refused(tfm_fill_mask(model, texts, count, 3, NULL, on_guess, &g), TFM_ERROR_CANCELLED, "line 1");
    harness_refused(tfm_fill_mask(model, (const char *[]){"no mask"}, 1, 3, NULL, on_guess, &g), TFM_ERROR_INPUT,
                    "there is no [MASK]");
    harness_refused(tfm_fill_mask(model, texts, count, 65, NULL, on_guess, &g), TFM_ERROR_ARGUMENT, "top is 65");
    harness_refused(tfm_classify(model, NULL, texts, count, NULL), TFM_ERROR_ARGUMENT, "scores is NULL");
    harness_refused(tfm_classify(model, (float[64]){0}, texts, count, NULL), TFM_ERROR_ARGUMENT,
                    "has no classification head");
    tfm_model_free(&model);
    json_decref(golden);
}

typedef struct sparse_check {
    const json_t *want;
    size_t lines[MOST], count;
    bool stop;
} sparse_check;

static bool on_sparse(void *user, const tfm_sparse_embedding *v) {
    sparse_check *c = user;
    const json_t *row = json_array_get(c->want, v->line);
    size_t k = 0;
    for (size_t id = 0; row && id < json_array_size(row); id++) {
        const double want = json_real_value(json_array_get(row, id));
        const bool has = k < v->count && v->ids[k] == (int32_t)id;
        assert_true(fabs((has ? (double)v->weights[k] : 0) - want) <= 1e-5 && (!has || v->weights[k] > 0));
        k += has;
    }
    assert_true(!row || k == v->count);
    c->lines[c->count++] = v->line;
    return !c->stop;
}

static void test_sparse_embeddings_match_splade_pooling(void **state) {
    (void)state;
    json_t *golden = golden_of("masked");
    const char *texts[MOST], *const bad[] = {"a dog", "\xff", ""};
    const size_t count = strings_of(texts, json_object_get(golden, "texts"));
    sparse_check all = {.want = json_object_get(golden, "sparse")}, small = all, none = {.want = NULL};
    rejects r = {0};
    tfm_model *model = open_model("masked");
    harness_ok(tfm_embed_sparse(model, texts, count, NULL, on_sparse, &all));
    assert_true(all.count == count && all.lines[0] == 0 && all.lines[count - 1] == count - 1);
    harness_ok(tfm_embed_sparse(model, texts, count, &(tfm_embed_options){.batch_tokens = 1}, on_sparse, &small));
    assert_int_equal(small.count, count);
    harness_ok(tfm_embed_sparse(model, bad, 3, &(tfm_embed_options){.reject = on_reject, .reject_user = &r}, on_sparse,
                                &none));
    assert_true(r.count == 1 && none.count == 2 && none.lines[0] == 0 && none.lines[1] == 2);
    none = (sparse_check){.stop = true};
    harness_refused(tfm_embed_sparse(model, texts, count, NULL, on_sparse, &none), TFM_ERROR_CANCELLED, "line 1");
    const tfm_prompt ids = {.ids = (const int32_t[]){2, 3}, .count = 2};
    harness_refused(tfm_embed_sparse(model, texts, 1, &(tfm_embed_options){.token_ids = &ids}, on_sparse, &none),
                    TFM_ERROR_ARGUMENT, "token_ids");
    harness_refused(tfm_fill_mask(model, texts, 1, 1, &(tfm_embed_options){.token_ids = &ids},
                                  (tfm_mask_prediction_fn)(void (*)(void))on_reject, NULL),
                    TFM_ERROR_ARGUMENT, "token_ids are not supported");
    tfm_model_free(&model);
    model = open_model("classifier");
    harness_refused(tfm_embed_sparse(model, texts, 1, NULL, on_sparse, &none), TFM_ERROR_ARGUMENT,
                    "has no head for masked tokens");
    tfm_model_free(&model);
    json_decref(golden);
}

/* ---- Directories -------------------------------------------------------------------------------------- */

static void copy_embedder(void) {
    static const char *const folders[] = {"0_Transformer", "1_Pooling", "2_Dense"};
    static const char *const files[] = {"modules.json",
                                        "config_sentence_transformers.json",
                                        "0_Transformer/config.json",
                                        "0_Transformer/model.safetensors",
                                        "0_Transformer/tokenizer.json",
                                        "0_Transformer/tokenizer_config.json",
                                        "0_Transformer/sentence_bert_config.json",
                                        "1_Pooling/config.json",
                                        "2_Dense/config.json",
                                        "2_Dense/model.safetensors"};
    for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++)
        mkdir(scratch_path(folders[i]), 0700);
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
        char from[128];
        snprintf(from, sizeof(from), GOLDEN "embedder/%s", files[i]);
        scratch_copy(from, files[i]);
    }
}

#define MODULE(path, kind) "{\"path\": \"" path "\", \"type\": \"sentence_transformers.models." kind "\"}"

/* Directory info needs no device, and equals that of the open embedder; also with the older file for its limits. */
static void test_embedder_info_without_device_equals_opened(void **state) {
    (void)state;
    tfm_embedder *e = NULL;
    tfm_embedder_info info;
    tfm_model_info encoder;
    copy_embedder();
    assert_int_equal(rename(scratch_path("0_Transformer/sentence_bert_config.json"),
                            scratch_path("0_Transformer/sentence_roberta_config.json")),
                     0);
    harness_ok(tfm_embedder_read_info(&info, &encoder, scratch_root, NULL));
    harness_ok(tfm_embedder_open(&e, harness_context(), scratch_root, NULL));
    const tfm_embedder_info *want = tfm_embedder_get_info(e);
    const tfm_model_info *model = tfm_model_get_info(tfm_embedder_model(e));
    assert_string_equal(info.pooling, "cls+max+mean+mean_sqrt_len_tokens+weightedmean+lasttoken");
    assert_string_equal(info.pooling, want->pooling);
    assert_true(info.width == WIDTH && info.width == want->width);
    assert_true(info.max_tokens == 16 && info.max_tokens == want->max_tokens);
    assert_true(info.normalized && info.lower_case && info.dense_layers == 1 && info.prompt_count == 1);
    assert_string_equal(encoder.family, "bert");
    assert_true(encoder.width == 16 && encoder.parameters == model->parameters);
    tfm_embedder_free(&e);
    assert_int_equal(remove(scratch_path("0_Transformer/tokenizer.json")), 0);
    harness_refused(tfm_embedder_read_info(&info, &encoder, scratch_root, NULL), TFM_ERROR_IO, "vocab.json");
    harness_ok(tfm_embedder_read_info(&info, &encoder, scratch_root,
                                      &(tfm_embedder_options){.no_tokenizer = true, .normalize = TFM_NORMALIZE_OFF}));
    assert_false(info.normalized);
}

/* Simulated work-group limit of the driver per kernel; 0: the real one. */
static size_t most_items;
static unsigned asked;

cl_int clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info what, size_t room,
                                void *value, size_t *size) {
    cl_int (*real)(cl_kernel, cl_device_id, cl_kernel_work_group_info, size_t, void *, size_t *);
    *(void **)&real = dlsym(RTLD_NEXT, "clGetKernelWorkGroupInfo");
    const cl_int code = real(kernel, device, what, room, value, size);
    if (most_items && what == CL_KERNEL_WORK_GROUP_SIZE && code == CL_SUCCESS && value) {
        *(size_t *)value = most_items;
        asked++;
    }
    return code;
}

/* The numbers of an F32 file as BF16, which a device converts to F32 by a kernel. */
static void make_bf16(const char *name) {
    char *file, text[8192], *type;
    size_t size;
    harness_ok(tfm__file_read(&file, &size, scratch_path(name)));
    uint64_t bytes;
    memcpy(&bytes, file, 8);
    json_t *header = json_loadb(file + 8, bytes, 0, NULL), *entry;
    const char *key;
    json_object_foreach(header, key, entry) {
        json_t *ends = json_object_get(entry, "data_offsets");
        if (!ends)
            continue;
        json_object_set_new(entry, "dtype", json_string("BF16"));
        for (size_t i = 0; i < 2; i++)
            json_array_set_new(ends, i, json_integer(json_integer_value(json_array_get(ends, i)) / 2));
    }
    type = json_dumps(header, JSON_COMPACT);
    assert_true(type && strlen(type) + size < sizeof(text));
    const uint64_t length = strlen(type);
    memcpy(text, &length, 8);
    memcpy(text + 8, type, length);
    size_t at = 8 + length;
    for (size_t i = 8 + bytes; i < size; i += 4, at += 2)
        memcpy(text + at, file + i + 2, 2);
    scratch_write(name, text, at);
    json_decref(header);
    free(type);
    free(file);
}

/* A driver that rejects the kernel's work-group size while an embedder is opened: it opens with smaller ones. */
static void test_embedder_opens_with_reduced_workgroups(void **state) {
    (void)state;
    const char *const texts[] = {"the cat sits"};
    char device[16];
    float want[WIDTH], got[WIDTH];
    tfm_context *ctx;
    tfm_embedder *e;
    copy_embedder();
    make_bf16("2_Dense/model.safetensors");
    snprintf(device, sizeof(device), "%d", tfm_context_device(harness_context())->index);
    harness_ok(tfm_embedder_open(&e, harness_context(), scratch_root, NULL));
    harness_ok(tfm_embed(e, want, texts, 1, NULL));
    tfm_embedder_free(&e);
    harness_ok(tfm_context_open(&ctx, &(tfm_context_options){.device = device, .variant = "gpu"}));
    most_items = 16;
    const tfm_status status = tfm_embedder_open(&e, ctx, scratch_root, NULL);
    most_items = 0;
    harness_ok(status);
    assert_true(asked > 0);
    harness_ok(tfm_embed(e, got, texts, 1, NULL));
    for (int i = 0; i < WIDTH; i++)
        assert_true(fabsf(got[i] - want[i]) < 1e-5f);
    tfm_embedder_free(&e);
    tfm_context_free(&ctx);
}

/* Leading and trailing white space is left to the tokenizer, as in sentence-transformers 5.4 and later: here a line is
 * a word. */
static void test_white_space_around_a_line_reaches_the_tokenizer(void **state) {
    (void)state;
    static const char *const lines[] = {"cat", " cat", "[UNK]"};
    tfm_embedder *e = NULL;
    float vectors[3 * WIDTH];
    copy_embedder();
    json_t *tokenizer;
    harness_ok(tfm__json_load(&tokenizer, scratch_path("0_Transformer/tokenizer.json")));
    json_object_set_new(tokenizer, "normalizer", json_null());
    json_object_set_new(tokenizer, "pre_tokenizer", json_null());
    assert_int_equal(json_dump_file(tokenizer, scratch_path("0_Transformer/tokenizer.json"), 0), 0);
    json_decref(tokenizer);
    harness_ok(tfm_embedder_open(&e, harness_context(), scratch_root, NULL));
    harness_ok(tfm_embed(e, vectors, lines, 3, NULL));
    assert_memory_not_equal(vectors, vectors + WIDTH, WIDTH * sizeof(*vectors));
    assert_memory_equal(vectors + WIDTH, vectors + 2 * WIDTH, WIDTH * sizeof(*vectors));
    tfm_embedder_free(&e);
}

/* Keys of newer versions; several poolings are concatenated in list order. */
static void test_newer_sentence_transformers_keys_are_read(void **state) {
    (void)state;
    tfm_embedder_info info;
    tfm_model_info encoder;
    copy_embedder();
    scratch_text("config_sentence_transformers.json",
                 "{\"model_type\": \"SentenceTransformer\", \"prompts\": {\"query\": \"q \"}}");
    scratch_text("0_Transformer/sentence_bert_config.json",
                 "{\"transformer_task\": \"feature-extraction\", \"module_output_name\": \"token_embeddings\", "
                 "\"modality_config\": {\"text\": {\"method\": \"forward\", "
                 "\"method_output_name\": \"last_hidden_state\"}}, \"processing_kwargs\": {}}");
    scratch_text(
        "1_Pooling/config.json",
        "{\"embedding_dimension\": 16, \"include_prompt\": true, \"pooling_mode\": [\"weightedmean\", \"mean\", "
        "\"lasttoken\", \"cls\", \"mean_sqrt_len_tokens\", \"max\"]}");
    harness_ok(tfm_embedder_read_info(&info, &encoder, scratch_root, NULL));
    assert_string_equal(info.pooling, "weightedmean+mean+lasttoken+cls+mean_sqrt_len_tokens+max");
    scratch_text("modules.json", "[" MODULE("0_Transformer", "Transformer") "," MODULE("1_Pooling", "Pooling") "]");
    scratch_text("1_Pooling/config.json", "{\"word_embedding_dimension\": 16, \"pooling_mode_mean_tokens\": false}");
    harness_ok(tfm_embedder_read_info(&info, &encoder, scratch_root, NULL));
    assert_string_equal(info.pooling, "mean");
    scratch_text("1_Pooling/config.json", "{\"pooling_mode\": \"cls\", \"pooling_mode_max_tokens\": true}");
    harness_ok(tfm_embedder_read_info(&info, &encoder, scratch_root, NULL));
    assert_string_equal(info.pooling, "cls");
}

/* ---- Modules after pooling, against double precision -------- */

enum { POOLED = 16, DENSE = 10 };

/* The embedder with these modules after its Transformer, for one line. */
static void embed_with(float *vector, const char *modules) {
    char all[512];
    tfm_embedder *e = NULL;
    snprintf(all, sizeof(all), "[" MODULE("0_Transformer", "Transformer") "%s]", modules);
    scratch_text("modules.json", all);
    harness_ok(tfm_embedder_open(&e, harness_context(), scratch_root, NULL));
    harness_ok(tfm_embed(e, vector, (const char *[]){"the cat sits"}, 1, NULL));
    tfm_embedder_free(&e);
}

/* Writes a module's file of two random tensors, which it returns in `first` and `second`. */
static void write_module(const char *folder, float *first, const char *const *names, int64_t rows, int64_t columns,
                         float *second, int64_t others) {
    tensors_file file = {.header = json_object()};
    harness_random random = {7};
    assert_true(mkdir(scratch_path(folder), 0700) == 0 || errno == EEXIST);
    harness_fill(&random, first, (size_t)((rows ? rows : 1) * columns), 1);
    harness_fill(&random, second, (size_t)others, 1);
    tensors_add(&file, names[0], first, rows, columns, false);
    tensors_add(&file, names[1], second, 0, others, false);
    tensors_finish(&file, scratch_path(folder), "{}");
}

static void test_sparse_encoder_directory_is_read(void **state) {
    (void)state;
    static const char *const files[] = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"};
    static const struct {
        const char *config;
        bool runs;
    } cases[] = {{"{\"pooling_strategy\": \"max\", \"activation_function\": \"relu\"}", true},
                 {"{\"pooling_strategy\": \"sum\"}", false},
                 {"{\"activation_function\": \"log1p_relu\"}", false}};
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
        char from[128];
        snprintf(from, sizeof(from), GOLDEN "masked/%s", files[i]);
        scratch_copy(from, files[i]);
    }
    mkdir(scratch_path("1_SpladePooling"), 0700);
    scratch_text("modules.json", "[" MODULE("", "MLMTransformer") "," MODULE("1_SpladePooling", "SpladePooling") "]");
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        sparse_check c = {.want = NULL};
        tfm_model *model = NULL;
        scratch_text("1_SpladePooling/config.json", cases[i].config);
        harness_ok(tfm_model_open(&model, harness_context(), scratch_root, NULL));
        if (cases[i].runs)
            harness_ok(tfm_embed_sparse(model, (const char *[]){"a dog"}, 1, NULL, on_sparse, &c));
        else
            harness_refused(tfm_embed_sparse(model, (const char *[]){"a dog"}, 1, NULL, on_sparse, &c),
                            TFM_ERROR_UNSUPPORTED, "SpladePooling");
        assert_int_equal(c.count, cases[i].runs);
        tfm_model_free(&model);
    }
}

static void test_layer_norm_module_normalizes_the_pooled_vector(void **state) {
    (void)state;
    float pooled[POOLED], got[POOLED], gamma[POOLED], beta[POOLED];
    double mean = 0, variance = 0;
    copy_embedder();
    scratch_text("1_Pooling/config.json", "{\"pooling_mode\": \"mean\"}");
    write_module("3_LayerNorm", gamma, (const char *const[]){"norm.weight", "norm.bias"}, 0, POOLED, beta, POOLED);
    embed_with(pooled, "," MODULE("1_Pooling", "Pooling"));
    embed_with(got, "," MODULE("1_Pooling", "Pooling") "," MODULE("3_LayerNorm", "LayerNorm"));
    for (int i = 0; i < POOLED; i++)
        mean += (double)pooled[i] / POOLED;
    for (int i = 0; i < POOLED; i++)
        variance += ((double)pooled[i] - mean) * ((double)pooled[i] - mean) / POOLED;
    for (int i = 0; i < POOLED; i++) {
        const double want = ((double)pooled[i] - mean) / sqrt(variance + 1e-5) * (double)gamma[i] + (double)beta[i];
        assert_true(fabs((double)got[i] - want) < 1e-4 * (1 + fabs(want)));
    }
    /* Dropout is for training: the embedding is unchanged. */
    float same[POOLED];
    embed_with(same, "," MODULE("1_Pooling", "Pooling") "," MODULE("4_Dropout", "Dropout"));
    assert_memory_equal(same, pooled, sizeof(pooled));
}

/* Activations as documented by torch.nn. */
static double activated(const char *name, double x) {
    const double six = fmin(fmax(x + 3, 0), 6);
    return strcmp(name, "Tanh") == 0        ? tanh(x)
           : strcmp(name, "ReLU") == 0      ? fmax(x, 0)
           : strcmp(name, "GELU") == 0      ? 0.5 * x * (1 + erf(x / sqrt(2)))
           : strcmp(name, "SiLU") == 0      ? x / (1 + exp(-x))
           : strcmp(name, "Sigmoid") == 0   ? 1 / (1 + exp(-x))
           : strcmp(name, "Mish") == 0      ? x * tanh(log1p(exp(x)))
           : strcmp(name, "LeakyReLU") == 0 ? fmax(x, 0.01 * x)
           : strcmp(name, "ReLU6") == 0     ? fmin(fmax(x, 0), 6)
           : strcmp(name, "Hardswish") == 0 ? x * six / 6
                                            : x; /* Identity */
}

static void test_dense_module_has_each_activation_of_torch(void **state) {
    (void)state;
    static const char *const NAMES[] = {"Tanh",    "Identity", "ReLU",      "GELU",  "SiLU",
                                        "Sigmoid", "Mish",     "LeakyReLU", "ReLU6", "Hardswish"};
    float pooled[POOLED], got[DENSE], weight[DENSE * POOLED], bias[DENSE];
    copy_embedder();
    scratch_text("1_Pooling/config.json", "{\"pooling_mode\": \"mean\"}");
    write_module("2_Dense", weight, (const char *const[]){"linear.weight", "linear.bias"}, DENSE, POOLED, bias, DENSE);
    embed_with(pooled, "," MODULE("1_Pooling", "Pooling"));
    for (size_t n = 0; n < sizeof(NAMES) / sizeof(*NAMES); n++) {
        char config[256];
        snprintf(config, sizeof(config),
                 "{\"in_features\": %d, \"out_features\": %d, \"bias\": true, \"activation_function\": "
                 "\"torch.nn.modules.activation.%s\"}",
                 POOLED, DENSE, NAMES[n]);
        scratch_text("2_Dense/config.json", config);
        embed_with(got, "," MODULE("1_Pooling", "Pooling") "," MODULE("2_Dense", "Dense"));
        for (int i = 0; i < DENSE; i++) {
            double sum = (double)bias[i];
            for (int k = 0; k < POOLED; k++)
                sum += (double)weight[i * POOLED + k] * (double)pooled[k];
            const double want = activated(NAMES[n], sum);
            if (!(fabs((double)got[i] - want) < 1e-4 * (1 + fabs(want))))
                fail_msg("%s of %g is %g, not %g", NAMES[n], sum, (double)got[i], want);
        }
    }
}

static void test_invalid_embedder_directory_is_rejected(void **state) {
    (void)state;
    static const struct {
        const char *file, *text, *part;
        tfm_status status;
    } cases[] = {
        {"modules.json", "{}", "not a JSON list of modules", TFM_ERROR_FORMAT},
        {"modules.json", "[", "modules.json is not JSON", TFM_ERROR_FORMAT},
        {"modules.json", "[]", "the first module is \"\"", TFM_ERROR_UNSUPPORTED},
        {"modules.json", "[" MODULE("", "CLIPModel") "]", "the first module is \"CLIPModel\"", TFM_ERROR_UNSUPPORTED},
        {"modules.json", "[{\"path\": \"\", \"type\": \"custom_st.Transformer\"}]",
         "module 1 is \"custom_st.Transformer\"", TFM_ERROR_UNSUPPORTED},
        {"modules.json", "[{\"path\": \"\"}]", "module 1 is \"\"", TFM_ERROR_FORMAT},
        {"config_sentence_transformers.json",
         "{\"prompts\": {\"query\": \"q \"}, \"default_prompt_name\": \"document\"}",
         "`default_prompt_name` is \"document\"", TFM_ERROR_FORMAT},
        {"modules.json", "[" MODULE("../x", "Transformer") "]", "within the directory", TFM_ERROR_FORMAT},
        {"modules.json", "[" MODULE("0_Transformer", "Transformer") "]", "has no Pooling", TFM_ERROR_UNSUPPORTED},
        {"modules.json", "[" MODULE("0_Transformer", "Transformer") "," MODULE("2_Dense", "Dense") "]", "must be 16",
         TFM_ERROR_FORMAT}, /* of each token */
        {"modules.json",
         "[" MODULE("0_Transformer", "Transformer") "," MODULE("1_Pooling", "Pooling") "," MODULE("1_Pooling",
                                                                                                  "Pooling") "]",
         "the module \"Pooling\" is in an unsupported position", TFM_ERROR_UNSUPPORTED},
        {"modules.json",
         "[" MODULE("0_Transformer", "Transformer") "," MODULE("1_Pooling", "Pooling") "," MODULE("x", "CNN") "]",
         "asks for the module \"CNN\"", TFM_ERROR_UNSUPPORTED},
        {"1_Pooling/config.json", "{\"pooling_mode\": \"sum\"}", "`pooling_mode` is \"sum\"", TFM_ERROR_UNSUPPORTED},
        {"1_Pooling/config.json", "{\"pooling_mode\": [\"mean\", \"cls\", \"mean\"]}", "each once",
         TFM_ERROR_UNSUPPORTED},
        {"1_Pooling/config.json", "{\"pooling_mode\": []}", "`pooling_mode` is []", TFM_ERROR_UNSUPPORTED},
        {"1_Pooling/config.json", "{}", "must be 16", TFM_ERROR_FORMAT}, /* only the mean is used */
        {"2_Dense/config.json", "{\"in_features\": 95, \"out_features\": 10}", "must be 96", TFM_ERROR_FORMAT},
        {"2_Dense/config.json", "{\"in_features\": 96, \"out_features\": 11}", "linear.weight", TFM_ERROR_FORMAT},
        {"2_Dense/config.json",
         "{\"in_features\": 96, \"out_features\": 10, \"activation_function\": \"torch.nn.Softplus\"}",
         "\"torch.nn.Softplus\"", TFM_ERROR_UNSUPPORTED},
        {"2_Dense/config.json", "{\"in_features\": 96, \"out_features\": 10, \"activation_function\": \"own.nn.ReLU\"}",
         "\"own.nn.ReLU\"", TFM_ERROR_UNSUPPORTED},
        {"2_Dense/config.json", "{\"in_features\": 96, \"out_features\": 10, \"use_residual\": true}",
         "`use_residual` is true", TFM_ERROR_UNSUPPORTED},
        {"2_Dense/config.json",
         "{\"in_features\": 96, \"out_features\": 10, \"module_input_name\": \"token_embeddings\"}",
         "`module_input_name` is \"token_embeddings\"", TFM_ERROR_UNSUPPORTED},
        {"2_Dense/config.json", "{\"in_features\": 96, \"out_features\": 10, \"module_output_name\": \"scores\"}",
         "`module_output_name` is \"scores\"", TFM_ERROR_UNSUPPORTED},
        {"modules.json",
         "[" MODULE("0_Transformer", "Transformer") "," MODULE("1_Pooling", "Pooling") "," MODULE("tokens",
                                                                                                  "Normalize") "]",
         "`module_input_name` is \"token_embeddings\"", TFM_ERROR_UNSUPPORTED},
        {"config_sentence_transformers.json", "{\"model_type\": \"SparseEncoder\"}",
         "`model_type` is \"SparseEncoder\"", TFM_ERROR_UNSUPPORTED},
        {"0_Transformer/sentence_bert_config.json", "{\"transformer_task\": \"fill-mask\"}",
         "`transformer_task` is \"fill-mask\"", TFM_ERROR_UNSUPPORTED},
        {"0_Transformer/sentence_bert_config.json",
         "{\"modality_config\": {\"text\": {\"method\": \"forward\", \"method_output_name\": \"pooler_output\"}}}",
         "`method_output_name` is \"pooler_output\"", TFM_ERROR_UNSUPPORTED},
        {"0_Transformer/sentence_bert_config.json", "{\"module_output_name\": \"sentence_embedding\"}",
         "`module_output_name` is \"sentence_embedding\"", TFM_ERROR_UNSUPPORTED},
        {"0_Transformer/sentence_bert_config.json", "{\"processing_kwargs\": {\"text\": {\"max_length\": 3}}}",
         "`processing_kwargs` is", TFM_ERROR_UNSUPPORTED},
        {"0_Transformer/config.json", "{\"model_type\": \"bert\", \"position_embedding_type\": \"relative_key\"}",
         "`position_embedding_type` is \"relative_key\"", TFM_ERROR_UNSUPPORTED},
        {"0_Transformer/config.json", "{\"model_type\": \"bert\", \"is_decoder\": true}", "`is_decoder` is true",
         TFM_ERROR_UNSUPPORTED},
        {"0_Transformer/config.json", "{\"model_type\": \"bert\", \"layer_norm_eps\": \"x\"}", "`layer_norm_eps`",
         TFM_ERROR_FORMAT},
    };
    tfm_embedder_info info;
    tfm_model_info encoder;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        tfm_embedder *e = NULL;
        copy_embedder();
        assert_true(mkdir(scratch_path("tokens"), 0777) == 0 || errno == EEXIST);
        scratch_text("tokens/config.json", "{\"module_input_name\": \"token_embeddings\"}");
        scratch_text(cases[i].file, cases[i].text);
        harness_refused(tfm_embedder_open(&e, harness_context(), scratch_root, NULL), cases[i].status, cases[i].part);
        assert_null(e);
        harness_refused(tfm_embedder_read_info(&info, &encoder, scratch_root, NULL), cases[i].status, cases[i].part);
    }
}

static int setup(void **state) {
    return scratch_setup(state) == 0 ? harness_setup(state) : -1;
}

static int teardown(void **state) {
    scratch_teardown(state);
    return harness_teardown(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embeddings_match_sentence_transformers),
        cmocka_unit_test(test_embedder_options_precede_the_directory),
        cmocka_unit_test(test_embeddings_of_ids_equal_those_of_text),
        cmocka_unit_test(test_bad_token_ids_are_bad_lines),
        cmocka_unit_test(test_truncated_embeddings_have_unit_length),
        cmocka_unit_test(test_sentence_t5_embeddings_match_reference),
        cmocka_unit_test(test_bad_line_has_nan_embedding_and_is_reported),
        cmocka_unit_test(test_class_probabilities_match_transformers),
        cmocka_unit_test(test_fill_mask_matches_transformers),
        cmocka_unit_test(test_sparse_embeddings_match_splade_pooling),
        cmocka_unit_test(test_embedder_info_without_device_equals_opened),
        cmocka_unit_test(test_embedder_opens_with_reduced_workgroups),
        cmocka_unit_test(test_sparse_encoder_directory_is_read),
        cmocka_unit_test(test_layer_norm_module_normalizes_the_pooled_vector),
        cmocka_unit_test(test_dense_module_has_each_activation_of_torch),
        cmocka_unit_test(test_white_space_around_a_line_reaches_the_tokenizer),
        cmocka_unit_test(test_newer_sentence_transformers_keys_are_read),
        cmocka_unit_test(test_invalid_embedder_directory_is_rejected),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
