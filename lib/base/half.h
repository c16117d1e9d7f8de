/* fp16 and bf16 numbers as floats and back, with infinities and NaN, rounded to nearest even. */
#ifndef TFM_LIB_HALF_H
#define TFM_LIB_HALF_H

#include <stdint.h>
#include <string.h>

static inline float tfm__float_from_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

static inline uint32_t tfm__float_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static inline float tfm__bfloat_to_float(uint16_t half) {
    return tfm__float_from_bits((uint32_t)half << 16);
}

/* Bits moved to the exponent and fraction of a float are the value divided by 2^112. */
static inline float tfm__half_to_float(uint16_t half) {
    const uint32_t rest = (uint32_t)(half & 0x7fff) << 13;
    const float x =
        (half & 0x7c00) == 0x7c00 ? tfm__float_from_bits(rest | 0x7f800000) : tfm__float_from_bits(rest) * 0x1p112f;
    return half & 0x8000 ? -x : x;
}

static inline uint16_t tfm__bfloat_from_float(float x) {
    const uint32_t bits = tfm__float_bits(x);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline uint16_t tfm__half_from_float(float x) {
    const uint32_t sign = tfm__float_bits(x) >> 16 & 0x8000, rest = tfm__float_bits(x) & 0x7fffffff;
    if (rest >= 0x47800000) /* 2^16 and more; infinity and NaN */
        return (uint16_t)(sign | (rest > 0x7f800000 ? 0x7e00 : 0x7c00));
    if (rest >= 0x38800000) /* normal, rounded; a carry may give infinity */
        return (uint16_t)(sign | ((rest - 0x38000000 + 0xfff + (rest >> 13 & 1)) >> 13));
    /* After this addition the last bit has the weight of the smallest subnormal. */
    return (uint16_t)(sign | (tfm__float_bits(tfm__float_from_bits(rest) + 0.5f) - 0x3f000000));
}

#endif
