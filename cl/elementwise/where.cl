/* y = a where c is not 0, else b, with broadcasting. Elements have one, two or four bytes; -DELEMENT is an integer type
 * of that size, which preserves the bits of NaN. The strides are those of y, a, b and c.
 *
 * Layout: a work-item takes TFM_CHUNK elements of y, in runs along which each input has a stride of 1 or 0. y may be a
 * or b if it has the same dims. */
TFM_KERNEL void where(TFM_TENSOR(ELEMENT, y), TFM_INPUT(uchar, c), TFM_INPUT(ELEMENT, a), TFM_INPUT(ELEMENT, b),
                      const tfm_iter iter) {
    const long a_step = TFM_STRIDES(iter, 1)[TFM_ITER_LAST], b_step = TFM_STRIDES(iter, 2)[TFM_ITER_LAST];
    const long c_step = TFM_STRIDES(iter, 3)[TFM_ITER_LAST];
    tfm_run run;
    for (tfm_run_first(&run, &iter, TFM_ELEMENT(), TFM_CHUNK); run.count > 0; tfm_run_next(&run, &iter)) {
        __global const uchar *choice = TFM_AT(c) + tfm_run_offset(&run, TFM_STRIDES(iter, 3));
        __global const ELEMENT *left = TFM_AT(a) + tfm_run_offset(&run, TFM_STRIDES(iter, 1));
        __global const ELEMENT *right = TFM_AT(b) + tfm_run_offset(&run, TFM_STRIDES(iter, 2));
        __global ELEMENT *out = TFM_AT(y) + run.first;
        for (long k = 0; k < run.count; k++)
            out[k] = choice[k * c_step] ? left[k * a_step] : right[k * b_step];
    }
}
