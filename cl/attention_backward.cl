/* Attention backwards, from y, dy and the log sums that the forward kept. With z_is the score of query i and key s before
 * soft cap and mask, w_is = e^(score - log_sum_i) its weight:
 *
 *     dv_s = sum_i w_is dy_i,   e_is = w_is (dy_i . v_s - dy_i . y_i) (1 - tanh^2(z_is / cap)),
 *     dq_i = scale sum_s e_is k_s,   dk_s = scale sum_i e_is q_i
 *
 * ("FlashAttention", Dao et al. 2022, algorithm 4.) Weights are made again, a tile of keys by a few queries at a time, so
 * nothing quadratic in length is in memory. dq, dk and dv are added to.
 *
 * Layout: a work-group has all queries and keys of one (b, key head), so that nobody else writes what it does, and the
 * order of additions is fixed. Parameters and letters as in attention_parts.cl. */
#include "attention_parts.cl"

#define BACKWARD_PARAMETERS                                                                                       \
    TFM_TENSOR(float, dq), TFM_TENSOR(float, dk), TFM_TENSOR(float, dv), TFM_INPUT(float, y),                     \
        TFM_INPUT(float, dy), TFM_INPUT(float, log_sum), const long items, const float scale, const float cap,    \
        ATTENTION_PARAMETERS

/* Queries that meet a tile together. */
#define ROWS 4

#if TFM_WIDTH > 1
#include "attention_vectors.cl"

#define EACH_ROW _Pragma("unroll") for (int r = 0; r < ROWS; r++)

/* A tile of W keys and values, a component of all of them in a vector, and the sums of their gradients. */
typedef struct tile {
    tfm_vec k[DK], v[DV], dk[DK], dv[DV];
} tile;

/* Those behind `count` are zeros, whatever lies there. */
static inline void tile_pack(tile *to, const shared_keys keys, const int s, const int count) {
    for (int j = 0; j < W; j++) {
        __global const float *k = keys.k + (s + min(j, count - 1)) * keys.k_step;
        __global const float *v = keys.v + (s + min(j, count - 1)) * keys.v_step;
        for (int d = 0; d < DK; d++)
            ((float *)&to->k[d])[j] = j < count ? k[d] : 0.0f;
        for (int d = 0; d < DV; d++)
            ((float *)&to->v[d])[j] = j < count ? v[d] : 0.0f;
    }
    for (int d = 0; d < DK; d++)
        to->dk[d] = 0.0f;
    for (int d = 0; d < DV; d++)
        to->dv[d] = 0.0f;
}

static inline void tile_add(const tile *from, __global float *dk, __global float *dv, const shared_keys keys, const int s,
                            const int count) {
    for (int j = 0; j < count; j++) {
        __global float *k = dk + (s + j) * keys.k_step, *v = dv + (s + j) * keys.v_step;
        for (int d = 0; d < DK; d++)
            k[d] += ((const float *)&from->dk[d])[j];
        for (int d = 0; d < DV; d++)
            v[d] += ((const float *)&from->dv[d])[j];
    }
}

static inline tfm_vec lanes_from(const int s) {
    float at[W];
    for (int i = 0; i < W; i++)
        at[i] = (float)(s + i);
    return tfm_load(at);
}

/* ROWS queries from target t on, of which `rows` exist, and a tile of keys. */
static inline void rows_meet_tile(tile *keys, const attention_shape shape, const shared_keys shared, const int s,
                                  const int count, __global const float *q, __global const float *y,
                                  __global const float *dy, __global float *dq, __global const float *log_sum,
                                  const long step, const int rows, const int t, const long masks, const float scale,
                                  const float cap) {
    tfm_vec z[ROWS], e[ROWS];
    __global const float *qs[ROWS], *dys[ROWS];
    EACH_ROW {
        qs[r] = q + min(r, rows - 1) * step * DK;
        dys[r] = dy + min(r, rows - 1) * step * DV;
        z[r] = e[r] = 0.0f;
    }
    for (int d = 0; d < DK; d++) {
        const tfm_vec k = keys->k[d];
        EACH_ROW z[r] = tfm_fma((tfm_vec)(qs[r][d]), k, z[r]);
    }
    for (int d = 0; d < DV; d++) {
        const tfm_vec v = keys->v[d];
        EACH_ROW e[r] = tfm_fma((tfm_vec)(dys[r][d]), v, e[r]);
    }
    const tfm_vec at = lanes_from(s);
    EACH_ROW {
        /* Rows that do not exist have no weights. */
        const int real = r < rows, target = t + min(r, rows - 1);
        const int first = seen_from(shared, target), end = real ? seen_to(shared, target) : 0;
        __global const float *row_y = y + min(r, rows - 1) * step * DV;
        float own = 0.0f;
        for (int d = 0; d < DV; d++)
            own = tfm_fma(dys[r][d], row_y[d], own);
        tfm_vec score = z[r] * scale, slope = (tfm_vec)(scale);
#if SCORED
        if (cap > 0.0f) {
            const tfm_vec bend = tanh(score / cap);
            score = cap * bend;
            slope *= 1.0f - bend * bend;
        }
        if (shape.mask_kind != 0) {
            const tfm_vec m = mask_columns(shape, masks + min(r, rows - 1) * shape.mask_t, s);
            score = select(score + m, m, m == -INFINITY);
        }
#endif
        const tfm_vec w = exp2_down(select((score - log_sum[min(r, rows - 1)]) * LOG2_E, (tfm_vec)(-INFINITY),
                                           at < (float)first || at >= (float)end || score == -INFINITY));
        z[r] = w;
        e[r] = select(w * (e[r] - own) * slope, (tfm_vec)(0.0f), w == 0.0f);
    }
    for (int d = 0; d < DV; d++) {
        tfm_vec sum = keys->dv[d];
        EACH_ROW sum = tfm_fma((tfm_vec)(dys[r][d]), z[r], sum);
        keys->dv[d] = sum;
    }
    for (int d = 0; d < DK; d++) {
        tfm_vec sum = keys->dk[d];
        EACH_ROW sum = tfm_fma((tfm_vec)(qs[r][d]), e[r], sum);
        keys->dk[d] = sum;
    }
    for (int c = 0; c < KEY_VECTORS; c++) {
        tfm_vec sum[ROWS];
        EACH_ROW sum[r] = load_key(dq + min(r, rows - 1) * step * DK, c);
        for (int j = 0; j < count; j++) {
            const tfm_vec k = load_key(shared.k + (s + j) * shared.k_step, c);
            EACH_ROW sum[r] = tfm_fma((tfm_vec)(((const float *)&e[r])[j]), k, sum[r]);
        }
        for (int r = 0; r < rows; r++) {
            __global float *to = dq + r * step * DK + c * W;
            for (int i = 0; (c + 1) * W > DK && i < DK % W; i++)
                to[i] = ((const float *)&sum[r])[i];
            if ((c + 1) * W <= DK)
                ((__global loose_floats *)to)->all = sum[r];
        }
    }
}

TFM_KERNEL void attention_backward_wide(BACKWARD_PARAMETERS) {
    const long item = TFM_ROW(), kv_head = item % kv_heads, b = item / kv_heads;
    if (item >= items)
        return;
    const attention_shape shape = ATTENTION_SHAPE;
    const shared_keys keys = keys_at(shape, b, kv_head);
    const long key_first = keys.k - shape.k, value_first = keys.v - shape.v, group = heads / kv_heads;
    const long step = heads_first ? 1 : heads;
    tile packed;
    for (int s = 0; s < keys.visible; s += W) {
        const int count = min(keys.visible - s, W);
        tile_pack(&packed, keys, s, count);
        for (long h = kv_head * group; h < (kv_head + 1) * group; h++)
            for (int t = 0; t < (int)targets; t += ROWS) {
                const int rows = min((int)targets - t, ROWS);
                const long at = query_at(shape, b, t, h);
                if (seen_to(keys, t + rows - 1) > s && seen_from(keys, t) < s + count)
                    rows_meet_tile(&packed, shape, keys, s, count, TFM_AT(q) + at * DK, TFM_AT(y) + at * DV,
                                   TFM_AT(dy) + at * DV, TFM_AT(dq) + at * DK,
                                   TFM_AT(log_sum) + (b * heads + h) * targets + t, step, rows, t,
                                   mask_row(shape, b, t, h), scale, cap);
            }
        tile_add(&packed, TFM_AT(dk) + key_first, TFM_AT(dv) + value_first, keys, s, count);
    }
}
#endif

/* Where work-items run side by side, an item has a key of the tile and ROWS queries at a time. For dq the items share its
 * columns instead, and the tile's e are in local memory. Also for heads too wide for a CPU thread's stack, by groups of one. */
TFM_KERNEL void attention_backward_group(BACKWARD_PARAMETERS) {
    __local float shared_e[ROWS * TFM_GROUP];
    const long item = TFM_ROW(), kv_head = item % kv_heads, b = item / kv_heads;
    if (item >= items)
        return;
    const attention_shape shape = ATTENTION_SHAPE;
    const shared_keys keys = keys_at(shape, b, kv_head);
    const long key_first = keys.k - shape.k, value_first = keys.v - shape.v, group = heads / kv_heads;
    const long step = heads_first ? 1 : heads;
    const int lane = (int)TFM_LANE();
    for (int s = 0; s < keys.visible; s += TFM_GROUP) {
        const int count = min(keys.visible - s, TFM_GROUP), own_key = s + min(lane, count - 1);
        __global const float *kp = keys.k + own_key * keys.k_step, *vp = keys.v + own_key * keys.v_step;
        __global float *dkp = TFM_AT(dk) + key_first + own_key * keys.k_step;
        __global float *dvp = TFM_AT(dv) + value_first + own_key * keys.v_step;
        for (long h = kv_head * group; h < (kv_head + 1) * group; h++)
            for (int t = 0; t < (int)targets; t += ROWS) {
                float w[ROWS], e[ROWS];
                const int rows = min((int)targets - t, ROWS);
                const long at = query_at(shape, b, t, h);
                __global const float *qp = TFM_AT(q) + at * DK, *yp = TFM_AT(y) + at * DV, *dyp = TFM_AT(dy) + at * DV;
                for (int r = 0; r < ROWS; r++) {
                    const int here = r < rows, row = min(r, rows - 1), target = t + row;
                    const int seen = here && lane < count && s + lane >= seen_from(keys, target) &&
                                     s + lane < seen_to(keys, target);
                    float z = 0.0f, g = 0.0f, slope = scale;
                    w[r] = e[r] = 0.0f;
                    if (seen) {
                        for (int d = 0; d < DK; d++)
                            z = tfm_fma(qp[row * step * DK + d], kp[d], z);
                        for (int d = 0; d < DV; d++)
                            g = tfm_fma(dyp[row * step * DV + d], vp[d] - yp[row * step * DV + d], g);
                        z *= scale;
                        if (cap > 0.0f) {
                            const float bend = tanh(z / cap);
                            z = cap * bend;
                            slope *= 1.0f - bend * bend;
                        }
                        const float m = mask_kind != 0 ? mask_at(shape, mask_row(shape, b, target, h), s + lane) : 0.0f;
                        z = m == -INFINITY ? m : z + m;
                        w[r] = z == -INFINITY ? 0.0f
                                              : exp(z - TFM_AT(log_sum)[(b * heads + h) * targets + target]);
                        e[r] = w[r] == 0.0f ? 0.0f : w[r] * g * slope;
                    }
                }
                if (lane < count) {
                    for (int d = 0; d < DV; d++) {
                        float sum = dvp[d];
                        for (int r = 0; r < ROWS; r++)
                            sum = tfm_fma(dyp[min(r, rows - 1) * step * DV + d], w[r], sum);
                        dvp[d] = sum;
                    }
                    for (int d = 0; d < DK; d++) {
                        float sum = dkp[d];
                        for (int r = 0; r < ROWS; r++)
                            sum = tfm_fma(qp[min(r, rows - 1) * step * DK + d], e[r], sum);
                        dkp[d] = sum;
                    }
                }
                for (int r = 0; r < ROWS; r++)
                    shared_e[r * TFM_GROUP + lane] = e[r];
                barrier(CLK_LOCAL_MEM_FENCE);
                for (int i = lane; i < rows * DK; i += TFM_GROUP) {
                    const int r = i / DK, d = i % DK;
                    __global float *to = TFM_AT(dq) + at * DK + r * step * DK + d;
                    float sum = *to;
                    for (int j = 0; j < count; j++)
                        sum = tfm_fma(shared_e[r * TFM_GROUP + j], keys.k[(s + j) * keys.k_step + d], sum);
                    *to = sum;
                }
                barrier(CLK_LOCAL_MEM_FENCE);
            }
    }
}
