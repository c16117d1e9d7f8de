/* State of a search between steps. */
#include <math.h>
#include <string.h>
#include "model/decode/beam.h"
#include "ops/ops.h"

static tfm_tensor ints_filled(tfm_context *ctx, int64_t count, int32_t value) {
    tfm_tensor x = tfm__beam_ints(ctx, count);
    tfm__tensor_fill(ctx, x, &value);
    return x;
}

/* An int tensor; the first `given` values are copied from the host. */
static tfm_tensor ints_first(tfm_context *ctx, int64_t count, const int32_t *host, int64_t given) {
    tfm_tensor x = tfm__beam_ints(ctx, count), front = {0};
    tfm_tensor_rows(ctx, &front, x, 0, given);
    tfm_tensor_write(ctx, front, host);
    return x;
}

/* Whether the sampling parameters change scores. */
static bool changes_scores(const tfm__sampling_params *sampling) {
    return sampling && (sampling->repetition_penalty != 0 || sampling->encoder_repetition_penalty != 0 ||
                        sampling->length_decay != 0);
}

/* Whether suppressed tokens keep their probability mass until the candidates are chosen. With renormalization this
 * makes no difference, except to a penalty on log p, which uses the model's distribution. */
static bool restores_mass(const tfm__beam_setup *setup) {
    const bool penalized = changes_scores(setup->sampling);
    return setup->certain && (!setup->rules->renormalize_logits || penalized);
}

/* Pruning: a row is dropped if it cannot become one of this many best hypotheses. 0, no pruning: sum log p may grow, or
 * the search ends by transformers' rules, or with one hypothesis. With a negative length penalty the paper's rule may
 * stop before better hypotheses finish, and depends on all finished ones: all count. */
static int prune_rank(const tfm__beam_setup *setup) {
    const bool grows = setup->rules->sequence_bias_count > 0 || changes_scores(setup->sampling);
    if (setup->hf_search || grows || setup->width == 1)
        return 0;
    const bool early = setup->penalty[setup->longest] < setup->penalty[1];
    return setup->n_best && !early ? setup->n_best : setup->width;
}

/* Fields known before the first step. */
static tfm__beam beam_of(tfm_context *ctx, const tfm__beam_setup *setup) {
    const int64_t first = setup->first ? setup->first : setup->sentences;
    const int64_t most = first * setup->width, past = setup->past ? setup->past->slots : 0;
    const int needed = prune_rank(setup);
    const bool ragged = setup->ragged && !setup->hf_search;
    const int64_t rows = ragged ? first : most;
    return (tfm__beam){.ctx = ctx,
                       .width = setup->width,
                       .vocabulary = setup->vocabulary,
                       .shortlist = setup->shortlist,
                       .total = setup->sentences,
                       .live = first,
                       .rows = rows,
                       .ragged = ragged,
                       .present = ragged ? setup->present : NULL,
                       .needed = needed,
                       .skip_scores =
                           setup->skip_scores && setup->width == 1 && !(setup->sampling && setup->sampling->do_sample),
                       .prefix_width = setup->prefix_width,
                       .rules = setup->rules,
                       .certain = setup->certain,
                       .restore_mass = restores_mass(setup),
                       .hf_search = setup->hf_search,
                       .sampling = setup->sampling ? *setup->sampling : (tfm__sampling_params){0},
                       .past_columns = setup->past ? setup->past->width : 0,
                       .slot = past,
                       .slots = past + most * 16};
}

/* Candidates per row: 1 (greedy), or twice the beam, since half may be EOS; more if there are several EOS ids. */
static int candidate_limit(const tfm__beam *beam) {
    const int64_t most = 64; /* limit of tfm_topk */
    const int64_t wanted = beam->width * (beam->hf_search && beam->eos_count > 1 ? 1 + beam->eos_count : 2);
    return beam->width == 1 ? 1 : (int)(wanted < most ? wanted : most);
}

tfm_status tfm__beam_begin(tfm_context *ctx, tfm__beam *beam, const tfm__beam_setup *setup) {
    const int64_t entries = setup->sentences * setup->width;
    *beam = beam_of(ctx, setup);
    beam->limits = ints_first(ctx, setup->sentences, setup->limits, beam->live);
    beam->prefix_counts = ints_first(ctx, setup->sentences, setup->prefix_counts, beam->live);
    beam->prefixes =
        ints_first(ctx, setup->sentences * setup->prefix_width, setup->prefixes, beam->live * setup->prefix_width);
    beam->penalty = tfm__beam_floats(ctx, setup->longest + 1);
    tfm_tensor_write(ctx, beam->penalty, setup->penalty);
    beam->finished_total = tfm__beam_floats(ctx, entries);
    const float none = -INFINITY;
    tfm__tensor_fill(ctx, beam->finished_total, &none);
    beam->finished_token = ints_filled(ctx, entries, 0);
    beam->finished_slot = ints_filled(ctx, entries, 0);
    beam->finished_length = ints_filled(ctx, entries, 0);
    beam->finished_count = ints_filled(ctx, setup->sentences, 0);
    beam->done = ints_filled(ctx, beam->live, 0);
    beam->remaining = ints_filled(ctx, 1, (int32_t)beam->live);
    beam->slot_token = ints_filled(ctx, beam->slots, setup->rules->start_id);
    beam->slot_parent = ints_filled(ctx, beam->slots, -1);
    beam->slot_score = tfm__beam_floats(ctx, beam->slots);
    const float certain = 0;
    tfm__tensor_fill(ctx, beam->slot_score, &certain);
    tfm__beam_upload_bad_words(beam);
    tfm__beam_upload_source(beam, setup);
    beam->candidates = candidate_limit(beam);
    if (beam->sampling.do_sample)
        beam->streams = tfm__beam_ints_of(ctx, beam->sampling.streams, setup->sentences);
    return tfm__beam_init_rows(beam, setup->past);
}

/* Live continuations, (n K) each; for ragged rows also their number per sentence, (n). */
typedef struct continuations {
    tfm_tensor token, parent, score, live;
} continuations;

/* The rows of the next step, of m sentences. */
typedef struct next_rows {
    tfm_tensor tokens, scores, block_table, sentences, done, sources, keep, lengths, positions;
    int64_t m, rows, next_slot;
} next_rows;

/* `columns`: of their block_table. */
static next_rows make_rows(tfm__beam *beam, int64_t m, int64_t rows, int64_t columns) {
    tfm_context *ctx = beam->ctx;
    const int64_t next_slot = beam->slot + beam->rows;
    tfm__beam_grow(beam, next_slot + rows);
    next_rows to = {.tokens = tfm__beam_ints(ctx, rows),
                    .scores = tfm__beam_floats(ctx, rows),
                    .sentences = tfm__beam_ints(ctx, m),
                    .done = tfm__beam_ints(ctx, m),
                    .sources = tfm__beam_ints(ctx, rows),
                    .m = m,
                    .rows = rows,
                    .next_slot = next_slot};
    tfm_tensor_new(ctx, &to.block_table, TFM_I32, 2, (int64_t[]){rows, columns});
    if (beam->began.buffer) {
        to.lengths = tfm__beam_ints(ctx, rows);
        tfm_tensor_new(ctx, &to.positions, TFM_I32, 2, (int64_t[]){rows, 1});
    }
    return to;
}

/* Number of kernel arguments for the rows: shared by beam_step and beam_extend, and those of ragged rows in
 * beam_step. */
enum { EXTEND_ARGS = 20, RAGGED_ARGS = 10 };

static void ragged_args(tfm__arg *args, const tfm__beam *beam, const continuations *next) {
    const tfm__arg all[RAGGED_ARGS] = {TFM__T_AS("next_token", next->token),
                                       TFM__T_AS("next_parent", next->parent),
                                       TFM__T_AS("next_score", next->score),
                                       TFM__T_AS("next_live", next->live),
                                       TFM__T_AS("starts", beam->starts),
                                       TFM__T_AS("admitted_step", beam->began),
                                       TFM__T_AS("sentences", beam->sentences),
                                       TFM__T_AS("done", beam->done),
                                       TFM__I_AS("m", beam->live),
                                       TFM__I_AS("first_slot", beam->slot)};
    memcpy(args, all, sizeof(all));
}

static void extend_args(tfm__arg *args, const tfm__beam *beam, const continuations *next, const next_rows *to,
                        int64_t m) {
    const tfm__arg all[EXTEND_ARGS] = {TFM__T_AS("next_token", next->token),
                                       TFM__T_AS("next_parent", next->parent),
                                       TFM__T_AS("next_score", next->score),
                                       TFM__T_AS("block_table", beam->block_table),
                                       TFM__T_AS("sentences", beam->sentences),
                                       TFM__T_AS("done", beam->done),
                                       TFM__T_AS("keep", to->keep),
                                       TFM__T_AS("new_tokens", to->tokens),
                                       TFM__T_AS("new_scores", to->scores),
                                       TFM__T_AS("new_block_table", to->block_table),
                                       TFM__T_AS("new_sentences", to->sentences),
                                       TFM__T_AS("new_done", to->done),
                                       TFM__T_AS("sources", to->sources),
                                       TFM__T_AS("slot_token", beam->slot_token),
                                       TFM__T_AS("slot_parent", beam->slot_parent),
                                       TFM__T_AS("slot_score", beam->slot_score),
                                       TFM__I(m),
                                       TFM__I_AS("past", beam->past_columns + beam->step + 1),
                                       TFM__I_AS("first_slot", beam->slot),
                                       TFM__I_AS("next_slot", to->next_slot)};
    memcpy(args, all, sizeof(all));
}

/* Chooses among the continuations of all rows, and makes the next rows if no sentence leaves the batch. `to` is NULL
 * for ragged rows. */
static void choose_rows(tfm__beam *beam, const continuations *next, const next_rows *to, tfm_tensor logits) {
    tfm_context *ctx = beam->ctx;
    const int candidates = beam->candidates < beam->vocabulary ? beam->candidates : (int)beam->vocabulary;
    tfm_tensor values = {0}, tokens = {0}, lse = {0};
    const int64_t parts = tfm__beam_candidates(beam, &values, &tokens, &lse, &logits, candidates);
    const bool merges = parts > 1;
    const tfm__arg own[] = {TFM__T(values),
                            TFM__T(tokens),
                            TFM__T(lse),
                            TFM__T(logits),
                            TFM__T_AS("scores", beam->scores),
                            TFM__T_AS("limits", beam->limits),
                            TFM__T_AS("prefixes", beam->prefixes),
                            TFM__T_AS("prefix_counts", beam->prefix_counts),
                            TFM__T_AS("penalty", beam->penalty),
                            TFM__T_AS("finished_total", beam->finished_total),
                            TFM__T_AS("finished_token", beam->finished_token),
                            TFM__T_AS("finished_slot", beam->finished_slot),
                            TFM__T_AS("finished_length", beam->finished_length),
                            TFM__T_AS("finished_count", beam->finished_count),
                            TFM__T_AS("remaining", beam->remaining),
                            TFM__I_AS("vocabulary", logits.rank == 1 ? 0 : beam->vocabulary), /* one for all rows */
                            TFM__I_AS("prefix_width", beam->prefix_width),
                            TFM__I_AS("step", beam->step),
                            TFM__T_AS("eos_ids", beam->eos_ids),
                            TFM__I_AS("eos_count", beam->eos_count),
                            TFM__I_AS("max_candidates", beam->candidates),
                            TFM__I_AS("early_stopping", beam->rules->sampling.early_stopping),
                            TFM__I_AS("forced_eos_id", beam->rules->forced_eos_id),
                            TFM__I_AS("certain_first", beam->certain && beam->rules->forced_bos_id >= 0),
                            TFM__I_AS("certain_last", beam->certain),
                            TFM__I_AS("extends", to && to->m == beam->live),
                            TFM__I_AS("needed", beam->needed),
                            TFM__I(parts)}; /* used only when merging */
    const size_t count = TFM__COUNT(own) - !merges;
    tfm__arg all[TFM__COUNT(own) + EXTEND_ARGS];
    memcpy(all, own, sizeof(own));
    if (to)
        extend_args(all + count, beam, next, to, beam->live);
    else
        ragged_args(all + count, beam, next);
    tfm__launch(ctx, tfm__beam_kernel(beam, "beam_step", merges ? " -DMERGE_TOPK" : ""), tfm__row_grid(ctx, beam->live),
                count + (size_t)(to ? EXTEND_ARGS : RAGGED_ARGS), all);
}

/* Makes the next rows if finished sentences leave the batch. */
static void extend_rows(tfm__beam *beam, const continuations *next, next_rows *to) {
    tfm_context *ctx = beam->ctx;
    tfm__arg args[EXTEND_ARGS];
    to->keep = tfm__beam_ints(ctx, to->m);
    tfm__launch(ctx, tfm__kernel_get(ctx, "beam", "beam_compact", ""), TFM__GRID_1D(1, 1),
                TFM__ARGS(TFM__T_AS("done", beam->done), TFM__T_AS("keep", to->keep), TFM__I_AS("n", beam->live),
                          TFM__I_AS("m", to->m)));
    extend_args(args, beam, next, to, to->m);
    tfm__launch(ctx, tfm__beam_kernel(beam, "beam_extend", ""), tfm__row_grid(ctx, to->m), EXTEND_ARGS, args);
}

static void replace(tfm_context *ctx, tfm_tensor *old, tfm_tensor fresh) {
    tfm_tensor_free(ctx, old);
    *old = fresh;
}

/* Replaces the rows by the next step's. */
static tfm_status commit_rows(tfm__beam *beam, const next_rows *to) {
    tfm_context *ctx = beam->ctx;
    replace(ctx, &beam->tokens, to->tokens);
    replace(ctx, &beam->scores, to->scores);
    replace(ctx, &beam->block_table, to->block_table);
    replace(ctx, &beam->sentences, to->sentences);
    replace(ctx, &beam->done, to->done);
    replace(ctx, &beam->sources, to->sources);
    replace(ctx, &beam->lengths, to->lengths);
    replace(ctx, &beam->positions, to->positions);
    beam->slot = to->next_slot;
    beam->live = to->m;
    beam->rows = to->rows;
    beam->step++;
    return tfm_scope_close(ctx, 13,
                           (tfm_tensor *[]){&beam->tokens, &beam->chosen_tokens, &beam->scores, &beam->block_table,
                                            &beam->sentences, &beam->done, &beam->sources, &beam->starts,
                                            &beam->lengths, &beam->positions, &beam->slot_token, &beam->slot_parent,
                                            &beam->slot_score});
}

/* Reports the live sentences to the caller. */
static void keep_present(const tfm__beam *beam, tfm_tensor keep, int64_t live) {
    int32_t *host = beam->present && live > 0 ? tfm__alloc((size_t)beam->live, sizeof(*host)) : NULL;
    if (host && tfm_tensor_read(beam->ctx, host, keep) == TFM_OK)
        for (int64_t i = 0; i < live; i++)
            beam->present[i] = beam->present[host[i]];
    else if (beam->present && live > 0 && !host)
        tfm__context_fail(beam->ctx, TFM_ERROR_MEMORY, "search: out of host memory for %lld sentences",
                          (long long)beam->live);
    free(host);
}

/* A step of ragged rows. The host waits, since the number of next rows is known only afterwards. */
static tfm_status advance_ragged(tfm__beam *beam, tfm_tensor logits) {
    enum { SENTENCES, ROWS, OLDEST, TOTALS };
    tfm_context *ctx = beam->ctx;
    const int64_t most = beam->live * beam->width;
    int32_t left[TOTALS] = {0};
    tfm_scope_open(ctx);
    const continuations next = {tfm__beam_ints(ctx, most), tfm__beam_ints(ctx, most), tfm__beam_floats(ctx, most),
                                tfm__beam_ints(ctx, beam->live)};
    const tfm_tensor keep = tfm__beam_ints(ctx, beam->live), starts = tfm__beam_ints(ctx, beam->live + 1),
                     totals = tfm__beam_ints(ctx, TOTALS);
    choose_rows(beam, &next, NULL, logits);
    tfm__launch(ctx, tfm__kernel_get(ctx, "beam", "beam_row_starts", ""), TFM__GRID_1D(1, 1),
                TFM__ARGS(TFM__T_AS("next_live", next.live), TFM__T_AS("admitted_step", beam->began),
                          TFM__T_AS("sentences", beam->sentences), TFM__T(keep), TFM__T(starts), TFM__T(totals),
                          TFM__I_AS("n", beam->live)));
    if (tfm_tensor_read(ctx, left, totals) != TFM_OK || left[SENTENCES] == 0) {
        beam->slot += beam->rows;
        beam->live = beam->rows = 0;
        beam->step++;
        return tfm_scope_close(ctx, 0, NULL);
    }
    keep_present(beam, keep, left[SENTENCES]);
    next_rows to = make_rows(beam, left[SENTENCES], left[ROWS], beam->past_columns + beam->step + 2 - left[OLDEST]);
    to.keep = keep;
    replace(ctx, &beam->starts, starts);
    tfm__arg args[] = {[EXTEND_ARGS] = TFM__T_AS("starts", beam->starts),
                       TFM__T_AS("admitted_step", beam->began),
                       TFM__T_AS("lengths", to.lengths),
                       TFM__T_AS("positions", to.positions),
                       TFM__I_AS("columns", to.block_table.dims[1]),
                       TFM__I_AS("old_columns", beam->block_table.dims[1])};
    extend_args(args, beam, &next, &to, to.m);
    tfm__launch(ctx, tfm__beam_kernel(beam, "beam_extend", ""), tfm__row_grid(ctx, to.m), TFM__COUNT(args), args);
    return commit_rows(beam, &to);
}

tfm_status tfm__beam_advance(tfm__beam *beam, tfm_tensor logits, int64_t keep) {
    tfm_context *ctx = beam->ctx;
    if (beam->ragged)
        return advance_ragged(beam, logits);
    tfm_scope_open(ctx);
    const continuations next = {.token = tfm__beam_ints(ctx, beam->rows),
                                .parent = tfm__beam_ints(ctx, beam->rows),
                                .score = tfm__beam_floats(ctx, beam->rows)};
    next_rows to = make_rows(beam, keep, keep * beam->width, beam->past_columns + beam->step + 2);
    choose_rows(beam, &next, &to, logits);
    if (keep < beam->live)
        extend_rows(beam, &next, &to);
    if (beam->hf_search)
        replace(ctx, &beam->chosen_tokens, next.token);
    return commit_rows(beam, &to);
}

tfm_status tfm__beam_stop(tfm__beam *beam, const int32_t *stops) {
    tfm_context *ctx = beam->ctx;
    tfm_scope_open(ctx);
    const tfm_tensor flags = tfm__beam_ints_of(ctx, stops, beam->total);
    tfm__launch(
        ctx, tfm__kernel_get(ctx, "beam", "beam_stop_sentences", ""), tfm__beam_items(ctx, beam->live),
        TFM__ARGS(TFM__T_AS("stops", flags), TFM__T_AS("sentences", beam->sentences), TFM__T_AS("tokens", beam->tokens),
                  TFM__T_AS("scores", beam->scores), TFM__T_AS("slot_parent", beam->slot_parent),
                  TFM__T_AS("done", beam->done), TFM__T_AS("remaining", beam->remaining),
                  TFM__T_AS("finished_total", beam->finished_total), TFM__T_AS("finished_token", beam->finished_token),
                  TFM__T_AS("finished_slot", beam->finished_slot), TFM__T_AS("finished_length", beam->finished_length),
                  TFM__T_AS("finished_count", beam->finished_count), TFM__I_AS("live", beam->live),
                  TFM__I_AS("slot", beam->slot), TFM__I_AS("step", beam->step)));
    return tfm_scope_close(ctx, 0, NULL);
}
