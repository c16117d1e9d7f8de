/* Beam search on the device ("Attention Is All You Need", section 6.1; Wu et al. 2016, section 7, for the penalty).
 *
 * n sentences are live, each with BEAM rows, R = n BEAM, but for RAGGED. Every input token ever given to the decoder is
 * a node: a token and the node before it. Nodes are numbered in the order of steps, row by row, so that a node's number
 * is also its row in the log of keys and values. A row's past is a line of the table: the nodes from the start to its
 * newest token.
 *
 * With RAGGED, a sentence has as many rows as there is hope for, up to BEAM, and none when it is over: its first one is
 * starts[group], and R = starts[n]. Whoever calls learns after each step how many rows the next one has. Where `began`
 * (N) is not null, sentences have joined the others at the step that it says: then a row's line has its own length, and
 * tables have room for the longest.
 *
 * The host gives BEAM, and CANDIDATES, the number of continuations of a row that are known: as many as are looked at,
 * or the whole vocabulary if that is smaller. With AS_TRANSFORMERS, what finishes and when a sentence is over are as in
 * transformers' generate. With MERGES, continuations come as the best of each of `parts` parts of the vocabulary. */
#ifdef BEAM
#ifdef MERGES
#include "topk_parts.cl"
#define MERGE_PARAMETERS const long parts,
#else
#define MERGE_PARAMETERS
#endif

#ifdef RAGGED
#define NEW_ROOM columns
#define OLD_ROOM old_columns
#else
#define NEW_ROOM (past + 1)
#define OLD_ROOM past
#endif

/* What a step knows of the rows that it makes, m sentences of BEAM: `keep` says which of the n sentences goes on at
 * each place, and is unused where all do. table (n BEAM, past), new_table (m BEAM, past + 1); node_token, node_parent,
 * node_score: the log of all nodes, the last with sum log p up to each. */
#define EXTEND_PARAMETERS                                                                                              \
    TFM_TENSOR(int, next_token), TFM_TENSOR(int, next_parent), TFM_TENSOR(float, next_score), TFM_INPUT(int, table),   \
        TFM_INPUT(int, sentences), TFM_TENSOR(int, done), TFM_INPUT(int, keep), TFM_TENSOR(int, new_tokens),           \
        TFM_TENSOR(float, new_scores), TFM_TENSOR(int, new_table), TFM_TENSOR(int, new_sentences),                     \
        TFM_TENSOR(int, new_done), TFM_TENSOR(int, sources), TFM_TENSOR(int, node_token),                              \
        TFM_TENSOR(int, node_parent), TFM_TENSOR(float, node_score), const long m, const long past,                    \
        const long first_node, const long next_node
/* PoCL 3.1 makes one loop of the items of a group. Where its compiler then took several turns of the copy below at
 * once, it read and wrote far beyond the line: on CPUs with AVX-512 that ended the program. */
#if TFM_GROUP > 1 && defined(__clang__)
#define ONE_BY_ONE _Pragma("clang loop vectorize(disable)")
#else
#define ONE_BY_ONE
#endif
/* The rows of place `group`, `count` from `first` on, which were those of `from`, take over what their parent rows
 * know, each as a new node. All items of the work-group take part, side by side in one line after another. */
#define EXTEND(group, from, first, count)                                                                              \
    for (long b = TFM_LANE(); b < (count); b += TFM_GROUP) {                                                           \
        const long row = (first) + b, old = (from)*BEAM + b, node = next_node + row;                                   \
        const int token = TFM_AT(next_token)[old], sentence = TFM_AT(sentences)[from];                                 \
        TFM_AT(new_tokens)[row] = max(token, 0); /* -1 tells who watches that there is none */                         \
        TFM_AT(new_scores)[row] = TFM_AT(next_score)[old];                                                             \
        TFM_AT(sources)[row] = sentence;                                                                               \
        TFM_AT(node_token)[node] = token;                                                                              \
        TFM_AT(node_parent)[node] = (int)first_node + TFM_AT(next_parent)[old];                                        \
        TFM_AT(node_score)[node] = TFM_AT(next_score)[old];                                                            \
        TFM_AT(new_table)[row * NEW_ROOM + past] = (int)node;                                                          \
        if (b == 0) {                                                                                                  \
            TFM_AT(new_sentences)[group] = sentence;                                                                   \
            TFM_AT(new_done)[group] = TFM_AT(done)[from];                                                              \
        }                                                                                                              \
    }                                                                                                                  \
    for (int b = 0; b < (int)(count); b++) {                                                                           \
        const int parent = TFM_AT(next_parent)[(from)*BEAM + b];                                                       \
        __global const int *line = TFM_AT(table) + parent * OLD_ROOM;                                                  \
        __global int *to = TFM_AT(new_table) + ((first) + b) * NEW_ROOM;                                               \
        ONE_BY_ONE for (int i = (int)TFM_LANE(); i < (int)past; i += TFM_GROUP) to[i] = line[i];                       \
    }

/* Where the rows of a sentence are, and what a step tells of those that it chooses. */
#ifdef RAGGED
#define FIRST_ROW(group) ((long)TFM_AT(starts)[group])
#define ROWS(group) (TFM_AT(starts)[(group) + 1] - TFM_AT(starts)[group])
#define STEP_PARAMETERS                                                                                                \
    TFM_TENSOR(int, next_token), TFM_TENSOR(int, next_parent), TFM_TENSOR(float, next_score),                          \
        TFM_TENSOR(int, next_live), TFM_INPUT(int, starts), TFM_INPUT(int, began), TFM_INPUT(int, sentences),          \
        TFM_TENSOR(int, done), const long m, const long first_node
#define SINCE(sentence) (began != 0 ? TFM_AT(began)[sentence] : 0)
#else
#define SINCE(sentence) 0
#define FIRST_ROW(group) ((long)(group)*BEAM)
#define ROWS(group) BEAM
#define STEP_PARAMETERS EXTEND_PARAMETERS
#endif

/* In transformers all that reaches the limit has finished, a finished one must be among the BEAM best, and unless
 * `early` says 2 ("never"), live ones are compared by the length that they have. */
#ifdef AS_TRANSFORMERS
#define ONLY_THERE(x) (x)
#define ENDS_AT_LIMIT(x) (x)
#define HOPE (early == 2 && TFM_AT(penalty)[limit] > TFM_AT(penalty)[1] ? limit : generated)
#else
#define ONLY_THERE(x) false
#define ENDS_AT_LIMIT(x) false
#define HOPE limit
#endif

/* What the rows of a sentence may go on with: sum log p by row and place in its list, of all items of a work-group. */
#define SUMS (BEAM * CANDIDATES)
#if SUMS <= 1024
#define SUMS_KEPT SUMS
#define SUM_OF(b, list) sums[(b)*CANDIDATES + (list)]
#else
#define SUMS_KEPT 1
#define SUM_OF(b, list)                                                                                                \
    sum_of(TFM_AT(values) + (base + (b)) * CANDIDATES, TFM_AT(logits) + (base + (b)) * vocabulary,                     \
           TFM_AT(scores)[base + (b)], TFM_AT(log_sum)[base + (b)], list, forced, certain)
#endif

/* Sum log p of a row after its `list`-th continuation, or after the forced one. */
static inline float sum_of(__global const float *values, __global const float *logits, const float score,
                           const float log_sum, const int list, const int forced, const int certain) {
    const float logit = forced >= 0 ? logits[forced] : values[list];
    return score + (certain ? 0.0f : logit - log_sum);
}

/* The score of the `rank`-th best of those finished, counted from 1. */
static inline float score_at(const int rank, __global const float *total, __global const int *count,
                             __global const float *penalty, const int finished) {
    float bar = INFINITY;
    for (int above = 0, same = 1; above < rank && same > 0; above += same) {
        float next = -INFINITY;
        same = 0;
        for (int b = 0; b < finished; b++) {
            const float score = total[b] / penalty[count[b]];
            if (score < bar && score >= next) {
                same = score > next ? 1 : same + 1;
                next = score;
            }
        }
        bar = next;
    }
    return bar;
}

/* The token of a row's `list`-th continuation. */
#ifdef MERGES
#define TOKEN_OF(b, list) merged[(b)*CANDIDATES + (list)]
#else
#define TOKEN_OF(b, list) TFM_AT(tokens)[(base + (b)) * CANDIDATES + (list)]
#endif

/* A work-group for each live sentence: merges its rows' best continuations, keeps BEAM live ones and the best finished
 * ones; and where `extends`, for then no sentence leaves the batch, makes the rows of the next step.
 *   values, tokens (R, CANDIDATES): the best logits of each row, largest first; log_sum (R): their normaliser. With
 *     MERGES they are (R, parts, CANDIDATES), and (R, parts, 2) as tops in topk.cl; then SUMS is 1024 at most
 *   logits (R, vocabulary), or with a `vocabulary` of 0 one row for all: for forced tokens
 *   scores (R): sum log p of each row; -inf: dead
 *   sentences (n): index of the sentence; limits, prefix_counts (N); prefixes (N, prefix_width): forced tokens
 *   penalty (longest + 1): lp(n)
 *   finished_total, finished_token, finished_node, finished_step (N, BEAM): sum log p, the last token, the node before
 *     it, and the number of tokens; finished_count (N): how many there are. Slots from the count on hold live ones that
 *     the limit has cut.
 *   next_token, next_parent, next_score (n BEAM): the live continuations; parent is a row; with RAGGED, next_live (n)
 *     says how many they are of a sentence
 *   done (n), remaining (1): sentences that are over
 *   ends (end_count): the tokens that end a sentence; walk: how many candidates are looked at; early: transformers'
 *     early_stopping, with AS_TRANSFORMERS
 *   needed: so many of the best finished ones count. A row is given up that cannot become one of them, whatever it goes
 *     on with: its sum of log p can only fall, and lp(n) lies between that of the next length and that of the
 *     limit. What it could make way for has a smaller sum, and cannot either: so those that count are the same. 0: no
 *     row is given up
 *   last_token: forced at a sentence's limit, or -1; certain_first, certain_last: the first token and that one have the
 *     probability 1, whatever the model gives them
 *
 * Layout: all items make the sums and the rows; the choice between is the first one's alone. */
TFM_KERNEL void beam_step(TFM_INPUT(float, values), TFM_INPUT(int, tokens), TFM_INPUT(float, log_sum),
                          TFM_INPUT(float, logits), TFM_INPUT(float, scores), TFM_INPUT(int, limits),
                          TFM_INPUT(int, prefixes), TFM_INPUT(int, prefix_counts), TFM_INPUT(float, penalty),
                          TFM_TENSOR(float, finished_total), TFM_TENSOR(int, finished_token),
                          TFM_TENSOR(int, finished_node), TFM_TENSOR(int, finished_step),
                          TFM_TENSOR(int, finished_count), TFM_TENSOR(int, remaining), const long vocabulary,
                          const long prefix_width, const long step, TFM_INPUT(int, ends), const long end_count,
                          const long walk, const long early, const long last_token, const long certain_first,
                          const long certain_last, const long extends, const long needed,
                          MERGE_PARAMETERS STEP_PARAMETERS) {
    __local float sums[SUMS_KEPT];
#ifdef MERGES
    __local int merged[SUMS];
    __local float normaliser[BEAM];
#endif
    __local int head[BEAM]; /* how many of each row's list are taken */
    const long group = TFM_ROW();
    if (group >= m)
        return;
    const int rows = (int)ROWS(group), sentence = TFM_AT(sentences)[group];
    const long base = FIRST_ROW(group), number = step - SINCE(sentence);
    const int generated = (int)number + 1, limit = TFM_AT(limits)[sentence];
    const bool last = last_token >= 0 && generated >= limit;
    const int certain = last ? certain_last != 0 : number == 0 && certain_first != 0;
    int forced = last ? (int)last_token : -1;
    if (!last && number < TFM_AT(prefix_counts)[sentence])
        forced = TFM_AT(prefixes)[sentence * prefix_width + number];
#ifdef MERGES
    for (int e = (int)TFM_LANE(); e < rows * CANDIDATES; e += TFM_GROUP) {
        sums[e] = -INFINITY;
        merged[e] = 0;
        if (e % CANDIDATES == 0)
            normaliser[e / CANDIDATES] =
                parts_log_sum(TFM_AT(log_sum) + (base + e / CANDIDATES) * parts * 2, (int)parts);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const int all = (int)parts * CANDIDATES;
    for (int e = (int)TFM_LANE(); e < rows * all; e += TFM_GROUP) {
        const int b = e / all;
        __global const float *list = TFM_AT(values) + (base + b) * all;
        __global const int *places = TFM_AT(tokens) + (base + b) * all;
        const float value = list[e - b * all];
        const int token = places[e - b * all];
        const int rank =
            value > -INFINITY ? rank_in_parts(list, places, (int)parts, CANDIDATES, value, token) : CANDIDATES;
        if (forced < 0 && rank < CANDIDATES) {
            sums[b * CANDIDATES + rank] = TFM_AT(scores)[base + b] + (certain ? 0.0f : value - normaliser[b]);
            merged[b * CANDIDATES + rank] = token;
        }
        if (forced >= 0 && e == b * all)
            sums[b * CANDIDATES] = TFM_AT(scores)[base + b] +
                                   (certain ? 0.0f : TFM_AT(logits)[(base + b) * vocabulary + forced] - normaliser[b]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#elif SUMS <= 1024
    for (int e = (int)TFM_LANE(); e < rows * CANDIDATES; e += TFM_GROUP) {
        const long row = base + e / CANDIDATES;
        sums[e] = sum_of(TFM_AT(values) + row * CANDIDATES, TFM_AT(logits) + row * vocabulary, TFM_AT(scores)[row],
                         TFM_AT(log_sum)[row], e % CANDIDATES, forced, certain);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    if (TFM_LANE() == 0) {
        __global int *out_token = TFM_AT(next_token) + group * BEAM;
        __global int *out_parent = TFM_AT(next_parent) + group * BEAM;
        __global float *out_score = TFM_AT(next_score) + group * BEAM;
        int live = 0, filler = TFM_AT(ends)[0];
        if (!TFM_AT(done)[group]) {
            const float length_penalty = TFM_AT(penalty)[generated];
            __global float *total = TFM_AT(finished_total) + sentence * BEAM;
            __global int *token = TFM_AT(finished_token) + sentence * BEAM;
            __global int *node = TFM_AT(finished_node) + sentence * BEAM;
            __global int *count = TFM_AT(finished_step) + sentence * BEAM;
            int finished = TFM_AT(finished_count)[sentence];
            for (int b = 0; b < rows; b++)
                head[b] = 0;

            for (int c = 0; c < walk && live < BEAM; c++) {
                /* The best head of the rows' sorted lists; a lower beam wins a tie. */
                int best_beam = -1;
                float best = -INFINITY;
                for (int b = 0; b < rows; b++) {
                    const int list = head[b];
                    if (list >= (forced >= 0 ? 1 : CANDIDATES))
                        continue;
                    const float sum = SUM_OF(b, list);
                    if (sum > best) { /* false for NaN and for dead rows */
                        best = sum;
                        best_beam = b;
                    }
                }
                if (best_beam < 0) {
                    filler = ONLY_THERE(c == 0) ? -1 : filler;
                    break;
                }
                const int list = head[best_beam]++;
                const int best_token = forced >= 0 ? forced : TOKEN_OF(best_beam, list);
                bool ended = ENDS_AT_LIMIT(generated >= limit);
                for (int e = 0; e < end_count; e++)
                    ended = ended || best_token == TFM_AT(ends)[e];
                if (!ended) {
                    out_token[live] = best_token;
                    out_parent[live] = (int)(base + best_beam);
                    out_score[live] = best;
                    live++;
                    continue;
                }
                if (ONLY_THERE(c >= BEAM)) /* the others only make room for live ones */
                    continue;
                /* Keep the best BEAM finished ones: a full list gives up its worst. */
                int slot = finished;
                if (finished == BEAM) {
                    slot = 0;
                    for (int b = 1; b < BEAM; b++)
                        if (total[b] / TFM_AT(penalty)[count[b]] < total[slot] / TFM_AT(penalty)[count[slot]])
                            slot = b;
                    if (!(best / length_penalty > total[slot] / TFM_AT(penalty)[count[slot]]))
                        continue;
                } else {
                    finished++;
                }
                filler = ONLY_THERE(BEAM == 1) ? best_token : filler; /* who watches reads it */
                total[slot] = best;
                token[slot] = best_token;
                node[slot] = (int)first_node + best_beam + (int)base;
                count[slot] = generated;
            }

            bool over = live == 0 || generated >= limit;
            if (BEAM == 1 && finished == 1) /* of its own: in one condition it is a constant, and clang warns */
                over = true;
            if (finished == BEAM && live > 0) {
                float worst = INFINITY;
                for (int b = 0; b < BEAM; b++)
                    worst = fmin(worst, total[b] / TFM_AT(penalty)[count[b]]);
                over = over || worst >= out_score[0] / TFM_AT(penalty)[HOPE] || ONLY_THERE(early == 1);
            }
            if (!over && needed > 0 && finished >= needed) {
                const float bar = score_at((int)needed, total, count, TFM_AT(penalty), finished);
                const float most = fmax(TFM_AT(penalty)[generated + 1], TFM_AT(penalty)[limit]);
                while (live > 0 && out_score[live - 1] / most < bar)
                    live--;
                over = live == 0;
            }
            /* Cut by the limit: what is alive fills the slots that no finished one has. */
            if (over && generated >= limit) {
                for (int b = finished, from = 0; b < BEAM && from < live; b++, from++) {
                    total[b] = out_score[from];
                    token[b] = out_token[from];
                    node[b] = (int)first_node + out_parent[from];
                    count[b] = generated;
                }
            }
            TFM_AT(finished_count)[sentence] = finished;
            if (over) {
                live = 0;
                TFM_AT(done)[group] = 1;
                atomic_dec(TFM_AT(remaining));
            }
        }
#ifdef RAGGED
        TFM_AT(next_live)[group] = live;
#else
        for (int b = live; b < BEAM; b++) { /* dead rows go on as harmless ones until the batch is packed */
            out_token[b] = filler;
            out_parent[b] = (int)(base + b);
            out_score[b] = -INFINITY;
        }
#endif
    }
#ifndef RAGGED
    barrier(CLK_GLOBAL_MEM_FENCE); /* the others read what the first has written */
    if (extends) {
        EXTEND(group, group, base, BEAM)
    }
#endif
}

/* One item per live sentence: a row that the rules leave no token for is finished with the tokens that it has, which
 * may be none. values (R, each): as of beam_step, the best of each row; removed (R): as of beam_forbid, -inf where
 * nothing was forbidden: then the model itself gives no token a probability, which is an error. */
TFM_KERNEL void beam_exhaust(TFM_INPUT(float, values), TFM_INPUT(float, removed), TFM_INPUT(float, scores),
                             TFM_INPUT(int, limits), TFM_INPUT(int, prefix_counts), TFM_INPUT(float, penalty),
                             TFM_TENSOR(float, finished_total), TFM_TENSOR(int, finished_token),
                             TFM_TENSOR(int, finished_node), TFM_TENSOR(int, finished_step),
                             TFM_TENSOR(int, finished_count), TFM_INPUT(int, node_token), TFM_INPUT(int, node_parent),
                             TFM_INPUT(int, starts), TFM_INPUT(int, began), TFM_INPUT(int, sentences),
                             TFM_INPUT(int, done), const long m, const long first_node, const long step,
                             const long last_token, const long each) {
    const long group = get_global_id(0);
    if (group >= m || TFM_AT(done)[group])
        return;
    const int sentence = TFM_AT(sentences)[group], rows = (int)ROWS(group);
    const long base = FIRST_ROW(group), number = step - SINCE(sentence);
    if (number < TFM_AT(prefix_counts)[sentence] || (last_token >= 0 && number + 1 >= TFM_AT(limits)[sentence]))
        return; /* the next token is forced */
    __global float *total = TFM_AT(finished_total) + sentence * BEAM;
    __global int *count = TFM_AT(finished_step) + sentence * BEAM;
    for (long row = base; row < base + rows; row++) {
        const float score = TFM_AT(scores)[row];
        int finished = TFM_AT(finished_count)[sentence], slot = finished;
        int over = score > -INFINITY && TFM_AT(removed)[row] > -INFINITY;
        for (long i = 0; i < each; i++)
            over = over && TFM_AT(values)[row * each + i] == -INFINITY;
        for (int b = 0; finished == BEAM && b < BEAM; b++) /* a full list gives up its worst */
            if (b == 0 || total[b] / TFM_AT(penalty)[count[b]] < total[slot] / TFM_AT(penalty)[count[slot]])
                slot = b;
        if (!over ||
            (finished == BEAM && !(score / TFM_AT(penalty)[number] > total[slot] / TFM_AT(penalty)[count[slot]])))
            continue;
        total[slot] = score;
        count[slot] = (int)number;
        TFM_AT(finished_token)[sentence * BEAM + slot] = TFM_AT(node_token)[first_node + row];
        TFM_AT(finished_node)[sentence * BEAM + slot] = TFM_AT(node_parent)[first_node + row];
        TFM_AT(finished_count)[sentence] = min(finished + 1, BEAM);
    }
}

/* A work-group for each of the m sentences that go on: makes their rows of the next step. */
#ifdef RAGGED
/* `columns` of the new table, `old_columns` of the old one. Where `began` is not null, lengths (R) are how many count
 * of each row's line, and positions (R) those of its newest token. */
TFM_KERNEL void beam_extend(EXTEND_PARAMETERS, TFM_INPUT(int, starts), TFM_INPUT(int, began), TFM_TENSOR(int, lengths),
                            TFM_TENSOR(int, positions), const long columns, const long old_columns) {
    const long group = TFM_ROW();
    if (group >= m)
        return;
    const long from = TFM_AT(keep)[group], first = FIRST_ROW(group), count = ROWS(group), all = past;
    for (long b = TFM_LANE(); began != 0 && b < count; b += TFM_GROUP) {
        const int own = (int)all - TFM_AT(began)[TFM_AT(sentences)[from]];
        TFM_AT(lengths)[first + b] = own + 1;
        TFM_AT(positions)[first + b] = own;
    }
    {
        const long past = all - SINCE(TFM_AT(sentences)[from]);
        EXTEND(group, from, first, count)
    }
}
#else
TFM_KERNEL void beam_extend(EXTEND_PARAMETERS) {
    const long group = TFM_ROW();
    if (group >= m)
        return;
    const long from = TFM_AT(keep)[group], first = FIRST_ROW(group), count = ROWS(group);
    EXTEND(group, from, first, count)
}
#endif

#else

/* One item in all: keep (m) gets the live ones of n sentences in order, and over ones where fewer than m are live. */
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void beam_compact(TFM_INPUT(int, done), TFM_TENSOR(int, keep),
                                                                          const long n, const long m) {
    long kept = 0;
    for (int over = 0; over < 2; over++)
        for (long i = 0; i < n && kept < m; i++)
            if ((TFM_AT(done)[i] != 0) == over)
                TFM_AT(keep)[kept++] = (int)i;
}

/* One item in all: of n sentences that have so many live rows, keep gets those that have any, in order, starts where
 * the rows of each begin, and totals (3) how many sentences and rows there are, and since when the first of them are
 * there. */
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
beam_starts(TFM_INPUT(int, next_live), TFM_INPUT(int, began), TFM_INPUT(int, sentences), TFM_TENSOR(int, keep),
            TFM_TENSOR(int, starts), TFM_TENSOR(int, totals), const long n) {
    int kept = 0, rows = 0, oldest = INT_MAX;
    for (long i = 0; i < n; i++) {
        const int live = TFM_AT(next_live)[i];
        if (live == 0)
            continue;
        TFM_AT(keep)[kept] = (int)i;
        TFM_AT(starts)[kept++] = rows;
        rows += live;
        oldest = min(oldest, began != 0 ? TFM_AT(began)[TFM_AT(sentences)[i]] : 0);
    }
    TFM_AT(starts)[kept] = rows;
    TFM_AT(totals)[0] = kept;
    TFM_AT(totals)[1] = rows;
    TFM_AT(totals)[2] = oldest;
}

/* log(exp(a) + exp(b)); either may be -inf */
float beam_log_add(const float a, const float b) {
    const float most = fmax(a, b);
    return most == -INFINITY ? most : most + log(exp(a - most) + exp(b - most));
}

/* Forbids what the sentence of a row may not write: logits (R, words) become -inf where allowed (N, words) is 0 for
 * sentence sources[r].
 *
 * Layout: a work-group takes a row, its items every TFM_GROUP-th word. */
TFM_KERNEL void beam_keep(TFM_TENSOR(float, logits), TFM_INPUT(uchar, allowed), TFM_INPUT(int, sources),
                          const long rows, const long words) {
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    __global float *logit = TFM_AT(logits) + row * words;
    __global const uchar *list = TFM_AT(allowed) + TFM_AT(sources)[row] * words;
    for (long i = TFM_LANE(); i < words; i += TFM_GROUP)
        logit[i] = list[i] ? logit[i] : -INFINITY;
}

/* How many places of a row's line count. */
#define PAST_OF(row) (lengths != 0 ? TFM_AT(lengths)[row] : columns)

/* One item per row: forbids the last token of each word whose others are the newest tokens of the row's past.
 *   logits (R, vocabulary): become -inf there; removed (R): the logarithm of the sum of their exponentials
 *   table (R, columns): the nodes of each row's past, of which `lengths` count, or all where that is null; node_token:
 *     the token of each node
 *   words (count + 1): where in `ids` each word begins */
TFM_KERNEL void beam_forbid(TFM_TENSOR(float, logits), TFM_TENSOR(float, removed), TFM_INPUT(int, table),
                            TFM_INPUT(int, lengths), TFM_INPUT(int, node_token), TFM_INPUT(int, words),
                            TFM_INPUT(int, ids), const long rows, const long vocabulary, const long columns,
                            const long count) {
    const long row = get_global_id(0);
    if (row >= rows)
        return;
    const long past = PAST_OF(row);
    __global const int *line = TFM_AT(table) + row * columns;
    float sum = -INFINITY;
    for (long w = 0; w < count; w++) {
        __global const int *word = TFM_AT(ids) + TFM_AT(words)[w];
        const long before = TFM_AT(words)[w + 1] - TFM_AT(words)[w] - 1;
        if (before > past)
            continue;
        long same = 0;
        while (same < before && TFM_AT(node_token)[line[past - before + same]] == word[same])
            same++;
        if (same < before)
            continue;
        __global float *logit = TFM_AT(logits) + row * vocabulary + word[before];
        sum = beam_log_add(sum, *logit);
        *logit = -INFINITY;
    }
    TFM_AT(removed)[row] = sum;
}

/* One item per row: out (R, vocabulary) gets bias[w] more at the last token of each word w whose others are the newest
 * tokens of the row's past. The rest is as for beam_forbid. */
TFM_KERNEL void beam_bias(TFM_TENSOR(float, out), TFM_INPUT(int, table), TFM_INPUT(int, lengths),
                          TFM_INPUT(int, node_token), TFM_INPUT(int, words), TFM_INPUT(int, ids),
                          TFM_INPUT(float, bias), const long rows, const long vocabulary, const long columns,
                          const long count) {
    const long row = get_global_id(0);
    if (row >= rows)
        return;
    const long past = PAST_OF(row);
    __global const int *line = TFM_AT(table) + row * columns;
    for (long w = 0; w < count; w++) {
        __global const int *word = TFM_AT(ids) + TFM_AT(words)[w];
        const long before = TFM_AT(words)[w + 1] - TFM_AT(words)[w] - 1;
        long same = 0;
        while (before <= past && same < before && TFM_AT(node_token)[line[past - before + same]] == word[same])
            same++;
        if (same == before)
            TFM_AT(out)[row * vocabulary + word[before]] += TFM_AT(bias)[w];
    }
}

/* One item per row: forbids the tokens that would write a sequence of `length` tokens for the second time in a row's
 * past. logits (R, vocabulary): become -inf there; removed (R): the logarithm of a sum, to which their exponentials are
 * added. may_choose (R): as of rules_choice (rules.cl), or null. table (R, columns) and lengths (R) as for beam_forbid;
 * node_token: the token of each node, -1 is no token */
TFM_KERNEL void beam_forbid_repeats(TFM_TENSOR(float, logits), TFM_TENSOR(float, removed), TFM_INPUT(int, may_choose),
                                    TFM_INPUT(int, table), TFM_INPUT(int, lengths), TFM_INPUT(int, node_token),
                                    const long rows, const long vocabulary, const long columns, const long length) {
    const long row = get_global_id(0);
    if (row >= rows || (may_choose != 0 && !TFM_AT(may_choose)[row]))
        return;
    const long past = PAST_OF(row);
    __global const int *line = TFM_AT(table) + row * columns;
    float sum = TFM_AT(removed)[row];
    for (long i = 0; i + length <= past; i++) {
        const int last = TFM_AT(node_token)[line[i + length - 1]];
        bool same = last >= 0 && last < vocabulary;
        for (long k = 0; same && k + 1 < length; k++) {
            const int token = TFM_AT(node_token)[line[i + k]];
            same = token >= 0 && token == TFM_AT(node_token)[line[past - length + 1 + k]];
        }
        if (!same)
            continue;
        __global float *logit = TFM_AT(logits) + row * vocabulary + last;
        sum = beam_log_add(sum, *logit);
        *logit = -INFINITY;
    }
    TFM_AT(removed)[row] = sum;
}

/* A work-group per row: out (R, vocabulary), a copy of logits, gets the tokens of the row's past with the penalty: on
 * log p where `likely`, else on the logit, divided where it is positive and multiplied where it is negative.
 *   log_sum (R); table (R, columns) and lengths (R) as for beam_forbid; node_token: -1 is no token */
TFM_KERNEL void beam_penalize(TFM_TENSOR(float, out), TFM_INPUT(float, logits), TFM_INPUT(float, log_sum),
                              TFM_INPUT(int, table), TFM_INPUT(int, lengths), TFM_INPUT(int, node_token),
                              const long rows, const long vocabulary, const long columns, const long likely,
                              const float penalty) {
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    const long past = PAST_OF(row);
    const float base = likely ? TFM_AT(log_sum)[row] : 0.0f;
    for (long i = TFM_LANE(); i < past; i += TFM_GROUP) {
        const int token = TFM_AT(node_token)[TFM_AT(table)[row * columns + i]];
        if (token < 0 || token >= vocabulary)
            continue;
        const float score = TFM_AT(logits)[row * vocabulary + token] - base;
        TFM_AT(out)[row * vocabulary + token] = (score < 0.0f ? score * penalty : score / penalty) + base;
    }
}

/* One item per row: values (R) = the logits (R, vocabulary) of tokens (R), -inf for the token -1, which there is not;
 * where tokens were not `drawn`, a value that is -inf stays: its token is none that may be chosen. */
TFM_KERNEL void beam_values(TFM_TENSOR(float, values), TFM_INPUT(int, tokens), TFM_INPUT(float, logits),
                            const long rows, const long vocabulary, const long drawn) {
    const long row = get_global_id(0);
    if (row >= rows)
        return;
    const int token = drawn || TFM_AT(values)[row] > -INFINITY ? TFM_AT(tokens)[row] : -1;
    TFM_AT(values)[row] = token < 0 ? -INFINITY : TFM_AT(logits)[row * vocabulary + token];
}

/* One item per live sentence, of a beam of one: those with stops (N) are over with what they have. What is before their
 * last token is the parent of its node. */
TFM_KERNEL void beam_stop(TFM_INPUT(int, stops), TFM_INPUT(int, sentences), TFM_INPUT(int, tokens),
                          TFM_INPUT(float, scores), TFM_INPUT(int, node_parent), TFM_TENSOR(int, done),
                          TFM_TENSOR(int, remaining), TFM_TENSOR(float, finished_total),
                          TFM_TENSOR(int, finished_token), TFM_TENSOR(int, finished_node),
                          TFM_TENSOR(int, finished_step), TFM_TENSOR(int, finished_count), const long live,
                          const long node, const long step) {
    const long i = get_global_id(0);
    if (i >= live || TFM_AT(done)[i])
        return;
    const int sentence = TFM_AT(sentences)[i];
    if (!TFM_AT(stops)[sentence])
        return;
    TFM_AT(finished_total)[sentence] = TFM_AT(scores)[i];
    TFM_AT(finished_token)[sentence] = TFM_AT(tokens)[i];
    TFM_AT(finished_node)[sentence] = TFM_AT(node_parent)[node + i];
    TFM_AT(finished_step)[sentence] = (int)step;
    TFM_AT(finished_count)[sentence] = 1;
    TFM_AT(done)[i] = 1;
    atomic_dec(TFM_AT(remaining));
}

/* A work-group per row: a mask (R, room) of what a row's past really has, -inf where its prompt has none, and positions
 * (R) of its newest tokens. pads (N): columns before the prompt; sources (R). The past has `past` columns. */
TFM_KERNEL void beam_places(TFM_TENSOR(float, mask), TFM_TENSOR(int, positions), TFM_INPUT(int, pads),
                            TFM_INPUT(int, sources), const long rows, const long past) {
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    const int none = TFM_AT(pads)[TFM_AT(sources)[row]];
    for (long i = TFM_LANE(); i < past; i += TFM_GROUP)
        TFM_AT(mask)[row * past + i] = i < none ? -INFINITY : 0.0f;
    if (TFM_LANE() == 0)
        TFM_AT(positions)[row] = (int)past - 1 - none;
}

/* One item per row: log_sum (R) counts what was removed, so that no other token becomes more probable by it. */
TFM_KERNEL void beam_restore(TFM_TENSOR(float, log_sum), TFM_INPUT(float, removed), const long rows) {
    const long row = get_global_id(0);
    if (row < rows)
        TFM_AT(log_sum)[row] = beam_log_add(TFM_AT(log_sum)[row], TFM_AT(removed)[row]);
}

/* One item per row: out (R) = log p of targets (R) under logits (R, vocabulary) whose normaliser is log_sum (R). */
TFM_KERNEL void token_log_prob(TFM_TENSOR(float, out), TFM_INPUT(float, logits), TFM_INPUT(float, log_sum),
                               TFM_INPUT(int, targets), const long rows, const long vocabulary) {
    const long row = get_global_id(0);
    if (row < rows)
        TFM_AT(out)[row] = TFM_AT(logits)[row * vocabulary + TFM_AT(targets)[row]] - TFM_AT(log_sum)[row];
}

#endif
