/* Chat templates: results are transformers' (tests/golden/jinja.json), and limits hold. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "support/harness.h"
#include "support/scratch.h"
#include "tfm/chat.h"
#include "tfm/text.h"

enum { NOW = 1753000000 };

static json_t *golden;

static int setup(void **state) {
    json_error_t error;
    setenv("TZ", "UTC", 1);
    tzset();
    golden = json_load_file(TFM_ROOT "/tests/golden/jinja.json", JSON_ALLOW_NUL, &error);
    return golden ? scratch_setup(state) : -1;
}

static int teardown(void **state) {
    json_decref(golden);
    return scratch_teardown(state);
}

static char *text_of(const json_t *value) {
    return value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
}

/* Renders a case of the golden file. */
static tfm_status render(char **text, const char *template, const json_t *cases, size_t i, const json_t *variables) {
    tfm_chat *chat = NULL;
    const json_t *item = json_array_get(cases, i);
    json_t *all = json_deep_copy(variables);
    json_object_update(all, json_object_get(item, "variables"));
    char *messages = text_of(json_object_get(item, "messages")), *tools = text_of(json_object_get(item, "tools")),
         *documents = text_of(json_object_get(item, "documents")), *values = text_of(all);
    const tfm_chat_options options = {
        .add_generation_prompt = json_is_true(json_object_get(item, "add_generation_prompt")),
        .continue_final_message = json_is_true(json_object_get(item, "continue_final_message")),
        .tools = tools,
        .documents = documents,
        .variables = values,
        .now = NOW};
    *text = NULL;
    harness_ok(tfm_chat_new(&chat, template, strlen(template), "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\"}"));
    const tfm_status status = tfm_chat_render(chat, text, messages, &options);
    tfm_chat_free(&chat);
    free(messages);
    free(tools);
    free(documents);
    free(values);
    json_decref(all);
    return status;
}

/* The text is transformers', or the template is refused: as transformers does, or since it is not supported. */
static bool check(const char *template, size_t i, const json_t *variables, const json_t *want) {
    char *text;
    const tfm_status status = render(&text, template, json_object_get(golden, "cases"), i, variables);
    const char *expected = json_string_value(want);
    if (status == TFM_OK && !expected)
        fail_msg("%s, case %zu: rendered as \"%s\", transformers refuses it", template, i, text);
    if (status == TFM_OK && strcmp(text, expected) != 0)
        fail_msg("%s, case %zu: \"%s\", not \"%s\"", template, i, text, expected);
    if (status != TFM_OK && expected && status != TFM_ERROR_UNSUPPORTED)
        fail_msg("%s, case %zu: %s", template, i, tfm_error_message());
    if (status != TFM_OK && !strstr(tfm_error_message(), "chat_render: "))
        fail_msg("%s: the message is \"%s\"", template, tfm_error_message());
    tfm_text_free(&text);
    return status == TFM_OK || !expected;
}

static void test_templates_render_as_transformers_does(void **state) {
    (void)state;
    const json_t *templates = json_object_get(golden, "templates");
    json_t *none = json_object();
    size_t refused = 0;
    assert_true(json_array_size(templates) >= 30);
    for (size_t i = 0; i < json_array_size(templates); i++) {
        const json_t *item = json_array_get(templates, i), *rendered = json_object_get(item, "rendered");
        for (size_t k = 0; k < json_array_size(rendered); k++)
            refused +=
                !check(json_string_value(json_object_get(item, "template")), k, none, json_array_get(rendered, k));
    }
    json_decref(none);
    assert_int_equal(refused, 0);
}

static void test_snippets_render_as_jinja2_does(void **state) {
    (void)state;
    const json_t *snippets = json_object_get(golden, "snippets");
    size_t refused = 0;
    assert_true(json_array_size(snippets) > 900);
    for (size_t i = 0; i < json_array_size(snippets); i++) {
        const json_t *pair = json_array_get(snippets, i);
        refused += !check(json_string_value(json_array_get(pair, 0)), 0, json_object_get(golden, "variables"),
                          json_array_get(pair, 1));
    }
    assert_in_range(refused, 1, 10);
}

/* ---- Errors and limits ----------------------------------------------------------------------------------------- */

/* A template fails with this status, and a message with these words. */
static void check_refused(const char *template, tfm_status want, const char *words) {
    tfm_chat *chat = NULL;
    char *text = (char *)"not NULL";
    harness_ok(tfm_chat_new(&chat, template, strlen(template), NULL));
    const tfm_status status = tfm_chat_render(chat, &text, "[{\"role\": \"user\", \"content\": \"Hi\"}]", NULL);
    if (status != want || text || !strstr(tfm_error_message(), words))
        fail_msg("%s: %s, \"%s\", not \"%s\"", template, tfm_status_name(status), tfm_error_message(), words);
    tfm_chat_free(&chat);
}

static void test_errors_name_the_line(void **state) {
    (void)state;
    check_refused("a\n{{ 1 +", TFM_ERROR_FORMAT, "line 2 of the chat template");
    check_refused("a\n\n{% block x %}{% endblock %}", TFM_ERROR_UNSUPPORTED,
                  "line 3 of the chat template: the statement `block` is not supported");
    check_refused("{% if true %}\n{{ 'x' | wordwrap }}{% endif %}", TFM_ERROR_UNSUPPORTED,
                  "line 2 of the chat template: the filter `wordwrap`");
    check_refused("{{ raise_exception('no system') }}", TFM_ERROR_INPUT, "it refuses the messages: no system");
    check_refused("\n{{ messages[0].x.y }}", TFM_ERROR_INPUT,
                  "line 2 of the chat template: 'dict object' has no attribute");
}

static void test_statements_that_no_chat_template_has_are_refused_by_name(void **state) {
    (void)state;
    static const char *const STATEMENTS[][2] = {
        {"block", "{% block x %}{% endblock %}"}, {"extends", "{% extends 'base' %}"},
        {"include", "{% include 'part' %}"},      {"import", "{% import 'macros' as m %}"},
        {"from", "{% from 'macros' import m %}"}, {"autoescape", "{% autoescape true %}{% endautoescape %}"},
    };
    for (size_t i = 0; i < TFM__COUNT(STATEMENTS); i++) {
        char words[64];
        snprintf(words, sizeof(words), "the statement `%s` is not supported", STATEMENTS[i][0]);
        check_refused(STATEMENTS[i][1], TFM_ERROR_UNSUPPORTED, words);
    }
    check_refused("{% spaceless %}", TFM_ERROR_FORMAT, "spaceless");
}

static void test_limits_stop_a_template(void **state) {
    (void)state;
    check_refused("{% for i in range(99999) %}{% for k in range(99999) %}{% endfor %}{% endfor %}", TFM_ERROR_INPUT,
                  "steps");
    check_refused("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", TFM_ERROR_INPUT, "nesting is deeper than");
    check_refused("{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x * 9 %}{% endfor %}",
                  TFM_ERROR_INPUT, "MiB");
    check_refused("{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}", TFM_ERROR_INPUT, "nesting is deeper than");
    check_refused("{{ 'a' * 999999999 }}", TFM_ERROR_INPUT, "steps");
    check_refused("{{ 'x' | center(99999999999) }}", TFM_ERROR_INPUT, "");
    char deep[2048] = "{{ ";
    memset(deep + 3, '-', 1000);
    strcat(deep, "1 }}");
    check_refused(deep, TFM_ERROR_INPUT, "nesting is deeper than");
}

static void test_inputs_are_checked(void **state) {
    (void)state;
    static const char template[] = "{{ messages[0].content }}{{ tools }}";
    static const struct {
        const char *messages;
        tfm_chat_options options;
        const char *words;
    } CASES[] = {
        {"[", {0}, "messages is not JSON"},
        {"{}", {0}, "messages is an object; a list is needed"},
        {"[]", {0}, "messages is an empty list"},
        {"[1]", {0}, "messages[0] is an integer"},
        {"[{}]", {.tools = "{}"}, "tools is an object; a list is needed"},
        {"[{}]", {.tools = "[{}, 1]"}, "tools[1] is an integer; an object is needed"},
        {"[{}]", {.documents = "[[null]]"}, "documents[0] is a list; an object is needed"},
        {"[{}]", {.variables = "[]"}, "variables is a list; an object is needed"},
        {"[{\"role\": \"a\"}]", {.continue_final_message = true}, "the last message has no text"},
        {"[{}]", {.template_name = "other"}, "no chat template named other"},
    };
    tfm_chat *chat = NULL;
    harness_ok(tfm_chat_new(&chat, template, strlen(template), NULL));
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        char *text = NULL;
        assert_int_not_equal(tfm_chat_render(chat, &text, CASES[i].messages, &CASES[i].options), TFM_OK);
        if (!strstr(tfm_error_message(), CASES[i].words))
            fail_msg("%s: \"%s\", not \"%s\"", CASES[i].messages, tfm_error_message(), CASES[i].words);
        assert_null(text);
    }
    tfm_chat_free(&chat);
}

/* ---- Files ----------------------------------------------------------------------------------------------------- */

static void put(const char *name, const char *text) {
    char path[4200];
    snprintf(path, sizeof(path), "%s/%s", scratch_root, name);
    harness_ok(tfm__file_write(path, text, strlen(text)));
}

static void check_rendered(const char *dir, const tfm_chat_options *options, const char *want) {
    tfm_chat *chat = NULL;
    char *text = NULL;
    harness_ok(tfm_chat_open(&chat, dir));
    harness_ok(tfm_chat_render(chat, &text, "[{\"role\": \"user\", \"content\": \"Hi\"}]", options));
    assert_string_equal(text, want);
    tfm_text_free(&text);
    tfm_chat_free(&chat);
}

static void test_templates_are_found_in_all_files(void **state) {
    (void)state;
    const char *dir = scratch_root;
    tfm_chat *chat = NULL;
    harness_ok(tfm_chat_open(&chat, dir));
    assert_null(tfm_chat_source(chat, NULL));
    tfm_chat_free(&chat);
    put("tokenizer_config.json",
        "{\"bos_token\": {\"content\": \"<b>\"}, \"eos_token\": null, \"chat_template\": [{\"name\": \"default\", "
        "\"template\": \"{{ bos_token }}1{{ eos_token }}\"}, {\"name\": \"tool_use\", \"template\": \"2\"}]}");
    put("special_tokens_map.json", "{\"bos_token\": \"<c>\", \"eos_token\": \"<e>\"}");
    check_rendered(dir, NULL, "<b>1<e>");
    check_rendered(dir, &(tfm_chat_options){.tools = "[{}]"}, "2");
    check_rendered(dir, &(tfm_chat_options){.variables = "{\"bos_token\": \"x\"}"}, "x1<e>");
    put("chat_template.json", "{\"chat_template\": \"3\"}");
    check_rendered(dir, NULL, "3");
    put("chat_template.jinja", "\xEF\xBB\xBF"
                               "4\n");
    check_rendered(dir, NULL, "4");
    put("chat_template.jinja", "{% if %}");
    harness_ok(tfm_chat_open(&chat, dir)); /* the error is that of rendering */
    char *text = NULL;
    assert_int_equal(tfm_chat_render(chat, &text, "[{}]", NULL), TFM_ERROR_FORMAT);
    tfm_chat_free(&chat);
    put("tokenizer_config.json", "{");
    assert_int_equal(tfm_chat_open(&chat, dir), TFM_ERROR_FORMAT);
    assert_null(chat);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_templates_render_as_transformers_does),
        cmocka_unit_test(test_snippets_render_as_jinja2_does),
        cmocka_unit_test(test_errors_name_the_line),
        cmocka_unit_test(test_statements_that_no_chat_template_has_are_refused_by_name),
        cmocka_unit_test(test_limits_stop_a_template),
        cmocka_unit_test(test_inputs_are_checked),
        cmocka_unit_test(test_templates_are_found_in_all_files),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
