/* What every layer shares: failing with a sentence, logging, host memory, strings. No OpenCL here. */
#ifndef TFM_LIB_BASE_H
#define TFM_LIB_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include "tfm/base.h"

/* A clock that only goes forward. */
double tfm__seconds(void);

/* Sets this thread's sentence and returns `status`, so that a caller writes `return tfm__fail(...)`. The
 * sentence says what, where, what to do; no final period needed, no newline. */
tfm_status tfm__fail(tfm_status status, const char *format, ...) TFM_PRINTF(2, 3);
tfm_status tfm__vfail(tfm_status status, const char *format, va_list args);

/* The longest sentence, which has a build log in it: what does not fit is cut. */
#define TFM__MESSAGE_MAX 8192
/* What tfm_error_message gives, copied, and put back after another sentence has replaced it that is no failure to the
 * caller: a call that succeeds leaves the sentence as it was. */
void tfm__error_save(char saved_message[TFM__MESSAGE_MAX]);
void tfm__error_restore(const char *saved_message);

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
/* Room for `count` elements of an array, *room of which it has: doubled until they fit. `array` is the address of the
 * pointer. On failure all stays as it is. */
tfm_status tfm__grow(void *array, size_t *room, size_t count, size_t size);
/* A copy of a string, or NULL with the sentence set. */
char *tfm__strdup(const char *text);
/* snprintf into fresh memory, or NULL with the sentence set. */
char *tfm__format(const char *format, ...) TFM_PRINTF(1, 2);

/* A 64-bit hash of bytes, the same on every machine, and however they are cut into pieces: checksums, file names. Not
 * for secrets. It begins as {.value = any seed}. */
typedef struct tfm__hash {
    uint64_t value, bytes;
    unsigned char word[8]; /* bytes % 8 of it wait for the rest */
} tfm__hash;

void tfm__hash_add(tfm__hash *hash, const void *data, size_t bytes);
/* The hash of all so far; more may be added. */
uint64_t tfm__hash_finish(const tfm__hash *hash);
/* The same in one call. */
uint64_t tfm__hash64(const void *data, size_t bytes, uint64_t seed);

/* Whether `part` occurs in `text`, case-insensitive (ASCII). */
int tfm__contains(const char *text, const char *part);

/* Refuses NULL among pointers that must not be: "model_open: dir is NULL". A callback is written `emit ? "" : NULL`. */
tfm_status tfm__needs(const char *call, const char *names, size_t count, const void *const *pointers);
#define TFM__NEEDS(call, ...)                                                                                          \
    tfm__needs(call, #__VA_ARGS__, sizeof((const void *[]){__VA_ARGS__}) / sizeof(void *),                             \
               (const void *[]){__VA_ARGS__})

/* Empties what a call is to fill in, for a call that then refuses NULL among its arguments. */
#define TFM__CLEAR_OUT(out)                                                                                            \
    do {                                                                                                               \
        if (out)                                                                                                       \
            *(out) = NULL;                                                                                             \
    } while (0)

/* Refuses NULL among the elements of an array of texts: "trainer_average: paths[2] is NULL". */
tfm_status tfm__needs_texts(const char *call, const char *name, const char *const *texts, size_t count);

/* Whether a word of an options struct's `reserved` is set: a field that this version does not know, or an options
 * struct that was never filled with zeros. `options` may be NULL. */
bool tfm__any_set(const uint64_t *words, size_t count);
#define TFM__RESERVED_SET(options) ((options) && tfm__any_set((options)->reserved, TFM__COUNT((options)->reserved)))
#define TFM__RESERVED_SET_MESSAGE                                                                                      \
    "a reserved word of its options is set: fill options with zeros first, and for a field of a later version of tfm " \
    "use that version's library"

/* x / by, rounded up; x is not negative. */
static inline int64_t tfm__ceil_div(int64_t x, int64_t by) {
    return (x + by - 1) / by;
}

#define TFM__COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
