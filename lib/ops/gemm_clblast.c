/* CLBlast as a provider: its GEMM, then our epilogue for bias and activation. CLBlast 1.5.3 is silently wrong on some
 * devices, so it must be proven (gemm_proof.c). This is the only file outside lib/dev that speaks OpenCL: CLBlast's
 * interface does. */
#include <inttypes.h>
#include <stdatomic.h>
#include "dev/cl.h"
#include "dev/pocl_launch.h"
#include "dev/profile.h"
#include "ops/gemm.h"
#include <clblast_c.h>

static atomic_int users; /* contexts that have used CLBlast */

/* Its address is the key under which a context that has used CLBlast says so. */
static char SLOT;

/* CLBlast's cache is one for the process, and holds programs of contexts that are gone. */
static void release(void *data) {
    (void)data;
    if (atomic_fetch_sub(&users, 1) == 1)
        CLBlastClearCache();
}

static tfm_status use(tfm_context *ctx) {
    if (tfm__context_slot(ctx, &SLOT))
        return ctx->status;
    atomic_fetch_add(&users, 1);
    return tfm__context_set_slot(ctx, &SLOT, &SLOT, release);
}

/* Where `batch` matrices end, each padded to CLBlast's tiles. */
static double end_of(const tfm_tensor x, int64_t batch, int64_t rows, int64_t columns) {
    const int64_t tile = 128;
    return (double)x.offset +
           (double)batch * (double)(tfm__divide_up(rows, tile) * tile) * (double)(tfm__divide_up(columns, tile) * tile);
}

static const char *declines(tfm_context *ctx, const tfm__gemm_task *task) {
    /* Its grids have the batch on z and an eighth of the rows that it copies on y, where some devices end at 65535. */
    const int64_t batch = task->shared_b ? 1 : task->batch, most_batch = 65535, most_rows = 8 * 65535;
    /* Its ints reach the last element; of the copies that it makes too, which lie one after the other. */
    const double end = end_of(task->a, task->batch, task->m, task->k) + end_of(task->b, batch, task->k, task->n) +
                       end_of(task->c, task->batch, task->m, task->n);
    if (tfm__context_closed(ctx))
        return tfm__context_closed(ctx);
    if (task->b.dtype != TFM_F32)
        return "it is for fp32, and b is of 16 bits";
    if (batch > most_batch || task->m > most_rows || task->n > most_rows || task->k > most_rows || end >= INT32_MAX)
        return "CLBlast counts in 32 bits, and this is too large";
    return NULL;
}

static tfm_status failed(tfm_context *ctx, const tfm__gemm_task *task, CLBlastStatusCode code) {
    /* Its codes above -1000 are OpenCL's, but for -4, which it calls want of memory for its copies. */
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

/* What CLBlast wants besides for matrix z of the batch, where it copies operands before it multiplies. */
static size_t temporary_bytes(tfm_context *ctx, const tfm__gemm_task *task, const operands *o, size_t z) {
    size_t bytes = 0;
    const CLBlastStatusCode code =
        CLBlastSGemmTempBufferSize(CLBlastLayoutRowMajor, o->transpose_a, o->transpose_b, o->m, o->n, o->k,
                                   task->a.offset + z * o->a_stride, o->a_ld, task->b.offset + z * o->b_stride, o->b_ld,
                                   task->c.offset + z * o->c_stride, o->n, &ctx->queue, &bytes);
    return code == CLBlastSuccess ? bytes : 0; /* what is wrong the product says again */
}

/* One matrix of the batch, with the temporary memory from our pool instead of an allocation in each call. The queue is
 * in order, so the next matrix may have the same. */
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

/* `bytes`: the temporary ones of the first matrix. */
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

static tfm_status multiply(tfm_context *ctx, const tfm__gemm_task *task) {
    if (use(ctx) != TFM_OK)
        return ctx->status;
    const tfm__pocl_turn turn = tfm__pocl_begin_unseen(ctx);
    const CLBlastStatusCode code = call_clblast(ctx, task, (size_t)task->scratch);
    const cl_int waited = turn == TFM__POCL_ALONE ? clFinish(ctx->queue) : CL_SUCCESS;
    tfm__pocl_end(turn, true);
    if (waited != CL_SUCCESS)
        return tfm__cl_fail_wait(ctx, waited, "gemm: CLBlast's kernels");
    if (ctx->status != TFM_OK)
        return ctx->status;
    return code == CLBlastSuccess ? tfm__gemm_epilogue(ctx, task) : failed(ctx, task, code);
}

/* Of a batch it says the same, but then CLBlast has its own. */
static uint64_t memory(tfm_context *ctx, const tfm__gemm_task *task) {
    const operands o = operands_of(task);
    const size_t bytes = temporary_bytes(ctx, task, &o, 0);
    return bytes > 0 ? tfm__pool_block(bytes) : 0;
}

const tfm__gemm_provider tfm__gemm_clblast = {
    .name = "clblast",
    .declines = declines,
    .multiply = multiply,
    .memory = memory,
    .must_prove = true,
};
