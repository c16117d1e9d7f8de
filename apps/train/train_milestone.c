/* Milestones of a training run: validation, the best model so far, snapshots and checkpoints. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "plots/picture.h"
#include "train/train.h"

/* Renders the log, if tfm has picture support. A failure does not end the run. */
void train_plot_curves(const train_run *r) {
    char *path = tfm_trainer_updates(r->trainer) > 0 ? train_path(r->dir, "curves.svg") : NULL;
    if (path && picture_available())
        picture_curves(r->log.path, r->dir, path);
    free(path);
}

/* Perplexity decides while BLEU is too low to be meaningful. */
static bool is_best(const train_run *r, const train_score *s) {
    const double nothing = 1;
    if (!isfinite(s->nll) || r->at.best_update == 0)
        return isfinite(s->nll);
    if (r->recipe.best_metric == BEST_PPL || r->valid.texts || s->bleu == r->at.best_bleu ||
        (s->bleu < nothing && r->at.best_bleu < nothing))
        return s->nll < r->at.best_nll;
    return s->bleu > r->at.best_bleu;
}

int train_model_save_best(train_run *r) {
    static const tfm_dtype dtypes[] = {TFM_F32, TFM_F16, TFM_BF16};
    return tfm_model_save(r->model, r->dir, dtypes[r->recipe.save_dtype]) == TFM_OK ? CLI_OK : cli_fail_library();
}

/* Reports an error and the last checkpoint. */
int train_update_failed(const train_run *r, const char *sentence) {
    if (!train_first(r))
        return cli_fail("%s", sentence);
    if (r->saved < 0)
        return cli_fail("%s; there is no checkpoint yet", sentence);
    return cli_fail("%s; the last good checkpoint is %s, of update %" PRId64, sentence, r->checkpoint, r->saved);
}

/* The library's last error, at a validation. */
static int fail_validation(const train_run *r) {
    char sentence[1024];
    snprintf(sentence, sizeof(sentence), "update %" PRId64 ", validation: %s", tfm_trainer_updates(r->trainer),
             tfm_error_message());
    return train_update_failed(r, sentence);
}

/* An interrupted validation: after a signal it is skipped, and repeated by the resumed run, since partial results are
 * not saved. Without a signal it has failed, after a message. */
static int cut_short(train_run *r) {
    r->cut = train_stop_requested();
    return CLI_FAILED;
}

/* Formats the results of a validation. */
static const char *score_words(char *out, size_t size, const train_run *r, const train_score *s) {
    if (r->valid.texts)
        snprintf(out, size, "ppl %.3f", s->ppl);
    else
        snprintf(out, size, "ppl %.3f  BLEU %.2f  chrF2 %.1f", s->ppl, s->bleu, s->chrf);
    return out;
}

/* The same for the log; texts have no references. */
static json_t *score_json(const train_run *r, const char *type, int64_t update, const train_score *s) {
    json_t *object = json_pack("{s:s, s:I, s:o, s:o}", "type", type, "update", (json_int_t)update, "nll",
                               cli_number_json(s->nll), "ppl", cli_number_json(s->ppl));
    if (!r->valid.texts) {
        json_object_set_new(object, "bleu", json_real(s->bleu));
        json_object_set_new(object, "chrf2", json_real(s->chrf));
    }
    return object;
}

/* Scores the current parameters, and saves the model if it is the best so far, or with `keep`. `what`: "valid" or
 * "average". */
int train_validate(train_run *r, const char *what, bool keep) {
    const int64_t update = tfm_trainer_updates(r->trainer);
    train_score s = {0};
    bool best = true;
    if (r->valid.count > 0) {
        cli_progress("update %" PRId64 ": validation on %zu line%s", update, r->valid.count,
                     r->valid.count == 1 ? "" : "s");
        const tfm_status status = train_validation_run(&r->valid, r->model, &s);
        if (status != TFM_OK)
            return status == TFM_ERROR_CANCELLED ? cut_short(r) : fail_validation(r);
        best = keep ? isfinite(s.nll) : is_best(r, &s);
        char words[128];
        train_print("update %" PRId64 "  %s  %s%s", update, what, score_words(words, sizeof(words), r, &s),
                    !best  ? ""
                    : keep ? "  kept"
                           : "  best so far");
        json_t *object = score_json(r, what, update, &s);
        json_object_set_new(object, "best", json_boolean(best));
        json_object_set_new(object, "seconds", json_real(cli_seconds() - r->begun));
        if (train_log_put(&r->log, object) != CLI_OK)
            return CLI_FAILED;
    }
    r->at.since_best = best ? 0 : r->at.since_best + 1;
    if (!best)
        return CLI_OK;
    r->at.best_bleu = s.bleu;
    r->at.best_ppl = s.ppl;
    r->at.best_nll = s.nll;
    r->at.best_update = update;
    return train_model_save_best(r);
}

/* Scores the best model by the current validation. */
static tfm_status score_best(const train_run *r, train_score *s) {
    tfm_model *best = NULL;
    tfm_status status = tfm_model_open(&best, r->ctx, r->dir, NULL);
    if (status == TFM_OK)
        status = train_validation_run(&r->valid, best, s);
    tfm_model_free(&best);
    return status;
}

/* Scores the best model so far again if validation has changed. */
int train_revalidate(train_run *r) {
    train_score s = {0};
    const tfm_status status = score_best(r, &s);
    if (status == TFM_ERROR_CANCELLED)
        return cut_short(r);
    if (status == TFM_ERROR_MEMORY)
        return cli_fail(
            "validation has changed, and the device has too little memory to score the best model so far, of "
            "update %" PRId64 ", again: restore the options of validation, or resume with another --device",
            r->at.best_update);
    if (status != TFM_OK)
        return fail_validation(r);
    char words[128];
    train_print("validation has changed: scored again, the best model so far, of update %" PRId64 ", has %s",
                r->at.best_update, score_words(words, sizeof(words), r, &s));
    const bool known = isfinite(s.nll);
    r->at.best_update = known ? r->at.best_update : 0;
    r->at.best_bleu = known ? s.bleu : 0;
    r->at.best_ppl = known ? s.ppl : 0;
    r->at.best_nll = known ? s.nll : 0;
    r->at.since_best = 0;
    return train_log_put(&r->log, score_json(r, "best", r->at.best_update, &s));
}

/* Reports the pairs of a pass, once known; before that new bad pairs. Not for a run resumed in the middle of a pass,
 * which counts only the rest. */
int train_print_counts(train_run *r) {
    const tfm_data_counts c = tfm_data_count(r->data);
    const uint64_t bad = c.empty + c.too_long + c.invalid + c.unpaired;
    if (r->counted || (!c.complete && (bad <= r->told || r->first > 0)))
        return CLI_OK;
    r->counted = c.complete;
    r->told = bad;
    if (bad > 0 && train_is_chat(&r->recipe))
        train_print("%" PRIu64 " %s %s; left out: %" PRIu64 " too long, %" PRIu64 " invalid", c.pairs,
                    train_unit(&r->recipe, c.pairs), c.complete ? "for training" : "so far", c.too_long, c.invalid);
    else if (bad > 0 && r->valid.texts)
        train_print("%" PRIu64 " %s %s; left out: %" PRIu64 " empty line%s, %" PRIu64 " invalid", c.pairs,
                    train_unit(&r->recipe, c.pairs), c.complete ? "for training" : "so far", c.empty,
                    c.empty == 1 ? "" : "s", c.invalid);
    else if (bad > 0)
        train_print("%" PRIu64 " %s %s; left out: %" PRIu64 " with an empty side, %" PRIu64 " too long, %" PRIu64
                    " invalid, %" PRIu64 " without a partner",
                    c.pairs, train_unit(&r->recipe, c.pairs), c.complete ? "for training" : "so far", c.empty,
                    c.too_long, c.invalid, c.unpaired);
    else
        train_print("%" PRIu64 " %s for training", c.pairs, train_unit(&r->recipe, c.pairs));
    if (!c.complete)
        return CLI_OK;
    train_lm_warn(&r->recipe, c.pairs);
    return train_log_put(&r->log, json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "type", "data", "update",
                                            (json_int_t)tfm_trainer_updates(r->trainer), "pairs", (json_int_t)c.pairs,
                                            "empty", (json_int_t)c.empty, "long", (json_int_t)c.too_long, "invalid",
                                            (json_int_t)c.invalid, "unpaired", (json_int_t)c.unpaired));
}

/* An update's loss belongs to the parameters before it. Without a validation its batch checks the new parameters, so
 * that no checkpoint has non-finite ones. */
int train_parameters_check(const train_run *r) {
    char sentence[256];
    double nll = 0;
    uint64_t tokens;
    if (r->last.count > 0 && tfm_trainer_evaluate(r->trainer, &nll, &tokens, r->last.items) != TFM_OK)
        return train_update_failed(r, tfm_error_message());
    if (isfinite(nll))
        return CLI_OK;
    snprintf(sentence, sizeof(sentence), "update %" PRId64 ": the loss after it is %f: lower --learning-rate",
             tfm_trainer_updates(r->trainer), nll);
    return train_update_failed(r, sentence);
}

/* Validation, snapshot and checkpoint, in this order: a run killed in between does them again. */
int train_milestone(train_run *r) {
    const double begun = cli_seconds();
    int code = train_print_counts(r);
    if (code == CLI_OK && r->valid.count == 0)
        code = train_parameters_check(r);
    if (code == CLI_OK)
        code = train_validate(r, "valid", false);
    if (code == CLI_OK)
        code = train_snapshot_write(r);
    if (code == CLI_OK) {
        r->at.milestone = tfm_trainer_updates(r->trainer);
        code = train_checkpoint_write(r);
    }
    train_plot_curves(r);
    r->since += cli_seconds() - begun;
    return code;
}
