#include <math.h>
#include <string.h>
#include "model/generate/beam.h"

static tfm__grid items(const tfm_context *ctx, int64_t count) {
    size_t group = (size_t)tfm__context_tuning(ctx)->group;
    return TFM__GRID_1D(((size_t)count + group - 1) / group * group, group);
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
    tfm_tensor *logs[] = {&beam->node_token, &beam->node_parent, &beam->node_score};
    for (size_t i = 0; i < TFM__COUNT(logs); i++) {
        const bool whole = logs[i]->dtype == TFM_I32;
        tfm_tensor larger = whole ? ints(beam->ctx, capacity) : floats(beam->ctx, capacity), head = {0};
        tfm_tensor_rows(beam->ctx, &head, larger, 0, beam->nodes);
        tfm__tensor_copy(beam->ctx, head, *logs[i]);
        tfm_tensor_free(beam->ctx, logs[i]);
        *logs[i] = larger;
    }
    beam->nodes = capacity;
    return tfm_context_status(beam->ctx);
}

/* The words that are looked for at each step. A single id is one of them where it keeps its probability; otherwise the
 * bias of the search has taken it out of the distribution. */
static tfm_status put_words(tfm__beam *beam) {
    const tfm__rules *rules = beam->rules;
    const int singles = beam->certain ? rules->bad_id_count : 0, several = rules->bad_word_count;
    int32_t *starts = tfm__alloc((size_t)(singles + several) + 1, sizeof(*starts));
    int32_t *ids = tfm__alloc((size_t)(singles + rules->bad_words[several]) + 1, sizeof(*ids));
    if (!starts || !ids) {
        free(starts);
        free(ids);
        return tfm__context_fail(beam->ctx, TFM_ERROR_MEMORY, "search: out of host memory for `bad_words_ids`");
    }
    int words = 0, used = 0;
    for (int i = 0; i < singles; i++) {
        if (tfm__rules_pads(rules, rules->bad_ids[i])) /* which no distribution holds */
            continue;
        starts[words++] = used;
        ids[used++] = rules->bad_ids[i];
    }
    for (int i = 0; i < several; i++) {
        starts[words++] = used;
        for (int k = rules->bad_words[i]; k < rules->bad_words[i + 1]; k++)
            ids[used++] = rules->bad_word_ids[k];
    }
    starts[words] = used;
    beam->words = words;
    if (words > 0) {
        beam->word_starts = ints_of(beam->ctx, starts, words + 1);
        beam->word_ids = ints_of(beam->ctx, ids, used);
    }
    free(starts);
    free(ids);
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
                        .rules = setup->rules,
                        .certain = setup->certain,
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
    beam->node_token = ints_filled(ctx, beam->nodes, setup->rules->start_id);
    beam->node_parent = ints_filled(ctx, beam->nodes, -1);
    beam->node_score = floats(ctx, beam->nodes);
    const float certain = 0;
    tfm__tensor_fill(ctx, beam->node_score, &certain);
    put_words(beam);
    return first_rows(beam, setup->rules->start_id);
}

/* The live continuations: (R) each. */
typedef struct chosen {
    tfm_tensor token, parent, score;
} chosen;

/* The k best logits of each row and their tokens, without those that the rules forbid after the row's past; and
 * log_sum, the normaliser of the row: the logarithm of the sum of e to all of its logits. */
static void best_of_rows(const tfm__beam *beam, tfm_tensor *values, tfm_tensor *tokens, tfm_tensor *log_sum,
                         tfm_tensor logits, int k) {
    tfm_context *ctx = beam->ctx;
    const int64_t rows = beam->live * beam->width;
    tfm_tensor removed = {0};
    if (beam->words > 0) {
        removed = floats(ctx, rows);
        tfm__launch(ctx, tfm__kernel_get(ctx, "beam", "beam_forbid", ""), items(ctx, rows),
                    TFM__ARGS(TFM__T(logits), TFM__T(removed), TFM__T_AS("table", beam->table),
                              TFM__T_AS("node_token", beam->node_token), TFM__T_AS("words", beam->word_starts),
                              TFM__T_AS("ids", beam->word_ids), TFM__I(rows), TFM__I_AS("vocabulary", beam->vocabulary),
                              TFM__I_AS("past", beam->step + 1), TFM__I_AS("count", beam->words)));
    }
    tfm_topk(ctx, values, tokens, log_sum, logits, k);
    if (beam->words > 0 && beam->certain)
        tfm__launch(ctx, tfm__kernel_get(ctx, "beam", "beam_restore", ""), items(ctx, rows),
                    TFM__ARGS(TFM__T_AS("log_sum", *log_sum), TFM__T(removed), TFM__I(rows)));
}

/* What the rows of the next step are made of, m sentences of them: ten tensors and four numbers that beam_step and
 * beam_extend share. */
typedef struct made {
    tfm_tensor tokens, scores, table, sentences, done, sources, keep;
    int64_t m, next_node;
} made;

static made make_rows(tfm__beam *beam, int64_t m) {
    tfm_context *ctx = beam->ctx;
    const int64_t rows = m * beam->width, next_node = beam->node + beam->live * beam->width;
    grow_nodes(beam, next_node + rows);
    made to = {.tokens = ints(ctx, rows),
               .scores = floats(ctx, rows),
               .sentences = ints(ctx, m),
               .done = ints(ctx, m),
               .sources = ints(ctx, rows),
               .m = m,
               .next_node = next_node};
    tfm_tensor_new(ctx, &to.table, TFM_I32, 2, (int64_t[]){rows, beam->step + 2});
    return to;
}

enum { EXTEND_ARGS = 20 };

static void extend_args(tfm__arg *args, const tfm__beam *beam, const chosen *next, const made *to, int64_t m) {
    const tfm__arg all[EXTEND_ARGS] = {TFM__T_AS("next_token", next->token),
                                       TFM__T_AS("next_parent", next->parent),
                                       TFM__T_AS("next_score", next->score),
                                       TFM__T_AS("table", beam->table),
                                       TFM__T_AS("sentences", beam->sentences),
                                       TFM__T_AS("done", beam->done),
                                       TFM__T_AS("keep", to->keep),
                                       TFM__T_AS("new_tokens", to->tokens),
                                       TFM__T_AS("new_scores", to->scores),
                                       TFM__T_AS("new_table", to->table),
                                       TFM__T_AS("new_sentences", to->sentences),
                                       TFM__T_AS("new_done", to->done),
                                       TFM__T_AS("sources", to->sources),
                                       TFM__T_AS("node_token", beam->node_token),
                                       TFM__T_AS("node_parent", beam->node_parent),
                                       TFM__T_AS("node_score", beam->node_score),
                                       TFM__I(m),
                                       TFM__I_AS("past", beam->step + 1),
                                       TFM__I_AS("first_node", beam->node),
                                       TFM__I_AS("next_node", to->next_node)};
    memcpy(args, all, sizeof(all));
}

static tfm__kernel *kernel(const tfm__beam *beam, const char *name) {
    const int candidates = beam->candidates < beam->vocabulary ? beam->candidates : (int)beam->vocabulary;
    return tfm__kernel_get(beam->ctx, "beam", name, "-DBEAM=%d -DCANDIDATES=%d", beam->width, candidates);
}

/* Chooses among the continuations of all rows, and makes the next rows where no sentence leaves the batch. */
static void choose_rows(tfm__beam *beam, const chosen *next, const made *to, tfm_tensor logits) {
    tfm_context *ctx = beam->ctx;
    const int candidates = beam->candidates < beam->vocabulary ? beam->candidates : (int)beam->vocabulary;
    tfm_tensor values = {0}, tokens = {0}, log_sum = {0};
    best_of_rows(beam, &values, &tokens, &log_sum, logits, candidates);
    const tfm__arg own[] = {TFM__T(values),
                            TFM__T(tokens),
                            TFM__T(log_sum),
                            TFM__T(logits),
                            TFM__T_AS("scores", beam->scores),
                            TFM__T_AS("limits", beam->limits),
                            TFM__T_AS("prefixes", beam->prefixes),
                            TFM__T_AS("prefix_counts", beam->prefix_counts),
                            TFM__T_AS("penalty", beam->penalty),
                            TFM__T_AS("finished_total", beam->finished_total),
                            TFM__T_AS("finished_token", beam->finished_token),
                            TFM__T_AS("finished_node", beam->finished_node),
                            TFM__T_AS("finished_step", beam->finished_step),
                            TFM__T_AS("finished_count", beam->finished_count),
                            TFM__T_AS("remaining", beam->remaining),
                            TFM__I_AS("vocabulary", beam->vocabulary),
                            TFM__I_AS("prefix_width", beam->prefix_width),
                            TFM__I_AS("step", beam->step),
                            TFM__I_AS("eos", beam->rules->eos_id),
                            TFM__I_AS("last_token", beam->rules->forced_eos_id),
                            TFM__I_AS("certain_first", beam->certain && beam->rules->forced_bos_id >= 0),
                            TFM__I_AS("certain_last", beam->certain),
                            TFM__I_AS("extends", to->m == beam->live)};
    tfm__arg all[TFM__COUNT(own) + EXTEND_ARGS];
    memcpy(all, own, sizeof(own));
    extend_args(all + TFM__COUNT(own), beam, next, to, beam->live);
    tfm__launch(ctx, kernel(beam, "beam_step"), tfm__row_grid(ctx, beam->live), TFM__COUNT(all), all);
}

/* The next rows where sentences that are over leave the batch. */
static void extend_rows(tfm__beam *beam, const chosen *next, made *to) {
    tfm_context *ctx = beam->ctx;
    tfm__arg args[EXTEND_ARGS];
    to->keep = ints(ctx, to->m);
    tfm__launch(ctx, tfm__kernel_get(ctx, "beam", "beam_compact", ""), TFM__GRID_1D(1, 1),
                TFM__ARGS(TFM__T_AS("done", beam->done), TFM__T_AS("keep", to->keep), TFM__I_AS("n", beam->live),
                          TFM__I_AS("m", to->m)));
    extend_args(args, beam, next, to, to->m);
    tfm__launch(ctx, kernel(beam, "beam_extend"), tfm__row_grid(ctx, to->m), EXTEND_ARGS, args);
}

static void replace(tfm_context *ctx, tfm_tensor *old, tfm_tensor fresh) {
    tfm_tensor_free(ctx, old);
    *old = fresh;
}

tfm_status tfm__beam_advance(tfm__beam *beam, tfm_tensor logits, int64_t keep) {
    tfm_context *ctx = beam->ctx;
    const int64_t rows = beam->live * beam->width;
    tfm_scope_open(ctx);
    const chosen next = {ints(ctx, rows), ints(ctx, rows), floats(ctx, rows)};
    made to = make_rows(beam, keep);
    choose_rows(beam, &next, &to, logits);
    if (keep < beam->live)
        extend_rows(beam, &next, &to);
    replace(ctx, &beam->tokens, to.tokens);
    replace(ctx, &beam->scores, to.scores);
    replace(ctx, &beam->table, to.table);
    replace(ctx, &beam->sentences, to.sentences);
    replace(ctx, &beam->done, to.done);
    replace(ctx, &beam->sources, to.sources);
    beam->node = to.next_node;
    beam->live = keep;
    beam->step++;
    return tfm_scope_close(ctx, 9,
                           (tfm_tensor *[]){&beam->tokens, &beam->scores, &beam->table, &beam->sentences, &beam->done,
                                            &beam->sources, &beam->node_token, &beam->node_parent, &beam->node_score});
}

/* Host copies of what the search left on the device. */
typedef struct results {
    float *total, *node_score;
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
    void *all[] = {r->total, r->node_score, r->token, r->node, r->step, r->count, r->node_token, r->node_parent};
    for (size_t i = 0; i < TFM__COUNT(all); i++)
        free(all[i]);
}

/* The tokens of the hypothesis in `slot`, from its last node back to the start. What a token adds to the sum of log p
 * is its own. */
static tfm_status trace(tfm_hypothesis *out, const results *r, int64_t slot, int32_t eos) {
    const size_t length = (size_t)r->step[slot];
    out->tokens = (int)length;
    out->count = r->token[slot] == eos ? length - 1 : length;
    out->ids = tfm__alloc(length, sizeof(*out->ids));
    out->log_probs = tfm__alloc(length, sizeof(*out->log_probs));
    if (!out->ids || !out->log_probs)
        return TFM_ERROR_MEMORY; /* said by tfm__alloc */
    int32_t node = r->node[slot];
    out->ids[length - 1] = r->token[slot];
    out->log_probs[length - 1] = r->total[slot] - r->node_score[node];
    for (size_t i = length - 1; i-- > 0;) {
        const int32_t parent = r->node_parent[node];
        out->ids[i] = r->node_token[node];
        out->log_probs[i] = r->node_score[node] - r->node_score[parent];
        node = parent;
    }
    return TFM_OK;
}

static tfm_status sentence_hypotheses(const tfm__beam *beam, tfm_hypothesis *out, int n_best, const results *r,
                                      int64_t sentence, const float *penalty) {
    int finished = r->count[sentence];
    bool used[TFM_MAX_BEAM] = {false};
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
            return tfm__fail(TFM_ERROR_FORMAT,
                             "the model gives no token a finite probability: its weights are damaged, or "
                             "a forced beginning holds an id that is never generated");
        if (best < 0)
            continue;
        used[best] = true;
        out[rank].log_prob = r->total[sentence * beam->width + best];
        if (trace(&out[rank], r, sentence * beam->width + best, beam->rules->eos_id) != TFM_OK)
            return TFM_ERROR_MEMORY;
    }
    return TFM_OK;
}

tfm_status tfm__beam_finish(tfm__beam *beam, tfm_hypotheses *out, int n_best, const float *penalty) {
    tfm_context *ctx = beam->ctx;
    tfm_tensor tokens = {0}, parents = {0}, scores = {0};
    tfm_tensor_rows(ctx, &tokens, beam->node_token, 0, beam->node + 1);
    tfm_tensor_rows(ctx, &parents, beam->node_parent, 0, beam->node + 1);
    tfm_tensor_rows(ctx, &scores, beam->node_score, 0, beam->node + 1);
    results r = {.total = copy(ctx, beam->finished_total),
                 .token = copy(ctx, beam->finished_token),
                 .node = copy(ctx, beam->finished_node),
                 .step = copy(ctx, beam->finished_step),
                 .count = copy(ctx, beam->finished_count),
                 .node_token = copy(ctx, tokens),
                 .node_parent = copy(ctx, parents),
                 .node_score = copy(ctx, scores)};
    tfm_status status = tfm_context_status(ctx);
    for (int64_t i = 0; i < beam->total && status == TFM_OK; i++)
        status = sentence_hypotheses(beam, &out->items[i * n_best], n_best, &r, i, penalty);
    results_free(&r);
    return status;
}
