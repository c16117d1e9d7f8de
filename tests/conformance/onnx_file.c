#include "onnx_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    size_t size;
} types[] = {
    [ONNX_FLOAT] = {"FLOAT", 4},
    [ONNX_UINT8] = {"UINT8", 1},
    [3] = {"INT8", 0},
    [4] = {"UINT16", 0},
    [5] = {"INT16", 0},
    [ONNX_INT32] = {"INT32", 4},
    [ONNX_INT64] = {"INT64", 8},
    [8] = {"STRING", 0},
    [ONNX_BOOL] = {"BOOL", 1},
    [ONNX_DOUBLE] = {"DOUBLE", 8},
    [ONNX_FLOAT16] = {"FLOAT16", 2},
    [12] = {"UINT32", 0},
    [13] = {"UINT64", 0},
    [14] = {"COMPLEX64", 0},
    [15] = {"COMPLEX128", 0},
    [ONNX_BFLOAT16] = {"BFLOAT16", 2},
    [17] = {"FLOAT8E4M3FN", 0},
    [18] = {"FLOAT8E4M3FNUZ", 0},
    [19] = {"FLOAT8E5M2", 0},
    [20] = {"FLOAT8E5M2FNUZ", 0},
    [21] = {"UINT4", 0},
    [22] = {"INT4", 0},
    [23] = {"FLOAT4E2M1", 0},
    [24] = {"FLOAT8E8M0", 0},
    [25] = {"UINT2", 0},
    [26] = {"INT2", 0},
};

static bool known(int type) {
    return type > 0 && (size_t)type < sizeof(types) / sizeof(*types) && types[type].name;
}

const char *onnx_type_name(int type) {
    static char text[32];
    if (known(type))
        return types[type].name;
    snprintf(text, sizeof(text), "type %d", type);
    return text;
}

size_t onnx_type_size(int type) {
    return known(type) ? types[type].size : 0;
}

void *onnx_file_read(const char *path, size_t *size, char *why, size_t why_size) {
    FILE *file = fopen(path, "rb");
    long length = -1;
    if (file && fseek(file, 0, SEEK_END) == 0)
        length = ftell(file);
    void *bytes = length >= 0 && length < INT32_MAX ? malloc((size_t)length + 1) : NULL;
    if (bytes && (fseek(file, 0, SEEK_SET) != 0 || fread(bytes, 1, (size_t)length, file) != (size_t)length)) {
        free(bytes);
        bytes = NULL;
    }
    if (file)
        fclose(file);
    if (!bytes)
        snprintf(why, why_size, "%s cannot be read", path);
    *size = bytes ? (size_t)length : 0;
    return bytes;
}

Onnx__ModelProto *onnx_model_parse(const void *bytes, size_t size, char *why, size_t why_size) {
    Onnx__ModelProto *model = onnx__model_proto__unpack(NULL, size, bytes);
    if (model && model->graph)
        return model;
    onnx_model_free(model);
    snprintf(why, why_size, "this is no ONNX model, or it is damaged");
    return NULL;
}

void onnx_model_free(Onnx__ModelProto *model) {
    if (model)
        onnx__model_proto__free_unpacked(model, NULL);
}

/* Without raw_data, elements are in the typed array; narrow types have one element per int32. */
static bool from_arrays(onnx_tensor *out, const Onnx__TensorProto *proto) {
    const size_t n = out->count;
    if (n == 0)
        return true;
    switch (out->type) {
    case ONNX_FLOAT:
        if (proto->n_float_data == n)
            memcpy(out->data, proto->float_data, n * sizeof(float));
        return proto->n_float_data == n;
    case ONNX_DOUBLE:
        if (proto->n_double_data == n)
            memcpy(out->data, proto->double_data, n * sizeof(double));
        return proto->n_double_data == n;
    case ONNX_INT64:
        if (proto->n_int64_data == n)
            memcpy(out->data, proto->int64_data, n * sizeof(int64_t));
        return proto->n_int64_data == n;
    default:
        if (proto->n_int32_data != n)
            return false;
        for (size_t i = 0; i < n; i++) {
            const int32_t number = proto->int32_data[i];
            if (onnx_type_size(out->type) == 4)
                ((int32_t *)out->data)[i] = number;
            else if (onnx_type_size(out->type) == 2)
                ((uint16_t *)out->data)[i] = (uint16_t)number;
            else
                ((uint8_t *)out->data)[i] = (uint8_t)number;
        }
        return true;
    }
}

static bool big_endian(void) {
    const uint16_t one = 1;
    return *(const uint8_t *)&one == 0;
}

/* raw_data is little-endian. */
static void from_raw(onnx_tensor *out, const uint8_t *raw, size_t size) {
    uint8_t *data = out->data;
    for (size_t i = 0; i < out->count; i++)
        for (size_t b = 0; b < size; b++)
            data[i * size + (big_endian() ? size - 1 - b : b)] = raw[i * size + b];
}

bool onnx_tensor_from(onnx_tensor *out, const Onnx__TensorProto *proto, char *why, size_t why_size) {
    *out = (onnx_tensor){.type = proto->data_type, .count = 1};
    if (!known(out->type)) {
        snprintf(why, why_size, "a tensor has %s", onnx_type_name(out->type));
        return false;
    }
    if (proto->n_dims > ONNX_MAX_RANK) {
        snprintf(why, why_size, "a tensor has %zu dimensions", proto->n_dims);
        return false;
    }
    if (proto->data_location != 0) {
        snprintf(why, why_size, "a tensor's elements lie in another file");
        return false;
    }
    for (size_t i = 0; i < proto->n_dims; i++) {
        const int64_t dim = proto->dims[i];
        if (dim < 0 || (dim > 0 && out->count > (size_t)INT32_MAX / (size_t)dim)) {
            snprintf(why, why_size, "a tensor has a dimension of %lld", (long long)dim);
            return false;
        }
        out->count *= (size_t)dim;
        out->dims[out->rank++] = dim;
    }
    const size_t size = onnx_type_size(out->type);
    if (size == 0)
        return true;
    if (proto->has_raw_data && proto->raw_data.len != out->count * size) {
        snprintf(why, why_size, "a tensor of %zu elements has %zu bytes", out->count, proto->raw_data.len);
        return false;
    }
    /* Check the size before allocating: a damaged file must not cause a huge allocation. */
    if (!proto->has_raw_data && proto->n_float_data != out->count && proto->n_double_data != out->count &&
        proto->n_int64_data != out->count && proto->n_int32_data != out->count) {
        snprintf(why, why_size, "a tensor of %zu elements does not hold them", out->count);
        return false;
    }
    out->data = calloc(out->count + 1, size);
    if (out->data && proto->has_raw_data)
        from_raw(out, proto->raw_data.data, size);
    else if (!out->data || !from_arrays(out, proto)) {
        onnx_tensor_free(out);
        snprintf(why, why_size, "a tensor does not hold its elements");
        return false;
    }
    return true;
}

bool onnx_tensor_parse(onnx_tensor *out, const void *bytes, size_t size, char *why, size_t why_size) {
    *out = (onnx_tensor){0};
    Onnx__TensorProto *proto = onnx__tensor_proto__unpack(NULL, size, bytes);
    if (!proto) {
        snprintf(why, why_size, "this is no ONNX tensor, or it is damaged");
        return false;
    }
    const bool whole = onnx_tensor_from(out, proto, why, why_size);
    onnx__tensor_proto__free_unpacked(proto, NULL);
    return whole;
}

void onnx_tensor_free(onnx_tensor *tensor) {
    free(tensor->data);
    *tensor = (onnx_tensor){0};
}

double onnx_half(uint16_t bits) {
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const double magnitude = exponent == 31 ? (mantissa ? NAN : INFINITY)
                             : exponent     ? ldexp(1024 + mantissa, exponent - 25)
                                            : ldexp(mantissa, -24);
    return bits & 0x8000 ? -magnitude : magnitude;
}

double onnx_bfloat(uint16_t bits) {
    const uint32_t wide = (uint32_t)bits << 16;
    float number;
    memcpy(&number, &wide, sizeof(number));
    return number;
}

double onnx_tensor_number(const onnx_tensor *tensor, size_t i) {
    switch (tensor->type) {
    case ONNX_FLOAT:
        return ((const float *)tensor->data)[i];
    case ONNX_DOUBLE:
        return ((const double *)tensor->data)[i];
    case ONNX_INT32:
        return ((const int32_t *)tensor->data)[i];
    case ONNX_INT64:
        return (double)((const int64_t *)tensor->data)[i];
    case ONNX_FLOAT16:
        return onnx_half(((const uint16_t *)tensor->data)[i]);
    case ONNX_BFLOAT16:
        return onnx_bfloat(((const uint16_t *)tensor->data)[i]);
    default:
        return ((const uint8_t *)tensor->data)[i];
    }
}
