/* Softmax and the norms. */
#include "op_table.h"

typedef tfm_status (*softmax_fn)(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, int axis);

/* Before opset 13 the axis was 1, and all dimensions from it on were one. */
static void softmax(node *n, softmax_fn function) {
    tfm_tensor x = node_floats(n, 0), y = {0};
    const bool flat = n->graph->opset < 13;
    if (!node_ok(n))
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
    tfm_tensor x = node_floats(n, 0), gamma = node_floats(n, 1), beta = {0}, y = {0}, mean = {0},
               inverse = {0};
    if (node_has(n, 2))
        beta = node_floats(n, 2);
    if (node_int(n, "stash_type", ONNX_FLOAT) != ONNX_FLOAT)
        NODE_UNSUPPORTED(n, "attribute stash_type of LayerNormalization other than FLOAT");
    if (!node_ok(n))
        return;
    const int axis = node_axis(n, node_int(n, "axis", -1), x.rank);
    tfm_layernorm_axes(n->graph->ctx, &y, node_wants(n, 1) ? &mean : NULL, node_wants(n, 2) ? &inverse : NULL,
                       x, gamma, beta, axis, node_float(n, "epsilon", 1e-5f));
    node_output(n, 0, y, node_type(n, 0));
    node_output(n, 1, mean, ONNX_FLOAT);
    node_output(n, 2, inverse, ONNX_FLOAT);
}
