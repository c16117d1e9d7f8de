/* Backward pass of attention from y, dy and the forward's log-sum-exp. With z_is the score of query i and key s before
 * soft cap and mask, w_is = e^(score - lse_i) its weight, and f_is its dropout factor (1 without):
 *
 *     dv_s = sum_i f_is w_is dy_i,   e_is = w_is (f_is dy_i . v_s - dy_i . y_i) (1 - tanh^2(z_is / cap)),
 *     dq_i = scale sum_s e_is k_s,   dk_s = scale sum_i e_is q_i
 *
 * ("FlashAttention", Dao et al. 2022, algorithm 4.) Since y_i = sum_s f_is w_is v_s, the gradient of w_is is
 * g_is = f_is dy_i . v_s, and the softmax subtracts sum_s w_is g_is = dy_i . y_i, with or without dropout.
 *
 * Weights are recomputed, a tile of keys by a few queries at a time, so nothing quadratic in length is stored. dq, dk
 * and dv are accumulated.
 *
 * Layout: a work-group processes all queries and keys of one (b, key head), so it is the only writer and the order of
 * additions is fixed; dq, dk and dv share no memory. Parameters, letters and dropout as in attention_common.cl. */
#include "attention_common.cl"
#include "attention_backward_common.cl"

/* Queries that an item processes at a time: a block of random numbers for dropout. */
#define ROWS 4
DEFINE_ROWS_AT(rows_at, ROWS)

/* Compilers fully unroll loops over odd widths, because a partly unrolled one has a remainder of another length, and
 * spill. */
#if DK % 4 == 0 && DV % 4 == 0
#define EACH_COLUMN
#else
#define EACH_COLUMN _Pragma("unroll 1")
#endif

/* GPU-style devices, if attention_backward_tiled.cl does not support the head (too wide, or a width that is no multiple
 * of 4) or groups or local memory are small: an item has a key of the tile and ROWS queries at a time. For dq the items
 * share its columns instead, with the tile's e in local memory. Also for heads too wide for a CPU thread's stack, in
 * groups of one. */
TFM_KERNEL void attention_backward_gpu(BACKWARD_PARAMETERS) {
    __local float shared_e[ROWS * TFM_GROUP];
    const long item = TFM_ROW(), kv_head = item % layout.kv_heads, b = item / layout.kv_heads;
    if (item >= items)
        return;
    const attention_shape shape = ATTENTION_SHAPE;
    const kv_view keys = keys_at(shape, b, kv_head);
    const long key_first = keys.k - shape.k, value_first = keys.v - shape.v, group = layout.heads / layout.kv_heads;
    const long queries = group * layout.targets;
    const int lane = (int)TFM_LOCAL_ID(), none = TFM_OPAQUE_ZERO(layout.targets);
    for (int s = 0; s < keys.visible; s += TFM_GROUP) {
        const int count = min(keys.visible - s, TFM_TRIP_COUNT(TFM_GROUP, none)), own_key = s + min(lane, count - 1);
        __global const float *kp = keys.k + own_key * keys.k_step, *vp = keys.v + own_key * keys.v_step;
        __global float *dkp = TFM_AT(dk) + key_first + own_key * keys.k_step;
        __global float *dvp = TFM_AT(dv) + value_first + own_key * keys.v_step;
        for (long i = 0; i < queries; i += ROWS) {
            float w[ROWS], e[ROWS];
            const query_rows rows =
                rows_at(shape, keys, b, kv_head * group + i / layout.targets, i % layout.targets, queries - i);
#if DROPOUT
            const uint4 numbers = dropout_words(TFM_DROPOUT_RNG(), first_block(shape, b, kv_head) + i / ROWS, own_key);
            const float4 factors = select((float4)(dropout_scale), (float4)(0.0f), numbers < (uint4)((uint)threshold));
            float factor[ROWS];
            vstore4(factors, 0, factor);
#endif
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const int seen = lane < count && s + lane >= rows.begin[r] && s + lane < rows.end[r];
                float z = 0.0f, g = 0.0f, slope = scale;
                w[r] = e[r] = 0.0f;
                if (seen) {
                    __global const float *qp = TFM_AT(q) + rows.at[r] * DK, *yp = TFM_AT(y) + rows.at[r] * DV;
                    __global const float *dyp = TFM_AT(dy) + rows.at[r] * DV;
                    EACH_COLUMN for (int d = 0; d < TFM_TRIP_COUNT(DK, none); d++) z = tfm_fma(qp[d], kp[d], z);
                    EACH_COLUMN for (int d = 0; d < TFM_TRIP_COUNT(DV, none); d++) g =
                        tfm_fma(dyp[d], DROPPED(vp[d], [r]) - yp[d], g);
                    z *= scale;
                    if (cap > 0.0f) {
                        const float bend = tanh(z / cap);
                        z = cap * bend;
                        slope *= 1.0f - bend * bend;
                    }
                    const float m = layout.mask_kind != 0 ? mask_at(shape, rows.mask[r], s + lane) : 0.0f;
                    z = m == -INFINITY ? m : z + m;
                    const float weight = z == -INFINITY ? 0.0f : exp(BELOW(float, z - TFM_AT(lse)[rows.sum[r]]));
                    w[r] = DROPPED(weight, [r]);
                    e[r] = weight == 0.0f ? 0.0f : weight * g * slope;
                }
            }
            if (lane < count) {
                EACH_COLUMN for (int d = 0; d < TFM_TRIP_COUNT(DV, none); d++) {
                    float sum = dvp[d];
#pragma unroll
                    for (int r = 0; r < ROWS; r++)
                        sum = tfm_fma(TFM_AT(dy)[rows.at[r] * DV + d], w[r], sum);
                    dvp[d] = sum;
                }
                EACH_COLUMN for (int d = 0; d < TFM_TRIP_COUNT(DK, none); d++) {
                    float sum = dkp[d];
#pragma unroll
                    for (int r = 0; r < ROWS; r++)
                        sum = tfm_fma(TFM_AT(q)[rows.at[r] * DK + d], e[r], sum);
                    dkp[d] = sum;
                }
            }
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                shared_e[r * TFM_GROUP + lane] = e[r];
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int c = lane; c < rows.count * DK; c += TFM_GROUP) {
                const int own = c / DK, d = c % DK;
                long at = rows.at[0];
#pragma unroll
                for (int r = 0; r < ROWS; r++)
                    at = r == own ? rows.at[r] : at; /* an array with an index from memory would be in memory */
                __global float *to = TFM_AT(dq) + at * DK + d;
                float sum = *to;
                for (int j = 0; j < count; j++)
                    sum = tfm_fma(shared_e[own * TFM_GROUP + j], keys.k[(s + j) * keys.k_step + d], sum);
                *to = sum;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
}
