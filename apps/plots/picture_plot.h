/* Panels of curves above each other: layout in picture_curves.c, rendering in picture_plot.c. */
#ifndef TFM_PICTURE_PLOT_H
#define TFM_PICTURE_PLOT_H

#include "plots/curves.h"
#include "plots/picture_draw.h"

enum { PLOT_SERIES = 2, PLOT_PANELS = 4 };

/* Sizes of the whole picture, and of the space around the panels and between them. */
#define PLOT_WIDTH 960.0
#define PLOT_HEIGHT 720.0
#define PLOT_LEFT 78.0
#define PLOT_RIGHT 124.0 /* for the curves' names */
#define PLOT_TOP 78.0
#define PLOT_BOTTOM 58.0
#define PLOT_BETWEEN 42.0

typedef enum style { PLAIN, SMOOTHED, DOTTED } style;

typedef struct series {
    const char *name; /* NULL: as the panel's title */
    color ink;
    const curve *points;
    style line_style;
    curve smooth; /* no points: not smoothed */
} series;

typedef struct panel {
    const char *title, *unit;
    double share; /* of the height */
    bool from_zero;
    double reach;            /* a further value for the axis, or NaN */
    series all[PLOT_SERIES]; /* [count] */
    int count;
    axis y;
} panel;

typedef struct plot {
    const char *title;
    const curves *data;
    panel panels[PLOT_PANELS]; /* [count] */
    int count;
    axis x;
} plot;

/* A picture_ink_fn for a plot. */
void picture_plot_draw(const drawing *d, const void *plot);

#endif
