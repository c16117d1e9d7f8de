/* The reports of a training run, from its train.jsonl, and axes for a plot. Rendering is elsewhere. */
#ifndef TFM_CURVES_H
#define TFM_CURVES_H

#include "cli/cli.h"

/* ---- Curves (curves_read.c) ---------------------------------------------------------------------------- */

typedef struct curve_point {
    double update, value;
} curve_point;

/* Points by growing update. */
typedef struct curve {
    curve_point *points; /* [count] */
    size_t count, room;
} curve;

typedef enum curve_name {
    CURVE_LOSS, /* of training, with label smoothing */
    CURVE_NLL,
    CURVE_RATE,
    CURVE_NORM,
    CURVE_EPOCH,
    CURVE_VALID_NLL, /* of validation, from here on */
    CURVE_BLEU,
    CURVE_CHRF,
    CURVE_BEST,        /* the best so far: BEST_VALIDATION or BEST_AVERAGE at each */
    CURVE_AVERAGE_NLL, /* of the mean of snapshots, at the end of a run */
    CURVE_AVERAGE_BLEU,
    CURVE_RESUMED, /* updates where the run was resumed; values are unused */
    CURVE_COUNT
} curve_name;

enum { BEST_VALIDATION = 1, BEST_AVERAGE = 2 };

typedef struct curves {
    curve all[CURVE_COUNT];
    double first, last; /* updates with a report; last < 0: none */
    double seconds;     /* of the run until its last report; NaN: unknown */
} curves;

/* Reads a train.jsonl: JSON objects, a line each, of "type" "start", "train", "valid" or "average". Damaged lines and
 * non-finite values are skipped. If updates decrease, the run was resumed there, and later reports before it are
 * dropped. CLI_OK, or CLI_FAILED after a message; freed in any case. */
int curves_read(curves *out, const char *path);
void curves_free(curves *c);

/* Moving averages over a 20th of all points, fewer at the steep start. False when out of memory; the caller frees the
 * points in any case. */
bool curve_smooth(curve *out, const curve *in);

/* ---- Axes (axis.c) ------------------------------------------------------------------------------------- */

enum { AXIS_TICKS = 24 };

/* Numbers from low to high, on pixels `from` to `to`. */
typedef struct axis {
    double low, high, from, to;
    bool logarithmic;
} axis;

double axis_place(const axis *a, double value);
/* Round numbers within the axis, at most `wanted`, but at least two; returns their number. */
int axis_ticks(const axis *a, int wanted, double ticks[AXIS_TICKS]);
/* Formats a time, in at least 24 bytes: 45 s, 12 min, 3 h 5 min, 2 d 7 h. */
void axis_duration(char *out, size_t bytes, double seconds);
/* Formats a number, in at least 24 bytes: 12,000 and 0.25 and 4·10⁻⁴, with at most `digits` digits. */
void axis_number(char *out, size_t bytes, double value, int digits);

#endif
