/* A model's graph run node by node through the public API. An op function reads its node's inputs and
 * attributes by these calls, and gives its outputs. They are sticky: after the first failure they return
 * empty tensors and the first sentence stands, so that a function checks once, before it looks at a tensor
 * itself. */
#ifndef TFM_TESTS_GRAPH_H
#define TFM_TESTS_GRAPH_H

#include "onnx_file.h"
#include "tfm/tfm.h"

typedef enum verdict { VERDICT_PASS, VERDICT_FAIL, VERDICT_UNSUPPORTED } verdict;

/* One name of the graph and what it stands for: on the host, on the device, or both. */
typedef struct graph_value {
    const char *name;
    int type;    /* ONNX's */
    bool scalar; /* of rank 0: dims are (1) here */
    onnx_tensor host;
    tfm_tensor device;
} graph_value;

typedef struct graph {
    tfm_context *ctx;
    const Onnx__ModelProto *model;
    int64_t opset;
    graph_value *values;
    size_t count, capacity;
    size_t on_device; /* nodes whose outputs the library made */
    verdict verdict;
    char sentence[512];
} graph;

typedef struct node {
    graph *graph;
    const Onnx__NodeProto *proto;
} node;

/* What an op is called, which attributes its function knows, and the function. */
typedef struct op_entry {
    const char *name, *attributes; /* words between spaces */
    void (*run)(node *n);
    bool host; /* the runner computes it itself, whatever the node says */
} op_entry;
/* NULL if no function of the public API is mapped to this op. */
const op_entry *op_find(const char *name);

/* `model` is borrowed. Ends with graph_free, whatever came between. */
void graph_init(graph *g, tfm_context *ctx, const Onnx__ModelProto *model);
/* Takes the tensor's memory. */
void graph_give(graph *g, const char *name, onnx_tensor *tensor);
/* Runs all nodes; the verdict is g->verdict. Tensors are made in the current scope. */
void graph_run(graph *g);
const graph_value *graph_find(const graph *g, const char *name);
void graph_free(graph *g);
/* All `count` elements of a value as numbers, from where they lie; free(). NULL where they cannot be had. */
double *graph_numbers(graph *g, const graph_value *value, size_t count);

/* Ends the graph with this verdict and sentence, unless it has one. */
void graph_end(graph *g, verdict v, const char *format, ...) TFM_PRINTF(3, 4);
#define NODE_UNSUPPORTED(n, ...) graph_end((n)->graph, VERDICT_UNSUPPORTED, __VA_ARGS__)
#define NODE_WRONG(n, ...) graph_end((n)->graph, VERDICT_FAIL, __VA_ARGS__)
/* Whether all went well so far. */
bool node_ok(const node *n);

/* Whether input or output i is there: neither left out nor named "". */
bool node_has(const node *n, size_t i);
bool node_wants(const node *n, size_t i);
int node_type(const node *n, size_t i);    /* of input i */
bool node_scalar(const node *n, size_t i); /* whether input i has rank 0 */
tfm_tensor node_input(node *n, size_t i);  /* as it is; INT64 as I32, BOOL as U8 */
tfm_tensor node_floats(node *n, size_t i); /* F16 and BF16 as F32; any other type is unsupported */
/* The dims of input i, wherever it lies; returns its rank, which is 0 for a scalar. */
int node_dims(const node *n, size_t i, int64_t *dims);
/* Integers of input i, at most `most`; returns how many. */
size_t node_ints(node *n, size_t i, int64_t *out, size_t most);

int64_t node_int(const node *n, const char *name, int64_t otherwise);
float node_float(const node *n, const char *name, float otherwise);
bool node_text(const node *n, const char *name, const char *otherwise, const char *equals);
bool node_attribute(const node *n, const char *name);
size_t node_list(node *n, const char *name, int64_t *out, size_t most);
const Onnx__TensorProto *node_tensor(const node *n, const char *name);

/* Output i. F32 is cast to `type` if that is a narrower float. An output that nobody names is dropped. */
void node_output(node *n, size_t i, tfm_tensor tensor, int type);
void node_output_scalar(node *n, size_t i, tfm_tensor tensor, int type);
/* Output 0 as one of these two. */
void node_output_as(node *n, tfm_tensor tensor, int type, bool scalar);
/* Whether x has elements; an op that divides by its dims is unsupported where it has none. */
bool node_filled(node *n, tfm_tensor x);

/* The same number of elements under other dims. */
tfm_tensor node_reshape(node *n, tfm_tensor x, int rank, const int64_t *dims);
/* A tensor of host numbers. */
tfm_tensor node_upload(node *n, tfm_dtype dtype, int rank, const int64_t *dims, const void *host);
/* The axis from 0 on; unfit ones end the graph and give 0. */
int node_axis(node *n, int64_t axis, int rank);

#endif
