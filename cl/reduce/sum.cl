/* Sums over the middle dimension of x (outer, rows, inner), in an order that depends on the shape alone.
 *
 * Long sums take two launches of the same kernel: first over `chunk` rows each, to (outer, chunks, inner), then over
 * the chunks. Accumulated to y if `add` is not 0. */

/* y (outer, chunks, inner), y[o][c][i] = sum of x[o][r][i] over the rows r of chunk c. */
typedef struct column_sums {
    __global float *y;
    __global const float *x;
    long inner;
    int add;
} column_sums;

/* Columns that do not fill a vector go one by one. */
static void sum_item(const column_sums sums, const long item, const long rows, const long chunk, const long chunks) {
    const long inner = sums.inner, blocks = (inner + TFM_STEP - 1) / TFM_STEP;
    const long block = item % blocks, c = item / blocks % chunks, o = item / (blocks * chunks);
    const long first = TFM_COLUMN(block);
    if (first >= inner)
        return;
    const long begin = c * chunk, end = min(begin + chunk, rows);
    __global const float *in = sums.x + (o * rows + begin) * inner + first;
    __global float *out = sums.y + (o * chunks + c) * inner + first;
    if (first + TFM_WIDTH <= inner) {
        tfm_vec s = (tfm_vec)(0.0f);
        for (long r = begin; r < end; r++, in += inner)
            s += tfm_load(in);
        tfm_store(sums.add ? tfm_load(out) + s : s, out);
        return;
    }
    for (long i = 0; i < inner - first; i++) {
        float s = 0.0f;
        for (long r = 0; r < end - begin; r++)
            s += in[r * inner + i];
        out[i] = sums.add ? out[i] + s : s;
    }
}

/* Sums of x, and after its `items`, in the same launch, those of x2, with as many rows.
 *
 * Layout: a work-item takes TFM_WIDTH adjacent columns of one chunk, a work-group TFM_GROUP such vectors. */
TFM_KERNEL void sum_columns(TFM_TENSOR(float, y), TFM_INPUT(float, x), const long inner, const long add,
                            TFM_TENSOR(float, y2), TFM_INPUT(float, x2), const long inner2, const long add2,
                            const long rows, const long chunk, const long chunks, const long items, const long items2) {
    const long item = TFM_ROW();
    if (item < items) {
        const column_sums sums = {TFM_AT(y), TFM_AT(x), inner, (int)add};
        sum_item(sums, item, rows, chunk, chunks);
    } else if (item < items + items2) {
        const column_sums sums = {TFM_AT(y2), TFM_AT(x2), inner2, (int)add2};
        sum_item(sums, item - items, rows, chunk, chunks);
    }
}

/* The same for inner = 1: y (outer), each the sum of a row of x (outer, rows). TFM_GROUP work-items share a row. */
TFM_KERNEL void sum_rows(TFM_TENSOR(float, y), TFM_INPUT(float, x), const long outer, const long rows, const long add) {
    TFM_SCRATCH
    const long o = TFM_ROW();
    if (o >= outer)
        return;
    __global const float *in = TFM_AT(x) + o * rows;
    __global float *out = TFM_AT(y) + o;
    tfm_vec sums = (tfm_vec)(0.0f);
    for (long i = TFM_LOCAL_ID() * TFM_WIDTH; i + TFM_WIDTH <= rows; i += TFM_STEP)
        sums += tfm_load(in + i);
    float lane = tfm_vec_sum(sums);
    for (long i = rows - rows % TFM_WIDTH + TFM_LOCAL_ID(); i < rows; i += TFM_GROUP)
        lane += in[i];
    const float sum = tfm_group_sum(lane);
    if (TFM_LOCAL_ID() == 0)
        *out = add ? *out + sum : sum;
}
