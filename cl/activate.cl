/* y = activation(x) on n elements; -DTFM_ACTIVATION chooses, cl/prelude.cl has the formulas.
 *
 * Layout: one work-item for TFM_CHUNK elements. y may be x. */
TFM_KERNEL void activate(TFM_TENSOR(float, y), TFM_INPUT(float, x), const long n) {
    long i = TFM_ELEMENT();
    const long end = min(i + TFM_CHUNK, n);
    __global const float *in = TFM_AT(x);
    __global float *out = TFM_AT(y);
    for (; i + TFM_WIDTH <= end; i += TFM_WIDTH)
        tfm_store(tfm_activate_vec(tfm_load(in + i)), out + i);
    for (; i < end; i++)
        out[i] = tfm_activate(in[i]);
}

/* The slope f'(v), for the backward pass. Of relu v may as well be y: both are above 0 or neither is. */
#if TFM_ACTIVATION == 0
#define SLOPE_BODY(T, ACTIVATED) return (T)(1.0f);
#elif TFM_ACTIVATION == 1
#define SLOPE_BODY(T, ACTIVATED) return v <= (T)(0.0f) ? (T)(0.0f) : (T)(1.0f);
#elif TFM_ACTIVATION == 2
/* gelu: Phi(v) + v phi(v), and Phi(v) = gelu(v) / v, but near 0, where it is 1/2 + v phi(0). */
#define SLOPE_BODY(T, ACTIVATED)                                                                    \
    const T density = (T)(0.3989422804f) * exp((T)(-0.5f) * v * v);                                 \
    const T near = tfm_fma(v, (T)(0.3989422804f), (T)(0.5f));                                       \
    return tfm_fma(v, density, fabs(v) < (T)(1e-4f) ? near : ACTIVATED(v) / v);
#elif TFM_ACTIVATION == 3
/* gelu's tanh form v s(u), s the logistic function of u = u(v): s + v u' s (1 - s). */
#define SLOPE_BODY(T, ACTIVATED)                                                                    \
    const T u = v * tfm_fma((T)(0.07135481282f) * v, v, (T)(1.595769122f));                         \
    const T rise = tfm_fma((T)(0.21406443846f) * v, v, (T)(1.595769122f));                          \
    const T s = (T)(1.0f) / ((T)(1.0f) + exp(-u));                                                  \
    return tfm_fma(v * rise * s, (T)(1.0f) - s, s);
#else
/* silu, v s(v): s + v s (1 - s). */
#define SLOPE_BODY(T, ACTIVATED)                                                                    \
    const T s = (T)(1.0f) / ((T)(1.0f) + exp(-v));                                                  \
    return tfm_fma(v * s, (T)(1.0f) - s, s);
#endif
static inline float slope(float v) { SLOPE_BODY(float, tfm_activate) }
static inline tfm_vec slope_vec(tfm_vec v) { SLOPE_BODY(tfm_vec, tfm_activate_vec) }

/* dx = dy f'(x), added to dx where `add`. dx may be dy. Layout as above. */
TFM_KERNEL void activate_backward(TFM_TENSOR(float, dx), TFM_INPUT(float, dy), TFM_INPUT(float, x), const long n,
                                  const long add) {
    long i = TFM_ELEMENT();
    const long end = min(i + TFM_CHUNK, n);
    __global const float *in = TFM_AT(x), *from = TFM_AT(dy);
    __global float *out = TFM_AT(dx);
    for (; i + TFM_WIDTH <= end; i += TFM_WIDTH) {
        const tfm_vec d = tfm_load(from + i) * slope_vec(tfm_load(in + i));
        tfm_store(add ? tfm_load(out + i) + d : d, out + i);
    }
    for (; i < end; i++) {
        const float d = from[i] * slope(in[i]);
        out[i] = add ? out[i] + d : d;
    }
}
