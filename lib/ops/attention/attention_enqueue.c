/* Converts a checked attention call to kernel arguments. */
#include <string.h>
#include "ops/attention/attention.h"

/* Mirrors attention_layout of cl/attention/attention_common.cl. Drivers reject a struct argument of another size. */
typedef struct tfm__attention_layout {
    int64_t targets, length, heads, kv_heads, heads_first, sequences, padded, mapped, pool, from, to, bottom_right,
        mask_kind;
    int64_t mask_b, mask_h, mask_t, mask_s, columns;
} tfm__attention_layout;
_Static_assert(sizeof(tfm__attention_layout) == 18 * sizeof(int64_t), "no padding between the fields");

tfm_status tfm__attention_enqueue(tfm_context *ctx, const tfm__attention *a, tfm__kernel *kernel, tfm__grid grid,
                                  size_t count, const tfm__arg *own) {
    const int mask_kind = !a->mask.buffer ? 0 : a->mask.dtype == TFM_F32 ? 1 : 2;
    const tfm__attention_layout layout = {.targets = a->targets,
                                          .length = a->length,
                                          .heads = a->heads,
                                          .kv_heads = a->kv_heads,
                                          .heads_first = a->heads_first,
                                          .sequences = a->sequences,
                                          .padded = a->padded,
                                          .mapped = a->mapped,
                                          .pool = a->paged ? a->k.dims[0] : -1,
                                          .from = a->from,
                                          .to = a->to,
                                          .bottom_right = a->bottom_right,
                                          .mask_kind = mask_kind,
                                          .mask_b = a->mask_strides[0],
                                          .mask_h = a->mask_strides[1],
                                          .mask_t = a->mask_strides[2],
                                          .mask_s = a->mask_strides[3],
                                          .columns = a->columns};
    const tfm__arg common[] = {TFM__T_AS("q", a->q),
                               TFM__T_AS("k", a->k),
                               TFM__T_AS("v", a->v),
                               TFM__T_AS("lengths", a->lengths),
                               TFM__T_AS("kv_batch", a->kv_batch),
                               TFM__T_AS("kv_indices", a->kv_indices),
                               TFM__T_AS("mask", a->mask),
                               TFM__STRUCT_AS("layout", layout)};
    const tfm_dropout_options *dropout = &a->dropout;
    const tfm__arg drops[] = {TFM__DROPOUT_ARGS(dropout)};
    tfm__arg all[TFM__COUNT(common) + TFM__COUNT(drops) + TFM__ATTENTION_MAX_ARGS];
    memcpy(all, own, count * sizeof(*own));
    memcpy(all + count, common, sizeof(common));
    count += TFM__COUNT(common);
    memcpy(all + count, drops, sizeof(drops));
    count += tfm__dropout_enabled(dropout) ? TFM__COUNT(drops) : 0;
    return tfm__launch(ctx, kernel, grid, count, all);
}

tfm__kernel *tfm__attention_kernel(tfm_context *ctx, const tfm__attention *a, const char *file, const char *name,
                                   int block, const char *more) {
    const int64_t odd = a->q.offset | a->k.offset | a->v.offset | a->key_width | a->value_width;
    const bool aligned = odd % 4 == 0 && tfm__context_tuning(ctx)->class == TFM__CLASS_GPU;
    return tfm__kernel_get(
        ctx, file, name, "-DDK=%d -DDV=%d -DQUERIES=%d -DKV_DTYPE=%d%s -DSCORE_MOD=%d -DDROPOUT=%d%s%s",
        (int)a->key_width, (int)a->value_width, block, (int)a->k.dtype, tfm__attention_q_define(a),
        a->soft_cap > 0 || a->mask.buffer, tfm__dropout_enabled(&a->dropout), aligned ? " -DALIGNED=1" : "", more);
}

tfm_status tfm__attention_enqueue_forward(tfm_context *ctx, const tfm__attention *a, const char *file, const char *name,
                                          int block, int64_t groups, int64_t items) {
    return tfm__attention_enqueue(ctx, a, tfm__attention_kernel(ctx, a, file, name, block, ""),
                                  tfm__row_grid(ctx, groups), TFM__ARGS(TFM__ATTENTION_FUSED_ARGS(a, items)));
}
