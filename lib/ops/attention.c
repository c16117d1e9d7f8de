/* Attention: the door, and the variant for devices whose work-items run side by side (cl/attention.cl). */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include "ops/attention.h"

static tfm_status check_ranks(tfm_context *ctx, tfm__attention *a) {
    const int rank = a->q.rank, kv_rank = a->paged ? 2 : rank;
    if (rank != 3 && rank != 4)
        return tfm__op_refuse(ctx, "attention", "q is %s, neither (B, T, H dk) nor (B, H, T, dk)",
                              TFM_SHAPE(a->q));
    if (a->k.rank != kv_rank || a->v.rank != kv_rank)
        return tfm__op_refuse(ctx, "attention", "k is %s and v %s; with q %s%s they are of rank %d",
                              TFM_SHAPE(a->k), TFM_SHAPE(a->v), TFM_SHAPE(a->q), a->paged ? " and rows" : "",
                              kv_rank);
    if (a->paged && a->rows.rank != 2)
        return tfm__op_refuse(ctx, "attention", "rows is %s, not (B, S)", TFM_SHAPE(a->rows));
    return TFM_OK;
}

/* Heads, their widths and T, S from the shapes. */
static tfm_status read_shape(tfm_context *ctx, tfm__attention *a, const tfm_attention_options *options) {
    const tfm_tensor q = a->q, k = a->k, v = a->v;
    a->heads_first = q.rank == 4;
    a->heads = a->heads_first ? q.dims[1] : options->heads;
    a->kv_heads = options->kv_heads ? options->kv_heads : a->heads_first && !a->paged ? k.dims[1] : a->heads;
    if (a->heads <= 0 || a->kv_heads <= 0 || a->heads % a->kv_heads != 0 || options->heads < 0 ||
        (a->heads_first && options->heads && options->heads != a->heads))
        return tfm__op_refuse(ctx, "attention",
                              "%" PRId64 " heads over %" PRId64 " key heads with q %s: heads must be "
                              "given for (B, T, H dk), and be a multiple of kv_heads",
                              a->heads_first && options->heads ? (int64_t)options->heads : a->heads,
                              a->kv_heads, TFM_SHAPE(q));
    const int64_t in_key = a->heads_first && !a->paged ? 1 : a->kv_heads;
    a->targets = q.dims[a->heads_first ? 2 : 1];
    a->length = a->paged ? a->rows.dims[1] : k.dims[a->heads_first ? 2 : 1];
    a->key_width = a->heads_first ? q.dims[3] : q.dims[2] / a->heads;
    a->value_width = tfm__last_dim(v) / in_key;
    const bool whole = a->heads_first || q.dims[2] % a->heads == 0;
    if (!whole || a->key_width <= 0 || a->value_width <= 0 || tfm__last_dim(k) != a->key_width * in_key ||
        tfm__last_dim(v) % in_key != 0)
        return tfm__op_refuse(ctx, "attention",
                              "q %s, k %s and v %s do not divide into %" PRId64 " heads and %" PRId64
                              " key heads",
                              TFM_SHAPE(q), TFM_SHAPE(k), TFM_SHAPE(v), a->heads, a->kv_heads);
    if (a->heads_first && !a->paged && (k.dims[1] != a->kv_heads || v.dims[1] != a->kv_heads))
        return tfm__op_refuse(ctx, "attention", "k %s and v %s do not have %" PRId64 " heads", TFM_SHAPE(k),
                              TFM_SHAPE(v), a->kv_heads);
    return TFM_OK;
}

/* N, from whatever holds N sequences, and what goes with B. */
static tfm_status check_batch(tfm_context *ctx, tfm__attention *a) {
    const tfm_tensor q = a->q, k = a->k, v = a->v;
    a->sequences = !a->mapped  ? q.dims[0]
                   : !a->paged ? k.dims[0]
                   : a->padded ? a->lengths.dims[0]
                               : INT32_MAX;
    if (a->mapped && (a->sources.rank != 1 || a->sources.dims[0] != q.dims[0]))
        return tfm__op_refuse(ctx, "attention", "sources is %s with q %s, not (B)", TFM_SHAPE(a->sources),
                              TFM_SHAPE(q));
    if (a->paged && (a->rows.dims[0] != q.dims[0] || k.dims[0] != v.dims[0]))
        return tfm__op_refuse(ctx, "attention",
                              "rows is %s with q %s, k %s and v %s, not (B, S), or k and v differ",
                              TFM_SHAPE(a->rows), TFM_SHAPE(q), TFM_SHAPE(k), TFM_SHAPE(v));
    if (!a->paged && (k.dims[0] != a->sequences || v.dims[0] != a->sequences))
        return tfm__op_refuse(ctx, "attention",
                              "k %s and v %s are not of the same sequences as q %s; give `sources` if "
                              "some are shared",
                              TFM_SHAPE(k), TFM_SHAPE(v), TFM_SHAPE(q));
    if (!a->paged && v.dims[a->heads_first ? 2 : 1] != a->length)
        return tfm__op_refuse(ctx, "attention", "k %s and v %s differ in length", TFM_SHAPE(k), TFM_SHAPE(v));
    if (a->padded && (a->lengths.rank != 1 || a->lengths.dims[0] != a->sequences))
        return tfm__op_refuse(ctx, "attention", "lengths is %s for %" PRId64 " sequences of keys",
                              TFM_SHAPE(a->lengths), a->sequences);
    if (a->past < 0 || a->length >= TFM__ATTENTION_MOST || a->targets >= TFM__ATTENTION_MOST ||
        k.dims[0] > INT32_MAX || q.dims[0] > INT32_MAX)
        return tfm__op_refuse(ctx, "attention",
                              "past is %" PRId64 ", q %s and k %s: past must be at least 0, targets and keys of a "
                              "sequence fewer than 2^29, and the rest than 2^31",
                              a->past, TFM_SHAPE(q), TFM_SHAPE(k));
    if (!a->causal || a->past > a->length)
        a->past = a->length; /* the first query sees all; no sum with it overflows */
    a->from = -TFM__ATTENTION_FAR;
    a->to = a->causal ? a->past + 1 : TFM__ATTENTION_FAR;
    return TFM_OK;
}

tfm_status tfm__attention_launch(tfm_context *ctx, const tfm__attention *a, const char *file,
                                 const char *name, int block, int64_t groups, int64_t items,
                                 const tfm_tensor *y) {
    tfm__kernel *kernel = tfm__kernel_get(ctx, file, name, "-DDK=%d -DDV=%d -DQUERIES=%d", (int)a->key_width,
                                          (int)a->value_width, block);
    const float log2e = 1.44269504088896340736F;
    return tfm__launch(ctx, kernel, tfm__row_grid(ctx, groups),
                       TFM_ARGS(TFM_T_AS("y", *y), TFM_T_AS("q", a->q), TFM_T_AS("k", a->k),
                                TFM_T_AS("v", a->v), TFM_T_AS("lengths", a->lengths),
                                TFM_T_AS("sources", a->sources), TFM_T_AS("key_rows", a->rows),
                                TFM_I_AS("targets", a->targets), TFM_I_AS("length", a->length),
                                TFM_I_AS("heads", a->heads), TFM_I_AS("kv_heads", a->kv_heads),
                                TFM_I_AS("past", a->past), TFM_I_AS("heads_first", a->heads_first),
                                TFM_I_AS("sequences", a->sequences), TFM_I_AS("padded", a->padded),
                                TFM_I_AS("mapped", a->mapped), TFM_I_AS("pool", a->paged ? a->k.dims[0] : -1),
                                TFM_F_AS("scale", a->scale * log2e), TFM_I(items)));
}

tfm_status tfm__attention_enqueue(tfm_context *ctx, const tfm__attention *a, tfm__kernel *kernel, int64_t groups,
                                  size_t count, const tfm__arg *own) {
    const tfm__arg common[] = {
        TFM_T_AS("q", a->q), TFM_T_AS("k", a->k), TFM_T_AS("v", a->v), TFM_T_AS("lengths", a->lengths),
        TFM_T_AS("sources", a->sources), TFM_T_AS("key_rows", a->rows), TFM_I_AS("targets", a->targets),
        TFM_I_AS("length", a->length), TFM_I_AS("heads", a->heads), TFM_I_AS("kv_heads", a->kv_heads),
        TFM_I_AS("heads_first", a->heads_first), TFM_I_AS("sequences", a->sequences), TFM_I_AS("padded", a->padded),
        TFM_I_AS("mapped", a->mapped), TFM_I_AS("pool", a->paged ? a->k.dims[0] : -1), TFM_I_AS("from", a->from),
        TFM_I_AS("to", a->to), TFM_I_AS("aligned", false)};
    tfm__arg all[TFM_COUNT(common) + 8];
    memcpy(all, own, count * sizeof(*own));
    memcpy(all + count, common, sizeof(common));
    return tfm__launch(ctx, kernel, tfm__row_grid(ctx, groups), count + TFM_COUNT(common), all);
}

/* What a work-item keeps of a key and of its sums must fit on the stack of a CPU's thread. */
static tfm_status check_widths(tfm_context *ctx, const tfm__attention *a) {
    const int64_t most = 65536;
    if (a->key_width > most || a->value_width > most || a->key_width + a->value_width > most)
        return tfm__op_refuse(ctx, "attention",
                              "a head of %" PRId64 " key and %" PRId64 " value columns is too wide: together "
                              "they are at most %" PRId64 ", so use more heads",
                              a->key_width, a->value_width, most);
    return TFM_OK;
}

/* Bytes of local memory of cl/attention.cl for `block` queries. */
static size_t local_bytes(const tfm_context *ctx, const tfm__attention *a, int64_t block) {
    const int64_t group = tfm__context_row(ctx)->group, tile = group < 32 ? 32 : group;
    return sizeof(float) * (size_t)(block * (a->key_width + tile + group + 2) + tile);
}

/* Eight queries share the reading of a key, if there are as many and their copies fit in a quarter of local
 * memory. */
static tfm_status launch_group(tfm_context *ctx, const tfm__attention *a, const tfm_tensor *y) {
    const int64_t queries = a->heads / a->kv_heads * a->targets;
    const size_t there = tfm__context_limits(ctx)->local_bytes;
    const bool many = queries >= 4 && a->value_width <= 256 && local_bytes(ctx, a, 8) <= there / 4;
    if (!many && local_bytes(ctx, a, 1) > there)
        return tfm__op_refuse(ctx, "attention",
                              "a head of %" PRId64
                              " key columns needs %zu bytes of local memory, %s has %zu: "
                              "use more heads",
                              a->key_width, local_bytes(ctx, a, 1), tfm_context_device(ctx)->name, there);
    const int64_t block = many ? 8 : 1, items = a->q.dims[0] * a->kv_heads * ((queries + block - 1) / block);
    return tfm__attention_launch(ctx, a, "attention", "attention_group", (int)block, items, items, y);
}

static tfm_status make_scores(tfm_context *ctx, const tfm__attention *a, const tfm_attention_options *options,
                              tfm_tensor y) {
    const int64_t dims[] = {a->q.dims[0], a->heads, a->targets, a->length};
    tfm_tensor *scores = options->scores;
    if ((unsigned)options->stage > TFM_ATTENTION_MASKED)
        return tfm__op_refuse(ctx, "attention", "stage %d of the scores is none of enum tfm_attention_stage",
                              (int)options->stage);
    if (tfm__op_output(ctx, "attention", scores, TFM_F32, 4, dims) != TFM_OK ||
        TFM_OP_APART(ctx, "attention", *scores, y, a->q, a->k, a->v, a->lengths, a->sources, a->rows) != TFM_OK)
        return tfm_context_status(ctx);
    return tfm__attention_scores(ctx, a, scores, options->stage);
}

tfm_status tfm_attention(tfm_context *ctx, tfm_tensor *y, tfm_tensor q, tfm_tensor k, tfm_tensor v,
                         const tfm_attention_options *options) {
    const tfm_attention_options none = {0};
    options = options ? options : &none;
    if (TFM_OP_BEGIN(ctx, "attention", "fffIII", q, k, v, options->lengths, options->sources,
                     options->rows) != TFM_OK)
        return tfm_context_status(ctx);
    tfm__attention a = {.q = q,
                        .k = k,
                        .v = v,
                        .lengths = options->lengths,
                        .sources = options->sources,
                        .rows = options->rows,
                        .padded = options->lengths.buffer != NULL,
                        .mapped = options->sources.buffer != NULL,
                        .paged = options->rows.buffer != NULL,
                        .causal = options->causal,
                        .past = options->past};
    if (check_ranks(ctx, &a) != TFM_OK || read_shape(ctx, &a, options) != TFM_OK)
        return tfm_context_status(ctx);
    a.scale = options->scale != 0.0F ? options->scale : 1.0F / sqrtf((float)a.key_width);
    if (check_batch(ctx, &a) != TFM_OK || check_widths(ctx, &a) != TFM_OK)
        return tfm_context_status(ctx);
    const int64_t flat[] = {q.dims[0], a.targets, a.heads * a.value_width};
    const int64_t apart[] = {q.dims[0], a.heads, a.targets, a.value_width};
    if (tfm__op_output(ctx, "attention", y, TFM_F32, q.rank, a.heads_first ? apart : flat) != TFM_OK ||
        TFM_OP_APART(ctx, "attention", *y, q, k, v, a.lengths, a.sources, a.rows) != TFM_OK)
        return tfm_context_status(ctx);
    if (options->scores && make_scores(ctx, &a, options, *y) != TFM_OK)
        return tfm_context_status(ctx);
    const tfm__row *row = tfm__context_row(ctx);
    return row->class == TFM__WIDE && row->width > 1 ? tfm__attention_wide(ctx, &a, y)
                                                     : launch_group(ctx, &a, y);
}
