/* Root-mean-square normalisation over the last dimension of x (rows, n), with the residual addition in front of it.
 *
 *     s = x + residual
 *     y = s / sqrt(mean s^2 + epsilon) * gamma
 *
 * residual and gamma may be null. `sum` (rows, n) gets s: it is y itself where the caller does not ask for s.
 *
 * Layout: TFM_GROUP work-items share a row (one on wide devices) and step over it together, a vector each;
 * what does not fill a vector is done by scalars. An item touches the same elements in both passes, so any of
 * the outputs may be any of the inputs. */

#define STEP (TFM_GROUP * TFM_WIDTH)
#define TAIL(n) ((n) - (n) % TFM_WIDTH)

TFM_KERNEL void rmsnorm(TFM_TENSOR(float, y), TFM_TENSOR(float, sum), TFM_INPUT(float, x),
                        TFM_INPUT(float, residual), TFM_INPUT(float, gamma), const long rows, const long n,
                        const float epsilon) {
    TFM_SCRATCH
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    const int has_residual = residual != 0, has_gamma = gamma != 0;
    __global const float *in = TFM_AT(x) + row * n;
    __global const float *more = TFM_AT(residual) + row * n;
    __global const float *scale = TFM_AT(gamma);
    __global float *s = TFM_AT(sum) + row * n;
    __global float *out = TFM_AT(y) + row * n;

    tfm_vec squares = (tfm_vec)(0.0f);
    for (long i = TFM_LANE() * TFM_WIDTH; i + TFM_WIDTH <= n; i += STEP) {
        tfm_vec v = tfm_load(in + i);
        if (has_residual)
            v += tfm_load(more + i);
        tfm_store(v, s + i);
        squares = tfm_fma(v, v, squares);
    }
    float square = tfm_vec_sum(squares);
    for (long i = TAIL(n) + TFM_LANE(); i < n; i += TFM_GROUP) {
        const float v = has_residual ? in[i] + more[i] : in[i];
        s[i] = v;
        square = tfm_fma(v, v, square);
    }
    const float factor = 1.0f / sqrt(tfm_group_sum(square) / (float)n + epsilon);

    for (long i = TFM_LANE() * TFM_WIDTH; i + TFM_WIDTH <= n; i += STEP) {
        const tfm_vec v = tfm_load(s + i) * factor;
        tfm_store(has_gamma ? v * tfm_load(scale + i) : v, out + i);
    }
    for (long i = TAIL(n) + TFM_LANE(); i < n; i += TFM_GROUP)
        out[i] = s[i] * factor * (has_gamma ? scale[i] : 1.0f);
}
