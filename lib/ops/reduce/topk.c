/* The k largest of each row: cl/reduce/topk.cl. */
#include <inttypes.h>
#include <math.h>
#include "ops/selftest/selftest.h"
#include "ops/autograd/tape.h"
#include "ops/reduce/topk.h"

int64_t tfm__topk_split_count(const tfm_context *ctx, int64_t rows, int64_t n) {
    enum { MOST_PARTS = 64 };
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    if (tuning->split_min_logits == 0 || rows < 1)
        return 1;
    const int64_t units = tfm_context_device(ctx)->compute_units, most = n / tuning->split_min_logits;
    int64_t parts = tfm__ceil_div((units > 0 ? units : 1) * tuning->split_workgroups, rows);
    parts = parts > most ? most : parts;
    return parts > MOST_PARTS ? MOST_PARTS : parts > 1 ? parts : 1;
}

tfm_status tfm__topk_split(tfm_context *ctx, tfm_tensor *values, tfm_tensor *indices, tfm_tensor *max_and_sum,
                           tfm_tensor x, int k, int64_t parts) {
    const int64_t rows = x.dims[0], n = x.dims[1], group = tfm__context_tuning(ctx)->group;
    const int64_t length = tfm__ceil_div(tfm__ceil_div(n, parts), group) * group;
    tfm_tensor_new(ctx, values, TFM_F32, 3, (int64_t[]){rows, parts, k});
    tfm_tensor_new(ctx, indices, TFM_I32, 3, (int64_t[]){rows, parts, k});
    tfm_tensor_new(ctx, max_and_sum, TFM_F32, 3, (int64_t[]){rows, parts, 2});
    return tfm__launch(ctx, tfm__kernel_get(ctx, "topk", "topk_split", "-DSPLIT"), tfm__row_grid(ctx, rows * parts),
                       TFM__ARGS(TFM__T_AS("values", *values), TFM__T_AS("indices", *indices),
                                 TFM__T_AS("max_and_sum", *max_and_sum), TFM__T(x), TFM__I(rows), TFM__I(n), TFM__I(k),
                                 TFM__I(parts), TFM__I(length)));
}

/* The same by one work-group a row. */
static tfm_status topk_in_parts(tfm_context *ctx, tfm_tensor values, tfm_tensor indices, tfm_tensor lse, tfm_tensor x,
                                int k, int64_t parts) {
    const int64_t rows = x.dims[0], n = x.dims[1];
    tfm_tensor found_values = {0}, found_indices = {0}, max_and_sum = {0};
    tfm_scope_open(ctx);
    tfm__topk_split(ctx, &found_values, &found_indices, &max_and_sum, x, k, parts);
    tfm__launch(ctx, tfm__kernel_get(ctx, "topk", "topk_merge", "-DSPLIT"), tfm__row_grid(ctx, rows),
                TFM__ARGS(TFM__T(values), TFM__T(indices), TFM__T(lse), TFM__T(found_values), TFM__T(found_indices),
                          TFM__T(max_and_sum), TFM__T(x), TFM__I(rows), TFM__I(n), TFM__I(k), TFM__I(parts),
                          TFM__I_AS("summed", lse.buffer != NULL)));
    return tfm_scope_close(ctx, 0, NULL);
}

tfm_status tfm_topk(tfm_context *ctx, tfm_tensor *values, tfm_tensor *indices, tfm_tensor *lse, tfm_tensor x, int k) {
    if (TFM__OP_BEGIN(ctx, "topk", "4", x) != TFM_OK || TFM__TAPE_NO_BACKWARD(ctx, "topk", x) != TFM_OK)
        return tfm_context_status(ctx);
    if (x.rank != 2)
        return tfm__op_error(ctx, "topk", "x is %s, not (R, N)", TFM__SHAPE(x));
    const int64_t rows = x.dims[0], n = x.dims[1];
    if (k < 1 || k > 64 || k > n || n > INT32_MAX)
        return tfm__op_error(ctx, "topk", "the %d largest of x %s: k must be from 1 to 64 and at most N", k,
                             TFM__SHAPE(x));
    if (lse && x.dtype != TFM_F32)
        return tfm__op_error(ctx, "topk", "x is %s: only F32 has a log sum", TFM__SHAPE(x));
    const int64_t dims[] = {rows, k};
    if (tfm__op_output(ctx, "topk", values, x.dtype, 2, dims) != TFM_OK ||
        tfm__op_output(ctx, "topk", indices, TFM_I32, 2, dims) != TFM_OK ||
        (lse && tfm__op_output(ctx, "topk", lse, TFM_F32, 1, dims) != TFM_OK))
        return tfm_context_status(ctx);
    const bool vectors = tfm__context_tuning(ctx)->width > 1;
    const tfm_tensor none = {0}, sums = lse ? *lse : none;
    if (TFM__OP_NO_OVERLAP(ctx, "topk", x, *values, *indices, sums) != TFM_OK ||
        TFM__OP_NO_OVERLAP(ctx, "topk", *values, *indices, sums) != TFM_OK ||
        TFM__OP_NO_OVERLAP(ctx, "topk", *indices, sums) != TFM_OK)
        return tfm_context_status(ctx);
    if (x.dtype == TFM_I32)
        return tfm__launch(ctx, tfm__kernel_get(ctx, "topk", "topk_i32", "-DI32"), tfm__row_grid(ctx, rows),
                           TFM__ARGS(TFM__T_AS("values", *values), TFM__T_AS("indices", *indices), TFM__T(x),
                                     TFM__I(rows), TFM__I(n), TFM__I(k)));
    const int64_t parts = tfm__topk_split_count(ctx, rows, n);
    if (parts > 1)
        return topk_in_parts(ctx, *values, *indices, sums, x, k, parts);
    tfm__kernel *kernel = tfm__kernel_get(ctx, "topk", vectors ? "topk_cpu" : "topk_gpu", "%s", "");
    return tfm__launch(ctx, kernel, tfm__row_grid(ctx, rows),
                       TFM__ARGS(TFM__T_AS("values", *values), TFM__T_AS("indices", *indices), TFM__T_AS("lse", sums),
                                 TFM__T(x), TFM__I(rows), TFM__I(n), TFM__I(k), TFM__I_AS("summed", lse != NULL)));
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

/* `number` entries a row. */
static void check(tfm__check *c) {
    const int64_t rows = 3, n = c->number;
    const int k = 8;
    float *x;
    tfm_tensor values = {0}, indices = {0}, lse = {0}, tx = RANDOM_FLOATS(x, rows, n);
    double *want = EXPECTED(rows * k), *want_sum = EXPECTED(rows);
    int32_t *order = tfm__check_alloc(c, (size_t)(rows * k), sizeof(*order));
    for (int64_t r = 0; tfm__check_ready(c) && r < rows; r++) {
        for (int64_t i = 0; i < n; i++)
            want_sum[r] += exp((double)x[r * n + i]);
        want_sum[r] = log(want_sum[r]);
        for (int64_t i = 0; i < n; i++) { /* number of larger entries */
            int64_t rank = 0;
            for (int64_t j = 0; j < n && rank < k; j++)
                rank += x[r * n + j] > x[r * n + i] || (x[r * n + j] == x[r * n + i] && j < i);
            if (rank < k) {
                want[r * k + rank] = (double)x[r * n + i];
                order[r * k + rank] = (int32_t)i;
            }
        }
    }
    tfm_topk(c->ctx, &values, &indices, &lse, tx, k);
    tfm__check_compare(c, values, want);
    tfm__check_compare(c, lse, want_sum);
    tfm__check_compare_ints(c, indices, order);
}

const tfm__check_entry tfm__selftest_topk[] = {
    {"topk", "", check, 333},
    {"topk", "long rows", check, 40000}, /* shared by several work-groups */
    {0},
};
