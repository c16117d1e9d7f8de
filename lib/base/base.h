/* Shared by all layers: error messages, logging, host memory, strings. No OpenCL here. */
#ifndef TFM_LIB_BASE_H
#define TFM_LIB_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include "tfm/base.h"

/* A monotonic clock. */
double tfm__seconds(void);

/* Sets this thread's error message and returns `status`, for `return tfm__fail(...)`. The message is `what failed: why;
 * what to do`, without final period or newline. */
tfm_status tfm__fail(tfm_status status, const char *format, ...) TFM_PRINTF(2, 3);
tfm_status tfm__vfail(tfm_status status, const char *format, va_list args);

/* The longest error message, which may include a build log; longer ones are truncated. */
#define TFM__MESSAGE_MAX 8192
/* Save and restore tfm_error_message: a call that succeeds after an internal failure leaves the caller's message
 * unchanged. */
void tfm__error_save(char saved_message[TFM__MESSAGE_MAX]);
void tfm__error_restore(const char *saved_message);

/* One line to the log callback; cheap when the level is off. */
void tfm__log(tfm_log_level level, const char *format, ...) TFM_PRINTF(2, 3);

/* One line of a requested report: to the log callback at info level, or without one to stderr, regardless of
 * TFM_LOG. */
void tfm__report(const char *format, ...) TFM_PRINTF(1, 2);

/* Zeroed memory for `count` elements of `size` bytes, or NULL with the error message set. Checks for overflow. Free
 * with free(). */
void *tfm__alloc(size_t count, size_t size);
/* Like realloc for arrays; on failure the old block stays valid and NULL is returned with the error message set. */
void *tfm__realloc(void *old, size_t count, size_t size);
/* Grows an array to at least `count` elements, doubling *capacity. `array` is the address of the pointer.
 * On failure everything stays unchanged. */
tfm_status tfm__grow(void *array, size_t *capacity, size_t count, size_t size);
/* A copy of a string, or NULL with the error message set. */
char *tfm__strdup(const char *text);
/* snprintf into new memory, or NULL with the error message set. */
char *tfm__format(const char *format, ...) TFM_PRINTF(1, 2);

/* A 64-bit hash of bytes, independent of machine and of how the input is split: for checksums and file names, not for
 * secrets. Start with {.value = any seed}. */
typedef struct tfm__hash {
    uint64_t value, bytes;
    unsigned char word[8]; /* the last bytes % 8 bytes */
} tfm__hash;

void tfm__hash_add(tfm__hash *hash, const void *data, size_t bytes);
/* The hash of all bytes so far; more may be added. */
uint64_t tfm__hash_finish(const tfm__hash *hash);
/* The same in one call. */
uint64_t tfm__hash64(const void *data, size_t bytes, uint64_t seed);

/* Whether `part` occurs in `text`, case-insensitive (ASCII). */
int tfm__contains(const char *text, const char *part);

/* Rejects NULL arguments: "model_open: dir is NULL". For a callback pass `emit ? "" : NULL`. */
tfm_status tfm__needs(const char *call, const char *names, size_t count, const void *const *pointers);
#define TFM__NEEDS(call, ...)                                                                                          \
    tfm__needs(call, #__VA_ARGS__, sizeof((const void *[]){__VA_ARGS__}) / sizeof(void *),                             \
               (const void *[]){__VA_ARGS__})

/* Clears an output argument that may itself be NULL, before TFM__NEEDS. */
#define TFM__CLEAR_OUT(out)                                                                                            \
    do {                                                                                                               \
        if (out)                                                                                                       \
            *(out) = NULL;                                                                                             \
    } while (0)

/* Rejects NULL elements of an array of texts: "trainer_average: paths[2] is NULL". */
tfm_status tfm__needs_texts(const char *call, const char *name, const char *const *texts, size_t count);

/* Whether a `reserved` word of an options struct is set: a field of a later version, or a struct that was not zeroed.
 * `options` may be NULL. */
bool tfm__any_set(const uint64_t *words, size_t count);
#define TFM__RESERVED_SET(options) ((options) && tfm__any_set((options)->reserved, TFM__COUNT((options)->reserved)))
#define TFM__RESERVED_SET_MESSAGE                                                                                      \
    "a reserved word of its options is set: fill options with zeros first, and for a field of a later version of tfm " \
    "use that version's library"

/* x / by, rounded up; x >= 0. */
static inline int64_t tfm__ceil_div(int64_t x, int64_t by) {
    return (x + by - 1) / by;
}

#define TFM__COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
