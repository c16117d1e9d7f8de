/* y[i0, ...] = x[i0, ..., indices[i0, ...], ...]: elements of x (of any four-byte type) by their index along one
 * dimension, along which x has `count` elements, `step` apart. An index below 0 counts from the end, and one outside
 * gives 0.
 *
 * Layout: a work-item takes TFM_CHUNK elements of y. It finds the first by division and goes on in runs along the last
 * dimension. Strides a are those of x, 0 along the dimension that is indexed. */

/* No long: compared with 0, an int made long is positive on llvmpipe (Mesa 22.3). */
static inline int place_of(const int index, const int count) {
    const int place = index < 0 ? index + count : index;
    return place < 0 || place >= count ? -1 : place;
}

TFM_KERNEL void gather_elements(TFM_TENSOR(int, y), TFM_INPUT(int, x), TFM_INPUT(int, indices), const long count,
                                const long step, const long n, const long d1, const long d2, const long d3,
                                const long d4, const long a0, const long a1, const long a2, const long a3,
                                const long a4) {
    long i = TFM_ELEMENT();
    const long end = min(i + TFM_CHUNK, n);
    if (i >= end)
        return;
    tfm_place p = tfm_place_at(i, d1, d2, d3, d4);
    while (i < end) {
        const long run = min(d4 - p.i4, end - i);
        __global const int *in = TFM_AT(x) + TFM_PLACE(p, a);
        for (long k = 0; k < run; k++) {
            const int place = place_of(TFM_AT(indices)[i + k], (int)count);
            TFM_AT(y)[i + k] = place < 0 ? 0 : in[place * step + k * a4];
        }
        i += run;
        tfm_place_next_run(&p, d1, d2, d3);
    }
}

/* dx += dy at the same places. Strides a are those of dy and of the indices, b are those of dx. The dimension that is
 * indexed is not walked; dy has `taken` elements along it, `from_step` apart.
 *
 * Layout: a work-item takes `lines` lines along that dimension. No two lines share an element of dx, so that elements
 * are added in order and without atomics. */
TFM_KERNEL void gather_elements_backward(TFM_TENSOR(float, dx), TFM_INPUT(float, dy), TFM_INPUT(int, indices),
                                         const long count, const long step, const long taken, const long from_step,
                                         const long lines, const long n, const long d1, const long d2, const long d3,
                                         const long d4, const long a0, const long a1, const long a2, const long a3,
                                         const long a4, const long b0, const long b1, const long b2, const long b3,
                                         const long b4) {
    long i = TFM_ELEMENT() / TFM_CHUNK * lines;
    const long end = min(i + lines, n);
    if (i >= end)
        return;
    tfm_place p = tfm_place_at(i, d1, d2, d3, d4);
    while (i < end) {
        const long run = min(d4 - p.i4, end - i);
        const long from = TFM_PLACE(p, a), to = TFM_PLACE(p, b);
        for (long r = 0; r < taken; r++)
            for (long k = 0; k < run; k++) {
                const long at = from + r * from_step + k * a4;
                const int place = place_of(TFM_AT(indices)[at], (int)count);
                if (place >= 0)
                    TFM_AT(dx)[to + place * step + k * b4] += TFM_AT(dy)[at];
            }
        i += run;
        tfm_place_next_run(&p, d1, d2, d3);
    }
}
