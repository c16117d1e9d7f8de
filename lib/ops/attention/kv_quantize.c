/* Keys and values as rows of an int8 KV cache: cl/attention/kv_quantize.cl. */
#include "ops/attention/kv_quantize.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include "ops/attention/attention.h"
#include "ops/selftest/selftest.h"

enum { BLOCK = 32 }; /* columns with one scale */

static tfm_status check_rows(tfm_context *ctx, tfm_tensor to, tfm_tensor x, int64_t heads) {
    const int64_t width = tfm__last_dim(x), span = heads > 0 ? heads * TFM_KV_INT8_SPAN(width / heads) : 0;
    if (heads < 1 || width % heads != 0 || to.rank != 2 || to.dims[0] != tfm__row_count(x) || to.dims[1] != span)
        return tfm__op_error(ctx, "kv_quantize",
                             "%s does not fit %s of %" PRId64 " heads: it must be (%" PRId64 ", %" PRId64 ")",
                             TFM__SHAPE(to), TFM__SHAPE(x), heads, tfm__row_count(x), span);
    if (to.offset % 4 != 0)
        return tfm__op_error(ctx, "kv_quantize", "%s must begin at a multiple of four bytes", TFM__SHAPE(to));
    return TFM_OK;
}

tfm_status tfm__kv_quantize(tfm_context *ctx, tfm_tensor keys, tfm_tensor values, tfm_tensor k, tfm_tensor v,
                            int64_t heads) {
    if (TFM__OP_BEGIN(ctx, "kv_quantize", "bbff", keys, values, k, v) != TFM_OK ||
        TFM__TAPE_NO_BACKWARD(ctx, "kv_quantize", k, v) != TFM_OK || check_rows(ctx, keys, k, heads) != TFM_OK ||
        check_rows(ctx, values, v, heads) != TFM_OK)
        return tfm_context_status(ctx);
    if (!tfm__same_dims(keys, values) || tfm__last_dim(k) != tfm__last_dim(v))
        return tfm__op_error(ctx, "kv_quantize", "k %s and v %s differ", TFM__SHAPE(k), TFM__SHAPE(v));
    if (TFM__OP_NO_OVERLAP(ctx, "kv_quantize", keys, values, k, v) != TFM_OK ||
        TFM__OP_NO_OVERLAP(ctx, "kv_quantize", values, k, v) != TFM_OK)
        return tfm_context_status(ctx);
    /* On CPU-style devices a work-item takes about a row's worth of elements, since one block is little work. */
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    const int64_t all = tfm__row_count(k) * heads, d = tfm__last_dim(k) / heads;
    const int64_t own = tuning->class == TFM__CLASS_CPU ? tuning->chunk / BLOCK + 1 : 1,
                  per_group = own * tuning->group;
    return tfm__launch(ctx, tfm__kernel_get(ctx, "kv_quantize", "kv_quantize", ""),
                       tfm__row_grid(ctx, tfm__ceil_div(2 * all * tfm__ceil_div(d, BLOCK), per_group)),
                       TFM__ARGS(TFM__T(keys), TFM__T(values), TFM__T(k), TFM__T(v), TFM__I_AS("heads", all), TFM__I(d),
                                 TFM__I(per_group)));
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

/* What attention reads back: one query of zeros over a key alone gives that key's value, to half a step. */
static void check(tfm__check *c) {
    const int64_t rows = 5, heads = 3, d = 45, span = TFM_KV_INT8_SPAN(d);
    const int64_t dims[] = {rows, heads * span};
    float *k, *v;
    tfm_tensor y = {0}, keys = {0}, values = {0}, zeros = {0}, tk = RANDOM_FLOATS(k, rows, heads * d),
               tv = RANDOM_FLOATS(v, rows, heads * d);
    double *want = EXPECTED(rows * heads * d);
    const int32_t order[] = {3, 0, 4, 2, 1};
    tfm_tensor indices = {0};
    tfm_tensor_new(c->ctx, &indices, TFM_I32, 2, (int64_t[]){rows, 1});
    tfm_tensor_write(c->ctx, indices, order);
    tfm_tensor_new(c->ctx, &keys, TFM_I8, 2, dims);
    tfm_tensor_new(c->ctx, &values, TFM_I8, 2, dims);
    tfm_tensor_new(c->ctx, &zeros, TFM_F32, 3, (int64_t[]){rows, 1, heads * d});
    const float zero = 0;
    if (!tfm__check_ready(c))
        return;
    tfm__tensor_fill(c->ctx, zeros, &zero);
    for (int64_t i = 0; i < rows * heads * d; i++) {
        const float *head = v + (order[i / (heads * d)] * heads + i / d % heads) * d;
        float scale = 0;
        uint32_t bits;
        for (int64_t first = i % d / BLOCK * BLOCK, j = first; j < d && j < first + BLOCK; j++)
            scale = fmaxf(scale, fabsf(head[j]) / 127);
        memcpy(&bits, &scale, sizeof(bits));
        bits = (bits + 0xffff) & 0xffff0000; /* to bf16, rounded up */
        memcpy(&scale, &bits, sizeof(bits));
        want[i] = rint((double)head[i % d] / (double)scale) * (double)scale;
    }
    tfm__kv_quantize(c->ctx, keys, values, tk, tv, heads);
    tfm_attention(c->ctx, &y, zeros, keys, values,
                  &(tfm_attention_options){.heads = (int)heads, .kv_indices = indices});
    tfm__check_compare(c, y, want);
}

const tfm__check_entry tfm__selftest_kv_quantize[] = {
    {"kv_quantize", "rows in int8", check, 0},
    {0},
};
