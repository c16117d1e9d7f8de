/* Values as text: Python's str and repr, json.dumps, and values of jansson. */
#ifndef TFM_LIB_JINJA_REPR_H
#define TFM_LIB_JINJA_REPR_H

#include <jansson.h>
#include "text/chat_template/jinja.h"

enum { TFM__JINJA_FLOAT_TEXT = 64 };
/* Python's repr of a float; returns `text`. */
const char *tfm__jinja_float_text(char text[TFM__JINJA_FLOAT_TEXT], double value);
/* str(value) and repr(value), added to a text. */
void tfm__jinja_write_str(tfm__jinja_writer *out, tfm__jinja_value value);
void tfm__jinja_write_repr(tfm__jinja_writer *out, tfm__jinja_value value);
/* str(value) as a string. jinja2's soft_str, which keeps markup, with `soft`. */
tfm__jinja_value tfm__jinja_str(tfm__jinja *j, tfm__jinja_value value);
tfm__jinja_value tfm__jinja_soft_str(tfm__jinja *j, tfm__jinja_value value);
tfm__jinja_value tfm__jinja_repr(tfm__jinja *j, tfm__jinja_value value);
/* A string with &, <, >, ' and " escaped, as markup; markup as it is. */
tfm__jinja_value tfm__jinja_escape(tfm__jinja *j, tfm__jinja_value value);

typedef struct tfm__jinja_json_options {
    bool ensure_ascii, sort_keys;
    tfm__jinja_value indent;             /* none: one line */
    const tfm__jinja_string *item, *key; /* separators */
} tfm__jinja_json_options;

/* json.dumps (jinja_json.c). */
tfm__jinja_value tfm__jinja_to_json(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_json_options *options);
/* A value of jansson; strings are shared. */
tfm__jinja_value tfm__jinja_from_json(tfm__jinja *j, const json_t *value);

#endif
