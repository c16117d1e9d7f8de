/* The automaton of a grammar: states are sets of nodes with their stacks, made when they are first reached.
 *
 * A stack is a node to return to and the stack below it; equal stacks are one, so that states share them. Below the
 * stack UNKNOWN nothing is known: a state that reads past it has `leaves`. */
#ifndef TFM_LIB_AUTOMATON_H
#define TFM_LIB_AUTOMATON_H

#include "text/grammar/grammar_nodes.h"
#include "text/grammar/id_table.h"

enum { TFM__STACK_BOTTOM, TFM__STACK_UNKNOWN };

/* A node of kind BYTES, and the stack when it is reached. */
typedef struct tfm__position {
    uint32_t stack, node;
} tfm__position;

typedef struct tfm__automaton_state {
    uint32_t begin, count; /* in `positions`, sorted */
    bool ends;             /* the text is complete */
    bool leaves;           /* a rule above UNKNOWN has ended */
} tfm__automaton_state;

enum { TFM__STATE_DEAD }; /* without positions */

typedef struct tfm__automaton {
    const tfm_grammar *grammar;
    tfm__position *stacks, *positions; /* a stack is the one below it, and the node to return to */
    size_t stack_count, stack_capacity, position_count, position_capacity;
    tfm__automaton_state *states;
    uint32_t *moves; /* by state and class of byte: a state, or TFM__NO_ID if it is not known yet */
    size_t state_count, state_capacity, move_capacity;
    tfm__id_table stack_table, state_table, seen_table;
    tfm__position *seen; /* of one closure */
    size_t seen_count, seen_capacity;
} tfm__automaton;

/* `grammar` outlives it. */
tfm_status tfm__automaton_init(tfm__automaton *automaton, const tfm_grammar *grammar);
void tfm__automaton_free(tfm__automaton *automaton);

/* The state of the positions, before and after rules are entered and left; the first state of a text. */
tfm_status tfm__automaton_state_of(tfm__automaton *automaton, uint32_t *state, const tfm__position *positions,
                                   size_t count);
tfm_status tfm__automaton_start(tfm__automaton *automaton, uint32_t *state);
/* The state after a byte. tfm__automaton_move computes unknown ones. */
tfm_status tfm__automaton_move(tfm__automaton *automaton, uint32_t *state, uint32_t from, unsigned char byte);

static inline tfm_status tfm__automaton_next(tfm__automaton *automaton, uint32_t *state, unsigned char byte) {
    const tfm_grammar *grammar = automaton->grammar;
    const uint32_t to = automaton->moves[(size_t)*state * (size_t)grammar->class_count + grammar->class_of[byte]];
    if (to == TFM__NO_ID)
        return tfm__automaton_move(automaton, state, *state, byte);
    *state = to;
    return TFM_OK;
}

/* If much memory is used, forgets all states except *state, which gets another number. */
tfm_status tfm__automaton_trim(tfm__automaton *automaton, uint32_t *state);

#endif
