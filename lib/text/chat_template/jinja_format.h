/* Python's format specifications, the operator % of strings, and str.format. */
#ifndef TFM_LIB_JINJA_FORMAT_H
#define TFM_LIB_JINJA_FORMAT_H

#include "text/chat_template/jinja.h"

typedef struct tfm__jinja_spec {
    int32_t fill;
    char align, sign, grouping, type; /* 0: none */
    bool alternate, zero;
    int64_t width, precision; /* precision -1: none */
} tfm__jinja_spec;

/* Writes a number or string with a specification (jinja_format_spec.c). */
void tfm__jinja_write_spec(tfm__jinja_writer *out, tfm__jinja_value value, const tfm__jinja_spec *spec);
/* Pads a text to the width; `prefix` bytes of sign stay before zeros. */
void tfm__jinja_write_padded(tfm__jinja_writer *out, tfm__jinja_value text, const tfm__jinja_spec *spec, char align,
                             size_t prefix);
/* Reads decimal digits; fails if there are too many. */
int64_t tfm__jinja_read_digits(tfm__jinja *j, const char **at, const char *end);
/* format(value, spec). */
void tfm__jinja_write_format(tfm__jinja_writer *out, tfm__jinja_value value, const char *spec, const char *end);

/* format % values. */
tfm__jinja_value tfm__jinja_percent(tfm__jinja *j, tfm__jinja_value format, tfm__jinja_value values);
/* format.format(...). */
tfm__jinja_value tfm__jinja_str_format(tfm__jinja *j, tfm__jinja_value format, const tfm__jinja_args *args);

#endif
