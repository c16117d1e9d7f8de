/* Attention scores (B, H, T, S) at one of their stages (enum tfm_attention_stage; the softmax is a separate op):
 *
 *     1 product  z = scale q_t . k_s                    -inf if no such key exists
 *     2 capped   cap tanh(z / cap)                      z itself if cap is 0
 *     3 masked   + mask                                 -inf if t does not see s
 *
 * attention_common.cl defines parameters and letters. Layout: a work-group takes a row of S scores, an item one key at
 * a time; on CPU-style devices one item takes them all. */
#include "attention_common.cl"
#if TFM_WIDTH > 1
#include "attention_vectors.cl"
#endif

/* q . k */
static inline float dot_product(__global const q_type *q, __global const kv_type *k) {
    int d = 0;
    float sum = 0.0f;
#if TFM_WIDTH > 1
    tfm_vec part = 0.0f;
    for (; d + W <= DK; d += W)
        part = tfm_fma(load_q(q + d), load(k + d) * KV_SCALE(k, DK, d), part);
    sum = tfm_vec_sum(part);
#else
    float4 part = 0.0f;
    for (; d + 4 <= DK; d += 4)
        part = tfm_fma(Q_LOAD4(q + d), KV_LOAD4(k + d) * KV_SCALE(k, DK, d), part);
    sum = part.x + part.y + part.z + part.w;
#endif
    for (; d < DK; d++)
        sum = tfm_fma(Q_LOAD(q, d), KV_LOAD(k, d) * KV_SCALE(k, DK, d), sum);
    return sum;
}

TFM_KERNEL void attention_scores(TFM_TENSOR(float, scores), const long stage, const long items, const float scale,
                                 const float cap, ATTENTION_PARAMETERS) {
    const long item = TFM_ROW();
    if (item >= items)
        return;
    const attention_shape shape = ATTENTION_SHAPE;
    const long t = item % layout.targets, h = item / layout.targets % layout.heads,
               b = item / (layout.targets * layout.heads);
    const kv_view keys = keys_at(shape, b, h / (layout.heads / layout.kv_heads));
    const int first = visible_begin(keys, (int)t), end = visible_end(keys, (int)t);
    const long masks = mask_row(shape, b, t, h);
    __global const q_type *query = TFM_AT(q) + query_at(shape, b, t, h) * DK;
    __global float *out = TFM_AT(scores) + item * layout.length;
    for (int s = (int)TFM_LOCAL_ID(); s < (int)layout.length; s += TFM_GROUP) {
        const int row = keys.known ? key_row(keys, s) : -1;
        float z = -INFINITY;
        if (row >= 0)
            z = scale * dot_product(query, keys.k + row * keys.k_step);
        if (row >= 0 && cap > 0.0f && stage >= 2)
            z = cap * tanh(z / cap);
        if (stage >= 3) { /* a hidden score is -inf even if the key has NaN */
            const int seen = s >= first && s < end;
            const float m = layout.mask_kind != 0 && seen ? mask_at(shape, masks, s) : 0.0f;
            z = seen && m != -INFINITY ? z + m : -INFINITY;
        }
        out[s] = z;
    }
}
