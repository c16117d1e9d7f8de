/* Launches and host waits of a decode step: on a GPU each costs as much as the work of a small model. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "dev/device/context_internal.h"
#include "support/harness.h"
#include "model/core/model.h"
#include "support/model_shapes.h"

/* KV cache dtype of the models. */
static tfm_dtype kept;

enum { MOST_STEPS = 40, LAYERS = 6, FEWER = 2 };

static int new_tokens(void) {
    return harness_brief() ? 16 : 24;
}

/* Counters of the context at the start of each step. */
typedef struct counted {
    uint64_t launches[MOST_STEPS], waits[MOST_STEPS];
    int steps;
} counted;

static bool count_step(void *user) {
    counted *c = user;
    const tfm_context *ctx = harness_context();
    if (c->steps < MOST_STEPS) {
        c->launches[c->steps] = ctx->launches;
        c->waits[c->steps++] = ctx->waits;
    }
    return true;
}

/* Launches of a step without reallocation; the host waits only to read the number of live rows. */
static int steady(const counted *c, const char *what) {
    const int interval = (int)tfm__context_tuning(harness_context())->search_sync_interval, first = interval + 1;
    uint64_t least = UINT64_MAX;
    if (c->steps < first + 2 * interval)
        fail_msg("%s: the search ended after %d steps, too few to count", what, c->steps);
    for (int i = first; i + 1 < c->steps; i++)
        if (c->launches[i + 1] - c->launches[i] < least)
            least = c->launches[i + 1] - c->launches[i];
    const int steps = c->steps - 1 - first;
    const uint64_t waits = c->waits[c->steps - 1] - c->waits[first];
    if (waits > (uint64_t)(steps / interval + 1))
        fail_msg("%s: the host waited %d times in %d steps", what, (int)waits, steps);
    return (int)least;
}

static tfm_model *make(const char *family, int layers) {
    tfm_model *model;
    tfm_model_shape s = family ? language_model(TRANSLATOR, family) : TRANSLATOR;
    s.decoder_layers = layers;
    harness_ok(tfm_model_new(&model, harness_context(), &s));
    model->kv_dtype = kept;
    return model;
}

/* All hypotheses are requested: a search for the best one would end too soon. */
static int translate(int layers, int beam) {
    tfm_model *model = make(NULL, layers);
    const int32_t ids[] = {5, 6, 7, 8, 9, 0};
    const size_t count = 6;
    counted c = {.steps = 0};
    tfm_hypotheses found;
    harness_ok(tfm_search(model, &found, ids, &count, 1, NULL, NULL,
                          &(tfm_search_options){.beam_size = beam,
                                                .n_best = beam,
                                                .max_length = new_tokens(),
                                                .should_continue = count_step,
                                                .should_continue_user = &c}));
    tfm_hypotheses_free(&found);
    tfm_model_free(&model);
    return steady(&c, "translation");
}

static int write_text(const char *family, int layers, bool draw) {
    tfm_model *model = make(family, layers);
    const int32_t ids[] = {5, 6, 7, 8};
    const size_t count = 4;
    counted c = {.steps = 0};
    tfm_hypotheses found;
    harness_ok(tfm_generate_ids(model, &found, ids, &count, 1,
                                &(tfm_generate_options){.sample = draw,
                                                        .max_new_tokens = new_tokens(),
                                                        .should_continue = count_step,
                                                        .should_continue_user = &c}));
    tfm_hypotheses_free(&found);
    tfm_model_free(&model);
    return steady(&c, family);
}

/* Fails if a decoder layer or the rest of a step takes more launches than given. */
static void hold(const char *what, int all, int fewer, int layer, int step) {
    const int each = (all - fewer) / (LAYERS - FEWER), rest = fewer - FEWER * each;
    print_message("%s: %d launches per decoder layer, %d more per step; %d with %d layers\n", what, each, rest, all,
                  LAYERS);
    assert_int_equal(all, LAYERS * each + rest);
    if (each > layer || rest > step)
        fail_msg("%s: %d launches per decoder layer and %d more per step: at most %d and %d are allowed", what, each,
                 rest, layer, step);
}

/* Limits are for GPUs; for CPUs they record the status quo. */
typedef struct most {
    int layer, step;
} most;

static bool is_gpu(void) {
    return strcmp(tfm__context_tuning(harness_context())->name, "gpu") == 0;
}

static void test_translation_step_launch_count_is_bounded(void **state) {
    (void)state;
    const most m = is_gpu() ? (most){8, 4} : (most){13, 4};
    if (harness_slow())
        skip();
    hold("translation", translate(LAYERS, 4), translate(FEWER, 4), m.layer, m.step);
}

static void test_decoder_step_launch_count_is_bounded(void **state) {
    (void)state;
    const struct {
        const char *family;
        bool draw;
        most gpu, wide;
    } kinds[] = {{"llama", false, {6, 4}, {12, 5}},
                 {"llama", true, {6, 4}, {12, 8}},
                 {"gpt2", false, {5, 4}, {9, 5}},
                 {"qwen3", false, {8, 4}, {14, 5}}};
    const char *flags = getenv("POCL_EXTRA_BUILD_FLAGS");
    const bool unoptimized = flags && strstr(flags, "-cl-opt-disable");
    if (harness_slow())
        skip();
    for (size_t i = 0; i < (is_gpu() ? TFM__COUNT(kinds) : 2); i++) {
        const most m = is_gpu() ? kinds[i].gpu : kinds[i].wide;
        if (kinds[i].draw && unoptimized) {
            print_message("skipped: PoCL samples wrong indices without optimization\n");
            continue;
        }
        hold(kinds[i].family, write_text(kinds[i].family, LAYERS, kinds[i].draw),
             write_text(kinds[i].family, FEWER, kinds[i].draw), m.layer, m.step);
    }
}

/* On a GPU a 16-bit KV cache takes no extra launch. */
static void test_half_kv_cache_adds_no_launch(void **state) {
    (void)state;
    if (!is_gpu())
        skip();
    for (int i = harness_brief() ? 1 : 0; i < 2; i++) {
        kept = i ? TFM_BF16 : TFM_F16;
        hold("translation, of halves", translate(LAYERS, 4), translate(FEWER, 4), 8, 4);
        hold("llama, of halves", write_text("llama", LAYERS, false), write_text("llama", FEWER, false), 6, 4);
        hold("qwen3, of halves", write_text("qwen3", LAYERS, false), write_text("qwen3", FEWER, false), 8, 4);
    }
    kept = TFM_F32;
}

/* Quantizing keys and values of an int8 KV cache is one launch a layer. */
static void test_int8_kv_cache_adds_one_launch(void **state) {
    (void)state;
    if (!is_gpu() || harness_brief())
        skip();
    kept = TFM_I8;
    hold("llama, of int8", write_text("llama", LAYERS, false), write_text("llama", FEWER, false), 7, 4);
    kept = TFM_F32;
}

/* Keys and vocabulary split over work-groups: one more launch, the sum in attention. */
static void test_split_k_decode_adds_one_launch(void **state) {
    (void)state;
    tfm__tuning *tuning = &harness_context()->tuning;
    const tfm__tuning before = *tuning;
    if (tuning->split_min_keys == 0)
        skip();
    tuning->split_workgroups = 1 << 20;
    tuning->split_min_keys = harness_brief() ? 5 : 1;
    tuning->split_min_logits = 16;
    hold("llama with a long past", write_text("llama", LAYERS, false), write_text("llama", FEWER, false), 7, 4);
    hold("translation with a long past", translate(LAYERS, 4), translate(FEWER, 4), 10, 4);
    *tuning = before;
}

/* The same texts and scores for any split of the vocabulary: ties go to the lower token. */
static void test_split_vocabulary_gives_the_same_texts(void **state) {
    (void)state;
    tfm__tuning *tuning = &harness_context()->tuning;
    const tfm__tuning before = *tuning;
    const int32_t ids[] = {5, 6, 7, 8, 9, 0, 11, 3, 0, 7, 7, 31, 0};
    const size_t counts[] = {6, 3, 4};
    if (tuning->split_min_logits == 0)
        skip();
    tfm_model *model = make(NULL, 2);
    for (int beam = 1; beam <= 4; beam += 3)
        for (int forced = 0; forced < 2; forced++) {
            tfm_hypotheses found[2];
            const int32_t prefix[] = {9, 4, 3};
            const size_t prefix_counts[] = {1, 0, 2};
            for (int parts = 0; parts < 2; parts++) {
                tuning->split_workgroups = 1 << 20;
                tuning->split_min_logits = parts ? 9 : 0;
                harness_ok(tfm_search(model, &found[parts], ids, counts, 3, forced ? prefix : NULL,
                                      forced ? prefix_counts : NULL,
                                      &(tfm_search_options){.beam_size = beam, .n_best = beam, .max_length = 9}));
            }
            for (size_t i = 0; i < 3 * (size_t)beam; i++) {
                const tfm_hypothesis *a = &found[0].items[i], *b = &found[1].items[i];
                assert_int_equal(a->count, b->count);
                assert_memory_equal(a->ids, b->ids, a->count * sizeof(*a->ids));
                assert_true(fabs(a->score - b->score) < 1e-4);
            }
            tfm_hypotheses_free(&found[0]);
            tfm_hypotheses_free(&found[1]);
        }
    *tuning = before;
    tfm_model_free(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_translation_step_launch_count_is_bounded),
        cmocka_unit_test(test_decoder_step_launch_count_is_bounded),
        cmocka_unit_test(test_half_kv_cache_adds_no_launch),
        cmocka_unit_test(test_int8_kv_cache_adds_one_launch),
        cmocka_unit_test(test_split_k_decode_adds_one_launch),
        cmocka_unit_test(test_split_vocabulary_gives_the_same_texts),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
