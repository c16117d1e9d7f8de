/* Reads Python pickles of plain data: numbers, strings, tuples, lists, dicts. Nothing in a pickle is executed.
 * Imports, calls and persistent ids go to callbacks, which accept a few known names and refuse all others.
 *
 * https://docs.python.org/3/library/pickletools.html; protocols 2 to 5, limited to the operations that Python writes
 * for plain data. */
#ifndef TFM_LIB_PICKLE_H
#define TFM_LIB_PICKLE_H

#include <stdbool.h>
#include "base/base.h"

typedef enum tfm__pickle_kind {
    TFM__PICKLE_MARK, /* internal */
    TFM__PICKLE_NONE,
    TFM__PICKLE_BOOL,   /* number */
    TFM__PICKLE_INT,    /* number */
    TFM__PICKLE_LARGE,  /* an integer of more than 64 bits: text, little-endian */
    TFM__PICKLE_FLOAT,  /* value not read */
    TFM__PICKLE_TEXT,   /* text */
    TFM__PICKLE_GLOBAL, /* a name accepted by find_class: number is its result */
    TFM__PICKLE_TUPLE,  /* items */
    TFM__PICKLE_LIST,   /* items */
    TFM__PICKLE_DICT,   /* items: key, value, key, value, in insertion order */
    TFM__PICKLE_OBJECT, /* the caller's: number */
} tfm__pickle_kind;

typedef struct tfm__pickle_value {
    tfm__pickle_kind kind;
    int32_t tag; /* of TFM__PICKLE_OBJECT: the caller's */
    int64_t number;
    const char *text; /* [bytes], in the pickle, not NUL-terminated; UTF-8 */
    size_t bytes;
    const struct tfm__pickle_value **items; /* [count]: items may be shared, and cyclic */
    size_t count, room;
    struct tfm__pickle_value *before; /* allocated before this one; freed with it */
} tfm__pickle_value;

/* Maximum number of values in a pickle: ten times what a model of ten thousand tensors takes. */
enum { TFM__PICKLE_MAX_VALUES = 4 << 20 };

typedef struct tfm__pickle tfm__pickle;

/* All three set *out, or fail with a message. */
typedef struct tfm__pickle_callbacks {
    /* Returns the number of a TFM__PICKLE_GLOBAL for `module`.`name`. */
    tfm_status (*find_class)(void *user, int64_t *out, const char *module, size_t module_bytes, const char *name,
                             size_t name_bytes);
    /* A call of the global with a tuple of arguments. */
    tfm_status (*reduce)(void *user, tfm__pickle *pickle, const tfm__pickle_value **out, int64_t global,
                         const tfm__pickle_value *arguments);
    /* An object outside of the pickle, by its id. */
    tfm_status (*persistent_load)(void *user, tfm__pickle *pickle, const tfm__pickle_value **out,
                                  const tfm__pickle_value *id);
} tfm__pickle_callbacks;

/* A reader and all its values. Initialize as {.path, .at, .end, .callbacks, .user}. */
struct tfm__pickle {
    const char *path;              /* borrowed, for messages */
    const unsigned char *at, *end; /* remaining input */
    const tfm__pickle_callbacks *callbacks;
    void *user;

    const tfm__pickle_value **stack, **memo;
    size_t depth, stack_room, memo_count, memo_room;
    tfm__pickle_value *last;
    size_t made;
};

/* Reads one pickle; `at` is then after it, and another may follow. The value is valid until tfm__pickle_close.
 * TFM_ERROR_FORMAT if damaged or truncated, TFM_ERROR_UNSUPPORTED if not plain data. */
tfm_status tfm__pickle_read(tfm__pickle *pickle, const tfm__pickle_value **out);
void tfm__pickle_close(tfm__pickle *pickle);

/* A new value for callbacks to return: a TFM__PICKLE_DICT, filled by the pickle, or a TFM__PICKLE_OBJECT. NULL with a
 * message if out of memory. */
tfm__pickle_value *tfm__pickle_new(tfm__pickle *pickle, tfm__pickle_kind kind);

/* Counts a value, or an element of a value: TFM_ERROR_UNSUPPORTED beyond the maximum. */
tfm_status tfm__pickle_count(tfm__pickle *pickle);

/* Whether a value is this string. */
bool tfm__pickle_is(const tfm__pickle_value *value, const char *text);
/* "a dict", "an integer": for messages. */
const char *tfm__pickle_kind_name(const tfm__pickle_value *value);

#endif
