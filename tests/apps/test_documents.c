/* HTML documents with mock translations: unchanged parts, wrapping, and rejected input. */
#include "support/harness.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "documents/document.h"

/* The message of the last document. */
static char message[DOCUMENT_MESSAGE];

/* A document with texts replaced as `say` does, or unchanged; NULL: it is rejected. */
static char *through(const document_kind *kind, const char *text, const char *const *say) {
    char *copy = strdup(text);
    *message = 0;
    void *content = kind->read("file", copy, strlen(copy), message);
    char *out = NULL;
    if (content) {
        for (size_t i = 0; i < kind->count(content); i++) {
            char *own = strdup(kind->text(content, i));
            assert_true(kind->put(content, i, say ? say[i] : own, NULL));
            free(own);
        }
        out = kind->write(content);
        assert_non_null(out);
        kind->free(content);
    }
    free(copy);
    return out;
}

static void expect(const document_kind *kind, const char *text, const char *const *say, const char *want) {
    char *got = through(kind, text, say);
    assert_non_null(got);
    assert_string_equal(got, want);
    free(got);
}

/* A file truncated anywhere is rejected or returned. */
static void test_truncated_html_is_read(void **state) {
    (void)state;
    const char whole[] =
        "1\n00:00:01,000 --> 00:00:02,500\n{\\an8}- <i>Eins & <b>zwei\n</b>-drei</i> <font color=\"a>b\">\n"
        "\n2\n00:00:03,000 --> 00:00:04,000\n\n3\n00:00:05,000 --> 00:00:06,000\n<3 {\\i1}f\xC3\xBCnf{\\i0}\n";
    for (size_t bytes = 0; bytes < sizeof(whole); bytes++) {
        char part[sizeof(whole)] = {0};
        memcpy(part, whole, bytes);
        free(through(&document_html, part, NULL));
    }
}

/* ---- HTML ------------------------------------------------------------------------------------------------------ */

static void test_html_identity_translation_is_lossless(void **state) {
    (void)state;
    const char *const same[] = {"<p>Eins <b>zwei</b> drei.</p><script>x < y</script>\n",
                                "<ul>\n<li>Eins</li>\n<li><a href=\"u?a=1&amp;b=2\">zwei</a> &amp; drei</li>\n</ul>\n"};
    for (size_t i = 0; i < CLI_COUNT(same); i++)
        expect(&document_html, same[i], NULL, same[i]);
    char *got = through(&document_html,
                        "<!DOCTYPE html>\n<html><head><title>Eins</title></head>\n<body><p>zwei</p></body></html>\n",
                        (const char *const[]){"One", "two"});
    assert_non_null(strstr(got, "<!DOCTYPE html>"));
    assert_non_null(strstr(got, "<title>One</title>"));
    assert_non_null(strstr(got, "<p>two</p>"));
    free(got);
}

/* A document, its texts, the replacement of the last one (NULL: the same), and the result. */
static void becomes(const char *text, const char *const *texts, const char *say, const char *want) {
    char *copy = strdup(text);
    void *content = document_html.read("file", copy, strlen(copy), message);
    size_t count = 0;
    while (texts[count])
        count++;
    assert_int_equal(document_html.count(content), count);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(document_html.text(content, i), texts[i]);
    assert_true(count == 0 || document_html.put(content, count - 1, say ? say : texts[count - 1], NULL));
    char *got = document_html.write(content);
    assert_string_equal(got, want ? want : text);
    free(got);
    document_html.free(content);
    free(copy);
}

#define TEXTS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_html_texts_are_the_visible_ones(void **state) {
    static const char *const RAW[] = {"script",   "style",    "iframe", "noembed",
                                      "noframes", "noscript", "xmp",    "plaintext"};
    (void)state;
    becomes("<p>a&nbsp;&lt;b&gt; &notit; AT&T &copy &#x41;&shy;c</p>", TEXTS("a <b> \xC2\xACit; AT&T \xC2\xA9 Ac"),
            "x < y & \xC2\xA0", "<p>x &lt; y &amp; &nbsp;</p>");
    becomes("12 &ndash; 3<p>!?</p>&nbsp;", TEXTS(NULL), NULL, NULL);
    becomes("<title>a <b> &amp;</title><textarea>b</textarea><xmp>c</xmp>", TEXTS("a <b> &"), "d",
            "<title>d</title><textarea>b</textarea><xmp>c</xmp>");
    becomes("<svg><title>a</title><![CDATA[ b<p> ]]></svg><![CDATA[ c ]]>d", TEXTS("d"), NULL, NULL);
    becomes("a<script><!-- <script> </script> --></script>b", TEXTS("ab"), NULL, NULL);
    for (size_t i = 0; i < CLI_COUNT(RAW); i++) { /* has no character references, so nothing can be translated in it */
        char page[200];
        snprintf(page, sizeof(page), "<p translate=yes>a</p><%s translate=yes>b < c</%s>", RAW[i], RAW[i]);
        becomes(page, TEXTS("a"), NULL, NULL);
    }
    becomes("<p>a<p>b<li translate=no>c<li>d", TEXTS("a", "b", "d"), NULL, NULL);
    becomes("<select><option>a<option>b</select>", TEXTS("a", "b"), NULL, NULL);
    becomes("<pre>a  b\nc</pre>", TEXTS("a", "b", "c"), NULL, NULL);
    becomes("a<br>b<hr>c", TEXTS("a", "b", "c"), NULL, NULL);
    becomes("<a>a</a><a>b</a> <button>c</button><button>d</button>", TEXTS("a b c", "d"), NULL, NULL);
}

static void test_html_separators_in_placeholders_end_no_text(void **state) {
    static const char *const EXPRESSIONS[] = {"{{ name | upper }}",     "${name | x}",
                                              "{{ a.b | c:'EUR' }}",    "[[ name | upper ]]",
                                              "{{ a \xE2\x80\xA2 b }}", "{n, select, a {x | y} other {z}}"};
    (void)state;
    for (size_t i = 0; i < CLI_COUNT(EXPRESSIONS); i++) {
        char page[200], first[100];
        snprintf(first, sizeof(first), "a %s b", EXPRESSIONS[i]);
        snprintf(page, sizeof(page), "<p>%s | c</p>", first);
        becomes(page, TEXTS(first, "c"), NULL, NULL);
    }
    becomes("<p>a { b | c", TEXTS("a { b", "c"), NULL, NULL);
}

static void test_html_tags_follow_their_words(void **state) {
    (void)state;
    becomes("a <b>b</b>.", TEXTS("a b."), "c d.", "c <b>d</b>.");
    becomes("a <kbd>x</kbd>+<kbd>y</kbd>, b", TEXTS("a, b"), "c, d", "c <kbd>x</kbd>+<kbd>y</kbd>, d");
    becomes("a (<code>x</code>) b", TEXTS("a b"), "c d", "c (<code>x</code>) d");
    becomes("a<img>b", TEXTS("a b"), "c d", "c<img>d");
    becomes("a<wbr>b c", TEXTS("ab c"), "(ab d", "(a<wbr>b d");
    becomes("H<sub>2</sub>O b", TEXTS("H2O b"), "H2O c", "H<sub>2</sub>O c");
    becomes("<b><i>a</b> b</i> c", TEXTS("a b c"), "d e f", "<b><i>d</b> e</i> f");
    becomes("<p>a <b id=x>b c</b></p>", TEXTS("a b c"), "d e f", "<p>d <b id=x>e f</b></p>");
    becomes("<a href=1>a</a> <a href=2>b</a>", TEXTS("a b"), "c", "<a href=2></a><a href=1>c</a>");
    becomes("a <a href=1>b <select><option>c</select></a> d", TEXTS("a b d", "c"), "e",
            "a <a href=1>b <select><option>e</select></a> d");
}

static void test_html_punctuation_after_a_leading_atom_is_kept(void **state) {
    (void)state;
    becomes("<p><span translate=no>a</span>, b?</p>", TEXTS("b?"), "c?", "<p><span translate=no>a</span>, c?</p>");
    becomes("<p><code>x</code>: <b>a</b> b", TEXTS("a b"), "c d", "<p><code>x</code>: <b>c</b> d");
    becomes("<kbd>x</kbd>+<kbd>y</kbd> a", TEXTS("a"), "b", "<kbd>x</kbd>+<kbd>y</kbd> b");
    becomes("<kbd>x</kbd>,\n<kbd>y</kbd> &ndash; a", TEXTS("a"), "b", "<kbd>x</kbd>,\n<kbd>y</kbd> &ndash; b");
    becomes("a. <code>x</code>: b", TEXTS("a. b"), "c. d", "c. <code>x</code>: d");
    becomes("<a><code>x</code>: b</a> b", TEXTS("b b"), "c d", "<a><code>x</code>: c</a> d");
    becomes("a <code>x</code>: b", TEXTS("a: b"), "c: d", "c <code>x</code>: d");
    becomes("<code>x</code>-A", TEXTS("A"), "b", "<code>x</code>-b");
    becomes("<img> (a) b", TEXTS("(a) b"), "(c) d", "<img> (c) d");
    becomes("<img> :a: %s", TEXTS(":a: %s"), ":a: %s.", "<img> :a: %s.");
}

static void test_html_superscript_digits_are_footnote_marks(void **state) {
    (void)state;
    becomes("a<a href=x>\xC2\xB9</a>. b", TEXTS("a. b"), "c. d", "c<a href=x>\xC2\xB9</a>. d");
    becomes("a<i>\xC2\xB2,\xE2\x81\xB4</i> b", TEXTS("a b"), "c d", "c<i>\xC2\xB2,\xE2\x81\xB4</i> d");
    becomes("a<a>(\xC2\xB9)</a> b", TEXTS("a b"), "c d", "c<a>(\xC2\xB9)</a> d");
    becomes("a <i>[m\xC2\xB2]</i> 5<b>5\xC2\xB2</b>", TEXTS("a [m\xC2\xB2] 55\xC2\xB2"), NULL, NULL);
    becomes("a <b>m\xC2\xB2</b>.", TEXTS("a m\xC2\xB2."), "c m\xC2\xB2.", "c <b>m\xC2\xB2</b>.");
}

/* Words aligned to one word go into copies of its elements. */
static void test_html_copied_elements_lose_their_id(void **state) {
    (void)state;
    const char text[] = "<b id=x class=y>a</b> b<img>",
               said[] = "[{\"source\":[\"\xE2\x96\x81"
                        "a\",\"\xE2\x96\x81"
                        "b\",\"</s>\"],\"target\":[\"\xE2\x96\x81"
                        "c\",\"\xE2\x96\x81"
                        "d\",\"\xE2\x96\x81"
                        "e\",\"</s>\"],\"weights\":[[1,0,0],[0,1,0],[1,0,0],[0,0,1]]}]";
    json_t *alignment = json_loads(said, 0, NULL);
    assert_non_null(alignment);
    markup *m = markup_read(text, strlen(text));
    assert_true(markup_marked(m, 0) && markup_put(m, 0, "c d e", alignment));
    char *got = markup_write(m);
    assert_string_equal(got, "<b id=x class=y>c</b> d <b class=y>e</b><img>");
    free(got);
    markup_free(m);
    json_decref(alignment);
}

/* Output is UTF-8, whatever the original encoding of the page. */
static void test_html_encoding_declaration_becomes_utf8(void **state) {
    (void)state;
    static const char *const pages[][2] = {
        {"<meta charset=\"iso-8859-1\">", "<meta charset=\"utf-8\">"},
        {"<META CHARSET=latin1>", "<META CHARSET=utf-8>"},
        {"<meta charset=\"UTF-8\">", "<meta charset=\"UTF-8\">"},
        {"<meta http-equiv=\"Content-Type\" content=\"text/html; charset=windows-1252\">",
         "<meta http-equiv=\"Content-Type\" content=\"text/html; charset=utf-8\">"},
        {"<meta name=\"x\" content=\"charset=latin1\">", "<meta name=\"x\" content=\"charset=latin1\">"}};
    for (size_t i = 0; i < CLI_COUNT(pages); i++) {
        char page[400];
        snprintf(page, sizeof(page), "<html><head>%s</head><body><p>F\xC3\xBCnf</p></body></html>", pages[i][0]);
        char *got = through(&document_html, page, NULL);
        assert_non_null(got);
        assert_non_null(strstr(got, pages[i][1]));
        assert_non_null(strstr(got, "<p>F\xC3\xBCnf</p>"));
        free(got);
    }
}

/* `count` times a text, then another one; the caller frees it. */
static char *repeated(const char *text, size_t count, const char *end) {
    char *out = malloc(strlen(text) * count + strlen(end) + 1), *at = out;
    assert_non_null(out);
    for (size_t i = 0; i < count; i++)
        at = stpcpy(at, text);
    strcpy(at, end);
    return out;
}

/* Elements nested far deeper than in browsers, and long scripts. */
static void test_html_of_any_depth_is_translated(void **state) {
    (void)state;
    char *deep = repeated("<div>", 100000, "Eins<p>zwei</p>"), *tags = repeated("<i>", 100000, "Eins</i>");
    char *large = repeated("x = 1;\n", 1600000, "</script><p>zwei</p>"), *page = malloc(strlen(large) + 9);
    assert_non_null(page);
    sprintf(page, "<script>%s", large);
    char *const all[] = {deep, tags, page};
    for (size_t i = 0; i < CLI_COUNT(all); i++) {
        char *got = through(&document_html, all[i], (const char *const[]){"zwo", "zwo"});
        assert_non_null(strstr(got, "zwo"));
        assert_int_equal(strlen(got), strlen(all[i]) - (i == 2) - (i == 1) - (i == 0 ? 2 : 0));
        free(got);
        free(all[i]);
    }
    free(large);
}

/* ---- PO -------------------------------------------------------------------------------------------------------- */

static void test_empty_messages_of_a_catalog_are_filled(void **state) {
    (void)state;
    expect(&document_po,
           "msgid \"\"\nmsgstr \"\"\n\n#: a.c:1\nmsgid \"Eins \\\"zwei\\\"\"\nmsgstr \"\"\n\nmsgid \"Drei\"\nmsgstr "
           "\"three\"\n"
           "#~ msgid \"x\"\n#~ msgstr \"\"\n",
           (const char *const[]){"One\t\"two\""},
           "msgid \"\"\nmsgstr \"\"\n\n#: a.c:1\nmsgid \"Eins \\\"zwei\\\"\"\nmsgstr \"One\\t\\\"two\\\"\"\n\nmsgid "
           "\"Drei\"\n"
           "msgstr \"three\"\n#~ msgid \"x\"\n#~ msgstr \"\"\n");
    expect(&document_po,
           "msgctxt \"x\"\r\nmsgid \"\"\r\n\"Eins\\n\"\r\n\" \\303\\244zwei\\n\"\r\nmsgstr \"\"\r\n\"\"\r\n",
           (const char *const[]){"One", "two"},
           "msgctxt \"x\"\r\nmsgid \"\"\r\n\"Eins\\n\"\r\n\" \\303\\244zwei\\n\"\r\nmsgstr \"\"\r\n\"One\\n\"\r\n\" "
           "two\\n\"\r\n");
    expect(&document_po, "msgid \"%d\"\nmsgstr \"\"\n", NULL, "msgid \"%d\"\nmsgstr \"%d\"\n");
}

static void test_fuzzy_messages_of_a_catalog_are_filled_if_empty(void **state) {
    (void)state;
    expect(&document_po, "#, fuzzy\nmsgid \"Eins\"\nmsgstr \"one\"\n\n#, fuzzy\nmsgid \"zwei\"\nmsgstr \"\"\n",
           (const char *const[]){"two"},
           "#, fuzzy\nmsgid \"Eins\"\nmsgstr \"one\"\n\n#, fuzzy\nmsgid \"zwei\"\nmsgstr \"two\"\n");
}

static void test_plural_forms_of_a_catalog_are_filled(void **state) {
    (void)state;
    static const char text[] =
        "msgid \"Hund\"\nmsgid_plural \"Hunde\"\nmsgstr[0] \"\"\nmsgstr[1] \"\"\nmsgstr[2] \"x\"\n";
    expect(&document_po, text, (const char *const[]){"dog", "dogs"},
           "msgid \"Hund\"\nmsgid_plural \"Hunde\"\nmsgstr[0] \"dog\"\nmsgstr[1] \"dogs\"\nmsgstr[2] \"x\"\n");
    expect(&document_po, "msgid \"Hund\"\nmsgid_plural \"Hunde\"\nmsgstr[0] \"\"\n", (const char *const[]){"inu"},
           "msgid \"Hund\"\nmsgid_plural \"Hunde\"\nmsgstr[0] \"inu\"\n");
}

static void test_accelerators_of_a_catalog_are_kept(void **state) {
    (void)state;
    expect(&document_po, "msgid \"_Datei\"\nmsgstr \"\"\n", (const char *const[]){"Indeed"},
           "msgid \"_Datei\"\nmsgstr \"In_deed\"\n");
    expect(&document_po, "msgid \"Spei&chern\"\nmsgstr \"\"\n", (const char *const[]){"Store"},
           "msgid \"Spei&chern\"\nmsgstr \"Store\"\n");
    expect(&document_po, "msgid \"a & b_c\"\nmsgstr \"\"\n", NULL, "msgid \"a & b_c\"\nmsgstr \"a & b_c\"\n");
}

/* A catalog truncated anywhere is rejected or read. */
static void test_damaged_catalog_is_rejected(void **state) {
    (void)state;
    static const char whole[] =
        "msgctxt \"c\"\nmsgid \"A\\1\\x\"\n\"b\"\nmsgid_plural \"c\"\nmsgstr[0] \"\"\nmsgstr[15] \"\"\n";
    static const char *const WRONG[] = {
        "word\n",  "msgid A\n",         "msgid \"a\nmsgstr \"\"\n", "msgstr \"\"\n",
        "\"a\"\n", "msgstr[99] \"\"\n", "msgid \"a\" b\n",          "msgid_plural \"\"\n"};
    for (size_t bytes = 0; bytes < sizeof(whole); bytes++) {
        char part[sizeof(whole)] = {0};
        memcpy(part, whole, bytes);
        free(through(&document_po, part, NULL));
    }
    for (size_t i = 0; i < sizeof(WRONG) / sizeof(*WRONG); i++) {
        assert_null(through(&document_po, WRONG[i], NULL));
        assert_non_null(strstr(message, "file, line 1 is neither a comment nor a string"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty_messages_of_a_catalog_are_filled),
        cmocka_unit_test(test_fuzzy_messages_of_a_catalog_are_filled_if_empty),
        cmocka_unit_test(test_plural_forms_of_a_catalog_are_filled),
        cmocka_unit_test(test_accelerators_of_a_catalog_are_kept),
        cmocka_unit_test(test_damaged_catalog_is_rejected),
        cmocka_unit_test(test_truncated_html_is_read),
        cmocka_unit_test(test_html_identity_translation_is_lossless),
        cmocka_unit_test(test_html_texts_are_the_visible_ones),
        cmocka_unit_test(test_html_separators_in_placeholders_end_no_text),
        cmocka_unit_test(test_html_tags_follow_their_words),
        cmocka_unit_test(test_html_punctuation_after_a_leading_atom_is_kept),
        cmocka_unit_test(test_html_superscript_digits_are_footnote_marks),
        cmocka_unit_test(test_html_copied_elements_lose_their_id),
        cmocka_unit_test(test_html_of_any_depth_is_translated),
        cmocka_unit_test(test_html_encoding_declaration_becomes_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
