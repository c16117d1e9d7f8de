/* JSON schemas as grammars. tests/grammar.py compares more texts with the package jsonschema. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/base.h"
#include "support/harness.h"
#include "tfm/grammar.h"

typedef struct schema_case {
    const char *schema, *good[8], *bad[8];
} schema_case;

static void check(const schema_case *cases, size_t count) {
    int wrong = 0;
    for (size_t i = 0; i < count; i++) {
        tfm_grammar *grammar;
        harness_ok(tfm_grammar_from_json_schema(&grammar, cases[i].schema));
        for (size_t k = 0; k < 16; k++) {
            const char *text = k < 8 ? cases[i].good[k] : cases[i].bad[k - 8];
            if (text && tfm_grammar_matches(grammar, text, strlen(text)) != (k < 8)) {
                print_error("%s: %s is %s\n", cases[i].schema, text, k < 8 ? "rejected" : "accepted");
                wrong++;
            }
        }
        tfm_grammar_free(&grammar);
    }
    assert_int_equal(wrong, 0);
}

static void test_schema_types_are_json(void **state) {
    (void)state;
    static const schema_case CASES[] = {
        {NULL, {"{}", "{\"a\":[1,{\"b\":null}]}"}, {"[]", "1", "", "{", "{\"a\"}", "{\"a\":1,}"}},
        {"", {"{}", "{ \"a\": 1 }"}, {"null"}},
        {"true", {"1", "null", "[]", "\"\""}, {"nul", "01"}},
        {"{}",
         {"true", "[1,[2],{}]", "-0.5e+7", "\"\\ud83d\\ude00\\u00e9\\n\""},
         {"\"\\ud83d\"", "\"\n\"", "+1", "1."}},
        {"{\"type\":\"null\"}", {"null"}, {"0", "\"null\""}},
        {"{\"type\":\"boolean\"}", {"true", "false"}, {"null", "True"}},
        {"{\"type\":\"integer\"}", {"0", "-1", "12345678901234567890"}, {"1.0", "1e3", "01", "-", "\"1\""}},
        {"{\"type\":\"number\"}", {"0", "-1.50", "1e5", "2.5E-10"}, {".5", "1.", "1e", "1e1000", "NaN", "--1"}},
        {"{\"type\":\"string\"}",
         {"\"\"", "\"a\"", "\"\\\"\"", "\"日\U0001F600\"", "\"\\/\\b\""},
         {"a", "\"", "\"\\x\"", "\"\t\"", "\"\xff\"", "\"\\udc00\"", "\"\\ud800\\u0041\""}},
        {"{\"type\":[\"integer\",\"null\"]}", {"1", "null"}, {"1.5", "\"\"", "[]"}},
        {"{\"type\":\"object\"}",
         {"{\n  \"a\": 1,\n  \"b\": 2\n}", "{ }"},
         {"{  \"a\":1}", "{\"a\" :1}", "{\"a\":1 ,\"b\":2}"}},
        {"{\"title\":\"t\",\"description\":\"d\",\"default\":1,\"examples\":[1],\"$schema\":\"s\",\"$id\":\"i\",\"$"
         "comment\":"
         "\"c\",\"deprecated\":true,\"readOnly\":true,\"writeOnly\":false,\"type\":\"null\"}",
         {"null"},
         {"1"}},
    };
    check(CASES, TFM__COUNT(CASES));
}

static void test_schema_objects_have_named_properties_in_order(void **state) {
    (void)state;
#define AB "\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"null\"}}"
    static const schema_case CASES[] = {
        {"{" AB "}",
         {"{}", "{\"a\":1}", "{\"b\":null}", "{\"a\":1,\"b\":null}", "{\"c\":[]}", "{\"a\":1,\"c\":2,\"d\":3}"},
         {"{\"a\":null}", "{\"b\":null,\"a\":1}", "{\"a\":1,\"a\":2}", "{\"a\":1\"b\":null}"}},
        {"{" AB ",\"required\":[\"b\"],\"additionalProperties\":false}",
         {"{\"b\":null}", "{\"a\":1,\"b\":null}"},
         {"{}", "{\"a\":1}", "{\"b\":null,\"c\":1}", "{\"c\":1}", "{,\"b\":null}"}},
        {"{" AB ",\"additionalProperties\":{\"type\":\"string\"}}",
         {"{\"c\":\"\"}", "{\"a\":1,\"ab\":\"x\",\"\":\"y\"}"},
         {"{\"c\":1}", "{\"\\u0061\":\"\"}", "{\"a\":\"\"}"}},
        {"{\"type\":\"object\",\"required\":[\"x\",\"y\"]}",
         {"{\"x\":1,\"y\":[]}", "{\"x\":1,\"y\":2,\"z\":3}"},
         {"{}", "{\"x\":1}", "{\"y\":1}"}},
        {"{\"type\":\"object\",\"properties\":{\"a\\\"\\n日\":{\"type\":\"null\"}},\"additionalProperties\":false}",
         {"{\"a\\\"\\n日\":null}", "{}"},
         {"{\"a\":null}", "{\"a\"\n日\":null}"}},
        {"{\"type\":\"object\",\"properties\":{\"a\":false}}", {"{}", "{\"b\":1}"}, {"{\"a\":1}"}},
        {"{\"properties\":{\"a\":{\"type\":\"null\"}}}", {"1", "[]", "{\"a\":null}"}, {"{\"a\":1}"}},
        {"{\"type\":\"object\",\"properties\":{\"o\":{" AB "}},\"required\":[\"o\"]}",
         {"{\"o\":{\"a\":3}}"},
         {"{\"o\":3}"}},
    };
    check(CASES, TFM__COUNT(CASES));
}

static void test_schema_arrays_count_their_items(void **state) {
    (void)state;
    static const schema_case CASES[] = {
        {"{\"type\":\"array\"}", {"[]", "[1,\"a\",[]]", "[ 1, 2 ]", "[\n 1,\n 2\n]"}, {"[1,]", "[,]", "[1 ,2]", "{}"}},
        {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}", {"[]", "[1,2,3]"}, {"[\"\"]", "[1,null]"}},
        {"{\"type\":\"array\",\"items\":{\"type\":\"null\"},\"minItems\":2}",
         {"[null,null]", "[null,null,null]"},
         {"[]", "[null]"}},
        {"{\"type\":\"array\",\"maxItems\":2}", {"[]", "[1]", "[1,2]"}, {"[1,2,3]"}},
        {"{\"type\":\"array\",\"minItems\":1,\"maxItems\":2}", {"[1]", "[1,2]"}, {"[]", "[1,2,3]"}},
        {"{\"type\":\"array\",\"maxItems\":0}", {"[]", "[ ]"}, {"[1]"}},
        {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"null\"},{\"type\":\"integer\"}]}",
         {"[]", "[null]", "[null,1]", "[null,1,\"x\"]"},
         {"[1]", "[null,null]"}},
        {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"null\"}],\"items\":false,\"minItems\":1}",
         {"[null]"},
         {"[]", "[null,1]"}},
    };
    check(CASES, TFM__COUNT(CASES));
}

static void test_schema_numbers_are_within_bounds(void **state) {
    (void)state;
    static const schema_case CASES[] = {
        {"{\"type\":\"integer\",\"minimum\":5}", {"5", "9", "10", "123"}, {"4", "0", "-5", "05", "5.0"}},
        {"{\"type\":\"integer\",\"minimum\":-12,\"maximum\":105}",
         {"-12", "-1", "0", "7", "99", "100", "105"},
         {"-13", "106", "110", "1000", "-20", "-0"}},
        {"{\"type\":\"integer\",\"exclusiveMinimum\":0,\"exclusiveMaximum\":10}", {"1", "9"}, {"0", "10", "-1"}},
        {"{\"type\":\"integer\",\"maximum\":-3}", {"-3", "-10", "-999"}, {"-2", "0", "3"}},
        {"{\"type\":\"integer\",\"minimum\":1.5,\"maximum\":3.5}", {"2", "3"}, {"1", "4"}},
        {"{\"type\":\"integer\",\"minimum\":0}", {"0", "10"}, {"-1", "-0"}},
        {"{\"type\":\"number\",\"minimum\":0,\"maximum\":1}",
         {"0", "1", "0.5", "1.0", "0.0"},
         {"1.01", "-0.1", "2", "1e-1", "10"}},
        {"{\"type\":\"number\",\"exclusiveMinimum\":0}", {"0.001", "1", "10.5"}, {"0", "0.0", "0.000", "-1"}},
        {"{\"type\":\"number\",\"minimum\":-1.25,\"exclusiveMaximum\":2.5}",
         {"-1.25", "-1.2", "-1", "0", "2.49", "2.4999"},
         {"-1.26", "2.5", "2.50", "3", "-2"}},
        {"{\"type\":\"number\",\"maximum\":-0.5}", {"-0.5", "-0.50", "-0.51", "-7"}, {"-0.49", "0", "-0.4", "1"}},
        {"{\"type\":\"number\",\"minimum\":1e-3,\"maximum\":1e2}", {"0.001", "100", "99.99"}, {"0.0009", "100.1"}},
        {"{\"type\":\"number\",\"minimum\":3,\"exclusiveMinimum\":3}", {"3.1", "4"}, {"3", "3.0"}},
        {"{\"minimum\":3}", {"3", "\"a\"", "null"}, {"2"}},
    };
    check(CASES, TFM__COUNT(CASES));
}

/* All numbers with up to two digits on each side, against each pair of bounds. */
static void test_schema_bounds_equal_comparing_numbers(void **state) {
    (void)state;
    static const double BOUNDS[] = {-101, -10, -9.5, -1, -0.1, 0, 0.1, 0.25, 1, 9, 9.99, 10, 15, 100};
    int wrong = 0;
    for (size_t i = 0; i < TFM__COUNT(BOUNDS); i++)
        for (size_t k = i; k < TFM__COUNT(BOUNDS); k++)
            for (int form = 0; form < 4; form++) {
                char schema[200], text[32];
                tfm_grammar *grammar;
                snprintf(schema, sizeof(schema), "{\"type\":\"number\",\"%s\":%g,\"%s\":%g}",
                         form & 1 ? "exclusiveMinimum" : "minimum", BOUNDS[i],
                         form & 2 ? "exclusiveMaximum" : "maximum", BOUNDS[k]);
                if (i == k && form) {
                    harness_refused(tfm_grammar_from_json_schema(&grammar, schema), TFM_ERROR_FORMAT, "no text");
                    continue;
                }
                harness_ok(tfm_grammar_from_json_schema(&grammar, schema));
                for (int n = -11000; n <= 11000; n += harness_brief() ? 3 : 1) {
                    const double x = n / 100.0;
                    const bool want =
                        (form & 1 ? x > BOUNDS[i] : x >= BOUNDS[i]) && (form & 2 ? x < BOUNDS[k] : x <= BOUNDS[k]);
                    const int bytes =
                        snprintf(text, sizeof(text), "%s%d.%02d", n < 0 ? "-" : "", abs(n) / 100, abs(n) % 100);

                    if (tfm_grammar_matches(grammar, text, (size_t)bytes) != want && wrong++ < 5)
                        print_error("%s: %s is %s\n", schema, text, want ? "rejected" : "accepted");
                }
                tfm_grammar_free(&grammar);
            }
    assert_int_equal(wrong, 0);
}

static void test_schema_strings_have_lengths_patterns_and_formats(void **state) {
    (void)state;
#define FORMAT(name) "{\"type\":\"string\",\"format\":\"" name "\"}"
#define PATTERN(p) "{\"type\":\"string\",\"pattern\":\"" p "\"}"
    static const schema_case CASES[] = {
        {"{\"type\":\"string\",\"minLength\":2}",
         {"\"ab\"", "\"日本\"", "\"\\n\\u00e9x\""},
         {"\"a\"", "\"\"", "\"日\""}},
        {"{\"type\":\"string\",\"maxLength\":2}",
         {"\"\"", "\"日本\"", "\"\\ud83d\\ude00a\""},
         {"\"abc\"", "\"\\n\\n\\n\""}},
        {"{\"type\":\"string\",\"minLength\":1,\"maxLength\":300}", {"\"a\""}, {"\"\""}},
        {PATTERN("^[a-z]+$"), {"\"a\"", "\"xyz\""}, {"\"\"", "\"A\"", "\"a1\"", "\"a\\n\""}},
        {PATTERN("b"), {"\"b\"", "\"abc\"", "\"\\n日b\""}, {"\"\"", "\"ac\""}},
        {PATTERN("^a|b$"), {"\"a\"", "\"ax\"", "\"xb\""}, {"\"xa\"", "\"bx\""}},
        {PATTERN("^(a|bc){2}?(?:x*?)(?<n>y)$"), {"\"aay\"", "\"bcaxxy\""}, {"\"ay\"", "\"aa\""}},
        {PATTERN("^\\\\d\\\\D\\\\w\\\\W\\\\s\\\\S.$"),
         {"\"1a_- xy\"", "\"0é9日\\tz\\u0001\""},
         {"\"aa_- xy\"", "\"1a_- x\\n\""}},
        {PATTERN("^[^\\\\]a-c\\\\d-]\\\\u0041\\\\x42\\\\cJ\\\\t\\\\/\\\\.$"),
         {"\"dAB\\n\\t/.\"", "\"é"
                             "AB\\n\\t/.\""},
         {"\"aAB\\n\\t/.\""}},
        {PATTERN("^[\\\\ud83d\\\\ude00-\\\\u{1F602}]{1,2}$"),
         {"\"\U0001F600\"", "\"\U0001F601\U0001F602\""},
         {"\"\U0001F603\"", "\"\""}},
        {PATTERN("^\\\"\\\\\\\\$"), {"\"\\\"\\\\\""}, {"\"\\\"\"", "\"\"\\\""}},
        {"{\"type\":\"string\",\"pattern\":\"^[a-z]+$\",\"minLength\":2,\"maxLength\":3}",
         {"\"ab\"", "\"abc\""},
         {"\"a\"", "\"abcd\"", "\"AB\""}},
        {"{\"type\":\"string\",\"pattern\":\"^a*$\",\"maxLength\":0}", {"\"\""}, {"\"a\""}},
        {"{\"type\":\"string\",\"pattern\":\"5\",\"format\":\"date\"}", {"\"2025-01-01\""}, {"\"2024-01-01\""}},
        {FORMAT("date"),
         {"\"2024-02-29\"", "\"1999-12-31\"", "\"2000-02-29\""},
         {"\"2023-02-29\"", "\"1900-02-29\"", "\"2024-04-31\"", "\"2024-13-01\"", "\"24-01-01\"", "\"0000-01-01\""}},
        {FORMAT("time"),
         {"\"23:59:59Z\"", "\"00:00:00.123+05:30\""},
         {"\"24:00:00Z\"", "\"12:00:00\"", "\"12:60:00Z\""}},
        {FORMAT("date-time"), {"\"2024-02-29T12:00:00Z\""}, {"\"2024-02-29\"", "\"2024-02-30T12:00:00Z\""}},
        {FORMAT("uuid"),
         {"\"2eb8aa08-aa98-11ea-b4aa-73b441d16380\""},
         {"\"2eb8aa08aa9811eab4aa73b441d16380\"", "\"\""}},
        {FORMAT("email"), {"\"a.b+c@example.com\""}, {"\"a\"", "\"@b\"", "\"a..b@c\"", "\"a@-b\""}},
        {FORMAT("ipv4"), {"\"127.0.0.1\"", "\"255.255.255.255\""}, {"\"256.0.0.1\"", "\"1.2.3\"", "\"01.2.3.4\""}},
        {FORMAT("ipv6"),
         {"\"::\"", "\"::1\"", "\"1:2:3:4:5:6:7:8\"", "\"fe80::1:2\"", "\"::ffff:1.2.3.4\""},
         {"\"1::2::3\"", "\"1:2:3:4:5:6:7\"", "\":1\"", "\"12345::\"", "\"1:2:3:4:5:6:7:8:9\""}},
        {FORMAT("uri"),
         {"\"https://example.com/a?b=c#d\"", "\"mailto:a@b\"", "\"urn:x:y\""},
         {"\"/a\"", "\"example\"", "\"a:b c\""}},
    };
    check(CASES, TFM__COUNT(CASES));
}

static void test_schema_constants_and_alternatives(void **state) {
    (void)state;
    static const schema_case CASES[] = {
        {"{\"enum\":[\"a\",1,null,1.5,[1,{\"b\":\"\\n\"}]]}",
         {"\"a\"", "1", "null", "1.5", "[1,{\"b\":\"\\n\"}]", "[1, { \"b\": \"\\n\" }]"},
         {"\"b\"", "2", "[]", "1.50"}},
        {"{\"enum\":[\"a\",1,2],\"type\":\"integer\",\"minimum\":2}", {"2"}, {"\"a\"", "1"}},
        {"{\"const\":{\"x\":1e300}}", {"{\"x\":1e+300}"}, {"{}"}},
        {"{\"const\":2.0}", {"2"}, {"2.5"}},
        {"{\"anyOf\":[{\"type\":\"null\"},{\"type\":\"string\",\"maxLength\":1}]}", {"null", "\"a\""}, {"1", "\"ab\""}},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},\"anyOf\":[{\"required\":[\"a\"]},{"
         "\"required\":"
         "[\"b\"]}]}",
         {"{\"a\":1}", "{\"b\":1}", "{\"a\":1,\"b\":2}"},
         {"{}", "{\"a\":\"\"}", "{\"a\":\"\",\"b\":1}"}},
        {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"string\"},{\"type\":\"object\",\"properties\":{\"k\":{"
         "\"const\":\"x\"}},"
         "\"required\":[\"k\"]},{\"type\":\"object\",\"properties\":{\"k\":{\"enum\":[\"y\",\"z\"]}},\"required\":["
         "\"k\"]}]}",
         {"1", "\"\"", "{\"k\":\"x\"}", "{\"k\":\"z\"}"},
         {"{}", "{\"k\":\"w\"}", "null"}},
        {"{\"allOf\":[{\"type\":\"integer\",\"minimum\":3},{\"type\":\"number\",\"maximum\":5}],\"minimum\":4}",
         {"4", "5"},
         {"3", "6", "4.5"}},
        {"{\"allOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"]},{"
         "\"properties\":"
         "{\"a\":{\"minimum\":2},\"b\":{\"type\":\"null\"}},\"additionalProperties\":false}]}",
         {"{\"a\":2}", "{\"a\":3,\"b\":null}"},
         {"{\"a\":1}", "{}", "{\"a\":2,\"c\":1}"}},
        {"{\"allOf\":[{\"$ref\":\"#/$defs/a\"}],\"description\":\"d\",\"$defs\":{\"a\":{\"type\":\"null\"}}}",
         {"null"},
         {"1"}},
        {"{\"allOf\":[{\"const\":1},{\"type\":\"integer\"}]}", {"1"}, {"2"}},
        {"{\"$ref\":\"#/$defs/n\",\"maximum\":5,\"$defs\":{\"n\":{\"type\":\"integer\",\"minimum\":1}}}",
         {"1", "5"},
         {"0", "6"}},
    };
    check(CASES, TFM__COUNT(CASES));
}

static void test_schema_references_may_be_recursive(void **state) {
    (void)state;
    static const schema_case CASES[] = {
        {"{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},\"next\":{\"$ref\":\"#\"}},\"required\":["
         "\"v\"],"
         "\"additionalProperties\":false}",
         {"{\"v\":1}", "{\"v\":1,\"next\":{\"v\":2,\"next\":{\"v\":3}}}"},
         {"{\"v\":1,\"next\":{}}", "{\"next\":{\"v\":1}}"}},
        {"{\"$ref\":\"#/definitions/a~1b~0%25\",\"definitions\":{\"a/b~%\":{\"type\":\"array\",\"items\":{\"$ref\":"
         "\"#/definitions/a~1b~0%25\"}}}}",
         {"[]", "[[],[[]]]"},
         {"[1]"}},
        {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"null\"}],\"items\":{\"$ref\":\"#/prefixItems/0\"}}",
         {"[null,null]"},
         {"[null,1]"}},
    };
    check(CASES, TFM__COUNT(CASES));
}

static void test_schema_errors_have_a_json_pointer(void **state) {
    (void)state;
    static const struct {
        const char *schema, *part;
        tfm_status status;
    } CASES[] = {
        {"{", "the JSON schema is not JSON", TFM_ERROR_FORMAT},
        {"[]", "# is no schema", TFM_ERROR_FORMAT},
        {"{\"type\":\"text\"}", "`type` at # is no type of JSON", TFM_ERROR_FORMAT},
        {"{\"properties\":{\"a\":{\"items\":{\"multipleOf\":2}}}}",
         "`multipleOf` at #/properties/a/items is not supported", TFM_ERROR_UNSUPPORTED},
        {"{\"anyOf\":[{\"not\":{}}]}", "`not` at #/anyOf is not supported", TFM_ERROR_UNSUPPORTED},
        {"{\"$defs\":{\"x\":{\"if\":true}},\"$ref\":\"#/$defs/x\"}", "`if` at #/$defs/x is not supported",
         TFM_ERROR_UNSUPPORTED},
        {"{\"$ref\":\"#/$defs/x\",\"uniqueItems\":true}", "`uniqueItems` at # is not supported", TFM_ERROR_UNSUPPORTED},
        {"{\"$ref\":\"#/$defs/x\"}", "`$ref` at # names no schema", TFM_ERROR_FORMAT},
        {"{\"$ref\":\"http://x/y\"}", "`http://x/y` at # is no reference such as", TFM_ERROR_UNSUPPORTED},
        {"{\"$ref\":\"#\"}", "it matches no text at all", TFM_ERROR_FORMAT},
        {"{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"null\"}]}", "the rule `#` is left-recursive", TFM_ERROR_UNSUPPORTED},
        {"{\"$ref\":\"#\",\"minimum\":1}", "is nested too deep, or refers to itself", TFM_ERROR_UNSUPPORTED},
        {"false", "it matches no text at all", TFM_ERROR_FORMAT},
        {"{\"type\":\"string\",\"format\":\"hostname\"}", "`hostname` at # is not a supported `format`",
         TFM_ERROR_UNSUPPORTED},
        {"{\"type\":\"string\",\"pattern\":\"a(?=b)\"}", "`pattern` \"a(?=b)\" at # has an assertion",
         TFM_ERROR_UNSUPPORTED},
        {"{\"type\":\"string\",\"pattern\":\"\\\\bx\"}", "has \\b, which is not supported", TFM_ERROR_UNSUPPORTED},
        {"{\"type\":\"string\",\"pattern\":\"(a)\\\\1\"}", "has a back reference", TFM_ERROR_UNSUPPORTED},
        {"{\"type\":\"string\",\"pattern\":\"\\\\p{L}\"}", "has \\p, which", TFM_ERROR_UNSUPPORTED},
        {"{\"type\":\"string\",\"pattern\":\"(^a)\"}", "has ^ or $ inside", TFM_ERROR_UNSUPPORTED},
        {"{\"type\":\"string\",\"pattern\":\"(a\"}", "has a ( without )", TFM_ERROR_FORMAT},
        {"{\"type\":\"string\",\"pattern\":\"a)\"}", "has a ) without (", TFM_ERROR_FORMAT},
        {"{\"type\":\"string\",\"pattern\":\"[a\"}", "has a class without ]", TFM_ERROR_FORMAT},
        {"{\"type\":\"string\",\"pattern\":\"*\"}", "has nothing to repeat at byte 1", TFM_ERROR_FORMAT},
        {"{\"type\":\"string\",\"minLength\":-1}", "`minLength` at # is no whole number", TFM_ERROR_FORMAT},
        {"{\"type\":\"string\",\"maxLength\":1e9}", "`maxLength` at # is too large", TFM_ERROR_UNSUPPORTED},
        {"{\"type\":\"number\",\"minimum\":\"1\"}", "`minimum` at # is not a number", TFM_ERROR_FORMAT},
        {"{\"type\":\"number\",\"minimum\":1e300}", "`minimum` at # has too many digits", TFM_ERROR_UNSUPPORTED},
        {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}",
         "#/oneOf has alternatives that may share a value", TFM_ERROR_UNSUPPORTED},
        {"{\"allOf\":[{\"pattern\":\"a\"},{\"pattern\":\"b\"}]}", "`pattern` at # is in two schemas of `allOf`",
         TFM_ERROR_UNSUPPORTED},
        {"{\"required\":[1]}", "`required` at # is no list of strings", TFM_ERROR_FORMAT},
        {"{\"items\":[{}]}", "`items` at # is a list; use `prefixItems`", TFM_ERROR_UNSUPPORTED},
        {"{\"properties\":{\"a\":{\"$id\":\"x\"}}}", "`$id` at #/properties/a is only supported at the top",
         TFM_ERROR_UNSUPPORTED},
        {"{\"const\":\"\\u0000\"}", "\\u0000 in a string is not supported", TFM_ERROR_UNSUPPORTED},
    };
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        tfm_grammar *grammar = NULL;
        harness_refused(tfm_grammar_from_json_schema(&grammar, CASES[i].schema), CASES[i].status, CASES[i].part);
        assert_null(grammar);
    }
}

/* Hostile schemas end quickly with a sentence. */
static void test_schema_limits_are_errors(void **state) {
    (void)state;
    enum { SIZE = 1 << 20 };
    static const char *const LARGE[] = {
        "{\"type\":\"string\",\"maxLength\":200000}",
        "{\"type\":\"string\",\"pattern\":\"^(((a{900}){900}){900})$\"}",
        "{\"type\":\"string\",\"pattern\":\"(a|b|ab){500}\",\"minLength\":400,\"maxLength\":3000}",
    };
    tfm_grammar *grammar = NULL;
    for (size_t i = 0; i < TFM__COUNT(LARGE); i++)
        harness_refused(tfm_grammar_from_json_schema(&grammar, LARGE[i]), TFM_ERROR_UNSUPPORTED, "more than");
    char *text = malloc(SIZE), *at = text;
    for (int depth = 0; depth < 200; depth++)
        at += sprintf(at, "{\"items\":");
    at += sprintf(at, "true");
    memset(at, '}', 200);
    at[200] = '\0';
    harness_refused(tfm_grammar_from_json_schema(&grammar, text), TFM_ERROR_UNSUPPORTED, "nested too deep");
    /* Each definition has the next one twice: as text 2^40 schemas, as rules 40. */
    at = text + sprintf(text, "{\"$ref\":\"#/$defs/d0\",\"$defs\":{\"d40\":{\"type\":\"null\"}");
    for (int i = 0; i < 40; i++)
        at += sprintf(
            at,
            ",\"d%d\":{\"type\":\"array\",\"prefixItems\":[{\"$ref\":\"#/$defs/d%d\"},{\"$ref\":\"#/$defs/d%d\"}],"
            "\"items\":false}",
            i, i + 1, i + 1);
    strcpy(at, "}}");
    harness_ok(tfm_grammar_from_json_schema(&grammar, text));
    assert_true(tfm_grammar_matches(grammar, "[[[],[]]]", 9));
    tfm_grammar_free(&grammar);
    /* The same by allOf, which copies: refused. */
    at = text + sprintf(text, "{\"$ref\":\"#/$defs/d0\",\"type\":\"object\",\"$defs\":{\"d40\":{\"type\":\"object\"}");
    for (int i = 0; i < 40; i++)
        at += sprintf(at, ",\"d%d\":{\"allOf\":[{\"$ref\":\"#/$defs/d%d\"},{\"$ref\":\"#/$defs/d%d\"}]}", i, i + 1,
                      i + 1);
    strcpy(at, "}}");
    harness_refused(tfm_grammar_from_json_schema(&grammar, text), TFM_ERROR_UNSUPPORTED, "");
    static const char *const FORMS[] = {"{\"allOf\":[{\"enum\":[%s0]},{\"enum\":[%s1]}]}",
                                        "{\"oneOf\":[{\"enum\":[%s0]},{\"enum\":[%s1]}]}"};
    char *list = malloc(SIZE / 4), *end = list;
    for (int i = 0; i < 30000; i++)
        end += sprintf(end, "%d,", 10 + i);
    for (size_t i = 0; i < TFM__COUNT(FORMS); i++) {
        snprintf(text, SIZE, FORMS[i], list, list);
        harness_refused(tfm_grammar_from_json_schema(&grammar, text), TFM_ERROR_UNSUPPORTED, "more than 4194304 steps");
    }
    free(list);
    /* Constants with other keywords are tested by a schema of the others, which may have constants again. */
    harness_refused(tfm_grammar_from_json_schema(&grammar, "{\"enum\":[1],\"items\":{\"$ref\":\"#\"}}"),
                    TFM_ERROR_UNSUPPORTED, "nested too deeply");
    at = text + sprintf(text, "{\"$ref\":\"#/$defs/d0\",\"$defs\":{\"d7\":{\"type\":\"null\"}");
    for (int i = 0; i < 7; i++) {
        at += sprintf(at, ",\"d%d\":{\"enum\":[1],\"anyOf\":[", i);
        for (int k = 0; k < 40; k++)
            at += sprintf(at, "%s{\"items\":{\"$ref\":\"#/$defs/d%d\",\"minimum\":%d}}", k ? "," : "", i + 1, k);
        at += sprintf(at, "]}");
    }
    strcpy(at, "}}");
    harness_refused(tfm_grammar_from_json_schema(&grammar, text), TFM_ERROR_UNSUPPORTED, "more than 4194304 steps");
    at = text + sprintf(text, "{\"pattern\":\"^(a?){60000}$\",\"enum\":[0");
    for (int i = 0; i < 1500; i++)
        at += sprintf(at, ",\"x%d\"", i);
    strcpy(at, "]}");
    harness_refused(tfm_grammar_from_json_schema(&grammar, text), TFM_ERROR_UNSUPPORTED, "more than 4194304 steps");
    at = text + sprintf(text, "{\"anyOf\":[{\"type\":\"null\"}");
    for (int i = 0; i < 100; i++)
        at += sprintf(at, ",{\"type\":\"string\",\"pattern\":\"^b$\",\"minLength\":%d}", 200000 - i);
    strcpy(at, "]}");
    harness_refused(tfm_grammar_from_json_schema(&grammar, text), TFM_ERROR_UNSUPPORTED, "more than 4194304 steps");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schema_types_are_json),
        cmocka_unit_test(test_schema_objects_have_named_properties_in_order),
        cmocka_unit_test(test_schema_arrays_count_their_items),
        cmocka_unit_test(test_schema_numbers_are_within_bounds),
        cmocka_unit_test(test_schema_bounds_equal_comparing_numbers),
        cmocka_unit_test(test_schema_strings_have_lengths_patterns_and_formats),
        cmocka_unit_test(test_schema_constants_and_alternatives),
        cmocka_unit_test(test_schema_references_may_be_recursive),
        cmocka_unit_test(test_schema_errors_have_a_json_pointer),
        cmocka_unit_test(test_schema_limits_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
