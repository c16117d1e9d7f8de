/* Regular expressions of JSON schemas. */
#ifndef TFM_LIB_SCHEMA_PATTERN_H
#define TFM_LIB_SCHEMA_PATTERN_H

#include "text/grammar/grammar_expr.h"

/* The texts that a regular expression of ECMA-262 (with the flag u) finds a match in, as an expression. On failure
 * `builder` has the status; the message contains `pointer`. */
uint32_t tfm__schema_pattern_read(tfm__exprs *exprs, tfm__grammar_builder *builder, const char *pattern,
                                  const char *pointer);

#endif
