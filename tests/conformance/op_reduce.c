/* Reductions, cumulative sums, and indices along a dimension. */
#include <string.h>
#include "op_table.h"

void op_reduce(node *n) {
    const char *name = n->proto->op_type;
    int64_t given[TFM_MAX_RANK];
    int axes[TFM_MAX_RANK];
    const tfm_tensor x = node_floats(n, 0);
    const size_t count =
        node_has(n, 1) ? node_ints(n, 1, given, TFM_MAX_RANK) : node_list(n, "axes", given, TFM_MAX_RANK);
    const bool keep = node_int(n, "keepdims", 1) != 0;
    tfm_tensor y = {0};
    if (!node_ok(n))
        return;
    const bool scalar = node_scalar(n, 0);
    if (count == 0 && node_int(n, "noop_with_empty_axes", 0) != 0) {
        node_output_as(n, x, node_type(n, 0), scalar);
        return;
    }
    for (size_t i = 0; i < count && node_ok(n); i++)
        axes[i] = node_axis(n, given[i], x.rank);
    if (!node_ok(n))
        return;
    (strcmp(name, "ReduceSum") == 0    ? tfm_reduce_sum
     : strcmp(name, "ReduceMean") == 0 ? tfm_reduce_mean
     : strcmp(name, "ReduceMax") == 0  ? tfm_reduce_max
                                       : tfm_reduce_min)(n->graph->ctx, &y, x, axes, count, keep);
    node_output_as(n, y, node_type(n, 0), scalar || (!keep && (count == 0 || count == (size_t)x.rank)));
}

void op_cumsum(node *n) {
    const bool ints = node_type(n, 0) == ONNX_INT32 || node_type(n, 0) == ONNX_INT64;
    const tfm_tensor x = ints ? node_input(n, 0) : node_floats(n, 0);
    int64_t axis = 0;
    tfm_tensor y = {0};
    if (node_ok(n) && node_ints(n, 1, &axis, 1) != 1 && node_ok(n))
        NODE_WRONG(n, "CumSum has no axis");
    if (!node_ok(n))
        return;
    tfm_cumsum(n->graph->ctx, &y, x, node_axis(n, axis, x.rank), node_int(n, "exclusive", 0) != 0,
               node_int(n, "reverse", 0) != 0);
    node_output(n, 0, y, node_type(n, 0));
}

void op_onehot(node *n) {
    const tfm_tensor values = node_floats(n, 2);
    int64_t depth = 0;
    float host[2] = {0};
    tfm_tensor y = {0};
    if (!node_ok(n))
        return;
    if (node_type(n, 0) != ONNX_INT64 && node_type(n, 0) != ONNX_INT32)
        NODE_UNSUPPORTED(n, "OneHot of %s", onnx_type_name(node_type(n, 0)));
    else if (node_type(n, 1) != ONNX_INT64 && node_type(n, 1) != ONNX_INT32)
        NODE_UNSUPPORTED(n, "OneHot of a depth in %s", onnx_type_name(node_type(n, 1)));
    const tfm_tensor indices = node_ok(n) ? node_input(n, 0) : y;
    if (node_ok(n) && (node_ints(n, 1, &depth, 1) != 1 || tfm_tensor_count(values) != 2))
        NODE_WRONG(n, "OneHot has a depth that is not one number, or values that are not two");
    if (!node_ok(n) || tfm_tensor_read(n->graph->ctx, host, values) != TFM_OK)
        return;
    tfm_onehot(n->graph->ctx, &y, indices, depth, (int)node_int(n, "axis", -1), host[0], host[1]);
    node_output(n, 0, y, node_type(n, 2));
}

void op_gather_elements(node *n) {
    const int type = node_type(n, 0);
    const tfm_tensor x = type == ONNX_INT32 || type == ONNX_INT64 ? node_input(n, 0) : node_floats(n, 0);
    const tfm_tensor indices = node_input(n, 1);
    tfm_tensor y = {0};
    if (!node_ok(n))
        return;
    tfm_gather_elements(n->graph->ctx, &y, x, indices, node_axis(n, node_int(n, "axis", 0), x.rank));
    node_output(n, 0, y, type);
}
