/* Trying what else could run, for `tfm tune`: candidates take turns at one task, and the fastest that is right wins.
 * This is the one place of the library where a time decides, and nothing comes here unless a program asks for it. */
#ifndef TFM_LIB_TUNE_H
#define TFM_LIB_TUNE_H

#include "ops/ops.h"
#include "tfm/tune.h"

/* More than medians of a few turns scatter. */
#define TFM__TUNE_MIN_SPEEDUP 1.03

enum { TFM__MAX_CANDIDATES = 96, TFM__TUNE_ROUNDS = 5 };

typedef struct tfm__candidate {
    char setting[TFM__TUNING_TEXT_MAX]; /* of the table's row; "": no row, the device's own rule */
    int times;                          /* runs in a turn */
    int rounds;
    double seconds[TFM__TUNE_ROUNDS]; /* of a run, by turns */
    bool rejected;                    /* wrong, or failed */
    bool excluded;                    /* not judged: it has no part in the second contest */
} tfm__candidate;

typedef struct tfm__tuner {
    tfm_context *ctx;
    void *self;
    /* Puts a candidate's setting in force; the context stays good. */
    tfm_status (*apply)(void *self, const char *setting);
    /* Does the task once, without waiting. */
    tfm_status (*run)(void *self);
    /* Does it once more and says whether the result is right, and that the candidate has made it. */
    bool (*validate)(void *self, const tfm__candidate *candidate);
    double min_speedup; /* only what is faster than the first by more than this factor wins */
    bool strict;        /* its median must be so much below the first one's fastest turn, too */
    tfm__candidate candidates[TFM__MAX_CANDIDATES]; /* the first is what runs without a row */
    size_t count;
    size_t runner_up; /* after the contest: the best of those that have not won, or `count` */
} tfm__tuner;

/* Adds a candidate; one too many is left away. */
void tfm__tuner_add(tfm__tuner *c, const char *format, ...) TFM_PRINTF(2, 3);

/* Lets all take their turns, and then the fastest once more, alone with the first, which it must beat again and surely:
 * its median must lie below the first one's fastest turn. Puts the winner in force, and fills the record but for its
 * names: before_seconds and after_seconds are of the second contest where there was one. *winner: its place. Fails only
 * where the first one does: the context is then as after any failure. */
tfm_status tfm__tuner_run(tfm__tuner *c, tfm_tune_record *record, size_t *winner);

/* What comes of turns that were taken: the winner's place, the times of the record, and c->runner_up. */
void tfm__tuner_select(tfm__tuner *c, tfm_tune_record *record, size_t *winner);

/* `count` numbers for tests of what is right: their size is between a half and one, so that none hides a mistake. NULL
 * without memory. */
float *tfm__tune_random_host(size_t count, uint64_t seed);
/* A tensor of them, empty after a failure, which is the context's. */
tfm_tensor tfm__tune_random(tfm_context *ctx, int rank, const int64_t *dims, uint64_t seed);

/* Whether there is anything to tune: on GPU-style devices. */
bool tfm__tune_supported(const tfm_context *ctx);
/* At the door: TFM_ERROR_UNSUPPORTED with a sentence where there is nothing to try. */
tfm_status tfm__tune_begin(tfm_context *ctx, const char *call, tfm_tune_record *out);

#endif
