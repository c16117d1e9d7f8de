/* Attention behind its door: a checked call, and who computes it. */
#ifndef TFM_LIB_ATTENTION_H
#define TFM_LIB_ATTENTION_H

#include "ops/ops.h"

typedef struct tfm__attention {
    tfm_tensor q, k, v, lengths, sources, rows;
    int64_t sequences; /* N: of keys, values and lengths */
    int64_t targets, length, heads, kv_heads, past;
    int64_t key_width, value_width; /* dk, dv */
    bool heads_first;               /* (B, H, T, d), not (B, T, H d) */
    bool padded, mapped, paged;     /* lengths, sources, rows are given */
    bool causal;
    int64_t from, to; /* target t sees keys t + from <= s < t + to */
    float scale;
} tfm__attention;

/* No sum of a target, a key, a past and a window leaves an int. */
enum { TFM__ATTENTION_MOST = 1 << 29, TFM__ATTENTION_FAR = 1 << 30 };

/* The variants for wide devices: lib/ops/attention_wide.c. */
tfm_status tfm__attention_wide(tfm_context *ctx, const tfm__attention *a, const tfm_tensor *y);

/* Enqueues a kernel of the common signature, built for `block` queries a work-group, over `groups` of them,
 * `items` of which have work. */
tfm_status tfm__attention_launch(tfm_context *ctx, const tfm__attention *a, const char *file,
                                 const char *name, int block, int64_t groups, int64_t items,
                                 const tfm_tensor *y);

/* Enqueues a kernel of `groups` work-groups: its own arguments, then those of ATTENTION_PARAMETERS. */
tfm_status tfm__attention_enqueue(tfm_context *ctx, const tfm__attention *a, tfm__kernel *kernel, int64_t groups,
                                  size_t count, const tfm__arg *own);

/* scores (B, H, T, S): lib/ops/attention_scores.c. */
tfm_status tfm__attention_scores(tfm_context *ctx, const tfm__attention *a, const tfm_tensor *scores,
                                 tfm_attention_stage stage);

#endif
