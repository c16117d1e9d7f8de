/* Shared by the selftest's checks: comparison of ops with double precision on the host. */
#include <math.h>
#include <string.h>
#include "ops/selftest/selftest.h"

void *tfm__check_alloc(tfm__check *c, size_t count, size_t size) {
    void *memory = c->allocation_count < TFM__CHECK_ALLOCATIONS ? tfm__alloc(count, size) : NULL;
    if (!memory)
        tfm__context_fail(c->ctx, TFM_ERROR_MEMORY, "selftest: out of host memory");
    else
        c->allocations[c->allocation_count++] = memory;
    return memory;
}

/* In [0, 1), the same in every run. */
static double next(tfm__check *c) {
    c->random = c->random * 6364136223846793005u + 1442695040888963407u;
    return (double)(c->random >> 40) / (1 << 24);
}

static size_t product(int rank, const int64_t *dims) {
    size_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= (size_t)dims[i];
    return count;
}

tfm_tensor tfm__check_random(tfm__check *c, void *host_out, tfm_dtype dtype, int rank, const int64_t *dims, int below) {
    tfm_tensor x = {0};
    size_t count = product(rank, dims);
    void *host = tfm__check_alloc(c, count, tfm_dtype_size(dtype));
    for (size_t i = 0; host && i < count; i++) {
        if (dtype == TFM_F32)
            ((float *)host)[i] = (float)(4 * next(c) - 2);
        else
            ((int32_t *)host)[i] = (int32_t)(next(c) * below);
    }
    memcpy(host_out, &host, sizeof(host));
    tfm_tensor_new(c->ctx, &x, dtype, rank, dims);
    if (host)
        tfm_tensor_write(c->ctx, x, host);
    return x;
}

void tfm__check_compare(tfm__check *c, tfm_tensor got, const double *want) {
    size_t count = tfm_tensor_count(got);
    float *host = tfm__check_alloc(c, count, sizeof(*host));
    if (!host || !want || tfm_tensor_read(c->ctx, host, got) != TFM_OK)
        return;
    double squares = 0;
    for (size_t i = 0; i < count; i++)
        squares += isfinite(want[i]) ? want[i] * want[i] : 0;
    double scale = fmax(1, sqrt(squares / (double)count));
    for (size_t i = 0; i < count; i++) {
        double error = want[i] == (double)host[i] ? 0 : fabs((double)host[i] - want[i]) / scale;
        if (!(error <= c->error)) /* NaN counts as the worst */
            c->error = isnan(error) ? INFINITY : error;
    }
}

void tfm__check_compare_ints(tfm__check *c, tfm_tensor got, const int32_t *want) {
    size_t count = tfm_tensor_count(got);
    int32_t *host = tfm__check_alloc(c, count, sizeof(*host));
    if (host && want && tfm_tensor_read(c->ctx, host, got) == TFM_OK && memcmp(host, want, count * sizeof(*host)) != 0)
        c->error = INFINITY;
}

double tfm__check_activation(double x, tfm_activation activation) {
    switch (activation) {
    case TFM_RELU:
        return x > 0 ? x : 0;
    case TFM_GELU:
        return x * 0.5 * erfc(-x / sqrt(2));
    case TFM_GELU_TANH:
        return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
    case TFM_SILU:
        return x / (1 + exp(-x));
    case TFM_QUICK_GELU:
        return x / (1 + exp(-1.702 * x));
    case TFM_RELU2:
        return x > 0 ? x * x : 0;
    case TFM_RELU6:
        return fmin(fmax(x, 0), 6);
    case TFM_LEAKY_RELU:
        return x < 0 ? 0.01 * x : x;
    case TFM_SIGMOID:
        return 1 / (1 + exp(-x));
    case TFM_TANH:
        return tanh(x);
    case TFM_MISH:
        return x * tanh(log1p(exp(x)));
    case TFM_LAPLACE:
        return 0.5 * erfc((0.707107 - x) / (0.282095 * sqrt(2)));
    case TFM_GELU_10:
        return fmin(x * 0.5 * erfc(-x / sqrt(2)), 10);
    case TFM_HARDSWISH:
        return x * fmin(fmax(x + 3, 0), 6) / 6;
    default:
        return x;
    }
}

uint32_t tfm__check_philox(const tfm_dropout_options *d, uint32_t block, uint32_t row, int word) {
    uint32_t c[4] = {block, row, (uint32_t)d->stream, (uint32_t)(d->stream >> 32)};
    uint32_t key[2] = {(uint32_t)d->seed, (uint32_t)(d->seed >> 32)};
    for (int round = 0; round < 10; round++) {
        const uint64_t first = 0xD2511F53ull * c[0], second = 0xCD9E8D57ull * c[2];
        const uint32_t next[4] = {(uint32_t)(second >> 32) ^ c[1] ^ key[0], (uint32_t)second,
                                  (uint32_t)(first >> 32) ^ c[3] ^ key[1], (uint32_t)first};
        for (int i = 0; i < 4; i++)
            c[i] = next[i];
        key[0] += 0x9E3779B9u;
        key[1] += 0xBB67AE85u;
    }
    return c[word];
}

bool tfm__check_ready(const tfm__check *c) {
    return tfm_context_status(c->ctx) == TFM_OK;
}
