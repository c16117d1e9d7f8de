/* Reranking against sentence-transformers' CrossEncoder (tests/golden/make_reranker.py). */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/json.h"
#include "dev/device/context_internal.h"
#include "support/scratch.h"
#include "tfm/tfm.h"

#define GOLDEN "tests/golden/"

enum { MOST = 16, WIDTH = 10 };

static char *folder_path(const char *folder) {
    char name[64];
    snprintf(name, sizeof(name), GOLDEN "%s", folder);
    return harness_source(name);
}

static json_t *golden_of(const char *folder) {
    char name[64];
    json_t *golden = NULL;
    snprintf(name, sizeof(name), GOLDEN "%s/golden.json", folder);
    char *path = harness_source(name);
    harness_ok(tfm__json_load(&golden, path));
    free(path);
    return golden;
}

static tfm_model *open_model(const char *dir) {
    tfm_model *model = NULL;
    harness_ok(tfm_model_open(&model, harness_context(), dir, NULL));
    return model;
}

static tfm_model *open_golden(const char *folder) {
    char *dir = folder_path(folder);
    tfm_model *model = open_model(dir);
    free(dir);
    return model;
}

static size_t strings_of(const char **out, const json_t *list) {
    const size_t count = json_array_size(list);
    for (size_t i = 0; i < count && i < MOST; i++)
        out[i] = json_string_value(json_array_get(list, i));
    return count;
}

static bool count_reject(void *user, size_t line, const char *message) {
    *(size_t *)user += line + 1;
    return *message != 0;
}

/* Scores within 1e-5, and the same order of all documents whose scores are farther apart than that. */
static void check_scores(const float *got, const json_t *want) {
    for (size_t i = 0; i < json_array_size(want); i++) {
        const double a = json_real_value(json_array_get(want, i));
        if (!(fabs((double)got[i] - a) <= 1e-5))
            print_message("# document %zu has %g, not %g\n", i, (double)got[i], a);
        assert_true(fabs((double)got[i] - a) <= 1e-5);
        for (size_t k = 0; k < json_array_size(want); k++)
            assert_true(a - json_real_value(json_array_get(want, k)) <= 1e-5 || got[i] > got[k]);
    }
}

static void check_golden(const char *folder, size_t least, const tfm_rerank_options *options) {
    json_t *golden = golden_of(folder), *queries = json_object_get(golden, "queries");
    const char *documents[MOST];
    const size_t count = strings_of(documents, json_object_get(golden, "documents"));
    float scores[MOST];
    tfm_model *model = open_golden(folder);
    assert_true(json_array_size(queries) == least && count <= MOST);
    for (size_t i = 0; i < least; i++) {
        const char *query = json_string_value(json_array_get(queries, i));
        harness_ok(tfm_rerank(model, scores, query, documents, count, options));
        check_scores(scores, json_array_get(json_object_get(golden, "scores"), i));
    }
    tfm_model_free(&model);
    json_decref(golden);
}

static void test_order_of_200_queries_equals_the_cross_encoder(void **state) {
    (void)state;
    check_golden("reranker", 200, NULL);
}

static void test_pairs_with_two_separators_equal_the_cross_encoder(void **state) {
    (void)state;
    check_golden("reranker_roberta", 20, NULL);
}

static void test_language_model_with_a_template_equals_the_cross_encoder(void **state) {
    (void)state;
    json_t *golden = golden_of("reranker_qwen3");
    const char *documents[MOST], *query = json_string_value(json_array_get(json_object_get(golden, "queries"), 0));
    const size_t count = strings_of(documents, json_object_get(golden, "documents"));
    float scores[MOST], raw[MOST];
    tfm_chat *chat = NULL;
    char *dir = folder_path("reranker_qwen3");
    harness_ok(tfm_chat_open(&chat, dir));
    check_golden("reranker_qwen3", 20, &(tfm_rerank_options){.chat = chat});
    check_golden("reranker_qwen3", 20, &(tfm_rerank_options){.chat = chat, .batch_tokens = 70});
    tfm_model *model = open_model(dir);
    const tfm_rerank_options instructed = {.chat = chat, .instruction = "bad light"};
    harness_ok(tfm_rerank(model, scores, query, documents, count, &instructed));
    check_scores(scores, json_object_get(golden, "instructed"));
    harness_ok(tfm_rerank(model, scores, query, documents, count, &(tfm_rerank_options){.chat = chat}));
    harness_ok(
        tfm_rerank(model, raw, query, documents, count, &(tfm_rerank_options){.chat = chat, .raw_scores = true}));
    for (size_t i = 0; i < count; i++)
        assert_true(fabs(1 / (1 + exp(-(double)raw[i])) - (double)scores[i]) <= 1e-6);
    tfm_model_free(&model);
    tfm_chat_free(&chat);
    free(dir);
    json_decref(golden);
}

/* The prompt of Qwen3-Reranker has more than 64 words of the tokenizer. */
static void test_language_model_rejects_long_prompts(void **state) {
    (void)state;
    static const char TEMPLATE[] = "{{ messages[0]['content'] }} {{ messages[1]['content'] }} {# 'query' #}";
    char text[700] = "";
    const char *const documents[] = {"a cat", text, "\xff"};
    float scores[3];
    size_t lines = 0;
    tfm_chat *chat = NULL;
    tfm_model *model = open_golden("reranker_qwen3");
    for (int i = 0; i < 64; i++)
        strcat(text, "the cat ");
    harness_ok(tfm_chat_new(&chat, TEMPLATE, sizeof(TEMPLATE) - 1, NULL));
    tfm_rerank_options options = {.chat = chat};
    harness_refused(tfm_rerank(model, scores, "a", documents, 2, &options), TFM_ERROR_INPUT,
                    "line 2: its prompt has 129 tokens, and the model takes 1 to 64");
    options.reject = count_reject;
    options.reject_user = &lines;
    harness_ok(tfm_rerank(model, scores, "a", documents, 3, &options));
    assert_true(lines == 5 && isfinite(scores[0]) && isnan(scores[1]) && isnan(scores[2]));
    harness_refused(tfm_rerank(model, scores, "a", documents, 1, NULL), TFM_ERROR_INPUT, "its prompt has ");
    tfm_model_free(&model);
    tfm_chat_free(&chat);
}

static void copy_language_model(const char *modules) {
    static const char *const files[] = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
                                        "chat_template.jinja"};
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
        char from[128];
        snprintf(from, sizeof(from), GOLDEN "reranker_qwen3/%s", files[i]);
        scratch_copy(from, files[i]);
    }
    scratch_text("modules.json", modules);
}

#define LOGIT_SCORE(path) "[{\"type\": \"sentence_transformers.LogitScore\", \"path\": \"" path "\"}]"

static float score_of(const char *modules, const char *config) {
    const char *const documents[] = {"a dog plays"};
    float score = 0;
    tfm_chat *chat = NULL;
    copy_language_model(modules);
    mkdir(scratch_path("1_LogitScore"), 0700);
    scratch_text("1_LogitScore/config.json", config);
    tfm_model *model = open_model(scratch_root);
    harness_ok(tfm_chat_open(&chat, scratch_root));
    harness_ok(
        tfm_rerank(model, &score, "the cat", documents, 1, &(tfm_rerank_options){.chat = chat, .raw_scores = true}));
    tfm_model_free(&model);
    tfm_chat_free(&chat);
    return score;
}

static void test_logit_score_module_names_the_tokens(void **state) {
    (void)state;
    const float usual = score_of("[]", "{}");
    const float yes = score_of(LOGIT_SCORE("1_LogitScore"), "{\"true_token_id\": 4}");
    const float no = score_of(LOGIT_SCORE("1_LogitScore"), "{\"true_token_id\": 5, \"false_token_id\": null}");
    assert_true(fabs((double)(yes - no - usual)) < 1e-5 && fabs((double)usual) > 1e-3);
    assert_true(score_of(LOGIT_SCORE("../1_LogitScore"), "{\"true_token_id\": 7}") == usual);
    assert_true(fabs((double)(score_of(LOGIT_SCORE("1_LogitScore"), "{\"true_token_id\": 5, \"false_token_id\": 4}") +
                              usual)) < 1e-6);
    copy_language_model(LOGIT_SCORE("1_LogitScore"));
    scratch_text("1_LogitScore/config.json", "{\"true_token_id\": 700, \"false_token_id\": 4}");
    tfm_model *model = open_model(scratch_root);
    float score;
    harness_refused(tfm_rerank(model, &score, "a", (const char *[]){"a"}, 1, NULL), TFM_ERROR_UNSUPPORTED,
                    "has no tokens \"yes\" and \"no\"");
    tfm_model_free(&model);
    remove(scratch_path("modules.json"));
    remove(scratch_path("chat_template.jinja"));
}

static void test_queries_of_documents_equal_single_queries(void **state) {
    (void)state;
    json_t *golden = golden_of("reranker"), *all = json_object_get(golden, "scores");
    const char *documents[MOST], *queries[MOST], *repeated[MOST];
    const size_t count = strings_of(documents, json_object_get(golden, "documents"));
    float scores[MOST], small[MOST], raw[MOST];
    tfm_embed_stats stats = {0};
    tfm_model *model = open_golden("reranker");
    strings_of(queries, json_object_get(golden, "queries"));
    for (size_t i = 0; i < count; i++)
        repeated[i] = documents[1];
    harness_ok(
        tfm_rerank(model, scores, NULL, repeated, count, &(tfm_rerank_options){.queries = queries, .stats = &stats}));
    for (size_t i = 0; i < count; i++) {
        const double want = json_real_value(json_array_get(json_array_get(all, i), 1));
        assert_true(fabs((double)scores[i] - want) <= 1e-5);
    }
    assert_int_equal(stats.lines, count);
    harness_ok(
        tfm_rerank(model, small, NULL, repeated, count, &(tfm_rerank_options){.queries = queries, .batch_tokens = 50}));
    harness_ok(
        tfm_rerank(model, raw, NULL, repeated, count, &(tfm_rerank_options){.queries = queries, .raw_scores = true}));
    for (size_t i = 0; i < count; i++) {
        assert_true(fabs((double)(scores[i] - small[i])) <= 1e-6);
        assert_true(fabs(1 / (1 + exp(-(double)raw[i])) - (double)scores[i]) <= 1e-6);
    }
    tfm_model_free(&model);
    json_decref(golden);
}

/* ---- Bad documents and models ---- */

static bool on_reject(void *user, size_t line, const char *message) {
    *(size_t *)user += line + 1;
    return strstr(message, "UTF-8") != NULL;
}

static void test_bad_document_has_nan_score(void **state) {
    (void)state;
    const char *const documents[] = {"the cat", "\xff", "a dog"}, *const bad[] = {"a", "\xff", "a"};
    float scores[3];
    size_t lines = 0;
    tfm_model *model = open_golden("reranker");
    harness_ok(tfm_rerank(model, scores, "a", documents, 3,
                          &(tfm_rerank_options){.reject = on_reject, .reject_user = &lines}));
    assert_true(lines == 2 && isfinite(scores[0]) && isnan(scores[1]) && isfinite(scores[2]));
    lines = 0;
    harness_ok(tfm_rerank(model, scores, NULL, bad, 3,
                          &(tfm_rerank_options){.queries = bad, .reject = on_reject, .reject_user = &lines}));
    assert_true(lines == 2 && isnan(scores[1]));
    harness_refused(tfm_rerank(model, scores, "a", documents, 3, NULL), TFM_ERROR_INPUT, "line 2: ");
    harness_refused(tfm_rerank(model, scores, NULL, documents, 3, NULL), TFM_ERROR_ARGUMENT, "query is NULL");
    harness_refused(tfm_rerank(model, scores, "a", documents, 3, &(tfm_rerank_options){.batch_tokens = -1}),
                    TFM_ERROR_ARGUMENT, "rerank: batch_tokens is -1");
    tfm_model_free(&model);
}

static void test_models_of_other_kinds_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *folder;
        tfm_rerank_kind kind;
    } kinds[] = {{"reranker", TFM_RERANK_CROSS_ENCODER},
                 {"reranker_roberta", TFM_RERANK_CROSS_ENCODER},
                 {"reranker_qwen3", TFM_RERANK_LANGUAGE_MODEL},
                 {"classifier", TFM_RERANK_NONE},
                 {"embedder", TFM_RERANK_EMBEDDER},
                 {"masked", TFM_RERANK_EMBEDDER},
                 {"prenorm-silu-f16", TFM_RERANK_NONE}};
    float score;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        tfm_rerank_kind kind = TFM_RERANK_NONE;
        char *dir = folder_path(kinds[i].folder);
        harness_ok(tfm_rerank_read_kind(&kind, dir));
        assert_int_equal(kind, kinds[i].kind);
        free(dir);
    }
    tfm_model *model = open_golden("classifier");
    harness_refused(tfm_rerank(model, &score, "a", (const char *[]){"a"}, 1, NULL), TFM_ERROR_ARGUMENT,
                    "the model has 3 classes");
    tfm_model_free(&model);
    model = open_golden("masked");
    harness_refused(tfm_rerank(model, &score, "a", (const char *[]){"a"}, 1, NULL), TFM_ERROR_ARGUMENT,
                    "has no classification head");
    tfm_model_free(&model);
}

static void copy_reranker(const char *settings) {
    static const char *const files[] = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"};
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
        char from[128];
        snprintf(from, sizeof(from), GOLDEN "reranker/%s", files[i]);
        scratch_copy(from, files[i]);
    }
    scratch_text("config_sentence_transformers.json", settings);
}

/* Classes of Python programs do not run, so that the default is left, as in sentence-transformers. */
static void test_activation_is_that_of_the_directory(void **state) {
    (void)state;
    const char *const documents[] = {"a dog plays"};
    float want, raw, score;
    copy_reranker("{}");
    tfm_model *model = open_model(scratch_root);
    harness_ok(tfm_rerank(model, &want, "the cat", documents, 1, NULL));
    harness_ok(tfm_rerank(model, &raw, "the cat", documents, 1, &(tfm_rerank_options){.raw_scores = true}));
    tfm_model_free(&model);
    static const struct {
        const char *settings;
        bool raw;
    } cases[] = {{"{\"activation_fn\": \"torch.nn.modules.linear.Identity\"}", true},
                 {"{\"activation_fn\": \"torch.nn.modules.activation.Sigmoid\"}", false},
                 {"{\"activation_fn\": \"own.Identity\"}", false},
                 {"{\"activation_fn\": 7}", false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        copy_reranker(cases[i].settings);
        model = open_model(scratch_root);
        harness_ok(tfm_rerank(model, &score, "the cat", documents, 1, NULL));
        assert_true(score == (cases[i].raw ? raw : want));
        tfm_model_free(&model);
    }
    copy_reranker("{\"activation_fn\": \"torch.nn.modules.activation.Tanh\"}");
    model = open_model(scratch_root);
    harness_refused(tfm_rerank(model, &score, "the cat", documents, 1, NULL), TFM_ERROR_UNSUPPORTED, "`activation_fn`");
    harness_ok(tfm_rerank(model, &score, "the cat", documents, 1, &(tfm_rerank_options){.raw_scores = true}));
    assert_true(score == raw);
    tfm_model_free(&model);
}

/* ---- Embedders ---- */

static double cosine_of(const float *a, const float *b) {
    double dot = 0, aa = 0, bb = 0;
    for (int i = 0; i < WIDTH; i++) {
        dot += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return dot / sqrt(aa * bb);
}

static void test_embedder_reranks_by_cosine_with_its_prompts(void **state) {
    (void)state;
    const char *const documents[] = {"the river", "bread", "a cat", "\xff"}, *queries[4];
    float scores[4], both[4], vectors[3 * WIDTH], of_query[WIDTH];
    tfm_embedder *e = NULL;
    size_t lines = 0;
    char *dir = folder_path("embedder");
    harness_ok(tfm_embedder_open(&e, harness_context(), dir, NULL));
    free(dir);
    harness_ok(tfm_embed(e, of_query, (const char *[]){"the cat"}, 1,
                         &(tfm_embed_options){.prompt = tfm_embedder_prompt(e, "query")}));
    harness_ok(tfm_embed(e, vectors, documents, 3, &(tfm_embed_options){.prompt = ""}));
    harness_ok(tfm_embedder_rerank(e, scores, "the cat", documents, 3, NULL));
    for (int i = 0; i < 3; i++)
        assert_true(fabs((double)scores[i] - cosine_of(of_query, vectors + i * WIDTH)) <= 1e-6);
    queries[0] = queries[1] = "a dog";
    queries[2] = queries[3] = "the cat";
    harness_ok(
        tfm_embedder_rerank(e, both, NULL, documents, 4,
                            &(tfm_rerank_options){.queries = queries, .reject = on_reject, .reject_user = &lines}));
    assert_true(lines == 4 && isnan(both[3]) && fabs((double)(both[2] - scores[2])) <= 1e-6);
    assert_true(fabs((double)(both[0] - scores[0])) > 1e-4);
    lines = 0;
    queries[0] = queries[1] = "\xff";
    harness_ok(
        tfm_embedder_rerank(e, both, NULL, documents, 3,
                            &(tfm_rerank_options){.queries = queries, .reject = on_reject, .reject_user = &lines}));
    assert_true(lines == 3 && isnan(both[0]) && isnan(both[1]) && isfinite(both[2]));
    harness_refused(tfm_embedder_rerank(e, scores, NULL, documents, 3, NULL), TFM_ERROR_ARGUMENT, "query is NULL");
    tfm_embedder_free(&e);
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
        cmocka_unit_test(test_order_of_200_queries_equals_the_cross_encoder),
        cmocka_unit_test(test_pairs_with_two_separators_equal_the_cross_encoder),
        cmocka_unit_test(test_language_model_with_a_template_equals_the_cross_encoder),
        cmocka_unit_test(test_language_model_rejects_long_prompts),
        cmocka_unit_test(test_logit_score_module_names_the_tokens),
        cmocka_unit_test(test_queries_of_documents_equal_single_queries),
        cmocka_unit_test(test_bad_document_has_nan_score),
        cmocka_unit_test(test_models_of_other_kinds_are_refused),
        cmocka_unit_test(test_activation_is_that_of_the_directory),
        cmocka_unit_test(test_embedder_reranks_by_cosine_with_its_prompts),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
