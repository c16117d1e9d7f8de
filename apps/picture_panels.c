/* The squares of a picture: where they go, their labels, their colours. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "picture_draw.h"

static const double WIDEST_LABEL = 96, PAD = 4;

/* ---- Colours ------------------------------------------------------------------------------------------- */

typedef struct colour {
    double red, green, blue;
} colour;

/* From white to dark blue, even in lightness, so that it prints in grey as well. The square root lets weights
 * of a few hundredths, which are all there is in long sentences, stand out from zero; the legend's ticks
 * follow it. */
static colour shade(double weight) {
    static const colour stops[] = {
        {1.00, 1.00, 1.00}, {0.80, 0.89, 0.96}, {0.52, 0.74, 0.89},
        {0.23, 0.53, 0.77}, {0.06, 0.32, 0.61}, {0.03, 0.12, 0.34},
    };
    const int last = (int)CLI_COUNT(stops) - 1;
    double at = sqrt(weight > 0 ? weight < 1 ? weight : 1 : 0) * last;
    int i = at < last ? (int)at : last - 1;
    const colour a = stops[i], b = stops[i + 1];
    at -= i;
    return (colour){a.red + at * (b.red - a.red), a.green + at * (b.green - a.green),
                    a.blue + at * (b.blue - a.blue)};
}

static uint32_t pixel(colour c) {
    return (uint32_t)lround(c.red * 255) << 16 | (uint32_t)lround(c.green * 255) << 8 |
           (uint32_t)lround(c.blue * 255);
}

/* The weights as an image, one pixel each, or a block of pixels for viewers that would blur it. */
static cairo_surface_t *paint_weights(const float *weights, size_t rows, size_t columns, size_t block) {
    cairo_surface_t *image =
        cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)(columns * block), (int)(rows * block));
    if (cairo_surface_status(image) != CAIRO_STATUS_SUCCESS)
        return image;
    unsigned char *data = cairo_image_surface_get_data(image);
    const size_t stride = (size_t)cairo_image_surface_get_stride(image);
    for (size_t y = 0; y < rows * block; y++)
        for (size_t x = 0; x < columns * block; x++) {
            const uint32_t value = pixel(shade((double)weights[y / block * columns + x / block]));
            memcpy(data + y * stride + x * sizeof(value), &value, sizeof(value));
        }
    cairo_surface_mark_dirty(image);
    return image;
}

void picture_weights_draw(const drawing *d, double x, double y, const float *weights, size_t rows,
                          size_t columns, double cell) {
    const size_t longest = rows > columns ? rows : columns;
    const size_t block = !d->vector || longest > 256 ? 1 : longest > 64 ? 4 : longest > 16 ? 8 : 24;
    cairo_surface_t *image = paint_weights(weights, rows, columns, block);
    cairo_save(d->cr);
    cairo_translate(d->cr, x, y);
    cairo_scale(d->cr, cell / (double)block, cell / (double)block);
    cairo_set_source_surface(d->cr, image, 0, 0);
    cairo_pattern_set_filter(cairo_get_source(d->cr), CAIRO_FILTER_NEAREST);
    cairo_paint(d->cr);
    cairo_restore(d->cr);
    cairo_surface_destroy(image);
}

/* ---- Labels -------------------------------------------------------------------------------------------- */

static void free_labels(char **all, size_t count) {
    for (size_t i = 0; all && i < count; i++)
        free(all[i]);
    free(all);
}

/* Labels of tokens, and the room that the widest takes. NULL when out of memory. */
static char **make_labels(const drawing *d, const char *const *tokens, size_t count, double *room) {
    char **all = calloc(count, sizeof(*all));
    for (size_t i = 0; all && i < count; i++) {
        all[i] = picture_text_label(d, tokens[i], d->text, WIDEST_LABEL);
        if (!all[i]) {
            free_labels(all, count);
            return NULL;
        }
        *room = fmax(*room, picture_text_width(d, all[i], d->text, false) + PAD);
    }
    return all;
}

void picture_panels_free(drawing *d) {
    for (size_t i = 0; d->places && i < d->p->panel_count; i++) {
        free_labels(d->places[i].rows, d->p->panels[i].rows);
        free_labels(d->places[i].columns, d->p->panels[i].columns);
    }
    free(d->places);
    d->places = NULL;
}

/* ---- Layout -------------------------------------------------------------------------------------------- */

/* Panels side by side. Lines of one block stand one below the other. */
typedef struct line {
    size_t first, count, row; /* the row counts within the block */
    int block;
    extent room;
} line;

/* Large in short sentences, and as small as can be read in long ones. */
static void choose_cell(drawing *d) {
    size_t longest = 1;
    for (size_t i = 0; i < d->p->panel_count; i++) {
        longest = d->p->panels[i].rows > longest ? d->p->panels[i].rows : longest;
        longest = d->p->panels[i].columns > longest ? d->p->panels[i].columns : longest;
    }
    d->cell = fmin(fmax(floor(240 / (double)longest), 9), 22);
    d->text = fmin(d->cell - 1, 11);
}

/* What a line has above its panels. */
static double heading_room(const char *heading) {
    return heading && heading[0] ? PICTURE_HEADING + 8 : 0;
}

static extent panel_room(const drawing *d, size_t i) {
    const picture_panel *panel = &d->p->panels[i];
    const picture_place *place = &d->places[i];
    const double title = picture_text_width(d, panel->title, PICTURE_SMALL, false);
    return (extent){place->left + fmax((double)panel->columns * d->cell, title),
                    1.6 * PICTURE_SMALL + place->top + (double)panel->rows * d->cell};
}

/* Fills `lines` from the panels, with the room that each takes; returns how many there are. */
static size_t make_lines(const drawing *d, line *lines) {
    size_t count = 0;
    for (size_t i = 0; i < d->p->panel_count; i++) {
        const picture_panel *panel = &d->p->panels[i];
        line *last = count ? &lines[count - 1] : NULL;
        if (!last || panel->heading) {
            lines[count] = (line){.first = i, .block = panel->block};
            lines[count].row = last && last->block == panel->block ? last->row + 1 : 0;
            last = &lines[count++];
        }
        const extent room = panel_room(d, i);
        last->room.width += room.width + (last->count ? PICTURE_GAP : 0);
        last->room.height =
            fmax(last->room.height, room.height + heading_room(d->p->panels[last->first].heading));
        last->count++;
    }
    return count;
}

/* Puts the lines one below the other, or the blocks side by side with their lines in common rows. */
static extent place_lines(const drawing *d, const line *lines, size_t count, bool aside) {
    extent all = {0, 0};
    double left = 0, widest = 0;
    for (size_t i = 0; i < count; i++) {
        if (aside && i > 0 && lines[i].row == 0) {
            left += widest + 2 * PICTURE_GAP;
            widest = 0;
        }
        double top = aside ? 0 : all.height;
        for (size_t row = 0; aside && row < lines[i].row; row++) {
            double tallest = 0;
            for (size_t k = 0; k < count; k++)
                tallest = lines[k].row == row ? fmax(tallest, lines[k].room.height) : tallest;
            top += tallest + PICTURE_GAP;
        }
        double x = left;
        for (size_t k = lines[i].first; k < lines[i].first + lines[i].count; k++) {
            d->places[k].x = x;
            d->places[k].y = top + heading_room(d->p->panels[lines[i].first].heading);
            x += panel_room(d, k).width + PICTURE_GAP;
        }
        widest = fmax(widest, lines[i].room.width);
        all.width = fmax(all.width, left + widest);
        all.height = fmax(all.height, top + lines[i].room.height + PICTURE_GAP);
    }
    return all;
}

/* How far from a square. */
static double oblong(extent all) {
    return fabs(log(all.width / all.height));
}

bool picture_panels_lay_out(drawing *d, extent *all) {
    const picture *p = d->p;
    choose_cell(d);
    line *lines = calloc(p->panel_count, sizeof(*lines));
    d->places = calloc(p->panel_count, sizeof(*d->places));
    bool good = lines && d->places;
    for (size_t i = 0; good && i < p->panel_count; i++) {
        picture_place *place = &d->places[i];
        place->rows = make_labels(d, p->panels[i].row_labels, p->panels[i].rows, &place->left);
        place->columns = make_labels(d, p->panels[i].column_labels, p->panels[i].columns, &place->top);
        good = place->rows && place->columns;
    }
    if (good) {
        const size_t count = make_lines(d, lines);
        const extent aside = place_lines(d, lines, count, true);
        *all = place_lines(d, lines, count, false);
        if (oblong(aside) < oblong(*all))
            *all = place_lines(d, lines, count, true);
    }
    free(lines);
    return good;
}

/* ---- Ink ----------------------------------------------------------------------------------------------- */

static void ink(const drawing *d, double grey) {
    cairo_set_source_rgb(d->cr, grey, grey, grey);
}

/* Lines between the cells, or in long sentences between every five, for the eye to follow. */
static void draw_grid(const drawing *d, const picture_panel *panel, double x, double y) {
    const double width = (double)panel->columns * d->cell, height = (double)panel->rows * d->cell;
    const size_t step = d->cell >= 12 ? 1 : 5;
    cairo_set_line_width(d->cr, 0.5);
    ink(d, 0.85);
    for (size_t i = step; i < panel->rows; i += step) {
        cairo_move_to(d->cr, x, y + (double)i * d->cell);
        cairo_rel_line_to(d->cr, width, 0);
    }
    for (size_t i = step; i < panel->columns; i += step) {
        cairo_move_to(d->cr, x + (double)i * d->cell, y);
        cairo_rel_line_to(d->cr, 0, height);
    }
    cairo_stroke(d->cr);
    ink(d, 0.45);
    cairo_rectangle(d->cr, x, y, width, height);
    cairo_stroke(d->cr);
}

/* Tokens to the left of their rows, and upright above their columns. (x, y) is the corner of the squares. */
static void draw_labels(const drawing *d, size_t index, double x, double y) {
    const picture_panel *panel = &d->p->panels[index];
    const picture_place *place = &d->places[index];
    const double down = 0.35 * d->text; /* from a cell's middle to the baseline */
    ink(d, 0.1);
    for (size_t i = 0; i < panel->rows; i++)
        picture_text_draw(d, x - PAD - picture_text_width(d, place->rows[i], d->text, false),
                          y + ((double)i + 0.5) * d->cell + down, place->rows[i], d->text, false);
    for (size_t i = 0; i < panel->columns; i++) {
        cairo_save(d->cr);
        cairo_translate(d->cr, x + ((double)i + 0.5) * d->cell + down, y - PAD);
        cairo_rotate(d->cr, -acos(0));
        picture_text_draw(d, 0, 0, place->columns[i], d->text, false);
        cairo_restore(d->cr);
    }
}

void picture_panels_draw(const drawing *d, double x, double y) {
    for (size_t i = 0; i < d->p->panel_count; i++) {
        const picture_panel *panel = &d->p->panels[i];
        const picture_place *place = &d->places[i];
        const double top = y + place->y, left = x + place->x + place->left;
        const double below = top + 1.6 * PICTURE_SMALL + place->top;
        ink(d, 0);
        if (panel->heading)
            picture_text_draw(d, x + place->x, top - 8, panel->heading, PICTURE_HEADING, true);
        ink(d, 0.25);
        picture_text_draw(d, left, top + PICTURE_SMALL, panel->title, PICTURE_SMALL, false);
        draw_labels(d, i, left, below);
        picture_weights_draw(d, left, below, panel->weights, panel->rows, panel->columns, d->cell);
        draw_grid(d, panel, left, below);
    }
}
