/* Steps of decoding that are recorded. A step is then in another form: its rows lie in two sets of tensors that take
 * turns, and what differs from step to step lies in them (cl/steps.cl), since a recording has its arguments for good.
 *
 *     what differs                                  in memory
 *     how many keys a row sees                      `lengths`; its table has room for as many as the next multiple of
 *                                                   TFM__TABLE_ROOM, and with that the grids stay the same
 *     the position                                  `positions`, and `place`, which is added to the embedding
 *     where in the log keys and values are written  `stage`, always; steps_end copies them to their nodes
 *     the number of the step, the rows' nodes       `now`
 *
 * The form is entered when a few steps have had the same rows and enough of them come before the table is full, and
 * left when it is, or when sentences leave the batch. Its first two steps run as ever and are recorded, in two parts
 * each, between which the host looks at what remains; the others are recordings. Results are the same to the bit. It is
 * entered only where the table of `tfm tune` says so (recorded_proof.c). */
#include "model/generate/recorded.h"
#include "model/places.h"
#include "ops/attention.h"
#include "ops/ops.h"

/* Steps with the same rows before the form is entered, and those that must be left for it. */
enum { ALIKE = 2, LEAST = 8, LOGS = 16 };
enum { LOGITS_PART = 0, CHOICE_PART = 1 };

/* Columns of a row's line in the table. */
static int64_t past_of(const tfm__beam *beam) {
    return beam->before + beam->step + 1;
}

/* How long texts may become until the form is left. */
static int64_t longest_text(const tfm__recorded *r) {
    const int64_t most = r->model->arch.decoder.max_positions;
    return r->turns.room < most ? r->turns.room : most;
}

void tfm__recorded_begin(tfm__recorded *r, tfm_model *model, tfm__beam *beam, tfm_kv_cache *cache, int64_t longest) {
    *r = (tfm__recorded){.model = model,
                         .beam = beam,
                         .cache = cache,
                         .longest = longest,
                         .on =
                             !beam->screened.screen && tfm__context_records(model->ctx) && tfm__recorded_serves(model)};
}

/* ---- The form ---------------------------------------------------------------------------------------------------- */

/* The table, with its last column from `newest` on; for rows that begin a turn, their numbers too. */
static void lay(tfm__recorded *r, tfm_tensor to, tfm_tensor from, const tfm__beam_rows *begin, int64_t newest) {
    static const tfm__beam_rows none;
    const tfm__beam *beam = r->beam;
    const int64_t rows = beam->rows;
    if (!begin)
        begin = &none;
    tfm__launch(beam->ctx, tfm__kernel_get(beam->ctx, "steps", "steps_lay", ""), tfm__row_grid(beam->ctx, rows),
                TFM__ARGS(TFM__T(to), TFM__T(from), TFM__T_AS("now", begin->now), TFM__T_AS("lengths", begin->lengths),
                          TFM__T_AS("positions", begin->positions), TFM__I(rows), TFM__I_AS("to_room", to.dims[1]),
                          TFM__I_AS("from_room", from.dims[1]), TFM__I(newest), TFM__I_AS("step", beam->step),
                          TFM__I_AS("past", past_of(beam)), TFM__I_AS("node", beam->node)));
}

/* The tensors of a turn; those that the beam has stay its own in the first one. */
static void make_rows(tfm__beam_rows *out, const tfm__recorded *r, const tfm__beam *own, tfm_tensor places) {
    tfm_context *ctx = r->beam->ctx;
    const int64_t live = r->beam->live, rows = r->beam->rows;
    *out = (tfm__beam_rows){.chosen = tfm__beam_ints(ctx, rows),
                            .now = tfm__beam_ints(ctx, 3),
                            .lengths = tfm__beam_ints(ctx, rows),
                            .tokens = own ? own->tokens : tfm__beam_ints(ctx, rows),
                            .scores = own ? own->scores : tfm__beam_floats(ctx, rows),
                            .sentences = own ? own->sentences : tfm__beam_ints(ctx, live),
                            .done = own ? own->done : tfm__beam_ints(ctx, live),
                            .sources = own ? own->sources : tfm__beam_ints(ctx, rows)};
    tfm_tensor_new(ctx, &out->table, TFM_I32, 2, (int64_t[]){rows, r->turns.room});
    tfm_tensor_new(ctx, &out->positions, TFM_I32, 2, (int64_t[]){rows, 1});
    if (places.buffer)
        tfm_tensor_new(ctx, &out->place, TFM_F32, 2, (int64_t[]){1, places.dims[1]});
}

static void free_rows(tfm_context *ctx, tfm__beam_rows *rows, bool shared) {
    tfm_tensor *const all[] = {&rows->table,     &rows->now,    &rows->lengths, &rows->positions,
                               &rows->place,     &rows->chosen, &rows->tokens,  &rows->scores,
                               &rows->sentences, &rows->done,   &rows->sources};
    for (size_t i = 0; i < (shared ? 5 : TFM__COUNT(all)); i++)
        tfm_tensor_free(ctx, all[i]);
}

/* Where a log that has room for so many, and doubles where that is not enough, has room for `needed`. */
static int64_t doubled(int64_t room, int64_t needed) {
    while (room < needed)
        room *= 2;
    return room;
}

/* All that the form takes. The logs get the sizes that launched steps would come to, one after the other: so a text
 * whose steps are recorded needs no more of them. */
static void make(tfm__recorded *r, tfm_tensor places) {
    tfm__beam *beam = r->beam;
    const int64_t rows = beam->rows, left = r->longest - beam->step, columns = r->turns.room - past_of(beam) + 1;
    const int64_t steps = columns < left ? columns : left;
    tfm_kv_cache *cache = r->cache;
    tfm_kv_cache_reserve(beam->ctx, cache, doubled(cache->capacity, cache->rows + (steps + 1) * rows) - cache->rows);
    tfm__beam_reserve(beam, steps);
    tfm__places_turn(r->model, &r->model->decoder, &r->model->arch.decoder, longest_text(r), longest_text(r));
    r->turns.stage = cache->capacity - rows;
    make_rows(&r->turns.rows[0], r, beam, places);
    make_rows(&r->turns.rows[1], r, NULL, places);
}

static void enter(tfm__recorded *r) {
    tfm_model *model = r->model;
    tfm__beam *beam = r->beam;
    tfm_context *ctx = beam->ctx;
    const int64_t past = past_of(beam);
    const tfm_tensor places = tfm__model_positions(model);
    const int depth = tfm__scope_depth(ctx);
    tfm_tensor place = {0};
    r->entered = true;
    make(r, places);
    if (tfm_context_status(ctx) == TFM_ERROR_MEMORY) { /* both logs stay as they were, and grow step by step */
        free_rows(ctx, &r->turns.rows[0], true);
        tfm_tensor_free(ctx, &r->turns.rows[0].chosen);
        free_rows(ctx, &r->turns.rows[1], false);
        tfm__context_recover(ctx, depth);
        tfm__log(TFM_LOG_INFO, "there is no memory for steps that are recorded: they are launched");
        r->on = false;
        return;
    }
    if (places.buffer) {
        tfm_tensor_rows(ctx, &place, places, past - 1, 1);
        tfm__tensor_copy(ctx, r->turns.rows[0].place, place);
    }
    lay(r, r->turns.rows[0].table, beam->table, &r->turns.rows[0], r->turns.stage);
    tfm_tensor_free(ctx, &beam->table);
    r->old_chosen = beam->chosen;
    beam->table = r->turns.rows[0].table;
    r->turns.turn = 0;
    beam->turns = &r->turns;
}

/* Goes back to rows that are made anew step by step. *logits are those of the step that is under way, and the caller's
 * from here on; NULL after the last step, when nobody needs a table. */
static void leave(tfm__recorded *r, const tfm_tensor *logits) {
    tfm__beam *beam = r->beam;
    tfm_context *ctx = beam->ctx;
    tfm__beam_turns *turns = &r->turns;
    tfm_tensor table = {0};
    if (logits) {
        tfm_tensor_new(ctx, &table, TFM_I32, 2, (int64_t[]){beam->rows, past_of(beam)});
        lay(r, table, beam->table, NULL, beam->node);
    }
    tfm__recording_free(ctx, &r->recording);
    for (int i = 0; i < 2; i++) {
        if (!logits || r->logits[i].buffer != logits->buffer)
            tfm_tensor_free(ctx, &r->logits[i]);
        r->logits[i] = (tfm_tensor){0};
        r->whole[2 * i] = r->whole[2 * i + 1] = false;
    }
    if (beam->chosen.buffer == turns->rows[turns->turn].chosen.buffer)
        tfm_tensor_free(ctx, &r->old_chosen);
    else
        tfm_tensor_free(ctx, &turns->rows[turns->turn].chosen);
    free_rows(ctx, &turns->rows[turns->turn], true);
    free_rows(ctx, &turns->rows[!turns->turn], false);
    beam->table = table;
    beam->turns = NULL;
}

/* Whether the steps from this one on are worth it; turns.room is then what they need. */
static bool worth(tfm__recorded *r) {
    const tfm__beam *beam = r->beam;
    const int64_t past = past_of(beam), room = tfm__divide_up(past, TFM__TABLE_ROOM) * TFM__TABLE_ROOM;
    r->turns.room = room;
    return r->on && !beam->ragged && r->alike >= ALIKE && room - past >= LEAST && r->longest - beam->step >= LEAST &&
           tfm__beam_steady(beam) && tfm__model_turns_alike(r->model, past - 1, longest_text(r)) &&
           tfm__recorded_wanted(r->model, beam->rows);
}

/* ---- Steps ------------------------------------------------------------------------------------------------------- */

void tfm__recorded_fit(const tfm__recorded *r, tfm__step *step) {
    if (!r->beam->turns)
        return;
    const tfm__beam_rows *rows = &r->turns.rows[r->turns.turn];
    step->node = r->turns.stage;
    step->lengths = rows->lengths;
    step->place = rows->place;
    step->length = longest_text(r);
    if (step->positions.buffer)
        step->place = (tfm_tensor){0}; /* rows have their own */
    else
        step->positions = rows->positions;
}

/* What the step wrote goes to its nodes, and the other turn gets its numbers. */
static void end_step(tfm__recorded *r) {
    const tfm__beam *beam = r->beam;
    tfm_context *ctx = beam->ctx;
    const tfm__beam_rows *own = &r->turns.rows[r->turns.turn], *other = &r->turns.rows[!r->turns.turn];
    const tfm_tensor places = tfm__model_positions(r->model);
    const int64_t rows = beam->rows, width = r->cache->width, all = 2 * (int64_t)r->cache->layers;
    const bool narrow = all > 0 && r->cache->logs[0].keys.dtype != TFM_F32;
    tfm__kernel *kernel = tfm__kernel_get(ctx, "steps", "steps_end", " -DPLACED=%s", narrow ? "ushort" : "uint");
    for (int64_t first = 0; first < all; first += LOGS) {
        static const tfm__beam_rows none;
        const int64_t logs = all - first < LOGS ? all - first : LOGS;
        const tfm__beam_rows *next = first == 0 ? other : &none;
        tfm_tensor log[LOGS] = {{0}};
        for (int64_t i = 0; i < logs; i++) {
            const tfm_keys_values *both = &r->cache->logs[(first + i) / 2];
            log[i] = (first + i) % 2 ? both->values : both->keys;
        }
        tfm__launch(ctx, kernel, tfm__row_grid(ctx, logs * rows + 1),
                    TFM__ARGS(TFM__T_AS("log_0", log[0]), TFM__T_AS("log_1", log[1]), TFM__T_AS("log_2", log[2]),
                              TFM__T_AS("log_3", log[3]), TFM__T_AS("log_4", log[4]), TFM__T_AS("log_5", log[5]),
                              TFM__T_AS("log_6", log[6]), TFM__T_AS("log_7", log[7]), TFM__T_AS("log_8", log[8]),
                              TFM__T_AS("log_9", log[9]), TFM__T_AS("log_10", log[10]), TFM__T_AS("log_11", log[11]),
                              TFM__T_AS("log_12", log[12]), TFM__T_AS("log_13", log[13]), TFM__T_AS("log_14", log[14]),
                              TFM__T_AS("log_15", log[15]), TFM__T_AS("now", own->now),
                              TFM__T_AS("next_now", next->now), TFM__T_AS("next_lengths", next->lengths),
                              TFM__T_AS("next_positions", next->positions), TFM__T_AS("next_place", next->place),
                              TFM__T_AS("places", places), TFM__I(logs), TFM__I(rows), TFM__I(width),
                              TFM__I_AS("stage", r->turns.stage),
                              TFM__I_AS("width_place", places.buffer ? places.dims[1] : 0),
                              TFM__I_AS("positions", places.buffer ? places.dims[0] : 0)));
    }
}

/* Ends the recording of a part; where it came to nothing, no step is recorded any more. */
static void end_part(tfm__recorded *r, int part) {
    r->whole[part] = tfm__recording_end(r->beam->ctx, r->recording);
    r->on = r->on && r->whole[part];
}

tfm_status tfm__recorded_step(tfm__recorded *r, tfm_tensor *logits, tfm__step_fn run, void *user) {
    tfm__beam *beam = r->beam;
    tfm_context *ctx = beam->ctx;
    r->alike = beam->live == r->live ? r->alike + 1 : 0;
    r->live = beam->live;
    if (!beam->turns && tfm_context_status(ctx) == TFM_OK && worth(r))
        enter(r);
    if (!beam->turns)
        return run(user, logits);
    const int turn = r->turns.turn, part = 2 * turn + LOGITS_PART;
    if (r->on && r->whole[part]) { /* once given up, the blocks of parts that were whole are no longer theirs */
        *logits = r->logits[turn];
        r->cache->rows += beam->rows;
        return tfm__recording_run(ctx, r->recording, part);
    }
    tfm_tensor_free(ctx, &r->logits[turn]); /* of a part that was whole */
    tfm__recording_begin(ctx, &r->recording, part);
    run(user, logits);
    end_step(r);
    end_part(r, part);
    r->logits[turn] = *logits;
    return tfm_context_status(ctx);
}

tfm_status tfm__recorded_advance(tfm__recorded *r, tfm_tensor *logits, int64_t keep) {
    tfm__beam *beam = r->beam;
    tfm_context *ctx = beam->ctx;
    if (beam->turns && (keep < beam->live || past_of(beam) == r->turns.room || !r->on))
        leave(r, logits);
    if (!beam->turns) {
        tfm__beam_advance(beam, *logits, keep);
        tfm_tensor_free(ctx, logits);
        return tfm_context_status(ctx);
    }
    const int part = 2 * r->turns.turn + CHOICE_PART;
    if (r->whole[part]) {
        tfm__recording_run(ctx, r->recording, part);
        tfm__beam_take_turn(beam);
    } else {
        tfm__recording_begin(ctx, &r->recording, part);
        tfm__beam_advance(beam, *logits, keep);
        end_part(r, part);
    }
    *logits = (tfm_tensor){0};
    return tfm_context_status(ctx);
}

void tfm__recorded_end(tfm__recorded *r) {
    if (r->beam->turns)
        leave(r, NULL);
    tfm__recorded_over(r->model->ctx, r->entered);
}
