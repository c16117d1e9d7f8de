/* Tensor types of GGUF files, and the library's for packed integers (model/weights/packed_tensors.h): descriptors, and
 * conversion of their blocks on the host. A row of a matrix is a sequence of blocks; a block has `block` weights in
 * `bytes` bytes, little-endian. A weight is
 *
 *     scale of its group x (code - offset) - minimum of its group          or scale x tfm__quant_codebook[code]
 *
 * Types with `super` have an fp16 scale (and minimum) per block, and an integer factor per group. Those with `wide`
 * have an fp32 scale and minimum per block, and `block / 32` groups that share them. */
#ifndef TFM_LIB_QUANT_FORMAT_H
#define TFM_LIB_QUANT_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers of the types in GGUF files (enum ggml_type); above these, types that files do not have. */
typedef enum tfm__quant_type {
    TFM__QUANT_F32 = 0,
    TFM__QUANT_F16 = 1,
    TFM__QUANT_Q4_0 = 2,
    TFM__QUANT_Q4_1 = 3,
    TFM__QUANT_Q5_0 = 6,
    TFM__QUANT_Q5_1 = 7,
    TFM__QUANT_Q8_0 = 8,
    TFM__QUANT_Q2_K = 10,
    TFM__QUANT_Q3_K = 11,
    TFM__QUANT_Q4_K = 12,
    TFM__QUANT_Q5_K = 13,
    TFM__QUANT_Q6_K = 14,
    TFM__QUANT_IQ4_NL = 20,
    TFM__QUANT_IQ4_XS = 23,
    TFM__QUANT_BF16 = 30,
    TFM__QUANT_INT4_G32 = 1024,
    TFM__QUANT_INT4_G64,
    TFM__QUANT_INT4_G128,
    TFM__QUANT_INT8_G32,
    TFM__QUANT_INT8_G64,
    TFM__QUANT_INT8_G128,
    TFM__QUANT_INT8_M32 /* of tfm_model_quantize: fp16 scale and minimum, then the codes minus 128 */
} tfm__quant_type;

enum {
    TFM__QUANT_MAX_BLOCK = 256,
    TFM__QUANT_MAX_GROUPS = 16,
    TFM__QUANT_FORMATS = 15,    /* of GGUF files */
    TFM__QUANT_ALL_FORMATS = 22 /* and the others */
};

/* F32, F16 and BF16 have blocks of one weight and no groups: then only the first five fields are set. */
typedef struct tfm__quant_format {
    const char *name; /* "Q4_K" */
    tfm__quant_type type;
    int block, bytes; /* weights and bytes per block */
    int bits;         /* per code, or per number */
    int low_bits,
        high_bits; /* bits of the code in each of the two planes of tfm__quant_pack_device; high_bits may be 0 */
    int group;     /* weights per group: 16 or 32 */
    int offset;
    bool super, minimum, codebook, wide;
} tfm__quant_format;

/* The format of a type number, or of a GGUF type's name (case-insensitive); NULL if it is not supported. */
const tfm__quant_format *tfm__quant_format_of(uint32_t type);
const tfm__quant_format *tfm__quant_format_named(const char *name);
/* All of them, in the order of their numbers: TFM__QUANT_ALL_FORMATS. */
const tfm__quant_format *tfm__quant_formats(void);

/* Weights of code 0 .. 15 of IQ4_NL and IQ4_XS, times the scale. */
extern const int8_t tfm__quant_codebook[16];

/* A block as separate numbers, the same for all formats with groups. Without `super`, `scales` and `mins` are unset. A
 * group's scale is scale (x scales[g]), its minimum min (x mins[g]); Q4_1 and Q5_1 store the negated minimum, and
 * `min` is negated here. */
typedef struct tfm__quant_block {
    uint16_t scale, min;        /* fp16; unset if `wide` */
    float wide_scale, wide_min; /* set if `wide` */
    int8_t scales[TFM__QUANT_MAX_GROUPS], mins[TFM__QUANT_MAX_GROUPS];
    uint8_t codes[TFM__QUANT_MAX_BLOCK];
} tfm__quant_block;

/* Decodes one block of format->bytes bytes. Only for formats with groups. */
void tfm__quant_decode(const tfm__quant_format *format, tfm__quant_block *out, const void *block);

/* The integers of a block with `wide`, 0 to 15 or 255, as bytes; the inverse of tfm__quant_decode. */
void tfm__quant_encode_wide(const tfm__quant_format *format, void *block, const uint8_t *codes, float scale, float min);

/* out (count x format->block) = the weights of `count` blocks, equal to the bit to gguf.quants.dequantize, except for
 * the payload of a NaN. `blocks` need not be aligned. */
void tfm__quant_unpack(const tfm__quant_format *format, float *out, const void *blocks, size_t count);

/* Quantizes count x format->block numbers, equal to gguf.quants.quantize: F32, F16, BF16, Q8_0 and Q4_0; and
 * INT8_M32. False for another format, a number that is not finite, or one too large for the format. */
bool tfm__quant_pack(const tfm__quant_format *format, void *blocks, const float *in, size_t count);

#endif
