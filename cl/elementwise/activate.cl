/* y = activation(x) on n elements, selected by -DTFM_ACTIVATION; cl/common/prelude.cl has the formulas.
 *
 * Layout: a work-item takes TFM_CHUNK elements. y may be x. */
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

/* dx = dy f'(x), accumulated if `add`. dx may be dy. Layout as above. */
TFM_KERNEL void activate_backward(TFM_TENSOR(float, dx), TFM_INPUT(float, dy), TFM_INPUT(float, x), const long n,
                                  const long add) {
    long i = TFM_ELEMENT();
    const long end = min(i + TFM_CHUNK, n);
    __global const float *in = TFM_AT(x), *from = TFM_AT(dy);
    __global float *out = TFM_AT(dx);
    for (; i + TFM_WIDTH <= end; i += TFM_WIDTH) {
        const tfm_vec d = tfm_load(from + i) * tfm_activation_grad_vec(tfm_load(in + i));
        tfm_store(add ? tfm_load(out + i) + d : d, out + i);
    }
    for (; i < end; i++) {
        const float d = from[i] * tfm_activation_grad(in[i]);
        out[i] = add ? out[i] + d : d;
    }
}
