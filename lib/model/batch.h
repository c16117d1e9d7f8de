/* Batches of text: lines to ids, sorted by length, cut by tokens. */
#ifndef TFM_LIB_BATCH_H
#define TFM_LIB_BATCH_H

#include "model/model.h"

/* Source tokens, padding included, of a batch when the caller does not say. */
enum { TFM__BATCH_TOKENS = 4096 };

/* One line as ids, checked. */
typedef struct tfm__line {
    size_t index; /* in the caller's order */
    int32_t *ids; /* NULL: nothing to do, empty or rejected */
    size_t count; /* with EOS */
    size_t cost;  /* tokens that its batch must be wide: count, or those of its translation if they are more */
    bool rejected;
} tfm__line;

/* The ids of one line into line->ids and count; one of more tokens than the model has positions is cut (EOS stays) or
 * refused. */
tfm_status tfm__line_encode(const tfm_model *model, tfm__line *line, const char *text, size_t bytes, tfm_side side,
                            bool truncate);

/* A bad line, and the library's last sentence says why: told to the caller, with `what` before the reason, or `status`, the
 * end of the call. */
tfm_status tfm__line_reject(tfm__line *line, const char *what, const tfm_search_options *options, tfm_status status);

/* Encodes `count` lines of one side. Lines that are empty or blank get ids NULL, bad ones are rejected through the options,
 * with `what` before the reason, or fail the call. The array and its ids are freed with tfm__lines_free. */
tfm_status tfm__lines_encode(tfm_model *model, tfm__line **out, const char *const *lines, size_t count, tfm_side side,
                             const char *what, const tfm_search_options *options);
void tfm__lines_free(tfm__line **lines, size_t count);

/* How large a batch may be: tokens, padding included, and lines. */
typedef struct tfm__batch_limit {
    size_t tokens, lines;
} tfm__batch_limit;

/* By the caller's wish (0: the default), and by what the logits of `beam` rows a line may take on the device. */
tfm__batch_limit tfm__batch_limits(const tfm_model *model, int batch_tokens, int beam);

/* How many lines from `first` on make one batch; at least one. */
size_t tfm__batch_next(tfm__line *const *order, size_t first, size_t count, tfm__batch_limit limit);

typedef tfm_status (*tfm__batch_fn)(void *user, tfm__line *const *batch, size_t n);

/* Calls `run` on batches of the lines that have ids, longest first: the batch that needs most memory comes first, and what
 * it took serves all others. A batch that the device has no room for is run as two. The options are asked whether to go
 * on. */
tfm_status tfm__batches_run(tfm_model *model, tfm__line *lines, size_t count, tfm__batch_limit limit,
                            const tfm_search_options *options, tfm__batch_fn run, void *user);

#endif
