/* Batches of text: lines to ids, sorted by length, cut by tokens. */
#ifndef TFM_LIB_BATCH_H
#define TFM_LIB_BATCH_H

#include "model/task/languages.h"

/* Source tokens, padding included, of a batch when the caller does not say. */
enum { TFM__BATCH_TOKENS = 4096 };

/* Lines of so many full batches are sorted together. More would hold results back for longer; fewer would put lines of
 * unlike length into one batch. */
enum { TFM__BATCHES_AHEAD = 16 };

/* One line as ids, checked. */
typedef struct tfm__line {
    size_t index; /* Its place in the array of all. */
    size_t line;  /* The caller's line, which may have several of these. */
    int32_t *ids; /* NULL if there is nothing to do, since it is empty or was rejected. */
    size_t count; /* How many ids it has, with EOS. */
    size_t first; /* Of two texts: how many ids are of the first one. 0: there is one text. */
    size_t cost;  /* How wide its batch must be: count, or the tokens of its translation if they are more. */
    bool rejected;
} tfm__line;

/* Encodes one line in a language and sets its ids and count. A line of more tokens than the model has positions is cut,
 * but keeps its last, or is refused. */
tfm_status tfm__line_encode(const tfm_model *model, tfm__line *line, const char *text, size_t bytes, tfm_side side,
                            const tfm__spoken *spoken, bool truncate);

/* Deals with a bad line, of which the library's last sentence says what is wrong: the caller is told, with `what`
 * before the reason, or if there is nobody to tell, the call ends with `status`. */
tfm_status tfm__line_reject(tfm__line *line, const char *what, const tfm_text_options *options, tfm_status status);

/* Texts of one side that are to be encoded: of text i bytes[i] bytes (NULL: strlen), which stand in line owners[i] of
 * the caller (NULL: i). */
typedef struct tfm__texts {
    const char *const *text;
    const size_t *bytes, *owners;
    size_t count;
} tfm__texts;

/* Encodes texts. Those that are empty or blank get ids NULL, bad ones are rejected through the options, once for a
 * caller's line, with `what` before the reason, or fail the call. The array and its ids are freed with
 * tfm__lines_free. */
tfm_status tfm__lines_encode(tfm_model *model, tfm__line **out, const tfm__texts *texts, tfm_side side,
                             const char *what, const tfm__spoken *spoken, const tfm_text_options *options);
void tfm__lines_free(tfm__line **lines, size_t count);

/* How large a batch may be, tokens with padding and lines, and how many batches' lines are sorted together. */
typedef struct tfm__batch_limit {
    size_t tokens, lines, ahead;
} tfm__batch_limit;

void tfm__stats_add(tfm_search_stats *to, const tfm_search_stats *more);

/* Sets the limits by what the caller asks for, where 0 is the default, and by the memory that the logits of `beam` rows
 * a line may take on the device. */
tfm__batch_limit tfm__batch_limits(const tfm_model *model, int batch_tokens, int beam);

/* Returns how many lines from `first` on make one batch; at least one. */
size_t tfm__batch_next(tfm__line *const *order, size_t first, size_t count, tfm__batch_limit limit);

typedef tfm_status (*tfm__batch_fn)(void *user, tfm__line *const *batch, size_t n);

/* Calls `run` on batches of the lines that have ids. Those that are sorted together go longest first: the batch that
 * needs most memory comes first, and what it took serves all others. A batch that the device has no room for is run as
 * two. The options are asked whether to go on. */
tfm_status tfm__batches_run(tfm_model *model, tfm__line *lines, size_t count, tfm__batch_limit limit,
                            const tfm_text_options *options, tfm__batch_fn run, void *user);

/* One sentence and what was written for it, with EOS; the alignment of the two goes to `weights`, [written][source]. */
typedef struct tfm__aligned {
    const int32_t *source, *written;
    size_t source_count, written_count;
    float *weights;
} tfm__aligned;

/* Fills the weights of `count` pairs, by the options' layer and head (alignment.c). */
tfm_status tfm__align(tfm_model *model, const tfm__aligned *pairs, size_t count, const tfm_text_options *options);

/* Returns the pieces of ids, or "#7" for an id that has none. The pointers and their names are one block, which the
 * caller frees with free(). NULL if there is no memory. */
const char **tfm__pieces_name(const tfm_model *model, tfm_side side, const int32_t *ids, size_t count);

#endif
