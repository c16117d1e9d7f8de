/* What the providers share whose work-groups compute tiles of c: how c and the inner dimension are cut, and the launch,
 * whose kernels have the same arguments. */
#ifndef TFM_LIB_GEMM_CUT_H
#define TFM_LIB_GEMM_CUT_H

#include "ops/gemm.h"

/* A product in tiles of m x n. `speed`: products a second of a device that is full of such tiles, about, as a part of
 * the best tile's. */
typedef struct tfm__gemm_cut {
    int m, n;
    double speed;
    int64_t tiles_m, tiles_n, parts, chunk;
} tfm__gemm_cut;

/* `asked`: parts of the inner dimension; 0: as many as the device has room for. */
tfm__gemm_cut tfm__gemm_cut_of(tfm_context *ctx, const tfm__gemm_task *task, int m, int n, double speed, int64_t asked);
/* How long it takes, in products of the best tile. */
double tfm__gemm_cut_cost(tfm_context *ctx, const tfm__gemm_task *task, const tfm__gemm_cut *cut);
/* Whether operands and c can be moved by vectors of four. */
bool tfm__gemm_by_fours(const tfm__gemm_task *task);
/* Whether there are elements after 2^31. */
bool tfm__gemm_cut_large(tfm_context *ctx, const tfm__gemm_task *task, const tfm__gemm_cut *cut);
/* Why a task does not go in these tiles, or NULL. */
const char *tfm__gemm_cut_declines(const tfm__gemm_task *task, const tfm__gemm_cut *cut);
/* Bytes of the sums of all parts, where there are several. */
uint64_t tfm__gemm_cut_memory(const tfm__gemm_task *task, const tfm__gemm_cut *cut);
/* Launches the kernel in groups of so many items, and adds up the parts. */
tfm_status tfm__gemm_cut_run(tfm_context *ctx, const tfm__gemm_task *task, const tfm__gemm_cut *cut,
                             tfm__kernel *kernel, size_t items);

#endif
