/* Shared by the tiled GPU providers: tile and split-K choice, and the launch, since their kernels have the same
 * arguments. */
#ifndef TFM_LIB_GEMM_SPLITK_H
#define TFM_LIB_GEMM_SPLITK_H

#include "ops/gemm/gemm.h"

/* Throughput of tiles of m x n. `speed`: multiply-adds a second of a fully occupied core, relative to the 128 x 128
 * fp32 tile. `full_tiles`: resident tiles that a core needs for full throughput; with fewer it takes the time of that
 * many. */
typedef struct tfm__gemm_macro_tile {
    int m, n;
    double speed, full_tiles;
    bool converts;     /* fp32 operands are converted to 16 bits in global memory first */
    bool gradual_fill; /* occupancy fades in: the time is the root of the sum of both numbers squared */
} tfm__gemm_macro_tile;

/* A planned tiled GEMM. */
typedef struct tfm__gemm_splitk {
    tfm__gemm_macro_tile macro_tile;
    int64_t tiles_m, tiles_n, split_k, chunk;
} tfm__gemm_splitk;

/* `asked`: number of K splits; 0: the cheapest. */
tfm__gemm_splitk tfm__gemm_splitk_of(tfm_context *ctx, const tfm__gemm_task *task, tfm__gemm_macro_tile macro_tile,
                                     int64_t asked);
/* The index of the cheapest tile, with its split, among those with a bit in `usable`; -1 if none. The tile table is
 * `count` structures of `size` bytes that begin with a tfm__gemm_macro_tile. Results are cached: a decode step repeats
 * the same few GEMMs. */
int tfm__gemm_splitk_best(tfm_context *ctx, tfm__gemm_splitk *out, const tfm__gemm_task *task, const void *tiles,
                          int count, size_t size, unsigned usable, int64_t asked);
/* Whether operands can be read as vectors of four. */
bool tfm__gemm_loads_vec4(const tfm__gemm_task *task);
/* Whether c can be written as vectors of four. */
bool tfm__gemm_stores_vec4(const tfm__gemm_task *task);
/* Whether there are elements beyond 2^31. */
bool tfm__gemm_splitk_index64(tfm_context *ctx, const tfm__gemm_task *task, const tfm__gemm_splitk *splitk);
/* Why these tiles decline a task, or NULL. */
const char *tfm__gemm_splitk_declines(const tfm__gemm_task *task, const tfm__gemm_splitk *splitk);
/* Bytes of the partial sums, with more than one split. */
uint64_t tfm__gemm_splitk_memory(const tfm__gemm_task *task, const tfm__gemm_splitk *splitk);
/* Launches the kernel in groups of so many items, and the split-K reduction. */
tfm_status tfm__gemm_splitk_run(tfm_context *ctx, const tfm__gemm_task *task, const tfm__gemm_splitk *splitk,
                                tfm__kernel *kernel, size_t items);

#endif
