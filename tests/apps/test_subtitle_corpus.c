/* Subtitle files generated from the grammars of SubRip and WebVTT, as players read them: an identity translator
 * restores each byte for byte; with a marking translator each text is visited once, in order, and its markup is kept.
 * */
#include "support/harness.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "documents/document.h"
#include "documents/subtitles.h"

enum { FILES = 50, CUES = 40 };

/* A file being generated, and its expected output. */
typedef struct corpus {
    harness_random random;
    bool vtt;
    const char *line_end; /* NULL: a random one for each line */
    FILE *in, *marked;    /* the file; and the marking translator's output, up to line breaks */
    FILE *texts;          /* the texts to be visited, a line each */
    size_t visits;
    bool begun, word_first; /* a text has begun; its next word is the first */
} corpus;

static size_t below(corpus *c, size_t count) {
    return (size_t)harness_range(&c->random, 0, (int64_t)count - 1);
}

#define ONE_OF(c, all) ((all)[below((c), CLI_COUNT(all))])

/* Parts that are not translated. */
static void put(corpus *c, const char *raw) {
    fputs(raw, c->in);
    fputs(raw, c->marked);
}

static void end_line(corpus *c) {
    static const char *const ENDS[] = {"\n", "\r\n", "\r", "\r\r\n"};
    put(c, c->line_end ? c->line_end : ENDS[below(c, 2)]); /* CR LF after CR would be another line end */
}

static void put_line(corpus *c, const char *raw) {
    put(c, raw);
    end_line(c);
}

/* ---- Words ----------------------------------------------------------------------------------------------------- */

/* A word as in the file, as the model reads it, and as written in a changed text. */
typedef struct word {
    const char *raw, *text, *written;
} word;

static const word WORDS[] = {{"Haus", "Haus", "Haus"},
                             {"\xC3\xBC"
                              "ber,",
                              "\xC3\xBC"
                              "ber,",
                              "\xC3\xBC"
                              "ber,"},
                             {"leise)", "leise)", "leise)"},
                             {"geht's?", "geht's?", "geht's?"},
                             {"\xE6\x88\x91", "\xE6\x88\x91", "\xE6\x88\x91"},
                             {"Wort", "Wort", "Wort"}};
static const word FURTHER[] = {
    {"42", "42", "42"}, {"...", "...", "..."}, {"--", "--", "--"}, {"#1", "#1", "#1"}, {"00:01", "00:01", "00:01"}};
/* Plain characters that look like markup; and references, of which a text has only one kind. */
static const word SRT_PLAIN[] = {{"AT&T", "AT&T", "AT&T"},
                                 {"<3", "<3", "<3"},
                                 {"<", "<", "<"},

                                 {"<script>", "<script>", "<script>"},
                                 {"&", "&", "&"},
                                 {"{an8}", "{an8}", "{an8}"}};
static const word VTT_PLAIN[] = {{"AT&T", "AT&T", "AT&T"}, {"<3", "<3", "&lt;3"}, {"<", "<", "&lt;"},
                                 {"&", "&", "&"},          {"a>", "a>", "a>"},    {"{an8}", "{an8}", "{an8}"}};
static const word REFERENCES[] = {{"&amp;", "&", "&amp;"},
                                  {"x&lt;y", "x<y", "x&lt;y"},
                                  {"&quot;A&quot;", "\"A\"", "\"A\""},
                                  {"&#65;&#x42;", "AB", "AB"},
                                  {"a&nbsp;b",
                                   "a\xC2\xA0"
                                   "b",
                                   "a\xC2\xA0"
                                   "b"}};

static void put_word(corpus *c, word w) {
    if (c->word_first && c->begun)
        fputc('\n', c->texts);
    else if (!c->word_first)
        fputc(' ', c->texts);
    if (c->word_first)
        fprintf(c->marked, "%zu[", c->visits++);
    fputs(w.raw, c->in);
    fputs(w.written, c->marked);
    fputs(w.text, c->texts);
    c->word_first = false;
    c->begun = true;
}

/* Any word except the first of a line. */
static word next_word(corpus *c, bool plain) {
    const size_t choice = below(c, 10);
    if (choice < 7)
        return ONE_OF(c, WORDS);
    if (choice < 8)
        return ONE_OF(c, FURTHER);
    return !plain ? ONE_OF(c, REFERENCES) : c->vtt ? ONE_OF(c, VTT_PLAIN) : ONE_OF(c, SRT_PLAIN);
}

/* ---- Text ------------------------------------------------------------------------------------------------------ */

/* A separator between two words; true for a line end. */
static bool put_gap(corpus *c, bool blank_lines) {
    static const char *const BREAKS[] = {"<br>", "<BR/>", " <br /> "};
    const size_t choice = below(c, 12);
    if (choice < 8)
        put(c, choice < 7 ? " " : " \t ");
    else if (choice == 8)
        put(c, ONE_OF(c, BREAKS));
    else if (choice == 9 && !c->vtt)
        put(c, "\\N");
    else
        put(c, choice < 11 ? " " : "");
    if (choice >= 10) {
        end_line(c);
        if (choice == 11 && blank_lines)
            put_line(c, below(c, 2) ? "" : " ");
        put(c, choice == 10 ? "" : "  ");
    }
    return choice >= 8;
}

/* Words, some directly enclosed in tags. */
static void put_words(corpus *c, bool blank_lines) {
    static const struct {
        const char *open, *close;
    } PAIRS[] = {{"<i>", "</i>"},
                 {"<B>", "</b>"},
                 {"<font color=\"#ff0000\">", "</font>"},
                 {"<c.yellow.b>", "</c>"},
                 {"<lang en>", "</lang>"},
                 {"{\\i1}", "{\\i0}"},
                 {"{b}", "{/b}"},
                 {"<u>", ""},
                 {"", "</u>"}};
    static const char *const ATOMS[] = {"{\\an8}", "{\\i1}", "<00:19.000>", "<00:00:19.500>", "{y:i}"};
    const bool plain = below(c, 2);
    bool line = true;
    c->word_first = true;
    for (size_t i = 1 + below(c, 9), open = 0, pair = 0; i > 0; i--) {
        word w = line ? ONE_OF(c, WORDS) : next_word(c, plain);
        if (below(c, 8) == 0)
            put(c, ONE_OF(c, ATOMS));
        if (open == 0 && below(c, 5) == 0) {
            pair = below(c, CLI_COUNT(PAIRS));
            open = 1 + below(c, i < 3 ? i : 3);
            put(c, PAIRS[pair].open);
        }
        put_word(c, w);
        if (open > 0 && --open == 0)
            put(c, PAIRS[pair].close);
        const bool stop = strchr(".?!", w.raw[strlen(w.raw) - 1]) != NULL;
        line = i > 1 && put_gap(c, blank_lines && !stop && open == 0);
    }
}

static void put_speakers(corpus *c) {
    static const char *const DASHES[] = {"- ", "-", "\xE2\x80\x93 ", "<i>- ", "\xE2\x99\xAA ", ">> "};
    for (size_t i = 1 + below(c, 3); i > 0; i--) {
        const char *dash = ONE_OF(c, DASHES);
        put(c, dash);
        put_words(c, false);
        if (strstr(dash, "<i>"))
            put(c, "</i>");
        if (*dash == '\xE2' && dash[1] == '\x99')
            put(c, " \xE2\x99\xAA");
        end_line(c);
    }
}

static void put_voices(corpus *c) {
    static const char *const VOICES[] = {"<v Tom>", "<v.loud Anna Maria>", "<v R\xC3\xB6mer>"};
    for (size_t i = 1 + below(c, 2); i > 0; i--) {
        put(c, ONE_OF(c, VOICES));
        put_words(c, false);
        put(c, below(c, 2) ? "</v> " : "</v>");
    }
    end_line(c);
}

/* Returns whether the text has no blank line in it. */
static bool put_text(corpus *c) {
    static const char *const NOTHING[] = {"{\\an8}", "<i> </i>", "\xE2\x99\xAA", "<b></b><c>", "- ..."};
    const size_t choice = below(c, 12);
    if (choice == 0)
        put_line(c, ONE_OF(c, NOTHING));
    if (choice < 2)
        return true;
    if (choice < 5)
        put_speakers(c);
    else if (choice == 5)
        put_voices(c);
    else {
        put_words(c, choice < 8);
        end_line(c);
    }
    return choice >= 8;
}

/* ---- Cues ------------------------------------------------------------------------------------------------------ */

static void put_srt_head(corpus *c, size_t number, bool fresh) {
    static const char *const TIMES[] = {"00:00:01,000 --> 00:00:02,500",
                                        "0:00:01.5 --> 0:00:02.50",
                                        "00:01,000 --> 00:02,000",
                                        "00:00:07 --> 00:00:09",
                                        "00:28:41,1000 --> 100:28:42,000000",
                                        "00:00:01,000-->00:00:02,000",
                                        "00:00:01,000 -> 00:00:02,000",
                                        "  00:00:01,000   --->   00:00:02,000\t",
                                        "-00:00:01,000 --> -00:00:02,000",
                                        "00:00:05,000 --> 00:00:01,000",
                                        "00:00:01,000 --> 00:00:02,000 X1:40 X2:600 Y1:20 Y2:50",
                                        "00: 00: 01, 000 --> 00: 00: 02, 000",
                                        "00.00.01.000 --> 00.00.02.000",
                                        "00:00:01,000 -->",
                                        "00:00:01,000 \xE2\x86\x92 00:00:02,000"};
    char line[64];
    const size_t choice = below(c, 8);
    snprintf(line, sizeof(line),
             choice == 2   ? "#%zu"
             : choice == 3 ? " %zu "
                           : "%zu",
             choice < 2 ? below(c, 9) : number);
    if (choice > 0 || !fresh) /* some have no number */
        put_line(c, line);
    if (choice == 4 && fresh)
        end_line(c);
    put_line(c, ONE_OF(c, TIMES));
}

static void put_vtt_head(corpus *c, size_t number, bool fresh) {
    static const char *const BLOCKS[] = {"NOTE Haus", "NOTE", "STYLE", "REGION"};
    static const char *const TIMES[] = {"00:01.000 --> 00:02.000", "00:00:01.000 --> 00:00:02.500 align:start line:0",
                                        "100:00:01.000\t-->\t100:00:02.500 position:10%,line-left size:35% region:fred",
                                        "00:01,000 --> 00:02", "0:01.0-->0:02.000"};
    static const char *const IDS[] = {"intro", "1 - Haus", "cue <b> &amp;", "\xE6\x88\x91"};
    char line[64];
    snprintf(line, sizeof(line), "%zu", number);
    if (fresh && below(c, 5) == 0) {
        put_line(c, ONE_OF(c, BLOCKS));
        put_line(c, "::cue(.a) { color: red } <i>Haus</i>");
        end_line(c);
    }
    if (fresh && below(c, 3) == 0)
        put_line(c, below(c, 2) ? ONE_OF(c, IDS) : line);
    put_line(c, ONE_OF(c, TIMES));
}

static void make(corpus *c) {
    static const char *const ENDS[] = {"\n", "\r\n", "\r", "\r\r\n"};
    const size_t style = below(c, 6);
    c->line_end = style < 4 ? ENDS[style] : style == 4 ? "\n" : NULL;
    c->vtt = below(c, 2);
    if (c->vtt) {
        put_line(c, below(c, 2) ? "WEBVTT" : "WEBVTT - Haus");
        if (below(c, 2))
            put_line(c, "Kind: captions");
        end_line(c);
    } else if (below(c, 4) == 0) {
        end_line(c);
    }
    bool fresh = true;
    for (size_t i = 1; i <= CUES; i++) {
        (c->vtt ? put_vtt_head : put_srt_head)(c, i, fresh);
        if (!c->vtt && below(c, 10) == 0)
            end_line(c); /* before the text */
        const bool dense = put_text(c) && below(c, 6) == 0;
        for (size_t blank = dense ? 0 : 1 + (below(c, 6) == 0) * below(c, 3); blank > 0; blank--)
            put_line(c, c->vtt || below(c, 12) ? "" : "  ");
        fresh = !dense;
    }
    if (below(c, 2)) {
        (c->vtt ? put_vtt_head : put_srt_head)(c, CUES + 1, fresh);
        put_words(c, false); /* no line end */
    }
}

/* ---- Translators ----------------------------------------------------------------------------------------------- */

/* Runs of blanks and line breaks, which a translation may place differently, become one blank. In place. */
static char *without_breaks(char *text) {
    char *to = text;
    for (const char *at = text; *at;) {
        const bool blank = strchr(" \t\r\n", *at), ass = at[0] == '\\' && at[1] == 'N';
        const char *end = strncasecmp(at, "<br", 3) == 0 ? strchr(at, '>') : NULL;
        at = end ? end + 1 : at + 1 + ass;
        if (!blank && !ass && !end)
            *to++ = at[-1];
        else if (to == text || to[-1] != ' ')
            *to++ = ' ';
    }
    *to = 0;
    return text;
}

static char *translated(const char *file, bool vtt, bool marks, char **texts) {
    const document_kind *kind = vtt ? &document_vtt : &document_srt;
    char *copy = strdup(file), message[DOCUMENT_MESSAGE] = "";
    void *content = kind->read("corpus", copy, strlen(copy), message);
    size_t bytes;
    FILE *all = open_memstream(texts, &bytes);
    assert_non_null(content);
    for (size_t i = 0; i < kind->count(content); i++) {
        const char *text = kind->text(content, i);
        const size_t room = strlen(text) + 32;
        char *own = malloc(room);
        assert_non_null(own);
        if (marks)
            snprintf(own, room, "%zu[%s", i, text);
        else
            snprintf(own, room, "%s", text);
        fprintf(all, "%s%s", i > 0 ? "\n" : "", text);
        assert_true(kind->put(content, i, own, NULL));
        free(own);
    }
    fclose(all);
    char *out = kind->write(content);
    kind->free(content);
    free(copy);
    return out;
}

/* The first difference of two texts, with its context. */
static void expect_same(size_t seed, const char *what, const char *got, const char *want) {
    size_t at = 0;
    while (got[at] && got[at] == want[at])
        at++;
    const size_t from = at > 60 ? at - 60 : 0;
    if (got[at] != want[at])
        fail_msg("file %zu, %s: got '%.120s', not '%.120s'", seed, what, got + from, want + from);
}

static void test_generated_subtitles_round_trip(void **state) {
    size_t visits = 0;
    (void)state;
    for (size_t seed = 1; seed <= FILES; seed++) {
        char *in, *marked, *texts, *visited, *again;
        size_t bytes[3];
        corpus c = {.random = {seed},
                    .in = open_memstream(&in, &bytes[0]),
                    .marked = open_memstream(&marked, &bytes[1]),
                    .texts = open_memstream(&texts, &bytes[2])};
        make(&c);
        fclose(c.in);
        fclose(c.marked);
        fclose(c.texts);
        char *same = translated(in, c.vtt, false, &visited), *other = translated(in, c.vtt, true, &again);
        expect_same(seed, "texts", visited, texts);
        expect_same(seed, "identity", same, in);
        expect_same(seed, "marks", without_breaks(other), without_breaks(marked));
        visits += c.visits;
        char *const all[] = {in, marked, texts, visited, again, same, other};
        for (size_t i = 0; i < CLI_COUNT(all); i++)
            free(all[i]);
    }
    print_message("%d files, %zu texts\n", FILES, visits);
    assert_true(visits > FILES * CUES / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_generated_subtitles_round_trip)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
