/* Masks of constrained decoding against the grammar itself: each token is tried at the end of the text. */
#include <stdio.h>
#include <string.h>
#include "support/harness.h"
#include "text/grammar/automaton.h"
#include "text/grammar/matcher.h"

/* A vocabulary with tokens inside characters and over the structure of JSON, equal tokens and empty ones. */
static const char *const TOKENS[] = {
    "",          "a",        "b",         "ab",    "ba",   "abc",      "\"",       "\"a",      "a\"",  "\",\"",
    "\":",       "{",        "}",         "{\"",   "\"}",  "}}",       "{}",       "[",        "]",    "[]",
    "],[",       ",",        ", ",        ":",     " ",    "  ",       "\n",       "\n  ",     "1",    "12",
    "0",         "-",        "-1",        ".5",    "1.5",  "e",        "1e",       "e5",       "tr",   "ue",
    "true",      "null",     "nul",       "false", "\\",   "\\n",      "\\\"",     "\\u",      "00e9", "\xc3",
    "\xa9",      "\xc3\xa9", "\xe6\x97",  "\xa5",  "\xe6", "\x97\xa5", "\xf0\x9f", "\x98\x80", "\xff", "\x80",
    "\x01",      "(",        ")",         "((",    "))",   "()",       "a",        "",         "name", "\"name\"",
    "\"name\":", "age",      "\"age\":1", "x",     "z",    "xyz",      "3",        "+",        "*"};
enum { VOCABULARY = TFM__COUNT(TOKENS), WORDS = (VOCABULARY + 31) / 32 };

static tfm__token_trie *new_trie(void) {
    tfm__token_trie *trie;
    uint32_t lengths[VOCABULARY];
    for (size_t i = 0; i < VOCABULARY; i++)
        lengths[i] = (uint32_t)strlen(TOKENS[i]);
    harness_ok(tfm__token_trie_new(&trie, VOCABULARY, TOKENS, lengths));
    return trie;
}

/* Whether the bytes may follow a state, and the state after them. */
static bool follows(tfm__automaton *automaton, uint32_t *at, const char *bytes) {
    for (; *bytes; bytes++)
        harness_ok(tfm__automaton_next(automaton, at, (unsigned char)*bytes));
    return *at != TFM__STATE_DEAD;
}

/* Random texts: at each step the mask has exactly the tokens that the automaton of bytes accepts. */
static void compare_walks(const tfm_grammar *grammar, harness_random *random, const char *name) {
    tfm__token_trie *trie = new_trie();
    for (int walk = 0; walk < 40; walk++) {
        tfm__matcher *matcher;
        tfm__automaton automaton;
        uint32_t at;
        harness_ok(tfm__matcher_new(&matcher, grammar, trie));
        harness_ok(tfm__automaton_init(&automaton, grammar));
        harness_ok(tfm__automaton_start(&automaton, &at));
        for (int step = 0; step < 30; step++) {
            uint32_t bits[WORDS + 1] = {[WORDS] = 77};
            int32_t allowed[VOCABULARY];
            int count = 0;
            harness_ok(tfm__matcher_mask(matcher, bits));
            assert_int_equal(bits[WORDS], 77);
            assert_int_equal(tfm__matcher_may_end(matcher), automaton.states[at].ends);
            for (int32_t i = 0; i < VOCABULARY; i++) {
                uint32_t to = at;
                const bool want = *TOKENS[i] && follows(&automaton, &to, TOKENS[i]);
                if (want != (bits[i / 32] >> i % 32 & 1))
                    fail_msg("%s: token \"%s\" is %s in step %d", name, TOKENS[i], want ? "missing" : "allowed", step);
                if (want)
                    allowed[count++] = i;
                else
                    harness_refused(tfm__matcher_accept(matcher, i), TFM_ERROR_INPUT, "is not allowed by the grammar");
            }
            if (!count)
                break;
            const int32_t token = allowed[harness_range(random, 0, count - 1)];
            harness_ok(tfm__matcher_accept(matcher, token));
            assert_true(follows(&automaton, &at, TOKENS[token]));
        }
        tfm__automaton_free(&automaton);
        tfm__matcher_free(&matcher);
    }
    tfm__token_trie_free(&trie);
}

static void test_masks_of_gbnf_equal_trying_each_token(void **state) {
    (void)state;
    static const char *const GRAMMARS[] = {
        "root ::= .*",
        "root ::= [^a]*",
        "root ::= \"ab\"*",
        "root ::= (\"a\" | \"ab\" | \"abc\") [a-c]{0,5} root?",
        "root ::= \"(\" root \")\" | \"\"",
        "root ::= \"(\" root \")\" root | [a-z]{0,2}",
        "root ::= word (\" \" word)*\nword ::= [a-z]+ | number\nnumber ::= \"-\"? [0-9]+ (\".\" [0-9]+)?",
        "root ::= v\nv ::= o | a | s | n\no ::= \"{\" (s \":\" v (\",\" s \":\" v)*)? \"}\"\na ::= \"[\" (v (\",\" "
        "v)*)? "
        "\"]\"\ns ::= \"\\\"\" ([^\"\\\\] | \"\\\\\" [nu\\\"])* \"\\\"\"\nn ::= [0-9]+",
        "root ::= e\ne ::= t ((\"+\" | \"*\") t)*\nt ::= [0-9]+ | \"(\" e \")\" | [xyz]",
        "root ::= [é日\\U0001F600]+",
        "root ::= [abé]{2,26} \"x\"",
        "root ::= (\"ab\" | \"a\" | [x-z]){1,22} \"1\"?",
        "root ::= (w \" \"){3,19} \"x\"\nw ::= [ab]{1,14}",
    };
    harness_random random = {1};
    for (size_t i = 0; i < TFM__COUNT(GRAMMARS); i++) {
        tfm_grammar *grammar;
        harness_ok(tfm_grammar_from_gbnf(&grammar, GRAMMARS[i]));
        compare_walks(grammar, &random, GRAMMARS[i]);
        tfm_grammar_free(&grammar);
    }
}

static void test_masks_of_schemas_equal_trying_each_token(void **state) {
    (void)state;
    static const char *const SCHEMAS[] = {
        NULL,
        "{}",
        "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":30},\"age\":{\"type\":"
        "\"integer\","
        "\"minimum\":1,\"maximum\":125}},\"required\":[\"name\"]}",
        "{\"type\":\"array\",\"items\":{\"enum\":[\"ab\",12,null,true]},\"minItems\":3,\"maxItems\":25}",
        "{\"type\":\"string\",\"minLength\":3,\"maxLength\":40}",
        "{\"type\":\"string\",\"pattern\":\"^(a|ba?|\\u00e9)*$\",\"minLength\":2,\"maxLength\":24}",
        "{\"$ref\":\"#/$defs/"
        "t\",\"$defs\":{\"t\":{\"anyOf\":[{\"type\":\"number\"},{\"type\":\"array\",\"items\":{\"$ref\":"
        "\"#/$defs/t\"}}]}}}",
    };
    harness_random random = {2};
    for (size_t i = 0; i < TFM__COUNT(SCHEMAS); i++) {
        tfm_grammar *grammar;
        harness_ok(tfm_grammar_from_json_schema(&grammar, SCHEMAS[i]));
        compare_walks(grammar, &random, SCHEMAS[i] ? SCHEMAS[i] : "NULL");
        tfm_grammar_free(&grammar);
    }
}

/* A matcher keeps its grammar and its vocabulary. */
static void test_matcher_outlives_grammar_and_trie(void **state) {
    (void)state;
    tfm_grammar *grammar;
    tfm__matcher *matcher;
    tfm__token_trie *trie = new_trie();
    uint32_t bits[WORDS];
    harness_ok(tfm_grammar_from_gbnf(&grammar, "root ::= \"ab\" [0-9]*"));
    harness_ok(tfm__matcher_new(&matcher, grammar, trie));
    tfm_grammar_free(&grammar);
    tfm__token_trie_free(&trie);
    harness_ok(tfm__matcher_accept(matcher, 3)); /* ab */
    assert_true(tfm__matcher_may_end(matcher));
    harness_ok(tfm__matcher_mask(matcher, bits));
    assert_true(bits[0] >> 28 & 1);
    harness_refused(tfm__matcher_accept(matcher, -1), TFM_ERROR_INPUT, "token -1 is not allowed");
    harness_refused(tfm__matcher_accept(matcher, VOCABULARY), TFM_ERROR_INPUT, "is not allowed");
    harness_refused(tfm__matcher_accept(matcher, 0), TFM_ERROR_INPUT, "is not allowed");
    tfm__matcher_free(&matcher);
}

/* A rule that ends with itself is a loop: a long list has no more stacks and states than a short one. */
static void test_list_by_recursion_at_the_end_needs_few_states(void **state) {
    (void)state;
    tfm_grammar *grammar;
    tfm__automaton automaton;
    uint32_t at;
    harness_ok(tfm_grammar_from_gbnf(&grammar, "root ::= list\nlist ::= [a-c] list | \".\""));
    harness_ok(tfm__automaton_init(&automaton, grammar));
    harness_ok(tfm__automaton_start(&automaton, &at));
    for (int i = 0; i < 1000; i++)
        harness_ok(tfm__automaton_next(&automaton, &at, (unsigned char)("abc"[i % 3])));
    assert_true(automaton.state_count <= 3 && automaton.stack_count <= 3);
    tfm__automaton_free(&automaton);
    tfm_grammar_free(&grammar);
}

/* 2^20 stacks: an error, and the matcher can be freed. */
static void test_too_ambiguous_grammar_is_an_error(void **state) {
    (void)state;
    char text[4096];
    tfm_grammar *grammar;
    tfm__matcher *matcher;
    tfm__token_trie *trie = new_trie();
    char *at = text + sprintf(text, "root ::= r0\nr20 ::= \"a\"\n");
    for (int i = 0; i < 20; i++)
        at += sprintf(at, "r%d ::= r%d \"a\" | r%d \"b\"\n", i, i + 1, i + 1);
    harness_ok(tfm_grammar_from_gbnf(&grammar, text));
    harness_refused(tfm__matcher_new(&matcher, grammar, trie), TFM_ERROR_UNSUPPORTED, "too ambiguous");
    assert_null(matcher);
    tfm_grammar_free(&grammar);
    tfm__token_trie_free(&trie);
}

/* The tokens of [a-z ]* are tested with each of a thousand stacks: an error, in bounded time. */
static void test_mask_of_many_stacks_is_an_error(void **state) {
    (void)state;
    enum { LETTERS = 26, COUNT = LETTERS * LETTERS * LETTERS, RULES = 1000 };
    char *bytes = malloc(COUNT * 4), *text = malloc(RULES * 16 + 64), *at = text;
    const char **tokens = malloc(COUNT * sizeof(*tokens));
    uint32_t *lengths = malloc(COUNT * sizeof(*lengths)), *bits = malloc((COUNT / 32 + 1) * sizeof(*bits));
    assert_true(bytes && text && tokens && lengths && bits);
    for (int i = 0; i < COUNT; i++) {
        tokens[i] = bytes + 4 * i;
        lengths[i] = 3;
        sprintf(bytes + 4 * i, "%c%c%c", 'a' + i % LETTERS, 'a' + i / LETTERS % LETTERS, 'a' + i / LETTERS / LETTERS);
    }
    for (int i = 0; i < RULES; i++)
        at += sprintf(at, "%s x \"%d\"", i ? " |" : "root ::=", i);
    sprintf(at, "\nx ::= [a-z ]*\n");
    tfm_grammar *grammar;
    tfm__matcher *matcher;
    tfm__token_trie *trie;
    harness_ok(tfm__token_trie_new(&trie, COUNT, tokens, lengths));
    harness_ok(tfm_grammar_from_gbnf(&grammar, text));
    harness_ok(tfm__matcher_new(&matcher, grammar, trie));
    harness_refused(tfm__matcher_mask(matcher, bits), TFM_ERROR_UNSUPPORTED, "more than 8388608 steps to find");
    tfm__matcher_free(&matcher);
    tfm_grammar_free(&grammar);
    tfm__token_trie_free(&trie);
    free(bytes);
    free(text);
    free(tokens);
    free(lengths);
    free(bits);
}

/* ---- Threads ------------------------------------------------------------------------------------------------------
 */

typedef struct shared {
    const tfm_grammar *grammar;
    const tfm__token_trie *trie;
    uint32_t bits[WORDS];
    bool same;
} shared;

static void *use(void *user) {
    shared *s = user;
    s->same = true;
    for (int round = 0; round < 50; round++) {
        tfm__matcher *matcher;
        uint32_t bits[WORDS];
        s->same &= tfm__matcher_new(&matcher, s->grammar, s->trie) == TFM_OK;
        s->same &= tfm__matcher_accept(matcher, 13) == TFM_OK && tfm__matcher_mask(matcher, bits) == TFM_OK;
        s->same &= memcmp(bits, s->bits, sizeof(bits)) == 0;
        tfm__matcher_free(&matcher);
    }
    return NULL;
}

static void test_threads_share_a_grammar(void **state) {
    (void)state;
    tfm_grammar *grammar;
    tfm__token_trie *trie = new_trie();
    tfm__matcher *matcher;
    shared all[4] = {0};
    pthread_t threads[4];
    harness_ok(tfm_grammar_from_gbnf(&grammar, "root ::= \"{\" s \":\" s \"}\"\ns ::= \"\\\"\" [^\"]* \"\\\"\""));
    harness_ok(tfm__matcher_new(&matcher, grammar, trie));
    harness_ok(tfm__matcher_accept(matcher, 13)); /* {" */
    harness_ok(tfm__matcher_mask(matcher, all[0].bits));
    tfm__matcher_free(&matcher);
    tfm_grammar_free(&grammar);
    harness_ok(tfm_grammar_from_gbnf(&grammar, "root ::= \"{\" s \":\" s \"}\"\ns ::= \"\\\"\" [^\"]* \"\\\"\""));
    for (int i = 0; i < 4; i++) {
        memcpy(all[i].bits, all[0].bits, sizeof(all[i].bits));
        all[i].grammar = grammar;
        all[i].trie = trie;
        assert_int_equal(pthread_create(&threads[i], NULL, use, &all[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_true(all[i].same);
    }
    tfm_grammar_free(&grammar);
    tfm__token_trie_free(&trie);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masks_of_gbnf_equal_trying_each_token),
        cmocka_unit_test(test_masks_of_schemas_equal_trying_each_token),
        cmocka_unit_test(test_matcher_outlives_grammar_and_trie),
        cmocka_unit_test(test_list_by_recursion_at_the_end_needs_few_states),
        cmocka_unit_test(test_too_ambiguous_grammar_is_an_error),
        cmocka_unit_test(test_mask_of_many_stacks_is_an_error),
        cmocka_unit_test(test_threads_share_a_grammar),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
