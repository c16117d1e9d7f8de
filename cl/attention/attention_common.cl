/* Shared by the attention kernels: element loads, layout and visibility.
 *
 * Letters: B query sequences, T targets, S keys, H heads, Hk KV heads, dk and dv the widths of a key and a value. The
 * H / Hk T queries of a sequence that share keys are numbered together: query i is target i % T of head i / T of the
 * group of heads.
 *
 * Build options: DK and DV; KV_DTYPE, the dtype of k and v by enum tfm_dtype (0 F32, 1 F16, 2 BF16, 5 I8; sums are
 * always fp32); Q_DTYPE, that of q, the same or F32; SCORE_MOD, whether there may be a soft cap or a mask; DROPOUT; and
 * ALIGNED, whether rows of q, k and v begin at multiples of four elements, set by the host on GPU-style devices:
 * without it compilers split vload4 into four loads. */

#ifndef KV_DTYPE
#define KV_DTYPE 0
#endif
#ifndef Q_DTYPE
#define Q_DTYPE KV_DTYPE
#endif
#ifndef SCORE_MOD
#define SCORE_MOD 0
#endif
#ifndef DROPOUT
#define DROPOUT 0
#endif
#ifndef ALIGNED
#define ALIGNED 0
#endif
#define LOG2_E 1.44269504088896340736f
#define LN_2 0.69314718055994530942f
#if ALIGNED
#define FLOATS4(p) (*(__global const float4 *)(p))
#define HALVES4(p) vloada_half4(0, p)
#define USHORTS4(p) (*(__global const ushort4 *)(p))
#define CHARS4(p) (*(__global const char4 *)(p))
#else
#define FLOATS4(p) vload4(0, p)
#define HALVES4(p) vload_half4(0, p)
#define USHORTS4(p) vload4(0, p)
#define CHARS4(p) vload4(0, p)
#endif
#if KV_DTYPE == 0
typedef float kv_type;
#define KV_LOAD(p, i) ((p)[i])
#define KV_LOAD4(p) FLOATS4(p)
#elif KV_DTYPE == 1
typedef half kv_type;
#define KV_LOAD(p, i) vload_half(i, p)
#define KV_LOAD4(p) HALVES4(p)
#elif KV_DTYPE == 2
typedef ushort kv_type;
#define KV_LOAD(p, i) as_float((uint)(p)[i] << 16)
#define KV_LOAD4(p) as_float4(convert_uint4(USHORTS4(p)) << 16)
#else
typedef char kv_type;
#define KV_LOAD(p, i) ((float)(p)[i])
#define KV_LOAD4(p) convert_float4(CHARS4(p))
#endif
/* A head of `width` columns takes KV_SPAN elements, the first KV_HEADER of them before its columns: of an int8 head the
 * scales of its blocks of KV_BLOCK columns, as bf16. Both are multiples of four. Loads give the integers; KV_SCALE is
 * the factor of column i of the head with its first column at p, which a vector of up to KV_BLOCK aligned columns
 * shares. */
#if KV_DTYPE == 5
#define KV_BLOCK 32
#define KV_HEADER(width) ((((width) + KV_BLOCK - 1) / KV_BLOCK + 1) / 2 * 4)
#define KV_SPAN(width) (KV_HEADER(width) + ((width) + 3) / 4 * 4)
#define KV_SCALE(p, width, i) as_float((uint)((__global const ushort *)((p)-KV_HEADER(width)))[(i) / KV_BLOCK] << 16)
#else
#define KV_HEADER(width) 0
#define KV_SPAN(width) (width)
#define KV_SCALE(p, width, i) 1.0f
#endif
#if Q_DTYPE == KV_DTYPE
typedef kv_type q_type;
#define Q_LOAD(p, i) KV_LOAD(p, i)
#define Q_LOAD4(p) KV_LOAD4(p)
#else
typedef float q_type;
#define Q_LOAD(p, i) ((p)[i])
#define Q_LOAD4(p) FLOATS4(p)
#endif

/* Sizes, strides and visibility, by value from the host: tfm__attention_layout of
 * lib/ops/attention/attention_enqueue.c, with the same fields. q (B, T, H dk) or (B, H, T, dk) with heads_first,
 * likewise k and v. length is S; sequences is N, of k, v and lengths (N); kv_batch (B) is the source sequence of b, if
 * mapped; kv_indices (B, S) is the row of a key in the `pool` rows of k and v, unless pool is -1. An invalid source or
 * row is invisible. Target t sees keys t + from <= s < t + to, both plus the sequence's length if `bottom_right`. The
 * mask has strides mask_b, mask_h, mask_t and mask_s (0 or 1), 0 where it broadcasts, and `columns` keys; later keys
 * are invisible. mask_kind: 0 none, 1 F32, added, 2 bytes, 0 hides. */
typedef struct attention_layout {
    long targets, length, heads, kv_heads, heads_first, sequences, padded, mapped, pool, from, to, bottom_right,
        mask_kind;
    long mask_b, mask_h, mask_t, mask_s, columns;
} attention_layout;
#define ATTENTION_PARAMETERS                                                                                           \
    TFM_INPUT(q_type, q), TFM_INPUT(kv_type, k), TFM_INPUT(kv_type, v), TFM_INPUT(int, lengths),                       \
        TFM_INPUT(int, kv_batch), TFM_INPUT(int, kv_indices), TFM_INPUT(uchar, mask),                                  \
        const attention_layout layout DROP_PARAMETERS
#if DROPOUT
#define DROP_PARAMETERS , TFM_DROPOUT_PARAMETERS
#else
#define DROP_PARAMETERS
#endif

/* The layout and all tensors except q, as one value. */
typedef struct attention_shape {
    __global const kv_type *k, *v;
    __global const int *lengths, *kv_batch, *kv_indices;
    __global const uchar *mask;
    long targets, length, heads, kv_heads, heads_first, pool, mask_b, mask_h, mask_t;
    int sequences, padded, mapped, from, to, bottom_right, mask_kind, mask_s, columns;
} attention_shape;

#define ATTENTION_SHAPE                                                                                                \
    {                                                                                                                  \
        TFM_AT(k), TFM_AT(v), TFM_AT(lengths), TFM_AT(kv_batch), TFM_AT(kv_indices),                                   \
            mask + mask_offset *(layout.mask_kind == 1 ? 4 : 1), layout.targets, layout.length, layout.heads,          \
            layout.kv_heads, layout.heads_first, layout.pool, layout.mask_b, layout.mask_h, layout.mask_t,             \
            (int)layout.sequences, (int)layout.padded, (int)layout.mapped, (int)layout.from, (int)layout.to,           \
            (int)layout.bottom_right, (int)layout.mask_kind, (int)layout.mask_s, (int)layout.columns                   \
    }

/* The keys and values that queries share. */
typedef struct kv_view {
    __global const kv_type *k, *v; /* first column of key 0, or of pool row 0 */
    long k_step, v_step;
    __global const int *kv_indices; /* NULL: key s is row s */
    int pool;
    int known;    /* whether there are any: the source may be invalid */
    int visible;  /* keys in this sequence */
    int from, to; /* target t sees keys t + from <= s < t + to */
} kv_view;

/* The view for query sequence b: kv_indices of b, keys and length of its source. Ids stay int: llvmpipe miscompiles a
 * comparison with 0 of an int converted to long. */
static inline kv_view keys_at(const attention_shape a, const long b, const long kv_head) {
    kv_view keys;
    const int source = a.mapped ? a.kv_batch[b] : (int)b, known = source >= 0 && source < a.sequences;
    const long paged = a.pool >= 0, side = a.heads_first && !paged, n = known ? source : 0;
    const long first = paged  ? kv_head
                       : side ? (n * a.kv_heads + kv_head) * a.length
                              : n * a.length * a.kv_heads + kv_head;
    keys.k = a.k + first * KV_SPAN(DK) + KV_HEADER(DK);
    keys.v = a.v + first * KV_SPAN(DV) + KV_HEADER(DV);
    keys.k_step = side ? KV_SPAN(DK) : a.kv_heads * KV_SPAN(DK);
    keys.v_step = side ? KV_SPAN(DV) : a.kv_heads * KV_SPAN(DV);
    keys.kv_indices = paged ? a.kv_indices + b * a.length : 0;
    keys.pool = (int)a.pool;
    keys.known = known;
    keys.visible = !known ? 0 : a.padded ? clamp(a.lengths[n], 0, (int)a.length) : (int)a.length;
    keys.from = a.from + (a.bottom_right ? keys.visible : 0);
    keys.to = a.to + (a.bottom_right ? keys.visible : 0);
    keys.visible = min(keys.visible, a.columns);
    return keys;
}

/* Row of k and v of key s; -1, an invisible key, if it lies outside the pool. */
static inline int key_row(const kv_view keys, const int s) {
    const int row = keys.kv_indices ? keys.kv_indices[s] : s;
    return keys.kv_indices && (row < 0 || row >= keys.pool) ? -1 : row;
}

/* Target t sees the keys visible_begin <= s < visible_end. */
static inline int visible_begin(const kv_view keys, const int t) {
    return clamp(t + keys.from, 0, keys.visible);
}

static inline int visible_end(const kv_view keys, const int t) {
    return clamp(t + keys.to, 0, keys.visible);
}

/* Index of query (b, t, h): in (B, H, T) if heads come first, else (B, T, H). */
static inline long query_at(const attention_shape a, const long b, const long t, const long h) {
    return a.heads_first ? (b * a.heads + h) * a.targets + t : (b * a.targets + t) * a.heads + h;
}

/* ---- The mask ---- */

static inline long mask_row(const attention_shape a, const long b, const long t, const long h) {
    return b * a.mask_b + h * a.mask_h + t * a.mask_t;
}

/* The mask's addend to the score of key s; only -inf hides it. */
static inline float mask_at(const attention_shape a, const long row, const int s) {
    const long at = row + s * a.mask_s;
    return a.mask_kind == 1 ? ((__global const float *)a.mask)[at] : a.mask[at] ? 0.0f : -INFINITY;
}

/* The same times log2(e); the lowest float stays finite, so that a row of them is not hidden. */
static inline float mask_at_log2(const attention_shape a, const long row, const int s) {
    const float m = mask_at(a, row, s), bits = m * LOG2_E;
    return m == -INFINITY ? m : bits < -FLT_MAX ? -FLT_MAX : bits;
}

/* The score z of a visible key after the optional soft cap and the mask. With a soft cap, z is scaled by 1/cap and cap
 * by log2(e); else z is. */
static inline float key_scored(const attention_shape a, float z, const float cap, const long row, const int s) {
#if SCORE_MOD
    if (cap > 0.0f)
        z = cap * tanh(z);
    if (a.mask_kind != 0) {
        const float m = mask_at_log2(a, row, s);
        z = m == -INFINITY ? m : z + m;
    }
#endif
    return z;
}

/* ---- Dropout ----
 *
 * A weight is dropped after the softmax: the sum of weights includes all, and values are added with factors of 0 or
 * dropout_scale = 1 / (1 - rate). The factor is a function of seed, stream, query and key only, independent of device
 * and kernel. With key s, queries 4 i .. 4 i + 3 of a group with shared keys use one Philox block (TFM_PHILOX) of the
 * counter (s, first_block + i, stream), one number each; numbers below the threshold drop. */
#if DROPOUT
static inline long first_block(const attention_shape a, const long b, const long kv_head) {
    return (b * a.kv_heads + kv_head) * ((a.heads / a.kv_heads * a.targets + 3) / 4);
}

static inline uint4 dropout_words(const tfm_dropout_rng d, const long block, const int s) {
    uint c0 = (uint)s, c1 = (uint)block, c2 = (uint)d.stream, c3 = (uint)(d.stream >> 32);
    TFM_PHILOX(uint, c0, c1, c2, c3, d.seed)
    return (uint4)(c0, c1, c2, c3);
}

#define KEPT(sum) ((sum)*dropout_scale)
#else
#define KEPT(sum) (sum)
#endif
