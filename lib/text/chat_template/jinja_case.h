/* Characters and letter case as in Python's str, by ICU. */
#ifndef TFM_LIB_JINJA_CASE_H
#define TFM_LIB_JINJA_CASE_H

#include "text/chat_template/jinja.h"

/* str.isspace of a character. */
bool tfm__jinja_is_space(int32_t c);
/* `\w` of Python's `re`. */
bool tfm__jinja_is_word(int32_t c);
/* str.isprintable of a character. */
bool tfm__jinja_is_printable(int32_t c);

typedef enum tfm__jinja_case {
    TFM__JINJA_UPPER,
    TFM__JINJA_LOWER,
    TFM__JINJA_TITLE,      /* str.title */
    TFM__JINJA_CAPITALIZE, /* str.capitalize */
    TFM__JINJA_SWAP,
    TFM__JINJA_FOLD
} tfm__jinja_case;

tfm__jinja_value tfm__jinja_to_case(tfm__jinja *j, tfm__jinja_value string, tfm__jinja_case to);

/* str.isdigit and similar methods by name; false in *known for other names. */
bool tfm__jinja_string_test(const tfm__jinja_string *string, const char *name, bool *known);

#endif
