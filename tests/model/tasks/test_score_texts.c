/* Text scoring by a language model, against log p of each token from the logits of full passes. */
#include <math.h>
#include "support/scratch.h"
#include "tfm/train.h"

enum { POSITIONS = 12, WORDS = 90, LINES = 6 };

static const char *const TEXTS[LINES] = {
    "one two three", "",
    "four",          "five six seven eight nine ten one two three four five six seven eight nine ten",
    "\xff",          "ten nine"};

/* A small model with a vocabulary of number words. */
static tfm_model *make_model(const char *family, int start) {
    static const char *const NUMBERS[] = {"one", "two",   "three", "four", "five",
                                          "six", "seven", "eight", "nine", "ten"};
    char path[4096];
    FILE *file = fopen(scratch_path("text"), "wb");
    harness_random random = {3};
    tfm_model *model;
    assert_non_null(file);
    for (int i = 0; i < 400; i++)
        fprintf(file, "%s%s", NUMBERS[harness_range(&random, 0, 9)], i % 7 == 6 ? "\n" : " ");
    assert_int_equal(fclose(file), 0);
    snprintf(path, sizeof(path), "%s", scratch_path("text"));
    const tfm_vocabulary_options options = {.vocab_size = 40};
    harness_ok(tfm_tokenizer_train_texts(scratch_root, (const char *const[]){path}, 1, &options));
    const tfm_model_shape shape = {.family = family,
                                   .width = 16,
                                   .heads = 2,
                                   .ffn_dim = 24,
                                   .decoder_layers = 2,
                                   .source_vocab_size = 40,
                                   .max_positions = POSITIONS,
                                   .pad_id = -1,
                                   .eos_id = 2,
                                   .start_id = start,
                                   .seed = 4};
    harness_ok(tfm_model_new(&model, harness_context(), &shape));
    harness_ok(tfm_model_open_tokenizer(model, scratch_root));
    return model;
}

/* log p of ids[1] to ids[count - 1], by one pass over all but the last. */
static void definition(tfm_model *model, double *out, const int32_t *ids, int count) {
    tfm_context *ctx = harness_context();
    tfm_tensor logits = {0}, none = {0};
    harness_ok(tfm_scope_open(ctx));
    harness_ok(tfm_model_decode(model, &logits, HARNESS_TENSOR(TFM_I32, ids, 1, count - 1), none, none));
    float *z = harness_floats(logits);
    for (int t = 0; t + 1 < count; t++) {
        double sum = 0;
        for (int v = 0; v < 40; v++)
            sum += exp((double)z[t * 40 + v]);
        out[t] = (double)z[t * 40 + ids[t + 1]] - log(sum);
    }
    free(z);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
}

/* The sum over a text, in windows that overlap by half. */
static double want_of(tfm_model *model, const char *text, bool ends, size_t *tokens) {
    int32_t *ids, all[WORDS];
    size_t count;
    double sum = 0, picked[WORDS];
    harness_ok(tfm_tokenizer_encode(tfm_model_tokenizer(model), &ids, &count, TFM_TARGET, text, strlen(text)));
    assert_true(count < WORDS - 1);
    memcpy(all, ids, count * sizeof(*ids));
    tfm_ids_free(&ids);
    if (ends)
        all[count++] = 2;
    *tokens = count - 1;
    for (size_t done = 0; done + 1 < count;) {
        const size_t at = done ? done - POSITIONS / 2 : 0,
                     end = at + POSITIONS < count - 1 ? at + POSITIONS : count - 1;
        definition(model, picked, all + at, (int)(end - at) + 1);
        for (size_t t = done - at; t < end - at; t++)
            sum += picked[t];
        done = end;
    }
    return sum;
}

typedef struct scores {
    double log_prob[LINES];
    size_t tokens[LINES], seen, rejected;
} scores;

static bool on_score(void *user, size_t line, double log_prob, size_t tokens) {
    scores *s = user;
    assert_int_equal(line, s->seen);
    s->log_prob[s->seen] = log_prob;
    s->tokens[s->seen++] = tokens;
    return true;
}

static bool on_reject(void *user, size_t line, const char *message) {
    scores *s = user;
    assert_int_equal(line, 4);
    assert_non_null(message);
    s->rejected++;
    return true;
}

static void test_text_scores_equal_sum_of_log_probabilities(void **state) {
    (void)state;
    static const char *const FAMILIES[] = {"gpt2", "llama", "gemma2"};
    for (size_t i = 0; i < sizeof(FAMILIES) / sizeof(*FAMILIES); i++) {
        tfm_model *model = make_model(FAMILIES[i], 1);
        for (int ends = 0; ends < 2; ends++) {
            scores s = {0};
            const tfm_text_options o = {
                .score_eos = ends, .reject = on_reject, .reject_user = &s, .batch_tokens = ends ? 9 : 0};
            harness_ok(tfm_score_texts(model, TEXTS, LINES, &o, on_score, &s));
            assert_true(s.seen == LINES && s.rejected == 1);
            for (size_t k = 0; k < LINES; k++) {
                size_t tokens = 0;
                const double want = k == 4 ? 0 : want_of(model, TEXTS[k], ends, &tokens);
                assert_int_equal(s.tokens[k], tokens);
                assert_true(tokens == 0 ? isnan(s.log_prob[k]) : fabs(s.log_prob[k] - want) < 1e-4 * fabs(want));
            }
            assert_true(s.tokens[3] > 2 * POSITIONS);
        }
        tfm_model_free(&model);
    }
}

/* With `add_bos` a model whose BOS differs from the tokenizer's first token gets BOS. Without it, the text is read as a
 * prompt. */
static void test_bos_is_added_only_when_requested(void **state) {
    (void)state;
    tfm_model *model = make_model("gpt2", 2);
    scores s = {0}, plain = {0};
    size_t plain_tokens;
    harness_ok(tfm_score_texts(model, TEXTS, 1, &(tfm_text_options){.add_bos = true}, on_score, &s));
    harness_ok(tfm_score_texts(model, TEXTS, 1, NULL, on_score, &plain));
    const double plain_want = want_of(model, TEXTS[0], false, &plain_tokens);
    assert_int_equal(plain.tokens[0], plain_tokens);
    assert_true(fabs(plain.log_prob[0] - plain_want) < 1e-4 * fabs(plain_want));
    int32_t *ids, all[WORDS] = {2};
    size_t count;
    double picked[WORDS], want = 0;
    harness_ok(tfm_tokenizer_encode(tfm_model_tokenizer(model), &ids, &count, TFM_TARGET, TEXTS[0], strlen(TEXTS[0])));
    memcpy(all + 1, ids, count * sizeof(*ids));
    tfm_ids_free(&ids);
    definition(model, picked, all, (int)count + 1);
    for (size_t t = 0; t < count; t++)
        want += picked[t];
    assert_int_equal(s.tokens[0], count);
    assert_true(fabs(s.log_prob[0] - want) < 1e-4 * fabs(want));
    tfm_model_free(&model);
}

static bool stop(void *user, size_t line, double log_prob, size_t tokens) {
    (void)user, (void)line, (void)log_prob, (void)tokens;
    return false;
}

static void test_score_texts_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_model *model = make_model("llama", 1), *translator;
    harness_refused(tfm_score_texts(model, TEXTS + 4, 1, NULL, on_score, NULL), TFM_ERROR_INPUT, "line 1: ");
    harness_refused(tfm_score_texts(model, TEXTS, 1, NULL, stop, NULL), TFM_ERROR_CANCELLED, "stopped at line 1");
    const tfm_model_shape shape = {.width = 16,
                                   .heads = 2,
                                   .ffn_dim = 24,
                                   .encoder_layers = 1,
                                   .decoder_layers = 1,
                                   .source_vocab_size = 40,
                                   .max_positions = 8,
                                   .activation = TFM_RELU};
    harness_ok(tfm_model_new(&translator, harness_context(), &shape));
    harness_refused(tfm_score_texts(translator, TEXTS, 1, NULL, on_score, NULL), TFM_ERROR_ARGUMENT, "translates");
    harness_refused(tfm_score_texts(translator, TEXTS, 1, &(tfm_text_options){.batch_tokens = -1}, on_score, NULL),
                    TFM_ERROR_ARGUMENT, "score_texts: batch_tokens is -1");
    tfm_model_free(&translator);
    tfm_model_free(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_text_scores_equal_sum_of_log_probabilities, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(test_bos_is_added_only_when_requested, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_score_texts_rejects_bad_arguments, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
