/* Times the GEMM providers on this device: medians of interleaved runs, so that a busy machine slows all
 * alike.
 *
 *     bench_gemm [m n k]      without a shape: 512 cubed, then the shapes of a small translator
 *
 * Prints a line a shape: GFLOP/s of each provider, and how many times CLBlast's the first one is. CLBlast
 * compiles for many seconds before its first result; set TFM_GEMM=builtin to leave it out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "ops/gemm.h"

enum { RUNS = 15 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare(const void *x, const void *y) {
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static void leave(const tfm_context *ctx) {
    if (tfm_context_status(ctx) != TFM_OK) {
        fprintf(stderr, "%s\n", tfm_context_error(ctx));
        exit(1);
    }
}

/* Seconds for one product, of `repeat` enqueued without a wait. */
static double timed(tfm_context *ctx, const tfm__gemm_provider *provider, const tfm__gemm_task *task,
                    int repeat) {
    double start = now();
    for (int i = 0; i < repeat; i++)
        provider->run(ctx, task);
    tfm_context_finish(ctx);
    leave(ctx);
    return (now() - start) / repeat;
}

static double median(double *seconds) {
    qsort(seconds, RUNS, sizeof(*seconds), compare);
    return seconds[RUNS / 2];
}

static void shape(tfm_context *ctx, int64_t m, int64_t n, int64_t k) {
    static double seconds[TFM__GEMM_PROVIDERS][RUNS];
    const double work = 2.0 * (double)m * (double)n * (double)k;
    const float zero = 0;
    const int repeat = work > 2e7 ? 1 : 16;
    tfm_param weight = {0};
    tfm__gemm_task task = {
        .batch = 1, .m = m, .n = n, .k = k, .transpose_b = true, .shared_b = true, .alpha = 1};
    tfm_scope_open(ctx);
    tfm_tensor_new(ctx, &task.a, TFM_F32, 2, (int64_t[]){m, k});
    tfm_tensor_new(ctx, &weight.value, TFM_F32, 2, (int64_t[]){n, k});
    tfm_tensor_new(ctx, &task.c, TFM_F32, 2, (int64_t[]){m, n});
    tfm__tensor_fill(ctx, task.a, &zero);
    tfm__tensor_fill(ctx, weight.value, &zero);
    leave(ctx);
    task.b = weight.value;
    task.weight = &weight;

    const bool clblast = tfm__gemm_state_of(ctx)->mode != TFM__GEMM_BUILTIN;
    bool runs[TFM__GEMM_PROVIDERS];
    for (int p = 0; p < TFM__GEMM_PROVIDERS; p++) {
        const tfm__gemm_provider *provider = tfm__gemm_all[p];
        runs[p] = !provider->declines(ctx, &task) && (clblast || provider != &tfm__gemm_clblast);
        if (runs[p])
            timed(ctx, provider, &task, 2); /* compiles, packs, proves */
    }
    for (int run = 0; run < RUNS; run++)
        for (int p = 0; p < TFM__GEMM_PROVIDERS; p++)
            if (runs[p])
                seconds[p][run] = timed(ctx, tfm__gemm_all[p], &task, repeat);

    const tfm__gemm_provider *chosen = tfm__gemm_choose(ctx, &task);
    double ours = 0, theirs = 0;
    printf("m %4d n %4d k %4d", (int)m, (int)n, (int)k);
    for (int p = 0; p < TFM__GEMM_PROVIDERS; p++)
        if (runs[p]) {
            double s = median(seconds[p]);
            printf("  %s %.1f", tfm__gemm_all[p]->name, 1e-9 * work / s);
            ours = tfm__gemm_all[p] == tfm__gemm_builtin(ctx, &task) ? s : ours;
            theirs = tfm__gemm_all[p] == &tfm__gemm_clblast ? s : theirs;
        }
    printf("  GFLOP/s; chosen %s", chosen->name);
    if (theirs > 0)
        printf("; %s %.1f times clblast", tfm__gemm_builtin(ctx, &task)->name, theirs / ours);
    printf("\n");
    fflush(stdout);
    tfm_param_free(ctx, &weight);
    tfm_scope_close(ctx, 0, NULL);
    leave(ctx);
}

int main(int argc, char **argv) {
    static const int shapes[][3] = {{512, 512, 512}, {1, 128, 128},   {4, 512, 128},    {8, 128, 512},
                                    {16, 128, 128},  {64, 128, 128},  {64, 384, 128},   {64, 512, 128},
                                    {64, 128, 512},  {64, 6001, 128}, {256, 6001, 128}, {512, 512, 128}};
    tfm_context *ctx;
    if (tfm_context_open(&ctx, NULL) != TFM_OK) {
        fprintf(stderr, "%s\n", tfm_error_message());
        return 1;
    }
    printf("%s, row %s\n", tfm_context_device(ctx)->name, tfm__context_row(ctx)->name);
    if (argc == 4)
        shape(ctx, atoi(argv[1]), atoi(argv[2]), atoi(argv[3]));
    else
        for (size_t i = 0; i < TFM_COUNT(shapes); i++)
            shape(ctx, shapes[i][0], shapes[i][1], shapes[i][2]);
    tfm_context_free(&ctx);
    return 0;
}
