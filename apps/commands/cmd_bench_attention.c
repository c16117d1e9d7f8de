/* tfm bench attention: fused attention of every variant, compared with the rate of a large GEMM. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "bench/bench.h"
#include "tfm/tape.h"
#include <tfm/ops.h>
#include <tfm/tape.h>

typedef struct shape {
    int64_t batch, heads, targets, sources, width; /* B, H, T, S, D */
    bool causal, backward;
    char name[64];
} shape;

/* Attention, or with a weight the GEMM that it is compared with. With gradients, backward too. */
typedef struct task {
    tfm_context *ctx;
    tfm_tensor y, q, k, v;
    tfm_tensor gradients[3], dy; /* of q, k and v, and of y */
    tfm_attention_options options;
    tfm_param weight;
} task;

/* Gradients accumulate over the runs, as over micro-batches. */
static void forward_backward(task *t) {
    const tfm_tensor inputs[] = {t->q, t->k, t->v};
    tfm_tensor y = {0};
    tfm_scope_open(t->ctx);
    tfm_tape_start(t->ctx);
    for (size_t i = 0; i < CLI_COUNT(inputs); i++)
        tfm_tape_watch(t->ctx, inputs[i], t->gradients[i]);
    tfm_attention(t->ctx, &y, t->q, t->k, t->v, &t->options);
    tfm_backward(t->ctx, y, t->dy);
    tfm_scope_close(t->ctx, 0, NULL);
}

static int run(void *self, int times) {
    task *t = self;
    for (int i = 0; i < times; i++)
        if (t->weight.value.buffer)
            tfm_linear(t->ctx, &t->y, t->q, &t->weight, (tfm_tensor){0}, TFM_NO_ACTIVATION);
        else if (t->dy.buffer)
            forward_backward(t);
        else
            tfm_attention(t->ctx, &t->y, t->q, t->k, t->v, &t->options);
    return tfm_context_finish(t->ctx) == TFM_OK ? CLI_OK : cli_fail("%s", tfm_context_error(t->ctx));
}

static void task_free(void *self) {
    task *t = self;
    if (!t)
        return;
    tfm_tensor *const all[] = {&t->y, &t->q, &t->k, &t->v, &t->gradients[0], &t->gradients[1], &t->gradients[2],
                               &t->dy};
    for (size_t i = 0; i < CLI_COUNT(all); i++)
        tfm_tensor_free(t->ctx, all[i]);
    tfm_param_free(t->ctx, &t->weight);
    free(t);
}

static task *add_candidate(bench_group *group, tfm_context *ctx, const char *bench, const char *text, const char *name,
                           double work) {
    bench_candidate *c = bench_add(group, bench, text, "%s", name);
    task *t = c ? calloc(1, sizeof(*t)) : NULL;
    if (!c)
        return NULL;
    if (!t)
        cli_fail("out of memory");
    else
        t->ctx = ctx;
    c->work = work;
    c->run = run;
    c->free = task_free;
    c->self = t;
    return t;
}

static int ready(const task *t) {
    return tfm_context_status(t->ctx) == TFM_OK ? CLI_OK : cli_fail("%s", tfm_context_error(t->ctx));
}

static int add_matmul(bench_group *group, tfm_context *ctx) {
    const int64_t n = 1024, dims[] = {n, n};
    task *t = add_candidate(group, ctx, "gemm", "1024x1024x1024", "gemm", 2.0 * (double)n * (double)n * (double)n);
    if (!t)
        return CLI_FAILED;
    t->q = bench_fill(ctx, 2, dims);
    t->weight.value = bench_fill(ctx, 2, dims);
    return ready(t);
}

/* The unmasked pairs of a query and a key. */
static double pairs(const shape *s) {
    double seen = 0;
    for (int64_t i = 0; i < s->targets; i++)
        seen += !s->causal ? (double)s->sources : (double)(i < s->sources ? i + 1 : s->sources);
    return seen * (double)s->batch * (double)s->heads;
}

static int add_variant(bench_group *group, tfm_context *ctx, const shape *s) {
    /* two GEMMs forward; backward the scores again, dp, dq, dk and dv */
    const double gemms = s->backward ? 7 : 2;
    task *t = add_candidate(group, ctx, "attention", s->name, tfm_context_variant(ctx),
                            2 * gemms * pairs(s) * (double)s->width);
    if (!t)
        return CLI_FAILED;
    const int64_t e = s->heads * s->width;
    t->options = (tfm_attention_options){.heads = (int)s->heads, .causal = s->causal};
    t->q = bench_fill(ctx, 3, (int64_t[]){s->batch, s->targets, e});
    t->k = bench_fill(ctx, 3, (int64_t[]){s->batch, s->sources, e});
    t->v = bench_fill(ctx, 3, (int64_t[]){s->batch, s->sources, e});
    if (s->backward) {
        t->gradients[0] = bench_fill(ctx, 3, (int64_t[]){s->batch, s->targets, e});
        t->gradients[1] = bench_fill(ctx, 3, (int64_t[]){s->batch, s->sources, e});
        t->gradients[2] = bench_fill(ctx, 3, (int64_t[]){s->batch, s->sources, e});
        t->dy = bench_fill(ctx, 3, (int64_t[]){s->batch, s->targets, e});
    }
    return ready(t);
}

static int bench_shape(const bench_devices *devices, const bench_options *o, const shape *s) {
    bench_group group = {.precision = "fp32", .unit = "GFLOP/s", .factor = 1e-9, .json = "gflops", .than = "gemm"};
    int code = add_matmul(&group, devices->contexts[0]);
    for (size_t d = 0; d < devices->count && code == CLI_OK; d++)
        code = add_variant(&group, devices->contexts[d], s);
    if (code == CLI_OK)
        return bench_run(&group, o);
    bench_discard(&group);
    return code;
}

static void make(shape *s, int64_t batch, int64_t heads, int64_t targets, int64_t sources, int64_t width, bool causal,
                 bool backward) {
    *s = (shape){batch, heads, targets, sources, width, causal, backward, ""};
    snprintf(s->name, sizeof(s->name), "%" PRId64 "x%" PRId64 "x%" PRId64 "x%" PRId64 "x%" PRId64 "%s%s", batch, heads,
             targets, sources, width, causal ? " causal" : "", backward ? " backward" : "");
}

/* A batch of sentences in the encoder and in the decoder, a step of decoding, and longer texts. */
static int bench_sizes(const bench_devices *devices, const bench_options *o, const bench_model *model) {
    static const struct {
        int64_t batch, targets, sources;
        bool causal;
    } uses[] = {{32, 32, 32, false},  {32, 32, 32, true},  {64, 1, 32, false},
                {1, 512, 512, false}, {1, 512, 512, true}, {1, 2048, 2048, false}};
    int code = CLI_OK;
    for (size_t i = 0; i < CLI_COUNT(uses) && code == CLI_OK; i++) {
        shape s;
        make(&s, uses[i].batch, model->heads, uses[i].targets, uses[i].sources, model->width / model->heads,
             uses[i].causal, o->backward);
        code = bench_shape(devices, o, &s);
    }
    return code;
}

static int parse(const cli_syntax *syntax, shape *s, const char *text, const bench_options *o) {
    int64_t d[5];
    const int count = bench_parse_shape(d, text, 4, 5, NULL);
    if (!count)
        return cli_usage_error(syntax, "'%s' is no shape of attention: give BxHxTxD or BxHxTxSxD, as 1x8x1024x64",
                               text);
    make(s, d[0], d[1], d[2], d[count == 5 ? 3 : 2], d[count - 1], o->causal, o->backward);
    return CLI_CONTINUE;
}

int bench_attention(const cli_syntax *syntax, const bench_options *o, int count, char **operands) {
    static char *all[] = {"tiny", "base", "big"};
    bench_devices devices;
    shape s;
    if (count == 0) {
        count = (int)CLI_COUNT(all);
        operands = all;
    }
    for (int i = 0; i < count; i++)
        if (!bench_model_named(operands[i]) && parse(syntax, &s, operands[i], o) != CLI_CONTINUE)
            return CLI_USAGE;
    int code = bench_devices_open(&devices, o);
    for (int i = 0; i < count && code == CLI_OK; i++) {
        const bench_model *model = bench_model_named(operands[i]);
        if (!model)
            parse(syntax, &s, operands[i], o);
        code = model ? bench_sizes(&devices, o, model) : bench_shape(&devices, o, &s);
    }
    bench_devices_free(&devices);
    return code;
}
