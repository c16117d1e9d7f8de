/* Cross-entropy of logits, and fused with a linear layer whose logits are computed in chunks:
 * cl/reduce/cross_entropy.cl. */
#include <inttypes.h>
#include <math.h>
#include "ops/gemm/gemm.h"
#include "ops/selftest/selftest.h"
#include "ops/reduce/sum.h"

#define OP "cross_entropy"

typedef struct cross_entropy_args {
    tfm_tensor dz, losses, nlls, z, targets, grad_output;
    float smoothing, scale, cap;
    bool add;
} cross_entropy_args;

static tfm_status launch(tfm_context *ctx, const cross_entropy_args *e) {
    const int64_t rows = (int64_t)tfm_tensor_count(e->targets), n = tfm__last_dim(e->z);
    return tfm__launch(ctx, tfm__kernel_get(ctx, OP, "cross_entropy", "%s", e->cap > 0 ? "-DSOFT_CAP=1" : ""),
                       tfm__row_grid(ctx, rows),
                       TFM__ARGS(TFM__T_AS("dz", e->dz), TFM__T_AS("losses", e->losses), TFM__T_AS("nlls", e->nlls),
                                 TFM__T_AS("z", e->z), TFM__T_AS("targets", e->targets),
                                 TFM__T_AS("grad_output", e->grad_output), TFM__I(rows), TFM__I(n),
                                 TFM__F_AS("smoothing", e->smoothing), TFM__F_AS("scale", e->scale),
                                 TFM__F_AS("cap", e->cap), TFM__I_AS("add", e->add)));
}

static tfm_status check_options(tfm_context *ctx, const tfm_cross_entropy_options *o) {
    if (!(o->label_smoothing >= 0.0f && o->label_smoothing < 1.0f) || !isfinite(o->scale) ||
        !(o->soft_cap >= 0.0f && isfinite(o->soft_cap)))
        return tfm__op_error(
            ctx, OP,
            "label_smoothing is %g, scale %g and soft_cap %g: label_smoothing must lie in [0, 1), scale be finite, "
            "and cap too, and not negative",
            (double)o->label_smoothing, (double)o->scale, (double)o->soft_cap);
    return TFM_OK;
}

/* Creates or checks loss and nll, (1) each; nll may be NULL. */
static tfm_status outputs(tfm_context *ctx, tfm_tensor *loss, tfm_tensor *nll, size_t count, const tfm_tensor *inputs) {
    const int64_t one = 1;
    const tfm_tensor none = {0};
    if (tfm__op_output(ctx, OP, loss, TFM_F32, 1, &one) != TFM_OK ||
        (nll && tfm__op_output(ctx, OP, nll, TFM_F32, 1, &one) != TFM_OK))
        return tfm_context_status(ctx);
    const tfm_tensor second = nll ? *nll : none;
    if (tfm__op_no_overlap(ctx, OP, false, *loss, count, inputs) != TFM_OK ||
        tfm__op_no_overlap(ctx, OP, false, *loss, 1, &second) != TFM_OK ||
        (nll && tfm__op_no_overlap(ctx, OP, false, second, count, inputs) != TFM_OK))
        return tfm_context_status(ctx);
    return TFM_OK;
}

/* to (1) = the sum over rows, times scale. */
static tfm_status reduce_loss(tfm_context *ctx, tfm_tensor *to, tfm_tensor rows) {
    return to ? tfm__sum_into(ctx, (tfm__gradient){*to, false}, rows, 1, (int64_t)tfm_tensor_count(rows), 1)
              : tfm_context_status(ctx);
}

static float scale_of(const tfm_cross_entropy_options *o) {
    return o->scale != 0.0f ? o->scale : 1.0f;
}

static tfm_status backward(tfm_context *ctx, const tfm__record *record) {
    const tfm__gradient dz = tfm__tape_grad_input(ctx, record, 0);
    return launch(ctx, &(cross_entropy_args){.dz = dz.to,
                                             .z = record->saved[0],
                                             .targets = record->saved[1],
                                             .grad_output = tfm__tape_grad_output(ctx, record, 0),
                                             .smoothing = record->floats[0],
                                             .scale = record->floats[1],
                                             .cap = record->floats[2],
                                             .add = dz.add});
}

tfm_status tfm_cross_entropy(tfm_context *ctx, tfm_tensor *loss, tfm_tensor *nll, tfm_tensor logits, tfm_tensor targets,
                             const tfm_cross_entropy_options *options) {
    const tfm_cross_entropy_options none = {0}, *o = options ? options : &none;
    if (TFM__OP_BEGIN(ctx, OP, "fi", logits, targets) != TFM_OK || TFM__OP_OPTIONS(ctx, OP, o) != TFM_OK ||
        check_options(ctx, o) != TFM_OK)
        return tfm_context_status(ctx);
    const int64_t rows = tfm__row_count(logits);
    if (tfm_tensor_count(targets) != (size_t)rows || tfm__last_dim(logits) > INT32_MAX)
        return tfm__op_error(ctx, OP, "targets is %s for logits %s: one for each row", TFM__SHAPE(targets),
                             TFM__SHAPE(logits));
    if (outputs(ctx, loss, nll, 2, (const tfm_tensor[]){logits, targets}) != TFM_OK)
        return tfm_context_status(ctx);
    cross_entropy_args e = {
        .z = logits, .targets = targets, .smoothing = o->label_smoothing, .scale = scale_of(o), .cap = o->soft_cap};
    tfm_scope_open(ctx);
    tfm_tensor_new(ctx, &e.losses, TFM_F32, 1, &rows);
    tfm_tensor_new(ctx, &e.nlls, TFM_F32, 1, &rows);
    launch(ctx, &e);
    reduce_loss(ctx, loss, e.losses);
    reduce_loss(ctx, nll, e.nlls);
    tfm_scope_close(ctx, 0, NULL);
    return tfm__tape_add(ctx, &(tfm__record){.op = OP,
                                             .backward = backward,
                                             .out = {*loss},
                                             .in = {logits},
                                             .saved = {logits, targets},
                                             .floats = {e.smoothing, e.scale, e.cap}});
}

/* ---- Fused linear layer ---- */

/* dx was computed by the forward, as were all gradients, for a loss with weight 1: those of the weight and the bias are
 * already accumulated and cannot be scaled. */
static tfm_status linear_backward(tfm_context *ctx, const tfm__record *record) {
    float grad_output = 1;
    if (!tfm__tape_grad_is_ones(ctx, record, 0) &&
        tfm_tensor_read(ctx, &grad_output, tfm__tape_grad_output(ctx, record, 0)) != TFM_OK)
        return tfm_context_status(ctx);
    if (grad_output != 1.0f)
        return tfm__op_error(
            ctx, OP,
            "the gradient of a loss of tfm_linear_cross_entropy is %g, but it must be 1, for which its "
            "gradients were made: give no dy, scale by its options, or take tfm_cross_entropy",
            (double)grad_output);
    return tfm__accumulate(ctx, tfm__tape_grad_input(ctx, record, 0), record->saved[0]);
}

/* Shared by the chunks. dx, dweight and dbias are empty if not required. */
typedef struct linear {
    tfm_tensor x, targets, bias, losses, nlls;
    tfm_param *weight;
    tfm_param backward; /* the same value, packed for dx */
    tfm_tensor dx, dweight, dbias;
    bool recorded;
    const tfm_cross_entropy_options *options;
} linear;

static tfm_status run_chunk(tfm_context *ctx, linear *l, int64_t first, int64_t count) {
    cross_entropy_args e = {
        .smoothing = l->options->label_smoothing, .scale = scale_of(l->options), .cap = l->options->soft_cap};
    tfm_tensor x = {0}, dx = {0};
    tfm_scope_open(ctx);
    tfm_tensor_rows(ctx, &x, l->x, first, count);
    tfm_tensor_rows(ctx, &e.targets, l->targets, first, count);
    tfm_tensor_rows(ctx, &e.losses, l->losses, first, count);
    tfm_tensor_rows(ctx, &e.nlls, l->nlls, first, count);
    tfm_linear(ctx, &e.z, x, l->weight, l->bias, TFM_NO_ACTIVATION);
    if (l->recorded)
        e.dz = e.z;
    launch(ctx, &e);
    if (l->dx.buffer) {
        tfm_tensor_rows(ctx, &dx, l->dx, first, count);
        tfm__gemm_param(ctx, &dx, e.z, &l->backward);
    }
    tfm__gemm_gradients(ctx, (tfm__gradient){l->dweight, true}, (tfm__gradient){l->dbias, true}, e.z, x, 1);
    return tfm_scope_close(ctx, 0, NULL);
}

/* Rows per chunk: 16 MB of logits; more if rows are long, so that accumulating dweight for each chunk is cheap next to
 * the GEMMs. */
static int64_t chunk_rows(const tfm_cross_entropy_options *o, int64_t rows, int64_t vocabulary) {
    const int64_t by_size = ((int64_t)16 << 20) / 4 / vocabulary;
    int64_t chunk = o->chunk > 0 ? o->chunk : by_size < 512 ? 512 : by_size;
    const int64_t chunks = tfm__ceil_div(rows, chunk);
    return tfm__ceil_div(rows, chunks);
}

int64_t tfm__cross_entropy_chunk(int64_t rows, int64_t vocabulary) {
    return chunk_rows(&(tfm_cross_entropy_options){0}, rows, vocabulary);
}

/* With the tape off: the whole op is recorded, not the chunks. */
static tfm_status run_linear(tfm_context *ctx, linear *l, tfm_tensor *loss, tfm_tensor *nll) {
    const int64_t rows = l->x.dims[0], chunk = chunk_rows(l->options, rows, l->weight->value.dims[0]);
    const bool paused = tfm__tape_pause(ctx);
    tfm_scope_open(ctx);
    tfm_tensor_new(ctx, &l->losses, TFM_F32, 1, &rows);
    tfm_tensor_new(ctx, &l->nlls, TFM_F32, 1, &rows);
    for (int64_t first = 0; first < rows && tfm_context_status(ctx) == TFM_OK; first += chunk)
        run_chunk(ctx, l, first, rows - first < chunk ? rows - first : chunk);
    reduce_loss(ctx, loss, l->losses);
    reduce_loss(ctx, nll, l->nlls);
    tfm_tensor_free(ctx, &l->backward.packed);
    tfm_scope_close(ctx, 0, NULL);
    tfm__tape_resume(ctx, paused);
    return tfm_context_status(ctx);
}

tfm_status tfm_linear_cross_entropy(tfm_context *ctx, tfm_tensor *loss, tfm_tensor *nll, tfm_tensor x,
                                    tfm_param *weight, tfm_tensor bias, tfm_tensor targets,
                                    const tfm_cross_entropy_options *options) {
    const tfm_cross_entropy_options none = {0}, *o = options ? options : &none;
    if (TFM__NEEDS_ON(ctx, OP, weight) != TFM_OK)
        return tfm_context_status(ctx);
    const tfm_tensor w = weight->value;
    if (TFM__OP_BEGIN(ctx, OP, "ffFi", x, w, bias, targets) != TFM_OK || TFM__OP_OPTIONS(ctx, OP, o) != TFM_OK ||
        check_options(ctx, o) != TFM_OK)
        return tfm_context_status(ctx);
    const int64_t rows = tfm__row_count(x), width = tfm__last_dim(x);
    if (w.rank != 2 || w.dims[1] != width || w.dims[0] > INT32_MAX || tfm_tensor_count(targets) != (size_t)rows ||
        (bias.buffer && (bias.rank != 1 || bias.dims[0] != w.dims[0])) || o->chunk < 0)
        return tfm__op_error(ctx, OP,
                             "x is %s, the weight %s, targets %s, chunk %" PRId64
                             ": the weight must be (V, E), a bias (V), and there is a target for each row",
                             TFM__SHAPE(x), TFM__SHAPE(w), TFM__SHAPE(targets), o->chunk);
    if (outputs(ctx, loss, nll, 4, (const tfm_tensor[]){x, w, bias, targets}) != TFM_OK)
        return tfm_context_status(ctx);
    linear l = {.weight = weight, .backward = {.value = w}, .bias = bias, .options = o};
    l.recorded = TFM__TAPE_REQUIRES_GRAD(ctx, x, w, bias);
    tfm_tensor_reshape(ctx, &l.x, x, 2, (int64_t[]){rows, width});
    tfm_tensor_reshape(ctx, &l.targets, targets, 1, &rows);
    if (TFM__TAPE_REQUIRES_GRAD(ctx, x))
        tfm_tensor_new(ctx, &l.dx, TFM_F32, 2, l.x.dims);
    l.dweight = tfm__tape_watched_grad(ctx, OP, w);
    l.dbias = tfm__tape_watched_grad(ctx, OP, bias);
    run_linear(ctx, &l, loss, nll);
    if (!l.recorded)
        return tfm_context_status(ctx);
    /* Weight and bias already have their gradients; they are named as inputs so that the loss is recorded even if x has
     * no gradient. */
    tfm__tape_add(ctx, &(tfm__record){.op = OP,
                                      .backward = linear_backward,
                                      .out = {*loss},
                                      .in = {x, w, bias},
                                      .saved = {l.dx},
                                      .gradients_done = l.dweight.buffer || l.dbias.buffer});
    tfm_tensor_free(ctx, &l.dx); /* the tape keeps it */
    return tfm_context_status(ctx);
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

static void check(tfm__check *c) {
    const int64_t rows = 17, width = 9, n = 333;
    const double smoothing = 0.1;
    float *x, *w;
    int32_t *targets;
    tfm_tensor loss = {0}, nll = {0}, tx = RANDOM_FLOATS(x, rows, width), tt = RANDOM_INTS(targets, (int)n, rows);
    tfm_param weight = {.value = RANDOM_FLOATS(w, n, width)};
    double *want = EXPECTED(1), *want_nll = EXPECTED(1);
    for (int64_t r = 0; tfm__check_ready(c) && r < rows; r++) {
        double z[333], sum = 0, mean = 0;
        for (int64_t i = 0; i < n; i++) {
            z[i] = 0;
            for (int64_t k = 0; k < width; k++)
                z[i] += (double)x[r * width + k] * (double)w[i * width + k];
            sum += exp(z[i]);
            mean += z[i] / (double)n;
        }
        *want_nll += log(sum) - z[targets[r]];
        *want += log(sum) - (1 - smoothing) * z[targets[r]] - smoothing * mean;
    }
    tfm_linear_cross_entropy(c->ctx, &loss, &nll, tx, &weight, (tfm_tensor){0}, tt,
                             &(tfm_cross_entropy_options){.label_smoothing = (float)smoothing, .chunk = 5});
    tfm__check_compare(c, loss, want);
    tfm__check_compare(c, nll, want_nll);
    tfm_tensor_free(c->ctx, &weight.packed);
}

const tfm__check_entry tfm__selftest_cross_entropy[] = {
    {"cross_entropy", "linear", check, 0},
    {0},
};
