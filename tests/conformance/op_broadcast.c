/* Arithmetic on tensors that repeat along each other's dimensions, from the sums and products that the API
 * has: a bilinear gate is a product of equal dims, and a sum with zeros repeats what is to be multiplied. */
#include <stdlib.h>
#include <string.h>
#include "op_table.h"

enum { MOST_ELEMENTS = 1 << 24 }; /* so that a damaged shape does not ask for the machine's memory */

tfm_tensor part_scaled(node *n, tfm_tensor x, float factor) {
    tfm_tensor one = node_upload(n, TFM_F32, 2, (int64_t[]){1, 1}, &(float){1}), column = {0};
    const tfm_tensor numbers = node_reshape(n, x, 2, (int64_t[]){(int64_t)tfm_tensor_count(x), 1});
    if (node_ok(n))
        tfm_gemm(n->graph->ctx, &column, numbers, one, &(tfm_gemm_options){.alpha = factor});
    return node_reshape(n, column, x.rank, x.dims);
}

tfm_tensor part_spread(node *n, tfm_tensor x, int rank, const int64_t *dims) {
    int64_t count = 1;
    tfm_tensor y = {0};
    if (!node_ok(n) || (x.rank == rank && memcmp(x.dims, dims, (size_t)rank * sizeof(*dims)) == 0))
        return x;
    for (int i = 0; i < rank && count <= MOST_ELEMENTS; i++)
        count = dims[i] > 0 && dims[i] <= MOST_ELEMENTS ? count * dims[i] : (int64_t)MOST_ELEMENTS + 1;
    if (count > MOST_ELEMENTS || rank > TFM_MAX_RANK) {
        NODE_UNSUPPORTED(n, "%d dimensions of these sizes in %s", rank, n->proto->op_type);
        return y;
    }
    float *host = calloc((size_t)count, sizeof(*host));
    if (!host)
        NODE_WRONG(n, "no memory for %lld zeros", (long long)count);
    const tfm_tensor zeros = node_upload(n, TFM_F32, rank, dims, host);
    free(host);
    if (node_ok(n))
        tfm_add(n->graph->ctx, &y, zeros, x);
    return y;
}

/* The dims that a and b have together. */
static int common(node *n, int64_t *dims, int rank_a, const int64_t *a, int rank_b, const int64_t *b) {
    const int rank = rank_a > rank_b ? rank_a : rank_b;
    for (int i = 0; i < rank; i++) {
        const int64_t of_a = i < rank - rank_a ? 1 : a[i - (rank - rank_a)],
                      of_b = i < rank - rank_b ? 1 : b[i - (rank - rank_b)];
        if (of_a != of_b && of_a != 1 && of_b != 1)
            NODE_WRONG(n, "%s of dimensions %lld and %lld", n->proto->op_type, (long long)of_a,
                       (long long)of_b);
        dims[i] = of_a == 1 ? of_b : of_a;
    }
    return rank;
}

tfm_tensor part_product(node *n, tfm_tensor a, tfm_tensor b) {
    int64_t dims[TFM_MAX_RANK];
    tfm_tensor y = {0};
    if (!node_ok(n))
        return y;
    const int rank = common(n, dims, a.rank, a.dims, b.rank, b.dims);
    a = part_spread(n, a, rank, dims);
    b = part_spread(n, b, rank, dims);
    if (node_ok(n))
        tfm_glu(n->graph->ctx, &y, a, b, TFM_NO_ACTIVATION, TFM_GLU_GATE_FIRST);
    return y;
}

/* A result of all inputs; a scalar where all of them are. */
static void output_of_all(node *n, tfm_tensor y) {
    bool scalar = true;
    for (size_t i = 0; i < n->proto->n_input && node_ok(n); i++)
        scalar = scalar && node_scalar(n, i);
    if (!node_ok(n))
        return;
    if (scalar)
        node_output_scalar(n, 0, y, node_type(n, 0));
    else
        node_output(n, 0, y, node_type(n, 0));
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

static bool two_inputs(node *n) {
    if (n->proto->n_input != 2)
        NODE_WRONG(n, "%s of %zu inputs", n->proto->op_type, n->proto->n_input);
    return node_ok(n);
}

void op_add(node *n) {
    if (two_inputs(n))
        op_sum(n);
}

void op_sub(node *n) {
    tfm_tensor y = {0};
    if (!two_inputs(n))
        return;
    const tfm_tensor a = node_floats(n, 0), b = part_scaled(n, node_floats(n, 1), -1);
    if (node_ok(n))
        tfm_add(n->graph->ctx, &y, a, b);
    output_of_all(n, y);
}

void op_mul(node *n) {
    if (two_inputs(n)) {
        const tfm_tensor a = node_floats(n, 0);
        output_of_all(n, part_product(n, a, node_floats(n, 1)));
    }
}

void op_neg(node *n) {
    output_of_all(n, part_scaled(n, node_floats(n, 0), -1));
}

void op_expand(node *n) {
    tfm_tensor x = node_floats(n, 0);
    int64_t wanted[TFM_MAX_RANK], dims[TFM_MAX_RANK];
    const int given = (int)node_ints(n, 1, wanted, TFM_MAX_RANK);
    if (!node_ok(n))
        return;
    const int rank = common(n, dims, node_scalar(n, 0) ? 0 : x.rank, x.dims, given, wanted);
    if (rank == 0)
        node_output_scalar(n, 0, x, node_type(n, 0));
    else
        node_output(n, 0, part_spread(n, x, rank, dims), node_type(n, 0));
}
