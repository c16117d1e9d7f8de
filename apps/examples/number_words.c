/* Writes parallel text for training: the numbers below a million, in German and in British English words.
 *
 *     cc number_words.c -o number_words
 *     ./number_words numbers --train 20000
 *
 * numbers/train.de and train.en, and likewise valid and test, then have a number a line: "einundzwanzig" and
 * "twenty-one", "viertausendeinhundertsieben" and "four thousand one hundred and seven". No number is in two
 * of the sets, so a good score on the test set needs generalization. German puts the ones before the tens, in one word.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MILLION = 1000000, WORDS = 160, MOST_LINES = 500000 };

/* ---- Words --------------------------------------------------------------------------------------------- */

static const char *const german_small[] = {
    "",     "ein", "zwei",  "drei",     "vier",     "fünf",     "sechs",    "sieben",   "acht",     "neun",
    "zehn", "elf", "zwölf", "dreizehn", "vierzehn", "fünfzehn", "sechzehn", "siebzehn", "achtzehn", "neunzehn"};
static const char *const german_tens[] = {"",        "",        "zwanzig", "dreißig", "vierzig",
                                          "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig"};

static const char *const english_small[] = {
    "",    "one",    "two",    "three",    "four",     "five",    "six",     "seven",     "eight",    "nine",
    "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
static const char *const english_tens[] = {"",      "",      "twenty",  "thirty", "forty",
                                           "fifty", "sixty", "seventy", "eighty", "ninety"};

/* Appends 1 to 999 as it stands before another word: einhundertein-tausend. */
static void german_below_thousand(char *out, int n) {
    if (n >= 100)
        strcat(strcat(out, german_small[n / 100]), "hundert");
    n %= 100;
    if (n < 20) {
        strcat(out, german_small[n]);
    } else {
        if (n % 10 > 0)
            strcat(strcat(out, german_small[n % 10]), "und"); /* ones before tens */
        strcat(out, german_tens[n / 10]);
    }
}

static void german(char *out, int n) {
    strcpy(out, n == 0 ? "null" : "");
    if (n >= 1000) {
        german_below_thousand(out, n / 1000);
        strcat(out, "tausend");
    }
    german_below_thousand(out, n % 1000);
    if (n % 100 == 1)
        strcat(out, "s"); /* "ein" is "eins" where nothing follows */
}

/* Appends 1 to 999. */
static void english_below_thousand(char *out, int n) {
    if (n >= 100) {
        strcat(strcat(out, english_small[n / 100]), " hundred");
        n %= 100;
        strcat(out, n > 0 ? " and " : "");
    }
    if (n < 20) {
        strcat(out, english_small[n]);
    } else {
        strcat(out, english_tens[n / 10]);
        if (n % 10 > 0)
            strcat(strcat(out, "-"), english_small[n % 10]);
    }
}

static void english(char *out, int n) {
    strcpy(out, n == 0 ? "zero" : "");
    if (n >= 1000) {
        english_below_thousand(out, n / 1000);
        strcat(out, " thousand");
        n %= 1000;
        strcat(out, n == 0 ? "" : n < 100 ? " and " : " "); /* one thousand and seven */
    }
    english_below_thousand(out, n);
}

/* ---- Numbers ------------------------------------------------------------------------------------------- */

/* SplitMix64 ("Fast splittable pseudorandom number generators", Steele et al. 2014): 0 to below - 1. */
static int random_below(uint64_t *state, int below) {
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (int)((z ^ z >> 31) % (uint64_t)below);
}

/* Samples lengths uniformly: of all numbers below a million, nine in ten have six digits. A third of the digits is 0,
 * where words are left out. */
static int random_number(uint64_t *state) {
    int n = 1 + random_below(state, 9);
    for (int more = random_below(state, 6); more > 0; more--)
        n = 10 * n + (random_below(state, 3) == 0 ? 0 : 1 + random_below(state, 9));
    return n;
}

/* Fills numbers[count], each a different one, in no order but that 0 is the first: its words are part of no
 * other number's, so it has to be learned, and cannot be a test. Once all numbers of a length are there, the
 * others come. */
static bool random_numbers(int *numbers, int count, uint64_t seed) {
    bool *taken = calloc(MILLION, sizeof(*taken));
    if (!taken)
        return false;
    numbers[0] = 0;
    for (int i = 1; i < count; i++) {
        do
            numbers[i] = random_number(&seed);
        while (taken[numbers[i]]);
        taken[numbers[i]] = true;
    }
    for (int i = count - 1; i > 1; i--) { /* short numbers run out early: shuffled, every set has its share of them */
        const int other = 1 + random_below(&seed, i), swapped = numbers[i];
        numbers[i] = numbers[other];
        numbers[other] = swapped;
    }
    free(taken);
    return true;
}

/* ---- Files --------------------------------------------------------------------------------------------- */

static bool write_file(const char *dir, const char *set, const char *language, void (*words)(char *, int),
                       const int *numbers, int count) {
    char path[4096], line[WORDS];
    snprintf(path, sizeof(path), "%s/%s.%s", dir, set, language);
    FILE *file = fopen(path, "w");
    bool good = file != NULL;
    for (int i = 0; good && i < count; i++) {
        words(line, numbers[i]);
        good = fprintf(file, "%s\n", line) > 0;
    }
    if (file && fclose(file) != 0)
        good = false;
    if (!good)
        fprintf(stderr, "number_words: cannot write %s: %s\n", path, strerror(errno));
    return good;
}

static bool write_set(const char *dir, const char *set, const int *numbers, int count) {
    return write_file(dir, set, "de", german, numbers, count) && write_file(dir, set, "en", english, numbers, count);
}

int main(int argc, char **argv) {
    long train = 20000, valid = 500, test = 500, seed = 1;
    struct {
        const char *name;
        long *value;
    } options[] = {{"--train", &train}, {"--valid", &valid}, {"--test", &test}, {"--seed", &seed}};
    const char *dir = NULL;
    bool understood = true;
    for (int i = 1; i < argc; i++) {
        char *end = argv[i];
        int k = 0;
        while (k < 4 && strcmp(argv[i], options[k].name) != 0)
            k++;
        if (k < 4 && i + 1 < argc)
            *options[k].value = strtol(argv[++i], &end, 10);
        else if (!dir && argv[i][0] != '-')
            dir = argv[i];
        else
            understood = false;
        understood = understood && (k == 4 || (end > argv[i] && *end == 0));
    }
    const bool sizes_good = train > 0 && valid > 0 && test > 0 && train <= MOST_LINES && valid <= MOST_LINES &&
                            test <= MOST_LINES && train + valid + test <= MOST_LINES && seed >= 0;
    if (!dir || !understood || !sizes_good) {
        fprintf(stderr,
                "usage: number_words DIR [--train N] [--valid N] [--test N] [--seed S]\n"
                "Numbers of lines are at least 1, together at most %d; by default 20000, 500 and 500.\n",
                MOST_LINES);
        return 2;
    }
    if (mkdir(dir, 0777) != 0 && errno != EEXIST) {
        fprintf(stderr, "number_words: cannot make %s: %s\n", dir, strerror(errno));
        return 1;
    }
    int *numbers = malloc((size_t)(train + valid + test) * sizeof(*numbers));
    const bool created = numbers && random_numbers(numbers, (int)(train + valid + test), (uint64_t)seed);
    if (!created)
        fprintf(stderr, "number_words: out of memory\n");
    const bool done = created && write_set(dir, "train", numbers, (int)train) &&
                      write_set(dir, "valid", numbers + train, (int)valid) &&
                      write_set(dir, "test", numbers + train + valid, (int)test);
    free(numbers);
    return done ? 0 : 1;
}
