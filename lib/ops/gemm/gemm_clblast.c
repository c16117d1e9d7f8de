/* CLBlast as a provider: its GEMM, then our epilogue for bias and activation. CLBlast 1.5.3 is silently wrong on some
 * devices, so the first result of each class of tasks in a context is compared with the reference kernel. After one
 * mismatch, or one failure unless TFM_GEMM selects CLBlast, the context stops using it. Verdicts are not stored: the
 * next run may load another version of the library. This is the only file outside lib/dev that calls OpenCL, because
 * CLBlast's interface does. */
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include "dev/device/context_internal.h"
#include "dev/pocl/launch_order.h"
#include "dev/launch/profile.h"
#include "ops/gemm/gemm.h"
#include "ops/gemm/kernel_validation.h"
#include <clblast_c.h>

static atomic_int users; /* contexts that have used CLBlast */

/* Classes of tasks that CLBlast may run with different kernels: transposes, batch, accumulation, operand copies with
 * their temporary memory, and sizes. CLBlast switches algorithms at a size that differs by device, so each octave of
 * sizes is compared separately. */
enum { KINDS = 1 << 5, OCTAVES = 64 };

typedef struct state {
    unsigned char verdicts[KINDS][OCTAVES];
    const char *why; /* why this context stopped using it, or NULL */
} state;

/* Their addresses are the keys of the context's state, and of the mark that it has used CLBlast. */
static char STATE, USED;

static state *state_of(tfm_context *ctx) {
    return tfm__context_storage_get_or_create(ctx, &STATE, sizeof(state));
}

/* CLBlast's cache is process-wide, and holds programs of released contexts. */
static void release(void *data) {
    (void)data;
    if (atomic_fetch_sub(&users, 1) == 1)
        CLBlastClearCache();
}

static tfm_status use(tfm_context *ctx) {
    if (tfm__context_storage_get(ctx, &USED))
        return ctx->status;
    atomic_fetch_add(&users, 1);
    return tfm__context_storage_set(ctx, &USED, &USED, release);
}

/* End of `batch` matrices, each padded to CLBlast's tiles. */
static double end_of(const tfm_tensor x, int64_t batch, int64_t rows, int64_t columns) {
    const int64_t tile = 128;
    return (double)x.offset +
           (double)batch * (double)(tfm__ceil_div(rows, tile) * tile) * (double)(tfm__ceil_div(columns, tile) * tile);
}

static const char *declines(tfm_context *ctx, const tfm__gemm_task *task) {
    /* Its grids put the batch on z and an eighth of the copied rows on y; some devices limit both to 65535. */
    const int64_t batch = task->shared_b ? 1 : task->batch, most_batch = 65535, most_rows = 8 * 65535;
    /* Whether its 32-bit indices reach the last element, also in the batch of padded copies. */
    const double end = end_of(task->a, task->batch, task->m, task->k) + end_of(task->b, batch, task->k, task->n) +
                       end_of(task->c, task->batch, task->m, task->n);
    if (tfm__context_build_restriction(ctx))
        return tfm__context_build_restriction(ctx);
    if (task->b.dtype != TFM_F32)
        return "it is for fp32, and b is of 16 bits";
    if (batch > most_batch || task->m > most_rows || task->n > most_rows || task->k > most_rows || end >= INT32_MAX)
        return "CLBlast counts in 32 bits, and this is too large";
    const state *s = state_of(ctx);
    return s ? s->why : NULL;
}

static tfm_status failed(tfm_context *ctx, const tfm__gemm_task *task, CLBlastStatusCode code) {
    /* Codes above -1000 are OpenCL's, except -4, which CLBlast returns if memory for its copies is short. */
    const tfm_status status =
        code == CLBlastInsufficientMemoryTemp ? TFM_ERROR_MEMORY : tfm__cl_status(ctx, (cl_int)code);
    return tfm__fail(status, "gemm: CLBlast fails with %d at m %" PRId64 ", n %" PRId64 ", k %" PRId64 " on %s%s",
                     (int)code, task->m, task->n, task->k, ctx->info.name,
                     status == TFM_ERROR_MEMORY ? "" : tfm__cl_advice(status, (cl_int)code));
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

/* Temporary memory of CLBlast for matrix z of the batch, for operand copies. */
static size_t temporary_bytes(tfm_context *ctx, const tfm__gemm_task *task, const operands *o, size_t z) {
    size_t bytes = 0;
    const CLBlastStatusCode code =
        CLBlastSGemmTempBufferSize(CLBlastLayoutRowMajor, o->transpose_a, o->transpose_b, o->m, o->n, o->k,
                                   task->a.offset + z * o->a_stride, o->a_ld, task->b.offset + z * o->b_stride, o->b_ld,
                                   task->c.offset + z * o->c_stride, o->n, &ctx->queue, &bytes);
    return code == CLBlastSuccess ? bytes : 0; /* ignored: the GEMM call reports the same error */
}

/* Runs one matrix of the batch with temporary memory from our pool, which avoids an allocation in each call. The queue
 * is in order, so the next matrix can reuse it. */
static CLBlastStatusCode one(tfm_context *ctx, const tfm__gemm_task *task, const operands *o, size_t z, size_t bytes,
                             cl_event *event) {
    const size_t a = task->a.offset + z * o->a_stride, b = task->b.offset + z * o->b_stride;
    const size_t c = task->c.offset + z * o->c_stride;
    tfm_tensor temp = {0};
    if (bytes && tfm_tensor_new(ctx, &temp, TFM_U8, 1, (int64_t[]){(int64_t)bytes}) != TFM_OK)
        return CLBlastTempBufferAllocFailure;
    const CLBlastStatusCode code = CLBlastSgemmWithTempBuffer(
        CLBlastLayoutRowMajor, o->transpose_a, o->transpose_b, o->m, o->n, o->k, task->alpha, tfm_tensor_cl(task->a), a,
        o->a_ld, tfm_tensor_cl(task->b), b, o->b_ld, task->accumulate ? 1.0f : 0.0f, tfm_tensor_cl(task->c), c, o->n,
        &ctx->queue, event, tfm_tensor_cl(temp));
    tfm_tensor_free(ctx, &temp);
    return code;
}

static CLBlastStatusCode batched(tfm_context *ctx, const tfm__gemm_task *task, const operands *o, cl_event *event) {
    return CLBlastSgemmStridedBatched(CLBlastLayoutRowMajor, o->transpose_a, o->transpose_b, o->m, o->n, o->k,
                                      task->alpha, tfm_tensor_cl(task->a), task->a.offset, o->a_ld, o->a_stride,
                                      tfm_tensor_cl(task->b), task->b.offset, o->b_ld, o->b_stride,
                                      task->accumulate ? 1.0f : 0.0f, tfm_tensor_cl(task->c), task->c.offset, o->n,
                                      o->c_stride, (size_t)task->batch, &ctx->queue, event);
}

/* `bytes`: temporary memory of the first matrix. */
static CLBlastStatusCode call_clblast(tfm_context *ctx, const tfm__gemm_task *task, size_t bytes) {
    const operands o = operands_of(task);
    cl_event event = NULL, *wanted = ctx->profile ? &event : NULL;
    CLBlastStatusCode code = CLBlastSuccess;
    if (task->batch > 1 && !task->shared_b) { /* all in one call */
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

/* CLBlast reports the same for a batch, but allocates the memory itself. */
static uint64_t copies_memory(tfm_context *ctx, const tfm__gemm_task *task) {
    const operands o = operands_of(task);
    const size_t bytes = temporary_bytes(ctx, task, &o, 0);
    return bytes > 0 ? tfm__pool_block_bytes(bytes) : 0;
}

/* A failure inside CLBlast leaves the context unchanged, with the message in the thread's error. */
static tfm_status run(tfm_context *ctx, const tfm__gemm_task *task, uint64_t bytes) {
    if (use(ctx) != TFM_OK)
        return ctx->status;
    tfm__queue(ctx); /* launches what comes before */
    const tfm__pocl_order order = tfm__pocl_begin_external(ctx);
    const CLBlastStatusCode code = call_clblast(ctx, task, (size_t)bytes);
    const cl_int waited = order == TFM__POCL_EXCLUSIVE ? clFinish(ctx->queue) : CL_SUCCESS;
    tfm__pocl_end(order, true);
    if (waited != CL_SUCCESS)
        return tfm__cl_fail_wait(ctx, waited, "gemm: CLBlast's kernels");
    if (ctx->status != TFM_OK)
        return ctx->status;
    return code == CLBlastSuccess ? tfm__gemm_epilogue(ctx, task) : failed(ctx, task, code);
}

/* ---- Validation ---- */

/* The lower right corner of the batch's last matrix, where padding and strides go wrong, as a task with a separate c
 * and no epilogue. */
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

/* The rows of c, or of a tensor like it, that `corner` covers. */
static tfm_tensor last_rows(tfm_tensor c, const tfm__gemm_task *task, int64_t rows) {
    c.offset += (size_t)((task->batch * task->m - rows) * task->n);
    c.rank = 2;
    c.dims[0] = rows;
    c.dims[1] = task->n;
    return c;
}

/* Zeros, and entries that are non-finite in both, prove nothing. */
static tfm__verdict compare_numbers(const float *x, const float *y, size_t count) {
    double difference = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(x[i]) || !isfinite(y[i])) {
            if (isfinite(x[i]) != isfinite(y[i]))
                return TFM__WRONG;
            continue;
        }
        difference += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
        norm += (double)x[i] * x[i];
    }
    return difference > 1e-6 * norm ? TFM__WRONG : norm > 0 ? TFM__VALID : TFM__UNTESTED;
}

/* Number of compared last rows of c: a transposed a has no row stride parameter, so it is compared whole. */
static int64_t compared_rows(const tfm__gemm_task *task) {
    return task->transpose_a || task->m < 64 ? task->m : 64;
}

/* Temporary pool memory of a comparison, in bytes. */
static uint64_t comparison_memory(const tfm__gemm_task *task) {
    const uint64_t c = sizeof(float) * (uint64_t)(task->batch * task->m * task->n);
    return (task->accumulate ? tfm__pool_block_bytes(c) : 0) +
           tfm__pool_block_bytes(sizeof(float) * (uint64_t)(compared_rows(task) * task->n));
}

/* Compares `result`, the provider's c, with the reference kernel. `before`: the previous c, if the task accumulates. */
static tfm__verdict compare_corner(tfm_context *ctx, const tfm__gemm_task *task, tfm_tensor before) {
    const int64_t rows = compared_rows(task);
    tfm__gemm_task part = corner(task, rows);
    const tfm_tensor result = last_rows(task->c, task, rows);
    tfm__verdict v = TFM__UNTESTED; /* for example out of memory */
    size_t count = tfm_tensor_count(result);
    float *x = tfm__alloc(count, sizeof(*x)), *y = tfm__alloc(count, sizeof(*y));
    part.c = (tfm_tensor){0};
    if (!x || !y)
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "gemm: out of host memory to compare the result of CLBlast");
    else if (tfm_tensor_new(ctx, &part.c, TFM_F32, 2, result.dims) == TFM_OK &&
             (!task->accumulate || tfm__tensor_copy(ctx, part.c, last_rows(before, task, rows)) == TFM_OK) &&
             tfm__gemm_reference.multiply(ctx, &part) == TFM_OK && tfm_tensor_read(ctx, x, part.c) == TFM_OK &&
             tfm_tensor_read(ctx, y, result) == TFM_OK)
        v = compare_numbers(x, y, count);
    free(x);
    free(y);
    return v;
}

enum { WHAT = 512 };

/* The first GEMM of its class. */
typedef struct first {
    const tfm__gemm_task *task;
    uint64_t bytes;
    tfm_status *status; /* CLBlast's status */
    char *what;         /* [WHAT]: sizes, or CLBlast's error, for the log */
} first;

/* Runs CLBlast without the epilogue and compares the result with the reference kernel. An accumulating task runs on a
 * copy of c, so that another provider can still start from the original. */
static tfm__verdict compare(tfm_context *ctx, const void *form) {
    const first *f = form;
    const tfm__gemm_task *task = f->task;
    tfm__gemm_task trial = *task;
    trial.bias = (tfm_tensor){0};
    trial.activation = TFM_NO_ACTIVATION;
    if (task->accumulate) {
        /* The copy starts at a block's begin only if c does: CLBlast may use an aligned operand in place and copy
         * another. */
        const int64_t lead = task->c.offset > 0 ? 64 : 0, count = (int64_t)tfm_tensor_count(task->c),
                      room = lead + count;
        tfm_tensor block = {0};
        tfm_tensor_new(ctx, &block, TFM_F32, 1, &room);
        tfm_tensor_rows(ctx, &block, block, lead, count);
        tfm_tensor_reshape(ctx, &trial.c, block, task->c.rank, task->c.dims);
        if (tfm__tensor_copy(ctx, trial.c, task->c) != TFM_OK)
            return TFM__UNTESTED;
    }
    *f->status = run(ctx, &trial, f->bytes);
    if (*f->status != TFM_OK) {
        const size_t used = strlen(f->what);
        snprintf(f->what + used, WHAT - used, ": %s", tfm_error_message());
        return TFM__NOT_BUILT;
    }
    const tfm__verdict v = compare_corner(ctx, &trial, task->c);
    if (v != TFM__WRONG && task->accumulate)
        tfm__tensor_copy(ctx, task->c, trial.c);
    if (v != TFM__WRONG)
        tfm__gemm_epilogue(ctx, task);
    return v;
}

static const char *describe(tfm__verdict v) {
    static const char *const WHY[TFM__VERDICTS] = {
        [TFM__WRONG] = "the result of CLBlast was wrong", [TFM__NOT_BUILT] = "CLBlast failed"};
    return WHY[v];
}

static unsigned char *verdict_of(state *s, const tfm__gemm_task *task, uint64_t bytes) {
    const double work = (double)task->m * (double)task->n * (double)task->k;
    const int kind = (task->transpose_a ? 1 : 0) | (task->transpose_b ? 2 : 0) |
                     (task->batch > 1 && !task->shared_b ? 4 : 0) | (task->accumulate ? 8 : 0) | (bytes > 0 ? 16 : 0);
    return &s->verdicts[kind][work > 1 ? ilogb(work) & (OCTAVES - 1) : 0];
}

/* ---- The provider ---- */

static tfm_status multiply(tfm_context *ctx, const tfm__gemm_task *task) {
    state *s = state_of(ctx);
    const uint64_t bytes = copies_memory(ctx, task);
    unsigned char *known = s ? verdict_of(s, task, bytes) : NULL;
    tfm_status status = TFM_OK;
    char what[WHAT];
    if (!known)
        return tfm_context_status(ctx);
    if (*known == TFM__VALID) {
        status = run(ctx, task, bytes);
        if (status != TFM_OK && ctx->status == TFM_OK && task->accumulate) /* c is partly updated */
            tfm__context_fail(ctx, status, "%s: set TFM_GEMM=builtin%s", tfm_error_message(),
                              status == TFM_ERROR_MEMORY ? " or use a smaller batch" : "");
        if (status != TFM_OK && ctx->status == TFM_OK) {
            s->why = describe(TFM__NOT_BUILT);
            tfm__log(TFM_LOG_WARNING, "%s: %s (%s): continuing without it, as TFM_GEMM=builtin does", ctx->info.name,
                     s->why, tfm_error_message());
        }
        return status;
    }
    snprintf(what, sizeof(what), "m %" PRId64 ", n %" PRId64 ", k %" PRId64, task->m, task->n, task->k);
    const first f = {task, bytes, &status, what};
    const tfm__verdict v = tfm__validate(ctx, known,
                                         &(tfm__validation){.what = what,
                                                            .without = "it, as TFM_GEMM=builtin does",
                                                            .describe = describe,
                                                            .compare = compare,
                                                            .form = &f});
    if (ctx->status != TFM_OK)
        return ctx->status;
    s->why = describe(v);
    return status != TFM_OK ? status : s->why ? TFM__GEMM_DECLINED : TFM_OK;
}

static uint64_t memory(tfm_context *ctx, const tfm__gemm_task *task) {
    return copies_memory(ctx, task) + comparison_memory(task);
}

const tfm__gemm_provider tfm__gemm_clblast = {
    .name = "clblast",
    .declines = declines,
    .multiply = multiply,
    .memory = memory,
    .external = true,
};
