/* y = x (rows, n) times 0 or `dropout_scale`; cl/common/prelude.cl has the random numbers. The backward pass is the
 * same on dy. Accumulated if `add` is not 0.
 *
 * Layout: TFM_GROUP work-items share a row and step over it together, TFM_DROPOUT_BLOCK columns each, whose factors are
 * computed at once; remaining columns go one by one. y may be x. */
TFM_KERNEL void dropout(TFM_TENSOR(float, y), TFM_INPUT(float, x), const long rows, const long n,
                        TFM_DROPOUT_PARAMETERS, const long add) {
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    const tfm_dropout_rng dropout = TFM_DROPOUT_RNG();
    __global const float *in = TFM_AT(x) + row * n;
    __global float *out = TFM_AT(y) + row * n;
    for (long i = TFM_LOCAL_ID() * TFM_DROPOUT_BLOCK; i + TFM_DROPOUT_BLOCK <= n; i += TFM_GROUP * TFM_DROPOUT_BLOCK) {
        tfm_vec factors[4];
        tfm_dropout_factors(factors, dropout, row, i);
        for (int u = 0; u < 4; u++) {
            const long at = i + u * TFM_WIDTH;
            const tfm_vec v = tfm_load(in + at) * factors[u];
            tfm_store(add ? tfm_load(out + at) + v : v, out + at);
        }
    }
    for (long i = n - n % TFM_DROPOUT_BLOCK + TFM_LOCAL_ID(); i < n; i += TFM_GROUP) {
        const float v = in[i] * tfm_dropout_factor(dropout, row, i);
        out[i] = add ? out[i] + v : v;
    }
}

/* mask = 1 where x is kept, else 0, on (rows, n). Layout as above. */
TFM_KERNEL void dropout_mask(TFM_TENSOR(uchar, mask), const long rows, const long n, TFM_DROPOUT_PARAMETERS) {
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    const tfm_dropout_rng dropout = TFM_DROPOUT_RNG();
    __global uchar *out = TFM_AT(mask) + row * n;
    for (long i = TFM_LOCAL_ID(); i < n; i += TFM_GROUP)
        out[i] = tfm_dropout_factor(dropout, row, i) != 0.0f;
}
