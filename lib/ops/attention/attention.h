/* Inside attention: a call that has been checked, and the functions that compute it. */
#ifndef TFM_LIB_ATTENTION_H
#define TFM_LIB_ATTENTION_H

#include "ops/elementwise/dropout.h"
#include "ops/autograd/tape.h"

typedef struct tfm__attention {
    tfm_tensor y, lse; /* F32; lse may be empty */
    tfm_tensor q, k, v, lengths, kv_batch, kv_indices, mask;
    int64_t sequences; /* N: of keys, values and lengths */
    int64_t targets, length, heads, kv_heads;
    int64_t key_width, value_width; /* dk, dv */
    bool heads_first;               /* (B, H, T, d), not (B, T, H d) */
    bool padded, mapped, paged;     /* lengths, kv_batch, kv_indices are given */
    int64_t from, to;               /* target t sees keys t + from <= s < t + to, */
    bool bottom_right;              /* both plus its sequence's length */
    int64_t mask_strides[4];        /* of the mask along B, H, T, S: 0 where it repeats */
    int64_t columns;                /* later keys are not seen: the mask's, or S */
    float scale, soft_cap;          /* soft_cap: 0 for none */
    tfm_dropout_options dropout;    /* rate: 0 for none */
} tfm__attention;

/* No sum of a target, a key, a past and a window leaves an int. */
enum { TFM__ATTENTION_MAX_LENGTH = 1 << 29, TFM__ATTENTION_UNBOUNDED = 1 << 30 };

/* Fills in the rest from the inputs and options: lib/ops/attention/attention_shape.c. */
tfm_status tfm__attention_setup(tfm_context *ctx, tfm__attention *a, const tfm_attention_options *options);

/* What CPU-style devices run instead: lib/ops/attention/attention_cpu.c. */
tfm_status tfm__attention_cpu(tfm_context *ctx, const tfm__attention *a);

/* Scores (B, H, T, S) at a stage: lib/ops/attention/attention_scores.c. */
tfm_status tfm__attention_scores(tfm_context *ctx, const tfm__attention *a, tfm_tensor scores,
                                 tfm_attention_stage stage);

/* Writes the call down for the tape, which keeps y and lse; neither kv_batch nor kv_indices:
 * lib/ops/attention/attention_backward.c. */
tfm_status tfm__attention_record(tfm_context *ctx, const tfm__attention *a);

/* Tiles of GPU-style devices: lib/ops/attention/attention_tiles.c. Rows of a tile that a work-group owns, and those
 * that come by; rows of an item, and items; and whether the queries that are owned stay in local memory, which is the
 * forward's alone. */
typedef struct tfm__attention_tile {
    int block_m, block_n, rows, group;
    bool q_resident;
} tfm__attention_tile;

enum { TFM__ATTENTION_ROWS = 4, TFM__ATTENTION_ITEMS = 32 }; /* rows of an item, at least; letters */
/* Whether items have more, in a call that has all that it wants. */
bool tfm__attention_large_tiles(const tfm_context *ctx, const tfm__attention *a);
/* The tile for items of the fewest rows, and `columns` that a work-group sums up for each owned row. An item has `sums`
 * of them at most, unless groups are small: they live in registers. */
tfm__attention_tile tfm__attention_tile_of(const tfm_context *ctx, int64_t columns, int64_t sums);
/* One of as many rows as the tuning has, by what such devices have taken. */
tfm__attention_tile tfm__attention_large_tile(const tfm_context *ctx, int block_m, int block_n);
/* What tells a kernel of another number of items than the context's; gives the text. */
const char *tfm__attention_items_define(char text[TFM__ATTENTION_ITEMS], const tfm_context *ctx, tfm__attention_tile t);
/* Whether tiles take such a call. */
bool tfm__attention_tile_fits(const tfm_context *ctx, const tfm__attention *a, tfm__attention_tile t);
/* Tiles of a head's queries: with dropout the first may begin up to three queries before it. */
static inline int64_t tfm__attention_query_tiles(const tfm__attention *a, tfm__attention_tile t) {
    return tfm__ceil_div(a->targets + (tfm__dropout_enabled(&a->dropout) ? 3 : 0), t.block_m);
}
/* Multiplications of one launch, at most, so that it ends soon: the tuning's, or by the device. */
int64_t tfm__attention_launch_macs(const tfm_context *ctx);
/* Enqueues a kernel on `all` tiles, heads and sequences, with a work-group for each, of `work` multiplications, in as
 * many launches as that needs. `first` are its three arguments, among all, that say where a launch begins. */
tfm_status tfm__attention_launch_tiles(tfm_context *ctx, const tfm__attention *a, tfm__kernel *kernel,
                                       tfm__attention_tile t, const int64_t *all, int64_t work, size_t count,
                                       tfm__arg *args, tfm__arg *first);

/* The forward by tiles, and whether it takes such a call: lib/ops/attention/attention_tiled.c. */
bool tfm__attention_tiled_fits(const tfm_context *ctx, const tfm__attention *a);
tfm_status tfm__attention_tiled(tfm_context *ctx, const tfm__attention *a);

/* The backward pass by tiles, and whether it takes such a call. An empty gradient is not wanted:
 * lib/ops/attention/attention_backward_tiled.c. */
bool tfm__attention_backward_fits(const tfm_context *ctx, const tfm__attention *a);
tfm_status tfm__attention_backward_tiled(tfm_context *ctx, const tfm__attention *a, tfm_tensor dy, tfm__gradient dq,
                                         tfm__gradient dk, tfm__gradient dv);

/* Adds the gradient of the mask to `to`, or writes it there; nothing where that is empty:
 * lib/ops/attention/attention_bias_backward.c. */
tfm_status tfm__attention_bias_backward(tfm_context *ctx, const tfm__attention *a, tfm_tensor dy, tfm__gradient to);

enum { TFM__ATTENTION_MAX_ARGS = 16 };
/* Enqueues a kernel: its own arguments, at most TFM__ATTENTION_MAX_ARGS, then those of ATTENTION_PARAMETERS, as many
 * as there are with DROPS where something is dropped. */
tfm_status tfm__attention_enqueue(tfm_context *ctx, const tfm__attention *a, tfm__kernel *kernel, tfm__grid grid,
                                  size_t count, const tfm__arg *own);
/* The same for one that makes y and lse, built for `block` queries a work-group, `items` of which have work. */
tfm_status tfm__attention_enqueue_forward(tfm_context *ctx, const tfm__attention *a, const char *file, const char *name,
                                          int block, int64_t groups, int64_t items);
/* Such a kernel, with `more` defines, and the arguments that it begins with. */
/* What kernels are told of q where keys are of another dtype. */
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

/* Spans that the keys are cut into where a call has `items` work-groups, 1 for none; and the forward of those that are,
 * by groups of `block` queries: lib/ops/attention/attention_split.c. */
int64_t tfm__attention_num_splits(const tfm_context *ctx, const tfm__attention *a, int64_t items);
tfm_status tfm__attention_split(tfm_context *ctx, const tfm__attention *a, int block, int64_t items,
                                int64_t num_splits);

/* A call whose keys are cut: `part` is the call with room, in the current scope, for what each span gives, and
 * TFM__ATTENTION_SPLIT_ARGS are what kernels take as SPLIT_PARAMETERS. Joining them gives y; the program is that of
 * groups of `block` queries. */
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
