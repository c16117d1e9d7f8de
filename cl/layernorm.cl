/* Layer normalisation over the last dimension of x (rows, n), with the residual addition in front of it.
 *
 *     s = x + residual
 *     y = (s - mean s) / sqrt(var s + epsilon) * gamma + beta
 *
 * residual, gamma and beta may be null. `sum` (rows, n) gets s: it is y itself where the caller does not
 * ask for s, which spares a second addition in the later passes. mean and inv_std (rows) get the row's mean and
 * 1 / sqrt(var s + epsilon) where they are not null.
 *
 * Layout: TFM_GROUP work-items share a row (one on wide devices) and step over it together, a vector each;
 * what does not fill a vector is done by scalars. An item touches the same elements in every pass, so any of
 * the outputs may be any of the inputs.
 *
 * Numerics: the variance is taken around the mean in a pass of its own (Chan, Golub and LeVeque 1983,
 * corrected two-pass algorithm). The mean of 1e4 +- 1 does not fit a float to more than 1e-3; s - mean is
 * exact near it, and `rest`, the mean of s - mean, is what the float mean lacks. */

#define STEP (TFM_GROUP * TFM_WIDTH)
#define TAIL(n) ((n) - (n) % TFM_WIDTH)

TFM_KERNEL void layernorm(TFM_TENSOR(float, y), TFM_TENSOR(float, sum), TFM_TENSOR(float, mean),
                          TFM_TENSOR(float, inv_std), TFM_INPUT(float, x), TFM_INPUT(float, residual),
                          TFM_INPUT(float, gamma), TFM_INPUT(float, beta), const long rows,
                          const long n, const float epsilon) {
    TFM_SCRATCH
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    const int has_residual = residual != 0, has_gamma = gamma != 0, has_beta = beta != 0;
    __global const float *in = TFM_AT(x) + row * n;
    __global const float *more = TFM_AT(residual) + row * n;
    __global const float *scale = TFM_AT(gamma);
    __global const float *bias = TFM_AT(beta);
    __global float *s = TFM_AT(sum) + row * n;
    __global float *out = TFM_AT(y) + row * n;

    tfm_vec totals = (tfm_vec)(0.0f);
    for (long i = TFM_LANE() * TFM_WIDTH; i + TFM_WIDTH <= n; i += STEP) {
        tfm_vec v = tfm_load(in + i);
        if (has_residual)
            v += tfm_load(more + i);
        tfm_store(v, s + i);
        totals += v;
    }
    float total = tfm_vec_sum(totals);
    for (long i = TAIL(n) + TFM_LANE(); i < n; i += TFM_GROUP) {
        const float v = has_residual ? in[i] + more[i] : in[i];
        s[i] = v;
        total += v;
    }
    const float center = tfm_group_sum(total) / (float)n;

    tfm_vec squares = (tfm_vec)(0.0f), rests = (tfm_vec)(0.0f);
    for (long i = TFM_LANE() * TFM_WIDTH; i + TFM_WIDTH <= n; i += STEP) {
        const tfm_vec d = tfm_load(s + i) - center;
        squares = tfm_fma(d, d, squares);
        rests += d;
    }
    float square = tfm_vec_sum(squares), rest = tfm_vec_sum(rests);
    for (long i = TAIL(n) + TFM_LANE(); i < n; i += TFM_GROUP) {
        const float d = s[i] - center;
        square = tfm_fma(d, d, square);
        rest += d;
    }
    rest = tfm_group_sum(rest) / (float)n;
    const float variance = fmax(tfm_group_sum(square) / (float)n - rest * rest, 0.0f);
    const float factor = 1.0f / sqrt(variance + epsilon);
    if (TFM_LANE() == 0) {
        if (mean != 0)
            TFM_AT(mean)[row] = center + rest;
        if (inv_std != 0)
            TFM_AT(inv_std)[row] = factor;
    }

    for (long i = TFM_LANE() * TFM_WIDTH; i + TFM_WIDTH <= n; i += STEP) {
        tfm_vec v = ((tfm_load(s + i) - center) - rest) * factor;
        if (has_gamma)
            v *= tfm_load(scale + i);
        if (has_beta)
            v += tfm_load(bias + i);
        tfm_store(v, out + i);
    }
    for (long i = TAIL(n) + TFM_LANE(); i < n; i += TFM_GROUP) {
        float v = ((s[i] - center) - rest) * factor;
        if (has_gamma)
            v *= scale[i];
        if (has_beta)
            v += bias[i];
        out[i] = v;
    }
}
