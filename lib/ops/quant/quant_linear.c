/* Linear layers with block-quantized weights: cl/quant/quant_linear.cl. */
#include <string.h>
#include "ops/autograd/tape.h"
#include "ops/quant/quant.h"
#include "ops/quant/quant_launch.h"
#include "ops/selftest/selftest.h"

#define OP "quant_linear"

static tfm_status check_output(tfm_context *ctx, tfm_tensor x, const tfm__fused_output *out) {
    int64_t dims[TFM_MAX_RANK];
    if (TFM__OP_BEGIN(ctx, OP, "F", out->bias) != TFM_OK || !tfm__quant_check(ctx, OP, out->weight))
        return tfm_context_status(ctx);
    const int64_t n = out->weight->block_dims[0], k = out->weight->block_dims[1];
    if (tfm__last_dim(x) != k)
        return tfm__op_error(ctx, OP, "x is %s, but the weight has %lld columns", TFM__SHAPE(x), (long long)k);
    if (out->bias.buffer && (out->bias.rank != 1 || out->bias.dims[0] != n))
        return tfm__op_error(ctx, OP, "bias is %s, but the weight has %lld rows", TFM__SHAPE(out->bias), (long long)n);
    memcpy(dims, x.dims, sizeof(dims));
    dims[x.rank - 1] = n;
    if (tfm__op_output(ctx, OP, out->y, TFM_F32, x.rank, dims) != TFM_OK)
        return tfm_context_status(ctx);
    return TFM__OP_NO_OVERLAP(ctx, OP, *out->y, x, out->weight->value, out->bias);
}

static tfm_status check(tfm_context *ctx, tfm_tensor x, int count, const tfm__fused_output *out,
                        tfm_activation activation) {
    if (TFM__OP_BEGIN(ctx, OP, "0f", x) != TFM_OK)
        return tfm_context_status(ctx);
    if (count < 1 || count > TFM__QUANT_MAX_OUTPUTS)
        return tfm__op_error(ctx, OP, "%d layers of one input: 1 to %d are supported", count, TFM__QUANT_MAX_OUTPUTS);
    if (activation < TFM_NO_ACTIVATION || activation >= TFM_ACTIVATIONS)
        return tfm__op_error(ctx, OP, "%d is not a tfm_activation", (int)activation);
    if (tfm__row_count(x) > INT32_MAX)
        return tfm__op_error(ctx, OP, "x is %s: at most 2^31 - 1 rows are supported", TFM__SHAPE(x));
    for (int i = 0; i < count; i++)
        if (TFM__TAPE_NO_BACKWARD(ctx, OP, x, out[i].bias) != TFM_OK || check_output(ctx, x, &out[i]) != TFM_OK)
            return tfm_context_status(ctx);
    for (int i = 1; i < count; i++)
        if (TFM__OP_NO_OVERLAP(ctx, OP, *out[i].y, *out[0].y, *out[i - 1].y) != TFM_OK)
            return tfm_context_status(ctx);
    return TFM_OK;
}

static tfm_status launch(tfm_context *ctx, tfm__quant_launch *l) {
    if (l->m == 0)
        return tfm_context_status(ctx);
    return tfm__context_tuning(ctx)->class == TFM__CLASS_CPU ? tfm__quant_linear_cpu(ctx, l)
                                                             : tfm__quant_linear_gpu(ctx, l);
}

/* l->x with its columns in the order of the matrix's, if there is one, and zeros up to whole blocks. */
static tfm_status place_columns(tfm_context *ctx, tfm__quant_launch *l, tfm_tensor columns) {
    const int64_t rows = l->m, k = l->k, padded = tfm__ceil_div(k, l->format->block) * l->format->block;
    tfm_tensor x = l->x;
    if (padded == k && !columns.buffer)
        return tfm_context_status(ctx);
    l->k = padded;
    l->x = (tfm_tensor){0};
    if (tfm_tensor_new(ctx, &l->x, TFM_F32, 2, (int64_t[]){rows, padded}) != TFM_OK || rows == 0)
        return tfm_context_status(ctx);
    return tfm__launch(
        ctx, tfm__kernel_get(ctx, "quant_columns", "quant_columns", ""), tfm__row_grid(ctx, rows),
        TFM__ARGS(TFM__T_AS("y", l->x), TFM__T(x), TFM__T(columns), TFM__I(rows), TFM__I(k), TFM__I(padded)));
}

tfm_status tfm__quant_linear(tfm_context *ctx, tfm_tensor x, int count, const tfm__fused_output *out,
                             tfm_activation activation, tfm__quant_activation form) {
    if (check(ctx, x, count, out, activation) != TFM_OK)
        return tfm_context_status(ctx);
    bool done[TFM__QUANT_MAX_OUTPUTS] = {false};
    for (int i = 0; i < count; i++) {
        const tfm_param *weight = out[i].weight;
        const tfm_tensor columns = tfm__quant_columns(ctx, weight); /* alone in their launch */
        tfm__quant_launch l = {.format = tfm__quant_format_of((uint32_t)weight->block_type),
                               .x = x,
                               .m = tfm__row_count(x),
                               .k = tfm__last_dim(x),
                               .activation = activation,
                               .form = form};
        for (int j = i, at = 0; j < count; j++) {
            const tfm_param *other = out[j].weight;
            if (done[j] || other->block_type != weight->block_type ||
                (j > i && (columns.buffer || tfm__quant_columns(ctx, other).buffer)))
                continue;
            done[j] = true;
            l.y[at] = *out[j].y;
            l.w[at] = other->value;
            l.bias[at] = out[j].bias;
            l.n[at++] = other->block_dims[0];
        }
        if (l.n[0] == 0)
            continue;
        tfm_scope_open(ctx);
        place_columns(ctx, &l, columns);
        launch(ctx, &l);
        if (tfm_scope_close(ctx, 0, NULL) != TFM_OK)
            return tfm_context_status(ctx);
    }
    return tfm_context_status(ctx);
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

/* Blocks with codes of the whole range, and scales near 0.01. */
static uint8_t *selftest_blocks(tfm__check *c, const tfm__quant_format *f, int64_t count) {
    uint8_t *blocks = tfm__check_alloc(c, (size_t)(count * f->bytes), 1);
    const int place = f->type == TFM__QUANT_Q6_K ? 208 : 0;
    for (int64_t i = 0; blocks && i < count * f->bytes; i++) {
        const int64_t at = i % f->bytes - place;
        c->random = c->random * 6364136223846793005u + 1442695040888963407u;
        blocks[i] = (uint8_t)(c->random >> 33);
        if (f->wide ? at == 3 || at == 7 : at == 1 || (at == 3 && f->minimum)) /* the upper byte of a number */
            blocks[i] = f->wide ? 0x3c : f->super ? 0x0c : 0x24;
    }
    return blocks;
}

static void check_format(tfm__check *c) {
    const tfm__quant_format *f = tfm__quant_format_of((uint32_t)c->number);
    const int64_t n = 37, k = 512, rows[] = {1, 11};
    const uint8_t *blocks = selftest_blocks(c, f, n * k / f->block);
    float *w = tfm__check_alloc(c, (size_t)(n * k), sizeof(*w));
    tfm_param weight = {0};
    if (blocks && w) {
        tfm__quant_unpack(f, w, blocks, (size_t)(n * k / f->block));
        tfm__quant_upload(c->ctx, &weight, OP, f, &(tfm__quant_rows){.of = blocks}, n, k);
    }
    for (int r = 0; r < 2; r++) {
        float *x;
        tfm_tensor y = {0}, tx = RANDOM_FLOATS(x, rows[r], k);
        double *want = EXPECTED(rows[r] * n);
        for (int64_t i = 0; tfm__check_ready(c) && i < rows[r] * n; i++)
            for (int64_t p = 0; p < k; p++)
                want[i] += (double)x[i / n * k + p] * (double)w[i % n * k + p];
        tfm__quant_linear(c->ctx, tx, 1, &(tfm__fused_output){&y, &weight, {0}}, TFM_NO_ACTIVATION,
                          TFM__QUANT_ACTIVATION_FP32);
        tfm__check_compare(c, y, want);
    }
    tfm_param_free(c->ctx, &weight);
}

const tfm__check_entry tfm__selftest_quant_linear[] = {
    {OP, "Q4_0", check_format, TFM__QUANT_Q4_0},         {OP, "Q4_1", check_format, TFM__QUANT_Q4_1},
    {OP, "Q5_0", check_format, TFM__QUANT_Q5_0},         {OP, "Q8_0", check_format, TFM__QUANT_Q8_0},
    {OP, "Q4_K", check_format, TFM__QUANT_Q4_K},         {OP, "Q6_K", check_format, TFM__QUANT_Q6_K},
    {OP, "INT4_G64", check_format, TFM__QUANT_INT4_G64}, {0},
};
