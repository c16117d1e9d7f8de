/* SentencePiece behind C: the only place that names its C++ library. No exception leaves it. */
#ifndef TFM_LIB_SPM_H
#define TFM_LIB_SPM_H

#ifdef __cplusplus
extern "C" {
#endif

#include <stdbool.h>
#include "base/base.h"

typedef struct tfm__spm tfm__spm;

/* Pieces of one line, their bytes one after the other. Starts as {0}; one that is filled again keeps its
 * memory. */
typedef struct tfm__pieces {
    char *bytes;    /* each piece ends with a NUL */
    size_t *starts; /* of piece i in bytes */
    size_t count;
    size_t byte_capacity, capacity;
} tfm__pieces;

void tfm__pieces_free(tfm__pieces *pieces);

/* Opens a model from its file's bytes; `path` is for sentences. Damaged is TFM_ERROR_FORMAT. */
tfm_status tfm__spm_open(tfm__spm **out, const void *bytes, size_t size, const char *path);
void tfm__spm_free(tfm__spm **spm);

/* Normalises and splits well-formed UTF-8. Any number of threads may do so at the same time. */
tfm_status tfm__spm_encode(const tfm__spm *spm, tfm__pieces *out, const char *text, size_t bytes);

/* The same, with a segmentation drawn anew by each call; of alpha 0 the best. Byte pairs: each merge is left out
 * with probability `alpha` ("BPE-Dropout", Provilkov et al. 2020); unigrams: one is drawn by its probability to the
 * power of `alpha` ("Subword Regularization", Kudo 2018); words and characters have only one. */
tfm_status tfm__spm_sample(const tfm__spm *spm, tfm__pieces *out, const char *text, size_t bytes,
                           float alpha);

/* SentencePiece draws from a generator of the thread, which takes the process's seed when the thread draws
 * for the first time. So what a *new* thread draws between these two is a function of `seed`, and only one
 * thread at a time does. */
void tfm__spm_draws_begin(uint64_t seed);
void tfm__spm_draws_end(void);

/* Joins pieces to text, for free(). */
tfm_status tfm__spm_decode(const tfm__spm *spm, char **out, const char *const *pieces, size_t count);

/* The pieces of a model: how many, and their text, borrowed from the model. */
size_t tfm__spm_size(const tfm__spm *spm);
const char *tfm__spm_piece(const tfm__spm *spm, size_t id);

/* Longer sentences teach nothing: SentencePiece leaves them out. */
#define TFM__SPM_SENTENCE 4192

/* How a model is learned. SentencePiece is not to meet what it does not allow: it ends the program then. */
typedef struct tfm__spm_recipe {
    int32_t size;              /* pieces, </s> and <unk> counted: at least 3 */
    bool at_most;              /* fewer are fine, as they always are for a unigram model */
    bool unigram;              /* or byte-pair encoding */
    bool large;                /* sentences whose characters may be more than 2^31 */
    double coverage;           /* from 0.98 to 1 */
    const char *normalization; /* a rule of SentencePiece's */
    int32_t *characters;       /* if not NULL, set where `size` is too small for those of the text: their number */
} tfm__spm_recipe;

/* Sentences, one after the other: *text is borrowed until the next call, and NULL behind the last. A status
 * other than TFM_OK ends the training with it. Sentences are well-formed UTF-8, and one at least has a
 * letter. */
typedef tfm_status (*tfm__spm_next)(void *user, const char **text, size_t *bytes);

/* Learns a model: *out, for free(), is what its file holds. `name` is the text's, for sentences. </s> is 0,
 * <unk> is 1, and there is no padding. TFM_ERROR_INPUT where the text gives no model of that size. */
tfm_status tfm__spm_train(char **out, size_t *out_bytes, const tfm__spm_recipe *recipe, tfm__spm_next next,
                          void *user, const char *name);

/* Refuses what SentencePiece would trust and must not: it follows the offsets of the normalisation table that
 * the file holds without looking whether they lead outside. Done by tfm__spm_open. */
tfm_status tfm__spm_check(const void *bytes, size_t size, const char *path);

#ifdef __cplusplus
}
#endif
#endif
