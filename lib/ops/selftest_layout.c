/* The selftest's checks of ops that move elements. */
#include "ops/selftest.h"

void tfm__check_permute(tfm__check *c) {
    const int64_t a = 3, b = 5, d = 17;
    float *x;
    tfm_tensor y = {0}, tx = FLOATS(x, a, b, d);
    double *want = WANTED(a * b * d);
    for (int64_t i = 0; tfm__check_ready(c) && i < a * b * d; i++)
        want[(i % d * a + i / d / b) * b + i / d % b] = (double)x[i];
    tfm_permute(c->ctx, &y, tx, (int[]){2, 0, 1});
    tfm__check_judge(c, y, want);
}

void tfm__check_concat(tfm__check *c) {
    const int64_t rows = 5, left = 17, right = 3, n = left + right;
    float *a, *b;
    tfm_tensor y = {0}, inputs[2] = {FLOATS(a, rows, left), FLOATS(b, rows, right)};
    double *want = WANTED(rows * n);
    for (int64_t i = 0; tfm__check_ready(c) && i < rows * n; i++)
        want[i] = i % n < left ? (double)a[i / n * left + i % n] : (double)b[i / n * right + i % n - left];
    tfm_concat(c->ctx, &y, 2, inputs, 1);
    tfm__check_judge(c, y, want);
}

/* x[1:4, ::-2] */
void tfm__check_slice(tfm__check *c) {
    const int64_t rows = 5, n = 21;
    float *x;
    tfm_tensor y = {0}, tx = FLOATS(x, rows, n);
    double *want = WANTED(3 * 11);
    for (int64_t i = 0; tfm__check_ready(c) && i < 3 * 11; i++)
        want[i] = (double)x[(1 + i / 11) * n + 20 - 2 * (i % 11)];
    tfm_slice(c->ctx, &y, tx, (tfm_range[]){{1, 4, 1}, {-1, INT64_MIN, -2}});
    tfm__check_judge(c, y, want);
}

/* (3, 1, 17) + (5, 1) */
void tfm__check_add_broadcast(tfm__check *c) {
    float *a, *b;
    tfm_tensor y = {0}, ta = FLOATS(a, 3, 1, 17), tb = FLOATS(b, 5, 1);
    double *want = WANTED(3 * 5 * 17);
    for (int64_t i = 0; tfm__check_ready(c) && i < 3 * 5 * 17; i++)
        want[i] = (double)a[i / 85 * 17 + i % 17] + (double)b[i / 17 % 5];
    tfm_add(c->ctx, &y, ta, tb);
    tfm__check_judge(c, y, want);
}

void tfm__check_gather_axis(tfm__check *c) {
    const int64_t outer = 3, count = 9, n = 4, width = 17;
    float *x;
    int32_t *indices;
    tfm_tensor y = {0}, tx = FLOATS(x, outer, count, width), ti = INTS(indices, (int)count, 2, 2);
    double *want = WANTED(outer * n * width);
    for (int64_t i = 0; tfm__check_ready(c) && i < outer * n * width; i++)
        want[i] = (double)x[(i / width / n * count + indices[i / width % n]) * width + i % width];
    tfm_gather_axis(c->ctx, &y, tx, ti, 1);
    tfm__check_judge(c, y, want);
}
