/* BLEU and chrF2 against sacreBLEU: tests/golden/metrics.json, written by make_metrics.py. */
#include <jansson.h>
#include <math.h>
#include "base/json.h"
#include "support/scratch.h"
#include "text/ngrams.h"
#include "text/tokenize_13a.h"
#include "text/unicode.h"
#include "tfm/metrics.h"
#include "tfm/text.h"

static json_t *open_golden(void) {
    json_t *golden;
    char *path = harness_source("tests/golden/metrics.json");
    harness_ok(tfm__json_load(&golden, path));
    free(path);
    return golden;
}

static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static void close_to(const char *what, const char *name, double got, double want) {
    if (!(fabs(got - want) <= 1e-8))
        fail_msg("%s of \"%s\" is %.12g instead of %.12g", what, name, got, want);
}

static tfm_metrics_options options_of(const json_t *scores) {
    const char *tokenizer = json_string_value(json_object_get(scores, "tokenizer"));
    return (tfm_metrics_options){
        .tokenizer = strcmp(tokenizer, "13a") == 0    ? TFM_TOKENIZE_13A
                     : strcmp(tokenizer, "none") == 0 ? TFM_TOKENIZE_NONE
                                                      : TFM_TOKENIZE_CHAR,
        .lowercase = json_is_true(json_object_get(scores, "lowercase")),
    };
}

static void check_scores(const char *name, const json_t *corpus, const json_t *want) {
    tfm_metrics *metrics;
    const tfm_metrics_options options = options_of(want);
    harness_ok(tfm_metrics_new(&metrics, &options));
    const json_t *hypotheses = json_object_get(corpus, "hypotheses"),
                 *references = json_object_get(corpus, "references");
    for (size_t i = 0; i < json_array_size(hypotheses); i++) {
        const json_t *h = json_array_get(hypotheses, i), *r = json_array_get(references, i);
        harness_ok(tfm_metrics_add(metrics, json_string_value(h), json_string_length(h), json_string_value(r),
                                   json_string_length(r)));
    }
    const tfm_bleu bleu = tfm_metrics_bleu(metrics);
    close_to("BLEU", name, bleu.score, number(want, "bleu"));
    close_to("the brevity penalty", name, bleu.brevity_penalty, number(want, "bp"));
    close_to("the ratio", name, bleu.ratio, number(want, "ratio"));
    close_to("the length", name, (double)bleu.hypothesis_tokens, number(want, "hyp_len"));
    close_to("the reference's length", name, (double)bleu.reference_tokens, number(want, "ref_len"));
    for (size_t n = 0; n < TFM_BLEU_ORDER; n++) {
        close_to("a precision", name, bleu.precisions[n],
                 json_number_value(json_array_get(json_object_get(want, "precisions"), n)));
        close_to("matches", name, (double)bleu.matches[n],
                 json_number_value(json_array_get(json_object_get(want, "matches"), n)));
        close_to("n-grams", name, (double)bleu.totals[n],
                 json_number_value(json_array_get(json_object_get(want, "totals"), n)));
    }
    close_to("chrF2", name, tfm_metrics_chrf(metrics), number(want, "chrf2"));
    tfm_metrics_free(&metrics);
    assert_null(metrics);
}

static void test_bleu_and_chrf_match_sacrebleu(void **state) {
    (void)state;
    json_t *golden = open_golden(), *corpora = json_object_get(golden, "corpora"), *corpus, *scores;
    size_t i, k, count = 0;
    json_array_foreach(corpora, i, corpus) {
        json_array_foreach(json_object_get(corpus, "scores"), k, scores) {
            check_scores(json_string_value(json_object_get(corpus, "name")), corpus, scores);
            count++;
        }
    }
    assert_true(count > 200);
    json_decref(golden);
}

/* The words of a text separated by one space. */
static char *join_words(const char *text, size_t bytes) {
    char *joined = tfm__alloc(bytes + 1, 1);
    assert_non_null(joined);
    size_t used = 0;
    for (size_t word, at = 0; tfm__unicode_next_word(&word, &at, text, bytes);) {
        if (used > 0)
            joined[used++] = ' ';
        memcpy(joined + used, text + word, at - word);
        used += at - word;
    }
    return joined;
}

static void test_metric_tokenizers_match_sacrebleu(void **state) {
    (void)state;
    json_t *golden = open_golden(), *lines = json_object_get(golden, "lines"), *line;
    assert_true(json_array_size(lines) > 200);
    size_t i;
    json_array_foreach(lines, i, line) {
        const json_t *text = json_array_get(line, 0);
        char *out;
        size_t bytes;
        harness_ok(tfm__tokenize_13a(&out, &bytes, json_string_value(text), json_string_length(text)));
        char *joined = join_words(out, bytes);
        assert_string_equal(joined, json_string_value(json_array_get(line, 1)));
        free(joined);
        free(out);
        harness_ok(tfm__unicode_lower(&out, &bytes, json_string_value(text), json_string_length(text)));
        assert_int_equal(bytes, strlen(out));
        assert_string_equal(out, json_string_value(json_array_get(line, 2)));
        free(out);
    }
    json_decref(golden);
}

/* Each n-gram of the reference matches once; the first match is taken. */
static uint64_t matches_by_hand(int n, const int32_t *h, size_t h_count, const int32_t *r, size_t r_count) {
    bool taken[64] = {false};
    uint64_t matches = 0;
    for (size_t i = 0; i + (size_t)n <= h_count; i++)
        for (size_t k = 0; k + (size_t)n <= r_count; k++)
            if (!taken[k] && memcmp(h + i, r + k, (size_t)n * sizeof(*h)) == 0) {
                taken[k] = true;
                matches++;
                break;
            }
    return matches;
}

static void test_ngram_matches_equal_naive_count(void **state) {
    (void)state;
    harness_random random = {3};
    tfm__ngram_scratch scratch = {0};
    for (int round = 0; round < 2000; round++) {
        int32_t h[64], r[64];
        const size_t h_count = (size_t)harness_range(&random, 0, 64), r_count = (size_t)harness_range(&random, 0, 64);
        const int64_t symbols = harness_range(&random, 0, 5);
        for (size_t i = 0; i < 64; i++) {
            h[i] = (int32_t)harness_range(&random, -1, symbols) * (round % 2 ? 1 : 0x1ffffff);
            r[i] = (int32_t)harness_range(&random, 0, symbols) * (round % 2 ? 1 : 0x1ffffff);
            h[i] = h[i] < 0 ? -1 : h[i];
        }
        uint64_t got[7] = {5, 5, 5, 5, 5, 5, 77};
        harness_ok(tfm__ngram_match(&scratch, got, 6, h, h_count, r, r_count));
        for (int n = 1; n <= 6; n++)
            assert_int_equal(got[n - 1], 5 + matches_by_hand(n, h, h_count, r, r_count));
        assert_int_equal(got[6], 77);
    }
    tfm__ngram_scratch_free(&scratch);
}

static void same_metrics(const tfm_metrics *a, const tfm_metrics *b) {
    const tfm_bleu x = tfm_metrics_bleu(a), y = tfm_metrics_bleu(b);
    assert_memory_equal(&x, &y, sizeof(x));
    assert_true(tfm_metrics_chrf(a) == tfm_metrics_chrf(b));
}

static void test_metrics_reject_bad_arguments(void **state) {
    (void)state;
    tfm_metrics *metrics, *clean;
    scratch_refused(tfm_metrics_new(&metrics, &(tfm_metrics_options){.tokenizer = (tfm_metrics_tokenizer)3}),
                    TFM_ERROR_ARGUMENT, "no tokenizer 3");
    assert_null(metrics);
    harness_ok(tfm_metrics_new(&metrics, NULL));
    harness_ok(tfm_metrics_new(&clean, NULL));
    harness_ok(tfm_metrics_add(metrics, "one two three four five", 23, "one two three four six", 22));
    harness_ok(tfm_metrics_add(clean, "one two three four five", 23, "one two three four six", 22));
    scratch_refused(tfm_metrics_add(metrics, "ab\xff", 3, "ab", 2), TFM_ERROR_INPUT, "hypothesis: byte 3 of the line");
    scratch_refused(tfm_metrics_add(metrics, "ab", 2, "a\0b", 3), TFM_ERROR_INPUT,
                    "reference: byte 2 of the line is NUL");
    same_metrics(metrics, clean); /* nothing was added */
    const size_t large = (1 << 26) + 1;
    char *line = tfm__alloc(large, 1);
    assert_non_null(line);
    scratch_refused(tfm_metrics_add(metrics, line, large, "", 0), TFM_ERROR_INPUT,
                    "hypothesis: a line has 67108865 bytes");
    free(line);
    same_metrics(metrics, clean);
    assert_string_equal(tfm_metrics_signature(metrics),
                        "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:tfm-" TFM_VERSION_STRING);
    tfm_metrics_free(&metrics);
    tfm_metrics_free(&clean);
    tfm_metrics_free(&metrics);
    tfm_metrics_free(NULL);
    harness_ok(tfm_metrics_new(&metrics, &(tfm_metrics_options){.tokenizer = TFM_TOKENIZE_CHAR, .lowercase = true}));
    assert_string_equal(tfm_metrics_signature(metrics),
                        "nrefs:1|case:lc|eff:no|tok:char|smooth:exp|version:tfm-" TFM_VERSION_STRING);
    assert_true(tfm_metrics_bleu(metrics).score == 0 && tfm_metrics_chrf(metrics) == 0);
    tfm_metrics_free(&metrics);
}

/* A line of bytes, mostly text. */
static size_t random_line(harness_random *random, char *line, size_t most) {
    static const char *const parts[] = {
        "\xc3\xa4", "\xf0\x9f\x98\x80", "\xce\xa3", "\xc4\xb0", "&quot;", "&amp;", "<skipped>", "-\n", "3.14",
        " . ",      "\xe3\x80\x80",     "a",        "Tom",      "."};
    const int64_t bad = harness_range(random, 0, 3); /* invalid in one line of four */
    size_t bytes = 0;
    while (bytes + 16 < most && harness_range(random, 0, 20) > 0) {
        if (bad > 0 && harness_range(random, 0, 30 / bad) == 0) {
            line[bytes++] = (char)harness_range(random, 0, 255);
            continue;
        }
        const char *part = parts[harness_range(random, 0, (int64_t)TFM__COUNT(parts) - 1)];
        memcpy(line + bytes, part, strlen(part));
        bytes += strlen(part);
    }
    return bytes;
}

/* For any bytes: valid text is counted, invalid text is rejected without effect, and scores stay in range. Lines are in
 * separate blocks, for the sanitizers. */
static void test_metrics_reject_invalid_utf8_without_trace(void **state) {
    (void)state;
    harness_random random = {11};
    for (int tokenizer = 0; tokenizer < 3; tokenizer++) {
        tfm_metrics *metrics;
        harness_ok(tfm_metrics_new(&metrics, &(tfm_metrics_options){.tokenizer = (tfm_metrics_tokenizer)tokenizer,
                                                                    .lowercase = tokenizer != 1}));
        size_t refused = 0;
        for (int round = 0; round < 4000; round++) {
            char text[2][256], *line[2];
            size_t bytes[2];
            bool good = true;
            for (int side = 0; side < 2; side++) {
                bytes[side] = random_line(&random, text[side], sizeof(text[side]));
                line[side] = tfm__alloc(bytes[side], 1);
                assert_non_null(line[side]);
                memcpy(line[side], text[side], bytes[side]);
                good = good && tfm_text_check(line[side], bytes[side]) == TFM_OK;
            }
            assert_int_equal(tfm_metrics_add(metrics, line[0], bytes[0], line[1], bytes[1]),
                             good ? TFM_OK : TFM_ERROR_INPUT);
            refused += !good;
            const double bleu = tfm_metrics_bleu(metrics).score, chrf = tfm_metrics_chrf(metrics);
            assert_true(bleu >= 0 && bleu <= 100 && chrf >= 0 && chrf <= 100);
            free(line[0]);
            free(line[1]);
        }
        assert_true(refused > 1000 && refused < 3500);
        tfm_metrics_free(&metrics);
    }
}

/* A megabyte without a space, in tests/run.sh a quarter except for the first kind: time must not be quadratic in the
 * line. */
static void test_metrics_of_long_line_take_linear_time(void **state) {
    (void)state;
    const size_t most = 1 << 20;
    char *line = tfm__alloc(most, 1);
    assert_non_null(line);
    for (int kind = 0; kind < 3; kind++) {
        harness_random random = {5};
        const size_t bytes = harness_brief() && kind > 0 ? most / 4 : most;
        for (size_t i = 0; i < bytes; i++)
            line[i] = kind == 0   ? 'x'
                      : kind == 1 ? (char)harness_range(&random, 'a', 'z')
                                  : "., -1a&"[harness_range(&random, 0, 6)];
        tfm_metrics *metrics;
        harness_ok(tfm_metrics_new(&metrics, NULL));
        harness_ok(tfm_metrics_add(metrics, line, bytes, line, bytes));
        close_to("chrF2", "a line and itself", tfm_metrics_chrf(metrics), 100);
        assert_true(kind == 2 ? tfm_metrics_bleu(metrics).score > 99.9 : tfm_metrics_bleu(metrics).matches[0] == 1);
        tfm_metrics_free(&metrics);
    }
    free(line);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bleu_and_chrf_match_sacrebleu),
        cmocka_unit_test(test_metric_tokenizers_match_sacrebleu),
        cmocka_unit_test(test_ngram_matches_equal_naive_count),
        cmocka_unit_test(test_metrics_reject_bad_arguments),
        cmocka_unit_test(test_metrics_reject_invalid_utf8_without_trace),
        cmocka_unit_test(test_metrics_of_long_line_take_linear_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
