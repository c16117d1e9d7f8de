#ifdef ADD
#define PUT(v, p) tfm_store(tfm_load(p) + (v), p)
#define PUT_ONE(v, p) (*(p) += (v))
#else
#define PUT(v, p) tfm_store(v, p)
#define PUT_ONE(v, p) (*(p) = (v))
#endif

/* y[sum i_k to_k] = x[sum i_k from_k] for all (i0, ..., i4) of a grid of n = d0 d1 d2 d3 d4 places, any element of one,
 * two or four bytes: -DELEMENT is an integer type, so that no bit of a NaN is touched. Strides may be negative. With
 * -DADD, and -DELEMENT=float, x is added to what is in y, for backward passes.
 *
 * Layout: a work-item takes TFM_CHUNK places in row-major order. It finds its first place by division and goes on by
 * carrying, a run along the last dimension at a time; runs that are contiguous in both are moved by vectors. */
TFM_KERNEL void strided(TFM_TENSOR(ELEMENT, y), TFM_INPUT(ELEMENT, x), const long n, const long d1, const long d2,
                        const long d3, const long d4, const long to0, const long to1, const long to2, const long to3,
                        const long to4, const long from0, const long from1, const long from2, const long from3,
                        const long from4) {
    long i = TFM_ELEMENT();
    const long end = min(i + TFM_CHUNK, n);
    if (i >= end)
        return;
    tfm_place p = tfm_place_at(i, d1, d2, d3, d4);
    while (i < end) {
        const long run = min(d4 - p.i4, end - i);
        __global ELEMENT *out = TFM_AT(y) + TFM_PLACE(p, to);
        __global const ELEMENT *in = TFM_AT(x) + TFM_PLACE(p, from);
        if (to4 == 1 && from4 == 1) {
            long c = 0;
            for (; c + TFM_WIDTH <= run; c += TFM_WIDTH)
                PUT(tfm_load(in + c), out + c);
            for (; c < run; c++)
                PUT_ONE(in[c], out + c);
        } else {
            for (long c = 0; c < run; c++)
                PUT_ONE(in[c * from4], out + c * to4);
        }
        i += run;
        tfm_place_next_run(&p, d1, d2, d3);
    }
}

#if TFM_WIDTH > 1 && !defined(TFM_FOURS)
/* The same where y is contiguous along dim 4 and x along another, `across` = dim j, as in a transpose: element by
 * element every read would touch another cache line, and lose it before its neighbour is wanted. d0, d1, d2 are the
 * other dims.
 *
 * Layout: one work-item for a tile of TFM_WIDTH x TFM_WIDTH, read by vectors along j, turned in private memory, written
 * by vectors along dim 4; tiles at the edges go by elements. `tiles` = number of tiles, along dim 4 first. */
TFM_KERNEL void strided_turn(TFM_TENSOR(ELEMENT, y), TFM_INPUT(ELEMENT, x), const long tiles, const long along,
                             const long across, const long d1, const long d2, const long to0, const long to1,
                             const long to2, const long to_across, const long from0, const long from1, const long from2,
                             const long from_along) {
    const long tile = TFM_ROW();
    if (tile >= tiles)
        return;
    const long wide = (along + TFM_WIDTH - 1) / TFM_WIDTH, high = (across + TFM_WIDTH - 1) / TFM_WIDTH;
    const long outer = tile / (wide * high), c = tile % wide * TFM_WIDTH, r = tile / wide % high * TFM_WIDTH;
    const long i2 = outer % d2, i1 = outer / d2 % d1, i0 = outer / d2 / d1;
    __global ELEMENT *out = TFM_AT(y) + i0 * to0 + i1 * to1 + i2 * to2 + r * to_across + c;
    __global const ELEMENT *in = TFM_AT(x) + i0 * from0 + i1 * from1 + i2 * from2 + c * from_along + r;
    const long rows = min(across - r, (long)TFM_WIDTH), columns = min(along - c, (long)TFM_WIDTH);
    if (rows < TFM_WIDTH || columns < TFM_WIDTH) {
        for (long k = 0; k < rows; k++)
            for (long i = 0; i < columns; i++)
                PUT_ONE(in[i * from_along + k], out + k * to_across + i);
        return;
    }
    ELEMENT square[TFM_WIDTH][TFM_WIDTH];
    for (int i = 0; i < TFM_WIDTH; i++)
        tfm_store(tfm_load(in + i * from_along), square[i]);
    for (int k = 0; k < TFM_WIDTH; k++) {
        ELEMENT line[TFM_WIDTH];
        for (int i = 0; i < TFM_WIDTH; i++)
            line[i] = square[i][k];
        PUT(tfm_load(line), out + k * to_across);
    }
}
#endif
