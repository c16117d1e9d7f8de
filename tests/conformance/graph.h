/* Runs a model's graph node by node through the public API. An op function reads its node's inputs and attributes with
 * these calls and sets its outputs. Errors are sticky: after the first one, calls return empty tensors and the first
 * sentence stays, so a function needs one check, before it reads a tensor. */
#ifndef TFM_TESTS_GRAPH_H
#define TFM_TESTS_GRAPH_H

#include "onnx_file.h"
#include "tfm/tfm.h"

typedef enum verdict { VERDICT_PASS, VERDICT_FAIL, VERDICT_UNSUPPORTED } verdict;

/* A named value of the graph: on the host, on the device, or both. */
typedef struct graph_value {
    const char *name;
    int type;    /* ONNX element type */
    bool scalar; /* rank 0: dims are (1) here */
    onnx_tensor host;
    tfm_tensor device;
} graph_value;

typedef struct graph {
    tfm_context *ctx;
    const Onnx__ModelProto *model;
    int64_t opset;
    graph_value *values;
    size_t count, capacity;
    size_t on_device; /* number of nodes with outputs computed by the library */
    verdict verdict;
    char sentence[512];
} graph;

typedef struct node {
    graph *graph;
    const Onnx__NodeProto *proto;
} node;

/* An op's name, its known attributes, and its function. */
typedef struct op_entry {
    const char *name, *attributes; /* separated by spaces */
    void (*run)(node *n);
    bool host; /* computed by the runner without the library */
} op_entry;
/* NULL if the op has no function. */
const op_entry *op_find(const char *name);

/* `model` is borrowed. Always call graph_free. */
void graph_init(graph *g, tfm_context *ctx, const Onnx__ModelProto *model);
/* Takes ownership of the tensor's memory. */
void graph_give(graph *g, const char *name, onnx_tensor *tensor);
/* Runs all nodes; sets g->verdict. Tensors belong to the current scope. */
void graph_run(graph *g);
const graph_value *graph_find(const graph *g, const char *name);
void graph_free(graph *g);
/* All `count` elements of a value as doubles, from host or device; free(). NULL on error. */
double *graph_numbers(graph *g, const graph_value *value, size_t count);

/* Ends the graph with this verdict and sentence, unless it already has one. */
void graph_end(graph *g, verdict v, const char *format, ...) TFM_PRINTF(3, 4);
#define NODE_UNSUPPORTED(n, ...) graph_end((n)->graph, VERDICT_UNSUPPORTED, __VA_ARGS__)
#define NODE_WRONG(n, ...) graph_end((n)->graph, VERDICT_FAIL, __VA_ARGS__)
/* Whether there is no error so far. */
bool node_ok(const node *n);

/* Whether input or output i exists: neither omitted nor named "". */
bool node_has(const node *n, size_t i);
bool node_wants(const node *n, size_t i);
int node_type(const node *n, size_t i);    /* of input i */
bool node_scalar(const node *n, size_t i); /* whether input i has rank 0 */
tfm_tensor node_input(node *n, size_t i);  /* unconverted; INT64 as I32, BOOL as U8 */
tfm_tensor node_floats(node *n, size_t i); /* F16 and BF16 as F32; any other type is unsupported */
/* The dims of input i, on host or device; returns its rank, 0 for a scalar. */
int node_dims(const node *n, size_t i, int64_t *dims);
/* Integers of input i, at most `most`; returns their number. */
size_t node_ints(node *n, size_t i, int64_t *out, size_t most);

int64_t node_int(const node *n, const char *name, int64_t otherwise);
float node_float(const node *n, const char *name, float otherwise);
bool node_text(const node *n, const char *name, const char *otherwise, const char *equals);
bool node_attribute(const node *n, const char *name);
size_t node_list(node *n, const char *name, int64_t *out, size_t most);
const Onnx__TensorProto *node_tensor(const node *n, const char *name);

/* Sets output i. F32 is cast to `type` if that is a narrower float. An output without a name is dropped. */
void node_output(node *n, size_t i, tfm_tensor tensor, int type);
void node_output_scalar(node *n, size_t i, tfm_tensor tensor, int type);
/* Sets output 0 with node_output_scalar or node_output. */
void node_output_as(node *n, tfm_tensor tensor, int type, bool scalar);
/* Whether x has elements; ops that divide by a dimension do not support empty tensors. */
bool node_filled(node *n, tfm_tensor x);

/* Reshape: the same number of elements. */
tfm_tensor node_reshape(node *n, tfm_tensor x, int rank, const int64_t *dims);
/* A tensor of host numbers. */
tfm_tensor node_upload(node *n, tfm_dtype dtype, int rank, const int64_t *dims, const void *host);
/* A normalized axis, >= 0; an invalid one ends the graph and gives 0. */
int node_axis(node *n, int64_t axis, int rank);

#endif
