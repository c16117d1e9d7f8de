/* y[i0, ...] = x[i0, ..., indices[i0, ...], ...]: elements of x (of any four-byte type) by index along one dimension,
 * with `count` elements of x, `step` apart. Negative indices count from the end, and one out of range gives 0. The
 * strides are those of y and the indices, and of x, 0 along the indexed dimension.
 *
 * Layout: a work-item takes TFM_CHUNK elements of y. */

/* Not long: an int converted to long compares as positive with 0 on llvmpipe (Mesa 22.3). */
static inline int normalize_index(const int index, const int count) {
    const int place = index < 0 ? index + count : index;
    return place < 0 || place >= count ? -1 : place;
}

TFM_KERNEL void gather_elements(TFM_TENSOR(int, y), TFM_INPUT(int, x), TFM_INPUT(int, indices), const long count,
                                const long step, const tfm_iter iter) {
    const long x_step = TFM_STRIDES(iter, 1)[TFM_ITER_LAST];
    tfm_run run;
    for (tfm_run_first(&run, &iter, TFM_ELEMENT(), TFM_CHUNK); run.count > 0; tfm_run_next(&run, &iter)) {
        __global const int *in = TFM_AT(x) + tfm_run_offset(&run, TFM_STRIDES(iter, 1));
        for (long k = 0; k < run.count; k++) {
            const int place = normalize_index(TFM_AT(indices)[run.first + k], (int)count);
            TFM_AT(y)[run.first + k] = place < 0 ? 0 : in[place * step + k * x_step];
        }
    }
}

/* dx += dy at the same elements. The strides are those of dy and the indices, and of dx. The indexed dimension is not
 * iterated over; dy has `taken` elements along it, `from_step` apart.
 *
 * Layout: a work-item takes `lines` lines along that dimension. No two lines share an element of dx, so additions are
 * in order and need no atomics. */
TFM_KERNEL void gather_elements_backward(TFM_TENSOR(float, dx), TFM_INPUT(float, dy), TFM_INPUT(int, indices),
                                         const long count, const long step, const long taken, const long from_step,
                                         const long lines, const tfm_iter iter) {
    const long dy_step = TFM_STRIDES(iter, 0)[TFM_ITER_LAST], dx_step = TFM_STRIDES(iter, 1)[TFM_ITER_LAST];
    const long first = TFM_ELEMENT() / TFM_CHUNK * lines;
    tfm_run run;
    for (tfm_run_first(&run, &iter, first, lines); run.count > 0; tfm_run_next(&run, &iter)) {
        const long from = tfm_run_offset(&run, TFM_STRIDES(iter, 0)), to = tfm_run_offset(&run, TFM_STRIDES(iter, 1));
        for (long r = 0; r < taken; r++)
            for (long k = 0; k < run.count; k++) {
                const long at = from + r * from_step + k * dy_step;
                const int place = normalize_index(TFM_AT(indices)[at], (int)count);
                if (place >= 0)
                    TFM_AT(dx)[to + place * step + k * dx_step] += TFM_AT(dy)[at];
            }
    }
}
