/* A training run's reports as curves. */
#include <errno.h>
#include <float.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include "curves.h"

/* A number of a report; NaN where there is none, or none that fp32 has. */
static double number(const json_t *report, const char *key) {
    const json_t *value = json_object_get(report, key);
    const double got = json_is_number(value) ? json_number_value(value) : NAN;
    return fabs(got) <= FLT_MAX ? got : NAN;
}

static bool add(curve *c, double update, double value) {
    if (isnan(value))
        return true;
    if (c->count == c->room) {
        const size_t room = 2 * c->room + 64;
        curve_point *more = realloc(c->points, room * sizeof(*more));
        if (!more)
            return false;
        c->points = more;
        c->room = room;
    }
    c->points[c->count++] = (curve_point){update, value};
    return true;
}

/* A report at `update` follows: of its own kind all from there on is of a run that was left, of the other
 * kind what is beyond, since training and validation of one update are two lines. */
static void go_back(curves *c, double update, bool validation) {
    for (int i = 0; i < CURVE_COUNT; i++) {
        curve *one = &c->all[i];
        const bool own = (i >= CURVE_VALID_NLL) == validation;
        while (one->count > 0 && (own ? one->points[one->count - 1].update >= update
                                      : one->points[one->count - 1].update > update))
            one->count--;
    }
}

static bool take_training(curves *c, const json_t *report, double update) {
    static const struct {
        curve_name curve;
        const char *key;
    } keys[] = {{CURVE_LOSS, "loss"},
                {CURVE_NLL, "nll"},
                {CURVE_RATE, "rate"},
                {CURVE_NORM, "gradient_norm"},
                {CURVE_EPOCH, "epoch"}};
    bool good = true;
    go_back(c, update, false);
    for (size_t i = 0; i < CLI_COUNT(keys); i++)
        good = good && add(&c->all[keys[i].curve], update, number(report, keys[i].key));
    return good;
}

static bool take_validation(curves *c, const json_t *report, double update) {
    go_back(c, update, true);
    const bool best = json_is_true(json_object_get(report, "best"));
    return add(&c->all[CURVE_VALID_NLL], update, number(report, "nll")) &&
           add(&c->all[CURVE_BLEU], update, number(report, "bleu")) &&
           add(&c->all[CURVE_CHRF], update, number(report, "chrf")) &&
           add(&c->all[CURVE_BEST], update, best ? 1 : NAN);
}

/* False when out of memory. */
static bool take_line(curves *c, const char *line, size_t bytes) {
    json_t *report = json_loadb(line, bytes, 0, NULL);
    const char *type = json_string_value(json_object_get(report, "type"));
    const double update = number(report, "update");
    bool good = true;
    if (type && update >= 0) {
        if (strcmp(type, "train") == 0)
            good = take_training(c, report, update);
        else if (strcmp(type, "valid") == 0)
            good = take_validation(c, report, update);
    }
    json_decref(report);
    return good;
}

static void find_ends(curves *c) {
    c->first = INFINITY;
    c->last = -1;
    for (int i = 0; i < CURVE_COUNT; i++)
        if (c->all[i].count > 0 && i != CURVE_EPOCH && i != CURVE_BEST) {
            c->first = fmin(c->first, c->all[i].points[0].update);
            c->last = fmax(c->last, c->all[i].points[c->all[i].count - 1].update);
        }
}

int curves_read(curves *out, const char *path) {
    *out = (curves){.last = -1};
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
