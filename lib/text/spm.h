/* SentencePiece behind C: the only place that names its C++ library. No exception leaves it. */
#ifndef TFM_LIB_SPM_H
#define TFM_LIB_SPM_H

#ifdef __cplusplus
extern "C" {
#endif

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

/* Joins pieces to text, for free(). */
tfm_status tfm__spm_decode(const tfm__spm *spm, char **out, const char *const *pieces, size_t count);

/* Refuses what SentencePiece would trust and must not: it follows the offsets of the normalisation table that
 * the file holds without looking whether they lead outside. Done by tfm__spm_open. */
tfm_status tfm__spm_check(const void *bytes, size_t size, const char *path);

#ifdef __cplusplus
}
#endif
#endif
