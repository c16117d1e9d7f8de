/* Sums over one dimension, and over those that a broadcast repeated: cl/sum.cl. */
#include <string.h>
#include "ops/sum.h"

static tfm_status launch_columns(tfm_context *ctx, tfm__gradient to, tfm_tensor x, int64_t outer,
                                 int64_t rows, int64_t inner, int64_t chunk) {
    const tfm__row *row = tfm__context_row(ctx);
    const int64_t span = (int64_t)row->width * row->group, blocks = (inner + span - 1) / span;
    const int64_t chunks = (rows + chunk - 1) / chunk, items = outer * chunks * blocks;
    return tfm__launch(ctx, tfm__kernel_get(ctx, "sum", "sum_columns", ""), tfm__row_grid(ctx, items),
                       TFM_ARGS(TFM_T_AS("y", to.to), TFM_T(x), TFM_I(rows), TFM_I(inner), TFM_I(chunk),
                                TFM_I(chunks), TFM_I(blocks), TFM_I(items), TFM_I_AS("add", to.add)));
}

tfm_status tfm__sum_into(tfm_context *ctx, tfm__gradient to, tfm_tensor x, int64_t outer, int64_t rows,
                         int64_t inner) {
    const int64_t chunk = 64; /* rows that one work-item sums where there are many */
    if (!to.to.buffer)
        return tfm_context_status(ctx);
    if (inner == 1)
        return tfm__launch(
            ctx, tfm__kernel_get(ctx, "sum", "sum_rows", ""), tfm__row_grid(ctx, outer),
            TFM_ARGS(TFM_T_AS("y", to.to), TFM_T(x), TFM_I(outer), TFM_I(rows), TFM_I_AS("add", to.add)));
    if (rows <= 2 * chunk)
        return launch_columns(ctx, to, x, outer, rows, inner, rows);
    const int64_t chunks = (rows + chunk - 1) / chunk;
    tfm__gradient part = {{0}, false};
    tfm_scope_open(ctx);
    tfm_tensor_new(ctx, &part.to, TFM_F32, 3, (int64_t[]){outer, chunks, inner});
    launch_columns(ctx, part, x, outer, rows, inner, chunk);
    launch_columns(ctx, to, part.to, outer, chunks, inner, chunks);
    return tfm_scope_close(ctx, 0, NULL);
}

tfm_status tfm__sum_broadcast(tfm_context *ctx, tfm__gradient to, tfm_tensor dy) {
    int64_t want[TFM_MAX_RANK], outer = 1;
    if (!to.to.buffer)
        return tfm_context_status(ctx);
    for (int i = 0; i < dy.rank; i++)
        want[i] = i < dy.rank - to.to.rank ? 1 : to.to.dims[i - (dy.rank - to.to.rank)];
    tfm_scope_open(ctx);
    /* One run of repeated dims after the other; the last, or none, goes to its place. */
    for (int i = 0, next; i < dy.rank; i = next) {
        int64_t rows = 1, inner = 1;
        bool more = false;
        for (next = i; next < dy.rank && want[next] == 1 && (next > i || dy.dims[next] != 1); next++)
            rows *= dy.dims[next];
        if (next == i) {
            outer *= dy.dims[next++];
            continue;
        }
        for (int k = next; k < dy.rank; k++) {
            inner *= dy.dims[k];
            more |= want[k] != dy.dims[k];
        }
        tfm__gradient part = {{0}, false};
        if (!more) {
            part = to;
            to.to = (tfm_tensor){0};
        } else {
            tfm_tensor_new(ctx, &part.to, TFM_F32, 2, (int64_t[]){outer, inner});
        }
        tfm__sum_into(ctx, part, dy, outer, rows, inner);
        dy.buffer = part.to.buffer;
        dy.offset = part.to.offset;
        dy.generation = part.to.generation;
        if (!more)
            break;
    }
    if (to.to.buffer) /* nothing was repeated */
        tfm__accumulate(ctx, to, dy);
    return tfm_scope_close(ctx, 0, NULL);
}
