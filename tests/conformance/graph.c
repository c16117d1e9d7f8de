#include "graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void graph_end(graph *g, verdict v, const char *format, ...) {
    if (g->verdict != VERDICT_PASS)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(g->sentence, sizeof(g->sentence), format, arguments);
    va_end(arguments);
    g->verdict = v;
}

static int64_t opset_of(const Onnx__ModelProto *model) {
    for (size_t i = 0; i < model->n_opset_import; i++) {
        const char *domain = model->opset_import[i]->domain;
        if (!domain || !*domain || strcmp(domain, "ai.onnx") == 0)
            return model->opset_import[i]->version;
    }
    return 1;
}

void graph_init(graph *g, tfm_context *ctx, const Onnx__ModelProto *model) {
    *g = (graph){.ctx = ctx, .model = model, .opset = opset_of(model)};
}

void graph_free(graph *g) {
    for (size_t i = 0; i < g->count; i++)
        onnx_tensor_free(&g->values[i].host);
    free(g->values);
    *g = (graph){0};
}

static graph_value *add_value(graph *g, const char *name) {
    if (g->count == g->capacity) {
        const size_t capacity = g->capacity ? 2 * g->capacity : 16;
        graph_value *values = realloc(g->values, capacity * sizeof(*values));
        if (!values) {
            graph_end(g, VERDICT_FAIL, "no memory for %zu values", capacity);
            return NULL;
        }
        g->values = values;
        g->capacity = capacity;
    }
    g->values[g->count] = (graph_value){.name = name};
    return &g->values[g->count++];
}

void graph_give(graph *g, const char *name, onnx_tensor *tensor) {
    graph_value *value = add_value(g, name);
    if (!value) {
        onnx_tensor_free(tensor);
        return;
    }
    value->type = tensor->type;
    value->scalar = tensor->rank == 0;
    value->host = *tensor;
    *tensor = (onnx_tensor){0};
}

/* The last value of a name: a damaged graph may have duplicates. */
static graph_value *lookup(const graph *g, const char *name) {
    for (size_t i = g->count; name && i-- > 0;)
        if (g->values[i].name && strcmp(g->values[i].name, name) == 0)
            return &g->values[i];
    return NULL;
}

const graph_value *graph_find(const graph *g, const char *name) {
    return lookup(g, name);
}

double *graph_numbers(graph *g, const graph_value *value, size_t count) {
    double *out = malloc((count + 1) * sizeof(*out));
    uint8_t *bytes = malloc(4 * count + 1);
    if (!out || !bytes)
        graph_end(g, VERDICT_FAIL, "no memory for %zu numbers", count);
    else if (value->host.data)
        for (size_t i = 0; i < count; i++)
            out[i] = onnx_tensor_number(&value->host, i);
    else if (tfm_tensor_read(g->ctx, bytes, value->device) != TFM_OK)
        graph_end(g, VERDICT_FAIL, "%s", tfm_error_message());
    else
        for (size_t i = 0; i < count; i++)
            switch (value->device.dtype) {
            case TFM_F32:
                out[i] = ((const float *)(void *)bytes)[i];
                break;
            case TFM_F16:
                out[i] = onnx_half(((const uint16_t *)(void *)bytes)[i]);
                break;
            case TFM_BF16:
                out[i] = onnx_bfloat(((const uint16_t *)(void *)bytes)[i]);
                break;
            case TFM_I32:
                out[i] = ((const int32_t *)(void *)bytes)[i];
                break;
            default:
                out[i] = bytes[i];
            }
    free(bytes);
    return out;
}

static bool listed(const char *words, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = words; length && (at = strstr(at, word)); at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
            return true;
    return false;
}

/* Whether the first output differs from all inputs, so that the library made it, even if only by a reshape. */
static bool made(const graph *g, const Onnx__NodeProto *proto) {
    const graph_value *y = proto->n_output > 0 ? lookup(g, proto->output[0]) : NULL;
    for (size_t i = 0; y && i < proto->n_input; i++) {
        const graph_value *x = lookup(g, proto->input[i]);
        if (x && memcmp(&x->device, &y->device, sizeof(x->device)) == 0)
            return false;
    }
    return y && y->device.buffer;
}

static void run_node(graph *g, const Onnx__NodeProto *proto) {
    const char *name = proto->op_type ? proto->op_type : "";
    const op_entry *op = op_find(name);
    if (proto->domain && *proto->domain && strcmp(proto->domain, "ai.onnx") != 0)
        graph_end(g, VERDICT_UNSUPPORTED, "op %s of domain %s", name, proto->domain);
    else if (!op)
        graph_end(g, VERDICT_UNSUPPORTED, "op %s", name);
    for (size_t i = 0; op && i < proto->n_attribute; i++) {
        const char *attribute = proto->attribute[i]->name ? proto->attribute[i]->name : "";
        if (!listed(op->attributes, attribute))
            graph_end(g, VERDICT_UNSUPPORTED, "attribute %s of %s", attribute, name);
    }
    if (g->verdict != VERDICT_PASS)
        return;
    op->run(&(node){g, proto});
    g->on_device += !op->host && made(g, proto);
    if (tfm_context_status(g->ctx) == TFM_ERROR_UNSUPPORTED)
        graph_end(g, VERDICT_UNSUPPORTED, "%s", tfm_error_message());
    else if (tfm_context_status(g->ctx) != TFM_OK)
        graph_end(g, VERDICT_FAIL, "%s", tfm_error_message());
}

void graph_run(graph *g) {
    const Onnx__GraphProto *proto = g->model->graph;
    char why[256];
    for (size_t i = 0; i < proto->n_initializer && g->verdict == VERDICT_PASS; i++) {
        onnx_tensor tensor;
        if (lookup(g, proto->initializer[i]->name)) /* a given input overrides its default */
            continue;
        if (onnx_tensor_from(&tensor, proto->initializer[i], why, sizeof(why)))
            graph_give(g, proto->initializer[i]->name, &tensor);
        else
            graph_end(g, VERDICT_FAIL, "%s", why);
    }
    for (size_t i = 0; i < proto->n_node && g->verdict == VERDICT_PASS; i++)
        run_node(g, proto->node[i]);
}

bool node_ok(const node *n) {
    return n->graph->verdict == VERDICT_PASS && tfm_context_status(n->graph->ctx) == TFM_OK;
}

bool node_has(const node *n, size_t i) {
    return i < n->proto->n_input && n->proto->input[i][0];
}

bool node_wants(const node *n, size_t i) {
    return i < n->proto->n_output && n->proto->output[i][0];
}

static graph_value *input(const node *n, size_t i) {
    graph_value *value = node_has(n, i) ? lookup(n->graph, n->proto->input[i]) : NULL;
    if (!value)
        NODE_WRONG(n, "%s has no input %zu", n->proto->op_type, i);
    return value;
}

int node_type(const node *n, size_t i) {
    const graph_value *value = input(n, i);
    return value ? value->type : 0;
}

bool node_scalar(const node *n, size_t i) {
    const graph_value *value = input(n, i);
    return value && value->scalar;
}

int node_dims(const node *n, size_t i, int64_t *dims) {
    const graph_value *value = input(n, i);
    if (!value || value->scalar)
        return 0;
    const bool host = !value->device.buffer;
    const int rank = host ? value->host.rank : value->device.rank;
    memcpy(dims, host ? value->host.dims : value->device.dims, (size_t)rank * sizeof(*dims));
    return rank;
}

tfm_tensor node_upload(node *n, tfm_dtype dtype, int rank, const int64_t *dims, const void *host) {
    tfm_tensor x = {0};
    if (!node_ok(n) || tfm_tensor_new(n->graph->ctx, &x, dtype, rank, dims) != TFM_OK ||
        tfm_tensor_write(n->graph->ctx, x, host) != TFM_OK)
        return (tfm_tensor){0};
    return x;
}

/* INT64 to I32, because the library has no 64-bit integers. */
static tfm_tensor upload_wide(node *n, const graph_value *value, int rank, const int64_t *dims) {
    const int64_t *wide = value->host.data;
    int32_t *narrow = malloc((value->host.count + 1) * sizeof(*narrow));
    tfm_tensor x = {0};
    bool fits = narrow != NULL;
    for (size_t i = 0; fits && i < value->host.count; i++) {
        fits = wide[i] >= INT32_MIN && wide[i] <= INT32_MAX;
        narrow[i] = (int32_t)(fits ? wide[i] : 0);
    }
    if (fits)
        x = node_upload(n, TFM_I32, rank, dims, narrow);
    else
        NODE_UNSUPPORTED(n, "integers beyond 32 bits in %s", value->name);
    free(narrow);
    return x;
}

tfm_tensor node_input(node *n, size_t i) {
    static const struct {
        int type;
        tfm_dtype dtype;
    } held[] = {{ONNX_FLOAT, TFM_F32}, {ONNX_FLOAT16, TFM_F16}, {ONNX_BFLOAT16, TFM_BF16},
                {ONNX_INT32, TFM_I32}, {ONNX_BOOL, TFM_U8},     {ONNX_UINT8, TFM_U8}};
    graph_value *value = input(n, i);
    if (!value || !node_ok(n))
        return (tfm_tensor){0};
    if (value->device.buffer)
        return value->device;
    const int rank = value->scalar ? 1 : value->host.rank;
    const int64_t one = 1, *dims = value->scalar ? &one : value->host.dims;
    if (rank > TFM_MAX_RANK)
        NODE_UNSUPPORTED(n, "%d dimensions of %s", rank, value->name);
    else if (value->type == ONNX_INT64)
        value->device = upload_wide(n, value, rank, dims);
    else
        for (size_t t = 0; t < sizeof(held) / sizeof(*held); t++)
            if (held[t].type == value->type)
                value->device = node_upload(n, held[t].dtype, rank, dims, value->host.data);
    if (!value->device.buffer && tfm_context_status(n->graph->ctx) == TFM_OK)
        NODE_UNSUPPORTED(n, "%s for input %s of %s", onnx_type_name(value->type), value->name, n->proto->op_type);
    return value->device;
}

tfm_tensor node_floats(node *n, size_t i) {
    tfm_tensor x = node_input(n, i), y = {0};
    if (!node_ok(n))
        return y;
    if (x.dtype == TFM_F32)
        return x;
    if (x.dtype == TFM_F16 || x.dtype == TFM_BF16)
        tfm_cast(n->graph->ctx, &y, x, TFM_F32);
    else
        NODE_UNSUPPORTED(n, "%s for input %s of %s", onnx_type_name(node_type(n, i)), n->proto->input[i],
                         n->proto->op_type);
    return y;
}

size_t node_ints(node *n, size_t i, int64_t *out, size_t most) {
    const graph_value *value = input(n, i);
    if (!value || !node_ok(n))
        return 0;
    if (value->type != ONNX_INT64 && value->type != ONNX_INT32) {
        NODE_WRONG(n, "input %s of %s is %s", value->name, n->proto->op_type, onnx_type_name(value->type));
        return 0;
    }
    const size_t count = value->host.data ? value->host.count : tfm_tensor_count(value->device);
    if (count > most) {
        NODE_UNSUPPORTED(n, "%zu numbers in input %s of %s", count, value->name, n->proto->op_type);
        return 0;
    }
    if (value->host.data) {
        for (size_t k = 0; k < count; k++)
            out[k] = value->type == ONNX_INT64 ? ((const int64_t *)value->host.data)[k]
                                               : ((const int32_t *)value->host.data)[k];
        return count;
    }
    int32_t *narrow = malloc((count + 1) * sizeof(*narrow));
    if (!narrow || tfm_tensor_read(n->graph->ctx, narrow, value->device) != TFM_OK)
        NODE_WRONG(n, "%s cannot be read", value->name);
    for (size_t k = 0; node_ok(n) && k < count; k++)
        out[k] = narrow[k];
    free(narrow);
    return node_ok(n) ? count : 0;
}

void node_output(node *n, size_t i, tfm_tensor tensor, int type) {
    tfm_tensor narrow = {0};
    if (!node_wants(n, i) || !node_ok(n))
        return;
    if (tensor.dtype == TFM_F32 && (type == ONNX_FLOAT16 || type == ONNX_BFLOAT16)) {
        tfm_cast(n->graph->ctx, &narrow, tensor, type == ONNX_FLOAT16 ? TFM_F16 : TFM_BF16);
        tensor = narrow;
    }
    graph_value *value = node_ok(n) ? add_value(n->graph, n->proto->output[i]) : NULL;
    if (value) {
        value->device = tensor;
        value->type = type;
    }
}

void node_output_scalar(node *n, size_t i, tfm_tensor tensor, int type) {
    node_output(n, i, tensor, type);
    graph_value *value = node_wants(n, i) && node_ok(n) ? lookup(n->graph, n->proto->output[i]) : NULL;
    if (value)
        value->scalar = true;
}

void node_output_as(node *n, tfm_tensor tensor, int type, bool scalar) {
    if (scalar)
        node_output_scalar(n, 0, tensor, type);
    else
        node_output(n, 0, tensor, type);
}

bool node_filled(node *n, tfm_tensor x) {
    if (node_ok(n) && tfm_tensor_count(x) == 0)
        NODE_UNSUPPORTED(n, "no elements for %s", n->proto->op_type);
    return node_ok(n);
}

tfm_tensor node_reshape(node *n, tfm_tensor x, int rank, const int64_t *dims) {
    tfm_tensor y = {0};
    if (!node_ok(n))
        return y;
    if (rank > TFM_MAX_RANK)
        NODE_UNSUPPORTED(n, "%d dimensions in %s", rank, n->proto->op_type);
    else
        tfm_tensor_reshape(n->graph->ctx, &y, x, rank, dims);
    return y;
}

int node_axis(node *n, int64_t axis, int rank) {
    if (node_ok(n) && axis >= -(int64_t)rank && axis < rank)
        return (int)(axis < 0 ? axis + rank : axis);
    NODE_WRONG(n, "%s has axis %lld of %d", n->proto->op_type, (long long)axis, rank);
    return 0;
}
