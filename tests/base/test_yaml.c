/* YAML as JSON values, and rejected input. */
#include "base/yaml.h"
#include "support/scratch.h"

static json_t *parsed(const char *text) {
    json_t *out;
    harness_ok(tfm__yaml_parse(&out, text, strlen(text), "config.yml"));
    return out;
}

/* Files by Marian and by hand. */
static void test_yaml_is_read_as_json_values(void **state) {
    (void)state;
    static const struct {
        const char *yaml, *json;
    } CASES[] = {
        {"a: 1\nb: -2.5\nc: 1e-06\n", "{\"a\":1,\"b\":-2.5,\"c\":1e-06}"},
        {"a: true\nb: False\nc: ~\nd:\ne: null\n", "{\"a\":true,\"b\":false,\"c\":null,\"d\":null,\"e\":null}"},
        {"a: \"true\"\nb: '1'\nc: \"\"\nd: ''\n", "{\"a\":\"true\",\"b\":\"1\",\"c\":\"\",\"d\":\"\"}"},
        {"a: 1.9.0 abc 2020-01-01\nb: 007\nc: .5\nd: dan\n",
         "{\"a\":\"1.9.0 abc 2020-01-01\",\"b\":\"007\",\"c\":\".5\",\"d\":\"dan\"}"},
        {"models:\n  - a.bin # which\nvocabs: [x, \"y, z\"]\nempty: []\nmap: {b: 1}\n",
         "{\"models\":[\"a.bin\"],\"vocabs\":[\"x\",\"y, z\"],\"empty\":[],\"map\":{\"b\":1}}"},
        {"---\ndim-vocabs:\n- 32000\n- 32000\n...\n", "{\"dim-vocabs\":[32000,32000]}"},
        {"{}", "{}"},
        {"a: \xc3\xa9\r\nb: |\n  x\n  y\n", "{\"a\":\"\xc3\xa9\",\"b\":\"x\\ny\\n\"}"},
        {"a: 99999999999999999999999999\n", "{\"a\":\"99999999999999999999999999\"}"},
    };
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        json_t *got = parsed(CASES[i].yaml), *want = json_loads(CASES[i].json, 0, NULL);
        assert_non_null(want);
        if (!json_equal(got, want))
            fail_msg("%s is %s", CASES[i].yaml, json_dumps(got, JSON_COMPACT));
        json_decref(got);
        json_decref(want);
    }
}

static void test_unsupported_yaml_is_rejected(void **state) {
    (void)state;
    static const struct {
        const char *yaml, *part;
    } CASES[] = {
        {"", "it is empty"},
        {"- a\n- b\n", "config.yml holds a list; a mapping in YAML is needed"},
        {"word\n", "holds a string"},
        {"a: 1\na: 2\n", "line 2: `a` occurs twice"},
        {"a: [1\nb: 2\n", "config.yml is not YAML: line 2"},
        {"a: &x 1\nb: *x\n", "line 1, column 4: anchors"},
        {"a: &x [1]\n", "anchors"},
        {"a: &x {b: 1}\n", "anchors"},
        {"&x a: 1\n", "a key must be"},
        {"a: *x\n", "anchors"},
        {"a: !!int 1\n", "tags"},
        {"a: !x [1]\n", "tags"},
        {"? [1]\n: 2\n", "a key must be a plain word"},
        {"a: 1\n---\nb: 2\n", "a second document"},
        {"a: \"\\0\"\n", "a string has a NUL"},
        {"\"a\\0\": 1\n", "a key has a NUL"},
        {"a: \x01\n", "is not YAML: byte"},
        {"a: \xff\n", "is not YAML: byte"},
        {"a: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]\n", "too deep"},
    };
    json_t *out;
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        scratch_refused(tfm__yaml_parse(&out, CASES[i].yaml, strlen(CASES[i].yaml), "config.yml"), TFM_ERROR_FORMAT,
                        CASES[i].part);
        assert_null(out);
    }
}

static void test_yaml_file_is_loaded(void **state) {
    (void)state;
    json_t *out;
    scratch_text("x.yml", "beam-size: 6\n");
    harness_ok(tfm__yaml_load(&out, scratch_path("x.yml")));
    assert_int_equal(json_integer_value(json_object_get(out, "beam-size")), 6);
    json_decref(out);
    scratch_text("x.yml", "");
    scratch_refused(tfm__yaml_load(&out, scratch_path("x.yml")), TFM_ERROR_FORMAT, "it is empty");
    scratch_refused(tfm__yaml_load(&out, scratch_path("none.yml")), TFM_ERROR_IO, "none.yml");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_yaml_is_read_as_json_values),
        cmocka_unit_test(test_unsupported_yaml_is_rejected),
        cmocka_unit_test(test_yaml_file_is_loaded),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
