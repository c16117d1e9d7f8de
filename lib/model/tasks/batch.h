/* Batches of text: lines to ids, sorted by length, cut by tokens. */
#ifndef TFM_LIB_BATCH_H
#define TFM_LIB_BATCH_H

#include "model/tasks/languages.h"

/* Source tokens, padding included, of a batch when the caller does not say. */
enum { TFM__BATCH_TOKENS = 4096 };

/* Lines of so many full batches are sorted together. More would hold results back for longer; fewer would put lines of
 * unlike length into one batch. */
enum { TFM__BATCHES_AHEAD = 16, TFM__BATCHES_FIRST = 4 };

/* One line as ids, checked. */
typedef struct tfm__line {
    size_t index; /* Its place in the array of all. */
    size_t line;  /* The caller's line, which may have several of these. */
    int32_t *ids; /* NULL if there is nothing to do, since it is empty or was rejected. */
    size_t count; /* How many ids it has, with EOS. */
    size_t first; /* Of two texts: how many ids are of the first one. 0: there is one text. */
    size_t cost;  /* How wide its batch must be: count, or the tokens of its translation if they are more. */
    bool rejected;
    bool done; /* its results are there; nobody but the thread that made the call looks */
} tfm__line;

/* Encodes one line in a language and sets its ids and count. A line of more tokens than the model has positions is cut,
 * but keeps its last, or is refused. */
tfm_status tfm__line_encode(const tfm_model *model, tfm__line *line, const char *text, size_t bytes, tfm_side side,
                            const tfm__language_choice *languages, bool truncate);

/* Deals with a bad line, of which the library's last sentence says what is wrong: the caller is told, with `what`
 * before the reason, or if there is nobody to tell, the call ends with `status`. Where the caller was told, the
 * sentence is `saved_message` again, from before the line was tried. */
tfm_status tfm__line_reject(tfm__line *line, const char *what, const tfm_text_options *options, tfm_status status,
                            const char *saved_message);

/* Texts of one side that are to be encoded: of text i bytes[i] bytes (NULL: strlen), which stand in line line_of[i] of
 * the caller (NULL: i). */
typedef struct tfm__text_batch {
    const char *const *text;
    const size_t *bytes, *line_of;
    size_t count;
} tfm__text_batch;

/* Encodes texts. Those that are empty or blank get ids NULL, bad ones are rejected through the options, once for a
 * caller's line, with `what` before the reason, or fail the call. The array and its ids are freed with
 * tfm__lines_free. */
tfm_status tfm__lines_encode(tfm_model *model, tfm__line **out, const tfm__text_batch *texts, tfm_side side,
                             const char *what, const tfm__language_choice *languages, const tfm_text_options *options);
void tfm__lines_free(tfm__line **lines, size_t count);

/* How large a batch may be, tokens with padding and lines, and how many batches' lines are sorted together. */
typedef struct tfm__batch_limit {
    size_t tokens, lines, ahead;
} tfm__batch_limit;

void tfm__stats_add(tfm_search_stats *to, const tfm_search_stats *more);

/* Refuses a negative size of batches, which no caller means. */
tfm_status tfm__batch_check(const char *call, int batch_tokens);

/* Sets the limits by what the caller asks for, where 0 is the default, and by the memory that the logits of `beam` rows
 * a line may take on the device. */
tfm__batch_limit tfm__batch_limits(const tfm_model *model, int batch_tokens, int beam);

/* Returns how many lines from `first` on make one batch; at least one. */
size_t tfm__batch_next(tfm__line *const *order, size_t first, size_t count, tfm__batch_limit limit);

/* Sorts the lines from `first` on that are sorted together, longest first, and returns how many they are. */
size_t tfm__batch_window(tfm__line **order, size_t first, size_t count, tfm__batch_limit limit);

/* What is done with lines. How fast a device is at one says nothing of another. */
typedef enum tfm__batch_kind {
    TFM__BATCH_TRANSLATE,
    TFM__BATCH_SCORE,
    TFM__BATCH_ENCODE,
    TFM__BATCH_GENERATE,
    TFM__BATCH_KINDS
} tfm__batch_kind;

/* Whether the caller wants a call to go on, where several devices work on it: the thread that made the call asks
 * `should_continue`, every hundredth of a second, and theirs ask tfm__not_cancelled. */
typedef struct tfm__cancellation {
    bool (*should_continue)(void *user);
    void *user;
    atomic_bool cancelled;
} tfm__cancellation;
bool tfm__not_cancelled(void *cancellation);
/* Opens a second worker where a fleet has one to spare and these lines are much work. */
void tfm__batches_open_spare(const tfm_model *model, const tfm__line *lines, size_t count, tfm__batch_limit limit);
/* Whether several devices, or workers, work on calls of this model. */
bool tfm__batches_are_parallel(const tfm_model *model);

/* Work on batches. `run` does it on the device of the model `on`, perhaps in a thread of its own: it leaves results in
 * places of its lines alone, is called again for a batch that failed, whole or in parts, on the same device or another
 * one, and calls back nothing of the caller's unless `serial`. `done`, which may be NULL, comes once for each batch
 * when its results are there, on the thread that made the call. */
typedef struct tfm__batch_work {
    tfm__batch_kind kind;
    tfm_status (*run)(void *user, tfm_model *on, tfm__line *const *batch, size_t n);
    tfm_status (*done)(void *user, tfm__line *const *batch, size_t n);
    void *user;
    tfm__cancellation *cancellation; /* NULL: nobody asks */
    bool serial;                     /* One device at a time works, on the thread that made the call. */
} tfm__batch_work;

/* Does the work on all lines that have ids, on the model's device or on all on which it lies. Those that are sorted
 * together go longest first: the batch that needs most memory comes first, and what it took serves all others. A batch
 * that the device has no room for is run as two. The options are asked whether to go on (batches.c). */
tfm_status tfm__batches_run(tfm_model *model, tfm__line *lines, size_t count, tfm__batch_limit limit,
                            const tfm_text_options *options, const tfm__batch_work *work);

/* Does the work on one batch on one device, in two or in smaller work-groups if need be. */
tfm_status tfm__batch_run_split(tfm_model *on, tfm__line *const *batch, size_t n, const tfm__batch_work *work);
/* The same by all devices on which the model lies, for `count` lines in the order in which they are to be done
 * (worker_pool.c).
 */
tfm_status tfm__worker_pool_run(tfm_model *model, tfm__line **order, size_t count, tfm__batch_limit limit,
                                const tfm_text_options *options, const tfm__batch_work *work);

/* Tells the caller of the progress. TFM_ERROR_CANCELLED if it wants no more. */
tfm_status tfm__batches_report(const tfm_text_options *options, uint64_t done, uint64_t total);
/* The source tokens of lines. */
uint64_t tfm__batch_tokens(tfm__line *const *lines, size_t count);

/* One sentence and what was written for it, with EOS; the alignment of the two goes to `weights`, [written][source]. */
typedef struct tfm__aligned {
    const int32_t *source, *written;
    size_t source_count, written_count;
    float *weights;
} tfm__aligned;

/* Fills the weights of `count` pairs, by the options' layer and head. Decoding began with the token `start`
 * (alignment.c). */
tfm_status tfm__align(tfm_model *model, const tfm__aligned *pairs, size_t count, int32_t start,
                      const tfm_text_options *options);

/* Returns the pieces of ids, or "#7" for an id that has none. The pointers and their names are one block, which the
 * caller frees with free(). NULL if there is no memory. */
const char **tfm__token_names(const tfm_model *model, tfm_side side, const int32_t *ids, size_t count);

#endif
