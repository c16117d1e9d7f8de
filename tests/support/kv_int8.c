#include "support/kv_int8.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 32 };

/* The smallest bf16 number that is at least `x`; NaN for one. */
static uint16_t bf16_above(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return isnan(x) ? 0x7fc0 : (uint16_t)((bits + 0xffff) >> 16);
}

float kv_int8_scale(const char *head, int64_t column) {
    uint16_t half;
    uint32_t bits;
    float scale;
    memcpy(&half, head + column / BLOCK * 2, sizeof(half));
    bits = (uint32_t)half << 16;
    memcpy(&scale, &bits, sizeof(scale));
    return scale;
}

float kv_int8_largest(const float *head, int64_t column, int64_t width) {
    float largest = 0;
    for (int64_t first = column / BLOCK * BLOCK, i = first; i < width && i < first + BLOCK; i++)
        largest = isnan(head[i]) || isnan(largest) ? NAN : fmaxf(largest, fabsf(head[i]));
    return largest;
}

int64_t kv_int8_header(int64_t width) {
    return TFM_KV_INT8_SPAN(width) - (width + 3) / 4 * 4;
}

char *kv_int8_round(float *host, int64_t heads, int64_t width) {
    const int64_t span = TFM_KV_INT8_SPAN(width), header = kv_int8_header(width);
    char *bytes = calloc((size_t)heads + 1, (size_t)span);
    assert_non_null(bytes);
    for (int64_t h = 0; h < heads; h++) {
        float *head = host + h * width;
        char *to = bytes + h * span;
        for (int64_t i = 0; i < width; i += BLOCK) {
            const uint16_t scale = bf16_above(kv_int8_largest(head, i, width) / 127);
            memcpy(to + i / BLOCK * 2, &scale, sizeof(scale));
        }
        for (int64_t i = 0; i < width; i++) {
            const float scale = kv_int8_scale(to, i);
            to[header + i] = (char)(scale > 0 ? lrint((double)head[i] / (double)scale) : 0);
            head[i] = scale * (float)(signed char)to[header + i];
        }
    }
    return bytes;
}

tfm_tensor kv_int8_tensor(const char *bytes, int64_t width, int rank, const int64_t *dims) {
    int64_t wide[TFM_MAX_RANK];
    memcpy(wide, dims, (size_t)rank * sizeof(*dims));
    wide[rank - 1] = dims[rank - 1] / width * TFM_KV_INT8_SPAN(width);
    harness_align(4);
    const tfm_tensor x = harness_tensor(TFM_I8, rank, wide, bytes);
    harness_align(0);
    return x;
}
