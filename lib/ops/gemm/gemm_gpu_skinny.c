/* GEMM of few rows on GPU-style devices, as in decode: cl/gemm/gemm_gpu_skinny.cl. */
#include "ops/gemm/gemm_gpu_skinny.h"
#include <stdio.h>

enum { LANES = 32, TEAMS = 4, ITEMS = LANES * TEAMS, MAX_ROWS = 8 };
enum { LARGE = 16 << 20 }; /* a weight of more bytes is likely evicted from caches between groups of rows */

/* Local memory in bytes of a group of so many rows. */
static size_t local_bytes(int rows, int64_t width, bool normed) {
    const size_t sums = (size_t)rows * 4 * (ITEMS + 1), norm = normed ? (size_t)rows * (size_t)width + ITEMS : 0;
    return sizeof(float) * (sums > norm ? sums : norm);
}

/* Rows of a group: all, or as many as fit half of local memory, so that two groups share a core. 0: not even one fits.
 */
static int rows_of(tfm_context *ctx, int64_t m, int64_t k, bool normed) {
    int rows = MAX_ROWS;
    while (rows > 1 && rows / 2 >= m)
        rows /= 2;
    while (rows > 0 && local_bytes(rows, k, normed) > tfm__context_limits(ctx)->local_bytes / (normed ? 1 : 2))
        rows /= 2;
    return rows;
}

/* Sliced K: teams of a group share its columns and reduce in local memory, without another launch. Splits until each
 * compute unit has a group or two, as long as each item of a team reads at least four numbers of a row. */
static int sliced_k_of(tfm_context *ctx, int64_t groups, int64_t k) {
    const int64_t units = tfm_context_device(ctx)->compute_units;
    int sliced_k = 1;
    while (sliced_k < TEAMS && groups * sliced_k < units && 2 * sliced_k * LANES * 4 <= k)
        sliced_k *= 2;
    return sliced_k;
}

bool tfm__skinny_fits_norm(tfm_context *ctx, int64_t m, int64_t k) {
    return rows_of(ctx, m, k, true) > 0;
}

bool tfm__skinny_aligned_vec4(tfm_tensor x) {
    return x.offset % 4 == 0;
}

static const char *declines(tfm_context *ctx, const tfm__gemm_task *task) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    const tfm__limits *limits = tfm__context_limits(ctx);
    if (tuning->class != TFM__CLASS_GPU)
        return "it is for GPU-style devices, and this one vectorizes a work-item";
    if (task->m > tuning->gemm_skinny_rows)
        return "it is for few rows";
    if (task->m > MAX_ROWS && task->k * task->n * (int64_t)tfm_dtype_size(task->b.dtype) > LARGE)
        return "it would read a large weight several times";
    if (task->batch > 1 || task->transpose_a || !task->transpose_b || task->accumulate || task->alpha != 1)
        return "it is for linear layers alone";
    if (task->k < 4 || task->k % 4 != 0 || task->k * task->n > INT32_MAX || !tfm__skinny_aligned_vec4(task->a) ||
        !tfm__skinny_aligned_vec4(task->b))
        return "it reads four numbers at a time, of weights with fewer than 2^31";
    if (limits->max_group < ITEMS || limits->max_items[0] < ITEMS || rows_of(ctx, task->m, task->k, false) == 0)
        return "the device's work-groups or local memory are too small";
    return NULL;
}

static int64_t blocks_of(const tfm__skinny_launch *l, int64_t columns) {
    int64_t blocks = 0;
    for (int i = 0; i < TFM__GEMM_MAX_GROUP; i++)
        blocks += tfm__ceil_div(l->n[i], columns);
    return blocks;
}

tfm_status tfm__skinny_enqueue(tfm_context *ctx, const tfm__skinny_launch *l) {
    const int rows = rows_of(ctx, l->m, l->k, l->norm != 0);
    const int64_t columns = (l->gated ? 2 : 4) * TEAMS, row_blocks = tfm__ceil_div(l->m, rows);
    const int sliced_k = sliced_k_of(ctx, blocks_of(l, columns) * row_blocks, l->k);
    const int64_t groups = blocks_of(l, columns / sliced_k) * row_blocks;
    unsigned kept = 0;
    char define[24] = "", split[24] = "";
    for (int i = 0; i < TFM__GEMM_MAX_GROUP; i++)
        kept |= (unsigned)tfm__is_half(l->c[i]) << i;
    if (kept)
        snprintf(define, sizeof(define), " -DHALF_C=%u", kept);
    if (sliced_k > 1)
        snprintf(split, sizeof(split), " -DSLICED_K=%d", sliced_k);
    tfm__kernel *kernel = tfm__kernel_get(
        ctx, "gemm_gpu_skinny", "gemm_gpu_skinny", "-DROWS=%d -DNORMED=%d -DWIDTH=%d -DTFM_ACTIVATION=%d%s%s%s%s%s",
        rows, l->norm, l->norm ? (int)l->k : 4, (int)l->activation, define, split, l->gated ? " -DGATED=1" : "",
        tfm__load_dtype_define(l->stored), tfm__saturating_store_define(l->kept));
    return tfm__launch(ctx, kernel, TFM__GRID_1D((size_t)groups * ITEMS, ITEMS),
                       TFM__ARGS(TFM__T_AS("c0", l->c[0]), TFM__T_AS("c1", l->c[1]), TFM__T_AS("c2", l->c[2]),
                                 TFM__T_AS("w0", l->w[0]), TFM__T_AS("w1", l->w[1]), TFM__T_AS("w2", l->w[2]),
                                 TFM__T_AS("bias0", l->bias[0]), TFM__T_AS("bias1", l->bias[1]),
                                 TFM__T_AS("bias2", l->bias[2]), TFM__I_AS("n0", l->n[0]), TFM__I_AS("n1", l->n[1]),
                                 TFM__I_AS("n2", l->n[2]), TFM__T_AS("a", l->a), TFM__T_AS("residual", l->residual),
                                 TFM__T_AS("gamma", l->gamma), TFM__T_AS("beta", l->beta), TFM__T_AS("sum", l->sum),
                                 TFM__T_AS("normed", l->normed), TFM__I_AS("m", l->m), TFM__I_AS("k", l->k),
                                 TFM__F_AS("epsilon", l->epsilon)));
}

static tfm_status multiply(tfm_context *ctx, const tfm__gemm_task *task) {
    return tfm__skinny_enqueue(ctx, &(tfm__skinny_launch){.c = {task->c},
                                                          .w = {task->b},
                                                          .bias = {task->bias},
                                                          .n = {task->n},
                                                          .stored = task->b.dtype,
                                                          .a = task->a,
                                                          .m = task->m,
                                                          .k = task->k,
                                                          .activation = task->activation});
}

const tfm__gemm_provider tfm__gemm_gpu_skinny = {
    .name = "gpu-skinny", .declines = declines, .multiply = multiply, .fuses_norm = true};
