/* Softmax and normalizations. */
#include "op_table.h"

typedef tfm_status (*softmax_fn)(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, int axis);

/* Before opset 13 the default axis was 1, and all dimensions from it on were flattened. */
static void softmax(node *n, softmax_fn function) {
    tfm_tensor x = node_floats(n, 0), y = {0};
    const bool flat = n->graph->opset < 13;
    if (flat ? !node_filled(n, x) : !node_ok(n))
        return;
    const int axis = node_axis(n, node_int(n, "axis", flat ? 1 : -1), x.rank);
    int64_t rows = 1;
    for (int i = 0; i < axis; i++)
        rows *= x.dims[i];
    if (flat) {
        const int64_t width = (int64_t)tfm_tensor_count(x) / rows;
        const tfm_tensor matrix = node_reshape(n, x, 2, (int64_t[]){rows, width});
        function(n->graph->ctx, &y, matrix, 1);
        y = node_reshape(n, y, x.rank, x.dims);
    } else {
        function(n->graph->ctx, &y, x, axis);
    }
    node_output(n, 0, y, node_type(n, 0));
}

void op_softmax(node *n) {
    softmax(n, tfm_softmax_axis);
}

void op_log_softmax(node *n) {
    softmax(n, tfm_log_softmax_axis);
}

void op_layer_normalization(node *n) {
    tfm_tensor x = node_floats(n, 0), gamma = node_floats(n, 1), beta = {0}, y = {0}, mean = {0}, inverse = {0};
    if (node_has(n, 2))
        beta = node_floats(n, 2);
    if (node_int(n, "stash_type", ONNX_FLOAT) != ONNX_FLOAT)
        NODE_UNSUPPORTED(n, "attribute stash_type of LayerNormalization other than FLOAT");
    if (!node_ok(n))
        return;
    const int axis = node_axis(n, node_int(n, "axis", -1), x.rank);
    tfm_layernorm_axes(n->graph->ctx, &y, node_wants(n, 1) ? &mean : NULL, node_wants(n, 2) ? &inverse : NULL, x, gamma,
                       beta, axis, node_float(n, "epsilon", 1e-5f));
    node_output(n, 0, y, node_type(n, 0));
    node_output(n, 1, mean, ONNX_FLOAT);
    node_output(n, 2, inverse, ONNX_FLOAT);
}

void op_rms_normalization(node *n) {
    tfm_tensor x = node_floats(n, 0), gamma = node_floats(n, 1), y = {0}, none = {0};
    if (node_int(n, "stash_type", ONNX_FLOAT) != ONNX_FLOAT)
        NODE_UNSUPPORTED(n, "attribute stash_type of RMSNormalization other than FLOAT");
    if (!node_ok(n))
        return;
    const int axis = node_axis(n, node_int(n, "axis", -1), x.rank);
    tfm_rmsnorm(n->graph->ctx, &y, NULL, x, none, gamma, axis, node_float(n, "epsilon", 1e-5f));
    node_output(n, 0, y, node_type(n, 0));
}

/* x (B, C, ...): normalizes each group of channels; gamma and beta (C). */
static void normalize_groups(node *n, int64_t groups) {
    tfm_tensor x = node_floats(n, 0), gamma = node_floats(n, 1), beta = node_floats(n, 2), y = {0}, shifted = {0};
    tfm_tensor none = {0};
    if (!node_filled(n, x))
        return;
    if (groups == 0 && x.rank >= 2)
        groups = x.dims[1];
    const int64_t channels = x.rank >= 3 ? x.dims[1] : 0;
    if (channels == 0 || groups <= 0 || channels % groups != 0 || (int64_t)tfm_tensor_count(gamma) != channels ||
        (int64_t)tfm_tensor_count(beta) != channels) {
        NODE_WRONG(n, "%s of %lld channels in %lld groups", n->proto->op_type, (long long)channels, (long long)groups);
        return;
    }
    const int64_t all = (int64_t)tfm_tensor_count(x), wide = all / (x.dims[0] * groups);
    const int64_t column[] = {channels, 1};
    tfm_layernorm_axes(n->graph->ctx, &y, NULL, NULL, node_reshape(n, x, 3, (int64_t[]){x.dims[0], groups, wide}), none,
                       none, 2, node_float(n, "epsilon", 1e-5f));
    y = node_reshape(n, y, 3, (int64_t[]){x.dims[0], channels, all / (x.dims[0] * channels)});
    y = part_product(n, y, node_reshape(n, gamma, 2, column));
    beta = node_reshape(n, beta, 2, column);
    if (node_ok(n))
        tfm_add(n->graph->ctx, &shifted, y, beta);
    node_output(n, 0, node_reshape(n, shifted, x.rank, x.dims), node_type(n, 0));
}

/* Before opset 21 gamma and beta had one element per group. */
void op_group_normalization(node *n) {
    if (n->graph->opset < 21)
        NODE_UNSUPPORTED(n, "GroupNormalization of opset %lld", (long long)n->graph->opset);
    if (node_int(n, "stash_type", ONNX_FLOAT) != ONNX_FLOAT)
        NODE_UNSUPPORTED(n, "attribute stash_type of GroupNormalization other than FLOAT");
    if (node_int(n, "num_groups", 0) <= 0)
        NODE_WRONG(n, "GroupNormalization without num_groups");
    if (node_ok(n))
        normalize_groups(n, node_int(n, "num_groups", 0));
}

void op_instance_normalization(node *n) {
    normalize_groups(n, 0);
}

/* RoPE. X (B, H, T, D) or (B, T, H D); tables (P, R/2) with positions (B, T), or (B, T, R/2). */
void op_rotary_embedding(node *n) {
    tfm_tensor x = node_floats(n, 0), cosines = node_floats(n, 1), sines = node_floats(n, 2), y = {0};
    tfm_rotary_options options = {.heads = (int)node_int(n, "num_heads", 0),
                                  .interleaved = node_int(n, "interleaved", 0) != 0};
    if (node_has(n, 3))
        options.positions = node_input(n, 3);
    if (!node_ok(n))
        return;
    const int64_t width = node_int(n, "rotary_embedding_dim", 0);
    if (width != 0 && width != 2 * cosines.dims[cosines.rank - 1])
        NODE_WRONG(n, "attribute rotary_embedding_dim is %lld, and the tables are for %lld", (long long)width,
                   2 * (long long)cosines.dims[cosines.rank - 1]);
    if (x.rank == 4)
        options.heads = 0;
    if (node_ok(n) && tfm_rotary(n->graph->ctx, &y, x, cosines, sines, &options) == TFM_OK)
        node_output(n, 0, y, node_type(n, 0));
}
