/* Backward pass of GEMM. With c (m, n) = f(alpha op(a) op(b) + bias) and dz = dc f'(c):
 *
 *     d op(a) = alpha dz op(b)^T,   d op(b) = alpha op(a)^T dz,   dbias = dz summed over rows
 *
 * These are GEMMs again, with operands swapped where a or b was transposed. */
#include <string.h>
#include "ops/gemm/gemm.h"
#include "ops/reduce/sum.h"

/* The task, restored from the record. */
typedef struct gemm_args {
    int64_t batch, m, n, k;
    bool transpose_a, transpose_b, shared_b;
    float alpha;
} gemm_args;

enum { A, B, BIAS }; /* of record->in; record->saved has a, b, and c after ReLU */

/* x as (batch, rows, columns), or flattened to one matrix. */
static tfm_tensor matrix(tfm_tensor x, int64_t batch, int64_t rows, int64_t columns) {
    const int64_t dims[] = {batch, rows, columns};
    x.rank = batch > 1 ? 3 : 2;
    memcpy(x.dims, dims + (batch > 1 ? 0 : 1), (size_t)x.rank * sizeof(*dims));
    return x;
}

/* to = or += alpha op(a) op(b), each shaped by `matrix`. */
static tfm_status accumulate_gemm(tfm_context *ctx, tfm__gradient to, tfm_tensor a, bool transpose_a, tfm_tensor b,
                                  bool transpose_b, float alpha) {
    const int64_t *a_last = a.dims + a.rank - 2, *b_last = b.dims + b.rank - 2;
    tfm__gemm_task task = {.batch = a.rank > 2 ? a.dims[0] : 1,
                           .m = a_last[transpose_a],
                           .n = b_last[!transpose_b],
                           .k = a_last[!transpose_a],
                           .c = to.to,
                           .a = a,
                           .b = b,
                           .accumulate = to.add,
                           .transpose_a = transpose_a,
                           .transpose_b = transpose_b,
                           .shared_b = b.rank == 2,
                           .alpha = alpha != 0 ? alpha : 1};
    if (task.shared_b && !transpose_a) { /* b is shared: fold the batch into the rows */
        task.m *= task.batch;
        task.batch = 1;
    }
    return tfm__gemm_dispatch(ctx, NULL, &task);
}

static tfm_status backward_a(tfm_context *ctx, const gemm_args *f, tfm__gradient da, tfm_tensor b, tfm_tensor dz) {
    const int64_t m = f->m, k = f->k;
    if (!da.to.buffer)
        return tfm_context_status(ctx);
    da.to = f->transpose_a ? matrix(da.to, f->batch, k, m) : matrix(da.to, f->batch, m, k);
    if (!f->transpose_a)
        return accumulate_gemm(ctx, da, dz, false, b, !f->transpose_b, f->alpha);
    if (!f->shared_b || f->batch == 1)
        return accumulate_gemm(ctx, da, b, f->transpose_b, dz, true, f->alpha);
    for (int64_t i = 0; i < f->batch; i++) { /* op(b) dz^T with b shared */
        tfm__gradient part = da;
        tfm_tensor rows = {0};
        tfm_tensor_rows(ctx, &part.to, da.to, i, 1);
        tfm_tensor_rows(ctx, &rows, dz, i, 1);
        part.to = matrix(part.to, 1, k, m);
        accumulate_gemm(ctx, part, b, f->transpose_b, matrix(rows, 1, m, f->n), true, f->alpha);
    }
    return tfm_context_status(ctx);
}

static tfm_status backward_b(tfm_context *ctx, const gemm_args *f, tfm__gradient db, tfm_tensor a, tfm_tensor dz) {
    const int64_t batch = f->shared_b ? 1 : f->batch, n = f->n, k = f->k;
    if (!db.to.buffer)
        return tfm_context_status(ctx);
    db.to = f->transpose_b ? matrix(db.to, batch, n, k) : matrix(db.to, batch, k, n);
    if (f->batch > 1 && f->shared_b) { /* b is shared: sum its gradients over the batch */
        for (int64_t i = 0; i < f->batch; i++, db.add = true) {
            gemm_args one = *f;
            tfm_tensor a_part = {0}, dz_part = {0};
            one.batch = 1;
            tfm_tensor_rows(ctx, &a_part, a, i, 1);
            tfm_tensor_rows(ctx, &dz_part, dz, i, 1);
            backward_b(ctx, &one, db, f->transpose_a ? matrix(a_part, 1, k, f->m) : matrix(a_part, 1, f->m, k),
                       matrix(dz_part, 1, f->m, n));
        }
        return tfm_context_status(ctx);
    }
    return f->transpose_b ? accumulate_gemm(ctx, db, dz, true, a, f->transpose_a, f->alpha)
                          : accumulate_gemm(ctx, db, a, !f->transpose_a, dz, false, f->alpha);
}

tfm_status tfm__gemm_gradients(tfm_context *ctx, tfm__gradient dw, tfm__gradient dbias, tfm_tensor dz, tfm_tensor x,
                               float alpha) {
    const tfm__gemm_task task = {.batch = 1,
                                 .m = dz.dims[1],
                                 .n = x.dims[1],
                                 .k = dz.dims[0],
                                 .c = dw.to,
                                 .a = dz,
                                 .b = x,
                                 .accumulate = dw.add,
                                 .transpose_a = true,
                                 .shared_b = true,
                                 .alpha = alpha,
                                 .a_sums = dbias};
    if (tfm_context_status(ctx) != TFM_OK) /* then dz may be empty */
        return tfm_context_status(ctx);
    /* The bias may be part of the weight's memory: one gradient after the other. */
    const bool apart = !dbias.to.buffer || !tfm__overlap(dw.to, dbias.to);
    const tfm__gemm_provider *provider = dw.to.buffer && apart ? tfm__gemm_select(ctx, &task) : NULL;
    if (provider && provider->sums_columns)
        return tfm__gemm_dispatch(ctx, provider, &task);
    tfm__sum_into(ctx, dbias, dz, 1, task.k, task.m);
    return dw.to.buffer ? accumulate_gemm(ctx, dw, dz, true, x, false, alpha) : tfm_context_status(ctx);
}

/* y = x w^T, dx = dy w and dw += dy^T x. */
enum { LAYER_GEMMS = 3 };
static void layer_gemms(tfm__gemm_task *tasks, tfm_param *weight, int64_t rows, int64_t inputs, int64_t outputs) {
    const tfm__gemm_task all[LAYER_GEMMS] = {
        {.m = rows, .n = outputs, .k = inputs, .transpose_b = true, .weight = weight},
        {.m = rows, .n = inputs, .k = outputs},
        {.m = outputs, .n = inputs, .k = rows, .transpose_a = true, .accumulate = true, .a_sums = {.to = {.rank = 1}}},
    };
    for (int i = 0; i < LAYER_GEMMS; i++) {
        tasks[i] = all[i];
        tasks[i].batch = 1;
        tasks[i].shared_b = true;
        tasks[i].alpha = 1;
    }
}

uint64_t tfm__gemm_layer_memory(tfm_context *ctx, int64_t rows, int64_t inputs, int64_t outputs) {
    tfm_param weight = {0};
    tfm__gemm_task tasks[LAYER_GEMMS];
    layer_gemms(tasks, &weight, rows, inputs, outputs);
    uint64_t most = 0;
    for (int i = 0; i < LAYER_GEMMS; i++) {
        /* The scratch memory of the bias gradient is freed first, but the freed block seldom has the size requested
         * next. */
        const tfm__gemm_provider *provider = tfm__gemm_select(ctx, &tasks[i]);
        const bool apart = tasks[i].a_sums.to.rank > 0 && !(provider && provider->sums_columns);
        const uint64_t bytes = tfm__gemm_memory(ctx, &tasks[i]) + (apart ? tfm__sum_workspace(1, rows, outputs) : 0);
        most = bytes > most ? bytes : most;
    }
    return most;
}

bool tfm__gemm_layer_packs(tfm_context *ctx, int64_t rows, int64_t inputs, int64_t outputs) {
    tfm_param weight = {0};
    tfm__gemm_task tasks[LAYER_GEMMS];
    layer_gemms(tasks, &weight, rows, inputs, outputs);
    const tfm__gemm_provider *provider = tfm__gemm_select(ctx, &tasks[0]);
    return provider && provider->packs_weights;
}

static tfm_status backward(tfm_context *ctx, const tfm__record *record) {
    gemm_args f;
    memcpy(&f, record->data, sizeof(f));
    const tfm_tensor c = record->saved[2];
    tfm_tensor dz = tfm__tape_grad_output(ctx, record, 0), a = record->saved[A], b = record->saved[B];
    if (c.buffer)
        tfm__activate_backward(ctx, (tfm__gradient){dz, false}, dz, c, TFM_RELU);
    dz = matrix(dz, f.batch, f.m, f.n);
    a = f.transpose_a ? matrix(a, f.batch, f.k, f.m) : matrix(a, f.batch, f.m, f.k);
    const int64_t b_batch = f.shared_b ? 1 : f.batch;
    b = f.transpose_b ? matrix(b, b_batch, f.n, f.k) : matrix(b, b_batch, f.k, f.n);
    const tfm__gradient dbias = tfm__tape_grad_input(ctx, record, BIAS);
    tfm__gradient db = tfm__tape_grad_input(ctx, record, B);
    if (f.batch == 1 && f.transpose_b && !f.transpose_a) { /* a linear layer */
        if (db.to.buffer)
            db.to = matrix(db.to, 1, f.n, f.k);
        tfm__gemm_gradients(ctx, db, dbias, dz, a, f.alpha);
    } else {
        tfm__sum_into(ctx, dbias, dz, 1, f.batch * f.m, f.n);
        backward_b(ctx, &f, db, a, dz);
    }
    return backward_a(ctx, &f, tfm__tape_grad_input(ctx, record, A), b, dz);
}

tfm_status tfm__gemm_record(tfm_context *ctx, const char *op, const tfm__gemm_task *task) {
    const gemm_args f = {.batch = task->batch,
                         .m = task->m,
                         .n = task->n,
                         .k = task->k,
                         .transpose_a = task->transpose_a,
                         .transpose_b = task->transpose_b,
                         .shared_b = task->shared_b,
                         .alpha = task->alpha};
    return tfm__tape_add(
        ctx, &(tfm__record){.op = op,
                            .backward = backward,
                            .out = {task->c},
                            .in = {task->a, task->b, task->bias},
                            .saved = {task->a, task->b, task->activation == TFM_RELU ? task->c : (tfm_tensor){0}},
                            .data = &f,
                            .data_bytes = sizeof(f)});
}
