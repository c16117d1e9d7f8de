/* Python's pickles, as far as they hold plain data: numbers, texts, tuples, lists, dicts. Nothing in a pickle is ever
 * run. What it asks Python to look up or to call, and what lies outside of it, is shown to two functions of the
 * caller's, which know the few names that they take and refuse all others.
 *
 * https://docs.python.org/3/library/pickletools.html; protocols 2 to 5, of which Python writes for plain data no other
 * operations than are known here. */
#ifndef TFM_LIB_PICKLE_H
#define TFM_LIB_PICKLE_H

#include <stdbool.h>
#include "base/base.h"

typedef enum tfm__pickle_kind {
    TFM__PICKLE_MARK, /* never seen outside */
    TFM__PICKLE_NONE,
    TFM__PICKLE_BOOL,   /* number */
    TFM__PICKLE_INT,    /* number */
    TFM__PICKLE_LARGE,  /* an integer of more than 64 bits: text, the least significant byte first */
    TFM__PICKLE_FLOAT,  /* a number that nothing here needs */
    TFM__PICKLE_TEXT,   /* text */
    TFM__PICKLE_GLOBAL, /* a name that the caller took: number is what it made of it */
    TFM__PICKLE_TUPLE,  /* items */
    TFM__PICKLE_LIST,   /* items */
    TFM__PICKLE_DICT,   /* items: key, value, key, value, in the order in which they were put in */
    TFM__PICKLE_OBJECT, /* the caller's: number */
} tfm__pickle_kind;

typedef struct tfm__pickle_value {
    tfm__pickle_kind kind;
    int32_t tag; /* of TFM__PICKLE_OBJECT: the caller's */
    int64_t number;
    const char *text; /* [bytes], in the pickle, without a NUL after it; texts are UTF-8 */
    size_t bytes;
    const struct tfm__pickle_value **items; /* [count]: an item may be in several places, and hold itself */
    size_t count, room;
    struct tfm__pickle_value *before; /* made before this one: to be freed */
} tfm__pickle_value;

typedef struct tfm__pickle tfm__pickle;

/* All three set *out, or fail with a sentence. */
typedef struct tfm__pickle_callbacks {
    /* What `module`.`name` is: a TFM__PICKLE_GLOBAL's number. */
    tfm_status (*find_class)(void *user, int64_t *out, const char *module, size_t module_bytes, const char *name,
                             size_t name_bytes);
    /* Python would call the global with the items of a tuple. */
    tfm_status (*reduce)(void *user, tfm__pickle *pickle, const tfm__pickle_value **out, int64_t global,
                         const tfm__pickle_value *arguments);
    /* An object that is kept outside of the pickle, by its id. */
    tfm_status (*persistent_load)(void *user, tfm__pickle *pickle, const tfm__pickle_value **out,
                                  const tfm__pickle_value *id);
} tfm__pickle_callbacks;

/* A reader, and all values that it made. Starts as {.path, .at, .end, .callbacks, .user}. */
struct tfm__pickle {
    const char *path;              /* borrowed, for sentences */
    const unsigned char *at, *end; /* what is left to read */
    const tfm__pickle_callbacks *callbacks;
    void *user;

    const tfm__pickle_value **stack, **memo;
    size_t depth, stack_room, memo_count, memo_room;
    tfm__pickle_value *last;
    size_t made;
};

/* Reads one pickle; `at` is then after it, and another may follow. The value is good until tfm__pickle_close.
 * TFM_ERROR_FORMAT for what is broken or cut, TFM_ERROR_UNSUPPORTED for what is none of plain data. */
tfm_status tfm__pickle_read(tfm__pickle *pickle, const tfm__pickle_value **out);
void tfm__pickle_close(tfm__pickle *pickle);

/* A new value for the caller's functions to return, or NULL with the sentence set: a TFM__PICKLE_DICT, which the pickle
 * then fills, or a TFM__PICKLE_OBJECT. */
tfm__pickle_value *tfm__pickle_new(tfm__pickle *pickle, tfm__pickle_kind kind);

/* Whether a value is just this text. */
bool tfm__pickle_is(const tfm__pickle_value *value, const char *text);
/* "a dict", "an integer": for sentences. */
const char *tfm__pickle_kind_name(const tfm__pickle_value *value);

#endif
