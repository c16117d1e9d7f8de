/* The conformance runner's own parts: damaged files and graphs that cannot be must end in a sentence, and
 * what is wrong must not pass. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "conformance/runner.h"
#include "harness.h"

enum { MOST_BYTES = 1024, INPUTS = 3 };

/* A node with its attribute, on some of the values below. */
typedef struct small {
    const char *op, *inputs[INPUTS], *attribute;
    int64_t value;
} small;

static const small nodes[] = {
    {"Softmax", {"x"}, "axis", 1},
    {"LayerNormalization", {"x", "s"}, "axis", -1},
    {"Attention", {"q", "q", "q"}, "is_causal", 1},
    {"Reshape", {"x", "i"}, "allowzero", 0},
    {"Gather", {"x", "i"}, "axis", 2},
    {"Slice", {"x", "o", "e"}, NULL, 0},
    {"TopK", {"x", "k"}, "axis", -1},
    {"Gemm", {"m", "m", "s"}, "transB", 1},
    {"MatMul", {"m", "s"}, NULL, 0},
    {"Unsqueeze", {"x", "k"}, NULL, 0},
    {"Squeeze", {"x"}, NULL, 0},
    {"Split", {"x"}, "axis", 2},
    {"Concat", {"x", "x"}, "axis", 1},
    {"Flatten", {"x"}, "axis", 2},
    {"Transpose", {"x"}, NULL, 0},
    {"Cast", {"x"}, "to", ONNX_FLOAT16},
    {"Mul", {"x", "s"}, NULL, 0},
    {"Expand", {"x", "t"}, NULL, 0},
    {"RMSNormalization", {"x", "s"}, "axis", 2},
    {"GroupNormalization", {"x", "g", "g"}, "num_groups", 2},
    {"RotaryEmbedding", {"x", "r", "r"}, "num_heads", 2},
    {"SwiGLU", {"x", "x"}, NULL, 0},
    {"TensorScatter", {"q", "u", "p"}, "axis", 2},
    {"SoftmaxCrossEntropyLoss", {"c", "l", "s"}, "ignore_index", 3},
    {"NegativeLogLikelihoodLoss", {"c", "l"}, NULL, 0},
};

/* The bytes of a model with this one node and a constant s (8). */
static size_t pack(uint8_t *out, const small *what) {
    Onnx__AttributeProto attribute = ONNX__ATTRIBUTE_PROTO__INIT, *attributes[] = {&attribute};
    Onnx__NodeProto only = ONNX__NODE_PROTO__INIT, *node_list[] = {&only};
    Onnx__TensorProto constant = ONNX__TENSOR_PROTO__INIT, *constants[] = {&constant};
    Onnx__GraphProto body = ONNX__GRAPH_PROTO__INIT;
    Onnx__OperatorSetIdProto opset = ONNX__OPERATOR_SET_ID_PROTO__INIT, *opsets[] = {&opset};
    Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
    int64_t dims[] = {8};
    float floats[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    char *inputs[INPUTS], *outputs[] = {"y"};
    for (size_t i = 0; i < INPUTS && what->inputs[i]; i++)
        inputs[only.n_input++] = (char *)(uintptr_t)what->inputs[i];
    attribute.name = (char *)(uintptr_t)what->attribute;
    attribute.has_type = attribute.has_i = true;
    attribute.type = 2;
    attribute.i = what->value;
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
/* What a graph is given; integers where those are named. */
static const struct {
    const char *name;
    int rank;
    int64_t dims[4], ints[4];
} values[] = {
    {"x", 3, {2, 4, 8}, {0}}, {"m", 2, {8, 8}, {0}},       {"q", 4, {1, 2, 4, 8}, {0}},
    {"r", 3, {2, 4, 2}, {0}}, {"g", 1, {4}, {0}},          {"i", 1, {2}, {4, -1}},
    {"o", 1, {2}, {0, 1}},    {"e", 1, {2}, {2, -1}},      {"t", 1, {3}, {2, 1, 8}},
    {"k", 1, {1}, {3}},       {"u", 4, {1, 2, 2, 8}, {0}}, {"p", 1, {1}, {2}},
    {"c", 2, {4, 8}, {0}},    {"l", 1, {4}, {0, 7, 3, 1}},
};

static void give(graph *g) {
    for (size_t v = 0; v < sizeof(values) / sizeof(*values); v++) {
        const bool ints = strchr("ioetkpl", values[v].name[0]) != NULL;
        const size_t size = ints ? sizeof(int64_t) : sizeof(float);
        onnx_tensor x = {.type = ints ? ONNX_INT64 : ONNX_FLOAT, .rank = values[v].rank, .count = 1};
        for (int d = 0; d < x.rank; d++)
            x.count *= (size_t)(x.dims[d] = values[v].dims[d]);
        x.data = malloc(x.count * size);
        assert_non_null(x.data);
        memcpy(x.data, ints ? (const void *)values[v].ints : numbers, x.count * size);
        graph_give(g, values[v].name, &x);
    }
}

/* Runs a model's bytes, if they are one, as the runner does. */
static verdict run(const uint8_t *bytes, size_t size, char *sentence) {
    tfm_context *ctx = harness_context();
    graph g;
    Onnx__ModelProto *model = onnx_model_parse(bytes, size, sentence, 512);
    if (!model)
        return VERDICT_FAIL;
    harness_ok(tfm_scope_open(ctx));
    graph_init(&g, ctx, model);
    give(&g);
    graph_run(&g);
    const verdict result = g.verdict;
    memcpy(sentence, g.sentence, sizeof(g.sentence));
    graph_free(&g);
    onnx_model_free(model);
    if (tfm_context_status(ctx) == TFM_OK)
        tfm_scope_close(ctx, 0, NULL);
    tfm_context_clear_error(ctx);
    return result;
}

/* Every length, and bits changed at every place. What still is a model runs, or says why not. */
static void test_damage(void **state) {
    (void)state;
    const size_t step = harness_slow() ? 29 : 1;
    harness_random random = {3};
    char sentence[512];
    for (size_t n = 0; n < sizeof(nodes) / sizeof(*nodes); n++) {
        uint8_t whole[MOST_BYTES], bytes[MOST_BYTES];
        const size_t size = pack(whole, &nodes[n]);
        for (size_t cut = n % step; cut < size; cut += step) {
            uint8_t *exact = malloc(cut + 1); /* so that a sanitizer sees a read behind the end */
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

/* Undamaged, each of them runs. */
static void test_whole(void **state) {
    (void)state;
    for (size_t n = 0; n < sizeof(nodes) / sizeof(*nodes); n++) {
        uint8_t bytes[MOST_BYTES];
        char sentence[512];
        if (run(bytes, pack(bytes, &nodes[n]), sentence) != VERDICT_PASS)
            fail_msg("%s: %s", nodes[n].op, sentence);
    }
}

static void test_unknown(void **state) {
    (void)state;
    uint8_t bytes[MOST_BYTES];
    char sentence[512];
    assert_int_equal(run(bytes, pack(bytes, &(small){"Fold", {"x"}, NULL, 0}), sentence),
                     VERDICT_UNSUPPORTED);
    assert_string_equal(sentence, "op Fold");
    assert_int_equal(run(bytes, pack(bytes, &(small){"Softmax", {"x"}, "axes", 0}), sentence),
                     VERDICT_UNSUPPORTED);
    assert_string_equal(sentence, "attribute axes of Softmax");
    assert_int_equal(run(bytes, pack(bytes, &(small){"Softmax", {"z"}, NULL, 0}), sentence), VERDICT_FAIL);
    assert_int_equal(run(bytes, pack(bytes, &(small){"Softmax", {"x"}, "axis", 3}), sentence), VERDICT_FAIL);
    assert_int_equal(run(bytes, pack(bytes, &(small){"Softmax", {"i"}, NULL, 0}), sentence),
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

static void test_tensors(void **state) {
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

static void test_compare(void **state) {
    (void)state;
    size_t where;
    const double want[] = {1, -1, INFINITY, NAN}, off[] = {1, -1.5, INFINITY, NAN},
                 odd[] = {1, -1, -INFINITY, NAN};
    assert_true(compare(want, want, 4, false, &where) == 0);
    assert_true(compare(off, want, 4, false, &where) == 0.5 && where == 1);
    assert_true(isinf(compare(odd, want, 4, false, &where)) && where == 2);
    assert_true(isinf(compare((double[]){NAN}, (double[]){1}, 1, false, &where)));
    assert_true(isinf(compare((double[]){1}, (double[]){NAN}, 1, false, &where)));
    assert_true(isinf(compare((double[]){2}, (double[]){3}, 1, true, &where)));
    assert_true(onnx_half(0x3555) == 1365.0 / 4096 && onnx_half(0x8001) == -ldexp(1, -24) &&
                isinf(onnx_half(0x7c00)));
    assert_true(isnan(onnx_half(0x7e00)) && onnx_bfloat(0xc0a0) == -5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compare), cmocka_unit_test(test_tensors), cmocka_unit_test(test_whole),
        cmocka_unit_test(test_unknown), cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
