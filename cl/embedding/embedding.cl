/* y (rows, width) = scale table[ids[row]] + positions[first + row % steps]
 *
 * table (vocabulary, width), ids (rows) in sequences of `steps`, positions (P, width) or null. An id outside
 * [0, vocabulary) gives a row of NaN: the host cannot check ids without waiting for the device, and NaN is not mistaken
 * for a result.
 *
 * With PADDING_TOKEN, tokens `padding_id` have no position: they get no position embedding or, without `blank`, the row
 * before the positions. With `counted`, later tokens of a sequence are numbered as if the padding were absent.
 *
 * Layout: a work-item takes TFM_CHUNK elements of y, across rows, so that a few wide rows and many narrow ones both
 * spread over the device. The table may be fp16 or bf16 (half_load.cl). */
#include "half_load.cl"
#include "embedding_positions.cl"
TFM_KERNEL void embedding(TFM_TENSOR(float, y), TFM_INPUT(load_t, table), TFM_INPUT(int, ids),
                          TFM_INPUT(float, positions), const long n, const long width, const long vocabulary,
                          const long steps, const long first, const float scale PADDING_PARAMETERS) {
    long i = TFM_ELEMENT();
    const long end = min(i + TFM_CHUNK, n);
    const int has_positions = positions != 0;
    __global float *out = TFM_AT(y);
    while (i < end) {
        const long row = i / width, stop = min(end, (row + 1) * width);
        /* Not long: an int converted to long compares as positive with 0 on llvmpipe (Mesa 22.3). */
        const int id = TFM_AT(ids)[row];
        if (id < 0 || id >= vocabulary) {
            for (; i < stop; i++)
                out[i] = NAN;
            continue;
        }
        /* Both are read at i, as out is. */
        __global const load_t *word = TFM_AT(table) + (id - row) * width;
        __global const float *position = TFM_AT(positions) + (POSITION_OF(row, id) - row) * width;
        const int has_position = HAS_POSITION(id);
        for (; i + TFM_WIDTH <= stop; i += TFM_WIDTH) {
            const tfm_vec v = load_as_float_vec(word + i) * scale;
            tfm_store(has_position ? v + tfm_load(position + i) : v, out + i);
        }
        for (; i < stop; i++)
            out[i] = has_position ? load_as_float(word + i) * scale + position[i] : load_as_float(word + i) * scale;
    }
}

/* The same for an int8 table: its row id is scales[id] table[id].
 *
 * Layout: TFM_GROUP items share a row of y. */
TFM_KERNEL void embedding_int8(TFM_TENSOR(float, y), TFM_INPUT(char, table), TFM_INPUT(float, scales),
                               TFM_INPUT(int, ids), TFM_INPUT(float, positions), const long rows, const long width,
                               const long vocabulary, const long steps, const long first,
                               const float scale PADDING_PARAMETERS) {
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    const int id = TFM_AT(ids)[row], known = id >= 0 && id < vocabulary, has_positions = positions != 0;
    const float factor = known ? scale * TFM_AT(scales)[id] : NAN;
    __global const char *word = TFM_AT(table) + (known ? id : 0) * width;
    const int has_position = HAS_POSITION(id);
    __global const float *position = TFM_AT(positions) + POSITION_OF(row, id) * width;
    __global float *out = TFM_AT(y) + row * width;
    for (long i = TFM_LOCAL_ID(); i < width; i += TFM_GROUP) {
        const float v = factor * (float)word[i];
        out[i] = has_position ? v + position[i] : v;
    }
}

/* out (count, width) = rows ids (count) of a table (V, width) with elements of one or, by build option, two bytes; an
 * id out of range gives zeros. Layout as above. */
#ifndef ELEMENT
#define ELEMENT char
#endif
TFM_KERNEL void gather_rows(TFM_TENSOR(ELEMENT, out), TFM_INPUT(ELEMENT, table), TFM_INPUT(int, ids), const long count,
                            const long width, const long vocabulary) {
    const long row = TFM_ROW();
    if (row >= count)
        return;
    const int id = TFM_AT(ids)[row], known = id >= 0 && id < vocabulary;
    for (long i = TFM_LOCAL_ID(); i < width; i += TFM_GROUP)
        TFM_AT(out)[row * width + i] = known ? TFM_AT(table)[id * width + i] : 0;
}
