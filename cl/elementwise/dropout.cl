/* Each element of y is that of x (rows, n) times 0 or `keep`; cl/common/prelude.cl says which. The backward pass is the
 * same on dy. Where `add` is not 0, the result is added to what y holds.
 *
 * Layout: TFM_GROUP work-items share a row and step over it together, TFM_DROP_BLOCK columns each, whose factors come
 * at once; the columns that are left are taken one by one. y may be x. */
TFM_KERNEL void dropout(TFM_TENSOR(float, y), TFM_INPUT(float, x), const long rows, const long n,
                        TFM_DROPOUT_PARAMETERS, const long add) {
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    const tfm_drops drops = TFM_DROPS();
    __global const float *in = TFM_AT(x) + row * n;
    __global float *out = TFM_AT(y) + row * n;
    for (long i = TFM_LANE() * TFM_DROP_BLOCK; i + TFM_DROP_BLOCK <= n; i += TFM_GROUP * TFM_DROP_BLOCK) {
        tfm_vec factors[4];
        tfm_drop_factors(factors, drops, row, i);
        for (int u = 0; u < 4; u++) {
            const long at = i + u * TFM_WIDTH;
            const tfm_vec v = tfm_load(in + at) * factors[u];
            tfm_store(add ? tfm_load(out + at) + v : v, out + at);
        }
    }
    for (long i = n - n % TFM_DROP_BLOCK + TFM_LANE(); i < n; i += TFM_GROUP) {
        const float v = in[i] * tfm_drop_factor(drops, row, i);
        out[i] = add ? out[i] + v : v;
    }
}

/* mask = 1 where x is kept, else 0, on (rows, n). Layout as above. */
TFM_KERNEL void dropout_mask(TFM_TENSOR(uchar, mask), const long rows, const long n, TFM_DROPOUT_PARAMETERS) {
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    const tfm_drops drops = TFM_DROPS();
    __global uchar *out = TFM_AT(mask) + row * n;
    for (long i = TFM_LANE(); i < n; i += TFM_GROUP)
        out[i] = tfm_drop_factor(drops, row, i) != 0.0f;
}
