/* Filters and tests of jinja2. */
#ifndef TFM_LIB_JINJA_FILTERS_H
#define TFM_LIB_JINJA_FILTERS_H

#include "text/chat_template/jinja.h"

typedef tfm__jinja_value (*tfm__jinja_filter)(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args);

/* Whether jinja2 has a filter or a test of the name (jinja_filters.c, jinja_tests.c). */
bool tfm__jinja_has_filter(const tfm__jinja_string *name);
bool tfm__jinja_has_test(const tfm__jinja_string *name);
tfm__jinja_value tfm__jinja_call_filter(tfm__jinja *j, const tfm__jinja_string *name, tfm__jinja_value value,
                                        const tfm__jinja_args *args);
bool tfm__jinja_call_test(tfm__jinja *j, const tfm__jinja_string *name, tfm__jinja_value value,
                          const tfm__jinja_args *args);

/* Groups of filters: the function of a name, or NULL. */
tfm__jinja_filter tfm__jinja_text_filter(const tfm__jinja_string *name);
tfm__jinja_filter tfm__jinja_number_filter(const tfm__jinja_string *name);
tfm__jinja_filter tfm__jinja_list_filter(const tfm__jinja_string *name);
tfm__jinja_filter tfm__jinja_select_filter(const tfm__jinja_string *name);
tfm__jinja_filter tfm__jinja_sort_filter(const tfm__jinja_string *name);

/* ---- jinja_getter.c ---- */

/* Reads an attribute such as "function.name" or 0 of an item. */
typedef struct tfm__jinja_getter {
    size_t count;
    tfm__jinja_value *parts;
    tfm__jinja_value fallback; /* for undefined attributes, or TFM__JINJA_MISSING */
    bool fold;                 /* strings in lower case */
} tfm__jinja_getter;

tfm__jinja_getter tfm__jinja_getter_new(tfm__jinja *j, tfm__jinja_value attribute);
tfm__jinja_value tfm__jinja_get(tfm__jinja *j, const tfm__jinja_getter *getter, tfm__jinja_value item);

/* Python's int(text, base) and float(text): false if the text is no number. */
bool tfm__jinja_parse_int(tfm__jinja *j, int64_t *out, const tfm__jinja_string *text, int64_t base);
bool tfm__jinja_parse_float(double *out, const tfm__jinja_string *text);

#endif
