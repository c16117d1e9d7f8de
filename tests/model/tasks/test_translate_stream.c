/* Streaming translation with continuous batching: whatever their order of arrival and batch, lines are translated as by
 * tfm_translate_lines. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "support/demo.h"
#include "dev/dev.h"
#include "support/harness.h"
#include "model/core/model.h"
#include "tfm/model.h"

enum { MOST = 160, BEST = 4 };

/* The result of a line. */
typedef struct answer {
    char *text[BEST];
    double score[BEST];
    size_t tokens, sentences;
    int emitted;
} answer;

static answer expected[MOST], got[MOST];

static void clear(answer *answers) {
    for (int i = 0; i < MOST; i++)
        for (int best = 0; best < BEST; best++)
            free(answers[i].text[best]);
    memset(answers, 0, MOST * sizeof(*answers));
}

static void keep(answer *a, const tfm_translation *t) {
    assert_in_range(t->rank, 0, BEST - 1);
    assert_null(a->text[t->rank]);
    a->text[t->rank] = strdup(t->text);
    a->score[t->rank] = t->score;
    if (t->rank > 0)
        return;
    a->tokens = t->target.count;
    a->sentences = t->sentences;
    for (size_t i = 0; i < t->target.count; i++)
        assert_true(t->log_probs[i] <= 0);
    a->emitted++;
}

static bool keep_expected(void *user, const tfm_translation *t) {
    (void)user;
    keep(&expected[t->line], t);
    return true;
}

/* ---- Line source ------------------------------------------------------------------------------------------------- */

/* Lines, and their arrival: a pause may follow a line. */
typedef struct source {
    char **lines;
    size_t count, given, base; /* `base` lines were given in earlier calls */
    harness_random random;
    int gap, wait; /* the longest pause, and the rest of the current one */
    size_t late;   /* lines emitted before an earlier one */
    size_t highest;
    bool any;
    int stop_after; /* lines to emit before the caller stops the call; 0: no stop */
    int rejected;
    size_t last; /* the last emitted line */
} source;

static bool more(void *user, const char **line, size_t *bytes) {
    source *s = user;
    if (s->given == s->count || s->wait-- > 0)
        return false;
    s->wait = s->gap > 0 && harness_range(&s->random, 0, 3) == 0 ? harness_range(&s->random, 1, s->gap) : 0;
    *line = s->lines[s->given];
    *bytes = strlen(s->lines[s->given++]);
    return true;
}

static bool emit(void *user, const tfm_translation *t) {
    source *s = user;
    assert_true(s->base + t->line < s->given);
    keep(&got[s->base + t->line], t);
    if (t->rank == 0) {
        s->late += s->any && t->line < s->highest;
        s->highest = s->any && t->line < s->highest ? s->highest : t->line;
        s->any = true;
    }
    s->last = s->base + t->line;
    return --s->stop_after != 0;
}

static bool reject(void *user, size_t line, const char *message) {
    source *s = user;
    assert_non_null(message);
    assert_true(s->base + line < s->given);
    s->rejected++;
    return true;
}

/* Calls until all lines are given: a call ends if no line arrives in time. */
static void feed_all(source *s, tfm_model *model, const tfm_text_options *text, const tfm_search_options *search) {
    while (s->given < s->count) {
        s->base = s->given;
        s->any = false;
        harness_ok(tfm_translate_stream(model, more, s, text, search, emit, s));
    }
}

static void compare(size_t count, int n_best) {
    for (size_t i = 0; i < count; i++) {
        const answer *want = &expected[i], *have = &got[i];
        assert_int_equal(have->emitted, 1);
        assert_int_equal(have->sentences, want->sentences);
        for (int best = 0; best < n_best; best++) {
            if (isnan(want->score[best])) {
                assert_true(isnan(have->score[best]));
                continue;
            }
            if (!want->text[best]) {
                assert_null(have->text[best]);
                continue;
            }
            assert_non_null(have->text[best]);
            /* GEMMs of other sizes round differently: nearly equal hypotheses may swap ranks. */
            assert_true(fabs(have->score[best] - want->score[best]) < 2e-4 * (1 + fabs(want->score[best])) ||
                        (isinf(want->score[best]) && isinf(have->score[best])));
            if (best == 0 && n_best == 1) {
                assert_string_equal(have->text[0], want->text[0]);
                assert_int_equal(have->tokens, want->tokens);
            }
        }
    }
}

/* ---- The model --------------------------------------------------------------------------------------------------- */

static tfm_model *model;
static char *lines[MOST];
static size_t line_count;

/* Lines of the demo's test set, and the same without their first words. */
static int begin(void **state) {
    const int failed = harness_setup(state);
    char *dir = harness_source("apps/demo");
    harness_ok(tfm_model_open(&model, harness_context(), dir, NULL));
    free(dir);
    while (line_count < (harness_brief() ? 40 : MOST)) {
        char *line = demo_line("test.de", 1 + (int)(line_count % 20));
        const char *rest = line;
        for (size_t words = line_count / 20; words > 0 && strchr(rest, ' '); words--)
            rest = strchr(rest, ' ') + 1;
        memmove(line, rest, strlen(rest) + 1);
        lines[line_count++] = line;
    }
    return failed;
}

static int end(void **state) {
    for (size_t i = 0; i < line_count; i++)
        free(lines[i]);
    clear(expected);
    clear(got);
    tfm_model_free(&model);
    return harness_teardown(state);
}

/* ---- Tests ------------------------------------------------------------------------------------------------------- */

static void expect(const tfm_text_options *text, const tfm_search_options *search) {
    clear(expected);
    harness_ok(tfm_translate_lines(model, (const char *const *)lines, line_count, text, search, keep_expected, NULL));
}

/* Returns how many lines were emitted early. */
static size_t check(const tfm_text_options *text, const tfm_search_options *search, int gap, uint64_t seed) {
    source s = {.lines = lines, .count = line_count, .random = {seed}, .gap = gap};
    tfm_text_options own = *text;
    tfm_search_stats stats = {0};
    own.stats = &stats;
    if (own.reject)
        own.reject_user = &s;
    clear(got);
    feed_all(&s, model, &own, search);
    compare(line_count, search->n_best ? search->n_best : 1);
    size_t tokens = 0, sentences = 0;
    for (size_t i = 0; i < line_count; i++) {
        tokens += got[i].tokens;
        sentences += got[i].sentences;
    }
    assert_int_equal(stats.target_tokens, tokens);
    assert_int_equal(stats.sentences, sentences);
    assert_true(stats.source_tokens > 0 && stats.seconds > 0);
    return s.late;
}

/* With continuous batching short lines overtake long ones. */
static void test_streamed_lines_equal_translated_lines(void **state) {
    (void)state;
    static const tfm_search_options searches[] = {
        {.beam_size = 4, .n_best = 1},
        {.beam_size = 4, .n_best = 4, .length_penalty = 1.2, .has_length_penalty = true},
        {.beam_size = 1, .n_best = 1},
        {.beam_size = 4, .n_best = 1, .max_length = 9},
        {.beam_size = 4, .n_best = 1, .length_norm = TFM_LENGTH_NORM_HF},
    };
    size_t late = 0;
    for (size_t i = 0; i < (harness_slow() ? 1 : harness_brief() ? 3 : sizeof(searches) / sizeof(*searches)); i++) {
        expect(&(tfm_text_options){0}, &searches[i]);
        for (int way = 0; way < (harness_slow() || harness_brief() ? 1 : 4); way++) {
            const tfm_text_options text = {.batch_tokens = (const int[]){300, 0, 120, 60}[way]};
            late += check(&text, &searches[i], (const int[]){6, 0, 40, 3}[way], 100 * i + (uint64_t)way + 1);
        }
    }
    printf("%zu lines were emitted early\n", late);
    if (tfm__context_tuning(harness_context())->search_ragged_rows > 0)
        assert_true(late > 0);
}

/* Slots move in the int8 KV cache, as in the others. */
static void test_streamed_lines_with_int8_kv_cache_equal_translated_lines(void **state) {
    (void)state;
    if (harness_slow())
        skip();
    const tfm_search_options search = {.beam_size = 4, .n_best = 1};
    model->kv_dtype = TFM_I8;
    expect(&(tfm_text_options){0}, &search);
    const size_t late = check(&(tfm_text_options){.batch_tokens = 120}, &search, 6, 5);
    model->kv_dtype = TFM_F32;
    if (tfm__context_tuning(harness_context())->search_ragged_rows > 0)
        assert_true(late > 0);
}

/* Greedy without scores, with a model large enough for the int8-screened argmax. */
static void test_streamed_greedy_without_scores_equals_scored(void **state) {
    (void)state;
    const tfm_text_options text = {.batch_tokens = 300};
    expect(&text, &(tfm_search_options){.beam_size = 1});
    for (size_t i = 0; i < line_count; i++)
        expected[i].score[0] = isnan(expected[i].score[0]) ? expected[i].score[0] : 0;
    const size_t late = check(&text, &(tfm_search_options){.beam_size = 1, .skip_scores = true}, 0, 77);
    if (tfm__context_tuning(harness_context())->search_ragged_rows > 0)
        assert_true(late > 0);
    assert_int_equal(model->output_int8.version != 0, tfm__argmax_int8_supported(model->ctx, model->output->value));
}

/* Lines of several sentences, blank ones, and bad ones, reported by the callback. */
static void test_streamed_split_blank_and_bad_lines_are_handled(void **state) {
    (void)state;
    char *kept[] = {lines[3], lines[7], lines[11], lines[12]};
    char joined[1024];
    snprintf(joined, sizeof(joined), "%s %s %s", lines[0], lines[20], lines[5]);
    lines[3] = joined;
    lines[7] = (char[]){""};
    lines[11] = (char[]){" \t "};
    lines[12] = (char[]){"\xff\xfe"};
    const tfm_text_options text = {.split = true, .batch_tokens = 200, .reject = reject};
    const tfm_search_options search = {.beam_size = 4};
    source s = {.lines = lines, .count = line_count, .given = line_count};
    tfm_text_options own = text;
    own.reject_user = &s;
    expect(&own, &search);
    assert_int_equal(s.rejected, 1);
    check(&text, &search, 5, 9);

    /* Without the callback the call fails, and the error has the line number. */
    s = (source){.lines = lines, .count = line_count, .random = {4}};
    clear(got);
    harness_refused(tfm_translate_stream(model, more, &s, &(tfm_text_options){.batch_tokens = 100}, &search, emit, &s),
                    TFM_ERROR_INPUT, "line 13: ");
    s = (source){.lines = lines, .count = line_count, .random = {4}};
    clear(got);
    harness_refused(tfm_translate_stream(model, more, &s, &(tfm_text_options){.batch_tokens = 40, .alignments = true},
                                         &search, emit, &s),
                    TFM_ERROR_INPUT, "line 13: ");
    lines[3] = kept[0];
    lines[7] = kept[1];
    lines[11] = kept[2];
    lines[12] = kept[3];
}

static bool never(void *user) {
    return ++*(int *)user < 3;
}

static void test_stream_callbacks_can_cancel(void **state) {
    (void)state;
    const tfm_text_options text = {.batch_tokens = 150};
    source s = {.lines = lines, .count = line_count, .random = {4}, .stop_after = 5};
    clear(got);
    assert_int_equal(tfm_translate_stream(model, more, &s, &text, NULL, emit, &s), TFM_ERROR_CANCELLED);
    assert_int_equal(s.stop_after, 0);
    char named[32];
    snprintf(named, sizeof(named), "at line %zu", s.last + 1);
    assert_non_null(strstr(tfm_error_message(), named));
    int steps = 0;
    s = (source){.lines = lines, .count = line_count, .random = {4}};
    clear(got);
    assert_int_equal(
        tfm_translate_stream(model, more, &s, &text,
                             &(tfm_search_options){.should_continue = never, .should_continue_user = &steps}, emit, &s),
        TFM_ERROR_CANCELLED);
    /* No lines. */
    s = (source){.lines = lines};
    harness_ok(tfm_translate_stream(model, more, &s, NULL, NULL, emit, &s));
    /* Incompatible options. */
    const char *prefix = "A";
    assert_int_equal(tfm_translate_stream(model, more, &s, &(tfm_text_options){.prefixes = &prefix}, NULL, emit, &s),
                     TFM_ERROR_ARGUMENT);
    assert_int_equal(tfm_translate_stream(model, more, &s, &(tfm_text_options){.split = true},
                                          &(tfm_search_options){.beam_size = 4, .n_best = 2}, emit, &s),
                     TFM_ERROR_ARGUMENT);
}

/* Alignments use a batch without admission. */
static void test_streamed_alignments_equal_translated_lines(void **state) {
    (void)state;
    const tfm_text_options text = {.alignments = true, .batch_tokens = 200};
    expect(&text, &(tfm_search_options){.beam_size = 2});
    check(&text, &(tfm_search_options){.beam_size = 2}, 0, 8);
}

/* Device usage of one call. */
static double memory_of(bool feeds, source *s) {
    tfm_context *ctx;
    tfm_model *own;
    char *dir = harness_source("apps/demo");
    const tfm_text_options text = {.batch_tokens = 400};
    harness_ok(tfm_context_open(&ctx, NULL));
    harness_ok(tfm_model_open(&own, ctx, dir, NULL));
    const double before = (double)tfm_context_peak_memory(ctx);
    if (feeds)
        feed_all(s, own, &text, NULL);
    else
        harness_ok(tfm_translate_lines(own, (const char *const *)s->lines, s->count, &text, NULL, keep_expected, NULL));
    const double after = (double)tfm_context_peak_memory(ctx);
    tfm_model_free(&own);
    tfm_context_free(&ctx);
    free(dir);
    return after - before;
}

/* A long line among short ones does not widen all of them. */
static void test_long_line_in_stream_does_not_enlarge_the_others(void **state) {
    (void)state;
    char longest[2048] = "", *kept = lines[30];
    if (harness_poses())
        skip();
    while (strlen(longest) < 1000) {
        strcat(longest, lines[5]);
        strcat(longest, " ");
    }
    lines[30] = longest;
    source s = {.lines = lines, .count = line_count, .random = {3}};
    clear(expected);
    clear(got);
    const double lists = memory_of(false, &s), feeds = memory_of(true, &s);
    compare(line_count, 1);
    printf("device memory besides the model: %.0f KiB for a list, %.0f for a stream\n", lists / 1024, feeds / 1024);
    assert_true(feeds < 1.6 * lists);
    lines[30] = kept;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streamed_lines_equal_translated_lines),
        cmocka_unit_test(test_streamed_lines_with_int8_kv_cache_equal_translated_lines),
        cmocka_unit_test(test_streamed_greedy_without_scores_equals_scored),
        cmocka_unit_test(test_streamed_split_blank_and_bad_lines_are_handled),
        cmocka_unit_test(test_stream_callbacks_can_cancel),
        cmocka_unit_test(test_streamed_alignments_equal_translated_lines),
        cmocka_unit_test(test_long_line_in_stream_does_not_enlarge_the_others),
    };
    return cmocka_run_group_tests_name("feed", tests, begin, end);
}
