/* scores[b, t, s] = sum_a v[a] tanh(q[b, t, a] + k[b, s, a]): q (B, T, A), k (B, S, A), v (A), scores (B, T, S). The
 * (B, T, S, A) arguments of tanh are never stored. */

/* tanh as x P(x^2) / Q(x^2) on [-9, 9], and clamped beyond: a reweighted least-squares fit, relative error below 3e-8,
 * in fp32 below 4e-7. The built-in takes five times as long on PoCL. NaN stays NaN. */
#define SQUASH_BODY(T)                                                                                                 \
    const T x = fmin(fmax(v, (T)(-9.0f)), (T)(9.0f)), z = x * x;                                                       \
    T p = (T)(1.3355329e-08f);                                                                                         \
    p = tfm_fma(p, z, (T)(2.06096282e-05f));                                                                           \
    p = tfm_fma(p, z, (T)(0.00349562392f));                                                                            \
    p = tfm_fma(p, z, (T)(0.133810567f));                                                                              \
    p = tfm_fma(p, z, (T)(0.99999998f));                                                                               \
    T q = (T)(7.77685079e-07f);                                                                                        \
    q = tfm_fma(q, z, (T)(0.000328569153f));                                                                           \
    q = tfm_fma(q, z, (T)(0.0258771211f));                                                                             \
    q = tfm_fma(q, z, (T)(0.467143724f));                                                                              \
    q = tfm_fma(q, z, (T)(1.0f));                                                                                      \
    return v != v ? v : x * p / q;
static inline float squash(const float v) {
    SQUASH_BODY(float)
}

#if TFM_WIDTH > 1
static inline tfm_vec squash_vec(const tfm_vec v) {
    SQUASH_BODY(tfm_vec)
}

#ifndef KEYS
#define KEYS 64
#endif
/* Layout: one work-item for one query and a block of KEYS keys, vectors along A, which may have a tail. */
TFM_KERNEL void score_additive(TFM_TENSOR(float, scores), TFM_INPUT(float, q), TFM_INPUT(float, k), TFM_INPUT(float, v),
                               const long items, const long T, const long S, const long A) {
    const long item = TFM_ROW(), blocks = (S + KEYS - 1) / KEYS, row = item / blocks;
    if (item >= items)
        return;
    const long first = item % blocks * KEYS, end = min(first + KEYS, S), whole = A - A % TFM_WIDTH;
    __global const float *query = TFM_AT(q) + row * A, *weight = TFM_AT(v);
    for (long s = first; s < end; s++) {
        __global const float *key = TFM_AT(k) + (row / T * S + s) * A;
        tfm_vec sums = (tfm_vec)(0.0f);
        for (long a = 0; a < whole; a += TFM_WIDTH) {
            const tfm_vec x = tfm_load(query + a) + tfm_load(key + a);
            sums = tfm_fma(squash_vec(x), tfm_load(weight + a), sums);
        }
        float sum = tfm_vec_sum(sums);
        for (long a = whole; a < A; a++)
            sum = tfm_fma(squash(query[a] + key[a]), weight[a], sum);
        TFM_AT(scores)[row * S + s] = sum;
    }
}
#else
#define QUERIES 4 /* that share each key load */
#define TILE 16   /* columns at a time */
/* Layout: one work-group for QUERIES queries and TFM_GROUP keys, one key an item. Tiles of key columns go through local
 * memory, for coalesced loads. */
TFM_KERNEL void score_additive(TFM_TENSOR(float, scores), TFM_INPUT(float, q), TFM_INPUT(float, k), TFM_INPUT(float, v),
                               const long items, const long T, const long S, const long A) {
    __local float keys[TILE][TFM_GROUP + 1], queries[QUERIES][TILE], weights[TILE];
    const long item = TFM_ROW(), lane = TFM_LOCAL_ID();
    const long wide = (S + TFM_GROUP - 1) / TFM_GROUP, high = (T + QUERIES - 1) / QUERIES;
    if (item >= items)
        return;
    const long b = item / wide / high, t = item / wide % high * QUERIES, s = item % wide * TFM_GROUP;
    float sums[QUERIES];
    for (int j = 0; j < QUERIES; j++)
        sums[j] = 0.0f;
    for (long first = 0; first < A; first += TILE) {
        barrier(CLK_LOCAL_MEM_FENCE); /* the previous tile has been read */
        for (long i = lane; i < TFM_GROUP * TILE; i += TFM_GROUP) {
            const long row = s + i / TILE, a = first + i % TILE;
            keys[i % TILE][i / TILE] = row < S && a < A ? TFM_AT(k)[(b * S + row) * A + a] : 0.0f;
        }
        for (long i = lane; i < QUERIES * TILE; i += TFM_GROUP) {
            const long row = t + i / TILE, a = first + i % TILE;
            queries[i / TILE][i % TILE] = row < T && a < A ? TFM_AT(q)[(b * T + row) * A + a] : 0.0f;
        }
        for (long i = lane; i < TILE; i += TFM_GROUP)
            weights[i] = first + i < A ? TFM_AT(v)[first + i] : 0.0f;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int a = 0; a < TILE; a++)
            for (int j = 0; j < QUERIES; j++)
                sums[j] = tfm_fma(squash(queries[j][a] + keys[a][lane]), weights[a], sums[j]);
    }
    for (int j = 0; j < QUERIES; j++)
        if (t + j < T && s + lane < S)
            TFM_AT(scores)[(b * T + t + j) * S + s + lane] = sums[j];
}
#endif
