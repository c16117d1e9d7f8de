/* The parts of generated answers: whole texts, and texts that grow by a byte, whose parts never shrink. */
#include "serve/answer_parts.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char TOOLS[] = "[{\"type\":\"function\",\"function\":{\"name\":\"add\"}},"
                            "{\"type\":\"function\",\"function\":{\"name\":\"now\",\"parameters\":{}}}]";

typedef struct example {
    const char *text;
    char mode; /* t: with tools; r: reasoning; i: the prompt ends with <think>; 1: a single call */
    const char *reasoning, *content;
    const char *calls; /* name(arguments), joined by a blank */
} example;

static const example EXAMPLES[] = {
    {"Hello.", 't', "", "Hello.", ""},
    {"", 't', "", "", ""},
    {" Hello. ", 'r', "", " Hello. ", ""},
    {"a < b <tool_cat>", 't', "", "a < b <tool_cat>", ""},
    {"<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1.5, \"b\": [2]}}\n</tool_call>", 't', "", "",
     "add({\"a\":1.5,\"b\":[2]})"},
    {"I add. \n<tool_call>{\"name\":\"add\",\"arguments\":{}}</tool_call>\n<tool_call>{\"name\":\"now\"}</tool_call>\n",
     't', "", "I add.", "add({}) now({})"},
    {"<tool_call>{\"name\":\"add\",\"arguments\":{}}</tool_call><tool_call>{\"name\":\"now\"}</tool_call>", '1', "", "",
     "add({})"},
    {"<tool_call>{\"name\":\"add\",\"arguments\":{}}", 't', "", "", "add({})"}, /* the end token was next */
    {"<tool_call>[{\"name\":\"add\",\"arguments\":{}},{\"name\":\"now\",\"arguments\":{}}]", 't', "", "",
     "add({}) now({})"},
    {"[TOOL_CALLS] [{\"name\": \"add\", \"arguments\": {\"a\": \"</x>\"}}]", 't', "", "", "add({\"a\":\"</x>\"})"},
    {"[{\"name\": \"now\", \"arguments\": {}}]", 't', "", "", "now({})"},
    {"<|python_tag|>{\"name\": \"now\", \"parameters\": {}}; {\"name\": \"add\", \"parameters\": {\"a\": 2}}", 't', "",
     "", "now({}) add({\"a\":2})"},
    {"{\"name\": \"add\", \"parameters\": {\"a\": \"\\u00e9\"}}", 't', "", "", "add({\"a\":\"\xC3\xA9\"})"},
    {"{\"name\": \"add\", \"arguments\": \"{\\\"a\\\": 1}\"}", 't', "", "", "add({\"a\": 1})"},
    /* no calls */
    {"{\"name\": \"other\", \"parameters\": {}}", 't', "", "{\"name\": \"other\", \"parameters\": {}}", ""},
    {"{\"name\": \"add\", \"parameters\": {}} is a call", 't', "", "{\"name\": \"add\", \"parameters\": {}} is a call",
     ""},
    {"{\"name\": \"add\", \"parameters\": {", 't', "", "{\"name\": \"add\", \"parameters\": {", ""},
    {"[]", 't', "", "[]", ""},
    {"[{\"name\": \"add\", \"arguments\": {}}, 3]", 't', "", "[{\"name\": \"add\", \"arguments\": {}}, 3]", ""},
    {"[1, 2]", 't', "", "[1, 2]", ""},
    {"{\"name\": \"add\", \"arguments\": 3}", 't', "", "{\"name\": \"add\", \"arguments\": 3}", ""},
    {"<tool_call>add(1, 2)</tool_call>", 't', "", "<tool_call>add(1, 2)</tool_call>", ""},
    {"x <tool_call>{\"name\":\"add\",\"arguments\":{}}</tool_call> y", 't', "",
     "x <tool_call>{\"name\":\"add\",\"arguments\":{}}</tool_call> y", ""},
    {"<tool_call>{\"name\":\"add\",\"arguments\":{}}</tool_call>", 'r', "",
     "<tool_call>{\"name\":\"add\",\"arguments\":{}}</tool_call>", ""},
    /* reasoning */
    {"<think>\nOne, two. \n</think>\n\nThree.", 'r', "One, two.", "Three.", ""},
    {"<think></think>Three.", 'r', "", "Three.", ""},
    {"<think>\n\n</think>\n\nThree.", 'r', "", "Three.", ""},
    {"<think>One </thin", 'r', "One </thin", "", ""},
    {"One, two.\n</think>\nThree.", 'i', "One, two.", "Three.", ""},
    {"<think>One</think>Two", 'i', "One", "Two", ""},
    {"One <think>two</think>", 'r', "", "One <think>two</think>", ""},
    {"<think>One</think>Two", 't', "", "<think>One</think>Two", ""},
    {"<thin", 'r', "", "<thin", ""},
};

static answer_format format_of(const example *e, json_t *tools) {
    return (answer_format){.reasoning = e->mode == 'r' || e->mode == 'i',
                           .in_reasoning = e->mode == 'i',
                           .tools = e->mode == 't' || e->mode == '1' ? tools : NULL,
                           .single = e->mode == '1'};
}

static void assert_part(const char *text, size_t begin, size_t end, const char *want) {
    assert_true(begin <= end);
    assert_int_equal(end - begin, strlen(want));
    assert_memory_equal(text + begin, want, end - begin);
}

static void assert_calls(const json_t *calls, const char *want) {
    char all[512] = "";
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *call = json_array_get(calls, i), *function = json_object_get(call, "function");
        assert_string_equal(json_string_value(json_object_get(call, "type")), "function");
        snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s(%s)", i ? " " : "",
                 json_string_value(json_object_get(function, "name")),
                 json_string_value(json_object_get(function, "arguments")));
    }
    assert_string_equal(all, want);
    assert_int_equal(calls == NULL, !*want);
}

static void test_parts_of_whole_answers(void **state) {
    (void)state;
    json_t *tools = json_loads(TOOLS, 0, NULL), *calls;
    for (size_t i = 0; i < sizeof(EXAMPLES) / sizeof(*EXAMPLES); i++) {
        const example *e = &EXAMPLES[i];
        const answer_format format = format_of(e, tools);
        const answer_parts p = answer_split(e->text, strlen(e->text), &format, false, &calls);
        print_message("%s\n", e->text);
        assert_part(e->text, p.reasoning, p.reasoning_end, e->reasoning);
        assert_part(e->text, p.content, p.content_end, e->content);
        assert_calls(calls, e->calls);
        json_decref(calls);
    }
    json_decref(tools);
}

static void test_parts_of_growing_answers_never_shrink(void **state) {
    (void)state;
    json_t *tools = json_loads(TOOLS, 0, NULL);
    for (size_t i = 0; i < sizeof(EXAMPLES) / sizeof(*EXAMPLES); i++) {
        const example *e = &EXAMPLES[i];
        const answer_format format = format_of(e, tools);
        size_t reasoning = 0, content = 0;
        for (size_t bytes = 0; bytes <= strlen(e->text); bytes++) {
            char *part = strndup(e->text, bytes); /* a read beyond it is found by AddressSanitizer */
            const answer_parts p = answer_split(part, bytes, &format, true, NULL);
            assert_true(p.reasoning_end <= bytes && p.content_end <= bytes);
            assert_true(p.reasoning_end - p.reasoning >= reasoning && p.content_end >= p.content + content);
            reasoning = p.reasoning_end - p.reasoning;
            content = p.content_end - p.content;
            assert_true(reasoning <= strlen(e->reasoning) && memcmp(part + p.reasoning, e->reasoning, reasoning) == 0);
            assert_true(content <= strlen(e->content) && memcmp(part + p.content, e->content, content) == 0);
            free(part);
        }
    }
    json_decref(tools);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_of_whole_answers),
        cmocka_unit_test(test_parts_of_growing_answers_never_shrink),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
