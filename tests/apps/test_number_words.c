/* The number words example against hand-written words. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "support/harness.h"

static const struct {
    const char *german, *english;
} BY_HAND[] = {
    {"null", "zero"},
    {"eins", "one"},
    {"zwei", "two"},
    {"drei", "three"},
    {"fünf", "five"},
    {"acht", "eight"},
    {"zehn", "ten"},
    {"elf", "eleven"},
    {"zwölf", "twelve"},
    {"dreizehn", "thirteen"},
    {"vierzehn", "fourteen"},
    {"fünfzehn", "fifteen"},
    {"sechzehn", "sixteen"},
    {"siebzehn", "seventeen"},
    {"achtzehn", "eighteen"},
    {"neunzehn", "nineteen"},
    {"zwanzig", "twenty"},
    {"einundzwanzig", "twenty-one"},
    {"dreißig", "thirty"},
    {"sechsunddreißig", "thirty-six"},
    {"vierzig", "forty"},
    {"achtundvierzig", "forty-eight"},
    {"fünfundfünfzig", "fifty-five"},
    {"sechzig", "sixty"},
    {"siebenundsechzig", "sixty-seven"},
    {"siebzig", "seventy"},
    {"einundachtzig", "eighty-one"},
    {"neunundneunzig", "ninety-nine"},
    {"einhundert", "one hundred"},
    {"einhunderteins", "one hundred and one"},
    {"einhundertelf", "one hundred and eleven"},
    {"einhunderteinundzwanzig", "one hundred and twenty-one"},
    {"zweihundertsiebzehn", "two hundred and seventeen"},
    {"dreihundertdreiunddreißig", "three hundred and thirty-three"},
    {"sechshundert", "six hundred"},
    {"siebenhundertsieben", "seven hundred and seven"},
    {"neunhundertneunundneunzig", "nine hundred and ninety-nine"},
    {"eintausend", "one thousand"},
    {"eintausendeins", "one thousand and one"},
    {"eintausendsieben", "one thousand and seven"},
    {"eintausendsechzehn", "one thousand and sixteen"},
    {"eintausendeinhundert", "one thousand one hundred"},
    {"eintausendneunhundertvierundachtzig", "one thousand nine hundred and eighty-four"},
    {"zweitausendeinundzwanzig", "two thousand and twenty-one"},
    {"viertausendeinhundertsieben", "four thousand one hundred and seven"},
    {"siebentausendsiebzig", "seven thousand and seventy"},
    {"neuntausenddreihunderteins", "nine thousand three hundred and one"},
    {"zehntausend", "ten thousand"},
    {"elftausendelf", "eleven thousand and eleven"},
    {"sechzehntausendfünfhundert", "sixteen thousand five hundred"},
    {"einundzwanzigtausend", "twenty-one thousand"},
    {"dreißigtausenddreißig", "thirty thousand and thirty"},
    {"zweiundvierzigtausendeinhunderteins", "forty-two thousand one hundred and one"},
    {"neunundneunzigtausendneunhundert", "ninety-nine thousand nine hundred"},
    {"einhunderttausend", "one hundred thousand"},
    {"einhunderttausendeins", "one hundred thousand and one"},
    {"einhunderteintausend", "one hundred and one thousand"},
    {"einhunderteintausendeinhunderteins", "one hundred and one thousand one hundred and one"},
    {"zweihunderttausendvierzig", "two hundred thousand and forty"},
    {"fünfhundertzwölftausend", "five hundred and twelve thousand"},
    {"sechshundertsechzigtausendsechshundertsechs", "six hundred and sixty thousand six hundred and six"},
    {"siebenhundertsiebzehntausendsiebzehn", "seven hundred and seventeen thousand and seventeen"},
    {"achthundertachtzigtausendachthundertachtzig", "eight hundred and eighty thousand eight hundred and eighty"},
    {"neunhunderteinundneunzigtausendeins", "nine hundred and ninety-one thousand and one"},
};

enum { HANDS = sizeof(BY_HAND) / sizeof(*BY_HAND) };

static char folder[] = "/tmp/tfm-test-numbers-XXXXXX";

/* The exit code of `number_words DIR ARGUMENTS`. */
static int run(const char *dir, const char *arguments) {
    char command[2048];
    snprintf(command, sizeof(command), "%s/example_number_words %s/%s %s 2>%s/err", TFM_EXAMPLES, folder, dir,
             arguments, folder);
    const int status = system(command);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

typedef struct lines {
    char *text, **line; /* [count], without line ends */
    size_t count;
} lines;

static lines read_lines(const char *dir, const char *name) {
    char path[256];
    lines all = {0};
    snprintf(path, sizeof(path), "%s/%s/%s", folder, dir, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const size_t bytes = (size_t)ftell(file);
    rewind(file);
    all.text = malloc(bytes + 1);
    all.line = calloc(bytes, sizeof(*all.line));
    assert_true(all.text && all.line);
    assert_int_equal(fread(all.text, 1, bytes, file), bytes);
    all.text[bytes] = 0;
    fclose(file);
    assert_int_equal(all.text[bytes - 1], '\n');
    for (char *at = all.text; *at; at++) {
        all.line[all.count++] = at;
        at = strchr(at, '\n');
        *at = 0;
    }
    return all;
}

static void free_lines(lines *all) {
    free(all->text);
    free(all->line);
}

/* All generated pairs that are also in the hand-written list. */
static void test_number_words_are_right(void **state) {
    (void)state;
    bool met[HANDS] = {false};
    assert_int_equal(run("many", "--train 498000 --valid 1000 --test 1000"), 0);
    static const char *const sets[] = {"train", "valid", "test"};
    for (int s = 0; s < 3; s++) {
        char name[2][16];
        snprintf(name[0], sizeof(name[0]), "%s.de", sets[s]);
        snprintf(name[1], sizeof(name[1]), "%s.en", sets[s]);
        lines german = read_lines("many", name[0]), english = read_lines("many", name[1]);
        assert_int_equal(german.count, s == 0 ? 498000 : 1000);
        assert_int_equal(german.count, english.count);
        for (size_t i = 0; i < german.count; i++)
            for (int k = 0; k < HANDS; k++) {
                const bool same = strcmp(german.line[i], BY_HAND[k].german) == 0;
                if (same != (strcmp(english.line[i], BY_HAND[k].english) == 0))
                    fail_msg("'%s' is paired with '%s'", german.line[i], english.line[i]);
                met[k] = met[k] || same;
            }
        free_lines(&german);
        free_lines(&english);
    }
    for (int k = 0; k < HANDS; k++)
        if (!met[k])
            fail_msg("'%s' is never generated", BY_HAND[k].german);
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static size_t without_thousands(const lines *all) {
    size_t count = 0;
    for (size_t i = 0; i < all->count; i++)
        count += strstr(all->line[i], "tausend") == NULL;
    return count;
}

static void check_apart(const char *language) {
    lines sets[3];
    char name[3][16], *all[21000];
    size_t count = 0;
    for (int s = 0; s < 3; s++) {
        snprintf(name[s], sizeof(name[s]), "%s.%s", s == 0 ? "train" : s == 1 ? "valid" : "test", language);
        sets[s] = read_lines("usual", name[s]);
        assert_int_equal(sets[s].count, s == 0 ? 20000 : 500);
        memcpy(all + count, sets[s].line, sets[s].count * sizeof(*all));
        count += sets[s].count;
    }
    assert_string_equal(sets[0].line[0], strcmp(language, "de") == 0 ? "null" : "zero");
    if (strcmp(language, "de") == 0) { /* short numbers are in every set, though rare */
        assert_true(without_thousands(&sets[0]) > 850);
        assert_true(without_thousands(&sets[1]) > 10 && without_thousands(&sets[2]) > 10);
        assert_true(without_thousands(&sets[2]) < 50);
    }
    qsort(all, count, sizeof(*all), by_text);
    for (size_t i = 1; i < count; i++)
        if (strcmp(all[i - 1], all[i]) == 0)
            fail_msg("'%s' occurs twice", all[i]);
    for (int s = 0; s < 3; s++)
        free_lines(&sets[s]);
}

static void test_number_words_sets_are_disjoint(void **state) {
    (void)state;
    assert_int_equal(run("usual", ""), 0);
    check_apart("de");
    check_apart("en");
}

static bool same_file(const char *name, const char *a, const char *b) {
    char command[256];
    snprintf(command, sizeof(command), "cmp -s %s/%s/%s %s/%s/%s", folder, a, name, folder, b, name);
    return system(command) == 0;
}

static void test_number_words_are_deterministic_by_seed(void **state) {
    (void)state;
    assert_int_equal(run("a", "--train 1000 --valid 20 --test 30 --seed 7"), 0);
    assert_int_equal(run("b", "--seed 7 --test 30 --valid 20 --train 1000"), 0);
    assert_int_equal(run("c", "--seed 8 --test 30 --valid 20 --train 1000"), 0);
    static const char *const names[] = {"train.de", "train.en", "valid.de", "valid.en", "test.de", "test.en"};
    for (int i = 0; i < 6; i++) {
        assert_true(same_file(names[i], "a", "b"));
        assert_false(same_file(names[i], "a", "c"));
    }
}

static void test_number_words_rejects_bad_options(void **state) {
    (void)state;
    static const char *const bad[] = {"--train", "--train x",      "--train 5x", "--train 0",  "--valid -1", "--sort 3",
                                      "more",    "--train 500000", "--seed -1",  "--train ''", "--train 1e3"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        if (run("refused", bad[i]) != 2)
            fail_msg("'%s' is accepted", bad[i]);
    assert_int_equal(run("nowhere/refused", ""), 1);
}

static int set_up(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof(command), "rm -r %s", folder);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_number_words_are_right),
        cmocka_unit_test(test_number_words_sets_are_disjoint),
        cmocka_unit_test(test_number_words_are_deterministic_by_seed),
        cmocka_unit_test(test_number_words_rejects_bad_options),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
