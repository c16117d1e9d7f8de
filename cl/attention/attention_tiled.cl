/* Tiled attention on GPU-style devices, for heads with many queries; formulas and letters as in attention.cl,
 * parameters as in attention_common.cl. A work-group has QUERIES queries of one (b, head), loops over the visible keys,
 * KEYS at a time, and keeps the sums in registers. The grid is of tiles, heads and sequences, from first_tile,
 * first_head and first_b on, because long launches are split.
 *
 * PAGED: keys and values are rows of a KV cache named by kv_indices. For each tile of keys the work-group looks the
 * rows up once, and keeps them in local memory for staging keys, masking scores and staging values.
 *
 * SPLIT is split-KV as in attention.cl: the grid is of tiles and their spans, and attention_combine adds the spans. */
#include "attention_common.cl"
#include "attention_tiles.cl"

#ifndef SPLIT
#define SPLIT 0
#endif
#define KEY4 (DK / 4)
#define VALUE4 (DV / 4)
#define SUMS OWN_COLUMNS(QUERIES, VALUE4) /* of each of an item's queries, as in tile_qk */
#define HIDDEN (-0.0f)
#define COLUMN (KEY_ITEMS * WEIGHTS_STEP * 4) /* local-memory stride between an item's keys */
/* Strides of the exchange buffer between the items of one query and the next, padded against bank conflicts, and
 * between sets. */
#define EXCHANGE_STEP (KEY_ITEMS + 4 * WOVEN)
#define EXCHANGE (SET_BLOCKS * EXCHANGE_STEP)
#if DROPOUT
#define DROP(r) drop[r]
#else
#define DROP(r) 0
#endif

/* Soft caps and masks for all scores at once exceed the registers of Intel GPUs: there dot products wait in local
 * memory. Eight rows are for devices with more registers. */
#define IN_TURN (SCORE_MOD && ROWS == 4)

/* Rows from kv_indices. */
#if PAGED
#define PLACES places
#define PLACES_FROM(i) (places + (i))
#define EXISTS(place) ((place) >= 0)
#else
#define PLACES 0
#define PLACES_FROM(i) 0
#define EXISTS(place) 1
#endif

/* Turns the item's z (queries from t and keys from s on) into scores times log2(e), -inf if invisible, and stores them
 * in local memory with stride `column` between keys. `best`: each query's maximum; `places`: row of the item's first
 * key. */
INLINED void tile_scores(float *best, __local float *to, const int column, const float *z, const attention_shape shape,
                         const kv_view keys, __local const int *places, const long mask, const int t, const int s,
                         const float scale, const float cap) {
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        best[r] = -INFINITY;
#if IN_TURN
#pragma unroll
    for (int j = 0; j < 4; j++) {
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            to[j * column + ROW_STEP(r, QUERIES)] = z[4 * r + j];
    }
    LOOP
    for (int j = 0; j < 4; j++) {
#else
#pragma unroll
    for (int j = 0; j < 4; j++) {
#endif
        const int key = s + j * KEY_ITEMS, exists = EXISTS(places[j * KEY_ITEMS]);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            __local float *at = to + j * column + ROW_STEP(r, QUERIES);
            const float product = IN_TURN ? *at : z[4 * r + j];
            const int target = t + ROW_STEP(r, QUERIES), seen = exists & is_visible(shape, keys, target, key);
            const float score = /* beyond the mask, the first element is read and ignored */
                key_scored(shape, product * scale, cap, seen ? mask + target * shape.mask_t : 0, seen ? key : 0);
            *at = seen ? score : -INFINITY;
            best[r] = seen ? fmax(best[r], score) : best[r];
        }
    }
}

/* A value per query from all items that share queries with this one: set i of item n is at [i * EXCHANGE + n] from this
 * pointer, n < KEY_ITEMS. */
INLINED __local const float4 *exchange(__local float4 *stage, const int lane, const float *own) {
    __local float4 *row = stage + QUERY_LANE(lane) * EXCHANGE_STEP;
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int i = 0; i < SETS; i++)
        row[i * EXCHANGE + KEY_LANE(lane)] = (float4)(own[4 * i], own[4 * i + 1], own[4 * i + 2], own[4 * i + 3]);
    barrier(CLK_LOCAL_MEM_FENCE);
    return row;
}

/* The same for one set, to the values from `to` on. */
#define SPREAD(to, from)                                                                                               \
    (to)[0] = (from).x;                                                                                                \
    (to)[1] = (from).y;                                                                                                \
    (to)[2] = (from).z;                                                                                                \
    (to)[3] = (from).w;

/* Each query's maximum over the keys of all items, from the items' own maxima. */
INLINED void share_maxima(float *best, __local float4 *stage, const int lane) {
    __local const float4 *others = exchange(stage, lane, best);
#pragma unroll
    for (int set = 0; set < SETS; set++) {
        float4 all = (float4)(best[4 * set], best[4 * set + 1], best[4 * set + 2], best[4 * set + 3]);
        LOOP
        for (int i = 0; i < KEY_ITEMS; i++)
            all = fmax(all, others[set * EXCHANGE + i]);
        SPREAD(best + 4 * set, all)
    }
}

/* The same for sums. */
INLINED void share_totals(float *whole, const float *total, __local float4 *stage, const int lane) {
    __local const float4 *others = exchange(stage, lane, total);
#pragma unroll
    for (int set = 0; set < SETS; set++) {
        float4 all = 0.0f;
        LOOP
        for (int i = 0; i < KEY_ITEMS; i++)
            all += others[set * EXCHANGE + i];
        SPREAD(whole + 4 * set, all)
    }
}

/* Online softmax: rescales the sums from older maxima to the new ones; `reached` has those of the tile. base is the
 * maximum, or 0 if no key was visible so far. */
INLINED void softmax_update(float *base, float *maximum, float *total, float4 *sum, const float *reached) {
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const float highest = fmax(maximum[r], reached[r]);
        base[r] = highest == -INFINITY ? 0.0f : highest;
        const float shrink = tile_exp2(maximum[r] - base[r]);
        maximum[r] = highest;
        total[r] *= shrink;
#pragma unroll
        for (int n = 0; n < SUMS; n++)
            sum[r * SUMS + n] *= shrink;
    }
}

/* Turns the item's scores into weights in place, and adds them to total. `block` and key s: its first random numbers
 * for dropout. */
INLINED void weigh_tile(__local float *weight, float *total, const float *base, const tfm_dropout_rng drops,
                        const long block, const int s) {
    LOOP
    for (int j = 0; j < 4; j++) {
#pragma unroll
        for (int set = 0; set < SETS; set++) {
#if DROPOUT
            const uint4 numbers = dropout_words(drops, block + set * SET_BLOCKS, s + j * KEY_ITEMS);
            const int4 dropped = numbers < (uint4)(drops.threshold);
            int drop[4];
            SPREAD(drop, dropped)
#endif
            __local float4 *at = (__local float4 *)weight + j * (COLUMN / 4) + set * SET_BLOCKS;
            const float4 scores = *at;
            float w[] = {scores.x, scores.y, scores.z, scores.w};
#pragma unroll
            for (int r = 0; r < 4; r++) {
                const float p = tile_exp2(w[r] - base[4 * set + r]);
                const int hidden = w[r] == -INFINITY;
                total[4 * set + r] += hidden ? 0.0f : p;
                w[r] = hidden ? HIDDEN : DROP(r) ? 0.0f : p;
            }
            *at = (float4)(w[0], w[1], w[2], w[3]);
        }
    }
}

/* One output row, divided by its sum of weights; unnormalized with SPLIT. */
INLINED void store_row(__global float *to, const float4 *sum, const float whole, const int lane,
                       const float dropout_scale) {
    const float inverse = SPLIT ? 1.0f : whole == 0.0f ? 0.0f : KEPT(1.0f / whole);
#pragma unroll
    for (int n = 0; n < SUMS; n++) {
        const int c = OWN_COLUMN(lane, QUERIES) + n * OWN_ITEMS(QUERIES);
        if (c < VALUE4)
            vstore4(sum[n] * inverse, c, to);
    }
}

#if DROPOUT
#define TILE_DROPS TFM_DROPOUT_RNG()
#define DROP_BLOCK (first_block(shape, b, kv_head) + (index + t) / 4 + QUERY_LANE(lane))
#else
#define TILE_DROPS ((tfm_dropout_rng){0, 0, 0, 1.0f})
#define DROP_BLOCK 0
#endif

/* y (spans, rows, DV) gets the unnormalized sums, and lse (spans, rows, 2) their maximum and the sum of the weights. A
 * span has `span` keys, the last one the rest. */
#if SPLIT
#define SPLIT_PARAMETERS const long num_splits, const long split_size, const long query_rows,
#else
#define SPLIT_PARAMETERS
#endif

TFM_KERNEL void attention_tiled(TFM_TENSOR(float, y), TFM_TENSOR(float, lse), const long write_lse, const long group,
                                const long first_tile, const long first_head, const long first_b, const float scale,
                                const float cap, SPLIT_PARAMETERS ATTENTION_PARAMETERS) {
    __local float4 stage[STAGE], weights[KEYS * WEIGHTS_STEP];
#if Q_RESIDENT
    __local float4 kept[QUERIES * WHOLE_STEP(KEY4)];
#else
    __local float4 *kept = stage; /* not read */
#endif
#if PAGED
    __local int places[KEYS];
#endif
    __local int fixed[3];
    attention_shape shape = ATTENTION_SHAPE;
    shape.pool = PAGED ? max(layout.pool, 0L) : -1; /* a compile-time constant */
    const int h = (int)first_head + (int)get_group_id(1), kv_head = h / (int)group;
    const int index = h % (int)group * (int)layout.targets;
    const long b = first_b + get_group_id(2);
    kv_view keys = keys_at(shape, b, kv_head);
    if (PAGED && layout.pool == 0) /* no row can be read */
        keys.visible = 0;
#if SPLIT
    const int turn = (int)first_tile + (int)get_group_id(0), tile = turn / (int)num_splits,
              own_span = turn % (int)num_splits;
#else
    const int tile = (int)first_tile + (int)get_group_id(0);
#endif
    const int t = tile * QUERIES - index % TOGETHER;
    int s_first = visible_begin(keys, max(t, 0)), s_end = visible_end(keys, min(t + QUERIES, (int)layout.targets) - 1);
#if SPLIT
    if (s_first < s_end) {
        s_first += (int)min(own_span * split_size, (long)(s_end - s_first));
        s_end = own_span + 1 < (int)num_splits ? (int)min(s_first + split_size, (long)s_end) : s_end;
    }
    keys.visible = s_end; /* a tile may reach into the next span */
#endif
    const tile_rows key_tile = keys_of(keys, PLACES), value_tile = values_of(keys, PLACES);
    const int step = layout.heads_first ? 1 : (int)layout.heads;
    __global const q_type *head = TFM_AT(q) + query_at(shape, b, 0, h) * DK;
    const tile_rows queries = {head, (uint)(step * DK * (int)sizeof(q_type)), 0, (int)layout.targets, 1, 0};
    const long mask_first = mask_row(shape, b, 0, h);
    float4 sum[ROWS * SUMS];
    float total[ROWS], maximum[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS * SUMS; i++)
        sum[i] = 0.0f;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        total[r] = 0.0f;
        maximum[r] = -INFINITY;
    }
    if (get_local_id(0) == 0) {
        fixed[0] = 0;
        fixed[1] = t;
        fixed[2] = 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#if Q_RESIDENT
    if (s_first < s_end) /* with queries that see no key there may be no keys */
        stage_rows(LANE(fixed), kept, WHOLE_STEP(KEY4), queries, t, QUERIES, 0, WHOLE_OF(KEY4), KEY4);
#endif
    for (int s = s_first; s < s_end; s += KEYS) {
        float z[4 * ROWS], reached[ROWS], base[ROWS];
#if PAGED /* read after the next barrier; the previous tile no longer reads it after its last one */
        for (int i = LANE(fixed); i < KEYS; i += TFM_GROUP)
            places[i] = s + i < keys.visible ? key_row(keys, s + i) : -1;
#endif
        tile_qk(fixed, z, stage, kept, queries, PLACE(fixed), key_tile, PAGED ? 0 : s, KEY4);
        const int lane = LANE(fixed);
        __local float *weight = (__local float *)(weights + KEY_LANE(lane) * WEIGHTS_STEP + QUERY_LANE(lane));
        tile_scores(reached, weight, COLUMN, z, shape, keys, PLACES_FROM(KEY_LANE(lane)), mask_first,
                    PLACE(fixed) + 4 * QUERY_LANE(lane), s + KEY_LANE(lane), scale, cap);
        share_maxima(reached, stage, lane);
        softmax_update(base, maximum, total, sum, reached);
        weigh_tile(weight, total, base, TILE_DROPS, DROP_BLOCK, s + KEY_LANE(lane));
        tile_accumulate(fixed, sum, stage, weights, WEIGHTS_STEP, QUERIES, value_tile, PAGED ? 0 : s, KEYS, VALUE4, 1);
    }
    const int lane = LANE(fixed);
    float whole[ROWS];
    share_totals(whole, total, stage, lane);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int at = t + 4 * QUERY_LANE(lane) + ROW_STEP(r, QUERIES);
        if (at >= 0 && at < (int)layout.targets) {
#if SPLIT
            const long row = own_span * query_rows + query_at(shape, b, at, h);
#else
            const long row = query_at(shape, b, at, h);
#endif
            store_row(TFM_AT(y) + row * DV, sum + r * SUMS, whole[r], lane, TILE_DROPS.dropout_scale);
#if SPLIT
            if (KEY_LANE(lane) == 0)
                vstore2((float2)(maximum[r], whole[r]), row, TFM_AT(lse));
#else
            if (write_lse && KEY_LANE(lane) == 0)
                TFM_AT(lse)[(b * layout.heads + h) * layout.targets + at] = LN_2 * (maximum[r] + log2(whole[r]));
#endif
        }
    }
}
