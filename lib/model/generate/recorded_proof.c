/* Whether steps of decoding are recorded on a device: where `tfm tune` has found that faster, which is a row of the
 * device's table, and where a trial has shown that it changes nothing. A driver that records wrongly would do so in any
 * model, so the trial is of small ones, and its verdict is kept under device, driver and version. What is not proven is
 * launched. */
#include <stdio.h>
#include <string.h>
#include "model/generate/recorded.h"
#include "ops/kernel_validation.h"
#include "ops/tape.h"
#include "tfm/selftest.h"

typedef enum verdict {
    UNKNOWN,
    GOOD,
    WRONG,
    REFUSED,
    CUT_ONCE,  /* a trial has begun, and nobody has heard of its end */
    CUT_AGAIN, /* so it was twice: no third time */
    VERDICTS
} verdict;

/* What a context knows. */
typedef struct state {
    verdict known;
    bool asked;    /* what is kept has been looked up */
    bool tried;    /* or the trial was made here */
    bool waited;   /* for another program's, in vain */
    bool launches; /* a search is under way that is to be launched, whatever the table says */
    bool tries;    /* it is one of a trial, whose failures are wanted */
    bool crowded;  /* there was no memory for the form in some search, and there may be none in the next one */
} state;

static const char KEY;

/* Seconds to wait for another program's trial, in which kernels are compiled. */
enum { PATIENCE = 20 };

static state *state_of(tfm_context *ctx) {
    return tfm__context_slot_made(ctx, &KEY, sizeof(state));
}

static const char *trouble(verdict v) {
    static const char *const WHY[VERDICTS] = {
        [WRONG] = "recorded steps of decoding came to other texts than launched ones, so they are launched",
        [REFUSED] = "the driver did not record or run steps of decoding, so they are launched",
        [CUT_AGAIN] = "the program ended each time that recorded steps of decoding were tried, so they are launched: "
                      "`tfm tune --reset` forgets that",
    };
    return WHY[v];
}

/* ---- What is kept ------------------------------------------------------------------------------------------------ */

static const char *what_of(char what[64]) {
    snprintf(what, 64, "steps that are recorded, tfm %s", tfm_version());
    return what;
}

static verdict kept(tfm_context *ctx) {
    char what[64];
    int stored = UNKNOWN;
    return tfm__verdict_load(ctx, &stored, "steps", what_of(what)) && stored > UNKNOWN && stored < VERDICTS
               ? (verdict)stored
               : UNKNOWN;
}

static void keep(tfm_context *ctx, verdict v) {
    char what[64];
    tfm__verdict_store(ctx, v, "steps", what_of(what));
}

/* A want of memory is one of this moment, and not kept. */
static void conclude(tfm_context *ctx, state *s, verdict v, bool lasting) {
    s->known = v;
    s->asked = s->tried = true;
    if (lasting)
        keep(ctx, v);
    if (trouble(v))
        tfm__log(TFM_LOG_WARNING, "%s: %s", tfm_context_device(ctx)->name, trouble(v));
}

void tfm__recorded_disprove(tfm_context *ctx) {
    state *s = state_of(ctx);
    if (s)
        conclude(ctx, s, WRONG, true);
}

/* ---- The table --------------------------------------------------------------------------------------------------- */

static unsigned octave(int64_t x) {
    unsigned o = 0;
    while (x >>= 1)
        o++;
    return o;
}

/* What a launch costs is the same for all, and what a kernel does grows with width and rows. Of rows a class reaches to
 * four times as many: 1 to 3, 4 to 15. */
void tfm__recorded_row(char name[TFM__TUNED_TEXT], int64_t width, int64_t rows) {
    snprintf(name, TFM__TUNED_TEXT, "steps %u %u", octave(width), octave(rows) / 2);
}

bool tfm__recorded_serves(const tfm_model *model) {
    const tfm__stack_arch *arch = &model->arch.decoder;
    return arch->layers > 0 && !arch->recurrent && arch->relative.buckets == 0;
}

bool tfm__recorded_wanted(tfm_model *model, int64_t rows) {
    tfm_context *ctx = model->ctx;
    char name[TFM__TUNED_TEXT];
    state *s = tfm__context_slot(ctx, &KEY);
    if (s && (s->launches || s->crowded))
        return false;
    if (tfm__context_tuning(ctx)->records)
        return s || state_of(ctx);
    tfm__recorded_row(name, model->arch.decoder.width, rows);
    const char *setting = tfm__tuned_find(ctx, name);
    s = setting && strcmp(setting, "recorded") == 0 ? state_of(ctx) : NULL;
    if (!s)
        return false;
    if (!s->asked) {
        s->known = kept(ctx);
        s->asked = s->known != CUT_ONCE; /* another program may be trying just now */
        if (s->known != GOOD && s->asked)
            tfm__log(TFM_LOG_WARNING,
                     "steps of decoding are launched, though the table says otherwise: `tfm tune` and "
                     "`tfm selftest` try whether recording them is right with this version and driver");
    }
    return s->known == GOOD;
}

bool tfm__recorded_never(tfm_model *model, int64_t rows) {
    tfm_context *ctx = model->ctx;
    const state *s = tfm__context_slot(ctx, &KEY);
    if (s && s->tries)
        return false;
    return !tfm__context_records(ctx) || !tfm__recorded_serves(model) || !tfm__recorded_wanted(model, rows);
}

void tfm__recorded_over(tfm_context *ctx, bool entered) {
    const tfm_status status = tfm_context_status(ctx);
    state *s = tfm__context_slot(ctx, &KEY);
    if (status != TFM_ERROR_MEMORY || !entered || !s || s->tries)
        return;
    s->crowded = true;
    tfm__context_do_with_less(ctx, "there is no memory for steps that are recorded: they are launched");
}

void tfm__recorded_roomy(tfm_context *ctx) {
    state *s = tfm__context_slot(ctx, &KEY);
    if (s)
        s->crowded = false;
}

/* ---- Searches ---------------------------------------------------------------------------------------------------- */

/* Rules by which texts have all their tokens, and steps are alike. */
static void plain_rules(tfm__rules *rules) {
    rules->eos_id = -1;
    rules->eos_id_count = 0;
    rules->forced_bos_id = rules->forced_eos_id = -1;
    rules->no_repeat = rules->first_bad_count = rules->biased_count = rules->bad_word_count = 0;
    rules->prompt.min_new = rules->prompt.min_length = rules->prompt.no_repeat_source = 0;
    rules->prompt.source_penalty = rules->prompt.decay = 0;
    rules->prompt.repetition_penalty = 1;
}

static tfm_status search(tfm_model *model, tfm_hypotheses *out, int sentences, int beam, int tokens) {
    enum { LENGTH = 5, MOST = 64 };
    int32_t ids[MOST * LENGTH];
    size_t counts[MOST];
    const bool writes = model->arch.encoder.layers == 0;
    const int vocabulary = writes ? model->arch.decoder.vocabulary : model->arch.encoder.vocabulary;
    sentences = sentences < MOST ? sentences : MOST;
    for (int i = 0; i < sentences; i++)
        counts[i] = LENGTH;
    for (int i = 0; i < sentences * LENGTH; i++)
        ids[i] = (3 + i * 7) % vocabulary;
    return writes ? tfm_generate_ids(model, out, ids, counts, (size_t)sentences,
                                     &(tfm_generate_options){.beam = beam, .n_best = beam, .max_new = tokens})
                  : tfm_search(model, out, ids, counts, (size_t)sentences, NULL, NULL,
                               &(tfm_search_options){.beam = beam, .n_best = beam, .max_length = tokens});
}

tfm_status tfm__recorded_search(tfm_model *model, tfm_hypotheses *out, int sentences, int beam, int tokens,
                                bool recorded) {
    tfm_context *ctx = model->ctx;
    state *s = state_of(ctx);
    tfm__rules *own = s ? tfm__alloc(1, sizeof(*own)) : NULL;
    *out = (tfm_hypotheses){0};
    if (!own)
        return s ? tfm__context_fail(ctx, TFM_ERROR_MEMORY, "%s", tfm_error_message()) : tfm_context_status(ctx);
    *own = model->rules;
    plain_rules(&model->rules);
    s->launches = !recorded;
    s->tries = true;
    const bool before = tfm__context_set_records(ctx, recorded);
    const tfm_status status = search(model, out, sentences, beam, tokens);
    tfm__context_set_records(ctx, before);
    s->launches = s->tries = false;
    model->rules = *own;
    free(own);
    return status;
}

bool tfm__recorded_same(const tfm_hypotheses *a, const tfm_hypotheses *b) {
    if (a->sentences != b->sentences || a->n_best != b->n_best)
        return false;
    for (size_t i = 0; i < a->sentences * (size_t)a->n_best; i++) {
        const tfm_hypothesis *x = &a->items[i], *y = &b->items[i];
        if (x->tokens != y->tokens || memcmp(x->ids, y->ids, (size_t)x->tokens * sizeof(*x->ids)) != 0 ||
            memcmp(x->log_probs, y->log_probs, (size_t)x->tokens * sizeof(*x->log_probs)) != 0 ||
            memcmp(&x->score, &y->score, sizeof(x->score)) != 0)
            return false;
    }
    return true;
}

/* ---- The trial --------------------------------------------------------------------------------------------------- */

/* Beams of a translator, whose rows change places and have positions that are added; and texts of a model that turns.
 */
static const struct {
    const char *family;
    int sentences, beam;
} CASES[] = {{NULL, 2, 3}, {"llama", 2, 1}};
enum { TOKENS = 20 };

static tfm_status small_model(tfm_model **out, tfm_context *ctx, const char *family) {
    return tfm_model_new(out, ctx,
                         &(tfm_model_shape){.family = family,
                                            .width = 32,
                                            .heads = 4,
                                            .kv_heads = family ? 2 : 0,
                                            .feed_forward = 64,
                                            .encoder_layers = family ? 0 : 1,
                                            .decoder_layers = 2,
                                            .source_vocabulary = 60,
                                            .max_positions = 64,
                                            .pad_id = family ? -1 : 59,
                                            .start_id = family ? 1 : 59,
                                            .eos_id = family ? 2 : 0,
                                            .activation = family ? TFM_SILU : TFM_RELU,
                                            .seed = 3});
}

/* Fails only where the search without recordings does. What it says of the others is good until one is not. */
static tfm_status try_case(tfm_context *ctx, verdict *v, bool *lasting, const char *family, int sentences, int beam) {
    tfm_model *model = NULL;
    tfm_hypotheses plain = {0}, again = {0};
    tfm_status status = small_model(&model, ctx, family);
    if (status == TFM_OK)
        status = tfm__recorded_search(model, &plain, sentences, beam, TOKENS, false);
    if (status == TFM_OK) {
        const int depth = tfm__scope_depth(ctx);
        const uint64_t before = tfm__recording_runs(ctx);
        const tfm_status recorded = tfm__recorded_search(model, &again, sentences, beam, TOKENS, true);
        *v = recorded != TFM_OK || tfm__recording_runs(ctx) == before ? REFUSED
             : tfm__recorded_same(&plain, &again)                     ? GOOD
                                                                      : WRONG;
        *lasting = recorded != TFM_ERROR_MEMORY;
        if (tfm_context_status(ctx) != TFM_OK)
            tfm__context_recover(ctx, depth);
    }
    tfm_hypotheses_free(&plain);
    tfm_hypotheses_free(&again);
    tfm_model_free(&model);
    return status;
}

static tfm_status try_all(tfm_context *ctx, verdict *v, bool *lasting) {
    tfm_status status = tfm_scope_open(ctx);
    *v = GOOD;
    for (size_t i = 0; i < TFM__COUNT(CASES) && status == TFM_OK && *v == GOOD; i++)
        status = try_case(ctx, v, lasting, CASES[i].family, CASES[i].sentences, CASES[i].beam);
    if (tfm_context_status(ctx) == TFM_OK)
        tfm_scope_close(ctx, 0, NULL);
    return status == TFM_OK ? tfm_context_status(ctx) : status;
}

/* Where the driver refuses work-groups, a search begins anew in smaller ones, which add in another order: what differs
 * from a search before that says nothing, and all is tried once more. */
static tfm_status try_in_same_groups(tfm_context *ctx, verdict *v, bool *lasting) {
    tfm_status status;
    uint64_t shrinks;
    do {
        shrinks = tfm__context_shrinks(ctx);
        status = try_all(ctx, v, lasting);
    } while (status == TFM_OK && *v != GOOD && tfm__context_shrinks(ctx) != shrinks);
    return status;
}

/* A driver may end the program, and is then tried once more only: the first time it may have been somebody who gave up
 * waiting, by a signal that no handler has heard of. Not `marked` where the verdict is good already. */
static tfm_status prove_alone(tfm_context *ctx, state *s, bool marked, const char **why) {
    const verdict last = kept(ctx);
    verdict v = UNKNOWN;
    bool lasting = true;
    if (last == CUT_AGAIN) {
        conclude(ctx, s, last, false);
        *why = trouble(last);
        return TFM_OK;
    }
    if (last != GOOD && marked)
        keep(ctx, last == CUT_ONCE ? CUT_AGAIN : CUT_ONCE);
    const bool taped = tfm__tape_pause(ctx);
    const tfm_status status = try_in_same_groups(ctx, &v, &lasting);
    tfm__tape_resume(ctx, taped);
    if (status != TFM_OK || !lasting)
        keep(ctx, last == CUT_ONCE ? UNKNOWN : last);
    if (status == TFM_OK) {
        conclude(ctx, s, v, lasting);
        *why = trouble(v);
    }
    return status;
}

tfm_status tfm__recorded_prove(tfm_context *ctx, const char **why, bool *busy) {
    state *s = state_of(ctx);
    int lock;
    *why = NULL;
    if (busy)
        *busy = false;
    if (!s)
        return tfm_context_status(ctx);
    if (s->tried) {
        *why = trouble(s->known);
        return TFM_OK;
    }
    if (kept(ctx) == GOOD)
        return prove_alone(ctx, s, false, why);
    if (!tfm__validation_lock(&lock, s->waited ? 0 : PATIENCE)) {
        if (busy)
            *busy = true;
        *why = "another program is still trying recorded steps of decoding, so they are launched: try again after it";
        tfm__log(s->waited ? TFM_LOG_INFO : TFM_LOG_WARNING, "%s: %s", tfm_context_device(ctx)->name, *why);
        s->waited = true;
        return TFM_OK;
    }
    const tfm_status status = prove_alone(ctx, s, true, why);
    tfm__validation_unlock(lock);
    return status;
}

/* ---- The self-test ----------------------------------------------------------------------------------------------- */

tfm_status tfm_selftest_steps(tfm_context *ctx, tfm_selftest_fn report, void *user) {
    if (TFM__NEEDS("selftest_steps", ctx, report ? "" : NULL) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (tfm__context_ready(ctx, "selftest_steps") != TFM_OK)
        return tfm_context_status(ctx);
    const int depth = tfm__scope_depth(ctx);
    const char *why = "it has no command buffers (cl_khr_command_buffer), or this context cannot use them";
    tfm_selftest_record record = {"steps", "recorded", TFM_SELFTEST_UNAVAILABLE, 0, ""};
    char message[1024] = "";
    if (tfm__context_records(ctx) && tfm__recorded_prove(ctx, &why, NULL) != TFM_OK) {
        snprintf(message, sizeof(message), "%s", tfm_error_message());
        tfm__context_recover(ctx, depth);
        record.state = TFM_SELFTEST_FAIL;
    } else if (!why) {
        record.state = TFM_SELFTEST_PASS;
    } else {
        snprintf(message, sizeof(message), "%s", why);
    }
    record.message = message;
    return report(user, &record) ? TFM_OK : tfm__fail(TFM_ERROR_CANCELLED, "selftest_steps: stopped at its end");
}
