/* y = a + b on n elements.
 *
 * Layout: a work-item takes TFM_CHUNK elements. y may be a or b. */
TFM_KERNEL void add(TFM_TENSOR(float, y), TFM_INPUT(float, a), TFM_INPUT(float, b), const long n) {
    long i = TFM_ELEMENT();
    const long end = min(i + TFM_CHUNK, n);
    __global const float *left = TFM_AT(a), *right = TFM_AT(b);
    __global float *out = TFM_AT(y);
    for (; i + TFM_WIDTH <= end; i += TFM_WIDTH)
        tfm_store(tfm_load(left + i) + tfm_load(right + i), out + i);
    for (; i < end; i++)
        out[i] = left[i] + right[i];
}

/* One run along the last dimension, where each of a and b either goes on (step 1) or stays (step 0). */
static inline void add_run(__global float *out, __global const float *left, __global const float *right, const long run,
                           const long a_step, const long b_step) {
    long c = 0;
    for (; c + TFM_WIDTH <= run; c += TFM_WIDTH) {
        const tfm_vec l = a_step ? tfm_load(left + c) : (tfm_vec)(*left);
        const tfm_vec r = b_step ? tfm_load(right + c) : (tfm_vec)(*right);
        tfm_store(l + r, out + c);
    }
    for (; c < run; c++)
        out[c] = left[c * a_step] + right[c * b_step];
}

/* y[i] = a[sum i_k a_k] + b[sum i_k b_k] for all (i0, ..., i4) of a grid of n = d0 d1 d2 d3 d4, y dense; a stride of 0
 * repeats. The host joins dims, so the last stride of each is 0 or 1.
 *
 * Layout: a work-item takes TFM_CHUNK elements of y. It finds the first by division and goes on in runs along the last
 * dimension. y may be the input that has its dims. */
TFM_KERNEL void add_broadcast(TFM_TENSOR(float, y), TFM_INPUT(float, a), TFM_INPUT(float, b), const long n,
                              const long d1, const long d2, const long d3, const long d4, const long a0, const long a1,
                              const long a2, const long a3, const long a4, const long b0, const long b1, const long b2,
                              const long b3, const long b4) {
    long i = TFM_ELEMENT();
    const long end = min(i + TFM_CHUNK, n);
    if (i >= end)
        return;
    tfm_place p = tfm_place_at(i, d1, d2, d3, d4);
    while (i < end) {
        const long run = min(d4 - p.i4, end - i);
        add_run(TFM_AT(y) + i, TFM_AT(a) + TFM_PLACE(p, a), TFM_AT(b) + TFM_PLACE(p, b), run, a4, b4);
        i += run;
        tfm_place_next_run(&p, d1, d2, d3);
    }
}
