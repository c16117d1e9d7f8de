/* Sinusoidal position table. Computed on the host in double precision, once per model, without a kernel: the float
 * argument of sin() would be off by 1e-4 at position 2000. */
#include <inttypes.h>
#include <math.h>
#include "ops/selftest/selftest.h"

/* A column has sin or cos of p 10000^-power for each position p. */
static void fill_column(float *column, int64_t positions, int64_t width, double power, bool cosine) {
    const double inv_freq = pow(10000.0, -power);
    for (int64_t p = 0; p < positions; p++) {
        const double angle = (double)p * inv_freq;
        column[p * width] = (float)(cosine ? cos(angle) : sin(angle));
    }
}

tfm_status tfm_sinusoid(tfm_context *ctx, tfm_tensor *table, int64_t positions, int64_t width,
                        tfm_sinusoid_layout layout) {
    if (TFM__NEEDS_ON(ctx, "sinusoid", table) != TFM_OK)
        return tfm_context_status(ctx);
    const char *op = "sinusoid";
    /* Checks a given table as an input; an empty one is created later. */
    const tfm_tensor given = *table;
    if (TFM__OP_BEGIN(ctx, op, "F", given) != TFM_OK)
        return tfm_context_status(ctx);
    if ((int)layout < TFM_SINUSOID_INTERLEAVED || (int)layout > TFM_SINUSOID_FAIRSEQ)
        return tfm__op_error(ctx, op, "there is no layout %d: use one of enum tfm_sinusoid_layout", (int)layout);
    if (given.buffer && given.rank != 2)
        return tfm__op_error(ctx, op, "table is %s: it must be (P, E)", TFM__SHAPE(given));
    if (given.buffer) {
        positions = given.dims[0];
        width = given.dims[1];
    }
    if (positions < 1 || width < 1)
        return tfm__op_error(ctx, op, "%" PRId64 " positions of width %" PRId64 " are asked: both must be at least 1",
                             positions, width);
    if (tfm__op_output(ctx, op, table, TFM_F32, 2, (int64_t[]){positions, width}) != TFM_OK)
        return tfm_context_status(ctx);
    float *host = tfm__alloc(tfm_tensor_count(*table), sizeof(float));
    if (!host)
        return tfm__context_fail(ctx, TFM_ERROR_MEMORY, "sinusoid: no host memory for %s", TFM__SHAPE(*table));
    /* "Attention Is All You Need", section 3.5: the angle of pair i at position p is p / 10000^(2i/E). */
    const int64_t half = layout == TFM_SINUSOID_FAIRSEQ ? width / 2 : (width + 1) / 2;
    for (int64_t c = 0; c < width; c++) {
        const int64_t pair = layout == TFM_SINUSOID_INTERLEAVED ? c / 2 : half ? c % half : 0;
        const bool cosine = layout == TFM_SINUSOID_INTERLEAVED ? c % 2 : c >= half;
        if (layout != TFM_SINUSOID_FAIRSEQ)
            fill_column(host + c, positions, width, 2.0 * (double)pair / (double)width, cosine);
        else if (c < 2 * half) /* what is allocated is 0 */
            fill_column(host + c, positions, width, half > 1 ? (double)pair / (double)(half - 1) : 0, cosine);
    }
    tfm_status status = tfm_tensor_write(ctx, *table, host);
    free(host);
    return status;
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

static void check(tfm__check *c) {
    const int64_t positions = 33, width = 18, half = width / 2;
    tfm_tensor table = {0};
    double *want = EXPECTED(positions * width);
    for (int64_t i = 0; tfm__check_ready(c) && i < positions * width; i++) {
        int64_t column = i % width;
        bool split = c->number == TFM_SINUSOID_SPLIT, sine = split ? column < half : column % 2 == 0;
        int64_t pair = split ? column % half : column / 2;
        double angle = (double)(i / width) / pow(10000, 2 * (double)pair / (double)width);
        want[i] = sine ? sin(angle) : cos(angle);
    }
    tfm_sinusoid(c->ctx, &table, positions, width, (tfm_sinusoid_layout)c->number);
    tfm__check_compare(c, table, want);
}

const tfm__check_entry tfm__selftest_sinusoid[] = {
    {"sinusoid", "interleaved", check, TFM_SINUSOID_INTERLEAVED},
    {"sinusoid", "split", check, TFM_SINUSOID_SPLIT},
    {0},
};
