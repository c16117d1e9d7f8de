/* The picture: title, legend, and lines of panels. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "plots/picture_draw.h"

/* Lengths are in pixels: unscaled in SVG, with a scale of two in PNG if possible. */
static const double NARROWEST = 560, TITLE = 14, LEGEND_WIDTH = 220, LEGEND_HEIGHT = 10;

/* cairo's maximum size, and a limit of memory. */
static const double MOST_PIXELS_ASIDE = 32767, MOST_PIXELS = 1 << 28;

static void ink(const drawing *d, double gray) {
    cairo_set_source_rgb(d->cr, gray, gray, gray);
}

/* ---- Text ---------------------------------------------------------------------------------------------- */

/* Bytes of `text` that make a line of at most `most`: up to a space, or the whole word that does not fit
 * alone. */
static size_t line_bytes(const drawing *d, const char *text, double size, bool bold, double most) {
    char *line = strdup(text);
    size_t taken = strlen(text);
    while (line && picture_text_width(d, line, size, bold) > most) {
        char *space = strrchr(line, ' ');
        if (!space || space == line)
            break;
        *space = 0;
        taken = (size_t)(space - line);
    }
    free(line);
    return taken;
}

/* Lines of text below `y`; returns where they end. */
static double draw_lines(const drawing *d, double y, const char *text, double size, bool bold) {
    while (*text) {
        size_t bytes = line_bytes(d, text, size, bold, d->width - 2 * PICTURE_MARGIN);
        char *line = strndup(text, bytes);
        for (char *c = line; c && *c; c++)
            *c = (unsigned char)*c < ' ' || *c == 127 ? ' ' : *c; /* a tab has no glyph */
        y += 1.35 * size;
        if (line)
            picture_text_draw(d, PICTURE_MARGIN, y, 0, line, size, bold);
        free(line);
        text += bytes;
        text += strspn(text, " ");
    }
    return y;
}

/* ---- The whole ----------------------------------------------------------------------------------------- */

/* Renders the color bar below `y`; returns its end. */
static double draw_legend(const drawing *d, double y) {
    static const double ticks[] = {0, 0.01, 0.05, 0.1, 0.25, 0.5, 1};
    enum { STEPS = 110 };
    const double cell = LEGEND_WIDTH / STEPS, tick_text = 0.85 * PICTURE_SMALL;
    float weights[STEPS];
    y += 12;
    for (int i = 0; i < STEPS; i++)
        weights[i] = (float)pow((i + 0.5) / STEPS, 2);
    cairo_save(d->cr);
    cairo_translate(d->cr, PICTURE_MARGIN, y);
    cairo_scale(d->cr, 1, LEGEND_HEIGHT / cell);
    picture_weights_draw(d, 0, 0, weights, 1, STEPS, cell);
    cairo_restore(d->cr);
    cairo_set_line_width(d->cr, 0.5);
    ink(d, 0.45);
    cairo_rectangle(d->cr, PICTURE_MARGIN, y, LEGEND_WIDTH, LEGEND_HEIGHT);
    cairo_stroke(d->cr);
    y += LEGEND_HEIGHT;
    for (size_t i = 0; i < CLI_COUNT(ticks); i++) {
        char text[16];
        const double x = PICTURE_MARGIN + LEGEND_WIDTH * sqrt(ticks[i]);
        snprintf(text, sizeof(text), "%g", ticks[i]);
        ink(d, 0.45);
        cairo_move_to(d->cr, x, y);
        cairo_rel_line_to(d->cr, 0, 3);
        cairo_stroke(d->cr);
        ink(d, 0.25);
        picture_text_draw(d, x, y + 1.2 * PICTURE_SMALL, 0.5, text, tick_text, false);
    }
    picture_text_draw(d, PICTURE_MARGIN + LEGEND_WIDTH + 14, y - 1, 0, "weight", PICTURE_SMALL, false);
    return y + 1.4 * PICTURE_SMALL;
}

/* Renders the part above the panels; returns its end. */
static double draw_head(const drawing *d) {
    const picture *p = d->p;
    char *target = malloc(strlen(p->target) + 8);
    ink(d, 0);
    double y = draw_lines(d, PICTURE_MARGIN - TITLE / 2, p->source, TITLE, true);
    if (target)
        y = draw_lines(d, y, strcat(strcpy(target, "\xe2\x86\x92 "), p->target), TITLE, true);
    free(target);
    y += 4;
    ink(d, 0.25);
    for (size_t i = 0; i < p->note_count; i++)
        y = draw_lines(d, y, p->notes[i], PICTURE_SMALL, false);
    return draw_legend(d, y) + PICTURE_GAP;
}

/* Computes the picture's size and labels. False when out of memory. */
static bool lay_out(drawing *d, extent *all) {
    extent panels = {0, 0};
    picture_measure_begin(d);
    bool good = picture_panels_lay_out(d, &panels);
    d->width = ceil(fmax(panels.width + 2 * PICTURE_MARGIN, NARROWEST));
    *all = (extent){d->width, ceil(draw_head(d) + panels.height + PICTURE_MARGIN)};
    picture_measure_end(d);
    return good;
}

static void draw_all(const drawing *d, const void *unused) {
    (void)unused;
    picture_panels_draw(d, PICTURE_MARGIN, draw_head(d));
}

static bool fits(extent all, double scale) {
    const double width = ceil(all.width * scale), height = ceil(all.height * scale);
    return width <= MOST_PIXELS_ASIDE && height <= MOST_PIXELS_ASIDE && width * height <= MOST_PIXELS;
}

static int draw_fitting(drawing *d, cli_output *out) {
    extent all;
    if (!lay_out(d, &all))
        return cli_fail("out of memory for the picture");
    const double scale = fits(all, 2) ? 2 : 1;
    if (!d->vector && !fits(all, scale))
        return cli_fail("the picture would have %.0f x %.0f pixels, too many for a PNG: select a part with --kind, "
                        "--layer or --head, or write an SVG",
                        all.width, all.height);
    return picture_surface_write(d, all, scale, draw_all, NULL, out);
}

bool picture_available(void) {
    return true;
}

int picture_require(void) {
    picture_fonts *fonts = picture_fonts_open();
    picture_fonts_close(fonts);
    return fonts ? CLI_OK : CLI_FAILED;
}

int picture_write(const picture *p, picture_format format, cli_output *out) {
    drawing d = {.p = p, .vector = format == PICTURE_SVG, .fonts = picture_fonts_open()};
    if (!d.fonts)
        return CLI_FAILED;
    int code = draw_fitting(&d, out);
    if (code == CLI_OK)
        picture_fonts_warn(d.fonts);
    picture_panels_free(&d);
    picture_fonts_close(d.fonts);
    return code;
}
