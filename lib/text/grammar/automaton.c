#include <string.h>
#include "text/grammar/automaton.h"

/* Limits of one state, and of all; trimming begins at half of the latter. */
enum { MAX_SEEN = 1 << 16, MAX_BYTES = 64 << 20 };

void tfm__automaton_free(tfm__automaton *a) {
    free(a->stacks);
    free(a->positions);
    free(a->states);
    free(a->moves);
    free(a->seen);
    tfm__id_table_free(&a->stack_table);
    tfm__id_table_free(&a->state_table);
    tfm__id_table_free(&a->seen_table);
    *a = (tfm__automaton){0};
}

static size_t memory(const tfm__automaton *a) {
    return a->stack_count * (sizeof(*a->stacks) + 32) + a->position_count * sizeof(*a->positions) +
           a->state_count * (sizeof(*a->states) + 32 + (size_t)a->grammar->class_count * sizeof(*a->moves));
}

static tfm_status too_large(void) {
    return tfm__fail(TFM_ERROR_UNSUPPORTED,
                     "the grammar is too ambiguous: it needs more than %d positions in one state "
                     "or %d MiB of states; use fewer alternatives that begin alike",
                     MAX_SEEN, MAX_BYTES >> 20);
}

/* ---- Stacks ------------------------------------------------------------------------------------------- */

static tfm_status push(tfm__automaton *a, uint32_t *out, uint32_t node, uint32_t below) {
    const uint64_t hash = tfm__id_hash(tfm__id_hash(1, node), below);
    for (size_t at = 0; (*out = tfm__id_table_next(&a->stack_table, hash, &at)) != TFM__NO_ID;)
        if (a->stacks[*out].node == node && a->stacks[*out].stack == below)
            return TFM_OK;
    *out = (uint32_t)a->stack_count;
    tfm_status status = tfm__grow(&a->stacks, &a->stack_capacity, a->stack_count + 1, sizeof(*a->stacks));
    if (status == TFM_OK)
        status = tfm__id_table_add(&a->stack_table, hash, *out);
    if (status == TFM_OK)
        a->stacks[a->stack_count++] = (tfm__position){below, node};
    return status;
}

/* ---- Closure ------------------------------------------------------------------------------------------ */

/* Adds a position unless it is known. */
static tfm_status see(tfm__automaton *a, uint32_t node, uint32_t stack) {
    const uint64_t hash = tfm__id_hash(tfm__id_hash(2, node), stack);
    uint32_t id;
    if (node == TFM__NODE_FAIL)
        return TFM_OK;
    for (size_t at = 0; (id = tfm__id_table_next(&a->seen_table, hash, &at)) != TFM__NO_ID;)
        if (a->seen[id].node == node && a->seen[id].stack == stack)
            return TFM_OK;
    if (a->seen_count >= MAX_SEEN)
        return too_large();
    tfm_status status = tfm__grow(&a->seen, &a->seen_capacity, a->seen_count + 1, sizeof(*a->seen));
    if (status == TFM_OK)
        status = tfm__id_table_add(&a->seen_table, hash, (uint32_t)a->seen_count);
    if (status == TFM_OK)
        a->seen[a->seen_count++] = (tfm__position){stack, node};
    return status;
}

static tfm_status leave(tfm__automaton *a, tfm__automaton_state *state, uint32_t stack) {
    if (stack == TFM__STACK_BOTTOM)
        state->ends = true;
    else if (stack == TFM__STACK_UNKNOWN)
        state->leaves = true;
    else
        return see(a, a->stacks[stack].node, a->stacks[stack].stack);
    return TFM_OK;
}

/* A call at the end of a rule returns to that rule's caller, so that lists do not grow the stack. */
static tfm_status enter(tfm__automaton *a, const tfm__grammar_node *call, uint32_t stack) {
    uint32_t above = stack;
    const tfm_status status = call->b == TFM__NODE_END ? TFM_OK : push(a, &above, call->b, stack);
    return status == TFM_OK ? see(a, a->grammar->rules[call->a].start, above) : status;
}

static tfm_status close_all(tfm__automaton *a, tfm__automaton_state *state) {
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < a->seen_count && status == TFM_OK; i++) {
        const tfm__position p = a->seen[i];
        const tfm__grammar_node *n = &a->grammar->nodes[p.node];
        if (n->kind == TFM__NODE_KIND_EITHER) {
            status = see(a, n->a, p.stack);
            if (status == TFM_OK)
                status = see(a, n->b, p.stack);
        } else if (n->kind == TFM__NODE_KIND_CALL) {
            status = enter(a, n, p.stack);
        } else if (n->kind == TFM__NODE_KIND_END) {
            status = leave(a, state, p.stack);
        }
    }
    return status;
}

/* ---- States ------------------------------------------------------------------------------------------- */

static int by_stack(const void *a, const void *b) {
    const tfm__position *x = a, *y = b;
    if (x->stack != y->stack)
        return x->stack < y->stack ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

static tfm_status append_state(tfm__automaton *a, tfm__automaton_state state, uint64_t hash) {
    const size_t classes = (size_t)a->grammar->class_count;
    if (memory(a) > MAX_BYTES)
        return too_large();
    tfm_status status = tfm__grow(&a->states, &a->state_capacity, a->state_count + 1, sizeof(*a->states));
    if (status == TFM_OK)
        status = tfm__grow(&a->moves, &a->move_capacity, (a->state_count + 1) * classes, sizeof(*a->moves));
    if (status == TFM_OK)
        status = tfm__id_table_add(&a->state_table, hash, (uint32_t)a->state_count);
    if (status != TFM_OK)
        return status;
    memset(a->moves + a->state_count * classes, 0xff, classes * sizeof(*a->moves));
    a->states[a->state_count++] = state;
    return TFM_OK;
}

/* The state of the closure of `seen`, which the call empties. */
static tfm_status intern(tfm__automaton *a, uint32_t *out) {
    tfm__automaton_state state = {.begin = (uint32_t)a->position_count};
    tfm_status status = close_all(a, &state);
    size_t kept = 0;
    for (size_t i = 0; i < a->seen_count; i++)
        if (a->grammar->nodes[a->seen[i].node].kind == TFM__NODE_KIND_BYTES)
            a->seen[kept++] = a->seen[i];
    state.count = (uint32_t)kept;
    uint64_t hash = tfm__id_hash(state.ends, state.leaves);
    if (kept)
        qsort(a->seen, kept, sizeof(*a->seen), by_stack);
    for (size_t i = 0; i < kept; i++)
        hash = tfm__id_hash(tfm__id_hash(hash, a->seen[i].node), a->seen[i].stack);
    a->seen_count = 0;
    tfm__id_table_clear(&a->seen_table);
    for (size_t at = 0; status == TFM_OK && (*out = tfm__id_table_next(&a->state_table, hash, &at)) != TFM__NO_ID;) {
        const tfm__automaton_state *s = &a->states[*out];
        if (s->count == kept && s->ends == state.ends && s->leaves == state.leaves &&
            (!kept || memcmp(a->positions + s->begin, a->seen, kept * sizeof(*a->seen)) == 0))
            return TFM_OK;
    }
    *out = (uint32_t)a->state_count;
    if (status == TFM_OK)
        status = tfm__grow(&a->positions, &a->position_capacity, a->position_count + kept + 1, sizeof(*a->positions));
    if (status == TFM_OK)
        status = append_state(a, state, hash);
    if (status != TFM_OK)
        return status;
    if (kept)
        memcpy(a->positions + a->position_count, a->seen, kept * sizeof(*a->seen));
    a->position_count += kept;
    return TFM_OK;
}

tfm_status tfm__automaton_state_of(tfm__automaton *a, uint32_t *state, const tfm__position *positions, size_t count) {
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < count && status == TFM_OK; i++)
        status = see(a, positions[i].node, positions[i].stack);
    const tfm_status interned = intern(a, state);
    return status == TFM_OK ? interned : status;
}

tfm_status tfm__automaton_init(tfm__automaton *a, const tfm_grammar *grammar) {
    uint32_t dead;
    *a = (tfm__automaton){.grammar = grammar};
    tfm_status status = tfm__grow(&a->stacks, &a->stack_capacity, 2, sizeof(*a->stacks));
    a->stack_count = status == TFM_OK ? 2 : 0;
    if (status == TFM_OK)
        status = intern(a, &dead);
    if (status == TFM_OK)
        memset(a->moves, 0, (size_t)grammar->class_count * sizeof(*a->moves));
    return status;
}

tfm_status tfm__automaton_start(tfm__automaton *a, uint32_t *state) {
    return tfm__automaton_state_of(a, state,
                                   &(tfm__position){.stack = TFM__STACK_BOTTOM, .node = a->grammar->rules[0].start}, 1);
}

tfm_status tfm__automaton_move(tfm__automaton *a, uint32_t *state, uint32_t from, unsigned char byte) {
    const tfm__automaton_state s = a->states[from];
    const tfm_grammar *g = a->grammar;
    tfm_status status = TFM_OK;
    for (size_t i = s.begin; i < s.begin + s.count && status == TFM_OK; i++) {
        const tfm__grammar_node *n = &g->nodes[a->positions[i].node];
        if (tfm__byte_set_has(&g->sets[n->a], byte))
            status = see(a, n->b, a->positions[i].stack);
    }
    uint32_t to = TFM__STATE_DEAD;
    const tfm_status interned = intern(a, &to);
    if (status == TFM_OK)
        status = interned;
    if (status != TFM_OK)
        return status;
    a->moves[(size_t)from * (size_t)g->class_count + g->class_of[byte]] = to;
    *state = to;
    return TFM_OK;
}

/* ---- Memory ------------------------------------------------------------------------------------------- */

/* Copies a stack into an empty automaton, from its bottom. `map` has the new stack of each old one, or TFM__NO_ID. */
static tfm_status copy_stack(tfm__automaton *to, const tfm__automaton *from, uint32_t *map, uint32_t *path,
                             uint32_t stack) {
    size_t count = 0;
    tfm_status status = TFM_OK;
    for (; map[stack] == TFM__NO_ID; stack = from->stacks[stack].stack)
        path[count++] = stack;
    while (count > 0 && status == TFM_OK) {
        const tfm__position *p = &from->stacks[path[--count]];
        status = push(to, &map[path[count]], p->node, map[p->stack]);
    }
    return status;
}

static tfm_status copy_state(tfm__automaton *to, uint32_t *state, const tfm__automaton *from) {
    uint32_t *map = tfm__alloc(from->stack_count, sizeof(*map)), *path = tfm__alloc(from->stack_count, sizeof(*path));
    const tfm__automaton_state s = from->states[*state];
    tfm_status status = map && path ? TFM_OK : TFM_ERROR_MEMORY;
    for (size_t i = 0; i < from->stack_count && status == TFM_OK; i++)
        map[i] = i <= TFM__STACK_UNKNOWN ? (uint32_t)i : TFM__NO_ID;
    for (size_t i = s.begin; i < s.begin + s.count && status == TFM_OK; i++) {
        const tfm__position *p = &from->positions[i];
        status = copy_stack(to, from, map, path, p->stack);
        if (status == TFM_OK)
            status = see(to, p->node, map[p->stack]);
    }
    if (status == TFM_OK && s.ends)
        status = see(to, TFM__NODE_END, TFM__STACK_BOTTOM);
    const tfm_status interned = intern(to, state);
    free(map);
    free(path);
    return status == TFM_OK ? interned : status;
}

tfm_status tfm__automaton_trim(tfm__automaton *a, uint32_t *state) {
    if (memory(a) <= MAX_BYTES / 2)
        return TFM_OK;
    tfm__automaton fresh;
    uint32_t kept = *state;
    tfm_status status = tfm__automaton_init(&fresh, a->grammar);
    if (status == TFM_OK)
        status = copy_state(&fresh, &kept, a);
    if (status != TFM_OK) {
        tfm__automaton_free(&fresh);
        return status;
    }
    tfm__automaton_free(a);
    *a = fresh;
    *state = kept;
    return TFM_OK;
}
