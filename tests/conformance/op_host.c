/* Ops on the host: shapes as tensors, constants, ranges, casts from and to integers. A graph of such ops alone tests
 * only the runner, so it counts as unsupported. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "op_table.h"

enum { MOST = 1 << 24 }; /* elements; a damaged shape must not cause a huge allocation */

/* A number as an integer; narrower types keep its low bits, like an ONNX cast. */
static int64_t whole(node *n, double number, int type) {
    if (number > -9.2e18 && number < 9.2e18)
        return (int64_t)number;
    NODE_UNSUPPORTED(n, "%g as %s in %s", number, onnx_type_name(type), n->proto->op_type);
    return 0;
}

/* Sets output 0 to a host tensor of `numbers`. */
static void give(node *n, int type, int rank, const int64_t *dims, const double *numbers) {
    onnx_tensor t = {.type = type, .rank = rank, .count = 1};
    if (type != ONNX_FLOAT && type != ONNX_DOUBLE && type != ONNX_INT64 && type != ONNX_INT32 && type != ONNX_BOOL &&
        type != ONNX_UINT8)
        NODE_UNSUPPORTED(n, "%s of %s", n->proto->op_type, onnx_type_name(type));
    for (int i = 0; i < rank; i++) {
        t.dims[i] = dims[i];
        t.count *= (size_t)dims[i];
    }
    t.data = malloc(t.count * onnx_type_size(type) + 1);
    if (!t.data || !node_wants(n, 0))
        NODE_WRONG(n, "%s has no output, or no memory for it", n->proto->op_type);
    for (size_t i = 0; i < t.count && node_ok(n); i++)
        switch (type) {
        case ONNX_FLOAT:
            ((float *)t.data)[i] = (float)numbers[i];
            break;
        case ONNX_DOUBLE:
            ((double *)t.data)[i] = numbers[i];
            break;
        case ONNX_INT64:
            ((int64_t *)t.data)[i] = whole(n, numbers[i], type);
            break;
        case ONNX_INT32:
            ((int32_t *)t.data)[i] = (int32_t)whole(n, numbers[i], type);
            break;
        case ONNX_BOOL:
            ((uint8_t *)t.data)[i] = numbers[i] != 0;
            break;
        default:
            ((uint8_t *)t.data)[i] = (uint8_t)whole(n, numbers[i], type);
        }
    if (node_ok(n))
        graph_give(n->graph, n->proto->output[0], &t);
    onnx_tensor_free(&t);
}

void op_shape(node *n) {
    int64_t dims[ONNX_MAX_RANK];
    const int rank = node_dims(n, 0, dims);
    int64_t start = node_int(n, "start", 0), end = node_int(n, "end", rank);
    double numbers[ONNX_MAX_RANK] = {0};
    start = start < 0 ? start + rank : start;
    end = end < 0 ? end + rank : end;
    start = start < 0 ? 0 : start;
    end = end > rank ? rank : end;
    const int64_t count = end > start ? end - start : 0;
    for (int64_t i = 0; i < count; i++)
        numbers[i] = (double)dims[start + i];
    if (node_ok(n))
        give(n, ONNX_INT64, 1, &count, numbers);
}

void op_size(node *n) {
    int64_t dims[ONNX_MAX_RANK];
    double size = 1;
    for (int rank = node_dims(n, 0, dims), i = 0; i < rank; i++)
        size *= (double)dims[i];
    if (node_ok(n))
        give(n, ONNX_INT64, 0, NULL, &size);
}

void op_constant_of_shape(node *n) {
    const Onnx__TensorProto *proto = node_tensor(n, "value");
    int64_t dims[ONNX_MAX_RANK], count = 1;
    const int rank = (int)node_ints(n, 0, dims, ONNX_MAX_RANK);
    onnx_tensor value = {0};
    char why[256];
    if (proto && !onnx_tensor_from(&value, proto, why, sizeof(why)))
        NODE_WRONG(n, "ConstantOfShape: %s", why);
    else if (proto && !value.data)
        NODE_UNSUPPORTED(n, "ConstantOfShape of %s", onnx_type_name(value.type));
    for (int i = 0; i < rank; i++)
        count = dims[i] < 0 || dims[i] > MOST || count > MOST ? (int64_t)MOST + 1 : count * dims[i];
    if (count > MOST)
        NODE_UNSUPPORTED(n, "ConstantOfShape of an unsupported shape");
    double *numbers = node_ok(n) ? malloc(((size_t)count + 1) * sizeof(*numbers)) : NULL;
    for (int64_t i = 0; numbers && i < count; i++)
        numbers[i] = value.data && value.count ? onnx_tensor_number(&value, 0) : 0;
    if (numbers)
        give(n, proto ? value.type : ONNX_FLOAT, rank, dims, numbers);
    free(numbers);
    onnx_tensor_free(&value);
}

/* All elements of input i as doubles; free(). NULL on error. */
static double *numbers_of(node *n, size_t i, size_t *count) {
    const graph_value *value = node_has(n, i) ? graph_find(n->graph, n->proto->input[i]) : NULL;
    if (!value || !node_ok(n))
        return NULL;
    if (!value->host.data && !value->device.buffer) {
        NODE_UNSUPPORTED(n, "%s for input %s of %s", onnx_type_name(value->type), value->name, n->proto->op_type);
        return NULL;
    }
    *count = value->host.type ? value->host.count : tfm_tensor_count(value->device);
    double *numbers = graph_numbers(n->graph, value, *count);
    if (!node_ok(n)) {
        free(numbers);
        return NULL;
    }
    return numbers;
}

void op_range(node *n) {
    double bounds[3] = {0};
    for (size_t i = 0; i < 3; i++) {
        size_t count = 0;
        double *one = numbers_of(n, i, &count);
        if (!one || count != 1)
            NODE_WRONG(n, "Range without its three numbers");
        else
            bounds[i] = one[0];
        free(one);
    }
    const double steps = ceil((bounds[1] - bounds[0]) / bounds[2]);
    if (bounds[2] == 0 || isnan(steps))
        NODE_WRONG(n, "Range from %g to %g in steps of %g", bounds[0], bounds[1], bounds[2]);
    if (steps > MOST)
        NODE_UNSUPPORTED(n, "Range of %g elements", steps);
    const int64_t count = node_ok(n) && steps > 0 ? (int64_t)steps : 0;
    double *numbers = node_ok(n) ? malloc(((size_t)count + 1) * sizeof(*numbers)) : NULL;
    for (int64_t i = 0; numbers && i < count; i++)
        numbers[i] = bounds[0] + (double)i * bounds[2];
    if (numbers)
        give(n, node_type(n, 0), 1, &count, numbers);
    free(numbers);
}

/* Integers, as in Python: the remainder has the divisor's sign. */
void op_mod(node *n) {
    size_t count_a = 0, count_b = 0;
    double *a = numbers_of(n, 0, &count_a), *b = numbers_of(n, 1, &count_b);
    int64_t dims[ONNX_MAX_RANK];
    const int rank = node_dims(n, 0, dims);
    if (node_ok(n) && (count_b != 1 || node_int(n, "fmod", 0) != 0 || node_type(n, 0) != ONNX_INT64))
        NODE_UNSUPPORTED(n, "Mod other than of INT64 by one number");
    for (size_t i = 0; a && b && node_ok(n) && i < count_a; i++)
        a[i] = b[0] != 0 ? a[i] - b[0] * floor(a[i] / b[0]) : 0;
    if (a && b && node_ok(n))
        give(n, ONNX_INT64, rank, dims, a);
    free(a);
    free(b);
}

void part_cast_on_host(node *n, int type) {
    size_t count = 0;
    int64_t dims[ONNX_MAX_RANK];
    const int rank = node_dims(n, 0, dims);
    const bool half = type == ONNX_FLOAT16 || type == ONNX_BFLOAT16;
    if (onnx_type_size(type) == 0)
        NODE_UNSUPPORTED(n, "Cast to %s", onnx_type_name(type > 0 && type < 100 ? type : 0));
    double *numbers = numbers_of(n, 0, &count);
    if (numbers && !half)
        give(n, type, rank, dims, numbers);
    if (numbers && half) {
        float *floats = malloc((count + 1) * sizeof(*floats));
        for (size_t i = 0; floats && i < count; i++)
            floats[i] = (float)numbers[i];
        const int64_t one = 1;
        const tfm_tensor x = node_upload(n, TFM_F32, rank ? rank : 1, rank ? dims : &one, floats);
        if (rank)
            node_output(n, 0, x, type);
        else
            node_output_scalar(n, 0, x, type);
        free(floats);
    }
    free(numbers);
}
