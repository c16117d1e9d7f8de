/* Attention backwards: cl/attention_backward.cl. */
#include <string.h>
#include "ops/attention.h"
#include "ops/tape.h"

enum { Q, K, V };
_Static_assert(sizeof(tfm__attention) <= TFM__TAPE_DATA, "a record has room for the call");

/* Where a gradient goes: its place, zeros at first, or scratch that nobody looks at. */
static tfm_tensor place(tfm_context *ctx, tfm__gradient to, tfm_tensor like) {
    const float zero = 0;
    tfm_tensor at = to.to;
    if (!at.buffer)
        tfm_tensor_new(ctx, &at, TFM_F32, like.rank, like.dims);
    if (!to.add)
        tfm__tensor_fill(ctx, at, &zero);
    return at;
}

static tfm_status backward(tfm_context *ctx, const tfm__record *record) {
    tfm__attention a;
    memcpy(&a, record->data, sizeof(a));
    const tfm__row *row = tfm__context_row(ctx);
    const bool wide = row->class == TFM__WIDE && row->width > 1 && a.key_width <= 512 && a.value_width <= 512;
    const int64_t items = a.q.dims[0] * a.kv_heads;
    const tfm_tensor dq = place(ctx, tfm__tape_in(ctx, record, Q), a.q),
                     dk = place(ctx, tfm__tape_in(ctx, record, K), a.k),
                     dv = place(ctx, tfm__tape_in(ctx, record, V), a.v);
    tfm__kernel *kernel = tfm__kernel_get(
        ctx, "attention_backward", wide ? "attention_backward_wide" : "attention_backward_group",
        "-DDK=%d -DDV=%d -DSCORED=%d -DDROPS=%d", (int)a.key_width, (int)a.value_width,
        a.cap > 0 || a.mask.buffer, tfm__dropout_on(&a.dropout));
    return tfm__attention_enqueue(ctx, &a, kernel, items,
                                  TFM_ARGS(TFM_T(dq), TFM_T(dk), TFM_T(dv), TFM_T_AS("y", a.y),
                                           TFM_T_AS("dy", tfm__tape_out(ctx, record, 0)),
                                           TFM_T_AS("log_sum", a.log_sum), TFM_I(items),
                                           TFM_F_AS("scale", a.scale), TFM_F_AS("cap", a.cap)));
}

tfm_status tfm__attention_record(tfm_context *ctx, const tfm__attention *a) {
    return tfm__tape_add(ctx,
                         &(tfm__record){.op = "attention",
                                        .backward = backward,
                                        .out = {a->y},
                                        .in = {a->q, a->k, a->v},
                                        .keep = {a->q, a->k, a->v, a->y, a->log_sum, a->lengths, a->mask},
                                        .data = a,
                                        .data_bytes = sizeof(*a)});
}
