/* Admits sentences during a search: their rows follow the existing ones. The host knows the number of rows, since it
 * waits for each step of ragged rows. */
#include <string.h>
#include "model/decode/beam.h"
#include "nn/kv_cache.h"
#include "ops/ops.h"

bool tfm__beam_joins(const tfm__beam_setup *setup) {
    const bool samples = setup->sampling && setup->sampling->do_sample,
               counts_steps =
                   setup->sampling && (setup->sampling->min_new_tokens > 0 || setup->sampling->length_decay != 0);
    const bool uses_source = setup->sampling && tfm__sampling_uses_source(setup->sampling);
    return setup->ragged && !setup->hf_search && !setup->shortlist && !setup->past && !samples && !counts_steps &&
           !uses_source && setup->rules->begin_suppress_count == 0;
}

/* Uploads the numbers of the new sentences, in the kernel's layout. */
static tfm_tensor put_arrivals(const tfm__beam *beam, const tfm__beam_arrivals *a) {
    const size_t count = (size_t)a->count, wide = count * (size_t)beam->prefix_width, all = 3 * count + wide;
    tfm_tensor out = {0};
    int32_t *host = tfm__alloc(all, sizeof(*host));
    if (host) {
        memcpy(host, a->places, count * sizeof(*host));
        memcpy(host + count, a->limits, count * sizeof(*host));
        memcpy(host + 2 * count, a->prefix_counts, count * sizeof(*host));
        memcpy(host + 3 * count, a->prefixes, wide * sizeof(*host));
        out = tfm__beam_ints_of(beam->ctx, host, (int64_t)all);
    } else {
        tfm__context_fail(beam->ctx, TFM_ERROR_MEMORY, "search: out of host memory for %zu sentences", count);
    }
    free(host);
    return out;
}

/* Allocates the state of sentences admitted at different steps. */
static void make_room(tfm__beam *beam, const tfm__beam_arrivals *arrivals) {
    tfm_context *ctx = beam->ctx;
    tfm__beam_grow(beam, beam->slot + beam->rows + arrivals->count);
    if (!beam->began.buffer) {
        const int32_t first = 0;
        beam->began = tfm__beam_ints(ctx, beam->total);
        tfm__tensor_fill(ctx, beam->began, &first);
    }
    if (arrivals->longest + 1 > beam->penalty.dims[0]) {
        tfm_tensor_free(ctx, &beam->penalty);
        beam->penalty = tfm__beam_floats(ctx, arrivals->longest + 1);
        tfm_tensor_write(ctx, beam->penalty, arrivals->penalty);
    }
}

static void launch(tfm__beam *beam, const tfm__beam *all, tfm_tensor arrivals, int64_t more) {
    tfm__launch(beam->ctx, tfm__kernel_get(beam->ctx, "fed", "fed_join", ""),
                tfm__row_grid(beam->ctx, beam->rows + more),
                TFM__ARGS(TFM__T(arrivals), TFM__T_AS("tokens", beam->tokens), TFM__T_AS("scores", beam->scores),
                          TFM__T_AS("block_table", beam->block_table), TFM__T_AS("lengths", beam->lengths),
                          TFM__T_AS("sources", beam->sources), TFM__T_AS("sentences", beam->sentences),
                          TFM__T_AS("starts", beam->starts), TFM__T_AS("all_tokens", all->tokens),
                          TFM__T_AS("all_scores", all->scores), TFM__T_AS("all_block_table", all->block_table),
                          TFM__T_AS("all_lengths", all->lengths), TFM__T_AS("positions", all->positions),
                          TFM__T_AS("all_sources", all->sources), TFM__T_AS("all_sentences", all->sentences),
                          TFM__T_AS("all_starts", all->starts), TFM__T_AS("done", all->done),
                          TFM__T_AS("admitted_step", beam->began), TFM__T_AS("limits", beam->limits),
                          TFM__T_AS("prefix_counts", beam->prefix_counts), TFM__T_AS("prefixes", beam->prefixes),
                          TFM__T_AS("finished_total", beam->finished_total),
                          TFM__T_AS("finished_length", beam->finished_length),
                          TFM__T_AS("finished_count", beam->finished_count), TFM__T_AS("slot_token", beam->slot_token),
                          TFM__T_AS("slot_parent", beam->slot_parent), TFM__T_AS("slot_score", beam->slot_score),
                          TFM__I_AS("rows", beam->rows), TFM__I(more), TFM__I_AS("live", beam->live),
                          TFM__I_AS("columns", beam->block_table.dims[1]), TFM__I_AS("step", beam->step),
                          TFM__I_AS("slot", beam->slot), TFM__I_AS("start", beam->rules->start_id),
                          TFM__I_AS("beam", beam->width), TFM__I_AS("prefix_width", beam->prefix_width)));
}

tfm_status tfm__beam_join(tfm__beam *beam, const tfm__beam_arrivals *arrivals) {
    tfm_context *ctx = beam->ctx;
    const int64_t more = arrivals->count, rows = beam->rows + more, live = beam->live + more;
    make_room(beam, arrivals);
    tfm_tensor numbers = put_arrivals(beam, arrivals);
    tfm__beam all = {.tokens = tfm__beam_ints(ctx, rows),
                     .scores = tfm__beam_floats(ctx, rows),
                     .lengths = tfm__beam_ints(ctx, rows),
                     .sources = tfm__beam_ints(ctx, rows),
                     .sentences = tfm__beam_ints(ctx, live),
                     .starts = tfm__beam_ints(ctx, live + 1),
                     .done = tfm__beam_ints(ctx, live)};
    tfm_tensor_new(ctx, &all.block_table, TFM_I32, 2, (int64_t[]){rows, beam->block_table.dims[1]});
    tfm_tensor_new(ctx, &all.positions, TFM_I32, 2, (int64_t[]){rows, 1});
    launch(beam, &all, numbers, more);
    tfm_tensor_free(ctx, &numbers);
    tfm_tensor *const old[] = {&beam->tokens, &beam->scores, &beam->lengths,     &beam->sources,  &beam->sentences,
                               &beam->starts, &beam->done,   &beam->block_table, &beam->positions};
    const tfm_tensor fresh[] = {all.tokens, all.scores, all.lengths,     all.sources,  all.sentences,
                                all.starts, all.done,   all.block_table, all.positions};
    for (size_t i = 0; i < TFM__COUNT(old); i++) {
        tfm_tensor_free(ctx, old[i]);
        *old[i] = fresh[i];
    }
    for (int64_t i = 0; i < more; i++)
        beam->present[beam->live + i] = arrivals->places[i];
    beam->rows = rows;
    beam->live = live;
    return tfm_context_status(ctx);
}

/* ---- Compaction -------------------------------------------------------------------------------------------------- */

/* A host copy of x; NULL after a failure. */
static void *copy(tfm_context *ctx, tfm_tensor x) {
    const size_t count = tfm_tensor_count(x);
    void *host = tfm__alloc(count, tfm_dtype_size(x.dtype));
    if (!host)
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "search: out of host memory for %zu numbers of its slots", count);
    else
        tfm_tensor_read(ctx, host, x);
    if (host && tfm_context_status(ctx) == TFM_OK)
        return host;
    free(host);
    return NULL;
}

/* The slots on the host, and all references to them. */
typedef struct slots {
    int32_t *token, *parent, *block_table, *lengths, *finished, *counts;
    float *score;
    int32_t *moved; /* [used]: new index of each slot, or -1; then, from the front, the slots kept */
    int64_t used, stay;
} slots;

static void slots_free(slots *n) {
    void *all[] = {n->token, n->parent, n->block_table, n->lengths, n->finished, n->counts, n->score, n->moved};
    for (size_t i = 0; i < TFM__COUNT(all); i++)
        free(all[i]);
}

static bool slots_read(slots *n, tfm__beam *beam) {
    tfm_context *ctx = beam->ctx;
    tfm_tensor token = {0}, parent = {0}, score = {0};
    *n = (slots){.used = beam->slot + beam->rows};
    tfm_tensor_rows(ctx, &token, beam->slot_token, 0, n->used);
    tfm_tensor_rows(ctx, &parent, beam->slot_parent, 0, n->used);
    tfm_tensor_rows(ctx, &score, beam->slot_score, 0, n->used);
    n->token = copy(ctx, token);
    n->parent = copy(ctx, parent);
    n->score = copy(ctx, score);
    n->block_table = copy(ctx, beam->block_table);
    n->lengths = beam->lengths.buffer ? copy(ctx, beam->lengths) : NULL;
    n->finished = copy(ctx, beam->finished_slot);
    n->counts = copy(ctx, beam->finished_length);
    n->moved = tfm__alloc((size_t)n->used, sizeof(*n->moved));
    if (!n->moved)
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "search: out of host memory for %lld slots", (long long)n->used);
    return tfm_context_status(ctx) == TFM_OK;
}

/* Marks the pasts of all rows, and the hypotheses of live sentences. */
static void slots_mark(slots *n, const tfm__beam *beam) {
    const int64_t columns = beam->block_table.dims[1];
    for (int64_t row = 0; row < beam->rows; row++)
        for (int64_t i = 0; i < (n->lengths ? n->lengths[row] : columns); i++)
            n->moved[n->block_table[row * columns + i]] = 1;
    for (int64_t i = 0; i < beam->live * beam->width; i++) {
        const int64_t entry = beam->present[i / beam->width] * beam->width + i % beam->width;
        for (int32_t slot = n->counts[entry] > 0 ? n->finished[entry] : -1; slot >= 0 && !n->moved[slot];
             slot = n->parent[slot])
            n->moved[slot] = 1;
    }
}

/* Assigns new indices to marked slots, in order, and updates all references. */
static void slots_move(slots *n, const tfm__beam *beam) {
    const int64_t columns = beam->block_table.dims[1], entries = beam->total * beam->width;
    for (int64_t i = 0; i < n->used; i++)
        n->moved[i] = n->moved[i] ? (int32_t)n->stay++ : -1;
    for (int64_t row = 0; row < beam->rows; row++)
        for (int64_t i = 0; i < columns; i++) {
            int32_t *slot = &n->block_table[row * columns + i];
            *slot = i < (n->lengths ? n->lengths[row] : columns) ? n->moved[*slot] : 0;
        }
    for (int64_t i = 0; i < entries; i++)
        n->finished[i] = n->counts[i] > 0 && n->moved[n->finished[i]] >= 0 ? n->moved[n->finished[i]] : 0;
    for (int64_t i = 0; i < n->used; i++) {
        const int32_t to = n->moved[i];
        if (to < 0)
            continue;
        n->token[to] = n->token[i];
        n->score[to] = n->score[i];
        n->parent[to] = n->parent[i] < 0 ? -1 : n->moved[n->parent[i]];
    }
    for (int64_t i = 0, at = 0; i < n->used; i++)
        if (n->moved[i] >= 0)
            n->moved[at++] = (int32_t)i;
}

static void write_front(tfm_context *ctx, tfm_tensor to, const void *host, int64_t count) {
    tfm_tensor front = {0};
    tfm_tensor_rows(ctx, &front, to, 0, count);
    tfm_tensor_write(ctx, front, host);
}

/* Counts steps from the oldest live sentence's admission, so that the numbers stay small. */
static void rebase_steps(tfm__beam *beam) {
    tfm_context *ctx = beam->ctx;
    int32_t *began = beam->began.buffer ? copy(ctx, beam->began) : NULL, oldest = INT32_MAX;
    for (int64_t i = 0; began && i < beam->live; i++)
        oldest = began[beam->present[i]] < oldest ? began[beam->present[i]] : oldest;
    for (int64_t i = 0; began && i < beam->total; i++)
        began[i] = began[i] < oldest ? 0 : began[i] - oldest; /* irrelevant for finished sentences */
    if (began) {
        tfm_tensor_write(ctx, beam->began, began);
        beam->step -= oldest;
    }
    free(began);
}

tfm_status tfm__beam_tidy(tfm__beam *beam, tfm_kv_cache *cache) {
    tfm_context *ctx = beam->ctx;
    slots n;
    tfm_scope_open(ctx);
    if (slots_read(&n, beam)) {
        slots_mark(&n, beam);
        slots_move(&n, beam);
        const int64_t past = n.stay - beam->rows; /* each row's own slot is marked, but not written yet */
        write_front(ctx, beam->slot_token, n.token, n.stay);
        write_front(ctx, beam->slot_parent, n.parent, n.stay);
        write_front(ctx, beam->slot_score, n.score, n.stay);
        tfm_tensor_write(ctx, beam->block_table, n.block_table);
        tfm_tensor_write(ctx, beam->finished_slot, n.finished);
        if (past > 0)
            tfm__kv_cache_compact(ctx, cache, tfm__beam_ints_of(ctx, n.moved, past));
        beam->slot = past;
        cache->slots = past;
        rebase_steps(beam);
    }
    slots_free(&n);
    return tfm_scope_close(ctx, 0, NULL);
}
