/* y (rows, k): y[i][j] = x[i][columns[j]], the input of a block-quantized matrix whose columns are in another order.
 * Layout: TFM_GROUP items share a row. */
TFM_KERNEL void quant_columns(TFM_TENSOR(float, y), TFM_INPUT(float, x), TFM_INPUT(int, columns), const long rows,
                              const long k) {
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    for (long j = TFM_LOCAL_ID(); j < k; j += TFM_GROUP)
        TFM_AT(y)[row * k + j] = TFM_AT(x)[row * k + TFM_AT(columns)[j]];
}
