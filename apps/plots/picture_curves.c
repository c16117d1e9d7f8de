/* A training run as a picture: panels above each other, on one axis of updates. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "plots/picture_plot.h"

enum { SMOOTHED_FROM = 20 };

/* Dark enough for the curves' names, which have the curves' colors, to be read on white. */
static const color BLUE = {0.25, 0.44, 0.62}, ORANGE = {0.75, 0.38, 0.10}, GREEN = {0.06, 0.34, 0.20},
                   SAGE = {0.30, 0.56, 0.36}, PURPLE = {0.50, 0.43, 0.64}, BROWN = {0.60, 0.47, 0.42};

/* ---- Layout -------------------------------------------------------------------------------------------- */

/* Adds a series if it has points. False when out of memory. */
static bool add_series(panel *p, const char *name, color c, const curve *points, style line_style) {
    if (points->count == 0)
        return true;
    series *s = &p->all[p->count++];
    *s = (series){.name = name, .ink = c, .points = points, .line_style = line_style};
    return line_style != SMOOTHED || points->count < SMOOTHED_FROM || curve_smooth(&s->smooth, points);
}

/* The axis is linear for few decades, logarithmic for many. */
static void choose_axis(panel *p) {
    double low = fmin(INFINITY, p->reach), high = fmax(-INFINITY, p->reach);
    for (int i = 0; i < p->count; i++)
        for (size_t k = 0; k < p->all[i].points->count; k++) {
            low = fmin(low, p->all[i].points->points[k].value);
            high = fmax(high, p->all[i].points->points[k].value);
        }
    p->y.logarithmic = !p->from_zero && low > 1e-30 && high > 4 * low;
    if (p->y.logarithmic) {
        const double room = pow(high / low, 0.06);
        p->y.low = low / room;
        p->y.high = high * room;
        return;
    }
    if (high - low <= 1e-9 * fabs(high)) { /* all the same */
        low -= 0.1 * fabs(low);
        high += high == 0 ? 1 : 0.1 * fabs(high);
    }
    if (p->from_zero && low > 0)
        low = 0;
    const double room = 0.08 * (high - low);
    p->y.high = high + room;
    p->y.low = low >= 0 ? fmax(low - room, 0) : low - room;
}

/* The value of the best if it is an average of snapshots, which is on no curve. */
static double reach_of(const curves *data, curve_name name) {
    const curve *best = &data->all[CURVE_BEST], *c = &data->all[name];
    const bool average = best->count > 0 && best->points[best->count - 1].value == BEST_AVERAGE;
    return average && c->count > 0 ? c->points[c->count - 1].value : NAN;
}

/* Fills the panels with data. False when out of memory. */
static bool make_panels(plot *p) {
    const curve *all = p->data->all;
    const bool nll = all[CURVE_NLL].count > 0;
    panel loss = {.title = nll ? "Negative log-likelihood" : "Loss",
                  .unit = "nats per token",
                  .share = 3,
                  .reach = reach_of(p->data, CURVE_AVERAGE_NLL)},
          scores = {.title = "Validation scores",
                    .unit = "0 to 100",
                    .share = 2,
                    .from_zero = true,
                    .reach = reach_of(p->data, CURVE_AVERAGE_BLEU)},
          rate = {.title = "Learning rate", .unit = "", .share = 0.8, .from_zero = true, .reach = NAN},
          norm = {.title = "Gradient norm", .unit = "before clipping", .share = 0.9, .reach = NAN};
    bool good = add_series(&loss, "training", BLUE, &all[nll ? CURVE_NLL : CURVE_LOSS], SMOOTHED);
    good = add_series(&loss, "validation", ORANGE, &all[CURVE_VALID_NLL], DOTTED) && good;
    good = add_series(&scores, "chrF2", SAGE, &all[CURVE_CHRF], DOTTED) && good;
    good = add_series(&scores, "BLEU", GREEN, &all[CURVE_BLEU], DOTTED) && good;
    good = add_series(&rate, NULL, PURPLE, &all[CURVE_RATE], PLAIN) && good;
    good = add_series(&norm, NULL, BROWN, &all[CURVE_NORM], SMOOTHED) && good;
    const panel wanted[PLOT_PANELS] = {loss, scores, rate, norm};
    double shares = 0, y = PLOT_TOP;
    for (int i = 0; i < PLOT_PANELS; i++)
        if (wanted[i].count > 0) {
            p->panels[p->count++] = wanted[i];
            shares += wanted[i].share;
        }
    const double height = PLOT_HEIGHT - PLOT_TOP - PLOT_BOTTOM - (p->count - 1) * PLOT_BETWEEN;
    for (int i = 0; i < p->count; i++) {
        choose_axis(&p->panels[i]);
        p->panels[i].y.from = y + height * p->panels[i].share / shares;
        p->panels[i].y.to = y;
        y = p->panels[i].y.from + PLOT_BETWEEN;
    }
    return good;
}

/* From 0, unless the reports begin late. */
static void make_updates(plot *p) {
    const double first = p->data->first, last = p->data->last;
    p->x = (axis){.low = first > 0.5 * last && first < last ? first : 0,
                  .high = last > 0 ? last : 1,
                  .from = PLOT_LEFT,
                  .to = PLOT_WIDTH - PLOT_RIGHT};
}

static int draw_file(plot *p, picture_format format, const char *path) {
    cli_output out = {0};
    drawing d = {.vector = format == PICTURE_SVG, .fonts = picture_fonts_open()};
    int code = d.fonts ? cli_output_open(&out, path) : CLI_FAILED;
    if (code == CLI_OK)
        code = picture_surface_write(&d, (extent){PLOT_WIDTH, PLOT_HEIGHT}, 2, picture_plot_draw, p, &out);
    if (code == CLI_OK)
        picture_fonts_warn(d.fonts);
    const int closing = cli_output_close(&out, code == CLI_OK);
    picture_fonts_close(d.fonts);
    return code == CLI_OK ? closing : code;
}

static int draw_data(const curves *data, const char *title, picture_format format, const char *path) {
    plot p = {.title = title, .data = data};
    make_updates(&p);
    int code = make_panels(&p) ? draw_file(&p, format, path) : cli_fail("out of memory for the curves");
    for (int i = 0; i < p.count; i++)
        for (int k = 0; k < p.panels[i].count; k++)
            free(p.panels[i].all[k].smooth.points);
    return code;
}

int picture_curves(const char *log, const char *title, const char *path) {
    const char *ending = strrchr(path, '.');
    const bool svg = ending && strcasecmp(ending, ".svg") == 0, png = ending && strcasecmp(ending, ".png") == 0;
    if (!svg && !png)
        return cli_fail("the picture's name is '%s': give a name that ends in .svg or .png", path);
    curves data;
    int code = curves_read(&data, log);
    if (code == CLI_OK && data.last < 0)
        code = cli_fail("%s has no report of training or validation yet: there is nothing to render", log);
    if (code == CLI_OK)
        code = draw_data(&data, title, svg ? PICTURE_SVG : PICTURE_PNG, path);
    curves_free(&data);
    return code;
}
