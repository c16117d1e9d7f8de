/* What every layer shares: failing with a sentence, logging, host memory, strings. No OpenCL here. */
#ifndef TFM_LIB_BASE_H
#define TFM_LIB_BASE_H

#include <stdarg.h>
#include <stdlib.h>
#include "tfm/base.h"

/* Sets this thread's sentence and returns `status`, so that a caller writes `return tfm__fail(...)`. The
 * sentence says what, where, what to do; no final period needed, no newline. */
tfm_status tfm__fail(tfm_status status, const char *format, ...) TFM_PRINTF(2, 3);
tfm_status tfm__vfail(tfm_status status, const char *format, va_list args);

/* The longest sentence, which has a build log in it: what does not fit is cut. */
#define TFM__MESSAGE 8192
/* Puts a sentence of tfm_error_message back behind what may have replaced it and is no failure to the caller. */
void tfm__error_restore(const char *message);

/* One line to the log callback; cheap when the level is off. */
void tfm__log(tfm_log_level level, const char *format, ...) TFM_PRINTF(2, 3);

/* One line of a report that was asked for: to the log callback at the info level, without one to stderr as it is,
 * whatever TFM_LOG says. */
void tfm__report(const char *format, ...) TFM_PRINTF(1, 2);

/* Zeroed memory for `count` elements of `size` bytes, or NULL with the sentence set. Checks the product. Free
 * with free(). */
void *tfm__alloc(size_t count, size_t size);
/* Like realloc for arrays; on failure the old block stays and NULL is returned with the sentence set. */
void *tfm__realloc(void *old, size_t count, size_t size);
/* A copy of a string, or NULL with the sentence set. */
char *tfm__strdup(const char *text);
/* snprintf into fresh memory, or NULL with the sentence set. */
char *tfm__format(const char *format, ...) TFM_PRINTF(1, 2);

/* A 64-bit hash of bytes, the same on every machine, and however they are cut into pieces: checksums, file names. Not for
 * secrets. It begins as {.value = any seed}. */
typedef struct tfm__hash {
    uint64_t value, bytes;
    unsigned char word[8]; /* bytes % 8 of it wait for the rest */
} tfm__hash;

void tfm__hash_add(tfm__hash *hash, const void *data, size_t bytes);
/* The hash of all so far; more may be added. */
uint64_t tfm__hash_end(const tfm__hash *hash);
/* The same in one call. */
uint64_t tfm__hash64(const void *data, size_t bytes, uint64_t seed);

/* Whether `part` occurs in `text`, case-insensitive (ASCII). */
int tfm__contains(const char *text, const char *part);

#define TFM_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
