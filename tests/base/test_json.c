/* The JSON readers of the library and the program, on the same texts. */
#include "base/json.h"
#include "cli/cli.h"
#include "support/scratch.h"

#define BOM "\xEF\xBB\xBF"

/* Both readers' value of a text; NULL if both reject it. They must agree. */
static json_t *parsed(const char *text, size_t bytes) {
    char why[CLI_REASON] = "";
    json_t *library = NULL, *program = cli_json_parse(text, bytes, why);
    const tfm_status status = tfm__json_read(&library, text, bytes, "x.json");
    if (!json_equal(library, program) && (library || program))
        fail_msg("%s: the readers differ", text);
    if (library) {
        harness_ok(status);
    } else {
        harness_refused(status, TFM_ERROR_FORMAT, "x.json");
        assert_true(*why && !strchr(why, '\n'));
    }
    json_decref(program);
    return library;
}

static void test_json_values_equal_those_of_python(void **state) {
    (void)state;
    static const struct {
        const char *text, *want;
    } CASES[] = {
        {"{\"a\": 1000000000000000019884624838656}", "{\"a\": 1000000000000000019884624838656.0}"},
        {"{\"a\": -1000000000000000019884624838656}", "{\"a\": -1000000000000000019884624838656.0}"},
        {"{\"a\": [{\"b\": 99999999999999999999}, 7, -8], \"c\": 2, \"d\": 0.5}",
         "{\"a\": [{\"b\": 99999999999999999999.0}, 7, -8], \"c\": 2, \"d\": 0.5}"},
        {"[9223372036854775807, -9223372036854775808]", "[9223372036854775807, -9223372036854775808]"},
        {"[18446744073709551615, 3]", "[18446744073709551615.0, 3]"},
        {"[1e30, -2E+3, 1e-5, 4.0]", "[1e30, -2000.0, 0.00001, 4.0]"},
        {"99999999999999999999", "99999999999999999999.0"},
        {BOM "{\"a\": 1}", "{\"a\": 1}"},
        {BOM " {\"a\": 99999999999999999999}", "{\"a\": 99999999999999999999.0}"},
        {"{\"a\": \"x\\u0000y\\u0000\"}", "{\"a\": \"x\\ufffdy\\ufffd\"}"},
        {"[\"\\u0000\", [\"\\u0000\", 99999999999999999999]]", "[\"\\ufffd\", [\"\\ufffd\", 99999999999999999999.0]]"},
        {"\"\\u0000\"", "\"\\ufffd\""},
        {"{\"__metadata__\": null}", "{\"__metadata__\": null}"},
        {"[\"\\ud83d\\ude00\", \"\xC3\xA9\"]", "[\"\xF0\x9F\x98\x80\", \"\xC3\xA9\"]"},
        {"null", "null"},
    };
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        json_t *got = parsed(CASES[i].text, strlen(CASES[i].text));
        json_t *want = json_loads(CASES[i].want, JSON_DECODE_ANY, NULL);
        assert_non_null(want);
        if (!json_equal(got, want))
            fail_msg("%s is %s", CASES[i].text, json_dumps(got, JSON_ENCODE_ANY));
        json_decref(got);
        json_decref(want);
    }
}

static void test_invalid_json_is_rejected(void **state) {
    (void)state;
    static const char *const CASES[] = {
        "",
        BOM,
        BOM BOM "{}",
        "{\"a\": 1",
        "{\"a\": 1} x",
        "{} {}",
        "{\"a\\u0000\": 1}",
        "{\"a\": \"\xFF\"}",
        "{\"a\": \"\xED\xA0\x80\"}",
        "[\"\\ud83d\"]",
        "[1e999]",
        "[NaN]",
        "{'a': 1}",
        "[01]",
    };
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        json_t *got = parsed(CASES[i], strlen(CASES[i]));
        if (got)
            fail_msg("%s is accepted", CASES[i]);
    }
    assert_null(parsed("{}\0", 3));
    char deep[20001], digits[20001];
    memset(deep, '[', 20000);
    memset(digits, '9', 20000);
    assert_null(parsed(deep, 20000));
    assert_null(parsed(digits, 20000));
}

/* A tensor file with a duplicate name is damaged; in a request the last key wins, as in Python. */
static void test_duplicate_keys_are_rejected_by_the_library_only(void **state) {
    (void)state;
    static const char *const CASES[] = {"{\"a\": 1, \"a\": 2}", "{\"a\": 99999999999999999999, \"a\": 2}"};
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        char why[CLI_REASON];
        json_t *library, *program = cli_json_parse(CASES[i], strlen(CASES[i]), why);
        harness_refused(tfm__json_read(&library, CASES[i], strlen(CASES[i]), "x.json"), TFM_ERROR_FORMAT, "duplicate");
        assert_int_equal(json_integer_value(json_object_get(program, "a")), 2);
        json_decref(program);
    }
}

static void test_json_file_errors_name_the_file(void **state) {
    (void)state;
    char why[CLI_REASON];
    scratch_text("x.json", BOM "{\"model_max_length\": 1000000000000000019884624838656}");
    json_t *library = NULL, *program = cli_json_load(scratch_path("x.json"), why);
    harness_ok(tfm__json_load(&library, scratch_path("x.json")));
    assert_true(json_equal(library, program));
    json_decref(library);
    json_decref(program);
    assert_null(cli_json_load(scratch_path("none.json"), why));
    assert_string_equal(why, "No such file or directory");
    assert_null(cli_json_load(scratch_root, why));
    scratch_text("x.json", "[1]");
    scratch_refused(tfm__json_load(&library, scratch_path("x.json")), TFM_ERROR_FORMAT, "holds a list");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_values_equal_those_of_python),
        cmocka_unit_test(test_invalid_json_is_rejected),
        cmocka_unit_test(test_duplicate_keys_are_rejected_by_the_library_only),
        cmocka_unit_test(test_json_file_errors_name_the_file),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
