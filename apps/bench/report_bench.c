/* The timings of `tfm report`: the main ops of Transformers, as fractions of the device's peak. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "bench/report.h"
#include "tfm/tape.h"
#include <tfm/ops.h>
#include <tfm/tape.h>

typedef struct task {
    tfm_context *ctx;
    tfm_status (*run)(struct task *t);
    const char *provider; /* of a GEMM; NULL: the chosen one */
    const char *declined;
    tfm_tensor y, x, other, gamma, gradients[3], dy; /* of x and twice of the other */
    tfm_param weight;
    tfm_gemm_options gemm;
    tfm_attention_options attention;
    tfm_model *model;
    int beam, tokens; /* of a search; number of generated tokens */
    double spread;    /* of the turns: (longest - shortest) / median */
} task;

enum { TURNS = 5 };

static int compare(const void *x, const void *y) {
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* The median seconds of a run, after build, validation and one run; 0 if it failed or declined. */
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
        if (i > 0 && once > 2) { /* one run is enough if slow */
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
    t->spread = once > 2 ? 0 : (seconds[TURNS - 1] - seconds[0]) / seconds[TURNS / 2];
    return seconds[TURNS / 2];
}

/* Times the task and frees it; returns a row. `work`: operations, or bytes for bandwidth; 0: no rate. */
static double add_row(json_t *rows, task *t, const char *bench, const char *shape, const char *provider, double work,
                      bool bytes, double most) {
    json_t *row = json_pack("{s:s, s:s, s:s}", "bench", bench, "shape", shape, "provider", provider);
    cli_progress("report: timing %s %s %s", bench, shape, provider);
    const double seconds = time_task(t) / (t->tokens > 0 ? t->tokens : 1);
    const double rate = seconds > 0 ? work / seconds : 0;
    if (tfm_context_status(t->ctx) != TFM_OK) {
        char *why = report_redact(tfm_context_error(t->ctx));
        json_object_set_new(row, "failed", json_string(why ? why : "out of memory"));
        free(why);
        tfm_context_clear_error(t->ctx);
    } else if (t->declined) {
        json_object_set_new(row, "declined", json_string(t->declined));
    } else {
        json_object_set_new(row, "median_s", json_real(seconds));
        json_object_set_new(row, "spread", json_real(t->spread));
        if (work > 0)
            json_object_set_new(row, bytes ? "gbytes_per_s" : "gflops", json_real(rate * 1e-9));
        if (most > 0)
            json_object_set_new(row, "percent", json_real(100 * rate / most));
    }
    json_array_append_new(rows, row);
    tfm_param_free(t->ctx, &t->weight);
    tfm_tensor *const all[] = {&t->y, &t->x, &t->other, &t->gamma, &t->gradients[0], &t->gradients[1], &t->gradients[2],
                               &t->dy};
    for (size_t i = 0; i < CLI_COUNT(all); i++)
        tfm_tensor_free(t->ctx, all[i]);
    tfm_model_free(&t->model);
    return rate;
}

/* ---- Tasks ---- */

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
    return tfm_linear_with(t->ctx, t->provider, &t->declined, &t->y, t->x, &t->weight, (tfm_tensor){0},
                           TFM_NO_ACTIVATION);
}
static tfm_status run_gemm(task *t) {
    return tfm_gemm_with(t->ctx, t->provider, &t->declined, &t->y, t->x, t->other, &t->gemm);
}
static tfm_status run_attention(task *t) {
    return tfm_attention(t->ctx, &t->y, t->x, t->other, t->other, &t->attention);
}

static tfm_status run_layer(task *t) {
    return tfm_linear(t->ctx, &t->y, t->x, &t->weight, (tfm_tensor){0}, TFM_NO_ACTIVATION);
}

/* Forward too, since backward needs its results. */
static tfm_status run_backward(task *t) {
    tfm_tensor y = {0};
    tfm_scope_open(t->ctx);
    tfm_tape_start(t->ctx);
    tfm_tape_watch(t->ctx, t->x, t->gradients[0]);
    tfm_tape_watch(t->ctx, t->other, t->gradients[1]);
    tfm_tape_watch(t->ctx, t->gamma, t->gradients[2]);
    tfm_attention(t->ctx, &y, t->x, t->other, t->gamma, &t->attention);
    tfm_backward(t->ctx, y, t->dy);
    return tfm_scope_close(t->ctx, 0, NULL);
}

/* A text of random tokens; its translation runs to the limit, unless it ends by chance. */
static tfm_status run_search(task *t) {
    static const int32_t IDS[] = {11, 12, 13, 14, 15, 16, 17, 0};
    const size_t count = CLI_COUNT(IDS);
    const tfm_search_options options = {.beam_size = t->beam, .max_length = 32, .skip_scores = true};
    tfm_hypotheses found;
    const tfm_status status = tfm_search(t->model, &found, IDS, &count, 1, NULL, NULL, &options);
    t->tokens = status == TFM_OK ? found.items[0].tokens : 0;
    tfm_hypotheses_free(&found);
    return status;
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

/* A layer's GEMM with its weight, or with "tn" a weight's gradient. */
static void add_gemm(json_t *rows, tfm_context *ctx, const int64_t d[3], bool gradient, const char *provider,
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
    add_row(rows, &t, "gemm", shape, provider ? provider : "chosen", 2.0 * (double)d[0] * (double)d[1] * (double)d[2],
            false, most);
}

/* A layer with a weight of this dtype, by the chosen or a given provider. Without a fraction of the peak, which is
 * fp32.
 */
static void add_half_gemm(json_t *rows, tfm_context *ctx, const int64_t d[3], tfm_dtype stored, const char *provider) {
    static const char *const NAMES[] = {[TFM_F16] = "fp16", [TFM_BF16] = "bf16", [TFM_I8] = "int8"};
    task t = {.ctx = ctx, .run = provider ? run_linear : run_layer, .provider = provider};
    char shape[64];
    snprintf(shape, sizeof(shape), "%" PRId64 "x%" PRId64 "x%" PRId64 "nt", d[0], d[1], d[2]);
    t.x = bench_fill(ctx, 2, (int64_t[]){d[0], d[2]});
    tfm_tensor wide = bench_fill(ctx, 2, (int64_t[]){d[1], d[2]});
    t.weight.value = wide;
    if (stored == TFM_I8) {
        tfm_param_quantize(ctx, &t.weight);
    } else {
        t.weight.value = (tfm_tensor){0};
        tfm_cast(ctx, &t.weight.value, wide, stored);
        tfm_tensor_free(ctx, &wide);
    }
    add_row(rows, &t, NAMES[stored], shape, provider ? provider : "chosen",
            2.0 * (double)d[0] * (double)d[1] * (double)d[2], false, 0);
}

static void add_half_gemms(json_t *rows, tfm_context *ctx) {
    static const int64_t SIZES[][3] = {{1, 2048, 512}, {32, 512, 512}, {512, 2048, 512}, {1024, 1024, 1024}};
    static const tfm_dtype STORED[] = {TFM_F16, TFM_BF16, TFM_I8};
    for (size_t s = 0; s < CLI_COUNT(STORED); s++) {
        for (size_t i = 0; i < CLI_COUNT(SIZES); i++)
            add_half_gemm(rows, ctx, SIZES[i], STORED[s], NULL);
        if (STORED[s] != TFM_I8) /* also the reason if unavailable */
            add_half_gemm(rows, ctx, SIZES[CLI_COUNT(SIZES) - 1], STORED[s], "gpu-mma");
    }
}

static void add_gemms(json_t *rows, tfm_context *ctx, double most) {
    static const int64_t SIZES[][3] = {{1, 512, 512},     {8, 2048, 512},    {32, 512, 512},
                                       {32, 32000, 512},  {512, 512, 512},   {512, 2048, 512},
                                       {2048, 2048, 512}, {2048, 512, 2048}, {1024, 1024, 1024}};
    for (size_t i = 0; i < CLI_COUNT(SIZES); i++) {
        const bool all = SIZES[i][0] == 32 || SIZES[i][0] == 1024; /* every provider, for few and many rows */
        add_gemm(rows, ctx, SIZES[i], false, NULL, most);
        for (size_t p = 0; all && SIZES[i][1] < 2048 && tfm_gemm_provider(p); p++)
            add_gemm(rows, ctx, SIZES[i], false, tfm_gemm_provider(p), most);
    }
    add_gemm(rows, ctx, (int64_t[]){512, 512, 2048}, true, NULL, most);
}

static void add_attention(json_t *rows, tfm_context *ctx, int64_t batch, int64_t targets, int64_t sources,
                          bool backward, double most) {
    enum { HEADS = 8, WIDTH = 64 };
    task t = {.ctx = ctx, .run = backward ? run_backward : run_attention};
    char shape[64];
    snprintf(shape, sizeof(shape), "%" PRId64 "x%dx%" PRId64 "x%" PRId64 "x%d", batch, HEADS, targets, sources, WIDTH);
    t.attention.heads = HEADS;
    t.x = bench_fill(ctx, 3, (int64_t[]){batch, targets, HEADS * WIDTH});
    t.other = bench_fill(ctx, 3, (int64_t[]){batch, sources, HEADS * WIDTH});
    if (backward) { /* a tape watches each tensor once: v is separate */
        t.gamma = bench_fill(ctx, 3, (int64_t[]){batch, sources, HEADS * WIDTH});
        for (int i = 0; i < 3; i++)
            t.gradients[i] = bench_fill(ctx, 3, (int64_t[]){batch, i == 0 ? targets : sources, HEADS * WIDTH});
        t.dy = bench_fill(ctx, 3, (int64_t[]){batch, targets, HEADS * WIDTH});
    }
    /* Two GEMMs forward; backward the scores again, dp, dq, dk and dv. */
    add_row(rows, &t, backward ? "both ways" : "attention", shape, "",
            (backward ? 14.0 : 4.0) * HEADS * WIDTH * (double)(batch * targets * sources), false, most);
}

/* The time of a token by a Transformer of the preset "small", with new parameters: a decoding step, and its share of an
 * encoder pass. */
static void add_decoding(json_t *rows, tfm_context *ctx, int beam) {
    const bench_model *sizes = bench_model_named("small");
    task t = {.ctx = ctx, .run = run_search, .beam = beam};
    char shape[64];
    const tfm_model_shape made = {.width = sizes->width,
                                  .heads = sizes->heads,
                                  .ffn_dim = sizes->feed_forward,
                                  .encoder_layers = 1,
                                  .decoder_layers = 6,
                                  .source_vocab_size = sizes->vocabulary,
                                  .max_positions = 64,
                                  .pad_id = sizes->vocabulary - 1,
                                  .start_id = sizes->vocabulary - 1,
                                  .eos_id = 0,
                                  .activation = TFM_RELU,
                                  .seed = 1};
    snprintf(shape, sizeof(shape), "small, beam %d", beam);
    if (tfm_model_new(&t.model, ctx, &made) == TFM_OK) {
        add_row(rows, &t, "a token", shape, "", 0, false, 0);
    } else {
        char *why = report_redact(tfm_error_message());
        json_array_append_new(rows, json_pack("{s:s, s:s, s:s, s:s}", "bench", "a token", "shape", shape, "provider",
                                              "", "failed", why ? why : "out of memory"));
        free(why);
    }
    tfm_context_clear_error(ctx);
}

/* Bytes of a copy larger than the caches: 256 MiB for both sides, or less with less memory. */
static int64_t copied_rows(tfm_context *ctx) {
    const uint64_t memory = tfm_context_device(ctx)->memory_bytes, most = tfm_context_device(ctx)->max_alloc_bytes;
    int64_t count = 32768;
    while (count > 256 && ((memory && (uint64_t)count * 8192 > memory / 4) || (most && (uint64_t)count * 4096 > most)))
        count /= 2;
    return count;
}

/* The spread of turns: the median and the maximum over rows. */
static json_t *spread_of(const json_t *rows) {
    double all[256];
    size_t count = 0, i;
    json_t *row;
    json_array_foreach((json_t *)rows, i, row) if (json_object_get(row, "spread") && count < CLI_COUNT(all))
        all[count++] = json_number_value(json_object_get(row, "spread"));
    qsort(all, count, sizeof(*all), compare);
    return json_pack("{s:f, s:f}", "median", count > 0 ? all[count / 2] : 0, "most", count > 0 ? all[count - 1] : 0);
}

/* If the last timings of different ops have all failed, the device was lost at the first of them. */
static void compare_with_peak(json_t *report, const json_t *rows) {
    enum { LAST = 3 };
    size_t at = json_array_size(rows);
    while (at > 0 && json_object_get(json_array_get(rows, at - 1), "failed"))
        at--;
    if (json_array_size(rows) - at >= LAST && !json_object_get(report, "failed"))
        json_object_set(report, "failed", json_object_get(json_array_get(rows, at), "failed"));
}

void report_bench(tfm_context *ctx, json_t *report) {
    double flops = 0;
    cli_progress("report: measuring the device's peak");
    if (tfm_measure_peak_flops(ctx, &flops) != TFM_OK) {
        report_failed(report);
        tfm_context_clear_error(ctx);
    }
    json_t *rows = json_array();
    const double bytes = add_rows_op(rows, ctx, "copy", run_copy, copied_rows(ctx), 1024, 0);
    json_object_set_new(report, "peak", json_pack("{s:f, s:f}", "gflops", flops * 1e-9, "gbytes_per_s", bytes * 1e-9));
    add_rows_op(rows, ctx, "layernorm", run_layernorm, 16384, 1024, bytes);
    add_rows_op(rows, ctx, "softmax", run_softmax, 16384, 1024, bytes);
    add_gemms(rows, ctx, flops);
    add_half_gemms(rows, ctx);
    add_attention(rows, ctx, 32, 1, 64, false, flops);
    add_attention(rows, ctx, 8, 256, 256, false, flops);
    add_attention(rows, ctx, 1, 1024, 1024, false, flops);
    add_attention(rows, ctx, 8, 256, 256, true, flops);
    add_decoding(rows, ctx, 1);
    add_decoding(rows, ctx, 4);
    cli_progress(NULL);
    json_object_set_new(report, "spread", spread_of(rows));
    compare_with_peak(report, rows);
    json_object_set_new(report, "bench", rows);
}
