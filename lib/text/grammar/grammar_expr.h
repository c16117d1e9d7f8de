/* Expressions of GBNF and of regular expressions, as trees. */
#ifndef TFM_LIB_GRAMMAR_EXPR_H
#define TFM_LIB_GRAMMAR_EXPR_H

#include "text/grammar/grammar_builder.h"

typedef enum tfm__expr_kind {
    TFM__EXPR_SEQUENCE,    /* of all children */
    TFM__EXPR_ALTERNATIVE, /* one of its children */
    TFM__EXPR_CHAR,        /* set `value` */
    TFM__EXPR_REPEAT,      /* its child, `low` to `high` times */
    TFM__EXPR_RULE         /* rule `value` */
} tfm__expr_kind;

enum { TFM__EXPR_UNBOUNDED = -1 };

typedef struct tfm__expr {
    tfm__expr_kind kind;
    uint32_t last;   /* the last child, or TFM__NO_ID */
    uint32_t before; /* the sibling before it, or TFM__NO_ID */
    uint32_t value;
    int32_t low, high;
} tfm__expr;

/* Initially {0}. After an allocation failure it stays `failed`. */
typedef struct tfm__exprs {
    tfm__expr *items;
    size_t count, capacity;
    tfm__char_set *sets;
    size_t set_count, set_capacity;
    bool failed;
} tfm__exprs;

void tfm__exprs_free(tfm__exprs *exprs);

uint32_t tfm__expr_new(tfm__exprs *exprs, tfm__expr_kind kind, uint32_t value);
void tfm__expr_add(tfm__exprs *exprs, uint32_t parent, uint32_t child);
/* Takes the last child of `parent` away, and adds its repetition. */
void tfm__expr_repeat_last(tfm__exprs *exprs, uint32_t parent, int32_t low, int32_t high);
/* A character of a finished set, whose memory is taken over; one character. */
uint32_t tfm__expr_char_set(tfm__exprs *exprs, tfm__char_set *set);
uint32_t tfm__expr_char(tfm__exprs *exprs, uint32_t c);

/* The graph of an expression before `next`: with nodes of bytes, or with `characters` of the
 * sets of `exprs` (TFM__NODE_KIND_CHAR). */
uint32_t tfm__expr_emit(tfm__grammar_builder *builder, const tfm__exprs *exprs, uint32_t expr, bool characters,
                        uint32_t next);

#endif
