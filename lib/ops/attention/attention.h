/* Attention internals: the checked call and the functions that compute it. */
#ifndef TFM_LIB_ATTENTION_H
#define TFM_LIB_ATTENTION_H

#include "ops/attention/kv_quantize.h"
#include "ops/elementwise/dropout.h"
#include "ops/autograd/tape.h"

typedef struct tfm__attention {
    tfm_tensor y, lse; /* F32; lse may be empty */
    tfm_tensor q, k, v, lengths, kv_batch, kv_indices, mask;
    int64_t sequences; /* N: sequences of keys, values and lengths */
    int64_t targets, length, heads, kv_heads;
    int64_t key_width, value_width; /* dk, dv */
    bool heads_first;               /* (B, H, T, d), not (B, T, H d) */
    bool padded, mapped, paged;     /* lengths, kv_batch, kv_indices are not empty */
    int64_t from, to;               /* target t sees keys t + from <= s < t + to, */
    bool bottom_right;              /* both plus its sequence's length */
    int64_t mask_strides[4];        /* of the mask along B, H, T, S: 0 where it broadcasts */
    int64_t columns;                /* keys from here on are masked: the mask's width, or S */
    float scale, soft_cap;          /* soft_cap: 0 for none */
    tfm_dropout_options dropout;    /* rate: 0 for none */
} tfm__attention;

/* Any sum of a target, a key, a past and a window fits in an int. */
enum { TFM__ATTENTION_MAX_LENGTH = 1 << 29, TFM__ATTENTION_UNBOUNDED = 1 << 30 };

/* Fills in the remaining fields from the inputs and options: lib/ops/attention/attention_shape.c. */
tfm_status tfm__attention_setup(tfm_context *ctx, tfm__attention *a, const tfm_attention_options *options);

/* CPU-style devices: lib/ops/attention/attention_cpu.c. */
tfm_status tfm__attention_cpu(tfm_context *ctx, const tfm__attention *a);

/* Scores (B, H, T, S) at a stage: lib/ops/attention/attention_scores.c. */
tfm_status tfm__attention_scores(tfm_context *ctx, const tfm__attention *a, tfm_tensor scores,
                                 tfm_attention_stage stage);

/* Records the call on the tape and saves y and lse; kv_batch and kv_indices are not supported:
 * lib/ops/attention/attention_backward.c. */
tfm_status tfm__attention_record(tfm_context *ctx, const tfm__attention *a);

/* A tile of GPU-style devices: lib/ops/attention/attention_tiles.c. block_m: rows that the work-group owns; block_n:
 * rows that it streams; rows: rows per work-item; group: work-items. q_resident: the owned queries stay in local memory
 * (forward only). */
typedef struct tfm__attention_tile {
    int block_m, block_n, rows, group;
    bool q_resident;
} tfm__attention_tile;

enum { TFM__ATTENTION_ROWS = 4, TFM__ATTENTION_ITEMS = 32 }; /* least rows of an item; characters of a define */
/* Whether items take more than TFM__ATTENTION_ROWS rows, if the call requests all outputs. */
bool tfm__attention_large_tiles(const tfm_context *ctx, const tfm__attention *a);
/* The tile with TFM__ATTENTION_ROWS rows an item. `columns`: accumulator columns of each owned row. An item has at most
 * `sums` accumulators, which live in registers, unless groups are small. */
tfm__attention_tile tfm__attention_tile_of(const tfm_context *ctx, int64_t columns, int64_t sums);
/* A tile with the tuning's rows an item, from the sizes measured on such devices. */
tfm__attention_tile tfm__attention_large_tile(const tfm_context *ctx, int block_m, int block_n);
/* The define for a work-group size that differs from the context's, written to `text`. */
const char *tfm__attention_items_define(char text[TFM__ATTENTION_ITEMS], const tfm_context *ctx, tfm__attention_tile t);
/* Whether the tiled kernels accept the call. */
bool tfm__attention_tile_fits(const tfm_context *ctx, const tfm__attention *a, tfm__attention_tile t);
/* Query tiles of a head. With dropout the first tile may begin up to three queries early. */
static inline int64_t tfm__attention_query_tiles(const tfm__attention *a, tfm__attention_tile t) {
    return tfm__ceil_div(a->targets + (tfm__dropout_enabled(&a->dropout) ? 3 : 0), t.block_m);
}
/* Limit of multiply-adds of one launch, so that it ends soon: from the tuning, or by the device. */
int64_t tfm__attention_launch_macs(const tfm_context *ctx);
/* Enqueues a kernel on `all` tiles, heads and sequences, one work-group each, with `work` multiply-adds in total, split
 * into as many launches as that needs. `first`: the three arguments in `args` with the offset of a launch. */
tfm_status tfm__attention_launch_tiles(tfm_context *ctx, const tfm__attention *a, tfm__kernel *kernel,
                                       tfm__attention_tile t, const int64_t *all, int64_t work, size_t count,
                                       tfm__arg *args, tfm__arg *first);

/* Tiled forward, and whether it accepts the call: lib/ops/attention/attention_tiled.c. */
bool tfm__attention_tiled_fits(const tfm_context *ctx, const tfm__attention *a);
tfm_status tfm__attention_tiled(tfm_context *ctx, const tfm__attention *a);

/* Tiled backward pass, and whether it accepts the call; empty gradients are skipped:
 * lib/ops/attention/attention_backward_tiled.c. */
bool tfm__attention_backward_fits(const tfm_context *ctx, const tfm__attention *a);
tfm_status tfm__attention_backward_tiled(tfm_context *ctx, const tfm__attention *a, tfm_tensor dy, tfm__gradient dq,
                                         tfm__gradient dk, tfm__gradient dv);

/* Adds the gradient of the mask to `to`, or overwrites it; does nothing if that is empty:
 * lib/ops/attention/attention_bias_backward.c. */
tfm_status tfm__attention_bias_backward(tfm_context *ctx, const tfm__attention *a, tfm_tensor dy, tfm__gradient to);

enum { TFM__ATTENTION_MAX_ARGS = 16 };
/* Enqueues a kernel: its own arguments, at most TFM__ATTENTION_MAX_ARGS, then ATTENTION_PARAMETERS, including the
 * dropout ones if dropout is on. */
tfm_status tfm__attention_enqueue(tfm_context *ctx, const tfm__attention *a, tfm__kernel *kernel, tfm__grid grid,
                                  size_t count, const tfm__arg *own);
/* The same for a kernel that writes y and lse, built for `block` queries a work-group; `items` of the group have work.
 */
tfm_status tfm__attention_enqueue_forward(tfm_context *ctx, const tfm__attention *a, const char *file, const char *name,
                                          int block, int64_t groups, int64_t items);
/* A forward kernel with the extra defines `more`, and its leading arguments (TFM__ATTENTION_FUSED_ARGS). */
/* The define for q if its dtype differs from that of the keys. */
static inline const char *tfm__attention_q_define(const tfm__attention *a) {
    return a->q.dtype == a->k.dtype ? "" : " -DQ_DTYPE=0";
}
tfm__kernel *tfm__attention_kernel(tfm_context *ctx, const tfm__attention *a, const char *file, const char *name,
                                   int block, const char *more);
#define TFM__ATTENTION_LOG2_E 1.44269504088896340736F
#define TFM__ATTENTION_FUSED_ARGS(a, items)                                                                            \
    TFM__T_AS("y", (a)->y), TFM__T_AS("lse", (a)->lse), TFM__I_AS("write_lse", (a)->lse.buffer != NULL),               \
        TFM__I_AS("items", items),                                                                                     \
        TFM__F_AS("scale", (a)->soft_cap > 0 ? (a)->scale / (a)->soft_cap : (a)->scale * TFM__ATTENTION_LOG2_E),       \
        TFM__F_AS("cap", (a)->soft_cap *TFM__ATTENTION_LOG2_E)

/* Split-KV: the number of splits for a call with `items` work-groups (1: no split), and the forward with splits, in
 * groups of `block` queries: lib/ops/attention/attention_split.c. */
int64_t tfm__attention_num_splits(const tfm_context *ctx, const tfm__attention *a, int64_t items);
tfm_status tfm__attention_split(tfm_context *ctx, const tfm__attention *a, int block, int64_t items,
                                int64_t num_splits);

/* A split-KV call. `part`: the call with room in the current scope for each split's partial result;
 * TFM__ATTENTION_SPLIT_ARGS: the kernels' SPLIT_PARAMETERS. tfm__attention_combine reduces the splits to y with the
 * program for `block` queries. */
typedef struct tfm__attention_split_kv {
    tfm__attention part;
    int64_t num_splits, split_size, query_rows;
} tfm__attention_split_kv;
#define TFM__ATTENTION_SPLIT_ARGS(split)                                                                               \
    TFM__I_AS("num_splits", (split).num_splits), TFM__I_AS("split_size", (split).split_size),                          \
        TFM__I_AS("query_rows", (split).query_rows)
tfm__attention_split_kv tfm__attention_split_kv_into(tfm_context *ctx, const tfm__attention *a, int64_t num_splits);
tfm_status tfm__attention_combine(tfm_context *ctx, const tfm__attention *a, int block, tfm__attention_split_kv split);

#endif
