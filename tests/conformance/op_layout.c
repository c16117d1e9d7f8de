/* Ops that only move elements. 64-bit integers are held as checked 32-bit ones. */
#include <stdlib.h>
#include <string.h>
#include "op_table.h"

void op_identity(node *n) {
    tfm_tensor x = node_input(n, 0);
    if (!node_ok(n))
        return;
    node_output_as(n, x, node_type(n, 0), node_scalar(n, 0));
}

/* The identity outside training. In training the random mask is the library's own, which no file can contain. */
void op_dropout(node *n) {
    const tfm_tensor x = node_floats(n, 0);
    tfm_dropout_options options = {0};
    tfm_tensor y = {0}, mask = {0};
    double *training = NULL;
    const graph_value *mode = node_has(n, 2) ? graph_find(n->graph, n->proto->input[2]) : NULL;
    int64_t dims[ONNX_MAX_RANK];
    for (int rank = mode ? node_dims(n, 2, dims) : 0; rank > 0; rank--)
        if (dims[rank - 1] != 1)
            NODE_WRONG(n, "Dropout has a training_mode of several elements, or of none");
    if (mode && node_ok(n))
        training = graph_numbers(n->graph, mode, 1);
    if (training && training[0] != 0)
        options.rate = 0.5f;
    if (training && training[0] != 0 && node_has(n, 1)) {
        const tfm_tensor ratio = node_floats(n, 1);
        if (node_ok(n) && tfm_tensor_count(ratio) != 1)
            NODE_WRONG(n, "Dropout has a ratio of %zu elements", tfm_tensor_count(ratio));
        if (node_ok(n))
            tfm_tensor_read(n->graph->ctx, &options.rate, ratio);
    }
    free(training);
    if (options.rate != 0)
        NODE_UNSUPPORTED(n, "Dropout in training at rate %g, which uses another random generator",
                         (double)options.rate);
    if (!node_ok(n))
        return;
    tfm_dropout_masked(n->graph->ctx, &y, node_wants(n, 1) ? &mask : NULL, x, &options);
    node_output_as(n, y, node_type(n, 0), node_scalar(n, 0));
    if (node_scalar(n, 0))
        node_output_scalar(n, 1, mask, ONNX_BOOL);
    else
        node_output(n, 1, mask, ONNX_BOOL);
}

/* Constants given as numbers instead of a tensor. */
static bool constant_numbers(node *n, onnx_tensor *t) {
    static const struct {
        const char *name;
        bool list;
    } forms[] = {{"value_int", false}, {"value_ints", true}, {"value_float", false}, {"value_floats", true}};
    for (size_t f = 0; f < 4; f++) {
        if (!node_attribute(n, forms[f].name))
            continue;
        int64_t ints[64] = {node_int(n, forms[f].name, 0)};
        const bool whole = f < 2;
        if (f == 3)
            NODE_UNSUPPORTED(n, "attribute value_floats of Constant");
        const size_t count = f == 1 ? node_list(n, forms[f].name, ints, 64) : 1;
        if (!node_ok(n))
            return false;
        *t = (onnx_tensor){
            .type = whole ? ONNX_INT64 : ONNX_FLOAT, .rank = forms[f].list, .dims = {(int64_t)count}, .count = count};
        t->data = calloc(count + 1, 8);
        if (t->data && whole)
            memcpy(t->data, ints, count * sizeof(*ints));
        else if (t->data)
            *(float *)t->data = node_float(n, forms[f].name, 0);
        return t->data != NULL;
    }
    return false;
}

void op_constant(node *n) {
    const Onnx__TensorProto *proto = node_tensor(n, "value");
    onnx_tensor tensor = {0};
    char why[256];
    if (!proto && node_wants(n, 0) && constant_numbers(n, &tensor))
        graph_give(n->graph, n->proto->output[0], &tensor);
    else if (!proto)
        NODE_UNSUPPORTED(n, "Constant without a tensor");
    else if (!node_wants(n, 0))
        NODE_WRONG(n, "Constant without an output");
    else if (!onnx_tensor_from(&tensor, proto, why, sizeof(why)))
        NODE_WRONG(n, "Constant: %s", why);
    else
        graph_give(n->graph, n->proto->output[0], &tensor);
}

void op_transpose(node *n) {
    tfm_tensor x = node_input(n, 0), y = {0};
    int64_t given[TFM_MAX_RANK];
    int axes[TFM_MAX_RANK];
    const size_t count = node_list(n, "perm", given, TFM_MAX_RANK);
    if (!node_ok(n))
        return;
    if (node_attribute(n, "perm") && count != (size_t)x.rank)
        NODE_WRONG(n, "Transpose of %d dimensions with %zu in perm", x.rank, count);
    for (int i = 0; i < x.rank && node_ok(n); i++)
        axes[i] = count ? node_axis(n, given[i], x.rank) : x.rank - 1 - i;
    if (node_ok(n) && tfm_permute(n->graph->ctx, &y, x, axes) == TFM_OK)
        node_output(n, 0, y, node_type(n, 0));
}

void op_concat(node *n) {
    enum { MOST = 64 };
    tfm_tensor inputs[MOST], y = {0};
    const size_t count = n->proto->n_input;
    if (count > MOST)
        NODE_UNSUPPORTED(n, "Concat of %zu inputs", count);
    for (size_t i = 0; i < count && node_ok(n); i++)
        inputs[i] = node_input(n, i);
    if (!node_ok(n) || count == 0)
        return;
    const int axis = node_axis(n, node_int(n, "axis", 0), inputs[0].rank);
    if (node_ok(n) && tfm_concat(n->graph->ctx, &y, count, inputs, axis) == TFM_OK)
        node_output(n, 0, y, node_type(n, 0));
}

/* A slice of x along an axis. */
static tfm_tensor piece(node *n, tfm_tensor x, int axis, int64_t start, int64_t length) {
    tfm_range ranges[TFM_MAX_RANK];
    tfm_tensor y = {0};
    for (int i = 0; i < x.rank; i++)
        ranges[i] = TFM_WHOLE;
    ranges[axis] = (tfm_range){start, start + length, 1};
    if (node_ok(n))
        tfm_slice(n->graph->ctx, &y, x, ranges);
    return y;
}

void op_split(node *n) {
    enum { MOST = 64 };
    int64_t lengths[MOST], start = 0;
    tfm_tensor x = node_input(n, 0);
    const size_t outputs = n->proto->n_output;
    if (!node_ok(n) || outputs == 0)
        return;
    const int axis = node_axis(n, node_int(n, "axis", 0), x.rank);
    size_t count = node_has(n, 1) ? node_ints(n, 1, lengths, MOST) : node_list(n, "split", lengths, MOST);
    if (count == 0 && outputs <= MOST) { /* equal lengths, the last may be shorter */
        const int64_t each = (x.dims[axis] + (int64_t)outputs - 1) / (int64_t)outputs;
        for (; count < outputs; count++)
            lengths[count] = count + 1 < outputs ? each : x.dims[axis] - each * (int64_t)count;
    }
    if (node_ok(n) && count != outputs)
        NODE_WRONG(n, "Split into %zu lengths and %zu outputs", count, outputs);
    for (size_t i = 0; i < outputs && node_ok(n); i++) {
        if (lengths[i] > x.dims[axis] - start || lengths[i] < 0)
            NODE_WRONG(n, "Split beyond the dimension of %lld", (long long)x.dims[axis]);
        const tfm_tensor y = piece(n, x, axis, start, lengths[i]);
        node_output(n, i, y, node_type(n, 0));
        start += lengths[i];
    }
}

/* Integers of Slice: inputs since opset 10, attributes before. */
static size_t bounds(node *n, const char *name, size_t i, int64_t *out) {
    return node_has(n, i) ? node_ints(n, i, out, TFM_MAX_RANK) : node_list(n, name, out, TFM_MAX_RANK);
}

void op_slice(node *n) {
    tfm_tensor x = node_input(n, 0), y = {0};
    int64_t starts[TFM_MAX_RANK], ends[TFM_MAX_RANK], axes[TFM_MAX_RANK], steps[TFM_MAX_RANK];
    tfm_range ranges[TFM_MAX_RANK];
    const size_t count = bounds(n, "starts", 1, starts), named = bounds(n, "axes", 3, axes);
    if (!node_ok(n))
        return;
    if (bounds(n, "ends", 2, ends) != count || (named && named != count) || count > (size_t)x.rank ||
        (node_has(n, 4) && node_ints(n, 4, steps, TFM_MAX_RANK) != count))
        NODE_WRONG(n, "Slice with bounds of different numbers");
    for (int i = 0; i < x.rank; i++)
        ranges[i] = TFM_WHOLE;
    for (size_t i = 0; i < count && node_ok(n); i++) {
        const int axis = node_axis(n, named ? axes[i] : (int64_t)i, x.rank);
        const int64_t size = x.dims[axis], step = node_has(n, 4) ? steps[i] : 1;
        int64_t start = starts[i] < 0 ? starts[i] + size : starts[i], end = ends[i];
        /* INT64_MIN as end: tfm_slice stops before the first element when stepping backwards. */
        if (step < 0 && end < -size)
            end = INT64_MIN;
        start = start < 0 ? 0 : start > size ? size : start;
        if (step < 0 && start > size - 1)
            start = size - 1;
        if (step == 0)
            NODE_WRONG(n, "Slice with a step of 0");
        ranges[axis] = (tfm_range){start, end, step};
    }
    if (node_ok(n) && tfm_slice(n->graph->ctx, &y, x, ranges) == TFM_OK)
        node_output(n, 0, y, node_type(n, 0));
}

/* The fill value of Pad, as the bytes of an element of x. */
static void read_filler(node *n, tfm_tensor x, void *out) {
    const tfm_tensor filler = node_has(n, 2) ? node_input(n, 2) : x;
    memset(out, 0, 4);
    if (!node_has(n, 2) || !node_ok(n))
        return;
    if (tfm_tensor_count(filler) != 1 || filler.dtype != x.dtype)
        NODE_WRONG(n, "Pad has a constant_value of another type, or not of one element");
    else
        tfm_tensor_read(n->graph->ctx, out, filler);
}

/* Pads x along an axis with `before` and `after` elements, or crops it where they are negative. */
static tfm_tensor padded(node *n, tfm_tensor x, int axis, int64_t before, int64_t after, const void *filler) {
    enum { MOST_ELEMENTS = 1 << 24 };
    const int64_t cut = before < 0 ? -before : 0, size = node_ok(n) ? x.dims[axis] : 0;
    tfm_tensor parts[3], y = {0};
    if (node_ok(n) && (before < -size || after < -size || before + after < -size))
        NODE_WRONG(n, "Pad takes more than all of a dimension of %lld", (long long)size);
    if (node_ok(n) && (before < 0 || after < 0))
        x = piece(n, x, axis, cut, size - cut + (after < 0 ? after : 0));
    size_t count = 0;
    for (int end = 0; end < 2; end++) {
        tfm_tensor part = x;
        int64_t elements = end == 0 ? before : after;
        if (end == 1)
            parts[count++] = x;
        if (elements <= 0 || !node_ok(n))
            continue;
        part.dims[axis] = elements;
        for (int i = 0; i < x.rank; i++)
            elements = elements > MOST_ELEMENTS || i == axis ? elements : elements * x.dims[i];
        uint8_t *host = elements <= MOST_ELEMENTS ? malloc((size_t)elements * 4 + 1) : NULL;
        if (!host)
            NODE_UNSUPPORTED(n, "Pad by %lld elements", (long long)elements);
        const size_t bytes = tfm_dtype_size(x.dtype);
        for (int64_t i = 0; host && i < elements; i++)
            memcpy(host + (size_t)i * bytes, filler, bytes);
        parts[count++] = node_upload(n, x.dtype, x.rank, part.dims, host);
        free(host);
    }
    if (node_ok(n) && count == 1)
        return x;
    if (node_ok(n))
        tfm_concat(n->graph->ctx, &y, count, parts, axis);
    return y;
}

void op_pad(node *n) {
    int64_t pads[2 * TFM_MAX_RANK], axes[TFM_MAX_RANK];
    uint8_t filler[4];
    tfm_tensor x = node_input(n, 0);
    if (!node_text(n, "mode", "constant", "constant"))
        NODE_UNSUPPORTED(n, "attribute mode of Pad other than constant");
    read_filler(n, x, filler);
    const size_t count = node_has(n, 3) && node_ok(n) ? node_ints(n, 3, axes, TFM_MAX_RANK) : (size_t)x.rank;
    if (node_ok(n) && node_ints(n, 1, pads, 2 * TFM_MAX_RANK) != 2 * count)
        NODE_WRONG(n, "Pad of %zu dimensions has other pads than two for each", count);
    for (size_t i = 0; i < count && node_ok(n); i++)
        x = padded(n, x, node_has(n, 3) ? node_axis(n, axes[i], x.rank) : (int)i, pads[i], pads[count + i], filler);
    if (node_ok(n))
        node_output_as(n, x, node_type(n, 0), node_scalar(n, 0));
}

/* ONNX counts negative indices from the end; tfm_gather_axis returns zeros for them, so they are converted here. */
static tfm_tensor positive_indices(node *n, int64_t size) {
    tfm_tensor indices = node_input(n, 1), y = {0};
    if (!node_ok(n))
        return y;
    const size_t count = tfm_tensor_count(indices);
    int32_t *host = malloc(count * sizeof(*host));
    if (!host || indices.dtype != TFM_I32 || tfm_tensor_read(n->graph->ctx, host, indices) != TFM_OK)
        NODE_WRONG(n, "the indices of Gather cannot be read");
    for (size_t i = 0; node_ok(n) && i < count; i++) {
        host[i] = (int32_t)(host[i] < 0 ? host[i] + size : host[i]);
        if (host[i] < 0 || host[i] >= size)
            NODE_WRONG(n, "Gather has index %d of %lld", (int)host[i], (long long)size);
    }
    if (node_ok(n))
        y = node_upload(n, TFM_I32, indices.rank, indices.dims, host);
    free(host);
    return y;
}

void op_gather(node *n) {
    const int type = node_type(n, 0);
    const bool half = type == ONNX_FLOAT16 || type == ONNX_BFLOAT16;
    tfm_tensor x = half ? node_floats(n, 0) : node_input(n, 0), y = {0};
    if (!node_ok(n))
        return;
    const int axis = node_axis(n, node_int(n, "axis", 0), x.rank);
    const tfm_tensor indices = positive_indices(n, x.dims[axis]);
    if (node_ok(n) && tfm_dtype_size(x.dtype) != 4)
        NODE_UNSUPPORTED(n, "%s for input %s of Gather", onnx_type_name(type), n->proto->input[0]);
    if (node_ok(n) && x.rank + indices.rank - 1 > TFM_MAX_RANK)
        NODE_UNSUPPORTED(n, "%d dimensions in Gather", x.rank + indices.rank - 1);
    if (!node_ok(n) || tfm_gather_axis(n->graph->ctx, &y, x, indices, axis) != TFM_OK)
        return;
    if (!node_scalar(n, 1)) {
        node_output(n, 0, y, type);
        return;
    }
    int64_t dims[TFM_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < y.rank; i++)
        if (i != axis)
            dims[rank++] = y.dims[i];
    node_output_as(n, rank == 0 ? y : node_reshape(n, y, rank, dims), type, rank == 0);
}

/* For each row of the result, its row in the cache followed by the update. Rows are those of all dims before the axis;
 * `place` has one start per batch entry, or is NULL. */
static void scatter_rows(int32_t *from, tfm_tensor cache, int axis, int64_t length, const int64_t *place,
                         bool circular) {
    const int64_t room = cache.dims[axis];
    int64_t blocks = 1;
    for (int i = 0; i < axis; i++)
        blocks *= cache.dims[i];
    for (int64_t i = 0; i < blocks * room; i++)
        from[i] = (int32_t)i;
    for (int64_t b = 0; b < blocks; b++)
        for (int64_t i = 0; i < length; i++) {
            const int64_t at = (place ? place[b / (blocks / cache.dims[0])] : 0) + i;
            from[b * room + (circular ? at % room : at)] = (int32_t)(blocks * room + b * length + i);
        }
}

/* KV cache update: writes the update of each sequence at its own position. */
void op_tensor_scatter(node *n) {
    enum { MOST = 1024, MOST_ROWS = 1 << 24 };
    int64_t place[MOST] = {0};
    const tfm_tensor cache = node_input(n, 0), update = node_input(n, 1);
    const bool circular = node_text(n, "mode", "linear", "circular");
    if (!node_filled(n, cache))
        return;
    const int axis = node_axis(n, node_int(n, "axis", -2), cache.rank);
    const size_t places = node_has(n, 2) ? node_ints(n, 2, place, MOST) : 0;
    if (node_ok(n) && (axis == 0 || update.rank != cache.rank || (places && places != (size_t)cache.dims[0])))
        NODE_WRONG(n, "TensorScatter on axis %d of %d dims, an update of %d dims, %zu places", axis, cache.rank,
                   update.rank, places);
    for (int i = 0; node_ok(n) && i < cache.rank; i++)
        if (update.dims[i] > cache.dims[i] || (i != axis && update.dims[i] != cache.dims[i]))
            NODE_WRONG(n, "TensorScatter of %lld in dimension %d into %lld", (long long)update.dims[i], i,
                       (long long)cache.dims[i]);
    for (size_t i = 0; node_ok(n) && i < places; i++)
        if (place[i] < 0 || place[i] > (circular ? INT32_MAX : cache.dims[axis] - update.dims[axis]))
            NODE_WRONG(n, "TensorScatter at %lld of %lld", (long long)place[i], (long long)cache.dims[axis]);
    if (!node_ok(n))
        return;
    int64_t width = 1;
    for (int i = axis + 1; i < cache.rank; i++)
        width *= cache.dims[i];
    const int64_t rows = (int64_t)tfm_tensor_count(cache) / width, added = (int64_t)tfm_tensor_count(update) / width;
    int32_t *from = rows <= MOST_ROWS ? malloc((size_t)rows * sizeof(*from)) : NULL;
    const tfm_tensor parts[] = {node_reshape(n, cache, 2, (int64_t[]){rows, width}),
                                node_reshape(n, update, 2, (int64_t[]){added, width})};
    tfm_tensor both = {0}, y = {0};
    if (!from)
        NODE_UNSUPPORTED(n, "TensorScatter of %lld rows", (long long)rows);
    else
        scatter_rows(from, cache, axis, update.dims[axis], places ? place : NULL, circular);
    const tfm_tensor indices = node_upload(n, TFM_I32, 1, &rows, from);
    free(from);
    if (node_ok(n) && tfm_concat(n->graph->ctx, &both, 2, parts, 0) == TFM_OK &&
        tfm_gather(n->graph->ctx, &y, both, indices) == TFM_OK)
        node_output(n, 0, node_reshape(n, y, cache.rank, cache.dims), node_type(n, 0));
}
