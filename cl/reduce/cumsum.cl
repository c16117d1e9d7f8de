/* Cumulative sums of x (outer, rows, inner) along its middle dimension: y[o, r, i] is the sum of x[o, 0 .. r, i].
 * `exclusive` leaves out x[o, r, i]; `reverse` starts at the other end. Accumulated to y if `add` is not 0. -DSCALAR is
 * float or uint, for wrapping integers, and -DVECTOR is TFM_WIDTH of them.
 *
 * Layout for inner > 1: work-items lie along `inner`, each with TFM_WIDTH columns that it sums from one end to the
 * other. */
TFM_KERNEL void cumsum_columns(TFM_TENSOR(SCALAR, y), TFM_INPUT(SCALAR, x), const long items, const long rows,
                               const long inner, const long blocks, const long exclusive, const long reverse,
                               const long add) {
    const long item = TFM_ROW();
    if (item >= items)
        return;
    const long first = TFM_COLUMN(item % blocks), o = item / blocks;
    const long begin = (o * rows + (reverse ? rows - 1 : 0)) * inner, step = reverse ? -inner : inner;
    long column = first;
    if (first + TFM_WIDTH <= inner) {
        VECTOR sum = (VECTOR)(0);
        for (long k = 0; k < rows; k++) {
            __global const SCALAR *in = TFM_AT(x) + begin + k * step + first;
            __global SCALAR *out = TFM_AT(y) + begin + k * step + first;
            const VECTOR before = sum;
            sum += tfm_load(in);
            const VECTOR v = exclusive ? before : sum;
            tfm_store(add ? tfm_load(out) + v : v, out);
        }
        return;
    }
    for (; column < inner; column++) { /* fewer than a vector: one by one */
        SCALAR sum = 0;
        for (long k = 0; k < rows; k++) {
            const long at = begin + k * step + column;
            const SCALAR before = sum;
            sum += TFM_AT(x)[at];
            const SCALAR v = exclusive ? before : sum;
            TFM_AT(y)[at] = add ? TFM_AT(y)[at] + v : v;
        }
    }
}

/* The same for inner = 1. Layout: a work-group takes a row, TFM_GROUP elements at a time: a parallel scan in local
 * memory in log2 TFM_GROUP steps, plus the sum of all earlier elements. A group of one item adds one element after the
 * other. Every item reaches every barrier, because PoCL 3.1 miscompiles loops of different lengths around one. */
TFM_KERNEL void cumsum_rows(TFM_TENSOR(SCALAR, y), TFM_INPUT(SCALAR, x), const long items, const long rows,
                            const long exclusive, const long reverse, const long add) {
#if TFM_GROUP > 1
    __local SCALAR sums[TFM_GROUP];
#endif
    const long o = TFM_ROW();
    if (o >= items)
        return;
    const int lane = (int)TFM_LOCAL_ID();
    __global const SCALAR *in = TFM_AT(x) + o * rows;
    __global SCALAR *out = TFM_AT(y) + o * rows;
    SCALAR before = 0;
    for (long first = 0; first < rows; first += TFM_GROUP) {
        const long k = first + lane, at = reverse ? rows - 1 - k : k;
        const SCALAR own = k < rows ? in[at] : (SCALAR)0;
#if TFM_GROUP > 1
        sums[lane] = own;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int step = 1; step < TFM_GROUP; step *= 2) {
            const SCALAR left = lane >= step ? sums[lane - step] : (SCALAR)0;
            barrier(CLK_LOCAL_MEM_FENCE);
            sums[lane] += left;
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        const SCALAR less = lane > 0 ? sums[lane - 1] : (SCALAR)0, more = sums[lane], all = sums[TFM_GROUP - 1];
#else
        const SCALAR less = 0, more = own, all = own;
#endif
        if (k < rows) {
            const SCALAR v = before + (exclusive ? less : more);
            out[at] = add ? out[at] + v : v;
        }
        before += all;
#if TFM_GROUP > 1
        barrier(CLK_LOCAL_MEM_FENCE); /* the sums have been read */
#endif
    }
}
