/* Reads the results of a search to the host. */
#include <math.h>
#include "model/decode/beam.h"

/* Host copies of the search state. */
typedef struct results {
    float *total, *slot_score;
    int32_t *token, *slot, *step, *count, *slot_token, *slot_parent;
} results;

static void *copy(tfm_context *ctx, tfm_tensor x) {
    void *host = tfm__alloc(tfm_tensor_count(x), tfm_dtype_size(x.dtype));
    if (!host)
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "search: out of host memory for its results");
    else
        tfm_tensor_read(ctx, host, x);
    return host;
}

static void results_free(results *r) {
    void *all[] = {r->total, r->slot_score, r->token, r->slot, r->step, r->count, r->slot_token, r->slot_parent};
    for (size_t i = 0; i < TFM__COUNT(all); i++)
        free(all[i]);
}

/* The tokens of the hypothesis in `entry`, from its last slot back to the start. A token's log p is its difference in
 * the sum. */
static tfm_status backtrack(tfm_hypothesis *out, const results *r, int64_t entry, const tfm__generation_rules *rules) {
    const size_t length = (size_t)r->step[entry];
    out->tokens = (int)length;
    out->count = length > 0 && tfm__generation_is_eos(rules, r->token[entry]) ? length - 1 : length;
    free(out->ids); /* of a restarted search */
    free(out->log_probs);
    out->ids = tfm__alloc(length + 1, sizeof(*out->ids));
    out->log_probs = tfm__alloc(length + 1, sizeof(*out->log_probs));
    if (!out->ids || !out->log_probs)
        return TFM_ERROR_MEMORY; /* tfm__alloc set the message */
    if (length == 0)             /* even the first token was suppressed */
        return TFM_OK;
    int32_t slot = r->slot[entry];
    out->ids[length - 1] = r->token[entry];
    out->log_probs[length - 1] = r->total[entry] - r->slot_score[slot];
    for (size_t i = length - 1; i-- > 0;) {
        const int32_t parent = r->slot_parent[slot];
        out->ids[i] = r->slot_token[slot];
        out->log_probs[i] = r->slot_score[slot] - r->slot_score[parent];
        slot = parent;
    }
    return TFM_OK;
}

/* Without a valid log-sum-exp the scores are meaningless. */
static void clear_scores(tfm_hypothesis *h) {
    h->score = h->log_prob = 0;
    for (int i = 0; i < h->tokens; i++)
        h->log_probs[i] = 0;
}

static tfm_status sentence_hypotheses(const tfm__beam *beam, tfm_hypothesis *out, int n_best, const results *r,
                                      int64_t sentence, const float *penalty) {
    int finished = r->count[sentence];
    bool used[TFM_MAX_BEAM_SIZE] = {false};
    for (int rank = 0; rank < n_best; rank++) {
        int best = -1;
        double best_score = -INFINITY;
        for (int b = 0; b < beam->width; b++) {
            int64_t entry = sentence * beam->width + b;
            double score = r->total[entry] / penalty[r->step[entry]];
            /* hypotheses cut by the limit rank after all finished ones */
            bool eligible = !used[b] && (b < finished || (r->step[entry] > 0 && rank >= finished));
            if (eligible && (best < 0 || score > best_score)) {
                best = b;
                best_score = score;
            }
        }
        out[rank].score = best_score;
        out[rank].log_prob = -INFINITY;
        if (best < 0 && rank == 0)
            return tfm__fail(TFM_ERROR_FORMAT, "the model gives no token a finite probability: its weights are "
                                               "damaged, or a forced prefix contains an id that is never generated");
        if (best < 0)
            continue;
        used[best] = true;
        out[rank].log_prob = r->total[sentence * beam->width + best];
        if (backtrack(&out[rank], r, sentence * beam->width + best, beam->rules) != TFM_OK)
            return TFM_ERROR_MEMORY;
        if (beam->skip_scores)
            clear_scores(&out[rank]);
    }
    return TFM_OK;
}

/* Reads the state. results_free frees it, also after a failure. */
static tfm_status read_results(results *r, tfm__beam *beam) {
    tfm_context *ctx = beam->ctx;
    tfm_tensor tokens = {0}, parents = {0}, scores = {0};
    /* All requested data is before `slot`. A view has at least one row, also before the first step. */
    const int64_t used = beam->slot < beam->slots ? beam->slot + 1 : beam->slots;
    tfm_tensor_rows(ctx, &tokens, beam->slot_token, 0, used);
    tfm_tensor_rows(ctx, &parents, beam->slot_parent, 0, used);
    tfm_tensor_rows(ctx, &scores, beam->slot_score, 0, used);
    *r = (results){.total = copy(ctx, beam->finished_total),
                   .token = copy(ctx, beam->finished_token),
                   .slot = copy(ctx, beam->finished_slot),
                   .step = copy(ctx, beam->finished_length),
                   .count = copy(ctx, beam->finished_count),
                   .slot_token = copy(ctx, tokens),
                   .slot_parent = copy(ctx, parents),
                   .slot_score = copy(ctx, scores)};
    return tfm_context_status(ctx);
}

tfm_status tfm__beam_finish(tfm__beam *beam, tfm_hypotheses *out, int n_best, const float *penalty) {
    results r;
    tfm_status status = read_results(&r, beam);
    for (int64_t i = 0; i < beam->total && status == TFM_OK; i++)
        status = sentence_hypotheses(beam, &out->items[i * n_best], n_best, &r, i, penalty);
    results_free(&r);
    return status;
}

tfm_status tfm__beam_found(tfm__beam *beam, tfm_hypothesis *out, const int32_t *places, int64_t count, int n_best,
                           const float *penalty) {
    results r;
    tfm_status status = read_results(&r, beam);
    for (int64_t i = 0; i < count && status == TFM_OK; i++)
        status = sentence_hypotheses(beam, &out[i * n_best], n_best, &r, places[i], penalty);
    results_free(&r);
    return status;
}

/* ---- Memory ---- */

void tfm__hypothesis_clear(tfm_hypothesis *hypothesis) {
    free(hypothesis->ids);
    free(hypothesis->log_probs);
    *hypothesis = (tfm_hypothesis){0};
}

void tfm_hypotheses_free(tfm_hypotheses *hypotheses) {
    if (!hypotheses)
        return;
    for (size_t i = 0; hypotheses->items && i < hypotheses->sentences * (size_t)hypotheses->n_best; i++)
        tfm__hypothesis_clear(&hypotheses->items[i]);
    free(hypotheses->items);
    *hypotheses = (tfm_hypotheses){0};
}
