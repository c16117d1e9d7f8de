/* Batches of text: lines encoded to ids, sorted by length, split by tokens. */
#ifndef TFM_LIB_BATCH_H
#define TFM_LIB_BATCH_H

#include "model/tasks/languages.h"

/* Default source tokens of a batch, padding included. */
enum { TFM__BATCH_TOKENS = 4096 };

/* Size of a sorting window in full batches. Larger delays results; smaller puts lines of different lengths into a
 * batch. */
enum { TFM__BATCHES_AHEAD = 16, TFM__BATCHES_FIRST = 4 };

/* A checked line of ids. */
typedef struct tfm__line {
    size_t index; /* index in the array of all */
    size_t line;  /* the caller's line, which may be split into several */
    int32_t *ids; /* NULL if empty or rejected */
    size_t count; /* number of ids, including EOS */
    size_t first; /* of text pairs: ids of the first text. 0: a single text */
    size_t cost;  /* width in a batch: count, or the tokens of its translation if larger */
    bool rejected;
    bool done; /* has results; used only by the calling thread */
} tfm__line;

/* Encodes a line and sets its ids and count. A line longer than the model's positions is truncated, keeping its special
 * tokens at the end, or refused. */
tfm_status tfm__line_encode(const tfm_model *model, tfm__line *line, const char *text, size_t bytes, tfm_side side,
                            const tfm__language_choice *languages, bool truncate);

/* Handles a bad line after an error message: reports it to the caller, with `what` before the reason, and restores
 * `saved_message`; or, without a callback, fails the call with `status`. */
tfm_status tfm__line_reject(tfm__line *line, const char *what, const tfm_text_options *options, tfm_status status,
                            const char *saved_message);

/* Texts of one side to encode: text i has bytes[i] bytes (NULL: strlen) and is part of the caller's line line_of[i]
 * (NULL: i). */
typedef struct tfm__text_batch {
    const char *const *text;
    const size_t *bytes, *line_of;
    size_t count;
} tfm__text_batch;

/* Encodes texts. Empty or blank ones get ids NULL; bad ones are rejected through the options, once per caller's line,
 * with `what` before the reason, or fail the call. Free the array by tfm__lines_free. */
tfm_status tfm__lines_encode(tfm_model *model, tfm__line **out, const tfm__text_batch *texts, tfm_side side,
                             const char *what, const tfm__language_choice *languages, const tfm_text_options *options);
void tfm__lines_free(tfm__line **lines, size_t count);

/* Batch size in tokens (with padding) and lines, and the sorting window in batches. */
typedef struct tfm__batch_limit {
    size_t tokens, lines, ahead;
} tfm__batch_limit;

void tfm__stats_add(tfm_search_stats *to, const tfm_search_stats *more);

/* Fails for a negative batch size. */
tfm_status tfm__batch_check(const char *call, int batch_tokens);

/* Limits by the caller's batch size (0: default) and the device memory for logits of `beam` rows per line. */
tfm__batch_limit tfm__batch_limits(const tfm_model *model, int batch_tokens, int beam);

/* Number of lines from `first` on that form a batch; >= 1. */
size_t tfm__batch_next(tfm__line *const *order, size_t first, size_t count, tfm__batch_limit limit);

/* Sorts the window of lines from `first` on, longest first, and returns its size. */
size_t tfm__batch_window(tfm__line **order, size_t first, size_t count, tfm__batch_limit limit);

/* Kinds of work, with separate throughput measurements. */
typedef enum tfm__batch_kind {
    TFM__BATCH_TRANSLATE,
    TFM__BATCH_SCORE,
    TFM__BATCH_ENCODE,
    TFM__BATCH_GENERATE,
    TFM__BATCH_KINDS
} tfm__batch_kind;

/* Cancellation of a call on several devices: the calling thread calls `should_continue` every 10 ms, device threads
 * call tfm__not_cancelled. */
typedef struct tfm__cancellation {
    bool (*should_continue)(void *user);
    void *user;
    atomic_bool cancelled;
} tfm__cancellation;
bool tfm__not_cancelled(void *cancellation);
/* Opens a second worker if the fleet has a spare one and these lines are enough work. */
void tfm__batches_open_spare(const tfm_model *model, const tfm__line *lines, size_t count, tfm__batch_limit limit);
/* Whether calls of this model run on several devices or workers. */
bool tfm__batches_are_parallel(const tfm_model *model);

/* Work on batches. `run` processes a batch on the device of the model `on`, possibly on another thread: it only writes
 * the results of its lines, may be repeated after a failure, in parts or on another device, and makes no callbacks
 * unless `serial`. `done` (may be NULL) is called once per batch on the calling thread, when its results are
 * complete. */
typedef struct tfm__batch_work {
    tfm__batch_kind kind;
    tfm_status (*run)(void *user, tfm_model *on, tfm__line *const *batch, size_t n);
    tfm_status (*done)(void *user, tfm__line *const *batch, size_t n);
    void *user;
    tfm__cancellation *cancellation; /* NULL: not cancellable */
    bool serial;                     /* one device at a time, on the calling thread */
} tfm__batch_work;

/* Processes all lines with ids, on the model's device or on all its replicas. Each window runs longest first, so the
 * first batch needs the most memory and later ones reuse it. A batch without enough device memory is split in two.
 * Calls should_continue (batches.c). */
tfm_status tfm__batches_run(tfm_model *model, tfm__line *lines, size_t count, tfm__batch_limit limit,
                            const tfm_text_options *options, const tfm__batch_work *work);

/* Processes a batch on one device, split in two or with smaller work-groups if required. */
tfm_status tfm__batch_run_split(tfm_model *on, tfm__line *const *batch, size_t n, const tfm__batch_work *work);
/* The same on all devices of the model, for `count` lines in processing order (worker_pool.c). */
tfm_status tfm__worker_pool_run(tfm_model *model, tfm__line **order, size_t count, tfm__batch_limit limit,
                                const tfm_text_options *options, const tfm__batch_work *work);

/* Reports progress. TFM_ERROR_CANCELLED if the caller stops. */
tfm_status tfm__batches_report(const tfm_text_options *options, uint64_t done, uint64_t total);
/* Number of source tokens. */
uint64_t tfm__batch_tokens(tfm__line *const *lines, size_t count);

/* A sentence and its translation, including EOS; the alignment is written to `weights`, [target][source]. */
typedef struct tfm__aligned {
    const int32_t *source, *written;
    size_t source_count, written_count;
    float *weights;
} tfm__aligned;

/* Fills the weights of `count` pairs, for the options' layer and head. `start`: decoder start token (alignment.c). */
tfm_status tfm__align(tfm_model *model, const tfm__aligned *pairs, size_t count, int32_t start,
                      const tfm_text_options *options);

/* Pieces of ids, or "#7" for an id without one. One block for pointers and names; the caller frees it with free(). NULL
 * if out of memory. */
const char **tfm__token_names(const tfm_model *model, tfm_side side, const int32_t *ids, size_t count);

#endif
