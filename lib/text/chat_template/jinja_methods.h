/* Methods of strings, lists and dicts. */
#ifndef TFM_LIB_JINJA_METHODS_H
#define TFM_LIB_JINJA_METHODS_H

#include "text/chat_template/jinja.h"

/* Calls a method (jinja_methods.c). */
tfm__jinja_value tfm__jinja_call_method(tfm__jinja *j, const tfm__jinja_object *method, const tfm__jinja_args *args);
/* Methods of strings, by name (jinja_string_methods.c). */
tfm__jinja_value tfm__jinja_string_method(tfm__jinja *j, tfm__jinja_value self, const char *name,
                                          const tfm__jinja_args *args);

/* ---- jinja_split.c and jinja_search.c ---- */

typedef enum tfm__jinja_side { TFM__JINJA_LEFT = 1, TFM__JINJA_RIGHT = 2, TFM__JINJA_BOTH = 3 } tfm__jinja_side;

/* strip(), lstrip(), rstrip(): `chars` may be none. */
tfm__jinja_value tfm__jinja_strip(tfm__jinja *j, tfm__jinja_value string, tfm__jinja_value chars, tfm__jinja_side side);
/* split(), rsplit(): `separator` may be none. */
tfm__jinja_value tfm__jinja_split(tfm__jinja *j, tfm__jinja_value string, tfm__jinja_value separator, int64_t limit,
                                  bool right);
tfm__jinja_value tfm__jinja_splitlines(tfm__jinja *j, tfm__jinja_value string, bool keep_ends);
tfm__jinja_value tfm__jinja_partition(tfm__jinja *j, tfm__jinja_value string, const tfm__jinja_string *separator,
                                      bool right);
/* replace(); count -1: all. */
tfm__jinja_value tfm__jinja_replace(tfm__jinja *j, tfm__jinja_value string, const tfm__jinja_string *old,
                                    const tfm__jinja_string *by, int64_t count);
/* separator.join(items); `strict`: items must be strings, as in Python. */
tfm__jinja_value tfm__jinja_join(tfm__jinja *j, const tfm__jinja_string *separator, tfm__jinja_value items,
                                 bool strict);
/* center(), ljust() and rjust(). */
tfm__jinja_value tfm__jinja_pad(tfm__jinja *j, tfm__jinja_value string, int64_t width, int32_t fill,
                                tfm__jinja_side side);
/* The first or last occurrence between two byte offsets, or -1. */
int64_t tfm__jinja_find(tfm__jinja *j, const tfm__jinja_string *string, size_t from, size_t to,
                        const tfm__jinja_string *part, bool last);
/* find, rfind, index, rindex, count, startswith and endswith. */
tfm__jinja_value tfm__jinja_search(tfm__jinja *j, tfm__jinja_value self, const char *name, const tfm__jinja_args *args);

#endif
