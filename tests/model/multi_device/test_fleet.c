/* Fleets: results of several devices against one. Two contexts on the test's device stand for two devices; a third with
 * a low memory limit for one that fails. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "dev/device/context_internal.h"
#include "dev/dev.h"
#include "support/harness.h"
#include "model/multi_device/fleet.h"
#include "support/scratch.h"
#include "tfm/tfm.h"

enum { LINES = 60, BYTES = 160 };

static char *demo;
static const char *lines[LINES];
static char words[LINES][BYTES];

/* Lines of mixed lengths, including an empty and a blank one. */
static void make_lines(void) {
    static const char *const PARTS[] = {"Guten Morgen.", "Wo ist Tom?", "Ich habe das Auto gestern verkauft.",
                                        "Das ist ein Haus.", "Sie liest ein Buch."};
    harness_random random = {4};
    for (int i = 0; i < LINES; i++) {
        words[i][0] = 0;
        const int64_t parts = i == 7 ? 0 : harness_range(&random, 1, 3);
        for (int64_t k = 0; k < parts; k++) {
            strcat(words[i], k ? " " : "");
            strcat(words[i], PARTS[harness_range(&random, 0, 4)]);
        }
        lines[i] = i == 8 ? "  " : words[i];
    }
}

/* ---- Fleets ---------------------------------------------------------------------------------------------------- */

static int warnings;
static char warning[512];

static void on_log(void *user, tfm_log_level level, const char *line) {
    (void)user;
    if (level <= TFM_LOG_WARNING) {
        warnings++;
        snprintf(warning, sizeof(warning), "%s", line);
    }
}

/* A fleet of `good` contexts after one with a memory limit of `limit` bytes, if not 0. */
static tfm_fleet *open_fleet(size_t good, uint64_t limit) {
    tfm_context *contexts[4] = {NULL};
    tfm_fleet *fleet = NULL;
    size_t count = 0;
    if (limit > 0)
        harness_ok(tfm_context_open(&contexts[count++], &(tfm_context_options){.memory_limit = limit}));
    for (size_t i = 0; i < good; i++)
        harness_ok(tfm_context_open(&contexts[count++], NULL));
    harness_ok(tfm_fleet_new(&fleet, contexts, count));
    for (size_t i = 0; i < count; i++)
        tfm_context_free(&contexts[i]);
    warnings = 0;
    return fleet;
}

static uint64_t lines_of(const tfm_fleet *fleet, size_t index) {
    return tfm_fleet_get_member(fleet, index)->lines;
}

/* ---- Translation ----------------------------------------------------------------------------------------------- */

typedef struct kept {
    char text[LINES][BYTES * 2];
    double score[LINES];
    size_t count, stop;
    uint64_t done;
} kept;

static bool keep(void *user, const tfm_translation *t) {
    kept *k = user;
    assert_int_equal(t->line, k->count); /* in order */
    snprintf(k->text[k->count], sizeof(k->text[0]), "%s", t->text);
    k->score[k->count++] = t->score;
    return k->count != k->stop;
}

static bool progress(void *user, uint64_t done, uint64_t total) {
    kept *k = user;
    assert_true(done >= k->done && done <= total);
    k->done = done;
    return true;
}

static tfm_status translate(kept *k, tfm_model *model, tfm_search_stats *stats, const tfm_search_options *search) {
    const tfm_text_options text = {.batch_tokens = 64, .stats = stats, .progress = progress, .progress_user = k};
    k->count = 0;
    k->done = 0;
    return tfm_translate_lines(model, lines, LINES, &text, search, keep, k);
}

static void same(const kept *a, const kept *b) {
    assert_int_equal(a->count, LINES);
    assert_int_equal(b->count, LINES);
    for (int i = 0; i < LINES; i++) {
        assert_string_equal(a->text[i], b->text[i]);
        assert_true((isnan(a->score[i]) && isnan(b->score[i])) || fabs(a->score[i] - b->score[i]) < 1e-4);
    }
}

/* The result of one device. */
static kept alone;
static tfm_search_stats alone_stats;

static int setup(void **state) {
    tfm_model *model = NULL;
    const int code = scratch_keep_binaries() || harness_setup(state);
    demo = harness_source("apps/demo");
    make_lines();
    if (code == 0 && (tfm_model_open(&model, harness_context(), demo, NULL) != TFM_OK ||
                      translate(&alone, model, &alone_stats, NULL) != TFM_OK)) {
        fprintf(stderr, "%s\n", tfm_error_message());
        return -1;
    }
    tfm_model_free(&model);
    tfm_log_set(on_log, NULL, TFM_LOG_WARNING);
    return code;
}

static int teardown(void **state) {
    tfm_log_set(NULL, NULL, TFM_LOG_WARNING);
    free(demo);
    return harness_teardown(state) || scratch_drop_binaries();
}

/* The second call knows both speeds. The model outlives the caller's fleet handle. */
static void test_fleet_translation_equals_one_device(void **state) {
    (void)state;
    kept together = {0};
    tfm_search_stats stats = {0};
    tfm_model *model = NULL;
    tfm_fleet *fleet = open_fleet(2, 0);
    harness_ok(tfm_fleet_open_model(&model, fleet, demo, NULL));
    harness_ok(translate(&together, model, &stats, NULL));
    same(&together, &alone);
    assert_int_equal(stats.sentences, alone_stats.sentences);
    assert_int_equal(stats.source_tokens, alone_stats.source_tokens);
    assert_int_equal(stats.target_tokens, alone_stats.target_tokens);
    assert_true(lines_of(fleet, 0) > 0 && lines_of(fleet, 1) > 0);
    assert_int_equal(lines_of(fleet, 0) + lines_of(fleet, 1), LINES - 2);
    assert_true(tfm_fleet_get_member(fleet, 1)->seconds > 0);
    tfm_fleet_free(&fleet);
    harness_ok(translate(&together, model, NULL, NULL));
    same(&together, &alone);
    assert_int_equal(warnings, 0);
    tfm_model_free(&model);
}

/* Any callback can stop the call. */
static bool never(void *user) {
    ++*(int *)user;
    return false;
}

static void test_fleet_stops_when_a_callback_cancels(void **state) {
    (void)state;
    kept together = {.stop = 20};
    int asked = 0;
    tfm_model *model = NULL;
    tfm_fleet *fleet = open_fleet(2, 0);
    harness_ok(tfm_fleet_open_model(&model, fleet, demo, NULL));
    harness_refused(translate(&together, model, NULL, NULL), TFM_ERROR_CANCELLED, "line 20");
    assert_int_equal(together.count, 20);
    together.stop = 0;
    harness_refused(translate(&together, model, NULL,
                              &(tfm_search_options){.should_continue = never, .should_continue_user = &asked}),
                    TFM_ERROR_CANCELLED, "should_continue");
    assert_int_equal(asked, 1);
    harness_ok(translate(&together, model, NULL, NULL)); /* the model stays usable */
    same(&together, &alone);
    assert_int_equal(warnings, 0);
    tfm_model_free(&model);
    tfm_fleet_free(&fleet);
}

/* ---- Failures -------------------------------------------------------------------------------------------------- */

/* Memory of two contexts with the open model, plus a page. */
static void find_limits(uint64_t limits[2]) {
    tfm_model *models[2] = {NULL};
    tfm_fleet *fleet = open_fleet(2, 0);
    for (size_t i = 0; i < 2; i++) {
        tfm_context *ctx = tfm_fleet_get_member(fleet, i)->context;
        harness_ok(tfm_model_open(&models[i], ctx, demo, NULL));
        limits[i] = tfm_context_peak_memory(ctx) + 4096;
    }
    for (size_t i = 0; i < 2; i++)
        tfm_model_free(&models[i]);
    tfm_fleet_free(&fleet);
}

/* Allocates the free memory of a context, so that no batch fits. The pool may keep blocks that only opening used, 2.3
 * MB on llvmpipe. */
static void fill_room(tfm_context *ctx) {
    for (int64_t bytes = (int64_t)1 << 26; bytes >= 256; bytes /= 2) {
        tfm_tensor taken;
        while (tfm_tensor_new(ctx, &taken, TFM_U8, 1, &bytes) == TFM_OK)
            ;
        harness_refused(tfm_context_status(ctx), TFM_ERROR_MEMORY, "no room");
        tfm_context_clear_error(ctx);
    }
}

/* Translates with the result of one device; the first of the fleet is left out, with so many warnings so far. */
static void without_first(tfm_model *model, const tfm_fleet *fleet, int warned) {
    kept together = {0};
    harness_ok(translate(&together, model, NULL, NULL));
    same(&together, &alone);
    assert_int_equal(warnings, warned);
    assert_true(tfm_fleet_get_member(fleet, 0)->dropped && !tfm_fleet_get_member(fleet, 1)->dropped);
    assert_true(tfm_fleet_get_member(fleet, 0)->reason[0] && !tfm_fleet_get_member(fleet, 1)->reason[0]);
}

/* A model of some 45 MB; its memory is reused after it is freed. */
static const tfm_model_shape TAKER = {.width = 256,
                                      .heads = 4,
                                      .ffn_dim = 1024,
                                      .encoder_layers = 2,
                                      .decoder_layers = 2,
                                      .source_vocab_size = 32000,
                                      .max_positions = 64,
                                      .start_id = 1};

/* The first device lacks memory for the model and is left out of all later calls, with one warning; or it lacks memory
 * for any batch and is retried after one call, and after two, once it has memory. */
static void test_device_without_memory_is_left_out_or_retried(void **state) {
    (void)state;
    uint64_t limits[2];
    find_limits(limits);
    for (int k = 0; k < 2; k++) {
        kept together = {0};
        tfm_model *model = NULL, *taker = NULL;
        tfm_fleet *fleet = open_fleet(2, k == 0 ? 65536 : 4 * limits[0]);
        tfm_context *first = tfm_fleet_get_member(fleet, 0)->context;
        harness_ok(tfm_fleet_open_model(&model, fleet, demo, NULL));
        assert_int_equal(warnings, k == 0);
        if (k == 1) {
            harness_ok(tfm_model_new(&taker, first, &TAKER));
            fill_room(first);
        }
        for (int call = 1; call <= 5; call++) {
            without_first(model, fleet, k == 1 && call > 2 ? 2 : 1);
            assert_non_null(strstr(warning, "device 1 of the fleet"));
            assert_true(k == 0 || strstr(warning, call > 2 ? "this call and 2 more," : "this call and 1 more,"));
        }
        tfm_model_free(&taker);
        harness_ok(translate(&together, model, NULL, NULL));
        same(&together, &alone);
        assert_int_equal(warnings, 1 + k);
        assert_true(tfm_fleet_get_member(fleet, 0)->dropped == (k == 0));
        assert_true((lines_of(fleet, 0) > 0) == (k == 1));
        tfm_model_free(&model);
        tfm_fleet_free(&fleet);
    }
}

static void on_build(void *user, int count, double seconds) {
    (void)count;
    (void)seconds;
    ++*(int *)user;
}

/* A context that outlives its fleet calls no build callback. */
static void test_context_outliving_its_fleet_reports_no_builds(void **state) {
    (void)state;
    int heard = 0;
    tfm_fleet *fleet = NULL;
    char *cache = getenv("TFM_CACHE_DIR") ? strdup(getenv("TFM_CACHE_DIR")) : NULL;
    setenv("TFM_CACHE_DIR", "off", 1); /* cached programs are not built */
    harness_ok(tfm_fleet_open(&fleet, &(tfm_fleet_options){.on_build = on_build, .on_build_user = &heard}));
    tfm_context *ctx = tfm_context_retain(tfm_fleet_get_member(fleet, 0)->context);
    for (int i = 0; i < 2; i++) {
        tfm_tensor x;
        harness_ok(tfm_tensor_new(ctx, &x, TFM_F32, 1, (int64_t[]){4}));
        harness_ok(tfm_tensor_write(ctx, x, (float[]){1, 2, 3, 4}));
        harness_ok(i == 0 ? tfm_erf(ctx, &x, x) : tfm_reciprocal(ctx, &x, x));
        assert_int_equal(heard, 1);
        tfm_fleet_free(&fleet);
    }
    tfm_context_free(&ctx);
    if (cache)
        setenv("TFM_CACHE_DIR", cache, 1);
    else
        unsetenv("TFM_CACHE_DIR");
    free(cache);
}

/* The failure of the last device is the call's error, not a warning. */
static void test_failure_of_last_device_is_the_calls_error(void **state) {
    (void)state;
    kept together = {0};
    tfm_context *contexts[2] = {NULL};
    tfm_model *model = NULL;
    tfm_fleet *fleet = NULL;
    uint64_t limits[2];
    find_limits(limits);
    for (int i = 0; i < 2; i++)
        harness_ok(tfm_context_open(&contexts[i], &(tfm_context_options){.memory_limit = limits[i]}));
    harness_ok(tfm_fleet_new(&fleet, contexts, 2));
    warnings = 0;
    harness_ok(tfm_fleet_open_model(&model, fleet, demo, NULL));
    assert_int_equal(warnings, 0);
    for (size_t i = 0; i < 2; i++)
        fill_room(contexts[i]);
    assert_int_equal(translate(&together, model, NULL, NULL), TFM_ERROR_MEMORY);
    assert_true(tfm_error_message()[0] != 0);
    assert_int_equal(warnings, 1);
    tfm_model_free(&model);
    tfm_fleet_free(&fleet);
    for (int i = 0; i < 2; i++)
        tfm_context_free(&contexts[i]);
}

static void test_fleet_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context(), *twice[] = {ctx, ctx}, *none[] = {NULL};
    tfm_fleet *fleet = NULL;
    tfm_model *model = NULL;
    harness_refused(tfm_fleet_new(&fleet, twice, 2), TFM_ERROR_ARGUMENT, "are the same");
    harness_refused(tfm_fleet_new(&fleet, none, 1), TFM_ERROR_ARGUMENT, "contexts[0] is NULL");
    harness_refused(tfm_fleet_new(&fleet, twice, 0), TFM_ERROR_ARGUMENT, "at least one");
    harness_refused(tfm_fleet_open(&fleet, &(tfm_fleet_options){.devices = "0,no-such-device"}), TFM_ERROR_DEVICE,
                    "\"no-such-device\" matches no device");
    harness_refused(tfm_fleet_open(&fleet, &(tfm_fleet_options){.devices = "0,,1"}), TFM_ERROR_DEVICE, "empty item");
    harness_refused(tfm_fleet_open(&fleet, &(tfm_fleet_options){.devices = "0, 0"}), TFM_ERROR_DEVICE,
                    "lists \"0\", and the words before it already take each such device: leave it out");
    harness_refused(tfm_context_open(&twice[0], &(tfm_context_options){.device = " all "}), TFM_ERROR_DEVICE,
                    "lists several devices");
    harness_refused(tfm_context_open(&twice[0], &(tfm_context_options){.device = "0,0"}), TFM_ERROR_DEVICE,
                    "lists several devices");
    assert_null(fleet);
    fleet = open_fleet(2, 0);
    harness_refused(tfm_fleet_open_model(&model, fleet, "no-such-folder", NULL), TFM_ERROR_IO, "no-such-folder");
    assert_null(model);
    assert_int_equal(warnings, 0); /* not the fault of a device */
    harness_ok(tfm_fleet_open_model(&model, fleet, demo, NULL));
    tfm_model_free(&model);
    tfm_fleet_free(&fleet);
}

/* A single selector makes a fleet too; a list includes each device once. */
static void test_device_list_opens_each_device_once(void **state) {
    (void)state;
    tfm_fleet *fleet = NULL;
    char list[64];
    const int index = tfm_context_device(harness_context())->index;
    harness_ok(tfm_fleet_open(&fleet, NULL));
    assert_int_equal(tfm_fleet_count(fleet), 1);
    assert_int_equal(tfm_context_device(tfm_fleet_get_member(fleet, 0)->context)->index, index);
    assert_null(tfm_fleet_get_member(fleet, 1));
    tfm_fleet_free(&fleet);
    snprintf(list, sizeof(list), "%d, all", index);
    harness_ok(tfm_fleet_open(&fleet, &(tfm_fleet_options){.devices = list}));
    for (size_t i = 0; i < tfm_fleet_count(fleet); i++) {
        const int other = tfm_context_device(tfm_fleet_get_member(fleet, i)->context)->index;
        assert_true((other == index) == (i == 0));
    }
    tfm_fleet_free(&fleet);
}

/* ---- Replicas on one device ------------------------------------------------------------------------------------- */

/* They run the batches of one context, bit-identically. */
static void same_bits(const kept *a) {
    same(a, &alone);
    for (int i = 0; i < LINES; i++)
        assert_true(isnan(alone.score[i]) ? isnan(a->score[i]) : a->score[i] == alone.score[i]);
}

static void test_workers_equal_one_worker_to_the_bit(void **state) {
    (void)state;
    static const int COUNTS[] = {1, 3};
    for (size_t k = 0; k < sizeof(COUNTS) / sizeof(*COUNTS); k++) {
        const int workers = COUNTS[k];
        kept together = {0};
        tfm_model *model = NULL;
        tfm_fleet *fleet = NULL;
        uint64_t done = 0;
        harness_ok(tfm_fleet_open(&fleet, &(tfm_fleet_options){.workers = workers}));
        assert_int_equal(tfm_fleet_count(fleet), workers);
        harness_ok(tfm_fleet_open_model(&model, fleet, demo, NULL));
        for (int call = 0; call < 2; call++) {
            harness_ok(translate(&together, model, NULL, NULL));
            same_bits(&together);
        }
        for (int i = 0; i < workers; i++) {
            assert_true(lines_of(fleet, (size_t)i) > 0 ||
                        workers == 1); /* one context is no fleet, and reports nothing */
            done += lines_of(fleet, (size_t)i);
        }
        assert_int_equal(done, workers == 1 ? 0 : 2 * (LINES - 2));
        tfm_model_free(&model);
        tfm_fleet_free(&fleet);
    }
    tfm_fleet *fleet = NULL;
    harness_refused(tfm_fleet_open(&fleet, &(tfm_fleet_options){.workers = -1}), TFM_ERROR_ARGUMENT, "-1 workers");
    harness_refused(tfm_fleet_open(&fleet, &(tfm_fleet_options){.workers = 17}), TFM_ERROR_ARGUMENT, "give 1 to 16");
    assert_null(fleet);
}

/* Whether this device gets a second replica: a CPU that computes embeddings, with more than one core. */
static bool has_spare(void) {
    const tfm_device_info *device = tfm_context_device(harness_context());
    return device->type == TFM_DEVICE_CPU && device->compute_units > 1 && !getenv("TFM_PROFILE") &&
           tfm__context_tuning(harness_context())->class == TFM__CLASS_CPU;
}

static bool hear(void *user, size_t line, int best, const char *text, double score) {
    (void)user, (void)line, (void)best, (void)text, (void)score;
    return true;
}

/* Much work starts a second replica, with the language set on the first. */
static void test_spare_worker_starts_under_load_with_same_language(void **state) {
    (void)state;
    kept together = {0};
    tfm_model *model = NULL;
    tfm_fleet *fleet = NULL;
    harness_ok(tfm_fleet_open(&fleet, NULL));
    harness_ok(tfm_fleet_open_model(&model, fleet, demo, NULL));
    harness_ok(tfm_translate(model, lines, 3, NULL, hear, NULL));
    assert_int_equal(tfm_fleet_count(fleet), 1);
    harness_ok(translate(&together, model, NULL, NULL));
    same_bits(&together);
    assert_int_equal(tfm_fleet_count(fleet), has_spare() ? 2 : 1);
    assert_true(!has_spare() || lines_of(fleet, 1) > 0);
    /* The second got its own cores at once, and both have all again. */
    bool apart = !has_spare() || !harness_context()->on_pocl;
    for (size_t i = 0; i < tfm_fleet_count(fleet); i++) {
        const tfm_context *ctx = tfm_fleet_get_member(fleet, i)->context;
        apart = apart || ctx->full_queue;
        assert_true(!ctx->full_queue || ctx->queue == ctx->full_queue);
    }
    assert_true(apart);
    harness_refused(translate(&together, model, NULL,
                              &(tfm_search_options){.should_continue = never, .should_continue_user = &(int){0}}),
                    TFM_ERROR_CANCELLED, "");
    tfm_model_free(&model);
    tfm_fleet_free(&fleet);
    assert_int_equal(warnings, 0);
}

/* Files replaced under an open model are another model: no replica is made of them. */
static void test_replaced_model_files_prevent_a_spare_worker(void **state) {
    (void)state;
    static const char *const FILES[] = {
        "config.json", "generation_config.json", "model.safetensors", "source.spm", "target.spm",
        "vocab.json",  "tokenizer_config.json"};
    kept together = {0};
    tfm_model *model = NULL;
    tfm_fleet *fleet = NULL;
    char *bytes;
    size_t size;
    if (!has_spare())
        skip();
    for (int turn = 0; turn < 2; turn++) { /* the same numbers, in another file */
        for (size_t i = 0; i < sizeof(FILES) / sizeof(*FILES); i++) {
            char *from = tfm__path_join(demo, FILES[i]);
            harness_ok(tfm__file_read(&bytes, &size, from));
            if (turn == 0 || strcmp(FILES[i], "model.safetensors") == 0) {
                remove(scratch_path(FILES[i]));
                harness_ok(tfm__file_write(scratch_path(FILES[i]), bytes, size));
            }
            free(bytes);
            free(from);
        }
        if (turn == 0) {
            harness_ok(tfm_fleet_open(&fleet, NULL));
            harness_ok(tfm_fleet_open_model(&model, fleet, scratch_root, NULL));
        }
    }
    harness_ok(translate(&together, model, NULL, NULL));
    same_bits(&together);
    assert_true(tfm_fleet_count(fleet) == 2 && tfm_fleet_get_member(fleet, 1)->dropped);
    assert_non_null(strstr(tfm_fleet_get_member(fleet, 1)->reason, "has other weights"));
    assert_int_equal(lines_of(fleet, 1), 0);
    tfm_model_free(&model);
    tfm_fleet_free(&fleet);
}

/* The first device fails another model, and the second has only that one: this one retries its own. */
static void test_last_device_of_a_model_is_retried(void **state) {
    (void)state;
    kept together = {0};
    tfm_model *first = NULL, *second = NULL;
    tfm_fleet *fleet = NULL;
    if (!has_spare())
        skip();
    harness_ok(tfm_fleet_open(&fleet, NULL));
    harness_ok(tfm_fleet_open_model(&first, fleet, demo, NULL));
    harness_ok(tfm_fleet_open_model(&second, fleet, demo, NULL));
    harness_ok(translate(&together, second, NULL, NULL));
    assert_int_equal(tfm_fleet_count(fleet), 2);
    tfm__fleet_drop(fleet, 0, "it is gone");
    harness_ok(tfm_translate(first, lines, 3, NULL, hear, NULL));
    harness_ok(translate(&together, second, NULL, NULL));
    same_bits(&together);
    tfm_model_free(&first);
    tfm_model_free(&second);
    tfm_fleet_free(&fleet);
    assert_int_equal(warnings, 0);
}

/* A model in training stays on one context: a second replica would have the directory's parameters. */
static void test_trained_model_gets_no_spare_worker(void **state) {
    (void)state;
    kept together = {0};
    tfm_model *model = NULL;
    tfm_fleet *fleet = NULL;
    tfm_trainer *trainer = NULL;
    harness_ok(tfm_fleet_open(&fleet, NULL));
    harness_ok(tfm_fleet_open_model(&model, fleet, demo, NULL));
    harness_ok(tfm_trainer_new(&trainer, model, NULL));
    tfm_trainer_free(&trainer);
    harness_ok(translate(&together, model, NULL, NULL));
    assert_int_equal(tfm_fleet_count(fleet), 1);
    tfm_model_free(&model);
    tfm_fleet_free(&fleet);
}

/* ---- Other calls ----------------------------------------------------------------------------------------------- */

static bool keep_score(void *user, size_t line, double log_prob, size_t tokens) {
    double *scores = user;
    scores[2 * line] = log_prob;
    scores[2 * line + 1] = (double)tokens;
    return true;
}

static void test_fleet_scores_equal_one_device(void **state) {
    (void)state;
    double one[2 * LINES], both[2 * LINES];
    tfm_model *model = NULL, *single = NULL;
    tfm_fleet *fleet = open_fleet(2, 0);
    const tfm_text_options text = {.batch_tokens = 64};
    harness_ok(tfm_fleet_open_model(&model, fleet, demo, NULL));
    harness_ok(tfm_model_open(&single, harness_context(), demo, NULL));
    harness_ok(tfm_score(single, lines, lines, LINES, &text, keep_score, one));
    harness_ok(tfm_score(model, lines, lines, LINES, &text, keep_score, both));
    for (int i = 0; i < 2 * LINES; i++)
        assert_true(fabs(one[i] - both[i]) < 1e-4 * (1 + fabs(one[i])));
    assert_true(lines_of(fleet, 0) > 0 && lines_of(fleet, 1) > 0);
    tfm_model_free(&single);
    tfm_model_free(&model);
    tfm_fleet_free(&fleet);
}

static void test_fleet_embeddings_equal_one_device(void **state) {
    (void)state;
    char *dir = harness_source("tests/golden/embedder");
    tfm_embedder *embedder = NULL, *single = NULL;
    tfm_fleet *fleet = open_fleet(2, 4096 /* no memory for it */);
    const tfm_embed_options options = {.batch_tokens = 64};
    harness_ok(tfm_fleet_open_embedder(&embedder, fleet, dir, NULL));
    assert_int_equal(warnings, 1);
    harness_ok(tfm_embedder_open(&single, harness_context(), dir, NULL));
    const size_t count = LINES * (size_t)tfm_embedder_get_info(single)->width;
    float *one = malloc(count * sizeof(*one)), *both = malloc(count * sizeof(*both));
    harness_ok(tfm_embed(single, one, lines, LINES, &options));
    harness_ok(tfm_embed(embedder, both, lines, LINES, &options));
    for (size_t i = 0; i < count; i++)
        assert_true(fabs((double)one[i] - (double)both[i]) < 1e-5);
    assert_true(lines_of(fleet, 1) > 0 && lines_of(fleet, 2) > 0);
    free(one);
    free(both);
    tfm_embedder_free(&single);
    tfm_embedder_free(&embedder);
    tfm_fleet_free(&fleet);
    free(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fleet_translation_equals_one_device),
        cmocka_unit_test(test_fleet_stops_when_a_callback_cancels),
        cmocka_unit_test(test_device_without_memory_is_left_out_or_retried),
        cmocka_unit_test(test_context_outliving_its_fleet_reports_no_builds),
        cmocka_unit_test(test_failure_of_last_device_is_the_calls_error),
        cmocka_unit_test(test_fleet_rejects_bad_arguments),
        cmocka_unit_test(test_device_list_opens_each_device_once),
        cmocka_unit_test(test_workers_equal_one_worker_to_the_bit),
        cmocka_unit_test(test_spare_worker_starts_under_load_with_same_language),
        cmocka_unit_test_setup_teardown(test_replaced_model_files_prevent_a_spare_worker, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test(test_last_device_of_a_model_is_retried),
        cmocka_unit_test(test_trained_model_gets_no_spare_worker),
        cmocka_unit_test(test_fleet_scores_equal_one_device),
        cmocka_unit_test(test_fleet_embeddings_equal_one_device),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
