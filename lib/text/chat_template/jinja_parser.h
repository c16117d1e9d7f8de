/* The syntax tree of a template: jinja2's grammar. */
#ifndef TFM_LIB_JINJA_PARSER_H
#define TFM_LIB_JINJA_PARSER_H

#include "text/chat_template/jinja_lexer.h"

typedef enum tfm__jinja_kind_of_node {
    /* Statements. `body` and `other` are lists of them. */
    TFM__JINJA_N_DATA,         /* value */
    TFM__JINJA_N_OUTPUT,       /* a */
    TFM__JINJA_N_FOR,          /* a: target, b: iterable, c: filter or NULL; body, other: else; flag: recursive */
    TFM__JINJA_N_IF,           /* a: condition; body; other: else; flag: `other` is one elif */
    TFM__JINJA_N_SET,          /* a: target, b: value */
    TFM__JINJA_N_SET_BLOCK,    /* a: target, b: filter or NULL; body */
    TFM__JINJA_N_MACRO,        /* name; list: parameters (a NAME each, with `a`: default); body */
    TFM__JINJA_N_CALL_BLOCK,   /* a: the call; list: parameters; body */
    TFM__JINJA_N_FILTER_BLOCK, /* b: filter; body */
    TFM__JINJA_N_WITH,         /* list: a SET each; body */
    TFM__JINJA_N_GENERATION,   /* body: a call block without parameters */
    TFM__JINJA_N_BREAK,
    TFM__JINJA_N_CONTINUE,
    /* Expressions */
    TFM__JINJA_N_CONST,    /* value */
    TFM__JINJA_N_NAME,     /* name */
    TFM__JINJA_N_NSREF,    /* name, value: the attribute */
    TFM__JINJA_N_TUPLE,    /* list */
    TFM__JINJA_N_LIST,     /* list */
    TFM__JINJA_N_DICT,     /* list: a PAIR each */
    TFM__JINJA_N_PAIR,     /* a: key, b: value */
    TFM__JINJA_N_COND,     /* a: condition, b: value, c: else or NULL */
    TFM__JINJA_N_OR,       /* a, b */
    TFM__JINJA_N_AND,      /* a, b */
    TFM__JINJA_N_NOT,      /* a */
    TFM__JINJA_N_COMPARE,  /* a; list: an OPERAND each */
    TFM__JINJA_N_OPERAND,  /* name: operator, a */
    TFM__JINJA_N_BINARY,   /* name: operator, a, b */
    TFM__JINJA_N_CONCAT,   /* a, b */
    TFM__JINJA_N_NEG,      /* a */
    TFM__JINJA_N_POS,      /* a */
    TFM__JINJA_N_GETATTR,  /* a, name */
    TFM__JINJA_N_GETITEM,  /* a, b: subscript */
    TFM__JINJA_N_SLICE,    /* a, b, c: each may be NULL */
    TFM__JINJA_N_CALL,     /* a; list: arguments */
    TFM__JINJA_N_FILTER,   /* a, or NULL for the text of a block; name; list: arguments */
    TFM__JINJA_N_TEST,     /* a; name; list: arguments */
    TFM__JINJA_N_KEYWORD,  /* name, a: an argument */
    TFM__JINJA_N_STAR,     /* a: an iterable of arguments */
    TFM__JINJA_N_STAR_STAR /* a: a dict of arguments */
} tfm__jinja_kind_of_node;

typedef struct tfm__jinja_node tfm__jinja_node;

struct tfm__jinja_node {
    tfm__jinja_kind_of_node kind;
    int line;
    bool flag;
    bool caller, kwargs, varargs; /* of macros and call blocks: the body uses the variable */
    bool keeps_scope;             /* of loops: the body defines macros, which keep the scope of their iteration */
    const tfm__jinja_string *name;
    tfm__jinja_value value;
    tfm__jinja_node *a, *b, *c;
    tfm__jinja_node *list, *body, *other;
    tfm__jinja_node *next;
};

typedef struct tfm__jinja_parser {
    tfm__jinja *j;
    const tfm__jinja_token *at;
    int loops;              /* for statements around the current one, within its macro */
    tfm__jinja_node failed; /* the node after a failure; its content is never used */
} tfm__jinja_parser;

/* The statements of a template; NULL for none, or after a failure. */
tfm__jinja_node *tfm__jinja_parse(tfm__jinja *j, const char *text, size_t bytes);

/* ---- jinja_parse_expression.c ---- */

typedef enum tfm__jinja_tuple_end {
    TFM__JINJA_TUPLE_TAG,
    TFM__JINJA_TUPLE_IN,
    TFM__JINJA_TUPLE_RECURSIVE
} tfm__jinja_tuple_end;

tfm__jinja_node *tfm__jinja_parse_expression(tfm__jinja_parser *p);
/* An expression, or a tuple without parentheses; `conditional`: x if y is allowed. */
tfm__jinja_node *tfm__jinja_parse_tuple(tfm__jinja_parser *p, bool conditional);
/* The target of an assignment. */
tfm__jinja_node *tfm__jinja_parse_target(tfm__jinja_parser *p, bool namespace);
/* Filters: from the `|` on, or from a name on if `from_name`. */
tfm__jinja_node *tfm__jinja_parse_filters(tfm__jinja_parser *p, tfm__jinja_node *value, bool from_name);

/* ---- jinja_tokens.c ---- */

/* Skips a token, but not the end, and returns it. */
static inline const tfm__jinja_token *tfm__jinja_next(tfm__jinja_parser *p) {
    return p->at->kind == TFM__JINJA_END ? p->at : p->at++;
}

tfm__jinja_node *tfm__jinja_node_new(tfm__jinja_parser *p, tfm__jinja_kind_of_node kind, int line);
/* Appends to a list; *end is the place of its NULL. */
void tfm__jinja_node_append(tfm__jinja_node ***end, tfm__jinja_node *node);
bool tfm__jinja_token_is(const tfm__jinja_token *token, tfm__jinja_token_kind kind, const char *text);
bool tfm__jinja_at_operator(const tfm__jinja_parser *p, const char *text);
bool tfm__jinja_at_name(const tfm__jinja_parser *p, const char *text);
/* Skips the token if it is next. */
bool tfm__jinja_skip_operator(tfm__jinja_parser *p, const char *text);
bool tfm__jinja_skip_name(tfm__jinja_parser *p, const char *text);
/* Skips it, or fails. */
void tfm__jinja_expect_operator(tfm__jinja_parser *p, const char *text);
const tfm__jinja_string *tfm__jinja_expect_name(tfm__jinja_parser *p);
void tfm__jinja_unexpected(tfm__jinja_parser *p, const char *wanted);

#endif
