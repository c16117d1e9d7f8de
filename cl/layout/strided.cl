#ifdef ADD
#define STORE(v, p) tfm_store(tfm_load(p) + (v), p)
#define STORE_ONE(v, p) (*(p) += (v))
#else
#define STORE(v, p) tfm_store(v, p)
#define STORE_ONE(v, p) (*(p) = (v))
#endif

/* y = x at every element of the iteration, of one, two or four bytes: -DELEMENT is an integer type, which preserves the
 * bits of NaN. The strides are those of y and x; they may be negative. With -DADD, and -DELEMENT=float, x is
 * accumulated to y, for backward passes.
 *
 * Layout: a work-item takes TFM_CHUNK elements; runs that are contiguous in both are copied as vectors. */
TFM_KERNEL void strided(TFM_TENSOR(ELEMENT, y), TFM_INPUT(ELEMENT, x), const tfm_iter iter) {
    const long y_step = TFM_STRIDES(iter, 0)[TFM_ITER_LAST], x_step = TFM_STRIDES(iter, 1)[TFM_ITER_LAST];
    tfm_run run;
    for (tfm_run_first(&run, &iter, TFM_ELEMENT(), TFM_CHUNK); run.count > 0; tfm_run_next(&run, &iter)) {
        __global ELEMENT *out = TFM_AT(y) + tfm_run_offset(&run, TFM_STRIDES(iter, 0));
        __global const ELEMENT *in = TFM_AT(x) + tfm_run_offset(&run, TFM_STRIDES(iter, 1));
        long c = 0;
        if (y_step == 1 && x_step == 1) {
            for (; c + TFM_WIDTH <= run.count; c += TFM_WIDTH)
                STORE(tfm_load(in + c), out + c);
            for (; c < run.count; c++)
                STORE_ONE(in[c], out + c);
        } else {
            for (; c < run.count; c++)
                STORE_ONE(in[c * x_step], out + c * y_step);
        }
    }
}

#if TFM_WIDTH > 1 && !defined(TFM_VEC4)
/* The same if y is contiguous along dim 4 and x along dim 3, as in a transpose: element by element every read would
 * touch another cache line, and lose it before its neighbor is read.
 *
 * Layout: one work-item for a tile of TFM_WIDTH x TFM_WIDTH, read as vectors along dim 3, transposed in private memory,
 * written as vectors along dim 4; edge tiles go element by element. `tiles` = number of tiles, along dim 4 first. */
TFM_KERNEL void strided_transpose(TFM_TENSOR(ELEMENT, y), TFM_INPUT(ELEMENT, x), const long tiles,
                                  const tfm_iter iter) {
    const long tile = TFM_ROW(), across = iter.dims[3], along = iter.dims[4];
    if (tile >= tiles)
        return;
    const long wide = (along + TFM_WIDTH - 1) / TFM_WIDTH, high = (across + TFM_WIDTH - 1) / TFM_WIDTH;
    const long outer = tile / (wide * high), c = tile % wide * TFM_WIDTH, r = tile / wide % high * TFM_WIDTH;
    const long y_step = TFM_STRIDES(iter, 0)[3], x_step = TFM_STRIDES(iter, 1)[4];
    const long i1 = outer / iter.dims[2];
    const tfm_run start = {.index = {i1 / iter.dims[1], i1 % iter.dims[1], outer % iter.dims[2], r, c}};
    __global ELEMENT *out = TFM_AT(y) + tfm_run_offset(&start, TFM_STRIDES(iter, 0));
    __global const ELEMENT *in = TFM_AT(x) + tfm_run_offset(&start, TFM_STRIDES(iter, 1));
    const long rows = min(across - r, (long)TFM_WIDTH), columns = min(along - c, (long)TFM_WIDTH);
    if (rows < TFM_WIDTH || columns < TFM_WIDTH) {
        for (long k = 0; k < rows; k++)
            for (long i = 0; i < columns; i++)
                STORE_ONE(in[i * x_step + k], out + k * y_step + i);
        return;
    }
    ELEMENT square[TFM_WIDTH][TFM_WIDTH];
    for (int i = 0; i < TFM_WIDTH; i++)
        tfm_store(tfm_load(in + i * x_step), square[i]);
    for (int k = 0; k < TFM_WIDTH; k++) {
        ELEMENT line[TFM_WIDTH];
        for (int i = 0; i < TFM_WIDTH; i++)
            line[i] = square[i][k];
        STORE(tfm_load(line), out + k * y_step);
    }
}
#endif
