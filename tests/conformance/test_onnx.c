/* Tests of the conformance runner: damaged files and invalid graphs end with a sentence, and wrong results fail. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "conformance/runner.h"
#include "support/harness.h"

enum { MOST_BYTES = 1024, INPUTS = 3, WANTED = 12, MOST_INTS = 70 };

/* A node with its attribute, and inputs from the values below; for some, the expected y as a list of `count` numbers.
 */
typedef struct small {
    const char *op, *inputs[INPUTS], *attribute;
    int64_t value;
    size_t count;
    double y[WANTED];
} small;

static const small nodes[] = {
    {"Softmax", {"x"}, "axis", 1, 0, {0}},
    {"LayerNormalization", {"x", "s"}, "axis", -1, 0, {0}},
    {"Attention", {"q", "q", "q"}, "is_causal", 1, 0, {0}},
    {"Reshape", {"x", "i"}, "allowzero", 0, 0, {0}},
    {"Gather", {"x", "i"}, "axis", 2, 0, {0}},
    {"Slice", {"x", "o", "e"}, NULL, 0, 0, {0}},
    {"TopK", {"x", "k"}, "axis", -1, 0, {0}},
    {"Gemm", {"m", "m", "s"}, "transB", 1, 0, {0}},
    {"MatMul", {"m", "s"}, NULL, 0, 0, {0}},
    {"Unsqueeze", {"x", "k"}, NULL, 0, 0, {0}},
    {"Squeeze", {"x"}, NULL, 0, 0, {0}},
    {"Split", {"x"}, "axis", 2, 0, {0}},
    {"Concat", {"x", "x"}, "axis", 1, 0, {0}},
    {"Flatten", {"x"}, "axis", 2, 0, {0}},
    {"Transpose", {"x"}, NULL, 0, 0, {0}},
    {"Cast", {"x"}, "to", ONNX_FLOAT16, 0, {0}},
    {"Mul", {"x", "s"}, NULL, 0, 0, {0}},
    {"Expand", {"x", "t"}, NULL, 0, 0, {0}},
    {"RMSNormalization", {"x", "s"}, "axis", 2, 0, {0}},
    {"GroupNormalization", {"x", "g", "g"}, "num_groups", 2, 0, {0}},
    {"RotaryEmbedding", {"x", "r", "r"}, "num_heads", 2, 0, {0}},
    {"SwiGLU", {"x", "x"}, NULL, 0, 0, {0}},
    {"TensorScatter", {"q", "u", "p"}, "axis", 2, 0, {0}},
    {"SoftmaxCrossEntropyLoss", {"c", "l", "s"}, "ignore_index", 3, 0, {0}},
    {"NegativeLogLikelihoodLoss", {"c", "l"}, NULL, 0, 0, {0}},
    /* Unary functions, on 1 to 8 or on 1/2, -1, 2, 0 ... */
    {"Abs", {"v"}, NULL, 0, 4, {0.5, 1, 2, 0}},
    {"Neg", {"v"}, NULL, 0, 4, {-0.5, 1, -2, 0}},
    {"Neg", {"a"}, NULL, 0, 4, {7, -5, 0, -3}},
    {"Sqrt", {"s"}, NULL, 0, 4, {1, 1.41421356, 1.73205081, 2}},
    {"Reciprocal", {"s"}, NULL, 0, 4, {1, 0.5, 1 / 3.0, 0.25}},
    {"Exp", {"v"}, NULL, 0, 4, {1.64872127, 0.367879441, 7.3890561, 1}},
    {"Log", {"s"}, NULL, 0, 4, {0, 0.693147181, 1.09861229, 1.38629436}},
    {"Erf", {"v"}, NULL, 0, 4, {0.520499878, -0.842700793, 0.995322265, 0}},
    {"Sigmoid", {"v"}, NULL, 0, 4, {0.622459331, 0.268941421, 0.880797078, 0.5}},
    {"Tanh", {"v"}, NULL, 0, 4, {0.462117157, -0.761594156, 0.96402758, 0}},
    {"HardSwish", {"v"}, NULL, 0, 4, {3.5 / 12, -1 / 3.0, 5 / 3.0, 0}},
    {"HardSigmoid", {"v"}, NULL, 0, 4, {0.6, 0.3, 0.9, 0.5}},
    {"Clip", {"s", "h", "f"}, NULL, 0, 8, {3, 3, 3, 4, 5, 6, 6, 6}},
    /* Two or more inputs. */
    {"PRelu", {"v", "v"}, NULL, 0, 4, {0.5, 1, 2, 0}},
    {"Add", {"a", "l"}, NULL, 0, 4, {-7, 12, 3, 4}},
    {"Sub", {"a", "l"}, NULL, 0, 4, {-7, -2, -3, 2}},
    {"Div", {"v", "s"}, NULL, 0, 4, {0.5, -0.5, 2 / 3.0, 0}},
    {"Div", {"a", "k"}, NULL, 0, 4, {-2, 1, 0, 1}},
    {"Pow", {"s", "h"}, NULL, 0, 4, {1, 8, 27, 64}},
    {"Min", {"s", "h", "v"}, NULL, 0, 5, {0.5, -1, 2, 0, 0}},
    {"Max", {"a", "l"}, NULL, 0, 4, {0, 7, 3, 3}},
    {"Equal", {"a", "a"}, NULL, 0, 4, {1, 1, 1, 1}},
    {"Greater", {"a", "l"}, NULL, 0, 4, {0, 0, 0, 1}},
    {"LessOrEqual", {"v", "h"}, NULL, 0, 4, {1, 1, 1, 1}},
    {"Xor", {"b", "b"}, NULL, 0, 4, {0, 0, 0, 0}},
    {"Not", {"b"}, NULL, 0, 4, {0, 1, 0, 0}},
    {"Where", {"b", "s", "v"}, NULL, 0, 5, {1, -1, 3, 4, 0}},
    /* Along dimensions. */
    {"ReduceSum", {"v"}, "keepdims", 0, 1, {1.5}},
    {"ReduceMean", {"s"}, NULL, 0, 1, {4.5}},
    {"ReduceMax", {"x", "p"}, NULL, 0, 8, {2, 0, 0, 0, 0, 0, 0, 0}},
    {"ReduceMin", {"v"}, NULL, 0, 1, {-1}},
    {"CumSum", {"s", "n"}, "exclusive", 1, 8, {0, 1, 3, 6, 10, 15, 21, 28}},
    {"OneHot", {"l", "k", "j"}, NULL, 0, 12, {-1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, -1, 0.5}},
    {"GatherElements", {"s", "l"}, NULL, 0, 4, {1, 8, 4, 2}},
    {"Pad", {"v", "e"}, NULL, 0, 9, {0, 0, 0.5, -1, 2, 0, 0, 0, 0}},
    /* Ops on the host. */
    {"Constant", {NULL}, "value_int", 7, 1, {7}},
    {"ConstantOfShape", {"p"}, NULL, 0, 2, {0, 0}},
    {"Range", {"k", "w", "p"}, NULL, 0, 4, {3, 5, 7, 9}},
    {"Mod", {"a", "k"}, NULL, 0, 4, {2, 2, 0, 0}},
    {"Shape", {"x"}, NULL, 0, 3, {2, 4, 8}},
    {"Size", {"x"}, NULL, 0, 1, {64}},
    {"Cast", {"v"}, "to", ONNX_INT32, 3, {0, -1, 2}},
    {"Identity", {"v"}, NULL, 0, 2, {0.5, -1}},
    {"Dropout", {"v"}, "seed", 1, 3, {0.5, -1, 2}},
};

/* The bytes of a model with this node and a constant s (8). */
static size_t pack(uint8_t *out, const small *what) {
    Onnx__AttributeProto attribute = ONNX__ATTRIBUTE_PROTO__INIT, *attributes[] = {&attribute};
    Onnx__NodeProto only = ONNX__NODE_PROTO__INIT, *node_list[] = {&only};
    Onnx__TensorProto constant = ONNX__TENSOR_PROTO__INIT, *constants[] = {&constant};
    Onnx__GraphProto body = ONNX__GRAPH_PROTO__INIT;
    Onnx__OperatorSetIdProto opset = ONNX__OPERATOR_SET_ID_PROTO__INIT, *opsets[] = {&opset};
    Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
    int64_t dims[] = {8}, ints[MOST_INTS] = {0};
    float floats[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    char *inputs[INPUTS], *outputs[] = {"y"};
    for (size_t i = 0; i < INPUTS && what->inputs[i]; i++)
        inputs[only.n_input++] = (char *)(uintptr_t)what->inputs[i];
    attribute.name = (char *)(uintptr_t)what->attribute;
    attribute.has_type = attribute.has_i = true;
    attribute.type = 2;
    attribute.i = what->value;
    if (what->attribute && strcmp(what->attribute, "value_ints") == 0) { /* `value` of them */
        attribute.type = 7;
        attribute.n_ints = (size_t)what->value;
        attribute.ints = ints;
    }
    constant.name = "s";
    constant.n_dims = 1;
    constant.dims = dims;
    constant.has_data_type = true;
    constant.data_type = ONNX_FLOAT;
    constant.n_float_data = 8;
    constant.float_data = floats;
    only.op_type = (char *)(uintptr_t)what->op;
    only.input = inputs;
    only.n_output = 1;
    only.output = outputs;
    only.n_attribute = what->attribute ? 1 : 0;
    only.attribute = attributes;
    body.n_node = body.n_initializer = 1;
    body.node = node_list;
    body.initializer = constants;
    opset.has_version = true;
    opset.version = 23;
    model.n_opset_import = 1;
    model.opset_import = opsets;
    model.graph = &body;
    assert_true(onnx__model_proto__get_packed_size(&model) <= MOST_BYTES);
    return onnx__model_proto__pack(&model, out);
}

static const float numbers[64] = {0.5f, -1, 2};
static const uint8_t truths[8] = {1, 0, 1, 1};
/* The inputs of a graph. BOOL: truth values; FLOAT: the numbers above, or with another first element. */
static const struct {
    const char *name;
    int type, rank;
    int64_t dims[4], ints[4];
    float first;
} values[] = {
    {"x", ONNX_FLOAT, 3, {2, 4, 8}, {0}, 0},    {"m", ONNX_FLOAT, 2, {8, 8}, {0}, 0},
    {"q", ONNX_FLOAT, 4, {1, 2, 4, 8}, {0}, 0}, {"r", ONNX_FLOAT, 3, {2, 4, 2}, {0}, 0},
    {"g", ONNX_FLOAT, 1, {4}, {0}, 0},          {"i", ONNX_INT64, 1, {2}, {4, -1}, 0},
    {"o", ONNX_INT64, 1, {2}, {0, 1}, 0},       {"e", ONNX_INT64, 1, {2}, {2, -1}, 0},
    {"t", ONNX_INT64, 1, {3}, {2, 1, 8}, 0},    {"k", ONNX_INT64, 1, {1}, {3}, 0},
    {"u", ONNX_FLOAT, 4, {1, 2, 2, 8}, {0}, 0}, {"p", ONNX_INT64, 1, {1}, {2}, 0},
    {"c", ONNX_FLOAT, 2, {4, 8}, {0}, 0},       {"l", ONNX_INT64, 1, {4}, {0, 7, 3, 1}, 0},
    {"v", ONNX_FLOAT, 1, {8}, {0}, 0},          {"a", ONNX_INT64, 1, {4}, {-7, 5, 0, 3}, 0},
    {"b", ONNX_BOOL, 1, {8}, {0}, 0},           {"h", ONNX_FLOAT, 1, {1}, {0}, 3},
    {"f", ONNX_FLOAT, 0, {0}, {0}, 6},          {"j", ONNX_FLOAT, 1, {2}, {0}, 0},
    {"n", ONNX_INT64, 1, {1}, {0}, 0},          {"w", ONNX_INT64, 0, {0}, {11}, 0},
    {"d", ONNX_INT64, 0, {0}, {1 << 30}, 0},    {"z", ONNX_FLOAT, 3, {2, 4, 0}, {0}, 0},
    {"inf", ONNX_FLOAT, 1, {1}, {0}, INFINITY}, {"true", ONNX_BOOL, 1, {1}, {0}, 0},
};

static void give(graph *g) {
    for (size_t v = 0; v < sizeof(values) / sizeof(*values); v++) {
        const size_t size = onnx_type_size(values[v].type);
        onnx_tensor x = {.type = values[v].type, .rank = values[v].rank, .count = 1};
        for (int d = 0; d < x.rank; d++)
            x.count *= (size_t)(x.dims[d] = values[v].dims[d]);
        x.data = malloc(x.count * size + 1);
        assert_non_null(x.data);
        memcpy(x.data,
               x.type == ONNX_INT64  ? (const void *)values[v].ints
               : x.type == ONNX_BOOL ? (const void *)truths
                                     : (const void *)numbers,
               x.count * size);
        if (values[v].first != 0)
            *(float *)x.data = values[v].first;
        graph_give(g, values[v].name, &x);
    }
}

/* Nodes with the expected y, and the number of nodes that the library computes. */
typedef struct outcome {
    const small *wanted;
    size_t on_device;
} outcome;

static void check_y(graph *g, const small *what) {
    const graph_value *y = graph_find(g, "y");
    assert_non_null(y);
    const size_t elements = y->device.buffer ? tfm_tensor_count(y->device) : y->host.count;
    assert_true(elements >= what->count);
    double *got = graph_numbers(g, y, what->count > elements ? what->count : elements);
    assert_non_null(got);
    for (size_t i = 0; i < what->count; i++)
        if (!(fabs(got[i] - what->y[i]) <= 2e-6 * fmax(1, fabs(what->y[i]))))
            fail_msg("element %zu of %s is %.9g, not %.9g", i, what->op, got[i], what->y[i]);
    free(got);
}

/* Runs a model's bytes, if they are valid, like the runner. */
static verdict run_for(const uint8_t *bytes, size_t size, char *sentence, outcome *out) {
    tfm_context *ctx = harness_context();
    graph g;
    Onnx__ModelProto *model = onnx_model_parse(bytes, size, sentence, 512);
    if (!model)
        return VERDICT_FAIL;
    harness_ok(tfm_scope_open(ctx));
    graph_init(&g, ctx, model);
    give(&g);
    graph_run(&g);
    if (out && g.verdict == VERDICT_PASS)
        check_y(&g, out->wanted);
    if (out)
        out->on_device = g.on_device;
    const verdict result = g.verdict;
    memcpy(sentence, g.sentence, sizeof(g.sentence));
    graph_free(&g);
    onnx_model_free(model);
    if (tfm_context_status(ctx) == TFM_OK)
        tfm_scope_close(ctx, 0, NULL);
    tfm_context_clear_error(ctx);
    return result;
}

static verdict run(const uint8_t *bytes, size_t size, char *sentence) {
    return run_for(bytes, size, sentence, NULL);
}

/* Truncates a model at every length, and flips bits at every position. Each still valid model runs or gives a reason.
 */
static void test_damaged_onnx_model_fails_with_a_message(void **state) {
    (void)state;
    enum { OFTEN = 25 }; /* nodes with every position, the others with some */
    harness_random random = {3};
    char sentence[512];
    for (size_t n = 0; n < sizeof(nodes) / sizeof(*nodes); n++) {
        uint8_t whole[MOST_BYTES], bytes[MOST_BYTES];
        const size_t step = harness_slow() ? 29 : n < OFTEN ? 1 : 7;
        const size_t size = pack(whole, &nodes[n]);
        for (size_t cut = n % step; cut < size; cut += step) {
            uint8_t *exact = malloc(cut + 1); /* lets a sanitizer detect a read past the end */
            assert_non_null(exact);
            memcpy(exact, whole, cut);
            sentence[0] = 0;
            if (run(exact, cut, sentence) != VERDICT_PASS)
                assert_true(sentence[0]);
            free(exact);
        }
        for (size_t at = n % step; at < size; at += step)
            for (int times = 0; times < 3; times++) {
                memcpy(bytes, whole, size);
                bytes[at] = (uint8_t)harness_next(&random);
                sentence[0] = 0;
                if (run(bytes, size, sentence) != VERDICT_PASS)
                    assert_true(sentence[0]);
            }
    }
}

/* Each undamaged model runs. */
static void test_undamaged_onnx_nodes_pass(void **state) {
    (void)state;
    for (size_t n = 0; n < sizeof(nodes) / sizeof(*nodes); n++) {
        uint8_t bytes[MOST_BYTES];
        char sentence[512];
        outcome out = {&nodes[n], 0};
        if (run_for(bytes, pack(bytes, &nodes[n]), sentence, &out) != VERDICT_PASS)
            fail_msg("%s: %s", nodes[n].op, sentence);
    }
}

/* A node with an input as output, or computed by the runner, does not test the library. */
static void test_nodes_without_library_work_are_not_counted(void **state) {
    (void)state;
    static const struct {
        small node;
        size_t on_device;
    } cases[] = {
        {{"Identity", {"x"}, NULL, 0, 0, {0}}, 0},     {{"Cast", {"a"}, "to", ONNX_FLOAT, 0, {0}}, 0},
        {{"Max", {"x"}, NULL, 0, 0, {0}}, 0},          {{"Shape", {"x"}, NULL, 0, 0, {0}}, 0},
        {{"Reshape", {"x", "i"}, NULL, 0, 0, {0}}, 1}, {{"Neg", {"a"}, NULL, 0, 0, {0}}, 1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        uint8_t bytes[MOST_BYTES];
        char sentence[512];
        outcome out = {&cases[i].node, 9};
        assert_int_equal(run_for(bytes, pack(bytes, &cases[i].node), sentence, &out), VERDICT_PASS);
        if (out.on_device != cases[i].on_device)
            fail_msg("%s counts %zu times", cases[i].node.op, out.on_device);
    }
}

/* Ops that divide by a dimension, need one number or have a limit end with a sentence for invalid inputs. */
static void test_invalid_onnx_node_is_rejected(void **state) {
    (void)state;
    static const struct {
        small node;
        verdict verdict;
        const char *part;
    } cases[] = {
        {{"TopK", {"z", "k"}, "axis", -1, 0, {0}}, VERDICT_UNSUPPORTED, "no elements for TopK"},
        {{"GroupNormalization", {"z", "g", "g"}, "num_groups", 2, 0, {0}}, VERDICT_UNSUPPORTED, "no elements"},
        {{"InstanceNormalization", {"z", "g", "g"}, NULL, 0, 0, {0}}, VERDICT_UNSUPPORTED, "no elements"},
        {{"TensorScatter", {"z", "z"}, "axis", 1, 0, {0}}, VERDICT_UNSUPPORTED, "no elements"},
        {{"SoftmaxCrossEntropyLoss", {"z", "l"}, NULL, 0, 0, {0}}, VERDICT_UNSUPPORTED, "no elements"},
        {{"Dropout", {"x", "s", "true"}, NULL, 0, 0, {0}}, VERDICT_FAIL, "a ratio of 8 elements"},
        {{"Dropout", {"x", "f", "b"}, NULL, 0, 0, {0}}, VERDICT_FAIL, "a training_mode of several elements"},
        {{"Dropout", {"x", "h", "true"}, NULL, 0, 0, {0}}, VERDICT_UNSUPPORTED, "at rate 3"},
        {{"Clip", {"x", "s"}, NULL, 0, 0, {0}}, VERDICT_FAIL, "a bound of 8 elements"},
        {{"Constant", {NULL}, "value_ints", MOST_INTS, 0, {0}}, VERDICT_UNSUPPORTED, "70 numbers"},
        {{"Range", {"w", "d", "p"}, NULL, 0, 0, {0}}, VERDICT_UNSUPPORTED, "Range of 5.36871e+08 elements"},
        {{"Range", {"w", "d", "n"}, NULL, 0, 0, {0}}, VERDICT_FAIL, "in steps of 0"},
        {{"Range", {"b", "d", "n"}, NULL, 0, 0, {0}}, VERDICT_FAIL, "its three numbers"},
        {{"Cast", {"inf"}, "to", ONNX_INT64, 0, {0}}, VERDICT_UNSUPPORTED, "inf as INT64"},
        {{"OneHot", {"l", "k", "s"}, NULL, 0, 0, {0}}, VERDICT_FAIL, "values that are not two"},
        {{"Pad", {"v", "t"}, NULL, 0, 0, {0}}, VERDICT_FAIL, "other pads than two for each"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        uint8_t bytes[MOST_BYTES];
        char sentence[512] = "";
        assert_int_equal(run(bytes, pack(bytes, &cases[i].node), sentence), cases[i].verdict);
        if (!strstr(sentence, cases[i].part))
            fail_msg("\"%s\" does not say \"%s\"", sentence, cases[i].part);
    }
}

static void test_unknown_onnx_op_is_unsupported(void **state) {
    (void)state;
    uint8_t bytes[MOST_BYTES];
    char sentence[512];
    assert_int_equal(run(bytes, pack(bytes, &(small){"Fold", {"x"}, NULL, 0, 0, {0}}), sentence), VERDICT_UNSUPPORTED);
    assert_string_equal(sentence, "op Fold");
    assert_int_equal(run(bytes, pack(bytes, &(small){"Softmax", {"x"}, "axes", 0, 0, {0}}), sentence),
                     VERDICT_UNSUPPORTED);
    assert_string_equal(sentence, "attribute axes of Softmax");
    assert_int_equal(run(bytes, pack(bytes, &(small){"Softmax", {"none"}, NULL, 0, 0, {0}}), sentence), VERDICT_FAIL);
    assert_int_equal(run(bytes, pack(bytes, &(small){"Softmax", {"x"}, "axis", 3, 0, {0}}), sentence), VERDICT_FAIL);
    assert_int_equal(run(bytes, pack(bytes, &(small){"Softmax", {"i"}, NULL, 0, 0, {0}}), sentence),
                     VERDICT_UNSUPPORTED);
    assert_non_null(strstr(sentence, "INT64"));
}

static void refuse_tensor(Onnx__TensorProto *proto, const char *part) {
    uint8_t bytes[256];
    char why[256] = "";
    onnx_tensor tensor;
    assert_true(onnx__tensor_proto__get_packed_size(proto) <= sizeof(bytes));
    assert_false(onnx_tensor_parse(&tensor, bytes, onnx__tensor_proto__pack(proto, bytes), why, sizeof(why)));
    assert_null(tensor.data);
    if (!strstr(why, part))
        fail_msg("\"%s\" does not say \"%s\"", why, part);
}

static void test_invalid_onnx_tensor_is_rejected(void **state) {
    (void)state;
    int64_t dims[16] = {2, 3};
    uint8_t raw[24] = {0};
    Onnx__TensorProto proto = ONNX__TENSOR_PROTO__INIT;
    proto.n_dims = 2;
    proto.dims = dims;
    proto.has_data_type = proto.has_raw_data = true;
    proto.data_type = ONNX_FLOAT;
    proto.raw_data = (ProtobufCBinaryData){23, raw};
    refuse_tensor(&proto, "6 elements has 23 bytes");
    dims[0] = INT64_MAX;
    refuse_tensor(&proto, "dimension of");
    dims[0] = -2;
    refuse_tensor(&proto, "dimension of -2");
    proto.n_dims = 16;
    refuse_tensor(&proto, "16 dimensions");
    proto.n_dims = 2;
    dims[0] = 1000000;
    proto.has_raw_data = false;
    refuse_tensor(&proto, "does not hold them");
    proto.data_type = 77;
    refuse_tensor(&proto, "type 77");
    char why[64];
    onnx_tensor tensor;
    assert_false(onnx_tensor_parse(&tensor, "\xff\xff\xff", 3, why, sizeof(why)));
}

static void test_result_comparison_finds_every_difference(void **state) {
    (void)state;
    size_t where;
    const double want[] = {1, -1, INFINITY, NAN}, off[] = {1, -1.5, INFINITY, NAN}, odd[] = {1, -1, -INFINITY, NAN};
    assert_true(compare(want, want, 4, false, &where) == 0);
    assert_true(compare(off, want, 4, false, &where) == 0.5 && where == 1);
    assert_true(isinf(compare(odd, want, 4, false, &where)) && where == 2);
    assert_true(isinf(compare((double[]){NAN}, (double[]){1}, 1, false, &where)));
    assert_true(isinf(compare((double[]){1}, (double[]){NAN}, 1, false, &where)));
    assert_true(isinf(compare((double[]){2}, (double[]){3}, 1, true, &where)));
    assert_true(onnx_half(0x3555) == 1365.0 / 4096 && onnx_half(0x8001) == -ldexp(1, -24) && isinf(onnx_half(0x7c00)));
    assert_true(isnan(onnx_half(0x7e00)) && onnx_bfloat(0xc0a0) == -5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_result_comparison_finds_every_difference),
        cmocka_unit_test(test_invalid_onnx_tensor_is_rejected),
        cmocka_unit_test(test_undamaged_onnx_nodes_pass),
        cmocka_unit_test(test_unknown_onnx_op_is_unsupported),
        cmocka_unit_test(test_nodes_without_library_work_are_not_counted),
        cmocka_unit_test(test_invalid_onnx_node_is_rejected),
        cmocka_unit_test(test_damaged_onnx_model_fails_with_a_message),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
