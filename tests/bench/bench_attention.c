/* Times attention and top-k at the shapes of translation: best of a few runs.
 *
 *     bench_attention [PART]    only lines with PART in their name: own, source, encoder, long, topk
 *
 * GFLOP/s counts 2 S (dk + dv) per query and head, half of it if causal; core-GFLOP/s uses the CPU time of this
 * process, which other load does not change. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "tfm/ops.h"

typedef struct shape {
    const char *name;
    int64_t batch, targets, length, heads, width, beams;
    bool paged, causal;
    enum { NO_MASK, ADDED, BOOLEAN } mask; /* (T, S) */
    float soft_cap;
    tfm_dtype numbers; /* of q, k and v */
    int64_t window;    /* keys on each side; 0: no window */
} shape;

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

/* Numbers in [-1, 1), or with `below` unordered indices in [0, below). */
static tfm_tensor filled(tfm_context *ctx, tfm_dtype dtype, int rank, const int64_t *dims, int64_t below) {
    tfm_tensor x = {0};
    tfm_tensor_new(ctx, &x, dtype, rank, dims);
    const size_t count = tfm_tensor_count(x);
    const size_t size = tfm_dtype_size(dtype);
    uint32_t *host = malloc(count * sizeof(*host)), seed = 1;
    if (!host)
        exit(1);
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        if (dtype == TFM_F32)
            ((float *)host)[i] = (float)seed * 4.6566e-10F - 1.0F;
        else if (size < 4) /* fp16 between 2^-8 and 1; arbitrary bytes, mostly not 0 */
            for (size_t byte = 0; byte < size; byte++)
                ((unsigned char *)host)[i * size + byte] = (unsigned char)(byte ? 0x38 + (seed >> 28) % 4 : seed >> 24);
        else
            host[i] = below > 0 ? (uint32_t)(((uint64_t)seed * (uint64_t)below) >> 32) : (uint32_t)(i / (size_t)-below);
    }
    tfm_tensor_write(ctx, x, host);
    free(host);
    leave(ctx);
    return x;
}
#define FILLED(dtype, below, ...)                                                                                      \
    filled(ctx, dtype, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__}, below)

static void attention(tfm_context *ctx, const shape *s) {
    const int64_t width = s->heads * s->width, sequences = s->beams ? s->batch / s->beams : s->batch;
    const int64_t pool = s->batch * s->length;
    tfm_attention_options options = {.heads = (int)s->heads,
                                     .causal = s->causal,
                                     .soft_cap = s->soft_cap,
                                     .window = s->window > 0,
                                     .window_left = s->window,
                                     .window_right = s->window};
    tfm_scope_open(ctx);
    tfm_tensor q = FILLED(s->numbers, 0, s->batch, s->targets, width), y = {0};
    tfm_tensor k = s->paged ? FILLED(s->numbers, 0, pool, width) : FILLED(s->numbers, 0, sequences, s->length, width);
    tfm_tensor v = s->paged ? FILLED(s->numbers, 0, pool, width) : FILLED(s->numbers, 0, sequences, s->length, width);
    if (s->paged)
        options.kv_indices = FILLED(TFM_I32, pool, s->batch, s->length);
    if (s->mask)
        options.mask = FILLED(s->mask == ADDED ? TFM_F32 : TFM_U8, 0, s->targets, s->length);
    if (s->beams)
        options.kv_batch = FILLED(TFM_I32, -s->beams, s->batch);
    const double seen = s->window ? (double)(2 * s->window + 1) : (double)s->length * (s->causal ? 0.5 : 1);
    const double work = 4.0 * (double)(s->batch * s->targets * width) * seen;
    const int runs = work > 1e9 ? 6 : 20;
    double best = 1e30, computed = 1e30;
    for (int i = 0; i < runs; i++) {
        double wall = now(CLOCK_MONOTONIC), process = now(CLOCK_PROCESS_CPUTIME_ID);
        tfm_attention(ctx, &y, q, k, v, &options);
        tfm_context_finish(ctx);
        leave(ctx);
        wall = now(CLOCK_MONOTONIC) - wall;
        process = now(CLOCK_PROCESS_CPUTIME_ID) - process;
        best = wall < best ? wall : best;
        computed = process < computed ? process : computed;
    }
    printf("attention %-18s B %4d T %4d S %4d H %d d %3d: %9.1f us %7.1f GFLOP/s %7.1f core-GFLOP/s\n", s->name,
           (int)s->batch, (int)s->targets, (int)s->length, (int)s->heads, (int)s->width, best * 1e6, work / best * 1e-9,
           work / computed * 1e-9);
    tfm_scope_close(ctx, 0, NULL);
}

static void topk(tfm_context *ctx, int64_t rows, int64_t n, int k, bool summed) {
    tfm_scope_open(ctx);
    tfm_tensor x = FILLED(TFM_F32, 0, rows, n), values = {0}, indices = {0}, lse = {0};
    double best = 1e30, computed = 1e30;
    for (int i = 0; i < 12; i++) {
        double wall = now(CLOCK_MONOTONIC), process = now(CLOCK_PROCESS_CPUTIME_ID);
        tfm_topk(ctx, &values, &indices, summed ? &lse : NULL, x, k);
        tfm_context_finish(ctx);
        leave(ctx);
        wall = now(CLOCK_MONOTONIC) - wall;
        process = now(CLOCK_PROCESS_CPUTIME_ID) - process;
        best = wall < best ? wall : best;
        computed = process < computed ? process : computed;
    }
    printf("topk %4d x %5d k %2d %-8s: %8.1f us, %6.2f us/row, %6.2f core-us/row, %5.1f GB/s\n", (int)rows, (int)n, k,
           summed ? "log sum" : "", best * 1e6, best / (double)rows * 1e6, computed / (double)rows * 1e6,
           (double)(rows * n) * 4e-9 / best);
    tfm_scope_close(ctx, 0, NULL);
}

int main(int argc, char **argv) {
    const char *part = argc > 1 ? argv[1] : "";
    const shape shapes[] = {
        {"own keys, paged", 64, 1, 20, 8, 64, .paged = true},
        {"own keys, paged", 256, 1, 20, 8, 64, .paged = true},
        {"own keys, paged", 1024, 1, 20, 8, 32, .paged = true},
        {"own keys, paged", 1024, 1, 60, 8, 64, .paged = true},
        {"source, beams of 4", 64, 1, 25, 8, 64, .beams = 4},
        {"source, beams of 4", 256, 1, 25, 8, 64, .beams = 4},
        {"source, beams of 4", 1024, 1, 25, 8, 32, .beams = 4},
        {"encoder", 300, 8, 8, 8, 64, .beams = 0},
        {"encoder", 100, 25, 25, 8, 64, .beams = 0},
        {"encoder", 100, 100, 100, 8, 64, .beams = 0},
        {"long", 1, 256, 256, 8, 64, .beams = 0},
        {"long", 1, 1024, 1024, 8, 64, .beams = 0},
        {"long", 1, 2048, 2048, 8, 64, .beams = 0},
        {"long causal", 1, 1024, 1024, 8, 64, .causal = true},
        {"long", 1, 1024, 1024, 8, 128, .beams = 0},
        {"long, added mask", 1, 1024, 1024, 8, 64, .mask = ADDED},
        {"long, bool mask", 1, 1024, 1024, 8, 64, .mask = BOOLEAN},
        {"long, soft cap", 1, 1024, 1024, 8, 64, .soft_cap = 30},
        {"long, F16", 1, 1024, 1024, 8, 64, .numbers = TFM_F16},
        {"long, BF16", 1, 1024, 1024, 8, 64, .numbers = TFM_BF16},
        {"long, window", 1, 2048, 2048, 8, 64, .window = 128},
    };
    tfm_context *ctx;
    if (tfm_context_open(&ctx, NULL) != TFM_OK) {
        fprintf(stderr, "%s\n", tfm_error_message());
        return 1;
    }
    const bool slow = tfm_context_device(ctx)->emulator;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
        if (strstr(shapes[i].name, part) && (!slow || shapes[i].targets < 100))
            attention(ctx, &shapes[i]);
    for (int64_t rows = 64; strstr("topk", part) && rows <= (slow ? 64 : 1024); rows *= 4)
        for (int i = 0; i < 2; i++) {
            const int64_t n = i ? 32000 : 6001;
            topk(ctx, rows, n, 1, false);
            topk(ctx, rows, n, 8, true);
            topk(ctx, rows, n, 16, true);
        }
    if (strstr("topk", part))
        topk(ctx, slow ? 64 : 256, 65000, 8, true);
    tfm_context_free(&ctx);
    return 0;
}
