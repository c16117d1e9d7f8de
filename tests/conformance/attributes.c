/* Attributes of a node. An attribute of the wrong type is treated as absent. */
#include <string.h>
#include "graph.h"

enum { KIND_FLOAT = 1, KIND_INT = 2, KIND_STRING = 3, KIND_TENSOR = 4, KIND_INTS = 7 };

static const Onnx__AttributeProto *find(const node *n, const char *name) {
    for (size_t i = 0; i < n->proto->n_attribute; i++) {
        const Onnx__AttributeProto *attribute = n->proto->attribute[i];
        if (attribute->name && strcmp(attribute->name, name) == 0)
            return attribute;
    }
    return NULL;
}

bool node_attribute(const node *n, const char *name) {
    return find(n, name) != NULL;
}

int64_t node_int(const node *n, const char *name, int64_t otherwise) {
    const Onnx__AttributeProto *attribute = find(n, name);
    return attribute && attribute->type == KIND_INT ? attribute->i : otherwise;
}

float node_float(const node *n, const char *name, float otherwise) {
    const Onnx__AttributeProto *attribute = find(n, name);
    return attribute && attribute->type == KIND_FLOAT ? attribute->f : otherwise;
}

bool node_text(const node *n, const char *name, const char *otherwise, const char *equals) {
    const Onnx__AttributeProto *attribute = find(n, name);
    if (!attribute || attribute->type != KIND_STRING || !attribute->has_s)
        return strcmp(otherwise, equals) == 0;
    return attribute->s.len == strlen(equals) && memcmp(attribute->s.data, equals, attribute->s.len) == 0;
}

size_t node_list(node *n, const char *name, int64_t *out, size_t most) {
    const Onnx__AttributeProto *attribute = find(n, name);
    if (!attribute || attribute->type != KIND_INTS)
        return 0;
    if (attribute->n_ints > most) {
        NODE_UNSUPPORTED(n, "%zu numbers in attribute %s", attribute->n_ints, name);
        return 0;
    }
    for (size_t i = 0; i < attribute->n_ints; i++)
        out[i] = attribute->ints[i];
    return attribute->n_ints;
}

const Onnx__TensorProto *node_tensor(const node *n, const char *name) {
    const Onnx__AttributeProto *attribute = find(n, name);
    return attribute && attribute->type == KIND_TENSOR ? attribute->t : NULL;
}
