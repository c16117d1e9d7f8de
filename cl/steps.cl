/* Decoding in the form that can be recorded: what differs from step to step lies in memory, and two sets of it take
 * turns (lib/model/generate/recorded.h). `now` holds the number of the step, how many places of a row's line in the
 * table count by now, and the first node of the step's rows. The table has `room` columns, and its newest one the
 * places in the log of keys and values where the step's own are written first, from `stage` on; steps_end takes them to
 * their nodes.
 *
 * The host gives PLACED, a whole number as wide as those that are kept in the log. */
enum { STEP, PAST, NODE };

/* to (rows, to_room) gets the first `past` columns of from (rows, from_room), of which the last is now from `newest`
 * on. now, lengths (rows) and positions (rows) are set where they are not null.
 *
 * Layout: TFM_GROUP items share a row. */
TFM_KERNEL void steps_lay(TFM_TENSOR(int, to), TFM_INPUT(int, from), TFM_TENSOR(int, now), TFM_TENSOR(int, lengths),
                          TFM_TENSOR(int, positions), const long rows, const long to_room, const long from_room,
                          const long newest, const long step, const long past, const long node) {
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    for (long i = TFM_LANE(); i < past; i += TFM_GROUP)
        TFM_AT(to)[row * to_room + i] = i == past - 1 ? (int)(newest + row) : TFM_AT(from)[row * from_room + i];
    if (now != 0 && TFM_LANE() == 0) {
        TFM_AT(lengths)[row] = (int)past;
        TFM_AT(positions)[row] = (int)past - 1;
        if (row == 0) {
            TFM_AT(now)[STEP] = (int)step;
            TFM_AT(now)[PAST] = (int)past;
            TFM_AT(now)[NODE] = (int)node;
        }
    }
}

#ifdef PLACED
#define LOG(i) TFM_TENSOR(PLACED, log_##i)
#define PICK(i) log = which == i ? TFM_AT(log_##i) : log

/* At the end of a step: what its rows wrote at `stage` of `logs` logs, of `width` numbers a row, goes to their nodes.
 * If next_now is not null, it, next_lengths and next_positions become the next step's, and next_place (width_place) the
 * row of `places` (positions, width_place) for it, where there are such.
 *
 * Layout: a work-group for each row of each log, and one for the rest. */
TFM_KERNEL void steps_end(LOG(0), LOG(1), LOG(2), LOG(3), LOG(4), LOG(5), LOG(6), LOG(7), LOG(8), LOG(9), LOG(10),
                          LOG(11), LOG(12), LOG(13), LOG(14), LOG(15), TFM_INPUT(int, now), TFM_TENSOR(int, next_now),
                          TFM_TENSOR(int, next_lengths), TFM_TENSOR(int, next_positions), TFM_TENSOR(float, next_place),
                          TFM_INPUT(float, places), const long logs, const long rows, const long width,
                          const long stage, const long width_place, const long positions) {
    const long which = TFM_ROW() / rows, row = TFM_ROW() % rows, node = TFM_AT(now)[NODE];
    if (which < logs) {
        __global PLACED *log = TFM_AT(log_0);
        PICK(1);
        PICK(2);
        PICK(3);
        PICK(4);
        PICK(5);
        PICK(6);
        PICK(7);
        PICK(8);
        PICK(9);
        PICK(10);
        PICK(11);
        PICK(12);
        PICK(13);
        PICK(14);
        PICK(15);
        for (long i = TFM_LANE(); i < width; i += TFM_GROUP)
            log[(node + row) * width + i] = log[(stage + row) * width + i];
    } else if (TFM_ROW() == logs * rows && next_now != 0) {
        const int past = TFM_AT(now)[PAST];
        for (long i = TFM_LANE(); i < rows; i += TFM_GROUP) {
            TFM_AT(next_lengths)[i] = past + 1;
            TFM_AT(next_positions)[i] = past;
        }
        if (places != 0 && past < positions)
            for (long i = TFM_LANE(); i < width_place; i += TFM_GROUP)
                TFM_AT(next_place)[i] = TFM_AT(places)[past * width_place + i];
        if (TFM_LANE() == 0) {
            TFM_AT(next_now)[STEP] = TFM_AT(now)[STEP] + 1;
            TFM_AT(next_now)[PAST] = past + 1;
            TFM_AT(next_now)[NODE] = (int)(node + rows);
        }
    }
}
#endif
