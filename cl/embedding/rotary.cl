/* RoPE of x, `vectors` consecutive heads of D columns, of (B, T, H, D) or (B, H, T, D): each pair (a, b) of a head's
 * first 2 `half` columns becomes (a c - b s, a s + b c); c and s are the pair's columns of the cosines and sines (P,
 * half) in the row of the head's position. Other columns are copied. positions (B, T) may be null: then the position is
 * first + t, or, with per_token, b T + t. A position outside [0, P) gives NaN. `sign` is 1, or -1 for the inverse
 * rotation in a backward pass.
 *
 * y2 and x2 are a second pair of tensors with `vectors2` heads, H2 for each token, processed after the first ones;
 * vectors2 is 0 without them. y2 is written by half_store.cl.
 *
 * Layout: a work-group takes `heads_per_group` heads; its TFM_GROUP items step over the pairs of a head together, a
 * vector of pairs each. An item reads both elements of a pair before it writes them, so y may be x. */

#include "half_store.cl"

/* Destination of a head: one of the pointers is null. */
#if STORE_DTYPE == 0
typedef __global float *head_out;
#define HEAD_OUT(y, more) ((y) ? (y) : (more))
#define store_out(v, to, i) ((to)[i] = (v))
#define store_out_vec(v, to, i) tfm_store(v, (to) + (i))
#else
typedef struct head_out {
    __global float *y;
    __global store_t *more;
} head_out;
#define HEAD_OUT(y, more) ((head_out){y, more})
static inline void store_out(const float v, const head_out to, const long i) {
    if (to.more)
        store_from_float(v, to.more + i);
    else
        to.y[i] = v;
}
static inline void store_out_vec(const tfm_vec v, const head_out to, const long i) {
    if (to.more)
        store_from_float_vec(v, to.more + i);
    else
        tfm_store(v, to.y + i);
}
#endif

#if TFM_WIDTH > 1
/* TFM_WIDTH pairs, stored in two vectors. */
static inline void rotate_vectors(const head_out out, __global const float *in, const long i, const tfm_vec c,
                                  const tfm_vec s) {
    const tfm_vec v = tfm_load(in + i), w = tfm_load(in + i + TFM_WIDTH);
    const tfm_vec a = (tfm_vec)(v.even, w.even), b = (tfm_vec)(v.odd, w.odd);
    const tfm_vec left = a * c - b * s, right = a * s + b * c;
    tfm_vec low, high;
    low.even = left.lo;
    low.odd = right.lo;
    high.even = left.hi;
    high.odd = right.hi;
    store_out_vec(low, out, i);
    store_out_vec(high, out, i + TFM_WIDTH);
}
#endif

static inline void rotate(const head_out out, __global const float *in, const long first, const long second,
                          const float c, const float s) {
    const float a = in[first], b = in[second];
    store_out(a * c - b * s, out, first);
    store_out(a * s + b * c, out, second);
}

/* One head; `pairs` of (2i, 2i + 1) or of (i, half + i). */
static inline void rotate_head(const head_out out, __global const float *in, __global const float *cosine,
                               __global const float *sine, const long half_width, const long interleaved,
                               const float sign) {
    long done = 0;
#if TFM_WIDTH > 1
    done = half_width - half_width % TFM_WIDTH;
    for (long i = TFM_LOCAL_ID() * TFM_WIDTH; i < done; i += TFM_STEP) {
        const tfm_vec c = tfm_load(cosine + i), s = tfm_load(sine + i) * sign;
        if (interleaved) {
            rotate_vectors(out, in, 2 * i, c, s);
        } else {
            const tfm_vec a = tfm_load(in + i), b = tfm_load(in + half_width + i);
            store_out_vec(a * c - b * s, out, i);
            store_out_vec(a * s + b * c, out, half_width + i);
        }
    }
#endif
    for (long i = done + TFM_LOCAL_ID(); i < half_width; i += TFM_GROUP)
        if (interleaved)
            rotate(out, in, 2 * i, 2 * i + 1, cosine[i], sine[i] * sign);
        else
            rotate(out, in, i, half_width + i, cosine[i], sine[i] * sign);
}

TFM_KERNEL void rotary(TFM_TENSOR(float, y), TFM_INPUT(float, x), TFM_TENSOR(store_t, y2), TFM_INPUT(float, x2),
                       TFM_INPUT(float, cosines), TFM_INPUT(float, sines), TFM_INPUT(int, positions),
                       const long vectors, const long vectors2, const long heads_per_group, const long T, const long H,
                       const long H2, const long D, const long P, const long half_width, const long first,
                       const long heads_first, const long per_token, const long interleaved, const float sign) {
    const long end = min((TFM_ROW() + 1) * heads_per_group, vectors + vectors2);
    for (long i = TFM_ROW() * heads_per_group; i < end; i++) {
        const int second = i >= vectors;
        const long v = second ? i - vectors : i, heads = second ? H2 : H;
        const long b = v / (T * heads), t = heads_first ? v % T : v / heads % T, token = b * T + t;
        long position = per_token ? token : first + t;
        int outside = 0;
        if (positions != 0) {
            const int given = TFM_AT(positions)[token]; /* not long: see gather.cl */
            outside = given < 0 || given >= P;
            position = outside ? 0 : given;
        }
        __global const float *in = (second ? TFM_AT(x2) : TFM_AT(x)) + v * D;
        const head_out out = HEAD_OUT(second ? 0 : TFM_AT(y) + v * D, second ? TFM_AT(y2) + v * D : 0);
        if (outside) {
            for (long j = TFM_LOCAL_ID(); j < D; j += TFM_GROUP)
                store_out(NAN, out, j);
            continue;
        }
        rotate_head(out, in, TFM_AT(cosines) + position * half_width, TFM_AT(sines) + position * half_width, half_width,
                    interleaved, sign);
        for (long j = 2 * half_width + TFM_LOCAL_ID(); j < D; j += TFM_GROUP)
            store_out(in[j], out, j);
    }
}
