/* Steps of decoding that are recorded: texts and scores are those of steps that are not, to the bit. */
#include <stdlib.h>
#include <string.h>
#include "dev/cl.h"
#include "harness.h"
#include "less.h"
#include "model/model.h"
#include "model_shapes.h"
#include "tfm/ops.h"

static bool can_record(void) {
    return (harness_context()->capabilities.has & TFM__HAS_COMMANDS) != 0;
}

/* Recorded steps are on or off; returns what they were. */
static bool set(bool records) {
    tfm__tuning *tuning = &harness_context()->tuning;
    const bool before = tuning->records;
    tuning->records = records;
    return before;
}

static uint64_t runs(void) {
    return harness_context()->recorded_runs;
}

static void same(const tfm_hypotheses *a, const tfm_hypotheses *b, const char *what) {
    assert_int_equal(a->sentences, b->sentences);
    assert_int_equal(a->n_best, b->n_best);
    for (size_t i = 0; i < a->sentences * (size_t)a->n_best; i++) {
        const tfm_hypothesis *x = &a->items[i], *y = &b->items[i];
        if (x->tokens != y->tokens || memcmp(x->ids, y->ids, (size_t)x->tokens * sizeof(*x->ids)) != 0 ||
            memcmp(x->log_probs, y->log_probs, (size_t)x->tokens * sizeof(*x->log_probs)) != 0 ||
            memcmp(&x->score, &y->score, sizeof(x->score)) != 0) {
            int at = 0;
            while (at < x->tokens && at < y->tokens && x->ids[at] == y->ids[at] &&
                   memcmp(&x->log_probs[at], &y->log_probs[at], sizeof(float)) == 0)
                at++;
            fail_msg("%s, text %zu: %d tokens and %d, the first difference at %d: %d (%g) and %d (%g)", what, i,
                     x->tokens, y->tokens, at, at < x->tokens ? (int)x->ids[at] : -1,
                     at < x->tokens ? (double)x->log_probs[at] : 0, at < y->tokens ? (int)y->ids[at] : -1,
                     at < y->tokens ? (double)y->log_probs[at] : 0);
        }
    }
}

/* Fails where recordings did not run as often as that, at least. */
static void recorded(uint64_t since, uint64_t least, const char *what) {
    print_message("%s: %d parts of steps were recordings\n", what, (int)(runs() - since));
    if (can_record() && runs() - since < least)
        fail_msg("%s: %d recorded parts of steps, fewer than %d", what, (int)(runs() - since), (int)least);
}

/* ---- Recordings -------------------------------------------------------------------------------------------------- */

/* y = 2 y + 1, by a tensor of its own in between, recorded once and run again; other tensors come and go meanwhile. */
static void test_runs(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const bool before = set(true);
    tfm__recording *recording = NULL;
    const float host = 1;
    tfm_tensor y = HARNESS_TENSOR(TFM_F32, &host, 1), one = HARNESS_TENSOR(TFM_F32, &host, 1), sum = {0}, other = {0};
    if (!tfm__context_records(ctx)) {
        set(before);
        skip();
    }
    for (int i = 0; i < 2; i++) { /* the first time only to build the kernel */
        if (i == 1)
            harness_ok(tfm__recording_begin(ctx, &recording, 2));
        harness_ok(tfm_scope_open(ctx));
        tfm_add(ctx, &sum, y, y);
        tfm_add(ctx, &y, sum, one);
        harness_ok(tfm_scope_close(ctx, 0, NULL));
        sum = (tfm_tensor){0};
    }
    assert_true(tfm__recording_end(ctx, recording));
    tfm_add(ctx, &other, one, one);
    for (int i = 0; i < 3; i++)
        harness_ok(tfm__recording_run(ctx, recording, 2));
    float *got = harness_floats(y), *untouched = harness_floats(other);
    assert_true(got[0] == 63.0f);
    assert_true(untouched[0] == 2.0f);
    free(got);
    free(untouched);
    tfm__recording_free(ctx, &recording);
    assert_null(recording);
    set(before);
}

/* What cannot be recorded is done, and the recording is given up. */
static void test_gives_up(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const bool before = set(true);
    float host[2] = {3, 5};
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, host, 2), y = HARNESS_TENSOR(TFM_F32, host, 2);
    for (int what = 0; what < 6; what++) {
        tfm__recording *recording = NULL;
        tfm__read *read = NULL;
        harness_ok(tfm__recording_begin(ctx, &recording, 0));
        tfm_add(ctx, &y, x, x);
        if (what == 0)
            harness_ok(tfm__tensor_copy(ctx, y, x));
        else if (what == 1)
            harness_ok(tfm__tensor_fill(ctx, y, host));
        else if (what == 2)
            harness_ok(tfm_tensor_write(ctx, y, host));
        else if (what == 3)
            harness_ok(tfm_tensor_read(ctx, host, x));
        else if (what == 4)
            harness_ok(tfm__read_start(ctx, &read, y));
        else
            tfm__pool_trim(ctx);
        assert_null(ctx->recording);
        assert_false(tfm__recording_end(ctx, recording));
        float *got = harness_floats(y);
        assert_true(got[1] == (what == 1 ? 3.0f : what == 0 || what == 2 ? 5.0f : 10.0f));
        free(got);
        tfm__read_free(ctx, &read);
        tfm__recording_free(ctx, &recording);
    }
    set(before);
}

/* A failure ends a recording, too. */
static void test_fails(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const bool before = set(true);
    tfm__recording *recording = NULL;
    harness_ok(tfm__recording_begin(ctx, &recording, 0));
    tfm__context_fail(ctx, TFM_ERROR_ARGUMENT, "a test");
    assert_false(tfm__recording_end(ctx, recording));
    assert_null(ctx->recording);
    tfm__recording_free(ctx, &recording);
    tfm_context_clear_error(ctx);
    set(before);
}

/* ---- Translation ------------------------------------------------------------------------------------------------- */

/* Without `longest`, sentences are over when they have 50 tokens more than their source. */
static void translate(tfm_model *model, tfm_hypotheses *out, bool records, int sentences, int beam, int longest) {
    int32_t ids[128];
    const size_t counts[] = {6, 3, 14, 27, 38};
    const bool before = set(records);
    for (int i = 0; i < 88; i++)
        ids[i] = 3 + i * 11 % 50;
    harness_ok(tfm_search(model, out, ids, counts, (size_t)sentences, NULL, NULL,
                          &(tfm_search_options){.beam = beam, .n_best = beam, .max_length = longest}));
    set(before);
}

static tfm_model *translator(void) {
    tfm_model *model;
    harness_ok(tfm_model_new(&model, harness_context(), &TRANSLATOR));
    model->rules.eos_id = -1;
    return model;
}

static void compare_translations(tfm_model *model, int sentences, int beam, int longest, uint64_t least) {
    tfm_hypotheses plain, again;
    char what[64];
    snprintf(what, sizeof(what), "translation, %d sentences, beam %d", sentences, beam);
    translate(model, &plain, false, sentences, beam, longest);
    const uint64_t since = runs();
    translate(model, &again, true, sentences, beam, longest);
    same(&plain, &again, what);
    recorded(since, least, what);
    tfm_hypotheses_free(&plain);
    tfm_hypotheses_free(&again);
}

static void compare_many(tfm_model *model) {
    compare_translations(model, less() ? 2 : 5, less() ? 2 : 4, 40, 40);
}

/* Texts that never end, through several tables. */
static void test_translation(void **state) {
    (void)state;
    tfm_model *model = translator();
    compare_many(model);
    if (less())
        compare_translations(model, 3, 3, 16, 10); /* more rows than are few */
    if (!harness_brief()) {
        compare_translations(model, 1, 1, 80, 80);
        compare_translations(model, 5, 1, 70, 60);
        compare_translations(model, 1, 4, 80, 80);
    }
    tfm_model_free(&model);
}

/* Sentences leave the batch, each at a step of its own. */
static void test_ends(void **state) {
    (void)state;
    tfm_model *model = translator();
    compare_translations(model, less() ? 3 : 5, 1, 0, less() ? 30 : 60);
    if (!harness_brief())
        compare_translations(model, 5, 4, 0, 60);
    tfm_model_free(&model);
}

/* ---- Going on with prompts --------------------------------------------------------------------------------------- */

static bool listen(void *user, size_t prompt, int best, int32_t id) {
    uint64_t *sum = user;
    *sum = *sum * 31 + (uint64_t)id + 7 * prompt + (uint64_t)best;
    return *sum % 97 != 0;
}

typedef struct writing {
    int prompts, beam, longest;
    bool ragged, heard;
} writing;

static void write_texts(tfm_model *model, tfm_hypotheses *out, uint64_t *sum, bool records, const writing *w) {
    int32_t ids[64];
    size_t counts[8], all = 0;
    const bool before = set(records);
    for (int i = 0; i < w->prompts; i++) {
        counts[i] = w->ragged ? 3 + (size_t)i * 2 : 5;
        for (size_t k = 0; k < counts[i]; k++, all++)
            ids[all] = (int32_t)(3 + (all * 7 + (size_t)i) % 50);
    }
    harness_ok(tfm_generate_ids(model, out, ids, counts, (size_t)w->prompts,
                                &(tfm_generate_options){.beam = w->beam,
                                                        .n_best = w->beam,
                                                        .max_new = w->longest,
                                                        .on_token = w->heard ? listen : NULL,
                                                        .on_token_user = sum}));
    set(before);
}

static void compare_texts(tfm_model *model, const char *family, const writing *w, uint64_t least) {
    tfm_hypotheses plain, again;
    uint64_t told[2] = {1, 1};
    char what[128];
    snprintf(what, sizeof(what), "%s, %d prompts%s, beam %d%s", family, w->prompts, w->ragged ? " of any length" : "",
             w->beam, w->heard ? ", heard" : "");
    write_texts(model, &plain, &told[0], false, w);
    const uint64_t since = runs();
    write_texts(model, &again, &told[1], true, w);
    same(&plain, &again, what);
    assert_true(told[0] == told[1]);
    recorded(since, least, what);
    tfm_hypotheses_free(&plain);
    tfm_hypotheses_free(&again);
}

static tfm_model *decoder(const char *family, int window) {
    tfm_model *model;
    const tfm_model_shape shape = language_model(TRANSLATOR, family);
    harness_ok(tfm_model_new(&model, harness_context(), &shape));
    for (int i = 0; i < shape.decoder_layers && window; i++) {
        model->decoder.blocks[i].window = true;
        model->decoder.blocks[i].before = window - 1;
    }
    model->rules.eos_id = -1;
    model->rules.eos_id_count = 0;
    return model;
}

/* Makes the end of a text what the first one has as its n-th token. */
static void end_with(tfm_model *model, const writing *w, int n) {
    tfm_hypotheses found;
    uint64_t sum = 1;
    write_texts(model, &found, &sum, false, w);
    model->rules.eos_id = found.items[0].ids[n];
    tfm_hypotheses_free(&found);
}

/* Where it is brief, only a `whole` comparison has more than one text. */
static void compare_decoders(const char *family, int window, tfm_dtype kept, bool whole) {
    tfm_model *model = decoder(family, window);
    const writing ending = {4, 2, 40, true, false};
    model->kept = kept;
    compare_texts(model, family, &(writing){1, 1, 44, false, false}, 40);
    if (harness_brief() && !whole) {
        tfm_model_free(&model);
        return;
    }
    if (!harness_brief()) {
        compare_texts(model, family, &(writing){3, 2, 80, false, false}, 80);
        compare_texts(model, family, &(writing){4, 1, 60, true, false}, 50);
    }
    compare_texts(model, family, &(writing){3, 1, 40, true, true}, 0);
    end_with(model, &ending, 20);
    compare_texts(model, family, &ending, 0);
    tfm_model_free(&model);
}

static void test_llama(void **state) {
    (void)state;
    compare_decoders("llama", 0, TFM_F32, true);
}

static void test_window(void **state) {
    (void)state;
    compare_decoders("mistral", 6, TFM_F32, false);
}

static void test_gpt2(void **state) {
    (void)state;
    if (harness_brief())
        skip();
    compare_decoders("gpt2", 0, TFM_F32, false);
}

static void test_halves(void **state) {
    (void)state;
    compare_decoders("llama", 0, TFM_F16, false);
    if (!harness_brief())
        compare_decoders("gpt2", 0, TFM_BF16, false);
}

/* Several work-groups share the keys of a row, and of the vocabulary. */
static void test_shared(void **state) {
    (void)state;
    tfm__tuning *tuning = &harness_context()->tuning;
    const tfm__tuning before = *tuning;
    if (tuning->split_keys == 0)
        skip();
    tuning->split_groups = 1 << 20;
    tuning->split_keys = 5;
    tuning->split_entries = 16;
    compare_decoders("llama", 0, TFM_F32, false);
    tfm_model *model = translator();
    compare_many(model);
    tfm_model_free(&model);
    *tuning = before;
}

/* ---- What cannot be recorded ------------------------------------------------------------------------------------- */

/* Scores are capped by what a fill writes, which is not recorded: all goes on with launches. */
static void test_given_up(void **state) {
    (void)state;
    tfm_model *model = decoder("llama", 0);
    model->arch.logit_cap = 15;
    const uint64_t since = runs();
    compare_texts(model, "llama with a cap", &(writing){3, 2, 20, true, false}, 0);
    assert_true(runs() == since);
    tfm_model_free(&model);
}

/* Choices that are not the same step by step. */
static void test_not_steady(void **state) {
    (void)state;
    tfm_model *model = decoder("llama", 0);
    model->rules.no_repeat = 3;
    const uint64_t since = runs();
    compare_texts(model, "llama that repeats nothing", &(writing){3, 2, 20, true, false}, 0);
    assert_true(runs() == since);
    tfm_model_free(&model);
}

/* A recording gives back what it has held, and the next one takes that. */
static void test_blocks(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_model *model = decoder("llama", 0);
    compare_texts(model, "llama", &(writing){3, 1, 40, false, false}, 40);
    const uint64_t held = ctx->held;
    for (int i = harness_brief() ? 2 : 0; i < 3; i++)
        compare_texts(model, "llama", &(writing){3, 1, 40, false, false}, 40);
    assert_true(ctx->held == held); /* blocks of a recording come back */
    assert_null(ctx->recording);
    tfm_model_free(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs),        cmocka_unit_test(test_gives_up), cmocka_unit_test(test_fails),
        cmocka_unit_test(test_translation), cmocka_unit_test(test_ends),     cmocka_unit_test(test_llama),
        cmocka_unit_test(test_window),      cmocka_unit_test(test_gpt2),     cmocka_unit_test(test_halves),
        cmocka_unit_test(test_shared),      cmocka_unit_test(test_given_up), cmocka_unit_test(test_not_steady),
        cmocka_unit_test(test_blocks),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
