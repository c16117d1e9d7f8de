/* Validation of matrix-core kernels: each form once per device, before its first use. */
#include <math.h>
#include <stdio.h>
#include "ops/gemm/gemm_mma.h"

/* Random numbers in [-1, 1), the same in every run: (rows, columns), as fp32, rounded to 16 bits, and the rounded
 * values. */
static void fill(tfm_context *ctx, tfm_tensor *raw, tfm_tensor *narrow, tfm_tensor *rounded, tfm_dtype inputs,
                 int64_t rows, int64_t columns) {
    const size_t count = (size_t)(rows * columns);
    float *host = tfm__alloc(count, sizeof(*host));
    uint64_t random = 17;
    if (!host) {
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "gemm: out of host memory to validate the matrix cores");
        return;
    }
    for (size_t i = 0; i < count; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        host[i] = (float)(int32_t)(random >> 32) / 2147483648.0f;
    }
    tfm_tensor_new(ctx, raw, TFM_F32, 2, (int64_t[]){rows, columns});
    tfm_tensor_write(ctx, *raw, host);
    tfm_cast(ctx, narrow, *raw, inputs);
    tfm_cast(ctx, rounded, *narrow, TFM_F32);
    free(host);
}

/* Whether c equals `want`, up to the order of its sums. */
static bool agree(tfm_context *ctx, tfm_tensor c, tfm_tensor want) {
    const size_t count = tfm_tensor_count(c);
    float *x = tfm__alloc(count, sizeof(*x)), *y = tfm__alloc(count, sizeof(*y));
    double worst = 0, squares = 0;
    if (!x || !y)
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "gemm: out of host memory to validate the matrix cores");
    else if (tfm_tensor_read(ctx, x, c) == TFM_OK && tfm_tensor_read(ctx, y, want) == TFM_OK)
        for (size_t i = 0; i < count; i++) {
            const double error = fabs((double)x[i] - (double)y[i]);
            worst = error <= worst ? worst : isnan(error) ? INFINITY : error;
            squares += (double)y[i] * (double)y[i];
        }
    free(x);
    free(y);
    return squares > 0 && worst < 1e-4 * sqrt(squares / (double)count);
}

/* A GEMM by the plan's kernel and by the reference kernel: more than one tile each way, none of them whole, and two
 * rounds of the stages, which load stored numbers in groups of eight. */
static bool compare(tfm_context *ctx, const tfm__gemm_task *task, const tfm__mma_plan *p) {
    const bool ring = p->tile->macro_tile.converts;
    const int64_t odd = ring && task->b.dtype != TFM_F32 ? 8
                        : p->unit == 4                   ? 4
                                                         : 5,
                  m = p->tile->macro_tile.m + odd, n = p->tile->macro_tile.n + odd, k = (ring ? 8 : 2) * TILE_K + odd;
    const tfm_dtype inputs = tfm__gemm_input_dtype(ctx, task);
    tfm_tensor a = {0}, b = {0}, c = {0}, want = {0}, narrow_a = {0}, narrow_b = {0}, round_a = {0}, round_b = {0};
    const float poison = NAN;
    fill(ctx, &a, &narrow_a, &round_a, inputs, task->transpose_a ? k : m, task->transpose_a ? m : k);
    fill(ctx, &b, &narrow_b, &round_b, inputs, task->transpose_b ? n : k, task->transpose_b ? k : n);
    tfm_tensor_new(ctx, &c, TFM_F32, 2, (int64_t[]){m, n});
    tfm_tensor_new(ctx, &want, TFM_F32, 2, (int64_t[]){m, n});
    tfm__tensor_fill(ctx, c, &poison);
    tfm__gemm_task trial = {.batch = 1, .m = m, .n = n, .k = k, .c = c, .a = a, .b = b, .shared_b = true, .alpha = 1};
    trial.b = task->b.dtype != TFM_F32 ? narrow_b : b;
    trial.transpose_a = task->transpose_a;
    trial.transpose_b = task->transpose_b;
    tfm__mma_plan own = *p;
    own.index64 = false;
    own.splitk = tfm__gemm_splitk_of(ctx, &trial, p->tile->macro_tile, 1);
    tfm__kernel *kernel = tfm__mma_kernel(ctx, &trial, &own);
    tfm__mma_launch(ctx, &trial, &own, kernel);
    trial.c = want;
    trial.a = round_a;
    trial.b = round_b;
    tfm__gemm_reference.multiply(ctx, &trial);
    return agree(ctx, c, want);
}

/* A kernel form under validation. */
typedef struct form {
    const tfm__gemm_task *task;
    const tfm__mma_plan *plan;
} form;

static tfm__verdict compare_form(tfm_context *ctx, const void *of) {
    const form *f = of;
    tfm__kernel *kernel = tfm__mma_kernel(ctx, f->task, f->plan);
    if (kernel && tfm__kernel_max_workgroup(ctx, kernel) < tfm__mma_items(ctx, f->plan->tile))
        return TFM__NOT_BUILT;
    return compare(ctx, f->task, f->plan) ? TFM__VALID : TFM__WRONG;
}

tfm__verdict tfm__mma_validate(tfm_context *ctx, const tfm__gemm_task *task, const tfm__mma_plan *p) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    unsigned char *known = tfm__mma_verdict_on(ctx, task, p);
    char what[160];
    if (!known || *known != TFM__UNTESTED)
        return known ? (tfm__verdict)*known : TFM__UNTESTED;
    snprintf(what, sizeof(what), "engine %d of %s, %s %dx%dx%d in waves of %dx%d, %c%c by %d%s%s", (int)tuning->mma,
             tfm_dtype_name(tfm__gemm_input_dtype(ctx, task)), p->tile->macro_tile.converts ? "ring" : "tile",
             p->tile->macro_tile.m, p->tile->macro_tile.n, TILE_K, p->tile->wave_m, p->tile->wave_n,
             task->transpose_a ? 't' : 'n', task->transpose_b ? 't' : 'n',
             p->tile->macro_tile.converts ? p->stages : p->unit, task->b.dtype != TFM_F32 ? ", b stored as " : "",
             task->b.dtype != TFM_F32 ? tfm_dtype_name(task->b.dtype) : "");
    tfm__mma_state *s = tfm__mma_state_of(ctx);
    const form f = {task, p};
    return tfm__validate(ctx, known,
                         &(tfm__validation){.program = tuning->mma_emulated           ? NULL
                                                       : p->tile->macro_tile.converts ? "gemm_mma_multistage"
                                                                                      : "gemm_mma",
                                            .what = what,
                                            .without = "it",
                                            .describe = tfm__mma_describe,
                                            .compare = compare_form,
                                            .form = &f,
                                            .waited = &s->waited});
}
