/* Shared declarations of rendering: the drawing, its text, its panels. */
#ifndef TFM_PICTURE_DRAW_H
#define TFM_PICTURE_DRAW_H

#include <cairo.h>
#include "plots/picture.h"

typedef struct picture_fonts picture_fonts;
typedef struct picture_svg picture_svg;

typedef struct color {
    double red, green, blue;
} color;

typedef struct extent {
    double width, height;
} extent;

/* Where a panel goes, and the labels of its tokens. */
typedef struct picture_place {
    double x, y;      /* left upper corner, from that of all panels */
    double left, top; /* the room of the labels */
    char **rows, **columns;
} picture_place;

/* A picture on its way to a surface. Lengths are in units of a screen's pixel. */
typedef struct drawing {
    const picture *p; /* of attention, whose panels alone read it */
    bool vector;      /* an SVG */
    bool measuring;   /* no ink: only how large it gets */
    picture_fonts *fonts;
    cairo_t *cr;
    picture_svg *svg;      /* NULL: not an SVG, or not yet drawing it */
    double width;          /* of the whole */
    double cell, text;     /* of one weight, and of its tokens' text */
    picture_place *places; /* [panels] */
} drawing;

/* Margin, gap, and text sizes: of headings, and of small text except tokens. */
#define PICTURE_MARGIN 24.0
#define PICTURE_GAP 22.0
#define PICTURE_HEADING 13.0
#define PICTURE_SMALL 10.5

/* ---- Text (picture_text.c): each piece of it in an installed font that has its characters -------------- */

/* NULL, after a message with the package to install, if there is no font. */
picture_fonts *picture_fonts_open(void);
void picture_fonts_close(picture_fonts *fonts);
/* Warns of characters missing in all installed fonts. */
void picture_fonts_warn(const picture_fonts *fonts);

double picture_text_width(const drawing *d, const char *text, double size, bool bold);
/* Its baseline is at y, and its left end, middle or right end (align 0, 0.5 or 1) at x; nothing while measuring. */
void picture_text_draw(const drawing *d, double x, double y, double align, const char *text, double size, bool bold);
/* A token as a label, cut with an ellipsis to at most `most` wide: fresh memory, NULL where there is none. */
char *picture_text_label(const drawing *d, const char *token, double size, double most);

/* ---- Surfaces (picture_surface.c) ---------------------------------------------------------------------- */

/* In between, text can be measured, and nothing is rendered. */
void picture_measure_begin(drawing *d);
void picture_measure_end(drawing *d);

typedef void (*picture_ink_fn)(const drawing *d, const void *what);

/* Calls `draw` with `what` on a white surface, and writes it in the drawing's format; `scale` applies to PNG only.
 * CLI_OK, or CLI_FAILED after a message; closing the output reports failed writes. */
int picture_surface_write(drawing *d, extent all, double scale, picture_ink_fn draw, const void *what, cli_output *out);

/* ---- What only an SVG has (picture_svg.c) --------------------------------------------------------------- */

/* NULL when out of memory. */
picture_svg *picture_svg_new(void);
void picture_svg_free(picture_svg *svg);
/* The next bytes of cairo's own SVG. False when out of memory. */
bool picture_svg_take(picture_svg *svg, const unsigned char *data, size_t bytes);
/* Text in this font, `width` wide, placed as picture_text_draw says, in cairo's color. */
void picture_svg_text(const drawing *d, double x, double y, double align, const char *text, const char *family,
                      double size, bool bold, double width);
/* Adds a tooltip for this rectangle. */
void picture_svg_tip(const drawing *d, double x, double y, double width, double height, const char *text);
/* The whole into `out`, once cairo's is complete. False when out of memory. */
bool picture_svg_write(picture_svg *svg, FILE *out);

/* ---- Panels (picture_panels.c) ------------------------------------------------------------------------- */

/* Chooses cell, text and places; *all is the size of all panels. False when out of memory. To be freed in any
 * case. */
bool picture_panels_lay_out(drawing *d, extent *all);
void picture_panels_draw(const drawing *d, double x, double y);
void picture_panels_free(drawing *d);

/* The color of a weight of 0 to 1. */
color picture_shade(double weight);
/* Weights as squares of `cell`, from (x, y). */
void picture_weights_draw(const drawing *d, double x, double y, const float *weights, size_t rows, size_t columns,
                          double cell);

#endif
