/* Selftest of each matrix-core tile: its kernel is validated by then, and compared with double precision here. */
#include <math.h>
#include "ops/gemm/gemm_mma.h"

/* Rounds to 16 bits and back, to nearest even; not for subnormals of that format. */
double tfm__mma_rounded(double x, tfm_dtype dtype) {
    int exponent;
    const double fraction = frexp(x, &exponent);
    const int bits = dtype == TFM_BF16 ? 8 : 11;
    return ldexp(rint(ldexp(fraction, bits)), exponent - bits);
}

/* The rounded values of an operand, row by row along K. */
static double *lines_of(tfm__check *c, const float *host, int64_t count, int64_t k, bool lies_so) {
    double *out = EXPECTED(count * k);
    for (int64_t i = 0; out && i < count * k; i++)
        out[i] = tfm__mma_rounded((double)host[lies_so ? i : i % k * count + i / k], (tfm_dtype)c->number);
    return out;
}

/* More than one tile each way, none of them whole, and two rounds of the stages. `number` selects transposes, split-K
 * and 16-bit b in turn. */
static void check_tile(tfm__check *c, const tfm__mma_tile *tile, int stages, int number) {
    const bool stored = (number / 2 + (c->number == TFM_BF16)) % 2, ring = tile->macro_tile.converts;
    const int64_t odd = stored && ring ? 8 : number % 3 ? 5 : 4;
    const int64_t m = tile->macro_tile.m + odd, n = tile->macro_tile.n + odd, k = (ring ? 8 : 4) * TILE_K + odd;
    tfm__gemm_task task = {.batch = 1, .m = m, .n = n, .k = k, .shared_b = true, .alpha = 1};
    task.transpose_a = number & 1;
    task.transpose_b = !(number & 2);
    float *a, *b;
    tfm_tensor narrow = {0};
    task.a = task.transpose_a ? RANDOM_FLOATS(a, k, m) : RANDOM_FLOATS(a, m, k);
    task.b = task.transpose_b ? RANDOM_FLOATS(b, n, k) : RANDOM_FLOATS(b, k, n);
    tfm_tensor_new(c->ctx, &task.c, TFM_F32, 2, (int64_t[]){m, n});
    if (stored) {
        tfm_cast(c->ctx, &narrow, task.b, (tfm_dtype)c->number);
        task.b = narrow;
    }
    if (!tfm__check_ready(c))
        return;
    const tfm__mma_plan p = tfm__mma_plan_with(c->ctx, &task, tile, stages, 1 + number % 2);
    const tfm__verdict verdict = tfm__mma_validate(c->ctx, &task, &p);
    c->skip_reason = tfm__mma_describe(verdict);
    if (verdict != TFM__VALID)
        return;
    tfm__mma_launch(c->ctx, &task, &p, tfm__mma_kernel(c->ctx, &task, &p));
    const double *x = lines_of(c, a, m, k, !task.transpose_a), *y = lines_of(c, b, n, k, task.transpose_b);
    double *want = EXPECTED(m * n);
    for (int64_t i = 0; x && y && want && i < m * n; i++)
        for (int64_t s = 0; s < k; s++)
            want[i] += x[i / n * k + s] * y[i % n * k + s];
    tfm__check_compare(c, task.c, want);
}

/* One GEMM at a time: a check has room for few tensors. */
static void check_in_scope(tfm__check *c, const tfm__mma_tile *tile, int stages, int number) {
    const size_t blocks = c->allocation_count;
    tfm_scope_open(c->ctx);
    check_tile(c, tile, stages, number);
    tfm_scope_close(c->ctx, 0, NULL);
    while (c->allocation_count > blocks)
        free(c->allocations[--c->allocation_count]);
}

/* Checks each tile that fits the device; multistage ones at each depth. A tile that does not build, or cannot be
 * validated now, is reported at the end; a wrong one stops the check, because all use the same instruction. */
static void check_all(tfm__check *c, bool rings) {
    const tfm_dtype before = tfm__context_set_gemm_input_dtype(c->ctx, (tfm_dtype)c->number);
    const tfm__mma_kind *kind = tfm__mma_kind_of(c->ctx);
    const tfm__gemm_task any = {.batch = 1, .m = 64, .n = 64, .k = 64, .shared_b = true, .alpha = 1};
    const char *first = NULL;
    int ran = 0;
    c->skip_reason = tfm__mma_declines(c->ctx, &any);
    for (int i = 0; !c->skip_reason && i < kind->count; i++) {
        const tfm__mma_tile *tile = &kind->tiles[i];
        if (tile->macro_tile.converts != rings || !tfm__mma_fits(c->ctx, tile))
            continue;
        const int most = tfm__mma_stages(c->ctx, tile, 0);
        for (int stages = rings ? MIN_STAGES : 0; stages <= most && !c->skip_reason && tfm__check_ready(c); stages++) {
            check_in_scope(c, tile, stages, ran++);
            first = first ? first : c->skip_reason;
            c->skip_reason = c->skip_reason == tfm__mma_describe(TFM__WRONG) ? c->skip_reason : NULL;
        }
    }
    c->skip_reason = c->skip_reason ? c->skip_reason : first;
    if (!c->skip_reason && ran == 0)
        c->skip_reason = rings && kind->count <= TILES
                             ? "the device's matrix cores have no multistage tiles"
                             : "the device's work-groups or local memory are too small for its tiles";
    tfm__context_set_gemm_input_dtype(c->ctx, before);
}

void tfm__mma_check_tiles(tfm__check *c) {
    check_all(c, false);
}

void tfm__mma_check_multistage(tfm__check *c) {
    check_all(c, true);
}
