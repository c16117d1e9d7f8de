/* When steps of decoding are recorded: by the table of `tfm tune`, and only once a trial has shown that it changes
 * nothing; and without memory for it they are launched. */
#include <pthread.h>
#include <time.h>
#include "dev/cache.h"
#include "dev/cl.h"
#include "model/generate/recorded.h"
#include "model_shapes.h"
#include "ops/tune.h"
#include "ops/kernel_validation.h"
#include "scratch.h"
#include "tfm/selftest.h"

static tfm_model *model_on(tfm_context *ctx) {
    tfm_model *model;
    harness_ok(tfm_model_new(&model, ctx, &TRANSLATOR));
    model->rules.eos_id = -1;
    return model;
}

/* What a search by the table comes to; *runs: how many parts of its steps were recordings. */
static tfm_status search(tfm_model *model, tfm_hypotheses *out, uint64_t *runs) {
    static const int32_t ids[] = {5, 6, 0, 7, 8, 9, 0};
    static const size_t counts[] = {3, 4};
    const uint64_t before = model->ctx->recorded_runs;
    tfm__recorded_roomy(model->ctx);
    const tfm_status status =
        tfm_search(model, out, ids, counts, 2, NULL, NULL, &(tfm_search_options){.beam = 3, .max_length = 40});
    *runs = model->ctx->recorded_runs - before;
    return status;
}

static uint64_t runs_of(tfm_model *model, const tfm_hypotheses *want) {
    tfm_hypotheses found;
    uint64_t runs;
    harness_ok(search(model, &found, &runs));
    assert_true(tfm__recorded_same(want, &found));
    tfm_hypotheses_free(&found);
    return runs;
}

static bool note(void *user, const tfm_selftest_record *record) {
    assert_string_equal(record->op, "steps");
    *(tfm_selftest_state *)user = record->state;
    return true;
}

static tfm_context *opened(void) {
    tfm_context *ctx = NULL;
    harness_ok(tfm_context_open(&ctx, &(tfm_context_options){.variant = getenv("TFM_TEST_VARIANT")}));
    return ctx;
}

/* A row alone is not enough, nor is a proof; the verdict is kept, and the next context knows it. */
static void test_row_and_proof(void **state) {
    (void)state;
    tfm_context *ctx = opened(), *other;
    tfm_model *model = model_on(ctx);
    tfm_hypotheses plain;
    tfm_selftest_state came = TFM_SELFTEST_FAIL;
    char row[TFM__TUNED_TEXT];
    uint64_t runs;
    tfm__recorded_row(row, TRANSLATOR.width, 2 * 3);
    assert_string_equal(row, "steps 5 1");
    harness_ok(search(model, &plain, &runs));
    assert_int_equal(runs, 0);
    harness_ok(tfm__tuned_set(ctx, row, "recorded"));
    assert_int_equal(runs_of(model, &plain), 0);
    harness_ok(tfm_selftest_steps(ctx, note, &came));
    assert_int_equal(came, tfm_tune_steps_possible(ctx) ? TFM_SELFTEST_PASS : TFM_SELFTEST_UNAVAILABLE);
    if (came == TFM_SELFTEST_PASS) {
        assert_true(runs_of(model, &plain) > 20);
        harness_ok(tfm__tuned_set(ctx, row, "something new"));
        assert_int_equal(runs_of(model, &plain), 0);
        harness_ok(tfm__tuned_set(ctx, row, NULL));
        harness_ok(tfm__tuned_set(ctx, "steps 5 0", "recorded")); /* of one to three rows */
        harness_ok(tfm__tuned_set(ctx, "steps 4 1", "recorded")); /* of narrower models */
        assert_int_equal(runs_of(model, &plain), 0);
        harness_ok(tfm__tuned_set(ctx, row, "recorded"));
        harness_ok(tfm_tune_save(ctx));
        other = opened();
        tfm_model *again = model_on(other);
        assert_true(runs_of(again, &plain) > 20);
        /* Wrong once, and in all contexts that open from then on, until a trial has gone well again. */
        tfm__recorded_disprove(other);
        assert_int_equal(runs_of(again, &plain), 0);
        tfm_model_free(&again);
        scratch_close(&other);
        other = opened();
        again = model_on(other);
        assert_int_equal(runs_of(again, &plain), 0);
        harness_ok(tfm_selftest_steps(other, note, &came));
        assert_true(runs_of(again, &plain) > 20);
        tfm_model_free(&again);
        scratch_close(&other);
    }
    tfm_tune_clear(ctx);
    harness_ok(tfm_tune_save(ctx));
    tfm_hypotheses_free(&plain);
    tfm_model_free(&model);
    scratch_close(&ctx);
}

/* Verdicts, as they are kept. */
enum { GOOD = 1, CUT_ONCE = 4, CUT_AGAIN = 5 };

/* A trial that did not come to its end, since the program did, is made once more only. */
static void test_cut(void **state) {
    (void)state;
    char what[64];
    snprintf(what, sizeof(what), "steps that are recorded, tfm %s", tfm_version());
    for (int verdict = CUT_ONCE; verdict <= CUT_AGAIN; verdict++) {
        tfm_context *ctx = opened();
        tfm_selftest_state came = TFM_SELFTEST_FAIL;
        int kept = 0;
        if (tfm_tune_steps_possible(ctx)) {
            tfm__verdict_store(ctx, verdict, "steps", what);
            harness_ok(tfm_selftest_steps(ctx, note, &came));
            assert_int_equal(came, verdict == CUT_ONCE ? TFM_SELFTEST_PASS : TFM_SELFTEST_UNAVAILABLE);
            assert_true(tfm__verdict_load(ctx, &kept, "steps", what));
            assert_int_equal(kept, verdict == CUT_ONCE ? GOOD : CUT_AGAIN);
            tfm__verdict_store(ctx, 0, "steps", what);
        }
        scratch_close(&ctx);
    }
}

static int kept_of(tfm_context *ctx) {
    char what[64];
    int verdict = 0;
    snprintf(what, sizeof(what), "steps that are recorded, tfm %s", tfm_version());
    return tfm__verdict_load(ctx, &verdict, "steps", what) ? verdict : 0;
}

/* tfm tune --reset is the way back from there. */
static void test_forgotten(void **state) {
    (void)state;
    tfm_context *ctx = opened();
    tfm_selftest_state came = TFM_SELFTEST_FAIL;
    char what[64];
    if (!tfm_tune_steps_possible(ctx)) {
        scratch_close(&ctx);
        skip();
    }
    snprintf(what, sizeof(what), "steps that are recorded, tfm %s", tfm_version());
    harness_ok(tfm__tuned_set(ctx, "steps 5 1", "recorded"));
    harness_ok(tfm_tune_save(ctx));
    tfm__verdict_store(ctx, CUT_AGAIN, "steps", what);
    tfm__verdict_store(ctx, GOOD, "gemm_engine", "a tile"); /* which has a text of its own */
    tfm_tune_clear(ctx);
    harness_ok(tfm_tune_save(ctx));
    assert_int_equal(tfm__tuned_hash(ctx, NULL), 0);
    assert_int_equal(kept_of(ctx), 0);
    int verdict = 0;
    assert_false(tfm__verdict_load(ctx, &verdict, "gemm_engine", "a tile"));
    scratch_close(&ctx);
    ctx = opened();
    assert_int_equal(tfm__tuned_hash(ctx, NULL), 0);
    harness_ok(tfm_selftest_steps(ctx, note, &came));
    assert_int_equal(came, TFM_SELFTEST_PASS);
    assert_int_equal(kept_of(ctx), GOOD);
    tfm_tune_clear(ctx);
    harness_ok(tfm_tune_save(ctx));
    scratch_close(&ctx);
}

/* Another program that has begun its trial and ends it well. */
typedef struct other {
    tfm_context *ctx;
    int lock, seen;
} other;

static void *end_it(void *user) {
    other *o = user;
    char what[64];
    snprintf(what, sizeof(what), "steps that are recorded, tfm %s", tfm_version());
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    o->seen = kept_of(o->ctx);
    tfm__verdict_store(o->ctx, GOOD, "steps", what);
    tfm__cache_unlock(o->lock);
    return NULL;
}

/* A mark of a trial that goes on in another program is none of an end: it is waited for, and not made a second one. */
static void test_beside(void **state) {
    (void)state;
    tfm_context *ctx = opened();
    other o = {.ctx = opened()};
    tfm_selftest_state came = TFM_SELFTEST_FAIL;
    pthread_t thread;
    char what[64];
    snprintf(what, sizeof(what), "steps that are recorded, tfm %s", tfm_version());
    if (tfm_tune_steps_possible(ctx)) {
        assert_true(tfm__cache_lock(&o.lock, 0) && o.lock >= 0);
        tfm__verdict_store(ctx, CUT_ONCE, "steps", what);
        assert_int_equal(pthread_create(&thread, NULL, end_it, &o), 0);
        harness_ok(tfm_selftest_steps(ctx, note, &came));
        pthread_join(thread, NULL);
        assert_int_equal(o.seen, CUT_ONCE);
        assert_int_equal(came, TFM_SELFTEST_PASS);
        assert_int_equal(kept_of(ctx), GOOD);
        if (!harness_brief()) { /* one that does not end is left alone, and is waited for once only */
            tfm_context *third = opened();
            assert_true(tfm__cache_lock(&o.lock, 0) && o.lock >= 0);
            tfm__verdict_store(ctx, CUT_ONCE, "steps", what);
            const double begun = tfm__seconds();
            for (int i = 0; i < 3; i++) {
                harness_ok(tfm_selftest_steps(third, note, &came));
                assert_int_equal(came, TFM_SELFTEST_UNAVAILABLE);
            }
            assert_true(tfm__seconds() - begun < 39);
            assert_int_equal(kept_of(ctx), CUT_ONCE);
            tfm__cache_unlock(o.lock);
            harness_ok(tfm_selftest_steps(third, note, &came));
            assert_int_equal(came, TFM_SELFTEST_PASS);
            scratch_close(&third);
        }
        tfm_tune_clear(ctx);
        harness_ok(tfm_tune_save(ctx));
    }
    scratch_close(&o.ctx);
    scratch_close(&ctx);
}

static void test_tunes(void **state) {
    (void)state;
    tfm_context *ctx = opened();
    tfm_model *model = model_on(ctx);
    tfm_tune_record r;
    char row[TFM__TUNED_TEXT];
    model->rules.no_repeat = 3; /* its steps are tried without such rules, and it has them afterwards */
    scratch_refused(tfm_tune_steps(model, &r, 0, 4), TFM_ERROR_ARGUMENT, "1 or more");
    scratch_refused(tfm_tune_steps(model, &r, 65, 4), TFM_ERROR_ARGUMENT, "at most 64 and 32");
    scratch_refused(tfm_tune_steps(model, &r, 2, 33), TFM_ERROR_ARGUMENT, "at most 64 and 32");
    harness_ok(tfm_context_status(ctx)); /* what is refused spoils nothing */
    if (tfm_tune_steps_possible(ctx)) {
        harness_ok(tfm_tune_steps(model, &r, 2, 2));
        assert_int_equal(r.tried, 2);
        assert_int_equal(r.wrong, 0);
        assert_string_equal(r.before, "launched");
        const bool recorded = strcmp(r.after, "recorded") == 0;
        tfm__recorded_row(row, TRANSLATOR.width, 4);
        assert_int_equal(tfm__tuned_find(ctx, row) != NULL, recorded);
        assert_string_equal(r.other, recorded ? "launched" : "recorded");
        assert_true(r.before_seconds > 0 && r.after_seconds > 0 && r.after_seconds <= r.before_seconds);
        assert_true(r.other_seconds > 0);
    } else {
        scratch_refused(tfm_tune_steps(model, &r, 2, 2), TFM_ERROR_UNSUPPORTED, "no command buffers");
    }
    assert_int_equal(model->rules.no_repeat, 3);
    assert_int_equal(tfm__scope_depth(ctx), 0);
    tfm_model_free(&model);
    scratch_close(&ctx);
}

/* ---- A contest --------------------------------------------------------------------------------------------------- */

/* Who is faster wins; but where one must be surely so, not who is so by times that scatter. */
static void test_judge(void **state) {
    (void)state;
    static const struct {
        double first[3], second[3];
        bool careful, out;
        size_t winner;
    } CASES[] = {{{2, 2.1, 2.2}, {1.5, 1.6, 1.7}, true, false, 1},     {{1.5, 1.6, 1.7}, {2, 2.1, 2.2}, true, false, 0},
                 {{2, 2.1, 2.2}, {2.02, 2.04, 2.06}, false, false, 0}, {{3, 1.4, 3}, {1.5, 1.6, 1.7}, false, false, 1},
                 {{3, 1.4, 3}, {1.5, 1.6, 1.7}, true, false, 0},       {{2, 2, 2}, {1, 1, 1}, false, true, 0}};
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        tfm__contest c = {.gain = TFM__TUNE_GAIN, .careful = CASES[i].careful};
        tfm_tune_record r = {0};
        size_t winner;
        tfm__contest_add(&c, "%s", "");
        tfm__contest_add(&c, "second");
        for (int k = 0; k < 3; k++) {
            c.list[0].seconds[c.list[0].turns++] = CASES[i].first[k];
            c.list[1].seconds[c.list[1].turns++] = CASES[i].second[k];
        }
        c.list[1].out = CASES[i].out;
        tfm__contest_judge(&c, &r, &winner);
        assert_int_equal(winner, CASES[i].winner);
        assert_int_equal(c.next, CASES[i].out ? 2 : 1 - winner);
        assert_true(r.after_seconds == (winner ? CASES[i].second[1] : r.before_seconds));
        assert_true(CASES[i].out ? r.other_seconds == 0 : r.other_seconds > 0);
    }
}

/* Turns of two, of which the first takes longer; those of the second fail from its third on, after the first round. */
typedef struct failing {
    bool second;
    int turns;
} failing;

static tfm_status choose(void *self, const char *setting) {
    ((failing *)self)->second = setting[0] != 0;
    return TFM_OK;
}

static tfm_status take_turn(void *self) {
    failing *f = self;
    if (f->second && ++f->turns > 2)
        return tfm__context_fail(harness_context(), TFM_ERROR_DEVICE, "a test");
    for (const double end = tfm__seconds() + (f->second ? 0.011 : 0.06); tfm__seconds() < end;)
        ;
    return TFM_OK;
}

static bool agree(void *self, const tfm__candidate *candidate) {
    (void)self, (void)candidate;
    return true;
}

/* That is the end of the second alone. */
static void test_failing_turn(void **state) {
    (void)state;
    failing f = {0};
    tfm__contest c = {
        .ctx = harness_context(), .self = &f, .use = choose, .run = take_turn, .right = agree, .gain = TFM__TUNE_GAIN};
    tfm_tune_record r = {0};
    size_t winner;
    tfm__contest_add(&c, "%s", "");
    tfm__contest_add(&c, "second");
    harness_ok(tfm__contest_run(&c, &r, &winner));
    assert_int_equal(winner, 0);
    assert_int_equal(r.wrong, 1);
    assert_int_equal(r.tried, 1);
    assert_false(f.second);
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

static int made_do;

static void count_lines(void *user, tfm_log_level level, const char *line) {
    (void)user, (void)level;
    made_do += strstr(line, "no memory for steps that are recorded") != NULL;
}

/* Memory that is short for one step alone, before which there is nothing in the pool. */
typedef struct shortage {
    tfm_context *ctx;
    int at, step;
    uint64_t more, all; /* bytes that there are then, and else */
} shortage;

static bool limit(void *user) {
    shortage *s = user;
    const bool now = s->step++ == s->at;
    if (now)
        tfm__pool_trim(s->ctx);
    s->ctx->room = now ? s->ctx->held + s->more : s->all;
    return true;
}

static tfm_status write_under(tfm_model *model, tfm_hypotheses *out, uint64_t more) {
    static const int32_t ids[] = {5, 6, 7, 8};
    static const size_t counts[] = {2, 2};
    shortage s = {.ctx = model->ctx, .at = 2, .more = more, .all = model->ctx->info.memory_bytes};
    tfm__recorded_roomy(model->ctx);
    const tfm_status status =
        tfm_generate_ids(model, out, ids, counts, 2,
                         &(tfm_generate_options){.beam = 8, .max_new = 44, .go_on = limit, .go_on_user = &s});
    tfm_context_clear_error(model->ctx);
    model->ctx->room = s.all;
    return status;
}

/* Where the form is entered it takes a longer log of nodes, and rows of its own. Where there is no memory for them, the
 * step is launched, as it would be without recordings. */
static void test_entering(void **state) {
    (void)state;
    enum { STRIDE = 1024, MOST = 512 };
    tfm_context *ctx = opened();
    const tfm_model_shape shape = language_model(TRANSLATOR, "llama");
    tfm_model *model;
    tfm_hypotheses want, found;
    int more = 0, least = MOST;
    harness_ok(tfm_model_new(&model, ctx, &shape));
    model->rules.eos_id = -1;
    model->rules.eos_id_count = 0;
    if (!tfm__context_records(ctx)) {
        tfm_model_free(&model);
        scratch_close(&ctx);
        skip();
    }
    harness_ok(write_under(model, &want, 1 << 24));
    tfm_log_set(count_lines, NULL, TFM_LOG_INFO);
    made_do = 0;
    for (bool entered = false; !entered && more < MOST; more++) {
        const int before = made_do;
        for (int records = least < MOST; records < 2; records++) {
            ctx->tuning.records = records;
            const tfm_status status = write_under(model, &found, (uint64_t)more * STRIDE);
            if (status == TFM_OK && !records)
                least = more;
            if (status == TFM_OK)
                assert_true(tfm__recorded_same(&want, &found));
            else if (records && least < MOST)
                fail_msg("with %d bytes, %d more than launched steps take: %s", more * STRIDE, (more - least) * STRIDE,
                         tfm_error_message());
            entered = records && status == TFM_OK && made_do == before;
            tfm_hypotheses_free(&found);
        }
    }
    tfm_log_set(NULL, NULL, TFM_LOG_WARNING);
    print_message("launched steps take %d KiB, recorded ones %d; %d times there was too little for the form\n", least,
                  more - 1, made_do);
    assert_true(least < more - 1 && more < MOST && made_do >= more - 1 - least);
    tfm_hypotheses_free(&want);
    tfm_model_free(&model);
    scratch_close(&ctx);
}

/* With less and less memory: what launched steps have room for, recorded ones do as well, or are launched. */
static void test_memory(void **state) {
    (void)state;
    tfm_context *ctx = opened();
    tfm_model *model = model_on(ctx);
    tfm_hypotheses want = {0}, found = {0};
    const uint64_t all = ctx->room;
    uint64_t runs, least = UINT64_MAX;
    int lost = 0, checked = 0;
    if (!tfm__context_records(ctx)) {
        tfm_model_free(&model);
        scratch_close(&ctx);
        skip();
    }
    harness_ok(search(model, &want, &runs)); /* which makes what the model keeps */
    tfm__pool_trim(ctx);
    const uint64_t before = ctx->held;
    ctx->held_most = before;
    for (int records = 0; records < 2; records++) {
        ctx->tuning.records = records;
        harness_ok(search(model, &found, &runs));
        assert_int_equal(runs > 20, records);
        tfm_hypotheses_free(&found);
        tfm__pool_trim(ctx);
    }
    const uint64_t needs = ctx->held_most - before;
    const int parts = harness_brief() ? 16 : 128;
    tfm_log_set(count_lines, NULL, TFM_LOG_INFO);
    made_do = 0;
    for (int i = 1; i <= parts; i++)
        for (int records = 0; records < 2; records++) {
            tfm__pool_trim(ctx);
            ctx->tuning.records = records;
            ctx->room = before + needs * (uint64_t)i / (uint64_t)parts;
            const tfm_status status = search(model, &found, &runs);
            tfm_context_clear_error(ctx);
            assert_true(status == TFM_OK || status == TFM_ERROR_MEMORY);
            if (status == TFM_OK)
                assert_true(tfm__recorded_same(&want, &found));
            tfm_hypotheses_free(&found);
            if (!records && status == TFM_OK && ctx->room < least)
                least = ctx->room;
            if (records && ctx->room >= least) {
                checked++;
                lost += status != TFM_OK;
            }
        }
    tfm_log_set(NULL, NULL, TFM_LOG_WARNING);
    print_message("%d limits between what launched and what recorded steps take: %d made do without recordings, and %d "
                  "failed\n",
                  checked, made_do, lost);
    assert_int_equal(lost, 0);
    assert_true(made_do > 0);
    ctx->room = all;
    tfm_hypotheses_free(&want);
    tfm_model_free(&model);
    scratch_close(&ctx);
}

/* ---- Calls of several searches ----------------------------------------------------------------------------------- */

/* Memory that is short whenever recordings have run, as for the next table of a text; and an end to what has none. */
typedef struct tight {
    tfm_context *ctx;
    uint64_t runs, all;
    int redone, steps, most;
} tight;

static bool tighten(void *user) {
    tight *t = user;
    const bool now = t->ctx->recorded_runs != t->runs && t->redone == made_do;
    t->redone = made_do;
    t->runs = t->ctx->recorded_runs;
    if (now)
        tfm__pool_trim(t->ctx);
    t->ctx->room = now ? t->ctx->held : t->all;
    return ++t->steps <= t->most;
}

/* Each prompt is a search of its own. Where there is no memory for the form in one of them, the call is begun anew and
 * launches all: it must not be begun anew for each of them, and for ever. */
static void test_several(void **state) {
    (void)state;
    enum { PROMPTS = 3, NEW = 100 };
    static const int32_t ids[] = {5, 6, 7, 8, 9, 10};
    static const size_t counts[PROMPTS] = {2, 2, 2};
    tfm_context *ctx = opened();
    const tfm_model_shape shape = language_model(TRANSLATOR, "llama");
    tfm_model *model;
    tfm_hypotheses want, found;
    tight t = {.ctx = ctx, .all = ctx->room, .most = 3 * PROMPTS * NEW};
    const tfm_generate_options o = {.beam = 2, .max_new = NEW, .go_on = tighten, .go_on_user = &t};
    if (!tfm__context_records(ctx)) {
        scratch_close(&ctx);
        skip();
    }
    harness_ok(tfm_model_new(&model, ctx, &shape));
    model->arch.decoder.rotary.border = shape.max_positions;
    model->rules.eos_id = -1;
    model->rules.eos_id_count = 0;
    harness_ok(tfm_generate_ids(model, &want, ids, counts, PROMPTS, &o));
    assert_int_equal(t.steps, PROMPTS * NEW);
    ctx->tuning.records = true;
    made_do = t.redone = t.steps = 0;
    tfm_log_set(count_lines, NULL, TFM_LOG_INFO);
    harness_ok(tfm_generate_ids(model, &found, ids, counts, PROMPTS, &o));
    tfm_log_set(NULL, NULL, TFM_LOG_WARNING);
    assert_int_equal(made_do, 1);
    assert_true(ctx->recorded_runs > 0 && t.steps > PROMPTS * NEW && t.steps < (PROMPTS + 1) * NEW);
    assert_true(tfm__recorded_same(&want, &found));
    tfm_hypotheses_free(&want);
    tfm_hypotheses_free(&found);
    tfm_model_free(&model);
    scratch_close(&ctx);
}

/* ---- Work-groups that are refused -------------------------------------------------------------------------------- */

/* Acts as a driver that refuses groups of more than 16 at the first build of launched steps, or of recorded ones. */
typedef struct refusal {
    tfm_context *ctx;
    bool recorded, done;
} refusal;

static void refuse(void *user, int count, double seconds) {
    refusal *r = user;
    (void)count, (void)seconds;
    if (!r->ctx || r->done || r->ctx->tuning.records != r->recorded)
        return;
    r->done = true;
    tfm__groups_shrink(r->ctx, "a test", r->ctx->limits.max_group, 16);
}

/* Smaller groups add in another order. Where they begin in mid-trial, that is no fault of recordings: all is tried once
 * more, in the smaller ones. */
static void test_refused_groups(void **state) {
    (void)state;
    if (harness_slow())
        skip();
    setenv("TFM_CACHE_DIR", "off", 1); /* so that kernels are built */
    for (int recorded = harness_brief() ? 1 : 0; recorded < 2; recorded++) {
        refusal r = {.recorded = recorded};
        tfm_selftest_state came = TFM_SELFTEST_FAIL;
        tfm_tune_record record = {0};
        harness_ok(tfm_context_open(&r.ctx,
                                    &(tfm_context_options){.variant = "gpu", .on_build = refuse, .on_build_user = &r}));
        tfm_context *ctx = r.ctx;
        if (tfm__context_records(ctx)) {
            harness_ok(tfm_selftest_steps(ctx, note, &came));
            assert_true(r.done);
            assert_int_equal(ctx->limits.max_group, 16);
            assert_int_equal(came, TFM_SELFTEST_PASS);
        }
        if (tfm__context_records(ctx) && !harness_brief()) {
            /* The kernel that ends a step is another one where keys and values are kept in 16 bits. */
            tfm_model *model = model_on(ctx);
            model->kept = TFM_F16;
            r = (refusal){.ctx = ctx, .recorded = recorded};
            ctx->limits.max_group = 64;
            ctx->tuning.group = 64;
            harness_ok(tfm_tune_steps(model, &record, 2, 2));
            assert_true(r.done);
            assert_int_equal(record.tried, 2);
            assert_int_equal(record.wrong, 0);
            tfm_model_free(&model);
        }
        scratch_close(&ctx);
    }
    setenv("TFM_CACHE_DIR", scratch_root, 1);
}

static int setup(void **state) {
    return scratch_setup(state) != 0 || setenv("TFM_CACHE_DIR", scratch_root, 1) != 0 ? -1 : harness_setup(state);
}

static int teardown(void **state) {
    return harness_teardown(state) != 0 || scratch_teardown(state) != 0 ? -1 : 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_row_and_proof),  cmocka_unit_test(test_cut),
        cmocka_unit_test(test_tunes),          cmocka_unit_test(test_forgotten),
        cmocka_unit_test(test_beside),         cmocka_unit_test(test_judge),
        cmocka_unit_test(test_failing_turn),   cmocka_unit_test(test_entering),
        cmocka_unit_test(test_memory),         cmocka_unit_test(test_several),
        cmocka_unit_test(test_refused_groups),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
