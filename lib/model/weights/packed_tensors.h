/* Matrices of packed integers, as GPTQ, AWQ and compressed-tensors store them: 4 or 8 bits per weight, a scale and a
 * zero point for each group of columns of a row. A weight is scale x (integer - zero point).
 *
 *     layout   integers                        scales   zero points              integers of a word
 *     GPTQ     qweight (K / per, N)            (G, N)   qzeros (G, N / per)      in order
 *     AWQ      qweight (K, N / 8)              (G, N)   qzeros (G, N / 8)        0, 2, 4, 6, 1, 3, 5, 7
 *     rows     weight_packed (N, K / per)      (N, G)   (N / per, G), or int8    in order
 *
 * A word of 32 bits has `per` = 32 / bits integers, the first in the low bits. Rows are converted one at a time, when
 * they are read. */
#ifndef TFM_LIB_PACKED_TENSORS_H
#define TFM_LIB_PACKED_TENSORS_H

#include "model/weights/weight_file.h"

/* The layouts of a directory, from its quantization_config (arch/quantization_config.c). */
typedef enum tfm__packing_layout {
    TFM__PACKING_NONE,
    TFM__PACKING_GPTQ,
    TFM__PACKING_AWQ,
    TFM__PACKING_ROWS /* compressed-tensors: pack-quantized, and int8 tensors with scales */
} tfm__packing_layout;

typedef struct tfm__packing {
    tfm__packing_layout layout;
    int bits;       /* 4 or 8 */
    int group;      /* columns per scale; 0: all columns of a row */
    bool mixed;     /* modules may have other bits and groups: both are taken from the shapes */
    int zero_shift; /* added to stored zero points: GPTQ stores them minus 1 */
} tfm__packing;

/* A packed matrix: tfm__stored_tensor.packed. Its name is that of the weight. */
typedef struct tfm__packed {
    tfm__packing how;
    int64_t rows, columns, groups;
    const unsigned char *codes, *scales;
    const unsigned char *zeros; /* NULL: half of the range */
    const unsigned char *g_idx; /* (K) I32: group of each column, valid; NULL: consecutive groups */
    size_t code_bytes;          /* of `codes` */
    tfm_dtype scale_dtype;      /* F16, BF16 or F32 */
    bool int8_zeros;            /* `zeros` is (N, G) int8 */
    int32_t *order;             /* [K]: columns sorted by group, if blocks need that; or NULL */
    char *name;
} tfm__packed;

/* Chooses the largest blocks whose columns have one group, and the order of columns that they need; NULL if there are
 * none. TFM_ERROR_MEMORY is the only failure. */
tfm_status tfm__packed_choose_blocks(tfm__packed *p, const struct tfm__quant_format **out);

/* Row `row` as floats; or as blocks, in the order of columns p->order. */
void tfm__packed_floats(float *out, const tfm__packed *p, int64_t row);
void tfm__packed_blocks(unsigned char *out, const tfm__packed *p, const struct tfm__quant_format *blocks, int64_t row);

/* packed_weights.c: replaces the tensors of packed matrices by one tensor each, and finds the scales of int8 tensors.
 * TFM_ERROR_FORMAT if they do not fit each other or `packing`. */
tfm_status tfm__weights_unpack(tfm__weights *weights, const tfm__packing *packing);

#endif
