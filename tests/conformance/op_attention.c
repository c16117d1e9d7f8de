/* Attention of opsets 23 and 24: Q (B, H, T, dk), K (B, Hk, S, dk), V (B, Hk, S, dv), or the heads beside
 * each other in 3-D inputs; a past of keys and values in front, which makes the present. */
#include <string.h>
#include "op_table.h"

enum { QUERY, KEY, VALUE, MASK, PAST_KEY, PAST_VALUE, LENGTHS };
enum { OUTPUT, PRESENT_KEY, PRESENT_VALUE, SCORES };

/* (B, S, H d) as (B, H, S, d). */
static tfm_tensor split_heads(node *n, tfm_tensor x, int64_t heads) {
    tfm_tensor y = {0};
    if (!node_ok(n) || x.rank == 4)
        return x;
    if (x.rank != 3 || heads <= 0 || x.dims[2] % heads != 0) {
        NODE_WRONG(n, "Attention of %d dimensions with %lld heads", x.rank, (long long)heads);
        return y;
    }
    const tfm_tensor apart =
        node_reshape(n, x, 4, (int64_t[]){x.dims[0], x.dims[1], heads, x.dims[2] / heads});
    if (node_ok(n))
        tfm_permute(n->graph->ctx, &y, apart, (int[]){0, 2, 1, 3});
    return y;
}

static tfm_tensor merge_heads(node *n, tfm_tensor x) {
    tfm_tensor y = {0};
    if (!node_ok(n) || tfm_permute(n->graph->ctx, &y, x, (int[]){0, 2, 1, 3}) != TFM_OK)
        return y;
    return node_reshape(n, y, 3, (int64_t[]){y.dims[0], y.dims[1], y.dims[2] * y.dims[3]});
}

/* What came before, and x behind it. */
static tfm_tensor present(node *n, size_t past, tfm_tensor x) {
    tfm_tensor y = {0};
    if (!node_has(n, past) || !node_ok(n))
        return x;
    const tfm_tensor parts[] = {node_floats(n, past), x};
    if (node_ok(n))
        tfm_concat(n->graph->ctx, &y, 2, parts, 2);
    return y;
}

/* Without a past but with lengths the last query stands at the last key of its sequence, so each has its own
 * place: one sequence at a time. */
static void attend_each(node *n, tfm_tensor *y, tfm_tensor q, tfm_tensor k, tfm_tensor v,
                        tfm_attention_options options, const int64_t *lengths) {
    tfm_context *ctx = n->graph->ctx;
    if (tfm_tensor_new(ctx, y, TFM_F32, 4, (int64_t[]){q.dims[0], q.dims[1], q.dims[2], v.dims[3]}) != TFM_OK)
        return;
    const tfm_tensor all = options.lengths;
    for (int64_t b = 0; b < q.dims[0]; b++) {
        tfm_tensor row[4] = {{0}};
        options.past = lengths[b] - q.dims[2];
        if (options.past < 0)
            NODE_UNSUPPORTED(n, "queries before the first key in Attention");
        if (!node_ok(n))
            return;
        tfm_tensor_rows(ctx, &row[0], *y, b, 1);
        tfm_tensor_rows(ctx, &row[1], q, b, 1);
        tfm_tensor_rows(ctx, &row[2], k, b, 1);
        tfm_tensor_rows(ctx, &row[3], v, b, 1);
        tfm_tensor_rows(ctx, &options.lengths, all, b, 1);
        tfm_attention(ctx, &row[0], row[1], row[2], row[3], &options);
    }
}

void op_attention(node *n) {
    tfm_context *ctx = n->graph->ctx;
    tfm_tensor q = node_floats(n, QUERY), k = node_floats(n, KEY), v = node_floats(n, VALUE), y = {0};
    const int64_t heads = node_int(n, "q_num_heads", 0), kv_heads = node_int(n, "kv_num_heads", 0);
    const bool flat = q.rank == 3;
    const int type = node_ok(n) ? node_type(n, QUERY) : 0;
    int64_t lengths[64];
    tfm_attention_options options = {.scale = node_float(n, "scale", 0),
                                     .causal = node_int(n, "is_causal", 0) != 0};
    if (node_has(n, MASK))
        NODE_UNSUPPORTED(n, "input attn_mask of Attention");
    if (node_float(n, "softcap", 0) != 0)
        NODE_UNSUPPORTED(n, "attribute softcap of Attention");
    if (node_wants(n, SCORES))
        NODE_UNSUPPORTED(n, "output qk_matmul_output of Attention");
    q = split_heads(n, q, heads);
    k = present(n, PAST_KEY, split_heads(n, k, kv_heads));
    v = present(n, PAST_VALUE, split_heads(n, v, kv_heads));
    if (!node_ok(n))
        return;
    if (node_has(n, PAST_KEY))
        options.past = node_input(n, PAST_KEY).dims[2];
    if (node_has(n, LENGTHS))
        options.lengths = node_input(n, LENGTHS);
    if (options.causal && node_has(n, LENGTHS) && !node_has(n, PAST_KEY)) {
        if (node_ints(n, LENGTHS, lengths, 64) != (size_t)q.dims[0] && node_ok(n))
            NODE_WRONG(n, "Attention of %lld sequences with other lengths", (long long)q.dims[0]);
        if (node_ok(n))
            attend_each(n, &y, q, k, v, options, lengths);
    } else {
        tfm_attention(ctx, &y, q, k, v, &options);
    }
    node_output(n, OUTPUT, flat ? merge_heads(n, y) : y, type);
    node_output(n, PRESENT_KEY, k, type);
    node_output(n, PRESENT_VALUE, v, type);
}
