/* A C interface of SentencePiece. Only lib/text/spm.cc uses the C++ library, and no exception leaves that file. */
#ifndef TFM_LIB_SPM_H
#define TFM_LIB_SPM_H

#ifdef __cplusplus
extern "C" {
#endif

#include <stdbool.h>
#include "base/base.h"

typedef struct tfm__spm tfm__spm;

/* The pieces of one line, initially {0}; reuses its memory. */
typedef struct tfm__pieces {
    char *bytes;    /* The pieces, each with a terminating NUL. */
    size_t *starts; /* Offsets of the pieces in `bytes`. */
    size_t count;
    size_t byte_capacity, capacity; /* Allocated bytes and pieces. */
} tfm__pieces;

void tfm__pieces_free(tfm__pieces *pieces);

/* Opens a model from the bytes of its file; error messages name `path`. TFM_ERROR_FORMAT if it is damaged. */
tfm_status tfm__spm_open(tfm__spm **out, const void *bytes, size_t size, const char *path);
void tfm__spm_free(tfm__spm **spm);

/* Normalizes and segments well-formed UTF-8. Thread-safe. */
tfm_status tfm__spm_encode(const tfm__spm *spm, tfm__pieces *out, const char *text, size_t bytes);

/* The same with subword regularization; alpha 0 returns the best segmentation. Byte-pair models skip each merge with
 * probability `alpha` ("BPE-Dropout", Provilkov et al. 2020). Unigram models sample a segmentation by its probability
 * to the power of `alpha` ("Subword Regularization", Kudo 2018). Word and character models have only one. */
tfm_status tfm__spm_sample(const tfm__spm *spm, tfm__pieces *out, const char *text, size_t bytes, float alpha);

/* Between these two calls a *new* thread samples depending on `seed` only; one thread at a time may sample.
 * SentencePiece has a generator per thread, seeded from the process's seed at its first use. */
void tfm__spm_sampling_begin(uint64_t seed);
void tfm__spm_sampling_end(void);

/* Joins pieces to a text, for free(). */
tfm_status tfm__spm_decode(const tfm__spm *spm, char **out, const char *const *pieces, size_t count);

/* The number of pieces, and their text, borrowed from the model. */
size_t tfm__spm_size(const tfm__spm *spm);
const char *tfm__spm_piece(const tfm__spm *spm, size_t id);
/* The score of a piece: for unigram models its log probability; for byte pairs, larger means merged earlier. */
float tfm__spm_score(const tfm__spm *spm, size_t id);

/* The normalization table within the bytes of a model accepted by tfm__spm_open; NULL: none. */
const void *tfm__spm_charsmap(size_t *table_bytes, const void *bytes, size_t size);

/* SentencePiece ignores longer sentences in training. */
#define TFM__SPM_MAX_SENTENCE 4192

/* Training options. Values must be valid for SentencePiece, which aborts the program otherwise. */
typedef struct tfm__spm_train_options {
    int32_t size;              /* The number of pieces, at least 3, with </s> and <unk>. */
    bool soft_limit;           /* Allows fewer pieces; always so for unigram models. */
    bool unigram;              /* A unigram model instead of byte-pair encoding. */
    bool has_bos;              /* Adds BOS, with the ids of Llama: <unk> 0, <s> 1, </s> 2. */
    bool large;                /* Allows more than 2^31 characters of text. */
    double coverage;           /* The share of characters with pieces, from 0.98 to 1. */
    const char *normalization; /* A normalization rule of SentencePiece. */
    int32_t *characters;       /* Output: the number of characters, if `size` is too small for them. May be NULL. */
} tfm__spm_train_options;

/* Returns the sentences in turn: *text is valid until the next call, and NULL after the last. Another status than
 * TFM_OK stops training with that status. Sentences are well-formed UTF-8, and at least one has a letter. */
typedef tfm_status (*tfm__spm_next_fn)(void *user, const char **text, size_t *bytes);

/* Trains a model. *out has the content of its file, for free(). Error messages name the text `name`. Unless has_bos,
 * </s> is 0 and <unk> is 1; there is no padding. TFM_ERROR_INPUT if the text does not yield a model of that size. */
tfm_status tfm__spm_train(char **out, size_t *out_bytes, const tfm__spm_train_options *options, tfm__spm_next_fn next,
                          void *user, const char *name);

/* Validates what SentencePiece trusts: it follows the offsets of the file's normalization table without bounds checks.
 * Called by tfm__spm_open. */
tfm_status tfm__spm_check(const void *bytes, size_t size, const char *path);

#ifdef __cplusplus
}
#endif
#endif
