/* Timing in turns: warm-up, rounds, medians, and the tables of `tfm bench`. */
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "bench/bench.h"

/* Target seconds per turn, to make the clock's resolution and the final wait negligible. */
static const double TURN = 0.02;
/* Slower contestants get fewer runs. */
static const double LONG = 0.5, TOO_LONG = 5;

bench_candidate *bench_add(bench_group *group, const char *bench, const char *shape, const char *format, ...) {
    if (group->count == BENCH_MAX_CANDIDATES) {
        cli_fail("too many variants and providers at once: choose some by --variant and --provider");
        return NULL;
    }
    bench_candidate *c = &group->list[group->count++];
    *c = (bench_candidate){.bench = bench};
    snprintf(c->shape, sizeof(c->shape), "%s", shape);
    va_list args;
    va_start(args, format);
    vsnprintf(c->name, sizeof(c->name), format, args);
    va_end(args);
    return c;
}

static void sleep_for(double seconds) {
    const struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    if (seconds > 0)
        nanosleep(&t, NULL);
}

static int compare(const void *x, const void *y) {
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* Compiles, packs, validates; *times: runs per turn, *rounds: number of turns. */
static int warm_up(bench_candidate *c, int *times, int *rounds) {
    cli_progress("%s %s: %s", c->bench, c->shape, c->name);
    int code = c->run(c->self, 1);
    const double start = cli_seconds();
    if (code == CLI_OK)
        code = c->run(c->self, 1);
    const double once = cli_seconds() - start;
    sleep_for(c->rest);
    *times = once >= TURN ? 1 : once * 1000 < TURN ? 1000 : (int)(TURN / once) + 1;
    if (once > LONG && *rounds > 3)
        *rounds = 3;
    if (once > TOO_LONG)
        *rounds = 1;
    return code;
}

static int run_candidate(bench_candidate *c, int times) {
    int code = times > 1 ? c->run(c->self, 1) : CLI_OK; /* warms the caches again */
    const double start = cli_seconds();
    if (code == CLI_OK)
        code = c->run(c->self, times);
    c->seconds[c->runs++] = (cli_seconds() - start) / times;
    sleep_for(c->rest);
    return code;
}

static int run_rounds(bench_group *group, int most) {
    int times[BENCH_MAX_CANDIDATES], rounds[BENCH_MAX_CANDIDATES], code = CLI_OK;
    for (size_t i = 0; i < group->count && code == CLI_OK; i++) {
        bench_candidate *c = &group->list[i];
        rounds[i] = c->declined ? 0 : most;
        c->seconds = calloc((size_t)most, sizeof(*c->seconds));
        if (!c->seconds)
            return cli_fail("out of memory for %d timings", most);
        if (!c->declined)
            code = warm_up(c, &times[i], &rounds[i]);
    }
    for (int round = 0; round < most && code == CLI_OK; round++)
        for (size_t i = 0; i < group->count && code == CLI_OK; i++)
            if (round < rounds[i])
                code = run_candidate(&group->list[i], times[i]);
    cli_progress(NULL);
    for (size_t i = 0; i < group->count && code == CLI_OK; i++)
        qsort(group->list[i].seconds, (size_t)group->list[i].runs, sizeof(double), compare);
    return code;
}

static double median(const bench_candidate *c) {
    const int half = c->runs / 2;
    return c->runs % 2 ? c->seconds[half] : 0.5 * (c->seconds[half] + c->seconds[half - 1]);
}

static bool put_json(cli_output *out, const bench_group *group, const bench_candidate *c) {
    json_t *line = json_pack("{s:s, s:s, s:s, s:s}", "bench", c->bench, "shape", c->shape, "provider", c->name,
                             "precision", c->precision ? c->precision : group->precision);
    json_t *more = json_pack("{s:i, s:n, s:n, s:n}", "runs", c->runs, "median_s", "min_s", group->json);
    json_object_update(line, more);
    json_decref(more);
    if (c->declined) {
        json_object_set_new(line, "declined", json_string(c->declined));
    } else {
        const double rate = c->work / median(c);
        json_object_set_new(line, "median_s", json_real(median(c)));
        json_object_set_new(line, "min_s", json_real(c->seconds[0]));
        json_object_set_new(line, group->json,
                            json_real(strcmp(group->json, "per_s") == 0 ? rate : rate * group->factor));
    }
    return cli_write_json(out, line, 7);
}

static void print_time(double seconds) {
    if (seconds >= 1)
        printf(" %8.3f s ", seconds);
    else if (seconds >= 1e-3)
        printf(" %8.3f ms", seconds * 1e3);
    else
        printf(" %8.2f us", seconds * 1e6);
}

/* The width of the first column: just its content, so that a row fits a terminal. */
static int first_column(const bench_group *group) {
    size_t width = 0;
    for (size_t i = 0; i < group->count; i++) {
        const bench_candidate *c = &group->list[i];
        const size_t title = strlen(c->bench) + 1 + strlen(c->shape), name = 2 + strlen(c->name);
        width = title > width ? title : width;
        width = name > width ? name : width;
    }
    return (int)width;
}

static void print_table(const bench_group *group, const bench_candidate *base) {
    const char *bench = "", *shape = "";
    const int width = first_column(group);
    for (size_t i = 0; i < group->count; i++) {
        const bench_candidate *c = &group->list[i];
        if (strcmp(c->shape, shape) != 0 || strcmp(c->bench, bench) != 0) {
            bench = c->bench;
            shape = c->shape;
            char title[96];
            snprintf(title, sizeof(title), "%s %s", bench, shape);
            printf("%-*s %4s %11s %11s %10s", width, title, "runs", "median", "min", group->unit);
            if (base)
                printf("  of %s", group->than);
            putchar('\n');
        }
        if (c->declined) {
            const int column = printf("  %-*s declined: ", width - 2, c->name);
            cli_print_wrapped(stdout, column, column, c->declined);
            continue;
        }
        printf("%c %-*s %4d", c->chosen ? '*' : ' ', width - 2, c->name, c->runs);
        print_time(median(c));
        print_time(c->seconds[0]);
        const double rate = c->work / median(c);
        printf(" %10.2f", rate * group->factor);
        if (base && base != c)
            printf("  %6.2f", rate * median(base) / base->work);
        putchar('\n');
    }
    putchar('\n');
}

static int report(const bench_group *group, bool json) {
    const bench_candidate *base = group->than && group->base < group->count ? &group->list[group->base] : NULL;
    if (base && base->declined)
        base = NULL;
    if (!json)
        print_table(group, base);
    cli_output out;
    cli_output_open(&out, NULL);
    for (size_t i = 0; json && i < group->count && put_json(&out, group, &group->list[i]); i++)
        ;
    return cli_output_flush(&out); /* the next shape may take long */
}

void bench_discard(bench_group *group) {
    for (size_t i = 0; i < group->count; i++) {
        bench_candidate *c = &group->list[i];
        if (c->free)
            c->free(c->self);
        free(c->seconds);
    }
    group->count = 0;
}

int bench_run(bench_group *group, const bench_options *options) {
    int code = run_rounds(group, options->rounds);
    if (code == CLI_OK)
        code = report(group, options->json);
    bench_discard(group);
    return code;
}
