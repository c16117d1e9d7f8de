/* Grammars of constrained decoding. */
#include <stdlib.h>
#include <string.h>
#include "fuzz.h"
#include "text/grammar/matcher.h"

enum { BYTES = 256, PAIRS = 128, WORDS = (BYTES + PAIRS) / 32, STEPS = 12 };

/* A vocabulary of all bytes and some longer tokens, until the program exits. */
static tfm__token_trie *vocabulary(void) {
    static tfm__token_trie *trie;
    static char text[BYTES + PAIRS][4];
    const char *tokens[BYTES + PAIRS];
    uint32_t lengths[BYTES + PAIRS];
    for (int i = 0; i < BYTES + PAIRS; i++) {
        text[i][0] = (char)i;
        text[i][1] = "\":,}] a1"[i % 8];
        text[i][2] = (char)(i * 7 + ' ');
        tokens[i] = text[i];
        lengths[i] = i < BYTES ? 1 : 2 + i % 2u;
    }
    if (!trie && tfm__token_trie_new(&trie, BYTES + PAIRS, tokens, lengths) != TFM_OK)
        abort();
    return trie;
}

/* Each token of a mask is accepted, and no other one. */
static void walk(const tfm_grammar *grammar, unsigned seed) {
    tfm__matcher *matcher;
    uint32_t bits[WORDS];
    bool good = tfm__matcher_new(&matcher, grammar, vocabulary()) == TFM_OK;
    for (int step = 0; step < STEPS && good; step++) {
        int32_t allowed[BYTES + PAIRS];
        unsigned count = 0;
        good = tfm__matcher_mask(matcher, bits) == TFM_OK;
        for (int32_t i = 0; i < BYTES + PAIRS && good; i++)
            if (bits[i / 32] >> i % 32 & 1)
                allowed[count++] = i;
            else if (i % 16 == step && tfm__matcher_accept(matcher, i) == TFM_OK)
                abort();
        if (!good || !count)
            break;
        seed = seed * 1664525u + 1013904223u;
        const tfm_status status = tfm__matcher_accept(matcher, allowed[(seed >> 8) % count]);
        if (status != TFM_OK && status != TFM_ERROR_UNSUPPORTED)
            abort();
        good = status == TFM_OK;
    }
    tfm__matcher_free(&matcher);
}

/* A grammar, and after a NUL a text to match. */
static bool run(const uint8_t *data, size_t size, tfm_status (*compile)(tfm_grammar **, const char *)) {
    tfm_grammar *grammar = NULL;
    size_t bytes;
    char *text = fuzz_part(&data, &size, &bytes);
    const bool good = compile(&grammar, text) == TFM_OK;
    if (good) {
        uint8_t *copy = fuzz_copy(data, size);
        tfm_grammar_matches(grammar, (const char *)copy, size);
        walk(grammar, (unsigned)bytes);
        walk(grammar, (unsigned)size + 1);
        free(copy);
    }
    tfm_grammar_free(&grammar);
    free(text);
    return good;
}

static bool gbnf(const uint8_t *data, size_t size) {
    return run(data, size, tfm_grammar_from_gbnf);
}

static bool schema(const uint8_t *data, size_t size) {
    return run(data, size, tfm_grammar_from_json_schema);
}

const fuzz_target fuzz_grammar[] = {{"gbnf", gbnf, NULL}, {"schema", schema, NULL}, {NULL, NULL, NULL}};
