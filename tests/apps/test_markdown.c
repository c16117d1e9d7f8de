/* Markdown documents with mock translations: unchanged bytes, escapes, and what is no text. */
#include "support/harness.h"
#include <ctype.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/file.h"
#include "documents/markup.h"

static markup *read_text(const char *text) {
    markup *m = markdown_read(text, strlen(text));
    if (!m)
        skip(); /* a build without md4c */
    return m;
}

/* The document with its runs replaced by `texts` as far as they go. */
static char *replaced(const char *text, const char *const *texts, size_t count) {
    markup *m = read_text(text);
    assert_int_equal(markup_runs(m), count);
    for (size_t i = 0; i < count; i++)
        assert_true(markup_put(m, i, texts[i], NULL));
    char *out = markup_write(m);
    assert_non_null(out);
    markup_free(m);
    return out;
}

static void expect_runs(const char *text, const char *const *runs) {
    markup *m = read_text(text);
    size_t count = 0;
    while (runs[count])
        count++;
    for (size_t i = 0; i < markup_runs(m) && i < count; i++)
        assert_string_equal(markup_text(m, i), runs[i]);
    assert_int_equal(markup_runs(m), count);
    markup_free(m);
}

static void test_blocks_and_spans_are_runs(void **state) {
    (void)state;
    expect_runs("# A *small* house #\n\nTwo\nlines\n===\n", (const char *const[]){"A small house", "Two lines", NULL});
    expect_runs("> One\n> and **two\n> words**.\n> - item\n",
                (const char *const[]){"One and two words.", "item", NULL});
    expect_runs("* *a* b\n1. ![](x.png) c\n   - [ ] d\n", (const char *const[]){"a b", "c", "d", NULL});
    expect_runs("| Left | R\\|ight |\n|---|:-:|\n| `x` y | z |\n",
                (const char *const[]){"Left", "R|ight", "y", "z", NULL});
    expect_runs("[text](<a b> \"t (\") and ![alt text](/u_(v)) ~~end~~\n",
                (const char *const[]){"text and alt text end", NULL});
    expect_runs("A &amp; B &#228; \\*c\\* line  \nnext\\\nlast\n",
                (const char *const[]){"A & B \xC3\xA4 *c* line next last", NULL});
    expect_runs("***both** one* _two_ word_in_word\n", (const char *const[]){"both one two word_in_word", NULL});
}

static void test_code_addresses_and_labels_are_no_text(void **state) {
    (void)state;
    expect_runs("---\ntitle: Word\n---\nText\n", (const char *const[]){"Text", NULL});
    expect_runs("```\ncode\n```\n\n    code\n\n<div>\nhtml\n</div>\n\n[foo]: /url \"Title\"\n",
                (const char *const[]){NULL});
    expect_runs("Use ``a `b` `` or <https://x.org/y> [^1] [foo] now.\n\n[foo]: /url\n[^1]: A note.\n",
                (const char *const[]){"Use or now.", "A note.", NULL});
    expect_runs("A <b>bold</b><br>word\n", (const char *const[]){"A bold word", NULL});
}

static void test_marks_follow_their_words(void **state) {
    (void)state;
    static const char text[] = "Ein **Mann** geht in [den Garten](/g \"t\").\r\n\r\n> zwei\r\n> `code` Worte\r\n";
    char *got = replaced(text, (const char *const[]){"A man walks in the garden.", "two words"}, 2);
    assert_string_equal(got, "A **man** walks in [the garden](/g \"t\").\r\n\r\n> two `code` words\r\n");
    free(got);
}

static void test_alerts_stay_and_are_no_part_of_a_sentence(void **state) {
    (void)state;
    char *got = replaced("> [!NOTE]\n> Guten *Morgen*.\n\n> [!tip]  \r\n> Danke.\n> > [!WARNING]\n>\n> Ja.\n",
                         (const char *const[]){"Good morning.", "Thanks.", "Yes."}, 3);
    assert_string_equal(got, "> [!NOTE]\n> Good *morning*.\n\n> [!tip]  \r\n> Thanks.\n> > [!WARNING]\n>\n> Yes.\n");
    free(got);
    expect_runs("> [!NOTE] Ein\n> Hund\n\n[!NOTE]\nhier\n\n> a\n> [!NOTE]\n\n> \\[!TIP]\n> b\n",
                (const char *const[]){"[!NOTE] Ein Hund", "[!NOTE] hier", "a [!NOTE]", "[!TIP] b", NULL});
}

static void test_inline_elements_are_those_of_html(void **state) {
    (void)state;
    static const char *const TEXTS[][4] = {
        {"Wo ist <kbd>Strg</kbd> Tom?\n", "Wo ist Tom?", "Where is Tom?", "Where is <kbd>Strg</kbd> Tom?\n"},
        {"Das <CODE>n *m*</CODE> ist <samp>ja</samp>.\n", "Das ist.", "This is.",
         "This <CODE>n *m*</CODE> is <samp>ja</samp>.\n"},
        {"Mit <code>a</code>+<kbd>b</kbd> da\n", "Mit da", "With it", "With <code>a</code>+<kbd>b</kbd> it\n"},
        {"Nur <span translate=\"no\">Guten <span>Tag</span> Tom</span> hier\n", "Nur hier", "Only here",
         "Only <span translate=\"no\">Guten <span>Tag</span> Tom</span> here\n"},
        {"- Nur <span\n   class='notranslate'>Tag\n  Tom</span> hier\n", "Nur hier", "Only here",
         "- Only <span\n   class='notranslate'>Tag\n  Tom</span> here\n"},
        {"Das <code translate=yes>Wort</code> hier\n", "Das Wort hier", "The word here",
         "The <code translate=yes>word</code> here\n"},
        {"Wo ist Tom<sup>1</sup>?\n", "Wo ist Tom?", "Where is Tom?", "Where is Tom<sup>1</sup>?\n"},
        {"Ein Hund<sup>[1](#n)</sup>\n", "Ein Hund", "A dog", "A dog<sup>[1](#n)</sup>\n"},
        {"Ein <a href='x'>guter *Hund*</a>!\n", "Ein guter Hund!", "A good dog!", "A <a href='x'>good *dog*</a>!\n"},
        {"Ein Wort<wbr>laut <!-- a\n<b> --> hier\n", "Ein Wortlaut hier", "A wording here",
         "A wording<wbr> <!-- a\n<b> --> here\n"},
        {"*Ein <b>gut*er</b> </i> Hund\n", "Ein guter Hund", "A good dog", "*A* <b>good</b> </i> dog\n"},
    };
    for (size_t i = 0; i < sizeof(TEXTS) / sizeof(*TEXTS); i++) {
        expect_runs(TEXTS[i][0], (const char *const[]){TEXTS[i][1], NULL});
        char *got = replaced(TEXTS[i][0], &TEXTS[i][2], 1);
        assert_string_equal(got, TEXTS[i][3]);
        free(got);
    }
}

static void test_many_tags_take_linear_time(void **state) {
    (void)state;
    enum { TAGS = 200000 };
    const clock_t start = clock();
    char *text = malloc(7 * TAGS + 2);
    assert_non_null(text);
    for (int kind = 0; kind < 2; kind++) {
        size_t used = 0;
        for (int i = 0; i < TAGS; i++)
            used +=
                (size_t)sprintf(text + used, "%s", kind ? (i % 2 ? "</i>" : "<b>a") : (i < TAGS / 2 ? "<b>a" : "</b>"));
        markup *m = read_text(text);
        assert_int_equal(markup_runs(m), 1);
        markup_free(m);
    }
    assert_true(clock() - start < 5 * CLOCKS_PER_SEC); /* 0.2 s; 20 s in quadratic time */
    free(text);
}

/* An alignment of each of 6 words with one of 5, where only the ends of words matter. */
static json_t *alignment_of(const int *words) {
    json_t *source = json_array(), *target = json_array(), *rows = json_array();
    for (int i = 0; i < 6; i++)
        json_array_append_new(source, json_string(i < 5 ? "\xE2\x96\x81w" : "</s>"));
    for (int i = 0; i < 7; i++) {
        json_t *row = json_array();
        for (int k = 0; k < 6; k++)
            json_array_append_new(row, json_integer(k == (i < 6 ? words[i] : 5)));
        json_array_append_new(rows, row);
        json_array_append_new(target, json_string(i < 6 ? "\xE2\x96\x81w" : "</s>"));
    }
    return json_pack("[{s:o, s:o, s:o}]", "source", source, "target", target, "weights", rows);
}

/* Words that are not next to others of their link are outside. */
static void test_links_and_pictures_are_written_once(void **state) {
    (void)state;
    static const struct {
        const char *text, *put, *want;
        int words[6];
    } CASES[] = {
        {"[Guten *Morgen*][ref] und [ref] sind gut.\n\n[ref]: x\n",
         "Good morning and good are fine.",
         "[Good *morning*][ref] and [ref] good are fine.\n\n[ref]: x\n",
         {0, 1, 2, 0, 3, 4}},
        {"![Guten *Morgen*](b) und `x` sind gut.\n",
         "good and good morning are fine.",
         "good and `x` ![good *morning*](b) are fine.\n",
         {0, 2, 0, 1, 3, 4}},
        {"[Guten `x` Morgen](b) und sind **gut**.\n",
         "good and morning good fine fine.",
         "good and [morning good `x`](b) **fine fine**.\n",
         {0, 2, 1, 0, 4, 4}},
        {"[Guten `x` Morgen](b) und sind **gut**.\n",
         "good and early morning fine fine.",
         "good `x` and [early morning](b) **fine fine**.\n",
         {0, 2, 1, 1, 4, 4}},
        {"[Guten `x` Morgen](b) und sind **gut**.\n",
         "good day and morning fine fine.",
         "[good day `x`](b) and morning **fine fine**.\n",
         {0, 0, 2, 1, 4, 4}},
    };
    for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
        json_t *alignment = alignment_of(CASES[i].words);
        markup *m = read_text(CASES[i].text);
        assert_true(markup_put(m, 0, CASES[i].put, alignment));
        char *got = markup_write(m);
        assert_string_equal(got, CASES[i].want);
        free(got);
        markup_free(m);
        json_decref(alignment);
    }
}

static void test_special_characters_are_escaped(void **state) {
    (void)state;
    static const char *const TEXTS[] = {"1. *a* _b_ [c](d) <e> `f` \\g",
                                        "# no heading",
                                        "- no item",
                                        "+ no item",
                                        "> no quote",
                                        "12) no item",
                                        "--- no rule",
                                        "~~~ no code",
                                        "![no](image) &amp; snake_case_word __x__"};
    for (size_t i = 0; i < sizeof(TEXTS) / sizeof(*TEXTS); i++) {
        char *got =
            replaced("| a |\n|---|\n| b |\n\nparagraph *word*\n", (const char *const[]){"x|y", TEXTS[i], TEXTS[i]}, 3);
        expect_runs(got, (const char *const[]){"x|y", TEXTS[i], TEXTS[i], NULL});
        free(got);
    }
    char *got = replaced("Give 5 * 3 [sic] for A_1.\n", (const char *const[]){"Is 5 * 3 [sic]"}, 1);
    assert_string_equal(got, "Is 5 * 3 [sic]\n");
    free(got);
}

static void test_escapes_of_the_source_stay(void **state) {
    (void)state;
    static const char *const PAIRS[][3] = {
        {"\\# Ein Hund\n", "# A dog", "\\# A dog\n"},
        {"\\> Ein *Hund*\n", "> A dog", "\\> A *dog*\n"},
        {"\\- Ein Hund\n\\+ da\n", "- A dog + here", "\\- A dog \\+ here\n"},
        {"- \\* Ein\n- \\~\\~b\\~\\~\n", "* A", "- \\* A\n- \\~\\~b\\~\\~\n"},
        {"1\\. Ein Hund.\n", "1. A dog.", "1\\. A dog.\n"},
        {"1\\. Ein Hund\n", "A dog.", "A dog.\n"},
        {"Ist www\\.x\\.de da\n", "www.x.de is.", "www\\.x\\.de is.\n"},
        {"1\\) Ein Hund.\n", "1) A dog.", "1\\) A dog.\n"},
        {"<b>\\# Ein Hund</b>\n", "# A dog", "<b>\\# A dog</b>\n"},
        {"**\\# Ein Hund**\n", "# A dog", "**\\# A dog**\n"},
        {"`x` \\# Ein Hund\n", "# A dog", "`x` \\# A dog\n"},
        {"Nur \\$5 und \\$6\n", "Only $5 and $6", "Only \\$5 and \\$6\n"},
        {"2 * 3 ist \\*so\\*\n", "2 * 3 is *so*", "2 \\* 3 is \\*so\\*\n"},
        {"\\\\# Ein Hund\n", "\\# A dog", "\\\\# A dog\n"},
        {"Da \\(`x`\\) war\n", "It was", "It \\(`x`\\) was\n"},
        {"\\~\\~Hund\\~\\~ hier\n", "~~dog~~ here", "\\~\\~dog\\~\\~ here\n"},
    };
    for (size_t i = 0; i < sizeof(PAIRS) / sizeof(*PAIRS); i++) {
        markup *m = read_text(PAIRS[i][0]);
        assert_true(markup_put(m, 0, PAIRS[i][1], NULL));
        char *got = markup_write(m);
        assert_string_equal(got, PAIRS[i][2]);
        free(got);
        markup_free(m);
    }
}

/* Calls `with` for the text of each page of this project. */
static void each_page(void (*with)(const char *text)) {
    static const char *const PATTERNS[] = {"README.md", "apps/docs/*.md", "lib/docs/*.md", "tests/*.md",
                                           "include/*.md"};
    glob_t found = {0};
    for (size_t i = 0; i < sizeof(PATTERNS) / sizeof(*PATTERNS); i++) {
        char path[4096];
        snprintf(path, sizeof(path), "%s/%s", TFM_ROOT, PATTERNS[i]);
        glob(path, i ? GLOB_APPEND : 0, NULL, &found);
    }
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char *text;
        size_t size;
        assert_int_equal(tfm__file_read(&text, &size, found.gl_pathv[i]), TFM_OK);
        with(text);
        free(text);
    }
    assert_true(found.gl_pathc > 20);
    globfree(&found);
}

static void check_unchanged(const char *text) {
    markup *m = read_text(text);
    for (size_t i = 0; i < markup_runs(m); i++) {
        char *own = strdup(markup_text(m, i));
        assert_true(markup_put(m, i, own, NULL));
        free(own);
    }
    char *out = markup_write(m);
    assert_string_equal(out, text);
    free(out);
    markup_free(m);
}

static void test_unchanged_text_keeps_every_byte(void **state) {
    (void)state;
    each_page(check_unchanged);
}

static char *without_blanks(const char *text) {
    char *out = strdup(text), *to = out;
    for (; *text; text++)
        if (*text != ' ')
            *to++ = *text;
    *to = 0;
    return out;
}

static void swap_case(char *text) {
    for (char *c = text; *c; c++)
        *c = (char)(islower((unsigned char)*c) ? toupper((unsigned char)*c) : tolower((unsigned char)*c));
}

/* Letters in the other case stay in their runs, and the rest of the page stays what it is. */
static void check_again(const char *text) {
    markup *m = read_text(text);
    const size_t count = markup_runs(m);
    char **put = calloc(count + 1, sizeof(*put));
    for (size_t i = 0; i < count; i++) {
        put[i] = strdup(markup_text(m, i));
        swap_case(put[i]);
        assert_true(markup_put(m, i, put[i], NULL));
    }
    char *out = markup_write(m);
    markup *again = read_text(out);
    for (size_t i = 0; i < count && i < markup_runs(again); i++) {
        char *got = without_blanks(markup_text(again, i)), *want = without_blanks(put[i]);
        assert_string_equal(got, want);
        free(got);
        free(want);
    }
    assert_int_equal(markup_runs(again), count);
    for (size_t i = 0; i < count; i++)
        free(put[i]);
    free(put);
    free(out);
    markup_free(again);
    markup_free(m);
}

static void test_written_text_is_read_again(void **state) {
    (void)state;
    each_page(check_again);
}

/* The document with the letters of its runs in the other case, through all of writing. */
static char *other_case(const char *text) {
    markup *m = read_text(text);
    for (size_t i = 0; i < markup_runs(m); i++) {
        char *put = strdup(markup_text(m, i));
        swap_case(put);
        assert_true(markup_put(m, i, put, NULL));
        free(put);
    }
    char *out = markup_write(m);
    assert_non_null(out);
    markup_free(m);
    return out;
}

static void test_escapes_alerts_and_html_are_written_byte_for_byte(void **state) {
    (void)state;
    static const char *const SNIPPETS[] = {
        "\\# Guten Morgen\n",
        "\\* Guten Morgen\n",
        "\\> Guten Morgen\n",
        "\\- Guten Morgen\n",
        "\\+ Guten Morgen\n",
        "1\\. Guten Morgen\n",
        "1\\) Guten Morgen\n",
        "<b>\\# Guten Morgen</b>\n",
        "- \\[ \\] Guten *Morgen*\n",
        "# \\# Guten \\_Morgen\\_ #\n",
        "| \\| Guten | \\* Morgen |\n|---|---|\n| a\\|b | \\`c\\` |\n",
        "Nur \\$5, \\~6 und **\\*7\\* Euro**\n",
        "Ein snake\\_case, C:\\\\Pfad und \\<b>\n",
        "> [!NOTE]\n> Guten Morgen.\n",
        "> [!TIP]  \n> Guten *Morgen*.\n",
        "> [!warning]\n>\n> Guten Morgen.\n",
        "> [!CAUTION]\n> - Guten Morgen\n",
        "> > [!IMPORTANT]\n> > \\# Guten Morgen\n",
        "> [!NOTE]\n",
        "Wo ist <kbd>Strg</kbd>+<kbd>C</kbd>, Tom?\n",
        "Wo ist <code>a \\* b</code> hier\n",
        "Das <samp>ist</samp> ein <kbd>x</kbd>.\n",
        "Ein <span translate=\"no\">Guten *Morgen*</span> hier\n",
        "Ein <b class=\"notranslate\">Guten Tag</b> <i>hier</i>\n",
        "Wo ist Tom<sup>1</sup>?\n",
        "Ein Hund<sup>[2](#b)</sup> und<sup>[a]</sup> da\n",
        "Das <u>Wasser</u> ist <mark>gut</mark>\n",
        "Ein <a href=\"x\" id=\"y\">guter **Hund**</a>!\n",
        "Zeile eins<br>Zeile <img src=a> <!-- nie --> drei\n",
        "Ein </b> Hund <i> da\n",
        "<span\n  title=\"a > b\">Guten</span> Morgen\n",
        "[Guten Morgen][ref] und [ref] sind [auch][] da\n\n[ref]: x\n[auch]: y\n",
        "![Ein Bild](b.png) und ![ref] da\n\n[ref]: x\n",
    };
    for (size_t i = 0; i < sizeof(SNIPPETS) / sizeof(*SNIPPETS); i++) {
        check_unchanged(SNIPPETS[i]);
        char *other = other_case(SNIPPETS[i]), *again = other_case(other);
        assert_string_equal(again, SNIPPETS[i]);
        free(other);
        free(again);
    }
}

static void test_damaged_text_is_read(void **state) {
    (void)state;
    static const char whole[] =
        "---\na\n---\n# *x\n> [a](b \"c\n* ![**d**][e] `` f\n|g|h|\n|-|-|\n|i\\|j|~~k~~|\n[e]: <l>\n***m\\";
    static const char bytes[] = "*_[]()!`~<>|\\&; \n#-1.a\xC3\xA4";
    for (size_t end = 0; end < sizeof(whole); end++) {
        char *part = strndup(whole, end);
        check_unchanged(part);
        free(part);
    }
    unsigned long long seed = 5;
    for (int i = 0; i < (harness_brief() ? 2000 : 50000); i++) {
        char text[64];
        size_t used = 0;
        for (int k = 0; k < 40; k++) {
            seed = seed * 6364136223846793005ull + 1442695040888963407ull;
            text[used++] = bytes[(seed >> 33) % (sizeof(bytes) - 3)];
        }
        text[used] = 0;
        check_unchanged(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_and_spans_are_runs),
        cmocka_unit_test(test_code_addresses_and_labels_are_no_text),
        cmocka_unit_test(test_marks_follow_their_words),
        cmocka_unit_test(test_alerts_stay_and_are_no_part_of_a_sentence),
        cmocka_unit_test(test_inline_elements_are_those_of_html),
        cmocka_unit_test(test_many_tags_take_linear_time),
        cmocka_unit_test(test_links_and_pictures_are_written_once),
        cmocka_unit_test(test_special_characters_are_escaped),
        cmocka_unit_test(test_escapes_of_the_source_stay),
        cmocka_unit_test(test_unchanged_text_keeps_every_byte),
        cmocka_unit_test(test_written_text_is_read_again),
        cmocka_unit_test(test_escapes_alerts_and_html_are_written_byte_for_byte),
        cmocka_unit_test(test_damaged_text_is_read),
    };
    return cmocka_run_group_tests_name("markdown", tests, NULL, NULL);
}
