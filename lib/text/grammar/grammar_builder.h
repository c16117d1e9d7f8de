/* Building of a grammar: rules as graphs of nodes that read bytes.
 *
 * Graphs are built from their end: a function takes the node that follows, and returns the first one. Equal nodes are
 * one node. After a failure the builder keeps its status, and all functions return TFM__NODE_FAIL. */
#ifndef TFM_LIB_GRAMMAR_BUILDER_H
#define TFM_LIB_GRAMMAR_BUILDER_H

#include "text/grammar/char_set.h"
#include "text/grammar/grammar_nodes.h"
#include "text/grammar/id_table.h"

/* Initially {0}; `name` begins error messages. */
typedef struct tfm__grammar_builder {
    const char *name;
    tfm_status status;
    tfm__grammar_node *nodes;
    size_t node_count, node_capacity;
    tfm__byte_set *sets; /* of bytes */
    size_t set_count, set_capacity;
    tfm__grammar_rule *rules;
    size_t rule_count, rule_capacity;
    uint32_t (*hints)[2]; /* nodes of a repetition that may be alike */
    size_t hint_count, hint_capacity;
    tfm__id_table node_table, set_table;
    size_t steps;
} tfm__grammar_builder;

void tfm__grammar_builder_free(tfm__grammar_builder *builder);

/* Sets the status, with the message of tfm__fail after the builder's name, unless it is set. */
void tfm__grammar_fail(tfm__grammar_builder *builder, tfm_status status, const char *format, ...) TFM_PRINTF(3, 4);
/* Counts a step of building, whose number is limited; false after a failure. */
bool tfm__grammar_step(tfm__grammar_builder *builder);
/* The same for several steps. */
bool tfm__grammar_steps(tfm__grammar_builder *builder, size_t count);

uint32_t tfm__grammar_node_add(tfm__grammar_builder *builder, tfm__grammar_node_kind kind, uint32_t a, uint32_t b);
/* A node that will be one of two (tfm__grammar_node_set), for loops. */
uint32_t tfm__grammar_node_reserve(tfm__grammar_builder *builder);
void tfm__grammar_node_set(tfm__grammar_builder *builder, uint32_t node, uint32_t a, uint32_t b);

/* Notes that a copy of a repeated graph is similar to the one after it. */
void tfm__grammar_hint(tfm__grammar_builder *builder, uint32_t node, uint32_t similar);

/* One byte of a set, one byte, or a text; a character of a set as UTF-8; one of two graphs; nothing or a graph. */
uint32_t tfm__grammar_bytes(tfm__grammar_builder *builder, const tfm__byte_set *set, uint32_t next);
uint32_t tfm__grammar_byte_range(tfm__grammar_builder *builder, unsigned low, unsigned high, uint32_t next);
uint32_t tfm__grammar_text(tfm__grammar_builder *builder, const char *text, size_t bytes, uint32_t next);
uint32_t tfm__grammar_char(tfm__grammar_builder *builder, const tfm__char_set *set, uint32_t next);
uint32_t tfm__grammar_either(tfm__grammar_builder *builder, uint32_t a, uint32_t b);

/* A rule without a graph, then its graph; the root is rule 0. `name` is copied. */
uint32_t tfm__grammar_rule_add(tfm__grammar_builder *builder, const char *name, size_t bytes);
void tfm__grammar_rule_set(tfm__grammar_builder *builder, uint32_t rule, uint32_t start);
uint32_t tfm__grammar_call(tfm__grammar_builder *builder, uint32_t rule, uint32_t next);

/* Finds the nodes that are alike (grammar_alike.c); *out has `node_count` entries. */
tfm_status tfm__grammar_find_alike(tfm__grammar_alike **out, const tfm__grammar_builder *builder);

/* Checks the rules and makes the grammar; the builder is then empty. TFM_ERROR_UNSUPPORTED for left recursion. */
tfm_status tfm__grammar_finish(tfm_grammar **out, tfm__grammar_builder *builder);

#endif
