/* y (outer, taken, width) = x[:, indices[i], :], x (outer, count, width), of any four-byte type: moved as int, so that
 * no bit of a NaN or a denormal is touched. An index outside [0, count) gives zeros.
 *
 * Layout: one work-item for TFM_CHUNK elements of y, across rows, so that a few wide rows and many narrow
 * ones both spread over the device. */
TFM_KERNEL void gather(TFM_TENSOR(int, y), TFM_INPUT(int, x), TFM_INPUT(int, indices), const long n,
                       const long width, const long count, const long taken) {
    long i = TFM_ELEMENT();
    const long end = min(i + TFM_CHUNK, n);
    __global int *out = TFM_AT(y);
    while (i < end) {
        const long row = i / width, stop = min(end, (row + 1) * width);
        /* No long: compared with 0, an int made long is positive on llvmpipe (Mesa 22.3). */
        const long outer = row / taken;
        const int index = TFM_AT(indices)[row - outer * taken];
        if (index < 0 || index >= count) {
            for (; i < stop; i++)
                out[i] = 0;
            continue;
        }
        __global const int *in = TFM_AT(x) + (outer * count + index - row) * width; /* read at i, as out is */
        for (; i + TFM_WIDTH <= stop; i += TFM_WIDTH)
            tfm_store(tfm_load(in + i), out + i);
        for (; i < stop; i++)
            out[i] = in[i];
    }
}
