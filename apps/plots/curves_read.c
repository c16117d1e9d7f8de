/* A training run's reports as curves. */
#include <errno.h>
#include <float.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include "plots/curves.h"

/* A number of a report; NaN if absent or out of the range of fp32. */
static double number(const json_t *report, const char *key) {
    const json_t *value = json_object_get(report, key);
    const double got = json_is_number(value) ? json_number_value(value) : NAN;
    return fabs(got) <= FLT_MAX ? got : NAN;
}

/* Appends a point, unless it is NaN. False when out of memory. */
static bool add(curve *c, double update, double value) {
    if (isnan(value))
        return true;
    if (!cli_grow(&c->points, &c->room, c->count + 1, sizeof(*c->points)))
        return false;
    c->points[c->count++] = (curve_point){update, value};
    return true;
}

/* Adds the values of a report to the curves first to last. */
typedef struct kind {
    const char *type;
    curve_name first, last;
    const char *keys[5];
} kind;

static const kind KINDS[] = {
    {"train", CURVE_LOSS, CURVE_EPOCH, {"loss", "nll", "learning_rate", "grad_norm", "epoch"}},
    {"valid", CURVE_VALID_NLL, CURVE_CHRF, {"nll", "bleu", "chrf2"}},
    {"average", CURVE_AVERAGE_NLL, CURVE_AVERAGE_BLEU, {"nll", "bleu"}},
    {"start", CURVE_RESUMED, CURVE_RESUMED, {"update"}},
};

/* Before a report at `update`, drops points of its kind from there on, and of other kinds beyond it, since training,
 * validation and average of one update are separate lines: they are of a continuation that was not resumed. */
static void go_back(curves *c, const kind *of, double update) {
    for (int i = 0; i < CURVE_COUNT; i++) {
        curve *one = &c->all[i];
        const bool own = i >= (int)of->first && i <= (int)of->last;
        while (one->count > 0 &&
               (own ? one->points[one->count - 1].update >= update : one->points[one->count - 1].update > update))
            one->count--;
    }
}

/* A report of validation replaces the best at its update; one of an average, only if it is the best. */
static bool take_best(curve *best, const kind *of, const json_t *report, double update) {
    const bool average = of->first == CURVE_AVERAGE_NLL, is = json_is_true(json_object_get(report, "best"));
    if (of->first == CURVE_LOSS || of->first == CURVE_RESUMED || (average && !is))
        return true;
    if (best->count > 0 && best->points[best->count - 1].update >= update)
        best->count--;
    return !is || add(best, update, average ? BEST_AVERAGE : BEST_VALIDATION);
}

/* False when out of memory. */
static bool take_line(curves *c, const char *line, size_t bytes) {
    char why[CLI_REASON];
    json_t *report = cli_json_parse(line, bytes, why);
    const char *type = json_string_value(json_object_get(report, "type"));
    const double update = number(report, "update");
    bool good = true;
    for (size_t k = 0; k < CLI_COUNT(KINDS); k++)
        if (type && update >= 0 && strcmp(type, KINDS[k].type) == 0) {
            go_back(c, &KINDS[k], update);
            for (int i = KINDS[k].first; i <= (int)KINDS[k].last; i++)
                good = good && add(&c->all[i], update, number(report, KINDS[k].keys[i - (int)KINDS[k].first]));
            good = good && take_best(&c->all[CURVE_BEST], &KINDS[k], report, update);
            if (!isnan(number(report, "seconds")))
                c->seconds = number(report, "seconds");
        }
    json_decref(report);
    return good;
}

static void find_ends(curves *c) {
    c->first = INFINITY;
    c->last = -1;
    for (int i = 0; i < CURVE_COUNT; i++)
        if (c->all[i].count > 0 && i != CURVE_EPOCH && i != CURVE_BEST && i != CURVE_RESUMED) {
            c->first = fmin(c->first, c->all[i].points[0].update);
            c->last = fmax(c->last, c->all[i].points[c->all[i].count - 1].update);
        }
}

int curves_read(curves *out, const char *path) {
    *out = (curves){.last = -1, .seconds = NAN};
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    ssize_t bytes;
    bool good = true;
    if (!file)
        return cli_fail("cannot read %s: %s", path, strerror(errno));
    errno = 0;
    while (good && (bytes = getline(&line, &room, file)) >= 0)
        good = take_line(out, line, (size_t)bytes);
    const int error = good && !feof(file) ? errno : 0;
    free(line);
    fclose(file);
    if (error)
        return cli_fail("cannot read %s: %s", path, strerror(error));
    if (!good)
        return cli_fail("out of memory for the curves of %s", path);
    find_ends(out);
    return CLI_OK;
}

void curves_free(curves *c) {
    for (int i = 0; i < CURVE_COUNT; i++)
        free(c->all[i].points);
    *c = (curves){.last = -1};
}

/* to[i] is the average of from[i - n] to from[i + n], n at most i; fewer at the end. `sums` has count + 1
 * places. */
static void average(curve_point *to, const curve_point *from, double *sums, size_t count, size_t half) {
    sums[0] = 0;
    for (size_t i = 0; i < count; i++)
        sums[i + 1] = sums[i] + from[i].value;
    for (size_t i = 0; i < count; i++) {
        const size_t n = i < half ? i : half, end = i + n + 1 < count ? i + n + 1 : count;
        to[i] = (curve_point){from[i].update, (sums[end] - sums[i - n]) / (double)(end - (i - n))};
    }
}

bool curve_smooth(curve *out, const curve *in) {
    double *sums = malloc((in->count + 1) * sizeof(*sums));
    curve_point *once = malloc(in->count * sizeof(*once) + 1);
    *out = (curve){malloc(in->count * sizeof(*out->points) + 1), in->count, in->count};
    const bool good = sums && once && out->points;
    if (good) {
        average(once, in->points, sums, in->count, in->count / 80);
        average(out->points, once, sums, in->count, in->count / 80);
    } else {
        out->count = 0;
    }
    free(sums);
    free(once);
    return good;
}
