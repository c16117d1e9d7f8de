/* Weights of classical attention: y[b, t, :] is the softmax of the scores x[b, t, :] over the keys visible to query t
 * of sequence b, and 0 elsewhere. x and y are (rows, n) with rows = B targets. Visible keys are below lengths[b], or
 * all n if `padded` is 0, and restricted by
 *     WINDOW 0   nothing else
 *     WINDOW 1   |t + past - s| <= window
 *     WINDOW 2   |centers[b, t] - s| <= window; then y[s] *= exp(-(s - center)^2 / (2 (window / 2)^2)).
 * A center of NaN gives NaN.
 *
 * Layout: TFM_GROUP work-items a row (one on CPU-style devices) as in softmax.cl, beginning at the first visible key.
 * An item accesses the same elements in every pass, so y may be x. */
#ifndef WINDOW
#define WINDOW 2
#endif

/* The factor of a weight. */
static inline float window_weight(const long s, const float center, const float reach) {
#if WINDOW == 2
    const float far = ((float)s - center) / reach;
    return exp(-2.0f * far * far);
#else
    return 1.0f;
#endif
}

TFM_KERNEL void align_rows(TFM_TENSOR(float, y), TFM_INPUT(float, x), TFM_INPUT(int, lengths),
                           TFM_INPUT(float, centers), const long rows, const long targets, const long n,
                           const long padded, const long past, const long window) {
    TFM_SCRATCH
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    const int length = padded ? clamp(TFM_AT(lengths)[row / targets], 0, (int)n) : (int)n;
    const long visible = length;
    const float reach = (float)window, center = WINDOW == 2 ? TFM_AT(centers)[row] : 0.0f;
    long from = 0, to = visible;
#if WINDOW == 1
    const long middle = row % targets + past;
    from = clamp(middle - window, 0L, visible);
    to = clamp(middle + window + 1, 0L, visible);
#elif WINDOW == 2 /* fmin and fmax return the other operand for NaN */
    from = (long)fmin(fmax(ceil(center - reach), 0.0f), (float)visible);
    to = (long)fmax(fmin(floor(center + reach) + 1.0f, (float)visible), 0.0f);
#endif
    const long run = max(to - from, 0L), whole = run - run % TFM_WIDTH, lane = TFM_LOCAL_ID();
    __global const float *in = TFM_AT(x) + row * n + from;
    __global float *out = TFM_AT(y) + row * n + from;
    /* First, because PoCL 3.1 lets items with i beyond n write these elements after the last barrier. */
    for (long i = lane; i < n; i += TFM_GROUP)
        if (i < from || i >= from + run)
            out[i - from] = 0.0f;
    tfm_vec best = (tfm_vec)(-INFINITY);
    for (long i = lane * TFM_WIDTH; i < whole; i += TFM_STEP)
        best = fmax(best, tfm_load(in + i));
    float lane_best = tfm_vec_max(best);
    for (long i = whole + lane; i < run; i += TFM_GROUP)
        lane_best = fmax(lane_best, in[i]);
    const float maximum = tfm_group_max(lane_best);
    const float shift = maximum == -INFINITY ? 0.0f : maximum; /* a row of only -inf gives zeros */
    tfm_vec sums = (tfm_vec)(0.0f);
    for (long i = lane * TFM_WIDTH; i < whole; i += TFM_STEP) {
        const tfm_vec e = exp(tfm_load(in + i) - shift);
        tfm_store(e, out + i);
        sums += e;
    }
    float lane_sum = tfm_vec_sum(sums);
    for (long i = whole + lane; i < run; i += TFM_GROUP)
        lane_sum += out[i] = exp(in[i] - shift);
    const float sum = tfm_group_sum(lane_sum), factor = sum == 0.0f ? 0.0f : 1.0f / sum;
    for (long i = lane * TFM_WIDTH; i < whole; i += TFM_STEP)
        for (long j = i; j < i + TFM_WIDTH; j++)
            out[j] *= factor * window_weight(from + j, center, reach);
    for (long i = whole + lane; i < run; i += TFM_GROUP)
        out[i] *= factor * window_weight(from + i, center, reach);
}

/* Backward, with y = p e, p the softmax and e the factor of the weight:
 *
 *     dx[s] = y[s] dy[s] - y[s] / e[s] sum dy y,   dcenter = sum of dy[s] y[s] 4 (s - center) / window^2
 *
 * Visibility is constant; y and dx are 0 at invisible keys. dx and dcenters may be null, and are accumulated if `add`,
 * `add_center`. Layout: as softmax.cl. */
#define BACKWARD_ELEMENT(i)                                                                                            \
    {                                                                                                                  \
        const float w = weights[i];                                                                                    \
        const float d = w == 0.0f ? 0.0f : w * from[i] - w / window_weight(i, center, reach) * sum;                    \
        out[i] = add ? out[i] + d : d;                                                                                 \
    }
TFM_KERNEL void align_backward(TFM_TENSOR(float, dx), TFM_TENSOR(float, dcenters), TFM_INPUT(float, dy),
                               TFM_INPUT(float, y), TFM_INPUT(float, centers), const long rows, const long n,
                               const long window, const long add, const long add_center) {
    TFM_SCRATCH
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    const float reach = (float)window, center = WINDOW == 2 ? TFM_AT(centers)[row] : 0.0f;
    const int has_dx = dx != 0;
    __global const float *weights = TFM_AT(y) + row * n, *from = TFM_AT(dy) + row * n;
    __global float *out = TFM_AT(dx) + row * n;
    float sum = 0.0f, moment = 0.0f;
    for (long i = TFM_LOCAL_ID(); i < n; i += TFM_GROUP) {
        const float v = weights[i] == 0.0f ? 0.0f : weights[i] * from[i];
        sum += v;
        moment = tfm_fma(v, (float)i - center, moment);
    }
    sum = tfm_group_sum(sum);
    moment = tfm_group_sum(moment);
    /* Written this way because a plain loop over i < n fails after the barrier on PoCL 3.1, as above. */
    const long whole = n - n % TFM_WIDTH;
    for (long i = TFM_LOCAL_ID() * TFM_WIDTH; has_dx && i < whole; i += TFM_STEP)
        for (long j = i; j < i + TFM_WIDTH; j++)
            BACKWARD_ELEMENT(j)
    for (long i = whole + TFM_LOCAL_ID(); has_dx && i < n; i += TFM_GROUP)
        BACKWARD_ELEMENT(i)
    if (dcenters != 0 && TFM_LOCAL_ID() == 0) {
        const float d = 4.0f * moment / (reach * reach);
        TFM_AT(dcenters)[row] = add_center ? TFM_AT(dcenters)[row] + d : d;
    }
}
