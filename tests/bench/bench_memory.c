/* Peak memory of attention over one sequence, by its length: 4 heads of width 64.
 *
 *     bench_memory LENGTH [causal] [backward]
 *
 * Prints a JSON object: peak bytes of the context's pool and of the process (Linux only; with the driver and, without
 * cached kernels, its compiler), and the seconds. `backward` also computes the gradients of queries, keys and values.
 * growth.py plots them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "tfm/ops.h"
#include "tfm/tape.h"

enum { HEADS = 4, WIDTH = 64, ROWS = 256 };

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static uint64_t process_peak(void) {
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    uint64_t kib = 0;
    while (file && fgets(line, sizeof(line), file))
        if (strncmp(line, "VmHWM:", 6) == 0)
            kib = strtoull(line + 6, NULL, 10);
    if (file)
        fclose(file);
    return kib * 1024;
}

/* Numbers in [-1, 1), written in parts, so that host memory does not grow with the length. */
static tfm_tensor filled(tfm_context *ctx, int64_t length, uint32_t seed) {
    static float host[ROWS * HEADS * WIDTH];
    tfm_tensor x = {0};
    tfm_tensor_new(ctx, &x, TFM_F32, 2, (int64_t[]){length, HEADS * WIDTH});
    for (size_t i = 0; i < sizeof(host) / sizeof(*host); i++) {
        seed = seed * 1664525u + 1013904223u;
        host[i] = (float)seed * 4.6566e-10F - 1.0F;
    }
    for (int64_t row = 0; row < length; row += ROWS) {
        tfm_tensor some = {0};
        tfm_tensor_rows(ctx, &some, x, row, length - row < ROWS ? length - row : ROWS);
        tfm_tensor_write(ctx, some, host);
    }
    tfm_tensor_reshape(ctx, &x, x, 3, (int64_t[]){1, length, HEADS * WIDTH});
    return x;
}

static void run(tfm_context *ctx, int64_t length, bool causal, bool backward) {
    const tfm_attention_options options = {.heads = HEADS, .causal = causal};
    tfm_tensor inputs[3], y = {0}, dy = {0};
    tfm_scope_open(ctx);
    for (uint32_t i = 0; i < 3; i++)
        inputs[i] = filled(ctx, length, i);
    if (backward) {
        dy = filled(ctx, length, 3);
        tfm_tape_start(ctx);
        for (int i = 0; i < 3; i++)
            tfm_tape_watch(ctx, inputs[i], filled(ctx, length, 4));
    }
    tfm_attention(ctx, &y, inputs[0], inputs[1], inputs[2], &options);
    if (backward)
        tfm_backward(ctx, y, dy);
    tfm_context_finish(ctx);
    tfm_scope_close(ctx, 0, NULL);
}

int main(int argc, char **argv) {
    const int64_t length = argc > 1 ? strtoll(argv[1], NULL, 10) : 0;
    bool causal = false, backward = false, known = length > 0;
    for (int i = 2; i < argc; i++) {
        causal = causal || strcmp(argv[i], "causal") == 0;
        backward = backward || strcmp(argv[i], "backward") == 0;
        known = known && (strcmp(argv[i], "causal") == 0 || strcmp(argv[i], "backward") == 0);
    }
    if (!known) {
        fprintf(stderr, "usage: bench_memory LENGTH [causal] [backward]\n");
        return 2;
    }
    tfm_context *ctx = NULL;
    if (tfm_context_open(&ctx, NULL) != TFM_OK) {
        fprintf(stderr, "bench_memory: %s\n", tfm_error_message());
        return 1;
    }
    const double start = seconds();
    run(ctx, length, causal, backward);
    if (tfm_context_status(ctx) != TFM_OK) {
        fprintf(stderr, "bench_memory: %s\n", tfm_context_error(ctx));
        return 1;
    }
    printf("{\"length\": %" PRId64 ", \"pool_bytes\": %" PRIu64 ", \"process_bytes\": %" PRIu64
           ", \"seconds\": %.3f}\n",
           length, tfm_context_peak_memory(ctx), process_peak(), seconds() - start);
    tfm_context_free(&ctx);
    return 0;
}
