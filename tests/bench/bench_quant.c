/* Times linear layers with block-quantized weights: best of a few runs, against a loop of two threads that reads as
 * many bytes.
 *
 *     bench_quant [FORMAT|all [M [N K]]]    default: decoding (M = 1) of three shapes in Q4_0, Q4_1, Q4_K, Q6_K, Q8_0
 *
 * GB/s counts the bytes of the file. core-GB/s uses the CPU time of this process, which other load does not change. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "ops/quant/quant.h"

static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void leave(const tfm_context *ctx) {
    if (tfm_context_status(ctx) != TFM_OK) {
        fprintf(stderr, "%s\n", tfm_context_error(ctx));
        exit(1);
    }
}

typedef struct part {
    const uint64_t *at;
    size_t count;
    uint64_t sum;
} part;

static void *read_part(void *data) {
    part *p = data;
    uint64_t sum[4] = {0};
    for (size_t i = 0; i + 32 <= p->count; i += 32) /* a word of each cache line of four */
        for (size_t j = 0; j < 4; j++)
            sum[j] += p->at[i + 8 * j];
    p->sum = sum[0] + sum[1] + sum[2] + sum[3];
    return NULL;
}

/* Seconds of two threads that read `bytes` bytes. */
static double read_seconds(const uint8_t *memory, size_t bytes) {
    double best = 1e9;
    for (int run = 0; run < 7; run++) {
        pthread_t thread;
        part a = {(const uint64_t *)(const void *)memory, bytes / 16, 0}, b = a;
        b.at += a.count;
        const double begun = now(CLOCK_MONOTONIC);
        if (pthread_create(&thread, NULL, read_part, &b) != 0)
            exit(1);
        read_part(&a);
        pthread_join(thread, NULL);
        const double took = now(CLOCK_MONOTONIC) - begun;
        best = took < best ? took : best;
        if (a.sum + b.sum == 1)
            puts("");
    }
    return best;
}

static void linear(tfm_context *ctx, const tfm__quant_format *f, int64_t m, int64_t n, int64_t k,
                   tfm__quant_activation form) {
    const size_t bytes = (size_t)(n * k / f->block * f->bytes);
    uint8_t *blocks = malloc(bytes + 64);
    float *x = malloc((size_t)(m * k) * sizeof(*x));
    if (!blocks || !x)
        exit(1);
    for (size_t i = 0; i < bytes; i++)
        blocks[i] = (uint8_t)(i * 2654435761u >> 13 & 0x3b);
    for (int64_t i = 0; i < m * k; i++)
        x[i] = (float)(i % 13) - 6;
    tfm_param w;
    tfm_tensor tx = {0}, y = {0};
    const double begun = now(CLOCK_PROCESS_CPUTIME_ID);
    tfm__quant_upload(ctx, &w, "w", f, &(tfm__quant_rows){.of = blocks}, n, k);
    const double uploaded = now(CLOCK_PROCESS_CPUTIME_ID) - begun;
    tfm_tensor_new(ctx, &tx, TFM_F32, 2, (int64_t[]){m, k});
    tfm_tensor_new(ctx, &y, TFM_F32, 2, (int64_t[]){m, n});
    tfm_tensor_write(ctx, tx, x);
    leave(ctx);
    double best = 1e9, best_core = 1e9;
    const int inner = bytes < 4 << 20 ? 20 : 1;
    for (int run = 0; run < 12; run++) {
        const double wall = now(CLOCK_MONOTONIC), core = now(CLOCK_PROCESS_CPUTIME_ID);
        for (int i = 0; i < inner; i++) {
            const tfm__fused_output out = {&y, &w, {0}};
            tfm__quant_linear(ctx, tx, 1, &out, TFM_NO_ACTIVATION, form);
        }
        tfm_context_finish(ctx);
        leave(ctx);
        const double took = (now(CLOCK_MONOTONIC) - wall) / inner,
                     core_took = (now(CLOCK_PROCESS_CPUTIME_ID) - core) / inner;
        best = took < best ? took : best;
        best_core = core_took < best_core ? core_took : best_core;
    }
    const double read = read_seconds(blocks, bytes);
    printf("%-6s %4d x %6d x %5d %s  %8.3f ms  %6.2f GB/s  %6.2f core-GB/s  %6.1f core-GMAC/s  read loop %6.2f GB/s  "
           "repack %.2f GB/s\n",
           f->name, (int)m, (int)n, (int)k, form == TFM__QUANT_ACTIVATION_FP32 ? "fp32 " : "int16", best * 1e3,
           (double)bytes / best * 1e-9, (double)bytes / best_core * 1e-9, (double)(m * n * k) / best_core * 1e-9,
           (double)bytes / read * 1e-9, (double)bytes / uploaded * 1e-9);
    fflush(stdout);
    tfm_param_free(ctx, &w);
    tfm_tensor_free(ctx, &tx);
    tfm_tensor_free(ctx, &y);
    free(blocks);
    free(x);
}

int main(int argc, char **argv) {
    static const char *const NAMES[] = {"Q4_0", "Q4_1", "Q4_K", "Q6_K", "Q8_0"};
    static const int64_t SHAPES[][2] = {{576, 1536}, {2048, 8192}, {49152, 576}};
    tfm_context *ctx = NULL;
    if (tfm_context_open(&ctx, NULL) != TFM_OK) {
        fprintf(stderr, "%s\n", tfm_error_message());
        return 1;
    }
    const int64_t m = argc > 2 ? atoll(argv[2]) : 1;
    for (size_t s = 0; s < (argc > 4 ? 1 : 3); s++)
        for (size_t i = 0; i < 5; i++) {
            const tfm__quant_format *f = tfm__quant_format_named(NAMES[i]);
            const bool chosen = argc > 1 && strcmp(argv[1], "all") != 0;
            if (chosen && i > 0)
                break;
            f = chosen ? tfm__quant_format_named(argv[1]) : f;
            const int64_t n = argc > 4 ? atoll(argv[3]) : SHAPES[s][0], k = argc > 4 ? atoll(argv[4]) : SHAPES[s][1];
            if (!tfm__quant_fits(f, n, k))
                continue;
            linear(ctx, f, m, n, k, TFM__QUANT_ACTIVATION_GENERATED);
            linear(ctx, f, m, n, k, TFM__QUANT_ACTIVATION_FP32);
        }
    tfm_context_free(&ctx);
    return 0;
}
