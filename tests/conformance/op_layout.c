/* Ops that only move elements. Integers of 64 bits travel as those of 32, into which they were checked to
 * fit. */
#include <stdlib.h>
#include <string.h>
#include "op_table.h"

void op_identity(node *n) {
    tfm_tensor x = node_input(n, 0);
    if (!node_ok(n))
        return;
    if (node_scalar(n, 0))
        node_output_scalar(n, 0, x, node_type(n, 0));
    else
        node_output(n, 0, x, node_type(n, 0));
}

/* Outside training it changes nothing. */
void op_dropout(node *n) {
    if (node_wants(n, 1))
        NODE_UNSUPPORTED(n, "output mask of Dropout");
    if (node_has(n, 2))
        NODE_UNSUPPORTED(n, "input training_mode of Dropout");
    op_identity(n);
}

void op_constant(node *n) {
    const Onnx__TensorProto *proto = node_tensor(n, "value");
    onnx_tensor tensor = {0};
    char why[256];
    if (!proto)
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

/* One piece of x along an axis. */
static tfm_tensor piece(node *n, tfm_tensor x, int axis, int64_t start, int64_t length) {
    tfm_range ranges[TFM_MAX_RANK];
    tfm_tensor y = {0};
    for (int i = 0; i < x.rank; i++)
        ranges[i] = TFM_WHOLE;
    ranges[axis] = (tfm_range){start, start + length, 1};
    if (length <= 0)
        NODE_UNSUPPORTED(n, "no elements in an output of Split");
    else if (node_ok(n))
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
    if (count == 0 && outputs <= MOST) { /* equal pieces, the last may be shorter */
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

/* The numbers of Slice: inputs since opset 10, attributes before. */
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
        /* An end before the first element, of a walk backwards, is what INT64_MIN says to tfm_slice. */
        if (step < 0 && end < -size)
            end = INT64_MIN;
        const int64_t last = end == INT64_MIN ? -1 : end < 0 ? end + size : end > size ? size : end;
        start = start < 0 ? 0 : start > size ? size : start;
        if (step < 0 && start > size - 1)
            start = size - 1;
        if (step == 0 || (step > 0 ? last <= start : last >= start))
            NODE_UNSUPPORTED(n, "no elements in the output of Slice");
        ranges[axis] = (tfm_range){start, end, step};
    }
    if (node_ok(n) && tfm_slice(n->graph->ctx, &y, x, ranges) == TFM_OK)
        node_output(n, 0, y, node_type(n, 0));
}

/* ONNX counts negative indices from the end; tfm_gather_axis gives zeros there, so they are counted here. */
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
    if (rank == 0)
        node_output_scalar(n, 0, y, type);
    else
        node_output(n, 0, node_reshape(n, y, rank, dims), type);
}

/* Which row of the cache, with the update's rows behind it, each row of the result is. Rows are those of all
 * dims up to the axis; `place` has one start a batch, or none. */
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

/* Keys and values of a step into the cache of those before, each sequence of the batch at its own place. */
void op_tensor_scatter(node *n) {
    enum { MOST = 1024, MOST_ROWS = 1 << 24 };
    int64_t place[MOST] = {0};
    const tfm_tensor cache = node_input(n, 0), update = node_input(n, 1);
    const bool circular = node_text(n, "mode", "linear", "circular");
    if (!node_ok(n))
        return;
    const int axis = node_axis(n, node_int(n, "axis", -2), cache.rank);
    const size_t places = node_has(n, 2) ? node_ints(n, 2, place, MOST) : 0;
    if (node_ok(n) && (axis == 0 || update.rank != cache.rank || (places && places != (size_t)cache.dims[0])))
        NODE_WRONG(n, "TensorScatter on axis %d of %d dims, an update of %d dims, %zu places", axis,
                   cache.rank, update.rank, places);
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
    const int64_t rows = (int64_t)tfm_tensor_count(cache) / width,
                  added = (int64_t)tfm_tensor_count(update) / width;
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
