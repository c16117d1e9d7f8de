/* The recurrence of SSRU cells: cl/recurrent/ssru.cl. */
#include <inttypes.h>
#include <math.h>
#include "ops/selftest/selftest.h"
#include "ops/autograd/tape.h"

#define OP "ssru"

static int64_t places_of(tfm_tensor rows) {
    return rows.buffer ? rows.dims[1] : 0;
}

static int64_t kept_of(tfm_tensor before) {
    return before.buffer ? before.dims[0] : 0;
}

static tfm_status backward(tfm_context *ctx, const tfm__record *record) {
    const tfm_tensor x = record->keep[0], forget = record->keep[1], cells = record->keep[2], before = record->keep[3],
                     rows = record->keep[4];
    const int64_t steps = x.dims[1], width = x.dims[2], blocks = tfm__column_blocks(ctx, width),
                  items = x.dims[0] * blocks;
    const tfm_tensor dy = tfm__tape_out(ctx, record, 0), dcells = tfm__tape_out(ctx, record, 1);
    const tfm__gradient dx = tfm__tape_in(ctx, record, 0), dforget = tfm__tape_in(ctx, record, 1);
    return tfm__launch(ctx, tfm__kernel_get(ctx, OP, "ssru_backward", ""), tfm__row_grid(ctx, items),
                       TFM__ARGS(TFM__T_AS("dx", dx.to), TFM__T_AS("dforget", dforget.to), TFM__T(dy), TFM__T(dcells),
                                 TFM__T(cells), TFM__T(x), TFM__T(forget), TFM__T(before), TFM__T(rows), TFM__I(items),
                                 TFM__I(steps), TFM__I(width), TFM__I(blocks), TFM__I_AS("places", places_of(rows)),
                                 TFM__I_AS("kept", kept_of(before)), TFM__I_AS("add_x", dx.add),
                                 TFM__I_AS("add_forget", dforget.add)));
}

static tfm_status check(tfm_context *ctx, tfm_tensor x, tfm_tensor forget, tfm_tensor before, tfm_tensor rows) {
    if (TFM__OP_BEGIN(ctx, OP, "ffFI", x, forget, before, rows) != TFM_OK)
        return tfm_context_status(ctx);
    if (x.rank != 3 || !tfm__same_dims(x, forget))
        return tfm__op_refuse(ctx, OP, "x is %s and forget %s: both must be (B, T, E)", TFM__SHAPE(x),
                              TFM__SHAPE(forget));
    if (before.buffer && (before.rank != 2 || before.dims[1] != x.dims[2]))
        return tfm__op_refuse(ctx, OP, "before is %s: it must be (N, %" PRId64 "), as wide as x", TFM__SHAPE(before),
                              x.dims[2]);
    if (rows.buffer && (!before.buffer || rows.rank != 2 || rows.dims[0] != x.dims[0]))
        return tfm__op_refuse(ctx, OP, "rows is %s: it must be (%" PRId64 ", K), and `before` is needed too",
                              TFM__SHAPE(rows), x.dims[0]);
    if (before.buffer && !rows.buffer && before.dims[0] != x.dims[0])
        return tfm__op_refuse(ctx, OP,
                              "before is %s: without `rows` it must have a row for each of the %" PRId64 " sequences",
                              TFM__SHAPE(before), x.dims[0]);
    return tfm_context_status(ctx);
}

tfm_status tfm_ssru(tfm_context *ctx, tfm_tensor *y, tfm_tensor *cells, tfm_tensor x, tfm_tensor forget,
                    tfm_tensor before, tfm_tensor rows) {
    if (TFM__NEEDS_ON(ctx, OP, y, cells) != TFM_OK || check(ctx, x, forget, before, rows) != TFM_OK ||
        TFM__TAPE_NONE(ctx, OP, before) != TFM_OK || tfm__op_output_like(ctx, OP, y, x) != TFM_OK ||
        tfm__op_output_like(ctx, OP, cells, x) != TFM_OK || TFM__OP_APART(ctx, OP, *cells, x, forget) != TFM_OK ||
        TFM__OP_APART(ctx, OP, *y, *cells, before, rows) != TFM_OK ||
        TFM__OP_IN_PLACE(ctx, OP, *y, x, forget) != TFM_OK)
        return tfm_context_status(ctx);
    const int64_t steps = x.dims[1], width = x.dims[2], blocks = tfm__column_blocks(ctx, width),
                  items = x.dims[0] * blocks;
    tfm__launch(ctx, tfm__kernel_get(ctx, OP, "ssru", ""), tfm__row_grid(ctx, items),
                TFM__ARGS(TFM__T_AS("y", *y), TFM__T_AS("cells", *cells), TFM__T(x), TFM__T(forget), TFM__T(before),
                          TFM__T(rows), TFM__I(items), TFM__I(steps), TFM__I(width), TFM__I(blocks),
                          TFM__I_AS("places", places_of(rows)), TFM__I_AS("kept", kept_of(before))));
    return tfm__tape_add(ctx, &(tfm__record){.op = OP,
                                             .backward = backward,
                                             .out = {*y, *cells},
                                             .in = {x, forget},
                                             .keep = {x, forget, *cells, before, rows}});
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

/* Five steps from rows of `before`. */
static void check_steps(tfm__check *c) {
    const int64_t sequences = 3, steps = 5, width = 33, kept = 7, places = 2;
    float *x, *forget, *before;
    int32_t *rows;
    tfm_tensor y = {0}, cells = {0}, tx = FLOATS(x, sequences, steps, width),
               tf = FLOATS(forget, sequences, steps, width), tb = FLOATS(before, kept, width),
               tr = INTS(rows, (int)kept, sequences, places);
    double *want = WANTED(sequences * steps * width);
    for (int64_t i = 0; tfm__check_ready(c) && i < sequences * width; i++) {
        const int64_t b = i / width, e = i % width;
        double cell = (double)before[rows[b * places] * width + e];
        for (int64_t t = 0; t < steps; t++) {
            const int64_t at = (b * steps + t) * width + e;
            const double s = 1 / (1 + exp(-(double)forget[at]));
            cell = s * cell + (1 - s) * (double)x[at];
            want[at] = fmax(cell, 0);
        }
    }
    tfm_ssru(c->ctx, &y, &cells, tx, tf, tb, tr);
    tfm__check_judge(c, y, want);
}

const tfm__check_entry tfm__selftest_ssru[] = {
    {"ssru", "", check_steps, 0},
    {0},
};
