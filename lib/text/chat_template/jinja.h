/* The values and memory of the Jinja interpreter for chat templates. Semantics are jinja2's and Python's. A `jinja`
 * holds the memory of one template or of one rendering, and the first failure: after it, functions return quickly and
 * their results are not used. */
#ifndef TFM_LIB_JINJA_H
#define TFM_LIB_JINJA_H

#include <string.h>
#include "text/bytes.h"

typedef enum tfm__jinja_type {
    TFM__JINJA_MISSING, /* no argument, or no item left */
    TFM__JINJA_UNDEFINED,
    TFM__JINJA_NONE,
    TFM__JINJA_BOOL,
    TFM__JINJA_INT,
    TFM__JINJA_FLOAT,
    TFM__JINJA_STRING,
    TFM__JINJA_LIST,
    TFM__JINJA_TUPLE,
    TFM__JINJA_DICT,
    TFM__JINJA_RANGE,
    TFM__JINJA_VIEW,     /* items(), keys() or values() of a dict */
    TFM__JINJA_ITERATOR, /* a generator: one pass, no length */
    TFM__JINJA_NAMESPACE,
    TFM__JINJA_MACRO,
    TFM__JINJA_FUNCTION, /* a global function, by name */
    TFM__JINJA_METHOD,   /* a method of a value */
    TFM__JINJA_LOOP,
    TFM__JINJA_CYCLER,
    TFM__JINJA_JOINER,
    TFM__JINJA_SLICE, /* a subscript with colons: a tuple of three */
} tfm__jinja_type;

/* Well-formed UTF-8, without NUL at its end. */
typedef struct tfm__jinja_string {
    const char *data;
    size_t bytes, chars; /* equal for ASCII */
} tfm__jinja_string;

typedef struct tfm__jinja_list tfm__jinja_list;
typedef struct tfm__jinja_dict tfm__jinja_dict;
typedef struct tfm__jinja_iterator tfm__jinja_iterator;
typedef struct tfm__jinja_object tfm__jinja_object; /* of jinja_evaluate.h: loops, macros, methods */

typedef struct tfm__jinja_value {
    unsigned char type;
    bool markup; /* a string of `safe` or `escape`: operators escape the other operand. A tuple of groupby */
    union {
        bool flag;
        int64_t integer;
        double real;
        const tfm__jinja_string *string;
        tfm__jinja_list *list; /* of lists, tuples and slices */
        tfm__jinja_dict *dict; /* of dicts and namespaces */
        tfm__jinja_iterator *iterator;
        tfm__jinja_object *object;
        const char *why; /* of an undefined value: the error of its use */
    };
} tfm__jinja_value;

struct tfm__jinja_list {
    size_t count, capacity;
    tfm__jinja_value *items;
};

typedef struct tfm__jinja_args {
    size_t count, named;
    const tfm__jinja_value *items;
    const tfm__jinja_string *const *names;
    const tfm__jinja_value *values; /* of the named arguments */
} tfm__jinja_args;

typedef struct tfm__jinja tfm__jinja;

/* Calls upwards, without call cycles between files: set by jinja_evaluate.c. */
typedef struct tfm__jinja_hooks {
    tfm__jinja_value (*call)(tfm__jinja *j, tfm__jinja_value function, const tfm__jinja_args *args);
    tfm__jinja_value (*filter)(tfm__jinja *j, const tfm__jinja_string *name, tfm__jinja_value value,
                               const tfm__jinja_args *args);
    bool (*test)(tfm__jinja *j, const tfm__jinja_string *name, tfm__jinja_value value, const tfm__jinja_args *args);
} tfm__jinja_hooks;

struct tfm__jinja {
    struct tfm__jinja_chunk *chunks;
    char *free_at;
    size_t free_bytes, memory, memory_limit;
    uint64_t steps, step_limit;
    int depth, line;
    tfm_status status;
    const char *what; /* begins error messages */
    tfm__jinja_hooks hooks;
    const struct tfm__jinja_time *now; /* of strftime_now */
};

/* ---- Memory and errors (jinja_memory.c) ---- */

enum { TFM__JINJA_DEPTH = 1000 };
#define TFM__JINJA_MEMORY ((size_t)512 << 20)
#define TFM__JINJA_OUTPUT ((size_t)64 << 20)
#define TFM__JINJA_STEPS 20000000u

/* Zeroed memory that lives as long as `j`; NULL after a failure. */
void *tfm__jinja_alloc(tfm__jinja *j, size_t count, size_t size);
void tfm__jinja_free(tfm__jinja *j);
/* Records the first failure with the current line. */
void tfm__jinja_fail(tfm__jinja *j, tfm_status status, const char *format, ...) TFM_PRINTF(3, 4);
/* The same for runtime errors, as a value to return. */
tfm__jinja_value tfm__jinja_error(tfm__jinja *j, const char *format, ...) TFM_PRINTF(2, 3);
/* Counts work; false after a failure, or if the limit is exceeded. */
bool tfm__jinja_step(tfm__jinja *j, size_t work);
/* Counts nesting; each call that returns true is followed by tfm__jinja_leave. */
bool tfm__jinja_enter(tfm__jinja *j);
void tfm__jinja_leave(tfm__jinja *j);

/* ---- Values (jinja_value.c) ---- */

static inline tfm__jinja_value tfm__jinja_of(tfm__jinja_type type) {
    return (tfm__jinja_value){.type = (unsigned char)type};
}
static inline tfm__jinja_value tfm__jinja_none(void) {
    return tfm__jinja_of(TFM__JINJA_NONE);
}
static inline tfm__jinja_value tfm__jinja_bool(bool flag) {
    return (tfm__jinja_value){.type = TFM__JINJA_BOOL, .flag = flag};
}
static inline tfm__jinja_value tfm__jinja_int(int64_t integer) {
    return (tfm__jinja_value){.type = TFM__JINJA_INT, .integer = integer};
}
static inline tfm__jinja_value tfm__jinja_float(double real) {
    return (tfm__jinja_value){.type = TFM__JINJA_FLOAT, .real = real};
}
static inline bool tfm__jinja_is(tfm__jinja_value value, tfm__jinja_type type) {
    return value.type == type;
}
/* An integer or a boolean. */
static inline bool tfm__jinja_is_integral(tfm__jinja_value value) {
    return value.type == TFM__JINJA_INT || value.type == TFM__JINJA_BOOL;
}
static inline int64_t tfm__jinja_integral(tfm__jinja_value value) {
    return value.type == TFM__JINJA_BOOL ? value.flag : value.integer;
}
static inline bool tfm__jinja_is_number(tfm__jinja_value value) {
    return value.type == TFM__JINJA_FLOAT || tfm__jinja_is_integral(value);
}
static inline double tfm__jinja_real(tfm__jinja_value value) {
    return value.type == TFM__JINJA_FLOAT ? value.real : (double)tfm__jinja_integral(value);
}
static inline bool tfm__jinja_is_sequence(tfm__jinja_value value) {
    return value.type == TFM__JINJA_LIST || value.type == TFM__JINJA_TUPLE;
}
static inline bool tfm__jinja_string_is(const tfm__jinja_string *string, const char *text) {
    const size_t bytes = strlen(text);
    return string->bytes == bytes && memcmp(string->data, text, bytes) == 0;
}
static inline bool tfm__jinja_is_ascii(const tfm__jinja_string *string) {
    return string->chars == string->bytes;
}

/* An undefined value; `format` is the error of its use. */
tfm__jinja_value tfm__jinja_undefined(tfm__jinja *j, const char *format, ...) TFM_PRINTF(2, 3);
/* A string that shares the bytes, which are well-formed UTF-8 and outlive `j`; and a copy of them. */
tfm__jinja_value tfm__jinja_share(tfm__jinja *j, const char *data, size_t bytes);
tfm__jinja_value tfm__jinja_copy(tfm__jinja *j, const char *data, size_t bytes);
/* The same as tfm__jinja_share of a C string. */
tfm__jinja_value tfm__jinja_text(tfm__jinja *j, const char *text);
/* `value` with the markup flag of `like`. */
tfm__jinja_value tfm__jinja_like(tfm__jinja_value value, tfm__jinja_value like);
tfm__jinja_value tfm__jinja_list_new(tfm__jinja *j, tfm__jinja_type type, size_t capacity);
void tfm__jinja_list_add(tfm__jinja *j, tfm__jinja_value list, tfm__jinja_value item);
tfm__jinja_value tfm__jinja_pair(tfm__jinja *j, tfm__jinja_value first, tfm__jinja_value second);
/* "dict", "str", ...: Python's name of the type. */
const char *tfm__jinja_kind(tfm__jinja_value value);
bool tfm__jinja_truth(tfm__jinja_value value);
/* The number of characters of a string, items of a list, ...; -1 if the type has no length. */
int64_t tfm__jinja_length(tfm__jinja_value value);
/* The byte offset of a character, up to `chars`. */
size_t tfm__jinja_offset(const tfm__jinja_string *string, size_t character);

/* ---- Text being written (jinja_value.c) ---- */

typedef struct tfm__jinja_writer {
    tfm__jinja *j;
    char *data;
    size_t bytes, capacity;
} tfm__jinja_writer;

void tfm__jinja_write(tfm__jinja_writer *out, const char *data, size_t bytes);
void tfm__jinja_write_text(tfm__jinja_writer *out, const char *text);
void tfm__jinja_write_char(tfm__jinja_writer *out, int32_t c);
void tfm__jinja_write_string(tfm__jinja_writer *out, const tfm__jinja_string *string);
tfm__jinja_value tfm__jinja_written(const tfm__jinja_writer *out);

#endif
