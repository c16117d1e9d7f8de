/* y (rows, padded): y[i][j] = x[i][columns[j]] if there are `columns`, else x[i][j]; 0 from k on. The input of a
 * block-quantized matrix whose columns are in another order, or do not fill the last block.
 *
 * Layout: TFM_GROUP items share a row. */
TFM_KERNEL void quant_columns(TFM_TENSOR(float, y), TFM_INPUT(float, x), TFM_INPUT(int, columns), const long rows,
                              const long k, const long padded) {
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    for (long j = TFM_LOCAL_ID(); j < padded; j += TFM_GROUP)
        TFM_AT(y)[row * padded + j] = j < k ? TFM_AT(x)[row * k + (columns ? TFM_AT(columns)[j] : j)] : 0.0f;
}
