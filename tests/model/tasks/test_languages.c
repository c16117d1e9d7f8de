/* Multilingual models: language selection by tokens on either side and by words before the source. */
#include <math.h>
#include "support/harness.h"
#include "model/core/model.h"
#include "support/scratch.h"
#include "tfm/tfm.h"

enum { PAD = 1, EOS = 2, WORDS = 5, GERMAN = 20, ENGLISH, FRENCH, VOCABULARY };

/* ---- A small model with 23 pieces ---- */

static void copy(const char *folder, const char *name) {
    char relative[256];
    size_t size;
    snprintf(relative, sizeof(relative), "tests/golden/%s/%s", folder, name);
    char *bytes = scratch_source(relative, &size);
    scratch_write(name, bytes, size);
    free(bytes);
}

/* Words w5 to w19, and three language pieces. */
static void write_tokenizer(const char *const *codes, const char *class) {
    static const char *const SPECIAL[] = {"<s>", "<pad>", "</s>", "<unk>", "<mask>"};
    char text[8192], config[512];
    int used = snprintf(text, sizeof(text), "{\"version\": \"1.0\", \"added_tokens\": [");
    for (int id = 0; id < VOCABULARY; id++) {
        if (id >= WORDS && id < GERMAN)
            continue;
        used += snprintf(text + used, sizeof(text) - (size_t)used,
                         "%s{\"id\": %d, \"content\": \"%s\", \"special\": true, \"single_word\": false, \"lstrip\": "
                         "false, \"rstrip\": false, \"normalized\": false}",
                         id ? ", " : "", id, id < WORDS ? SPECIAL[id] : codes[id - GERMAN]);
    }
    used += snprintf(text + used, sizeof(text) - (size_t)used,
                     "], \"pre_tokenizer\": {\"type\": \"WhitespaceSplit\"}, \"model\": {\"type\": \"WordLevel\", "
                     "\"unk_token\": \"<unk>\", \"vocab\": {");
    for (int id = 0; id < VOCABULARY; id++) {
        char word[16];
        snprintf(word, sizeof(word), "w%d", id);
        used += snprintf(text + used, sizeof(text) - (size_t)used, "%s\"%s\": %d", id ? ", " : "",
                         id < WORDS    ? SPECIAL[id]
                         : id < GERMAN ? word
                                       : codes[id - GERMAN],
                         id);
    }
    snprintf(text + used, sizeof(text) - (size_t)used, "}}}");
    scratch_text("tokenizer.json", text);
    snprintf(config, sizeof(config), "{\"tokenizer_class\": \"%s\", \"eos_token\": \"</s>\", \"pad_token\": \"<pad>\"}",
             class);
    scratch_text("tokenizer_config.json", config);
}

static tfm_model *open_model(const char *folder, const char *const *codes, const char *class) {
    tfm_model *model;
    copy(folder, "config.json");
    copy(folder, "model.safetensors");
    write_tokenizer(codes, class);
    harness_ok(tfm_model_open(&model, harness_context(), scratch_root, NULL));
    return model;
}

/* ---- Expected inputs and outputs ----- */

typedef struct seen {
    int32_t source[64], target[64];
    size_t sources, targets;
    float first;
    float alignment[64]; /* its beginning */
} seen;

static bool see(void *user, const tfm_translation *t) {
    seen *s = user;
    s->sources = t->source.count;
    s->targets = t->target.count;
    assert_true(s->sources <= 64 && s->targets > 0 && s->targets <= 64);
    memcpy(s->source, t->source.ids, s->sources * sizeof(int32_t));
    memcpy(s->target, t->target.ids, s->targets * sizeof(int32_t));
    s->first = t->log_probs[0];
    for (size_t i = 0; t->alignment && i < s->sources * s->targets && i < 64; i++)
        s->alignment[i] = t->alignment[i];
    return true;
}

static seen translate(tfm_model *model, const tfm_text_options *text) {
    const char *lines[] = {"w7 w9 w6"};
    const tfm_search_options search = {.beam_size = 1, .max_length = 5, .length_norm = TFM_LENGTH_NORM_HF};
    seen s = {0};
    harness_ok(tfm_translate_lines(model, lines, 1, text, &search, see, &s));
    return s;
}

static void check_source(const seen *s, size_t count, const int32_t *ids) {
    assert_int_equal(s->sources, count);
    assert_memory_equal(s->source, ids, count * sizeof(*ids));
}

static bool keep_score(void *user, size_t line, double log_prob, size_t tokens) {
    assert_int_equal(line, 0);
    ((double *)user)[0] = log_prob;
    ((double *)user)[1] = (double)tokens;
    return true;
}

/* log p of the target's tokens after the start token, from the logits. */
static double by_hand(tfm_model *model, const int32_t *source, int64_t sources, const int32_t *target,
                      int64_t targets) {
    int32_t input[16] = {EOS};
    memcpy(input + 1, target, (size_t)(targets - 1) * sizeof(*target));
    tfm_tensor encoded = {0}, logits = {0};
    tfm_tensor x = HARNESS_TENSOR(TFM_I32, source, 1, sources), y = HARNESS_TENSOR(TFM_I32, input, 1, targets);
    harness_ok(tfm_model_encode(model, &encoded, x, (tfm_tensor){0}));
    harness_ok(tfm_model_decode(model, &logits, y, encoded, (tfm_tensor){0}));
    float *host = harness_floats(logits);
    double total = 0;
    for (int64_t t = 0; t < targets; t++) {
        double sum = 0;
        for (int v = 0; v < VOCABULARY; v++)
            sum += exp((double)host[t * VOCABULARY + v]);
        total += (double)host[t * VOCABULARY + target[t]] - log(sum);
    }
    free(host);
    return total;
}

/* ---- Tests ---- */

static const char *const NLLB[] = {"deu_Latn", "eng_Latn", "fra_Latn"};

static void test_language_tokens_surround_source_and_force_target(void **state) {
    (void)state;
    tfm_model *model = open_model("gradients-m2m100", NLLB, "NllbTokenizer");
    seen s = translate(model, &(tfm_text_options){.source_language = "fra_Latn", .target_language = "deu_Latn"});
    check_source(&s, 5, (int32_t[]){FRENCH, 7, 9, 6, EOS});
    assert_int_equal(s.target[0], GERMAN);
    assert_true(s.first == 0); /* it is forced */
    s = translate(model, &(tfm_text_options){.target_language = "fra_Latn", .source_prefix = "w5 w11 "});
    check_source(&s, 7, (int32_t[]){ENGLISH, 5, 11, 7, 9, 6, EOS}); /* the tokenizer's default language */
    assert_int_equal(s.target[0], FRENCH);
    /* A term of a glossary follows the language token. */
    const tfm_glossary_term term = {"w9", "w13 w14"};
    s = translate(model, &(tfm_text_options){.target_language = "deu_Latn", .glossary = &term, .glossary_count = 1});
    size_t at = 1;
    while (at < s.targets && s.target[at] != 13)
        at++;
    assert_true(s.target[0] == GERMAN && s.target[1] != GERMAN && at + 1 < s.targets && s.target[at + 1] == 14);
    double got[2];
    harness_ok(tfm_score(model, (const char *[]){"w7 w9 w6"}, (const char *[]){"w5 w8"}, 1,
                         &(tfm_text_options){.source_language = "fra_Latn", .target_language = "deu_Latn"}, keep_score,
                         got));
    const double want = by_hand(model, (int32_t[]){FRENCH, 7, 9, 6, EOS}, 5, (int32_t[]){GERMAN, 5, 8, EOS}, 4);
    assert_true(got[1] == 4 && fabs(got[0] / want - 1) < 1e-5);
    tfm_model_free(&model);
}

/* The decoder's last cross-attention map, averaged over heads, and the decoder's input. */
static bool see_map(void *user, const tfm_attention_map *map) {
    seen *s = user;
    const size_t cells = map->rows.count * map->columns.count;
    if (map->kind != TFM_DECODER_CROSS)
        return true;
    assert_true(cells <= 64);
    s->targets = map->rows.count;
    memcpy(s->target, map->rows.ids, s->targets * sizeof(int32_t));
    for (size_t i = 0; i < cells; i++) {
        s->alignment[i] = 0;
        for (int h = 0; h < map->heads; h++)
            s->alignment[i] += map->weights[(size_t)h * cells + i] / (float)map->heads;
    }
    return true;
}

/* The first mBART models start decoding with the language token, also for attention maps. */
static void test_decoder_start_id_is_the_language_for_mbart(void **state) {
    (void)state;
    tfm_model *model = open_model("gradients-m2m100", NLLB, "NllbTokenizer");
    model->rules.forced_bos_id = -1;
    const tfm_search_options search = {.beam_size = 1,
                                       .max_length = 5,
                                       .length_norm = TFM_LENGTH_NORM_HF,
                                       .has_decoder_start_id = true,
                                       .decoder_start_id = FRENCH};
    const tfm_text_options text = {.alignments = true};
    const char *line = "w7 w9 w6";
    seen one = {0}, other = {0};
    harness_ok(tfm_translate_lines(model, &line, 1, &text, &search, see, &one));
    harness_ok(tfm_attention_maps(model, line, NULL, &text, &search, see_map, &other));
    assert_int_equal(other.target[0], FRENCH);
    assert_int_equal(one.targets, other.targets);
    for (size_t i = 0; i < one.sources * one.targets; i++)
        assert_true(fabsf(one.alignment[i] - other.alignment[i]) < 1e-5f);
    /* The same with a language whose start token is set. */
    model->rules.start_id = GERMAN;
    const tfm_text_options french = {.alignments = true, .target_language = "fra_Latn"};
    seen spoken = {0};
    const tfm_search_options plain = {.beam_size = 1, .max_length = 5, .length_norm = TFM_LENGTH_NORM_HF};
    harness_ok(tfm_translate_lines(model, &line, 1, &french, &plain, see, &spoken));
    assert_int_equal(spoken.targets, one.targets);
    for (size_t i = 0; i < one.sources * one.targets; i++)
        assert_true(fabsf(one.alignment[i] - spoken.alignment[i]) < 1e-5f);
    tfm_model_free(&model);
}

/* A blank source has no words, though its language token remains. */
static void test_blank_source_with_language_token_is_rejected(void **state) {
    (void)state;
    tfm_model *model = open_model("gradients-m2m100", NLLB, "NllbTokenizer");
    seen s = {0};
    scratch_refused(tfm_attention_maps(model, " ", "w5", NULL, NULL, see_map, &s), TFM_ERROR_INPUT, "has no words");
    scratch_refused(
        tfm_attention_maps(model, "w7", "w5", NULL,
                           &(tfm_search_options){.has_decoder_start_id = true, .decoder_start_id = VOCABULARY}, see_map,
                           &s),
        TFM_ERROR_ARGUMENT, "the vocabulary has 23");
    tfm_model_free(&model);
}

static void test_target_language_prefix_is_a_source_token(void **state) {
    (void)state;
    static const char *const madlad[] = {"<2de>", "<2en>", "<2fr>"};
    tfm_model *model = open_model("gradients-t5", madlad, "T5Tokenizer");
    seen s = translate(model, &(tfm_text_options){.target_language = "fr"});
    assert_int_equal(s.source[0], FRENCH);
    assert_int_equal(s.source[1], 7);
    s = translate(model, &(tfm_text_options){.target_language = "de", .source_prefix = "w12 "});
    assert_int_equal(s.source[0], GERMAN);
    assert_int_equal(s.source[1], 12);
    s = translate(model, &(tfm_text_options){0});
    assert_int_equal(s.source[0], 7);
    tfm_model_free(&model);
}

static void test_unknown_language_is_rejected_with_suggestion(void **state) {
    (void)state;
    const struct {
        const char *source, *target, *part;
    } cases[] = {
        {NULL, "deu_Latm", "the target language \"deu_Latm\"; did you mean deu_Latn?"},
        {NULL, "deu", "did you mean deu_Latn?"},
        {"w5", NULL, "the source language \"w5\". It has deu_Latn, eng_Latn, fra_Latn"},
        {NULL, "<s>", "the target language \"<s>\""},
    };
    tfm_model *model = open_model("gradients-m2m100", NLLB, "NllbTokenizer");
    seen s;
    double score[2];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const tfm_text_options o = {.source_language = cases[i].source, .target_language = cases[i].target};
        const char *line[] = {"w7"};
        scratch_refused(tfm_translate_lines(model, line, 1, &o, NULL, see, &s), TFM_ERROR_ARGUMENT, cases[i].part);
        scratch_refused(tfm_score(model, line, line, 1, &o, keep_score, score), TFM_ERROR_ARGUMENT, cases[i].part);
    }
    int32_t ids[] = {7, EOS};
    tfm_hypotheses found;
    scratch_refused(tfm_search(model, &found, ids, (size_t[]){2}, 1, NULL, NULL,
                               &(tfm_search_options){.has_forced_bos_id = true, .forced_bos_id = VOCABULARY}),
                    TFM_ERROR_ARGUMENT, "the vocabulary has 23");
    tfm_model_free(&model);
}

static int setup(void **state) {
    return harness_setup(state) || scratch_setup(state);
}

static int teardown(void **state) {
    return scratch_teardown(state) || harness_teardown(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_language_tokens_surround_source_and_force_target),
        cmocka_unit_test(test_decoder_start_id_is_the_language_for_mbart),
        cmocka_unit_test(test_blank_source_with_language_token_is_rejected),
        cmocka_unit_test(test_target_language_prefix_is_a_source_token),
        cmocka_unit_test(test_unknown_language_is_rejected_with_suggestion),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
