/* Sums of any number of inputs, and broadcasts. */
#include <stdlib.h>
#include <string.h>
#include "op_table.h"

enum { MOST_ELEMENTS = 1 << 24 }; /* a damaged shape must not cause a huge allocation */

tfm_tensor part_scaled(node *n, tfm_tensor x, float factor) {
    const tfm_tensor number = node_upload(n, TFM_F32, 1, (int64_t[]){1}, &factor);
    tfm_tensor y = {0};
    if (node_ok(n))
        tfm_mul(n->graph->ctx, &y, x, number);
    return y;
}

tfm_tensor part_spread(node *n, tfm_tensor x, int rank, const int64_t *dims) {
    int64_t count = 1;
    tfm_tensor y = {0};
    if (!node_ok(n) || (x.rank == rank && memcmp(x.dims, dims, (size_t)rank * sizeof(*dims)) == 0))
        return x;
    for (int i = 0; i < rank && count <= MOST_ELEMENTS; i++)
        count = dims[i] >= 0 && dims[i] <= MOST_ELEMENTS ? count * dims[i] : (int64_t)MOST_ELEMENTS + 1;
    if (count > MOST_ELEMENTS || rank > TFM_MAX_RANK) {
        NODE_UNSUPPORTED(n, "%d dimensions, or too many elements, in %s", rank, n->proto->op_type);
        return y;
    }
    uint8_t *host = calloc((size_t)count + 1, sizeof(*host));
    if (!host)
        NODE_WRONG(n, "no memory for %lld choices", (long long)count);
    const tfm_tensor choice = node_upload(n, TFM_U8, rank, dims, host);
    free(host);
    if (node_ok(n))
        tfm_where(n->graph->ctx, &y, choice, x, x);
    return y;
}

/* The broadcast dims of a and b. */
static int common(node *n, int64_t *dims, int rank_a, const int64_t *a, int rank_b, const int64_t *b) {
    const int rank = rank_a > rank_b ? rank_a : rank_b;
    for (int i = 0; i < rank; i++) {
        const int64_t of_a = i < rank - rank_a ? 1 : a[i - (rank - rank_a)],
                      of_b = i < rank - rank_b ? 1 : b[i - (rank - rank_b)];
        if (of_a != of_b && of_a != 1 && of_b != 1)
            NODE_WRONG(n, "%s of dimensions %lld and %lld", n->proto->op_type, (long long)of_a, (long long)of_b);
        dims[i] = of_a == 1 ? of_b : of_a;
    }
    return rank;
}

tfm_tensor part_product(node *n, tfm_tensor a, tfm_tensor b) {
    tfm_tensor y = {0};
    if (node_ok(n))
        tfm_mul(n->graph->ctx, &y, a, b);
    return y;
}

/* A result of all inputs; a scalar if all of them are. */
static void output_of_all(node *n, tfm_tensor y) {
    bool scalar = true;
    for (size_t i = 0; i < n->proto->n_input && node_ok(n); i++)
        scalar = scalar && node_scalar(n, i);
    if (node_ok(n))
        node_output_as(n, y, node_type(n, 0), scalar);
}

static tfm_tensor sum_of_inputs(node *n) {
    tfm_tensor y = node_floats(n, 0);
    for (size_t i = 1; i < n->proto->n_input && node_ok(n); i++) {
        tfm_tensor x = node_floats(n, i), sum = {0};
        if (node_ok(n))
            tfm_add(n->graph->ctx, &sum, y, x);
        y = sum;
    }
    return y;
}

void op_sum(node *n) {
    output_of_all(n, sum_of_inputs(n));
}

void op_mean(node *n) {
    const tfm_tensor sum = sum_of_inputs(n);
    output_of_all(n, part_scaled(n, sum, 1 / (float)n->proto->n_input));
}

static void add_integers(node *n) {
    const tfm_tensor a = node_input(n, 0), b = node_input(n, 1);
    tfm_tensor y = {0};
    if (node_ok(n))
        tfm_add(n->graph->ctx, &y, a, b);
    output_of_all(n, y);
}

void op_add(node *n) {
    if (n->proto->n_input != 2)
        NODE_WRONG(n, "%s of %zu inputs", n->proto->op_type, n->proto->n_input);
    else if (node_type(n, 0) == ONNX_INT64 || node_type(n, 0) == ONNX_INT32)
        add_integers(n);
    else
        op_sum(n);
}

void op_expand(node *n) {
    tfm_tensor x = node_input(n, 0);
    int64_t wanted[TFM_MAX_RANK], dims[TFM_MAX_RANK];
    const int given = (int)node_ints(n, 1, wanted, TFM_MAX_RANK);
    if (!node_ok(n))
        return;
    const int rank = common(n, dims, node_scalar(n, 0) ? 0 : x.rank, x.dims, given, wanted);
    node_output_as(n, rank == 0 ? x : part_spread(n, x, rank, dims), node_type(n, 0), rank == 0);
}
