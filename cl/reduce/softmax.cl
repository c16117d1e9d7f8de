/* Softmax and log-softmax over the last dimension of x (rows, n), and over the middle one of x (rows, n, inner).
 *
 * Layout over the last dimension: TFM_GROUP work-items share a row (one on CPU-style devices) and step over it
 * together, a vector each, with scalars for the remainder. Three passes over a row that stays in cache: maximum, sum of
 * exponentials, result. An item accesses the same elements in every pass, so y may be x. */

static inline tfm_vec larger(const tfm_vec a, const tfm_vec b) {
    return b > a ? b : a;
}

static inline float lane_max(__global const float *x, const long n) {
    tfm_vec best[4];
#pragma unroll
    for (int u = 0; u < 4; u++)
        best[u] = (tfm_vec)(-INFINITY);
    long i = TFM_LOCAL_ID() * TFM_WIDTH;
    for (; i + 3 * TFM_STEP + TFM_WIDTH <= n; i += 4 * TFM_STEP)
#pragma unroll
        for (int u = 0; u < 4; u++)
            best[u] = larger(best[u], tfm_load(x + i + u * TFM_STEP));
    for (; i + TFM_WIDTH <= n; i += TFM_STEP)
        best[0] = larger(best[0], tfm_load(x + i));
    float result = tfm_vec_max(larger(larger(best[0], best[1]), larger(best[2], best[3])));
    for (long e = TFM_TAIL(n) + TFM_LOCAL_ID(); e < n; e += TFM_GROUP)
        result = fmax(result, x[e]);
    return result;
}

/* The shift before exp: the maximum, or 0 in a row of only -inf, where -inf - -inf would be NaN. */
static inline float shift_of(const float maximum) {
    return maximum == -INFINITY ? 0.0f : maximum;
}

/* y = exp(x - max) / sum exp(x - max); a row of only -inf gives zeros. */
TFM_KERNEL void softmax(TFM_TENSOR(float, y), TFM_INPUT(float, x), const long rows, const long n) {
    TFM_SCRATCH
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    __global const float *in = TFM_AT(x) + row * n;
    __global float *out = TFM_AT(y) + row * n;
    const float shift = shift_of(tfm_group_max(lane_max(in, n)));
    tfm_vec sums = (tfm_vec)(0.0f);
    for (long i = TFM_LOCAL_ID() * TFM_WIDTH; i + TFM_WIDTH <= n; i += TFM_STEP) {
        const tfm_vec e = tfm_exp_nonpos_vec(tfm_load(in + i) - shift);
        tfm_store(e, out + i);
        sums += e;
    }
    float lane_sum = tfm_vec_sum(sums);
    for (long i = TFM_TAIL(n) + TFM_LOCAL_ID(); i < n; i += TFM_GROUP) {
        const float e = tfm_exp_nonpos(in[i] - shift);
        out[i] = e;
        lane_sum += e;
    }
    const float sum = tfm_group_sum(lane_sum);
    const float factor = sum == 0.0f ? 0.0f : 1.0f / sum;
    for (long i = TFM_LOCAL_ID() * TFM_WIDTH; i + TFM_WIDTH <= n; i += TFM_STEP)
        tfm_store(tfm_load(out + i) * factor, out + i);
    for (long i = TFM_TAIL(n) + TFM_LOCAL_ID(); i < n; i += TFM_GROUP)
        out[i] *= factor;
}

/* y = (x - max) - log sum exp(x - max); a row of only -inf stays -inf. */
TFM_KERNEL void log_softmax(TFM_TENSOR(float, y), TFM_INPUT(float, x), const long rows, const long n) {
    TFM_SCRATCH
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    __global const float *in = TFM_AT(x) + row * n;
    __global float *out = TFM_AT(y) + row * n;
    const float shift = shift_of(tfm_group_max(lane_max(in, n)));
    tfm_vec sums = (tfm_vec)(0.0f);
    for (long i = TFM_LOCAL_ID() * TFM_WIDTH; i + TFM_WIDTH <= n; i += TFM_STEP)
        sums += tfm_exp_nonpos_vec(tfm_load(in + i) - shift);
    float lane_sum = tfm_vec_sum(sums);
    for (long i = TFM_TAIL(n) + TFM_LOCAL_ID(); i < n; i += TFM_GROUP)
        lane_sum += tfm_exp_nonpos(in[i] - shift);
    const float sum = tfm_group_sum(lane_sum);
    const float lse = sum == 0.0f ? 0.0f : log(sum);
    for (long i = TFM_LOCAL_ID() * TFM_WIDTH; i + TFM_WIDTH <= n; i += TFM_STEP)
        tfm_store((tfm_load(in + i) - shift) - lse, out + i);
    for (long i = TFM_TAIL(n) + TFM_LOCAL_ID(); i < n; i += TFM_GROUP)
        out[i] = (in[i] - shift) - lse;
}

/* ---- Over the middle dimension of x (rows, n, inner) ----
 *
 * Layout: a work-item takes TFM_WIDTH adjacent columns of one row, so a vector is one load, and nothing is reduced
 * across items; a work-group takes TFM_GROUP such vectors, `blocks` groups a row. Columns that do not fill a vector go
 * one by one. Three passes as above; y may be x. */

/* The shift before exp for each column: as shift_of. */
#define SHIFT_OF(T, best) select(best, (T)(0.0f), best == (T)(-INFINITY))
#define FACTOR_OF(T, sum) select((T)(1.0f) / sum, (T)(0.0f), sum == (T)(0.0f))
#define LOG_OF(T, sum) select(log(sum), (T)(0.0f), sum == (T)(0.0f))

/* One column, or TFM_WIDTH of them; T is float or tfm_vec. */
#define COLUMNS(T, LOAD, STORE, in, out)                                                                               \
    {                                                                                                                  \
        T best = (T)(-INFINITY), sum = (T)(0.0f);                                                                      \
        for (long i = 0; i < n; i++)                                                                                   \
            best = fmax(best, LOAD(in + i * inner));                                                                   \
        const T shift = SHIFT_OF(T, best);                                                                             \
        for (long i = 0; i < n; i++) {                                                                                 \
            const T e = exp(LOAD(in + i * inner) - shift);                                                             \
            sum += e;                                                                                                  \
            if (!logarithm)                                                                                            \
                STORE(e, out + i * inner);                                                                             \
        }                                                                                                              \
        const T last = logarithm ? LOG_OF(T, sum) : FACTOR_OF(T, sum);                                                 \
        for (long i = 0; i < n; i++)                                                                                   \
            if (logarithm)                                                                                             \
                STORE((LOAD(in + i * inner) - shift) - last, out + i * inner);                                         \
            else                                                                                                       \
                STORE(LOAD(out + i * inner) * last, out + i * inner);                                                  \
    }

static inline void columns(__global float *y, __global const float *x, const long n, const long inner, const long left,
                           const int logarithm) {
    if (left >= TFM_WIDTH)
        COLUMNS(tfm_vec, tfm_load, tfm_store, x, y)
    else
        for (long c = 0; c < left; c++)
            COLUMNS(float, TFM_LOAD_ONE, TFM_STORE_ONE, (x + c), (y + c))
}

#define COLUMN_KERNEL(name, logarithm)                                                                                 \
    TFM_KERNEL void name(TFM_TENSOR(float, y), TFM_INPUT(float, x), const long rows, const long n, const long inner,   \
                         const long blocks) {                                                                          \
        const long block = TFM_ROW(), row = block / blocks;                                                            \
        const long first = TFM_COLUMN(block - row * blocks);                                                           \
        const long at = row * n * inner + first, left = row < rows ? inner - first : 0;                                \
        columns(TFM_AT(y) + at, TFM_AT(x) + at, n, inner, left, logarithm);                                            \
    }
COLUMN_KERNEL(softmax_columns, 0)
COLUMN_KERNEL(log_softmax_columns, 1)

/* ---- Backward ----
 *
 * Softmax: dx = y (dy - sum dy y). Log-softmax: dx = dy - e^y sum dy. Accumulated if `add`; dx may be dy. Layouts as
 * above. */
#define WEIGHTED(logarithm, d, v) ((logarithm) ? (d) : (d) * (v))
#define GRAD(T, logarithm, d, v, sum) ((logarithm) ? tfm_fma(-exp(v), (T)(sum), d) : (v) * ((d) - (sum)))

static inline __attribute__((always_inline)) float row_total(__global const float *dy, __global const float *y,
                                                             const long n, const int logarithm) {
    tfm_vec sums = (tfm_vec)(0.0f);
    for (long i = TFM_LOCAL_ID() * TFM_WIDTH; i + TFM_WIDTH <= n; i += TFM_STEP)
        sums += WEIGHTED(logarithm, tfm_load(dy + i), tfm_load(y + i));
    float sum = tfm_vec_sum(sums);
    for (long i = TFM_TAIL(n) + TFM_LOCAL_ID(); i < n; i += TFM_GROUP)
        sum += WEIGHTED(logarithm, dy[i], y[i]);
    return sum;
}

#define ROW_BACKWARD(name, logarithm)                                                                                  \
    TFM_KERNEL void name(TFM_TENSOR(float, dx), TFM_INPUT(float, dy), TFM_INPUT(float, y), const long add,             \
                         const long rows, const long n) {                                                              \
        TFM_SCRATCH                                                                                                    \
        const long row = TFM_ROW();                                                                                    \
        if (row >= rows)                                                                                               \
            return;                                                                                                    \
        __global const float *d = TFM_AT(dy) + row * n, *v = TFM_AT(y) + row * n;                                      \
        __global float *out = TFM_AT(dx) + row * n;                                                                    \
        const float lane = row_total(d, v, n, logarithm), sum = tfm_group_sum(lane);                                   \
        for (long i = TFM_LOCAL_ID() * TFM_WIDTH; i + TFM_WIDTH <= n; i += TFM_STEP) {                                 \
            const tfm_vec g = GRAD(tfm_vec, logarithm, tfm_load(d + i), tfm_load(v + i), sum);                         \
            tfm_store(add ? tfm_load(out + i) + g : g, out + i);                                                       \
        }                                                                                                              \
        for (long i = TFM_TAIL(n) + TFM_LOCAL_ID(); i < n; i += TFM_GROUP) {                                           \
            const float g = GRAD(float, logarithm, d[i], v[i], sum);                                                   \
            out[i] = add ? out[i] + g : g;                                                                             \
        }                                                                                                              \
    }
ROW_BACKWARD(softmax_backward, 0)
ROW_BACKWARD(log_softmax_backward, 1)

#define COLUMNS_BACKWARD(T, LOAD, STORE, at)                                                                           \
    {                                                                                                                  \
        T sum = (T)(0.0f);                                                                                             \
        for (long i = at; i < at + n * inner; i += inner)                                                              \
            sum += WEIGHTED(logarithm, LOAD(d + i), LOAD(v + i));                                                      \
        for (long i = at; i < at + n * inner; i += inner) {                                                            \
            const T g = GRAD(T, logarithm, LOAD(d + i), LOAD(v + i), sum);                                             \
            STORE(add ? LOAD(out + i) + g : g, out + i);                                                               \
        }                                                                                                              \
    }

static inline void columns_backward(__global float *out, __global const float *d, __global const float *v, const long n,
                                    const long inner, const long left, const int logarithm, const long add) {
    if (left >= TFM_WIDTH)
        COLUMNS_BACKWARD(tfm_vec, tfm_load, tfm_store, 0)
    else
        for (long c = 0; c < left; c++)
            COLUMNS_BACKWARD(float, TFM_LOAD_ONE, TFM_STORE_ONE, c)
}

#define COLUMN_BACKWARD(name, logarithm)                                                                               \
    TFM_KERNEL void name(TFM_TENSOR(float, dx), TFM_INPUT(float, dy), TFM_INPUT(float, y), const long add,             \
                         const long rows, const long n, const long inner, const long blocks) {                         \
        const long block = TFM_ROW(), row = block / blocks;                                                            \
        const long first = TFM_COLUMN(block - row * blocks);                                                           \
        const long at = row * n * inner + first, left = row < rows ? inner - first : 0;                                \
        columns_backward(TFM_AT(dx) + at, TFM_AT(dy) + at, TFM_AT(y) + at, n, inner, left, logarithm, add);            \
    }
COLUMN_BACKWARD(softmax_columns_backward, 0)
COLUMN_BACKWARD(log_softmax_columns_backward, 1)
