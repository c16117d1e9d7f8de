/* Launches of block-quantized linear layers: shared by the files of this folder. */
#ifndef TFM_LIB_QUANT_LAUNCH_H
#define TFM_LIB_QUANT_LAUNCH_H

#include "ops/quant/quant.h"

/* One launch: outputs of one format. Unused ones have n 0 and no tensors. */
typedef struct tfm__quant_launch {
    const tfm__quant_format *format;
    tfm_tensor x; /* m rows of k, m > 0 */
    int64_t m, k;
    tfm_activation activation;
    tfm__quant_activation form;
    tfm_tensor y[TFM__QUANT_MAX_OUTPUTS], w[TFM__QUANT_MAX_OUTPUTS], bias[TFM__QUANT_MAX_OUTPUTS];
    int64_t n[TFM__QUANT_MAX_OUTPUTS], end[TFM__QUANT_MAX_OUTPUTS];
} tfm__quant_launch;

#define TFM__QUANT_OUTPUT_ARGS(l, i)                                                                                   \
    TFM__T_AS("y" #i, (l)->y[i]), TFM__T_AS("w" #i, (l)->w[i]), TFM__T_AS("bias" #i, (l)->bias[i]),                    \
        TFM__I_AS("n" #i, (l)->n[i]), TFM__I_AS("end" #i, (l)->end[i])
#define TFM__QUANT_OUTPUTS(l) TFM__QUANT_OUTPUT_ARGS(l, 0), TFM__QUANT_OUTPUT_ARGS(l, 1), TFM__QUANT_OUTPUT_ARGS(l, 2)

/* quant_launch.c: a kernel of cl/quant/quant_linear.cl, with the build options of its tile. */
tfm__kernel *tfm__quant_kernel(tfm_context *ctx, const tfm__quant_launch *l, const char *name, const char *tile);
/* Numbers the work-groups or items of all outputs, each of which takes `columns` columns; their total. */
int64_t tfm__quant_number_items(tfm__quant_launch *l, int64_t columns);

/* quant_linear_cpu.c, quant_linear_gpu.c: the launch on devices of the class. */
tfm_status tfm__quant_linear_cpu(tfm_context *ctx, tfm__quant_launch *l);
tfm_status tfm__quant_linear_gpu(tfm_context *ctx, tfm__quant_launch *l);

#endif
