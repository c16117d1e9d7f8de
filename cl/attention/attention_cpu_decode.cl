/* Attention of single queries on CPU-style devices: for decode, and for heads too wide for attention_cpu.cl, with the
 * same formulas. attention_common.cl defines letters, parameters, visibility and dropout. */
#include "attention_common.cl"
#include "attention_vectors.cl"

/* Lane i of the result is the sum of t[i]'s lanes. Overwrites t. */
static inline tfm_vec sum_each(tfm_vec *t) {
#pragma unroll
    for (int count = W; count > 1; count /= 2) {
#pragma unroll
        for (int i = 0; i < count / 2; i++)
            t[i] = (tfm_vec)(t[2 * i].even, t[2 * i + 1].even) + (tfm_vec)(t[2 * i].odd, t[2 * i + 1].odd);
    }
    return t[0];
}

/* With so few keys, all heads fit a cache, and memory order is the best. */
#define FEW_KEYS 64
#define FETCHED 512 /* limit of prefetched elements of a row */

/* Prefetches the keys and values of one head if they are few: those of a batch are in no nearby cache when needed, and
 * too short for hardware prefetching. */
static inline void fetch_few(const kv_view keys) {
    for (int j = 0; j < keys.visible && keys.visible <= FEW_KEYS; j++) {
        const int row = max(key_row(keys, j), 0);
        fetch(keys.k + row * keys.k_step, min(DK, FETCHED));
        fetch(keys.v + row * keys.v_step, min(DV, FETCHED));
    }
}

/* One work-item per query. W keys per step: W vector dot products over dk, one joint horizontal sum, one exponential
 * for all W, then W weighted values. */
TFM_KERNEL void attention_cpu_decode(TFM_TENSOR(float, y), TFM_TENSOR(float, lse), const long write_lse,
                                     const long items, const float scale, const float cap, ATTENTION_PARAMETERS) {
    const attention_shape shape = ATTENTION_SHAPE;
    const long item = TFM_ROW(), queries = layout.heads / layout.kv_heads * layout.targets;
    /* If neighbors in b share many keys, as beams do, eight of them run in a row for one head, which then stays in L1;
     * else all heads of one b in a row, which are contiguous. */
    const long row = layout.mapped && layout.length > FEW_KEYS && 2 * layout.sequences <= items ? 8 : 1,
               b = item / (row * layout.kv_heads * queries) * row + item % row;
    const long kv_head = item / row % layout.kv_heads, i = item / (row * layout.kv_heads) % queries;
    if (b >= items)
        return;
    const kv_view keys = keys_at(shape, b, kv_head);
    if (row == 1 && i == 0 && b + 1 < items)
        fetch_few(keys_at(shape, b + 1, kv_head));
    const long t = i % layout.targets, h = kv_head * (layout.heads / layout.kv_heads) + i / layout.targets;
    const long query = query_at(shape, b, t, h);
    const int limit = visible_end(keys, (int)t);
    __global const q_type *qp = TFM_AT(q) + query * DK;
    tfm_vec qs[KEY_VECTORS], sum[VALUE_VECTORS];
    float maximum = -INFINITY;
    tfm_vec total = 0.0f;
    UNROLL_VECTORS
    for (int c = 0; c < KEY_VECTORS; c++)
        qs[c] = load_query(qp, c) * scale;
    UNROLL_VECTORS
    for (int c = 0; c < VALUE_VECTORS; c++)
        sum[c] = 0.0f;
#if SCORE_MOD
    const long masks = mask_row(shape, b, t, h);
#endif
    for (int s = visible_begin(keys, (int)t); s < limit; s += W) {
        const int count = min(limit - s, W);
        int rows[W];
        tfm_vec part[W], bias;
#pragma unroll
        for (int j = 0; j < W; j++) {
            const int known = j < count ? key_row(keys, s + j) : -1;
            ((float *)&bias)[j] = known < 0 ? -INFINITY : 0.0f;
            rows[j] = known;
            if (known >= 0)
                fetch(keys.v + known * keys.v_step, min(DV, FETCHED)); /* while the scores are computed */
        }
#pragma unroll
        for (int j = 0; j < W; j++) {
            __global const kv_type *kp = keys.k + max(rows[j], 0) * keys.k_step;
            tfm_vec dot_product = 0.0f;
            UNROLL_VECTORS
            for (int c = 0; c < KEY_VECTORS; c++)
                dot_product = tfm_fma(qs[c], scaled_key(kp, c), dot_product);
            part[j] = dot_product;
        }
        tfm_vec z = sum_each(part);
#if SCORE_MOD
        z = scored(shape, z, cap, masks, s);
#endif
        z = select(z, bias, bias < 0.0f);
        const float reached = fmax(maximum, tfm_vec_max(z)), base = reached == -INFINITY ? 0.0f : reached;
        const tfm_vec p = exp2_down(z - base), shrink = exp2_down((tfm_vec)(maximum - base));
        maximum = reached;
        total = tfm_fma(total, shrink, p);
#if DROPOUT
        tfm_uvec numbers[4];
        dropout_words_vec(numbers, TFM_DROPOUT_RNG(), first_block(shape, b, kv_head) + i / 4, s);
        const tfm_vec weight = select(p, (tfm_vec)(0.0f), numbers[i % 4] < (uint)threshold);
#else
        const tfm_vec weight = p;
#endif
        UNROLL_VECTORS
        for (int c = 0; c < VALUE_VECTORS; c++)
            sum[c] *= shrink;
        for (int j = 0; j < count; j++) {
            if (rows[j] < 0)
                continue;
#if SCORE_MOD
            if (((const float *)&z)[j] == -INFINITY)
                continue; /* hidden by the mask: a NaN value must not contribute */
#endif
            __global const kv_type *vp = keys.v + rows[j] * keys.v_step;
            UNROLL_VECTORS
            for (int c = 0; c < VALUE_VECTORS; c++)
                sum[c] = tfm_fma((tfm_vec)(((const float *)&weight)[j]), scaled_value(vp, c), sum[c]);
        }
    }
    const float all = tfm_vec_sum(total), inverse = all == 0.0f ? 0.0f : KEPT(1.0f / all);
    UNROLL_VECTORS
    for (int c = 0; c < VALUE_VECTORS; c++)
        store_value(sum[c] * inverse, TFM_AT(y) + query * DV, c);
    if (write_lse)
        TFM_AT(lse)[(b * layout.heads + h) * layout.targets + t] = LN_2 * (maximum + log2(all));
}
