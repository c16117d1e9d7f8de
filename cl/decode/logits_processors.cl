/* Logits processors (lib/model/decode/logits_processors.c, beam_candidates.c). Rows are those of beam.cl: block_table
 * (R, columns) has the slots of each row's past, slot_token the token of each slot, -1 for none, and sources (R) the
 * sequence of a row. source_ids (N, width) are each sequence's source or prompt, source_counts (N) of them valid. */

/* log(exp(a) + exp(b)); either may be -inf */
static inline float logits_logaddexp(const float a, const float b) {
    const float most = fmax(a, b);
    return most == -INFINITY ? most : most + log(exp(a - most) + exp(b - most));
}

/* One item per row: unforced (R) is 0 if the row's next token is forced, so that no processor may forbid it: in the
 * prefix, prefix_counts (N), or, with has_forced_eos, at the limit (N). `lengths` as for suppress_source_ngrams; a
 * row's past begins with the start token. */
TFM_KERNEL void mark_unforced_rows(TFM_TENSOR(int, unforced), TFM_INPUT(int, lengths), TFM_INPUT(int, limits),
                                   TFM_INPUT(int, prefix_counts), TFM_INPUT(int, sources), const long rows,
                                   const long columns, const long has_forced_eos) {
    const long row = get_global_id(0);
    if (row >= rows)
        return;
    const long next = lengths != 0 ? TFM_AT(lengths)[row] : columns, text = TFM_AT(sources)[row];
    const bool forced = next <= TFM_AT(prefix_counts)[text] || (has_forced_eos && next >= TFM_AT(limits)[text]);
    TFM_AT(unforced)[row] = !forced;
}

/* One item per row: forbids the ends (eos_count) in logits (R, vocabulary) if the row has fewer tokens (`step`) than
 * min_tokens (N); removed (R) gets their log-sum-exp, as in suppress_bad_words. */
TFM_KERNEL void suppress_early_eos(TFM_TENSOR(float, logits), TFM_TENSOR(float, removed), TFM_INPUT(int, min_tokens),
                                   TFM_INPUT(int, sources), TFM_INPUT(int, eos_ids), const long rows,
                                   const long vocabulary, const long eos_count, const long step) {
    const long row = get_global_id(0);
    if (row >= rows || step >= TFM_AT(min_tokens)[TFM_AT(sources)[row]])
        return;
    float sum = TFM_AT(removed)[row];
    for (long e = 0; e < eos_count; e++) {
        __global float *logit = TFM_AT(logits) + row * vocabulary + TFM_AT(eos_ids)[e];
        sum = logits_logaddexp(sum, *logit);
        *logit = -INFINITY;
    }
    TFM_AT(removed)[row] = sum;
}

/* One item per row: adds `share` of the absolute score to the ends (eos_count) in out (R, vocabulary): log p if
 * `use_log_probs`, else logits. lse (R). */
TFM_KERNEL void apply_length_decay(TFM_TENSOR(float, out), TFM_INPUT(float, lse), TFM_INPUT(int, eos_ids),
                                   const long rows, const long vocabulary, const long eos_count,
                                   const long use_log_probs, const float share) {
    const long row = get_global_id(0);
    if (row >= rows)
        return;
    const float base = use_log_probs ? TFM_AT(lse)[row] : 0.0f;
    for (long e = 0; e < eos_count; e++) {
        __global float *logit = TFM_AT(out) + row * vocabulary + TFM_AT(eos_ids)[e];
        if (*logit > -INFINITY) /* a forbidden one stays forbidden */
            *logit += fabs(*logit - base) * share;
    }
}

/* A work-group per row: out (R, vocabulary) = logits with the penalty on the tokens of the row's source, as
 * apply_repetition_penalty does for its past. */
TFM_KERNEL void apply_encoder_repetition_penalty(TFM_TENSOR(float, out), TFM_INPUT(float, logits),
                                                 TFM_INPUT(float, lse), TFM_INPUT(int, source_ids),
                                                 TFM_INPUT(int, source_counts), TFM_INPUT(int, sources),
                                                 const long rows, const long vocabulary, const long width,
                                                 const long use_log_probs, const float penalty) {
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    const long text = TFM_AT(sources)[row], count = TFM_AT(source_counts)[text];
    const float base = use_log_probs ? TFM_AT(lse)[row] : 0.0f;
    for (long i = TFM_LOCAL_ID(); i < count; i += TFM_GROUP) {
        const int token = TFM_AT(source_ids)[text * width + i];
        if (token < 0 || token >= vocabulary)
            continue;
        const float score = TFM_AT(logits)[row * vocabulary + token] - base;
        TFM_AT(out)[row * vocabulary + token] = (score < 0.0f ? score * penalty : score / penalty) + base;
    }
}

/* One item per row: forbids tokens that would repeat an n-gram of `length` tokens of the row's source. logits (R,
 * vocabulary) and removed (R) as for suppress_early_eos; `lengths` (R): used columns of a row's line, or all if null;
 * unforced (R) from mark_unforced_rows, or null if no row is forced. */
TFM_KERNEL void suppress_source_ngrams(TFM_TENSOR(float, logits), TFM_TENSOR(float, removed), TFM_INPUT(int, unforced),
                                       TFM_INPUT(int, block_table), TFM_INPUT(int, lengths), TFM_INPUT(int, slot_token),
                                       TFM_INPUT(int, source_ids), TFM_INPUT(int, source_counts),
                                       TFM_INPUT(int, sources), const long rows, const long vocabulary,
                                       const long columns, const long width, const long length) {
    const long row = get_global_id(0);
    if (row >= rows || (unforced != 0 && !TFM_AT(unforced)[row]))
        return;
    const long past = lengths != 0 ? TFM_AT(lengths)[row] : columns, text = TFM_AT(sources)[row];
    const long last = TFM_AT(source_counts)[text] - length;
    __global const int *line = TFM_AT(block_table) + row * columns, *source = TFM_AT(source_ids) + text * width;
    float sum = TFM_AT(removed)[row];
    for (long i = 0; i <= last && past >= length - 1; i++) {
        bool same = true;
        for (long k = 0; same && k + 1 < length; k++)
            same = source[i + k] == TFM_AT(slot_token)[line[past - length + 1 + k]];
        const int token = source[i + length - 1];
        if (!same || token >= vocabulary)
            continue;
        __global float *logit = TFM_AT(logits) + row * vocabulary + token;
        sum = logits_logaddexp(sum, *logit);
        *logit = -INFINITY;
    }
    TFM_AT(removed)[row] = sum;
}

/* Applies a vocabulary shortlist: logits (R, words) become -inf where allowed (N, words) is 0 for sentence sources[r].
 *
 * Layout: a work-group takes a row, its items every TFM_GROUP-th word. */
TFM_KERNEL void mask_shortlist(TFM_TENSOR(float, logits), TFM_INPUT(uchar, allowed), TFM_INPUT(int, sources),
                               const long rows, const long words) {
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    __global float *logit = TFM_AT(logits) + row * words;
    __global const uchar *list = TFM_AT(allowed) + TFM_AT(sources)[row] * words;
    for (long i = TFM_LOCAL_ID(); i < words; i += TFM_GROUP)
        logit[i] = list[i] ? logit[i] : -INFINITY;
}

/* Number of used columns of a row's line. */
#define PAST_LENGTH(row) (lengths != 0 ? TFM_AT(lengths)[row] : columns)

/* One item per row: forbids the last token of each bad word if the row's newest tokens are the word's others.
 *   logits (R, vocabulary): become -inf there; removed (R): log-sum-exp of the forbidden logits
 *   block_table (R, columns): the slots of each row's past, `lengths` of them used, or all if that is null
 *   slot_token: the token of each slot; words (count + 1): the begin of each word in `ids` */
TFM_KERNEL void suppress_bad_words(TFM_TENSOR(float, logits), TFM_TENSOR(float, removed), TFM_INPUT(int, block_table),
                                   TFM_INPUT(int, lengths), TFM_INPUT(int, slot_token), TFM_INPUT(int, words),
                                   TFM_INPUT(int, ids), const long rows, const long vocabulary, const long columns,
                                   const long count) {
    const long row = get_global_id(0);
    if (row >= rows)
        return;
    const long past = PAST_LENGTH(row);
    __global const int *line = TFM_AT(block_table) + row * columns;
    float sum = -INFINITY;
    for (long w = 0; w < count; w++) {
        __global const int *word = TFM_AT(ids) + TFM_AT(words)[w];
        const long before = TFM_AT(words)[w + 1] - TFM_AT(words)[w] - 1;
        if (before > past)
            continue;
        long same = 0;
        while (same < before && TFM_AT(slot_token)[line[past - before + same]] == word[same])
            same++;
        if (same < before)
            continue;
        __global float *logit = TFM_AT(logits) + row * vocabulary + word[before];
        sum = logits_logaddexp(sum, *logit);
        *logit = -INFINITY;
    }
    TFM_AT(removed)[row] = sum;
}

/* One item per row: adds bias[w] to out (R, vocabulary) at the last token of each word w if the row's newest tokens are
 * the word's others. Other arguments as for suppress_bad_words. */
TFM_KERNEL void apply_sequence_bias(TFM_TENSOR(float, out), TFM_INPUT(int, block_table), TFM_INPUT(int, lengths),
                                    TFM_INPUT(int, slot_token), TFM_INPUT(int, words), TFM_INPUT(int, ids),
                                    TFM_INPUT(float, bias), const long rows, const long vocabulary, const long columns,
                                    const long count) {
    const long row = get_global_id(0);
    if (row >= rows)
        return;
    const long past = PAST_LENGTH(row);
    __global const int *line = TFM_AT(block_table) + row * columns;
    for (long w = 0; w < count; w++) {
        __global const int *word = TFM_AT(ids) + TFM_AT(words)[w];
        const long before = TFM_AT(words)[w + 1] - TFM_AT(words)[w] - 1;
        long same = 0;
        while (before <= past && same < before && TFM_AT(slot_token)[line[past - before + same]] == word[same])
            same++;
        if (same == before)
            TFM_AT(out)[row * vocabulary + word[before]] += TFM_AT(bias)[w];
    }
}

/* One item per row: forbids tokens that would repeat an n-gram of `length` tokens of the row's past. logits (R,
 * vocabulary): become -inf there; removed (R): a log-sum-exp, to which theirs is added. unforced (R): from
 * mark_unforced_rows, or null. block_table (R, columns) and lengths (R) as for
 * suppress_bad_words; slot_token: the token of each slot, -1 for none */
TFM_KERNEL void suppress_repeated_ngrams(TFM_TENSOR(float, logits), TFM_TENSOR(float, removed),
                                         TFM_INPUT(int, unforced), TFM_INPUT(int, block_table), TFM_INPUT(int, lengths),
                                         TFM_INPUT(int, slot_token), const long rows, const long vocabulary,
                                         const long columns, const long length) {
    const long row = get_global_id(0);
    if (row >= rows || (unforced != 0 && !TFM_AT(unforced)[row]))
        return;
    const long past = PAST_LENGTH(row);
    __global const int *line = TFM_AT(block_table) + row * columns;
    float sum = TFM_AT(removed)[row];
    for (long i = 0; i + length <= past; i++) {
        const int last = TFM_AT(slot_token)[line[i + length - 1]];
        bool same = last >= 0 && last < vocabulary;
        for (long k = 0; same && k + 1 < length; k++) {
            const int token = TFM_AT(slot_token)[line[i + k]];
            same = token >= 0 && token == TFM_AT(slot_token)[line[past - length + 1 + k]];
        }
        if (!same)
            continue;
        __global float *logit = TFM_AT(logits) + row * vocabulary + last;
        sum = logits_logaddexp(sum, *logit);
        *logit = -INFINITY;
    }
    TFM_AT(removed)[row] = sum;
}

/* A work-group per row: out (R, vocabulary) = logits with the repetition penalty on the tokens of the row's past: on
 * log p if `use_log_probs`, else on the logit, divided if positive and multiplied if negative.
 *   lse (R); block_table (R, columns) and lengths (R) as for suppress_bad_words; slot_token: -1 for none */
TFM_KERNEL void apply_repetition_penalty(TFM_TENSOR(float, out), TFM_INPUT(float, logits), TFM_INPUT(float, lse),
                                         TFM_INPUT(int, block_table), TFM_INPUT(int, lengths),
                                         TFM_INPUT(int, slot_token), const long rows, const long vocabulary,
                                         const long columns, const long use_log_probs, const float penalty) {
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    const long past = PAST_LENGTH(row);
    const float base = use_log_probs ? TFM_AT(lse)[row] : 0.0f;
    for (long i = TFM_LOCAL_ID(); i < past; i += TFM_GROUP) {
        const int token = TFM_AT(slot_token)[TFM_AT(block_table)[row * columns + i]];
        if (token < 0 || token >= vocabulary)
            continue;
        const float score = TFM_AT(logits)[row * vocabulary + token] - base;
        TFM_AT(out)[row * vocabulary + token] = (score < 0.0f ? score * penalty : score / penalty) + base;
    }
}

/* One item per row: adds the removed probability to lse (R), so that no other token becomes more probable. */
TFM_KERNEL void restore_suppressed_mass(TFM_TENSOR(float, lse), TFM_INPUT(float, removed), const long rows) {
    const long row = get_global_id(0);
    if (row < rows)
        TFM_AT(lse)[row] = logits_logaddexp(TFM_AT(lse)[row], TFM_AT(removed)[row]);
}
