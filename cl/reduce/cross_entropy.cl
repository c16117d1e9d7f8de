/* Cross-entropy of logits z (rows, n) with label smoothing ("Rethinking the Inception Architecture", Szegedy et al.
 * 2016, section 7), q_i = (1 - smoothing) [i = target] + smoothing / n:
 *
 *     loss = - sum_i q_i log p_i = lse - (1 - smoothing) z_target - smoothing mean z,    nll = lse - z_target
 *
 * with lse = log sum exp z, and dz_i = scale (p_i - q_i). With SOFT_CAP, z is cap tanh(z / cap) everywhere, and dz_i
 * has its derivative as a factor, 1 - tanh(z / cap)^2. A row with a target outside 0 .. n - 1 is ignored: its losses
 * and its gradient are 0, whatever its logits.
 *
 * Layout: TFM_GROUP work-items share a row (one on CPU-style devices) and step over it together, a vector each, with
 * scalars for the remainder. The row stays in cache between the passes. dz may be z. */

#ifndef SOFT_CAP
#define SOFT_CAP 0
#endif
#if SOFT_CAP
#define CAPPED_LOGIT(z) (cap * tanh((z) / cap))
#define GRAD(seen) *(1.0f - ((seen) / cap) * ((seen) / cap))
#else
#define CAPPED_LOGIT(z) (z)
#define GRAD(seen)
#endif

/* losses (rows), nlls (rows); dz (rows, n) or null; `grad_output` is null, or has a factor of dz. */
TFM_KERNEL void cross_entropy(TFM_TENSOR(float, dz), TFM_TENSOR(float, losses), TFM_TENSOR(float, nlls),
                              TFM_INPUT(float, z), TFM_INPUT(int, targets), TFM_INPUT(float, grad_output),
                              const long rows, const long n, const float smoothing, const float scale, const float cap,
                              const long add) {
    TFM_SCRATCH
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    const int has_dz = dz != 0, target = TFM_AT(targets)[row], counts = target >= 0 && target < (int)n;
    __global const float *in = TFM_AT(z) + row * n;
    __global float *out = TFM_AT(dz) + row * n;

    /* NaN is ignored here, because fmax would be many instructions; the sum below propagates it. */
    tfm_vec best = (tfm_vec)(-INFINITY);
    for (long i = TFM_LOCAL_ID() * TFM_WIDTH; i + TFM_WIDTH <= n; i += TFM_STEP) {
        const tfm_vec v = CAPPED_LOGIT(tfm_load(in + i));
        best = v > best ? v : best;
    }
    float lane_best = tfm_vec_max(best);
    for (long i = n - n % TFM_WIDTH + TFM_LOCAL_ID(); i < n; i += TFM_GROUP) {
        const float v = CAPPED_LOGIT(in[i]);
        lane_best = v > lane_best ? v : lane_best;
    }
    const float wanted = CAPPED_LOGIT(in[counts ? target : 0]);
#if TFM_GROUP > 1
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE); /* if dz is z, another item writes there below */
#endif
    const float maximum = tfm_group_max(lane_best);

    /* Without `add`, dz stores the exponentials, unless the derivatives need the logits. */
    const int cached = SOFT_CAP ? 0 : has_dz && !add;
    tfm_vec exps = (tfm_vec)(0.0f), plain = (tfm_vec)(0.0f);
    for (long i = TFM_LOCAL_ID() * TFM_WIDTH; i + TFM_WIDTH <= n; i += TFM_STEP) {
        const tfm_vec d = CAPPED_LOGIT(tfm_load(in + i)) - maximum, e = tfm_exp_nonpos_vec(d);
        exps += e;
        plain += d;
        if (cached)
            tfm_store(e, out + i);
    }
    float lane_exps = tfm_vec_sum(exps), lane_plain = tfm_vec_sum(plain);
    for (long i = n - n % TFM_WIDTH + TFM_LOCAL_ID(); i < n; i += TFM_GROUP) {
        const float d = CAPPED_LOGIT(in[i]) - maximum, e = tfm_exp_nonpos(d);
        lane_exps += e;
        lane_plain += d;
        if (cached)
            out[i] = e;
    }
    const float total = tfm_group_sum(lane_exps), mean = tfm_group_sum(lane_plain) / (float)n;
    const float nll = log(total) - (wanted - maximum);
    /* The mean of logits with -inf is -inf and is skipped without smoothing; if the target is one of them, the loss is
     * infinite without this term too. */
    const float spread = smoothing > 0.0f && nll < INFINITY ? smoothing * ((wanted - maximum) - mean) : 0.0f;
    if (TFM_LOCAL_ID() == 0 && losses != 0) {
        TFM_AT(losses)[row] = counts ? nll + spread : 0.0f;
        TFM_AT(nlls)[row] = counts ? nll : 0.0f;
    }
    if (!has_dz)
        return;
    const float factor = grad_output != 0 ? scale * *TFM_AT(grad_output) : scale;
    const float p = factor / total, q = factor * smoothing / (float)n;
    for (long i = TFM_LOCAL_ID() * TFM_WIDTH; i + TFM_WIDTH <= n; i += TFM_STEP) {
        const tfm_vec z_i = CAPPED_LOGIT(tfm_load(in + i)),
                      e = cached ? tfm_load(out + i) : tfm_exp_nonpos_vec(z_i - maximum);
        const tfm_vec d = counts ? tfm_fma(e, (tfm_vec)(p), (tfm_vec)(-q)) GRAD(z_i) : (tfm_vec)(0.0f);
        tfm_store(add ? tfm_load(out + i) + d : d, out + i);
    }
    for (long i = n - n % TFM_WIDTH + TFM_LOCAL_ID(); i < n; i += TFM_GROUP) {
        const float z_i = CAPPED_LOGIT(in[i]), e = cached ? out[i] : tfm_exp_nonpos(z_i - maximum);
        const float d = counts ? tfm_fma(e, p, -q) GRAD(z_i) : 0.0f;
        out[i] = add ? out[i] + d : d;
    }
#if TFM_GROUP > 1
    barrier(CLK_GLOBAL_MEM_FENCE);
#endif
    if (TFM_LOCAL_ID() == 0 && counts)
        out[target] -= factor * (1.0f - smoothing) GRAD(wanted);
}
