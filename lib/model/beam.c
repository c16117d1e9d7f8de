#include <math.h>
#include <string.h>
#include "model/beam.h"

static tfm__grid items(const tfm_context *ctx, int64_t count) {
    size_t group = (size_t)tfm__context_row(ctx)->group;
    return TFM_GRID_1D(((size_t)count + group - 1) / group * group, group);
}

static tfm_tensor ints(tfm_context *ctx, int64_t count) {
    tfm_tensor x = {0};
    tfm_tensor_new(ctx, &x, TFM_I32, 1, &count);
    return x;
}

static tfm_tensor floats(tfm_context *ctx, int64_t count) {
    tfm_tensor x = {0};
    tfm_tensor_new(ctx, &x, TFM_F32, 1, &count);
    return x;
}

static tfm_tensor ints_of(tfm_context *ctx, const int32_t *host, int64_t count) {
    tfm_tensor x = ints(ctx, count);
    tfm_tensor_write(ctx, x, host);
    return x;
}

static tfm_tensor ints_filled(tfm_context *ctx, int64_t count, int32_t value) {
    tfm_tensor x = ints(ctx, count);
    tfm__tensor_fill(ctx, x, &value);
    return x;
}

/* The first rows of every sentence: the start token, one live beam each. */
static tfm_status first_rows(tfm__beam *beam, int32_t start_id) {
    int64_t rows = beam->total * beam->width;
    int32_t *index = tfm__alloc((size_t)rows, sizeof(*index));
    float *score = tfm__alloc((size_t)rows, sizeof(*score));
    if (index && score) {
        for (int64_t i = 0; i < rows; i++) {
            index[i] = (int32_t)i;
            score[i] = i % beam->width ? -INFINITY : 0;
        }
        beam->scores = floats(beam->ctx, rows);
        tfm_tensor_write(beam->ctx, beam->scores, score);
        tfm_tensor_new(beam->ctx, &beam->table, TFM_I32, 2, (int64_t[]){rows, 1});
        tfm_tensor_write(beam->ctx, beam->table, index);
        beam->sentences = ints_of(beam->ctx, index, beam->total);
        for (int64_t i = 0; i < rows; i++)
            index[i] = (int32_t)(i / beam->width);
        beam->sources = ints_of(beam->ctx, index, rows);
        beam->tokens = ints_filled(beam->ctx, rows, start_id);
    } else {
        tfm__context_fail(beam->ctx, TFM_ERROR_MEMORY, "search: out of host memory for %lld rows", (long long)rows);
    }
    free(index);
    free(score);
    return tfm_context_status(beam->ctx);
}

static tfm_status grow_nodes(tfm__beam *beam, int64_t needed) {
    if (needed <= beam->nodes)
        return tfm_context_status(beam->ctx);
    int64_t capacity = 2 * beam->nodes > needed ? 2 * beam->nodes : needed;
    tfm_tensor *logs[] = {&beam->node_token, &beam->node_parent};
    for (size_t i = 0; i < TFM_COUNT(logs); i++) {
        tfm_tensor larger = ints(beam->ctx, capacity), head = {0};
        tfm_tensor_rows(beam->ctx, &head, larger, 0, beam->nodes);
        tfm__tensor_copy(beam->ctx, head, *logs[i]);
        tfm_tensor_free(beam->ctx, logs[i]);
        *logs[i] = larger;
    }
    beam->nodes = capacity;
    return tfm_context_status(beam->ctx);
}

tfm_status tfm__beam_begin(tfm_context *ctx, tfm__beam *beam, const tfm__beam_setup *setup) {
    int64_t slots = setup->sentences * setup->width, rows = slots;
    *beam = (tfm__beam){.ctx = ctx,
                        .width = setup->width,
                        .candidates = setup->width == 1 ? 1 : 2 * setup->width,
                        .vocabulary = setup->vocabulary,
                        .total = setup->sentences,
                        .live = setup->sentences,
                        .prefix_width = setup->prefix_width,
                        .nodes = rows * 16};
    beam->limits = ints_of(ctx, setup->limits, setup->sentences);
    beam->prefix_counts = ints_of(ctx, setup->prefix_counts, setup->sentences);
    beam->prefixes = ints_of(ctx, setup->prefixes, setup->sentences * setup->prefix_width);
    beam->penalty = floats(ctx, setup->longest + 1);
    tfm_tensor_write(ctx, beam->penalty, setup->penalty);
    beam->finished_total = floats(ctx, slots);
    const float none = -INFINITY;
    tfm__tensor_fill(ctx, beam->finished_total, &none);
    beam->finished_token = ints_filled(ctx, slots, 0);
    beam->finished_node = ints_filled(ctx, slots, 0);
    beam->finished_step = ints_filled(ctx, slots, 0);
    beam->finished_count = ints_filled(ctx, setup->sentences, 0);
    beam->done = ints_filled(ctx, setup->sentences, 0);
    beam->remaining = ints_filled(ctx, 1, (int32_t)setup->sentences);
    beam->node_token = ints_filled(ctx, beam->nodes, setup->start_id);
    beam->node_parent = ints_filled(ctx, beam->nodes, -1);
    return first_rows(beam, setup->start_id);
}

/* What beam_select leaves for beam_extend: (R) each. */
typedef struct chosen {
    tfm_tensor token, parent, score;
} chosen;

static chosen select_rows(tfm__beam *beam, tfm_tensor logits, int32_t eos) {
    tfm_context *ctx = beam->ctx;
    int64_t rows = beam->live * beam->width;
    int candidates = beam->candidates < beam->vocabulary ? beam->candidates : (int)beam->vocabulary;
    tfm_tensor values = {0}, tokens = {0}, log_sum = {0};
    chosen next = {ints(ctx, rows), ints(ctx, rows), floats(ctx, rows)};
    tfm_topk(ctx, &values, &tokens, &log_sum, logits, candidates);
    tfm__kernel *kernel =
        tfm__kernel_get(ctx, "beam", "beam_select", "-DBEAM=%d -DCANDIDATES=%d", beam->width, candidates);
    tfm__launch(ctx, kernel, items(ctx, beam->live),
                TFM_ARGS(TFM_T(values), TFM_T(tokens), TFM_T(log_sum), TFM_T(logits), TFM_T_AS("scores", beam->scores),
                         TFM_T_AS("sentences", beam->sentences), TFM_T_AS("limits", beam->limits),
                         TFM_T_AS("prefixes", beam->prefixes), TFM_T_AS("prefix_counts", beam->prefix_counts),
                         TFM_T_AS("penalty", beam->penalty), TFM_T_AS("next_token", next.token),
                         TFM_T_AS("next_parent", next.parent), TFM_T_AS("next_score", next.score),
                         TFM_T_AS("finished_total", beam->finished_total),
                         TFM_T_AS("finished_token", beam->finished_token),
                         TFM_T_AS("finished_node", beam->finished_node),
                         TFM_T_AS("finished_step", beam->finished_step),
                         TFM_T_AS("finished_count", beam->finished_count), TFM_T_AS("done", beam->done),
                         TFM_T_AS("remaining", beam->remaining), TFM_I_AS("n", beam->live),
                         TFM_I_AS("vocabulary", beam->vocabulary), TFM_I_AS("prefix_width", beam->prefix_width),
                         TFM_I_AS("step", beam->step), TFM_I_AS("first_node", beam->node), TFM_I(eos)));
    return next;
}

static void replace(tfm_context *ctx, tfm_tensor *old, tfm_tensor fresh) {
    tfm_tensor_free(ctx, old);
    *old = fresh;
}

static void extend_rows(tfm__beam *beam, chosen next, int64_t m) {
    tfm_context *ctx = beam->ctx;
    int64_t past = beam->step + 1, rows = m * beam->width, next_node = beam->node + beam->live * beam->width;
    int candidates = beam->candidates < beam->vocabulary ? beam->candidates : (int)beam->vocabulary;
    bool compact = m < beam->live;
    tfm_tensor keep = {0}, table = {0};
    grow_nodes(beam, next_node + rows);
    if (compact) {
        keep = ints(ctx, m);
        tfm__launch(ctx, tfm__kernel_get(ctx, "beam", "beam_compact", ""), TFM_GRID_1D(1, 1),
                    TFM_ARGS(TFM_T_AS("done", beam->done), TFM_T(keep), TFM_I_AS("n", beam->live), TFM_I(m)));
    }
    tfm_tensor tokens = ints(ctx, rows), scores = floats(ctx, rows), sentences = ints(ctx, m), done = ints(ctx, m),
               sources = ints(ctx, rows);
    tfm_tensor_new(ctx, &table, TFM_I32, 2, (int64_t[]){rows, past + 1});
    tfm__kernel *kernel =
        tfm__kernel_get(ctx, "beam", "beam_extend", "-DBEAM=%d -DCANDIDATES=%d", beam->width, candidates);
    tfm__launch(ctx, kernel, items(ctx, rows),
                TFM_ARGS(TFM_T_AS("next_token", next.token), TFM_T_AS("next_parent", next.parent),
                         TFM_T_AS("next_score", next.score), TFM_T_AS("table", beam->table),
                         TFM_T_AS("sentences", beam->sentences), TFM_T_AS("done", beam->done), TFM_T(keep),
                         TFM_T_AS("new_tokens", tokens), TFM_T_AS("new_scores", scores), TFM_T_AS("new_table", table),
                         TFM_T_AS("new_sentences", sentences), TFM_T_AS("new_done", done), TFM_T(sources),
                         TFM_T_AS("node_token", beam->node_token), TFM_T_AS("node_parent", beam->node_parent), TFM_I(m),
                         TFM_I(compact), TFM_I(past), TFM_I_AS("first_node", beam->node), TFM_I(next_node)));
    replace(ctx, &beam->tokens, tokens);
    replace(ctx, &beam->scores, scores);
    replace(ctx, &beam->table, table);
    replace(ctx, &beam->sentences, sentences);
    replace(ctx, &beam->done, done);
    replace(ctx, &beam->sources, sources);
    tfm_tensor_free(ctx, &keep);
    beam->node = next_node;
    beam->live = m;
    beam->step++;
}

tfm_status tfm__beam_advance(tfm__beam *beam, tfm_tensor logits, int32_t eos, int64_t keep) {
    tfm_context *ctx = beam->ctx;
    tfm_scope_open(ctx);
    chosen next = select_rows(beam, logits, eos);
    extend_rows(beam, next, keep);
    return tfm_scope_close(ctx, 8,
                           (tfm_tensor *[]){&beam->tokens, &beam->scores, &beam->table, &beam->sentences, &beam->done,
                                            &beam->sources, &beam->node_token, &beam->node_parent});
}

/* Host copies of what the search left on the device. */
typedef struct results {
    float *total;
    int32_t *token, *node, *step, *count, *node_token, *node_parent;
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
    void *all[] = {r->total, r->token, r->node, r->step, r->count, r->node_token, r->node_parent};
    for (size_t i = 0; i < TFM_COUNT(all); i++)
        free(all[i]);
}

/* The tokens of the hypothesis in `slot`, from its last node back to the start. */
static tfm_status trace(tfm_hypothesis *out, const results *r, int64_t slot, int32_t eos) {
    size_t length = (size_t)r->step[slot];
    bool ends = r->token[slot] == eos;
    out->tokens = (int)length;
    out->count = ends ? length - 1 : length;
    out->ids = tfm__alloc(out->count + 1, sizeof(*out->ids));
    if (!out->ids)
        return TFM_ERROR_MEMORY; /* said by tfm__alloc */
    int32_t node = r->node[slot];
    if (!ends)
        out->ids[length - 1] = r->token[slot];
    for (size_t i = length - 1; i-- > 0; node = r->node_parent[node])
        out->ids[i] = r->node_token[node];
    return TFM_OK;
}

static tfm_status sentence_hypotheses(const tfm__beam *beam, tfm_hypothesis *out, int n_best, const results *r,
                                      int64_t sentence, const float *penalty, int32_t eos) {
    int finished = r->count[sentence];
    bool used[TFM__MAX_BEAM] = {false};
    for (int rank = 0; rank < n_best; rank++) {
        int best = -1;
        double best_score = -INFINITY;
        for (int b = 0; b < beam->width; b++) {
            int64_t slot = sentence * beam->width + b;
            double score = r->total[slot] / penalty[r->step[slot]];
            /* Those cut by the limit come after all that finished. */
            bool eligible = !used[b] && r->step[slot] > 0 && (b < finished || rank >= finished);
            if (eligible && (best < 0 || score > best_score)) {
                best = b;
                best_score = score;
            }
        }
        out[rank].score = best_score;
        out[rank].log_prob = -INFINITY;
        if (best < 0 && rank == 0)
            return tfm__fail(TFM_ERROR_FORMAT, "the model gives no token a finite probability: its weights are damaged, or "
                                               "a forced beginning holds an id that is never generated");
        if (best < 0)
            continue;
        used[best] = true;
        out[rank].log_prob = r->total[sentence * beam->width + best];
        if (trace(&out[rank], r, sentence * beam->width + best, eos) != TFM_OK)
            return TFM_ERROR_MEMORY;
    }
    return TFM_OK;
}

tfm_status tfm__beam_finish(tfm__beam *beam, tfm_hypotheses *out, int n_best, const float *penalty, int32_t eos) {
    tfm_context *ctx = beam->ctx;
    results r = {copy(ctx, beam->finished_total), copy(ctx, beam->finished_token), copy(ctx, beam->finished_node),
                 copy(ctx, beam->finished_step), copy(ctx, beam->finished_count), NULL, NULL};
    tfm_tensor used_tokens = {0}, used_parents = {0};
    tfm_tensor_rows(ctx, &used_tokens, beam->node_token, 0, beam->node + 1);
    tfm_tensor_rows(ctx, &used_parents, beam->node_parent, 0, beam->node + 1);
    r.node_token = copy(ctx, used_tokens);
    r.node_parent = copy(ctx, used_parents);
    tfm_status status = tfm_context_status(ctx);
    for (int64_t i = 0; i < beam->total && status == TFM_OK; i++)
        status = sentence_hypotheses(beam, &out->items[i * n_best], n_best, &r, i, penalty, eos);
    results_free(&r);
    return status;
}
