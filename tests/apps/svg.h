/* The size and ink extent of an SVG. Supports only what cairo and apps/plots/picture_svg.c write. */
#ifndef TFM_TESTS_SVG_H
#define TFM_TESTS_SVG_H

#include <stddef.h>

typedef struct svg_box {
    double left, top, right, bottom;
} svg_box;

typedef struct svg_facts {
    svg_box view; /* the viewBox */
    svg_box ink;  /* bounds of all shapes, images and texts, without stroke widths */
    size_t shapes, images, texts, tips;
} svg_facts;

/* Reads a file. The test fails without a viewBox, or on an unsupported element. */
svg_facts svg_read(const char *path);
/* The file's text; the caller frees it. */
char *svg_text(const char *path);
/* The test fails unless all ink is inside the viewBox. */
void svg_inside(const char *path);
/* Renders the SVG to a PNG by rsvg-convert, `scale` pixels per unit. Returns 0 if it is not installed. */
int svg_draw(const char *path, const char *png, int scale);

#endif
