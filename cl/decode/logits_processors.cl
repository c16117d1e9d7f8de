/* Rules of a search that look at its source, or at how long a row's text is (lib/model/decode/logits_processors.c).
 * Rows are those of beam.cl: table (R, columns) has the nodes of each row's past, node_token the token of each node, -1
 * for none, and sources (R) says whose text a row is. source_ids (N, width) are what each text is about, or the prompt
 * that it goes on with, of which source_counts (N) count. */

/* log(exp(a) + exp(b)); either may be -inf */
float rules_log_add(const float a, const float b) {
    const float most = fmax(a, b);
    return most == -INFINITY ? most : most + log(exp(a - most) + exp(b - most));
}

/* One item per row: may_choose (R) is 0 where the row's next token is forced, which no rule may forbid then: as one of
 * the beginning of its text, prefix_counts (N), or, where there is a has_forced_eos, at its limit (N). `lengths` as for
 * rules_forbid_source; a row's past begins with the start token. */
TFM_KERNEL void rules_choice(TFM_TENSOR(int, may_choose), TFM_INPUT(int, lengths), TFM_INPUT(int, limits),
                             TFM_INPUT(int, prefix_counts), TFM_INPUT(int, sources), const long rows,
                             const long columns, const long has_forced_eos) {
    const long row = get_global_id(0);
    if (row >= rows)
        return;
    const long next = lengths != 0 ? TFM_AT(lengths)[row] : columns, text = TFM_AT(sources)[row];
    const bool forced = next <= TFM_AT(prefix_counts)[text] || (has_forced_eos && next >= TFM_AT(limits)[text]);
    TFM_AT(may_choose)[row] = !forced;
}

/* One item per row: forbids the ends (end_count) in logits (R, vocabulary) where the row's text has fewer tokens, which
 * are `step`, than waits (N) says; removed (R) counts what they weighed, as in beam_forbid. */
TFM_KERNEL void rules_wait(TFM_TENSOR(float, logits), TFM_TENSOR(float, removed), TFM_INPUT(int, waits),
                           TFM_INPUT(int, sources), TFM_INPUT(int, ends), const long rows, const long vocabulary,
                           const long end_count, const long step) {
    const long row = get_global_id(0);
    if (row >= rows || step >= TFM_AT(waits)[TFM_AT(sources)[row]])
        return;
    float sum = TFM_AT(removed)[row];
    for (long e = 0; e < end_count; e++) {
        __global float *logit = TFM_AT(logits) + row * vocabulary + TFM_AT(ends)[e];
        sum = rules_log_add(sum, *logit);
        *logit = -INFINITY;
    }
    TFM_AT(removed)[row] = sum;
}

/* One item per row: the ends (end_count) gain `share` of what their scores in out (R, vocabulary) are without a sign,
 * log p where `likely`, else logits. log_sum (R). */
TFM_KERNEL void rules_decay(TFM_TENSOR(float, out), TFM_INPUT(float, log_sum), TFM_INPUT(int, ends), const long rows,
                            const long vocabulary, const long end_count, const long likely, const float share) {
    const long row = get_global_id(0);
    if (row >= rows)
        return;
    const float base = likely ? TFM_AT(log_sum)[row] : 0.0f;
    for (long e = 0; e < end_count; e++) {
        __global float *logit = TFM_AT(out) + row * vocabulary + TFM_AT(ends)[e];
        if (*logit > -INFINITY) /* one that is forbidden stays so */
            *logit += fabs(*logit - base) * share;
    }
}

/* A work-group per row: out (R, vocabulary), a copy of logits, gets the tokens of the row's source with the penalty, as
 * beam_penalize those of its past. */
TFM_KERNEL void rules_penalize_source(TFM_TENSOR(float, out), TFM_INPUT(float, logits), TFM_INPUT(float, log_sum),
                                      TFM_INPUT(int, source_ids), TFM_INPUT(int, source_counts),
                                      TFM_INPUT(int, sources), const long rows, const long vocabulary, const long width,
                                      const long likely, const float penalty) {
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    const long text = TFM_AT(sources)[row], count = TFM_AT(source_counts)[text];
    const float base = likely ? TFM_AT(log_sum)[row] : 0.0f;
    for (long i = TFM_LOCAL_ID(); i < count; i += TFM_GROUP) {
        const int token = TFM_AT(source_ids)[text * width + i];
        if (token < 0 || token >= vocabulary)
            continue;
        const float score = TFM_AT(logits)[row * vocabulary + token] - base;
        TFM_AT(out)[row * vocabulary + token] = (score < 0.0f ? score * penalty : score / penalty) + base;
    }
}

/* One item per row: forbids the tokens that would write a sequence of `length` tokens of the row's source. logits (R,
 * vocabulary) and removed (R) as for rules_wait; `lengths` (R) are how many columns count of a row's line, or all where
 * that is null; may_choose (R) as of rules_choice, or null where all may. */
TFM_KERNEL void rules_forbid_source(TFM_TENSOR(float, logits), TFM_TENSOR(float, removed), TFM_INPUT(int, may_choose),
                                    TFM_INPUT(int, table), TFM_INPUT(int, lengths), TFM_INPUT(int, node_token),
                                    TFM_INPUT(int, source_ids), TFM_INPUT(int, source_counts), TFM_INPUT(int, sources),
                                    const long rows, const long vocabulary, const long columns, const long width,
                                    const long length) {
    const long row = get_global_id(0);
    if (row >= rows || (may_choose != 0 && !TFM_AT(may_choose)[row]))
        return;
    const long past = lengths != 0 ? TFM_AT(lengths)[row] : columns, text = TFM_AT(sources)[row];
    const long last = TFM_AT(source_counts)[text] - length;
    __global const int *line = TFM_AT(table) + row * columns, *source = TFM_AT(source_ids) + text * width;
    float sum = TFM_AT(removed)[row];
    for (long i = 0; i <= last && past >= length - 1; i++) {
        bool same = true;
        for (long k = 0; same && k + 1 < length; k++)
            same = source[i + k] == TFM_AT(node_token)[line[past - length + 1 + k]];
        const int token = source[i + length - 1];
        if (!same || token >= vocabulary)
            continue;
        __global float *logit = TFM_AT(logits) + row * vocabulary + token;
        sum = rules_log_add(sum, *logit);
        *logit = -INFINITY;
    }
    TFM_AT(removed)[row] = sum;
}
