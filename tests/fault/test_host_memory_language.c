/* Host allocation failures in what language models need: chat templates, GGUF files, the hub's cache, 4-bit weights,
 * and the decode engine (each_failure.h). */
#include <ftw.h>
#include <jansson.h>
#include <sys/stat.h>
#include "fault/each_failure.h"
#include "support/toy_decoder.h"

/* ---- Chat templates -------------------------------------------------------------------------------------------- */

/* A template with each construct, and the messages that it is rendered with. */
typedef struct rendering {
    char *text, *messages, *tools, *variables;
} rendering;

static tfm_status render(const void *what, failure_result *sum) {
    const rendering *r = what;
    tfm_chat *chat;
    char *text = NULL;
    tfm_status status = tfm_chat_new(&chat, r->text, strlen(r->text), r->variables);
    assert_true((status == TFM_OK) == (chat != NULL));
    if (status == TFM_OK)
        status = tfm_chat_render(chat, &text, r->messages,
                                 &(tfm_chat_options){.add_generation_prompt = true, .tools = r->tools, .now = 1});
    assert_true((status == TFM_OK) == (text != NULL));
    if (status == TFM_OK)
        add_text(sum, text);
    tfm_text_free(&text);
    tfm_chat_free(&chat);
    return status;
}

/* Whether the snippet renders alone. */
static bool renders(const rendering *r) {
    failure_result sum = {0};
    return render(r, &sum) == TFM_OK;
}

/* All snippets of the golden file that render, a line each, in one template per hundred; then its templates. */
static void test_chat_templates_survive_failed_allocations(void **state) {
    (void)state;
    enum { AT_ONCE = 100 };
    json_t *golden = json_load_file(TFM_ROOT "/tests/golden/jinja.json", 0, NULL);
    const json_t *snippets = json_object_get(golden, "snippets"),
                 *chat = json_array_get(json_object_get(golden, "cases"), 1);
    const json_t *templates = json_object_get(golden, "templates");
    rendering r = {.messages = json_dumps(json_object_get(chat, "messages"), 0),
                   .tools = json_dumps(json_object_get(chat, "tools"), 0),
                   .variables = json_dumps(json_object_get(golden, "variables"), 0)};
    char name[64];
    assert_true(json_array_size(snippets) > 500 && r.messages && r.tools && r.variables);
    for (size_t first = 0; first < json_array_size(snippets); first += AT_ONCE) {
        char *joined = calloc(AT_ONCE, 2000);
        assert_non_null(joined);
        for (size_t i = first; i < first + AT_ONCE && i < json_array_size(snippets); i++) {
            const char *one = json_string_value(json_array_get(json_array_get(snippets, i), 0));
            r.text = (char *)(uintptr_t)one;
            if (one && strlen(one) < 1900 && renders(&r))
                sprintf(joined + strlen(joined), "%s\n", one);
        }
        r.text = joined;
        snprintf(name, sizeof(name), "snippets from %zu", first);
        if (renders(&r))
            each_failure(name, render, &r, false);
        free(joined);
    }
    for (size_t i = 0; i < json_array_size(templates); i++) {
        const json_t *one = json_array_get(templates, i);
        r.text = (char *)(uintptr_t)json_string_value(json_object_get(one, "template"));
        if (r.text && renders(&r))
            each_failure(json_string_value(json_object_get(one, "name")), render, &r, false);
    }
    free(r.messages);
    free(r.tools);
    free(r.variables);
    json_decref(golden);
}

/* ---- Files ----------------------------------------------------------------------------------------------------- */

static char written[4200]; /* the path */

static tfm_status write_gguf(const void *dir, failure_result *sum) {
    char *content = NULL;
    size_t size = 0;
    tfm_status status = tfm_model_write_gguf(written, dir, "Q8_0");
    if (status == TFM_OK)
        status = tfm__file_read(&content, &size, written);
    if (status == TFM_OK)
        add(sum, content, size);
    free(content);
    return status;
}

static tfm_status open_gguf(const void *file, failure_result *sum) {
    static const char text[] = "one two, 3\xc3\xa9!";
    tfm_model *model;
    int32_t *ids = NULL;
    size_t count = 0;
    const bool cut = strcmp(file, scratch_path("cut.gguf")) == 0; /* merges of tokens that are cut off */
    tfm_status status = tfm_model_open(&model, harness_context(), file, &(tfm_model_options){.no_tokenizer = cut});
    assert_true((status == TFM_OK) == (model != NULL));
    if (status == TFM_OK && model->tokenizer)
        status = tfm_tokenizer_encode(model->tokenizer, &ids, &count, TFM_SOURCE, text, strlen(text));
    if (status == TFM_OK)
        add(sum, ids, count * sizeof(*ids));
    tfm_ids_free(&ids);
    tfm_model_free(&model);
    return status;
}

static tfm_status convert(const void *model, failure_result *sum) {
    char *content = NULL;
    size_t size = 0;
    char dir[4200];
    snprintf(dir, sizeof(dir), "%s", scratch_path("converted"));
    tfm_status status = tfm_tokenizer_convert(dir, model);
    if (status == TFM_OK)
        status = tfm__file_read(&content, &size, scratch_path("converted/tokenizer.json"));
    if (status == TFM_OK)
        add(sum, content, size);
    free(content);
    return status;
}

/* A small model with another one's tokenizer, cut to the rows of the embedding. */
static void test_gguf_files_survive_failed_allocations(void **state) {
    (void)state;
    static const char *const FAMILIES[] = {"llama-llama3-new-f16", "bert-base-f16"};
    static const char *const TOKENIZERS[] = {"gpt2", "bert"};
    char dir[4200], from[4200];
    assert_int_equal(mkdir(scratch_path("hf"), 0700), 0);
    snprintf(dir, sizeof(dir), "%s", scratch_path("hf"));
    for (int i = 0; i < 2; i++) {
        snprintf(written, sizeof(written), "%s", scratch_path(i ? "whole.gguf" : "cut.gguf"));
        failure_result ignored = {0};
        static const char *const FILES[] = {"config.json", "model.safetensors"};
        for (int k = 0; k < 2; k++) {
            snprintf(from, sizeof(from), "tests/golden/families/%s/%s", FAMILIES[i], FILES[k]);
            scratch_copy(from, k ? "hf/model.safetensors" : "hf/config.json");
        }
        snprintf(from, sizeof(from), "tests/golden/tokenizers/%s/tokenizer.json", TOKENIZERS[i]);
        scratch_copy(from, "hf/tokenizer.json");
        harness_ok(write_gguf(dir, &ignored));
        each_failure("a GGUF file that is written", write_gguf, dir, false);
        harness_ok(write_gguf(dir, &ignored));
        each_failure("a GGUF file that is opened", open_gguf, written, true);
    }
    assert_int_equal(mkdir(scratch_path("converted"), 0700), 0);
    each_failure("a tokenizer that is converted", convert, written, false);
}

/* ---- The hub --------------------------------------------------------------------------------------------------- */

static tfm_status find(const void *name, failure_result *sum) {
    char *path;
    const tfm_status status = tfm_hub_find(&path, name);
    assert_true((status == TFM_OK) == (path != NULL));
    if (status == TFM_OK)
        add_text(sum, path);
    tfm_text_free(&path);
    return status;
}

static tfm_status list(const void *what, failure_result *sum) {
    tfm_hub_model *models;
    size_t count;
    (void)what;
    const tfm_status status = tfm_hub_list(&models, &count);
    for (size_t i = 0; i < count && status == TFM_OK; i++)
        add_text(sum, models[i].name);
    tfm_hub_models_free(&models);
    return status;
}

static tfm_status removal(const void *name, failure_result *sum) {
    uint64_t bytes = 0;
    const tfm_status status = tfm_hub_remove(&bytes, name, true);
    if (status == TFM_OK)
        add(sum, &bytes, sizeof(bytes));
    return status;
}

static void test_hub_cache_survives_failed_allocations(void **state) {
    (void)state;
    static const char commit[] = "0123456789012345678901234567890123456789";
    const char *const folders[] = {"hub", "hub/models--a--b", "hub/models--a--b/refs", "hub/models--a--b/snapshots",
                                   "hub/models--a--b/snapshots/0123456789012345678901234567890123456789"};
    for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++)
        assert_int_equal(mkdir(scratch_path(folders[i]), 0700), 0);
    scratch_text("hub/models--a--b/refs/main", commit);
    scratch_text("hub/models--a--b/snapshots/0123456789012345678901234567890123456789/x.Q4_K_M.gguf", "GGUF");
    scratch_text("hub/models--a--b/snapshots/0123456789012345678901234567890123456789/x.Q8_0.gguf", "GGUF");
    assert_int_equal(setenv("HF_HUB_CACHE", scratch_path("hub"), 1), 0);
    each_failure("a name that is found", find, "a/b", false);
    each_failure("a file that is found", find, "a/b:Q8_0", false);
    each_failure("models that are listed", list, NULL, false);
    each_failure("a model that is removed", removal, "a/b", false);
    unsetenv("HF_HUB_CACHE");
}

/* ---- The decode engine ----------------------------------------------------------------------------------------- */

static bool add_tokens(void *user, const tfm_generation *g) {
    add(user, g->tokens.ids, g->tokens.count * sizeof(*g->tokens.ids));
    return true;
}

static tfm_status decode(const void *model, failure_result *sum) {
    static const int32_t ids[] = {20, 21, 22, 23, 24, 25};
    failure_result sums[4] = {{0}};
    tfm_engine *engine;
    bool more = true;
    tfm_status status = tfm_engine_open(&engine, (tfm_model *)(uintptr_t)model,
                                        &(tfm_engine_options){.max_sequences = 3, .max_cache_tokens = 40});
    assert_true((status == TFM_OK) == (engine != NULL));
    for (int i = 0; i < 4 && status == TFM_OK; i++)
        status = tfm_engine_submit(
            engine, NULL, &(tfm_prompt){.ids = ids, .count = (size_t)(3 + i)},
            &(tfm_generate_options){
                .max_new_tokens = 12, .sample = i % 2, .min_new_tokens = 12, .repetition_penalty = i == 2 ? 1.3f : 0},
            add_tokens, &sums[i]);
    while (more && status == TFM_OK)
        status = tfm_engine_step(engine, &more);
    for (int i = 0; i < 4 && status == TFM_OK; i++)
        add(sum, &sums[i].hash, sizeof(sums[i].hash));
    tfm_engine_free(&engine);
    return status;
}

static void test_decode_engine_survives_failed_allocations(void **state) {
    (void)state;
    tfm_model *model = toy_decoder(TOY_ROTARY, 0);
    each_failure("a decode engine", decode, model, true);
    tfm_model_free(&model);
}

int main(int count, char **arguments) {
    if (count > 1)
        cmocka_set_test_filter(arguments[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chat_templates_survive_failed_allocations),
        cmocka_unit_test(test_gguf_files_survive_failed_allocations),
        cmocka_unit_test(test_hub_cache_survives_failed_allocations),
        cmocka_unit_test(test_decode_engine_survives_failed_allocations),
    };
    return cmocka_run_group_tests(tests, failure_setup, failure_teardown);
}
