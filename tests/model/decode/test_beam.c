/* Beam search against a host oracle in double precision without pruning: the rule of the paper's search as in the
 * README, over synthetic distributions. Shows that dropped rows change nothing. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dev/dev.h"
#include "support/harness.h"
#include "model/decode/beam.h"

enum { VOCABULARY = 61, END = 3, MOST_BEAM = 24, MOST_TOKENS = 40, MOST_SENTENCES = 40 };

/* One search. */
typedef struct setting {
    int width, n_best, sentences;
    int shortest, longest; /* length limits of the sentences */
    double alpha;
    double end;       /* likelihood of an end */
    float sharp;      /* scale of the logits; 0: 1 */
    bool huggingface; /* lp(n) is n^alpha, and forced tokens have probability 1 */
    bool forced_end, prefixes;
    bool early; /* the distributions of `early_logits`, which ignore the other fields */
    int places; /* sentences at a time; others are admitted as some end; 0: all from the start */
} setting;

/* ---- Distributions ---------------------------------------------------------------------------------------------- */

static uint64_t mixed(uint64_t x) {
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdULL;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ULL;
    return x ^ x >> 33;
}

/* A short text, and a better one that is longer by a token; between them an end of the least likely row, which stops
 * the rule too early for negative alpha: 10, 11 and 12 are x, y and z, and the ends are after nothing, y, and xz. */
static void early_logits(float *out, const int32_t *tokens, int count) {
    const double likely[][3] = {{0.497, 0.301, 0.05}, {0.95, 0.04, 0}, {0, 0.905, 0}, {0, 0.98, 0}};
    const int which = count == 0 ? 0 : count == 1 && tokens[0] == 10 ? 1 : count == 1 && tokens[0] == 11 ? 2 : 3;
    const int32_t ids[][3] = {{10, END, 11}, {12, 13, 14}, {14, END, 15}, {14, END, 15}};
    for (int v = 0; v < VOCABULARY; v++)
        out[v] = -9;
    for (int i = 0; i < 3; i++)
        if (likely[which][i] > 0)
            out[ids[which][i]] = (float)log(likely[which][i]);
}

/* Logits after `count` tokens of a sentence: 0 to 4, except an end's, which grows. */
static void logits_of(float *out, const setting *s, int sentence, const int32_t *tokens, int count) {
    uint64_t state = mixed((uint64_t)sentence + 77);
    if (s->early) {
        early_logits(out, tokens, count);
        return;
    }
    for (int i = 0; i < count; i++)
        state = mixed(state * 31 + (uint64_t)tokens[i] + 1);
    for (int v = 0; v < VOCABULARY; v++)
        out[v] = (float)(mixed(state + (uint64_t)v * 1000003) >> 40) * 0x1p-22f * (s->sharp != 0 ? s->sharp : 1);
    out[END] += (float)(s->end + 0.3 * count);
}

static void log_probs_of(double *out, const setting *s, int sentence, const int32_t *tokens, int count) {
    float logits[VOCABULARY];
    double sum = 0;
    logits_of(logits, s, sentence, tokens, count);
    for (int v = 0; v < VOCABULARY; v++)
        sum += exp((double)logits[v]);
    for (int v = 0; v < VOCABULARY; v++)
        out[v] = (double)logits[v] - log(sum);
}

static double penalty_of(const setting *s, int n) {
    return s->huggingface ? pow(n > 0 ? n : 1, s->alpha) : pow((5.0 + n) / 6, s->alpha);
}

static int limit_of(const setting *s, int sentence) {
    return s->shortest + (int)(mixed((uint64_t)sentence) % (uint64_t)(s->longest - s->shortest + 1));
}

static int prefix_of(const setting *s, int sentence) {
    return s->prefixes ? sentence % 3 : 0;
}

/* ---- The oracle -------------------------------------------------------------------------------------------------- */

typedef struct line {
    int32_t tokens[MOST_TOKENS];
    int count;
    double sum, score;
} line;

typedef struct oracle {
    line live[MOST_BEAM], done[MOST_BEAM];
    int alive, finished;
    double gap; /* the smallest difference behind a decision: rounding may decide otherwise */
} oracle;

static void differ(oracle *o, double a, double b) {
    if (isfinite(a) && isfinite(b) && fabs(a - b) < o->gap)
        o->gap = fabs(a - b);
}

static int worst_of(const oracle *o) {
    int worst = 0;
    for (int i = 1; i < o->finished; i++)
        if (o->done[i].score < o->done[worst].score)
            worst = i;
    return worst;
}

static void finish(oracle *o, const setting *s, const line *found) {
    line done = *found;
    done.score = done.sum / penalty_of(s, done.count);
    if (o->finished < s->width) {
        o->done[o->finished++] = done;
        return;
    }
    const int worst = worst_of(o);
    differ(o, done.score, o->done[worst].score);
    if (done.score > o->done[worst].score)
        o->done[worst] = done;
}

static int larger_sum(const void *a, const void *b) {
    const double x = ((const line *)a)->sum, y = ((const line *)b)->sum;
    return (x < y) - (x > y);
}

static int larger_score(const void *a, const void *b) {
    const double x = ((const line *)a)->score, y = ((const line *)b)->score;
    return (x < y) - (x > y);
}

/* All continuations of the live lines, best first. Returns how many. */
static int continuations(line *out, const oracle *o, const setting *s, int sentence, int step) {
    const bool last = s->forced_end && step + 1 >= limit_of(s, sentence);
    const int forced = last ? END : step < prefix_of(s, sentence) ? 5 + step : -1;
    int count = 0;
    for (int b = 0; b < o->alive; b++) {
        double log_probs[VOCABULARY];
        log_probs_of(log_probs, s, sentence, o->live[b].tokens, step);
        for (int v = forced >= 0 ? forced : 0; v < (forced >= 0 ? forced + 1 : VOCABULARY); v++) {
            out[count] = o->live[b];
            out[count].tokens[out[count].count++] = v;
            out[count++].sum += last && s->huggingface ? 0 : log_probs[v];
        }
    }
    qsort(out, (size_t)count, sizeof(*out), larger_sum);
    return count;
}

static void search(oracle *o, const setting *s, int sentence) {
    static line next[MOST_BEAM * VOCABULARY];
    const int limit = limit_of(s, sentence);
    *o = (oracle){.alive = 1, .gap = INFINITY};
    for (int step = 0; step < limit; step++) {
        const int count = continuations(next, o, s, sentence, step);
        o->alive = 0;
        for (int c = 0; c < count && c < (s->width == 1 ? 1 : 2 * s->width) && o->alive < s->width; c++) {
            if (c + 1 < count)
                differ(o, next[c].sum, next[c + 1].sum);
            if (next[c].tokens[step] == END)
                finish(o, s, &next[c]);
            else
                o->live[o->alive++] = next[c];
        }
        if (o->alive == 0)
            break;
        const double worst = o->finished == s->width ? o->done[worst_of(o)].score : -INFINITY;
        const double hope = o->live[0].sum / penalty_of(s, limit);
        differ(o, worst, hope);
        if (worst >= hope)
            break;
    }
    qsort(o->done, (size_t)o->finished, sizeof(*o->done), larger_score);
    /* Sentences cut by the limit rank after all finished ones. */
    for (int i = o->finished; i < s->width && i - o->finished < o->alive; i++) {
        o->done[i] = o->live[i - o->finished];
        o->done[i].score = o->done[i].sum / penalty_of(s, limit);
    }
}

/* ---- Device search ----------------------------------------------------------------------------------------------- */

/* Logits of all rows of a step, each by its past. `at`: sentence in each slot; NULL: the one of the same number. */
static tfm_tensor row_logits(const tfm__beam *beam, const setting *s, const int *at) {
    tfm_tensor logits = {0}, slots = {0};
    const int64_t dims[] = {beam->rows, VOCABULARY}, columns = beam->block_table.dims[1];
    int32_t *lengths = beam->lengths.buffer ? harness_ints(beam->lengths) : NULL;
    harness_ok(tfm_tensor_rows(beam->ctx, &slots, beam->slot_token, 0, beam->slot + beam->rows));
    int32_t *block_table = harness_ints(beam->block_table), *tokens = harness_ints(slots),
            *sources = harness_ints(beam->sources);
    float *host = calloc((size_t)beam->rows, VOCABULARY * sizeof(*host));
    assert_non_null(host);
    for (int64_t r = 0; r < beam->rows && !harness_poses(); r++) {
        int32_t own[MOST_TOKENS + 1];
        const int64_t past = lengths ? lengths[r] : columns;
        for (int64_t i = 0; i < past; i++)
            own[i] = tokens[block_table[r * columns + i]];
        logits_of(host + r * VOCABULARY, s, at ? at[sources[r]] : sources[r], own + 1, (int)past - 1);
    }
    harness_ok(tfm_tensor_new(beam->ctx, &logits, TFM_F32, 2, dims));
    harness_ok(tfm_tensor_write(beam->ctx, logits, host));
    free(host);
    free(lengths);
    free(block_table);
    free(tokens);
    free(sources);
    return logits;
}

static void step_all(tfm__beam *beam, const setting *s) {
    int32_t left = (int32_t)beam->live;
    while (beam->step < s->longest && beam->live > 0 && left > 0) {
        tfm_tensor logits = row_logits(beam, s, NULL);
        harness_ok(tfm__beam_advance(beam, logits, left));
        tfm_tensor_free(beam->ctx, &logits);
        if (!beam->ragged)
            harness_ok(tfm_tensor_read(beam->ctx, &left, beam->remaining));
        if (harness_poses())
            left = 0;
    }
}

/* ---- Continuous batching ----------------------------------------------------------------------------------------- */

typedef struct joining {
    const setting *s;
    tfm_hypothesis *out;
    int at[MOST_SENTENCES];          /* the sentence in each slot */
    int32_t present[MOST_SENTENCES]; /* the beam's */
    int next;                        /* the next sentence to admit */
    harness_random random;
    tfm_kv_cache cache;
    const float *penalty;
    int longest; /* the largest limit so far */
    int tidied, joined;
} joining;

/* The predicted token of each row. */
static void write_keys(joining *j, const tfm__beam *beam) {
    tfm_tensor keys = {0}, values = {0};
    float *host = calloc((size_t)beam->rows, sizeof(*host));
    int32_t *tokens = harness_ints(beam->tokens);
    tfm_kv_cache_reserve(beam->ctx, &j->cache, beam->rows);
    for (int64_t i = 0; i < beam->rows; i++)
        host[i] = (float)tokens[i];
    harness_ok(tfm_tensor_rows(beam->ctx, &keys, j->cache.kv[0].keys, beam->slot, beam->rows));
    harness_ok(tfm_tensor_rows(beam->ctx, &values, j->cache.kv[0].values, beam->slot, beam->rows));
    harness_ok(tfm_tensor_write(beam->ctx, keys, host));
    harness_ok(tfm_tensor_write(beam->ctx, values, host));
    j->cache.slots += beam->rows;
    free(host);
    free(tokens);
}

/* The keys of each row's past are its own. */
static void check_keys(const joining *j, const tfm__beam *beam) {
    const int64_t columns = beam->block_table.dims[1];
    float *keys = harness_floats(j->cache.kv[0].keys), *values = harness_floats(j->cache.kv[0].values);
    int32_t *block_table = harness_ints(beam->block_table), *tokens = harness_ints(beam->slot_token),
            *lengths = beam->lengths.buffer ? harness_ints(beam->lengths) : NULL;
    for (int64_t row = 0; row < beam->rows; row++)
        for (int64_t i = 0; i + 1 < (lengths ? lengths[row] : columns); i++) {
            const int32_t slot = block_table[row * columns + i];
            assert_in_range(slot, 0, beam->slot - 1);
            assert_true(keys[slot] == (float)tokens[slot] && values[slot] == keys[slot]);
        }
    free(keys);
    free(values);
    free(block_table);
    free(tokens);
    free(lengths);
}

static void tidy(joining *j, tfm__beam *beam) {
    const int64_t slot = beam->slot;
    check_keys(j, beam);
    harness_ok(tfm__beam_tidy(beam, &j->cache));
    assert_true(beam->slot <= slot && j->cache.slots == beam->slot);
    check_keys(j, beam);
    j->tidied += beam->slot < slot;
}

/* Sentences no longer present are finished. */
static void take_over(joining *j, tfm__beam *beam, const int32_t *before, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        bool live = false;
        for (int64_t k = 0; k < beam->live; k++)
            live |= beam->present[k] == before[i];
        if (!live)
            harness_ok(tfm__beam_found(beam, j->out + j->at[before[i]] * j->s->n_best, &before[i], 1, j->s->n_best,
                                       j->penalty));
    }
}

static void let_in(joining *j, tfm__beam *beam) {
    int32_t places[MOST_SENTENCES], limits[MOST_SENTENCES], counts[MOST_SENTENCES], prefixes[2 * MOST_SENTENCES];
    int count = 0;
    const int most = harness_range(&j->random, 0, 3);
    for (int place = 0; place < j->s->places && count < most && j->next < j->s->sentences; place++) {
        bool live = false;
        for (int64_t k = 0; k < beam->live; k++)
            live |= beam->present[k] == place;
        if (live)
            continue;
        j->at[place] = j->next;
        places[count] = place;
        limits[count] = limit_of(j->s, j->next);
        j->longest = limits[count] > j->longest ? limits[count] : j->longest;
        counts[count] = prefix_of(j->s, j->next++);
        prefixes[2 * count] = 5;
        prefixes[2 * count++ + 1] = 6;
    }
    j->joined += count;
    if (count > 0)
        harness_ok(tfm__beam_join(beam, &(tfm__beam_arrivals){.count = count,
                                                              .places = places,
                                                              .limits = limits,
                                                              .prefix_counts = counts,
                                                              .prefixes = prefixes,
                                                              .penalty = j->penalty,
                                                              .longest = j->longest}));
}

/* Steps until all admitted sentences are finished; late ones get a separate search. */
static int64_t run_joining(joining *j, const tfm__beam_setup *setup) {
    tfm_context *ctx = harness_context();
    tfm__beam beam;
    tfm__beam_setup own = *setup;
    const int first = j->next;
    int32_t limits[MOST_SENTENCES], counts[MOST_SENTENCES];
    own.sentences = j->s->places;
    own.first = j->s->sentences - first < (j->s->places + 1) / 2 ? j->s->sentences - first : (j->s->places + 1) / 2;
    own.present = j->present;
    j->longest = 0;
    assert_true(tfm__beam_joins(&own));
    for (int i = 0; i < own.first; i++, j->next++) {
        j->at[i] = j->next;
        limits[i] = limit_of(j->s, j->next);
        j->longest = limits[i] > j->longest ? limits[i] : j->longest;
        counts[i] = prefix_of(j->s, j->next);
    }
    own.longest = j->longest;
    own.limits = limits;
    own.prefix_counts = counts;
    harness_ok(tfm_scope_open(ctx));
    harness_ok(tfm__beam_begin(ctx, &beam, &own));
    harness_ok(tfm_kv_cache_new(ctx, &j->cache, 1, 1, 8));
    while (beam.live > 0) {
        int32_t before[MOST_SENTENCES];
        const int64_t count = beam.live;
        memcpy(before, j->present, sizeof(before));
        tfm_tensor logits = row_logits(&beam, j->s, j->at);
        write_keys(j, &beam);
        harness_ok(tfm__beam_advance(&beam, logits, beam.live));
        tfm_tensor_free(ctx, &logits);
        take_over(j, &beam, before, count);
        if (beam.live > 0 && harness_range(&j->random, 0, 4) == 0)
            tidy(j, &beam);
        if (beam.live > 0)
            let_in(j, &beam);
        if (beam.live > 0 && harness_range(&j->random, 0, 6) == 0)
            tidy(j, &beam);
    }
    tfm_kv_cache_free(ctx, &j->cache);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    return beam.step;
}

static int64_t run_all_joining(tfm_hypothesis *out, const setting *s, const tfm__beam_setup *setup) {
    joining j = {.s = s, .out = out, .random = {(uint64_t)(s->width * 100 + s->sentences)}, .penalty = setup->penalty};
    int64_t steps = 0;
    while (j.next < s->sentences)
        steps += run_joining(&j, setup);
    assert_true(j.tidied > 0 && j.joined > 0);
    return steps;
}

/* Returns the rows of the steps; with continuous batching, the number of steps. */
static int64_t run(tfm_hypothesis *out, const setting *s) {
    tfm_context *ctx = harness_context();
    int32_t limits[MOST_SENTENCES], prefixes[MOST_SENTENCES * 2], counts[MOST_SENTENCES];
    float penalty[MOST_TOKENS + 1];
    tfm__generation_rules rules = {.pad_id = VOCABULARY - 1,
                                   .eos_id = END,
                                   .start_id = VOCABULARY - 1,
                                   .forced_bos_id = -1,
                                   .forced_eos_id = s->forced_end ? END : -1};
    for (int i = 0; i < s->sentences; i++) {
        limits[i] = limit_of(s, i);
        counts[i] = prefix_of(s, i);
        prefixes[2 * i] = 5;
        prefixes[2 * i + 1] = 6;
    }
    for (int n = 0; n <= s->longest; n++)
        penalty[n] = (float)penalty_of(s, n);
    tfm__beam beam;
    const int64_t least = tfm__context_tuning(ctx)->search_ragged_rows;
    const bool ragged = least > 0 && s->sentences * s->width >= least; /* as in search.c */
    const tfm__beam_setup setup = {.width = s->width,
                                   .vocabulary = VOCABULARY,
                                   .sentences = s->sentences,
                                   .rules = &rules,
                                   .certain = s->huggingface,
                                   .ragged = ragged || s->places > 0,
                                   .n_best = s->n_best,
                                   .limits = limits,
                                   .prefixes = prefixes,
                                   .prefix_counts = counts,
                                   .prefix_width = 2,
                                   .penalty = penalty,
                                   .longest = s->longest};
    if (s->places > 0)
        return run_all_joining(out, s, &setup);
    harness_ok(tfm_scope_open(ctx));
    harness_ok(tfm__beam_begin(ctx, &beam, &setup));
    step_all(&beam, s);
    tfm_hypotheses all = {.sentences = (size_t)s->sentences, .n_best = s->n_best, .items = out};
    if (!harness_poses())
        harness_ok(tfm__beam_finish(&beam, &all, s->n_best, penalty));
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    return beam.slot;
}

/* ---- Comparison -------------------------------------------------------------------------------------------------- */

/* The reported scores of a hypothesis match its tokens. */
static void check_own(const tfm_hypothesis *h, const setting *s, int sentence) {
    const bool cut = h->count == (size_t)h->tokens;
    double sum = 0;
    for (int i = 0; i < h->tokens; i++) {
        double log_probs[VOCABULARY];
        log_probs_of(log_probs, s, sentence, h->ids, i);
        const bool certain = s->huggingface && s->forced_end && i + 1 == limit_of(s, sentence);
        const double log_prob = certain ? 0 : log_probs[h->ids[i]];
        assert_true(fabs((double)h->log_probs[i] - log_prob) < 1e-3);
        assert_true((h->ids[i] == END) == (!cut && i + 1 == h->tokens));
        sum += log_prob;
    }
    assert_true(fabs(h->log_prob - sum) < 1e-3);
    assert_true(fabs(h->score - sum / penalty_of(s, h->tokens)) < 1e-3 * (1 + fabs(h->score)));
}

/* Returns whether the sentence could be compared. */
static bool compare(const tfm_hypothesis *got, const setting *s, int sentence) {
    oracle o;
    search(&o, s, sentence);
    if (o.gap < 1e-5 || harness_poses())
        return false;
    for (int rank = 0; rank < s->n_best; rank++) {
        const line *want = &o.done[rank];
        if (want->count == 0) { /* a sentence of one token has one hypothesis */
            assert_true(got[rank].tokens == 0 && got[rank].score == -INFINITY);
            continue;
        }
        check_own(&got[rank], s, sentence);
        const bool apart = (rank == 0 || fabs(want->score - want[-1].score) > 1e-4) &&
                           (rank + 1 == s->width || fabs(want->score - want[1].score) > 1e-4);
        if (apart) {
            assert_int_equal(got[rank].tokens, want->count);
            assert_memory_equal(got[rank].ids, want->tokens, (size_t)want->count * sizeof(*want->tokens));
        }
        if (fabs(got[rank].score - want->score) > 1e-4 * (1 + fabs(want->score)))
            fail_msg("beam %d of %d sentences, %d best, alpha %g: sentence %d has the score %g at rank %d, not %g",
                     s->width, s->sentences, s->n_best, s->alpha, sentence, got[rank].score, rank, want->score);
    }
    return true;
}

static int64_t check(const setting *s) {
    tfm_hypothesis *found = calloc((size_t)(s->sentences * s->n_best), sizeof(*found));
    assert_non_null(found);
    const int64_t rows = run(found, s);
    int compared = 0;
    for (int i = 0; i < s->sentences; i++)
        compared += compare(found + i * s->n_best, s, i);
    assert_true(compared * 10 >= s->sentences * 7);
    for (int i = 0; i < s->sentences * s->n_best; i++) {
        free(found[i].ids);
        free(found[i].log_probs);
    }
    free(found);
    return rows;
}

static void test_beam_search_matches_host_search(void **state) {
    (void)state;
    static const setting settings[] = {
        {.width = 4, .n_best = 1, .sentences = 40, .shortest = 8, .longest = 40, .alpha = 0.6},
        {.width = 4, .n_best = 1, .sentences = 3, .shortest = 8, .longest = 40, .alpha = 0.6},
        {.width = 4, .n_best = 4, .sentences = 20, .shortest = 8, .longest = 30, .alpha = 0.6},
        {.width = 4, .n_best = 2, .sentences = 20, .shortest = 8, .longest = 30, .alpha = 1.4, .end = 2},
        {.width = 4, .n_best = 3, .sentences = 20, .shortest = 8, .longest = 30, .alpha = 2.5, .end = 1},
        {.width = 4, .n_best = 1, .sentences = 20, .shortest = 8, .longest = 30, .alpha = 2.5, .end = 1},
        {.width = 4, .n_best = 1, .sentences = 20, .shortest = 8, .longest = 30, .alpha = 0, .end = 3},
        {.width = 4, .n_best = 1, .sentences = 40, .shortest = 8, .longest = 30, .alpha = -1, .sharp = 8, .end = 16},
        /* With a negative alpha the rule ends a search by the last of all that finished. */
        {.width = 2, .n_best = 1, .sentences = 1, .shortest = 40, .longest = 40, .alpha = -1, .early = true},
        {.width = 2, .n_best = 1, .sentences = 20, .shortest = 40, .longest = 40, .alpha = -1, .early = true},
        {.width = 3, .n_best = 1, .sentences = 40, .shortest = 8, .longest = 40, .alpha = -1, .sharp = 3, .end = 4},
        {.width = 3, .n_best = 1, .sentences = 40, .shortest = 8, .longest = 40, .alpha = -0.3, .sharp = 4, .end = 7},
        {.width = 3, .n_best = 2, .sentences = 5, .shortest = 8, .longest = 40, .alpha = -3, .sharp = 4, .end = 8},
        {.width = 3, .n_best = 1, .sentences = 33, .shortest = 1, .longest = 12, .alpha = 0.6, .prefixes = true},
        {.width = 1, .n_best = 1, .sentences = 40, .shortest = 1, .longest = 20, .end = 2, .prefixes = true},
        /* The slot table, which begins with 16 steps, is full after the last one. */
        {.width = 1, .n_best = 1, .sentences = 40, .shortest = 16, .longest = 16, .end = -30},
        {.width = 4, .n_best = 1, .sentences = 40, .shortest = 17, .longest = 17, .alpha = 0.6, .end = -30},
        {.width = 24, .n_best = 5, .sentences = 6, .shortest = 5, .longest = 12, .alpha = 0.6, .end = 1},
        {.width = 8, .n_best = 3, .sentences = 9, .shortest = 2, .longest = 20, .alpha = 1, .forced_end = true},
        {.width = 3, .n_best = 1, .sentences = 17, .shortest = 2, .longest = 20, .alpha = 1, .huggingface = true},
        {.width = 3,
         .n_best = 2,
         .sentences = 17,
         .shortest = 1,
         .longest = 9,
         .alpha = 1,
         .huggingface = true,
         .forced_end = true,
         .end = -2},
        {.width = 4, .n_best = 4, .sentences = 12, .shortest = 3, .longest = 6, .alpha = 0.6, .end = -9},
    };
    for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++)
        if (settings[i].width < 5 || !harness_brief()) /* kernels are compiled for each width */
            check(&settings[i]);
}

/* Sentences admitted at any step, in freed slots, give the results of a separate search. */
static void test_beam_search_of_admitted_sentences_equals_alone(void **state) {
    (void)state;
    static const setting settings[] = {
        {.width = 4, .n_best = 1, .sentences = 40, .shortest = 4, .longest = 30, .alpha = 0.6, .places = 12, .end = 1},
        {.width = 4, .n_best = 4, .sentences = 40, .shortest = 4, .longest = 30, .alpha = 1.4, .places = 5, .end = 1},
        {.width = 3,
         .n_best = 2,
         .sentences = 40,
         .shortest = 1,
         .longest = 12,
         .alpha = 0.6,
         .places = 7,
         .prefixes = true},
        {.width = 1,
         .n_best = 1,
         .sentences = 40,
         .shortest = 3,
         .longest = 20,
         .end = 2,
         .places = 9,
         .prefixes = true},
        {.width = 4,
         .n_best = 3,
         .sentences = 40,
         .shortest = 2,
         .longest = 20,
         .alpha = 1,
         .places = 6,
         .forced_end = true},
        {.width = 3,
         .n_best = 1,
         .sentences = 40,
         .shortest = 8,
         .longest = 40,
         .alpha = -1,
         .sharp = 3,
         .end = 4,
         .places = 8},
        {.width = 3,
         .n_best = 2,
         .sentences = 40,
         .shortest = 1,
         .longest = 9,
         .alpha = 1,
         .huggingface = true,
         .forced_end = true,
         .end = -2,
         .places = 10},
    };
    if (harness_poses())
        skip(); /* the live rows depend on the results */
    for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++)
        check(&settings[i]);
}

/* A search for one hypothesis has fewer rows than one for all, and finished rows leave at once. */
static void test_finished_beam_rows_leave_the_batch(void **state) {
    (void)state;
    if (tfm__context_tuning(harness_context())->search_ragged_rows == 0 || harness_poses())
        skip(); /* this device does not wait for the number of rows */
    setting s = {.width = 4, .n_best = 4, .sentences = 40, .shortest = 30, .longest = 40, .alpha = 0.6, .end = 2};
    const int64_t all = check(&s);
    s.n_best = 1;
    const int64_t one = check(&s);
    printf("40 sentences, beam 4: %lld rows for all hypotheses, %lld for the best\n", (long long)all, (long long)one);
    assert_true(one < all);
    assert_true(one < (int64_t)s.sentences * s.width * s.longest / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_beam_search_matches_host_search),
        cmocka_unit_test(test_beam_search_of_admitted_sentences_equals_alone),
        cmocka_unit_test(test_finished_beam_rows_leave_the_batch),
    };
    return cmocka_run_group_tests_name("beam", tests, harness_setup, harness_teardown);
}
