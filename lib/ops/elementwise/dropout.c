/* Dropout: cl/elementwise/dropout.cl; its random numbers: cl/common/prelude.cl. */
#include <math.h>
#include "ops/elementwise/dropout.h"
#include "ops/selftest/selftest.h"
#include "ops/autograd/tape.h"

tfm_status tfm__dropout_check(tfm_context *ctx, const char *op, const tfm_dropout_options *dropout) {
    if (TFM__OP_OPTIONS(ctx, op, dropout) != TFM_OK)
        return tfm_context_status(ctx);
    if (dropout && !(dropout->rate >= 0.0f && dropout->rate < 1.0f))
        return tfm__op_error(ctx, op, "the dropout rate is %g: it must be at least 0 and below 1",
                             (double)dropout->rate);
    return TFM_OK;
}

int64_t tfm__dropout_threshold(const tfm_dropout_options *dropout) {
    const double share = dropout ? floor((double)dropout->rate * 4294967296.0 + 0.5) : 0;
    return share > 4294967295.0 ? 4294967295 : (int64_t)share;
}

float tfm__dropout_scale(const tfm_dropout_options *dropout) {
    return dropout ? 1.0f / (1.0f - dropout->rate) : 1.0f;
}

bool tfm__dropout_enabled(const tfm_dropout_options *dropout) {
    return dropout && dropout->rate > 0.0f;
}

static tfm_status launch(tfm_context *ctx, tfm__gradient y, tfm_tensor x, const tfm_dropout_options *dropout) {
    const int64_t rows = tfm__row_count(x), n = tfm__last_dim(x);
    return tfm__launch(ctx, tfm__kernel_get(ctx, "dropout", "dropout", ""), tfm__row_grid(ctx, rows),
                       TFM__ARGS(TFM__T_AS("y", y.to), TFM__T(x), TFM__I(rows), TFM__I(n), TFM__DROPOUT_ARGS(dropout),
                                 TFM__I_AS("add", y.add)));
}

static tfm_status backward(tfm_context *ctx, const tfm__record *record) {
    return launch(ctx, tfm__tape_grad_input(ctx, record, 0), tfm__tape_grad_output(ctx, record, 0), record->data);
}

/* Kept elements, from the same random numbers. */
static tfm_status launch_mask(tfm_context *ctx, tfm_tensor *mask, tfm_tensor x, const tfm_dropout_options *dropout) {
    const int64_t rows = tfm__row_count(x), n = tfm__last_dim(x);
    return tfm__launch(ctx, tfm__kernel_get(ctx, "dropout", "dropout_mask", ""), tfm__row_grid(ctx, rows),
                       TFM__ARGS(TFM__T_AS("mask", *mask), TFM__I(rows), TFM__I(n), TFM__DROPOUT_ARGS(dropout)));
}

tfm_status tfm_dropout(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, const tfm_dropout_options *dropout) {
    return tfm_dropout_masked(ctx, y, NULL, x, dropout);
}

tfm_status tfm_dropout_masked(tfm_context *ctx, tfm_tensor *y, tfm_tensor *mask, tfm_tensor x,
                              const tfm_dropout_options *dropout) {
    const char *op = "dropout";
    const tfm_dropout_options none = {0};
    dropout = dropout ? dropout : &none;
    if (TFM__OP_BEGIN(ctx, op, "0f", x) != TFM_OK || tfm__dropout_check(ctx, op, dropout) != TFM_OK ||
        tfm__op_output_like(ctx, op, y, x) != TFM_OK || TFM__OP_IN_PLACE(ctx, op, *y, x) != TFM_OK)
        return tfm_context_status(ctx);
    if (mask && (tfm__op_output(ctx, op, mask, TFM_U8, x.rank, x.dims) != TFM_OK ||
                 TFM__OP_NO_OVERLAP(ctx, op, *mask, x, *y) != TFM_OK))
        return tfm_context_status(ctx);
    launch(ctx, (tfm__gradient){*y, false}, x, dropout);
    if (mask)
        launch_mask(ctx, mask, x, dropout);
    return tfm__tape_add(
        ctx,
        &(tfm__record){
            .op = op, .backward = backward, .out = {*y}, .in = {x}, .data = dropout, .data_bytes = sizeof(*dropout)});
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

static void check(tfm__check *c) {
    const int64_t rows = 3, n = 333, width = tfm__context_tuning(c->ctx)->width;
    const tfm_dropout_options dropout = {.rate = 0.3f, .seed = 0x123456789abcdefull, .stream = 0x700000005ull};
    float *x;
    tfm_tensor y = {0}, tx = RANDOM_FLOATS(x, rows, n);
    double *want = EXPECTED(rows * n);
    for (int64_t i = 0; tfm__check_ready(c) && i < rows * n; i++) {
        const int64_t column = i % n, block = column / (4 * width) * width + column % width;
        const uint32_t word =
            tfm__check_philox(&dropout, (uint32_t)block, (uint32_t)(i / n), (int)(column / width % 4));
        want[i] = word < tfm__dropout_threshold(&dropout) ? 0 : (double)x[i] / (1 - (double)dropout.rate);
    }
    tfm_dropout(c->ctx, &y, tx, &dropout);
    tfm__check_compare(c, y, want);
}

const tfm__check_entry tfm__selftest_dropout[] = {
    {"dropout", "", check, 0},
    {0},
};
