/* Late interaction against PyLate's ColBERT (tests/golden/make_embedder.py). */
#include <jansson.h>
#include <math.h>
#include <sys/stat.h>
#include "base/json.h"
#include "support/scratch.h"
#include "tfm/rerank.h"
#include "tfm/tfm.h"

#define GOLDEN "tests/golden/"
#define CONFIG "config_sentence_transformers.json"

enum { MOST = 16, WIDTH = 6 };

static json_t *golden;
static const char *texts[MOST];
static size_t count;

/* A copy of the directory. */
static void copy_colbert(void) {
    static const char *const files[] = {"modules.json",        "config_sentence_transformers.json",
                                        "config.json",         "model.safetensors",
                                        "tokenizer.json",      "tokenizer_config.json",
                                        "1_Dense/config.json", "1_Dense/model.safetensors"};
    mkdir(scratch_path("1_Dense"), 0700);
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
        char from[128];
        snprintf(from, sizeof(from), GOLDEN "colbert/%s", files[i]);
        scratch_copy(from, files[i]);
    }
}

static tfm_embedder *open_dir(const char *dir, const tfm_embedder_options *options) {
    tfm_embedder *e = NULL;
    char *path = dir ? harness_source(dir) : NULL;
    harness_ok(tfm_embedder_open(&e, harness_context(), path ? path : scratch_root, options));
    free(path);
    return e;
}

/* Lines in order, with the vectors of `want`: a list for each line. */
typedef struct check {
    const json_t *want;
    size_t next;
    const size_t *bad;
} check;

static bool on_vectors(void *user, const tfm_token_vectors *v) {
    check *c = user;
    while (c->bad && *c->bad == c->next) {
        c->bad++;
        c->next++;
    }
    assert_int_equal(v->line, c->next++);
    const json_t *rows = json_array_get(c->want, v->line);
    assert_int_equal(v->width, WIDTH);
    assert_int_equal(v->count, json_array_size(rows));
    for (size_t i = 0; i < v->count; i++)
        for (size_t k = 0; k < WIDTH; k++) {
            const double want = json_real_value(json_array_get(json_array_get(rows, i), k));
            const double off = fabs((double)v->vectors[i * WIDTH + k] - want);
            if (!(off <= 5e-6))
                fail_msg("number %zu of token %zu of line %zu is off by %g", k, i, v->line, off);
        }
    return true;
}

static void embeds(tfm_embedder *e, const char *name, tfm_text_role role, const tfm_embed_options *options) {
    check c = {.want = json_object_get(golden, name)};
    harness_ok(tfm_embed_tokens(e, texts, count, role, options, on_vectors, &c));
    assert_int_equal(c.next, count);
}

static void test_token_vectors_match_pylate(void **state) {
    (void)state;
    tfm_embedder *e = open_dir(GOLDEN "colbert", NULL);
    tfm_embed_stats stats = {0};
    embeds(e, "documents", TFM_ROLE_DOCUMENT, &(tfm_embed_options){.stats = &stats});
    assert_int_equal(stats.lines, count);
    assert_int_equal(stats.truncated, 1);
    embeds(e, "queries", TFM_ROLE_QUERY, NULL);
    embeds(e, "documents", TFM_ROLE_DOCUMENT, &(tfm_embed_options){.batch_tokens = 20});
    embeds(e, "queries", TFM_ROLE_QUERY, &(tfm_embed_options){.batch_tokens = 1});
    tfm_embedder_free(&e);
}

static void test_expansion_tokens_are_attended_to_or_left_out(void **state) {
    (void)state;
    copy_colbert();
    scratch_edit(CONFIG, "\"attend_to_expansion_tokens\": false", "\"attend_to_expansion_tokens\": true");
    tfm_embedder *e = open_dir(NULL, NULL);
    embeds(e, "attended", TFM_ROLE_QUERY, NULL);
    embeds(e, "documents", TFM_ROLE_DOCUMENT, NULL);
    tfm_embedder_free(&e);
    scratch_edit(CONFIG, "\"do_query_expansion\": true", "\"do_query_expansion\": false");
    e = open_dir(NULL, NULL);
    embeds(e, "unexpanded", TFM_ROLE_QUERY, NULL);
    tfm_embedder_free(&e);
}

static void test_info_tells_token_vectors_without_device(void **state) {
    (void)state;
    tfm_embedder_info info;
    tfm_model_info encoder;
    tfm_rerank_kind kind;
    char *dir = harness_source(GOLDEN "colbert");
    harness_ok(tfm_embedder_read_info(&info, &encoder, dir, NULL));
    assert_true(info.token_vectors && info.normalized && info.width == WIDTH && info.max_tokens == 16);
    assert_int_equal(info.query_tokens, 12);
    assert_string_equal(info.pooling, "none");
    harness_ok(tfm_rerank_read_kind(&kind, dir));
    assert_int_equal(kind, TFM_RERANK_EMBEDDER);
    free(dir);
    tfm_embedder *e =
        open_dir(GOLDEN "colbert", &(tfm_embedder_options){.has_pooling = true, .pooling = TFM_POOL_MEAN});
    float vectors[MOST * WIDTH];
    assert_string_equal(tfm_embedder_get_info(e)->pooling, "mean");
    harness_ok(tfm_embed(e, vectors, texts, count, NULL));
    tfm_embedder_free(&e);
}

static void test_rerank_scores_are_maxsim_of_pylate(void **state) {
    (void)state;
    tfm_embedder *e = open_dir(GOLDEN "colbert", NULL);
    float scores[MOST];
    harness_ok(tfm_embedder_rerank(e, scores, json_string_value(json_object_get(golden, "query")), texts, count, NULL));
    for (size_t i = 0; i < count; i++)
        assert_true(fabs((double)scores[i] - json_real_value(json_array_get(json_object_get(golden, "scores"), i))) <
                    2e-5);
    tfm_embedder_free(&e);
}

static bool count_bad(void *user, size_t line, const char *message) {
    assert_non_null(message);
    ((size_t *)user)[line]++;
    return true;
}

static void test_bad_lines_have_no_vectors_and_nan_scores(void **state) {
    (void)state;
    tfm_embedder *e = open_dir(GOLDEN "colbert", NULL);
    const char *lines[] = {texts[0], "\xff", texts[2]}, *queries[] = {texts[0], "\xff", texts[0]};
    size_t rejected[3] = {0};
    float scores[3];
    check c = {.want = json_object_get(golden, "documents"), .bad = (const size_t[]){1, SIZE_MAX}};
    const tfm_embed_options options = {.reject = count_bad, .reject_user = rejected};
    harness_ok(tfm_embed_tokens(e, lines, 3, TFM_ROLE_DOCUMENT, &options, on_vectors, &c));
    assert_true(c.next == 3 && rejected[1] == 1 && rejected[0] + rejected[2] == 0);
    harness_refused(tfm_embed_tokens(e, lines, 3, TFM_ROLE_DOCUMENT, NULL, on_vectors, &c), TFM_ERROR_INPUT, "line 2");
    harness_ok(tfm_embedder_rerank(e, scores, texts[0], lines, 3,
                                   &(tfm_rerank_options){.reject = count_bad, .reject_user = rejected}));
    assert_true(isfinite(scores[0]) && isnan(scores[1]) && isfinite(scores[2]));
    lines[1] = texts[1];
    harness_ok(
        tfm_embedder_rerank(e, scores, NULL, lines, 3,
                            &(tfm_rerank_options){.queries = queries, .reject = count_bad, .reject_user = rejected}));
    assert_true(isfinite(scores[0]) && isnan(scores[1]) && isfinite(scores[2]) && rejected[1] == 3);
    tfm_embedder_free(&e);
}

/* Ids as they are, without the tokens of a role. */
static bool on_ids(void *user, const tfm_token_vectors *v) {
    const tfm_prompt *want = user;
    assert_int_equal(v->count, want[v->line].count);
    assert_memory_equal(v->ids, want[v->line].ids, v->count * sizeof(*v->ids));
    return true;
}

static void test_token_ids_are_embedded_as_they_are(void **state) {
    (void)state;
    tfm_embedder *e = open_dir(GOLDEN "colbert", NULL);
    const tfm_prompt ids[] = {{.ids = (const int32_t[]){2, 7, 9, 3}, .count = 4},
                              {.ids = (const int32_t[]){2, 3}, .count = 2}};
    harness_ok(tfm_embed_tokens(e, NULL, 2, TFM_ROLE_QUERY, &(tfm_embed_options){.token_ids = ids}, on_ids,
                                (void *)(uintptr_t)ids));
    tfm_embedder_free(&e);
}

/* Adds the vectors of a line to the sum, which the mean pooling divides by their number; stops after it. */
static bool add_vectors(void *user, const tfm_token_vectors *v) {
    for (size_t i = 0; i < v->count; i++)
        for (size_t k = 0; k < (size_t)v->width; k++)
            ((double *)user)[k] += (double)v->vectors[i * (size_t)v->width + k] / (double)v->count;
    return false;
}

static void test_no_pooling_gives_the_vectors_before_the_pooling(void **state) {
    (void)state;
    float mean[MOST * 16];
    double sum[16] = {0};
    tfm_embedder *e = open_dir(GOLDEN "masked", NULL); /* an encoder without modules */
    harness_ok(tfm_embed(e, mean, texts, 1, NULL));
    tfm_embedder_free(&e);
    e = open_dir(GOLDEN "masked", &(tfm_embedder_options){.no_pooling = true});
    assert_int_equal(tfm_embedder_get_info(e)->width, 16);
    harness_refused(tfm_embed_tokens(e, texts, 2, TFM_ROLE_QUERY, NULL, add_vectors, sum), TFM_ERROR_CANCELLED,
                    "line 1");
    for (int k = 0; k < 16; k++)
        assert_true(fabs(sum[k] - (double)mean[k]) < 1e-5);
    tfm_embedder_free(&e);
}

static void test_maxsim_sums_the_largest_dot_products(void **state) {
    (void)state;
    const float query[] = {1, 0, 0, 2, -1, -1}, document[] = {3, 1, -2, 0.5F};
    double score = 7;
    harness_ok(tfm_maxsim(&score, query, 3, document, 2, 2));
    assert_true(fabs(score - (3 + 2 + 1.5)) < 1e-12);
    harness_ok(tfm_maxsim(&score, query, 3, NULL, 0, 2));
    assert_true(score == 0);
    harness_ok(tfm_maxsim(&score, NULL, 0, document, 2, 2));
    assert_true(score == 0);
    harness_refused(tfm_maxsim(&score, NULL, 1, document, 2, 2), TFM_ERROR_ARGUMENT, "query");
    harness_refused(tfm_maxsim(&score, query, 3, document, 2, 0), TFM_ERROR_ARGUMENT, "width 0");
}

static void test_wrong_calls_and_directories_are_rejected(void **state) {
    (void)state;
    static const struct {
        const char *old, *with, *part;
        bool opens;
    } cases[] = {
        {"\"[Q] \"", "\"[query] \"", "no token \"[query] \", the query_prefix", true},
        {"\"query_length\": 12", "\"query_length\": 3", "`query_length` is 3", false},
        {"\"document_length\": 16", "\"document_length\": \"16\"", "`document_length` is \"16\"", false},
    };
    check c = {0};
    float vectors[MOST * WIDTH];
    tfm_embedder *e = open_dir(GOLDEN "embedder", NULL);
    harness_refused(tfm_embed_tokens(e, texts, count, TFM_ROLE_QUERY, NULL, on_vectors, &c), TFM_ERROR_UNSUPPORTED,
                    "use tfm_embed");
    tfm_embedder_free(&e);
    e = open_dir(GOLDEN "colbert", NULL);
    harness_refused(tfm_embed(e, vectors, texts, count, NULL), TFM_ERROR_UNSUPPORTED, "tfm_embed_tokens");
    tfm_tensor out = {0};
    harness_refused(tfm_embed_ids(e, &out, (tfm_tensor){0}, (tfm_tensor){0}, 0), TFM_ERROR_UNSUPPORTED,
                    "tfm_embed_tokens");
    harness_refused(tfm_embed_tokens(e, texts, count, (tfm_text_role)2, NULL, on_vectors, &c), TFM_ERROR_ARGUMENT,
                    "role 2");
    harness_refused(
        tfm_embed_tokens(e, texts, count, TFM_ROLE_QUERY, &(tfm_embed_options){.text_pairs = texts}, on_vectors, &c),
        TFM_ERROR_ARGUMENT, "text_pairs");
    tfm_embedder_free(&e);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        copy_colbert();
        scratch_edit(CONFIG, cases[i].old, cases[i].with);
        if (!cases[i].opens) {
            harness_refused(tfm_embedder_open(&e, harness_context(), scratch_root, NULL), TFM_ERROR_FORMAT,
                            cases[i].part);
            continue;
        }
        e = open_dir(NULL, NULL);
        harness_refused(tfm_embed_tokens(e, texts, count, TFM_ROLE_QUERY, NULL, on_vectors, &c), TFM_ERROR_FORMAT,
                        cases[i].part);
        tfm_embedder_free(&e);
    }
    e = open_dir(GOLDEN "colbert", &(tfm_embedder_options){.no_tokenizer = true});
    harness_refused(tfm_embed_tokens(e, texts, count, TFM_ROLE_QUERY, NULL, on_vectors, &c), TFM_ERROR_ARGUMENT,
                    "without its tokenizer");
    tfm_embedder_free(&e);
}

static int setup(void **state) {
    if (scratch_setup(state) != 0)
        return -1;
    char *path = harness_source(GOLDEN "colbert/golden.json");
    harness_ok(tfm__json_load(&golden, path));
    free(path);
    const json_t *list = json_object_get(golden, "texts");
    for (count = 0; count < json_array_size(list) && count < MOST; count++)
        texts[count] = json_string_value(json_array_get(list, count));
    return harness_setup(state);
}

static int teardown(void **state) {
    json_decref(golden);
    scratch_teardown(state);
    return harness_teardown(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_token_vectors_match_pylate),
        cmocka_unit_test(test_expansion_tokens_are_attended_to_or_left_out),
        cmocka_unit_test(test_info_tells_token_vectors_without_device),
        cmocka_unit_test(test_rerank_scores_are_maxsim_of_pylate),
        cmocka_unit_test(test_bad_lines_have_no_vectors_and_nan_scores),
        cmocka_unit_test(test_token_ids_are_embedded_as_they_are),
        cmocka_unit_test(test_no_pooling_gives_the_vectors_before_the_pooling),
        cmocka_unit_test(test_maxsim_sums_the_largest_dot_products),
        cmocka_unit_test(test_wrong_calls_and_directories_are_rejected),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
