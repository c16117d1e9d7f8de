/* SSRU recurrence: cl/recurrent/ssru.cl. */
#include <inttypes.h>
#include <math.h>
#include "ops/selftest/selftest.h"
#include "ops/autograd/tape.h"

#define OP "ssru"

static int64_t index_columns(tfm_tensor kv_indices) {
    return kv_indices.buffer ? kv_indices.dims[1] : 0;
}

static int64_t initial_rows(tfm_tensor initial) {
    return initial.buffer ? initial.dims[0] : 0;
}

static tfm_status backward(tfm_context *ctx, const tfm__record *record) {
    const tfm_tensor x = record->saved[0], forget = record->saved[1], cells = record->saved[2],
                     initial = record->saved[3], kv_indices = record->saved[4];
    const int64_t steps = x.dims[1], width = x.dims[2], blocks = tfm__column_blocks(ctx, width),
                  items = x.dims[0] * blocks;
    const tfm_tensor dy = tfm__tape_grad_output(ctx, record, 0), dcells = tfm__tape_grad_output(ctx, record, 1);
    const tfm__gradient dx = tfm__tape_grad_input(ctx, record, 0), dforget = tfm__tape_grad_input(ctx, record, 1);
    return tfm__launch(ctx, tfm__kernel_get(ctx, OP, "ssru_backward", ""), tfm__row_grid(ctx, items),
                       TFM__ARGS(TFM__T_AS("dx", dx.to), TFM__T_AS("dforget", dforget.to), TFM__T(dy), TFM__T(dcells),
                                 TFM__T(cells), TFM__T(x), TFM__T(forget), TFM__T(initial), TFM__T(kv_indices),
                                 TFM__I(items), TFM__I(steps), TFM__I(width), TFM__I(blocks),
                                 TFM__I_AS("index_columns", index_columns(kv_indices)),
                                 TFM__I_AS("initial_rows", initial_rows(initial)), TFM__I_AS("add_x", dx.add),
                                 TFM__I_AS("add_forget", dforget.add)));
}

static tfm_status check(tfm_context *ctx, tfm_tensor x, tfm_tensor forget, tfm_tensor initial, tfm_tensor kv_indices) {
    if (TFM__OP_BEGIN(ctx, OP, "ffFI", x, forget, initial, kv_indices) != TFM_OK)
        return tfm_context_status(ctx);
    if (x.rank != 3 || !tfm__same_dims(x, forget))
        return tfm__op_error(ctx, OP, "x is %s and forget %s: both must be (B, T, E)", TFM__SHAPE(x),
                             TFM__SHAPE(forget));
    if (initial.buffer && (initial.rank != 2 || initial.dims[1] != x.dims[2]))
        return tfm__op_error(ctx, OP, "initial is %s: it must be (N, %" PRId64 "), as wide as x", TFM__SHAPE(initial),
                             x.dims[2]);
    if (kv_indices.buffer && (!initial.buffer || kv_indices.rank != 2 || kv_indices.dims[0] != x.dims[0]))
        return tfm__op_error(ctx, OP, "kv_indices is %s: it must be (%" PRId64 ", K), and `initial` is needed too",
                             TFM__SHAPE(kv_indices), x.dims[0]);
    if (initial.buffer && !kv_indices.buffer && initial.dims[0] != x.dims[0])
        return tfm__op_error(
            ctx, OP, "initial is %s: without `kv_indices` it must have a row for each of the %" PRId64 " sequences",
            TFM__SHAPE(initial), x.dims[0]);
    return tfm_context_status(ctx);
}

tfm_status tfm_ssru(tfm_context *ctx, tfm_tensor *y, tfm_tensor *cells, tfm_tensor x, tfm_tensor forget,
                    tfm_tensor initial, tfm_tensor kv_indices) {
    if (TFM__NEEDS_ON(ctx, OP, y, cells) != TFM_OK || check(ctx, x, forget, initial, kv_indices) != TFM_OK ||
        TFM__TAPE_NO_BACKWARD(ctx, OP, initial) != TFM_OK || tfm__op_output_like(ctx, OP, y, x) != TFM_OK ||
        tfm__op_output_like(ctx, OP, cells, x) != TFM_OK || TFM__OP_NO_OVERLAP(ctx, OP, *cells, x, forget) != TFM_OK ||
        TFM__OP_NO_OVERLAP(ctx, OP, *y, *cells, initial, kv_indices) != TFM_OK ||
        TFM__OP_IN_PLACE(ctx, OP, *y, x, forget) != TFM_OK)
        return tfm_context_status(ctx);
    const int64_t steps = x.dims[1], width = x.dims[2], blocks = tfm__column_blocks(ctx, width),
                  items = x.dims[0] * blocks;
    tfm__launch(ctx, tfm__kernel_get(ctx, OP, "ssru", ""), tfm__row_grid(ctx, items),
                TFM__ARGS(TFM__T_AS("y", *y), TFM__T_AS("cells", *cells), TFM__T(x), TFM__T(forget), TFM__T(initial),
                          TFM__T(kv_indices), TFM__I(items), TFM__I(steps), TFM__I(width), TFM__I(blocks),
                          TFM__I_AS("index_columns", index_columns(kv_indices)),
                          TFM__I_AS("initial_rows", initial_rows(initial))));
    return tfm__tape_add(ctx, &(tfm__record){.op = OP,
                                             .backward = backward,
                                             .out = {*y, *cells},
                                             .in = {x, forget},
                                             .saved = {x, forget, *cells, initial, kv_indices}});
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

/* Five steps from rows of `initial`. */
static void check_steps(tfm__check *c) {
    const int64_t sequences = 3, steps = 5, width = 33, kept = 7, places = 2;
    float *x, *forget, *initial;
    int32_t *kv_indices;
    tfm_tensor y = {0}, cells = {0}, tx = RANDOM_FLOATS(x, sequences, steps, width),
               tf = RANDOM_FLOATS(forget, sequences, steps, width), tb = RANDOM_FLOATS(initial, kept, width),
               tr = RANDOM_INTS(kv_indices, (int)kept, sequences, places);
    double *want = EXPECTED(sequences * steps * width);
    for (int64_t i = 0; tfm__check_ready(c) && i < sequences * width; i++) {
        const int64_t b = i / width, e = i % width;
        double cell = (double)initial[kv_indices[b * places] * width + e];
        for (int64_t t = 0; t < steps; t++) {
            const int64_t at = (b * steps + t) * width + e;
            const double s = 1 / (1 + exp(-(double)forget[at]));
            cell = s * cell + (1 - s) * (double)x[at];
            want[at] = fmax(cell, 0);
        }
    }
    tfm_ssru(c->ctx, &y, &cells, tx, tf, tb, tr);
    tfm__check_compare(c, y, want);
}

const tfm__check_entry tfm__selftest_ssru[] = {
    {"ssru", "", check_steps, 0},
    {0},
};
