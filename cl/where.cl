/* y = a where c is not 0, else b, with dims that broadcast. Elements have one, two or four bytes; -DELEMENT is an
 * integer type of that size, so that no bit of a NaN is touched.
 *
 * Layout: a work-item takes TFM_CHUNK elements of y. It finds the first by division and goes on in runs along the last
 * dimension, in which each input goes on (a stride of 1) or stays (0). y may be a or b if that has its dims. */
TFM_KERNEL void where(TFM_TENSOR(ELEMENT, y), TFM_INPUT(uchar, c), TFM_INPUT(ELEMENT, a), TFM_INPUT(ELEMENT, b),
                      const long n, const long d1, const long d2, const long d3, const long d4, const long a0,
                      const long a1, const long a2, const long a3, const long a4, const long b0, const long b1,
                      const long b2, const long b3, const long b4, const long c0, const long c1, const long c2,
                      const long c3, const long c4) {
    long i = TFM_ELEMENT();
    const long end = min(i + TFM_CHUNK, n);
    if (i >= end)
        return;
    tfm_place p = tfm_place_at(i, d1, d2, d3, d4);
    while (i < end) {
        const long run = min(d4 - p.i4, end - i);
        __global const uchar *choice = TFM_AT(c) + TFM_PLACE(p, c);
        __global const ELEMENT *left = TFM_AT(a) + TFM_PLACE(p, a), *right = TFM_AT(b) + TFM_PLACE(p, b);
        __global ELEMENT *out = TFM_AT(y) + i;
        for (long k = 0; k < run; k++)
            out[k] = choice[k * c4] ? left[k * a4] : right[k * b4];
        i += run;
        tfm_place_next_run(&p, d1, d2, d3);
    }
}
