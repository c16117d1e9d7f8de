/* The panels of a picture: layout, labels, colors. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "plots/picture_draw.h"

static const double WIDEST_LABEL = 96, PAD = 4;

/* ---- Colors ------------------------------------------------------------------------------------------- */

/* From white by orange, red and purple to near black: distinguishable by hue, and by decreasing lightness in gray
 * print. The square root makes weights of a few hundredths visible, common in long sentences; the legend's ticks follow
 * it. */
color picture_shade(double weight) {
    static const color stops[] = {
        {1.00, 1.00, 1.00}, {0.99, 0.92, 0.82}, {0.99, 0.78, 0.58}, {0.97, 0.53, 0.37}, {0.89, 0.32, 0.42},
        {0.69, 0.21, 0.48}, {0.48, 0.14, 0.51}, {0.24, 0.07, 0.44}, {0.04, 0.03, 0.14},
    };
    const int last = (int)CLI_COUNT(stops) - 1;
    double at = sqrt(weight > 0 ? weight < 1 ? weight : 1 : 0) * last;
    int i = at < last ? (int)at : last - 1;
    const color a = stops[i], b = stops[i + 1];
    at -= i;
    return (color){a.red + at * (b.red - a.red), a.green + at * (b.green - a.green), a.blue + at * (b.blue - a.blue)};
}

static uint32_t pixel(color c) {
    return (uint32_t)lround(c.red * 255) << 16 | (uint32_t)lround(c.green * 255) << 8 | (uint32_t)lround(c.blue * 255);
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
            const uint32_t value = pixel(picture_shade((double)weights[y / block * columns + x / block]));
            memcpy(data + y * stride + x * sizeof(value), &value, sizeof(value));
        }
    cairo_surface_mark_dirty(image);
    return image;
}

void picture_weights_draw(const drawing *d, double x, double y, const float *weights, size_t rows, size_t columns,
                          double cell) {
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

/* Labels of tokens, and the width of the widest. NULL when out of memory. */
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

/* Panels in a grid below one heading. Groups of one block stand one below the other. */
typedef struct group {
    size_t first, count, columns, row; /* the row counts within the block */
    int block;
    extent each, room; /* the largest panel, and the whole */
} group;

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

static const double HEADING_ROOM = PICTURE_HEADING + 8;

static extent panel_room(const drawing *d, size_t i) {
    const picture_panel *panel = &d->p->panels[i];
    const picture_place *place = &d->places[i];
    const double title = picture_text_width(d, panel->title, PICTURE_SMALL, false);
    return (extent){place->left + fmax((double)panel->columns * d->cell, title),
                    1.6 * PICTURE_SMALL + place->top + (double)panel->rows * d->cell};
}

/* Distance from a square. */
static double oblong(extent all) {
    return fabs(log(all.width / all.height));
}

/* The size of a group with this number of columns. */
static extent grid_room(const group *g, size_t columns) {
    const double across = (double)columns, down = (double)((g->count + columns - 1) / columns);
    return (extent){across * g->each.width + (across - 1) * PICTURE_GAP,
                    HEADING_ROOM + down * g->each.height + (down - 1) * PICTURE_GAP};
}

/* The grid that is nearest to a square. */
static void choose_columns(group *g) {
    g->columns = g->count;
    for (size_t columns = g->count; columns > 0; columns--)
        if (oblong(grid_room(g, columns)) < oblong(grid_room(g, g->columns)))
            g->columns = columns;
    g->room = grid_room(g, g->columns);
}

/* Fills `groups` from the panels, with their sizes; returns their number. */
static size_t make_groups(const drawing *d, group *groups) {
    size_t count = 0;
    for (size_t i = 0; i < d->p->panel_count; i++) {
        const picture_panel *panel = &d->p->panels[i];
        group *last = count ? &groups[count - 1] : NULL;
        if (!last || panel->heading) {
            groups[count] = (group){.first = i, .block = panel->block};
            groups[count].row = last && last->block == panel->block ? last->row + 1 : 0;
            last = &groups[count++];
        }
        const extent room = panel_room(d, i);
        last->each = (extent){fmax(last->each.width, room.width), fmax(last->each.height, room.height)};
        last->count++;
    }
    for (size_t i = 0; i < count; i++)
        choose_columns(&groups[i]);
    return count;
}

static void place_group(const drawing *d, const group *g, double left, double top) {
    for (size_t k = 0; k < g->count; k++) {
        picture_place *place = &d->places[g->first + k];
        place->x = left + (double)(k % g->columns) * (g->each.width + PICTURE_GAP);
        place->y = top + HEADING_ROOM + (double)(k / g->columns) * (g->each.height + PICTURE_GAP);
    }
}

/* Puts the groups one below the other, or the blocks side by side with their groups in common rows. */
static extent place_groups(const drawing *d, const group *groups, size_t count, bool aside) {
    extent all = {0, 0};
    double left = 0, widest = 0;
    for (size_t i = 0; i < count; i++) {
        if (aside && i > 0 && groups[i].row == 0) {
            left += widest + 2 * PICTURE_GAP;
            widest = 0;
        }
        double top = aside || i == 0 ? 0 : all.height + PICTURE_GAP;
        for (size_t row = 0; aside && row < groups[i].row; row++) {
            double tallest = 0;
            for (size_t k = 0; k < count; k++)
                tallest = groups[k].row == row ? fmax(tallest, groups[k].room.height) : tallest;
            top += tallest + PICTURE_GAP;
        }
        place_group(d, &groups[i], left, top);
        widest = fmax(widest, groups[i].room.width);
        all.width = fmax(all.width, left + widest);
        all.height = fmax(all.height, top + groups[i].room.height);
    }
    return all;
}

bool picture_panels_lay_out(drawing *d, extent *all) {
    const picture *p = d->p;
    choose_cell(d);
    group *groups = calloc(p->panel_count, sizeof(*groups));
    d->places = calloc(p->panel_count, sizeof(*d->places));
    bool good = groups && d->places;
    for (size_t i = 0; good && i < p->panel_count; i++) {
        picture_place *place = &d->places[i];
        place->rows = make_labels(d, p->panels[i].row_labels, p->panels[i].rows, &place->left);
        place->columns = make_labels(d, p->panels[i].column_labels, p->panels[i].columns, &place->top);
        good = place->rows && place->columns;
    }
    if (good) {
        const size_t count = make_groups(d, groups);
        const extent aside = place_groups(d, groups, count, true);
        *all = place_groups(d, groups, count, false);
        if (oblong(aside) < oblong(*all))
            *all = place_groups(d, groups, count, true);
    }
    free(groups);
    return good;
}

/* ---- Ink ----------------------------------------------------------------------------------------------- */

static void ink(const drawing *d, double gray) {
    cairo_set_source_rgb(d->cr, gray, gray, gray);
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
        picture_text_draw(d, x - PAD, y + ((double)i + 0.5) * d->cell + down, 1, place->rows[i], d->text, false);
    for (size_t i = 0; i < panel->columns; i++) {
        cairo_save(d->cr);
        cairo_translate(d->cr, x + ((double)i + 0.5) * d->cell + down, y - PAD);
        cairo_rotate(d->cr, -acos(0));
        picture_text_draw(d, 0, 0, 0, place->columns[i], d->text, false);
        cairo_restore(d->cr);
    }
}

/* Adds tooltips of weights. Weights rounded to 0.00 have none, to bound the file size for long sentences. */
static void add_tips(const drawing *d, const picture_panel *panel, double x, double y) {
    for (size_t i = 0; i < panel->rows * panel->columns; i++) {
        const size_t row = i / panel->columns, column = i % panel->columns;
        char text[256];
        if (!(panel->weights[i] >= 0.005f))
            continue;
        snprintf(text, sizeof(text), "%.100s looks at %.100s: %.3f", panel->row_labels[row],
                 panel->column_labels[column], (double)panel->weights[i]);
        picture_svg_tip(d, x + (double)column * d->cell, y + (double)row * d->cell, d->cell, d->cell, text);
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
            picture_text_draw(d, x + place->x, top - 8, 0, panel->heading, PICTURE_HEADING, true);
        ink(d, 0.25);
        picture_text_draw(d, left, top + PICTURE_SMALL, 0, panel->title, PICTURE_SMALL, false);
        draw_labels(d, i, left, below);
        picture_weights_draw(d, left, below, panel->weights, panel->rows, panel->columns, d->cell);
        draw_grid(d, panel, left, below);
        if (d->svg)
            add_tips(d, panel, left, below);
    }
}
