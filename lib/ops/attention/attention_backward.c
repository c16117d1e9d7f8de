/* Backward pass of attention: cl/attention/attention_backward.cl, and cl/attention/attention_backward_cpu.cl on CPUs.
 */
#include <string.h>
#include "ops/attention/attention.h"
#include "ops/reduce/sum.h"
#include "ops/autograd/tape.h"

enum { Q, K, V, MASK };
_Static_assert(sizeof(tfm__attention) <= TFM__TAPE_DATA, "a record has room for the call");

/* The buffer that kernels add to, with dims `like`: the gradient itself, zeroed for its first writer; or separate zeros
 * if the gradient is not required or `apart` is set. Tiles need neither zeros nor buffers for gradients that are not
 * required. */
static tfm__gradient place(tfm_context *ctx, tfm__gradient to, tfm_tensor like, bool apart, bool tiled) {
    const float zero = 0;
    tfm__gradient at = apart ? (tfm__gradient){0} : to;
    if (!at.to.buffer && (apart || !tiled))
        tfm_tensor_new(ctx, &at.to, TFM_F32, like.rank, like.dims);
    if (!at.add && !tiled)
        tfm__tensor_fill(ctx, at.to, &zero);
    return at;
}

static bool overlaps(tfm__gradient a, tfm__gradient b) {
    return a.to.buffer && b.to.buffer && tfm__overlap(a.to, b.to);
}

static tfm_status launch(tfm_context *ctx, const tfm__attention *a, tfm_tensor dy, const tfm__gradient *to) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    const int64_t widest = tuning->attention_backward_max_head_dim;
    const bool wide =
        tuning->class == TFM__CLASS_CPU && tuning->width > 1 && a->key_width <= widest && a->value_width <= widest;
    const int64_t items = a->q.dims[0] * a->kv_heads;
    tfm__kernel *kernel = tfm__kernel_get(
        ctx, wide ? "attention_backward_cpu" : "attention_backward",
        wide ? "attention_backward_cpu" : "attention_backward_gpu", "-DDK=%d -DDV=%d -DSCORE_MOD=%d -DDROPOUT=%d",
        (int)a->key_width, (int)a->value_width, a->soft_cap > 0 || a->mask.buffer, tfm__dropout_enabled(&a->dropout));
    return tfm__attention_enqueue(ctx, a, kernel, tfm__row_grid(ctx, items),
                                  TFM__ARGS(TFM__T_AS("dq", to[Q].to), TFM__T_AS("dk", to[K].to),
                                            TFM__T_AS("dv", to[V].to), TFM__T_AS("y", a->y), TFM__T(dy),
                                            TFM__T_AS("lse", a->lse), TFM__I(items), TFM__F_AS("scale", a->scale),
                                            TFM__F_AS("cap", a->soft_cap)));
}

/* Gradients that share memory (one tensor used as q, k and v) would be updated concurrently by several work-groups: the
 * later of two is computed separately and added afterwards. */
static tfm_status backward(tfm_context *ctx, const tfm__record *record) {
    tfm__attention a;
    memcpy(&a, record->data, sizeof(a));
    const tfm_tensor like[] = {a.q, a.k, a.v}, dy = tfm__tape_grad_output(ctx, record, 0);
    const bool tiled = tfm__attention_backward_fits(ctx, &a);
    tfm__gradient to[3], at[3];
    bool apart[3];
    for (int i = Q; i <= V; i++) /* resolve all before filling one: the first use of a buffer zeroes it */
        to[i] = tfm__tape_grad_input(ctx, record, i);
    for (int i = Q; i <= V; i++) {
        apart[i] = (i > Q && overlaps(to[i], to[Q])) || (i > K && overlaps(to[i], to[K]));
        at[i] = place(ctx, to[i], like[i], apart[i], tiled);
    }
    if (tiled)
        tfm__attention_backward_tiled(ctx, &a, dy, at[Q], at[K], at[V]);
    else
        launch(ctx, &a, dy, at);
    for (int i = Q; i <= V; i++)
        if (apart[i])
            tfm__accumulate(ctx, to[i], at[i].to);
    if (record->in[MASK].buffer)
        tfm__attention_bias_backward(ctx, &a, dy, tfm__tape_grad_input(ctx, record, MASK));
    return tfm_context_status(ctx);
}

tfm_status tfm__attention_record(tfm_context *ctx, const tfm__attention *a) {
    const tfm_tensor wanted = TFM__TAPE_REQUIRES_GRAD(ctx, a->mask) ? a->mask : (tfm_tensor){0};
    return tfm__tape_add(ctx, &(tfm__record){.op = "attention",
                                             .backward = backward,
                                             .out = {a->y},
                                             .in = {a->q, a->k, a->v, wanted},
                                             .saved = {a->q, a->k, a->v, a->y, a->lse, a->lengths, a->mask},
                                             .data = a,
                                             .data_bytes = sizeof(*a)});
}
