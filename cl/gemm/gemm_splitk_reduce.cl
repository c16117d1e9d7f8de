/* c (R, N) = activation(alpha sums[0] + alpha sums[1] + ... + addend), of `split_k` sums (R, N), always in this order.
 * Grid: tfm__vec4_grid of `count` = R N; with vectors of four, N is a multiple of four too. */
TFM_KERNEL void gemm_splitk_reduce(TFM_TENSOR(float, c), TFM_INPUT(float, sums), TFM_INPUT(float, addend),
                                   const long count, const long rows, const long n, const long split_k,
                                   const long addend_batch, const long addend_row, const long has_addend,
                                   const float alpha) {
    const long first = TFM_ELEMENT(), end = min(first + TFM_CHUNK, count);
    for (long i = first; i < end; i += TFM_WIDTH) {
        tfm_vec sum = tfm_load(TFM_AT(sums) + i), add = (tfm_vec)(0.0f);
        for (long part = 1; part < split_k; part++)
            sum += tfm_load(TFM_AT(sums) + part * count + i);
        if (has_addend) { /* 64-bit divisions are slow */
            const long row = i / n;
            add = tfm_load(TFM_AT(addend) + row / rows * addend_batch + row % rows * addend_row + (i - row * n));
        }
        tfm_store(tfm_activate_vec(tfm_fma((tfm_vec)(alpha), sum, add)), TFM_AT(c) + i);
    }
}
