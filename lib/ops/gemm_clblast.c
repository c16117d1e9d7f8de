/* CLBlast as a provider: its GEMM, then our epilogue for bias and activation.
 *
 * CLBlast 1.5.3 is silently wrong on some devices, so the first result of each class of shapes in a context
 * is compared with the plain kernel's; after one mismatch, or one error unless TFM_GEMM asks for CLBlast, the
 * context goes on without it. This is the only file outside lib/dev that speaks OpenCL: CLBlast's interface
 * does. */
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include "dev/cl.h"
#include "dev/profile.h"
#include "ops/gemm.h"
#include <clblast_c.h>

static atomic_int users; /* contexts that have used CLBlast */

void tfm__gemm_clblast_retain(tfm__gemm_state *state) {
    if (!state->clblast_used)
        atomic_fetch_add(&users, 1);
    state->clblast_used = true;
}

void tfm__gemm_clblast_release(tfm__gemm_state *state) {
    /* Its cache is one for the process and holds programs of contexts that are gone. */
    if (state->clblast_used && atomic_fetch_sub(&users, 1) == 1)
        CLBlastClearCache();
    state->clblast_used = false;
}

/* Where `batch` matrices end, each padded to CLBlast's tiles. */
static double end_of(const tfm_tensor x, int64_t batch, int64_t rows, int64_t columns) {
    const int64_t tile = 128;
    return (double)x.offset + (double)batch * (double)(tfm__divide_up(rows, tile) * tile) *
                                  (double)(tfm__divide_up(columns, tile) * tile);
}

static const char *declines(tfm_context *ctx, const tfm__gemm_task *task) {
    /* Its grids have the batch on z and an eighth of the rows that it copies on y, where some devices end at 65535. */
    const int64_t batch = task->shared_b ? 1 : task->batch, most_batch = 65535, most_rows = 8 * 65535;
    const tfm__gemm_state *state = tfm__gemm_state_of(ctx);
    /* Its ints reach the last element; of the copies that it makes too, which lie behind each other. */
    const double end = end_of(task->a, task->batch, task->m, task->k) + end_of(task->b, batch, task->k, task->n) +
                       end_of(task->c, task->batch, task->m, task->n);
    if (!tfm_context_device(ctx)->compiler)
        return "the device has no compiler, which CLBlast needs";
    if (batch > most_batch || task->m > most_rows || task->n > most_rows || task->k > most_rows || end >= INT32_MAX)
        return "CLBlast counts in 32 bits, and this is too large";
    return state ? state->clblast_trouble : NULL;
}

static tfm_status failed(tfm_context *ctx, const tfm__gemm_task *task, CLBlastStatusCode code) {
    bool memory = code == CLBlastOpenCLOutOfResources || code == CLBlastTempBufferAllocFailure ||
                  code == CLBlastOpenCLOutOfHostMemory || code == CLBlastInsufficientMemoryTemp;
    return tfm__context_fail(ctx, memory ? TFM_ERROR_MEMORY : TFM_ERROR_DEVICE,
                             "gemm: CLBlast fails with %d at m %" PRId64 ", n %" PRId64 ", k %" PRId64
                             " on %s: set TFM_GEMM=builtin%s",
                             (int)code, task->m, task->n, task->k, ctx->info.name,
                             memory ? " or use a smaller batch" : "");
}

typedef struct operands {
    CLBlastTranspose transpose_a, transpose_b;
    size_t m, n, k, a_ld, b_ld;
    size_t a_stride, b_stride, c_stride;
} operands;

static operands operands_of(const tfm__gemm_task *task) {
    operands o = {.m = (size_t)task->m, .n = (size_t)task->n, .k = (size_t)task->k};
    o.transpose_a = task->transpose_a ? CLBlastTransposeYes : CLBlastTransposeNo;
    o.transpose_b = task->transpose_b ? CLBlastTransposeYes : CLBlastTransposeNo;
    o.a_ld = task->transpose_a ? o.m : o.k;
    o.b_ld = task->transpose_b ? o.k : o.n;
    o.a_stride = o.m * o.k;
    o.b_stride = task->shared_b ? 0 : o.k * o.n;
    o.c_stride = o.m * o.n;
    return o;
}

/* What CLBlast wants besides for matrix z of the batch, where it copies operands before it multiplies. */
static size_t temporary_bytes(tfm_context *ctx, const tfm__gemm_task *task, const operands *o, size_t z) {
    size_t bytes = 0;
    const CLBlastStatusCode code = CLBlastSGemmTempBufferSize(
        CLBlastLayoutRowMajor, o->transpose_a, o->transpose_b, o->m, o->n, o->k, task->a.offset + z * o->a_stride,
        o->a_ld, task->b.offset + z * o->b_stride, o->b_ld, task->c.offset + z * o->c_stride, o->n, &ctx->queue, &bytes);
    return code == CLBlastSuccess ? bytes : 0; /* what is wrong the product says again */
}

/* One matrix of the batch, with the temporary memory from our pool instead of an allocation in each call. The queue is in
 * order, so the next matrix may have the same. */
static CLBlastStatusCode one(tfm_context *ctx, const tfm__gemm_task *task, const operands *o, size_t z, size_t bytes,
                             cl_event *event) {
    const size_t a = task->a.offset + z * o->a_stride, b = task->b.offset + z * o->b_stride;
    const size_t c = task->c.offset + z * o->c_stride;
    tfm_tensor temp = {0};
    if (bytes && tfm_tensor_new(ctx, &temp, TFM_U8, 1, (int64_t[]){(int64_t)bytes}) != TFM_OK)
        return CLBlastTempBufferAllocFailure;
    const CLBlastStatusCode code =
        CLBlastSgemmWithTempBuffer(CLBlastLayoutRowMajor, o->transpose_a, o->transpose_b, o->m, o->n, o->k, task->alpha,
                                   tfm_tensor_cl(task->a), a, o->a_ld, tfm_tensor_cl(task->b), b, o->b_ld,
                                   task->accumulate ? 1.0f : 0.0f, tfm_tensor_cl(task->c), c, o->n, &ctx->queue, event,
                                   tfm_tensor_cl(temp));
    tfm_tensor_free(ctx, &temp);
    return code;
}

/* Whether all matrices go to CLBlast in one call. */
static bool is_batched(const tfm__gemm_task *task) {
    return task->batch > 1 && !task->shared_b;
}

static CLBlastStatusCode batched(tfm_context *ctx, const tfm__gemm_task *task, const operands *o,
                                 cl_event *event) {
    return CLBlastSgemmStridedBatched(
        CLBlastLayoutRowMajor, o->transpose_a, o->transpose_b, o->m, o->n, o->k, task->alpha,
        tfm_tensor_cl(task->a), task->a.offset, o->a_ld, o->a_stride, tfm_tensor_cl(task->b), task->b.offset,
        o->b_ld, o->b_stride, task->accumulate ? 1.0f : 0.0f, tfm_tensor_cl(task->c), task->c.offset, o->n,
        o->c_stride, (size_t)task->batch, &ctx->queue, event);
}

/* `bytes`: the temporary ones of the first matrix. */
static CLBlastStatusCode multiply(tfm_context *ctx, const tfm__gemm_task *task, size_t bytes) {
    const operands o = operands_of(task);
    cl_event event = NULL, *wanted = ctx->profile ? &event : NULL;
    CLBlastStatusCode code = CLBlastSuccess;
    if (is_batched(task)) {
        code = batched(ctx, task, &o, wanted);
        if (event)
            tfm__profile_add(ctx->profile, "clblast_gemm", event, NULL);
    } else {
        for (size_t z = 0; z < (size_t)task->batch && code == CLBlastSuccess; z++, event = NULL) {
            code = one(ctx, task, &o, z, z > 0 ? temporary_bytes(ctx, task, &o, z) : bytes, wanted);
            if (event)
                tfm__profile_add(ctx->profile, "clblast_gemm", event, NULL);
        }
    }
    return code;
}

/* Tasks that CLBlast may run with other kernels: transposes, a batch, a c to add to, copies of operands. And sizes: from
 * one that differs by device on it multiplies in other ways, mostly on copies, so each octave is proven for itself. */
typedef struct class {
    uint64_t *word, bit;
} class;

static class class_of(tfm__gemm_state *state, const tfm__gemm_task *task, size_t bytes) {
    const double work = (double)task->m * (double)task->n * (double)task->k;
    const int kind = (task->transpose_a ? 1 : 0) | (task->transpose_b ? 2 : 0) | (is_batched(task) ? 4 : 0) |
                     (task->accumulate ? 8 : 0) | (bytes > 0 ? 16 : 0);
    return (class){&state->clblast_proven[kind], (uint64_t)1 << (work > 1 ? ilogb(work) & 63 : 0)};
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
static verdict compare(const float *x, const float *y, size_t count) {
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

uint64_t tfm__gemm_clblast_memory(tfm_context *ctx, const tfm__gemm_task *task) {
    const operands o = operands_of(task);
    const size_t c = sizeof(float) * (size_t)(task->batch * task->m * task->n);
    return tfm__pool_block(temporary_bytes(ctx, task, &o, 0)) + (task->accumulate ? tfm__pool_block(c) : 0) +
           tfm__pool_block(sizeof(float) * (size_t)(proven_rows(task) * task->n));
}

/* Compares `result`, the task's c as CLBlast left it, with the plain kernel. `before`: what c was, where the task adds to
 * it. */
static verdict prove(tfm_context *ctx, const tfm__gemm_task *task, tfm_tensor before) {
    const int64_t rows = proven_rows(task);
    tfm__gemm_task part = corner(task, rows);
    const tfm_tensor result = last_rows(task->c, task, rows);
    verdict v = SAY_NOTHING; /* as when memory is out */
    size_t count = tfm_tensor_count(result);
    float *x = tfm__alloc(count, sizeof(*x)), *y = tfm__alloc(count, sizeof(*y));
    part.c = (tfm_tensor){0};
    if (!x || !y)
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "gemm: out of host memory for the proof of CLBlast");
    else if (tfm_tensor_new(ctx, &part.c, TFM_F32, 2, result.dims) == TFM_OK &&
             (!task->accumulate || tfm__tensor_copy(ctx, part.c, last_rows(before, task, rows)) == TFM_OK) &&
             tfm__gemm_plain.run(ctx, &part) == TFM_OK && tfm_tensor_read(ctx, x, part.c) == TFM_OK &&
             tfm_tensor_read(ctx, y, result) == TFM_OK)
        v = compare(x, y, count);
    free(x);
    free(y);
    return v;
}

static tfm_status epilogue(tfm_context *ctx, const tfm__gemm_task *task) {
    if (!task->bias.buffer && task->activation == TFM_NO_ACTIVATION)
        return ctx->status;
    const int64_t count = task->batch * task->m * task->n;
    tfm__kernel *kernel =
        tfm__kernel_get(ctx, "gemm_plain", "gemm_epilogue", "-DTFM_ACTIVATION=%d", task->activation);
    return tfm__launch(ctx, kernel, tfm__element_grid(ctx, count),
                       TFM_ARGS(TFM_T_AS("c", task->c), TFM_T_AS("bias", task->bias), TFM_I(count),
                                TFM_I_AS("n", task->n), TFM_I_AS("has_bias", task->bias.buffer != NULL)));
}

/* A first product of its class: compared with the plain kernel's. One that adds to c works on a copy until
 * then, so that another provider may still begin anew. NULL, or why CLBlast is not to be trusted; *told: whether the
 * comparison has said that it is. */
static const char *first_of_class(tfm_context *ctx, const tfm__gemm_task *task, size_t bytes, CLBlastStatusCode *code,
                                  bool *told) {
    tfm__gemm_task trial = *task;
    if (task->accumulate) {
        /* Where c begins its block, so does the copy: CLBlast may take the one as it is, and copy the other. */
        const int64_t lead = task->c.offset > 0 ? 64 : 0, count = (int64_t)tfm_tensor_count(task->c), room = lead + count;
        tfm_tensor block = {0};
        tfm_tensor_new(ctx, &block, TFM_F32, 1, &room);
        tfm_tensor_rows(ctx, &block, block, lead, count);
        tfm_tensor_reshape(ctx, &trial.c, block, task->c.rank, task->c.dims);
        if (tfm__tensor_copy(ctx, trial.c, task->c) != TFM_OK)
            return NULL;
    }
    *code = multiply(ctx, &trial, bytes);
    if (*code != CLBlastSuccess)
        return "it failed on this device";
    const verdict v = prove(ctx, &trial, task->c);
    if (v == DIFFER)
        return "its result was wrong on this device";
    *told = v == AGREE;
    if (task->accumulate)
        tfm__tensor_copy(ctx, task->c, trial.c);
    return NULL;
}

static tfm_status run(tfm_context *ctx, const tfm__gemm_task *task) {
    tfm__gemm_state *state = tfm__gemm_state_of(ctx);
    if (!state)
        return ctx->status;
    if (tfm_scope_open(ctx) != TFM_OK)
        return ctx->status;
    tfm__gemm_clblast_retain(state);
    const char *trouble = NULL;
    CLBlastStatusCode code = CLBlastSuccess;
    const operands o = operands_of(task);
    const size_t bytes = temporary_bytes(ctx, task, &o, 0); /* of a batch it says the same, but it has its own */
    const class own = class_of(state, task, bytes);
    const bool first = !(*own.word & own.bit);
    bool told = false;
    if (first)
        trouble = first_of_class(ctx, task, bytes, &code, &told);
    else if ((code = multiply(ctx, task, bytes)) != CLBlastSuccess)
        trouble = "it failed on this device";
    /* What was added to c in part cannot be begun anew. */
    const bool final = state->mode == TFM__GEMM_CLBLAST || (task->accumulate && !first);
    if (code != CLBlastSuccess && final && ctx->status == TFM_OK)
        failed(ctx, task, code);
    else if (told)
        *own.word |= own.bit;
    tfm_scope_close(ctx, 0, NULL);
    if (ctx->status != TFM_OK)
        return ctx->status;
    if (!trouble)
        return epilogue(ctx, task);
    state->clblast_trouble = trouble;
    tfm__log(TFM_LOG_WARNING,
             "CLBlast is not used on %s any more, for %s (%d) at m %" PRId64 ", n %" PRId64 ", k %" PRId64
             ": going on with the library's own kernels, as TFM_GEMM=builtin does",
             ctx->info.name, trouble, (int)code, task->m, task->n, task->k);
    return tfm__gemm_builtin(ctx, task)->run(ctx, task);
}

const tfm__gemm_provider tfm__gemm_clblast = {"clblast", declines, run};
