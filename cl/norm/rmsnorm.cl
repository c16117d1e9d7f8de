/* RMS normalization over the last dimension of x (rows, n), with a preceding residual addition.
 *
 *     s = x + residual
 *     y = s / sqrt(mean s^2 + epsilon) * gamma
 *
 * residual and gamma may be null. `sum` (rows, n) gets s: it is y itself if s is not requested.
 *
 * Layout: TFM_GROUP work-items share a row (one on CPU-style devices) and step over it together, a vector each, with
 * scalars for the remainder. An item accesses the same elements in both passes, so any output may be any input. */

TFM_KERNEL void rmsnorm(TFM_TENSOR(float, y), TFM_TENSOR(float, sum), TFM_INPUT(float, x), TFM_INPUT(float, residual),
                        TFM_INPUT(float, gamma), const long rows, const long n, const float epsilon) {
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
    for (long i = TFM_LOCAL_ID() * TFM_WIDTH; i + TFM_WIDTH <= n; i += TFM_STEP) {
        tfm_vec v = tfm_load(in + i);
        if (has_residual)
            v += tfm_load(more + i);
        tfm_store(v, s + i);
        squares = tfm_fma(v, v, squares);
    }
    float square = tfm_vec_sum(squares);
    for (long i = TFM_TAIL(n) + TFM_LOCAL_ID(); i < n; i += TFM_GROUP) {
        const float v = has_residual ? in[i] + more[i] : in[i];
        s[i] = v;
        square = tfm_fma(v, v, square);
    }
    const float factor = 1.0f / sqrt(tfm_group_sum(square) / (float)n + epsilon);

    for (long i = TFM_LOCAL_ID() * TFM_WIDTH; i + TFM_WIDTH <= n; i += TFM_STEP) {
        const tfm_vec v = tfm_load(s + i) * factor;
        tfm_store(has_gamma ? v * tfm_load(scale + i) : v, out + i);
    }
    for (long i = TFM_TAIL(n) + TFM_LOCAL_ID(); i < n; i += TFM_GROUP)
        out[i] = s[i] * factor * (has_gamma ? scale[i] : 1.0f);
}

/* ---- Backward ----
 *
 * With r = 1 / sqrt(mean s^2 + epsilon), h = s r and g = dy gamma:
 *
 *     ds = r (g - h mean(g h)) + dsum,   dgamma = sum over rows of dy h
 *
 * dx and dresidual get ds each, accumulated if `add_x`, `add_residual`. dsum and any of the outputs may be null. dgamma
 * is a sum for each chunk of rows, (chunks, n); another launch adds them.
 *
 * Layout: a work-group takes `chunk` rows, one after the other, as above. The outputs share no memory. */
#define BACKWARD_ELEMENT(T, LOAD, STORE, i)                                                                            \
    {                                                                                                                  \
        const T d = LOAD(dyp + i), h = LOAD(sp + i) * r;                                                               \
        const T g = has_gamma ? d * LOAD(TFM_AT(gamma) + i) : d;                                                       \
        T ds = (g - h * mean_gh) * r;                                                                                  \
        if (has_dsum)                                                                                                  \
            ds += LOAD(dsp + i);                                                                                       \
        if (has_dx)                                                                                                    \
            STORE(add_x ? LOAD(dxp + i) + ds : ds, dxp + i);                                                           \
        if (has_dresidual)                                                                                             \
            STORE(add_residual ? LOAD(drp + i) + ds : ds, drp + i);                                                    \
        if (has_dgamma)                                                                                                \
            STORE(first ? d *h : tfm_fma(d, h, LOAD(dgp + i)), dgp + i);                                               \
    }

TFM_KERNEL void rmsnorm_backward(TFM_TENSOR(float, dx), TFM_TENSOR(float, dresidual), TFM_TENSOR(float, dgamma),
                                 TFM_INPUT(float, dy), TFM_INPUT(float, dsum), TFM_INPUT(float, s),
                                 TFM_INPUT(float, gamma), const long rows, const long n, const long chunk,
                                 const float epsilon, const long add_x, const long add_residual) {
    TFM_SCRATCH
    const long c = TFM_ROW();
    if (c * chunk >= rows)
        return;
    const int has_gamma = gamma != 0, has_dsum = dsum != 0, has_dx = dx != 0, has_dresidual = dresidual != 0;
    const int has_dgamma = dgamma != 0;
    __global float *dgp = TFM_AT(dgamma) + c * n;
    for (long row = c * chunk; row < min(c * chunk + chunk, rows); row++) {
        const int first = row == c * chunk;
        __global const float *dyp = TFM_AT(dy) + row * n, *sp = TFM_AT(s) + row * n, *dsp = TFM_AT(dsum) + row * n;
        __global float *dxp = TFM_AT(dx) + row * n, *drp = TFM_AT(dresidual) + row * n;
        tfm_vec squares = (tfm_vec)(0.0f), products = (tfm_vec)(0.0f);
        for (long i = TFM_LOCAL_ID() * TFM_WIDTH; i + TFM_WIDTH <= n; i += TFM_STEP) {
            const tfm_vec v = tfm_load(sp + i), d = tfm_load(dyp + i);
            squares = tfm_fma(v, v, squares);
            products = tfm_fma(has_gamma ? d * tfm_load(TFM_AT(gamma) + i) : d, v, products);
        }
        float square = tfm_vec_sum(squares), product = tfm_vec_sum(products);
        for (long i = TFM_TAIL(n) + TFM_LOCAL_ID(); i < n; i += TFM_GROUP) {
            square = tfm_fma(sp[i], sp[i], square);
            product = tfm_fma(has_gamma ? dyp[i] * TFM_AT(gamma)[i] : dyp[i], sp[i], product);
        }
        const float r = 1.0f / sqrt(tfm_group_sum(square) / (float)n + epsilon);
        const float mean_gh = tfm_group_sum(product) / (float)n * r;
        for (long i = TFM_LOCAL_ID() * TFM_WIDTH; i + TFM_WIDTH <= n; i += TFM_STEP)
            BACKWARD_ELEMENT(tfm_vec, tfm_load, tfm_store, i)
        for (long i = TFM_TAIL(n) + TFM_LOCAL_ID(); i < n; i += TFM_GROUP)
            BACKWARD_ELEMENT(float, TFM_LOAD_ONE, TFM_STORE_ONE, i)
    }
}
