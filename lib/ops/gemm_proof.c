/* The proof of a provider that is not ours: the first result of each class of tasks in a context is compared with the
 * plain kernel's. After one mismatch, or one error unless TFM_GEMM asks for it, the context goes on without it. And the
 * trial of an instruction of the processor, which providers of ours go through. */
#include <inttypes.h>
#include <math.h>
#include "ops/gemm.h"

/* Tasks that a provider may run with other kernels: transposes, a batch, a c to add to, copies of operands for which it
 * wants memory. And sizes: from one that differs by device on it may multiply in other ways, so each octave is proven
 * for itself. */
typedef struct class {
    uint64_t *word, bit;
} class;

static class class_of(tfm__gemm_proof *proof, const tfm__gemm_task *task) {
    const double work = (double)task->m * (double)task->n * (double)task->k;
    const int kind = (task->transpose_a ? 1 : 0) | (task->transpose_b ? 2 : 0) |
                     (task->batch > 1 && !task->shared_b ? 4 : 0) | (task->accumulate ? 8 : 0) |
                     (task->scratch > 0 ? 16 : 0);
    return (class){&proof->proven[kind], (uint64_t)1 << (work > 1 ? ilogb(work) & 63 : 0)};
}

/* The lower right corner of the batch's last matrix: where padding and strides go wrong. As a task with a c
 * of its own, without epilogue. */
static tfm__gemm_task corner(const tfm__gemm_task *task, int64_t rows) {
    tfm__gemm_task part = *task;
    const int64_t z = task->batch - 1, skipped = task->m - rows;
    part.batch = 1;
    part.m = rows;
    part.bias = (tfm_tensor){0};
    part.activation = TFM_NO_ACTIVATION;
    part.weight = NULL;
    part.a.offset += (size_t)(z * task->m * task->k + skipped * task->k);
    part.b.offset += (size_t)(task->shared_b ? 0 : z * task->n * task->k);
    return part;
}

/* The rows of c, or of a tensor like it, that `corner` computes. */
static tfm_tensor last_rows(tfm_tensor c, const tfm__gemm_task *task, int64_t rows) {
    c.offset += (size_t)((task->batch * task->m - rows) * task->n);
    c.rank = 2;
    c.dims[0] = rows;
    c.dims[1] = task->n;
    return c;
}

/* What a comparison says. */
typedef enum verdict { DIFFER, AGREE, SAY_NOTHING } verdict;

/* Zeros, and what is not finite in both, say nothing. */
static verdict compare_numbers(const float *x, const float *y, size_t count) {
    double difference = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(x[i]) || !isfinite(y[i])) {
            if (isfinite(x[i]) != isfinite(y[i]))
                return DIFFER;
            continue;
        }
        difference += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
        norm += (double)x[i] * x[i];
    }
    return difference > 1e-6 * norm ? DIFFER : norm > 0 ? AGREE : SAY_NOTHING;
}

/* The last rows of c that are compared: a transposed a cannot be cut by rows without a stride of its own. */
static int64_t proven_rows(const tfm__gemm_task *task) {
    return task->transpose_a || task->m < 64 ? task->m : 64;
}

uint64_t tfm__gemm_proof_memory(const tfm__gemm_task *task) {
    const uint64_t c = sizeof(float) * (uint64_t)(task->batch * task->m * task->n);
    return (task->accumulate ? tfm__pool_block(c) : 0) +
           tfm__pool_block(sizeof(float) * (uint64_t)(proven_rows(task) * task->n));
}

/* Compares `result`, the task's c as the provider left it, with the plain kernel. `before`: what c was, where the task
 * adds to it. */
static verdict compare_corner(tfm_context *ctx, const tfm__gemm_task *task, tfm_tensor before) {
    const int64_t rows = proven_rows(task);
    tfm__gemm_task part = corner(task, rows);
    const tfm_tensor result = last_rows(task->c, task, rows);
    verdict v = SAY_NOTHING; /* as when memory is out */
    size_t count = tfm_tensor_count(result);
    float *x = tfm__alloc(count, sizeof(*x)), *y = tfm__alloc(count, sizeof(*y));
    part.c = (tfm_tensor){0};
    if (!x || !y)
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "gemm: out of host memory for the proof of a provider");
    else if (tfm_tensor_new(ctx, &part.c, TFM_F32, 2, result.dims) == TFM_OK &&
             (!task->accumulate || tfm__tensor_copy(ctx, part.c, last_rows(before, task, rows)) == TFM_OK) &&
             tfm__gemm_plain.multiply(ctx, &part) == TFM_OK && tfm_tensor_read(ctx, x, part.c) == TFM_OK &&
             tfm_tensor_read(ctx, y, result) == TFM_OK)
        v = compare_numbers(x, y, count);
    free(x);
    free(y);
    return v;
}

/* A first product of its class, without the epilogue, compared with the plain kernel's. One that adds to c works on a
 * copy until then, so that another provider may still begin anew. */
static tfm_status first_of_class(tfm_context *ctx, const tfm__gemm_provider *provider, const tfm__gemm_task *task,
                                 verdict *v) {
    tfm__gemm_task trial = *task;
    trial.bias = (tfm_tensor){0};
    trial.activation = TFM_NO_ACTIVATION;
    if (task->accumulate) {
        /* Where c begins its block, so does the copy: a provider may take the one as it is, and copy the other. */
        const int64_t lead = task->c.offset > 0 ? 64 : 0, count = (int64_t)tfm_tensor_count(task->c),
                      room = lead + count;
        tfm_tensor block = {0};
        tfm_tensor_new(ctx, &block, TFM_F32, 1, &room);
        tfm_tensor_rows(ctx, &block, block, lead, count);
        tfm_tensor_reshape(ctx, &trial.c, block, task->c.rank, task->c.dims);
        if (tfm__tensor_copy(ctx, trial.c, task->c) != TFM_OK)
            return tfm_context_status(ctx);
    }
    const tfm_status status = provider->multiply(ctx, &trial);
    if (status != TFM_OK)
        return status;
    *v = compare_corner(ctx, &trial, task->c);
    if (*v != DIFFER && task->accumulate)
        tfm__tensor_copy(ctx, task->c, trial.c);
    return *v == DIFFER ? TFM_OK : tfm__gemm_epilogue(ctx, task);
}

tfm_status tfm__gemm_proven(tfm_context *ctx, const tfm__gemm_provider *provider, tfm__gemm_proof *proof,
                            const tfm__gemm_task *task, bool asked) {
    tfm__gemm_task own = *task;
    own.scratch = provider->memory ? provider->memory(ctx, task) : 0;
    const class own_class = class_of(proof, &own);
    const bool first = !(*own_class.word & own_class.bit);
    char kept[TFM__MESSAGE];
    tfm__error_keep(kept);
    verdict v = SAY_NOTHING;
    tfm_status status = TFM_OK;
    if (!first) {
        status = provider->multiply(ctx, &own);
    } else if (tfm_scope_open(ctx) == TFM_OK) {
        status = first_of_class(ctx, provider, &own, &v);
        tfm_scope_close(ctx, 0, NULL);
    }
    /* What was added to c in part cannot be begun anew. */
    if (status != TFM_OK && tfm_context_status(ctx) == TFM_OK && (asked || (task->accumulate && !first)))
        tfm__context_fail(ctx, status, "%s: set TFM_GEMM=builtin%s", tfm_error_message(),
                          status == TFM_ERROR_MEMORY ? " or use a smaller batch" : "");
    if (tfm_context_status(ctx) != TFM_OK)
        return tfm_context_status(ctx);
    if (v == AGREE)
        *own_class.word |= own_class.bit;
    if (status != TFM_OK)
        proof->trouble = "it failed on this device";
    else if (v == DIFFER)
        proof->trouble = "its result was wrong on this device";
    if (proof->trouble)
        tfm__log(TFM_LOG_WARNING,
                 "%s is not used on %s any more, for %s at m %" PRId64 ", n %" PRId64 ", k %" PRId64
                 "%s%s%s: going on with the library's own kernels, as TFM_GEMM=builtin does",
                 provider->name, tfm_context_device(ctx)->name, proof->trouble, task->m, task->n, task->k,
                 status != TFM_OK ? " (" : "", status != TFM_OK ? tfm_error_message() : "",
                 status != TFM_OK ? ")" : "");
    tfm__error_restore(kept);
    return proof->trouble ? TFM__GEMM_DECLINED : TFM_OK;
}

tfm_status tfm__gemm_try(tfm_context *ctx, bool (*compare)(tfm_context *ctx), bool *right) {
    const int depth = tfm__scope_depth(ctx);
    const bool recorded = tfm__tape_pause(ctx);
    tfm_scope_open(ctx);
    *right = compare(ctx);
    if (tfm_context_status(ctx) == TFM_ERROR_BUILD) /* a compiler that does not know the instruction */
        tfm__context_recover(ctx, depth);
    else
        tfm_scope_close(ctx, 0, NULL);
    tfm__tape_resume(ctx, recorded);
    return tfm_context_status(ctx);
}
