/* Gradient of the attention mask: cl/attention/attention_bias_backward.cl. */
#include "ops/attention/attention.h"
#include "ops/reduce/sum.h"

/* Bias rows of a work-group: enough to amortize packing a tile of keys. */
enum { SPAN = 64 };

/* The gradient with the kernel's rows and columns: the mask's dims, right-aligned. */
static void dims_of(int64_t *dims, const tfm__attention *a) {
    const tfm_tensor mask = a->mask;
    for (int i = 0; i < 4; i++)
        dims[i] = i < 4 - mask.rank ? 1 : mask.dims[i - 4 + mask.rank];
    dims[3] = a->columns;
}

static tfm_status launch(tfm_context *ctx, const tfm__attention *a, tfm_tensor dy, tfm_tensor to, bool add,
                         const int64_t *dims) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    const int64_t widest = tuning->attention_backward_max_head_dim;
    const bool wide =
        tuning->class == TFM__CLASS_CPU && tuning->width > 1 && a->key_width <= widest && a->value_width <= widest;
    const int64_t span = dims[2] > 1 ? SPAN : 1, spans = tfm__ceil_div(dims[2], span);
    const int64_t tiles = tfm__ceil_div(a->columns, wide ? tuning->width : tuning->group);
    const int64_t items = tiles * spans * dims[1] * dims[0];
    tfm__kernel *kernel = tfm__kernel_get(ctx, "attention_bias_backward",
                                          wide ? "attention_bias_backward_cpu" : "attention_bias_backward_gpu",
                                          "-DDK=%d -DDV=%d -DSCORE_MOD=1 -DDROPOUT=%d", (int)a->key_width,
                                          (int)a->value_width, tfm__dropout_enabled(&a->dropout));
    return tfm__attention_enqueue(
        ctx, a, kernel, tfm__row_grid(ctx, items),
        TFM__ARGS(TFM__T_AS("dbias", to), TFM__T_AS("y", a->y), TFM__T(dy), TFM__T_AS("lse", a->lse), TFM__I(items),
                  TFM__I(tiles), TFM__I(spans), TFM__I(span), TFM__I_AS("bias_b", dims[0]),
                  TFM__I_AS("bias_h", dims[1]), TFM__I_AS("bias_t", dims[2]), TFM__I_AS("batch", a->q.dims[0]),
                  TFM__I_AS("add", add), TFM__F_AS("scale", a->scale), TFM__F_AS("cap", a->soft_cap)));
}

tfm_status tfm__attention_bias_backward(tfm_context *ctx, const tfm__attention *a, tfm_tensor dy, tfm__gradient to) {
    int64_t dims[4];
    tfm_tensor all = {0};
    if (!to.to.buffer)
        return tfm_context_status(ctx);
    dims_of(dims, a);
    const int64_t rows = dims[0] * dims[1] * dims[2];
    if ((int64_t)tfm_tensor_count(to.to) == rows * a->columns)
        return launch(ctx, a, dy, to.to, to.add, dims);
    /* The mask broadcasts along keys: sum the columns. */
    tfm_tensor_new(ctx, &all, TFM_F32, 4, dims);
    launch(ctx, a, dy, all, false, dims);
    tfm__sum_into(ctx, to, all, rows, a->columns, 1);
    tfm_tensor_free(ctx, &all);
    return tfm_context_status(ctx);
}
