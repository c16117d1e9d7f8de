/* Updates: gradients of batches, alone or with other ranks, and an Adam step; and evaluations. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "train/grad_accumulate.h"
#include "train/process_group.h"
#include "train/allreduce.h"
#include "ops/autograd/tape.h"

/* ---- An update ---- */

/* Adam's step on a range, whose moments begin at `place`. */
static bool adam_step_range(tfm_trainer *t, tfm__flat_range s, int64_t place, tfm_adam_options *adam) {
    tfm_tensor x = {0}, gradient = {0}, m = {0}, v = {0};
    tfm_tensor_rows(t->ctx, &x, t->value, s.at, s.count);
    tfm_tensor_rows(t->ctx, &gradient, t->gradient, s.at, s.count);
    tfm_tensor_rows(t->ctx, &m, t->m, place, s.count);
    tfm_tensor_rows(t->ctx, &v, t->v, place, s.count);
    adam->weight_decay = s.at < t->decayed ? t->options.weight_decay : 0;
    return tfm_adam(t->ctx, x, gradient, m, v, adam) == TFM_OK;
}

/* An Adam step on the elements whose moments this rank has. *begun is set as soon as parameters may have been
 * written. */
static tfm_status adam_step(tfm_trainer *t, bool *begun, tfm_tensor norm, double rate) {
    const tfm_trainer_options *o = &t->options;
    tfm_adam_options adam = {.learning_rate = rate,
                             .beta1 = o->beta1,
                             .beta2 = o->beta2,
                             .epsilon = o->epsilon,
                             .step = t->update + 1,
                             .max_grad_norm = o->max_grad_norm,
                             .grad_norm = norm};
    int64_t place = 0;
    for (int64_t k = 0; t->sharded && k < tfm__bucket_count(&t->bucket_layout); k++) {
        const tfm__flat_range own = tfm__bucket_shard(&t->bucket_layout, k, t->group.rank);
        if (own.count > 0)
            *begun |= adam_step_range(t, own, place, &adam);
        place += own.count;
    }
    const int64_t bounds[] = {0, o->weight_decay > 0 ? t->decayed : 0, t->count};
    for (int part = o->weight_decay > 0 ? 0 : 1; !t->sharded && part < 2; part++)
        if (bounds[part + 1] > bounds[part]) /* one kind may be frozen entirely */
            *begun |= adam_step_range(t, (tfm__flat_range){bounds[part], bounds[part + 1] - bounds[part]}, bounds[part],
                                      &adam);
    for (size_t i = 0; i < t->param_count; i++)
        t->params[i]->version++;
    return tfm_context_status(t->ctx);
}

/* Fills in the report from sums over targets, and rejects values that are not finite. */
static tfm_status check_finite(tfm_update_report *report, double loss, double nll, double norm) {
    report->loss = loss / (double)report->target_tokens;
    report->nll = nll / (double)report->target_tokens;
    report->grad_norm = isnan(norm) ? (double)NAN : norm; /* of either sign */
    if (!isfinite(report->loss) || !isfinite(report->grad_norm))
        return tfm__fail(
            TFM_ERROR_NUMERIC,
            "update %lld: the loss is %g and the gradient's norm %g: the parameters are those of the update "
            "before; try a lower learning rate, a longer warm-up, or clipping",
            (long long)report->update, report->loss, report->grad_norm);
    return TFM_OK;
}

static tfm_status read_report(tfm_trainer *t, tfm_update_report *report, tfm_tensor loss, tfm_tensor nll,
                              tfm_tensor norm) {
    float values[3] = {0};
    const tfm_tensor parts[] = {loss, nll, norm};
    for (int i = 0; i < 3; i++)
        tfm_tensor_read(t->ctx, &values[i], parts[i]);
    if (tfm_context_status(t->ctx) != TFM_OK)
        return tfm_context_status(t->ctx);
    return check_finite(report, (double)values[0], (double)values[1], (double)values[2]);
}

/* Checks the batches, and counts their targets. */
static tfm_status check_batches(tfm_trainer *t, uint64_t *tokens, const tfm_batch *batches, size_t count) {
    tfm_status status = TFM_OK;
    *tokens = 0;
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        status = tfm__train_batch_check(t, "trainer_update", &batches[i]);
        *tokens += status == TFM_OK ? tfm__train_batch_targets(t, &batches[i]) : 0;
    }
    return status;
}

#define NO_TARGETS "trainer_update: no token of the batches has a loss"
static const char PARAMS_SPOILED[] = "; the parameters may be corrupted: load the last checkpoint";

tfm_status tfm__trainer_update_single(tfm_trainer *t, tfm_update_report *report, const tfm_batch *batches,
                                      size_t count) {
    tfm_context *ctx = t->ctx;
    tfm_update_report own = {.update = t->update + 1,
                             .learning_rate = tfm_trainer_learning_rate(&t->options, t->update + 1)};
    tfm_status status = count > 0 ? TFM_OK : tfm__fail(TFM_ERROR_ARGUMENT, "trainer_update: an update needs a batch");
    uint64_t tokens = 0;
    if (status == TFM_OK)
        status = check_batches(t, &tokens, batches, count);
    if (status == TFM_OK && tokens == 0)
        status = tfm__fail(TFM_ERROR_ARGUMENT, NO_TARGETS);
    if (status != TFM_OK)
        return status;
    const int depth = tfm__scope_depth(ctx);
    const tfm__pass_options learn = {true, own.update, t->options.label_smoothing, (float)(1 / (double)tokens),
                                     0,    false};
    char what[64];
    tfm__loss_sums s;
    tfm_tensor norm = {0};
    snprintf(what, sizeof(what), "update %lld", (long long)own.update);
    bool begun = false;
    char saved_message[TFM__MESSAGE_MAX];
    tfm__error_save(saved_message);
    do {
        if ((status = tfm__run_micro_batches(t, &s, batches, count, &learn, what)) != TFM_OK)
            return status;
        norm = (tfm_tensor){0};
        tfm_l2_norm(ctx, &norm, t->gradient);
        status = adam_step(t, &begun, norm, own.learning_rate);
        if (status != TFM_OK && !begun)
            status = tfm__trainer_recover(t, depth, what, "");
    } while (status == TFM_ERROR_AGAIN && !begun);
    if (status != TFM_OK && !begun)
        return status;
    if (status == TFM_OK)
        tfm__error_restore(saved_message);
    own.source_tokens = s.tokens.source;
    own.target_tokens = s.tokens.target;
    t->update++;
    status = report ? read_report(t, &own, s.loss, s.nll, norm) : TFM_OK;
    if (tfm_context_status(ctx) != TFM_OK)
        return tfm__trainer_recover(t, depth, what, PARAMS_SPOILED);
    t->dirty = false; /* the step has zeroed it */
    if (report)
        *report = own;
    tfm_status closed = tfm_scope_close(ctx, 0, NULL);
    return status == TFM_OK ? closed : status;
}

/* ---- An update of several ranks ---- */

/* Runs this rank's batches, overlapped with communication. The sums are in *mine, and the gradient of all ranks on the
 * host. False if communication fails. */
static bool run_rank(tfm_trainer *t, tfm__rank_report *mine, tfm_status *status, const tfm_batch *batches, size_t count,
                     const tfm__pass_options *learn, const char *what) {
    const int depth = tfm__scope_depth(t->ctx);
    float loss = 0, nll = 0;
    tfm__loss_sums s = {0};
    *status = tfm__run_micro_batches(t, &s, batches, count, learn, what);
    const bool ran = *status == TFM_OK;
    const bool talked = tfm__allreduce_gradients(t, &mine->squared_norm, status);
    tfm__allreduce_reset(t);
    if (!ran)
        return talked;
    if (s.loss.buffer) {
        tfm_tensor_read(t->ctx, &loss, s.loss);
        tfm_tensor_read(t->ctx, &nll, s.nll);
    }
    mine->loss = (double)loss;
    mine->nll = (double)nll;
    mine->source_tokens = s.tokens.source;
    *status = tfm_context_status(t->ctx) == TFM_OK ? tfm_scope_close(t->ctx, 0, NULL)
                                                   : tfm__trainer_recover(t, depth, what, "");
    return talked;
}

/* Copies between the host and the blocks of a tensor whose moments this rank has. */
static void copy_own_shards(tfm_trainer *t, tfm_tensor x, bool in) {
    for (int64_t k = 0; k < tfm__bucket_count(&t->bucket_layout); k++) {
        const tfm__flat_range own = tfm__bucket_shard(&t->bucket_layout, k, t->group.rank);
        tfm_tensor part = {0};
        if (own.count == 0)
            continue;
        tfm_tensor_rows(t->ctx, &part, x, own.at, own.count);
        if (in)
            tfm_tensor_write(t->ctx, part, t->host_buffer + own.at);
        else
            tfm_tensor_read(t->ctx, t->host_buffer + own.at, part);
    }
}

/* A step with the gradient of all ranks, with norm *size. After an error the parameters differ from the other ranks',
 * changed or not. */
static tfm_status step_distributed(tfm_trainer *t, float size, double rate, const char *what) {
    const int depth = tfm__scope_depth(t->ctx);
    tfm_status status;
    bool begun = false;
    char saved_message[TFM__MESSAGE_MAX];
    tfm__error_save(saved_message);
    do {
        tfm_tensor norm = {0};
        tfm_scope_open(t->ctx);
        if (t->sharded)
            copy_own_shards(t, t->gradient, true);
        else
            tfm_tensor_write(t->ctx, t->gradient, t->host_buffer);
        tfm_tensor_new(t->ctx, &norm, TFM_F32, 1, &(int64_t){1});
        tfm_tensor_write(t->ctx, norm, &size);
        status = adam_step(t, &begun, norm, rate);
        if (status == TFM_OK && t->sharded)
            copy_own_shards(t, t->value, false);
        status = tfm_context_status(t->ctx);
        if (status == TFM_OK)
            status = tfm_context_finish(t->ctx);
        if (status != TFM_OK)
            status = tfm__trainer_recover(t, depth, what, PARAMS_SPOILED);
    } while (status == TFM_ERROR_AGAIN && !begun);
    if (status != TFM_OK)
        return status;
    tfm__error_restore(saved_message);
    t->dirty = t->sharded; /* the step has zeroed its part */
    return tfm_scope_close(t->ctx, 0, NULL);
}

/* With a sharded step, gathers all parameters on all ranks. */
static tfm_status allgather_params(tfm_trainer *t, tfm_status status, const char *what) {
    tfm__rank_report mine = {.update = t->update + 1}, all;
    const int depth = tfm__scope_depth(t->ctx);
    if (!tfm__allgather_params(t))
        return tfm__process_group_lost(what);
    status = tfm__process_group_agree(t, &all, mine, status, what);
    if (status == TFM_OK && tfm_tensor_write(t->ctx, t->value, t->host_buffer) != TFM_OK)
        return tfm__trainer_recover(t, depth, what, PARAMS_SPOILED);
    return status;
}

tfm_status tfm__trainer_update_rank(tfm_trainer *t, tfm_update_report *report, const tfm_batch *batches, size_t count) {
    tfm_update_report own = {.update = t->update + 1,
                             .learning_rate = tfm_trainer_learning_rate(&t->options, t->update + 1)};
    tfm__rank_report mine = {.update = own.update, .batches = count}, all;
    char what[64];
    snprintf(what, sizeof(what), "update %lld", (long long)own.update);
    tfm_status status = batches ? check_batches(t, &mine.tokens, batches, count)
                                : tfm__fail(TFM_ERROR_ARGUMENT, "%s: this rank has no batches", what);
    if (status == TFM_OK && (status = tfm__context_ready(t->ctx, what)) == TFM_OK &&
        tfm__process_group_state_hash(t, &mine.state_hash) != TFM_OK)
        status = tfm__trainer_recover(t, tfm__scope_depth(t->ctx), what, "");
    status = tfm__process_group_agree(t, &all, mine, status, what);
    if (status != TFM_OK)
        return status;
    if (all.batches == 0)
        return tfm__fail(TFM_ERROR_ARGUMENT, "trainer_update: an update needs a batch, and no rank has one");
    if (all.tokens == 0)
        return tfm__fail(TFM_ERROR_ARGUMENT, NO_TARGETS);
    t->state_compared = true;
    const tfm__pass_options learn = {
        true, own.update, t->options.label_smoothing, (float)(1 / (double)all.tokens), all.batches, false};
    mine.state_hash = 0;
    if (!run_rank(t, &mine, &status, batches, count, &learn, what))
        return tfm__process_group_lost(what);
    status = tfm__process_group_agree(t, &all, mine, status, what);
    if (status != TFM_OK)
        return status;
    const float norm = (float)sqrt(all.squared_norm);
    status = step_distributed(t, norm, own.learning_rate, what);
    if (t->sharded)
        status = allgather_params(t, status, what);
    if (status != TFM_OK)
        return status;
    t->update++;
    own.source_tokens = all.source_tokens;
    own.target_tokens = all.tokens;
    status = check_finite(&own, all.loss, all.nll, (double)norm);
    if (report)
        *report = own;
    return status;
}

tfm_status tfm_trainer_evaluate(tfm_trainer *t, double *nll, uint64_t *tokens, const tfm_batch *batch) {
    if (TFM__NEEDS("trainer_evaluate", t, nll, tokens, batch) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    const int depth = tfm__scope_depth(t->ctx);
    const tfm__pass_options look = {.scale = 1};
    tfm__loss_sums s;
    float value = 0;
    tfm_status status = tfm__train_batch_check(t, "trainer_evaluate", batch);
    if (status == TFM_OK)
        status = tfm__run_micro_batches(t, &s, batch, 1, &look, "evaluation");
    if (status != TFM_OK)
        return status;
    if (tfm_tensor_read(t->ctx, &value, s.nll) != TFM_OK)
        return tfm__trainer_recover(t, depth, "evaluation", "");
    *nll = (double)value;
    *tokens = s.tokens.target;
    return tfm_scope_close(t->ctx, 0, NULL);
}
