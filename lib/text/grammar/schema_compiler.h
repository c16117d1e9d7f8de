/* JSON schemas to grammars. A function with `next` builds the graph of a JSON text before that node. */
#ifndef TFM_LIB_SCHEMA_COMPILER_H
#define TFM_LIB_SCHEMA_COMPILER_H

#include <jansson.h>
#include "text/grammar/grammar_builder.h"

typedef struct tfm__schema_compiler tfm__schema_compiler;
struct tfm__schema_compiler {
    tfm__grammar_builder *builder;
    uint32_t (*emit)(tfm__schema_compiler *c, const json_t *schema, uint32_t next); /* any schema */
    const json_t *root;
    json_t *made;      /* a list of schemas made from others */
    json_t *refs;      /* rule numbers by JSON pointer */
    json_t *pending;   /* a list of JSON pointers whose rules have no graph yet */
    char pointer[512]; /* of the schema that is compiled, for messages; long ones are cut */
    int depth, nested; /* nested: compilers around this one */
    uint32_t any, string, character, blank, integer, number; /* rules, or TFM__NO_ID */
};

/* Appends to the pointer; returns its length before, for tfm__schema_leave. */
size_t tfm__schema_enter(tfm__schema_compiler *c, const char *key);
void tfm__schema_leave(tfm__schema_compiler *c, size_t length);
/* Reports a keyword at the pointer. */
void tfm__schema_refuse(tfm__schema_compiler *c, tfm_status status, const char *keyword, const char *why);
/* Keeps a new value, which may be NULL without memory, and returns it. */
json_t *tfm__schema_keep(tfm__schema_compiler *c, json_t *value);
/* Sets the status if a call of jansson has failed. */
void tfm__schema_check(tfm__schema_compiler *c, int failed);

/* Values of keywords; a wrong type is an error. The count is `otherwise` if there is none. */
int64_t tfm__schema_count(tfm__schema_compiler *c, const json_t *schema, const char *keyword, int64_t otherwise);
const char *tfm__schema_string(tfm__schema_compiler *c, const json_t *schema, const char *keyword);

/* json_values.c: parts of JSON; a constant. */
uint32_t tfm__json_blank(tfm__schema_compiler *c, uint32_t next);
uint32_t tfm__json_any(tfm__schema_compiler *c, uint32_t next);
uint32_t tfm__json_string(tfm__schema_compiler *c, uint32_t next);
uint32_t tfm__json_value(tfm__schema_compiler *c, const json_t *value, uint32_t next);
uint32_t tfm__json_literal(tfm__schema_compiler *c, const char *text, size_t bytes, uint32_t next);
/* A character within a string: any one with all of its escapes, or one of a set with the escapes that it needs. */
uint32_t tfm__json_any_char(tfm__schema_compiler *c, uint32_t next, bool by_rule);
uint32_t tfm__json_char(tfm__schema_compiler *c, const tfm__char_set *set, uint32_t next);

/* By type: schema_string.c, schema_number.c, schema_object.c, schema_array.c. */
uint32_t tfm__schema_string_emit(tfm__schema_compiler *c, const json_t *schema, uint32_t next);
uint32_t tfm__schema_number_emit(tfm__schema_compiler *c, const json_t *schema, bool integer, uint32_t next);
uint32_t tfm__schema_object_emit(tfm__schema_compiler *c, const json_t *schema, uint32_t next);
uint32_t tfm__schema_array_emit(tfm__schema_compiler *c, const json_t *schema, uint32_t next);

/* Types as bits; an integer is a number too. */
enum {
    TFM__SCHEMA_NULL = 1,
    TFM__SCHEMA_BOOLEAN = 2,
    TFM__SCHEMA_INTEGER = 4,
    TFM__SCHEMA_FRACTION = 8, /* numbers with one, or with an exponent */
    TFM__SCHEMA_STRING = 16,
    TFM__SCHEMA_ARRAY = 32,
    TFM__SCHEMA_OBJECT = 64,
    TFM__SCHEMA_ANY = 127
};

/* schema_merge.c: refuses unknown keywords; does so, and replaces $ref and allOf by what they mean; true, false or an
 * object. NULL after a failure. */
void tfm__schema_check_keywords(tfm__schema_compiler *c, const json_t *schema);
const json_t *tfm__schema_resolve(tfm__schema_compiler *c, const json_t *schema);
/* The schema of texts that are valid for both of two resolved ones. */
const json_t *tfm__schema_merge(tfm__schema_compiler *c, const json_t *a, const json_t *b);
/* A copy without some keywords; NULL after a failure. */
json_t *tfm__schema_without(tfm__schema_compiler *c, const json_t *schema, const char *first, const char *second);
/* Whether any keyword restricts texts. */
bool tfm__schema_restricts(const json_t *schema);
/* The schema of a reference such as "#/$defs/item"; NULL after a failure. */
const json_t *tfm__schema_find(tfm__schema_compiler *c, const char *reference);

/* schema_types.c: the types of a resolved schema; value `i` of its `enum` or `const`, where *count is 0 without them.
 */
int tfm__schema_types(tfm__schema_compiler *c, const json_t *schema);
const json_t *tfm__schema_constant(const json_t *schema, size_t i, size_t *count);
/* schema_disjoint.c: whether no value is valid for both of two schemas; false also if that is not clear. */
bool tfm__schema_disjoint(tfm__schema_compiler *c, const json_t *a, const json_t *b, int depth);

#endif
