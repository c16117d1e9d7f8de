/* Steps of decoding that are recorded: where one is as the one before, but for numbers, the device is told once what to
 * do, and then to do it again. */
#ifndef TFM_LIB_RECORDED_H
#define TFM_LIB_RECORDED_H

#include "model/generate/beam.h"

/* Makes the logits (R, V) of a step, with what tfm__recorded_fit has put into it. */
typedef tfm_status (*tfm__step_fn)(void *user, tfm_tensor *logits);

typedef struct tfm__recorded {
    tfm_model *model;
    tfm__beam *beam;
    tfm_kv_cache *cache;
    int64_t longest;       /* steps, at most, of the search */
    bool on;               /* steps may be recorded */
    int64_t live, alike;   /* sentences of the last step, and how many steps have had as many */
    tfm__beam_turns turns; /* while the beam is in that form */
    tfm_tensor old_chosen; /* what beam->chosen was before */
    tfm__recording *recording;
    bool whole[TFM__RECORDED_PARTS]; /* which parts can be run: of each turn its logits, and its choice */
    tfm_tensor logits[2];            /* of each turn */
} tfm__recorded;

/* All tensors are the beam's, and made anew, step by step, until recording is worth it. */
void tfm__recorded_begin(tfm__recorded *r, tfm_model *model, tfm__beam *beam, tfm_kv_cache *cache, int64_t longest);
/* Puts into a step, which has all of the beam's, what a recorded one has otherwise. */
void tfm__recorded_fit(const tfm__recorded *r, tfm__step *step);
/* Runs a step, as it was recorded, or by `run`. */
tfm_status tfm__recorded_step(tfm__recorded *r, tfm_tensor *logits, tfm__step_fn run, void *user);
/* Does what tfm__beam_advance does, and frees the logits of the step. */
tfm_status tfm__recorded_advance(tfm__recorded *r, tfm_tensor *logits, int64_t keep);
/* After the last step. The beam has its finished hypotheses, and no rows. */
void tfm__recorded_end(tfm__recorded *r);

#endif
