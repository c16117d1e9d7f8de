/* y = activation(x) on n elements; -DTFM_ACTIVATION chooses, cl/prelude.cl has the formulas.
 *
 * Layout: one work-item for TFM_CHUNK elements. y may be x. */
TFM_KERNEL void activate(TFM_TENSOR(float, y), TFM_INPUT(float, x), const long n) {
    long i = TFM_ELEMENT();
    const long end = min(i + TFM_CHUNK, n);
    __global const float *in = TFM_AT(x);
    __global float *out = TFM_AT(y);
    for (; i + TFM_WIDTH <= end; i += TFM_WIDTH)
        tfm_store(tfm_activate_vec(tfm_load(in + i)), out + i);
    for (; i < end; i++)
        out[i] = tfm_activate(in[i]);
}
