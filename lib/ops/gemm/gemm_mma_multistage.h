/* Interface of cl/gemm/gemm_mma_multistage.cl for gemm_mma.c: GEMMs of 16-bit operands; fp32 operands are first rounded
 * to separate memory. */
#ifndef TFM_LIB_GEMM_MMA_MULTISTAGE_H
#define TFM_LIB_GEMM_MMA_MULTISTAGE_H

#include "ops/gemm/gemm_splitk.h"

enum { TFM__MULTISTAGE_K = 32 }; /* steps along K in a tile */

/* A planned launch. */
typedef struct tfm__gemm_multistage {
    tfm__gemm_splitk splitk;
    tfm_dtype inputs; /* of 16 bits */
    int wave_m, wave_n, stages;
    bool index64; /* elements beyond 2^31 */
} tfm__gemm_multistage;

/* Local memory in bytes of one stage of both operands. */
size_t tfm__gemm_multistage_stage_bytes(tfm__gemm_macro_tile macro_tile);
/* Whether rows of a stored b are aligned, and consist of whole chunks, of 8 numbers. */
bool tfm__gemm_multistage_aligned(const tfm__gemm_task *task);
/* Whether there are elements beyond 2^31, also in rounded copies. */
bool tfm__gemm_multistage_index64(tfm_context *ctx, const tfm__gemm_task *task, const tfm__gemm_splitk *splitk);
/* Bytes of the rounded copies. */
uint64_t tfm__gemm_multistage_memory(const tfm__gemm_task *task);
/* A kernel of that file. */
tfm__kernel *tfm__gemm_multistage_kernel(tfm_context *ctx, const tfm__gemm_task *task,
                                         const tfm__gemm_multistage *multistage, const char *name);
/* Rounds operands as needed, and multiplies by this kernel in groups of so many items. */
tfm_status tfm__gemm_multistage_run(tfm_context *ctx, const tfm__gemm_task *task,
                                    const tfm__gemm_multistage *multistage, tfm__kernel *kernel, size_t items);

#endif
