/* Launches of block-quantized linear layers: build options and grids. */
#include "ops/quant/quant_launch.h"

tfm__kernel *tfm__quant_kernel(tfm_context *ctx, const tfm__quant_launch *l, const char *name, const char *tile) {
    char defines[TFM__QUANT_DEFINES];
    return tfm__kernel_get(ctx, "quant_linear", name, "%s -DTFM_ACTIVATION=%d %s",
                           tfm__quant_defines(defines, ctx, l->format), (int)l->activation, tile);
}

int64_t tfm__quant_number_items(tfm__quant_launch *l, int64_t columns) {
    int64_t total = 0;
    for (int i = 0; i < TFM__QUANT_MAX_OUTPUTS; i++)
        l->end[i] = total += tfm__ceil_div(l->n[i], columns);
    return total;
}
