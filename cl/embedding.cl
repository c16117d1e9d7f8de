/* y (rows, width) = scale table[ids[row]] + positions[first + row % steps]
 *
 * table (vocabulary, width), ids (rows) in sequences of `steps`, positions (P, width) or null. An id
 * outside [0, vocabulary) gives a row of NaN: the host cannot see ids without waiting for the device, and
 * NaN is not mistaken for a result.
 *
 * Layout: a work-item takes TFM_CHUNK elements of y, across rows, so that a few wide rows and many narrow
 * ones both spread over the device. */
TFM_KERNEL void embedding(TFM_TENSOR(float, y), TFM_INPUT(float, table), TFM_INPUT(int, ids),
                          TFM_INPUT(float, positions), const long n, const long width, const long vocabulary,
                          const long steps, const long first, const float scale) {
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
        __global const float *word = TFM_AT(table) + (id - row) * width;
        __global const float *place = TFM_AT(positions) + (first + row % steps - row) * width;
        for (; i + TFM_WIDTH <= stop; i += TFM_WIDTH) {
            const tfm_vec v = tfm_load(word + i) * scale;
            tfm_store(has_positions ? v + tfm_load(place + i) : v, out + i);
        }
        for (; i < stop; i++)
            out[i] = has_positions ? word[i] * scale + place[i] : word[i] * scale;
    }
}
