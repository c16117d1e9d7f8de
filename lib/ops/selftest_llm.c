/* The selftest's checks of ops that language models since 2019 added. */
#include <math.h>
#include <stdlib.h>
#include "ops/selftest.h"

void tfm__check_rmsnorm(tfm__check *c) {
    const int64_t rows = 3, n = 65;
    float *x, *residual, *gamma;
    tfm_tensor y = {0}, sum = {0}, tx = FLOATS(x, rows, n), tr = FLOATS(residual, rows, n),
               tg = FLOATS(gamma, n);
    double *want = WANTED(rows * n), *want_sum = WANTED(rows * n);
    for (int64_t r = 0; tfm__check_ready(c) && r < rows; r++) {
        double square = 0, *s = want_sum + r * n;
        for (int64_t i = 0; i < n; i++) {
            s[i] = (double)x[r * n + i] + (double)residual[r * n + i];
            square += s[i] * s[i] / (double)n;
        }
        for (int64_t i = 0; i < n; i++)
            want[r * n + i] = s[i] / sqrt(square + 1e-5) * (double)gamma[i];
    }
    tfm_rmsnorm(c->ctx, &y, &sum, tx, tr, tg, -1, 1e-5f);
    tfm__check_judge(c, y, want);
    tfm__check_judge(c, sum, want_sum);
}

void tfm__check_glu(tfm__check *c) {
    const int64_t rows = 5, n = 65;
    float *x;
    tfm_tensor y = {0}, tx = FLOATS(x, rows, 2 * n);
    double *want = WANTED(rows * n);
    for (int64_t i = 0; tfm__check_ready(c) && i < rows * n; i++) {
        const double gate = (double)x[i / n * 2 * n + i % n], value = (double)x[i / n * 2 * n + n + i % n];
        want[i] = gate / (1 + exp(-gate)) * value;
    }
    tfm_glu(c->ctx, &y, tx, (tfm_tensor){0}, TFM_SILU, TFM_GLU_GATE_FIRST);
    tfm__check_judge(c, y, want);
}

/* Three heads of 70 columns, 66 of them turned, at positions from 2 on. */
void tfm__check_rotary(tfm__check *c) {
    const int64_t batch = 2, length = 5, heads = 3, width = 70, half = 33, first = 2;
    const bool interleaved = c->number != 0;
    float *x;
    tfm_tensor y = {0}, cosines = {0}, sines = {0}, tx = FLOATS(x, batch, length, heads * width);
    double *want = WANTED(batch * length * heads * width);
    tfm_rotary_tables(c->ctx, &cosines, &sines, first + length, 2 * half, 0);
    for (int64_t i = 0; tfm__check_ready(c) && i < batch * length * heads * width; i++) {
        const int64_t column = i % width, position = first + i / (heads * width) % length;
        const int64_t pair = interleaved ? column / 2 : column % half;
        const bool second = interleaved ? column % 2 : column >= half;
        const int64_t other = interleaved ? i ^ 1 : second ? i - half : i + half; /* width is even */
        const double angle = (double)position / pow(10000, (double)pair / (double)half);
        if (column >= 2 * half)
            want[i] = (double)x[i];
        else
            want[i] = (double)x[i] * cos(angle) + (second ? 1 : -1) * (double)x[other] * sin(angle);
    }
    tfm_rotary(c->ctx, &y, tx, cosines, sines,
               &(tfm_rotary_options){.heads = (int)heads, .interleaved = interleaved, .first = first});
    tfm__check_judge(c, y, want);
}

/* Logits -i/8, with one far above: within the top 4 the chances are known, and the first random number of
 * seed 0 is 0x6627e8d5 / 2^32, Philox's published answer. */
void tfm__check_sample(tfm__check *c) {
    enum { V = 333, AT = 97 };
    tfm_tensor ids = {0}, probabilities = {0}, logits = {0};
    float *host = tfm__check_block(c, V, sizeof(*host));
    double *want = WANTED(1), total = 0, sum = 0;
    const double u = 0x6627e8 / 16777216.0;
    int32_t drawn = 0;
    for (int i = 0; host && i < V; i++)
        host[i] = -(float)abs(i - AT) / 8;
    tfm_tensor_new(c->ctx, &logits, TFM_F32, 2, (int64_t[]){1, V});
    if (host)
        tfm_tensor_write(c->ctx, logits, host);
    tfm_sample_options options = {.top_k = c->number ? 0 : 4};
    /* Kept by k: AT, both beside it, and of the next two the one with the lower index; by p, 5 of them. */
    const int first = AT - 2, kept = c->number ? 5 : 4;
    for (int i = -2; c->number && i <= 2; i++)
        sum += exp(-abs(i) / 8.0);
    for (int i = 0; c->number && i < V; i++)
        total += exp(-abs(i - AT) / 8.0);
    if (c->number)
        options.top_p = (float)((sum - 0.5 * exp(-0.25)) / total); /* half of the fifth is missing */
    sum = 0;
    for (int i = 0; i < kept; i++)
        sum += exp(-abs(first + i - AT) / 8.0);
    double passed = 0;
    for (int i = 0; want && i < kept; i++) {
        const double weight = exp(-abs(first + i - AT) / 8.0) / sum;
        if (passed <= u) {
            drawn = first + i;
            *want = weight;
        }
        passed += weight;
    }
    tfm_sample(c->ctx, &ids, &probabilities, logits, &options);
    tfm__check_judge_ints(c, ids, &drawn);
    tfm__check_judge(c, probabilities, want);
}
