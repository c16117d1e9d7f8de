/* Beam search on the device ("Attention Is All You Need", section 6.1; Wu et al. 2016, section 7, for the penalty).
 *
 * n live sentences with BEAM rows each, R = n BEAM, except with RAGGED. Every input token of the decoder is a slot: a
 * token and its parent slot. Slots are numbered in the order of steps, row by row, so a slot's number is also its row
 * in the KV cache. A row's past is a line of the block_table: the slots from the start to its newest token.
 *
 * RAGGED: a sentence has as many rows as it has live hypotheses, up to BEAM, and none when it is finished: its first
 * row is starts[group], and R = starts[n]. After each step the host reads the number of rows of the next one. If
 * `admitted_step` (N) is not null, sentences were admitted at the step that it gives: then a row's line has a separate
 * length, and tables have room for the longest.
 *
 * Build options: BEAM; CANDIDATES, the number of known continuations of a row: all that are examined, or the whole
 * vocabulary if that is smaller; HF_SEARCH: what finishes and when a sentence ends is as in transformers' generate;
 * MERGE_TOPK: continuations are given as the top k of each of `parts` parts of the vocabulary. */
#ifdef BEAM
#ifdef MERGE_TOPK
#include "topk_parts.cl"
#define MERGE_PARAMETERS const long parts,
#else
#define MERGE_PARAMETERS
#endif

#ifdef RAGGED
#define NEW_COLUMNS columns
#define OLD_COLUMNS old_columns
#else
#define NEW_COLUMNS (past + 1)
#define OLD_COLUMNS past
#endif

/* State for the rows of the next step, m sentences of BEAM: `keep` gives the old sentence (of n) at each place, and is
 * unused if all continue. block_table (n BEAM, past), new_block_table (m BEAM, past + 1); slot_token, slot_parent,
 * slot_score: all slots, with sum log p up to each. */
#define EXTEND_PARAMETERS                                                                                              \
    TFM_TENSOR(int, next_token), TFM_TENSOR(int, next_parent), TFM_TENSOR(float, next_score),                          \
        TFM_INPUT(int, block_table), TFM_INPUT(int, sentences), TFM_TENSOR(int, done), TFM_INPUT(int, keep),           \
        TFM_TENSOR(int, new_tokens), TFM_TENSOR(float, new_scores), TFM_TENSOR(int, new_block_table),                  \
        TFM_TENSOR(int, new_sentences), TFM_TENSOR(int, new_done), TFM_TENSOR(int, sources),                           \
        TFM_TENSOR(int, slot_token), TFM_TENSOR(int, slot_parent), TFM_TENSOR(float, slot_score), const long m,        \
        const long past, const long first_slot, const long next_slot
/* PoCL 3.1 turns the items of a group into one loop. Its compiler then vectorized the copy below and accessed memory
 * far beyond the line, which crashed on CPUs with AVX-512. */
#if TFM_GROUP > 1 && defined(__clang__)
#define NO_VECTORIZE _Pragma("clang loop vectorize(disable)")
#else
#define NO_VECTORIZE
#endif
#define INLINED static inline __attribute__((always_inline))

/* Inputs of the next step's rows; tables of `columns` and of `old_columns`. */
typedef struct extension {
    __global const int *next_token, *next_parent, *block_table, *sentences, *done;
    __global const float *next_score;
    __global int *new_tokens, *new_block_table, *new_sentences, *new_done, *sources, *slot_token, *slot_parent;
    __global float *new_scores, *slot_score;
    long first_slot, next_slot, columns, old_columns;
} extension;
#define EXTENSION                                                                                                      \
    {                                                                                                                  \
        TFM_AT(next_token), TFM_AT(next_parent), TFM_AT(block_table), TFM_AT(sentences), TFM_AT(done),                 \
            TFM_AT(next_score), TFM_AT(new_tokens), TFM_AT(new_block_table), TFM_AT(new_sentences), TFM_AT(new_done),  \
            TFM_AT(sources), TFM_AT(slot_token), TFM_AT(slot_parent), TFM_AT(new_scores), TFM_AT(slot_score),          \
            first_slot, next_slot, NEW_COLUMNS, OLD_COLUMNS                                                            \
    }

/* The rows of place `group`, `count` from `first` on, previously those of `from`, inherit their parents' state, each as
 * a new slot with `past` slots before it. All items of the work-group copy one line after another together. */
INLINED void extend_rows(const extension e, const long group, const long from, const long first, const int count,
                         const int past) {
    for (long b = TFM_LOCAL_ID(); b < count; b += TFM_GROUP) {
        const long row = first + b, old = from * BEAM + b, slot = e.next_slot + row;
        const int token = e.next_token[old], sentence = e.sentences[from];
        e.new_tokens[row] = max(token, 0); /* -1 tells the host's observer that there is none */
        e.new_scores[row] = e.next_score[old];
        e.sources[row] = sentence;
        e.slot_token[slot] = token;
        e.slot_parent[slot] = (int)e.first_slot + e.next_parent[old];
        e.slot_score[slot] = e.next_score[old];
        e.new_block_table[row * e.columns + past] = (int)slot;
        if (b == 0) {
            e.new_sentences[group] = sentence;
            e.new_done[group] = e.done[from];
        }
    }
    for (int b = 0; b < count; b++) {
        const int parent = e.next_parent[from * BEAM + b];
        __global const int *line = e.block_table + parent * e.old_columns;
        __global int *to = e.new_block_table + (first + b) * e.columns;
        NO_VECTORIZE for (int i = (int)TFM_LOCAL_ID(); i < past; i += TFM_GROUP) to[i] = line[i];
    }
}

/* The rows of a sentence, and a step's outputs for the chosen ones. */
#ifdef RAGGED
#define FIRST_ROW(group) ((long)TFM_AT(starts)[group])
#define ROWS(group) (TFM_AT(starts)[(group) + 1] - TFM_AT(starts)[group])
#define STEP_PARAMETERS                                                                                                \
    TFM_TENSOR(int, next_token), TFM_TENSOR(int, next_parent), TFM_TENSOR(float, next_score),                          \
        TFM_TENSOR(int, next_live), TFM_INPUT(int, starts), TFM_INPUT(int, admitted_step), TFM_INPUT(int, sentences),  \
        TFM_TENSOR(int, done), const long m, const long first_slot
#define START_STEP(sentence) (admitted_step != 0 ? TFM_AT(admitted_step)[sentence] : 0)
#else
#define START_STEP(sentence) 0
#define FIRST_ROW(group) ((long)(group)*BEAM)
#define ROWS(group) BEAM
#define STEP_PARAMETERS EXTEND_PARAMETERS
#endif

/* In transformers every hypothesis at the limit is finished, a finished one must be among the BEAM best, and unless
 * `early_stopping` is 2 ("never"), live ones are compared by their current length. */
#ifdef HF_SEARCH
#define IF_HF_SEARCH(x) (x)
#define FINISHES_AT_LIMIT(x) (x)
#define BOUND_LENGTH (early_stopping == 2 && f->penalty[c.limit] > f->penalty[1] ? c.limit : c.generated)
#else
#define IF_HF_SEARCH(x) false
#define FINISHES_AT_LIMIT(x) false
#define BOUND_LENGTH c.limit
#endif

/* ---- Finished hypotheses ---- */

/* The finished hypotheses of a sentence, `count` of at most BEAM: sum log p, last token, its parent slot, number of
 * tokens. */
typedef struct finished {
    __global float *total;
    __global int *token, *slot, *length;
    __global const float *penalty; /* lp(n) */
    int count;
} finished;
#define FINISHED(sentence)                                                                                             \
    {                                                                                                                  \
        TFM_AT(finished_total) + (sentence)*BEAM, TFM_AT(finished_token) + (sentence)*BEAM,                            \
            TFM_AT(finished_slot) + (sentence)*BEAM, TFM_AT(finished_length) + (sentence)*BEAM, TFM_AT(penalty),       \
            TFM_AT(finished_count)[sentence]                                                                           \
    }

static inline float finished_score(const finished *f, const int entry) {
    return f->total[entry] / f->penalty[f->length[entry]];
}

static inline void finished_set(const finished *f, const int entry, const float total, const int token, const int slot,
                                const int length) {
    f->total[entry] = total;
    f->token[entry] = token;
    f->slot[entry] = slot;
    f->length[entry] = length;
}

/* Adds one; a full list drops its worst for it, or returns false if it is no better. */
static inline bool finished_add(finished *f, const float total, const int token, const int slot, const int length) {
    int entry = f->count;
    if (f->count == BEAM) {
        entry = 0;
        for (int b = 1; b < BEAM; b++)
            if (finished_score(f, b) < finished_score(f, entry))
                entry = b;
        if (!(total / f->penalty[length] > finished_score(f, entry)))
            return false;
    } else {
        f->count++;
    }
    finished_set(f, entry, total, token, slot, length);
    return true;
}

/* The score of the `rank`-th best, counted from 1. */
static inline float finished_rank(const finished *f, const int rank) {
    float bar = INFINITY;
    for (int above = 0, same = 1; above < rank && same > 0; above += same) {
        float next = -INFINITY;
        same = 0;
        for (int b = 0; b < f->count; b++) {
            const float score = finished_score(f, b);
            if (score < bar && score >= next) {
                same = score > next ? 1 : same + 1;
                next = score;
            }
        }
        bar = next;
    }
    return bar;
}

/* ---- Candidates ---- */

/* Candidates of a step for one sentence with first row `base`. */
typedef struct sentence_state {
    long base;
    int rows, generated, limit;
    int forced;  /* the only allowed next token, or -1 */
    int certain; /* whether any next token has probability 1 */
} sentence_state;

/* Inputs of beam_step from the sentence's first row on. */
typedef struct row_inputs {
    __global const float *values, *lse, *logits, *scores;
    __global const int *tokens;
    long vocabulary;
} row_inputs;
#ifdef MERGE_TOPK
#define ROW_CANDIDATES ((int)parts * CANDIDATES)
#define LOG_SUMS ((int)parts * 2)
#else
#define ROW_CANDIDATES CANDIDATES
#define LOG_SUMS 1
#endif
#define ROW_INPUTS(base)                                                                                               \
    {                                                                                                                  \
        TFM_AT(values) + (base)*ROW_CANDIDATES, TFM_AT(lse) + (base)*LOG_SUMS, TFM_AT(logits) + (base)*vocabulary,     \
            TFM_AT(scores) + (base), TFM_AT(tokens) + (base)*ROW_CANDIDATES, vocabulary                                \
    }

/* Sum log p of a row after a token with this logit. */
static inline float extended_score(const float score, const int certain, const float logit, const float lse) {
    return score + (certain ? 0.0f : logit - lse);
}

/* sums (rows, CANDIDATES): sum log p of each row after its best continuations; after a forced one, in the first place.
 * All items of the work-group take part, and a barrier must follow. */
#ifdef MERGE_TOPK
#define TOKENS __local const int *
INLINED void gather_sums(const row_inputs r, const sentence_state c, __local float *sums, __local int *merged,
                         __local float *normalizer, const int parts) {
    for (int e = (int)TFM_LOCAL_ID(); e < c.rows * CANDIDATES; e += TFM_GROUP) {
        sums[e] = -INFINITY;
        merged[e] = 0;
        if (e % CANDIDATES == 0)
            normalizer[e / CANDIDATES] = parts_log_sum(r.lse + e / CANDIDATES * parts * 2, parts);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const int all = parts * CANDIDATES;
    for (int e = (int)TFM_LOCAL_ID(); e < c.rows * all; e += TFM_GROUP) {
        const int b = e / all, token = r.tokens[e];
        const float value = r.values[e];
        const int rank = value > -INFINITY
                             ? rank_in_parts(r.values + b * all, r.tokens + b * all, parts, CANDIDATES, value, token)
                             : CANDIDATES;
        if (c.forced < 0 && rank < CANDIDATES) {
            sums[b * CANDIDATES + rank] = extended_score(r.scores[b], c.certain, value, normalizer[b]);
            merged[b * CANDIDATES + rank] = token;
        }
        if (c.forced >= 0 && e == b * all)
            sums[b * CANDIDATES] =
                extended_score(r.scores[b], c.certain, r.logits[b * r.vocabulary + c.forced], normalizer[b]);
    }
}
#else
#define TOKENS __global const int *
INLINED void gather_sums(const row_inputs r, const sentence_state c, __local float *sums) {
    for (int e = (int)TFM_LOCAL_ID(); e < c.rows * CANDIDATES; e += TFM_GROUP) {
        const int b = e / CANDIDATES;
        const float logit = c.forced >= 0 ? r.logits[b * r.vocabulary + c.forced] : r.values[e];
        sums[e] = extended_score(r.scores[b], c.certain, logit, r.lse[b]);
    }
}
#endif

/* The row with the best next continuation, and its sum; -1 if none is left. A lower row wins a tie. head (rows): number
 * of taken entries of each row's list. */
static inline int best_row(float *best, __local const float *sums, __local const int *head, const sentence_state c) {
    int row = -1;
    *best = -INFINITY;
    for (int b = 0; b < c.rows; b++) {
        if (head[b] >= (c.forced >= 0 ? 1 : CANDIDATES))
            continue;
        const float sum = sums[b * CANDIDATES + head[b]];
        if (sum > *best) { /* false for NaN and for dead rows */
            *best = sum;
            row = b;
        }
    }
    return row;
}

/* The live continuations of a sentence, BEAM at most. */
typedef struct continuations {
    __global int *token, *parent;
    __global float *score;
    int live;
    int filler; /* the token of dead rows */
} continuations;

/* Processes at most `max_candidates` candidates in descending order: some finish, the others stay live. */
static inline void select_candidates(continuations *to, finished *f, const sentence_state c, __local const float *sums,
                                     TOKENS tokens, __local int *head, __global const int *eos_ids,
                                     const long eos_count, const long max_candidates, const int first_slot) {
    for (int b = 0; b < c.rows; b++)
        head[b] = 0;
    for (int i = 0; i < max_candidates && to->live < BEAM; i++) {
        float best;
        const int row = best_row(&best, sums, head, c);
        if (row < 0) {
            to->filler = IF_HF_SEARCH(i == 0) ? -1 : to->filler;
            return;
        }
        const int list = head[row]++;
        const int token = c.forced >= 0 ? c.forced : tokens[row * CANDIDATES + list];
        bool ended = FINISHES_AT_LIMIT(c.generated >= c.limit);
        for (int e = 0; e < eos_count; e++)
            ended = ended || token == eos_ids[e];
        if (!ended) {
            to->token[to->live] = token;
            to->parent[to->live] = (int)c.base + row;
            to->score[to->live++] = best;
        } else if (!IF_HF_SEARCH(i >= BEAM) && /* the others only make room for live ones */
                   finished_add(f, best, token, first_slot + row + (int)c.base, c.generated)) {
            to->filler = IF_HF_SEARCH(BEAM == 1) ? token : to->filler; /* for the host's observer */
        }
    }
}

/* Whether a sentence is finished. Drops live rows that cannot reach the `needed` best. */
static inline bool is_finished(continuations *to, const finished *f, const sentence_state c, const long early_stopping,
                               const long needed) {
    bool over = to->live == 0 || c.generated >= c.limit;
    if (BEAM == 1 && f->count == 1) /* separate, because in one condition it is a constant and clang warns */
        over = true;
    if (f->count == BEAM && to->live > 0) {
        float worst = INFINITY;
        for (int b = 0; b < BEAM; b++)
            worst = fmin(worst, finished_score(f, b));
        over = over || worst >= to->score[0] / f->penalty[BOUND_LENGTH] || IF_HF_SEARCH(early_stopping == 1);
    }
    if (!over && needed > 0 && f->count >= needed) {
        const float bar = finished_rank(f, (int)needed);
        const float most = fmax(f->penalty[c.generated + 1], f->penalty[c.limit]);
        while (to->live > 0 && to->score[to->live - 1] / most < bar)
            to->live--;
        over = to->live == 0;
    }
    return over;
}

/* Live hypotheses at the limit fill the free entries of the finished list. */
static inline void keep_truncated(const finished *f, const continuations *from, const sentence_state c,
                                  const int first_slot) {
    for (int b = f->count, i = 0; b < BEAM && i < from->live; b++, i++)
        finished_set(f, b, from->score[i], from->token[i], first_slot + from->parent[i], c.generated);
}

/* ---- The step ---- */

/* A work-group for each live sentence: merges its rows' best continuations, keeps the BEAM best live ones and the best
 * finished ones. If `extends` (no sentence leaves the batch), it also creates the rows of the next step.
 *   values, tokens (R, CANDIDATES): the largest logits of each row in descending order; lse (R): log-sum-exp.
 *     With MERGE_TOPK (R, parts, CANDIDATES), and (R, parts, 2) as max_and_sum in topk.cl
 *   logits (R, vocabulary), or with a `vocabulary` of 0 one row for all: for forced tokens
 *   scores (R): sum log p of each row; -inf: dead
 *   sentences (n): index of the sentence; limits, prefix_counts (N)
 *   prefixes (N, prefix_width): forced tokens
 *   penalty (longest + 1): lp(n)
 *   finished_total, finished_token, finished_slot, finished_length (N, BEAM): sum log p, last token, its parent
 *     slot, and number of tokens; finished_count (N): their number. Later entries hold live ones cut by the limit
 *   next_token, next_parent, next_score (n BEAM): the live continuations; the parent is a row
 *   next_live (n), with RAGGED: their number per sentence
 *   done (n), remaining (1): finished sentences
 *   ends (eos_count): the EOS tokens; max_candidates: number of examined candidates
 *   early_stopping: as in transformers, with HF_SEARCH
 *   needed: number of best finished hypotheses that are returned. A row that cannot become one of them is dropped:
 *     its sum log p can only fall, and lp(n) lies between that of the next length and that of the limit. The rows
 *     that replace it have smaller sums and cannot either, so the result is unchanged. 0: no row is dropped
 *   forced_eos_id: forced at a sentence's limit, or -1
 *   certain_first, certain_last: the first and the forced last token have probability 1, regardless of the model
 *
 * Layout: all items compute the sums and the rows; the first one alone selects. */
TFM_KERNEL void beam_step(TFM_INPUT(float, values), TFM_INPUT(int, tokens), TFM_INPUT(float, lse),
                          TFM_INPUT(float, logits), TFM_INPUT(float, scores), TFM_INPUT(int, limits),
                          TFM_INPUT(int, prefixes), TFM_INPUT(int, prefix_counts), TFM_INPUT(float, penalty),
                          TFM_TENSOR(float, finished_total), TFM_TENSOR(int, finished_token),
                          TFM_TENSOR(int, finished_slot), TFM_TENSOR(int, finished_length),
                          TFM_TENSOR(int, finished_count), TFM_TENSOR(int, remaining), const long vocabulary,
                          const long prefix_width, const long step, TFM_INPUT(int, eos_ids), const long eos_count,
                          const long max_candidates, const long early_stopping, const long forced_eos_id,
                          const long certain_first, const long certain_last, const long extends, const long needed,
                          MERGE_PARAMETERS STEP_PARAMETERS) {
    __local float sums[BEAM * CANDIDATES];
    __local int head[BEAM];
#ifdef MERGE_TOPK
    __local int merged[BEAM * CANDIDATES];
    __local float normalizer[BEAM];
#endif
    const long group = TFM_ROW();
    if (group >= m)
        return;
    const int sentence = TFM_AT(sentences)[group];
    const long base = FIRST_ROW(group), number = step - START_STEP(sentence);
    sentence_state c = {base, (int)ROWS(group), (int)number + 1, TFM_AT(limits)[sentence], -1, 0};
    const bool last = forced_eos_id >= 0 && c.generated >= c.limit;
    c.certain = last ? certain_last != 0 : number == 0 && certain_first != 0;
    c.forced = last                                       ? (int)forced_eos_id
               : number < TFM_AT(prefix_counts)[sentence] ? TFM_AT(prefixes)[sentence * prefix_width + number]
                                                          : -1;
    const row_inputs inputs = ROW_INPUTS(base);
#ifdef MERGE_TOPK
    gather_sums(inputs, c, sums, merged, normalizer, (int)parts);
    TOKENS continuing = merged;
#else
    gather_sums(inputs, c, sums);
    TOKENS continuing = inputs.tokens;
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
    if (TFM_LOCAL_ID() == 0) {
        continuations next = {TFM_AT(next_token) + group * BEAM, TFM_AT(next_parent) + group * BEAM,
                              TFM_AT(next_score) + group * BEAM, 0, TFM_AT(eos_ids)[0]};
        if (!TFM_AT(done)[group]) {
            finished list = FINISHED(sentence);
            select_candidates(&next, &list, c, sums, continuing, head, TFM_AT(eos_ids), eos_count, max_candidates,
                              (int)first_slot);
            const bool over = is_finished(&next, &list, c, early_stopping, needed);
            if (over && c.generated >= c.limit)
                keep_truncated(&list, &next, c, (int)first_slot);
            TFM_AT(finished_count)[sentence] = list.count;
            if (over) {
                next.live = 0;
                TFM_AT(done)[group] = 1;
                atomic_dec(TFM_AT(remaining));
            }
        }
#ifdef RAGGED
        TFM_AT(next_live)[group] = next.live;
#else
        for (int b = next.live; b < BEAM; b++) { /* dead rows stay as harmless ones until the batch is packed */
            next.token[b] = next.filler;
            next.parent[b] = (int)(base + b);
            next.score[b] = -INFINITY;
        }
#endif
    }
#ifndef RAGGED
    barrier(CLK_GLOBAL_MEM_FENCE); /* the first item's results become visible */
    if (extends) {
        const extension e = EXTENSION;
        extend_rows(e, group, group, base, BEAM, (int)past);
    }
#endif
}

/* One item per live sentence: a row without any allowed token is finished with its current tokens, possibly none.
 * values (R, each): as in beam_step, the best of each row; removed (R): as in suppress_bad_words, -inf if nothing was
 * forbidden: then the model gives no token a probability, which is an error. */
TFM_KERNEL void beam_finish_exhausted(TFM_INPUT(float, values), TFM_INPUT(float, removed), TFM_INPUT(float, scores),
                                      TFM_INPUT(int, limits), TFM_INPUT(int, prefix_counts), TFM_INPUT(float, penalty),
                                      TFM_TENSOR(float, finished_total), TFM_TENSOR(int, finished_token),
                                      TFM_TENSOR(int, finished_slot), TFM_TENSOR(int, finished_length),
                                      TFM_TENSOR(int, finished_count), TFM_INPUT(int, slot_token),
                                      TFM_INPUT(int, slot_parent), TFM_INPUT(int, starts),
                                      TFM_INPUT(int, admitted_step), TFM_INPUT(int, sentences), TFM_INPUT(int, done),
                                      const long m, const long first_slot, const long step, const long forced_eos_id,
                                      const long each) {
    const long group = get_global_id(0);
    if (group >= m || TFM_AT(done)[group])
        return;
    const int sentence = TFM_AT(sentences)[group], rows = (int)ROWS(group);
    const long base = FIRST_ROW(group), number = step - START_STEP(sentence);
    if (number < TFM_AT(prefix_counts)[sentence] || (forced_eos_id >= 0 && number + 1 >= TFM_AT(limits)[sentence]))
        return; /* the next token is forced */
    finished list = FINISHED(sentence);
    for (long row = base; row < base + rows; row++) {
        const float score = TFM_AT(scores)[row];
        int over = score > -INFINITY && TFM_AT(removed)[row] > -INFINITY;
        for (long i = 0; i < each; i++)
            over = over && TFM_AT(values)[row * each + i] == -INFINITY;
        if (over)
            finished_add(&list, score, TFM_AT(slot_token)[first_slot + row], TFM_AT(slot_parent)[first_slot + row],
                         (int)number);
    }
    TFM_AT(finished_count)[sentence] = list.count;
}

/* A work-group for each of the m remaining sentences: creates its rows of the next step. */
#ifdef RAGGED
/* `columns` of the new block_table, `old_columns` of the old one. If `admitted_step` is not null, lengths (R) are the
 * used columns of each row's line, and positions (R) those of its newest token. */
TFM_KERNEL void beam_extend(EXTEND_PARAMETERS, TFM_INPUT(int, starts), TFM_INPUT(int, admitted_step),
                            TFM_TENSOR(int, lengths), TFM_TENSOR(int, positions), const long columns,
                            const long old_columns) {
    const long group = TFM_ROW();
    if (group >= m)
        return;
    const long from = TFM_AT(keep)[group], first = FIRST_ROW(group), count = ROWS(group);
    const extension e = EXTENSION;
    for (long b = TFM_LOCAL_ID(); admitted_step != 0 && b < count; b += TFM_GROUP) {
        const int own = (int)past - TFM_AT(admitted_step)[TFM_AT(sentences)[from]];
        TFM_AT(lengths)[first + b] = own + 1;
        TFM_AT(positions)[first + b] = own;
    }
    extend_rows(e, group, from, first, (int)count, (int)(past - START_STEP(TFM_AT(sentences)[from])));
}
#else
TFM_KERNEL void beam_extend(EXTEND_PARAMETERS) {
    const long group = TFM_ROW();
    if (group >= m)
        return;
    const long from = TFM_AT(keep)[group], first = FIRST_ROW(group), count = ROWS(group);
    const extension e = EXTENSION;
    extend_rows(e, group, from, first, (int)count, (int)past);
}
#endif

#else

/* One item in all: keep (m) gets the live ones of n sentences in order, then finished ones if fewer than m are live. */
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void beam_compact(TFM_INPUT(int, done), TFM_TENSOR(int, keep),
                                                                          const long n, const long m) {
    long kept = 0;
    for (int over = 0; over < 2; over++)
        for (long i = 0; i < n && kept < m; i++)
            if ((TFM_AT(done)[i] != 0) == over)
                TFM_AT(keep)[kept++] = (int)i;
}

/* One item in all: from the number of live rows of n sentences, keep gets the sentences with any, in order, starts
 * their first rows, and totals (3) the numbers of sentences and rows, and the first admission step. */
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
beam_row_starts(TFM_INPUT(int, next_live), TFM_INPUT(int, admitted_step), TFM_INPUT(int, sentences),
                TFM_TENSOR(int, keep), TFM_TENSOR(int, starts), TFM_TENSOR(int, totals), const long n) {
    int kept = 0, rows = 0, oldest = INT_MAX;
    for (long i = 0; i < n; i++) {
        const int live = TFM_AT(next_live)[i];
        if (live == 0)
            continue;
        TFM_AT(keep)[kept] = (int)i;
        TFM_AT(starts)[kept++] = rows;
        rows += live;
        oldest = min(oldest, admitted_step != 0 ? TFM_AT(admitted_step)[TFM_AT(sentences)[i]] : 0);
    }
    TFM_AT(starts)[kept] = rows;
    TFM_AT(totals)[0] = kept;
    TFM_AT(totals)[1] = rows;
    TFM_AT(totals)[2] = oldest;
}

/* One item per row: values (R) = logits (R, vocabulary) of tokens (R), -inf for the token -1. If tokens were not
 * `sampled`, a value of -inf stays: its token may not be chosen. */
TFM_KERNEL void gather_token_logits(TFM_TENSOR(float, values), TFM_INPUT(int, tokens), TFM_INPUT(float, logits),
                                    const long rows, const long vocabulary, const long sampled) {
    const long row = get_global_id(0);
    if (row >= rows)
        return;
    const int token = sampled || TFM_AT(values)[row] > -INFINITY ? TFM_AT(tokens)[row] : -1;
    TFM_AT(values)[row] = token < 0 ? -INFINITY : TFM_AT(logits)[row * vocabulary + token];
}

/* One item per live sentence, with beam size 1: sentences with stops (N) end with their current tokens. The tokens
 * before the last one are the parents of its slot. */
TFM_KERNEL void beam_stop_sentences(TFM_INPUT(int, stops), TFM_INPUT(int, sentences), TFM_INPUT(int, tokens),
                                    TFM_INPUT(float, scores), TFM_INPUT(int, slot_parent), TFM_TENSOR(int, done),
                                    TFM_TENSOR(int, remaining), TFM_TENSOR(float, finished_total),
                                    TFM_TENSOR(int, finished_token), TFM_TENSOR(int, finished_slot),
                                    TFM_TENSOR(int, finished_length), TFM_TENSOR(int, finished_count), const long live,
                                    const long slot, const long step) {
    const long i = get_global_id(0);
    if (i >= live || TFM_AT(done)[i])
        return;
    const int sentence = TFM_AT(sentences)[i];
    if (!TFM_AT(stops)[sentence])
        return;
    TFM_AT(finished_total)[sentence] = TFM_AT(scores)[i];
    TFM_AT(finished_token)[sentence] = TFM_AT(tokens)[i];
    TFM_AT(finished_slot)[sentence] = TFM_AT(slot_parent)[slot + i];
    TFM_AT(finished_length)[sentence] = (int)step;
    TFM_AT(finished_count)[sentence] = 1;
    TFM_AT(done)[i] = 1;
    atomic_dec(TFM_AT(remaining));
}

/* A work-group per row: the mask (R, room) of a row's past, -inf at padding columns before its prompt, and positions
 * (R) of its newest tokens. pads (N): columns before the prompt; sources (R). The past has `past` columns. */
TFM_KERNEL void prompt_padding_mask(TFM_TENSOR(float, mask), TFM_TENSOR(int, positions), TFM_INPUT(int, pads),
                                    TFM_INPUT(int, sources), const long rows, const long past) {
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    const int none = TFM_AT(pads)[TFM_AT(sources)[row]];
    for (long i = TFM_LOCAL_ID(); i < past; i += TFM_GROUP)
        TFM_AT(mask)[row * past + i] = i < none ? -INFINITY : 0.0f;
    if (TFM_LOCAL_ID() == 0)
        TFM_AT(positions)[row] = (int)past - 1 - none;
}

/* One item per row: out (R) = log p of targets (R) under logits (R, vocabulary) with log-sum-exp lse (R); -inf for a
 * target of -1. */
TFM_KERNEL void token_log_prob(TFM_TENSOR(float, out), TFM_INPUT(float, logits), TFM_INPUT(float, lse),
                               TFM_INPUT(int, targets), const long rows, const long vocabulary) {
    const long row = get_global_id(0);
    if (row >= rows)
        return;
    const int target = TFM_AT(targets)[row];
    TFM_AT(out)[row] = target < 0 ? -INFINITY : TFM_AT(logits)[row * vocabulary + target] - TFM_AT(lse)[row];
}

#endif
