/* One step of AdamW ("Adam: A Method for Stochastic Optimization", Kingma and Ba 2015; "Decoupled Weight Decay
 * Regularization", Loshchilov and Hutter 2019), on n elements:
 *
 *     g = gradient * clip,  m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2
 *     x = x - decay x - step_size m / (sqrt(v) inv_sqrt_correction2 + epsilon),  gradient = 0
 *
 * The host passes one_minus_beta1 = 1 - beta1 and one_minus_beta2 = 1 - beta2, because a float beta has lost digits;
 * step_size = rate / (1 - beta1^t), inv_sqrt_correction2 = 1 / sqrt(1 - beta2^t), decay = rate * weight decay. clip =
 * max_norm / norm if the norm of all gradients is above `max_norm`, unless `max_norm` is 0. A non-finite norm skips the
 * step: only the gradient is zeroed.
 *
 * Layout: a work-item takes TFM_CHUNK elements. */

#define STEP_BODY(T, LOAD, STORE, i)                                                                                   \
    {                                                                                                                  \
        const T g = LOAD(gp + i) * clip;                                                                               \
        const T first = tfm_fma(LOAD(mp + i), (T)(beta1), one_minus_beta1 * g);                                        \
        const T second = tfm_fma(LOAD(vp + i), (T)(beta2), one_minus_beta2 * g * g);                                   \
        const T value = LOAD(xp + i);                                                                                  \
        STORE(first, mp + i);                                                                                          \
        STORE(second, vp + i);                                                                                         \
        STORE(value - decay * value -                                                                                  \
                  step_size * first / tfm_fma(sqrt(second), (T)(inv_sqrt_correction2), (T)(epsilon)),                  \
              xp + i);                                                                                                 \
    }

TFM_KERNEL void adam(TFM_TENSOR(float, x), TFM_TENSOR(float, gradient), TFM_TENSOR(float, m), TFM_TENSOR(float, v),
                     TFM_INPUT(float, norm), const long n, const float step_size, const float inv_sqrt_correction2,
                     const float decay, const float beta1, const float beta2, const float one_minus_beta1,
                     const float one_minus_beta2, const float epsilon, const float max_norm) {
    long i = TFM_ELEMENT();
    const long end = min(i + TFM_CHUNK, n);
    __global float *xp = TFM_AT(x), *gp = TFM_AT(gradient), *mp = TFM_AT(m), *vp = TFM_AT(v);
    const float grad_norm = norm != 0 ? *TFM_AT(norm) : 0.0f;
    const float clip = max_norm > 0.0f && grad_norm > max_norm ? max_norm / grad_norm : 1.0f;
    const int good = isfinite(grad_norm);
    for (; i + TFM_WIDTH <= end; i += TFM_WIDTH) {
        if (good)
            STEP_BODY(tfm_vec, tfm_load, tfm_store, i)
        tfm_store((tfm_vec)(0.0f), gp + i);
    }
    for (; i < end; i++) {
        if (good)
            STEP_BODY(float, TFM_LOAD_ONE, TFM_STORE_ONE, i)
        gp[i] = 0.0f;
    }
}
