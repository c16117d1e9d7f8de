/* The rarer activations of enum tfm_activation and their derivatives; prelude.cl has the others and includes this text.
 */
#if TFM_ACTIVATION == 5 /* quick_gelu */
#define TFM_ACTIVATION_BODY(T, V) return v * TFM_SIGMOID(T, V, (T)(1.702f) * v);
#elif TFM_ACTIVATION == 6 /* relu2 */
#define TFM_ACTIVATION_BODY(T, V)                                                                                      \
    const T r = v < (T)(0.0f) ? (T)(0.0f) : v;                                                                         \
    return r * r;
#elif TFM_ACTIVATION == 7 /* relu6 */
#define TFM_ACTIVATION_BODY(T, V) return v < (T)(0.0f) ? (T)(0.0f) : v > (T)(6.0f) ? (T)(6.0f) : v;
#elif TFM_ACTIVATION == 8 /* leaky_relu */
#define TFM_ACTIVATION_BODY(T, V) return v < (T)(0.0f) ? (T)(0.01f) * v : v;
#elif TFM_ACTIVATION == 9 /* sigmoid */
#define TFM_ACTIVATION_BODY(T, V) return TFM_SIGMOID(T, V, v);
#elif TFM_ACTIVATION == 10 /* tanh */
#define TFM_ACTIVATION_BODY(T, V) return tanh(v);
#elif TFM_ACTIVATION == 11
/* mish: v tanh(log(1 + e^v)) = v n / (n + d), where n is e^v (e^v + 2) and d is 2; from 0 on both times e^-2v, which
 * does not overflow. */
#define TFM_MISH_PARTS(T, V)                                                                                           \
    const T e = TFM_CAT(tfm_exp_nonpos, V)(-fabs(v));                                                                  \
    const T n = v < (T)(0.0f) ? e * (e + (T)(2.0f)) : tfm_fma((T)(2.0f), e, (T)(1.0f));                                \
    const T d = v < (T)(0.0f) ? (T)(2.0f) : (T)(2.0f) * e * e;
#define TFM_ACTIVATION_BODY(T, V) TFM_MISH_PARTS(T, V) return v * (n / (n + d));
#elif TFM_ACTIVATION == 12
/* laplace: (1 + erf(z)) / 2 with z = (v - 0.707107) / (0.282095 sqrt(2)). */
#define TFM_LAPLACE_Z(T) ((v - (T)(0.707107f)) * (T)(2.506626424f))
#define TFM_ACTIVATION_BODY(T, V) return (T)(0.5f) * erfc(-TFM_LAPLACE_Z(T));
#elif TFM_ACTIVATION == 14 /* hardswish */
#define TFM_ACTIVATION_BODY(T, V)                                                                                      \
    return v <= (T)(-3.0f) ? (T)(0.0f) : v >= (T)(3.0f) ? v : v * tfm_fma(v, (T)(0.1666666667f), (T)(0.5f));
#elif TFM_ACTIVATION < 0 || TFM_ACTIVATION > 14
#error "TFM_ACTIVATION is not a number of enum tfm_activation"
#endif

/* Derivatives. */
#if TFM_ACTIVATION == 5
#define TFM_ACTIVATION_GRAD_BODY(T, V)                                                                                 \
    const T x = select(v, copysign((T)(100.0f), v), fabs(v) > (T)(100.0f)); /* as for gelu's tanh form */              \
    const T e = TFM_CAT(tfm_exp_nonpos, V)((T)(-1.702f) * fabs(x)), w = (T)(1.0f) / ((T)(1.0f) + e);                   \
    return tfm_fma((T)(1.702f) * x, e * w * w, TFM_CAT(tfm_sigmoid, V)(x, e));
#elif TFM_ACTIVATION == 6
#define TFM_ACTIVATION_GRAD_BODY(T, V) return v < (T)(0.0f) ? (T)(0.0f) : (T)(2.0f) * v;
#elif TFM_ACTIVATION == 7
#define TFM_ACTIVATION_GRAD_BODY(T, V) return v <= (T)(0.0f) ? (T)(0.0f) : v >= (T)(6.0f) ? (T)(0.0f) : (T)(1.0f);
#elif TFM_ACTIVATION == 8
#define TFM_ACTIVATION_GRAD_BODY(T, V) return v <= (T)(0.0f) ? (T)(0.01f) : (T)(1.0f);
#elif TFM_ACTIVATION == 9
#define TFM_ACTIVATION_GRAD_BODY(T, V)                                                                                 \
    const T e = TFM_CAT(tfm_exp_nonpos, V)(-fabs(v)), w = (T)(1.0f) / ((T)(1.0f) + e);                                 \
    return e * w * w;
#elif TFM_ACTIVATION == 10 /* 1 / cosh^2 */
#define TFM_ACTIVATION_GRAD_BODY(T, V)                                                                                 \
    const T e = TFM_CAT(tfm_exp_nonpos, V)((T)(-2.0f) * fabs(v)), w = (T)(1.0f) / ((T)(1.0f) + e);                     \
    return (T)(4.0f) * e * w * w;
#elif TFM_ACTIVATION == 11
/* With t = n / (n + d): t + v (1 - t^2) sigmoid(v), and 1 - t^2 = d (2 n + d) / (n + d)^2. */
#define TFM_ACTIVATION_GRAD_BODY(T, V)                                                                                 \
    TFM_MISH_PARTS(T, V)                                                                                               \
    const T w = (T)(1.0f) / (n + d);                                                                                   \
    return tfm_fma(v * (d * w), tfm_fma((T)(2.0f), n, d) * w * TFM_CAT(tfm_sigmoid, V)(v, e), n * w);
#elif TFM_ACTIVATION == 12 /* e^-z^2 / (0.282095 sqrt(2 pi)) */
#define TFM_ACTIVATION_GRAD_BODY(T, V)                                                                                 \
    const T z = TFM_LAPLACE_Z(T);                                                                                      \
    return (T)(1.414212519f) * exp(-z * z);
#elif TFM_ACTIVATION == 14
#define TFM_ACTIVATION_GRAD_BODY(T, V)                                                                                 \
    return v <= (T)(-3.0f) ? (T)(0.0f) : v >= (T)(3.0f) ? (T)(1.0f) : tfm_fma(v, (T)(0.3333333333f), (T)(0.5f));
#endif
