/* Classification losses. */
#include <stdlib.h>
#include "op_table.h"

/* Target class and weight of each row of scores. */
typedef struct choices {
    size_t count;
    int32_t *labels; /* -1: ignored row */
    float *weights;  /* 0 for ignored rows */
    double total;    /* sum of the weights */
} choices;

static void free_choices(choices *c) {
    free(c->labels);
    free(c->weights);
}

/* Reads inputs 1 and 2. */
static choices read_choices(node *n, int64_t classes) {
    choices c = {0};
    const tfm_tensor labels = node_input(n, 1), given = node_has(n, 2) ? node_floats(n, 2) : (tfm_tensor){0};
    if (!node_ok(n))
        return c;
    c.count = tfm_tensor_count(labels);
    c.labels = malloc(c.count * sizeof(*c.labels));
    c.weights = malloc(c.count * sizeof(*c.weights));
    float *of = calloc((size_t)classes, sizeof(*of));
    if (!c.labels || !c.weights || !of)
        NODE_WRONG(n, "no memory for %zu labels", c.count);
    else if (labels.dtype != TFM_I32 || tfm_tensor_read(n->graph->ctx, c.labels, labels) != TFM_OK)
        NODE_WRONG(n, "the labels of %s cannot be read", n->proto->op_type);
    else if (node_has(n, 2) &&
             ((int64_t)tfm_tensor_count(given) != classes || tfm_tensor_read(n->graph->ctx, of, given) != TFM_OK))
        NODE_WRONG(n, "%s of %lld classes has %zu weights", n->proto->op_type, (long long)classes,
                   tfm_tensor_count(given));
    const bool ignores = node_attribute(n, "ignore_index");
    for (size_t i = 0; node_ok(n) && i < c.count; i++) {
        const int32_t label = c.labels[i];
        const bool counts = !ignores || label != node_int(n, "ignore_index", 0);
        if (counts && (label < 0 || label >= classes)) {
            NODE_WRONG(n, "%s has label %d of %lld classes", n->proto->op_type, (int)label, (long long)classes);
            break;
        }
        if (!counts)
            c.labels[i] = -1;
        c.weights[i] = !counts ? 0 : node_has(n, 2) ? of[label] : 1;
        c.total += (double)c.weights[i];
    }
    free(of);
    return c;
}

/* x (N, C, D...) as (N D..., C): a row for each label. */
static tfm_tensor rows_of(node *n, tfm_tensor x) {
    int axes[TFM_MAX_RANK] = {0};
    tfm_tensor y = {0};
    if (!node_filled(n, x))
        return y;
    if (x.rank < 2)
        NODE_WRONG(n, "%s of %d dimensions", n->proto->op_type, x.rank);
    for (int i = 1; i < x.rank; i++)
        axes[i] = i + 1 < x.rank ? i + 1 : 1;
    if (node_ok(n) && x.rank > 2)
        tfm_permute(n->graph->ctx, &y, x, axes);
    const int64_t classes = node_ok(n) ? x.dims[1] : 1;
    return node_reshape(n, y.buffer ? y : x, 2, (int64_t[]){(int64_t)tfm_tensor_count(x) / classes, classes});
}

/* -weight log p of the target class (R, 1), from log p (R, C). */
static tfm_tensor losses_of(node *n, tfm_tensor rows, const choices *c) {
    tfm_tensor picked = {0};
    const int64_t count = (int64_t)c->count, classes = rows.dims[1];
    const tfm_tensor column = node_reshape(n, rows, 2, (int64_t[]){count * classes, 1});
    int32_t *at = malloc(c->count * sizeof(*at));
    float *factors = malloc(c->count * sizeof(*factors));
    if (!at || !factors)
        NODE_WRONG(n, "no memory for %zu labels", c->count);
    for (size_t i = 0; node_ok(n) && i < c->count; i++) {
        at[i] = (int32_t)((int64_t)i * classes + (c->labels[i] < 0 ? 0 : c->labels[i]));
        factors[i] = -c->weights[i];
    }
    const tfm_tensor indices = node_upload(n, TFM_I32, 1, &count, at),
                     scale = node_upload(n, TFM_F32, 2, (int64_t[]){count, 1}, factors);
    if (node_ok(n))
        tfm_gather(n->graph->ctx, &picked, column, indices);
    free(at);
    free(factors);
    return part_product(n, picked, scale);
}

/* The sum of the losses times `factor`, as (1). */
static tfm_tensor sum_of(node *n, tfm_tensor losses, float factor) {
    tfm_tensor sum = {0};
    if (node_ok(n))
        tfm_reduce_sum(n->graph->ctx, &sum, losses, NULL, 0, false);
    return factor == 1 ? sum : part_scaled(n, sum, factor);
}

/* The loss of rows of scores or of log p. Equal weights use the fused op. */
static void output_loss(node *n, tfm_tensor rows, const choices *c, bool scores) {
    const bool none = node_text(n, "reduction", "mean", "none"), sum = node_text(n, "reduction", "mean", "sum");
    const float factor = sum ? 1 : (float)(1 / c->total);
    const int64_t count = (int64_t)c->count;
    tfm_tensor loss = {0};
    if (scores && !none && !node_has(n, 2)) {
        const tfm_tensor labels = node_upload(n, TFM_I32, 1, &count, c->labels);
        if (node_ok(n))
            tfm_cross_entropy(n->graph->ctx, &loss, NULL, rows, labels, NULL);
        node_output_scalar(n, 0, part_scaled(n, loss, factor), node_type(n, 0));
        return;
    }
    if (scores && node_ok(n)) {
        tfm_log_softmax(n->graph->ctx, &loss, rows);
        rows = loss;
    }
    const tfm_tensor losses = losses_of(n, rows, c), labels = node_input(n, 1);
    if (none)
        node_output(n, 0, node_reshape(n, losses, labels.rank, labels.dims), node_type(n, 0));
    else
        node_output_scalar(n, 0, sum_of(n, losses, factor), node_type(n, 0));
}

static void op_loss(node *n, bool scores) {
    const tfm_tensor x = node_floats(n, 0), rows = rows_of(n, x);
    if (!node_ok(n))
        return;
    choices c = read_choices(n, rows.dims[1]);
    if (node_ok(n) && (int64_t)c.count != rows.dims[0])
        NODE_WRONG(n, "%s of %lld rows has %zu labels", n->proto->op_type, (long long)rows.dims[0], c.count);
    if (node_ok(n))
        output_loss(n, rows, &c, scores);
    free_choices(&c);
}

void op_negative_log_likelihood_loss(node *n) {
    op_loss(n, false);
}

void op_softmax_cross_entropy_loss(node *n) {
    tfm_tensor log_p = {0};
    op_loss(n, true);
    if (node_ok(n) && node_wants(n, 1) && tfm_log_softmax_axis(n->graph->ctx, &log_p, node_floats(n, 0), 1) == TFM_OK)
        node_output(n, 1, log_p, node_type(n, 0));
}
