/* Attention of opsets 23 and 24: Q (B, H, T, dk), K (B, Hk, S, dk), V (B, Hk, S, dv), or 3-D inputs with concatenated
 * heads; an optional KV cache (past), which is prepended and returned (present). */
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
    const tfm_tensor apart = node_reshape(n, x, 4, (int64_t[]){x.dims[0], x.dims[1], heads, x.dims[2] / heads});
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

/* Concatenates the past and x. */
static tfm_tensor present(node *n, size_t past, tfm_tensor x) {
    tfm_tensor y = {0};
    if (!node_has(n, past) || !node_ok(n))
        return x;
    const tfm_tensor parts[] = {node_floats(n, past), x};
    if (node_ok(n))
        tfm_concat(n->graph->ctx, &y, 2, parts, 2);
    return y;
}

/* The mask for tfm_attention: U8 or floats. ONNX broadcasts all dimensions except the last, which is padded with masked
 * keys, even a single column. */
static tfm_tensor read_mask(node *n, int64_t keys) {
    if (node_ok(n) && node_type(n, MASK) == ONNX_BOOL) {
        const tfm_tensor mask = node_input(n, MASK);
        if (!node_ok(n) || keys == 1 || mask.rank == 0 || mask.dims[mask.rank - 1] != 1)
            return mask;
        NODE_UNSUPPORTED(n, "a boolean attn_mask of one column for %lld keys in Attention", (long long)keys);
    }
    const tfm_tensor mask = node_floats(n, MASK);
    if (node_ok(n) && keys > 1 && mask.rank > 0 && mask.dims[mask.rank - 1] == 1)
        NODE_UNSUPPORTED(n, "an attn_mask of one column for %lld keys in Attention", (long long)keys);
    return mask;
}

/* qk_matmul_output_mode as a stage. */
static tfm_attention_stage read_stage(node *n) {
    static const tfm_attention_stage STAGES[] = {TFM_ATTENTION_QK, TFM_ATTENTION_CAPPED, TFM_ATTENTION_MASKED,
                                                 TFM_ATTENTION_WEIGHTS};
    const int64_t mode = node_int(n, "qk_matmul_output_mode", 0);
    if (mode >= 0 && mode < 4)
        return STAGES[mode];
    NODE_WRONG(n, "Attention with qk_matmul_output_mode %lld", (long long)mode);
    return TFM_ATTENTION_QK;
}

/* Sliding-window limits of opset 25 on both sides of the query's key; -1 is none. */
static void read_window(node *n, tfm_attention_options *options) {
    options->window_left = node_int(n, "left_window_size", -1);
    options->window_right = node_int(n, "right_window_size", -1);
    options->window = options->window_left >= 0 || options->window_right >= 0;
}

void op_attention(node *n) {
    tfm_context *ctx = n->graph->ctx;
    tfm_tensor q = node_floats(n, QUERY), k = node_floats(n, KEY), v = node_floats(n, VALUE), y = {0}, scores = {0};
    const int64_t heads = node_int(n, "q_num_heads", 0), kv_heads = node_int(n, "kv_num_heads", 0);
    const bool flat = q.rank == 3;
    const int type = node_ok(n) ? node_type(n, QUERY) : 0;
    tfm_attention_options options = {.scale = node_float(n, "scale", 0),
                                     .soft_cap = node_float(n, "softcap", 0),
                                     .causal = node_int(n, "is_causal", 0) != 0,
                                     .stage = read_stage(n)};
    read_window(n, &options);
    q = split_heads(n, q, heads);
    k = present(n, PAST_KEY, split_heads(n, k, kv_heads));
    v = present(n, PAST_VALUE, split_heads(n, v, kv_heads));
    if (!node_ok(n))
        return;
    if (node_has(n, MASK))
        options.mask = read_mask(n, k.dims[2]);
    if (node_has(n, PAST_KEY))
        options.past = node_input(n, PAST_KEY).dims[2];
    if (node_has(n, LENGTHS)) {
        options.lengths = node_input(n, LENGTHS);
        options.causal_bottom_right = !node_has(n, PAST_KEY);
    }
    if (node_wants(n, SCORES))
        options.scores = &scores;
    if (node_ok(n))
        tfm_attention(ctx, &y, q, k, v, &options);
    node_output(n, OUTPUT, flat ? merge_heads(n, y) : y, type);
    node_output(n, PRESENT_KEY, k, type);
    node_output(n, PRESENT_VALUE, v, type);
    node_output(n, SCORES, scores, type);
}
