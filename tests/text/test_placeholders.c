/* Placeholders: which parts of a text are placeholders, and that each is unchanged in the translation next to its
 * neighbors. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "support/harness.h"
#include "model/core/model.h"
#include "model/tasks/masked.h"

static tfm_placeholders *known(void) {
    tfm_placeholders *p = NULL;
    harness_ok(tfm_placeholders_new(&p, NULL, 0));
    return p;
}

/* ---- Detection --------------------------------------------------------------------------------------------------- */

/* The placeholders of a text, separated by bars. */
static void check_found(const tfm_placeholders *p, const char *text, const char *want) {
    tfm__placeholder *found = NULL;
    size_t count = 0, used = 0;
    char have[1024] = "";
    harness_ok(tfm__placeholders_find(p, &found, &count, text, strlen(text)));
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(have + used, sizeof(have) - used, "%s%.*s", i ? "|" : "",
                                 (int)(found[i].end - found[i].begin), text + found[i].begin);
    if (strcmp(have, want) != 0)
        fail_msg("\"%s\" has \"%s\", not \"%s\"", text, have, want);
    assert_int_equal(tfm_placeholders_count(p, text, strlen(text)), count);
    free(found);
}

static void test_known_placeholders_are_found(void **state) {
    (void)state;
    static const char *const TEXTS[][2] = {
        {"Hallo %s, du hast %d neue", "%s|%d"},
        {"Hallo %1$s und %2$@ mit %.2f und %5d%%", "%1$s|%2$@|%.2f|%5d%%"},
        {"Hallo %(name)s und %{count} da", "%(name)s|%{count}"},
        {"Datei %1 von %L2", "%1|%L2"},
        {"von %H:%M Uhr an", "%H:%M"},
        {"in %APPDATA% liegt %name%", "%APPDATA%|%name%"},
        {"{0} und {name} und { user.id } hier", "{0}|{name}|{ user.id }"},
        {"{{name}} und {{{raw}}} und {{ a | b }}", "{{name}}|{{{raw}}}|{{ a | b }}"},
        {"${city}, #{x} oder $NAME und $(id)", "${city}, #{x}|$NAME|$(id)"},
        {"{n, plural, one {# Datei} other {# {x}}} da", "{n, plural, one {# Datei} other {# {x}}}"},
        {"{% if x %}Ja{% endif %} <%= y %>", "{% if x %}|{% endif %} <%= y %>"},
        {"Ein <x id=1>Wort</x> und <br/> <0>hier</0>", "<x id=1>|</x>|<br/> <0>|</0>"},
        {"Siehe https://example.com/a?b=c#d. Und www.example.org!", "https://example.com/a?b=c#d|www.example.org"},
        {"Schreib an a.b+c@example.co.uk, bitte", "a.b+c@example.co.uk"},
        {"[[Seite|Text]] und __name__", "[[Seite|Text]]|__name__"},
        {"Gut :count von :smile: da", ":count|:smile:"},
        {"Eins&nbsp;zwei &#8230; drei", "&nbsp;|&#8230;"},
        {"Danke 😀", "😀"},
        {"Familie 👨‍👩‍👧‍👦 hier", "👨‍👩‍👧‍👦"},
        {"Hand 👋🏽 und 🇩🇪🇫🇷 und 1️⃣ und ❤️ da", "👋🏽|🇩🇪🇫🇷|1️⃣|❤️"},
        {"Die Datei \"%s\" und („%s“) da", "\"%s\"|(„%s“)"},
        {"Tom: %s. %s ist da", "%s|%s"},
        {"Siehe (https://example.org/wiki/Foo_(bar)). Ja", "(https://example.org/wiki/Foo_(bar))"},
        {"Danke @tom und @a.b, das ist #gut und #schön!", "@tom|@a.b|#gut|#schön"},
        {"Die Datei /usr/local/bin/tfm, ~/x.txt oder ../a/b da", "/usr/local/bin/tfm, ~/x.txt|../a/b"},
        {"In C:\\Users\\tom liegt D:\\", "C:\\Users\\tom|D:\\"},
        {"Drück `Strg+C` oder ``a`b`` jetzt", "`Strg+C`|``a`b``"},
        {"Lies [das Buch](https://example.org/a_(b)) und ![Bild](a.png \"x\") da",
         "[|](https://example.org/a_(b))|![|](a.png \"x\")"},
        {"Das ist **sehr** gut", "**|**"},
        {"Wo \\(x^2 + y\\) und $a_1 = b$ und $$c$$ sind", "\\(x^2 + y\\)|$a_1 = b$|$$c$$"},
        {"Die Nummer #12 von ##NAME## und @:common.hello und $t(a.b) da", "#12|##NAME##|@:common.hello|$t(a.b)"},
        {"Siehe [1] oder [^2] da", "[1]|[^2]"},
        {"AT&T und C&A, \xE2\x86\x91 nach oben, ich&du", "AT&T|C&A, \xE2\x86\x91"},
        {"Ja {!! $html !!} und @if(true) da @endif", "{!! $html !!}|@if(true)|@endif"},
        {"Hallo %%FirstName%%, *|FNAME|* und [FIRST_NAME] da", "%%FirstName%%, *|FNAME|*|[FIRST_NAME]"},
        {"## Das Buch", "##"},
        {"> Ich * bin", ">"},
        {"<!-- Kommentar --> Ich", "<!-- Kommentar -->"},
        {"Zeile\\nWort\\tEnde", "\\n|\\t"},
        {"Tom hat 100%%, ich 5%%! %d%% und %%%d", "%%|%%|%d%%|%%%d"},
    };
    tfm_placeholders *p = known();
    for (size_t i = 0; i < sizeof(TEXTS) / sizeof(TEXTS[0]); i++)
        check_found(p, TEXTS[i][0], TEXTS[i][1]);
    tfm_placeholders_free(&p);
}

static void test_plain_text_has_no_placeholders(void **state) {
    (void)state;
    static const char *const TEXTS[] = {"Das kostet 5 % der Summe, also 100%ig 5%ig.",
                                        "Um 12:30 Uhr: ja; a < b und c > d.",
                                        "Er sagte: „Hallo“ (leise) [laut].",
                                        "Das kostet $5 & 3 €.",
                                        "Ich – du … er’s",
                                        "a@b und *, C# und/oder 24/7, je 5 $ und 6 $ = 11 $",
                                        "Leser*innen [sic] (siehe unten) \\ und ` 2 * 3 * 4",
                                        "日本語のテキスト。"};
    tfm_placeholders *p = known();
    for (size_t i = 0; i < sizeof(TEXTS) / sizeof(TEXTS[0]); i++)
        check_found(p, TEXTS[i], "");
    check_found(p, "kein \xff %s", ""); /* invalid UTF-8 */
    tfm_placeholders_free(&p);
}

static void test_patterns_are_added_and_checked(void **state) {
    (void)state;
    static const char *const GOOD[] = {"ACME\\w*", "(a)b\\1"}, *const BAD[] = {"(", "x*", NULL};
    tfm_placeholders *p = NULL;
    harness_ok(tfm_placeholders_new(&p, GOOD, 2));
    check_found(p, "Bei ACMECorp ist %s, aba da", "ACMECorp|%s, aba");
    tfm_placeholders_free(&p);
    harness_refused(tfm_placeholders_new(&p, BAD, 1), TFM_ERROR_ARGUMENT, "missing closing parenthesis");
    harness_refused(tfm_placeholders_new(&p, BAD + 1, 1), TFM_ERROR_ARGUMENT, "matches the empty text");
    harness_refused(tfm_placeholders_new(&p, BAD + 2, 1), TFM_ERROR_ARGUMENT, "pattern 1 is NULL");
    assert_null(p);
}

/* ---- Mask and restore -------------------------------------------------------------------------------------------- */

enum { TOKENS = 64 };

/* Words and separators as tokens, and the end. */
static size_t tokens_of(char pieces[TOKENS][64], const char **list, const char *text) {
    size_t count = 0;
    for (size_t at = 0; text[at];) {
        size_t end = at;
        const bool blank = at == 0 || text[at - 1] == ' ';
        while (text[end] && (isalnum((unsigned char)text[end]) || (unsigned char)text[end] >= 0x80))
            end++;
        end += end == at;
        if (text[at] != ' ')
            snprintf(pieces[count++], 64, "%s%.*s", blank ? "▁" : "", (int)(end - at), text + at);
        at = end;
    }
    snprintf(pieces[count++], 64, "</s>");
    for (size_t i = 0; i < count; i++)
        list[i] = pieces[i];
    return count;
}

/* An identity model restores the whole text. */
static void check_identity(const tfm_placeholders *p, const char *text) {
    static char pieces[TOKENS][64];
    const char *list[TOKENS];
    tfm__placeholder *found = NULL;
    tfm__masked masked = {0};
    tfm__masked_word *words = NULL;
    size_t count = 0;
    char *out = NULL;
    harness_ok(tfm__placeholders_find(p, &found, &count, text, strlen(text)));
    harness_ok(tfm__masked_strip(&masked, text, strlen(text), 0, found, count));
    assert_false(masked.copied);
    const size_t tokens = tokens_of(pieces, list, masked.bare);
    const tfm__masked_side side = {masked.bare, masked.bare_bytes, list, tokens};
    float *weights = calloc(tokens * tokens, sizeof(*weights));
    for (size_t i = 0; i < tokens; i++)
        weights[i * tokens + i] = 1;
    harness_ok(tfm__masked_restore(&masked, &out, &words, &side, &side, weights));
    if (strcmp(out, text) != 0)
        fail_msg("\"%s\", without placeholders \"%s\", came back as \"%s\"", text, masked.bare, out);
    for (size_t i = 0; i < masked.words; i++)
        assert_true(words[i].at == masked.source[i].at && words[i].word == masked.source[i].word);
    free(weights);
    free(found);
    free(words);
    free(out);
    tfm__masked_free(&masked);
}

static void test_identity_translation_keeps_the_text(void **state) {
    (void)state;
    static const char *const TEXTS[] = {
        "Hallo %s, guten Morgen!",
        "Hallo {{name}}, wo ist {0}?",
        "Ich bin in ${city}.",
        "%s und %s sind hier.",
        "Danke 😀",
        "Danke! 😀",
        "Wo ist <b>Tom</b>?",
        "Die Datei \"%s\" ist nicht da.",
        "Siehe https://example.com/x.",
        "{0}Katze und Hund{1}",
        "Ich habe %d Katzen und %d Hunde.",
        "%d Katzen",
        "Er kam (um %s) nach Hause.",
        "A, {b}, c",
        "Klicken Sie <0>hier</0> bitte",
        "Guten Morgen.\\nWo ist Tom?",
        "Guten Morgen<br>ihr\\tda",
        "Lies [das Buch](a.html) und **das** da",
        "Tom hat 100%%.",
        "Es sind 5%%!",
    };
    tfm_placeholders *p = known();
    for (size_t i = 0; i < sizeof(TEXTS) / sizeof(TEXTS[0]); i++)
        check_identity(p, TEXTS[i]);
    tfm_placeholders_free(&p);
}

/* ---- With a model ------------------------------------------------------------------------------------------------ */

enum { LINES = 8 };

typedef struct results {
    char *texts[4 * LINES];
    size_t count;
    bool aligned; /* each word of a placeholder was translated, alone */
} results;

static bool keep(void *user, const tfm_translation *t) {
    results *r = user;
    r->texts[r->count++] = strdup(t->text);
    for (size_t row = 0; t->alignment && row < t->target.count; row++)
        for (size_t c = 0; c < t->source.count; c++)
            if (t->target.ids[row] == -1 && strcmp(t->target.tokens[row], t->source.tokens[c]) == 0)
                r->aligned = t->alignment[row * t->source.count + c] == 1 && t->log_probs[row] == 0;
    return true;
}

static void run(results *r, tfm_model *model, const char *const *lines, size_t count, const tfm_text_options *text,
                int n_best) {
    for (size_t i = 0; i < r->count; i++)
        free(r->texts[i]);
    *r = (results){0};
    harness_ok(tfm_translate_lines(model, lines, count, text,
                                   &(tfm_search_options){.beam_size = n_best > 1 ? n_best : 1, .n_best = n_best}, keep,
                                   r));
}

static bool next_line(void *user, const char **line, size_t *bytes) {
    const char *const **at = user;
    *line = **at;
    if (!*line)
        return false; /* also if asked again */
    *bytes = strlen(*line);
    (*at)++;
    return true;
}

static void test_translations_have_the_placeholders(void **state) {
    (void)state;
    static const char *const LINES_IN[] = {
        "Hallo %1$s, guten Morgen!", "Danke.", "Ich bin in ${city}. Wo ist {0}?", "%s: %d", "",
        "Wo ist <b>Tom</b>?",        NULL};
    static const char *const HAVE[] = {"%1$s", "", "${city}", "%s: %d", "", "<b>", "{0}"};
    char *dir = harness_source("apps/demo");
    tfm_model *model = NULL;
    tfm_placeholders *p = known();
    results r = {0}, plain = {0};
    harness_ok(tfm_model_open(&model, harness_context(), dir, NULL));
    run(&plain, model, LINES_IN, 6, NULL, 1);
    for (int how = 0; how < 4; how++) {
        const tfm_text_options text = {.placeholders = p, .split = how == 1, .alignments = how >= 2};
        const int n_best = how == 3 ? 2 : 1;
        run(&r, model, LINES_IN, 6, &text, n_best);
        for (size_t i = 0, at = 0; i < 6; i++) {
            for (int best = 0; best < (i == 4 ? 1 : n_best) && (i != 3 || best == 0); best++)
                assert_non_null(strstr(r.texts[at + (size_t)best], HAVE[i]));
            at += i == 4 ? 1 : (size_t)n_best;
        }
        assert_true(how < 2 || r.aligned);
        assert_true(how == 3 || strcmp(r.texts[1], plain.texts[1]) == 0);
        assert_true(how == 3 || strstr(r.texts[2], HAVE[6]));
        assert_string_equal(r.texts[how == 3 ? 6 : 3], LINES_IN[3]);
    }
    const char *const *at = LINES_IN;
    for (size_t i = 0; i < r.count; i++)
        free(r.texts[i]);
    r = (results){0};
    harness_ok(tfm_translate_stream(model, next_line, &at, &(tfm_text_options){.placeholders = p}, NULL, keep, &r));
    assert_int_equal(r.count, 6);
    assert_non_null(strstr(r.texts[0], HAVE[0]));
    run(&r, model, LINES_IN, 0, NULL, 1);
    run(&plain, model, LINES_IN, 0, NULL, 1);
    tfm_placeholders_free(&p);
    tfm_model_free(&model);
    free(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_placeholders_are_found),
        cmocka_unit_test(test_plain_text_has_no_placeholders),
        cmocka_unit_test(test_patterns_are_added_and_checked),
        cmocka_unit_test(test_identity_translation_keeps_the_text),
        cmocka_unit_test(test_translations_have_the_placeholders),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
