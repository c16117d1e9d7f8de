/* tfm bench norm: LayerNorm, RMSNorm, softmax and GELU, compared with a copy of the same bytes. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "bench/bench.h"
#include <tfm/ops.h>

typedef struct task {
    tfm_context *ctx;
    tfm_status (*op)(struct task *task);
    tfm_tensor y, x, gamma, beta;
} task;

static const float EPSILON = 1e-5f;

static tfm_status op_copy(task *t) {
    return tfm_activate(t->ctx, &t->y, t->x, TFM_NO_ACTIVATION);
}
static tfm_status op_layernorm(task *t) {
    return tfm_layernorm(t->ctx, &t->y, NULL, t->x, (tfm_tensor){0}, t->gamma, t->beta, EPSILON);
}
static tfm_status op_rmsnorm(task *t) {
    return tfm_rmsnorm(t->ctx, &t->y, NULL, t->x, (tfm_tensor){0}, t->gamma, -1, EPSILON);
}
static tfm_status op_softmax(task *t) {
    return tfm_softmax(t->ctx, &t->y, t->x);
}
static tfm_status op_gelu(task *t) {
    return tfm_activate(t->ctx, &t->y, t->x, TFM_GELU);
}

static const struct {
    const char *name;
    tfm_status (*op)(task *t);
} OPS[] = {
    {"copy", op_copy}, {"layernorm", op_layernorm}, {"rmsnorm", op_rmsnorm}, {"softmax", op_softmax}, {"gelu", op_gelu},
};

static int run(void *self, int times) {
    task *t = self;
    for (int i = 0; i < times; i++)
        t->op(t);
    return tfm_context_finish(t->ctx) == TFM_OK ? CLI_OK : cli_fail("%s", tfm_context_error(t->ctx));
}

static void task_free(void *self) {
    task *t = self;
    if (!t)
        return;
    tfm_tensor *const all[] = {&t->y, &t->x, &t->gamma, &t->beta};
    for (size_t i = 0; i < CLI_COUNT(all); i++)
        tfm_tensor_free(t->ctx, all[i]);
    free(t);
}

/* One op of one variant. Bytes count as in a copy: read once and written once, even if an op reads them again. */
static int add_candidate(bench_group *group, size_t op, tfm_context *ctx, int64_t rows, int64_t columns) {
    char shape[64];
    snprintf(shape, sizeof(shape), "%s %" PRId64 "x%" PRId64, OPS[op].name, rows, columns);
    bench_candidate *c = bench_add(group, "norm", shape, "%s", tfm_context_variant(ctx));
    task *t = c ? calloc(1, sizeof(*t)) : NULL;
    if (!c)
        return CLI_FAILED;
    if (!t)
        return cli_fail("out of memory");
    *t = (task){.ctx = ctx, .op = OPS[op].op};
    c->work = 8.0 * (double)rows * (double)columns;
    c->run = run;
    c->free = task_free;
    c->self = t;
    t->x = bench_fill(ctx, 2, (int64_t[]){rows, columns});
    t->gamma = bench_fill(ctx, 1, &columns);
    t->beta = bench_fill(ctx, 1, &columns);
    return tfm_context_status(ctx) == TFM_OK ? CLI_OK : cli_fail("%s", tfm_context_error(ctx));
}

static int bench_shape(const bench_devices *devices, const bench_options *o, int64_t rows, int64_t columns) {
    bench_group group = {.precision = "fp32", .unit = "GB/s", .factor = 1e-9, .json = "per_s", .than = "copy"};
    int code = CLI_OK;
    for (size_t i = 0; i < CLI_COUNT(OPS); i++)
        for (size_t d = 0; d < devices->count && code == CLI_OK; d++)
            code = add_candidate(&group, i, devices->contexts[d], rows, columns);
    if (code == CLI_OK)
        return bench_run(&group, o);
    bench_discard(&group);
    return code;
}

int bench_norm(const cli_syntax *syntax, const bench_options *o, int count, char **operands) {
    static char *all[] = {"tiny", "base", "big", "4096x1024"};
    bench_devices devices;
    int64_t d[2];
    if (count == 0) {
        count = (int)CLI_COUNT(all);
        operands = all;
    }
    for (int i = 0; i < count; i++)
        if (!bench_model_named(operands[i]) && !bench_parse_shape(d, operands[i], 2, 2, NULL))
            return cli_usage_error(syntax, "'%s' is no shape of norm: give ROWSxCOLUMNS, as 4096x1024", operands[i]);
    int code = bench_devices_open(&devices, o);
    for (int i = 0; i < count && code == CLI_OK; i++) {
        const bench_model *model = bench_model_named(operands[i]);
        const int64_t batch = 256; /* tokens */
        if (!model)
            bench_parse_shape(d, operands[i], 2, 2, NULL);
        code = bench_shape(&devices, o, model ? batch : d[0], model ? model->width : d[1]);
        if (model && code == CLI_OK)
            code = bench_shape(&devices, o, batch, model->feed_forward);
    }
    bench_devices_free(&devices);
    return code;
}
