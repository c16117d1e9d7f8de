/* Trying what else could run, for `tfm tune`: candidates take turns at one task, and the fastest that is right wins.
 * This is the one place of the library where a time decides, and nothing comes here unless a program asks for it. */
#ifndef TFM_LIB_TUNE_H
#define TFM_LIB_TUNE_H

#include "ops/ops.h"
#include "tfm/tune.h"

/* More than medians of a few turns scatter. */
#define TFM__TUNE_GAIN 1.03

enum { TFM__CANDIDATES = 96, TFM__TUNE_TURNS = 5 };

typedef struct tfm__candidate {
    char setting[TFM__TUNING_TEXT_MAX]; /* of the table's row; "": no row, the device's own rule */
    int times;                          /* runs in a turn */
    int turns;
    double seconds[TFM__TUNE_TURNS]; /* of a run, by turns */
    bool out;                        /* wrong, or failed */
    bool aside;                      /* not judged: it has no part in the second contest */
} tfm__candidate;

typedef struct tfm__contest {
    tfm_context *ctx;
    void *self;
    /* Puts a candidate's setting in force; the context stays good. */
    tfm_status (*use)(void *self, const char *setting);
    /* Does the task once, without waiting. */
    tfm_status (*run)(void *self);
    /* Does it once more and says whether the result is right, and that the candidate has made it. */
    bool (*right)(void *self, const tfm__candidate *candidate);
    double gain;                          /* only what is faster than the first by more than this factor wins */
    bool careful;                         /* its median must be so much below the first one's fastest turn, too */
    tfm__candidate list[TFM__CANDIDATES]; /* the first is what runs without a row */
    size_t count;
    size_t next; /* after the contest: the best of those that have not won, or `count` */
} tfm__contest;

/* Adds a candidate; one too many is left away. */
void tfm__contest_add(tfm__contest *c, const char *format, ...) TFM_PRINTF(2, 3);

/* Lets all take their turns, and then the fastest once more, alone with the first, which it must beat again and surely:
 * its median must lie below the first one's fastest turn. Puts the winner in force, and fills the record but for its
 * names: before_seconds and after_seconds are of the second contest where there was one. *winner: its place. Fails only
 * where the first one does: the context is then as after any failure. */
tfm_status tfm__contest_run(tfm__contest *c, tfm_tune_record *record, size_t *winner);

/* What comes of turns that were taken: the winner's place, the times of the record, and c->next. */
void tfm__contest_judge(tfm__contest *c, tfm_tune_record *record, size_t *winner);

/* `count` numbers for tests of what is right: their size is between a half and one, so that none hides a mistake. NULL
 * without memory. */
float *tfm__tune_numbers(size_t count, uint64_t seed);
/* A tensor of them, empty after a failure, which is the context's. */
tfm_tensor tfm__tune_tensor(tfm_context *ctx, int rank, const int64_t *dims, uint64_t seed);

/* Whether there is anything to tune: on GPU-style devices. */
bool tfm__tune_possible(const tfm_context *ctx);
/* At the door: TFM_ERROR_UNSUPPORTED with a sentence where there is nothing to try. */
tfm_status tfm__tune_begin(tfm_context *ctx, const char *call, tfm_tune_record *out);

#endif
