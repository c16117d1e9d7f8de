/* Tokens of a template, as jinja2 makes them with trim_blocks and lstrip_blocks. */
#ifndef TFM_LIB_JINJA_LEXER_H
#define TFM_LIB_JINJA_LEXER_H

#include "text/chat_template/jinja.h"

typedef enum tfm__jinja_token_kind {
    TFM__JINJA_END, /* of the template */
    TFM__JINJA_DATA,
    TFM__JINJA_VARIABLE_BEGIN,
    TFM__JINJA_VARIABLE_END,
    TFM__JINJA_BLOCK_BEGIN,
    TFM__JINJA_BLOCK_END,
    TFM__JINJA_NAME,
    TFM__JINJA_TEXT,    /* a string literal */
    TFM__JINJA_NUMBER,  /* an integer literal */
    TFM__JINJA_REAL,    /* a float literal */
    TFM__JINJA_OPERATOR /* `text` is one of the operators below */
} tfm__jinja_token_kind;

typedef struct tfm__jinja_token {
    tfm__jinja_token_kind kind;
    int line;
    tfm__jinja_value value; /* of data, names and operators: the text; of literals: the value */
} tfm__jinja_token;

typedef struct tfm__jinja_tokens {
    tfm__jinja_token *items; /* the last one is TFM__JINJA_END */
    size_t count, capacity;
} tfm__jinja_tokens;

/* Splits well-formed UTF-8 into tokens. */
tfm__jinja_tokens tfm__jinja_lex(tfm__jinja *j, const char *text, size_t bytes);

/* The value of a string literal of a template, without its quotes (jinja_literal.c). */
tfm__jinja_value tfm__jinja_literal_string(tfm__jinja *j, const char *text, size_t bytes);
/* The bytes of a number literal at the beginning of the text, and its value; 0 if there is none. */
size_t tfm__jinja_literal_number(tfm__jinja *j, tfm__jinja_value *value, const char *text, size_t bytes,
                                 bool after_dot);

#endif
