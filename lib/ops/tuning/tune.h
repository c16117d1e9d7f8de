/* Contests between candidate settings, for `tfm tune`: candidates take turns at one task, and the fastest correct one
 * wins. Only here do measured times decide, and only if a program calls for it. */
#ifndef TFM_LIB_TUNE_H
#define TFM_LIB_TUNE_H

#include "dev/tuning/tuning_db.h"
#include "ops/ops.h"
#include "tfm/tune.h"

/* More than the spread of medians over a few turns. */
#define TFM__TUNE_MIN_SPEEDUP 1.03

enum { TFM__MAX_CANDIDATES = 96, TFM__TUNE_ROUNDS = 5 };

typedef struct tfm__candidate {
    char setting[TFM__TUNING_TEXT_MAX]; /* of the table's row; "": no row, the device's heuristic */
    int times;                          /* runs in a turn */
    int rounds;
    double seconds[TFM__TUNE_ROUNDS]; /* of a run, by turns */
    bool rejected;                    /* wrong result, or failed */
    bool excluded;                    /* not checked: excluded from the second contest */
} tfm__candidate;

typedef struct tfm__tuner {
    tfm_context *ctx;
    void *self;
    /* Puts a candidate's setting in force; the context stays good. */
    tfm_status (*apply)(void *self, const char *setting);
    /* Enqueues the task once, without waiting. */
    tfm_status (*run)(void *self);
    /* Runs the task again; whether the result is correct and computed by the candidate. */
    bool (*validate)(void *self, const tfm__candidate *candidate);
    double min_speedup; /* to win, a candidate must be faster than the first by more than this factor */
    bool strict;        /* its median must also be below the first one's fastest turn by that factor */
    tfm__candidate candidates[TFM__MAX_CANDIDATES]; /* the first one runs without a row */
    size_t count;
    size_t runner_up; /* after the contest: the best non-winner, or `count` */
} tfm__tuner;

/* Adds a candidate; ignored if the list is full. */
void tfm__tuner_add(tfm__tuner *c, const char *format, ...) TFM_PRINTF(2, 3);

/* Runs the turns of all candidates, then the fastest once more against the first, which it must beat clearly: its
 * median must be below the first one's fastest turn. Puts the winner in force, and fills the record except its names:
 * before_seconds and after_seconds are those of the second contest, if any. *winner: its index. Fails only if the first
 * one does: the context is then as after any failure. */
tfm_status tfm__tuner_run(tfm__tuner *c, tfm_tune_record *record, size_t *winner);

/* Evaluates the turns: the winner's index, the record's times, and c->runner_up. */
void tfm__tuner_select(tfm__tuner *c, tfm_tune_record *record, size_t *winner);

/* `count` numbers for correctness checks, of size 0.5 to 1, so that none hides an error. NULL without memory. */
float *tfm__tune_random_host(size_t count, uint64_t seed);
/* A tensor of them; empty after a failure, which is the context's. */
tfm_tensor tfm__tune_random(tfm_context *ctx, int rank, const int64_t *dims, uint64_t seed);

/* Whether there is anything to tune: GPU-style devices only. */
bool tfm__tune_supported(const tfm_context *ctx);
/* Entry check: TFM_ERROR_UNSUPPORTED with a message if there is nothing to tune. */
tfm_status tfm__tune_begin(tfm_context *ctx, const char *call, tfm_tune_record *out);

#endif
