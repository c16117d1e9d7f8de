/* Sentence splitting, by language. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "support/harness.h"
#include "tfm/text.h"

/* `want` has the line's sentences, separated by bars. */
static void check(const char *language, const char *line, const char *want) {
    tfm_sentence *found = NULL;
    size_t count = 0, used = 0;
    char got[1024] = "";
    harness_ok(tfm_text_sentences(&found, &count, line, strlen(line), language));
    for (size_t i = 0; i < count; i++) {
        assert_true(found[i].bytes > 0 && found[i].start + found[i].bytes <= strlen(line));
        used += (size_t)snprintf(got + used, sizeof(got) - used, "%s%.*s", i ? "|" : "", (int)found[i].bytes,
                                 line + found[i].start);
    }
    assert_string_equal(got, want);
    assert_true((found == NULL) == (count == 0));
    tfm_sentences_free(&found);
    assert_null(found);
}

static void test_sentences_are_split_at_final_punctuation(void **state) {
    (void)state;
    check(NULL, "One line. Two lines!  Three?", "One line.|Two lines!|Three?");
    check("en", " \t He left. She stayed. ", "He left.|She stayed.");
    check("de", "Wo ist er? Weg.", "Wo ist er?|Weg.");
    check("deu", "Es ist z. B. rot. Ja.", "Es ist z. B. rot.|Ja.");
    check("en", "It costs 3.50 now. Version 2.1 is out.", "It costs 3.50 now.|Version 2.1 is out.");
    check("zh", "你好。你在哪里？", "你好。|你在哪里？");
    check("nobody-knows", "One. Two.", "One.|Two.");
    check(NULL, "", "");
    check(NULL, " \xE3\x80\x80 ", "");
    check(NULL, "...", "...");
    check(NULL, "No stop", "No stop");
}

static void test_abbreviations_do_not_end_sentences(void **state) {
    (void)state;
    check("en", "Dr. Smith met Mrs. Jones. They spoke.", "Dr. Smith met Mrs. Jones.|They spoke.");
    check("en", "J. R. R. Tolkien wrote. I read.", "J. R. R. Tolkien wrote.|I read.");
    check("en", "So do I. You too.", "So do I.|You too.");
    check("en", "He said no. Then he left.", "He said no.|Then he left.");
    check("de", "Am 3. Mai kam Dr. Maier. Er blieb.", "Am 3. Mai kam Dr. Maier.|Er blieb.");
    check("de", "Das war 1999. Dann ging er.", "Das war 1999.|Dann ging er.");
    check("en", "He is 12. She is 13.", "He is 12.|She is 13.");
    check("de", "Das gilt u. a. Bäumen, d.h. Linden. Gut.", "Das gilt u. a. Bäumen, d.h. Linden.|Gut.");
    check("fr", "M. Dupont est là. Il dort.", "M. Dupont est là.|Il dort.");
    check("de", "„Halt!“ rief er. Niemand hielt.", "„Halt!“ rief er.|Niemand hielt.");
    check("en", "\"Stop!\" he said. \"Now!\"", "\"Stop!\" he said.|\"Now!\"");
    check("en", "I can't. You must.", "I can't.|You must.");
    check("en", "It\u2019s Tom\u2019s. He left.", "It\u2019s Tom\u2019s.|He left.");
    check("fr", "Vas-y. Il attend.", "Vas-y.|Il attend.");
    check("fr", "J.-P. Sartre écrit. Il lit.", "J.-P. Sartre écrit.|Il lit.");
    check("en", "'J. Smith left.' She stayed.", "'J. Smith left.'|She stayed.");
    check("ru", "Это сделал я. Он ушёл.", "Это сделал я.|Он ушёл.");
    check("ru", "Я видел их и т. д. Потом ушёл.", "Я видел их и т. д. Потом ушёл.");
    check("ru", "Я дал это им. Это рис. Он ушёл.", "Я дал это им.|Это рис.|Он ушёл.");
    check("ru", "А. С. Пушкин пишет. Он ушёл.", "А. С. Пушкин пишет.|Он ушёл.");
    check("de", "Das ist Jan. Er kommt.", "Das ist Jan.|Er kommt.");
    check("fr", "C'est un vol. Il part.", "C'est un vol.|Il part.");
    check("no", "Det er f.eks. Oslo. Den 3. Mai kom han.", "Det er f.eks. Oslo.|Den 3. Mai kom han.");
    check("nn", "Det er f.eks. Oslo. Han kom.", "Det er f.eks. Oslo.|Han kom.");
    check("en", "Wait... what? :-) Yes.", "Wait... what? :-) Yes.");
}

static void test_no_sentence_ends_in_a_placeholder(void **state) {
    (void)state;
    check("de", "Hallo {n, plural, =0 {Nein. Ja!} other {# Hunde}}, wo ist Tom? Danke.",
          "Hallo {n, plural, =0 {Nein. Ja!} other {# Hunde}}, wo ist Tom?|Danke.");
    check("de", "Hallo <x id=\"1\" equiv-text=\"Ja. Nein.\"/>, wo ist Tom?",
          "Hallo <x id=\"1\" equiv-text=\"Ja. Nein.\"/>, wo ist Tom?");
    check("de", "Ja. {{ X. Y }} ist da. Nein.", "Ja.|{{ X. Y }} ist da.|Nein.");
    check("de", "Hallo [[ Ja. Nein ]], wo ist `a. B`?", "Hallo [[ Ja. Nein ]], wo ist `a. B`?");
    check(NULL, "{{ x }}. Yes. {{ Y. Z }}", "{{ x }}.|Yes.|{{ Y. Z }}");
    check(NULL, "A { b. C", "A { b.|C");
}

static void test_sentence_split_rejects_bad_input(void **state) {
    (void)state;
    tfm_sentence *found = (tfm_sentence *)1;
    size_t count = 9;
    harness_refused(tfm_text_sentences(&found, &count, "Dan\377ke.", 7, NULL), TFM_ERROR_INPUT, "byte 4");
    assert_null(found);
    assert_int_equal(count, 0);
    const size_t large = ((size_t)64 << 20) + 1;
    char *line = malloc(large);
    assert_non_null(line);
    memset(line, 'a', large);
    harness_refused(tfm_text_sentences(&found, &count, line, large, NULL), TFM_ERROR_INPUT, "67108865 bytes");
    free(line);
    harness_refused(tfm_text_sentences(&found, NULL, "x", 1, NULL), TFM_ERROR_ARGUMENT, "count");
    tfm_sentences_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sentences_are_split_at_final_punctuation),
        cmocka_unit_test(test_abbreviations_do_not_end_sentences),
        cmocka_unit_test(test_no_sentence_ends_in_a_placeholder),
        cmocka_unit_test(test_sentence_split_rejects_bad_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
