/* Layer normalization over the last dimension of x (rows, n), with a preceding residual addition.
 *
 *     s = x + residual
 *     y = (s - mean s) / sqrt(var s + epsilon) * gamma + beta
 *
 * residual, gamma and beta may be null. With DROPOUT, residual is not null and gets dropout before the addition. sum
 * (rows, n) gets s if not null; else y holds s between the passes, which saves a second addition, or without a residual
 * x is s. mean and inv_std (rows) get the row's mean and 1 / sqrt(var s + epsilon) if not null.
 *
 * Layout: TFM_GROUP work-items share a row (one on CPU-style devices) and step over it together, a vector each, with
 * scalars for the remainder. An item accesses the same elements in every pass, so any output may be any input.
 *
 * Numerics: the variance is computed around the mean in a separate pass (Chan, Golub and LeVeque 1983, corrected
 * two-pass algorithm). In fp32 the mean of 1e4 +- 1 has an error up to 1e-3; s - mean is exact near it, and `rest`, the
 * mean of s - mean, is the rounding error of the mean. */

#ifdef DROPOUT
#define BLOCK TFM_DROPOUT_BLOCK
#else
#define BLOCK TFM_WIDTH
#endif
#define STEP (TFM_GROUP * BLOCK)
/* This item's columns: in blocks, in vectors within them, and one by one in the remainder. */
#define EACH_VECTOR(i, n)                                                                                              \
    for (long block_ = TFM_LOCAL_ID() * BLOCK; block_ + BLOCK <= n; block_ += STEP)                                    \
        for (long i = block_; i < block_ + BLOCK; i += TFM_WIDTH)
/* The same with u = 0 .. 3 for separate sums: a single sum would wait for each addition. */
#ifdef DROPOUT
#define EACH_OF_4(i, u, n)                                                                                             \
    for (long block_ = TFM_LOCAL_ID() * BLOCK; block_ + BLOCK <= n; block_ += STEP)                                    \
    _Pragma("unroll") for (long u = 0, i = block_; u < BLOCK / TFM_WIDTH; u++, i += TFM_WIDTH)
#else
#define EACH_OF_4(i, u, n)                                                                                             \
    for (long block_ = TFM_LOCAL_ID() * BLOCK; block_ + BLOCK <= n; block_ += 4 * STEP)                                \
    _Pragma("unroll") for (long u = 0, i = block_; u < 4; u++, i += STEP) if (i + BLOCK <= n)
#endif

TFM_KERNEL void layernorm(TFM_TENSOR(float, y), TFM_TENSOR(float, sum), TFM_TENSOR(float, mean),
                          TFM_TENSOR(float, inv_std), TFM_INPUT(float, x), TFM_INPUT(float, residual),
                          TFM_INPUT(float, gamma), TFM_INPUT(float, beta), const long rows, const long n,
                          const float epsilon, TFM_DROPOUT_PARAMETERS) {
    TFM_SCRATCH
    const long row = TFM_ROW();
    if (row >= rows)
        return;
#ifndef DROPOUT
    const int has_residual = residual != 0;
#endif
    const int has_gamma = gamma != 0, has_beta = beta != 0;
    __global const float *in = TFM_AT(x) + row * n;
    __global const float *more = TFM_AT(residual) + row * n;
    __global const float *scale = TFM_AT(gamma);
    __global const float *bias = TFM_AT(beta);
    __global float *out = TFM_AT(y) + row * n;
    __global float *s = sum != 0 ? TFM_AT(sum) + row * n : out;

    tfm_vec totals[4] = {(tfm_vec)(0.0f), (tfm_vec)(0.0f), (tfm_vec)(0.0f), (tfm_vec)(0.0f)};
    float total = 0.0f;
#ifdef DROPOUT
    const tfm_dropout_rng dropout = TFM_DROPOUT_RNG();
    for (long b = TFM_LOCAL_ID() * BLOCK; b + BLOCK <= n; b += STEP) {
        tfm_vec factors[4];
        tfm_dropout_factors(factors, dropout, row, b);
        for (int u = 0; u < 4; u++) {
            const long i = b + u * TFM_WIDTH;
            const tfm_vec v = tfm_fma(tfm_load(more + i), factors[u], tfm_load(in + i));
            tfm_store(v, s + i);
            totals[u] += v;
        }
    }
    for (long i = (n) - (n) % BLOCK + TFM_LOCAL_ID(); i < n; i += TFM_GROUP) {
        const float v = tfm_fma(more[i], tfm_dropout_factor(dropout, row, i), in[i]);
        s[i] = v;
        total += v;
    }
    __global const float *from = s;
#else
    const int stored = has_residual || sum != 0;
    __global const float *from = stored ? s : in;
    EACH_OF_4 (i, u, n) {
        tfm_vec v = tfm_load(in + i);
        if (has_residual)
            v += tfm_load(more + i);
        if (stored)
            tfm_store(v, s + i);
        totals[u] += v;
    }
    for (long i = (n) - (n) % BLOCK + TFM_LOCAL_ID(); i < n; i += TFM_GROUP) {
        const float v = has_residual ? in[i] + more[i] : in[i];
        if (stored)
            s[i] = v;
        total += v;
    }
#endif
    total += tfm_vec_sum((totals[0] + totals[1]) + (totals[2] + totals[3]));
    const float center = tfm_group_sum(total) / (float)n;

    tfm_vec squares[4], rests[4];
    for (int u = 0; u < 4; u++)
        squares[u] = rests[u] = (tfm_vec)(0.0f);
    EACH_OF_4 (i, u, n) {
        const tfm_vec d = tfm_load(from + i) - center;
        squares[u] = tfm_fma(d, d, squares[u]);
        rests[u] += d;
    }
    float square = tfm_vec_sum((squares[0] + squares[1]) + (squares[2] + squares[3]));
    float rest = tfm_vec_sum((rests[0] + rests[1]) + (rests[2] + rests[3]));
    for (long i = (n) - (n) % BLOCK + TFM_LOCAL_ID(); i < n; i += TFM_GROUP) {
        const float d = from[i] - center;
        square = tfm_fma(d, d, square);
        rest += d;
    }
    rest = tfm_group_sum(rest) / (float)n;
    const float rounded = tfm_group_sum(square) / (float)n - rest * rest;
    const float variance = rounded < 0.0f ? 0.0f : rounded; /* NaN stays NaN, which fmax would drop */
    const float factor = 1.0f / sqrt(variance + epsilon);
    if (TFM_LOCAL_ID() == 0) {
        if (mean != 0)
            TFM_AT(mean)[row] = center + rest;
        if (inv_std != 0)
            TFM_AT(inv_std)[row] = factor;
    }

    EACH_VECTOR (i, n) {
        tfm_vec v = ((tfm_load(from + i) - center) - rest) * factor;
        if (has_gamma)
            v *= tfm_load(scale + i);
        if (has_beta)
            v += tfm_load(bias + i);
        tfm_store(v, out + i);
    }
    for (long i = (n) - (n) % BLOCK + TFM_LOCAL_ID(); i < n; i += TFM_GROUP) {
        float v = ((from[i] - center) - rest) * factor;
        if (has_gamma)
            v *= scale[i];
        if (has_beta)
            v += bias[i];
        out[i] = v;
    }
}

/* ---- Backward ----
 *
 * With h = (s - mean) inv_std, and g = dy gamma:
 *
 *     ds = inv_std (g - mean g - h mean(g h)) + dsum,   dgamma = sum over rows of dy h,   dbeta = sum over rows of dy
 *
 * dx and dresidual get ds each, dresidual with dropout; accumulated if `add_x`, `add_residual`. dsum and any of the
 * outputs may be null. dgamma and dbeta are sums for each chunk of rows, (chunks, n); another launch adds them.
 *
 * Layout: a work-group takes `chunk` rows, one after the other, as above. The outputs share no memory. */

/* Gradient of v, with dy h and dy added to the chunk's sums. */
#define BACKWARD_ELEMENT(T, LOAD, STORE, i, factor)                                                                    \
    {                                                                                                                  \
        const T d = LOAD(dyp + i), h = (LOAD(sp + i) - m) * inverse;                                                   \
        const T g = has_gamma ? d * LOAD(TFM_AT(gamma) + i) : d;                                                       \
        T ds = (g - mean_g - h * mean_gh) * inverse;                                                                   \
        if (has_dsum)                                                                                                  \
            ds += LOAD(dsp + i);                                                                                       \
        if (has_dx)                                                                                                    \
            STORE(add_x ? LOAD(dxp + i) + ds : ds, dxp + i);                                                           \
        ds *= factor;                                                                                                  \
        if (has_dresidual)                                                                                             \
            STORE(add_residual ? LOAD(drp + i) + ds : ds, drp + i);                                                    \
        if (has_dgamma)                                                                                                \
            STORE(first ? d *h : tfm_fma(d, h, LOAD(dgp + i)), dgp + i);                                               \
        if (has_dbeta)                                                                                                 \
            STORE(first ? d : LOAD(dbp + i) + d, dbp + i);                                                             \
    }

TFM_KERNEL void layernorm_backward(TFM_TENSOR(float, dx), TFM_TENSOR(float, dresidual), TFM_TENSOR(float, dgamma),
                                   TFM_TENSOR(float, dbeta), TFM_INPUT(float, dy), TFM_INPUT(float, dsum),
                                   TFM_INPUT(float, s), TFM_INPUT(float, mean), TFM_INPUT(float, inv_std),
                                   TFM_INPUT(float, gamma), const long rows, const long n, const long chunk,
                                   const long add_x, const long add_residual, TFM_DROPOUT_PARAMETERS) {
    TFM_SCRATCH
    const long c = TFM_ROW();
    if (c * chunk >= rows)
        return;
    const int has_gamma = gamma != 0, has_dsum = dsum != 0, has_dx = dx != 0, has_dresidual = dresidual != 0;
    const int has_dgamma = dgamma != 0, has_dbeta = dbeta != 0;
    __global float *dgp = TFM_AT(dgamma) + c * n, *dbp = TFM_AT(dbeta) + c * n;
#ifdef DROPOUT
    const tfm_dropout_rng dropout = TFM_DROPOUT_RNG();
#endif
    for (long row = c * chunk; row < min(c * chunk + chunk, rows); row++) {
        const float m = TFM_AT(mean)[row], inverse = TFM_AT(inv_std)[row];
        const int first = row == c * chunk;
        __global const float *dyp = TFM_AT(dy) + row * n, *sp = TFM_AT(s) + row * n, *dsp = TFM_AT(dsum) + row * n;
        __global float *dxp = TFM_AT(dx) + row * n, *drp = TFM_AT(dresidual) + row * n;
        tfm_vec sums = (tfm_vec)(0.0f), products = (tfm_vec)(0.0f);
        float sum_g = 0.0f, sum_gh = 0.0f;
        EACH_VECTOR (i, n) {
            const tfm_vec g = has_gamma ? tfm_load(dyp + i) * tfm_load(TFM_AT(gamma) + i) : tfm_load(dyp + i);
            sums += g;
            products = tfm_fma(g, (tfm_load(sp + i) - m) * inverse, products);
        }
        for (long i = (n) - (n) % BLOCK + TFM_LOCAL_ID(); i < n; i += TFM_GROUP) {
            const float g = has_gamma ? dyp[i] * TFM_AT(gamma)[i] : dyp[i];
            sum_g += g;
            sum_gh = tfm_fma(g, (sp[i] - m) * inverse, sum_gh);
        }
        sum_g += tfm_vec_sum(sums);
        sum_gh += tfm_vec_sum(products);
        const float mean_g = tfm_group_sum(sum_g) / (float)n, mean_gh = tfm_group_sum(sum_gh) / (float)n;
#ifdef DROPOUT
        for (long b = TFM_LOCAL_ID() * BLOCK; b + BLOCK <= n; b += STEP) {
            tfm_vec factors[4];
            tfm_dropout_factors(factors, dropout, row, b);
            for (int u = 0; u < 4; u++) {
                const long i = b + u * TFM_WIDTH;
                BACKWARD_ELEMENT(tfm_vec, tfm_load, tfm_store, i, factors[u])
            }
        }
        for (long i = (n) - (n) % BLOCK + TFM_LOCAL_ID(); i < n; i += TFM_GROUP)
            BACKWARD_ELEMENT(float, TFM_LOAD_ONE, TFM_STORE_ONE, i, tfm_dropout_factor(dropout, row, i))
#else
        EACH_VECTOR (i, n)
            BACKWARD_ELEMENT(tfm_vec, tfm_load, tfm_store, i, 1.0f)
        for (long i = (n) - (n) % BLOCK + TFM_LOCAL_ID(); i < n; i += TFM_GROUP)
            BACKWARD_ELEMENT(float, TFM_LOAD_ONE, TFM_STORE_ONE, i, 1.0f)
#endif
    }
}
