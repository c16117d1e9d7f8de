/* tfm bench gemm: every provider, with b packed once or every time, compared with OpenBLAS. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "bench/bench.h"
#include <tfm/ops.h>

typedef struct shape {
    int64_t m, n, k;
    bool transpose_a, transpose_b;
    char name[64];
} shape;

/* A GEMM by one provider in one context. */
typedef struct gemm_task {
    tfm_context *ctx;
    const char *provider;
    bool fresh; /* b is no weight: packing providers pack it every time */
    tfm_tensor c, a, b;
    tfm_param weight;
    tfm_gemm_options options;
} gemm_task;

static tfm_status multiply(gemm_task *p, const char **why) {
    if (p->fresh)
        return tfm_gemm_with(p->ctx, p->provider, why, &p->c, p->a, p->b, &p->options);
    return tfm_linear_with(p->ctx, p->provider, why, &p->c, p->a, &p->weight, (tfm_tensor){0}, TFM_NO_ACTIVATION);
}

static int run(void *self, int times) {
    gemm_task *p = self;
    const char *why;
    for (int i = 0; i < times; i++)
        multiply(p, &why);
    return tfm_context_finish(p->ctx) == TFM_OK ? CLI_OK : cli_fail("%s", tfm_context_error(p->ctx));
}

static void gemm_task_free(void *self) {
    gemm_task *p = self;
    if (!p)
        return;
    tfm_param_free(p->ctx, &p->weight);
    tfm_tensor_free(p->ctx, &p->c);
    tfm_tensor_free(p->ctx, &p->a);
    tfm_tensor_free(p->ctx, &p->b);
    free(p);
}

/* Creates the operands on the device and runs once; the provider may decline. */
static gemm_task *gemm_task_new(tfm_context *ctx, const char *provider, const shape *s, bool fresh, bool accumulate,
                                const char **why) {
    gemm_task *p = calloc(1, sizeof(*p));
    if (!p)
        return NULL;
    *p = (gemm_task){.ctx = ctx, .provider = provider, .fresh = fresh};
    p->options =
        (tfm_gemm_options){.transpose_a = s->transpose_a, .transpose_b = s->transpose_b, .accumulate = accumulate};
    p->a = bench_fill(ctx, 2, s->transpose_a ? (int64_t[]){s->k, s->m} : (int64_t[]){s->m, s->k});
    p->c = bench_fill(ctx, 2, (int64_t[]){s->m, s->n});
    const tfm_tensor b =
        bench_fill(ctx, 2, s->transpose_b || !fresh ? (int64_t[]){s->n, s->k} : (int64_t[]){s->k, s->n});
    if (fresh)
        p->b = b;
    else
        p->weight.value = b;
    if (multiply(p, why) == TFM_OK)
        return p;
    cli_fail("%s", tfm_context_error(ctx));
    gemm_task_free(p);
    return NULL;
}

static bool add_candidate(bench_group *group, const shape *s, gemm_task *p, const char *name, const char *why) {
    bench_candidate *c = bench_add(group, "gemm", s->name, "%s", name);
    if (!c) {
        gemm_task_free(p);
        return false;
    }
    c->work = 2.0 * (double)s->m * (double)s->n * (double)s->k;
    c->run = run;
    c->free = gemm_task_free;
    c->self = p;
    c->declined = why;
    const char *chosen = tfm_gemm_select(p->ctx, s->m, s->n, s->k);
    c->chosen = chosen && strcmp(chosen, p->provider) == 0;
    return true;
}

/* One provider: with b packed once, if it packs and the task is one of tfm_linear's, and with a fresh b. */
static int add_provider(bench_group *group, const shape *s, const bench_options *o, tfm_context *ctx,
                        const char *provider, const char *prefix) {
    const char *why = NULL;
    char name[48];
    bool packs = false;
    snprintf(name, sizeof(name), "%s%s", prefix, provider);
    cli_progress("gemm %s: building %s", s->name, name);
    if (!s->transpose_a && !o->accumulate) {
        gemm_task *p = gemm_task_new(ctx, provider, s, false, false, &why);
        if (!p)
            return CLI_FAILED;
        packs = p->weight.packed.buffer != NULL;
        if (!packs)
            gemm_task_free(p);
        else if (!add_candidate(group, s, p, name, NULL))
            return CLI_FAILED;
    }
    if (packs)
        snprintf(name, sizeof(name), "%s%s fresh", prefix, provider);
    gemm_task *p = gemm_task_new(ctx, provider, s, true, o->accumulate, &why);
    return p && add_candidate(group, s, p, name, why) ? CLI_OK : CLI_FAILED;
}

/* ---- Quantized and 16-bit weights ---- */

/* A layer by the library's own choice of provider, with an int8, 16-bit or fp32 weight. */
static int run_layer(void *self, int times) {
    gemm_task *p = self;
    for (int i = 0; i < times; i++)
        tfm_linear(p->ctx, &p->c, p->a, &p->weight, (tfm_tensor){0}, TFM_NO_ACTIVATION);
    return tfm_context_finish(p->ctx) == TFM_OK ? CLI_OK : cli_fail("%s", tfm_context_error(p->ctx));
}

/* Converts the weight to `stored`. */
static void shrink(tfm_context *ctx, tfm_param *weight, tfm_dtype stored) {
    tfm_tensor half = {0};
    if (stored == TFM_I8)
        tfm_param_quantize(ctx, weight);
    if (stored != TFM_F16 && stored != TFM_BF16)
        return;
    tfm_cast(ctx, &half, weight->value, stored);
    tfm_tensor_free(ctx, &weight->value);
    weight->value = half;
}

static int add_layer(bench_group *group, const shape *s, tfm_context *ctx, tfm_dtype stored, const char *prefix) {
    static const char *const names[] = {[TFM_F32] = "fp32", [TFM_F16] = "fp16", [TFM_BF16] = "bf16", [TFM_I8] = "int8"};
    gemm_task *p = calloc(1, sizeof(*p));
    bench_candidate *c = bench_add(group, "gemm", s->name, "%s%s", prefix, names[stored]);
    if (!p || !c) {
        free(p);
        return c ? cli_fail("out of memory") : CLI_FAILED;
    }
    cli_progress("gemm %s: building %s", s->name, c->name);
    *p = (gemm_task){.ctx = ctx};
    c->work = 2.0 * (double)s->m * (double)s->n * (double)s->k;
    c->precision = names[stored];
    c->run = run_layer;
    c->free = gemm_task_free;
    c->self = p;
    p->a = bench_fill(ctx, 2, (int64_t[]){s->m, s->k});
    p->weight.value = bench_fill(ctx, 2, (int64_t[]){s->n, s->k});
    shrink(ctx, &p->weight, stored);
    return run_layer(p, 1);
}

/* ---- OpenBLAS ---- */

typedef struct blas {
    const shape *shape;
    float *c, *a, *b, beta;
} blas;

static int blas_run(void *self, int times) {
    const blas *x = self;
    const shape *s = x->shape;
    for (int i = 0; i < times; i++)
        bench_blas_gemm(x->c, x->a, x->b, (int)s->m, (int)s->n, (int)s->k, s->transpose_a, s->transpose_b, x->beta);
    return CLI_OK;
}

static void blas_free(void *self) {
    blas *x = self;
    if (x) {
        free(x->c);
        free(x->a);
        free(x->b);
    }
    free(x);
}

static int add_blas(bench_group *group, const shape *s, const bench_options *o) {
    bench_candidate *c = bench_add(group, "gemm", s->name, "openblas");
    blas *x = c ? calloc(1, sizeof(*x)) : NULL;
    if (!c)
        return CLI_FAILED;
    c->work = 2.0 * (double)s->m * (double)s->n * (double)s->k;
    c->declined = bench_blas_error();
    c->run = blas_run;
    c->free = blas_free;
    c->self = x;
    c->rest = 0.05; /* its threads spin for 2^26 cycles after a GEMM, on cores that the next contestant needs */
    if (!x || c->declined)
        return x ? CLI_OK : cli_fail("out of memory");
    *x = (blas){s, bench_random_floats((size_t)(s->m * s->n)), bench_random_floats((size_t)(s->m * s->k)),
                bench_random_floats((size_t)(s->n * s->k)), o->accumulate ? 1.0f : 0.0f};
    return x->a && x->b && x->c ? CLI_OK : cli_fail("out of memory for %s", s->name);
}

/* ---- Shapes ---- */

/* int8 or 16-bit layers in each variant, compared with the device's own in fp32 and OpenBLAS. */
static int bench_small(const bench_devices *devices, const bench_options *o, const shape *s) {
    bench_group group = {.precision = "fp32", .unit = "GFLOP/s", .factor = 1e-9, .json = "gflops", .than = "fp32"};
    int code = add_layer(&group, s, devices->contexts[0], TFM_F32, "");
    for (size_t d = 0; d < devices->count && code == CLI_OK; d++) {
        char prefix[32] = "";
        if (strcmp(tfm_context_variant(devices->contexts[d]), devices->own) != 0)
            snprintf(prefix, sizeof(prefix), "%s ", tfm_context_variant(devices->contexts[d]));
        code = add_layer(&group, s, devices->contexts[d], o->stored, prefix);
    }
    if (code == CLI_OK && bench_is_selected(o->providers, "openblas"))
        code = add_blas(&group, s, o);
    if (code == CLI_OK)
        return bench_run(&group, o);
    bench_discard(&group);
    return code;
}

static int bench_shape(const bench_devices *devices, const bench_options *o, const shape *s) {
    bench_group group = {.precision = "fp32", .unit = "GFLOP/s", .factor = 1e-9, .json = "gflops", .than = "openblas"};
    int code = CLI_OK;
    if (o->stored != TFM_F32)
        return bench_small(devices, o, s);
    for (size_t d = 0; d < devices->count && code == CLI_OK; d++) {
        tfm_context *ctx = devices->contexts[d];
        char prefix[32] = "";
        if (strcmp(tfm_context_variant(ctx), devices->own) != 0)
            snprintf(prefix, sizeof(prefix), "%s ", tfm_context_variant(ctx));
        for (size_t i = 0; tfm_gemm_provider(i) && code == CLI_OK; i++) {
            const char *provider = tfm_gemm_provider(i);
            /* CLBlast does not depend on the variant: once is enough. */
            if (bench_is_selected(o->providers, provider) && (d == 0 || strcmp(provider, "clblast") != 0))
                code = add_provider(&group, s, o, ctx, provider, prefix);
        }
    }
    group.base = group.count; /* absent if not requested */
    if (code == CLI_OK && bench_is_selected(o->providers, "openblas"))
        code = add_blas(&group, s, o);
    if (code == CLI_OK)
        return bench_run(&group, o);
    bench_discard(&group);
    return code;
}

static void make(shape *s, int64_t m, int64_t n, int64_t k, const char *letters) {
    *s = (shape){
        .m = m, .n = n, .k = k, .transpose_a = letters[0] == 't', .transpose_b = letters[0] && letters[1] == 't'};
    snprintf(s->name, sizeof(s->name), "%" PRId64 "x%" PRId64 "x%" PRId64 "%s", m, n, k, letters);
}

/* A Transformer's GEMMs, in decoding and over a batch's tokens: attention projections, both feed-forward layers, the
 * output projection, and a weight's gradient. */
static int bench_sizes(const bench_devices *devices, const bench_options *o, const bench_model *model) {
    const int64_t e = model->width, f = model->feed_forward, v = model->vocabulary, tokens[] = {1, 8, 256};
    const int64_t weights[][2] = {{e, e}, {f, e}, {e, f}, {v, e}};
    int code = CLI_OK;
    shape s;
    for (size_t t = 0; t < CLI_COUNT(tokens); t++)
        for (size_t w = 0; w < CLI_COUNT(weights) && code == CLI_OK; w++) {
            make(&s, tokens[t], weights[w][0], weights[w][1], "");
            code = bench_shape(devices, o, &s);
        }
    make(&s, e, f, 1024, "tn");
    return code == CLI_OK && o->stored == TFM_F32 ? bench_shape(devices, o, &s) : code;
}

static int parse(const cli_syntax *syntax, shape *s, const char *text) {
    int64_t d[3];
    const char *letters;
    if (!bench_parse_shape(d, text, 3, 3, &letters) || (*letters && (strspn(letters, "nt") != 2 || letters[2])))
        return cli_usage_error(syntax, "'%s' is no shape of gemm: give MxNxK, as 256x512x512 or 512x512x4096tn", text);
    make(s, d[0], d[1], d[2], letters);
    return CLI_CONTINUE;
}

int bench_gemm(const cli_syntax *syntax, const bench_options *o, int count, char **operands) {
    static char *all[] = {"tiny", "base", "big", "1024x1024x1024"};
    bench_devices devices;
    shape s;
    if (o->stored != TFM_F32 && o->accumulate)
        return cli_usage_error(syntax, "--accumulate does not go with --precision: leave one out");
    if (count == 0) {
        count = (int)CLI_COUNT(all);
        operands = all;
    }
    for (int i = 0; i < count; i++) /* before the first timing */
        if (!bench_model_named(operands[i]) && parse(syntax, &s, operands[i]) != CLI_CONTINUE)
            return CLI_USAGE;
        else if (o->stored != TFM_F32 && !bench_model_named(operands[i]) && (s.transpose_a || s.transpose_b))
            return cli_usage_error(syntax, "'%s' is no shape of a layer: with --precision give MxNxK", operands[i]);
    int code = bench_devices_open(&devices, o);
    for (int i = 0; i < count && code == CLI_OK; i++) {
        const bench_model *model = bench_model_named(operands[i]);
        if (!model)
            parse(syntax, &s, operands[i]);
        code = model ? bench_sizes(&devices, o, model) : bench_shape(&devices, o, &s);
    }
    bench_devices_free(&devices);
    return code;
}
