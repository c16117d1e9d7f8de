/* Unary and binary functions, comparisons and selection: one function of the API each. */
#include <math.h>
#include <string.h>
#include "op_table.h"

typedef tfm_status (*unary_fn)(tfm_context *ctx, tfm_tensor *y, tfm_tensor x);
typedef tfm_status (*binary_fn)(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b);

void op_unary(node *n) {
    static const struct {
        const char *name;
        unary_fn function;
    } entries[] = {{"Neg", tfm_neg},   {"Abs", tfm_abs},
                   {"Sqrt", tfm_sqrt}, {"Reciprocal", tfm_reciprocal},
                   {"Exp", tfm_exp},   {"Log", tfm_log},
                   {"Erf", tfm_erf},   {"Sigmoid", tfm_sigmoid},
                   {"Tanh", tfm_tanh}, {"HardSwish", tfm_hardswish}};
    tfm_tensor y = {0};
    const bool ints = node_type(n, 0) == ONNX_INT32 || node_type(n, 0) == ONNX_INT64;
    if (ints && strcmp(n->proto->op_type, "Neg") == 0) {
        const tfm_tensor none = node_upload(n, TFM_I32, 1, (int64_t[]){1}, &(int32_t){0}), whole = node_input(n, 0);
        if (node_ok(n))
            tfm_sub(n->graph->ctx, &y, none, whole);
        if (node_ok(n))
            node_output_as(n, y, node_type(n, 0), node_scalar(n, 0));
        return;
    }
    const tfm_tensor x = node_floats(n, 0);
    for (size_t i = 0; node_ok(n) && i < sizeof(entries) / sizeof(*entries); i++)
        if (strcmp(entries[i].name, n->proto->op_type) == 0)
            entries[i].function(n->graph->ctx, &y, x);
    if (node_ok(n))
        node_output_as(n, y, node_type(n, 0), node_scalar(n, 0));
}

void op_hard_sigmoid(node *n) {
    const tfm_tensor x = node_floats(n, 0);
    tfm_tensor y = {0};
    if (node_ok(n))
        tfm_hard_sigmoid(n->graph->ctx, &y, x, node_float(n, "alpha", 0.2f), node_float(n, "beta", 0.5f));
    if (node_ok(n))
        node_output_as(n, y, node_type(n, 0), node_scalar(n, 0));
}

/* The slope is broadcast to x. */
void op_prelu(node *n) {
    const tfm_tensor x = node_floats(n, 0), slope = part_spread(n, node_floats(n, 1), x.rank, x.dims);
    const int64_t count = node_ok(n) ? (int64_t)tfm_tensor_count(x) : 0;
    tfm_tensor row = {0}, slopes = {0}, flat = {0}, y = {0};
    if (!node_ok(n))
        return;
    tfm_tensor_reshape(n->graph->ctx, &row, x, 2, (int64_t[]){1, count});
    tfm_tensor_reshape(n->graph->ctx, &slopes, slope, 1, &count);
    tfm_prelu(n->graph->ctx, &flat, row, slopes);
    tfm_tensor_reshape(n->graph->ctx, &y, flat, x.rank, x.dims);
    node_output_as(n, y, node_type(n, 0), node_scalar(n, 0));
}

/* A bound of Clip: an input since opset 11, an attribute before. */
static float bound(node *n, size_t i, const char *name, float otherwise) {
    float host = otherwise;
    if (!node_has(n, i))
        return node_float(n, name, otherwise);
    const tfm_tensor x = node_floats(n, i);
    if (node_ok(n) && tfm_tensor_count(x) != 1)
        NODE_WRONG(n, "Clip has a bound of %zu elements", tfm_tensor_count(x));
    else if (node_ok(n))
        tfm_tensor_read(n->graph->ctx, &host, x);
    return host;
}

void op_clip(node *n) {
    const tfm_tensor x = node_floats(n, 0);
    tfm_tensor y = {0};
    const float low = bound(n, 1, "min", -INFINITY), high = bound(n, 2, "max", INFINITY);
    if (node_ok(n))
        tfm_clip(n->graph->ctx, &y, x, low, high);
    if (node_ok(n))
        node_output_as(n, y, node_type(n, 0), node_scalar(n, 0));
}

/* Both inputs converted for computation: floats to F32; integers and booleans unchanged. */
static bool read_two(node *n, tfm_tensor *a, tfm_tensor *b) {
    const int type = node_type(n, 0);
    if (n->proto->n_input != 2)
        NODE_WRONG(n, "%s of %zu inputs", n->proto->op_type, n->proto->n_input);
    if (node_ok(n) && node_type(n, 1) != type)
        NODE_UNSUPPORTED(n, "%s of %s and %s", n->proto->op_type, onnx_type_name(type),
                         onnx_type_name(node_type(n, 1)));
    const bool whole = type == ONNX_INT32 || type == ONNX_INT64 || type == ONNX_BOOL || type == ONNX_UINT8;
    for (size_t i = 0; i < 2 && node_ok(n); i++)
        *(i ? b : a) = whole ? node_input(n, i) : node_floats(n, i);
    return node_ok(n);
}

static const struct {
    const char *name;
    binary_fn function;
    const char *dtypes; /* f F32, i I32, b U8 */
    bool truth, swapped;
} BINARY[] = {
    {"Sub", tfm_sub, "fi", false, false},
    {"Mul", tfm_mul, "fi", false, false},
    {"Div", tfm_div, "fi", false, false},
    {"Pow", tfm_pow, "f", false, false},
    {"Equal", tfm_equal, "fib", true, false},
    {"Less", tfm_less, "fib", true, false},
    {"LessOrEqual", tfm_less_equal, "fib", true, false},
    {"Greater", tfm_less, "fib", true, true},
    {"GreaterOrEqual", tfm_less_equal, "fib", true, true},
    {"And", tfm_and, "b", true, false},
    {"Or", tfm_or, "b", true, false},
    {"Xor", tfm_xor, "b", true, false},
};

void op_binary(node *n) {
    tfm_tensor a = {0}, b = {0}, y = {0};
    if (!read_two(n, &a, &b))
        return;
    for (size_t i = 0; i < sizeof(BINARY) / sizeof(*BINARY); i++) {
        if (strcmp(BINARY[i].name, n->proto->op_type) != 0)
            continue;
        const char letter = a.dtype == TFM_F32 ? 'f' : a.dtype == TFM_I32 ? 'i' : 'b';
        if (!strchr(BINARY[i].dtypes, letter))
            NODE_UNSUPPORTED(n, "%s of %s", n->proto->op_type, onnx_type_name(node_type(n, 0)));
        else
            BINARY[i].function(n->graph->ctx, &y, BINARY[i].swapped ? b : a, BINARY[i].swapped ? a : b);
        if (node_ok(n))
            node_output_as(n, y, BINARY[i].truth ? ONNX_BOOL : node_type(n, 0), node_scalar(n, 0) && node_scalar(n, 1));
    }
}

/* Minimum and maximum of any number of inputs. */
void op_extreme(node *n) {
    const binary_fn function = strcmp(n->proto->op_type, "Min") == 0 ? tfm_min : tfm_max;
    const bool ints = node_type(n, 0) == ONNX_INT32 || node_type(n, 0) == ONNX_INT64;
    bool scalar = true;
    tfm_tensor y = {0};
    for (size_t i = 0; i < n->proto->n_input && node_ok(n); i++) {
        const tfm_tensor x = ints ? node_input(n, i) : node_floats(n, i);
        tfm_tensor both = {0};
        scalar = scalar && node_scalar(n, i);
        if (node_ok(n) && i > 0)
            function(n->graph->ctx, &both, y, x);
        y = i > 0 ? both : x;
    }
    if (node_ok(n))
        node_output_as(n, y, node_type(n, 0), scalar);
}

void op_not(node *n) {
    const tfm_tensor x = node_input(n, 0), none = node_upload(n, TFM_U8, 1, (int64_t[]){1}, &(uint8_t){0});
    tfm_tensor y = {0};
    if (node_ok(n))
        tfm_equal(n->graph->ctx, &y, x, none);
    if (node_ok(n))
        node_output_as(n, y, ONNX_BOOL, node_scalar(n, 0));
}

void op_where(node *n) {
    const tfm_tensor condition = node_input(n, 0), a = node_input(n, 1), b = node_input(n, 2);
    tfm_tensor y = {0};
    if (node_ok(n))
        tfm_where(n->graph->ctx, &y, condition, a, b);
    if (node_ok(n))
        node_output_as(n, y, node_type(n, 1), node_scalar(n, 0) && node_scalar(n, 1) && node_scalar(n, 2));
}
