/* Tiled backward pass of attention on GPU-style devices; formulas, letters and order of sums as in
 * attention_backward.cl. Three kernels; a work-group owns its outputs and writes them once:
 *
 *     attention_backward_delta       delta_i = dy_i . y_i
 *     attention_backward_keys        dk and dv of KEYS keys, over all queries that see one of them
 *     attention_backward_queries     dq of QUERIES queries, over all visible keys
 *
 * So the weights are computed twice: 7 matrix multiplications instead of 5, but no gradients in global memory for every
 * tile. Without add_q, add_k or add_v the destination is overwritten. The grid is of tiles, heads and sequences, from
 * first_tile, first_head and first_b on, because long launches are split. */
#include "attention_common.cl"
#include "attention_tiles.cl"

#ifndef PASS
#define PASS 0 /* a program has one kernel: 0 delta, 1 keys, 2 queries */
#endif
#define KEY4 (DK / 4)
#define VALUE4 (DV / 4)

#if PASS == 0
#define SPAN 2 /* columns at a time, in groups of four */

/* delta (B, H, T) from `rows` rows of y and dy. Layout: one item a row, with coalesced reads. Sums are in the order of
 * tile_qk, so a query with one visible key, whose value equals y, has a gradient of exactly 0 instead of rounding
 * errors, which Adam would turn into large steps. */
TFM_KERNEL void attention_backward_delta(TFM_TENSOR(float, delta), TFM_INPUT(float, y), TFM_INPUT(float, dy),
                                         const long rows, const long targets, const long heads,
                                         const long heads_first) {
    __local float4 stage[2][TFM_GROUP * (SPAN + 1)];
    const long first = TFM_ROW() * TFM_GROUP, row = first + TFM_LOCAL_ID();
    const int lane = (int)TFM_LOCAL_ID(), count = (int)min(rows - first, (long)TFM_GROUP);
    if (first >= rows)
        return;
    const tile_rows results = {TFM_AT(y) + first * DV, BYTES(DV), 0, count, 0, 0};
    const tile_rows gradients = {TFM_AT(dy) + first * DV, BYTES(DV), 0, count, 0, 0};
    float sum = 0.0f;
    LOOP
    for (int column = 0; column < VALUE4; column += SPAN) {
        barrier(CLK_LOCAL_MEM_FENCE);
        stage_rows(lane, stage[0], SPAN + 1, gradients, 0, TFM_GROUP, column, SPAN, VALUE4);
        stage_rows(lane, stage[1], SPAN + 1, results, 0, TFM_GROUP, column, SPAN, VALUE4);
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (int c = 0; c < SPAN; c++) {
            const float4 a = stage[0][lane * (SPAN + 1) + c], b = stage[1][lane * (SPAN + 1) + c];
            DOT4(sum, a, b)
        }
    }
    if (lane < count) {
        const long t = row / heads % targets, h = row % heads, b = row / (heads * targets);
        TFM_AT(delta)[heads_first ? row : (b * heads + h) * targets + t] = sum;
    }
}
#else

/* The queries of one head and sequence, with their per-query data. */
typedef struct head_queries {
    tile_rows q, dy;
    __global const float *delta, *lse; /* of target 0 */
    long mask;                         /* mask row of target 0 */
} head_queries;

INLINED head_queries head_at(const attention_shape a, __global const float *q, __global const float *dy,
                             __global const float *delta, __global const float *lse, const long b, const long h) {
    const long at = query_at(a, b, 0, h), sum = (b * a.heads + h) * a.targets;
    const int step = a.heads_first ? 1 : (int)a.heads, count = (int)a.targets;
    return (head_queries){{q + at * DK, BYTES(step * DK), 0, count, 0, 0},
                          {dy + at * DV, BYTES(step * DV), 0, count, 0, 0},
                          delta + sum,
                          lse + sum,
                          mask_row(a, b, 0, h)};
}

/* The log-sum-exps and then `own` of QUERIES queries from t on; some may not exist. */
INLINED void stage_sums(const int lane, __local float *sums, const head_queries head, const int t) {
    for (int r = lane; r < QUERIES; r += TFM_GROUP) {
        const int at = clamp(t + r, 0, head.q.high - 1);
        sums[r] = head.lse[at];
        sums[QUERIES + r] = head.delta[at];
    }
}

#if DROPOUT
#define DROPPED(x, r) (factor[r] * (x))
/* The first block of random numbers for dropout; one item computes the division and shares it through LANE's memory. */
#define BLOCK(fixed) ((uint)(fixed)[2])
#define KEEP_BLOCK(fixed) (fixed)[2] = (int)first_block(shape, b, kv_head);
#define BLOCK_AT(fixed, index) BLOCK(fixed) + (index) / 4, TFM_DROPOUT_RNG(),
#define BLOCK_PARAMETERS const uint block, const tfm_dropout_rng drops,
#else
#define DROPPED(x, r) (x)
#define BLOCK_AT(fixed, index)
#define BLOCK_PARAMETERS
#define KEEP_BLOCK(fixed)
#endif

/* Weights of keys are computed one by one to save registers on AMD. Eight rows are for devices with more registers,
 * where each fence costs time. */
#define ONE_BY_ONE (PASS == 1 && ROWS == 4)
/* x, ordered after `first`: otherwise compilers postpone computations on an item's weight and keep their inputs in
 * registers. `none` is an opaque 0. */
#define AFTER(first, x) (ONE_BY_ONE ? as_float(as_uint(x) | (as_uint(first) & none)) : (x))

/* Intel's compiler does not unroll such a long loop over keys and puts indexed arrays in memory: there the loop stays
 * rolled, and g is rotated by a key each time. */
#ifdef cl_intel_required_subgroup_size
#define ROLLED 1
#define EACH_KEY(j)                                                                                                    \
    LOOP                                                                                                               \
    for (int j = 0; j < TFM_TRIP_COUNT(4, (int)none); j++)
#else
#define ROLLED 0
#define EACH_KEY(j) _Pragma("unroll") for (int j = 0; j < 4; j++)
#endif

/* Turns the item's scores (in local memory from `scores` on, with strides `row` per query and `column` per key) into
 * weights with dropout or, in the pass over queries, into e; and its g = dy . v into e. The tile begins at query
 * t_first and key s_first; all_sums is from stage_sums. */
INLINED void tile_weights(const int lane, __local float *scores, const int row, const int column, float *g,
                          BLOCK_PARAMETERS const attention_shape shape, const kv_view keys, const long mask,
                          const int t_first, const int s_first, __local const float *all_sums, const float scale,
                          const float cap, const uint none) {
    const int t = t_first + 4 * QUERY_LANE(lane), s = s_first + KEY_LANE(lane);
    __local const float *sums = all_sums + 4 * QUERY_LANE(lane);
    EACH_KEY (j) {
        const int key = s + j * KEY_ITEMS;
#pragma unroll
        for (int set = 0; set < SETS; set++) {
#if DROPOUT
            const uint4 numbers = dropout_words(drops, block + QUERY_LANE(lane) + set * SET_BLOCKS, key);
            const float4 factors =
                select((float4)(drops.dropout_scale), (float4)(0.0f), numbers < (uint4)(drops.threshold));
            const float factor[] = {factors.x, factors.y, factors.z, factors.w};
#endif
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int r = ROW_STEP(4 * set + i, QUERIES), of = 4 * (4 * set + i) + (ROLLED ? 0 : j);
                const int target = t + r, seen = is_visible(shape, keys, target, key);
                float score = scores[r * row + j * column] * scale, slope = scale;
#if SCORE_MOD
                if (cap > 0.0f) {
                    const float bend = tanh(score / cap);
                    score = cap * bend;
                    slope *= 1.0f - bend * bend;
                }
                if (shape.mask_kind != 0) { /* beyond the mask, the first element is read and ignored */
                    const float m = mask_at(shape, seen ? mask + target * shape.mask_t : 0, seen ? key : 0);
                    score = m == -INFINITY ? m : score + m;
                }
#endif
                /* A score is at most the log-sum-exp. But if a mask subtracts 10^9 from all scores of a query, both are
                 * rounded to tens, and a positive difference would be an infinite weight: clamp it. NaN stays. */
                const float below = (score - sums[r]) * LOG2_E, most = tile_exp2(below > 0.0f ? 0.0f : below);
                const float w = seen && score != -INFINITY ? most : 0.0f;
                const float e = w * (DROPPED(g[of], i) - sums[QUERIES + r]) * slope;
                g[of] = w == 0.0f ? 0.0f : e;
                scores[r * row + j * column] = PASS == 1 ? AFTER(g[of], DROPPED(w, i)) : g[of];
                if (ONE_BY_ONE)
                    mem_fence(CLK_LOCAL_MEM_FENCE);
            }
        }
        if (!ONE_BY_ONE)
            mem_fence(CLK_LOCAL_MEM_FENCE); /* to save registers */
#if ROLLED
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const float made = g[4 * r];
            g[4 * r] = g[4 * r + 1];
            g[4 * r + 1] = g[4 * r + 2];
            g[4 * r + 2] = g[4 * r + 3];
            g[4 * r + 3] = made;
        }
#endif
    }
}

/* Upper bound of an item's columns of a row, the same for all calls of tile_write: compilers that unroll its loop
 * before they know the column count would index the sums by a variable and put them in memory. */
#define MAX_SUMS OWN_COLUMNS(PASS == 1 ? KEYS : QUERIES, KEY4 > VALUE4 ? KEY4 : VALUE4)

/* Writes the item's sums of the work-group's owned rows, first .. first + owned - 1 of the existing ones; rows from
 * `seen` on are zeros. */
INLINED void tile_write(const int lane, __global float *to, const uint step, const int add, const float4 *sum,
                        const int owned, const int first, const int seen, const int end, const int width4) {
    const int columns = OWN_COLUMNS(owned, width4);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int row = first + 4 * OWN_ROW(lane, owned) + ROW_STEP(r, owned);
#pragma unroll
        for (int n = 0; n < MAX_SUMS; n++) {
            const int c = OWN_COLUMN(lane, owned) + n * OWN_ITEMS(owned);
            if (n < columns && row >= 0 && row < end && c < width4) {
                __global float *at = to + (uint)row * (step / (uint)sizeof(float)) + 4 * c;
                const float4 old = add ? vload4(0, at) : (float4)(0.0f);
                vstore4(row < seen ? old + sum[r * columns + n] : old, 0, at);
            }
        }
    }
}
#endif

/* Recorded calls have neither kv_batch nor kv_indices: so compilers know that addresses are uniform. */
#define RECORDED(shape)                                                                                                \
    shape.mapped = 0;                                                                                                  \
    shape.pool = -1;

#define TILED_PARAMETERS                                                                                               \
    TFM_INPUT(float, delta), TFM_INPUT(float, dy), TFM_INPUT(float, lse), const long group, const long first_tile,     \
        const long first_head, const long first_b, const float scale, const float cap, ATTENTION_PARAMETERS

#if PASS == 1
/* The first of an item's weights in local memory, (QUERIES, KEYS + 4). */
#define KEY_WEIGHT(lane) ((__local float *)weights + 4 * QUERY_LANE(lane) * (KEYS + 4) + KEY_LANE(lane))
#define DK_SUMS (ROWS * OWN_COLUMNS(KEYS, KEY4))
#define DV_SUMS (ROWS * OWN_COLUMNS(KEYS, VALUE4))

/* A work-group has KEYS keys of one (b, key head). */
TFM_KERNEL void attention_backward_keys(TFM_TENSOR(float, dk), TFM_TENSOR(float, dv), const long add_k,
                                        const long add_v, TILED_PARAMETERS) {
    __local float4 stage[STAGE], weights[QUERIES * (KEYS / 4 + 1)];
    __local float sums[2 * QUERIES];
    __local int fixed[3];
    attention_shape shape = ATTENTION_SHAPE;
    RECORDED(shape)
    const long kv_head = first_head + get_group_id(1), b = first_b + get_group_id(2);
    const kv_view keys = keys_at(shape, b, kv_head);
    const int s = ((int)first_tile + (int)get_group_id(0)) * KEYS;
    const int last = min(s + KEYS, keys.visible) - 1;                 /* keys s .. last exist, if any */
    const int begin = clamp(s - keys.to + 1, 0, (int)layout.targets); /* queries that see one of them */
    const int end = last < s ? 0 : clamp(last - keys.from + 1, begin, (int)layout.targets);
    const tile_rows key_tile = keys_of(keys, 0), value_tile = values_of(keys, 0);
    float4 sum_k[DK_SUMS], sum_v[DV_SUMS];
    if (get_local_id(0) == 0) {
        fixed[0] = 0;
        fixed[1] = s;
        KEEP_BLOCK(fixed)
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int i = 0; i < DK_SUMS; i++)
        sum_k[i] = 0.0f;
#pragma unroll
    for (int i = 0; i < DV_SUMS; i++)
        sum_v[i] = 0.0f;
    for (int i = 0; i < (int)group; i++) {
        const head_queries head =
            head_at(shape, TFM_AT(q), TFM_AT(dy), TFM_AT(delta), TFM_AT(lse), b, kv_head * group + i);
        /* If no query sees a key, none is read: there may be no keys. */
        const int start = begin < end ? begin - (i * (int)layout.targets + begin) % TOGETHER : end;
        for (int t = start; t < end; t += QUERIES) {
            float z[4 * ROWS], g[4 * ROWS];
            tile_qk(fixed, z, stage, stage, head.q, t, key_tile, PLACE(fixed), KEY4);
            __local float *weight = KEY_WEIGHT(LANE(fixed));
#pragma unroll
            for (int r = 0; r < ROWS; r++) { /* to save registers, scores wait in local memory */
#pragma unroll
                for (int j = 0; j < 4; j++)
                    weight[ROW_STEP(r, QUERIES) * (KEYS + 4) + j * KEY_ITEMS] = z[4 * r + j];
            }
            stage_sums(LANE(fixed), sums, head, t); /* read after the next barriers, written after the previous ones */
            tile_qk(fixed, g, stage, stage, head.dy, t, value_tile, PLACE(fixed), VALUE4);
            const int lane = LANE(fixed);
            tile_weights(lane, KEY_WEIGHT(lane), KEYS + 4, KEY_ITEMS, g,
                         BLOCK_AT(fixed, i * (int)layout.targets + t) shape, keys, head.mask, t, PLACE(fixed), sums,
                         scale, cap, NONE(fixed));
            tile_accumulate(fixed, sum_v, stage, weights, KEYS / 4 + 1, KEYS, head.dy, t, QUERIES, VALUE4, 0);
            barrier(CLK_LOCAL_MEM_FENCE); /* weights have been read */
            weight = KEY_WEIGHT(LANE(fixed));
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
#pragma unroll
                for (int j = 0; j < 4; j++)
                    weight[ROW_STEP(r, QUERIES) * (KEYS + 4) + j * KEY_ITEMS] = g[4 * r + j];
            }
            tile_accumulate(fixed, sum_k, stage, weights, KEYS / 4 + 1, KEYS, head.q, t, QUERIES, KEY4, 0);
        }
    }
    tile_write(LANE(fixed), TFM_AT(dk) + (keys.k - shape.k), key_tile.step, (int)add_k, sum_k, KEYS, s, keys.visible,
               (int)layout.length, KEY4);
    tile_write(LANE(fixed), TFM_AT(dv) + (keys.v - shape.v), value_tile.step, (int)add_v, sum_v, KEYS, s, keys.visible,
               (int)layout.length, VALUE4);
}
#elif PASS == 2
/* The first of an item's weights in local memory, (KEYS, 4 WEIGHTS_STEP). */
#define QUERY_WEIGHT(lane) (weights + KEY_LANE(lane) * WEIGHTS_STEP + QUERY_LANE(lane))
#define DQ_SUMS (ROWS * OWN_COLUMNS(QUERIES, KEY4))

/* A work-group has QUERIES queries of one (b, head). */
TFM_KERNEL void attention_backward_queries(TFM_TENSOR(float, dq), const long add_q, TILED_PARAMETERS) {
    __local float4 stage[STAGE], weights[KEYS * WEIGHTS_STEP];
    __local float sums[2 * QUERIES];
    __local int fixed[3];
    attention_shape shape = ATTENTION_SHAPE;
    RECORDED(shape)
    const int h = (int)first_head + (int)get_group_id(1), kv_head = h / (int)group,
              index = h % (int)group * (int)layout.targets;
    const long b = first_b + get_group_id(2);
    const kv_view keys = keys_at(shape, b, kv_head);
    const int t = ((int)first_tile + (int)get_group_id(0)) * QUERIES - index % TOGETHER;
    const int s_first = visible_begin(keys, max(t, 0)),
              s_end = visible_end(keys, min(t + QUERIES, (int)layout.targets) - 1);
    const tile_rows key_tile = keys_of(keys, 0), value_tile = values_of(keys, 0);
    const head_queries head = head_at(shape, TFM_AT(q), TFM_AT(dy), TFM_AT(delta), TFM_AT(lse), b, h);
    float4 sum[DQ_SUMS];
#pragma unroll
    for (int i = 0; i < DQ_SUMS; i++)
        sum[i] = 0.0f;
    stage_sums((int)get_local_id(0), sums, head, t);
    if (get_local_id(0) == 0) {
        fixed[0] = 0;
        fixed[1] = t;
        KEEP_BLOCK(fixed)
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int s = s_first; s < s_end; s += KEYS) {
        float z[4 * ROWS], g[4 * ROWS];
        tile_qk(fixed, z, stage, stage, head.q, PLACE(fixed), key_tile, s, KEY4);
        __local float4 *weight = QUERY_WEIGHT(LANE(fixed));
#pragma unroll
        for (int j = 0; j < 4; j++) {
#pragma unroll
            for (int i = 0; i < SETS; i++)
                weight[j * KEY_ITEMS * WEIGHTS_STEP + i * SET_BLOCKS] =
                    (float4)(z[16 * i + j], z[16 * i + 4 + j], z[16 * i + 8 + j], z[16 * i + 12 + j]);
        }
        tile_qk(fixed, g, stage, stage, head.dy, PLACE(fixed), value_tile, s, VALUE4);
        const int lane = LANE(fixed);
        tile_weights(lane, (__local float *)QUERY_WEIGHT(lane), 1, KEY_ITEMS * WEIGHTS_STEP * 4, g,
                     BLOCK_AT(fixed, index + t) shape, keys, head.mask, PLACE(fixed), s, sums, scale, cap, NONE(fixed));
        tile_accumulate(fixed, sum, stage, weights, WEIGHTS_STEP, QUERIES, key_tile, s, KEYS, KEY4, 0);
    }
    tile_write(LANE(fixed), TFM_AT(dq) + ((__global const float *)head.q.from - TFM_AT(q)), head.q.step, (int)add_q,
               sum, QUERIES, t, (int)layout.targets, (int)layout.targets, KEY4);
}
#endif
