/* What an SVG of ours says of itself: how large it is, and where its ink lies. It reads what cairo and
 * apps/plots/picture_svg.c write, not any SVG. */
#ifndef TFM_TESTS_SVG_H
#define TFM_TESTS_SVG_H

#include <stddef.h>

typedef struct svg_box {
    double left, top, right, bottom;
} svg_box;

typedef struct svg_facts {
    svg_box view; /* the viewBox */
    svg_box ink;  /* what holds all shapes, images and texts; stroke widths are not counted */
    size_t shapes, images, texts, tips;
} svg_facts;

/* Reads a file. The test fails where there is no viewBox, or an element is not understood. */
svg_facts svg_read(const char *path);
/* The file's text, to be freed. */
char *svg_text(const char *path);
/* The test fails unless all ink lies within the viewBox. */
void svg_inside(const char *path);
/* Draws the SVG into a PNG by rsvg-convert, `scale` pixels for a unit. 0 where that is not installed. */
int svg_draw(const char *path, const char *png, int scale);

#endif
