/* y (rows, width) = activation(gate) * x, where rows of x and gate are `pitch` elements apart: both may be halves of
 * one tensor (rows, 2 width). -DTFM_ACTIVATION chooses, cl/prelude.cl has the formulas.
 *
 * Layout: one work-item for TFM_CHUNK elements of y, across rows. With pitch = width y may be x or gate. */
TFM_KERNEL void glu(TFM_TENSOR(float, y), TFM_INPUT(float, x), TFM_INPUT(float, gate), const long n,
                    const long width, const long pitch) {
    long i = TFM_ELEMENT();
    const long end = min(i + TFM_CHUNK, n), skip = pitch - width;
    __global float *out = TFM_AT(y);
    __global const float *values = TFM_AT(x), *gates = TFM_AT(gate);
    while (i < end) {
        const long row = i / width, stop = min(end, (row + 1) * width);
        __global const float *v = values + row * skip, *g = gates + row * skip; /* read at i, as out is */
        for (; i + TFM_WIDTH <= stop; i += TFM_WIDTH)
            tfm_store(tfm_activate_vec(tfm_load(g + i)) * tfm_load(v + i), out + i);
        for (; i < stop; i++)
            out[i] = tfm_activate(g[i]) * v[i];
    }
}
