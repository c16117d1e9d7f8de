#include "text/grammar/automaton.h"
#include "text/grammar/mask_cache.h"

tfm_grammar *tfm__grammar_retain(const tfm_grammar *grammar) {
    tfm_grammar *owned = (tfm_grammar *)grammar; /* the reference count is mutable */
    atomic_fetch_add(&owned->owners, 1);
    return owned;
}

void tfm_grammar_free(tfm_grammar **pointer) {
    tfm_grammar *grammar = pointer ? *pointer : NULL;
    if (!grammar)
        return;
    *pointer = NULL;
    if (atomic_fetch_sub(&grammar->owners, 1) > 1)
        return;
    for (size_t i = 0; i < grammar->rule_count; i++)
        free(grammar->rules[i].name);
    free(grammar->rules);
    free(grammar->nodes);
    free(grammar->sets);
    free(grammar->alike);
    tfm__mask_caches_free(grammar->caches);
    pthread_mutex_destroy(&grammar->lock);
    free(grammar);
}

bool tfm_grammar_matches(const tfm_grammar *grammar, const char *text, size_t bytes) {
    if (!grammar || (!text && bytes))
        return false;
    tfm__automaton automaton;
    uint32_t state = TFM__STATE_DEAD;
    char message[TFM__MESSAGE_MAX];
    tfm__error_save(message);
    tfm_status status = tfm__automaton_init(&automaton, grammar);
    if (status == TFM_OK)
        status = tfm__automaton_start(&automaton, &state);
    for (size_t i = 0; i < bytes && status == TFM_OK && state != TFM__STATE_DEAD; i++) {
        status = tfm__automaton_next(&automaton, &state, (unsigned char)text[i]);
        if (status == TFM_OK)
            status = tfm__automaton_trim(&automaton, &state);
    }
    const bool matches = status == TFM_OK && automaton.states[state].ends;
    tfm__automaton_free(&automaton);
    tfm__error_restore(message);
    return matches;
}
