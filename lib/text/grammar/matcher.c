/* The mask of a state is that of its nodes by stack. A set of nodes has one mask, whatever its stack is, except for
 * tokens that read past the end of its rule: these are tested again with the stack. So the strings of a JSON grammar
 * have one mask at all depths, and few tokens are tested at each step. */
#include <string.h>
#include "text/grammar/automaton.h"
#include "text/grammar/mask_cache.h"

struct tfm__matcher {
    tfm_grammar *grammar;
    tfm__token_trie *trie;
    tfm__mask_cache *cache;
    tfm__automaton automaton;
    uint32_t state;
    uint32_t *path;  /* states by depth of the trie */
    uint32_t *nodes; /* of one stack */
    size_t node_capacity;
    int walked; /* nodes of the trie, for one mask */
};

/* Nodes of the trie that are visited for one mask: some 0.2 s. */
enum { MAX_WALKED = 1 << 23 };

void tfm__matcher_free(tfm__matcher **pointer) {
    tfm__matcher *m = *pointer;
    *pointer = NULL;
    if (!m)
        return;
    tfm__automaton_free(&m->automaton);
    tfm__token_trie_free(&m->trie);
    tfm_grammar_free(&m->grammar);
    free(m->path);
    free(m->nodes);
    free(m);
}

tfm_status tfm__matcher_new(tfm__matcher **out, const tfm_grammar *grammar, const tfm__token_trie *trie) {
    tfm__matcher *m = tfm__alloc(1, sizeof(*m));
    *out = NULL;
    if (!m)
        return TFM_ERROR_MEMORY;
    m->grammar = tfm__grammar_retain(grammar);
    m->trie = tfm__token_trie_retain(trie);
    m->path = tfm__alloc(trie->depth + 1, sizeof(*m->path));
    tfm_status status = m->path ? tfm__mask_cache_of(&m->cache, grammar, trie) : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = tfm__automaton_init(&m->automaton, grammar);
    if (status == TFM_OK)
        status = tfm__automaton_start(&m->automaton, &m->state);
    if (status == TFM_OK)
        *out = m;
    else
        tfm__matcher_free(&m);
    return status;
}

/* ---- Masks -------------------------------------------------------------------------------------------- */

static void set_bits(const tfm__matcher *m, uint32_t *bits, int32_t token) {
    for (; token >= 0; token = m->trie->same[token])
        bits[token / 32] |= (uint32_t)1 << token % 32;
}

/* Sets the bits of the tokens below a node of the trie that may follow a state. With `mask`, also lists the nodes at
 * which the rule ends. */
static tfm_status walk(tfm__matcher *m, uint32_t *bits, tfm__mask *mask, uint32_t root, uint32_t state) {
    const tfm__token_trie_node *nodes = m->trie->nodes;
    const uint32_t end = nodes[root].end;
    size_t capacity = 0;
    m->path[nodes[root].depth] = state;
    for (uint32_t i = root + 1; i < end;) {
        const tfm__token_trie_node *n = &nodes[i];
        if (++m->walked > MAX_WALKED)
            return tfm__fail(TFM_ERROR_UNSUPPORTED,
                             "the grammar is too ambiguous: the tokens that may follow take more "
                             "than %d steps to find; make it smaller",
                             MAX_WALKED);
        uint32_t to = m->path[n->depth - 1];
        tfm_status status = tfm__automaton_next(&m->automaton, &to, n->byte);
        if (status != TFM_OK)
            return status;
        if (to == TFM__STATE_DEAD) {
            i = n->end;
            continue;
        }
        const tfm__automaton_state *s = &m->automaton.states[to];
        m->path[n->depth] = to;
        if (n->token >= 0)
            set_bits(m, bits, n->token);
        if (mask && s->leaves && n->end > i + 1) {
            status = tfm__grow(&mask->leaves, &capacity, mask->leave_count + 1, sizeof(*mask->leaves));
            if (status != TFM_OK)
                return status;
            mask->leaves[mask->leave_count++] = i;
        }
        i = s->count ? i + 1 : n->end;
    }
    return TFM_OK;
}

/* Replaces the bits by a list if that is smaller. */
static tfm_status shrink(tfm__mask *mask, size_t words) {
    size_t count = 0;
    for (size_t i = 0; i < words; i++)
        count += (size_t)__builtin_popcount(mask->bits[i]);
    if (count >= words)
        return TFM_OK;
    mask->tokens = tfm__alloc(count + 1, sizeof(*mask->tokens));
    if (!mask->tokens)
        return TFM_ERROR_MEMORY;
    for (size_t i = 0; i < words; i++)
        for (uint32_t left = mask->bits[i]; left; left &= left - 1)
            mask->tokens[mask->token_count++] = (uint32_t)i * 32 + (uint32_t)__builtin_ctz(left);
    free(mask->bits);
    mask->bits = NULL;
    return TFM_OK;
}

static tfm_status fill_mask(tfm__matcher *m, tfm__mask *mask, const uint32_t *nodes, size_t count) {
    const size_t words = (m->trie->vocabulary + 31) / 32;
    uint32_t state = TFM__STATE_DEAD;
    mask->nodes = tfm__alloc(count, sizeof(*mask->nodes));
    mask->bits = mask->nodes ? tfm__alloc(words + 1, sizeof(*mask->bits)) : NULL;
    tfm__position *positions = mask->bits ? tfm__alloc(count, sizeof(*positions)) : NULL;
    if (!positions)
        return TFM_ERROR_MEMORY;
    memcpy(mask->nodes, nodes, count * sizeof(*nodes));
    mask->node_count = count;
    for (size_t i = 0; i < count; i++)
        positions[i] = (tfm__position){TFM__STACK_UNKNOWN, nodes[i]};
    tfm_status status = tfm__automaton_state_of(&m->automaton, &state, positions, count);
    free(positions);
    if (status == TFM_OK)
        status = walk(m, mask->bits, mask, 0, state);
    return status == TFM_OK ? shrink(mask, words) : status;
}

static tfm_status apply(tfm__matcher *m, uint32_t *bits, const tfm__mask *mask, uint32_t stack) {
    const size_t words = (m->trie->vocabulary + 31) / 32;
    uint32_t state;
    for (size_t i = 0; mask->bits && i < words; i++)
        bits[i] |= mask->bits[i];
    for (size_t i = 0; i < mask->token_count; i++)
        bits[mask->tokens[i] / 32] |= (uint32_t)1 << mask->tokens[i] % 32;
    if (stack == TFM__STACK_BOTTOM || !mask->leave_count)
        return TFM_OK;
    const tfm__position below = m->automaton.stacks[stack];
    tfm_status status = tfm__automaton_state_of(&m->automaton, &state, &below, 1);
    for (size_t i = 0; i < mask->leave_count && status == TFM_OK; i++)
        status = walk(m, bits, NULL, mask->leaves[i], state);
    return status;
}

/* Adds the mask of `count` nodes with one stack. */
static tfm_status add_mask(tfm__matcher *m, uint32_t *bits, size_t count, uint32_t stack) {
    const tfm__mask *known = tfm__mask_cache_find(m->cache, m->nodes, count);
    if (known)
        return apply(m, bits, known, stack);
    tfm__mask *mask = tfm__alloc(1, sizeof(*mask));
    tfm_status status = mask ? fill_mask(m, mask, m->nodes, count) : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = apply(m, bits, mask, stack);
    if (status == TFM_OK)
        tfm__mask_cache_add(m->cache, &mask);
    tfm__mask_free(mask);
    return status;
}

tfm_status tfm__matcher_mask(tfm__matcher *m, uint32_t *bits) {
    memset(bits, 0, (m->trie->vocabulary + 31) / 32 * sizeof(*bits));
    m->walked = 0;
    tfm_status status = tfm__automaton_trim(&m->automaton, &m->state);
    const tfm__automaton_state s = m->automaton.states[m->state];
    for (size_t begin = s.begin, end = begin; begin < s.begin + s.count && status == TFM_OK; begin = end) {
        const uint32_t stack = m->automaton.positions[begin].stack;
        while (end < s.begin + s.count && m->automaton.positions[end].stack == stack)
            end++;
        status = tfm__grow(&m->nodes, &m->node_capacity, end - begin, sizeof(*m->nodes));
        for (size_t i = begin; i < end && status == TFM_OK; i++)
            m->nodes[i - begin] = m->automaton.positions[i].node;
        if (status == TFM_OK)
            status = add_mask(m, bits, tfm__mask_cache_unify(m->cache, m->nodes, end - begin), stack);
    }
    return status;
}

/* ---- The text ----------------------------------------------------------------------------------------- */

bool tfm__matcher_may_end(const tfm__matcher *m) {
    return m->automaton.states[m->state].ends;
}

tfm_status tfm__matcher_accept(tfm__matcher *m, int32_t token) {
    const tfm__token_trie *trie = m->trie;
    const bool known = token >= 0 && (size_t)token < trie->vocabulary;
    uint32_t state = known && trie->begin[token + 1] > trie->begin[token] ? m->state : TFM__STATE_DEAD;
    tfm_status status = tfm__automaton_trim(&m->automaton, &m->state);
    if (state != TFM__STATE_DEAD)
        state = m->state; /* trimming may renumber it */
    for (size_t i = known ? trie->begin[token] : 0; known && i < trie->begin[token + 1] && status == TFM_OK; i++)
        status = tfm__automaton_next(&m->automaton, &state, trie->bytes[i]);
    if (status == TFM_OK && state == TFM__STATE_DEAD)
        status = tfm__fail(TFM_ERROR_INPUT, "token %d is not allowed by the grammar here; sample one of its mask",
                           (int)token);
    if (status == TFM_OK)
        m->state = state;
    return status;
}
