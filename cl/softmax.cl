/* Softmax and its logarithm over the last dimension of x (rows, n).
 *
 * Layout: TFM_GROUP work-items share a row (one on wide devices) and step over it together, a vector each;
 * what does not fill a vector is done by scalars. Three passes over a row that stays in cache: maximum, sum of
 * exponentials, result. An item touches the same elements in every pass, so y may be x. */

#define STEP (TFM_GROUP * TFM_WIDTH)
#define TAIL(n) ((n) - (n) % TFM_WIDTH)

static inline float lane_max(__global const float *x, const long n) {
    tfm_vec best = (tfm_vec)(-INFINITY);
    for (long i = TFM_LANE() * TFM_WIDTH; i + TFM_WIDTH <= n; i += STEP)
        best = fmax(best, tfm_load(x + i));
    float result = tfm_vec_max(best);
    for (long i = TAIL(n) + TFM_LANE(); i < n; i += TFM_GROUP)
        result = fmax(result, x[i]);
    return result;
}

/* What to take off before exp: the maximum, or 0 in a row of -inf alone, where -inf - -inf would be NaN. */
static inline float shift_of(const float maximum) { return maximum == -INFINITY ? 0.0f : maximum; }

/* y = exp(x - max) / sum exp(x - max); a row of -inf alone gives zeros. */
TFM_KERNEL void softmax(TFM_TENSOR(float, y), TFM_INPUT(float, x), const long rows, const long n) {
    TFM_SCRATCH
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    __global const float *in = TFM_AT(x) + row * n;
    __global float *out = TFM_AT(y) + row * n;
    const float shift = shift_of(tfm_group_max(lane_max(in, n)));
    tfm_vec sums = (tfm_vec)(0.0f);
    for (long i = TFM_LANE() * TFM_WIDTH; i + TFM_WIDTH <= n; i += STEP) {
        const tfm_vec e = exp(tfm_load(in + i) - shift);
        tfm_store(e, out + i);
        sums += e;
    }
    float lane_sum = tfm_vec_sum(sums);
    for (long i = TAIL(n) + TFM_LANE(); i < n; i += TFM_GROUP) {
        const float e = exp(in[i] - shift);
        out[i] = e;
        lane_sum += e;
    }
    const float sum = tfm_group_sum(lane_sum);
    const float factor = sum == 0.0f ? 0.0f : 1.0f / sum;
    for (long i = TFM_LANE() * TFM_WIDTH; i + TFM_WIDTH <= n; i += STEP)
        tfm_store(tfm_load(out + i) * factor, out + i);
    for (long i = TAIL(n) + TFM_LANE(); i < n; i += TFM_GROUP)
        out[i] *= factor;
}

/* y = (x - max) - log sum exp(x - max); a row of -inf alone stays -inf. */
TFM_KERNEL void log_softmax(TFM_TENSOR(float, y), TFM_INPUT(float, x), const long rows, const long n) {
    TFM_SCRATCH
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    __global const float *in = TFM_AT(x) + row * n;
    __global float *out = TFM_AT(y) + row * n;
    const float shift = shift_of(tfm_group_max(lane_max(in, n)));
    tfm_vec sums = (tfm_vec)(0.0f);
    for (long i = TFM_LANE() * TFM_WIDTH; i + TFM_WIDTH <= n; i += STEP)
        sums += exp(tfm_load(in + i) - shift);
    float lane_sum = tfm_vec_sum(sums);
    for (long i = TAIL(n) + TFM_LANE(); i < n; i += TFM_GROUP)
        lane_sum += exp(in[i] - shift);
    const float sum = tfm_group_sum(lane_sum);
    const float log_sum = sum == 0.0f ? 0.0f : log(sum);
    for (long i = TFM_LANE() * TFM_WIDTH; i + TFM_WIDTH <= n; i += STEP)
        tfm_store((tfm_load(in + i) - shift) - log_sum, out + i);
    for (long i = TAIL(n) + TFM_LANE(); i < n; i += TFM_GROUP)
        out[i] = (in[i] - shift) - log_sum;
}
