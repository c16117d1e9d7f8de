/* What gemm_mma.c runs of cl/gemm/gemm_mma_multistage.cl: products whose operands are read in 16 bits, those of floats
 * after they were rounded to memory of their own. */
#ifndef TFM_LIB_GEMM_MMA_MULTISTAGE_H
#define TFM_LIB_GEMM_MMA_MULTISTAGE_H

#include "ops/gemm/gemm_splitk.h"

enum { TFM__MULTISTAGE_K = 32 }; /* steps of the inner dimension in a tile */

/* A product as it is run. */
typedef struct tfm__gemm_multistage {
    tfm__gemm_splitk splitk;
    tfm_dtype inputs; /* of 16 bits */
    int wave_m, wave_n, stages;
    bool index64; /* elements after 2^31 */
} tfm__gemm_multistage;

/* Bytes of local memory of one tile of both operands. */
size_t tfm__gemm_multistage_stage_bytes(tfm__gemm_macro_tile macro_tile);
/* Whether lines of a stored b have whole chunks of 8 numbers, and begin with one. */
bool tfm__gemm_multistage_aligned(const tfm__gemm_task *task);
/* Whether there are elements after 2^31, of what is rounded too. */
bool tfm__gemm_multistage_index64(tfm_context *ctx, const tfm__gemm_task *task, const tfm__gemm_splitk *splitk);
/* Bytes of what is rounded. */
uint64_t tfm__gemm_multistage_memory(const tfm__gemm_task *task);
/* A kernel of that file. */
tfm__kernel *tfm__gemm_multistage_kernel(tfm_context *ctx, const tfm__gemm_task *task,
                                         const tfm__gemm_multistage *multistage, const char *name);
/* Rounds what must be, and multiplies by this kernel in groups of so many items. */
tfm_status tfm__gemm_multistage_run(tfm_context *ctx, const tfm__gemm_task *task,
                                    const tfm__gemm_multistage *multistage, tfm__kernel *kernel, size_t items);

#endif
