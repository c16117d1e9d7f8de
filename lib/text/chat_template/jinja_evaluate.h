/* Expressions and statements of a parsed template. */
#ifndef TFM_LIB_JINJA_EVALUATE_H
#define TFM_LIB_JINJA_EVALUATE_H

#include <time.h>
#include "text/chat_template/jinja_dict.h"
#include "text/chat_template/jinja_object.h"
#include "text/chat_template/jinja_parser.h"

/* The variables of a scope. */
typedef struct tfm__jinja_frame {
    struct tfm__jinja_frame *parent;
    tfm__jinja_dict *variables; /* NULL: none yet */
} tfm__jinja_frame;

typedef struct tfm__jinja_time {
    struct tm local;
    int microseconds;
} tfm__jinja_time;

/* Fails for filters and tests that jinja2 does not have, unless they are in a branch that may not run. */
void tfm__jinja_check(tfm__jinja *j, const tfm__jinja_node *body);

/* ---- jinja_evaluate.c ---- */

tfm__jinja_value tfm__jinja_evaluate(tfm__jinja *j, const tfm__jinja_node *node, tfm__jinja_frame *frame);
void tfm__jinja_set_variable(tfm__jinja *j, tfm__jinja_frame *frame, const tfm__jinja_string *name,
                             tfm__jinja_value value);
/* Assigns to a name, a tuple of names, or an attribute of a namespace. */
void tfm__jinja_assign(tfm__jinja *j, const tfm__jinja_node *target, tfm__jinja_frame *frame, tfm__jinja_value value);
/* The call of a CALL node; `caller` is the macro of a call block, or TFM__JINJA_MISSING. */
tfm__jinja_value tfm__jinja_evaluate_call(tfm__jinja *j, const tfm__jinja_node *node, tfm__jinja_frame *frame,
                                          tfm__jinja_value caller);
/* A filter of a block applied to its text; NULL gives the text. */
tfm__jinja_value tfm__jinja_evaluate_filter(tfm__jinja *j, const tfm__jinja_node *node, tfm__jinja_frame *frame,
                                            tfm__jinja_value text);

/* ---- jinja_functions.c ---- */

/* A global function by name, TFM__JINJA_MISSING if there is none; and its call. */
tfm__jinja_value tfm__jinja_global(tfm__jinja *j, const tfm__jinja_string *name);
tfm__jinja_value tfm__jinja_call_function(tfm__jinja *j, const char *name, const tfm__jinja_args *args);

/* ---- jinja_execute.c ---- */

/* Renders a parsed template; `variables` are those of the caller. */
tfm__jinja_value tfm__jinja_render(tfm__jinja *j, const tfm__jinja_node *body, tfm__jinja_dict *variables);

#endif
