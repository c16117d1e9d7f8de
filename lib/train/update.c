/* Updates: forward and backward of batches, a step of Adam; and evaluations. A batch that the device has no
 * room for is run in pieces. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "train/dealing.h"
#include "train/piece.h"
#include "train/ranks.h"
#include "train/team.h"
#include "train/wire.h"

/* ---- A piece of a batch ---- */

/* What is added up over pieces. */
typedef struct sums {
    tfm_tensor loss, nll; /* (1) */
    tfm__sent sent;
} sums;

/* Runs the model over a piece. loss and nll are (1) each, sums over its targets. */
static tfm_status forward(tfm_trainer *t, tfm_tensor *loss, tfm_tensor *nll, const tfm__upload *u, float smoothing,
                          float scale) {
    tfm_model *model = t->model;
    tfm_context *ctx = t->ctx;
    tfm_tensor encoded = {0}, hidden = {0}, scaled = {0};
    tfm_scope_open(ctx);
    if (u->sources.buffer)
        tfm_model_encode(model, &encoded, u->sources, u->lengths);
    tfm__model_decode_hidden(model, &hidden, u->inputs, encoded, u->lengths, NULL);
    tfm__model_scale_output(model, &scaled, hidden);
    const tfm_cross_entropy_options entropy = {.smoothing = smoothing, .scale = scale, .cap = model->arch.logit_cap};
    tfm_linear_cross_entropy(ctx, loss, nll, scaled, model->output, tfm__model_inner_bias(model, model->logits_bias),
                             u->targets, &entropy);
    return tfm_scope_close(ctx, 2, (tfm_tensor *[]){loss, nll});
}

static tfm_status add_to(tfm_context *ctx, tfm_tensor *sum, tfm_tensor x) {
    if (sum->buffer)
        return tfm_add(ctx, sum, *sum, x);
    *sum = x;
    return tfm_context_status(ctx);
}

/* What is done with every piece: an update's forward and backward, or an evaluation's forward. */
typedef struct pass {
    bool learn;
    int64_t number; /* The number of the update. */
    float smoothing, scale;
    uint64_t batches; /* Where there are several ranks: the most that one has, times their number. */
    bool last;        /* No piece follows. */
} pass;

static tfm_status run_piece(tfm_trainer *t, sums *s, const tfm__piece *p, const pass *of) {
    tfm_context *ctx = t->ctx;
    tfm__upload u = {0};
    tfm_tensor loss = {0}, nll = {0};
    tfm__piece_send(t, &u, p, &s->sent);
    if (of->learn) {
        tfm_tape_start(ctx);
        tfm_tape_watch(ctx, t->value, t->gradient);
        if (of->last && tfm__ranks_several(t))
            tfm__wire_listen(t);
    }
    forward(t, &loss, &nll, &u, of->smoothing, of->scale);
    if (of->learn)
        tfm_backward(ctx, loss, (tfm_tensor){0});
    add_to(ctx, &s->loss, loss);
    return add_to(ctx, &s->nll, nll);
}

/* ---- Batches, in pieces that fit ---- */

/* The tokens of one row. What a row takes of the memory grows with them, since attention never holds its weights. */
static int64_t tokens_of(const tfm_pairs *b) {
    return b->source_width + b->target_width;
}

/* Returns how many rows of the batch are run at a time. The pieces of a batch have one size. */
static int64_t rows_of(const tfm_trainer *t, const tfm_pairs *b) {
    if (t->room == 0)
        return b->count;
    const int64_t most = t->room / tokens_of(b) > 1 ? t->room / tokens_of(b) : 1,
                  pieces = tfm__divide_up(b->count, most);
    return tfm__divide_up(b->count, pieces);
}

/* Returns the first stream of an update's draws. No two updates share a stream. */
static uint64_t first_stream(int64_t update) {
    return (uint64_t)update << 24;
}

/* Sets the stream that a piece of a rank's batch draws from. It is the one that it would have if one rank ran the
 * batches of all, in pieces or not; the streams of later pieces come after all of those. How many draws a piece takes
 * is seen from one, once. */
static void set_stream(tfm_trainer *t, const tfm__piece *p, const pass *of, size_t batch, uint64_t number) {
    const float *rates = t->training.rates;
    const uint64_t first = first_stream(of->number), place = batch * (uint64_t)t->ranks.world + (uint64_t)t->ranks.rank;
    bool drops = false;
    for (int i = 0; i < TFM_DROPS; i++)
        drops = drops || rates[i] > 0;
    if (drops && !t->draws_known) {
        tfm__upload u = {0};
        tfm__sent sent = {0};
        tfm_tensor loss = {0}, nll = {0};
        t->training.stream = 0;
        tfm__piece_send(t, &u, p, &sent);
        t->draws_known = forward(t, &loss, &nll, &u, of->smoothing, of->scale) == TFM_OK;
        t->draws = t->training.stream;
    }
    t->training.stream = first + t->draws * (number * of->batches + place);
}

/* One attempt. *last is the piece that it came to, *largest the tokens of the largest. A size that has not
 * been run before is waited for: some drivers tell only then that there is no room. */
static tfm_status run_batches(tfm_trainer *t, sums *s, const tfm_pairs *batches, size_t count, const pass *of,
                              tfm__piece *last, int64_t *largest) {
    tfm_context *ctx = t->ctx;
    const tfm_dtype inputs = tfm__context_tuning(ctx)->gemm_inputs;
    tfm__piece widest = {0};
    *s = (sums){0};
    *largest = 0;
    if (of->learn) {
        if (t->options.precision != TFM_F32)
            tfm__context_set_inputs(ctx, t->options.precision);
        if (t->dirty)
            tfm__tensor_fill(ctx, t->gradient, &(float){0});
        t->dirty = true;
        t->training.stream = first_stream(of->number);
        tfm__model_set_training(t->model, &t->training, t->options.recompute);
    }
    for (size_t i = 0; i < count; i++) {
        const tfm_pairs *b = &batches[i];
        const int64_t rows = rows_of(t, b);
        for (int64_t first = 0; first < b->count && tfm_context_status(ctx) == TFM_OK; first += rows) {
            *last = tfm__piece_cut(b, first, rows);
            if (of->learn && tfm__ranks_several(t))
                set_stream(t, last, of, i, (uint64_t)(first / rows));
            if (rows * tokens_of(b) > *largest) {
                *largest = rows * tokens_of(b);
                widest = *last;
            }
            pass piece = *of;
            piece.last = i + 1 == count && first + rows >= b->count;
            run_piece(t, s, last, &piece);
        }
    }
    tfm__model_set_training(t->model, NULL, false);
    tfm__context_set_inputs(ctx, inputs);
    if (tfm_context_status(ctx) == TFM_OK && *largest > t->proven && tfm_context_finish(ctx) != TFM_OK)
        *last = widest;
    return tfm_context_status(ctx);
}

/* Puts the context back to where it was before, with the tape stopped, and makes its error this thread's sentence. */
static tfm_status abandon(tfm_trainer *t, int depth, const char *what, const char *advice) {
    const tfm_status status = tfm_context_status(t->ctx);
    char sentence[1024];
    snprintf(sentence, sizeof(sentence), "%s", tfm_context_error(t->ctx));
    tfm_tape_stop(t->ctx);
    tfm__context_recover(t->ctx, depth);
    return tfm__fail(status, "%s: %s%s", what, sentence, advice);
}

/* Halves the pieces after one that did not fit. Returns false if that was a single pair. */
static bool make_smaller(tfm_trainer *t, const tfm_pairs *b, const char *what) {
    const int64_t rows = rows_of(t, b);
    if (rows < 2)
        return false;
    t->room = (rows + 1) / 2 * tokens_of(b);
    if (!t->told)
        tfm__log(TFM_LOG_WARNING,
                 "%s: a batch of %lld rows of %lld tokens does not fit into the device's memory: such batches are run "
                 "in pieces from now on, with the same result to rounding",
                 what, (long long)b->count, (long long)tokens_of(b));
    t->told = true;
    return true;
}

/* What to do where not one row fits. */
static void say_alone(char *advice, size_t size, const tfm__piece *last) {
    const tfm_pairs *b = last->batch;
    const int target = (int)b->target_lengths[last->first];
    if (b->source_width > 0)
        snprintf(advice, size,
                 "; a pair of %d and %d tokens does not fit even alone: leave such pairs out, or take a smaller model",
                 (int)b->source_lengths[last->first], target);
    else
        snprintf(advice, size, "; a text of %d tokens does not fit even alone: take shorter ones, or a smaller model",
                 target);
}

/* Runs all batches, in pieces where they do not fit. If all goes well, a scope is left open that has the sums. */
static tfm_status run_fitting(tfm_trainer *t, sums *s, const tfm_pairs *batches, size_t count, const pass *of,
                              const char *what) {
    const int depth = tfm__scope_depth(t->ctx);
    const int64_t room = t->room;
    char kept[TFM__MESSAGE]; /* the thread's sentence, which what is made again leaves as it was */
    tfm__error_keep(kept);
    tfm__wire_forget(t);
    if (tfm__context_ready(t->ctx, what) != TFM_OK)
        return tfm_context_status(t->ctx);
    for (;;) {
        tfm__piece last = {0};
        int64_t largest;
        char advice[256] = "";
        tfm_scope_open(t->ctx);
        tfm_status status = run_batches(t, s, batches, count, of, &last, &largest);
        if (status == TFM_OK) {
            t->proven = largest > t->proven ? largest : t->proven;
            tfm__error_restore(kept);
            return TFM_OK;
        }
        const bool alone = status == TFM_ERROR_MEMORY && last.batch && rows_of(t, last.batch) == 1;
        if (alone)
            say_alone(advice, sizeof(advice), &last);
        tfm__wire_forget(t);
        status = abandon(t, depth, what, advice);
        if (status == TFM_ERROR_AGAIN)
            continue;
        if (status != TFM_ERROR_MEMORY || !last.batch || !make_smaller(t, last.batch, what)) {
            t->room = room;
            return status;
        }
    }
}

/* ---- An update ---- */

/* Makes Adam's step on some of the numbers, whose moments begin at `place`. */
static bool step_on(tfm_trainer *t, tfm__stretch s, int64_t place, tfm_adam_options *adam) {
    tfm_tensor x = {0}, gradient = {0}, m = {0}, v = {0};
    tfm_tensor_rows(t->ctx, &x, t->value, s.at, s.count);
    tfm_tensor_rows(t->ctx, &gradient, t->gradient, s.at, s.count);
    tfm_tensor_rows(t->ctx, &m, t->m, place, s.count);
    tfm_tensor_rows(t->ctx, &v, t->v, place, s.count);
    adam->decay = s.at < t->decayed ? t->options.decay : 0;
    return tfm_adam(t->ctx, x, gradient, m, v, adam) == TFM_OK;
}

/* Makes one step of Adam, on what this rank has moments of. *begun becomes true as soon as parameters may have been
 * written. */
static tfm_status step(tfm_trainer *t, bool *begun, tfm_tensor norm, double rate) {
    const tfm_trainer_options *o = &t->options;
    tfm_adam_options adam = {.rate = rate,
                             .beta1 = o->beta1,
                             .beta2 = o->beta2,
                             .epsilon = o->epsilon,
                             .step = t->update + 1,
                             .clip = o->clip,
                             .norm = norm};
    int64_t place = 0;
    for (int64_t k = 0; t->sharded && k < tfm__buckets(&t->cuts); k++) {
        const tfm__stretch own = tfm__bucket_block(&t->cuts, k, t->ranks.rank);
        if (own.count > 0)
            *begun |= step_on(t, own, place, &adam);
        place += own.count;
    }
    const int64_t bounds[] = {0, o->decay > 0 ? t->decayed : 0, t->count};
    for (int part = o->decay > 0 ? 0 : 1; !t->sharded && part < 2; part++)
        if (bounds[part + 1] > bounds[part]) /* all of a kind may be frozen */
            *begun |= step_on(t, (tfm__stretch){bounds[part], bounds[part + 1] - bounds[part]}, bounds[part], &adam);
    for (size_t i = 0; i < t->param_count; i++)
        t->params[i]->version++;
    return tfm_context_status(t->ctx);
}

/* Fills in what the update came to, of sums over its targets, and refuses what is not finite. */
static tfm_status judge(tfm_update_report *report, double loss, double nll, double norm) {
    report->loss = loss / (double)report->target_tokens;
    report->nll = nll / (double)report->target_tokens;
    report->gradient_norm = norm;
    if (!isfinite(report->loss) || !isfinite(report->gradient_norm))
        return tfm__fail(
            TFM_ERROR_NUMERIC,
            "update %lld: the loss is %g and the gradient's norm %g: the parameters are those of the update "
            "before; try a lower learning rate, a longer warm-up, or clipping",
            (long long)report->update, report->loss, report->gradient_norm);
    return TFM_OK;
}

static tfm_status report_on(tfm_trainer *t, tfm_update_report *report, tfm_tensor loss, tfm_tensor nll,
                            tfm_tensor norm) {
    float values[3] = {0};
    const tfm_tensor parts[] = {loss, nll, norm};
    for (int i = 0; i < 3; i++)
        tfm_tensor_read(t->ctx, &values[i], parts[i]);
    if (tfm_context_status(t->ctx) != TFM_OK)
        return tfm_context_status(t->ctx);
    return judge(report, (double)values[0], (double)values[1], (double)values[2]);
}

/* Checks the batches, and counts their targets. */
static tfm_status check_batches(tfm_trainer *t, uint64_t *tokens, const tfm_pairs *batches, size_t count) {
    tfm_status status = TFM_OK;
    *tokens = 0;
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        status = tfm__pairs_check(t, "trainer_update", &batches[i]);
        for (int64_t k = 0; k < batches[i].count && status == TFM_OK; k++)
            *tokens += (uint64_t)(batches[i].target_lengths[k] - tfm__trainer_unlearned(t));
    }
    return status;
}

static const char SPOILED[] = "; the parameters may be spoiled: load the last checkpoint";

/* An update of a trainer that works alone. */
static tfm_status update_alone(tfm_trainer *t, tfm_update_report *report, const tfm_pairs *batches, size_t count) {
    tfm_context *ctx = t->ctx;
    tfm_update_report own = {.update = t->update + 1, .rate = tfm_trainer_rate(&t->options, t->update + 1)};
    tfm_status status = count > 0 ? TFM_OK : tfm__fail(TFM_ERROR_ARGUMENT, "trainer_update: an update needs a batch");
    uint64_t tokens = 0;
    if (status == TFM_OK)
        status = check_batches(t, &tokens, batches, count);
    if (status != TFM_OK)
        return status;
    const int depth = tfm__scope_depth(ctx);
    const pass learn = {true, own.update, t->options.smoothing, (float)(1 / (double)tokens), 0, false};
    char what[64];
    sums s;
    tfm_tensor norm = {0};
    snprintf(what, sizeof(what), "update %lld", (long long)own.update);
    bool begun = false;
    char kept[TFM__MESSAGE];
    tfm__error_keep(kept);
    do {
        if ((status = run_fitting(t, &s, batches, count, &learn, what)) != TFM_OK)
            return status;
        norm = (tfm_tensor){0};
        tfm_l2_norm(ctx, &norm, t->gradient);
        status = step(t, &begun, norm, own.rate);
        if (status != TFM_OK && !begun)
            status = abandon(t, depth, what, "");
    } while (status == TFM_ERROR_AGAIN && !begun);
    if (status != TFM_OK && !begun)
        return status;
    if (status == TFM_OK)
        tfm__error_restore(kept);
    own.source_tokens = s.sent.source;
    own.target_tokens = s.sent.target;
    t->update++;
    status = report ? report_on(t, &own, s.loss, s.nll, norm) : TFM_OK;
    if (tfm_context_status(ctx) != TFM_OK)
        return abandon(t, depth, what, SPOILED);
    t->dirty = false; /* the step has zeroed it */
    if (report)
        *report = own;
    tfm_status closed = tfm_scope_close(ctx, 0, NULL);
    return status == TFM_OK ? closed : status;
}

/* ---- An update of several ranks ---- */

/* Runs this rank's batches, and sends what they give while they run. Their sums are in *mine, and the gradient of all
 * ranks on the host. False where the ranks cannot talk. */
static bool run_share(tfm_trainer *t, tfm__share *mine, tfm_status *status, const tfm_pairs *batches, size_t count,
                      const pass *learn, const char *what) {
    const int depth = tfm__scope_depth(t->ctx);
    float loss = 0, nll = 0;
    sums s = {0};
    const double begun = tfm__seconds();
    *status = run_fitting(t, &s, batches, count, learn, what);
    const bool ran = *status == TFM_OK;
    /* Without the wait, what it takes could not be told from what the others take. */
    if (ran && tfm__dealing_measures(t) && tfm_context_finish(t->ctx) == TFM_OK)
        tfm__dealing_note(t, batches, count, tfm__seconds() - begun);
    const bool talked = tfm__wire_sum(t, &mine->squares, status);
    tfm__wire_forget(t);
    if (!ran)
        return talked;
    if (s.loss.buffer) {
        tfm_tensor_read(t->ctx, &loss, s.loss);
        tfm_tensor_read(t->ctx, &nll, s.nll);
    }
    mine->loss = (double)loss;
    mine->nll = (double)nll;
    mine->source_tokens = s.sent.source;
    *status = tfm_context_status(t->ctx) == TFM_OK ? tfm_scope_close(t->ctx, 0, NULL) : abandon(t, depth, what, "");
    return talked;
}

/* Copies between the host and the blocks of a tensor that this rank has moments of. */
static void copy_own(tfm_trainer *t, tfm_tensor x, bool in) {
    for (int64_t k = 0; k < tfm__buckets(&t->cuts); k++) {
        const tfm__stretch own = tfm__bucket_block(&t->cuts, k, t->ranks.rank);
        tfm_tensor part = {0};
        if (own.count == 0)
            continue;
        tfm_tensor_rows(t->ctx, &part, x, own.at, own.count);
        if (in)
            tfm_tensor_write(t->ctx, part, t->shared + own.at);
        else
            tfm_tensor_read(t->ctx, t->shared + own.at, part);
    }
}

/* Makes a step by the gradient of all ranks, whose norm is *size. Whether the parameters were changed or not, they are
 * no longer those of the others after an error. */
static tfm_status step_together(tfm_trainer *t, float size, double rate, const char *what) {
    const int depth = tfm__scope_depth(t->ctx);
    tfm_status status;
    bool begun = false;
    char kept[TFM__MESSAGE];
    tfm__error_keep(kept);
    do {
        tfm_tensor norm = {0};
        tfm_scope_open(t->ctx);
        if (t->sharded)
            copy_own(t, t->gradient, true);
        else
            tfm_tensor_write(t->ctx, t->gradient, t->shared);
        tfm_tensor_new(t->ctx, &norm, TFM_F32, 1, &(int64_t){1});
        tfm_tensor_write(t->ctx, norm, &size);
        status = step(t, &begun, norm, rate);
        if (status == TFM_OK && t->sharded)
            copy_own(t, t->value, false);
        status = tfm_context_status(t->ctx);
        if (status == TFM_OK)
            status = tfm_context_finish(t->ctx);
        if (status != TFM_OK)
            status = abandon(t, depth, what, SPOILED);
    } while (status == TFM_ERROR_AGAIN && !begun);
    if (status != TFM_OK)
        return status;
    tfm__error_restore(kept);
    t->dirty = t->sharded; /* the step has zeroed what it was made on */
    return tfm_scope_close(t->ctx, 0, NULL);
}

/* Where each rank has made the step on its own part of the parameters, all get all of them. */
static tfm_status spread(tfm_trainer *t, tfm_status status, const char *what) {
    tfm__share mine = {.update = t->update + 1}, all;
    const int depth = tfm__scope_depth(t->ctx);
    if (!tfm__wire_gather(t))
        return tfm__ranks_lost(what);
    status = tfm__ranks_agree(t, &all, mine, status, what);
    if (status == TFM_OK && tfm_tensor_write(t->ctx, t->value, t->shared) != TFM_OK)
        return abandon(t, depth, what, SPOILED);
    return status;
}

tfm_status tfm__update_share(tfm_trainer *t, tfm_update_report *report, const tfm_pairs *batches, size_t count) {
    tfm_update_report own = {.update = t->update + 1, .rate = tfm_trainer_rate(&t->options, t->update + 1)};
    tfm__share mine = {.update = own.update, .batches = count, .speed = t->dealing.speed}, all;
    char what[64];
    snprintf(what, sizeof(what), "update %lld", (long long)own.update);
    tfm_status status = batches ? check_batches(t, &mine.tokens, batches, count)
                                : tfm__fail(TFM_ERROR_ARGUMENT, "%s: this rank has no batches to give", what);
    if (status == TFM_OK && (status = tfm__context_ready(t->ctx, what)) == TFM_OK &&
        tfm__ranks_state(t, &mine.state) != TFM_OK)
        status = abandon(t, tfm__scope_depth(t->ctx), what, "");
    status = tfm__ranks_agree(t, &all, mine, status, what);
    if (status != TFM_OK)
        return status;
    if (all.tokens == 0)
        return tfm__fail(TFM_ERROR_ARGUMENT, "trainer_update: an update needs a batch, and no rank has one");
    t->compared = true;
    tfm__dealing_settle(t);
    const pass learn = {true, own.update, t->options.smoothing, (float)(1 / (double)all.tokens), all.batches, false};
    mine.state = 0;
    if (!run_share(t, &mine, &status, batches, count, &learn, what))
        return tfm__ranks_lost(what);
    status = tfm__ranks_agree(t, &all, mine, status, what);
    if (status != TFM_OK)
        return status;
    const float norm = (float)sqrt(all.squares);
    status = step_together(t, norm, own.rate, what);
    if (t->sharded)
        status = spread(t, status, what);
    if (status != TFM_OK)
        return status;
    t->update++;
    tfm__dealing_count(t);
    own.source_tokens = all.source_tokens;
    own.target_tokens = all.tokens;
    status = judge(&own, all.loss, all.nll, (double)norm);
    if (report)
        *report = own;
    return status;
}

tfm_status tfm_trainer_update(tfm_trainer *t, tfm_update_report *report, const tfm_pairs *batches, size_t count) {
    if (TFM__NEEDS("trainer_update", t) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (t->team && TFM__NEEDS("trainer_update", batches) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (t->team)
        return tfm__team_update(t, report, batches, count);
    if (tfm__ranks_several(t))
        return tfm__update_share(t, report, batches, count);
    if (t->sharded)
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "trainer_update: the trainer has moments of one rank of %d, by `shard`, and no ranks are set",
                         t->cuts.world);
    return TFM__NEEDS("trainer_update", batches) == TFM_OK ? update_alone(t, report, batches, count)
                                                           : TFM_ERROR_ARGUMENT;
}

tfm_status tfm_trainer_evaluate(tfm_trainer *t, double *nll, uint64_t *tokens, const tfm_pairs *batch) {
    if (TFM__NEEDS("trainer_evaluate", t, nll, tokens, batch) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    const int depth = tfm__scope_depth(t->ctx);
    const pass look = {.scale = 1};
    sums s;
    float value = 0;
    tfm_status status = tfm__pairs_check(t, "trainer_evaluate", batch);
    if (status == TFM_OK)
        status = run_fitting(t, &s, batch, 1, &look, "evaluation");
    if (status != TFM_OK)
        return status;
    if (tfm_tensor_read(t->ctx, &value, s.nll) != TFM_OK)
        return abandon(t, depth, "evaluation", "");
    *nll = (double)value;
    *tokens = s.sent.target;
    return tfm_scope_close(t->ctx, 0, NULL);
}
