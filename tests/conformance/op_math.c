/* Matrix multiplication, activations, top-k, and casts. */
#include <string.h>
#include "op_table.h"

static void output_like_input(node *n, tfm_tensor y) {
    if (node_ok(n))
        node_output_as(n, y, node_type(n, 0), node_scalar(n, 0));
}

/* x with `rank` dims, ones in front. */
static tfm_tensor raised(node *n, tfm_tensor x, int rank) {
    int64_t dims[TFM_MAX_RANK];
    if (!node_ok(n) || x.rank >= rank)
        return x;
    for (int i = 0; i < rank; i++)
        dims[i] = i < rank - x.rank ? 1 : x.dims[i - (rank - x.rank)];
    return node_reshape(n, x, rank, dims);
}

/* x broadcast to the batch dims of both. */
static tfm_tensor repeated(node *n, tfm_tensor x, tfm_tensor other) {
    tfm_tensor y = x;
    for (int i = 0; node_ok(n) && i < x.rank - 2; i++)
        y.dims[i] = x.dims[i] == 1 ? other.dims[i] : x.dims[i];
    return part_spread(n, x, y.rank, y.dims);
}

void op_matmul(node *n) {
    tfm_tensor a = node_floats(n, 0), b = node_floats(n, 1), c = {0};
    if (!node_ok(n))
        return;
    const bool row = a.rank == 1, column = b.rank == 1; /* these dims are dropped from the result */
    if (row)
        a = raised(n, a, 2);
    if (column)
        b = node_reshape(n, b, 2, (int64_t[]){b.dims[0], 1});
    if (!node_ok(n))
        return;
    if (b.rank > 2 || a.rank < b.rank) {
        const int rank = a.rank > b.rank ? a.rank : b.rank;
        const tfm_tensor high_a = raised(n, a, rank), high_b = raised(n, b, rank);
        a = repeated(n, high_a, high_b);
        b = repeated(n, high_b, high_a);
    }
    if (!node_ok(n) || tfm_gemm(n->graph->ctx, &c, a, b, NULL) != TFM_OK)
        return;
    int64_t dims[TFM_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < c.rank; i++)
        if (!(row && i == c.rank - 2) && !(column && i == c.rank - 1))
            dims[rank++] = c.dims[i];
    const tfm_tensor y = rank == 0 ? node_reshape(n, c, 1, (int64_t[]){1}) : node_reshape(n, c, rank, dims);
    node_output_as(n, y, node_type(n, 0), rank == 0);
}

void op_gemm(node *n) {
    tfm_tensor a = node_floats(n, 0), b = node_floats(n, 1), product = {0}, y = {0};
    const float alpha = node_float(n, "alpha", 1), beta = node_float(n, "beta", 1);
    const bool added = node_has(n, 2) && beta != 0;
    const tfm_tensor bias = added ? node_floats(n, 2) : y;
    if (!node_ok(n))
        return;
    if (alpha == 0) { /* tfm_gemm treats 0 as 1 */
        NODE_UNSUPPORTED(n, "attribute alpha of Gemm at 0");
        return;
    }
    tfm_gemm_options options = {
        .transpose_a = node_int(n, "transA", 0) != 0, .transpose_b = node_int(n, "transB", 0) != 0, .alpha = alpha};
    tfm_gemm(n->graph->ctx, &product, a, b, &options);
    if (!added) {
        node_output(n, 0, product, node_type(n, 0));
        return;
    }
    const tfm_tensor addend = beta == 1 ? bias : part_scaled(n, bias, beta);
    if (node_ok(n) && tfm_add(n->graph->ctx, &y, product, addend) == TFM_OK)
        node_output(n, 0, y, node_type(n, 0));
}

static void activate(node *n, tfm_activation activation) {
    tfm_tensor x = node_floats(n, 0), y = {0};
    if (!node_ok(n))
        return;
    tfm_activate(n->graph->ctx, &y, x, activation);
    output_like_input(n, y);
}

void op_relu(node *n) {
    activate(n, TFM_RELU);
}

void op_gelu(node *n) {
    activate(n, node_text(n, "approximate", "none", "tanh") ? TFM_GELU_TANH : TFM_GELU);
}

/* x / (1 + e^(-alpha x)) = silu(alpha x) / alpha. */
static tfm_tensor swish(node *n, tfm_tensor x, float alpha) {
    tfm_tensor y = {0};
    const tfm_tensor inner = alpha == 1 ? x : part_scaled(n, x, alpha);
    if (alpha == 0)
        NODE_UNSUPPORTED(n, "attribute alpha of %s at 0", n->proto->op_type);
    else if (node_ok(n))
        tfm_activate(n->graph->ctx, &y, inner, TFM_SILU);
    return alpha == 1 ? y : part_scaled(n, y, 1 / alpha);
}

void op_swish(node *n) {
    output_like_input(n, swish(n, node_floats(n, 0), node_float(n, "alpha", 1)));
}

void op_swiglu(node *n) {
    const tfm_tensor a = node_floats(n, 0), b = node_floats(n, 1);
    const float alpha = node_float(n, "alpha", 1);
    tfm_tensor y = {0};
    if (alpha != 1)
        y = part_product(n, swish(n, a, alpha), b);
    else if (node_ok(n))
        tfm_glu(n->graph->ctx, &y, b, a, TFM_SILU, TFM_GLU_GATE_FIRST);
    output_like_input(n, y);
}

/* Swaps the axis and the last dimension; a second call swaps them back. */
static tfm_tensor axis_last(node *n, tfm_tensor x, int axis) {
    int axes[TFM_MAX_RANK];
    tfm_tensor y = {0};
    if (!node_ok(n) || axis == x.rank - 1)
        return x;
    for (int i = 0; i < x.rank; i++)
        axes[i] = i == axis ? x.rank - 1 : i == x.rank - 1 ? axis : i;
    tfm_permute(n->graph->ctx, &y, x, axes);
    return y;
}

/* Reverses the order: -x, and for integers -1 - x. */
static tfm_tensor reversed_order(node *n, tfm_tensor x) {
    const tfm_tensor none = node_upload(n, TFM_I32, 1, (int64_t[]){1}, &(int32_t){-1});
    tfm_tensor y = {0};
    if (node_ok(n) && x.dtype == TFM_I32)
        tfm_sub(n->graph->ctx, &y, none, x);
    else if (node_ok(n))
        tfm_neg(n->graph->ctx, &y, x);
    return y;
}

/* Rows for tfm_topk: (R, n), with the axis last. The smallest are the largest of -x, or for integers of -1 - x, which
 * cannot overflow. */
void op_topk(node *n) {
    const bool ints = node_type(n, 0) == ONNX_INT64 || node_type(n, 0) == ONNX_INT32;
    tfm_tensor x = ints ? node_input(n, 0) : node_floats(n, 0), values = {0}, indices = {0};
    int64_t k = 0, dims[TFM_MAX_RANK];
    if (!node_ok(n))
        return;
    const int axis = node_axis(n, node_int(n, "axis", -1), x.rank);
    const bool smallest = node_int(n, "largest", 1) == 0;
    if (node_ints(n, 1, &k, 1) != 1 && node_ok(n))
        NODE_WRONG(n, "TopK has no k");
    if (k > 64)
        NODE_UNSUPPORTED(n, "TopK of %lld, more than 64", (long long)k);
    x = axis_last(n, smallest ? reversed_order(n, x) : x, axis);
    if (!node_filled(n, x))
        return;
    memcpy(dims, x.dims, sizeof(dims));
    const int64_t width = dims[x.rank - 1], rows = (int64_t)tfm_tensor_count(x) / width;
    tfm_topk(n->graph->ctx, &values, &indices, NULL, node_reshape(n, x, 2, (int64_t[]){rows, width}), (int)k);
    dims[x.rank - 1] = k;
    values = axis_last(n, node_reshape(n, values, x.rank, dims), axis);
    indices = axis_last(n, node_reshape(n, indices, x.rank, dims), axis);
    node_output(n, 0, smallest ? reversed_order(n, values) : values, node_type(n, 0));
    node_output(n, 1, indices, ONNX_INT64);
}

static void cast_to(node *n, int64_t type) {
    const int from = node_type(n, 0);
    const bool floats = (from == ONNX_FLOAT || from == ONNX_FLOAT16 || from == ONNX_BFLOAT16) &&
                        (type == ONNX_FLOAT || type == ONNX_FLOAT16 || type == ONNX_BFLOAT16);
    tfm_tensor y = {0};
    if (!floats) {
        part_cast_on_host(n, (int)type);
        return;
    }
    const tfm_tensor x = node_input(n, 0);
    if (!node_ok(n))
        return;
    tfm_cast(n->graph->ctx, &y, x, type == ONNX_FLOAT ? TFM_F32 : type == ONNX_FLOAT16 ? TFM_F16 : TFM_BF16);
    node_output_as(n, y, (int)type, node_scalar(n, 0));
}

void op_cast(node *n) {
    cast_to(n, node_int(n, "to", 0));
}

void op_cast_like(node *n) {
    cast_to(n, node_type(n, 1));
}
