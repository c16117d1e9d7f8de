/* GBNF: which texts a grammar describes; error messages; limits. */
#include <string.h>
#include "support/harness.h"
#include "support/scratch.h"
#include "tfm/grammar.h"

/* Whether a new grammar matches the text. */
static bool matches(const char *gbnf, const char *text) {
    tfm_grammar *grammar;
    harness_ok(tfm_grammar_from_gbnf(&grammar, gbnf));
    const bool found = tfm_grammar_matches(grammar, text, strlen(text));
    tfm_grammar_free(&grammar);
    assert_null(grammar);
    return found;
}

/* A grammar with a list of texts that it matches, and one of others; NULL ends a list. */
typedef struct grammar_case {
    const char *gbnf, *good[8], *bad[8];
} grammar_case;

static void check(const grammar_case *cases, size_t count) {
    int wrong = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < 16; k++) {
            const char *text = k < 8 ? cases[i].good[k] : cases[i].bad[k - 8];
            if (text && matches(cases[i].gbnf, text) != (k < 8)) {
                print_error("%s: \"%s\" is %s\n", cases[i].gbnf, text, k < 8 ? "rejected" : "accepted");
                wrong++;
            }
        }
    assert_int_equal(wrong, 0);
}

static void test_gbnf_texts_and_classes_match_characters(void **state) {
    (void)state;
    static const grammar_case CASES[] = {
        {"root ::= \"yes\"", {"yes"}, {"", "ye", "yess", "Yes"}},
        {"root ::= \"\"", {""}, {"a"}},
        {"root ::= \"a\\n\\r\\t\\\\\\\"\\x41\\u00e9\\U0001F600\"", {"a\n\r\t\\\"A\u00e9\U0001F600"}, {"a"}},
        {"root ::= \"日本\"", {"日本"}, {"日", "日\xe6\x9c"}},
        {"root ::= [abc]", {"a", "c"}, {"", "d", "ab"}},
        {"root ::= [a-cx-z0-]", {"b", "y", "0", "-"}, {"d", "1"}},
        {"root ::= [^a-z]", {"A", "é", "\n", "\U0010FFFF"}, {"a", "", "\xff", "\xed\xa0\x80", "\xc3"}},
        {"root ::= [^]", {"a", "]", "日"}, {"", "ab"}},
        {"root ::= [\\]\\[\\\\\\x00-\\x1f]", {"]", "[", "\\", "\x1f"}, {" ", "x"}},
        {"root ::= [α-ωА-Я]", {"α", "ω", "Ж"}, {"а", "a"}},
        {"root ::= [\\u007f-\\U00010000]",
         {"\x7f", "\xc2\x80", "\u07ff", "\u0800", "\uffff", "\U00010000"},
         {"~", "\U00010001", "\xed\xb0\x80"}},
        {"root ::= [À-ą]", {"À", "ã", "ÿ", "Ā", "ą"}, {"¿", "Ć", "A"}},
        {"root ::= [\\u0800-\\U00010FFF]", {"ࠀ", "日", "\xf0\x90\xbf\xbf"}, {"\xf0\x91\x80\x80", "߿"}},
        {"root ::= .", {"a", "\n", "日", "\U0001F600"}, {"", "ab", "\x80", "\xf4\x90\x80\x80", "\xc0\x80"}},
    };
    check(CASES, TFM__COUNT(CASES));
}

static void test_gbnf_rules_groups_and_repetitions_combine(void **state) {
    (void)state;
    static const grammar_case CASES[] = {
        {"root ::= \"a\" \"b\" | \"c\"", {"ab", "c"}, {"a", "abc", "ac"}},
        {"root ::= \"a\" | ", {"a", ""}, {"b"}},
        {"root ::= (\"a\" | \"b\") \"c\"", {"ac", "bc"}, {"c", "abc"}},
        {"root ::= \"a\"*", {"", "a", "aaaa"}, {"b", "ab"}},
        {"root ::= \"ab\"+", {"ab", "abab"}, {"", "aba"}},
        {"root ::= \"a\"? \"b\"", {"ab", "b"}, {"a", "aab"}},
        {"root ::= [0-9]{3}", {"123"}, {"12", "1234"}},
        {"root ::= [0-9]{2,}", {"12", "1234567"}, {"1", ""}},
        {"root ::= \"a\"{1,3}", {"a", "aa", "aaa"}, {"", "aaaa"}},
        {"root ::= \"a\"{ 0 , 1 } \"b\"{0}", {"", "a"}, {"aa", "b"}},
        {"root ::= (\"a\"*)*", {"", "aaa"}, {"b"}},
        {"root ::= (\"a\"? \"b\"?){2}", {"", "ab", "ba", "abab", "bb"}, {"aaa"}},
        {"root ::= \"a\"+?", {"", "a", "aa"}, {"b"}},
        {"# first\nroot ::= a-1 # call\na-1 ::= \"x\" (\n  \"y\" # one\n  | \"z\"\n)\n\n", {"xy", "xz"}, {"x", "xyz"}},
        {"root ::=\n  \"a\" |\n  \"b\"\n  | \"c\"\r\nother ::= \"d\"\n", {"a", "b", "c"}, {"d"}},
        {"root ::= \"(\" root \")\" | \"x\"", {"x", "(x)", "((((x))))"}, {"(x", "x)", "()", "(x))"}},
        {"root ::= \"a\" root \"b\" | \"\"", {"", "ab", "aaabbb"}, {"aab", "abb", "ba"}},
        {"root ::= item (\",\" item)*\nitem ::= [a-z]+ | \"[\" root? \"]\"", {"a", "ab,[c,[]],d"}, {"a,", "[a", ",a"}},
        {"root ::= list\nlist ::= \"a\" list | \"a\"", {"a", "aaaaaaaa"}, {"", "b"}},
        {"root ::= e (\" \" e)*\ne ::= [a-z]+ | never\nnever ::= \"x\" never", {"a b"}, {"a ", ""}},
    };
    check(CASES, TFM__COUNT(CASES));
}

static void test_gbnf_errors_have_line_and_column(void **state) {
    (void)state;
    static const struct {
        const char *gbnf, *part;
        tfm_status status;
    } CASES[] = {
        {"", "it has no rule `root`", TFM_ERROR_FORMAT},
        {"rot ::= \"a\"", "it has no rule `root`", TFM_ERROR_FORMAT},
        {"root ::= \"a\"\n  other", "line 2, column 8: `::=` is needed after the name", TFM_ERROR_FORMAT},
        {"root ::= missing", "line 1, column 10: the rule `missing` is not defined", TFM_ERROR_FORMAT},
        {"root ::= \"é\" \"abc", "line 1, column 14: the text has no closing \"", TFM_ERROR_FORMAT},
        {"root ::= [abc", "line 1, column 10: the class has no closing ]", TFM_ERROR_FORMAT},
        {"root ::= [z-a]", "line 1, column 11: the range ends before it begins", TFM_ERROR_FORMAT},
        {"root ::= (\"a\"", "line 1, column 10: the group has no )", TFM_ERROR_FORMAT},
        {"root ::= (\"a\" =)", "line 1, column 15: this is not expected in a group", TFM_ERROR_FORMAT},
        {"root ::= \"a\")", "line 1, column 13: this is not expected in a rule", TFM_ERROR_FORMAT},
        {"root ::= <[1000]>", "line 1, column 10: this is not expected in a rule", TFM_ERROR_FORMAT},
        {"root ::= *", "line 1, column 10: there is nothing to repeat", TFM_ERROR_FORMAT},
        {"root ::= \"a\"{,3}", "line 1, column 14: a repetition needs a number", TFM_ERROR_FORMAT},
        {"root ::= \"a\"{3,2}", "line 1, column 13: the repetition ends before it begins", TFM_ERROR_FORMAT},
        {"root ::= \"a\"{3", "line 1, column 15: a repetition needs a closing }", TFM_ERROR_FORMAT},
        {"root ::= \"a\"{99999999999}", "line 1, column 14: the number of repetitions", TFM_ERROR_FORMAT},
        {"root ::= \"\\q\"", "line 1, column 11: this escape is unknown", TFM_ERROR_FORMAT},
        {"root ::= \"\\x4\"", "line 1, column 13: an escape needs 2 hexadecimal digits", TFM_ERROR_FORMAT},
        {"root ::= \"\\ud800\"", "line 1, column 13: the escape is no Unicode character", TFM_ERROR_FORMAT},
        {"root ::= \"\\U00110000\"", "the escape is no Unicode character", TFM_ERROR_FORMAT},
        {"root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1: the rule has been defined before", TFM_ERROR_FORMAT},
        {"::= \"a\"", "line 1, column 1: a rule such as", TFM_ERROR_FORMAT},
        {"root ::= \"\xff\"", "byte 11 is not well-formed UTF-8", TFM_ERROR_FORMAT},
        {"root ::= root \"a\" | \"a\"", "the rule `root` is left-recursive", TFM_ERROR_UNSUPPORTED},
        {"root ::= a\na ::= b \"x\" | \"y\"\nb ::= \"z\"? a", "is left-recursive", TFM_ERROR_UNSUPPORTED},
        {"root ::= \"a\" root", "it matches no text at all", TFM_ERROR_FORMAT},
        {"root ::= []", "it matches no text at all", TFM_ERROR_FORMAT},
    };
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        tfm_grammar *grammar = NULL;
        harness_refused(tfm_grammar_from_gbnf(&grammar, CASES[i].gbnf), CASES[i].status, CASES[i].part);
        assert_null(grammar);
    }
}

/* Hostile grammars end quickly with a sentence. */
static void test_gbnf_limits_are_errors(void **state) {
    (void)state;
    static const char *const LARGE[] = {
        "root ::= \"abc\"{1,100000}",
        "root ::= ((\"a\"{1000}){1000}){1000}",
        "root ::= ((\"\"{100000}){100000}){100000}",
        "root ::= ((((a*){1,9999}){1,9999}){1,9999})\na ::= \"\"",
    };
    tfm_grammar *grammar = NULL;
    for (size_t i = 0; i < TFM__COUNT(LARGE); i++) {
        harness_refused(tfm_grammar_from_gbnf(&grammar, LARGE[i]), TFM_ERROR_UNSUPPORTED, "more than");
        assert_null(grammar);
    }
    enum { SIZE = 1100000 };
    char *text = malloc(SIZE + 1);
    memset(text, ' ', SIZE);
    text[SIZE] = '\0';
    harness_refused(tfm_grammar_from_gbnf(&grammar, text), TFM_ERROR_UNSUPPORTED, "bytes; up to");
    for (int depth = 128; depth <= 129; depth++) {
        snprintf(text, SIZE, "root ::= %*s\"a\"%*s", depth, "", depth, "");
        memset(text + 9, '(', (size_t)depth);
        memset(text + 12 + depth, ')', (size_t)depth);
        if (depth == 128) {
            harness_ok(tfm_grammar_from_gbnf(&grammar, text));
            tfm_grammar_free(&grammar);
        } else {
            harness_refused(tfm_grammar_from_gbnf(&grammar, text), TFM_ERROR_UNSUPPORTED, "nested groups");
        }
    }
    /* Every rule calls the next one, from the last to the first: long chains take linear time. */
    char *at = text + sprintf(text, "root ::= r0\nr30000 ::= \"a\"\n");
    for (int i = 0; i < 30000; i++)
        at += sprintf(at, "r%d ::= r%d\n", i, i + 1);
    harness_ok(tfm_grammar_from_gbnf(&grammar, text));
    assert_true(tfm_grammar_matches(grammar, "a", 1));
    tfm_grammar_free(&grammar);
    /* 2^20 stacks after the same text. */
    at = text + sprintf(text, "root ::= r0\nr20 ::= \"a\"\n");
    for (int i = 0; i < 20; i++)
        at += sprintf(at, "r%d ::= r%d \"a\" | r%d \"b\"\n", i, i + 1, i + 1);
    harness_ok(tfm_grammar_from_gbnf(&grammar, text));
    assert_false(tfm_grammar_matches(grammar, "aaaaaaaaaaaaaaaaaaaaa", 21));
    tfm_grammar_free(&grammar);
    free(text);
}

/* A deep text needs a deep stack, and a long one many states, of which old ones are forgotten. */
static void test_gbnf_matches_deep_and_long_texts(void **state) {
    (void)state;
    enum { DEPTH = 200000 };
    tfm_grammar *grammar;
    char *text = malloc(2 * DEPTH);
    memset(text, '(', DEPTH);
    memset(text + DEPTH, ')', DEPTH);
    harness_ok(tfm_grammar_from_gbnf(&grammar, "root ::= \"(\" root \")\" | \"\""));
    assert_true(tfm_grammar_matches(grammar, text, 2 * DEPTH));
    assert_false(tfm_grammar_matches(grammar, text, 2 * DEPTH - 1));
    assert_false(tfm_grammar_matches(grammar, text + 1, 2 * DEPTH - 1));
    tfm_grammar_free(&grammar);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gbnf_texts_and_classes_match_characters),
        cmocka_unit_test(test_gbnf_rules_groups_and_repetitions_combine),
        cmocka_unit_test(test_gbnf_errors_have_line_and_column),
        cmocka_unit_test(test_gbnf_limits_are_errors),
        cmocka_unit_test(test_gbnf_matches_deep_and_long_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
