/* y = a + b on n elements.
 *
 * Layout: one work-item for TFM_CHUNK elements. y may be a or b. */
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
