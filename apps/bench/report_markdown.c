/* The Markdown of `tfm report`: tables, and lists wrapped at 80 columns. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "bench/report.h"

enum { WIDTH = 80 };

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static double number_of(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* Whether a character of a word is special in Markdown. An underscore within a name is not. */
static bool is_mark(const char *text, const char *at) {
    if (*at == '&') /* of a character's name */
        return isalnum((unsigned char)at[1]) || at[1] == '#';
    if (*at != '_')
        return strchr("*`<>|\\[]~", *at) != NULL;
    const char *before = at, *after = at;
    while (before > text && *before == '_')
        before--;
    while (*after == '_')
        after++;
    return !isalnum((unsigned char)*before) || !isalnum((unsigned char)*after);
}

/* The index of a character in a word that would begin a heading, a rule or a list at the start of a line, or -1. */
static int first_mark(const char *word, int length) {
    const int digits = (int)strspn(word, "0123456789");
    if (digits < length && strchr(digits ? ".)" : "#-+=", word[digits]))
        return digits;
    return -1;
}

/* Writes a word with escaped Markdown characters. Returns its columns, also without a file. */
static int put_word(FILE *file, const char *text, const char *word, int length, bool first) {
    const int mark = first ? first_mark(word, length) : -1;
    int columns = length;
    for (int i = 0; i < length; i++) {
        const bool escaped = i == mark || is_mark(text, word + i);
        columns += escaped;
        if (file)
            fprintf(file, escaped ? "\\%c" : "%c", word[i]);
    }
    return columns;
}

/* A list item, broken at blanks. */
static void put_item(FILE *file, const char *name, const char *text) {
    fputs("- ", file);
    int column = 3 + put_word(file, name, name, (int)strlen(name), true);
    fputc(':', file);
    for (const char *word = text + strspn(text, " \n"); *word;) {
        const int length = (int)strcspn(word, " \n");
        const bool first = column + 1 + put_word(NULL, text, word, length, false) > WIDTH;
        if (first)
            column = fprintf(file, "\n ") - 1;
        fputc(' ', file);
        column += 1 + put_word(file, text, word, length, first);
        word += length;
        word += strspn(word, " \n");
    }
    fputc('\n', file);
}

static void put_object(FILE *file, const json_t *object) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)object, name, value) if (json_is_string(value))
        put_item(file, name, json_string_value(value));
}

/* A cell of text: a bar would end it. */
static void put_cell(FILE *file, const char *text, int width) {
    int column = 0;
    fputc(' ', file);
    for (; *text; text++, column++)
        fputc(*text == '|' || *text == '\n' ? '/' : *text, file);
    fprintf(file, "%*s |", width > column ? width - column : 0, "");
}

static void put_number(FILE *file, double number, int width, int digits, const char *unit) {
    if (isnan(number))
        fprintf(file, " %*s |", width, "");
    else
        fprintf(file, " %*.*f %s |", width - 1 - (int)strlen(unit), digits, number, unit);
}

static void put_time(FILE *file, double seconds) {
    if (seconds < 999.95e-6)
        put_number(file, seconds * 1e6, 9, 1, "us");
    else if (seconds < 999.995e-3)
        put_number(file, seconds * 1e3, 9, 2, "ms");
    else
        put_number(file, seconds, 9, 2, "s");
}

/* The rows with a reason instead of a time. */
static void put_untimed(FILE *file, const json_t *rows, const char *state, const char *heading) {
    size_t i;
    json_t *row;
    bool first = true;
    json_array_foreach((json_t *)rows, i, row) {
        char name[160];
        if (!*text_of(row, state))
            continue;
        if (first)
            fprintf(file, "%s\n\n", heading);
        snprintf(name, sizeof(name), "%s %s%s%s", text_of(row, "bench"), text_of(row, "shape"),
                 *text_of(row, "provider") ? " by " : "", text_of(row, "provider"));
        put_item(file, name, text_of(row, state));
        first = false;
    }
    if (!first)
        fputc('\n', file);
}

static void put_bench(FILE *file, const json_t *rows) {
    size_t i;
    json_t *row;
    fprintf(file, "| op        | shape            | provider   |      time |         rate |  peak |\n"
                  "|-----------|------------------|------------|----------:|-------------:|------:|\n");
    json_array_foreach((json_t *)rows, i, row) {
        const bool bytes = json_object_get(row, "gbytes_per_s") != NULL;
        const double seconds = number_of(row, "median_s"), rate = number_of(row, bytes ? "gbytes_per_s" : "gflops");
        if (json_object_get(row, "declined") || json_object_get(row, "failed"))
            continue;
        fputc('|', file);
        put_cell(file, text_of(row, "bench"), 9);
        put_cell(file, text_of(row, "shape"), 16);
        put_cell(file, text_of(row, "provider"), 10);
        put_time(file, seconds);
        put_number(file, rate, 12, rate < 99.95 ? 1 : 0, bytes ? "GB/s" : "GFLOP/s");
        put_number(file, number_of(row, "percent"), 5, 0, "%");
        fputc('\n', file);
    }
    fputc('\n', file);
    put_untimed(file, rows, "failed", "FAILED:");
    put_untimed(file, rows, "declined", "Not available on this device, which is no failure:");
}

/* Warns of unreliable figures. */
static void put_spread(FILE *file, const json_t *report) {
    const json_t *spread = json_object_get(report, "spread"), *host = json_object_get(report, "host");
    const json_t *rows = json_object_get(report, "bench");
    const double median = number_of(spread, "median"), before = atof(text_of(host, "load before")),
                 cores = atof(text_of(host, "cores"));
    size_t i;
    json_t *row;
    fprintf(file, "\nTurns of a row differ by %.0f %% of its time in the median, and by %.0f %% at most.\n",
            100 * median, 100 * number_of(spread, "most"));
    if (median > 0.1 || before > 0.3 * cores)
        fprintf(file, "\n**The machine was busy with something else: these times are unreliable.**\n");
    fputc('\n', file);
    json_array_foreach((json_t *)rows, i, row) {
        char name[160], text[64];
        if (!(number_of(row, "spread") > fmax(0.25, 1.5 * median)))
            continue;
        snprintf(name, sizeof(name), "%s %s%s%s scattered", text_of(row, "bench"), text_of(row, "shape"),
                 *text_of(row, "provider") ? " by " : "", text_of(row, "provider"));
        snprintf(text, sizeof(text), "by %.0f %%", 100 * number_of(row, "spread"));
        put_item(file, name, text);
    }
}

static size_t count_state(const json_t *checks, const char *state) {
    size_t i, count = 0;
    json_t *row;
    json_array_foreach((json_t *)checks, i, row) count += strcmp(text_of(row, "state"), state) == 0;
    return count;
}

static void put_checks(FILE *file, const json_t *checks, const char *state) {
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)checks, i, row) {
        char name[160];
        if (strcmp(text_of(row, "state"), state) != 0)
            continue;
        snprintf(name, sizeof(name), "%s %s", text_of(row, "op"), text_of(row, "form"));
        put_item(file, name, text_of(row, "message"));
    }
}

static void put_self_test(FILE *file, const json_t *checks) {
    const size_t passed = count_state(checks, "pass"), failed = count_state(checks, "FAIL"),
                 unavailable = count_state(checks, "not available");
    if (failed > 0) {
        fprintf(file, "**%zu of %zu checks FAILED:**\n\n", failed, passed + failed);
        put_checks(file, checks, "FAIL");
    } else if (passed > 0) {
        fprintf(file, "All %zu checks passed.\n", passed);
    } else {
        fputs("No check was run.\n", file);
    }
    if (unavailable > 0) {
        fprintf(file, "\n%zu %s not available on this device, which is no failure:\n\n", unavailable,
                unavailable == 1 ? "is" : "are");
        put_checks(file, checks, "not available");
    }
}

void report_markdown(FILE *file, const json_t *report) {
    const json_t *peak = json_object_get(report, "peak"), *table = json_object_get(report, "table");
    const char *device = text_of(json_object_get(report, "device"), "device"), *failed = text_of(report, "failed");
    fputs("# tfm on ", file);
    put_word(file, device, device, (int)strlen(device), false);
    fputs("\n\n", file);
    if (*failed)
        put_item(file, "the report is incomplete, something FAILED", failed);
    put_object(file, json_object_get(report, "tfm"));
    put_object(file, json_object_get(report, "host"));
    fprintf(file, "\n## Self-test\n\n");
    put_self_test(file, json_object_get(report, "self_test"));
    if (json_object_get(report, "bench")) {
        fprintf(file,
                "\n## Speed\n\nMeasured peak: %.1f GFLOP/s in registers, %.1f GB/s in a copy, read and write.\n\n",
                number_of(peak, "gflops"), number_of(peak, "gbytes_per_s"));
        put_bench(file, json_object_get(report, "bench"));
        put_spread(file, report);
    }
    fprintf(file, "\n## Device\n\n");
    put_object(file, json_object_get(report, "device"));
    fprintf(file, "\n## Table of tfm tune\n\n");
    if (json_object_size(table) == 0)
        fprintf(file, "There is none: `tfm tune` creates it.\n");
    put_object(file, table);
}
