/* Subtitle documents with mock translations: texts found, and unchanged parts. */
#include "support/harness.h"
#include <stdlib.h>
#include <string.h>
#include "documents/document.h"
#include "documents/subtitles.h"

/* The last message of a reader. */
static char message[DOCUMENT_MESSAGE];

/* The file with texts replaced as `say` does, or unchanged. NULL: it is rejected. `texts` is the input to be
 * translated, separated by '|'. Both are for free(). */
static char *through(const document_kind *kind, const char *file, const char *const *say, char **texts) {
    char *copy = strdup(file), *out = NULL;
    void *content = kind->read("file", copy, strlen(copy), message);
    size_t bytes;
    FILE *all = open_memstream(texts, &bytes);
    for (size_t i = 0; content && i < kind->count(content); i++) {
        char *own = strdup(kind->text(content, i));
        fprintf(all, "%s%s", i > 0 ? "|" : "", own);
        assert_true(kind->put(content, i, say ? say[i] : own, NULL));
        free(own);
    }
    fclose(all);
    if (content) {
        out = kind->write(content);
        assert_non_null(out);
        kind->free(content);
    }
    free(copy);
    return out;
}

static void expect(const document_kind *kind, const char *file, const char *const *say, const char *want) {
    char *texts, *got = through(kind, file, say, &texts);
    assert_non_null(got);
    assert_string_equal(got, want);
    free(got);
    free(texts);
}

/* A file has these texts, and is unchanged by an identity translation. */
static void has_texts(const document_kind *kind, const char *file, const char *want) {
    char *texts, *got = through(kind, file, NULL, &texts);
    assert_non_null(got);
    assert_string_equal(texts, want);
    assert_string_equal(got, file);
    free(got);
    free(texts);
}

/* ---- Cues ------------------------------------------------------------------------------------------------------ */

#define T1 "00:00:01,000 --> 00:00:02,500"
#define T2 "00:00:03,000 --> 00:00:04,000"

static void test_cue_is_one_text_with_its_number_of_lines(void **state) {
    (void)state;
    expect(&document_srt, "7\n" T1 " X1:10 X2:20\nEins zwei\ndrei vier.\n\n\n8\n0:00:03.000-->0:00:04.000\nFünf\n",
           (const char *const[]){"One two three and some four.", "Five"},
           "7\n" T1 " X1:10 X2:20\nOne two three\nand some four.\n\n\n8\n0:00:03.000-->0:00:04.000\nFive\n");
    has_texts(&document_srt, "1\n" T1 "\nEins", "Eins");
}

static void test_cue_without_text_is_kept(void **state) {
    (void)state;
    const char *const same[] = {"",
                                "\n\n",
                                "1\n" T1 "\n\n2\n" T2 "\n",
                                "1\n" T1 "\n2\n" T2 "\n",
                                "1\n" T1 "\n\n\n2\n\n" T2,
                                "1\n" T1 "\n{\\an8}\n \n",
                                "1\n" T1 "\n<i> </i>\n",
                                "1\n" T1 "\n<i></i>{\\an8}\n<b>\n\n2\n" T2,
                                "1\n" T1 "\n\xE2\x99\xAA\n\n2\n" T2 "\n- ...\n"};
    for (size_t i = 0; i < CLI_COUNT(same); i++)
        has_texts(&document_srt, same[i], "");
}

/* Irregular numbers, times and blank lines in files that players accept. */
static void test_odd_srt_cues_are_read_as_players_read_them(void **state) {
    (void)state;
    static const char *const files[] = {
        T1 "\nA\n\n" T2 "\nB\n",                                /* no numbers */
        "2\n" T1 "\nA\n\n2\n" T2 "\nB\n",                       /* twice the same */
        "9\n" T1 "\nA\n\n1\n" T2 "\nB\n",                       /* wrong ones */
        "#1\n" T1 "\nA\n\n2.\n" T2 "\nB\n",                     /* with signs */
        "1\n" T1 "\nA\n2\n" T2 "\nB\n",                         /* no blank line */
        T1 "\nA\n" T2 "\nB\n",                                  /* no blank line, no numbers */
        "1\n" T1 "\nA\n\n\n\n2\n" T2 "\nB\n",                   /* several blank lines */
        "1\n" T1 "\n\n\nA\n\n2\n" T2 "\n\nB\n",                 /* blank lines before text */
        "1\n\n" T1 "\nA\n\n2\n\n" T2 "\nB\n",                   /* blank lines after numbers */
        "\n\n1\n" T1 "\nA\n \t\n2\n" T2 "\nB",                  /* blanks in blank lines, no end */
        "1\r\n" T1 "\r\nA\r\n\r\n2\r\n" T2 "\r\nB\r\n",         /* CR LF */
        "1\r" T1 "\rA\r\r2\r" T2 "\rB\r",                       /* CR */
        "1\r\r\n" T1 "\r\r\nA\r\r\n\r\r\n2\r\r\n" T2 "\r\r\nB", /* CR CR LF */
        "1\n" T1 "\r\nA\r\n\n2\r" T2 "\nB\n",                   /* mixed */
        "1 \n " T1 "\t\n  A  \n\n 2\n" T2 "  \nB \n",           /* blanks around */
        "1\n00:00:01.000 --> 00:00:02.500\nA\n\n2\n0:0:3,0 --> 0:0:4,00\nB\n",
        "1\n00:01,000 --> 00:02,500\nA\n\n2\n00:00:03 --> 00:00:04\nB\n",
        "1\n00:00:01,0000 --> 00:00:02,500000\nA\n\n2\n100:00:03,000 --> 0100:00:04,000\nB\n",
        "1\n00:00:01,000-->00:00:02,500\nA\n\n2\n00:00:03,000  -->00:00:04,000\nB\n",
        "1\n00:00:01,000 -> 00:00:02,500\nA\n\n2\n00:00:03,000 - -> 00:00:04,000\nB\n",
        "1\n00:00:01,000 ---> 00:00:02,500\nA\n\n2\n00:00:03,000 \xE2\x80\x93> 00:00:04,000\nB\n",
        "1\n00:00:01,000 \xE2\x86\x92 00:00:02,500\nA\n\n2\n00:00:03,000 --&gt; 00:00:04,000\nB\n",
        "1\n-00:00:01,000 --> 00:00:02,500\nA\n\n2\n00:00:03,000 --> -00:00:01,000\nB\n",
        "1\n00:00:02,000 --> 00:00:01,500\nA\n\n2\n99:99:99,999 --> 00:60:61,000\nB\n",
        "1\n00: 00: 01, 000 --> 00: 00: 02, 500\nA\n\n2\n00:00:03:12 --> 00:00:04:24\nB\n",
        "1\n00.00.01,000 --> 00.00.02,500\nA\n\n2\n00:OO:03,000 --> 00:00:04,000\nB\n",
        "1\n00:00:01,000 -->\nA\n\n2\n --> 00:00:04,000\nB\n",
        "1\n00:00:01,000 00:00:02,500\nA\n\n2\n00:00:03,000 \xE2\x80\x94 00:00:04,000\nB\n",
        "0:00:01.000,0:00:02.500\nA\n\n0:00:03.000,0:00:04.000\nB\n\n\x1a",
        "1\n" T1 " X1:100 X2:200 Y1:1 Y2:2\nA\n\n2\n" T2 " position:10%,line-left align:start\nB\n",
        "1\n" T1 "\nA\n\n2\nB\n", /* no times */
        "1\n" T1 "\nA\n\n\xEF\xBB\xBF"
        "2\n" T2 "\nB\n\n3\n", /* appended, cut off */
    };
    for (size_t i = 0; i < CLI_COUNT(files); i++) {
        *message = 0;
        has_texts(&document_srt, files[i], "A|B");
        assert_string_equal(message, "");
    }
}

static void test_text_of_srt_goes_on_after_blank_lines(void **state) {
    (void)state;
    has_texts(&document_srt, "1\n" T1 "\nA\n\nB\n\n2\n" T2 "\nC\n", "A B|C");
    has_texts(&document_srt, "1\n" T1 "\nA.\n\nB\n\n2\n" T2 "\nC\n", "A.|B|C");
    has_texts(&document_srt, "1\n" T1 "\nHow many?\n42\n\n" T2 "\n43 D\n44\n", "How many? 42|43 D 44");
    has_texts(&document_srt, "1\n" T1 "\nA --> B\n3 -> 4\n\n2\n" T2 "\n8 > C\n", "A --> B 3 -> 4|8 > C");
    has_texts(&document_srt, "1\n" T1 "\nat\n10:00 - 11:00\nA\n", "at 10:00 - 11:00 A");
    expect(&document_srt, "1\n" T1 "\nEins,\n\n  zwei drei.\n", (const char *const[]){"One, two three, four."},
           "1\n" T1 "\nOne, two\n\n  three, four.\n");
}

/* Skipped parts that may contain text are counted, with the first such line. */
static void test_text_outside_of_cues_is_kept_and_counted(void **state) {
    (void)state;
    static const struct {
        const document_kind *kind;
        const char *file, *texts, *said;
    } files[] = {
        {&document_srt, "Film\nof 1927\n\n1\n" T1 "\nA\n", "A",
         "2 lines outside the cues stay untranslated, first line 1: 'Film'"},
        {&document_srt, "1\nlost\n\n2\n" T1 "\nA\n", "A",
         "1 line outside the cues stays untranslated, first line 2: 'lost'"},
        {&document_srt, "1\n" T1 " Ja.\nA\n", "A", "1 line outside the cues stays untranslated, first line 2"},
        {&document_srt, "1\n" T1 "\nA\n\nseven\n" T2 "\nB\n", "A|B", "first line 5: 'seven'"},
        {&document_srt, "1\n" T1 "\nA\n\n2\nnow --> then\nB\n", "A|B", "first line 6: 'now --> then'"},
        {&document_vtt, "WEBVTT\n\nlost\n\n00:01.000 --> 00:02.000\nA\n", "A", "first line 3: 'lost'"},
    };
    for (size_t i = 0; i < CLI_COUNT(files); i++) {
        has_texts(files[i].kind, files[i].file, files[i].texts);
        if (!strstr(message, files[i].said))
            fail_msg("'%s' is not in: %s", files[i].said, message);
    }
}

static void test_file_without_any_cue_is_refused(void **state) {
    (void)state;
    static const char *const files[] = {"A\n", "1\nA\n", "[Script Info]\nTitle: A\n\n[Events]\nDialogue: A\n",
                                        "{100}{200}A\n"};
    for (size_t i = 0; i < CLI_COUNT(files); i++) {
        char *texts;
        assert_null(through(&document_srt, files[i], NULL, &texts));
        assert_non_null(strstr(message, "file has no cue: line "));
        free(texts);
    }
}

/* ---- Markup ---------------------------------------------------------------------------------------------------- */

/* A cue with this text, whose parts become `say`, has the text `want`. */
static void cue_becomes(const document_kind *kind, const char *text, const char *const *say, const char *want) {
    char in[512], out[512];
    const char *head = kind == &document_vtt ? "WEBVTT\n\n1\n00:01.000 --> 00:02.000 align:start" : "1\n" T1;
    snprintf(in, sizeof(in), "%s\n%s\n\n", head, text);
    snprintf(out, sizeof(out), "%s\n%s\n\n", head, want);
    expect(kind, in, NULL, in);
    expect(kind, in, say, out);
}

#define SAY(...) ((const char *const[]){__VA_ARGS__})

static void test_tags_stay_around_their_words(void **state) {
    (void)state;
    const document_kind *srt = &document_srt;
    cue_becomes(srt, "<i>Eins zwei\ndrei vier</i>", SAY("One two three four"), "<i>One two\nthree four</i>");
    cue_becomes(srt, "Eins <b>zwei</b>, drei", SAY("One two, three"), "One <b>two</b>, three");
    cue_becomes(srt, "<font color=\"#ff0000\">Eins</font> zwei", SAY("One two"),
                "<font color=\"#ff0000\">One</font> two");
    cue_becomes(srt, "{\\an8}Eins zwei", SAY("One two"), "{\\an8}One two");
    cue_becomes(srt, "{\\an8}{\\b1}<i>Eins</i>", SAY("One"), "{\\an8}{\\b1}<i>One</i>");
    cue_becomes(srt, "<I>Eins", SAY("One"), "<I>One");
    cue_becomes(srt, "Eins {\\i1}zwei{\\i0} drei", SAY("One two three"), "One {\\i1}two{\\i0} three");
    cue_becomes(srt, "Eins</i> <b>zwei", SAY("One two"), "One</i> <b>two");
    cue_becomes(srt, "<i><b>Eins</i></b> zwei", SAY("One two"), "<i><b>One</i></b> two");
    cue_becomes(srt, "<font face='a\"b'>Eins</font>", SAY("One"), "<font face='a\"b'>One</font>");
    cue_becomes(srt, "{\\i1}Eins zwei.{\\i0} Drei", SAY("One two. Three"), "{\\i1}One two.{\\i0} Three");
    cue_becomes(srt, "Eins {b}zwei{/b} {\\u1}drei{\\b0}", SAY("One two three"), "One {b}two{/b} {\\u1}three{\\b0}");
    cue_becomes(srt, "{y:i}Eins{/i}", SAY("One"), "{y:i}One{/i}");
}

static void test_plain_characters_of_srt_stay_plain(void **state) {
    (void)state;
    const document_kind *srt = &document_srt;
    cue_becomes(srt, "AT&T <3 x < 3", SAY("AT&T <3 y < 4"), "AT&T <3 y < 4");
    cue_becomes(srt, "<script>x</script> <!-- y", SAY("<script>z</script> <!-- y"), "<script>z</script> <!-- y");
    cue_becomes(srt, "Tom &amp; Jerry", SAY("Tim & Jerry"), "Tim &amp; Jerry");
    cue_becomes(srt, "a --- b", SAY("<b>c & d"), "<b>c & d");
}

static void test_line_breaks_in_text_are_kept(void **state) {
    (void)state;
    const document_kind *srt = &document_srt;
    cue_becomes(srt, "Eins zwei<br>drei vier", SAY("One two three four"), "One two<br>three four");
    cue_becomes(srt, "Eins zwei<BR />\ndrei vier", SAY("One two three four"), "One two<BR />\nthree four");
    cue_becomes(srt, "Eins\\Nzwei", SAY("One two"), "One\\Ntwo");
    has_texts(srt, "1\n" T1 "\nEins<br/>zwei\\Ndrei\n", "Eins zwei drei");
    expect(srt, "1\r\n" T1 "\r\nEins\r\nzwei\r\n\r\n", SAY("One two"), "1\r\n" T1 "\r\nOne\r\ntwo\r\n\r\n");
    expect(srt, "1\r" T1 "\rEins zwei\r", SAY("One two three four five six seven eight nine ten eleven"),
           "1\r" T1 "\rOne two three four five six\rseven eight nine ten eleven\r");
}

static void test_speakers_and_songs_have_separate_lines(void **state) {
    (void)state;
    const document_kind *srt = &document_srt;
    cue_becomes(srt, "- Wie geht's?\n- Gut, und\ndir?", SAY("How are you?", "Well, and how about you?"),
                "- How are you?\n- Well, and\nhow about you?");
    cue_becomes(srt, "\xE2\x80\x93Ja.\n\xE2\x80\x93Nein.", SAY("Yes.", "No."), "\xE2\x80\x93Yes.\n\xE2\x80\x93No.");
    cue_becomes(srt, "<i>- Ja.\n- Nein.</i>", SAY("Yes.", "No."), "<i>- Yes.\n- No.</i>");
    cue_becomes(srt, "- Ja? - Nein. <i>- Doch.</i>", SAY("Yes?", "No.", "Yes."), "- Yes? - No. <i>- Yes.</i>");
    cue_becomes(srt, "Das ist - ja - gut.", SAY("This is good."), "This is good.");
    cue_becomes(srt, "- Ja.<br>- Nein.", SAY("Yes.", "No."), "- Yes.<br>- No.");
    cue_becomes(srt, "Es sind\n-5 Grad", SAY("It is -5 degrees"), "It is -5\ndegrees");
    cue_becomes(srt, "\xE2\x99\xAA Ein Lied \xE2\x99\xAA\n\xE2\x99\xAA zwei \xE2\x99\xAA", SAY("A song", "two"),
                "\xE2\x99\xAA A song \xE2\x99\xAA\n\xE2\x99\xAA two \xE2\x99\xAA");
    cue_becomes(srt, ">> Ja.\n>> Nein.", SAY("Yes.", "No."), ">> Yes.\n>> No.");
    cue_becomes(srt, "[Musik]", SAY("Music."), "[Music.]");
    cue_becomes(srt, "- (lacht laut) Ja,\ngut.\n<i>[T\xC3\xBCr]</i>", SAY("laughs aloud", "Yes, well.", "door"),
                "- (laughs aloud) Yes,\nwell.\n<i>[door]</i>");
    cue_becomes(srt, "Das (gut)\n(ist] gut", SAY("That is (good) good"), "That is\n(good) good");
    cue_becomes(srt, "(Musik\nim Radio) Ja.", SAY("Music on the radio", "Yes."), "(Music on\nthe radio) Yes.");
    cue_becomes(srt, "[Tom]: Ja.\n(Anna), nein.", SAY("Tim", "Yes.", "Ann", "no."), "[Tim]: Yes.\n(Ann), no.");
    cue_becomes(srt, "1984", SAY("never"), "1984");
}

/* ---- WebVTT ---------------------------------------------------------------------------------------------------- */

static const char VTT[] = "WEBVTT - film\nKind: captions\nLanguage: de\nX-TIMESTAMP-MAP=LOCAL:00:00:00.000,MPEGTS:0\n\n"
                          "STYLE\n::cue { color: red }\n\nREGION\nid:a\nwidth:40%\n\nNOTE not for\ntranslation\n\n"
                          "1 - intro\n00:01.000 --> 00:02.000 position:10%,line-left align:start\n<v Tom>A\n"
                          "<v.loud Anna>B\n\nNOTE\n\n00:00:03.000 --> 00:00:04.000\n<i>C</i> <c.a.b>D</c>\nE\n\n"
                          "id\n100:00:05.000 --> 100:00:06.000\n<lang fr>F</lang> &amp; G\n";

static void test_vtt_blocks_that_are_no_cues_stay(void **state) {
    (void)state;
    *message = 0;
    has_texts(&document_vtt, VTT, "A|B|C D E|F & G");
    has_texts(&document_srt, VTT, "A|B|C D E|F & G");
    has_texts(&document_vtt, "WEBVTT\n00:01.000 --> 00:02.000\nA\n00:03.000 --> 00:04.000\nB", "A|B");
    has_texts(&document_vtt, "00:01.000 --> 00:02.000\nA &amp; B", "A & B");
    has_texts(&document_vtt, "1\n" T1 "\nA\n\nB\n", "A B");
    has_texts(&document_vtt, "WEBVTT\n\n00:01.000 --> 00:02.000\n\nA\n\nB\n\nNOTE\nx\n", "A B");
    has_texts(&document_vtt, "WEBVTT", "");
    has_texts(&document_vtt,
              "WEBVTT\n\n00:01.000 --> 00:02.000\n \nA<00:01.500><c> B</c>\n \n\n00:03.000 --> 00:04.000\nC\n",
              "A B|C");
    has_texts(&document_vtt, "\nWEBVTT\n\nNOTE\nA\n", "");
    has_texts(&document_vtt, "WEBVTT\n\nNOTE A\n00:01.000 --> 00:02.000\nB\n", "B");
    assert_string_equal(message, "");
}

static void test_vtt_text_is_escaped(void **state) {
    (void)state;
    const document_kind *vtt = &document_vtt;
    cue_becomes(vtt, "x &lt; 3 &amp; y&nbsp;&gt; 4", SAY("y < 3 & x > 4"), "y &lt; 3 &amp; x &gt; 4");
    cue_becomes(vtt, "x < 3", SAY("y < 3 --> <b>"), "y &lt; 3 --&gt; &lt;b>");
    cue_becomes(vtt, "AT&T", SAY("AT&T &lt;"), "AT&T &amp;lt;");
    has_texts(vtt, "WEBVTT\n\n00:01.000 --> 00:02.000\n&#x41;&#66;&lrm;&unknown;<3\n", "AB\xE2\x80\x8E&unknown;<3");
    has_texts(vtt, "WEBVTT\n\n00:01.000 --> 00:02.000\nA&nGt;&copy;&eacute; &amp\n",
              "A\xE2\x89\xAB\xE2\x83\x92\xC2\xA9\xC3\xA9 &amp"); /* longer than its reference */
}

static void test_vtt_markup_keeps_its_place(void **state) {
    (void)state;
    const document_kind *vtt = &document_vtt;
    cue_becomes(vtt, "<00:19.000>Eins <00:20.000>zwei <00:21.000>drei", SAY("One two three"),
                "<00:19.000>One <00:20.000>two <00:21.000>three");
    cue_becomes(vtt, "Eins<00:01.100><c> zwei</c><00:01.200><c> drei</c>", SAY("One two three"),
                "One <00:01.100><c>two</c> <00:01.200><c>three</c>");
    cue_becomes(vtt, "<v Tom>Eins</v> <v Anna>zwei</v>", SAY("One", "two"), "<v Tom>One</v> <v Anna>two</v>");
    cue_becomes(vtt, "<ruby>\xE6\xBC\xA2<rt>kan</rt></ruby> zwei", SAY("One two"), "<ruby>One<rt>kan</rt></ruby> two");
    cue_becomes(vtt, "<c.yellow.bg_blue>Eins</c> zwei", SAY("One two"), "<c.yellow.bg_blue>One</c> two");
}

/* ---- Any bytes ------------------------------------------------------------------------------------------------- */

/* A file truncated anywhere is rejected or returned. */
static void test_any_beginning_of_a_file_comes_back(void **state) {
    (void)state;
    static const char srt[] =
        "1\n" T1 "\r\n{\\an8}- <i>Eins & <b>zwei\n</b>-drei</i> <font color=\"a>b\">\r\r\n"
        "\n2\n" T2 "\n\n3\n00:00:05,000 --> 00:00:06,000\n<3 {\\i1}f\xC3\xBCnf{\\i0}\\N&amp;<br>\n";
    const char *const files[] = {srt, VTT};
    for (size_t f = 0; f < CLI_COUNT(files); f++)
        for (size_t bytes = 0; bytes <= strlen(files[f]); bytes++) {
            char part[1024] = {0}, *texts;
            memcpy(part, files[f], bytes);
            char *got = through(f ? &document_vtt : &document_srt, part, NULL, &texts);
            if (got)
                assert_string_equal(got, part);
            free(got);
            free(texts);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cue_is_one_text_with_its_number_of_lines),
        cmocka_unit_test(test_cue_without_text_is_kept),
        cmocka_unit_test(test_odd_srt_cues_are_read_as_players_read_them),
        cmocka_unit_test(test_text_of_srt_goes_on_after_blank_lines),
        cmocka_unit_test(test_text_outside_of_cues_is_kept_and_counted),
        cmocka_unit_test(test_file_without_any_cue_is_refused),
        cmocka_unit_test(test_tags_stay_around_their_words),
        cmocka_unit_test(test_plain_characters_of_srt_stay_plain),
        cmocka_unit_test(test_line_breaks_in_text_are_kept),
        cmocka_unit_test(test_speakers_and_songs_have_separate_lines),
        cmocka_unit_test(test_vtt_blocks_that_are_no_cues_stay),
        cmocka_unit_test(test_vtt_text_is_escaped),
        cmocka_unit_test(test_vtt_markup_keeps_its_place),
        cmocka_unit_test(test_any_beginning_of_a_file_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
