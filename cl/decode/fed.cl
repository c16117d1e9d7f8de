/* Continuous batching: admits sequences to a running batch (lib/model/decode/fed.c, join.c). */

/* to (N, room, width) = x (rows / length, length, width) at index `places` (rows / length), or at the first ones if
 * that is null.
 *
 * Layout: a work-group takes a row of `width` numbers. */
TFM_KERNEL void fed_place(TFM_TENSOR(float, to), TFM_INPUT(float, x), TFM_INPUT(int, places), const long rows,
                          const long length, const long room, const long width) {
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    const long from = row / length, column = row - from * length, at = places != 0 ? TFM_AT(places)[from] : from;
    for (long i = TFM_LOCAL_ID(); i < width; i += TFM_GROUP)
        TFM_AT(to)[(at * room + column) * width + i] = TFM_AT(x)[row * width + i];
}

/* The rows of `live` sentences, `rows` in all, followed by those of `more` admitted ones, a row each. arrivals holds
 * their places, limits and counts of forced tokens, (more) each, and the forced tokens (more, prefix_width).
 *   tokens to starts: the state of each row or sentence, and all_tokens to all_starts the same with the admitted ones:
 *     see beam.cl. lengths is null if all rows have `columns`; positions (rows + more): one less
 *   admitted_step to finished_count: state at the sentences' places, `beam` numbers or one each
 *   slot_token, slot_parent, slot_score: all slots; the admitted rows have theirs from slot + rows on
 *
 * Layout: a work-group takes a row; its first item does everything except copying the line of the block_table. There
 * are no more sentences than rows, so the r-th row's group also handles the r-th sentence. */
TFM_KERNEL void fed_join(TFM_INPUT(int, arrivals), TFM_INPUT(int, tokens), TFM_INPUT(float, scores),
                         TFM_INPUT(int, block_table), TFM_INPUT(int, lengths), TFM_INPUT(int, sources),
                         TFM_INPUT(int, sentences), TFM_INPUT(int, starts), TFM_TENSOR(int, all_tokens),
                         TFM_TENSOR(float, all_scores), TFM_TENSOR(int, all_block_table), TFM_TENSOR(int, all_lengths),
                         TFM_TENSOR(int, positions), TFM_TENSOR(int, all_sources), TFM_TENSOR(int, all_sentences),
                         TFM_TENSOR(int, all_starts), TFM_TENSOR(int, done), TFM_TENSOR(int, admitted_step),
                         TFM_TENSOR(int, limits), TFM_TENSOR(int, prefix_counts), TFM_TENSOR(int, prefixes),
                         TFM_TENSOR(float, finished_total), TFM_TENSOR(int, finished_length),
                         TFM_TENSOR(int, finished_count), TFM_TENSOR(int, slot_token), TFM_TENSOR(int, slot_parent),
                         TFM_TENSOR(float, slot_score), const long rows, const long more, const long live,
                         const long columns, const long step, const long slot, const long start, const long beam,
                         const long prefix_width) {
    const long row = TFM_ROW(), new = row - rows;
    if (row >= rows + more)
        return;
    for (long i = TFM_LOCAL_ID(); i < columns; i += TFM_GROUP)
        TFM_AT(all_block_table)
    [row * columns + i] =
        new < 0 ? TFM_AT(block_table)[row * columns + i] : (int)(slot + row); /* only the first one is used */
    if (TFM_LOCAL_ID() != 0)
        return;
    const int length = new >= 0 ? 1 : lengths != 0 ? TFM_AT(lengths)[row] : (int)columns;
    TFM_AT(all_tokens)[row] = new < 0 ? TFM_AT(tokens)[row] : (int)start;
    TFM_AT(all_scores)[row] = new < 0 ? TFM_AT(scores)[row] : 0.0f;
    TFM_AT(all_lengths)[row] = length;
    TFM_AT(positions)[row] = length - 1;
    TFM_AT(all_sources)[row] = new < 0 ? TFM_AT(sources)[row] : TFM_AT(arrivals)[new];
    if (row < live + more) {
        TFM_AT(all_sentences)[row] = row < live ? TFM_AT(sentences)[row] : TFM_AT(arrivals)[row - live];
        TFM_AT(all_starts)[row] = row < live ? TFM_AT(starts)[row] : (int)(rows + row - live);
        TFM_AT(done)[row] = 0;
    }
    if (row == 0)
        TFM_AT(all_starts)[live + more] = (int)(rows + more);
    if (new < 0)
        return;
    const int place = TFM_AT(arrivals)[new];
    TFM_AT(admitted_step)[place] = (int)step;
    TFM_AT(limits)[place] = TFM_AT(arrivals)[more + new];
    TFM_AT(prefix_counts)[place] = TFM_AT(arrivals)[2 * more + new];
    for (long i = 0; i < prefix_width; i++)
        TFM_AT(prefixes)[place * prefix_width + i] = TFM_AT(arrivals)[3 * more + new *prefix_width + i];
    for (long b = 0; b < beam; b++) {
        TFM_AT(finished_total)[place * beam + b] = -INFINITY;
        TFM_AT(finished_length)[place * beam + b] = 0;
    }
    TFM_AT(finished_count)[place] = 0;
    TFM_AT(slot_token)[slot + row] = (int)start;
    TFM_AT(slot_parent)[slot + row] = -1;
    TFM_AT(slot_score)[slot + row] = 0.0f;
}
