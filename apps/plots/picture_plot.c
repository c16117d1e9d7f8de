/* Renders a plot: axes, curves, and labels. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "plots/picture_plot.h"

enum { DOTS_UP_TO = 40 };

static const double TITLE = 17, SMALL = 10.5, HEADING = 12;

static void ink(const drawing *d, color c, double alpha) {
    cairo_set_source_rgba(d->cr, c.red, c.green, c.blue, alpha);
}

static color gray(double g) {
    return (color){g, g, g};
}

/* ---- Text ---------------------------------------------------------------------------------------------- */

static const curve_point *last_of(const curve *c) {
    return c->count > 0 ? &c->points[c->count - 1] : NULL;
}

/* Appends a name of any bytes, truncated to whole characters. */
static void add_text(char *text, size_t room, const char *name) {
    size_t used = strlen(text);
    while (*name) {
        size_t bytes = 1;
        while (bytes < 4 && name[bytes] && tfm_text_check(name, bytes) != TFM_OK)
            bytes++;
        const bool whole = tfm_text_check(name, bytes) == TFM_OK;
        bytes = whole ? bytes : 1;
        if (used + bytes >= room)
            break;
        memcpy(text + used, whole ? name : "?", bytes);
        if (bytes == 1 && ((unsigned char)text[used] < ' ' || text[used] == 127))
            text[used] = ' ';
        used += bytes;
        name += bytes;
    }
    text[used] = 0;
}

/* The name of the run, truncated if needed, and its progress at the right. */
static void draw_title(const drawing *d, const plot *p) {
    char text[256], far[128], number[32];
    const curve_point *epoch = last_of(&p->data->all[CURVE_EPOCH]);
    axis_number(number, sizeof(number), p->data->last, 3);
    size_t used = (size_t)snprintf(far, sizeof(far), "%s update%s", number, p->data->last == 1 ? "" : "s");
    if (epoch) {
        axis_number(number, sizeof(number), epoch->value, 3);
        used += (size_t)snprintf(far + used, sizeof(far) - used, ", %s epoch%s", number, epoch->value == 1 ? "" : "s");
    }
    if (p->data->seconds >= 0) {
        axis_duration(number, sizeof(number), p->data->seconds);
        snprintf(far + used, sizeof(far) - used, ", %s", number);
    }
    ink(d, gray(0.4), 1);
    picture_text_draw(d, PLOT_WIDTH - PICTURE_MARGIN, 32, 1, far, HEADING, false);
    strcpy(text, "Training");
    if (p->title)
        add_text(strcpy(text, "Training of "), sizeof(text), p->title);
    const double room = PLOT_WIDTH - PLOT_LEFT - 2 * PICTURE_MARGIN - picture_text_width(d, far, HEADING, false);
    char *title = picture_text_label(d, text, TITLE, room / 1.15); /* measured plain, rendered bold */
    ink(d, gray(0.12), 1);
    picture_text_draw(d, PLOT_LEFT, 32, 0, title ? title : "Training", TITLE, true);
    free(title);
}

/* ---- Axes ---------------------------------------------------------------------------------------------- */

/* Lines at round numbers across the panel, and the numbers to its left. */
static void draw_values(const drawing *d, const panel *p) {
    double ticks[AXIS_TICKS];
    const double height = p->y.from - p->y.to;
    const int count = axis_ticks(&p->y, (int)fmax(2, height / 26), ticks);
    char number[32];
    for (int i = 0; i < count; i++) {
        const double y = axis_place(&p->y, ticks[i]);
        cairo_set_line_width(d->cr, 0.6);
        ink(d, gray(0.88), 1);
        cairo_move_to(d->cr, PLOT_LEFT, y);
        cairo_line_to(d->cr, PLOT_WIDTH - PLOT_RIGHT, y);
        cairo_stroke(d->cr);
        axis_number(number, sizeof(number), ticks[i], 4);
        ink(d, gray(0.35), 1);
        picture_text_draw(d, PLOT_LEFT - 8, y + 0.35 * SMALL, 1, number, SMALL, false);
    }
}

static void draw_updates(const drawing *d, const plot *p) {
    double ticks[AXIS_TICKS];
    char number[32];
    const int count = axis_ticks(&p->x, 8, ticks);
    const double bottom = p->panels[p->count - 1].y.from;
    for (int i = 0; i < count; i++) {
        const double x = axis_place(&p->x, ticks[i]);
        cairo_set_line_width(d->cr, 0.6);
        ink(d, gray(0.92), 1);
        for (int k = 0; k < p->count; k++) {
            cairo_move_to(d->cr, x, p->panels[k].y.to);
            cairo_line_to(d->cr, x, p->panels[k].y.from);
        }
        cairo_stroke(d->cr);
        axis_number(number, sizeof(number), ticks[i], 6);
        ink(d, gray(0.35), 1);
        picture_text_draw(d, x, bottom + 17, 0.5, number, SMALL, false);
    }
    picture_text_draw(d, (p->x.from + p->x.to) / 2, bottom + 36, 0.5, "updates", HEADING, false);
}

/* Marks where the run was resumed, with a label if there is room. */
static void draw_resumed(const drawing *d, const plot *p) {
    const curve *c = &p->data->all[CURVE_RESUMED];
    double worded = -INFINITY;
    for (size_t i = 0; i < c->count; i++) {
        const double x = axis_place(&p->x, c->points[i].update);
        if (c->points[i].update <= fmax(p->x.low, 0) || c->points[i].update >= p->data->last)
            continue;
        ink(d, gray(0.55), 1);
        cairo_set_line_width(d->cr, 0.8);
        cairo_set_dash(d->cr, (double[]){3, 3}, 2, 0);
        for (int k = 0; k < p->count; k++) {
            cairo_move_to(d->cr, x, p->panels[k].y.to);
            cairo_line_to(d->cr, x, p->panels[k].y.from);
        }
        cairo_stroke(d->cr);
        cairo_set_dash(d->cr, NULL, 0, 0);
        if (x - worded < 1.3 * SMALL)
            continue;
        worded = x;
        cairo_save(d->cr);
        cairo_translate(d->cr, x + 0.95 * SMALL, p->panels[0].y.to + 4);
        cairo_rotate(d->cr, -acos(0));
        ink(d, gray(0.4), 1);
        picture_text_draw(d, 0, 0, 1, "resumed", SMALL - 1, false);
        cairo_restore(d->cr);
    }
}

static void draw_frame(const drawing *d, const panel *p) {
    const char *scale = p->y.logarithmic ? "log scale" : "";
    char unit[64];
    snprintf(unit, sizeof(unit), "%s%s%s", p->unit, p->unit[0] && scale[0] ? ", " : "", scale);
    ink(d, gray(0.12), 1);
    picture_text_draw(d, PLOT_LEFT, p->y.to - 9, 0, p->title, HEADING, true);
    ink(d, gray(0.45), 1);
    picture_text_draw(d, PLOT_LEFT + picture_text_width(d, p->title, HEADING, true) + 8, p->y.to - 9, 0, unit, SMALL,
                      false);
    cairo_set_line_width(d->cr, 0.8);
    ink(d, gray(0.6), 1);
    cairo_move_to(d->cr, PLOT_LEFT, p->y.to);
    cairo_line_to(d->cr, PLOT_LEFT, p->y.from);
    cairo_line_to(d->cr, PLOT_WIDTH - PLOT_RIGHT, p->y.from);
    cairo_stroke(d->cr);
}

/* ---- Curves -------------------------------------------------------------------------------------------- */

/* Points within half a pixel become one stroke from the lowest to the highest, to bound the size for long runs. */
static void trace(const drawing *d, const plot *p, const axis *y, const curve *c) {
    for (size_t i = 0; i < c->count;) {
        const double column = floor(2 * axis_place(&p->x, c->points[i].update));
        const double x = axis_place(&p->x, c->points[i].update), first = axis_place(y, c->points[i].value);
        double low = first, high = first, last = first;
        size_t end = i + 1;
        while (end < c->count && floor(2 * axis_place(&p->x, c->points[end].update)) == column) {
            last = axis_place(y, c->points[end++].value);
            low = fmin(low, last);
            high = fmax(high, last);
        }
        cairo_line_to(d->cr, x, first);
        if (end > i + 2) {
            cairo_line_to(d->cr, x, low);
            cairo_line_to(d->cr, x, high);
        }
        if (end > i + 1)
            cairo_line_to(d->cr, x, last);
        i = end;
    }
}

static void draw_dot(const drawing *d, double x, double y, double radius, color c) {
    cairo_arc(d->cr, x, y, radius + 1, 0, 4 * acos(0));
    ink(d, gray(1), 1);
    cairo_fill(d->cr);
    cairo_arc(d->cr, x, y, radius, 0, 4 * acos(0));
    ink(d, c, 1);
    cairo_fill(d->cr);
}

static void draw_series(const drawing *d, const plot *p, const panel *in, const series *s) {
    const bool smooth = s->smooth.count > 0;
    if (smooth) {
        ink(d, s->ink, 0.3);
        cairo_set_line_width(d->cr, 0.8);
        trace(d, p, &in->y, s->points);
        cairo_stroke(d->cr);
    }
    ink(d, s->ink, 1);
    cairo_set_line_width(d->cr, 1.7);
    trace(d, p, &in->y, smooth ? &s->smooth : s->points);
    cairo_stroke(d->cr);
    if ((s->line_style == DOTTED && s->points->count <= DOTS_UP_TO) || s->points->count == 1)
        for (size_t i = 0; i < s->points->count; i++)
            draw_dot(d, axis_place(&p->x, s->points->points[i].update), axis_place(&in->y, s->points->points[i].value),
                     2.6, s->ink);
}

/* A measured value, of two or three digits. */
static void value_text(char *out, size_t bytes, double value) {
    const double size = fabs(value);
    if (size >= 0.1 && size < 999.5)
        snprintf(out, bytes, "%.*f", size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2, value);
    else
        axis_number(out, bytes, value, 2);
}

/* Name and last value of each curve at its end, right of the panel, apart from each other. */
static void draw_last(const drawing *d, const panel *p) {
    double y[PLOT_SERIES];
    char number[32], text[64];
    for (int i = 0; i < p->count; i++) {
        const series *s = &p->all[i];
        y[i] = axis_place(&p->y, last_of(s->smooth.count > 0 ? &s->smooth : s->points)->value);
    }
    if (p->count == 2 && fabs(y[0] - y[1]) < 13) {
        const double middle = fmin((y[0] + y[1]) / 2, p->y.from - 6.5);
        const int upper = y[1] < y[0];
        y[upper] = middle - 6.5;
        y[1 - upper] = middle + 6.5;
    }
    for (int i = 0; i < p->count; i++) {
        const series *s = &p->all[i];
        value_text(number, sizeof(number), last_of(s->smooth.count > 0 ? &s->smooth : s->points)->value);
        snprintf(text, sizeof(text), "%s%s%s", s->name ? s->name : "", s->name ? " " : "", number);
        ink(d, s->ink, 1);
        picture_text_draw(d, PLOT_WIDTH - PLOT_RIGHT + 8, y[i] + 0.35 * SMALL, 0, text, SMALL, true);
    }
}

/* ---- The best validation ------------------------------------------------------------------------------- */

/* A label above or below a point near this line, on a light ground, within the panel, and off the line unless
 * that is steep. */
static void draw_label(const drawing *d, const plot *p, const panel *in, const curve *line, double x, double y,
                       bool above, const char *text) {
    const double width = picture_text_width(d, text, SMALL, true), size = SMALL;
    const double left = fmin(fmax(x - width / 2, PLOT_LEFT + 6), PLOT_WIDTH - PLOT_RIGHT - width - 6);
    double upper = y, lower = y;
    for (size_t i = 0; i < line->count; i++) {
        const double at = axis_place(&p->x, line->points[i].update);
        if (at >= left - 8 && at <= left + width + 8) {
            upper = fmin(upper, axis_place(&in->y, line->points[i].value));
            lower = fmax(lower, axis_place(&in->y, line->points[i].value));
        }
    }
    const double over = fmax(upper, y - 22) - 11, under = fmin(lower, y + 22) + 10 + size;
    const bool over_fits = over - size > in->y.to, under_fits = under + 4 < in->y.from;
    const double baseline = (above && over_fits) || !under_fits ? over : under;
    ink(d, gray(1), 0.85);
    cairo_rectangle(d->cr, left - 3, baseline - size, width + 6, 1.35 * size);
    cairo_fill(d->cr);
    ink(d, gray(0.15), 1);
    picture_text_draw(d, left, baseline, 0, text, size, true);
}

static void draw_mark(const drawing *d, const plot *p, const panel *in, const series *s, const curve_point *at,
                      bool bleu, bool average) {
    const double x = axis_place(&p->x, at->update), y = axis_place(&in->y, at->value);
    char text[128], value[32], update[32];
    value_text(value, sizeof(value), at->value);
    axis_number(update, sizeof(update), at->update, 6);
    snprintf(text, sizeof(text), "best: %s%s%s%s", value, bleu ? " BLEU" : "", average ? ", averaged" : " at ",
             average ? "" : update);
    draw_dot(d, x, y, 5.5, s->ink);
    draw_dot(d, x, y, 1.2, gray(1));
    draw_label(d, p, in, s->points, x, y, !bleu, text);
}

/* In the scores, or where there are none, in the likelihoods. */
static void draw_best(const drawing *d, const plot *p) {
    const curve *all = p->data->all;
    const curve_point *best = last_of(&all[CURVE_BEST]), *at = NULL;
    const bool bleu = all[CURVE_BLEU].count > 0, average = best && best->value == BEST_AVERAGE;
    const curve *line = &all[bleu ? CURVE_BLEU : CURVE_VALID_NLL];
    const curve *c = !average ? line : &all[bleu ? CURVE_AVERAGE_BLEU : CURVE_AVERAGE_NLL];
    for (size_t i = 0; best && i < c->count; i++)
        if (c->points[i].update == best->update)
            at = &c->points[i];
    for (int i = 0; at && i < p->count; i++)
        for (int k = 0; k < p->panels[i].count; k++)
            if (p->panels[i].all[k].points == line)
                draw_mark(d, p, &p->panels[i], &p->panels[i].all[k], at, bleu, average);
}

/* ---- The whole ----------------------------------------------------------------------------------------- */

void picture_plot_draw(const drawing *d, const void *what) {
    const plot *p = what;
    cairo_set_line_join(d->cr, CAIRO_LINE_JOIN_ROUND);
    draw_title(d, p);
    draw_updates(d, p);
    draw_resumed(d, p);
    for (int i = 0; i < p->count; i++) {
        const panel *one = &p->panels[i];
        draw_values(d, one);
        draw_frame(d, one);
        cairo_save(d->cr);
        cairo_rectangle(d->cr, PLOT_LEFT - 4, one->y.to - 4, PLOT_WIDTH - PLOT_LEFT - PLOT_RIGHT + 8,
                        one->y.from - one->y.to + 8);
        cairo_clip(d->cr);
        for (int k = 0; k < one->count; k++)
            draw_series(d, p, one, &one->all[k]);
        cairo_restore(d->cr);
        draw_last(d, one);
    }
    draw_best(d, p);
}
