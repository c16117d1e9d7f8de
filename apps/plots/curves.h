/* What a training run has reported, from its train.jsonl, and axes to draw it on. Nothing here draws. */
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
    CURVE_LOSS, /* of training, label smoothing and all */
    CURVE_NLL,
    CURVE_RATE,
    CURVE_NORM,
    CURVE_EPOCH,
    CURVE_VALID_NLL, /* of validation, from here on */
    CURVE_BLEU,
    CURVE_CHRF,
    CURVE_BEST,        /* what was the best so far: BEST_VALIDATION or BEST_AVERAGE at each */
    CURVE_AVERAGE_NLL, /* of the mean of snapshots, where a run ended */
    CURVE_AVERAGE_BLEU,
    CURVE_RESUMED, /* where a run that had stopped went on; the values say nothing */
    CURVE_COUNT
} curve_name;

enum { BEST_VALIDATION = 1, BEST_AVERAGE = 2 };

typedef struct curves {
    curve all[CURVE_COUNT];
    double first, last; /* updates that have a report; last < 0: none has */
    double seconds;     /* the run's, to its last report; NaN: no report says */
} curves;

/* Reads a train.jsonl: JSON objects, a line each, of "type" "start", "train", "valid" or "average". Lines that are
 * damaged, and values that are no finite numbers, are left out. Where updates go back the run was resumed
 * from there, and what was reported beyond is forgotten. CLI_OK, or CLI_FAILED after its sentence; to be
 * freed in any case.
 */
int curves_read(curves *out, const char *path);
void curves_free(curves *c);

/* Averages of neighbours, of a 20th of all points each, and of fewer at the start, where curves are steep.
 * False when out of memory; fresh points, freed by the caller, in any case. */
bool curve_smooth(curve *out, const curve *in);

/* ---- Axes (axis.c) ------------------------------------------------------------------------------------- */

enum { AXIS_TICKS = 24 };

/* Numbers from low to high, on pixels `from` to `to`. */
typedef struct axis {
    double low, high, from, to;
    bool logarithmic;
} axis;

double axis_place(const axis *a, double value);
/* Round numbers within the axis, as many as wanted at most, but two where few are wanted; returns how many.
 */
int axis_ticks(const axis *a, int wanted, double ticks[AXIS_TICKS]);
/* A time as one reads it, in 24 bytes at least: 45 s, 12 min, 3 h 5 min, 2 d 7 h. */
void axis_duration(char *out, size_t bytes, double seconds);
/* A number as one reads it, in 24 bytes at least: 12,000 and 0.25 and 4·10⁻⁴, of at most `digits` digits. */
void axis_number(char *out, size_t bytes, double value, int digits);

#endif
