/* Memory throughput of elementwise kernels and top-k: each op on tensors aligned to four elements, and on tensors that
 * begin one element later.
 *
 *     bench_moves [ROWS]      default 512: rows of 58,100 floats, a translator's vocabulary
 *
 * Prints microseconds of one call, over consecutive calls with one wait, the minimum of seven series; and GB/s of the
 * bytes that it must read and write. TFM_DEVICE selects the device. */
#include <stdio.h>
#include <stdlib.h>
#include <tfm/tfm.h>
#include <time.h>

enum { ROWS = 7, CALLS = 50, WORDS = 58100 };

typedef struct moved {
    tfm_context *ctx;
    tfm_tensor x, y, z, m, v, half, values, indices, sums;
} moved;

static void check(tfm_status status) {
    if (status == TFM_OK)
        return;
    fprintf(stderr, "bench_moves: %s\n", tfm_error_message());
    exit(1);
}

static tfm_status cast(moved *t) {
    return tfm_cast(t->ctx, &t->half, t->x, TFM_F16);
}
static tfm_status activate(moved *t) {
    return tfm_activate(t->ctx, &t->y, t->x, TFM_RELU);
}
static tfm_status negate(moved *t) {
    return tfm_neg(t->ctx, &t->y, t->x);
}
static tfm_status add(moved *t) {
    return tfm_add(t->ctx, &t->y, t->x, t->z);
}
static tfm_status multiply(moved *t) {
    return tfm_mul(t->ctx, &t->y, t->x, t->z);
}
static tfm_status adam(moved *t) {
    return tfm_adam(
        t->ctx, t->x, t->z, t->m, t->v,
        &(tfm_adam_options){.learning_rate = 1e-6, .beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-9, .step = 1});
}
static tfm_status copy(moved *t) {
    return tfm_concat(t->ctx, &t->y, 1, &t->x, 0);
}
static tfm_status best(moved *t) {
    return tfm_topk(t->ctx, &t->values, &t->indices, &t->sums, t->x, 8);
}

static const struct op {
    const char *name;
    tfm_status (*call)(moved *t);
    double bytes; /* per element */
} OPS[] = {{"cast to F16", cast, 6}, {"relu", activate, 8}, {"neg", negate, 8},  {"add", add, 12},
           {"mul", multiply, 12},    {"copy", copy, 8},     {"best 8", best, 4}, {"adam", adam, 32}};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double measure(moved *t, tfm_status (*call)(moved *t)) {
    double least = 1e9;
    check(call(t));
    check(tfm_context_finish(t->ctx));
    for (int row = 0; row < ROWS; row++) {
        const double start = now();
        for (int i = 0; i < CALLS; i++)
            check(call(t));
        check(tfm_context_finish(t->ctx));
        const double took = (now() - start) / CALLS;
        least = took < least ? took : least;
    }
    return least;
}

/* (rows, WORDS) from element `late` of a buffer on. */
static tfm_tensor view(tfm_context *ctx, tfm_dtype dtype, int64_t rows, int64_t late) {
    tfm_tensor whole = {0}, flat = {0}, x = {0};
    const int64_t count = rows * WORDS, room = count + 4;
    check(tfm_tensor_new(ctx, &whole, dtype, 1, &room));
    check(tfm_tensor_rows(ctx, &flat, whole, late, count));
    check(tfm_tensor_reshape(ctx, &x, flat, 2, (int64_t[]){rows, WORDS}));
    return x;
}

static void fill(tfm_context *ctx, tfm_tensor x) {
    const size_t count = tfm_tensor_count(x);
    float *host = malloc(count * sizeof(*host));
    uint64_t random = 17;
    for (size_t i = 0; host && i < count; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        host[i] = (float)(random >> 40) / 16777216.0f;
    }
    check(host ? tfm_tensor_write(ctx, x, host) : TFM_ERROR_MEMORY);
    free(host);
}

int main(int count, char **arguments) {
    const int64_t rows = count > 1 ? atoll(arguments[1]) : 512;
    tfm_context *ctx;
    if (rows < 1)
        return 2;
    check(tfm_context_open(&ctx, NULL));
    printf("%s: %d rows of %d floats; microseconds, GB/s\n", tfm_context_device(ctx)->name, (int)rows, WORDS);
    for (int64_t late = 0; late < 2; late++) {
        check(tfm_scope_open(ctx));
        moved t = {.ctx = ctx};
        tfm_tensor *const floats[] = {&t.x, &t.y, &t.z, &t.m, &t.v};
        for (int i = 0; i < 5; i++)
            fill(ctx, *floats[i] = view(ctx, TFM_F32, rows, late));
        t.half = view(ctx, TFM_F16, rows, late);
        for (size_t i = 0; i < sizeof(OPS) / sizeof(OPS[0]); i++) {
            const double took = measure(&t, OPS[i].call);
            printf("%-12s %s  %9.1f  %7.0f\n", OPS[i].name, late ? "one later" : "by fours ", took * 1e6,
                   OPS[i].bytes * (double)rows * WORDS / took * 1e-9);
            fflush(stdout);
        }
        check(tfm_scope_close(ctx, 0, NULL));
    }
    tfm_context_free(&ctx);
    return 0;
}
