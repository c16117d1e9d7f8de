/* Results of tfm_translate_lines: token log probabilities, against PyTorch's logits; alignments, against
 * tfm_attention_maps; lines joined from sentences. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "support/harness.h"
#include "model/weights/weight_file.h"
#include "model/core/model.h"

static tfm_model *open_model(const char *relative) {
    char *dir = harness_source(relative);
    tfm_model *model = NULL;
    harness_ok(tfm_model_open(&model, harness_context(), dir, NULL));
    free(dir);
    return model;
}

/* ---- Log probabilities ----------------------------------------------------------------------------------------- */

static int32_t *stored_ids(const tfm__weights *file, int line, const char *what, size_t *count) {
    char name[64];
    snprintf(name, sizeof(name), "%d.%s", line, what);
    const tfm__stored_tensor *found = tfm__weights_find(file, name);
    if (!found)
        return NULL;
    int32_t *ids = malloc(found->bytes);
    memcpy(ids, found->data, found->bytes);
    *count = found->count;
    return ids;
}

/* log p of a token from one row of PyTorch's logits, with excluded tokens at probability 0. */
static double log_prob(const tfm_model *model, const float *row, int32_t id) {
    const int vocabulary = model->arch.decoder.vocabulary;
    double most = -INFINITY, sum = 0;
    for (int v = 0; v < vocabulary; v++)
        if (!tfm__generation_is_banned(&model->rules, v))
            most = fmax(most, (double)row[v]);
    for (int v = 0; v < vocabulary; v++)
        if (!tfm__generation_is_banned(&model->rules, v))
            sum += exp((double)row[v] - most);
    return (double)row[id] - most - log(sum);
}

/* The golden's own target, forced: each token has PyTorch's probability. */
static void check_golden(const char *relative) {
    char path[512];
    tfm__weights *file = NULL;
    tfm_model *model = open_model(relative);
    char *dir = harness_source(relative);
    snprintf(path, sizeof(path), "%s/golden.safetensors", dir);
    harness_ok(tfm__weights_open(&file, path));
    int seen = 0;
    for (int line = 0; line < 20; line++) {
        char name[64];
        size_t sources = 0, inputs = 1;
        snprintf(name, sizeof(name), "%d.logits", line);
        const tfm__stored_tensor *logits = tfm__weights_find(file, name);
        if (!logits)
            continue;
        int32_t *source = stored_ids(file, line, "source_ids", &sources);
        int32_t *input = stored_ids(file, line, "decoder_input_ids", &inputs);
        const size_t forced = inputs - 1;
        tfm_hypotheses found;
        harness_ok(tfm_search(model, &found, source, &sources, 1, input + 1, &forced,
                              &(tfm_search_options){.beam_size = 2, .n_best = 2}));
        for (int best = 0; best < 2; best++) {
            const tfm_hypothesis *h = &found.items[best];
            double sum = 0;
            for (int i = 0; i < h->tokens; i++)
                sum += (double)h->log_probs[i];
            assert_true(h->tokens > (int)forced && fabs(sum - h->log_prob) < 1e-4);
            assert_true((h->ids[h->tokens - 1] == model->rules.eos_id) == ((size_t)h->tokens == h->count + 1));
            for (size_t i = 0; i < forced; i++) {
                const float *row = (const float *)logits->data + i * (size_t)model->arch.decoder.vocabulary;
                assert_int_equal(h->ids[i], input[i + 1]);
                assert_true(fabs((double)h->log_probs[i] - log_prob(model, row, input[i + 1])) < 1e-4);
            }
        }
        tfm_hypotheses_free(&found);
        free(source);
        free(input);
        seen++;
    }
    assert_true(seen >= 2);
    tfm__weights_free(&file);
    tfm_model_free(&model);
    free(dir);
}

static void test_token_log_probs_match_pytorch(void **state) {
    (void)state;
    check_golden("tests/golden/untied-gelu-bf16");
    if (!harness_slow())
        check_golden("tests/golden/prenorm-silu-f16");
}

/* ---- Translations ---------------------------------------------------------------------------------------------- */

enum { KEPT = 16 };

typedef struct kept {
    char text[KEPT][256], target[KEPT][512];
    double score[KEPT], log_prob[KEPT], sum[KEPT];
    size_t line[KEPT], sources[KEPT], targets[KEPT], sentences[KEPT];
    float *alignment[KEPT];
    size_t count;
} kept;

static bool keep(void *user, const tfm_translation *t) {
    kept *k = user;
    const size_t i = k->count++, cells = t->target.count * t->source.count;
    assert_true(i < KEPT);
    snprintf(k->text[i], sizeof(k->text[i]), "%s", t->text);
    k->target[i][0] = 0;
    for (size_t n = 0; n < t->target.count; n++) {
        strncat(k->target[i], t->target.tokens[n], sizeof(k->target[i]) - strlen(k->target[i]) - 1);
        k->sum[i] += (double)t->log_probs[n];
    }
    k->line[i] = t->line;
    k->score[i] = t->score;
    k->log_prob[i] = t->log_prob;
    k->sources[i] = t->source.count;
    k->targets[i] = t->target.count;
    k->sentences[i] = t->sentences;
    if (t->alignment) {
        k->alignment[i] = malloc(cells * sizeof(float));
        memcpy(k->alignment[i], t->alignment, cells * sizeof(float));
    }
    return true;
}

static void kept_clear(kept *k) {
    for (size_t i = 0; i < k->count; i++)
        free(k->alignment[i]);
    *k = (kept){0};
}

static void run(kept *k, tfm_model *model, const char *const *lines, size_t count, const tfm_text_options *text,
                int n_best) {
    kept_clear(k);
    harness_ok(tfm_translate_lines(model, lines, count, text, &(tfm_search_options){.beam_size = 2, .n_best = n_best},
                                   keep, k));
}

/* The attention of one layer from tfm_attention_maps: a mean over heads, or one head. */
typedef struct shown {
    int layer, head;
    const kept *reference;
    size_t index;
    bool seen;
} shown;

static bool compare(void *user, const tfm_attention_map *map) {
    shown *s = user;
    if (map->kind != TFM_DECODER_CROSS || map->layer != s->layer)
        return true;
    const size_t cells = map->rows.count * map->columns.count;
    assert_int_equal(map->rows.count, s->reference->targets[s->index]);
    assert_int_equal(map->columns.count, s->reference->sources[s->index]);
    for (size_t i = 0; i < cells; i++) {
        double want = 0;
        for (int h = 0; h < map->heads; h++)
            want += s->head < 0 || h == s->head ? (double)map->weights[(size_t)h * cells + i] : 0;
        want /= s->head < 0 ? map->heads : 1;
        assert_true(fabs(want - (double)s->reference->alignment[s->index][i]) < 1e-5);
    }
    s->seen = true;
    return true;
}

static void check_alignment(tfm_model *model, const kept *k, size_t index, const char *source, int layer, int head) {
    shown s = {layer, head, k, index, false};
    harness_ok(tfm_attention_maps(model, source, NULL, NULL, &(tfm_search_options){.beam_size = 2}, compare, &s));
    assert_true(s.seen);
}

static void test_alignments_equal_attention_maps(void **state) {
    (void)state;
    tfm_model *model = open_model("apps/demo");
    const int layers = model->arch.decoder.layers;
    const char *lines[] = {"Ich bin heute sehr müde.", "", "Danke."};
    kept k = {0};
    run(&k, model, lines, 3, &(tfm_text_options){.alignments = true}, 2);
    assert_int_equal(k.count, 5); /* two, one empty line, two */
    assert_true(isnan(k.score[2]) && k.targets[2] == 0 && !k.alignment[2] && k.sentences[2] == 0);
    check_alignment(model, &k, 0, lines[0], layers - 1, -1);
    check_alignment(model, &k, 3, lines[2], layers - 1, -1);
    for (size_t i = 0; i < k.count; i++)
        assert_true(i == 2 || fabs(k.sum[i] - k.log_prob[i]) < 1e-4);
    run(&k, model, lines + 2, 1, &(tfm_text_options){.alignments = true, .alignment_layer = 1, .alignment_head = 2}, 1);
    check_alignment(model, &k, 0, lines[2], 0, 1);
    run(&k, model, lines, 1, NULL, 1);
    assert_null(k.alignment[0]);
    kept_clear(&k);
    const tfm_text_options deep = {.alignment_layer = layers + 1}, many = {.alignment_head = 99};
    harness_refused(tfm_translate_lines(model, lines, 1, &deep, NULL, keep, &k), TFM_ERROR_ARGUMENT, "layer");
    harness_refused(tfm_translate_lines(model, lines, 1, &many, NULL, keep, &k), TFM_ERROR_ARGUMENT, "head");
    harness_refused(tfm_translate_lines(model, lines, 1, &(tfm_text_options){.batch_tokens = -1}, NULL, keep, &k),
                    TFM_ERROR_ARGUMENT, "batch_tokens is -1");
    tfm_model_free(&model);
}

/* A search with only one possible hypothesis returns empty ones for the rest. */
static void test_missing_hypotheses_are_empty(void **state) {
    (void)state;
    tfm_model *model = open_model("apps/demo");
    const char *line = "Danke.";
    kept k = {0};
    model->rules.forced_eos_id = model->rules.eos_id;
    harness_ok(tfm_translate_lines(model, &line, 1, &(tfm_text_options){.alignments = true},
                                   &(tfm_search_options){.beam_size = 2, .n_best = 2, .max_length = 1}, keep, &k));
    assert_int_equal(k.count, 2);
    assert_true(k.targets[0] == 1 && isfinite(k.score[0]));
    assert_true(k.targets[1] == 0 && k.score[1] == -INFINITY && k.log_prob[1] == -INFINITY);
    assert_string_equal(k.text[1], "");
    kept_clear(&k);
    tfm_model_free(&model);
}

/* ---- Sentences ------------------------------------------------------------------------------------------------- */

static bool on_reject(void *user, size_t line, const char *message) {
    (void)message;
    *(size_t *)user += line;
    return true;
}

/* A line's language code applies to all its sentences. */
static void test_language_code_applies_to_all_split_sentences(void **state) {
    (void)state;
    tfm_model *model = open_model("apps/demo");
    const char *line = ">>fra<< Guten Morgen. Wo ist Tom?", *parts[] = {">>fra<< Guten Morgen.", ">>fra<< Wo ist Tom?"};
    kept one = {0}, all = {0};
    char want[1100];
    run(&one, model, parts, 2, NULL, 1);
    run(&all, model, &line, 1, &(tfm_text_options){.split = true, .language = "de"}, 1);
    assert_int_equal(all.sentences[0], 2);
    assert_int_equal(all.sources[0], one.sources[0] + one.sources[1]);
    snprintf(want, sizeof(want), "%s %s", one.text[0], one.text[1]);
    assert_string_equal(all.text[0], want);
    kept_clear(&one);
    kept_clear(&all);
    tfm_model_free(&model);
}

static void test_split_lines_equal_their_sentences(void **state) {
    (void)state;
    tfm_model *model = open_model("apps/demo");
    const char *parts[] = {"Guten Morgen.", "Wo ist Tom?", "Danke."};
    const char *lines[] = {" Guten Morgen.  Wo ist Tom?", "Danke.", "Danke. Dan\377ke.", "Guten Morgen.Wo ist Tom?"};
    kept one = {0}, all = {0};
    char want[1100];
    size_t rejected = 0;
    run(&one, model, parts, 3, &(tfm_text_options){.alignments = true}, 1);
    tfm__fail(TFM_ERROR_INPUT, "an earlier call");
    run(&all, model, lines, 3,
        &(tfm_text_options){
            .split = true, .language = "de", .alignments = true, .reject = on_reject, .reject_user = &rejected},
        1);
    assert_string_equal(tfm_error_message(), "an earlier call"); /* a rejected line is no failure */
    assert_int_equal(rejected, 2);                               /* once, by its line */
    assert_int_equal(all.count, 3);
    snprintf(want, sizeof(want), "%s  %s", one.text[0], one.text[1]);
    assert_string_equal(all.text[0], want);
    snprintf(want, sizeof(want), "%s%s", one.target[0], one.target[1]);
    assert_string_equal(all.target[0], want);
    assert_true(fabs(all.score[0] - one.score[0] - one.score[1]) < 1e-4);
    assert_true(fabs(all.log_prob[0] - one.log_prob[0] - one.log_prob[1]) < 1e-4);
    assert_true(all.sentences[0] == 2 && all.sentences[1] == 1 && isnan(all.score[2]));
    assert_string_equal(all.text[1], one.text[2]);
    /* A sentence aligns to itself, not to the other. */
    const size_t columns = one.sources[0] + one.sources[1];
    assert_int_equal(all.sources[0], columns);
    for (size_t r = 0; r < all.targets[0]; r++)
        for (size_t c = 0; c < columns; c++) {
            const size_t second = r >= one.targets[0], row = r - second * one.targets[0];
            const size_t column = c - second * one.sources[0];
            const bool own = second == (c >= one.sources[0]);
            const float value = own ? one.alignment[second][row * one.sources[second] + column] : 0;
            assert_true(fabsf(all.alignment[0][r * columns + c] - value) < 1e-4f);
        }
    /* The prefix applies to the first sentence. */
    const char *prefixes[] = {"The"};
    run(&all, model, lines, 1, &(tfm_text_options){.split = true, .prefixes = prefixes}, 1);
    assert_memory_equal(all.text[0], "The", 3);
    assert_non_null(strstr(all.text[0], one.text[1]));
    harness_refused(tfm_translate_lines(model, lines, 1, &(tfm_text_options){.split = true},
                                        &(tfm_search_options){.beam_size = 2, .n_best = 2}, keep, &all),
                    TFM_ERROR_ARGUMENT, "cannot be combined");
    kept_clear(&one);
    kept_clear(&all);
    tfm_model_free(&model);
}

/* ---- Failures -------------------------------------------------------------------------------------------------- */

static bool no_score(void *user, size_t line, double log_prob, size_t tokens) {
    (void)user, (void)line, (void)log_prob, (void)tokens;
    return true;
}

/* A failure before the call sticks: the call returns it and does nothing. */
static void test_failed_context_rejects_further_calls(void **state) {
    (void)state;
    static const tfm_status FAILURES[] = {TFM_ERROR_MEMORY, TFM_ERROR_AGAIN, TFM_ERROR_DEVICE};
    tfm_context *ctx = harness_context();
    tfm_model *model = open_model("apps/demo");
    const char *lines[] = {"Danke.", "Guten Morgen."};
    kept k = {0};
    for (size_t i = 0; i < sizeof(FAILURES) / sizeof(FAILURES[0]); i++) {
        tfm__context_fail(ctx, FAILURES[i], "an earlier call");
        harness_refused(tfm_translate_lines(model, lines, 2, NULL, NULL, keep, &k), FAILURES[i],
                        "translate: the context has failed before");
        assert_int_equal(k.count, 0);
        tfm__context_fail(ctx, FAILURES[i], "an earlier call");
        harness_refused(tfm_score(model, lines, lines, 2, NULL, no_score, NULL), FAILURES[i],
                        "score: the context has failed before");
    }
    tfm_model_free(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_token_log_probs_match_pytorch),
        cmocka_unit_test(test_alignments_equal_attention_maps),
        cmocka_unit_test(test_missing_hypotheses_are_empty),
        cmocka_unit_test(test_split_lines_equal_their_sentences),
        cmocka_unit_test(test_language_code_applies_to_all_split_sentences),
        cmocka_unit_test(test_failed_context_rejects_further_calls),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
