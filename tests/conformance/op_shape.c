/* Ops that change only the shape. */
#include <string.h>
#include "op_table.h"

static void output_dims(node *n, tfm_tensor x, int rank, const int64_t *dims) {
    const int64_t one = 1;
    node_output_as(n, rank == 0 ? node_reshape(n, x, 1, &one) : node_reshape(n, x, rank, dims), node_type(n, 0),
                   rank == 0);
}

void op_reshape(node *n) {
    tfm_tensor x = node_input(n, 0);
    int64_t dims[ONNX_MAX_RANK] = {0}, known = 1;
    const int rank = (int)node_ints(n, 1, dims, ONNX_MAX_RANK);
    int open = -1;
    if (!node_ok(n))
        return;
    for (int i = 0; i < rank; i++) {
        if (dims[i] == 0 && node_int(n, "allowzero", 0) == 0 && i < x.rank)
            dims[i] = x.dims[i];
        if (dims[i] == -1)
            open = i;
        else if (dims[i] < 0 || dims[i] > INT32_MAX)
            NODE_WRONG(n, "Reshape to a dimension of %lld", (long long)dims[i]);
        else
            known = known > INT32_MAX ? known : known * dims[i];
    }
    if (open >= 0)
        dims[open] = known > 0 ? (int64_t)tfm_tensor_count(x) / known : 0;
    output_dims(n, x, rank, dims);
}

void op_flatten(node *n) {
    tfm_tensor x = node_input(n, 0);
    int64_t rows = 1, axis = node_int(n, "axis", 1);
    if (!node_ok(n))
        return;
    if (axis != x.rank) /* the rank itself is valid too, and gives one column */
        axis = node_axis(n, axis, x.rank);
    int64_t columns = 1;
    for (int i = 0; i < x.rank; i++)
        *(i < axis ? &rows : &columns) *= x.dims[i];
    output_dims(n, x, 2, (int64_t[]){rows, columns});
}

/* Flags of the axes, from input 1 since opset 13, else from the attribute; returns their number. */
static size_t flagged(node *n, bool *flags, int rank) {
    int64_t axes[ONNX_MAX_RANK];
    const size_t count =
        node_has(n, 1) ? node_ints(n, 1, axes, ONNX_MAX_RANK) : node_list(n, "axes", axes, ONNX_MAX_RANK);
    for (size_t i = 0; i < count && node_ok(n); i++)
        flags[node_axis(n, axes[i], rank)] = true;
    return count;
}

void op_squeeze(node *n) {
    tfm_tensor x = node_input(n, 0);
    bool gone[TFM_MAX_RANK] = {false};
    int64_t dims[TFM_MAX_RANK];
    int rank = 0;
    if (!node_ok(n))
        return;
    const bool all = flagged(n, gone, x.rank) == 0;
    for (int i = 0; i < x.rank; i++)
        if (!(all ? x.dims[i] == 1 : gone[i]))
            dims[rank++] = x.dims[i];
    output_dims(n, x, rank, dims);
}

void op_unsqueeze(node *n) {
    tfm_tensor x = node_input(n, 0);
    bool made[2 * ONNX_MAX_RANK] = {false};
    int64_t axes[ONNX_MAX_RANK], dims[2 * ONNX_MAX_RANK];
    if (!node_ok(n))
        return;
    const int from = node_scalar(n, 0) ? 0 : x.rank;
    const size_t count =
        node_has(n, 1) ? node_ints(n, 1, axes, ONNX_MAX_RANK) : node_list(n, "axes", axes, ONNX_MAX_RANK);
    const int rank = from + (int)count;
    flagged(n, made, rank);
    for (int i = 0, next = 0; i < rank; i++)
        dims[i] = made[i] || next >= from ? 1 : x.dims[next++];
    output_dims(n, x, rank, dims);
}
