/* Methods, macros, loops and helpers as values; attributes, subscripts and iteration. */
#ifndef TFM_LIB_JINJA_OBJECT_H
#define TFM_LIB_JINJA_OBJECT_H

#include "text/chat_template/jinja.h"

struct tfm__jinja_object {
    tfm__jinja_value self; /* of a method: its object; of a cycler and a joiner: the items and the separator */
    const char *name;      /* of a method and a function */
    const struct tfm__jinja_node *node; /* of a macro and a recursive loop */
    struct tfm__jinja_frame *frame;
    /* Of loops. `after` is an item read ahead. */
    tfm__jinja_iterator *iterator;
    tfm__jinja_value iterable, current, before, after, changed;
    int64_t index, length, depth; /* from 0; length -1: not known yet. `index` is a cycler's position too */
};

/* A method of a value, or a function by name. */
tfm__jinja_value tfm__jinja_method(tfm__jinja *j, tfm__jinja_value self, const char *name);
tfm__jinja_value tfm__jinja_function(tfm__jinja *j, const char *name);

/* ---- jinja_iterate.c ---- */

struct tfm__jinja_iterator {
    /* The next item, or TFM__JINJA_MISSING. */
    tfm__jinja_value (*next)(tfm__jinja *j, tfm__jinja_iterator *it);
    tfm__jinja_value source;
    size_t at;
    tfm__jinja_iterator *inner; /* of filters: the items that they read */
    void *state;
};

/* An iterator over a value; NULL with an error if it has no items. */
tfm__jinja_iterator *tfm__jinja_iterate(tfm__jinja *j, tfm__jinja_value value);
bool tfm__jinja_is_iterable(tfm__jinja_value value);
tfm__jinja_value tfm__jinja_iterator_next(tfm__jinja *j, tfm__jinja_iterator *it);
/* A generator, with `next` as its function. */
tfm__jinja_value tfm__jinja_generator(tfm__jinja *j, tfm__jinja_value (*next)(tfm__jinja *j, tfm__jinja_iterator *it),
                                      tfm__jinja_iterator *inner, void *state);
/* The items as a new list. */
tfm__jinja_value tfm__jinja_to_list(tfm__jinja *j, tfm__jinja_value value);
/* The items in reverse: an iterator; of a generator TFM__JINJA_MISSING. */
tfm__jinja_value tfm__jinja_reversed(tfm__jinja *j, tfm__jinja_value value);
/* `item in value`. */
bool tfm__jinja_contains(tfm__jinja *j, tfm__jinja_value value, tfm__jinja_value item);

/* ---- jinja_loop.c ---- */

tfm__jinja_value tfm__jinja_loop_next(tfm__jinja *j, tfm__jinja_object *loop);
/* A field or method of `loop`; TFM__JINJA_MISSING for another name. */
tfm__jinja_value tfm__jinja_loop_attribute(tfm__jinja *j, tfm__jinja_value loop, const tfm__jinja_string *name);
tfm__jinja_value tfm__jinja_loop_call(tfm__jinja *j, const tfm__jinja_object *method, const tfm__jinja_args *args);

/* ---- jinja_attribute.c ---- */

tfm__jinja_value tfm__jinja_getattr(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_string *name);
tfm__jinja_value tfm__jinja_getitem(tfm__jinja *j, tfm__jinja_value value, tfm__jinja_value key);
/* value[from:to:step]; each may be none. */
tfm__jinja_value tfm__jinja_slice(tfm__jinja *j, tfm__jinja_value value, tfm__jinja_value from, tfm__jinja_value to,
                                  tfm__jinja_value step);

/* ---- jinja_operators.c ---- */

tfm__jinja_value tfm__jinja_binary(tfm__jinja *j, const tfm__jinja_string *op, tfm__jinja_value a, tfm__jinja_value b);
tfm__jinja_value tfm__jinja_negative(tfm__jinja *j, tfm__jinja_value value, bool negative);

/* ---- jinja_arguments.c ---- */

/* Binds arguments to parameters: names between blanks, "/name" for positional ones only. Parameters without an argument
 * are TFM__JINJA_MISSING; fails if one of the first `required` is, or for an argument too many. */
bool tfm__jinja_bind(tfm__jinja *j, const char *call, const tfm__jinja_args *args, const char *names, size_t required,
                     tfm__jinja_value *out);
/* The named argument, or NULL. */
const tfm__jinja_value *tfm__jinja_argument(const tfm__jinja_args *args, const char *name);
/* A bound argument as an integer or a string: the default if it is missing; fails for other types. */
int64_t tfm__jinja_int_argument(tfm__jinja *j, tfm__jinja_value value, int64_t fallback);
const tfm__jinja_string *tfm__jinja_string_argument(tfm__jinja *j, tfm__jinja_value value, const char *fallback);

#endif
