/* Conversion among F32, F16 and BF16: cl/elementwise/cast.cl. */
#include <math.h>
#include "ops/selftest/selftest.h"
#include "ops/reduce/sum.h"
#include "ops/autograd/tape.h"

static tfm_status backward(tfm_context *ctx, const tfm__record *record) {
    return tfm__accumulate(ctx, tfm__tape_grad_input(ctx, record, 0), tfm__tape_grad_output(ctx, record, 0));
}

static tfm_status launch(tfm_context *ctx, tfm_tensor y, tfm_tensor x, const char *narrow) {
    const int64_t n = (int64_t)tfm_tensor_count(x);
    const bool vec4 = TFM__CAN_VEC4(ctx, y, x);
    tfm__kernel *kernel =
        tfm__kernel_get(ctx, "cast", "cast", "%s%s%s", tfm__load_dtype_define(x.dtype), narrow, tfm__vec4_define(vec4));
    return tfm__launch(ctx, kernel, tfm__vec4_grid(ctx, n, vec4), TFM__ARGS(TFM__T(y), TFM__T(x), TFM__I(n)));
}

tfm_status tfm_cast(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_dtype dtype) {
    const char *op = "cast";
    if (TFM__OP_BEGIN(ctx, op, "0h", x) != TFM_OK)
        return tfm_context_status(ctx);
    if (dtype != TFM_F32 && dtype != TFM_F16 && dtype != TFM_BF16)
        return tfm__op_error(ctx, op, "cannot make %s of %s: only F32, F16 and BF16 are cast", tfm_dtype_name(dtype),
                             TFM__SHAPE(x));
    if (dtype != TFM_F32 && TFM__TAPE_REQUIRES_GRAD(ctx, x))
        return tfm__op_error(ctx, op, "%s has no gradient: stop the tape first, or stay with F32",
                             tfm_dtype_name(dtype));
    if (tfm__op_output(ctx, op, y, dtype, x.rank, x.dims) != TFM_OK || TFM__OP_NO_OVERLAP(ctx, op, *y, x) != TFM_OK)
        return tfm_context_status(ctx);
    if (dtype == x.dtype) {
        tfm__tensor_copy(ctx, *y, x);
        return tfm__tape_add(ctx, &(tfm__record){.op = op, .backward = backward, .out = {*y}, .in = {x}});
    }
    return launch(ctx, *y, x, tfm__store_dtype_define(dtype));
}

tfm_status tfm__cast_saturating(tfm_context *ctx, tfm_tensor y, tfm_tensor x) {
    const char *op = "keep";
    if (TFM__OP_BEGIN(ctx, op, "fh", x, y) != TFM_OK || TFM__TAPE_NO_BACKWARD(ctx, op, x) != TFM_OK ||
        tfm__op_output(ctx, op, &y, y.dtype, x.rank, x.dims) != TFM_OK || TFM__OP_NO_OVERLAP(ctx, op, y, x) != TFM_OK)
        return tfm_context_status(ctx);
    return y.dtype == TFM_F32 ? tfm__tensor_copy(ctx, y, x) : launch(ctx, y, x, tfm__saturating_store_define(y.dtype));
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

/* To fp16 and back: exactly the nearest value, ties to even. */
static void check(tfm__check *c) {
    const tfm_dtype dtype = c->number == TFM_BF16 ? TFM_BF16 : TFM_F16;
    const int bits = dtype == TFM_BF16 ? 8 : 11, smallest = dtype == TFM_BF16 ? -133 : -24;
    float *x;
    tfm_tensor half = {0}, y = {0}, tx = RANDOM_FLOATS(x, 333);
    double *want = EXPECTED(333);
    for (int64_t i = 0; tfm__check_ready(c) && i < 333; i++) {
        int exponent, unit;
        frexp((double)x[i], &exponent);
        unit = exponent - bits > smallest ? exponent - bits : smallest;
        want[i] = ldexp(rint(ldexp((double)x[i], -unit)), unit);
    }
    tfm_cast(c->ctx, &half, tx, dtype);
    tfm_cast(c->ctx, &y, half, TFM_F32);
    tfm__check_compare(c, y, want);
    c->error = c->error > 0 ? INFINITY : 0;
}

const tfm__check_entry tfm__selftest_cast[] = {
    {"cast", "f16", check, TFM_F16},
    {"cast", "bf16", check, TFM_BF16},
    {0},
};
