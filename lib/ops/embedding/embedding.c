/* Embedding with scale and positions: cl/embedding/embedding.cl. */
#include <inttypes.h>
#include <string.h>
#include "ops/gemm/quantize.h"
#include "ops/quant/quant.h"
#include "ops/selftest/selftest.h"
#include "ops/reduce/sum.h"

#define OP "embedding"

static tfm_status check_positions(tfm_context *ctx, tfm_tensor positions, int64_t first, int64_t length,
                                  int64_t width) {
    if (!positions.buffer)
        return TFM_OK;
    if (positions.rank != 2 || positions.dims[1] != width)
        return tfm__op_error(ctx, OP, "positions is %s: it must be (P, %" PRId64 "), as wide as the table",
                             TFM__SHAPE(positions), width);
    if (first < 0 || first > positions.dims[0] || length > positions.dims[0] - first)
        return tfm__op_error(ctx, OP,
                             "%" PRId64 " positions from %" PRId64 " on are asked of positions %s: shorten the "
                             "sequence or give a longer table",
                             length, first, TFM__SHAPE(positions));
    return TFM_OK;
}

/* dtable[id] += scale dy of the rows with that id; dpositions = dy summed over the sequences. */
static tfm_status backward(tfm_context *ctx, const tfm__record *record) {
    const tfm_tensor table = record->in[0], positions = record->in[1], ids = record->saved[0];
    const tfm_tensor dy = tfm__tape_grad_output(ctx, record, 0);
    const int64_t rows = (int64_t)tfm_tensor_count(ids);
    if (positions.buffer)
        tfm__sum_into(ctx, tfm__tape_grad_input(ctx, record, 1), dy, 1, rows / positions.dims[0],
                      (int64_t)tfm_tensor_count(positions));
    return tfm__index_add(ctx, tfm__tape_grad_input(ctx, record, 0), dy, ids, 1, table.dims[0], table.dims[1],
                          record->floats[0]);
}

/* Checks everything except the table's dtype, and creates y. */
static tfm_status begin(tfm_context *ctx, tfm_tensor *y, tfm_tensor table, tfm_tensor ids, tfm_tensor positions,
                        int64_t first) {
    if (table.rank != 2)
        return tfm__op_error(ctx, OP, "table is %s: it must be (V, E)", TFM__SHAPE(table));
    if (ids.rank >= TFM_MAX_RANK)
        return tfm__op_error(ctx, OP, "ids is %s: its rank must be below %d", TFM__SHAPE(ids), TFM_MAX_RANK);
    const int64_t width = table.dims[1], length = tfm__last_dim(ids);
    if (check_positions(ctx, positions, first, length, width) != TFM_OK)
        return tfm_context_status(ctx);
    int64_t dims[TFM_MAX_RANK];
    memcpy(dims, ids.dims, sizeof(dims));
    dims[ids.rank] = width;
    if (tfm__op_output(ctx, OP, y, TFM_F32, ids.rank + 1, dims) != TFM_OK)
        return tfm_context_status(ctx);
    return TFM__OP_NO_OVERLAP(ctx, OP, *y, table, ids, positions);
}

/* Trailing arguments of the kernels with a padding token. */
enum { PADDING_ARGS = 3 };
#define PADDING_VALUES(padding)                                                                                        \
    TFM__I_AS("padding_id", (padding) ? (padding)->id : 0), TFM__I_AS("counted", (padding) && (padding)->counted),     \
        TFM__I_AS("blank", (padding) && (padding)->blank)

static const char *padding_define(const tfm__padding_token *padding) {
    return padding ? " -DPADDING_TOKEN" : "";
}

static tfm_status embed(tfm_context *ctx, tfm_tensor *y, tfm_tensor table, tfm_tensor ids, float scale,
                        tfm_tensor positions, int64_t first, const tfm__padding_token *padding);

static tfm_status embed_blocks(tfm_context *ctx, tfm_tensor *y, const tfm_param *param, tfm_tensor ids, float scale,
                               tfm_tensor positions, int64_t first, const tfm__padding_token *padding) {
    const tfm__quant_format *format = tfm__quant_check(ctx, OP, param);
    tfm_tensor table = param->value;
    char defines[TFM__QUANT_DEFINES];
    if (!format || TFM__OP_BEGIN(ctx, OP, "0iF", ids, positions) != TFM_OK)
        return tfm_context_status(ctx);
    table.rank = 2;
    table.dims[0] = param->block_dims[0];
    table.dims[1] = param->block_dims[1];
    if (begin(ctx, y, table, ids, positions, first) != TFM_OK || TFM__TAPE_NO_BACKWARD(ctx, OP, positions) != TFM_OK)
        return tfm_context_status(ctx);
    const int64_t rows = (int64_t)tfm_tensor_count(ids);
    const tfm__arg args[] = {TFM__T_AS("y", *y),
                             TFM__T_AS("table", param->value),
                             TFM__T(ids),
                             TFM__T(positions),
                             TFM__I(rows),
                             TFM__I_AS("width", table.dims[1]),
                             TFM__I_AS("vocabulary", table.dims[0]),
                             TFM__I_AS("steps", tfm__last_dim(ids)),
                             TFM__I(first),
                             TFM__F(scale),
                             PADDING_VALUES(padding)};
    tfm__kernel *kernel = tfm__kernel_get(ctx, "quant_embed", "quant_embed", "%s%s",
                                          tfm__quant_defines(defines, ctx, format), padding_define(padding));
    return tfm__launch(ctx, kernel, tfm__row_grid(ctx, rows), TFM__COUNT(args) - (padding ? 0 : PADDING_ARGS), args);
}

tfm_status tfm__embedding_param(tfm_context *ctx, tfm_tensor *y, const tfm_param *param, tfm_tensor ids, float scale,
                                tfm_tensor positions, int64_t first, const tfm__padding_token *padding) {
    const tfm_tensor table = param->value, scales = param->scales;
    if (param->block_type)
        return embed_blocks(ctx, y, param, ids, scale, positions, first, padding);
    if (table.dtype != TFM_I8)
        return embed(ctx, y, table, ids, scale, positions, first, padding);
    if (TFM__OP_BEGIN(ctx, OP, "bfiF", table, scales, ids, positions) != TFM_OK ||
        begin(ctx, y, table, ids, positions, first) != TFM_OK || TFM__TAPE_NO_BACKWARD(ctx, OP, positions) != TFM_OK)
        return tfm_context_status(ctx);
    const int64_t rows = (int64_t)tfm_tensor_count(ids), width = table.dims[1];
    const tfm__arg args[] = {TFM__T_AS("y", *y),
                             TFM__T(table),
                             TFM__T(scales),
                             TFM__T(ids),
                             TFM__T(positions),
                             TFM__I(rows),
                             TFM__I(width),
                             TFM__I_AS("vocabulary", table.dims[0]),
                             TFM__I_AS("steps", tfm__last_dim(ids)),
                             TFM__I(first),
                             TFM__F(scale),
                             PADDING_VALUES(padding)};
    return tfm__launch(ctx, tfm__kernel_get(ctx, OP, "embedding_int8", "%s", padding_define(padding)),
                       tfm__row_grid(ctx, rows), TFM__COUNT(args) - (padding ? 0 : PADDING_ARGS), args);
}

tfm_status tfm_embedding(tfm_context *ctx, tfm_tensor *y, tfm_tensor table, tfm_tensor ids, float scale,
                         tfm_tensor positions, int64_t first) {
    return embed(ctx, y, table, ids, scale, positions, first, NULL);
}

static tfm_status embed(tfm_context *ctx, tfm_tensor *y, tfm_tensor table, tfm_tensor ids, float scale,
                        tfm_tensor positions, int64_t first, const tfm__padding_token *padding) {
    if (TFM__OP_BEGIN(ctx, OP, "hiF", table, ids, positions) != TFM_OK ||
        begin(ctx, y, table, ids, positions, first) != TFM_OK)
        return tfm_context_status(ctx);
    if (table.dtype != TFM_F32 && TFM__TAPE_REQUIRES_GRAD(ctx, table, positions))
        return tfm__op_error(ctx, OP, "an F16 or BF16 table has no backward pass: open the model as fp32 to train it");
    const int64_t vocabulary = table.dims[0], width = table.dims[1], length = tfm__last_dim(ids);
    const int64_t n = (int64_t)tfm_tensor_count(*y);
    const tfm__arg args[] = {TFM__T_AS("y", *y),
                             TFM__T(table),
                             TFM__T(ids),
                             TFM__T(positions),
                             TFM__I(n),
                             TFM__I(width),
                             TFM__I(vocabulary),
                             TFM__I_AS("steps", length),
                             TFM__I(first),
                             TFM__F(scale),
                             PADDING_VALUES(padding)};
    tfm__kernel *kernel =
        tfm__kernel_get(ctx, OP, "embedding", "%s%s", tfm__load_dtype_define(table.dtype), padding_define(padding));
    tfm__launch(ctx, kernel, tfm__element_grid(ctx, n), TFM__COUNT(args) - (padding ? 0 : PADDING_ARGS), args);
    tfm_tensor used = {0};
    if (positions.buffer)
        tfm_tensor_rows(ctx, &used, positions, first, length);
    return tfm__tape_add(
        ctx, &(tfm__record){
                 .op = OP, .backward = backward, .out = {*y}, .in = {table, used}, .saved = {ids}, .floats = {scale}});
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

static void check(tfm__check *c) {
    const int64_t vocabulary = 29, sequences = 3, length = 5, width = 17, first = 2;
    float *table, *positions;
    int32_t *ids;
    tfm_tensor y = {0}, tt = RANDOM_FLOATS(table, vocabulary, width),
               tp = RANDOM_FLOATS(positions, first + length, width),
               ti = RANDOM_INTS(ids, (int)vocabulary, sequences, length);
    double *want = EXPECTED(sequences * length * width);
    for (int64_t i = 0; tfm__check_ready(c) && i < sequences * length * width; i++) {
        int64_t token = i / width, position = first + token % length;
        want[i] = 1.5 * (double)table[ids[token] * width + i % width] + (double)positions[position * width + i % width];
    }
    tfm_embedding(c->ctx, &y, tt, ti, 1.5f, tp, first);
    tfm__check_compare(c, y, want);
}

const tfm__check_entry tfm__selftest_embedding[] = {
    {"embedding", "positions", check, 0},
    {0},
};
