/* Host allocation failures in constrained decoding (each_failure.h). */
#include "fault/each_failure.h"
#include "text/grammar/matcher.h"

/* A grammar, in one form or the other. */
typedef struct decoding {
    const char *gbnf, *schema;
} decoding;

enum { WORDS = 2 };

static tfm_status open_both(tfm_grammar **grammar, tfm__token_trie **trie, const decoding *d) {
    static const char *const TOKENS[] = {"{",  "}", "{\"", "\"", "a",  "ab", "\":",   ":",  " ", "1",
                                         "12", "[", "]",   "],", ",",  "x",  "\"a\"", "é",  "(", ")",
                                         "((", "y", "\\",  "u0", "tr", "ue", "n",     "ull"};
    uint32_t lengths[TFM__COUNT(TOKENS)];
    for (size_t i = 0; i < TFM__COUNT(TOKENS); i++)
        lengths[i] = (uint32_t)strlen(TOKENS[i]);
    tfm_status status =
        d->gbnf ? tfm_grammar_from_gbnf(grammar, d->gbnf) : tfm_grammar_from_json_schema(grammar, d->schema);
    assert_true((status == TFM_OK) == (*grammar != NULL));
    if (status == TFM_OK)
        status = tfm__token_trie_new(trie, TFM__COUNT(TOKENS), TOKENS, lengths);
    assert_true((status == TFM_OK) == (*trie != NULL));
    return status;
}

static tfm_status decode(const void *what, failure_result *sum) {
    const decoding *d = what;
    tfm_grammar *grammar = NULL;
    tfm__token_trie *trie = NULL;
    tfm__matcher *matcher = NULL;
    tfm_status status = open_both(&grammar, &trie, d);
    if (status == TFM_OK)
        status = tfm__matcher_new(&matcher, grammar, trie);
    for (int step = 0; step < 12 && status == TFM_OK; step++) {
        uint32_t bits[WORDS] = {0};
        int32_t token = 0;
        status = tfm__matcher_mask(matcher, bits);
        if (status == TFM_OK)
            add(sum, bits, sizeof(bits));
        if (!bits[0])
            break;
        for (int skip = step % 3; !(bits[0] >> token & 1) || skip-- > 0;) /* one of the first three, round the end */
            token = (token + 1) % 28;
        if (status == TFM_OK)
            status = tfm__matcher_accept(matcher, token);
    }
    tfm__matcher_free(&matcher);
    tfm__token_trie_free(&trie);
    tfm_grammar_free(&grammar);
    return status;
}

static void test_grammars_survive_failed_allocations(void **state) {
    (void)state;
    static const decoding CASES[] = {
        {.gbnf = "root ::= e (\",\" e)*\ne ::= \"(\" root \")\" | [a-zé]{1,40} | \"\\u00e9\" . # end"},
        {.gbnf = "root ::= \"a\" | (\"x\" | \"y\"){2,} root?"},
        {.schema =
             "{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#/$defs/t\"},\"b\":{\"const\":[1,{\"x\":\"y\"}]}},"
             "\"additionalProperties\":{\"type\":\"number\",\"minimum\":-2.5},\"$defs\":{\"t\":{\"anyOf\":[{\"type\":"
             "\"array\",\"items\":{\"$ref\":\"#/$defs/t\"},\"maxItems\":3},{\"type\":\"string\",\"pattern\":"
             "\"^[a-z]*\",\"maxLength\":5},{\"allOf\":[{\"minimum\":1},{\"type\":\"integer\"}]}]}}}"},
        {.schema = NULL},
    };
    for (size_t i = 0; i < TFM__COUNT(CASES); i++)
        each_failure(CASES[i].gbnf ? CASES[i].gbnf : "a schema", decode, &CASES[i], false);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_grammars_survive_failed_allocations)};
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
