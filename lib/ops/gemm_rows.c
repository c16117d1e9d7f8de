/* Linear layers of few rows where work-items run side by side: cl/gemm_rows.cl. One product is a provider of products;
 * several of one input, with the norm before them, are tfm__linears. */
#include "ops/linears.h"
#include <stdio.h>
#include <string.h>
#include "ops/gemm.h"

enum { LANES = 32, TEAMS = 4, ITEMS = LANES * TEAMS, MOST_JOINED = 3, MOST_ROWS = 8 };
_Static_assert(MOST_JOINED == TFM__GEMM_JOINED, "what one launch takes here it may take elsewhere");
enum { LARGE = 16 << 20 }; /* bytes of a weight that most caches do not hold until the next rows come */

/* Bytes of local memory of a group of so many rows. */
static size_t local_bytes(int rows, int64_t width, bool normed) {
    const size_t sums = (size_t)rows * 4 * (ITEMS + 1), norm = normed ? (size_t)rows * (size_t)width + ITEMS : 0;
    return sizeof(float) * (sums > norm ? sums : norm);
}

/* Rows of a group: as many as there are, and as fit half of local memory, so that two groups share a core. 0: not even
 * one does. */
static int rows_of(tfm_context *ctx, int64_t m, int64_t k, bool normed) {
    int rows = MOST_ROWS;
    while (rows > 1 && rows / 2 >= m)
        rows /= 2;
    while (rows > 0 && local_bytes(rows, k, normed) > tfm__context_limits(ctx)->local_bytes / (normed ? 1 : 2))
        rows /= 2;
    return rows;
}

/* Teams that share their columns: a group more or two for each compute unit that would have none, as long as each item
 * of a team has four numbers of a line to read. They meet in local memory, so it takes no launch more. */
static int parts_of(tfm_context *ctx, int64_t groups, int64_t k) {
    const int64_t units = tfm_context_device(ctx)->compute_units;
    int parts = 1;
    while (parts < TEAMS && groups * parts < units && 2 * parts * LANES * 4 <= k)
        parts *= 2;
    return parts;
}

static bool by_fours(const tfm_tensor x) {
    return x.offset % 4 == 0;
}

static const char *declines(tfm_context *ctx, const tfm__gemm_task *task) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    const tfm__limits *limits = tfm__context_limits(ctx);
    if (tuning->class != TFM__SIMT)
        return "the device vectorises what one work-item says";
    if (task->m > tuning->gemm_few_rows)
        return "it is for few rows";
    if (task->m > MOST_ROWS && task->k * task->n * (int64_t)tfm_dtype_size(task->b.dtype) > LARGE)
        return "it would read a large weight several times";
    if (task->batch > 1 || task->transpose_a || !task->transpose_b || task->accumulate || task->alpha != 1)
        return "it is for linear layers alone";
    if (task->k < 4 || task->k % 4 != 0 || task->k * task->n > INT32_MAX || !by_fours(task->a) || !by_fours(task->b))
        return "it reads four numbers at a time, of weights with fewer than 2^31";
    if (limits->max_group < ITEMS || limits->max_items[0] < ITEMS || rows_of(ctx, task->m, task->k, false) == 0)
        return "the device's work-groups or local memory are too small";
    return NULL;
}

/* One launch. Products that there are not have no columns; nor has a gate, whose product is no result by itself. */
typedef struct launch {
    tfm_tensor c[MOST_JOINED], w[MOST_JOINED], bias[MOST_JOINED];
    int64_t n[MOST_JOINED];
    tfm_dtype stored; /* of all of w */
    tfm_dtype kept;   /* of those of c that are not F32 */
    tfm_tensor a, residual, gamma, beta, sum, normed;
    int64_t m, k;
    int norm; /* 0 for none, 1 layer, 2 root mean square */
    bool gated;
    float epsilon;
    tfm_activation activation;
} launch;

static int64_t blocks_of(const launch *l, int64_t columns) {
    int64_t blocks = 0;
    for (int i = 0; i < MOST_JOINED; i++)
        blocks += tfm__divide_up(l->n[i], columns);
    return blocks;
}

static tfm_status enqueue(tfm_context *ctx, const launch *l) {
    const int rows = rows_of(ctx, l->m, l->k, l->norm != 0);
    const int64_t columns = (l->gated ? 2 : 4) * TEAMS, row_blocks = tfm__divide_up(l->m, rows);
    const int parts = parts_of(ctx, blocks_of(l, columns) * row_blocks, l->k);
    const int64_t groups = blocks_of(l, columns / parts) * row_blocks;
    unsigned kept = 0;
    char define[24] = "", split[24] = "";
    for (int i = 0; i < MOST_JOINED; i++)
        kept |= (unsigned)tfm__is_kept(l->c[i]) << i;
    if (kept)
        snprintf(define, sizeof(define), " -DKEPT=%u", kept);
    if (parts > 1)
        snprintf(split, sizeof(split), " -DPARTS=%d", parts);
    tfm__kernel *kernel =
        tfm__kernel_get(ctx, "gemm_rows", "gemm_rows", "-DROWS=%d -DNORMED=%d -DWIDTH=%d -DTFM_ACTIVATION=%d%s%s%s%s%s",
                        rows, l->norm, l->norm ? (int)l->k : 4, (int)l->activation, define, split,
                        l->gated ? " -DGATED=1" : "", tfm__stored_define(l->stored), tfm__kept_define(l->kept));
    return tfm__launch(ctx, kernel, TFM__GRID_1D((size_t)groups * ITEMS, ITEMS),
                       TFM__ARGS(TFM__T_AS("c0", l->c[0]), TFM__T_AS("c1", l->c[1]), TFM__T_AS("c2", l->c[2]),
                                 TFM__T_AS("w0", l->w[0]), TFM__T_AS("w1", l->w[1]), TFM__T_AS("w2", l->w[2]),
                                 TFM__T_AS("bias0", l->bias[0]), TFM__T_AS("bias1", l->bias[1]),
                                 TFM__T_AS("bias2", l->bias[2]), TFM__I_AS("n0", l->n[0]), TFM__I_AS("n1", l->n[1]),
                                 TFM__I_AS("n2", l->n[2]), TFM__T_AS("a", l->a), TFM__T_AS("residual", l->residual),
                                 TFM__T_AS("gamma", l->gamma), TFM__T_AS("beta", l->beta), TFM__T_AS("sum", l->sum),
                                 TFM__T_AS("normed", l->normed), TFM__I_AS("m", l->m), TFM__I_AS("k", l->k),
                                 TFM__F_AS("epsilon", l->epsilon)));
}

static tfm_status run(tfm_context *ctx, const tfm__gemm_task *task) {
    return enqueue(ctx, &(launch){.c = {task->c},
                                  .w = {task->b},
                                  .bias = {task->bias},
                                  .n = {task->n},
                                  .stored = task->b.dtype,
                                  .a = task->a,
                                  .m = task->m,
                                  .k = task->k,
                                  .activation = task->activation});
}

const tfm__gemm_provider tfm__gemm_rows = {.name = "rows", .declines = declines, .run = run, .joins = true};

/* ---- Several ---- */

static tfm_status norm(tfm_context *ctx, tfm_tensor *y, const tfm__linears_input *in) {
    return in->root_mean_square ? tfm_rmsnorm(ctx, y, in->sum, in->x, in->residual, in->gamma, -1, in->epsilon)
                                : tfm_layernorm(ctx, y, in->sum, in->x, in->residual, in->gamma, in->beta, in->epsilon);
}

static tfm_status one_by_one(tfm_context *ctx, const tfm__linears_input *in, int count, const tfm__linear_output *out,
                             tfm_activation activation) {
    tfm_tensor own = {0}, *x = in->norm ? in->norm : &own;
    tfm_tensor *kept[MOST_JOINED + 2] = {in->norm ? in->norm : &own, in->sum ? in->sum : &own};
    tfm_scope_open(ctx);
    if (in->normed)
        norm(ctx, x, in);
    const bool joined = tfm__linears_joined(ctx, in->normed ? *x : in->x, count, out, activation);
    for (int i = 0; i < count; i++) {
        kept[2 + i] = out[i].y;
        if (joined)
            continue;
        tfm_tensor wide = {0};
        const bool narrow = out[i].y && tfm__is_kept(*out[i].y);
        tfm_linear(ctx, narrow ? &wide : out[i].y, in->normed ? *x : in->x, out[i].weight, out[i].bias, activation);
        if (narrow) {
            tfm__keep(ctx, *out[i].y, wide);
            tfm_tensor_free(ctx, &wide);
        }
    }
    if (!in->norm)
        tfm_tensor_free(ctx, &own);
    return tfm_scope_close(ctx, (size_t)count + 2, kept);
}

/* The launch of all, checked as the ops that it stands for check; false where they are to run instead. */
static bool plan(tfm_context *ctx, launch *l, const tfm__linears_input *in, int count, const tfm__linear_output *out,
                 tfm_activation activation) {
    const tfm_tensor *params[] = {&in->gamma, &in->beta, &in->residual, &in->x};
    if (tfm_context_status(ctx) != TFM_OK || !in->x.buffer || (in->sum && !by_fours(*in->sum)) ||
        (in->norm && !by_fours(*in->norm)) || TFM__TAPE_WANTS(ctx, in->x, in->residual, in->gamma, in->beta))
        return false;
    for (size_t i = 0; i < TFM__COUNT(params); i++)
        if (!by_fours(*params[i]) || (params[i]->buffer && tfm__last_dim(*params[i]) != tfm__last_dim(in->x)))
            return false;
    if (in->residual.buffer && (!in->normed || !tfm__same_dims(in->residual, in->x)))
        return false;
    *l = (launch){.a = in->x, .m = tfm__row_count(in->x), .k = tfm__last_dim(in->x), .activation = activation};
    if (in->normed) {
        l->norm = in->root_mean_square ? 2 : 1;
        l->residual = in->residual;
        l->gamma = in->gamma;
        l->beta = in->beta;
        l->epsilon = in->epsilon;
    }
    for (int i = 0; i < count; i++) {
        const tfm_tensor w = out[i].weight->value, bias = out[i].bias;
        const tfm_dtype kept = out[i].y && tfm__is_kept(*out[i].y) ? out[i].y->dtype : l->kept;
        if (l->kept != TFM_F32 && kept != l->kept)
            return false;
        l->kept = kept;
        if (!w.buffer || w.dtype > TFM_BF16 || w.dtype != out[0].weight->value.dtype || w.rank != 2 ||
            w.dims[1] != l->k || TFM__TAPE_WANTS(ctx, w, bias) ||
            (bias.buffer && (bias.rank != 1 || bias.dims[0] != w.dims[0])))
            return false;
        l->w[i] = w;
        l->bias[i] = bias;
        l->n[i] = w.dims[0];
        if (tfm__gemm_choose(ctx, &(tfm__gemm_task){.batch = 1,
                                                    .m = l->m,
                                                    .n = l->n[i],
                                                    .k = l->k,
                                                    .a = in->x,
                                                    .b = w,
                                                    .bias = bias,
                                                    .transpose_b = true,
                                                    .shared_b = true,
                                                    .alpha = 1,
                                                    .activation = activation,
                                                    .weight = out[i].weight}) != &tfm__gemm_rows)
            return false;
    }
    l->stored = out[0].weight->value.dtype;
    return rows_of(ctx, l->m, l->k, in->normed) > 0;
}

/* Makes the outputs of a launch for `count` layers, of which those of a gate have none, and enqueues it. */
static tfm_status run_joined(tfm_context *ctx, launch *l, const tfm__linears_input *in, int count,
                             const tfm__linear_output *out) {
    const char *op = "linears";
    if (TFM__OP_BEGIN(ctx, op, "fFFF", in->x, l->residual, l->gamma, l->beta) != TFM_OK)
        return tfm_context_status(ctx);
    for (int i = 0; i < count; i++) {
        int64_t dims[TFM_MAX_RANK];
        memcpy(dims, in->x.dims, sizeof(dims));
        dims[in->x.rank - 1] = l->n[i];
        if (TFM__OP_BEGIN(ctx, op, "hF", l->w[i], l->bias[i]) != TFM_OK)
            return tfm_context_status(ctx);
        if (l->n[i] == 0)
            continue;
        const tfm_dtype dtype = out[i].y && tfm__is_kept(*out[i].y) ? out[i].y->dtype : TFM_F32;
        if (tfm__op_output(ctx, op, out[i].y, dtype, in->x.rank, dims) != TFM_OK ||
            TFM__OP_APART(ctx, op, *out[i].y, in->x, l->residual, l->w[i], l->bias[i]) != TFM_OK)
            return tfm_context_status(ctx);
        l->c[i] = *out[i].y;
    }
    tfm_tensor *more[] = {in->normed ? in->sum : NULL, in->normed ? in->norm : NULL}, *to[] = {&l->sum, &l->normed};
    for (int i = 0; i < 2; i++) {
        if (!more[i])
            continue;
        if (tfm__op_output_like(ctx, op, more[i], in->x) != TFM_OK ||
            TFM__OP_APART(ctx, op, *more[i], in->x, l->residual, l->gamma, l->beta) != TFM_OK)
            return tfm_context_status(ctx);
        *to[i] = *more[i];
    }
    return enqueue(ctx, l);
}

tfm_status tfm__linears(tfm_context *ctx, const tfm__linears_input *in, int count, const tfm__linear_output *out,
                        tfm_activation activation) {
    launch l;
    if (count > MOST_JOINED)
        return tfm__op_refuse(ctx, "linears", "%d layers of one input are asked for: %d are the most", count,
                              MOST_JOINED);
    if (!plan(ctx, &l, in, count, out, activation) || (!in->normed && count == 1))
        return one_by_one(ctx, in, count, out, activation);
    return run_joined(ctx, &l, in, count, out);
}

tfm_status tfm__linears_gated(tfm_context *ctx, const tfm__linears_input *in, tfm_tensor *y, tfm__linear_output up,
                              tfm__linear_output gate, tfm_activation activation) {
    launch l;
    tfm_tensor values = {0}, gates = {0};
    if (plan(ctx, &l, in, 2, (tfm__linear_output[]){up, gate}, TFM_NO_ACTIVATION) && l.n[0] == l.n[1]) {
        l.gated = true;
        l.activation = activation;
        l.n[1] = 0;
        up.y = y;
        return run_joined(ctx, &l, in, 2, (tfm__linear_output[]){up, gate});
    }
    up.y = &values;
    gate.y = &gates;
    tfm_scope_open(ctx);
    one_by_one(ctx, in, 2, (tfm__linear_output[]){up, gate}, TFM_NO_ACTIVATION);
    tfm_glu(ctx, y, values, gates, activation, TFM_GLU_GATE_FIRST);
    return tfm_scope_close(ctx, 3, (tfm_tensor *[]){y, in->sum, in->norm}); /* NULL is none */
}
