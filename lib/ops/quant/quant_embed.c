/* Embedding of a block-quantized table: cl/quant/quant_embed.cl. */
#include <string.h>
#include "ops/autograd/tape.h"
#include "ops/quant/quant_launch.h"

#define OP "quant_embed"

tfm_status tfm__quant_embed(tfm_context *ctx, tfm_tensor *y, const tfm__quant_matrix *table, tfm_tensor ids,
                            float scale) {
    char defines[TFM__QUANT_DEFINES];
    int64_t dims[TFM_MAX_RANK];
    if (TFM__OP_BEGIN(ctx, OP, "04i", table->data, ids) != TFM_OK ||
        TFM__TAPE_NO_BACKWARD(ctx, OP, table->data) != TFM_OK)
        return tfm_context_status(ctx);
    if (!tfm__quant_fits(table->format, table->n, table->k) || table->data.rank != 1 ||
        table->data.dims[0] != tfm__quant_words(ctx, table->format, table->n, table->k))
        return tfm__op_error(ctx, OP, "the table is not a block-quantized matrix of this device");
    if (ids.rank >= TFM_MAX_RANK)
        return tfm__op_error(ctx, OP, "ids is %s: its rank must be below %d", TFM__SHAPE(ids), TFM_MAX_RANK);
    memcpy(dims, ids.dims, sizeof(dims));
    dims[ids.rank] = table->k;
    if (tfm__op_output(ctx, OP, y, TFM_F32, ids.rank + 1, dims) != TFM_OK ||
        TFM__OP_NO_OVERLAP(ctx, OP, *y, table->data, ids) != TFM_OK)
        return tfm_context_status(ctx);
    const int64_t rows = (int64_t)tfm_tensor_count(ids);
    return tfm__launch(ctx, tfm__kernel_get(ctx, OP, OP, "%s", tfm__quant_defines(defines, ctx, table->format)),
                       tfm__row_grid(ctx, rows),
                       TFM__ARGS(TFM__T_AS("y", *y), TFM__T_AS("table", table->data), TFM__T(ids), TFM__I(rows),
                                 TFM__I_AS("width", table->k), TFM__I_AS("vocabulary", table->n), TFM__F(scale)));
}
