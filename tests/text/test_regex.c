/* Regular expressions of tokenizer.json: matches against Oniguruma in `tokenizers` (golden/make_regex.py), and rejected
 * syntax that would differ. */
#include <string.h>
#include "base/json.h"
#include "support/harness.h"
#include "support/scratch.h"
#include "text/regex.h"

/* Counts the bytes matched unlike Oniguruma; reports where. */
static int compare(const tfm__regex *regex, const char *pattern, const char *text, const json_t *want) {
    tfm__regex_memory memory = {0};
    tfm__regex_iter iter = {0};
    size_t i = 0;
    bool found = true, same = true;
    while (same && found) {
        harness_ok(tfm__regex_next(regex, &memory, &found, &iter, text, strlen(text)));
        if (!found || iter.begin == iter.end)
            continue;
        same = json_integer_value(json_array_get(want, i)) == (json_int_t)iter.begin &&
               json_integer_value(json_array_get(want, i + 1)) == (json_int_t)iter.end && i < json_array_size(want);
        i += 2;
    }
    same = same && i == json_array_size(want);
    if (!same)
        print_error("%s in \"%s\": match %zu of %zu is [%zu, %zu), not [%d, %d)\n", pattern, text, i / 2,
                    json_array_size(want) / 2, iter.begin, iter.end,
                    (int)json_integer_value(json_array_get(want, i > 1 ? i - 2 : 0)),
                    (int)json_integer_value(json_array_get(want, i > 1 ? i - 1 : 1)));
    tfm__regex_memory_free(&memory);
    return !same;
}

static void test_regex_finds_what_oniguruma_finds(void **state) {
    (void)state;
    json_t *root, *one;
    size_t i, k;
    int wrong = 0;
    harness_ok(tfm__json_load(&root, TFM_ROOT "/tests/golden/regex.json"));
    const json_t *texts = json_object_get(root, "texts"), *patterns = json_object_get(root, "patterns");
    assert_true(json_array_size(patterns) > 120 && json_array_size(texts) == 5);
    json_array_foreach(patterns, i, one) {
        const char *pattern = json_string_value(json_array_get(one, 0));
        tfm__regex *regex;
        const tfm_status status = tfm__regex_new(&regex, pattern, strlen(pattern), "here");
        if (status != TFM_OK) {
            print_error("%s: %s\n", pattern, tfm_error_message());
            wrong++;
            continue;
        }
        const json_t *found = json_array_get(one, 1);
        for (k = 0; k < json_array_size(texts); k++)
            wrong += compare(regex, pattern, json_string_value(json_array_get(texts, k)), json_array_get(found, k));
        tfm__regex_free(&regex);
    }
    json_decref(root);
    if (wrong)
        fail_msg("%d wrong", wrong);
}

static void test_regex_refuses_what_pcre2_reads_otherwise(void **state) {
    (void)state;
    static const struct {
        const char *pattern, *part;
        tfm_status status;
    } CASES[] = {
        {"[a[bc]]", "a nested class", TFM_ERROR_UNSUPPORTED},
        {"[a-z&&[aeiou]]", "&& in a class", TFM_ERROR_UNSUPPORTED},
        {"[[:nonsense:]]", "a nested class", TFM_ERROR_UNSUPPORTED},
        {"[\\W]", "\\W in a class", TFM_ERROR_UNSUPPORTED},
        {"[\\H]", "\\H in a class", TFM_ERROR_UNSUPPORTED},
        {"\\Ga", "\\G", TFM_ERROR_UNSUPPORTED},
        {"a\\Kb", "\\K", TFM_ERROR_UNSUPPORTED},
        {"(a)\\g<1>", "\\g", TFM_ERROR_UNSUPPORTED},
        {"(?<n>a)\\k<n>", "\\k", TFM_ERROR_UNSUPPORTED},
        {"\\Qa.b\\E", "\\Q", TFM_ERROR_UNSUPPORTED},
        {"\\X", "\\X", TFM_ERROR_UNSUPPORTED},
        {"(?s:.)", "the option s or a", TFM_ERROR_UNSUPPORTED},
        {"(?a:\\w)", "the option s or a", TFM_ERROR_UNSUPPORTED},
        {"(?~abc)", "an unsupported character", TFM_ERROR_UNSUPPORTED},
        {"(?R)", "an unsupported character", TFM_ERROR_UNSUPPORTED},
        {"(?(1)a|b)", "an unsupported character", TFM_ERROR_UNSUPPORTED},
        {"a\\", "ends with a backslash", TFM_ERROR_FORMAT},
        {"[abc", "a class without ]", TFM_ERROR_FORMAT},
        {"a)", "a ) without a (", TFM_ERROR_FORMAT},
        {"(a", "here", TFM_ERROR_FORMAT},
        {"*a", "here", TFM_ERROR_FORMAT},
        {"\\p{Nonsense}", "here", TFM_ERROR_FORMAT},
    };
    for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
        tfm__regex *regex = NULL;
        harness_refused(tfm__regex_new(&regex, CASES[i].pattern, strlen(CASES[i].pattern), "here"), CASES[i].status,
                        CASES[i].part);
        assert_null(regex);
    }
    char deep[512] = ""; /* 101 nested groups, and 100 */
    for (int depth = 100; depth <= 101; depth++) {
        tfm__regex *regex;
        memset(deep, '(', (size_t)depth);
        deep[depth] = 'a';
        memset(deep + depth + 1, ')', (size_t)depth);
        deep[2 * depth + 1] = 0;
        if (depth == 100)
            harness_ok(tfm__regex_new(&regex, deep, strlen(deep), "here"));
        else
            harness_refused(tfm__regex_new(&regex, deep, strlen(deep), "here"), TFM_ERROR_UNSUPPORTED,
                            "groups nested too deep");
        tfm__regex_free(&regex);
    }
}

/* A literal text matches itself, with any characters. */
static void test_regex_of_a_literal_finds_that_text(void **state) {
    (void)state;
    static const char LITERAL[] = "a.*[x]\\E(", TEXT[] = "aaxa.*[x]\\E( a.*[x]\\E(";
    tfm__regex *regex;
    tfm__regex_memory memory = {0};
    tfm__regex_iter iter = {0};
    bool found;
    harness_ok(tfm__regex_new_literal(&regex, LITERAL, strlen(LITERAL), "here"));
    for (int i = 0; i < 3; i++) {
        harness_ok(tfm__regex_next(regex, &memory, &found, &iter, TEXT, strlen(TEXT)));
        assert_int_equal(found, i < 2);
        if (found)
            assert_int_equal(iter.begin, i ? 13 : 3);
    }
    tfm__regex_memory_free(&memory);
    tfm__regex_free(&regex);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_regex_finds_what_oniguruma_finds),
        cmocka_unit_test(test_regex_refuses_what_pcre2_reads_otherwise),
        cmocka_unit_test(test_regex_of_a_literal_finds_that_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
