/* The loop of a training run: updates, reports, validations, the end. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "train/train.h"

/* ---- Updates ------------------------------------------------------------------------------------------- */

static void forget_sums(train_run *r) {
    r->since = cli_seconds();
    r->tokens = r->at.targets = 0;
    r->at.loss = r->at.nll = 0;
}

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
                  "ppl", cli_number_json(exp(r->at.nll / n)), "grad_norm", u->grad_norm, "learning_rate",
                  u->learning_rate, "tokens_per_s", (double)r->tokens / (now - r->since), "seconds", now - r->begun);
    if (train_replicas(r) > 1) {
        const tfm_comm_stats sent = tfm_trainer_comm_stats(r->trainer);
        json_object_set_new(object, "comm_bytes", json_integer((json_int_t)(sent.bytes - r->comm_stats.bytes)));
        json_object_set_new(object, "comm_seconds", json_real(sent.seconds - r->comm_stats.seconds));
        json_object_set_new(object, "comm_overlap_seconds",
                            json_real(sent.overlapped_seconds - r->comm_stats.overlapped_seconds));
        r->comm_stats = sent;
    }
    forget_sums(r);
    return train_log_put(&r->log, object);
}

/* Reports bad text. A resumed run reads the same text again. */
static int fail_text(const train_run *r, tfm_status status) {
    char sentence[2048];
    if (status != TFM_ERROR_INPUT || !r->recipe.strict)
        return train_update_failed(r, tfm_error_message());
    if (tfm_trainer_updates(r->trainer) == 0 && !r->recipe.resume)
        return cli_fail("%s; fix the %s, or leave --strict out to skip bad %s", tfm_error_message(),
                        train_unit(&r->recipe, 1), train_unit(&r->recipe, 2));
    snprintf(sentence, sizeof(sentence),
             "%s; fix the %s and start a new run, or skip bad %s by \"strict\": false in %s/recipe.json",
             tfm_error_message(), train_unit(&r->recipe, 1), train_unit(&r->recipe, 2), r->dir);
    return train_update_failed(r, sentence);
}

static int update(train_run *r) {
    tfm_update_report u;
    tfm_status status;
    int code = train_batches_next(r, &status);
    if (code == CLI_OK && status != TFM_OK) /* if another rank cannot read, that rank prints the reason */
        code = r->ranks && status == TFM_ERROR_CANCELLED ? CLI_FAILED : fail_text(r, status);
    if (code != CLI_OK && r->ranks) /* the others wait for this rank's gradients */
        tfm_trainer_update(r->trainer, NULL, NULL, 0);
    if (code == CLI_OK && (status = tfm_trainer_update(r->trainer, &u, r->last.items, r->last.count)) != TFM_OK)
        code = r->ranks && status == TFM_ERROR_CANCELLED ? CLI_FAILED : train_update_failed(r, tfm_error_message());
    if (!train_first(r))
        return code;
    if (code == CLI_OK && tfm_data_count(r->data).complete)
        code = train_print_counts(r);
    if (code != CLI_OK)
        return code;
    const bool reported = u.update % r->recipe.logging_steps == 0 || u.update == 1;
    add_to_sums(r, &u);
    train_progress_print(r, &u, reported);
    return reported ? report(r, &u) : CLI_OK;
}

/* The reason why no update follows, or NULL. */
static const char *finished(const train_run *r) {
    const train_recipe *o = &r->recipe;
    if (tfm_trainer_updates(r->trainer) >= o->max_steps)
        return "updates";
    if (o->epochs > 0 && tfm_data_tell(r->data).epoch >= o->epochs)
        return "epochs";
    return o->patience > 0 && r->valid.count > 0 && r->at.since_best >= o->patience ? "patience" : NULL;
}

/* All updates, unless something has failed already; the other ranks are notified. */
static int train(train_run *r, int code) {
    r->since = cli_seconds();
    r->begun = r->since - r->at.seconds;
    r->first = tfm_trainer_updates(r->trainer);
    if (code == CLI_OK && train_first(r) && r->first > 0 && r->first % r->recipe.eval_steps == 0 &&
        r->at.milestone != r->first)
        code = train_milestone(r); /* a signal interrupted it, or its model is lost */
    while (train_ranks_continue(r, &code, finished(r) != NULL)) {
        code = update(r);
        if (code == CLI_OK && train_first(r) && tfm_trainer_updates(r->trainer) % r->recipe.eval_steps == 0)
            code = train_milestone(r);
    }
    return code;
}

/* ---- The end ------------------------------------------------------------------------------------------- */

/* If a signal interrupted scoring the best model or the average, the parameters differ from the checkpoint's, which
 * stays. */
static int interrupted(train_run *r) {
    if (r->saved != tfm_trainer_updates(r->trainer) &&
        (train_parameters_check(r) != CLI_OK || train_checkpoint_write(r) != CLI_OK))
        return CLI_FAILED;
    train_plot_curves(r);
    char command[5000];
    train_print("stopped after update %" PRId64 "; resume with: %s", r->saved,
                train_resume_command(command, sizeof(command), r));
    return CLI_OK;
}

/* Averages the last validations' parameters; *kept: it is better on validation, or requested by the recipe. */
static int finish_average(train_run *r, bool *kept) {
    const int since_best = r->at.since_best;
    int code = train_snapshot_average(r);
    if (code == CLI_OK)
        code = train_validate(r, "average", r->recipe.keep_average);
    *kept = r->at.since_best == 0;
    r->at.since_best = since_best;
    return code == CLI_OK && *kept ? train_checkpoint_rewrite(r) : code; /* a resumed run must beat it */
}

/* Without validation models cannot be compared: keep the last one, unless the recipe requests the average. */
static int finish_unseen(train_run *r) {
    int code = r->recipe.keep_average ? train_snapshot_average(r) : CLI_OK;
    if (code == CLI_OK)
        code = train_model_save_best(r); /* older versions left the average there */
    if (code == CLI_OK && r->recipe.keep_average)
        train_print("the model is the average of the snapshots");
    else if (code == CLI_OK)
        train_print("the model is that of update %" PRId64
                    ": without validation it cannot be compared with the average",
                    tfm_trainer_updates(r->trainer));
    return code;
}

static int finish(train_run *r) {
    const int64_t updates = tfm_trainer_updates(r->trainer);
    const char *reason = finished(r); /* the average does not change it, even if it is the best */
    int code = CLI_OK;
    bool kept = false;
    if (r->at.milestone != updates) /* a signal may have saved it without a validation */
        code = train_milestone(r);
    if (code == CLI_OK && json_array_size(r->at.snapshots) > 1)
        code = r->valid.count > 0 ? finish_average(r, &kept) : finish_unseen(r);
    else if (code == CLI_OK && r->recipe.keep_average)
        train_print("there is only one snapshot, so the model is no average: a smaller --eval-steps gives more");
    if (code == CLI_OK && r->valid.count > 0 && r->at.best_update == 0)
        code = train_update_failed(r, "no validation had a finite loss, so there is no model: lower --learning-rate");
    if (code == CLI_OK)
        code = train_log_put(&r->log, json_pack("{s:s, s:s, s:I, s:f}", "type", "end", "reason", reason, "update",
                                                (json_int_t)updates, "seconds", cli_seconds() - r->begun));
    if (code != CLI_OK)
        return code;
    train_plot_curves(r);
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
    train_catch_signals(r->ranks != NULL);
    if (!train_first(r)) {
        const int code = train(r, CLI_OK);
        train_batches_free(&r->last);
        return code;
    }
    int code = r->revalidate ? train_revalidate(r) : CLI_OK;
    const bool restored = code == CLI_OK || r->cut;
    if (restored && r->changed && train_recipe_write(&r->recipe, r->dir) != CLI_OK) {
        r->cut = false;
        code = CLI_FAILED;
    }
    code = train(r, code);
    if (code == CLI_OK)
        code = train_print_counts(r);
    const bool over = code == CLI_OK && finished(r); /* finish() may change that */
    if (over)
        code = finish(r);
    if (r->cut || (code == CLI_OK && !over))
        code = interrupted(r);
    train_batches_free(&r->last);
    return code;
}
