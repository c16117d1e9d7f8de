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
    bool entered;          /* the beam has been in that form, or there was no memory for it */
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

/* ---- Whether steps are recorded at all (recorded_proof.c) ---- */

/* Whether steps of this model can be, by its kind. */
bool tfm__recorded_serves(const tfm_model *model);
/* The row of the device's table about steps of so many rows of a model of this width; its setting is "recorded". */
void tfm__recorded_row(char name[TFM__TUNED_TEXT], int64_t width, int64_t rows);
/* Whether the table has such a row, and the trial of recordings has gone well on this device. */
bool tfm__recorded_wanted(tfm_model *model, int64_t rows);
/* Whether a search that begins with so many rows has nothing to do with recordings: steps of so many are launched, and
 * it is no part of a trial, which compares steps with the same rows. */
bool tfm__recorded_never(tfm_model *model, int64_t rows);

/* At the end of a search: one that has failed for want of memory, and was in that form, is begun anew without
 * (tfm__context_again). */
void tfm__recorded_over(tfm_context *ctx, bool entered);
/* Memory has come back: after such a want steps may be recorded again. */
void tfm__recorded_roomy(tfm_context *ctx);

/* The trial: small searches with recordings and without, which must come to the same to the bit. *why is then NULL, or
 * else a sentence that says why steps are launched on this device. The verdict is kept for the device, its driver and
 * this version; each context tries again, once. Fails where the context does, without recordings. Where another program
 * is at its own trial for too long, nothing is tried: then *why says so, and *busy is set if it is not NULL. */
tfm_status tfm__recorded_prove(tfm_context *ctx, const char **why, bool *busy);
/* Recordings came to something else in a search of the caller's. */
void tfm__recorded_disprove(tfm_context *ctx);
/* Searches with sources or prompts that are made up, for so many tokens, whatever the model's rules are; as recorded as
 * `recorded` says, whatever the table does. */
tfm_status tfm__recorded_search(tfm_model *model, tfm_hypotheses *out, int sentences, int beam, int tokens,
                                bool recorded);
/* Whether two searches have the same tokens and scores, to the bit. */
bool tfm__recorded_same(const tfm_hypotheses *a, const tfm_hypotheses *b);

#endif
