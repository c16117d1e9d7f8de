/* State of the scheduler, and its steps on the device. */
#ifndef TFM_LIB_SCHEDULER_STEP_H
#define TFM_LIB_SCHEDULER_STEP_H

#include "model/decode/kv_pool.h"
#include "model/decode/logit_edits.h"
#include "model/decode/scheduler.h"
#include "text/grammar/matcher.h"

/* What a step of n rows is read for: (n), (n), (n, top), (n, top), (n); the last four if a sequence wants them. */
enum { TFM__READ_TOKENS, TFM__READ_LOG_PROBS, TFM__READ_TOP_IDS, TFM__READ_TOP_LOGITS, TFM__READ_LSE, TFM__READS };

struct tfm__sequence {
    tfm__sequence *next;  /* of all */
    tfm__sequence *queue; /* the next waiting one */
    tfm__sequence_request request;
    tfm__kv_run *run;
    int64_t prompt, limit; /* tokens of the prompt; maximum number of new ones */
    int64_t made;          /* new tokens */
    int64_t found;         /* prompt tokens found in the cache; -1: not looked for yet */
    int flights;           /* steps that compute a token of it */
    bool needs_tokens;     /* a logits processor needs the newest token */
    bool reporting;        /* in on_token */
    tfm__matcher *matcher; /* of a grammar, or NULL */
    bool over;             /* ended; freed once no step computes a token of it */
};

/* A step on the device. */
typedef struct tfm__flight {
    tfm__sequence **rows; /* [count] */
    int64_t count;
    int64_t top; /* most probable tokens read of each row */
    tfm__async_read *reads[TFM__READS];
    const void *results[TFM__READS]; /* after the wait */
} tfm__flight;

struct tfm__scheduler {
    tfm_model *model;
    tfm__scheduler_options options;
    tfm__kv_pool pool;
    tfm__sequence *sequences, *waiting;
    tfm__sequence **live; /* [live_count]: running ones, oldest first */
    size_t live_count;
    bool full;              /* sequences were preempted, and none has ended since */
    bool ahead;             /* the step began before the tokens of the step before it were read */
    tfm__flight flights[2]; /* the newest step, and the one before it */
    int newest;
    tfm_tensor tokens[2];     /* (sequences): the tokens of each of them */
    tfm_tensor position_bias; /* see tfm__decode_step */
    tfm__logit_edits edits;
    tfm__scheduler_counts counts;
};

/* Whether a token ends the sequence. */
bool tfm__sequence_ends(const tfm__scheduler *scheduler, const tfm__sequence *sequence, int32_t id);
/* Creates what the steps need; and frees it. */
tfm_status tfm__scheduler_step_begin(tfm__scheduler *scheduler);
void tfm__scheduler_step_end(tfm__scheduler *scheduler);
/* Computes keys and values of the run's next tokens, in slots reserved. */
tfm_status tfm__scheduler_prefill(tfm__scheduler *scheduler, tfm__kv_run *run, int64_t tokens);
/* Begins a step for the rows of `flight`, in slots reserved. Tokens that the host does not know yet are those of the
 * step `before`. */
tfm_status tfm__scheduler_decode(tfm__scheduler *scheduler, tfm__flight *flight, const tfm__flight *before);
/* Waits for the tokens of a step [count]; NULL after a failure. */
const int32_t *tfm__flight_wait(tfm__scheduler *scheduler, tfm__flight *flight);
/* Then log p of row i, and of the most probable tokens that its sequence wants, in `log_probs` [TFM__MAX_TOP]. */
tfm_token_log_probs tfm__flight_log_probs(const tfm__flight *flight, int64_t i, float *log_probs);
/* Forgets a step. */
void tfm__flight_free(tfm__scheduler *scheduler, tfm__flight *flight);

#endif
