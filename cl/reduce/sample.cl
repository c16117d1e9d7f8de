/* Samples one index from each row of logits (rows, n): ids (rows), and its probability.
 *
 * The weight of x is e^((x - maximum) inv_temperature). Candidates are given by a threshold t and a quota: entries
 * above t, and the first `quota` of those equal to t. Thresholds are found by bisection over the ordered floats, so no
 * row is sorted: the k-th largest is the largest t with at least k entries >= t, and top p ends at the largest t whose
 * entries
 * >= t weigh at least p of all; min p is a threshold already. The sample is the first index at which the cumulative
 * weight exceeds u times the total, u from a counter-based generator: equal seeds give equal samples.
 *
 * With PER_ROW, each row has its own options: settings (rows, 4) are its k, p, min-p distance and inverse temperature,
 * numbers (rows, 5) its stream, seed and counter, low words first. A row with k = 1 is greedy.
 *
 * With WITH_SCORES, if work-items share rows, values (rows) gets the logits of the ids, and lse (rows) the log-sum-exp
 * of each row; streams has one entry for each sequence, and sources (rows) is the sequence of a row.
 *
 * Layout: TFM_GROUP work-items share a row (one on CPU-style devices). Sums step over it together, a vector each; for
 * sampling, which is in index order, each item has one contiguous share. */

/* Force-inlined functions with scratch: as calls, PoCL 3.1 gives them one scratch for all concurrent work-groups. */
#define INLINE static inline __attribute__((always_inline))

#if TFM_GROUP == 1
#define SCRATCH_PARAM
#define SCRATCH_ARG
#else
#define SCRATCH_PARAM , __local float *tfm_scratch
#define SCRATCH_ARG , tfm_scratch
#endif

typedef struct {
    __global const float *x;
    long n;
    float maximum, inv_temperature;
} row_logits;

/* The first word of the Philox block with counter (step, row, 0) and key `seed`. */
static inline uint philox(const ulong seed, const ulong step, const uint row) {
    uint c0 = (uint)step, c1 = (uint)(step >> 32), c2 = row, c3 = 0;
    TFM_PHILOX(uint, c0, c1, c2, c3, seed)
    return c0;
}

/* Order-preserving map of floats to unsigned integers, and its inverse. */
static inline uint key_of(const float v) {
    const uint bits = as_uint(v);
    return bits >= 0x80000000u ? ~bits : bits | 0x80000000u;
}
static inline float float_of(const uint key) {
    return as_float(key >= 0x80000000u ? key & 0x7fffffffu : ~key);
}

/* The maximum has weight 1 even if it is +inf, or the temperature is so small that 0 inv_temperature is NaN. */
#define WEIGHT(T, v) select(exp(((v)-r->maximum) * r->inv_temperature), (T)(1.0f), (v) == (T)(r->maximum))

/* The number of entries > t, or their weight; with `equal_too`, of entries >= t. Exact for n <= 2^24. */
INLINE float sum_of(const row_logits *r, const float t, const int equal_too, const int weighted SCRATCH_PARAM) {
    const tfm_vec none = (tfm_vec)(0.0f), one = (tfm_vec)(1.0f), limit = (tfm_vec)(t);
    tfm_vec sums = none;
    for (long i = TFM_LOCAL_ID() * TFM_WIDTH; i + TFM_WIDTH <= r->n; i += TFM_STEP) {
        const tfm_vec v = tfm_load(r->x + i), term = weighted ? WEIGHT(tfm_vec, v) : one;
        sums += equal_too ? select(none, term, v >= limit) : select(none, term, v > limit);
    }
    float sum = tfm_vec_sum(sums);
    for (long i = TFM_TAIL(r->n) + TFM_LOCAL_ID(); i < r->n; i += TFM_GROUP)
        if (r->x[i] > t || (equal_too && r->x[i] == t))
            sum += weighted ? WEIGHT(float, r->x[i]) : 1.0f;
    return tfm_group_sum(sum);
}

INLINE float maximum_of(__global const float *x, const long n SCRATCH_PARAM) {
    tfm_vec best = (tfm_vec)(-INFINITY);
    for (long i = TFM_LOCAL_ID() * TFM_WIDTH; i + TFM_WIDTH <= n; i += TFM_STEP)
        best = fmax(best, tfm_load(x + i));
    float maximum = tfm_vec_max(best);
    for (long i = TFM_TAIL(n) + TFM_LOCAL_ID(); i < n; i += TFM_GROUP)
        maximum = fmax(maximum, x[i]);
    return tfm_group_max(maximum);
}

#ifdef WITH_SCORES
INLINE float exp_sum(const row_logits *r SCRATCH_PARAM) {
    float exps = 0.0f;
    for (long i = TFM_LOCAL_ID(); i < r->n; i += TFM_GROUP)
        exps += r->x[i] > -INFINITY ? exp(r->x[i] - r->maximum) : 0.0f;
    return tfm_group_sum(exps);
}
#endif

/* The candidate cut: `above` entries are > t, with weight `weight_above`, and `equal` are t. */
typedef struct {
    float t, above, equal, weight_above;
} cutoff;

/* The cut at the largest t of [low, high] for which the sum of entries >= t is at least `least`; at `low` if there is
 * none. */
INLINE cutoff find_threshold(const row_logits *r, const float low, const float high, const float least,
                             const int weighted SCRATCH_PARAM) {
    uint from = key_of(low), to = key_of(high);
    while (from < to) {
        const uint middle = from + (to - from + 1) / 2;
        const float sum = sum_of(r, float_of(middle), 1, weighted SCRATCH_ARG);
        if (sum >= least)
            from = middle;
        else
            to = middle - 1;
        /* Found: no break, since PoCL 3.1 miscompiles it in a loop with barriers. */
        to = sum == least && !weighted ? from : to;
    }
    cutoff cut = {float_of(from), 0.0f, 0.0f, 0.0f};
    for (int i = 0; i < 3; i++) { /* one call only: everything is inlined, and each call costs compile time */
        const float sum = sum_of(r, cut.t, i == 1, i == 2 SCRATCH_ARG);
        cut.above = i == 0 ? sum : cut.above;
        cut.equal = i == 1 ? sum - cut.above : cut.equal;
        cut.weight_above = i == 2 ? sum : cut.weight_above;
    }
    return cut;
}

/* Exclusive prefix sum over the items; *total of all. The same order everywhere, so that the shares [before, before +
 * own) meet without a gap. */
INLINE float exclusive_sum(const float own, float *total SCRATCH_PARAM) {
#if TFM_GROUP == 1
    *total = own;
    return 0.0f;
#else
    float sum = 0.0f, before = 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    tfm_scratch[get_local_id(0)] = own;
    barrier(CLK_LOCAL_MEM_FENCE);
    /* Fully unrolled, all prefix sums would be in registers at once, which do not suffice. */
#pragma unroll 4
    for (int i = 0; i < TFM_GROUP; i++) {
        before = i == (int)get_local_id(0) ? sum : before;
        sum += tfm_scratch[i];
    }
    *total = sum;
    return before;
#endif
}

/* The weight of entries begin .. begin + TFM_WIDTH - 1 above t, and the number of those equal to t. */
static inline float block_above(const row_logits *r, const long begin, const float t, float *equal) {
    const tfm_vec none = (tfm_vec)(0.0f), v = tfm_load(r->x + begin);
    *equal = tfm_vec_sum(select(none, (tfm_vec)(1.0f), v == (tfm_vec)(t)));
    return tfm_vec_sum(select(none, WEIGHT(tfm_vec, v), v > (tfm_vec)(t)));
}

/* The same of one entry. */
static inline float one_above(const row_logits *r, const long i, const float t, float *equal) {
    const float v = r->x[i];
    *equal = v == t ? 1.0f : 0.0f;
    return v > t ? WEIGHT(float, v) : 0.0f;
}

/* Of the candidates begin .. end - 1, the first at which the cumulative weight exceeds `goal`, else the last. */
static inline long pick(const row_logits *r, const long begin, const long end, const float t, float quota,
                        const float goal) {
    const float weight = WEIGHT(float, t);
    float passed = 0.0f;
    long found = -1;
    for (long i = begin; i < end && !(passed > goal); i++) {
        float equal;
        const float above = one_above(r, i, t, &equal);
        if (r->x[i] > t || (equal == 1.0f && quota >= 1.0f)) {
            found = i;
            passed += equal == 1.0f ? weight : above;
            quota -= equal;
        }
    }
    return found;
}

/* The share [begin, end) of one item: its weight, and with goal >= 0 also the index sampled in it. */
static inline float scan_share(const row_logits *r, const long begin, const long end, const float t, float quota,
                               const float goal, long *sampled) {
    const float weight = WEIGHT(float, t);
    float passed = 0.0f, last_quota = 0.0f;
    long last = -1, last_end = -1;
    for (long i = begin; i < end;) {
        const long stop = i + TFM_WIDTH <= end ? i + TFM_WIDTH : i + 1;
        float equal, above = stop - i == TFM_WIDTH ? block_above(r, i, t, &equal) : one_above(r, i, t, &equal);
        equal = fmin(equal, quota);
        above += equal * weight;
        if (goal >= 0.0f && above > 0.0f) {
            last = i;
            last_end = stop;
            last_quota = quota;
            if (passed + above > goal)
                break;
        }
        passed += above;
        quota -= equal;
        i = stop;
    }
    if (goal >= 0.0f)
        *sampled = pick(r, last, last_end, t, last_quota, goal - passed);
    return passed;
}

#ifdef WITH_SCORES
#define SCORE_PARAMETERS TFM_INPUT(int, sources), TFM_TENSOR(float, values), TFM_TENSOR(float, lse),
#define STREAM(row) TFM_AT(streams)[TFM_AT(sources)[row]]
#else
#define SCORE_PARAMETERS
#define STREAM(row) (streams != 0 ? TFM_AT(streams)[row] : (row))
#endif

#ifdef PER_ROW
TFM_KERNEL void sample(TFM_TENSOR(int, ids), TFM_INPUT(float, logits), TFM_INPUT(float, settings),
                       TFM_INPUT(int, numbers), const long rows, const long n) {
    TFM_SCRATCH
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    __global const float *setting = TFM_AT(settings) + row * 4;
    __global const int *number = TFM_AT(numbers) + row * 5;
    __global float *const probabilities = 0;
    const long probabilities_offset = 0, k = (long)setting[0];
    const float p = setting[1], min_p_distance = setting[2], inv_temperature = setting[3];
    const ulong seed = (uint)number[1] | (ulong)(uint)number[2] << 32;
    const ulong counter = (uint)number[3] | (ulong)(uint)number[4] << 32;
    const uint stream = (uint)number[0];
#else
TFM_KERNEL void sample(TFM_TENSOR(int, ids), TFM_TENSOR(float, probabilities), TFM_INPUT(float, logits),
                       TFM_INPUT(int, streams), SCORE_PARAMETERS const long rows, const long n, const long k,
                       const float p, const float min_p_distance, const float inv_temperature, const long seed,
                       const long counter) {
    TFM_SCRATCH
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    const uint stream = (uint)STREAM(row);
#endif
    row_logits full = {TFM_AT(logits) + row * n, n, -INFINITY, inv_temperature};
    full.maximum = maximum_of(full.x, n SCRATCH_ARG);
    const row_logits *r = &full;
    if (full.maximum == -INFINITY) {
        if (TFM_LOCAL_ID() == 0) {
            TFM_AT(ids)[row] = -1;
            if (probabilities != 0)
                TFM_AT(probabilities)[row] = 0.0f;
#ifdef WITH_SCORES
            TFM_AT(values)[row] = TFM_AT(lse)[row] = -INFINITY;
#endif
        }
        return;
    }
#if defined(PER_ROW) && TFM_GROUP == 1
    if (k == 1) { /* as below, in half a pass */
        long i = 0;
        while (full.x[i] != full.maximum)
            i++;
        TFM_AT(ids)[row] = (int)i;
        return;
    }
#endif
#ifdef WITH_SCORES
    const float exps = exp_sum(&full SCRATCH_ARG);
    if (TFM_LOCAL_ID() == 0)
        TFM_AT(lse)[row] = full.maximum == INFINITY ? INFINITY : full.maximum + log(exps);
#endif

    /* Top k, then top p of those, then min p. The three are iterations of one loop, so that the bisection is compiled
     * once. */
    const int greedy = k == 1;
    float t = greedy ? full.maximum : -FLT_MAX, quota = greedy ? 1.0f : (float)n, goal = 0.0f;
    const int stages = greedy ? 0 : min_p_distance < INFINITY ? 3 : p < 1.0f ? 2 : k < n ? 1 : 0;
    for (int stage = 0; stage < stages; stage += p < 1.0f ? 1 : 2) {
        const int searched = stage == 0 ? k < n : stage == 1;
        const float low = stage == 2 ? fmax(full.maximum - min_p_distance, t) : t;
        const cutoff cut =
            find_threshold(r, low, searched ? full.maximum : low, stage == 0 ? (float)k : goal, stage SCRATCH_ARG);
        const float weight = WEIGHT(float, cut.t);
        if (stage == 0) {
            quota = fmin(fmax((float)k - cut.above, 0.0f), cut.equal);
            goal = p * (cut.weight_above + (quota > 0.0f ? quota * weight : 0.0f));
        } else {
            const float equal = cut.t > t ? cut.equal : quota, missing = ceil((goal - cut.weight_above) / weight);
            quota = searched && weight > 0.0f ? fmin(fmax(missing, cut.above > 0.0f ? 0.0f : 1.0f), equal) : equal;
        }
        t = cut.t;
    }

    /* Each item's share: its part of the quota, its weight, and, if it contains the sample, the index. */
    const long share = (n + TFM_STEP - 1) / TFM_STEP * TFM_WIDTH, begin = min(TFM_LOCAL_ID() * share, n);
    const long end = min(begin + share, n);
    float own = 0.0f, total;
    for (long i = begin; i < end; i++)
        own += full.x[i] == t ? 1.0f : 0.0f;
    quota = fmin(fmax(quota - exclusive_sum(own, &total SCRATCH_ARG), 0.0f), own);
    long sampled = -1;
    own = scan_share(r, begin, end, t, quota, -1.0f, &sampled);
    const float before = exclusive_sum(own, &total SCRATCH_ARG);
    const uint word = philox((ulong)seed, (ulong)counter, stream);
    const float place = (float)(word >> 8) * 0x1p-24f * total;
    /* One condition and no return: unoptimized, PoCL 3.1 ends its loop over the work-items at a && or || here. */
    const int chosen = (place >= before) & (place < before + own);
    if (chosen) {
        /* Clamped at 0: place may be `before`, and the compiler fuse the multiplication with the subtraction. */
        scan_share(r, begin, end, t, quota, fmax(place - before, 0.0f), &sampled);
        TFM_AT(ids)[row] = (int)sampled;
#ifdef WITH_SCORES
        TFM_AT(values)[row] = full.x[sampled];
#endif
        if (probabilities != 0)
            TFM_AT(probabilities)[row] = WEIGHT(float, full.x[sampled]) / total;
    }
}
