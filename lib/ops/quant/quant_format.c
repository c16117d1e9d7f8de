/* Descriptors of GGUF tensor types, and their blocks on the host. */
#include "ops/quant/quant_format.h"
#include <endian.h>
#include <math.h>
#include <string.h>
#include <strings.h>
#include "base/half.h"

static const tfm__quant_format FORMATS[TFM__QUANT_ALL_FORMATS] = {
    /* name, type, block, bytes, bits, low and high bits, group, offset, super, minimum, codebook, wide */
    {"F32", TFM__QUANT_F32, 1, 4, 32, 0, 0, 0, 0, false, false, false, false},
    {"F16", TFM__QUANT_F16, 1, 2, 16, 0, 0, 0, 0, false, false, false, false},
    {"Q4_0", TFM__QUANT_Q4_0, 32, 18, 4, 4, 0, 32, 8, false, false, false, false},
    {"Q4_1", TFM__QUANT_Q4_1, 32, 20, 4, 4, 0, 32, 0, false, true, false, false},
    {"Q5_0", TFM__QUANT_Q5_0, 32, 22, 5, 4, 1, 32, 16, false, false, false, false},
    {"Q5_1", TFM__QUANT_Q5_1, 32, 24, 5, 4, 1, 32, 0, false, true, false, false},
    {"Q8_0", TFM__QUANT_Q8_0, 32, 34, 8, 8, 0, 32, 128, false, false, false, false},
    {"Q2_K", TFM__QUANT_Q2_K, 256, 84, 2, 2, 0, 16, 0, true, true, false, false},
    {"Q3_K", TFM__QUANT_Q3_K, 256, 110, 3, 2, 1, 16, 4, true, false, false, false},
    {"Q4_K", TFM__QUANT_Q4_K, 256, 144, 4, 4, 0, 32, 0, true, true, false, false},
    {"Q5_K", TFM__QUANT_Q5_K, 256, 176, 5, 4, 1, 32, 0, true, true, false, false},
    {"Q6_K", TFM__QUANT_Q6_K, 256, 210, 6, 4, 2, 16, 32, true, false, false, false},
    {"IQ4_NL", TFM__QUANT_IQ4_NL, 32, 18, 4, 4, 0, 32, 0, false, false, true, false},
    {"IQ4_XS", TFM__QUANT_IQ4_XS, 256, 136, 4, 4, 0, 32, 0, true, false, true, false},
    {"BF16", TFM__QUANT_BF16, 1, 2, 16, 0, 0, 0, 0, false, false, false, false},
    {"INT4_G32", TFM__QUANT_INT4_G32, 32, 24, 4, 4, 0, 32, 0, false, true, false, true},
    {"INT4_G64", TFM__QUANT_INT4_G64, 64, 40, 4, 4, 0, 32, 0, false, true, false, true},
    {"INT4_G128", TFM__QUANT_INT4_G128, 128, 72, 4, 4, 0, 32, 0, false, true, false, true},
    {"INT8_G32", TFM__QUANT_INT8_G32, 32, 40, 8, 8, 0, 32, 0, false, true, false, true},
    {"INT8_G64", TFM__QUANT_INT8_G64, 64, 72, 8, 8, 0, 32, 0, false, true, false, true},
    {"INT8_G128", TFM__QUANT_INT8_G128, 128, 136, 8, 8, 0, 32, 0, false, true, false, true},
    {"INT8_M32", TFM__QUANT_INT8_M32, 32, 36, 8, 8, 0, 32, 0, false, true, false, false},
};

const int8_t tfm__quant_codebook[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

const tfm__quant_format *tfm__quant_format_of(uint32_t type) {
    for (int i = 0; i < TFM__QUANT_ALL_FORMATS; i++)
        if ((uint32_t)FORMATS[i].type == type)
            return &FORMATS[i];
    return NULL;
}

const tfm__quant_format *tfm__quant_format_named(const char *name) {
    for (int i = 0; i < TFM__QUANT_FORMATS; i++)
        if (strcasecmp(FORMATS[i].name, name) == 0)
            return &FORMATS[i];
    return NULL;
}

const tfm__quant_format *tfm__quant_formats(void) {
    return FORMATS;
}

static uint16_t read16(const uint8_t *at) {
    return (uint16_t)(at[0] | at[1] << 8);
}

static void write16(uint8_t *at, uint16_t value) {
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
}

/* ---- Blocks as separate numbers ---- */

/* Eight bytes are handled as a number: loading the file is bound by these loops. */
static const uint64_t ONES = 0x0101010101010101u;

static uint64_t read64(const uint8_t *at) {
    uint64_t word;
    memcpy(&word, at, sizeof(word));
    return word;
}

static void write64(uint8_t *at, uint64_t word) {
    memcpy(at, &word, sizeof(word));
}

/* Codes of `width` bits, interleaved as in the file: each byte has a code of each of 8 / width runs of `bytes`
 * consecutive weights; `bytes` is a multiple of 8. */
static void split_codes(uint8_t *out, const uint8_t *in, int bytes, int width) {
    const uint64_t mask = ((1U << width) - 1) * ONES;
    for (int run = 0; run < 8 / width; run++)
        for (int i = 0; i < bytes; i += 8)
            write64(out + run * bytes + i, read64(in + i) >> run * width & mask);
}

/* Adds the bits above the low ones. Bit `run` of byte i belongs to weight 32 run + i. */
static void add_high_bits(uint8_t *codes, const uint8_t *in, int shift) {
    for (int run = 0; run < 8; run++)
        for (int i = 0; i < 32; i += 8)
            write64(codes + run * 32 + i, read64(codes + run * 32 + i) | (read64(in + i) >> run & ONES) << shift);
}

/* Bit i of `bits` as byte i. */
static uint64_t spread_bits(uint8_t bits) {
    return htole64((((bits * ONES & 0x8040201008040201u) + 0x7f * ONES) >> 7) & ONES);
}

/* Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL, INT8_M32: scale, minimum, 32 high bits, codes. */
static void decode_simple(const tfm__quant_format *f, tfm__quant_block *out, const uint8_t *in) {
    out->scale = read16(in);
    in += 2;
    if (f->minimum) {
        out->min = read16(in) ^ 0x8000;
        in += 2;
    }
    const uint8_t *high = in;
    in += 4 * f->high_bits;
    if (f->bits == 8) {
        for (int i = 0; i < 32; i += 8)
            write64(out->codes + i, read64(in + i) ^ 0x80 * ONES);
        return;
    }
    split_codes(out->codes, in, 16, 4);
    for (int i = 0; f->high_bits && i < 32; i += 8)
        write64(out->codes + i, read64(out->codes + i) | spread_bits(high[i / 8]) << 4);
}

/* Q4_K, Q5_K: scale, minimum, 8 scales and 8 minima of 6 bits, 256 high bits, codes. The upper two bits of the last
 * four scales and minima are those of the first. */
static void decode_q45_k(const tfm__quant_format *f, tfm__quant_block *out, const uint8_t *in) {
    const uint8_t *s = in + 4, *codes = in + 16 + 32 * f->high_bits;
    out->scale = read16(in);
    out->min = read16(in + 2);
    for (int g = 0; g < 4; g++) {
        out->scales[g] = (int8_t)(s[g] & 63);
        out->mins[g] = (int8_t)(s[g + 4] & 63);
        out->scales[g + 4] = (int8_t)((s[g + 8] & 15) | (s[g] >> 6) << 4);
        out->mins[g + 4] = (int8_t)(s[g + 8] >> 4 | (s[g + 4] >> 6) << 4);
    }
    for (int i = 0; i < 4; i++)
        split_codes(out->codes + 64 * i, codes + 32 * i, 32, 4);
    if (f->high_bits)
        add_high_bits(out->codes, in + 16, 4);
}

/* 16 scales and minima of 4 bits, codes, scale, minimum. */
static void decode_q2_k(tfm__quant_block *out, const uint8_t *in) {
    out->scale = read16(in + 80);
    out->min = read16(in + 82);
    for (int g = 0; g < 16; g++) {
        out->scales[g] = in[g] & 15;
        out->mins[g] = in[g] >> 4;
    }
    split_codes(out->codes, in + 16, 32, 2);
    split_codes(out->codes + 128, in + 48, 32, 2);
}

/* 256 high bits, low bits, 16 scales of 6 bits less 32, scale. */
static void decode_q3_k(tfm__quant_block *out, const uint8_t *in) {
    const uint8_t *s = in + 96;
    out->scale = read16(in + 108);
    for (int g = 0; g < 16; g++)
        out->scales[g] = (int8_t)(((s[g % 8] >> g / 8 * 4 & 15) | (s[8 + g % 4] >> g / 4 * 2 & 3) << 4) - 32);
    split_codes(out->codes, in + 32, 32, 2);
    split_codes(out->codes + 128, in + 64, 32, 2);
    add_high_bits(out->codes, in, 2);
}

/* Low bits, high bits, 16 scales of 8 bits, scale. */
static void decode_q6_k(tfm__quant_block *out, const uint8_t *in) {
    uint8_t high[128];
    out->scale = read16(in + 208);
    memcpy(out->scales, in + 192, 16);
    for (int i = 0; i < 2; i++) {
        split_codes(out->codes + 128 * i, in + 64 * i, 64, 4);
        split_codes(high, in + 128 + 32 * i, 32, 2);
        for (int j = 0; j < 128; j += 8)
            write64(out->codes + 128 * i + j, read64(out->codes + 128 * i + j) | read64(high + j) << 4);
    }
}

/* Scale, upper and lower bits of 8 scales of 6 bits less 32, codes. */
static void decode_iq4_xs(tfm__quant_block *out, const uint8_t *in) {
    out->scale = read16(in);
    for (int g = 0; g < 8; g++) {
        out->scales[g] = (int8_t)(((in[4 + g / 2] >> g % 2 * 4 & 15) | (read16(in + 2) >> 2 * g & 3) << 4) - 32);
        split_codes(out->codes + 32 * g, in + 8 + 16 * g, 16, 4);
    }
}

/* fp32 scale and minimum, codes in order: the first of two in the low bits. */
static void decode_wide(const tfm__quant_format *f, tfm__quant_block *out, const uint8_t *in) {
    memcpy(&out->wide_scale, in, 4);
    memcpy(&out->wide_min, in + 4, 4);
    if (f->bits == 8)
        memcpy(out->codes, in + 8, (size_t)f->block);
    for (int i = 0; f->bits == 4 && i < f->block; i++)
        out->codes[i] = in[8 + i / 2] >> i % 2 * 4 & 15;
}

void tfm__quant_encode_wide(const tfm__quant_format *format, void *block, const uint8_t *codes, float scale,
                            float min) {
    uint8_t *out = block;
    memcpy(out, &scale, 4);
    memcpy(out + 4, &min, 4);
    if (format->bits == 8)
        memcpy(out + 8, codes, (size_t)format->block);
    for (int i = 0; format->bits == 4 && i < format->block; i += 2)
        out[8 + i / 2] = (uint8_t)(codes[i] | codes[i + 1] << 4);
}

void tfm__quant_decode(const tfm__quant_format *format, tfm__quant_block *out, const void *block) {
    out->min = 0;
    memset(out->mins, 0, sizeof(out->mins));
    if (format->wide)
        decode_wide(format, out, block);
    else if (!format->super)
        decode_simple(format, out, block);
    else if (format->type == TFM__QUANT_Q2_K)
        decode_q2_k(out, block);
    else if (format->type == TFM__QUANT_Q3_K)
        decode_q3_k(out, block);
    else if (format->type == TFM__QUANT_Q6_K)
        decode_q6_k(out, block);
    else if (format->type == TFM__QUANT_IQ4_XS)
        decode_iq4_xs(out, block);
    else
        decode_q45_k(format, out, block);
}

/* ---- Unpacking and packing ---- */

static void unpack_block(const tfm__quant_format *f, float *out, const uint8_t *in) {
    tfm__quant_block b;
    tfm__quant_decode(f, &b, in);
    const float scale = f->wide ? b.wide_scale : tfm__half_to_float(b.scale),
                min = f->wide ? b.wide_min : tfm__half_to_float(b.min);
    for (int g = 0; g < f->block / f->group; g++) {
        const float step = f->super ? scale * (float)b.scales[g] : scale;
        const float less = f->super ? min * (float)b.mins[g] : min;
        for (int i = g * f->group; i < (g + 1) * f->group; i++) {
            const float product =
                step * (float)(f->codebook ? tfm__quant_codebook[b.codes[i]] : b.codes[i] - f->offset);
            out[i] = f->minimum ? product - less : product; /* the product is exact: no difference to fma */
        }
    }
}

void tfm__quant_unpack(const tfm__quant_format *format, float *out, const void *blocks, size_t count) {
    const uint8_t *in = blocks;
    if (format->type == TFM__QUANT_F32) {
        memcpy(out, in, 4 * count);
        return;
    }
    for (size_t i = 0; i < count; i++, in += format->bytes, out += format->block)
        if (format->type == TFM__QUANT_F16)
            *out = tfm__half_to_float(read16(in));
        else if (format->type == TFM__QUANT_BF16)
            *out = tfm__bfloat_to_float(read16(in));
        else
            unpack_block(format, out, in);
}

/* A scale as fp16, and its inverse before that rounding: infinite if the scale is denormal, and then the codes are 0.
 * False if fp16 has no such number. */
static bool put_scale(uint8_t *out, float *inverse, float scale) {
    const uint16_t half = tfm__half_from_float(scale);
    *inverse = scale == 0 ? 0 : 1 / scale;
    write16(out, half);
    return (half & 0x7c00) != 0x7c00;
}

static bool pack_q8_0(uint8_t *out, const float *in) {
    float most = 0, inverse;
    for (int i = 0; i < 32; i++)
        most = fabsf(in[i]) > most ? fabsf(in[i]) : most;
    const bool fits = put_scale(out, &inverse, most / 127);
    inverse = isfinite(inverse) ? inverse : 0;
    for (int i = 0; i < 32; i++) { /* to nearest, halves away from 0; in loops that compilers vectorize */
        const float product = in[i] * inverse, size = fabsf(product);
        const int whole = (int)size, code = whole + (size - (float)whole >= 0.5f);
        out[2 + i] = (uint8_t)(product < 0 ? -code : code);
    }
    return fits;
}

/* The fp16 number that is not above x. */
static uint16_t half_below(float x) {
    const uint16_t half = tfm__half_from_float(x);
    if (tfm__half_to_float(half) <= x)
        return half;
    return (uint16_t)(half & 0x8000 ? half + 1 : half ? half - 1 : 0x8001);
}

/* A block with this scale and minimum; returns its squared error. */
static float encode_int8_m32(uint8_t *out, const float *in, uint16_t scale, uint16_t min) {
    const float step = tfm__half_to_float(scale), from = tfm__half_to_float(min), inverse = scale ? 1 / step : 0;
    float error = 0;
    write16(out, scale);
    write16(out + 2, min);
    for (int i = 0; i < 32; i++) {
        const float place = (in[i] - from) * inverse + 0.5f;
        const int code = (int)(place < 255 ? place : 255);
        const float rest = in[i] - from - step * (float)code;
        out[4 + i] = (uint8_t)(code ^ 0x80);
        error += rest * rest;
    }
    return error;
}

/* Codes 0 to 255 span the numbers of a block; or they are -127 to 127 times the scale as in Q8_0, if that is closer, as
 * for numbers that were Q8_0. */
static bool pack_int8_m32(uint8_t *out, const float *in) {
    uint8_t even[36];
    float least = in[0], most = in[0];
    for (int i = 1; i < 32; i++) {
        least = in[i] < least ? in[i] : least;
        most = in[i] > most ? in[i] : most;
    }
    const uint16_t min = half_below(least), scale = tfm__half_from_float((most - tfm__half_to_float(min)) / 255),
                   even_scale = tfm__half_from_float((most > -least ? most : -least) / 127),
                   even_min = tfm__half_from_float(-128 * tfm__half_to_float(even_scale));
    const float error = encode_int8_m32(out, in, scale, min);
    if ((even_min & 0x7c00) != 0x7c00 && encode_int8_m32(even, in, even_scale, even_min) < error)
        memcpy(out, even, sizeof(even));
    return (scale & 0x7c00) != 0x7c00 && (min & 0x7c00) != 0x7c00;
}

/* The number of largest magnitude, with its sign, becomes code 0. */
static bool pack_q4_0(uint8_t *out, const float *in) {
    float most = in[0], inverse;
    for (int i = 1; i < 32; i++)
        most = fabsf(in[i]) > fabsf(most) ? in[i] : most;
    const bool fits = put_scale(out, &inverse, most / -8);
    memset(out + 2, 0, 16);
    for (int i = 0; i < 32; i++) {
        const float product = in[i] * inverse;
        const float code = isfinite(inverse) ? product + 8.5f : 0;
        out[2 + i % 16] |= (uint8_t)((code < 15 ? (int)code : 15) << i / 16 * 4);
    }
    return fits;
}

static bool pack_number(const tfm__quant_format *f, uint8_t *out, float x) {
    if (f->type == TFM__QUANT_F32) {
        memcpy(out, &x, sizeof(x));
        return true;
    }
    const bool half = f->type == TFM__QUANT_F16;
    write16(out, half ? tfm__half_from_float(x) : tfm__bfloat_from_float(x));
    return (read16(out) & 0x7fff) < (half ? 0x7c00 : 0x7f80);
}

bool tfm__quant_pack(const tfm__quant_format *format, void *blocks, const float *in, size_t count) {
    uint8_t *out = blocks;
    const size_t numbers = count * (size_t)format->block;
    const bool int8 = format->type == TFM__QUANT_INT8_M32;
    bool fits = int8 || format->block == 1 || format->type == TFM__QUANT_Q8_0 || format->type == TFM__QUANT_Q4_0;
    for (size_t i = 0; fits && i < numbers; i++)
        fits = isfinite(in[i]);
    for (size_t i = 0; fits && i < count; i++, out += format->bytes, in += format->block)
        fits = int8                              ? pack_int8_m32(out, in)
               : format->type == TFM__QUANT_Q8_0 ? pack_q8_0(out, in)
               : format->type == TFM__QUANT_Q4_0 ? pack_q4_0(out, in)
                                                 : pack_number(format, out, *in);
    return fits;
}
