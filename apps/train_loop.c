/* The loop of a training run: updates, reports, validations, the end. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "picture.h"
#include "train.h"

/* ---- Validation ---------------------------------------------------------------------------------------- */

/* The picture of the log, where tfm can draw. A run does not end for one that fails. */
static void draw(const train_run *r) {
    char *path = tfm_trainer_updates(r->trainer) > 0 ? train_path(r->dir, "curves.svg") : NULL;
    if (path && picture_there())
        picture_curves(r->log.path, r->dir, path);
    free(path);
}

/* Perplexity decides where BLEU does not: while next to nothing is right, its digits say nothing. */
static bool is_best(const train_run *r, const train_score *s) {
    const double nothing = 1;
    if (!isfinite(s->nll) || r->at.best_update == 0)
        return isfinite(s->nll);
    if (r->recipe.best_by == BEST_PPL || r->valid.texts || s->bleu == r->at.best_bleu ||
        (s->bleu < nothing && r->at.best_bleu < nothing))
        return s->nll < r->at.best_nll;
    return s->bleu > r->at.best_bleu;
}

static int save_model(train_run *r) {
    static const tfm_dtype dtypes[] = {TFM_F32, TFM_F16, TFM_BF16};
    return tfm_model_save(r->model, r->dir, dtypes[r->recipe.store]) == TFM_OK ? CLI_OK : cli_fail_library();
}

/* What went wrong, and what is left. */
static int fail_update(const train_run *r, const char *sentence) {
    if (!train_first(r))
        return cli_fail("%s", sentence);
    if (r->saved < 0)
        return cli_fail("%s; there is no checkpoint yet", sentence);
    return cli_fail("%s; the last good checkpoint is %s, of update %" PRId64, sentence, r->checkpoint, r->saved);
}

/* The library's last sentence, at a validation. */
static int fail_validation(const train_run *r) {
    char sentence[1024];
    snprintf(sentence, sizeof(sentence), "update %" PRId64 ", validation: %s", tfm_trainer_updates(r->trainer),
             tfm_error_message());
    return fail_update(r, sentence);
}

/* A validation that was stopped: after a signal it is left undone, and made anew when the run goes on, since what it
 * has found so far is not saved. Without a signal it has failed, and its sentence has been said. */
static int cut_short(train_run *r) {
    r->cut = train_asked_to_stop();
    return CLI_FAILED;
}

/* What a validation has found, as one reads it. */
static const char *score_words(char *out, size_t size, const train_run *r, const train_score *s) {
    if (r->valid.texts)
        snprintf(out, size, "ppl %.3f", s->ppl);
    else
        snprintf(out, size, "ppl %.3f  BLEU %.2f  chrF2 %.1f", s->ppl, s->bleu, s->chrf);
    return out;
}

/* The same for the log; texts are compared with nothing. */
static json_t *score_json(const train_run *r, const char *type, int64_t update, const train_score *s) {
    json_t *object = json_pack("{s:s, s:I, s:o, s:o}", "type", type, "update", (json_int_t)update, "nll",
                               cli_number_json(s->nll), "ppl", cli_number_json(s->ppl));
    if (!r->valid.texts) {
        json_object_set_new(object, "bleu", json_real(s->bleu));
        json_object_set_new(object, "chrf2", json_real(s->chrf));
    }
    return object;
}

/* Scores the parameters as they are, and keeps the model if there is none better, or if it is to be kept
 * anyway. `what` is "valid", or "average". */
static int validate(train_run *r, const char *what, bool keep) {
    const int64_t update = tfm_trainer_updates(r->trainer);
    train_score s = {0};
    bool best = true;
    if (r->valid.count > 0) {
        cli_progress("update %" PRId64 ": validation on %zu line%s", update, r->valid.count,
                     r->valid.count == 1 ? "" : "s");
        const tfm_status status = train_valid_run(&r->valid, r->model, &s);
        if (status != TFM_OK)
            return status == TFM_ERROR_CANCELLED ? cut_short(r) : fail_validation(r);
        best = keep ? isfinite(s.nll) : is_best(r, &s);
        char words[128];
        train_say("update %" PRId64 "  %s  %s%s", update, what, score_words(words, sizeof(words), r, &s),
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
    return save_model(r);
}

/* The model that is kept, by what validation is now. */
static tfm_status score_best(const train_run *r, train_score *s) {
    tfm_model *best = NULL;
    tfm_status status = tfm_model_open(&best, r->ctx, r->dir, NULL);
    if (status == TFM_OK)
        status = train_valid_run(&r->valid, best, s);
    tfm_model_free(&best);
    return status;
}

/* Validation may be what it was not when the best so far was scored: it is scored again. */
static int remeasure(train_run *r) {
    train_score s = {0};
    const tfm_status status = score_best(r, &s);
    if (status == TFM_ERROR_CANCELLED)
        return cut_short(r);
    if (status == TFM_ERROR_MEMORY)
        return cli_fail("validation has changed, and the device has no room to score the best model so far, of "
                        "update %" PRId64 ", again: leave validation as it was, or go on with another --device",
                        r->at.best_update);
    if (status != TFM_OK)
        return fail_validation(r);
    char words[128];
    train_say("validation has changed: measured anew, the best model so far, of update %" PRId64 ", has %s",
              r->at.best_update, score_words(words, sizeof(words), r, &s));
    const bool known = isfinite(s.nll);
    r->at.best_update = known ? r->at.best_update : 0;
    r->at.best_bleu = known ? s.bleu : 0;
    r->at.best_ppl = known ? s.ppl : 0;
    r->at.best_nll = known ? s.nll : 0;
    r->at.since_best = 0;
    return train_log_put(&r->log, score_json(r, "best", r->at.best_update, &s));
}

static void forget_sums(train_run *r) {
    r->since = cli_seconds();
    r->tokens = r->at.targets = 0;
    r->at.loss = r->at.nll = 0;
}

/* The pairs of a pass, once they are known. Before that bad ones, where there are more than were told of; of
 * a run that goes on in the middle of a pass they would be those of its rest. */
static int say_counts(train_run *r) {
    const tfm_data_counts c = tfm_data_count(r->data);
    const uint64_t bad = c.empty + c.long_ + c.invalid + c.unpaired;
    if (r->counted || (!c.whole && (bad <= r->told || r->first > 0)))
        return CLI_OK;
    r->counted = c.whole;
    r->told = bad;
    if (bad > 0 && r->valid.texts)
        train_say("%" PRIu64 " %s %s; left out: %" PRIu64 " empty line%s, %" PRIu64 " invalid", c.pairs,
                  train_unit(&r->recipe, c.pairs), c.whole ? "for training" : "so far", c.empty,
                  c.empty == 1 ? "" : "s", c.invalid);
    else if (bad > 0)
        train_say("%" PRIu64 " %s %s; left out: %" PRIu64 " with an empty side, %" PRIu64 " too long, %" PRIu64
                  " invalid, %" PRIu64 " without a partner",
                  c.pairs, train_unit(&r->recipe, c.pairs), c.whole ? "for training" : "so far", c.empty, c.long_,
                  c.invalid, c.unpaired);
    else
        train_say("%" PRIu64 " %s for training", c.pairs, train_unit(&r->recipe, c.pairs));
    if (!c.whole)
        return CLI_OK;
    train_texts_warn(&r->recipe, c.pairs);
    return train_log_put(&r->log, json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "type", "data", "update",
                                            (json_int_t)tfm_trainer_updates(r->trainer), "pairs", (json_int_t)c.pairs,
                                            "empty", (json_int_t)c.empty, "long", (json_int_t)c.long_, "invalid",
                                            (json_int_t)c.invalid, "unpaired", (json_int_t)c.unpaired));
}

/* An update's loss is that of the parameters before it. Where no validation looks at those that it left, its batch
 * does, so that no checkpoint is of spoiled ones. */
static int check_parameters(const train_run *r) {
    char sentence[256];
    double nll = 0;
    uint64_t tokens;
    if (r->last.count > 0 && tfm_trainer_evaluate(r->trainer, &nll, &tokens, r->last.items) != TFM_OK)
        return fail_update(r, tfm_error_message());
    if (isfinite(nll))
        return CLI_OK;
    snprintf(sentence, sizeof(sentence),
             "update %" PRId64 ": it left parameters with which the loss is %f: lower the rate",
             tfm_trainer_updates(r->trainer), nll);
    return fail_update(r, sentence);
}

/* Validation, snapshot and checkpoint, in this order: a run that is killed between them does them again. */
static int milestone(train_run *r) {
    const double begun = cli_seconds();
    int code = say_counts(r);
    if (code == CLI_OK && r->valid.count == 0)
        code = check_parameters(r);
    if (code == CLI_OK)
        code = validate(r, "valid", false);
    if (code == CLI_OK)
        code = train_snapshot_write(r);
    if (code == CLI_OK) {
        r->at.milestone = tfm_trainer_updates(r->trainer);
        code = train_checkpoint_write(r);
    }
    draw(r);
    r->since += cli_seconds() - begun;
    return code;
}

/* ---- Updates ------------------------------------------------------------------------------------------- */

static void add_to_sums(train_run *r, const tfm_update_report *u) {
    r->tokens += u->source_tokens + u->target_tokens;
    r->at.targets += (int64_t)u->target_tokens;
    r->at.loss += u->loss * (double)u->target_tokens;
    r->at.nll += u->nll * (double)u->target_tokens;
}

static int report(train_run *r, const tfm_update_report *u) {
    const double now = cli_seconds(), n = (double)r->at.targets;
    json_t *object =
        json_pack("{s:s, s:I, s:I, s:f, s:f, s:o, s:f, s:f, s:f, s:f}", "type", "train", "update",
                  (json_int_t)u->update, "epoch", (json_int_t)r->epoch, "loss", r->at.loss / n, "nll", r->at.nll / n,
                  "ppl", cli_number_json(exp(r->at.nll / n)), "gradient_norm", u->gradient_norm, "rate", u->rate,
                  "tokens_per_s", (double)r->tokens / (now - r->since), "seconds", now - r->begun);
    if (train_sharers(r) > 1) {
        const tfm_wire_counts sent = tfm_trainer_wire(r->trainer);
        json_object_set_new(object, "wire_bytes", json_integer((json_int_t)(sent.bytes - r->wire.bytes)));
        json_object_set_new(object, "wire_seconds", json_real(sent.seconds - r->wire.seconds));
        json_object_set_new(object, "wire_early_seconds", json_real(sent.early_seconds - r->wire.early_seconds));
        r->wire = sent;
    }
    forget_sums(r);
    return train_log_put(&r->log, object);
}

/* What is wrong with the text. A run that stops there has the same text again when it goes on. */
static int fail_text(const train_run *r, tfm_status status) {
    char sentence[2048];
    if (status != TFM_ERROR_INPUT || !r->recipe.strict)
        return fail_update(r, tfm_error_message());
    if (tfm_trainer_updates(r->trainer) == 0 && !r->recipe.resume)
        return cli_fail("%s; mend it, or leave --strict away to have such pairs left out", tfm_error_message());
    snprintf(sentence, sizeof(sentence),
             "%s; mend it and begin a new run, or have such pairs left out by \"strict\": false in %s/recipe.json",
             tfm_error_message(), r->dir);
    return fail_update(r, sentence);
}

static int update(train_run *r) {
    tfm_update_report u;
    tfm_status status;
    int code = train_batches_next(r, &status);
    if (code == CLI_OK && status != TFM_OK) /* where it is another rank that cannot read, that one says why */
        code = r->ranks && status == TFM_ERROR_CANCELLED ? CLI_FAILED : fail_text(r, status);
    if (code != CLI_OK && r->ranks) /* the others wait for its share */
        tfm_trainer_update(r->trainer, NULL, NULL, 0);
    if (code == CLI_OK && (status = tfm_trainer_update(r->trainer, &u, r->last.items, r->last.count)) != TFM_OK)
        code = r->ranks && status == TFM_ERROR_CANCELLED ? CLI_FAILED : fail_update(r, tfm_error_message());
    if (!train_first(r))
        return code;
    if (code == CLI_OK && tfm_data_count(r->data).whole)
        code = say_counts(r);
    if (code != CLI_OK)
        return code;
    const bool reported = u.update % r->recipe.report_every == 0 || u.update == 1;
    add_to_sums(r, &u);
    train_progress_say(r, &u, reported);
    return reported ? report(r, &u) : CLI_OK;
}

/* Why no update follows, or NULL. */
static const char *finished(const train_run *r) {
    const train_recipe *o = &r->recipe;
    if (tfm_trainer_updates(r->trainer) >= o->updates)
        return "updates";
    if (o->epochs > 0 && tfm_data_tell(r->data).epoch >= o->epochs)
        return "epochs";
    return o->patience > 0 && r->valid.count > 0 && r->at.since_best >= o->patience ? "patience" : NULL;
}

/* All updates, unless something has failed already, which other ranks are told. */
static int train(train_run *r, int code) {
    r->since = cli_seconds();
    r->begun = r->since - r->at.seconds;
    r->first = tfm_trainer_updates(r->trainer);
    if (code == CLI_OK && train_first(r) && r->first > 0 && r->first % r->recipe.valid_every == 0 &&
        r->at.milestone != r->first)
        code = milestone(r); /* a signal cut it short, or its model is lost */
    while (train_ranks_go_on(r, &code, finished(r) != NULL)) {
        code = update(r);
        if (code == CLI_OK && train_first(r) && tfm_trainer_updates(r->trainer) % r->recipe.valid_every == 0)
            code = milestone(r);
    }
    return code;
}

/* ---- The end ------------------------------------------------------------------------------------------- */

/* Where a signal came to the scores of the best model or of the average, the parameters are not the
 * checkpoint's, and it stays. */
static int interrupted(train_run *r) {
    if (r->saved != tfm_trainer_updates(r->trainer) &&
        (check_parameters(r) != CLI_OK || train_checkpoint_write(r) != CLI_OK))
        return CLI_FAILED;
    draw(r);
    char command[5000];
    train_say("stopped after update %" PRId64 "; go on with: %s", r->saved, train_go_on(command, sizeof(command), r));
    return CLI_OK;
}

/* The mean of the last validations' parameters, where validation finds it better or the recipe has it: *kept.
 */
static int finish_average(train_run *r, bool *kept) {
    const int since_best = r->at.since_best;
    int code = train_snapshot_average(r);
    if (code == CLI_OK)
        code = validate(r, "average", r->recipe.keep_average);
    *kept = r->at.since_best == 0;
    r->at.since_best = since_best;
    return code == CLI_OK && *kept ? train_checkpoint_renew(r) : code; /* a run that goes on has to beat it */
}

/* Without validation nothing says which model is better: keep the last one, unless the recipe asks for the average. */
static int finish_unseen(train_run *r) {
    int code = r->recipe.keep_average ? train_snapshot_average(r) : CLI_OK;
    if (code == CLI_OK)
        code = save_model(r); /* older programs left the average there */
    if (code == CLI_OK && r->recipe.keep_average)
        train_say("the model is the average of the snapshots");
    else if (code == CLI_OK)
        train_say("the model is that of update %" PRId64
                  ": without validation nothing says whether the average is better",
                  tfm_trainer_updates(r->trainer));
    return code;
}

static int finish(train_run *r) {
    const int64_t updates = tfm_trainer_updates(r->trainer);
    const char *reason = finished(r); /* which the average does not change, the best though it may be */
    int code = CLI_OK;
    bool kept = false;
    if (r->at.milestone != updates) /* a signal may have saved it without */
        code = milestone(r);
    if (code == CLI_OK && json_array_size(r->at.snapshots) > 1)
        code = r->valid.count > 0 ? finish_average(r, &kept) : finish_unseen(r);
    else if (code == CLI_OK && r->recipe.keep_average)
        train_say("there is one snapshot alone, so the model is no average: a smaller --valid-every makes more");
    if (code == CLI_OK && r->valid.count > 0 && r->at.best_update == 0)
        code = fail_update(r, "no validation came to a finite loss, so there is no model: lower the rate");
    if (code == CLI_OK)
        code = train_log_put(&r->log, json_pack("{s:s, s:s, s:I, s:f}", "type", "end", "reason", reason, "update",
                                                (json_int_t)updates, "seconds", cli_seconds() - r->begun));
    if (code != CLI_OK)
        return code;
    draw(r);
    cli_progress(NULL);
    const char *which = kept && r->recipe.keep_average ? "the average" : "best";
    if (r->valid.count > 0 && r->at.best_update > 0 && r->valid.texts)
        printf("%s: %" PRId64 " updates; %s on validation: ppl %.3f\n", r->dir, updates, which, r->at.best_ppl);
    else if (r->valid.count > 0 && r->at.best_update > 0)
        printf("%s: %" PRId64 " updates; %s on validation: BLEU %.2f, ppl %.3f\n", r->dir, updates, which,
               r->at.best_bleu, r->at.best_ppl);
    else
        printf("%s: %" PRId64 " updates\n", r->dir, updates);
    return CLI_OK;
}

int train_loop(train_run *r) {
    train_catch(r->ranks != NULL);
    if (!train_first(r)) {
        const int code = train(r, CLI_OK);
        train_batches_free(&r->last);
        return code;
    }
    int code = r->remeasure ? remeasure(r) : CLI_OK;
    const bool proven = code == CLI_OK || r->cut;
    if (proven && r->changed && train_recipe_write(&r->recipe, r->dir) != CLI_OK) {
        r->cut = false;
        code = CLI_FAILED;
    }
    code = train(r, code);
    if (code == CLI_OK)
        code = say_counts(r);
    const bool over = code == CLI_OK && finished(r); /* what finish() finds may change that */
    if (over)
        code = finish(r);
    if (r->cut || (code == CLI_OK && !over))
        code = interrupted(r);
    train_batches_free(&r->last);
    return code;
}
