/* Sums over one dimension, and over broadcast dimensions: cl/reduce/sum.cl; of two tensors: cl/elementwise/add.cl. */
#include <string.h>
#include "ops/reduce/sum.h"

tfm_status tfm__add_same_shape(tfm_context *ctx, tfm_tensor y, tfm_tensor a, tfm_tensor b) {
    const int64_t n = (int64_t)tfm_tensor_count(y);
    const bool vec4 = TFM__CAN_VEC4(ctx, y, a, b);
    return tfm__launch(ctx, tfm__kernel_get(ctx, "add", "add", "%s", tfm__vec4_define(vec4)),
                       tfm__vec4_grid(ctx, n, vec4), TFM__ARGS(TFM__T(y), TFM__T(a), TFM__T(b), TFM__I(n)));
}

tfm_status tfm__accumulate(tfm_context *ctx, tfm__gradient to, tfm_tensor x) {
    if (!to.to.buffer)
        return tfm_context_status(ctx);
    return to.add ? tfm__add_same_shape(ctx, to.to, to.to, x) : tfm__tensor_copy(ctx, to.to, x);
}

/* Two sums over the same rows; the second may be empty. */
static tfm_status launch_columns(tfm_context *ctx, const tfm__column_sum *one, const tfm__column_sum *two,
                                 int64_t outer, int64_t rows, int64_t chunk) {
    const tfm__column_sum none = {.inner = 1}, *more = two ? two : &none;
    /* Zero rows are one chunk too, with sum 0. */
    const int64_t chunks = rows > 0 ? tfm__ceil_div(rows, chunk) : 1;
    const int64_t items = outer * chunks * tfm__column_blocks(ctx, one->inner);
    const int64_t items2 = two ? outer * chunks * tfm__column_blocks(ctx, two->inner) : 0;
    return tfm__launch(ctx, tfm__kernel_get(ctx, "sum", "sum_columns", ""), tfm__row_grid(ctx, items + items2),
                       TFM__ARGS(TFM__T_AS("y", one->to.to), TFM__T_AS("x", one->x), TFM__I_AS("inner", one->inner),
                                 TFM__I_AS("add", one->to.add), TFM__T_AS("y2", more->to.to), TFM__T_AS("x2", more->x),
                                 TFM__I_AS("inner2", more->inner), TFM__I_AS("add2", more->to.add), TFM__I(rows),
                                 TFM__I(chunk), TFM__I(chunks), TFM__I(items), TFM__I(items2)));
}

tfm_status tfm__sum_into(tfm_context *ctx, tfm__gradient to, tfm_tensor x, int64_t outer, int64_t rows, int64_t inner) {
    if (to.to.buffer && inner == 1)
        return tfm__launch(
            ctx, tfm__kernel_get(ctx, "sum", "sum_rows", ""), tfm__row_grid(ctx, outer),
            TFM__ARGS(TFM__T_AS("y", to.to), TFM__T(x), TFM__I(outer), TFM__I(rows), TFM__I_AS("add", to.add)));
    return tfm__sum_pair(ctx, (tfm__column_sum){to, x, inner}, (tfm__column_sum){0}, outer, rows);
}

/* A group reads its rows one by one and waits for memory at each; eight groups a core hide the latency of a GPU. */
int64_t tfm__sum_chunk(tfm_context *ctx, int64_t rows) {
    enum { GROUPS = 8, LEAST = 4, MOST = 64 };
    if (tfm__context_tuning(ctx)->class == TFM__CLASS_CPU)
        return rows > 1024 ? MOST : 16;
    const unsigned units = tfm_context_device(ctx)->compute_units;
    const int64_t chunk = rows / ((units > 0 ? (int64_t)units : 1) * GROUPS);
    return chunk < LEAST ? LEAST : chunk > MOST ? MOST : chunk;
}

enum { CHUNK = 64 }; /* rows that one work-item sums if there are many */

/* With more rows than two chunks, sums each chunk, and a second launch sums the chunks. */
static bool needs_chunks(int64_t rows) {
    return rows > 2 * CHUNK;
}

uint64_t tfm__sum_workspace(int64_t outer, int64_t rows, int64_t inner) {
    return inner > 1 && needs_chunks(rows)
               ? tfm__pool_block_bytes(sizeof(float) * (uint64_t)(outer * tfm__ceil_div(rows, CHUNK) * inner))
               : 0;
}

tfm_status tfm__sum_pair(tfm_context *ctx, tfm__column_sum one, tfm__column_sum two, int64_t outer, int64_t rows) {
    const int64_t chunks = tfm__ceil_div(rows, CHUNK);
    tfm__column_sum sums[2];
    int count = 0;
    if (one.to.to.buffer)
        sums[count++] = one;
    if (two.to.to.buffer)
        sums[count++] = two;
    if (count == 0)
        return tfm_context_status(ctx);
    /* Both sums may be of one tensor: one after the other. */
    if (count == 2 && tfm__overlap(one.to.to, two.to.to)) {
        tfm__sum_pair(ctx, one, (tfm__column_sum){0}, outer, rows);
        return tfm__sum_pair(ctx, two, (tfm__column_sum){0}, outer, rows);
    }
    if (!needs_chunks(rows))
        return launch_columns(ctx, sums, count > 1 ? sums + 1 : NULL, outer, rows, rows > 0 ? rows : 1);
    tfm_scope_open(ctx);
    tfm__column_sum parts[2] = {{.inner = sums[0].inner}, {.inner = sums[count - 1].inner}};
    for (int i = 0; i < count; i++) {
        parts[i].x = sums[i].x;
        tfm_tensor_new(ctx, &parts[i].to.to, TFM_F32, 3, (int64_t[]){outer, chunks, sums[i].inner});
        sums[i].x = parts[i].to.to;
    }
    launch_columns(ctx, parts, count > 1 ? parts + 1 : NULL, outer, rows, CHUNK);
    launch_columns(ctx, sums, count > 1 ? sums + 1 : NULL, outer, chunks, chunks);
    return tfm_scope_close(ctx, 0, NULL);
}

tfm_status tfm__sum_to_size(tfm_context *ctx, tfm__gradient to, tfm_tensor dy) {
    int64_t want[TFM_MAX_RANK], outer = 1;
    if (!to.to.buffer)
        return tfm_context_status(ctx);
    for (int i = 0; i < dy.rank; i++)
        want[i] = i < dy.rank - to.to.rank ? 1 : to.to.dims[i - (dy.rank - to.to.rank)];
    tfm_scope_open(ctx);
    /* One run of broadcast dims after the other; the last one, or a copy, writes to the destination. */
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
    if (to.to.buffer) /* nothing was broadcast */
        tfm__accumulate(ctx, to, dy);
    return tfm_scope_close(ctx, 0, NULL);
}
