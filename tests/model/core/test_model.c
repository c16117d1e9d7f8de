/* Models against the frameworks that trained them: encoder output, logits, greedy and beam search, scores. Uses the
 * demo model and tests/golden, and 500 lines of the shared model if present. Emulators and brief runs translate fewer
 * lines, for speed only. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dev/dev.h"
#include "support/harness.h"
#include "support/scratch.h"
#include "model/weights/weight_file.h"
#include "tfm/tfm.h"

#define SHARED_MODEL "models/tatoeba-de-en"

static const char *const GOLDEN[] = {"tests/golden/prenorm-silu-f16", "tests/golden/untied-gelu-bf16",
                                     "tests/golden/postnorm-relu-bias", "tests/golden/prenorm-embedding-norm"};

static tfm_model *open_model(const char *dir) {
    tfm_model *model = NULL;
    harness_ok(tfm_model_open(&model, harness_context(), dir, NULL));
    return model;
}

/* ---- Tensors --------------------------------------------------------------------------------------------------- */

static const tfm__stored_tensor *stored(const tfm__weights *file, int line, const char *what) {
    char name[64];
    snprintf(name, sizeof(name), "%d.%s", line, what);
    return tfm__weights_find(file, name);
}

static tfm_tensor stored_ids(const tfm__stored_tensor *ids) {
    int32_t *host = malloc(ids->bytes);
    memcpy(host, ids->data, ids->bytes);
    tfm_tensor x = HARNESS_TENSOR(TFM_I32, host, 1, (int64_t)ids->count);
    free(host);
    return x;
}

/* |got - want| / |want| in the Frobenius norm. */
static double distance(tfm_tensor got, const tfm__stored_tensor *want) {
    float *host = harness_floats(got), *golden = malloc(want->bytes);
    assert_int_equal(tfm_tensor_count(got), want->count);
    memcpy(golden, want->data, want->bytes);
    double error = 0, norm = 0;
    for (size_t i = 0; i < want->count; i++) {
        error += pow((double)host[i] - golden[i], 2);
        norm += pow(golden[i], 2);
    }
    free(host);
    free(golden);
    return sqrt(error / norm);
}

/* Encoder output and logits of every line in golden.safetensors. */
static void check_tensors(tfm_model *model, const char *dir) {
    char path[512];
    tfm__weights *file = NULL;
    snprintf(path, sizeof(path), "%s/golden.safetensors", dir);
    harness_ok(tfm__weights_open(&file, path));
    tfm_context *ctx = harness_context();
    double worst = 0;
    int seen = 0;
    for (int line = 0; line < 500; line++) {
        const tfm__stored_tensor *source = stored(file, line, "source_ids"), *want = stored(file, line, "logits");
        if (!source || !want)
            continue;
        tfm_tensor encoded = {0}, logits = {0};
        const int32_t length = (int32_t)source->count;
        tfm_scope_open(ctx);
        tfm_tensor ids = stored_ids(source), lengths = HARNESS_TENSOR(TFM_I32, &length, 1);
        harness_ok(tfm_model_encode(model, &encoded, ids, lengths));
        harness_ok(
            tfm_model_decode(model, &logits, stored_ids(stored(file, line, "decoder_input_ids")), encoded, lengths));
        worst = fmax(worst, distance(encoded, stored(file, line, "encoder_output")));
        worst = fmax(worst, distance(logits, want));
        tfm_scope_close(ctx, 0, NULL);
        seen++;
    }
    tfm__weights_free(&file);
    printf("%s: encoder output and logits of %d lines within %.2g\n", dir, seen, worst);
    assert_true(seen >= 2 && worst < 1e-4);
}

/* ---- Text ------------------------------------------------------------------------------------------------------ */

typedef struct text {
    char *bytes;
    char **lines;
    size_t count;
} text;

static text text_read(const char *dir, const char *name, size_t most) {
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("%s is missing", path);
    text t = {calloc(1, 1 << 20), calloc(1024, sizeof(char *)), 0};
    size_t size = fread(t.bytes, 1, (1 << 20) - 1, file);
    fclose(file);
    for (char *at = t.bytes; at < t.bytes + size && t.count < most; t.count++) {
        t.lines[t.count] = at;
        char *end = strchr(at, '\n');
        assert_non_null(end);
        *end = 0;
        at = end + 1;
    }
    return t;
}

static void text_free(text *t) {
    free(t->bytes);
    free(t->lines);
}

/* A translation, to be compared with the golden's text and scores. */
typedef struct collected {
    char *text[4096];
    double score[4096];
    size_t count;
} collected;

static bool collect(void *user, size_t line, int best, const char *words, double score) {
    collected *c = user;
    (void)line, (void)best;
    c->text[c->count] = strdup(words);
    c->score[c->count++] = score;
    return true;
}

static bool collect_translation(void *user, const tfm_translation *t) {
    return collect(user, t->line, t->rank, t->text, t->score);
}

static void collected_free(collected *c) {
    for (size_t i = 0; i < c->count; i++)
        free(c->text[i]);
    c->count = 0;
}

static collected found;

static void translate(tfm_model *model, const text *source, const tfm_search_options *options) {
    collected_free(&found);
    harness_ok(tfm_translate(model, (const char *const *)source->lines, source->count, options, collect, &found));
}

static void translate_with(tfm_model *model, const text *source, const tfm_text_options *how,
                           const tfm_search_options *options) {
    collected_free(&found);
    harness_ok(tfm_translate_lines(model, (const char *const *)source->lines, source->count, how, options,
                                   collect_translation, &found));
}

/* How many lines of `found` equal the file's; equal lines must have scores within 1e-3. */
static size_t same_lines(const char *dir, const char *name, const char *scores_name) {
    text want = text_read(dir, name, found.count), scores = {0};
    if (scores_name)
        scores = text_read(dir, scores_name, found.count);
    size_t same = 0;
    for (size_t i = 0; i < want.count; i++) {
        bool equal = strcmp(found.text[i], want.lines[i]) == 0;
        same += equal;
        if (!equal)
            printf("%s line %zu: \"%s\", golden \"%s\"\n", name, i + 1, found.text[i], want.lines[i]);
        else if (scores_name && !(fabs(found.score[i] - atof(scores.lines[i])) < 1e-3))
            fail_msg("%s line %zu: score %f, golden %s", scores_name, i + 1, found.score[i], scores.lines[i]);
    }
    text_free(&want);
    if (scores_name)
        text_free(&scores);
    return same;
}

static size_t line_budget(size_t all) {
    const size_t most = harness_slow() ? 2 : harness_brief() ? 100 : all;
    return all < most ? all : most;
}

static void check_nbest(const char *dir) {
    text want = text_read(dir, "beam4.nbest", found.count);
    assert_int_equal(want.count, found.count);
    for (size_t i = 0; i < want.count; i++) {
        char expected[4096], *score = strstr(strstr(want.lines[i], " ||| ") + 5, " ||| ");
        snprintf(expected, sizeof(expected), "%zu ||| %s", i / 4, found.text[i]);
        assert_true(fabs(found.score[i] - atof(score + 5)) < 1e-3);
        *score = 0;
        assert_string_equal(want.lines[i], expected);
    }
    text_free(&want);
}

static bool check_score(void *user, size_t line, double log_prob, size_t tokens) {
    const text *want = user;
    double golden = 0;
    unsigned long count = 0;
    assert_int_equal(sscanf(want->lines[line], "%lf\t%lu", &golden, &count), 2);
    assert_int_equal(tokens, count);
    if (!(fabs(log_prob - golden) < 1e-3))
        fail_msg("score of line %zu is %f, golden %f", line + 1, log_prob, golden);
    return true;
}

/* All data of a golden directory in tests/golden. */
static void check_golden(const char *relative) {
    char *dir = harness_source(relative);
    tfm_model *model = open_model(dir);
    check_tensors(model, dir);
    text source = text_read(dir, "test.src", line_budget(20)), target = text_read(dir, "test.tgt", line_budget(20));
    translate(model, &source, &(tfm_search_options){.beam_size = 1});
    assert_int_equal(same_lines(dir, "greedy.txt", NULL), source.count);
    translate(model, &source, &(tfm_search_options){.beam_size = 4});
    assert_int_equal(same_lines(dir, "beam4.txt", "beam4.scores"), source.count);
    translate(model, &source, &(tfm_search_options){.beam_size = 4, .length_norm = TFM_LENGTH_NORM_HF});
    assert_int_equal(same_lines(dir, "beam4-hf.txt", "beam4-hf.scores"), source.count);
    translate(model, &source, &(tfm_search_options){.beam_size = 4, .max_length = 9});
    assert_int_equal(same_lines(dir, "beam4-max9.txt", "beam4-max9.scores"), source.count);
    translate(model, &source, &(tfm_search_options){.beam_size = 4, .n_best = 4});
    check_nbest(dir);
    text scores = text_read(dir, "score.txt", source.count);
    harness_ok(tfm_score(model, (const char *const *)source.lines, (const char *const *)target.lines, source.count,
                         NULL, check_score, &scores));
    text_free(&scores);
    text_free(&source);
    text_free(&target);
    tfm_model_free(&model);
    free(dir);
}

static void test_model_matches_its_training_framework(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(GOLDEN) / sizeof(GOLDEN[0]); i++)
        check_golden(GOLDEN[i]);
}

static void test_demo_translations_match_original_framework(void **state) {
    (void)state;
    char *dir = harness_source("apps/demo");
    tfm_model *model = open_model(dir);
    text source = text_read(dir, "test.de", line_budget(20));
    translate(model, &source, &(tfm_search_options){.beam_size = 1});
    assert_int_equal(same_lines(dir, "greedy.en", NULL), source.count);
    translate(model, &source, &(tfm_search_options){.beam_size = 4});
    assert_int_equal(same_lines(dir, "beam4.en", "beam4.scores"), source.count);
    text_free(&source);
    tfm_model_free(&model);
    free(dir);
}

static void test_shared_model_matches_original_framework(void **state) {
    (void)state;
    char *dir = harness_shared(SHARED_MODEL);
    if (!dir || harness_slow()) { /* the demo's is as large */
        free(dir);
        skip();
    }
    tfm_model *model = open_model(dir);
    check_tensors(model, dir);
    text source = text_read(dir, "test.de", line_budget(500));
    translate(model, &source, &(tfm_search_options){.beam_size = 1});
    size_t greedy = same_lines(dir, "greedy.en", NULL);
    translate(model, &source, &(tfm_search_options){.beam_size = 4});
    size_t beam = same_lines(dir, "beam4.en", "beam4.scores");
    printf("%s: of %zu lines, %zu by greedy search and %zu by beam 4 equal PyTorch\n", dir, source.count, greedy, beam);
    assert_true(greedy + 2 >= source.count);
    assert_true(beam + 5 >= source.count);
    text_free(&source);
    tfm_model_free(&model);
    free(dir);
}

/* ---- Properties ------------------------------------------------------------------------------------------------ */

static int32_t *encode(tfm_model *model, const char *line, size_t *count) {
    int32_t *ids = NULL;
    harness_ok(tfm_tokenizer_encode(tfm_model_tokenizer(model), &ids, count, TFM_SOURCE, line, strlen(line)));
    return ids;
}

/* logits (T, V) of one target for one source, padded to `width`, as row `row` of a batch of `rows`. */
static float *batched_logits(tfm_model *model, const int32_t *source, size_t count, int64_t width, int64_t rows,
                             int64_t row, const int32_t *target, int64_t steps, double *norm) {
    tfm_context *ctx = harness_context();
    const int64_t vocabulary = tfm_model_get_info(model)->target_vocab_size;
    int32_t *ids = calloc((size_t)(rows * width), sizeof(*ids)), *inputs = calloc((size_t)(rows * steps), sizeof(*ids));
    int32_t *lengths = calloc((size_t)rows, sizeof(*lengths));
    for (int64_t r = 0; r < rows; r++) {
        lengths[r] = r == row ? (int32_t)count : (int32_t)(1 + r % width);
        for (int64_t i = 0; i < width; i++)
            ids[r * width + i] = r == row && i < (int64_t)count ? source[i] : (int32_t)((r * 7 + i * 3) % 50);
        for (int64_t i = 0; i < steps; i++)
            inputs[r * steps + i] = r == row ? target[i] : (int32_t)((r + i) % 50);
    }
    tfm_tensor encoded = {0}, logits = {0}, mine = {0};
    tfm_scope_open(ctx);
    tfm_tensor length_tensor = HARNESS_TENSOR(TFM_I32, lengths, rows);
    harness_ok(tfm_model_encode(model, &encoded, HARNESS_TENSOR(TFM_I32, ids, rows, width), length_tensor));
    harness_ok(tfm_model_decode(model, &logits, HARNESS_TENSOR(TFM_I32, inputs, rows, steps), encoded, length_tensor));
    harness_ok(tfm_tensor_rows(ctx, &mine, logits, row, 1));
    float *host = harness_floats(mine);
    tfm_scope_close(ctx, 0, NULL);
    *norm = 0;
    for (int64_t i = 0; i < steps * vocabulary; i++)
        *norm += (double)host[i] * host[i];
    free(ids);
    free(inputs);
    free(lengths);
    return host;
}

static void test_padding_does_not_change_logits(void **state) {
    (void)state;
    char *dir = harness_source("apps/demo");
    tfm_model *model = open_model(dir);
    size_t count;
    int32_t *source = encode(model, "Mein Fahrrad hat einen platten Reifen.", &count);
    const int32_t target[] = {tfm_model_get_info(model)->start_id, 5, 17, 300, 2};
    double norm, other_norm, error = 0;
    float *alone = batched_logits(model, source, count, (int64_t)count, 1, 0, target, 5, &norm);
    float *together = batched_logits(model, source, count, (int64_t)count + 9, 7, 3, target, 5, &other_norm);
    for (int64_t i = 0; i < 5 * tfm_model_get_info(model)->target_vocab_size; i++)
        error += pow((double)alone[i] - together[i], 2);
    assert_true(sqrt(error / norm) < 1e-5);
    free(alone);
    free(together);
    tfm_ids_free(&source);
    tfm_model_free(&model);
    free(dir);
}

/* The same text whether lines are translated together or one by one, in any order. */
static void test_batching_does_not_change_translations(void **state) {
    (void)state;
    char *dir = harness_source("apps/demo");
    tfm_model *model = open_model(dir);
    text source = text_read(dir, "test.de", line_budget(20));
    for (int beam = harness_slow() ? 4 : 1; beam <= 4; beam += 3) {
        translate(model, &source, &(tfm_search_options){.beam_size = beam});
        char *together[64];
        for (size_t i = 0; i < source.count; i++)
            together[i] = strdup(found.text[i]);
        translate_with(model, &source, &(tfm_text_options){.batch_tokens = 1},
                       &(tfm_search_options){.beam_size = beam});
        for (size_t i = 0; i < source.count; i++) {
            assert_string_equal(together[i], found.text[i]);
            free(together[i]);
        }
    }
    text_free(&source);
    tfm_model_free(&model);
    free(dir);
}

/* The incremental sum of log p of a search equals the full forward pass's. */
static void test_search_score_equals_uncached_forward(void **state) {
    (void)state;
    char *dir = harness_source("apps/demo");
    tfm_model *model = open_model(dir);
    size_t count;
    int32_t *source = encode(model, "Das Leben beginnt, wenn du bereit bist, es zu leben.", &count);
    tfm_hypotheses hypotheses;
    harness_ok(tfm_search(model, &hypotheses, source, &count, 1, NULL, NULL,
                          &(tfm_search_options){.beam_size = 3, .n_best = 3}));
    const tfm_model_info info = *tfm_model_get_info(model);
    for (int best = 0; best < 3; best++) {
        const tfm_hypothesis *h = &hypotheses.items[best];
        assert_int_equal(h->tokens, h->count + 1);
        int32_t *input = malloc(((size_t)h->count + 1) * sizeof(*input));
        input[0] = info.start_id;
        memcpy(input + 1, h->ids, h->count * sizeof(*input));
        double norm, total = 0;
        float *logits = batched_logits(model, source, count, (int64_t)count, 1, 0, input, h->tokens, &norm);
        for (int t = 0; t < h->tokens; t++) {
            const float *row = logits + (int64_t)t * info.target_vocab_size;
            double sum = 0;
            for (int i = 0; i < info.target_vocab_size; i++)
                sum += i == info.pad_id ? 0 : exp(row[i]);
            total += row[t < (int)h->count ? h->ids[t] : info.eos_id] - log(sum);
        }
        assert_true(fabs(total - h->log_prob) < 1e-4);
        assert_true(fabs(h->score - total / pow((5.0 + h->tokens) / 6, 0.6)) < 1e-4);
        free(logits);
        free(input);
    }
    tfm_hypotheses_free(&hypotheses);
    tfm_ids_free(&source);
    tfm_model_free(&model);
    free(dir);
}

/* A forced prefix begins the translation, and forcing the search's result changes nothing. */
static void test_forced_prefix_begins_the_translation(void **state) {
    (void)state;
    char *dir = harness_source("apps/demo");
    tfm_model *model = open_model(dir);
    const char *lines[] = {"Ich bin müde.", "Das Wetter ist schön.", "Wo ist der Bahnhof?"};
    text source = {NULL, (char **)(uintptr_t)lines, 3};
    translate(model, &source, &(tfm_search_options){.beam_size = 4});
    char *own = strdup(found.text[1]);
    const double score = found.score[1];
    const char *prefixes[] = {NULL, own, "Today we ask"};
    translate_with(model, &source, &(tfm_text_options){.prefixes = prefixes}, &(tfm_search_options){.beam_size = 4});
    assert_string_equal(found.text[1], own);
    assert_true(fabs(found.score[1] - score) < 1e-4);
    assert_int_equal(strncmp(found.text[2], "Today we ask", 12), 0);
    free(own);
    /* The first id counts against the limit, which may leave no room after the prefix. */
    int32_t *ids = NULL;
    size_t count;
    harness_ok(tfm_tokenizer_encode(tfm_model_tokenizer(model), &ids, &count, TFM_TARGET, prefixes[2], 12));
    tfm_search_options short_of = {
        .beam_size = 2, .max_length = (int)count, .forced_bos_id = ids[0]}; /* `count` has EOS */
    const tfm_text_options third = {.prefixes = prefixes + 2};
    collected_free(&found);
    harness_ok(tfm_translate_lines(model, lines + 2, 1, &third, &short_of, collect_translation, &found));
    collected_free(&found);
    short_of.has_forced_bos_id = true;
    harness_refused(tfm_translate_lines(model, lines + 2, 1, &third, &short_of, collect_translation, &found),
                    TFM_ERROR_INPUT, "its prefix: ");
    tfm_ids_free(&ids);
    tfm_model_free(&model);
    free(dir);
}

static bool some_more(void *user) {
    int *left = user;
    return (*left)-- > 0;
}

static bool some_progress(void *user, uint64_t done, uint64_t total) {
    assert_true(done <= total && total > 0);
    return some_more(user);
}

static bool no_score(void *user, size_t line, double log_prob, size_t tokens) {
    (void)user, (void)line, (void)log_prob, (void)tokens;
    fail_msg("a stopped call returns a score");
    return false;
}

/* Stopped at the first batch, during its search, and at the next one; then the model works as before. */
static void test_cancelled_search_leaves_the_model_usable(void **state) {
    (void)state;
    char *dir = harness_source("apps/demo");
    tfm_model *model = open_model(dir);
    const char *lines[] = {"Ich bin müde.", "Das Wetter ist schön."};
    text source = {NULL, (char **)(uintptr_t)lines, 2};
    translate(model, &source, &(tfm_search_options){.beam_size = 2});
    char *own[] = {strdup(found.text[0]), strdup(found.text[1])};
    collected_free(&found);
    int most = 1 << 20, left = most;
    const tfm_search_options options = {.beam_size = 2, .should_continue = some_more, .should_continue_user = &left};
    const tfm_text_options one_by_one = {.batch_tokens = 1};
    translate_with(model, &source, &one_by_one, &options);
    const int asked = most - left;
    assert_true(asked > 4);
    collected_free(&found);
    for (int stop = 0; stop < asked; stop += asked / 4) {
        left = stop;
        harness_refused(tfm_translate_lines(model, lines, 2, &one_by_one, &options, collect_translation, &found),
                        TFM_ERROR_CANCELLED, "stopped");
        assert_true(found.count < 2); /* the first line may be done */
        if (found.count == 1)
            assert_string_equal(found.text[0], own[0]);
        collected_free(&found);
    }
    for (int stop = 0; stop < 2; stop++) {
        left = stop;
        const tfm_text_options watched = {.batch_tokens = 1, .progress = some_progress, .progress_user = &left};
        harness_refused(tfm_score(model, lines, lines, 2, &watched, no_score, NULL), TFM_ERROR_CANCELLED, "stopped");
    }
    translate(model, &source, &(tfm_search_options){.beam_size = 2});
    for (int i = 0; i < 2; i++) {
        assert_string_equal(found.text[i], own[i]);
        free(own[i]);
    }
    tfm_model_free(&model);
    free(dir);
}

/* Lines translated by the time each was emitted. */
typedef struct arrivals {
    tfm_search_stats stats;
    uint64_t sentences[32];
    size_t count;
} arrivals;

static bool arrive(void *user, const tfm_translation *translation) {
    arrivals *a = user;
    assert_int_equal(translation->line, a->count);
    a->sentences[a->count++] = a->stats.sentences;
    return true;
}

/* Lines are emitted in order, and none waits for a later line that is translated later. */
static void test_translations_arrive_in_order_without_delay(void **state) {
    (void)state;
    char *dir = harness_source("apps/demo");
    tfm_model *model = open_model(dir);
    const char *lines[] = {"", "Ich bin heute sehr müde.", "Danke.", "Ich bin müde.", ""};
    arrivals a = {0};
    const tfm_search_options greedy = {.beam_size = 1};
    tfm_text_options options = {.batch_tokens = 4, .stats = &a.stats};
    harness_ok(tfm_translate_lines(model, lines, 5, &options, &greedy, arrive, &a));
    const uint64_t longest_first[] = {0, 1, 3, 3, 3};
    assert_int_equal(a.count, 5);
    assert_memory_equal(a.sentences, longest_first, sizeof(longest_first));
    /* Fewer are sorted together at first: the third line does not wait for the longer fourth. */
    a = (arrivals){0};
    options.batch_tokens = 2;
    harness_ok(tfm_translate_lines(model, lines, 5, &options, &greedy, arrive, &a));
    const uint64_t sooner[] = {0, 1, 2, 3, 3};
    assert_memory_equal(a.sentences, sooner, sizeof(sooner));

    if (harness_slow()) { /* the rest runs on the host */
        tfm_model_free(&model);
        free(dir);
        return;
    }
    /* More lines than are sorted together: the first do not wait for all. */
    text source = text_read(dir, "test.de", 20);
    a = (arrivals){0};
    options.batch_tokens = 1;
    harness_ok(
        tfm_translate_lines(model, (const char *const *)source.lines, source.count, &options, &greedy, arrive, &a));
    assert_int_equal(a.count, 20);
    assert_true(a.sentences[0] <= 5 && a.sentences[19] == 20);
    text_free(&source);
    tfm_model_free(&model);
    free(dir);
}

/* The message says what all weights need, not the size of the allocation that failed. */
static void test_model_larger_than_device_names_needed_and_free_bytes(void **state) {
    (void)state;
    tfm_model_info info;
    tfm_model *model = NULL;
    tfm_context *ctx = NULL;
    char needs[64], *dir = harness_source("apps/demo");
    const tfm_model_options options = {.precision = TFM_PRECISION_INT8};
    harness_ok(tfm_model_read_info(&info, dir, &options));
    snprintf(needs, sizeof(needs), "need %.1f MiB, and 1.0 MiB are free", (double)info.parameter_bytes / (1 << 20));
    harness_ok(tfm_context_open(&ctx, &(tfm_context_options){.memory_limit = 1 << 20}));
    assert_int_equal(tfm_model_open(&model, ctx, dir, &options), TFM_ERROR_MEMORY);
    assert_null(model);
    assert_non_null(strstr(tfm_error_message(), needs));
    assert_non_null(strstr(tfm_error_message(), "model.safetensors does not fit"));
    tfm_context_clear_error(ctx); /* nothing of the model is left in the way of a smaller one */
    assert_int_equal(tfm__pool_available(ctx), 1 << 20);
    tfm_context_free(&ctx);
    free(dir);
}

/* The tokenizer is opened while the weights are loaded. Of two failures it is the first, and that of the weights leaves
 * no trace in the context. */
static void test_failure_of_the_tokenizer_comes_first(void **state) {
    tfm_model *model = NULL;
    tfm_context *ctx = NULL;
    assert_int_equal(scratch_setup(state), 0);
    scratch_model("apps/demo");
    scratch_text("vocab.json", "{");
    harness_ok(tfm_context_open(&ctx, &(tfm_context_options){.memory_limit = 1 << 20}));
    scratch_refused(tfm_model_open(&model, ctx, scratch_root, NULL), TFM_ERROR_FORMAT, "vocab.json");
    assert_null(model);
    assert_int_equal(tfm_context_status(ctx), TFM_OK);
    assert_int_equal(tfm__pool_available(ctx), 1 << 20);
    scratch_copy("apps/demo/vocab.json", "vocab.json");
    scratch_refused(tfm_model_open(&model, ctx, scratch_root, NULL), TFM_ERROR_MEMORY, "does not fit");
    tfm_context_free(&ctx);
    assert_int_equal(scratch_teardown(state), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failure_of_the_tokenizer_comes_first),
        cmocka_unit_test(test_model_matches_its_training_framework),
        cmocka_unit_test(test_model_larger_than_device_names_needed_and_free_bytes),
        cmocka_unit_test(test_demo_translations_match_original_framework),
        cmocka_unit_test(test_shared_model_matches_original_framework),
        cmocka_unit_test(test_padding_does_not_change_logits),
        cmocka_unit_test(test_batching_does_not_change_translations),
        cmocka_unit_test(test_search_score_equals_uncached_forward),
        cmocka_unit_test(test_forced_prefix_begins_the_translation),
        cmocka_unit_test(test_cancelled_search_leaves_the_model_usable),
        cmocka_unit_test(test_translations_arrive_in_order_without_delay),
    };
    int failed = cmocka_run_group_tests(tests, harness_setup, harness_teardown);
    collected_free(&found);
    return failed;
}
