/* L2 norm of x (n), in two steps: a partial sum of squares for each of `chunks` contiguous chunks, then the root of
 * their sum. The order of additions depends on the sizes alone.
 *
 * Layout: TFM_GROUP work-items take a chunk together, a vector each at a time. */

static inline __attribute__((always_inline)) float lane_squares(__global const float *x, const long n) {
    tfm_vec sums[4] = {(tfm_vec)(0.0f), (tfm_vec)(0.0f), (tfm_vec)(0.0f), (tfm_vec)(0.0f)};
    const long step = TFM_GROUP * TFM_WIDTH;
    long i = TFM_LOCAL_ID() * TFM_WIDTH;
    for (; i + 3 * step + TFM_WIDTH <= n; i += 4 * step) {
#pragma unroll
        for (int u = 0; u < 4; u++) {
            const tfm_vec v = tfm_load(x + i + u * step);
            sums[u] = tfm_fma(v, v, sums[u]);
        }
    }
    for (; i + TFM_WIDTH <= n; i += step) {
        const tfm_vec v = tfm_load(x + i);
        sums[0] = tfm_fma(v, v, sums[0]);
    }
    float sum = tfm_vec_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
    for (i = n - n % TFM_WIDTH + TFM_LOCAL_ID(); i < n; i += TFM_GROUP)
        sum = tfm_fma(x[i], x[i], sum);
    return sum;
}

/* partial[p] = the sum of squares of chunk p, `chunk` elements. */
TFM_KERNEL void l2_norm_partial(TFM_TENSOR(float, partial), TFM_INPUT(float, x), const long n, const long chunk) {
    TFM_SCRATCH
    const long p = TFM_ROW();
    if (p * chunk >= n)
        return;
    const float lane = lane_squares(TFM_AT(x) + p * chunk, min(chunk, n - p * chunk)), sum = tfm_group_sum(lane);
    if (TFM_LOCAL_ID() == 0)
        TFM_AT(partial)[p] = sum;
}

/* norm = the root of the sum of the partial sums. One work-group. */
TFM_KERNEL void l2_norm_final(TFM_TENSOR(float, norm), TFM_INPUT(float, partial), const long chunks) {
    TFM_SCRATCH
    float lane = 0.0f;
    if (TFM_ROW() > 0)
        return;
    for (long i = TFM_LOCAL_ID(); i < chunks; i += TFM_GROUP)
        lane += TFM_AT(partial)[i];
    const float sum = tfm_group_sum(lane);
    if (TFM_LOCAL_ID() == 0)
        *TFM_AT(norm) = sqrt(sum);
}
