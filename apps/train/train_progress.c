/* The progress line of a run. */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include "train/train.h"

/* The window of loss and perplexity: enough updates for a steady value, few enough to follow a steep start. */
static void add_to_window(train_window *w, const tfm_update_report *u) {
    w->updates[w->count++ % TRAIN_WINDOW] =
        (train_sums){(double)u->target_tokens, u->loss * (double)u->target_tokens, u->nll * (double)u->target_tokens};
}

static train_sums sum_of_window(const train_window *w) {
    train_sums all = {0};
    for (size_t i = 0; i < w->count && i < TRAIN_WINDOW; i++) {
        all.targets += w->updates[i].targets;
        all.loss += w->updates[i].loss;
        all.nll += w->updates[i].nll;
    }
    return all;
}

/* Whether patience, or the number of epochs, may end the run before its last update. */
static bool may_end_sooner(const train_run *r, int64_t update) {
    const train_recipe *o = &r->recipe;
    const int64_t every = o->eval_steps, wanting = o->patience - r->at.since_best;
    const bool impatient = o->patience > 0 && r->valid.count > 0 && (update / every + wanting) * every < o->max_steps;
    return o->epochs > 0 || impatient;
}

/* Estimated time left, by the updates since the first, which compiles. */
static void put_eta(char *out, size_t bytes, const train_run *r, int64_t update, double now) {
    const double each = (now - r->second_began) / (double)(update - r->first - 1);
    const double left = each * (double)(r->recipe.max_steps - update);
    *out = 0;
    if (update > r->first + 1 && left < 1e6 * 3600)
        snprintf(out, bytes, "ETA %s%d:%02d:%02d", may_end_sooner(r, update) ? "at most " : "", (int)(left / 3600),
                 (int)fmod(left / 60, 60), (int)fmod(left, 60));
}

void train_progress_print(train_run *r, const tfm_update_report *u, bool lasting) {
    enum { UPDATE, EPOCH, LOSS, PPL, NORM, RATE, SPEED, ETA, FIELDS };
    char text[FIELDS][48];
    /* Fields with a higher rank are dropped first on a narrow terminal. */
    static const int ranks[FIELDS] = {[EPOCH] = 6, [LOSS] = 1, [PPL] = 3, [NORM] = 5, [RATE] = 4, [SPEED] = 2};
    cli_field fields[FIELDS];
    const double now = cli_seconds();
    if (u->update == r->first + 1)
        r->second_began = now;
    add_to_window(&r->shown, u);
    const train_sums sums = sum_of_window(&r->shown);
    const char *update = r->log.terminal ? "" : "update ";
    snprintf(text[UPDATE], sizeof(text[0]), "%s%" PRId64 "/%d", update, u->update, r->recipe.max_steps);
    snprintf(text[EPOCH], sizeof(text[0]), "epoch %" PRId64, r->epoch);
    snprintf(text[LOSS], sizeof(text[0]), "loss %.3f", sums.loss / sums.targets);
    snprintf(text[PPL], sizeof(text[0]), "ppl %.5g", exp(sums.nll / sums.targets));
    snprintf(text[NORM], sizeof(text[0]), "|g| %.3f", u->grad_norm);
    snprintf(text[RATE], sizeof(text[0]), "rate %.2e", u->learning_rate);
    snprintf(text[SPEED], sizeof(text[0]), "%.0f tokens/s", (double)r->tokens / (now - r->since));
    put_eta(text[ETA], sizeof(text[0]), r, u->update, now);
    for (int i = 0; i < FIELDS; i++)
        fields[i] = (cli_field){text[i], ranks[i]};
    if (r->log.terminal)
        cli_progress_fields(fields, FIELDS);
    else if (lasting)
        train_print("%s  %s  %s  %s  %s  %s  %s%s%s", text[UPDATE], text[EPOCH], text[LOSS], text[PPL], text[NORM],
                    text[RATE], text[SPEED], text[ETA][0] ? "  " : "", text[ETA]);
}
