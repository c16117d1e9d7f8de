/* Subtitle lines: tags excluded from the length, and line breaking. */
#include "support/harness.h"
#include <stdlib.h>
#include <string.h>
#include "documents/subtitles.h"

static size_t tag(const char *text, bool vtt) {
    return subtitle_tag(text, strlen(text), vtt);
}

static void test_tags_of_players_are_tags(void **state) {
    (void)state;
    assert_int_equal(tag("<i>a", false), 3);
    assert_int_equal(tag("</FONT>", false), 7);
    assert_int_equal(tag("<font color=\"#ff0000\">a", false), 22);
    assert_int_equal(tag("<c.yellow>a", false), 10);
    assert_int_equal(tag("<00:19.000>a", true), 11);
    assert_int_equal(tag("{\\an8}a", false), 6);
    assert_int_equal(tag("{/i}a", false), 4);
    assert_int_equal(tag("{y:i}a", false), 5);
    assert_int_equal(tag("<image>a", true), 7);
    const char *const none[] = {"",      "a",       "<",      "<i", "< i>", "<image>", "<3 you>", "{an8}",
                                "{\\an", "{\\a{b}", "<i<b>>", "<>", "</>",  "<fonts>", "<3>",     "<i\n>"};
    for (size_t i = 0; i < CLI_COUNT(none); i++)
        assert_int_equal(tag(none[i], false), 0);
}

static void wraps(const char *text, size_t lines, size_t limit, const char *want) {
    char *got = subtitle_wrap(text, 0, lines, limit, false);
    assert_string_equal(got, want);
    free(got);
}

static void test_wrapped_lines_are_of_similar_length(void **state) {
    (void)state;
    wraps("one two three four", 1, 42, "one two three four");
    wraps("one two three four", 2, 42, "one two\nthree four");
    wraps("one two three four", 4, 42, "one\ntwo\nthree\nfour");
    wraps("one", 3, 42, "one");
    wraps("", 2, 42, "");
    wraps("one two three four", 1, 10, "one two\nthree four");
    wraps("incomprehensibilities are", 1, 5, "incomprehensibilities\nare");
    wraps("well-known words", 2, 42, "well-known\nwords");
}

static void test_wrapped_tags_are_not_counted_and_stay_whole(void **state) {
    (void)state;
    wraps("<font color=\"#ff0000\">one two</font> three four", 2, 42,
          "<font color=\"#ff0000\">one two</font>\nthree four");
    wraps("one two <i>three four</i>", 2, 42, "one two\n<i>three four</i>");
    wraps("one {\\i1}two three{\\i0} four", 2, 42, "one {\\i1}two\nthree{\\i0} four");
}

static void test_scripts_without_blanks_are_wrapped(void **state) {
    (void)state;
    wraps("我喜欢吃苹果。", 2, 42, "我喜欢吃\n苹果。");
    wraps("我喜欢吃苹果。", 1, 4, "我喜欢吃\n苹果。");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tags_of_players_are_tags),
        cmocka_unit_test(test_wrapped_lines_are_of_similar_length),
        cmocka_unit_test(test_wrapped_tags_are_not_counted_and_stay_whole),
        cmocka_unit_test(test_scripts_without_blanks_are_wrapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
