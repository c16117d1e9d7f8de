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

/* One run along the last dimension; each of a and b advances (step 1) or repeats (step 0). */
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

/* y = a + b with broadcasting; strides are those of y, a and b. The host merges dims, so the last stride of a and b is
 * 0 or 1.
 *
 * Layout: a work-item takes TFM_CHUNK elements of y. y may be the input with its dims. */
TFM_KERNEL void add_broadcast(TFM_TENSOR(float, y), TFM_INPUT(float, a), TFM_INPUT(float, b), const tfm_iter iter) {
    tfm_run run;
    for (tfm_run_first(&run, &iter, TFM_ELEMENT(), TFM_CHUNK); run.count > 0; tfm_run_next(&run, &iter))
        add_run(TFM_AT(y) + run.first, TFM_AT(a) + tfm_run_offset(&run, TFM_STRIDES(iter, 1)),
                TFM_AT(b) + tfm_run_offset(&run, TFM_STRIDES(iter, 2)), run.count, TFM_STRIDES(iter, 1)[TFM_ITER_LAST],
                TFM_STRIDES(iter, 2)[TFM_ITER_LAST]);
}
