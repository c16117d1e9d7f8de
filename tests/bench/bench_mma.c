/* Times each MMA tile of the device, for the table in lib/ops/gemm/gemm_mma.c: linear layers with 16-bit weights, with
 * the tile that tfm selects and with every tile, with split-K of 1, 2 and 4.
 *
 *     bench_mma [fp16|bf16 [MxNxK...]]
 *
 * Prints microseconds per GEMM, over consecutive launches with one wait: the minimum of seven series; `-` for an
 * unsupported shape. TFM_DEVICE selects the device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "dev/device/context_internal.h"
#include "ops/gemm/gemm.h"

enum { ROWS = 7, MOST_TILES = 7 };

static void check(tfm_status status) {
    if (status == TFM_OK)
        return;
    fprintf(stderr, "bench_mma: %s\n", tfm_error_message());
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds of one GEMM; 0 if the tile of the tuning does not support it. */
static double measure(tfm_context *ctx, const tfm__gemm_task *task) {
    if (tfm__gemm_gpu_mma.declines(ctx, task))
        return 0;
    check(tfm__gemm_dispatch(ctx, &tfm__gemm_gpu_mma, task)); /* and validates it */
    check(tfm_context_finish(ctx));
    if (tfm__gemm_gpu_mma.declines(ctx, task))
        return 0;
    const double work = 2.0 * (double)task->m * (double)task->n * (double)task->k;
    const int launches = work > 1e11 ? 5 : work > 1e9 ? 50 : 200;
    double least = 1e9;
    for (int row = 0; row < ROWS; row++) {
        const double start = now();
        for (int i = 0; i < launches; i++)
            check(tfm__gemm_dispatch(ctx, &tfm__gemm_gpu_mma, task));
        check(tfm_context_finish(ctx));
        const double took = (now() - start) / launches;
        least = took < least ? took : least;
    }
    return least;
}

/* Numbers in [-1, 1): zeros would need less power, and so less time. */
static void fill(tfm_context *ctx, tfm_tensor x) {
    const size_t count = tfm_tensor_count(x);
    float *host = malloc(count * sizeof(*host));
    uint64_t random = 17;
    for (size_t i = 0; host && i < count; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        host[i] = (float)(int32_t)(random >> 32) / 2147483648.0f;
    }
    check(host ? tfm_tensor_write(ctx, x, host) : TFM_ERROR_MEMORY);
    free(host);
}

static void shape(tfm_context *ctx, tfm_dtype dtype, const char *text) {
    long long m, n, k;
    if (sscanf(text, "%lldx%lldx%lld", &m, &n, &k) != 3 || m < 1 || n < 1 || k < 1) {
        fprintf(stderr, "bench_mma: no shape MxNxK: %s\n", text);
        exit(2);
    }
    tfm__gemm_task task = {.batch = 1, .m = m, .n = n, .k = k, .transpose_b = true, .shared_b = true, .alpha = 1};
    check(tfm_scope_open(ctx));
    tfm_tensor weight = {0};
    check(tfm_tensor_new(ctx, &task.a, TFM_F32, 2, (int64_t[]){m, k}));
    check(tfm_tensor_new(ctx, &weight, TFM_F32, 2, (int64_t[]){n, k}));
    check(tfm_tensor_new(ctx, &task.c, TFM_F32, 2, (int64_t[]){m, n}));
    fill(ctx, task.a);
    fill(ctx, weight);
    check(tfm_cast(ctx, &task.b, weight, dtype));
    for (int tile = 0; tile <= MOST_TILES; tile++) {
        if (tile == 0)
            printf("%-16s chosen", text);
        else
            printf("%-16s tile %d", text, tile);
        for (int parts = tile == 0 ? 0 : 1; parts <= (tile == 0 ? 0 : 4); parts *= 2) {
            ctx->tuning.gemm_tile = tile;
            ctx->tuning.gemm_split_k = parts;
            const double took = measure(ctx, &task);
            if (took > 0)
                printf("  %9.1f", took * 1e6);
            else
                printf("  %9s", "-");
            if (tile == 0)
                break;
        }
        printf("\n");
        fflush(stdout);
    }
    check(tfm_scope_close(ctx, 0, NULL));
}

int main(int count, char **arguments) {
    static const char *const SHAPES[] = {"64x512x512",    "256x512x512",   "256x2048x512",  "256x512x2048",
                                         "1024x512x512",  "4096x512x512",  "2048x2048x512", "4096x2048x512",
                                         "256x32000x512", "4096x4096x4096"};
    const tfm_dtype dtype = count > 1 && strcmp(arguments[1], "bf16") == 0 ? TFM_BF16 : TFM_F16;
    tfm_context *ctx;
    check(tfm_context_open(&ctx, NULL));
    printf("%s, %s; microseconds with split-K of 1, 2 and 4\n", tfm_context_device(ctx)->name, tfm_dtype_name(dtype));
    for (int i = 2; i < count; i++)
        shape(ctx, dtype, arguments[i]);
    for (size_t i = 0; count < 3 && i < TFM__COUNT(SHAPES); i++)
        shape(ctx, dtype, SHAPES[i]);
    tfm_context_free(&ctx);
    return 0;
}
