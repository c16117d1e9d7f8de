/* Gradient of the additive attention mask, for example a relative position bias. With letters and weights as in
 * attention_backward.cl, the gradient of the mask element at (b, h, t, s) is
 *
 *     g_ts = w_ts (f_ts dy_t . v_s - dy_t . y_t)
 *
 * summed over all sequences, heads and targets that share the element. Weights are recomputed from q, k and the
 * log-sum-exp, so nothing of the size of all scores is stored except dbias (bias_b, bias_h, bias_t, columns); bias_b is
 * 1 or B, bias_h 1 or H, bias_t 1 or T. It is accumulated if `add`, else overwritten.
 *
 * Layout: a work-group owns `span` of the bias_t rows (all of them if that is 1), and as many columns as it has lanes
 * or a vector has. It is their only writer, and the order of additions is fixed: by sequence, head and query.
 * Parameters, letters and dropout as in attention_common.cl. */
#include "attention_common.cl"

#define BIAS_PARAMETERS                                                                                                \
    TFM_TENSOR(float, dbias), TFM_INPUT(float, y), TFM_INPUT(float, dy), TFM_INPUT(float, lse), const long items,      \
        const long tiles, const long spans, const long span, const long bias_b, const long bias_h, const long bias_t,  \
        const long batch, const long add, const float scale, const float cap, ATTENTION_PARAMETERS

#if DROPOUT
#define DROPPED(x, r) (factor[r] * (x))
#else
#define DROPPED(x, r) (x)
#endif

/* As in attention_backward.cl: a weight is at most 1. NaN stays. */
#define BELOW(T, x) select((x), (T)(0.0f), (x) > (T)(0.0f))

/* Queries processed together: a block of random numbers for dropout. */
#define ROWS 4

/* The owned elements of a work-group, and its summation range. */
typedef struct owned {
    long b, b_end, h, h_end; /* sequences and heads that share the rows */
    int t, t_end;            /* targets */
    long row;                /* of dbias: that of target t */
    int s;                   /* the first column */
    int step;                /* stride of dbias rows between targets: 0 or 1 */
} owned;

static inline owned owned_by(const long item, const long tiles, const long spans, const long span, const long bias_b,
                             const long bias_h, const long bias_t, const long batch, const long heads,
                             const long targets, const int lanes) {
    owned o;
    const long part = item / tiles % spans, h = item / (tiles * spans) % bias_h, b = item / (tiles * spans * bias_h);
    o.b = bias_b == 1 ? 0 : b;
    o.b_end = bias_b == 1 ? batch : b + 1;
    o.h = bias_h == 1 ? 0 : h;
    o.h_end = bias_h == 1 ? heads : h + 1;
    o.t = bias_t == 1 ? 0 : (int)(part * span);
    o.t_end = bias_t == 1 ? (int)targets : (int)min(targets, (part + 1) * span);
    o.row = (b * bias_h + h) * bias_t + o.t;
    o.s = (int)(item % tiles) * lanes;
    o.step = bias_t > 1;
    return o;
}

#if TFM_WIDTH > 1
#include "attention_vectors.cl"

/* W keys and values, one component of all of them in a vector; zeros beyond the last. */
typedef struct tile {
    tfm_vec k[KEY_VECTORS * W], v[VALUE_VECTORS * W];
} tile;

static inline void tile_pack(tile *to, const kv_view keys, const int s, const int count) {
    for (int c = 0; c < KEY_VECTORS; c++) {
        tfm_vec t[W];
        for (int j = 0; j < W; j++)
            t[j] = j < count ? load_key(keys.k + (s + j) * keys.k_step, c) : (tfm_vec)(0.0f);
        transpose(t);
        for (int j = 0; j < W; j++)
            to->k[c * W + j] = t[j];
    }
    for (int c = 0; c < VALUE_VECTORS; c++) {
        tfm_vec t[W];
        for (int j = 0; j < W; j++)
            t[j] = j < count ? load_value(keys.v + (s + j) * keys.v_step, c) : (tfm_vec)(0.0f);
        transpose(t);
        for (int j = 0; j < W; j++)
            to->v[c * W + j] = t[j];
    }
}

static inline void row_add(__global float *to, const tfm_vec g, const int count) {
    if (count >= W) {
        ((__global unaligned_floats *)to)->all += g;
    } else {
        for (int j = 0; j < count; j++)
            to[j] += ((const float *)&g)[j];
    }
}

/* Queries t .. t + ROWS - 1 of head h; those before `begin` and from `end` on belong to other work-groups. */
static inline void rows_add_tile(__global float *dbias, const tile *keys, const attention_shape shape,
                                 const kv_view shared, const owned *o, const long b, const long h, const int t,
                                 const tfm_vec *factor, __global const float *q, __global const float *y,
                                 __global const float *dy, __global const float *lse, const float scale,
                                 const float cap) {
    tfm_vec z[ROWS], g[ROWS];
    float own[ROWS];
    __global const float *qs[ROWS], *dys[ROWS], *ys[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const long at = query_at(shape, b, clamp(t + r, o->t, o->t_end - 1), h);
        qs[r] = q + at * DK;
        dys[r] = dy + at * DV;
        ys[r] = y + at * DV;
        z[r] = g[r] = own[r] = 0.0f;
    }
    for (int d = 0; d < DK; d++) {
        const tfm_vec k = keys->k[d];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            z[r] = tfm_fma((tfm_vec)(qs[r][d]), k, z[r]);
    }
    for (int d = 0; d < DV; d++) {
        const tfm_vec v = keys->v[d];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            g[r] = tfm_fma((tfm_vec)(dys[r][d]), v, g[r]);
            own[r] = tfm_fma(dys[r][d], ys[r][d], own[r]);
        }
    }
    const tfm_vec at = tfm_lane_index();
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int target = t + r;
        if (target < o->t || target >= o->t_end)
            continue;
        tfm_vec score = z[r] * scale;
        if (cap > 0.0f)
            score = cap * tanh(score / cap);
        const tfm_vec m = mask_columns(shape, mask_row(shape, b, target, h), o->s);
        score = select(score + m, m, m == -INFINITY);
        const tfm_vec below = (score - lse[(b * shape.heads + h) * shape.targets + target]) * LOG2_E;
        const float begin = (float)(visible_begin(shared, target) - o->s),
                    end = (float)(visible_end(shared, target) - o->s);
        const tfm_vec w = exp2_down(
            select(BELOW(tfm_vec, below), (tfm_vec)(-INFINITY), at < begin || at >= end || score == -INFINITY));
        const tfm_vec e = select(w * (DROPPED(g[r], r) - own[r]), (tfm_vec)(0.0f), w == 0.0f);
        row_add(dbias + (target - o->t) * o->step * shape.columns, e, shape.columns - o->s);
    }
}

TFM_KERNEL void attention_bias_backward_cpu(BIAS_PARAMETERS) {
    const long item = TFM_ROW();
    if (item >= items)
        return;
    const attention_shape shape = ATTENTION_SHAPE;
    const owned o = owned_by(item, tiles, spans, span, bias_b, bias_h, bias_t, batch, layout.heads, layout.targets, W);
    __global float *out = TFM_AT(dbias) + o.row * layout.columns + o.s;
    const int width = min((int)layout.columns - o.s, W);
    for (int t = 0; !add && t < (o.step ? o.t_end - o.t : 1); t++)
        for (int j = 0; j < width; j++)
            out[t * layout.columns + j] = 0.0f;
    tile packed;
    for (long b = o.b; b < o.b_end; b++)
        for (long h = o.h; h < o.h_end; h++) {
            const long group = layout.heads / layout.kv_heads, kv_head = h / group;
            const kv_view keys = keys_at(shape, b, kv_head);
            const int count = min(keys.visible - o.s, W);
            if (count <= 0)
                continue;
            tile_pack(&packed, keys, o.s, count);
            /* Random-number blocks are counted from the first of the heads that share keys. */
            const long first = h % group * layout.targets;
            for (int t = o.t - (int)((first + o.t) % ROWS); t < o.t_end; t += ROWS) {
                if (visible_begin(keys, max(t, 0)) >= o.s + count || visible_end(keys, t + ROWS - 1) <= o.s)
                    continue;
                tfm_vec factor[ROWS];
#if DROPOUT
                tfm_uvec numbers[ROWS];
                dropout_words_vec(numbers, TFM_DROPOUT_RNG(), first_block(shape, b, kv_head) + (first + t) / ROWS, o.s);
#pragma unroll
                for (int r = 0; r < ROWS; r++)
                    factor[r] = select((tfm_vec)(dropout_scale), (tfm_vec)(0.0f), numbers[r] < (uint)threshold);
#endif
                rows_add_tile(out, &packed, shape, keys, &o, b, h, t, factor, TFM_AT(q), TFM_AT(y), TFM_AT(dy),
                              TFM_AT(lse), scale, cap);
            }
        }
}
#endif

/* Unroll factor of loops over a head's width: loading a whole head at once exceeds AMD's registers. */
#if DK % 8 == 0 && DV % 8 == 0
#define BY_EIGHTS _Pragma("unroll 8")
#else
#define BY_EIGHTS _Pragma("nounroll")
#endif

/* GPU-style devices: an item has a column. Also for heads too wide for a CPU thread's stack, in groups of one. */
TFM_KERNEL void attention_bias_backward_gpu(BIAS_PARAMETERS) {
    const long item = TFM_ROW();
    if (item >= items)
        return;
    const attention_shape shape = ATTENTION_SHAPE;
    const owned o =
        owned_by(item, tiles, spans, span, bias_b, bias_h, bias_t, batch, layout.heads, layout.targets, TFM_GROUP);
    const int s = o.s + (int)TFM_LOCAL_ID();
    if (s >= layout.columns)
        return;
    __global float *out = TFM_AT(dbias) + o.row * layout.columns + s;
    for (int t = 0; !add && t < (o.step ? o.t_end - o.t : 1); t++)
        out[t * layout.columns] = 0.0f;
    for (long b = o.b; b < o.b_end; b++)
        for (long h = o.h; h < o.h_end; h++) {
            const long group = layout.heads / layout.kv_heads, kv_head = h / group;
            const kv_view keys = keys_at(shape, b, kv_head);
            __global const float *kp = keys.k + (long)s * keys.k_step, *vp = keys.v + (long)s * keys.v_step;
            for (int t = o.t; t < o.t_end; t++) {
                if (s < visible_begin(keys, t) || s >= visible_end(keys, t))
                    continue;
                const long at = query_at(shape, b, t, h);
                __global const float *qp = TFM_AT(q) + at * DK, *yp = TFM_AT(y) + at * DV, *dyp = TFM_AT(dy) + at * DV;
                float z = 0.0f, g = 0.0f, factor[1] = {1.0f};
#if DROPOUT
                const long query = h % group * layout.targets + t;
                const uint4 numbers = dropout_words(TFM_DROPOUT_RNG(), first_block(shape, b, kv_head) + query / 4, s);
                const uint number = query % 4 == 0   ? numbers.x
                                    : query % 4 == 1 ? numbers.y
                                    : query % 4 == 2 ? numbers.z
                                                     : numbers.w;
                factor[0] = number < (uint)threshold ? 0.0f : dropout_scale;
#endif
                BY_EIGHTS
                for (int d = 0; d < DK; d++)
                    z = tfm_fma(qp[d], kp[d], z);
                BY_EIGHTS
                for (int d = 0; d < DV; d++)
                    g = tfm_fma(dyp[d], DROPPED(vp[d], 0) - yp[d], g);
                z *= scale;
                if (cap > 0.0f)
                    z = cap * tanh(z / cap);
                const float m = mask_at(shape, mask_row(shape, b, t, h), s);
                z = m == -INFINITY ? m : z + m;
                const float sum = TFM_AT(lse)[(b * layout.heads + h) * layout.targets + t];
                const float weight = z == -INFINITY ? 0.0f : exp(BELOW(float, z - sum));
                if (weight != 0.0f)
                    out[(t - o.t) * o.step * layout.columns] += weight * g;
            }
        }
}
