/* PReLU on x (rows, n): y = x where x > 0, else slope x, with a slope for each column. NaN stays NaN. y may be x.
 *
 * Layout: TFM_GROUP work-items share a row and step over it together, a vector each. */
TFM_KERNEL void prelu(TFM_TENSOR(float, y), TFM_INPUT(float, x), TFM_INPUT(float, slope), const long rows,
                      const long n) {
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    __global const float *in = TFM_AT(x) + row * n, *a = TFM_AT(slope);
    __global float *out = TFM_AT(y) + row * n;
    for (long i = TFM_LOCAL_ID() * TFM_WIDTH; i + TFM_WIDTH <= n; i += TFM_STEP) {
        const tfm_vec v = tfm_load(in + i);
        tfm_store(v > (tfm_vec)(0.0f) ? v : v * tfm_load(a + i), out + i);
    }
    for (long i = TFM_TAIL(n) + TFM_LOCAL_ID(); i < n; i += TFM_GROUP)
        out[i] = in[i] > 0.0f ? in[i] : in[i] * a[i];
}

/* dx = dy where x > 0, else dy slope, added to dx where `add`; dslope (chunks, n) = sums of dy min(x, 0) over `chunk`
 * rows. dx or dslope may be null, and dx may be dy.
 *
 * Layout: a work-group takes `chunk` rows; each work-item walks down its columns. */
#define PRELU_BACKWARD(T, LOAD, STORE, i)                                                                              \
    {                                                                                                                  \
        const T a = LOAD(TFM_AT(slope) + i);                                                                           \
        T sum = (T)(0.0f);                                                                                             \
        for (long at = first * n + i; at < end * n; at += n) {                                                         \
            const T v = LOAD(TFM_AT(x) + at), d = LOAD(TFM_AT(dy) + at), g = v > (T)(0.0f) ? d : d * a;                \
            sum += v > (T)(0.0f) ? (T)(0.0f) : d * v;                                                                  \
            if (has_dx)                                                                                                \
                STORE(add ? LOAD(TFM_AT(dx) + at) + g : g, TFM_AT(dx) + at);                                           \
        }                                                                                                              \
        if (has_dslope)                                                                                                \
            STORE(sum, TFM_AT(dslope) + TFM_ROW() * n + i);                                                            \
    }
TFM_KERNEL void prelu_backward(TFM_TENSOR(float, dx), TFM_TENSOR(float, dslope), TFM_INPUT(float, dy),
                               TFM_INPUT(float, x), TFM_INPUT(float, slope), const long rows, const long n,
                               const long chunk, const long add) {
    const long first = TFM_ROW() * chunk, end = min(first + chunk, rows);
    const int has_dx = dx != 0, has_dslope = dslope != 0;
    if (first >= rows)
        return;
    for (long i = TFM_LOCAL_ID() * TFM_WIDTH; i + TFM_WIDTH <= n; i += TFM_STEP)
        PRELU_BACKWARD(tfm_vec, tfm_load, tfm_store, i)
    for (long i = TFM_TAIL(n) + TFM_LOCAL_ID(); i < n; i += TFM_GROUP)
        PRELU_BACKWARD(float, TFM_LOAD_ONE, TFM_STORE_ONE, i)
}
