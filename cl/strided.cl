/* y[sum i_k to_k] = x[sum i_k from_k] for all (i0, ..., i4) of a grid of n = d0 d1 d2 d3 d4 places, any element of one,
 * two or four bytes: -DELEMENT is an integer type, so that no bit of a NaN is touched. Strides may be negative.
 *
 * Layout: one work-item for TFM_CHUNK places in row-major order. It finds its first place by division and goes on by
 * carrying, a run along the last dimension at a time; runs that are contiguous in both are moved by vectors. */
TFM_KERNEL void strided(TFM_TENSOR(ELEMENT, y), TFM_INPUT(ELEMENT, x), const long n, const long d1, const long d2,
                        const long d3, const long d4, const long to0, const long to1, const long to2,
                        const long to3, const long to4, const long from0, const long from1, const long from2,
                        const long from3, const long from4) {
    long i = TFM_ELEMENT();
    const long end = min(i + TFM_CHUNK, n);
    if (i >= end)
        return;
    long rest = i / d4, i4 = i - rest * d4;
    long i3 = rest % d3;
    rest /= d3;
    long i2 = rest % d2;
    rest /= d2;
    long i1 = rest % d1, i0 = rest / d1;
    while (i < end) {
        const long run = min(d4 - i4, end - i);
        __global ELEMENT *out = TFM_AT(y) + i0 * to0 + i1 * to1 + i2 * to2 + i3 * to3 + i4 * to4;
        __global const ELEMENT *in = TFM_AT(x) + i0 * from0 + i1 * from1 + i2 * from2 + i3 * from3 + i4 * from4;
        if (to4 == 1 && from4 == 1) {
            long c = 0;
            for (; c + TFM_WIDTH <= run; c += TFM_WIDTH)
                tfm_store(tfm_load(in + c), out + c);
            for (; c < run; c++)
                out[c] = in[c];
        } else {
            for (long c = 0; c < run; c++)
                out[c * to4] = in[c * from4];
        }
        i += run;
        i4 = 0;
        if (++i3 == d3) {
            i3 = 0;
            if (++i2 == d2) {
                i2 = 0;
                if (++i1 == d1) {
                    i1 = 0;
                    i0++;
                }
            }
        }
    }
}
