/* The timings of `tfm report`: what Transformers do most, in parts of what the device does at most. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "report.h"

typedef struct task {
    tfm_context *ctx;
    tfm_status (*run)(struct task *t);
    const char *provider; /* of a product; NULL: the chosen one */
    const char *declined;
    tfm_tensor y, x, other, gamma;
    tfm_param weight;
    tfm_gemm_options gemm;
    tfm_attention_options attention;
} task;

enum { TURNS = 5 };

static int compare(const void *x, const void *y) {
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* The median seconds of a run, after it has been built, proven and run once; 0 if it failed or declined. */
static double time_task(task *t) {
    const double turn = 0.02;
    double seconds[TURNS];
    t->run(t);
    if (tfm_context_finish(t->ctx) != TFM_OK || t->declined)
        return 0;
    double start = cli_seconds();
    t->run(t);
    tfm_context_finish(t->ctx);
    const double once = cli_seconds() - start;
    const int times = once >= turn ? 1 : once * 1000 < turn ? 1000 : (int)(turn / once) + 1;
    for (int i = 0; i < TURNS; i++) {
        if (i > 0 && once > 2) { /* one says enough of what is so slow */
            seconds[i] = seconds[0];
            continue;
        }
        start = cli_seconds();
        for (int k = 0; k < times; k++)
            t->run(t);
        if (tfm_context_finish(t->ctx) != TFM_OK)
            return 0;
        seconds[i] = (cli_seconds() - start) / times;
    }
    qsort(seconds, TURNS, sizeof(*seconds), compare);
    return seconds[TURNS / 2];
}

/* Times the task and frees it; a row of what came of it. `work` is in operations, or in bytes if they are what counts.
 */
static double add_row(json_t *rows, task *t, const char *bench, const char *shape, const char *provider, double work,
                      bool bytes, double most) {
    json_t *row = json_pack("{s:s, s:s, s:s}", "bench", bench, "shape", shape, "provider", provider);
    cli_progress("report: timing %s %s %s", bench, shape, provider);
    const double seconds = time_task(t);
    const double rate = seconds > 0 ? work / seconds : 0;
    if (tfm_context_status(t->ctx) != TFM_OK) {
        char *why = report_public(tfm_context_error(t->ctx));
        json_object_set_new(row, "failed", json_string(why ? why : "out of memory"));
        free(why);
        tfm_context_clear_error(t->ctx);
    } else if (t->declined) {
        json_object_set_new(row, "declined", json_string(t->declined));
    } else {
        json_object_set_new(row, "median_s", json_real(seconds));
        json_object_set_new(row, bytes ? "gbytes_per_s" : "gflops", json_real(rate * 1e-9));
        if (most > 0)
            json_object_set_new(row, "percent", json_real(100 * rate / most));
    }
    json_array_append_new(rows, row);
    tfm_param_free(t->ctx, &t->weight);
    tfm_tensor *const all[] = {&t->y, &t->x, &t->other, &t->gamma};
    for (size_t i = 0; i < CLI_COUNT(all); i++)
        tfm_tensor_free(t->ctx, all[i]);
    return rate;
}

/* ---- What is timed ---- */

static tfm_status run_copy(task *t) {
    return tfm_activate(t->ctx, &t->y, t->x, TFM_NO_ACTIVATION);
}
static tfm_status run_softmax(task *t) {
    return tfm_softmax(t->ctx, &t->y, t->x);
}
static tfm_status run_layernorm(task *t) {
    return tfm_layernorm(t->ctx, &t->y, NULL, t->x, (tfm_tensor){0}, t->gamma, t->gamma, 1e-5f);
}
static tfm_status run_linear(task *t) {
    return tfm_linear_by(t->ctx, t->provider, &t->declined, &t->y, t->x, &t->weight, (tfm_tensor){0},
                         TFM_NO_ACTIVATION);
}
static tfm_status run_gemm(task *t) {
    return tfm_gemm_by(t->ctx, t->provider, &t->declined, &t->y, t->x, t->other, &t->gemm);
}
static tfm_status run_attention(task *t) {
    return tfm_attention(t->ctx, &t->y, t->x, t->other, t->other, &t->attention);
}

static double add_rows_op(json_t *rows, tfm_context *ctx, const char *name, tfm_status (*run)(task *t), int64_t count,
                          int64_t columns, double most) {
    task t = {.ctx = ctx, .run = run};
    char shape[64];
    snprintf(shape, sizeof(shape), "%" PRId64 "x%" PRId64, count, columns);
    t.x = bench_fill(ctx, 2, (int64_t[]){count, columns});
    t.gamma = bench_fill(ctx, 1, &columns);
    return add_row(rows, &t, name, shape, "", 8.0 * (double)count * (double)columns, true, most);
}

/* A layer's product with its weight, or with "tn" a weight's gradient. */
static void add_product(json_t *rows, tfm_context *ctx, const int64_t d[3], bool gradient, const char *provider,
                        double most) {
    task t = {.ctx = ctx, .run = gradient ? run_gemm : run_linear, .provider = provider};
    char shape[64];
    snprintf(shape, sizeof(shape), "%" PRId64 "x%" PRId64 "x%" PRId64 "%s", d[0], d[1], d[2], gradient ? "tn" : "nt");
    t.gemm.transpose_a = gradient;
    t.x = bench_fill(ctx, 2, gradient ? (int64_t[]){d[2], d[0]} : (int64_t[]){d[0], d[2]});
    if (gradient)
        t.other = bench_fill(ctx, 2, (int64_t[]){d[2], d[1]});
    else
        t.weight.value = bench_fill(ctx, 2, (int64_t[]){d[1], d[2]});
    add_row(rows, &t, "product", shape, provider ? provider : "chosen",
            2.0 * (double)d[0] * (double)d[1] * (double)d[2], false, most);
}

static void add_products(json_t *rows, tfm_context *ctx, double most) {
    static const int64_t SIZES[][3] = {{1, 512, 512},     {8, 2048, 512},    {32, 512, 512},
                                       {32, 32000, 512},  {512, 512, 512},   {512, 2048, 512},
                                       {2048, 2048, 512}, {2048, 512, 2048}, {1024, 1024, 1024}};
    for (size_t i = 0; i < CLI_COUNT(SIZES); i++) {
        const bool all = SIZES[i][0] == 32 || SIZES[i][0] == 1024; /* every provider, on few rows and on many */
        add_product(rows, ctx, SIZES[i], false, NULL, most);
        for (size_t p = 0; all && SIZES[i][1] < 2048 && tfm_gemm_provider(p); p++)
            add_product(rows, ctx, SIZES[i], false, tfm_gemm_provider(p), most);
    }
    add_product(rows, ctx, (int64_t[]){512, 512, 2048}, true, NULL, most);
}

static void add_attention(json_t *rows, tfm_context *ctx, int64_t batch, int64_t targets, int64_t sources,
                          double most) {
    enum { HEADS = 8, WIDTH = 64 };
    task t = {.ctx = ctx, .run = run_attention};
    char shape[64];
    snprintf(shape, sizeof(shape), "%" PRId64 "x%dx%" PRId64 "x%" PRId64 "x%d", batch, HEADS, targets, sources, WIDTH);
    t.attention.heads = HEADS;
    t.x = bench_fill(ctx, 3, (int64_t[]){batch, targets, HEADS * WIDTH});
    t.other = bench_fill(ctx, 3, (int64_t[]){batch, sources, HEADS * WIDTH});
    add_row(rows, &t, "attention", shape, "", 4.0 * HEADS * WIDTH * (double)(batch * targets * sources), false, most);
}

/* Bytes of a copy that no cache holds: 256 MiB for both sides, or less where there is less memory. */
static int64_t copied_rows(tfm_context *ctx) {
    const uint64_t memory = tfm_context_device(ctx)->memory_bytes, most = tfm_context_device(ctx)->max_alloc_bytes;
    int64_t count = 32768;
    while (count > 256 && ((memory && (uint64_t)count * 8192 > memory / 4) || (most && (uint64_t)count * 4096 > most)))
        count /= 2;
    return count;
}

int report_bench(tfm_context *ctx, json_t *report) {
    double flops = 0;
    cli_progress("report: measuring the device's peak");
    if (tfm_measure_peak(ctx, &flops) != TFM_OK)
        tfm_context_clear_error(ctx);
    json_t *rows = json_array();
    const double bytes = add_rows_op(rows, ctx, "copy", run_copy, copied_rows(ctx), 1024, 0);
    json_object_set_new(report, "peak", json_pack("{s:f, s:f}", "gflops", flops * 1e-9, "gbytes_per_s", bytes * 1e-9));
    add_rows_op(rows, ctx, "layernorm", run_layernorm, 16384, 1024, bytes);
    add_rows_op(rows, ctx, "softmax", run_softmax, 16384, 1024, bytes);
    add_products(rows, ctx, flops);
    add_attention(rows, ctx, 32, 1, 64, flops);
    add_attention(rows, ctx, 8, 256, 256, flops);
    add_attention(rows, ctx, 1, 1024, 1024, flops);
    cli_progress(NULL);
    json_object_set_new(report, "bench", rows);
    return CLI_OK;
}
