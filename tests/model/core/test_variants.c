/* Variations of golden models that must not show, or that must: properties which all golden directories share and thus
 * do not test. Each is an edited copy of a golden directory. */
#include <math.h>
#include "support/harness.h"
#include "model/tasks/batch.h"
#include "support/scratch.h"
#include "tfm/tfm.h"

#define GOLDEN "tests/golden/postnorm-relu-bias"
enum { MOST = 20, POSITIONS = 200, WIDTH = 30 }; /* lines of the golden files; P and E of that model */

static size_t lines_wanted(void) {
    return harness_slow() ? 4 : MOST;
}

static tfm_model *opened(void) {
    tfm_model *model = NULL;
    harness_ok(tfm_model_open(&model, harness_context(), scratch_root, NULL));
    return model;
}

static tfm__weights *golden_file(const char *name) {
    char relative[256];
    snprintf(relative, sizeof(relative), "%s/%s", GOLDEN, name);
    char *path = harness_source(relative);
    tfm__weights *file = NULL;
    harness_ok(tfm__weights_open(&file, path));
    free(path);
    return file;
}

static const tfm__stored_tensor *golden_ids(const tfm__weights *file, size_t line, const char *what) {
    char name[64];
    snprintf(name, sizeof(name), "%zu.%s", line, what);
    const tfm__stored_tensor *found = tfm__weights_find(file, name);
    assert_non_null(found);
    return found;
}

/* Greedy search of the golden sources, `most` ids per line at most. */
static tfm_hypotheses search(tfm_model *model, const tfm__weights *golden, size_t most,
                             const tfm_search_options *options) {
    int32_t ids[MOST * 64];
    size_t counts[MOST], at = 0;
    for (size_t i = 0; i < lines_wanted(); i++) {
        const tfm__stored_tensor *source = golden_ids(golden, i, "source_ids");
        counts[i] = source->count < most ? source->count : most;
        assert_true(counts[i] <= 64);
        memcpy(ids + at, source->data, counts[i] * sizeof(*ids));
        at += counts[i];
    }
    tfm_hypotheses found;
    harness_ok(tfm_search(model, &found, ids, counts, lines_wanted(), NULL, NULL, options));
    return found;
}

/* Greedy search gives the golden ids. */
static void check_greedy(tfm_model *model) {
    tfm__weights *golden = golden_file("golden.safetensors");
    tfm_hypotheses found = search(model, golden, 64, &(tfm_search_options){.beam_size = 1});
    for (size_t i = 0; i < lines_wanted(); i++) {
        const tfm__stored_tensor *want = golden_ids(golden, i, "greedy_ids"); /* with EOS */
        assert_int_equal(found.items[i].count + 1, want->count);
        assert_memory_equal(found.items[i].ids, want->data, found.items[i].count * sizeof(int32_t));
    }
    tfm_hypotheses_free(&found);
    tfm__weights_free(&golden);
}

/* ---- Other weights --------------------------------------------------------------------------------- */

/* The golden's sinusoid as a table (front + P, E), F32, after `front` rows that must stay unused. */
static float *position_table(int front) {
    float *table = malloc((size_t)(front + POSITIONS) * WIDTH * sizeof(*table));
    assert_non_null(table);
    for (int row = 0; row < front; row++)
        for (int i = 0; i < WIDTH; i++)
            table[row * WIDTH + i] = 100;
    for (int p = 0; p < POSITIONS; p++)
        for (int i = 0; i < WIDTH / 2; i++) {
            const double angle = p / pow(10000, 2.0 * i / WIDTH);
            table[(front + p) * WIDTH + i] = (float)sin(angle);
            table[(front + p) * WIDTH + WIDTH / 2 + i] = (float)cos(angle);
        }
    return table;
}

/* Appends a tensor's line to the header, and its bytes to the data. */
static void add_tensor(char *header, char *data, size_t *end, const char *name, const char *dtype, int rank,
                       const int64_t *dims, const void *bytes, size_t size) {
    char *to = header + strlen(header);
    to += sprintf(to, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", header[1] ? "," : "", name, dtype);
    for (int i = 0; i < rank; i++)
        to += sprintf(to, "%s%lld", i ? "," : "", (long long)dims[i]);
    sprintf(to, "],\"data_offsets\":[%zu,%zu]}", *end, *end + size);
    memcpy(data + *end, bytes, size);
    *end += size;
}

static void add_positions(char *header, char *data, size_t *end, int front) {
    float *table = position_table(front);
    const int64_t dims[] = {front + POSITIONS, WIDTH};
    const size_t size = (size_t)(dims[0] * dims[1]) * sizeof(*table);
    add_tensor(header, data, end, "model.encoder.embed_positions.weight", "F32", 2, dims, table, size);
    add_tensor(header, data, end, "model.decoder.embed_positions.weight", "F32", 2, dims, table, size);
    free(table);
}

enum { NO_TABLES = -1 };

/* The golden's weights as model.safetensors of the copy, with position tables after `front` rows, and with `pad_bias`,
 * if not 0, as the bias of PAD (id 0). */
static void store_weights(int front, float pad_bias) {
    enum { HEADER = 1 << 15, DATA = 1 << 18 };
    tfm__weights *golden = golden_file("model.safetensors");
    char *file = calloc(1, 8 + HEADER + DATA), *header = file + 8, *data = malloc(DATA);
    size_t end = 0;
    assert_true(file && data);
    header[0] = '{';
    if (front != NO_TABLES)
        add_positions(header, data, &end, front);
    for (size_t i = 0; i < tfm__weights_count(golden); i++) {
        const tfm__stored_tensor *t = tfm__weights_at(golden, i);
        const bool bias = strcmp(t->name, "final_logits_bias") == 0;
        assert_true(strlen(header) + 512 < HEADER && end + t->bytes <= DATA);
        add_tensor(header, data, &end, t->name, t->dtype_name, t->rank, t->dims, t->data, t->bytes);
        if (bias && pad_bias > 0) {
            assert_int_equal(t->dtype, TFM_F32);
            memcpy(data + end - t->bytes, &pad_bias, sizeof(pad_bias));
        }
    }
    strcat(header, "}");
    const uint64_t length = strlen(header);
    for (int i = 0; i < 8; i++)
        file[i] = (char)(length >> 8 * i);
    memcpy(header + length, data, end);
    scratch_write("model.safetensors", file, 8 + length + end);
    tfm__weights_free(&golden);
    free(data);
    free(file);
}

/* PAD is never generated, listed among the bad words or not: here it would always win. */
static void test_padding_token_is_never_generated(void **state) {
    (void)state;
    scratch_model(GOLDEN);
    scratch_edit("generation_config.json", "bad_words_ids", "other_ids");
    store_weights(NO_TABLES, 1000);
    tfm_model *model = opened();
    check_greedy(model);
    tfm_model_free(&model);
}

/* ---- Few positions --------------------------------------------------------------------------------- */

enum { FEW = 7 };

static tfm_model *opened_short(void) {
    scratch_model(GOLDEN);
    scratch_edit("config.json", "\"max_position_embeddings\": 200", "\"max_position_embeddings\": 7");
    return opened();
}

/* A limit above the positions is reduced to them: the search ends as with that limit. */
static void test_max_length_is_clamped_to_positions(void **state) {
    (void)state;
    tfm__weights *golden = golden_file("golden.safetensors");
    scratch_model(GOLDEN);
    tfm_model *whole = opened(), *few = opened_short();
    static const int limits[] = {0, FEW + 1, 60}; /* 0: source tokens + 50, which is above too */
    size_t at_limit = 0;
    tfm_hypotheses want = search(whole, golden, FEW, &(tfm_search_options){.beam_size = 1, .max_length = FEW});
    for (size_t k = 0; k < sizeof(limits) / sizeof(limits[0]); k++) {
        tfm_hypotheses got = search(few, golden, FEW, &(tfm_search_options){.beam_size = 1, .max_length = limits[k]});
        for (size_t i = 0; i < lines_wanted(); i++) {
            assert_int_equal(got.items[i].count, want.items[i].count);
            assert_memory_equal(got.items[i].ids, want.items[i].ids, want.items[i].count * sizeof(int32_t));
            at_limit += got.items[i].count == FEW;
        }
        tfm_hypotheses_free(&got);
    }
    assert_true(at_limit > 0);
    tfm_hypotheses_free(&want);
    tfm_model_free(&whole);
    tfm_model_free(&few);
    tfm__weights_free(&golden);
}

typedef struct emitted {
    char text[MOST][256];
    double score[MOST];
} emitted;

static bool emit(void *user, size_t line, int best, const char *text, double score) {
    emitted *e = user;
    (void)best;
    snprintf(e->text[line], sizeof(e->text[line]), "%s", text);
    e->score[line] = score;
    return true;
}

static bool emit_translation(void *user, const tfm_translation *t) {
    return emit(user, t->line, t->rank, t->text, t->score);
}

/* The lines of a text file of the golden directory, in place. */
static void split_lines(const char **lines, char *text, size_t count) {
    for (size_t i = 0; i < count; i++) {
        lines[i] = text;
        text = strchr(text, '\n');
        assert_non_null(text);
        *text++ = 0;
    }
}

/* A truncated line still ends with EOS: it is translated as its first tokens and EOS. */
static void test_truncated_line_ends_with_eos(void **state) {
    (void)state;
    static emitted got;
    const size_t count = lines_wanted();
    const char *lines[MOST];
    size_t size, counts[MOST], at = 0;
    int32_t ids[MOST * FEW];
    char *source = scratch_source(GOLDEN "/test.src", &size);
    split_lines(lines, source, count);
    tfm_model *model = opened_short();
    for (size_t i = 0; i < count; i++) {
        int32_t *all;
        size_t tokens;
        harness_ok(
            tfm_tokenizer_encode(tfm_model_tokenizer(model), &all, &tokens, TFM_SOURCE, lines[i], strlen(lines[i])));
        assert_true(tokens > FEW);
        counts[i] = FEW;
        memcpy(ids + at, all, (FEW - 1) * sizeof(*ids));
        ids[at + FEW - 1] = tfm_model_get_info(model)->eos_id;
        at += FEW;
        tfm_ids_free(&all);
    }
    const tfm_search_options options = {.beam_size = 4};
    const tfm_text_options cut = {.truncate = true};
    tfm_hypotheses want;
    harness_ok(tfm_search(model, &want, ids, counts, count, NULL, NULL, &options));
    harness_ok(tfm_translate_lines(model, lines, count, &cut, &options, emit_translation, &got));
    for (size_t i = 0; i < count; i++) {
        char *text;
        harness_ok(tfm_tokenizer_decode(tfm_model_tokenizer(model), &text, want.items[i].ids, want.items[i].count));
        assert_string_equal(got.text[i], text);
        assert_true(fabs(got.score[i] - want.items[i].score) < 1e-4);
        tfm_text_free(&text);
    }
    harness_refused(tfm_translate(model, lines, count, &options, emit, &got), TFM_ERROR_INPUT,
                    "the model takes at most 7");
    tfm_hypotheses_free(&want);
    tfm_model_free(&model);
    free(source);
}

/* ---- Position tables ------------------------------------------------------------------------------- */

static tfm_model *opened_with_positions(const char *settings, int front) {
    char with[128];
    snprintf(with, sizeof(with), "%s\"model_type\"", settings);
    scratch_model(GOLDEN);
    scratch_edit("config.json", "\"model_type\"", with);
    store_weights(front, 0);
    return opened();
}

/* Learned positions equal to the sinusoid translate as the sinusoid does, with and without rows in front, and count as
 * parameters; a stored sinusoid does not. */
static void test_stored_positions_translate_as_sinusoid(void **state) {
    (void)state;
    static const struct {
        const char *settings;
        int front;
        bool learned;
    } variants[] = {
        {"\"static_position_embeddings\": false, ", 0, true},
        {"\"static_position_embeddings\": false, ", 2, true},
        {"\"static_position_embeddings\": false, \"extra_pos_embeddings\": 5, ", 5, true},
        {"\"static_position_embeddings\": true, ", 0, false},
    };
    scratch_model(GOLDEN);
    tfm_model *model = opened();
    const uint64_t parameters = tfm_model_get_info(model)->parameters;
    tfm_model_free(&model);
    for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
        model = opened_with_positions(variants[i].settings, variants[i].front);
        check_greedy(model);
        const int rows = variants[i].learned ? POSITIONS + variants[i].front : 0;
        assert_int_equal(tfm_model_get_info(model)->parameters, parameters + 2 * (uint64_t)rows * WIDTH);
        tfm_model_free(&model);
    }
}

/* A table of a wrong number of rows, and none. */
static void test_misshaped_position_table_is_rejected(void **state) {
    (void)state;
    tfm_model *model = NULL;
    scratch_model(GOLDEN);
    scratch_edit("config.json", "\"model_type\"", "\"static_position_embeddings\": false, \"model_type\"");
    harness_refused(tfm_model_open(&model, harness_context(), scratch_root, NULL), TFM_ERROR_FORMAT, "embed_positions");
    store_weights(3, 0);
    harness_refused(tfm_model_open(&model, harness_context(), scratch_root, NULL), TFM_ERROR_FORMAT, "embed_positions");
}

/* ---- Batch size limits ----------------------------------------------------------------------------- */

/* Logits of one step, (lines * beam, V) F32, stay within 256 MiB and the largest allocation. */
static void check_limits(tfm_model *model, uint64_t most) {
    static const int vocabularies[] = {1, 6001, 65536, 1 << 20}, beams[] = {1, 4, 64};
    for (size_t i = 0; i < sizeof(vocabularies) / sizeof(vocabularies[0]); i++)
        for (size_t k = 0; k < sizeof(beams) / sizeof(beams[0]); k++) {
            const uint64_t line = 4 * (uint64_t)vocabularies[i] * (uint64_t)beams[k];
            model->arch.decoder.vocabulary = vocabularies[i];
            const tfm__batch_limit limit = tfm__batch_limits(model, 0, beams[k]);
            assert_int_equal(limit.tokens, TFM__BATCH_TOKENS);
            assert_true(limit.lines == 1 || limit.lines * line <= most);
            assert_true((limit.lines + 1) * line > most);
        }
    model->arch.decoder.vocabulary = 1 << 30; /* no line fits: then one */
    assert_int_equal(tfm__batch_limits(model, 77, 4).lines, 1);
    assert_int_equal(tfm__batch_limits(model, 77, 4).tokens, 77);
}

static void test_batch_limit_follows_max_allocation(void **state) {
    (void)state;
    tfm_model model = {.ctx = harness_context()};
    tfm__limits *limits = (tfm__limits *)(uintptr_t)tfm__context_limits(model.ctx), own = *limits;
    limits->max_alloc = UINT64_C(1) << 40; /* a device that allows more than 256 MiB, and one that allows less */
    check_limits(&model, 256 << 20);
    limits->max_alloc = 12345678;
    check_limits(&model, 12345678);
    *limits = own;
}

static void test_next_batch_keeps_token_and_line_limits(void **state) {
    (void)state;
    tfm__line lines[17], *order[17];
    for (size_t i = 0; i < 17; i++) {
        lines[i] = (tfm__line){.cost = i < 10 ? 5 : 3};
        order[i] = &lines[i];
    }
    assert_int_equal(tfm__batch_next(order, 0, 17, (tfm__batch_limit){.tokens = 4096, .lines = 100}), 17);
    assert_int_equal(tfm__batch_next(order, 0, 17, (tfm__batch_limit){.tokens = 4096, .lines = 7}), 7);  /* lines */
    assert_int_equal(tfm__batch_next(order, 14, 17, (tfm__batch_limit){.tokens = 4096, .lines = 7}), 3); /* the end */
    assert_int_equal(tfm__batch_next(order, 0, 17, (tfm__batch_limit){.tokens = 29, .lines = 100}), 5);  /* tokens */
    assert_int_equal(tfm__batch_next(order, 9, 17, (tfm__batch_limit){.tokens = 20, .lines = 100}),
                     4); /* padding counts */
    assert_int_equal(tfm__batch_next(order, 0, 17, (tfm__batch_limit){.tokens = 4, .lines = 100}), 1);
    assert_int_equal(tfm__batch_next(order, 0, 17, (tfm__batch_limit){.tokens = 4096, .lines = 1}), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_padding_token_is_never_generated, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_max_length_is_clamped_to_positions, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_truncated_line_ends_with_eos, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_stored_positions_translate_as_sinusoid, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_misshaped_position_table_is_rejected, scratch_setup, scratch_teardown),
        cmocka_unit_test(test_batch_limit_follows_max_allocation),
        cmocka_unit_test(test_next_batch_keeps_token_and_line_limits),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
