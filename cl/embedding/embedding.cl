/* y (rows, width) = scale table[ids[row]] + positions[first + row % steps]
 *
 * table (vocabulary, width), ids (rows) in sequences of `steps`, positions (P, width) or null. An id
 * outside [0, vocabulary) gives a row of NaN: the host cannot see ids without waiting for the device, and
 * NaN is not mistaken for a result.
 *
 * With SKIPS, tokens `skipped` stand at no position: they get nothing, or where not `blank`, the row before the
 * positions; and where `counted`, those after them in a sequence stand as if they were not there.
 *
 * Layout: a work-item takes TFM_CHUNK elements of y, across rows, so that a few wide rows and many narrow
 * ones both spread over the device. The table may be of 16 bits (half_load.cl). */
#include "half_load.cl"
#ifdef SKIPS
#define SKIP_PARAMETERS , const long skipped, const long counted, const long blank
#define PLACED(id) (has_positions && !(blank && (id) == skipped))
#define PLACE_OF(row, id) place_of(TFM_AT(ids), row, steps, first, id, skipped, counted)

static inline long place_of(__global const int *ids, const long row, const long steps, const long first, const int id,
                            const long skipped, const long counted) {
    long place = first + row % steps;
    if (id == skipped)
        return -1;
    for (long i = row - row % steps; counted && i < row; i++)
        place -= ids[i] == skipped;
    return place;
}
#else
#define SKIP_PARAMETERS
#define PLACED(id) has_positions
#define PLACE_OF(row, id) (first + (row) % steps)
#endif
TFM_KERNEL void embedding(TFM_TENSOR(float, y), TFM_INPUT(load_t, table), TFM_INPUT(int, ids),
                          TFM_INPUT(float, positions), const long n, const long width, const long vocabulary,
                          const long steps, const long first, const float scale SKIP_PARAMETERS) {
    long i = TFM_ELEMENT();
    const long end = min(i + TFM_CHUNK, n);
    const int has_positions = positions != 0;
    __global float *out = TFM_AT(y);
    while (i < end) {
        const long row = i / width, stop = min(end, (row + 1) * width);
        /* No long: compared with 0, an int made long is positive on llvmpipe (Mesa 22.3). */
        const int id = TFM_AT(ids)[row];
        if (id < 0 || id >= vocabulary) {
            for (; i < stop; i++)
                out[i] = NAN;
            continue;
        }
        /* Both are read at i, as out is. */
        __global const load_t *word = TFM_AT(table) + (id - row) * width;
        __global const float *place = TFM_AT(positions) + (PLACE_OF(row, id) - row) * width;
        const int placed = PLACED(id);
        for (; i + TFM_WIDTH <= stop; i += TFM_WIDTH) {
            const tfm_vec v = load_as_float_vec(word + i) * scale;
            tfm_store(placed ? v + tfm_load(place + i) : v, out + i);
        }
        for (; i < stop; i++)
            out[i] = placed ? load_as_float(word + i) * scale + place[i] : load_as_float(word + i) * scale;
    }
}

/* The same of a table of bytes: row id of it is scales[id] table[id].
 *
 * Layout: TFM_GROUP items share a row of y. */
TFM_KERNEL void embedding_bytes(TFM_TENSOR(float, y), TFM_INPUT(char, table), TFM_INPUT(float, scales),
                                TFM_INPUT(int, ids), TFM_INPUT(float, positions), const long rows, const long width,
                                const long vocabulary, const long steps, const long first,
                                const float scale SKIP_PARAMETERS) {
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    const int id = TFM_AT(ids)[row], known = id >= 0 && id < vocabulary, has_positions = positions != 0;
    const float factor = known ? scale * TFM_AT(scales)[id] : NAN;
    __global const char *word = TFM_AT(table) + (known ? id : 0) * width;
    const int placed = PLACED(id);
    __global const float *place = TFM_AT(positions) + PLACE_OF(row, id) * width;
    __global float *out = TFM_AT(y) + row * width;
    for (long i = TFM_LOCAL_ID(); i < width; i += TFM_GROUP) {
        const float v = factor * (float)word[i];
        out[i] = placed ? v + place[i] : v;
    }
}

/* out (count, width) is rows ids (count) of a table (V, width) of numbers that take a byte or, where the host says so,
 * two; an id outside gives zeros. Layout as above. */
#ifndef GATHERED
#define GATHERED char
#endif
TFM_KERNEL void gather_small(TFM_TENSOR(GATHERED, out), TFM_INPUT(GATHERED, table), TFM_INPUT(int, ids),
                             const long count, const long width, const long vocabulary) {
    const long row = TFM_ROW();
    if (row >= count)
        return;
    const int id = TFM_AT(ids)[row], known = id >= 0 && id < vocabulary;
    for (long i = TFM_LOCAL_ID(); i < width; i += TFM_GROUP)
        TFM_AT(out)[row * width + i] = known ? TFM_AT(table)[id * width + i] : 0;
}
