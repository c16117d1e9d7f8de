/* SentencePiece with an interface in C. Only lib/text/spm.cc names its C++ library, and no exception leaves that file.
 */
#ifndef TFM_LIB_SPM_H
#define TFM_LIB_SPM_H

#ifdef __cplusplus
extern "C" {
#endif

#include <stdbool.h>
#include "base/base.h"

typedef struct tfm__spm tfm__spm;

/* The pieces of one line. It starts as {0}, and keeps its memory when it is filled again. */
typedef struct tfm__pieces {
    char *bytes;                    /* The pieces one after another; each ends with a NUL. */
    size_t *starts;                 /* Where each piece begins in `bytes`. */
    size_t count;                   /* The number of pieces. */
    size_t byte_capacity, capacity; /* How many bytes and pieces there is memory for. */
} tfm__pieces;

void tfm__pieces_free(tfm__pieces *pieces);

/* Opens a model from the bytes of its file; error messages name `path`. TFM_ERROR_FORMAT if it is damaged. */
tfm_status tfm__spm_open(tfm__spm **out, const void *bytes, size_t size, const char *path);
void tfm__spm_free(tfm__spm **spm);

/* Normalises and splits well-formed UTF-8. Any number of threads may do so at the same time. */
tfm_status tfm__spm_encode(const tfm__spm *spm, tfm__pieces *out, const char *text, size_t bytes);

/* Does the same with a segmentation that each call draws anew; alpha 0 takes the best one. With byte pairs, each merge
 * is left out with probability `alpha` ("BPE-Dropout", Provilkov et al. 2020). With unigrams, a segmentation is drawn
 * with its probability to the power of `alpha` ("Subword Regularization", Kudo 2018). Words and characters have only
 * one. */
tfm_status tfm__spm_sample(const tfm__spm *spm, tfm__pieces *out, const char *text, size_t bytes, float alpha);

/* Between these two calls, what a *new* thread draws depends on `seed` alone, and only one thread at a time draws.
 * SentencePiece draws from a generator of the thread, which takes the seed of the process when the thread first draws.
 */
void tfm__spm_sampling_begin(uint64_t seed);
void tfm__spm_sampling_end(void);

/* Joins pieces to a text, which the caller frees with free(). */
tfm_status tfm__spm_decode(const tfm__spm *spm, char **out, const char *const *pieces, size_t count);

/* The pieces of a model: how many, and their text, borrowed from the model. */
size_t tfm__spm_size(const tfm__spm *spm);
const char *tfm__spm_piece(const tfm__spm *spm, size_t id);
/* The score of a piece: of a unigram its log probability; of byte pairs, the larger it is, the earlier it is merged. */
float tfm__spm_score(const tfm__spm *spm, size_t id);

/* The table of normalisations in the bytes of a model that tfm__spm_open takes, which it lies in; NULL: it has none. */
const void *tfm__spm_charsmap(size_t *table_bytes, const void *bytes, size_t size);

/* Longer sentences teach nothing: SentencePiece leaves them out. */
#define TFM__SPM_MAX_SENTENCE 4192

/* How a model is learned. All values must be ones that SentencePiece allows, because it ends the program otherwise. */
typedef struct tfm__spm_train_options {
    int32_t size;    /* The number of pieces, at least 3; </s> and <unk> count. */
    bool soft_limit; /* Fewer pieces are fine, as they always are for a unigram model. */
    bool unigram;    /* Learns a unigram model in place of byte-pair encoding. */
    bool has_bos;    /* There is a token that begins a text, and ids are those of Llama: <unk> 0, <s> 1, </s> 2. */
    bool large;      /* The sentences may have more than 2^31 characters together. */
    double coverage; /* The share of characters that get pieces, from 0.98 to 1. */
    const char *normalization; /* One of SentencePiece's rules. */
    int32_t *characters;       /* Gets the number of characters if `size` is too small for them. May be NULL. */
} tfm__spm_train_options;

/* Gives one sentence after another: *text is valid until the next call, and NULL after the last sentence. A status
 * other than TFM_OK ends the training with that status. Sentences are well-formed UTF-8, and at least one has a letter.
 */
typedef tfm_status (*tfm__spm_next_fn)(void *user, const char **text, size_t *bytes);

/* Learns a model. *out has the content of its file, and the caller frees it with free(). Error messages name the text
 * `name`. Unless it `begins`, </s> is 0 and <unk> is 1; there is no padding. TFM_ERROR_INPUT if the text gives no model
 * of that size. */
tfm_status tfm__spm_train(char **out, size_t *out_bytes, const tfm__spm_train_options *options, tfm__spm_next_fn next,
                          void *user, const char *name);

/* Refuses what SentencePiece would trust and must not: it follows the offsets of the normalisation table that
 * the file holds without looking whether they lead outside. Done by tfm__spm_open. */
tfm_status tfm__spm_check(const void *bytes, size_t size, const char *path);

#ifdef __cplusplus
}
#endif
#endif
