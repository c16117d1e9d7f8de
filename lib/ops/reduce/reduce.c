/* Sum, mean, max and min over some of the dimensions: cl/reduce/reduce.cl. */
#include <math.h>
#include "ops/selftest/selftest.h"
#include "ops/autograd/tape.h"

/* The numbering of cl/reduce/reduce.cl. A mean is a sum divided by the rows. */
enum function { SUM, MAX, MIN, TIES, MEAN };

static const char *const NAMES[] = {
    [SUM] = "reduce_sum", [MAX] = "reduce_max", [MIN] = "reduce_min", [MEAN] = "reduce_mean"};

/* x viewed as (outer, rows, inner). */
typedef struct shape {
    int64_t outer, rows, inner;
} shape;

static tfm_status launch(tfm_context *ctx, int function, tfm_tensor y, tfm_tensor x, tfm_tensor extremum, shape s,
                         int64_t chunk, float divisor) {
    const int64_t chunks = s.rows > chunk ? tfm__ceil_div(s.rows, chunk) : 1, rows = s.rows, inner = s.inner;
    const int64_t blocks = inner == 1 ? 1 : tfm__column_blocks(ctx, inner), items = s.outer * chunks * blocks;
    if (inner == 1)
        return tfm__launch(ctx, tfm__kernel_get(ctx, "reduce", "reduce_rows", ""), tfm__row_grid(ctx, items),
                           TFM__ARGS(TFM__T(y), TFM__T(x), TFM__T(extremum), TFM__I(function), TFM__I(rows),
                                     TFM__I(chunk), TFM__I(chunks), TFM__I(items), TFM__F(divisor)));
    return tfm__launch(ctx, tfm__kernel_get(ctx, "reduce", "reduce_columns", ""), tfm__row_grid(ctx, items),
                       TFM__ARGS(TFM__T(y), TFM__T(x), TFM__T(extremum), TFM__I(function), TFM__I(rows), TFM__I(inner),
                                 TFM__I(blocks), TFM__I(chunk), TFM__I(chunks), TFM__I(items), TFM__F(divisor)));
}

/* One launch, or two for many rows: more parallelism and shorter sums. */
static tfm_status reduce(tfm_context *ctx, int function, tfm_tensor y, tfm_tensor x, tfm_tensor extremum, shape s,
                         float divisor) {
    if (s.rows == 1) /* one element each: a contiguous vector */
        s = (shape){1, 1, s.outer * s.inner};
    const int64_t chunk = s.inner == 1 ? 4096 : 64;
    tfm_tensor parts = {0};
    if (s.outer * s.inner == 0)
        return tfm_context_status(ctx);
    if (s.rows <= 2 * chunk)
        return launch(ctx, function, y, x, extremum, s, s.rows > 0 ? s.rows : 1, divisor);
    const shape less = {s.outer, tfm__ceil_div(s.rows, chunk), s.inner};
    tfm_scope_open(ctx);
    tfm_tensor_new(ctx, &parts, TFM_F32, 3, (int64_t[]){less.outer, less.rows, less.inner});
    launch(ctx, function, parts, x, extremum, s, chunk, 1);
    reduce(ctx, function == TIES ? SUM : function, y, parts, extremum, less, divisor);
    return tfm_scope_close(ctx, 0, NULL);
}

static float divisor_of(int function, shape s) {
    return function == MEAN ? (float)s.rows : 1;
}

static tfm_status backward(tfm_context *ctx, const tfm__record *record) {
    const int function = (int)record->ints[0] == MEAN ? SUM : (int)record->ints[0];
    const shape s = {record->ints[1], record->ints[2], record->ints[3]};
    const tfm__gradient dx = tfm__tape_grad_input(ctx, record, 0);
    const tfm_tensor dy = tfm__tape_grad_output(ctx, record, 0), x = record->saved[0], y = record->saved[1];
    const int64_t n = s.outer * s.rows * s.inner;
    tfm_tensor ties = {0};
    if (!dx.to.buffer)
        return tfm_context_status(ctx);
    tfm_scope_open(ctx);
    if (function != SUM) {
        tfm_tensor_new(ctx, &ties, TFM_F32, 2, (int64_t[]){s.outer, s.inner});
        reduce(ctx, TIES, ties, x, y, s, 1);
    }
    tfm__launch(ctx, tfm__kernel_get(ctx, "reduce", "reduce_backward", ""), tfm__element_grid(ctx, n),
                TFM__ARGS(TFM__T_AS("dx", dx.to), TFM__T(dy), TFM__T(x), TFM__T(y), TFM__T(ties), TFM__I(function),
                          TFM__I(n), TFM__I_AS("rows", s.rows), TFM__I_AS("inner", s.inner),
                          TFM__F_AS("divisor", divisor_of((int)record->ints[0], s)), TFM__I_AS("add", dx.add)));
    return tfm_scope_close(ctx, 0, NULL);
}

/* The axes as flags; an empty list means all. */
static tfm_status flag_axes(tfm_context *ctx, const char *op, bool *is_reduced, tfm_tensor x, const int *axes,
                            size_t count) {
    for (int i = 0; i < x.rank; i++)
        is_reduced[i] = count == 0;
    if (count > 0 && !axes)
        return tfm__op_error(ctx, op, "there are %zu axes, but the list of them is NULL", count);
    for (size_t i = 0; i < count; i++) {
        int axis = axes[i];
        if (tfm__op_axis(ctx, op, &axis, x) != TFM_OK)
            return tfm_context_status(ctx);
        if (is_reduced[axis])
            return tfm__op_error(ctx, op, "axis %d of %s is there twice", axis, TFM__SHAPE(x));
        is_reduced[axis] = true;
    }
    return TFM_OK;
}

/* x as (outer, rows, inner) if the reduced dims are adjacent, else false. */
static bool shape_of(shape *s, tfm_tensor x, const bool *is_reduced) {
    int state = 0; /* 0 before the reduced dims, 1 within, 2 after */
    *s = (shape){1, 1, 1};
    for (int i = 0; i < x.rank; i++) {
        if (x.dims[i] == 1)
            continue;
        if (is_reduced[i] && state == 2)
            return false;
        state = is_reduced[i] ? 1 : state == 1 ? 2 : state;
        *(state == 0 ? &s->outer : state == 1 ? &s->rows : &s->inner) *= x.dims[i];
    }
    return true;
}

static tfm_status reduce_axes(tfm_context *ctx, int function, tfm_tensor y, tfm_tensor x, const bool *is_reduced) {
    shape s;
    if (!shape_of(&s, x, is_reduced)) { /* move the reduced dims to the end, with a recorded op */
        int axes[TFM_MAX_RANK], place = 0;
        bool last[TFM_MAX_RANK];
        for (int pass = 0; pass < 2; pass++)
            for (int i = 0; i < x.rank; i++)
                if (is_reduced[i] == (pass == 1)) {
                    last[place] = pass == 1;
                    axes[place++] = i;
                }
        tfm_tensor permuted = {0};
        tfm_scope_open(ctx);
        if (tfm_permute(ctx, &permuted, x, axes) == TFM_OK)
            reduce_axes(ctx, function, y, permuted, last);
        return tfm_scope_close(ctx, 0, NULL);
    }
    const bool has_extremum = function == MAX || function == MIN;
    reduce(ctx, function == MEAN ? SUM : function, y, x, y, s, divisor_of(function, s));
    return tfm__tape_add(
        ctx, &(tfm__record){.op = NAMES[function],
                            .backward = backward,
                            .out = {y},
                            .in = {x},
                            .saved = {has_extremum ? x : (tfm_tensor){0}, has_extremum ? y : (tfm_tensor){0}},
                            .ints = {function, s.outer, s.rows, s.inner}});
}

static tfm_status begin(tfm_context *ctx, int function, tfm_tensor *y, tfm_tensor x, const int *axes, size_t count,
                        bool keep_dims) {
    const char *op = NAMES[function];
    bool is_reduced[TFM_MAX_RANK];
    int64_t dims[TFM_MAX_RANK] = {1};
    int rank = 0;
    if (TFM__OP_BEGIN(ctx, op, "0f", x) != TFM_OK || flag_axes(ctx, op, is_reduced, x, axes, count) != TFM_OK)
        return tfm_context_status(ctx);
    for (int i = 0; i < x.rank; i++)
        if (!is_reduced[i] || keep_dims)
            dims[rank++] = is_reduced[i] ? 1 : x.dims[i];
    if (tfm__op_output(ctx, op, y, TFM_F32, rank ? rank : 1, dims) != TFM_OK ||
        TFM__OP_NO_OVERLAP(ctx, op, *y, x) != TFM_OK)
        return tfm_context_status(ctx);
    return reduce_axes(ctx, function, *y, x, is_reduced);
}

tfm_status tfm_reduce_sum(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, const int *axes, size_t axis_count,
                          bool keep_dims) {
    return begin(ctx, SUM, y, x, axes, axis_count, keep_dims);
}

tfm_status tfm_reduce_mean(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, const int *axes, size_t axis_count,
                           bool keep_dims) {
    return begin(ctx, MEAN, y, x, axes, axis_count, keep_dims);
}

tfm_status tfm_reduce_max(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, const int *axes, size_t axis_count,
                          bool keep_dims) {
    return begin(ctx, MAX, y, x, axes, axis_count, keep_dims);
}

tfm_status tfm_reduce_min(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, const int *axes, size_t axis_count,
                          bool keep_dims) {
    return begin(ctx, MIN, y, x, axes, axis_count, keep_dims);
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

/* Along the middle of (3, 65, 17), and along the other two. */
static void check(tfm__check *c) {
    const int64_t a = 3, b = 65, d = 17;
    float *x;
    tfm_tensor y = {0}, z = {0}, tx = RANDOM_FLOATS(x, a, b, d);
    double *middle = EXPECTED(a * d), *rest = EXPECTED(b);
    for (int64_t i = 0; tfm__check_ready(c) && i < a * b * d; i++) {
        double *const to[2] = {middle + i / (b * d) * d + i % d, rest + i / d % b};
        const bool first[2] = {i / d % b == 0, i < b * d && i % d == 0};
        const double v = (double)x[i], counts[2] = {(double)b, (double)(a * d)};
        for (int k = 0; k < 2; k++)
            *to[k] = c->number == SUM    ? *to[k] + v
                     : c->number == MEAN ? *to[k] + v / counts[k]
                     : first[k]          ? v
                     : c->number == MAX  ? fmax(*to[k], v)
                                         : fmin(*to[k], v);
    }
    begin(c->ctx, c->number, &y, tx, (int[]){1}, 1, false);
    begin(c->ctx, c->number, &z, tx, (int[]){0, -1}, 2, true);
    tfm__check_compare(c, y, middle);
    tfm__check_compare(c, z, rest);
}

const tfm__check_entry tfm__selftest_reduce[] = {
    {"reduce_sum", "", check, SUM},
    {"reduce_mean", "", check, MEAN},
    {"reduce_max", "", check, MAX},
    {"reduce_min", "", check, MIN},
    {0},
};
