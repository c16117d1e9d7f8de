/* The contest of recorded steps of decoding with launched ones, for `tfm tune`. */
#include <stdio.h>
#include "model/generate/recorded.h"
#include "ops/tape.h"
#include "ops/tune.h"

/* So many tokens that most of a table's columns are steps of it, and those around it are in the time as well. */
enum { TOKENS = 32, MOST_SENTENCES = 64 };

typedef struct steps {
    tfm_model *model;
    int sentences, beam, tokens;
    char row[TFM__TUNED_TEXT];
    bool recorded;       /* the candidate in force */
    tfm_hypotheses want; /* what launched steps come to */
    uint64_t shrinks;    /* of work-groups when they did: in smaller ones all is tried anew */
} steps;

static tfm_status use(void *self, const char *setting) {
    steps *s = self;
    s->recorded = setting[0] != 0;
    return tfm__tuned_set(s->model->ctx, s->row, s->recorded ? setting : NULL);
}

static tfm_status run(void *self) {
    steps *s = self;
    tfm_hypotheses found;
    const tfm_status status = tfm__recorded_search(s->model, &found, s->sentences, s->beam, s->tokens, s->recorded);
    tfm_hypotheses_free(&found);
    return status == TFM_OK ? TFM_OK : tfm__context_fail(s->model->ctx, status, "%s", tfm_error_message());
}

static bool right(void *self, const tfm__candidate *candidate) {
    (void)candidate;
    steps *s = self;
    tfm_context *ctx = s->model->ctx;
    const uint64_t before = tfm__recording_runs(ctx);
    tfm_hypotheses found;
    const tfm_status status =
        tfm__recorded_search(s->model, s->recorded ? &found : &s->want, s->sentences, s->beam, s->tokens, s->recorded);
    if (status != TFM_OK) {
        tfm__context_fail(ctx, status, "%s", tfm_error_message());
        return false;
    }
    if (!s->recorded) {
        s->shrinks = tfm__context_shrinks(ctx);
        return true;
    }
    const bool same = tfm__recorded_same(&s->want, &found), ran = tfm__recording_runs(ctx) > before;
    tfm_hypotheses_free(&found);
    if (!same && tfm__context_shrinks(ctx) == s->shrinks)
        tfm__recorded_disprove(ctx);
    return same && ran;
}

static tfm_status try_steps(tfm_tune_record *out, steps *s) {
    tfm_context *ctx = s->model->ctx;
    const char *why = NULL;
    size_t winner = 0;
    bool next = false;
    use(s, "");
    const tfm_status proved = tfm__recorded_prove(ctx, &why, NULL); /* which was tried, and may be disproved since */
    if (proved != TFM_OK)
        return proved;
    tfm__contest c = {
        .ctx = ctx, .self = s, .use = use, .run = run, .right = right, .gain = TFM__TUNE_GAIN, .careful = true};
    tfm__contest_add(&c, "%s", "");
    if (!why)
        tfm__contest_add(&c, "recorded");
    *out = (tfm_tune_record){.wrong = why != NULL};
    tfm__contest_run(&c, out, &winner);
    next = c.next < c.count;
    out->before_seconds /= s->tokens;
    out->after_seconds /= s->tokens;
    out->other_seconds /= s->tokens;
    snprintf(out->before, sizeof(out->before), "launched");
    snprintf(out->after, sizeof(out->after), "%s", winner ? "recorded" : "launched");
    if (next)
        snprintf(out->other, sizeof(out->other), "%s", winner ? "launched" : "recorded");
    return tfm_context_status(ctx);
}

/* Why steps of this model are not recorded on its device, or TFM_OK. */
static tfm_status ready(const tfm_model *model, int tokens) {
    if (!tfm__context_records(model->ctx))
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "tune_steps: %s has no command buffers (cl_khr_command_buffer), or this context cannot use "
                         "them, so there is nothing to try",
                         tfm_context_device(model->ctx)->name);
    if (!tfm__recorded_serves(model) || tokens < TOKENS)
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "tune_steps: steps of this model are not recorded: %s",
                         model->arch.decoder.layers == 0 ? "it has no decoder"
                         : tokens < TOKENS               ? "its texts are too short"
                                                         : "of its kind they are not alike");
    return TFM_OK;
}

tfm_status tfm_tune_steps(tfm_model *model, tfm_tune_record *out, int sentences, int beam) {
    if (TFM__NEEDS("tune_steps", model, out) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    tfm_context *ctx = model->ctx;
    *out = (tfm_tune_record){0};
    if (tfm__context_ready(ctx, "tune_steps") != TFM_OK)
        return tfm_context_status(ctx);
    if (sentences < 1 || sentences > MOST_SENTENCES || beam < 1 || beam > TFM_MAX_BEAM)
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "tune_steps: %d sentences and a beam of %d: both must be 1 or more, and at most %d and %d",
                         sentences, beam, MOST_SENTENCES, TFM_MAX_BEAM);
    steps s = {.model = model, .sentences = sentences, .beam = beam, .tokens = TOKENS};
    const int positions = model->arch.decoder.max_positions - 8; /* a prompt comes before a text */
    tfm_status status = ready(model, positions < TOKENS ? positions : TOKENS);
    if (status != TFM_OK)
        return status;
    const char *why;
    bool busy;
    status = tfm__recorded_prove(ctx, &why, &busy);
    if (status != TFM_OK)
        return status;
    if (busy)
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "tune_steps: %s", why);
    tfm__recorded_row(s.row, model->arch.decoder.width, (int64_t)sentences * beam);
    const bool taped = tfm__tape_pause(ctx);
    uint64_t shrinks;
    do { /* results and times are those of groups of one size */
        shrinks = tfm__context_shrinks(ctx);
        *out = (tfm_tune_record){0};
        tfm_scope_open(ctx);
        status = try_steps(out, &s);
        if (status != TFM_OK)
            use(&s, "");
        if (tfm_context_status(ctx) == TFM_OK)
            tfm_scope_close(ctx, 0, NULL);
        tfm_hypotheses_free(&s.want);
    } while (status == TFM_OK && tfm__context_shrinks(ctx) != shrinks);
    tfm__tape_resume(ctx, taped);
    return status;
}
