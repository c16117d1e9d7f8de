/* State of the scheduler, and its steps on the device. */
#ifndef TFM_LIB_SCHEDULER_STEP_H
#define TFM_LIB_SCHEDULER_STEP_H

#include "model/decode/kv_pool.h"
#include "model/decode/logit_edits.h"
#include "model/decode/scheduler.h"
#include "text/grammar/matcher.h"

/* What a step of n rows is read for: (n), (n), (n, top), (n, top), (n); the last four if a sequence wants them. */
enum { TFM__READ_TOKENS, TFM__READ_LOG_PROBS, TFM__READ_TOP_IDS, TFM__READ_TOP_LOGITS, TFM__READ_LSE, TFM__READS };

/* Maximum prompt tokens of a step, unless the caller gives them. */
enum { TFM__MOST_PREFILL = 512 };

/* Maximum rows of a step with drafts. */
enum { TFM__DRAFT_ROWS = TFM__MAX_DRAFTS + 1 };

struct tfm__sequence {
    tfm__sequence *next;  /* of all */
    tfm__sequence *queue; /* the next waiting one */
    tfm__sequence_request request;
    tfm__kv_run *run;
    int64_t prompt, limit; /* tokens of the prompt; maximum number of new ones */
    int64_t made;          /* new tokens */
    int64_t found;         /* prompt tokens found in the cache; -1: not looked for yet */
    int flights;           /* steps that compute a token of it */
    int64_t drafts;        /* verified in the next step, from run->ids[count] on */
    int64_t width;         /* maximum drafts of a step */
    int64_t draft_from;    /* no drafts before this number of new tokens */
    int rejected;          /* steps in a row that accepted no draft */
    bool needs_tokens;     /* a logits processor needs the newest token */
    bool reporting;        /* in on_token */
    tfm__matcher *matcher; /* of a grammar, or NULL */
    bool over;             /* ended; freed once no step computes a token of it */
};

/* A step on the device. */
typedef struct tfm__flight {
    tfm__sequence **rows;  /* [count]: once, and once for each of its drafts */
    int64_t count, drafts; /* rows, and how many are of drafts */
    int64_t top;           /* most probable tokens read of each row */
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
    tfm_tensor tokens[2];     /* (most rows): the tokens of each of them */
    tfm_tensor position_bias; /* see tfm__decode_step */
    tfm__logit_edits edits;
    tfm__scheduler_counts counts;
};

/* Whether a token ends the sequence. */
bool tfm__sequence_ends(const tfm__scheduler *scheduler, const tfm__sequence *sequence, int32_t id);
/* Whether prompt tokens, or those of a preempted sequence, are to be computed before its next token. */
bool tfm__sequence_needs_prefill(const tfm__sequence *sequence);
/* Whether a step can compute its next token. */
bool tfm__sequence_can_decode(const tfm__sequence *sequence);
/* Prompt tokens of a step. */
int64_t tfm__scheduler_prefill_budget(const tfm__scheduler *scheduler);
/* The next sequence to prefill: the oldest, or for the second half of the budget the one with the fewest tokens left,
 * so that a long prompt does not stop the short ones. NULL for none. */
tfm__sequence *tfm__scheduler_next_prompt(const tfm__scheduler *scheduler, bool oldest);
/* Whether a sequence may have drafts in the next step. */
bool tfm__sequence_drafts(const tfm__scheduler *scheduler, const tfm__sequence *sequence);
/* Proposes drafts for the next step, and reserves slots for it. Returns their number. */
int64_t tfm__scheduler_draft(tfm__scheduler *scheduler);
/* Decides by the result of a step how many drafts the sequence has in the next ones. */
void tfm__sequence_judge(tfm__scheduler *scheduler, tfm__sequence *sequence, int64_t drafted, int64_t accepted);
/* Maximum rows of a step. */
static inline int64_t tfm__scheduler_most_rows(const tfm__scheduler *s) {
    return s->options.sequences > TFM__DRAFT_ROWS ? s->options.sequences : TFM__DRAFT_ROWS;
}
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
