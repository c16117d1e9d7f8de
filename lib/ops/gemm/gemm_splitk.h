/* What the providers share whose work-groups compute tiles of c: how c and the inner dimension are cut, and the launch,
 * whose kernels have the same arguments. */
#ifndef TFM_LIB_GEMM_SPLITK_H
#define TFM_LIB_GEMM_SPLITK_H

#include "ops/gemm/gemm.h"

/* How fast tiles of m x n are. `speed`: products a second of a core that is full of them, about, as a part of those of
 * the tile of 128 x 128 by floats. `full_tiles`: how many tiles a core must have at once to be full; one with fewer
 * takes as long as if it had so many. */
typedef struct tfm__gemm_macro_tile {
    int m, n;
    double speed, full_tiles;
    bool converts;     /* operands that are floats are made numbers of 16 bits in global memory beforehand */
    bool gradual_fill; /* a core fills bit by bit: its time is that of the root of the sum of the squares of both
                          numbers */
} tfm__gemm_macro_tile;

/* A product in such tiles. */
typedef struct tfm__gemm_splitk {
    tfm__gemm_macro_tile macro_tile;
    int64_t tiles_m, tiles_n, split_k, chunk;
} tfm__gemm_splitk;

/* `asked`: parts of the inner dimension; 0: those that take least time. */
tfm__gemm_splitk tfm__gemm_splitk_of(tfm_context *ctx, const tfm__gemm_task *task, tfm__gemm_macro_tile macro_tile,
                                     int64_t asked);
/* The place of the tile that takes least time, with its cut, among those whose bit is in `usable`; -1 if none is. The
 * table of tiles is `count` structures of `size` bytes that begin with their pace. What was found is kept: a step of
 * decoding asks for the same few products each time. */
int tfm__gemm_splitk_best(tfm_context *ctx, tfm__gemm_splitk *out, const tfm__gemm_task *task, const void *tiles,
                          int count, size_t size, unsigned usable, int64_t asked);
/* Whether operands can be read by vectors of four. */
bool tfm__gemm_loads_vec4(const tfm__gemm_task *task);
/* Whether c can be written so. */
bool tfm__gemm_stores_vec4(const tfm__gemm_task *task);
/* Whether there are elements after 2^31. */
bool tfm__gemm_splitk_index64(tfm_context *ctx, const tfm__gemm_task *task, const tfm__gemm_splitk *splitk);
/* Why a task does not go in these tiles, or NULL. */
const char *tfm__gemm_splitk_declines(const tfm__gemm_task *task, const tfm__gemm_splitk *splitk);
/* Bytes of the sums of all parts, where there are several. */
uint64_t tfm__gemm_splitk_memory(const tfm__gemm_task *task, const tfm__gemm_splitk *splitk);
/* Launches the kernel in groups of so many items, and adds up the parts. */
tfm_status tfm__gemm_splitk_run(tfm_context *ctx, const tfm__gemm_task *task, const tfm__gemm_splitk *splitk,
                                tfm__kernel *kernel, size_t items);

#endif
