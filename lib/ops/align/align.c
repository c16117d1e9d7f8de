/* Weights of global and local Bahdanau/Luong attention: cl/align/align.cl. */
#include <inttypes.h>
#include <math.h>
#include "ops/selftest/selftest.h"
#include "ops/autograd/tape.h"

#define OP "align"

static tfm_status check_options(tfm_context *ctx, const tfm_align_options *o, tfm_tensor x) {
    const int64_t most = INT32_MAX;
    if (x.rank != 3 || x.dims[2] > 1 << 24)
        return tfm__op_error(ctx, OP, "scores is %s: it must be (B, T, S), S at most 2^24", TFM__SHAPE(x));
    if (o->lengths.buffer && (o->lengths.rank != 1 || o->lengths.dims[0] != x.dims[0]))
        return tfm__op_error(ctx, OP, "lengths is %s, with scores %s: it must be (B)", TFM__SHAPE(o->lengths),
                             TFM__SHAPE(x));
    if (o->centers.buffer &&
        (o->centers.rank != 2 || o->centers.dims[0] != x.dims[0] || o->centers.dims[1] != x.dims[1]))
        return tfm__op_error(ctx, OP, "centers is %s, with scores %s: it must be (B, T)", TFM__SHAPE(o->centers),
                             TFM__SHAPE(x));
    if (o->window < 0 || o->window > most || o->past < 0 || o->past > most)
        return tfm__op_error(ctx, OP, "window is %" PRId64 " and past %" PRId64 ": both must be from 0 to 2^31 - 1",
                             o->window, o->past);
    if (o->window == 0 && (o->centers.buffer || o->past))
        return tfm__op_error(ctx, OP, "centers and past are of a window, and it is 0: give how far a query sees");
    return TFM_OK;
}

static int window_kind(bool windowed, tfm_tensor centers) {
    return !windowed ? 0 : centers.buffer ? 2 : 1;
}

static tfm_status backward(tfm_context *ctx, const tfm__record *record) {
    const tfm_tensor y = record->saved[0], centers = record->saved[1], dy = tfm__tape_grad_output(ctx, record, 0);
    const tfm__gradient dx = tfm__tape_grad_input(ctx, record, 0), dcenters = tfm__tape_grad_input(ctx, record, 1);
    const int64_t n = tfm__last_dim(y), rows = tfm__row_count(y), window = record->ints[0];
    return tfm__launch(ctx,
                       tfm__kernel_get(ctx, OP, "align_backward", "-DWINDOW=%d", window_kind(window != 0, centers)),
                       tfm__row_grid(ctx, rows),
                       TFM__ARGS(TFM__T_AS("dx", dx.to), TFM__T_AS("dcenters", dcenters.to), TFM__T(dy), TFM__T(y),
                                 TFM__T(centers), TFM__I(rows), TFM__I(n), TFM__I(window), TFM__I_AS("add", dx.add),
                                 TFM__I_AS("add_center", dcenters.add)));
}

tfm_status tfm_align(tfm_context *ctx, tfm_tensor *weights, tfm_tensor scores, const tfm_align_options *options) {
    const tfm_align_options none = {0};
    const tfm_align_options *o = options ? options : &none;
    if (TFM__OP_BEGIN(ctx, OP, "fIF", scores, o->lengths, o->centers) != TFM_OK ||
        TFM__OP_OPTIONS(ctx, OP, o) != TFM_OK || check_options(ctx, o, scores) != TFM_OK ||
        tfm__op_output_like(ctx, OP, weights, scores) != TFM_OK ||
        TFM__OP_IN_PLACE(ctx, OP, *weights, scores) != TFM_OK ||
        TFM__OP_NO_OVERLAP(ctx, OP, *weights, o->lengths, o->centers) != TFM_OK)
        return tfm_context_status(ctx);
    const int64_t T = scores.dims[1], n = scores.dims[2], rows = scores.dims[0] * T;
    tfm__kernel *kernel =
        tfm__kernel_get(ctx, OP, "align_rows", "-DWINDOW=%d", window_kind(o->window != 0, o->centers));
    tfm__launch(ctx, kernel, tfm__row_grid(ctx, rows),
                TFM__ARGS(TFM__T_AS("y", *weights), TFM__T_AS("x", scores), TFM__T_AS("lengths", o->lengths),
                          TFM__T_AS("centers", o->centers), TFM__I(rows), TFM__I_AS("targets", T), TFM__I(n),
                          TFM__I_AS("padded", o->lengths.buffer != NULL), TFM__I_AS("past", o->past),
                          TFM__I_AS("window", o->window)));
    return tfm__tape_add(ctx, &(tfm__record){.op = OP,
                                             .backward = backward,
                                             .out = {*weights},
                                             .in = {scores, o->centers},
                                             .saved = {*weights, o->centers},
                                             .ints = {o->window}});
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

/* 0: all keys are in range, 1: a window follows the query position, 2: a window around given positions. */
static void check(tfm__check *c) {
    const int64_t B = 3, T = 7, S = 37, D = 5;
    float *x, *centers;
    int32_t *lengths;
    tfm_tensor y = {0}, tx = RANDOM_FLOATS(x, B, T, S), tc = RANDOM_FLOATS(centers, B, T);
    tfm_align_options options = {.lengths = RANDOM_INTS(lengths, (int)S + 1, B), .window = c->number ? D : 0};
    double *want = EXPECTED(B * T * S);
    for (int64_t row = 0; tfm__check_ready(c) && row < B * T; row++) {
        const double center = c->number == 2 ? (double)centers[row] : (double)(row % T + 2);
        double sum = 0;
        for (int64_t s = 0; s < lengths[row / T]; s++)
            if (!c->number || fabs((double)s - center) <= (double)D)
                sum += want[row * S + s] = exp((double)x[row * S + s]);
        for (int64_t s = 0; s < S && sum > 0; s++)
            want[row * S + s] *= (c->number == 2 ? exp(-2 * pow(((double)s - center) / (double)D, 2)) : 1) / sum;
    }
    options.past = c->number == 1 ? 2 : 0;
    options.centers = c->number == 2 ? tc : options.centers;
    tfm_align(c->ctx, &y, tx, &options);
    tfm__check_compare(c, y, want);
}

const tfm__check_entry tfm__selftest_align[] = {
    {"align", "lengths", check, 0},
    {"align", "window", check, 1},
    {"align", "window of positions", check, 2},
    {0},
};
