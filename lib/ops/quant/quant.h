/* Block-quantized matrices in device memory, tfm_param.block_type: linear layers and embeddings read them. No backward
 * pass.
 *
 * A matrix (N, K) is stored in tiles of `rows` rows x one block of the format, a row block after the other, each with
 * its blocks along K; missing rows of the last row block are zeros. A tile holds, for its rows side by side:
 *
 *     fp16 scale[rows]                       fp16 minimum[rows]          if the format has one; fp32 with `wide`
 *     int8 scales[groups][rows]              int8 mins[groups][rows]     with `super`; Q2_K: one byte for both
 *     uint low[block * low_bits / 32][rows]  uint high[block * high_bits / 32][rows]
 *
 * A word of a plane holds codes of one row, as pairs of 16-bit fields, so that a shift and a mask give a pair of
 * 16-bit codes. Pair p of 32 weights is the weights tfm__quant_pair(p) and tfm__quant_pair(p) + 2. See
 * lib/docs/gemm.md.
 *
 * The columns of a matrix may be stored in another order, so that those of a group follow each other. Then k words
 * follow the tiles, the column of the matrix in each stored column, and x is read in that order. */
#ifndef TFM_LIB_QUANT_H
#define TFM_LIB_QUANT_H

#include "ops/gemm/fused_linear.h"
#include "ops/quant/quant_format.h"

/* Whether a matrix can be stored in blocks: the format has groups, and k is a multiple of its block. The last block of
 * 32 may be incomplete: rows then end in zeros, and x gets zeros. */
bool tfm__quant_fits(const tfm__quant_format *format, int64_t n, int64_t k);
/* Rows of a tile on this device: part of the key of a shared buffer. */
int tfm__quant_tile_rows(const tfm_context *ctx);
/* Bytes of a row of the file, in whole blocks; I32 words of the device form. */
static inline int64_t tfm__quant_row_bytes(const tfm__quant_format *format, int64_t k) {
    return (k + format->block - 1) / format->block * format->bytes;
}
int64_t tfm__quant_words(const tfm_context *ctx, const tfm__quant_format *format, int64_t n, int64_t k);
static inline int tfm__quant_pair(int p) {
    return p / 4 * 4 + p % 4 / 2 + p % 2 * 16;
}

/* ---- quant_upload.c ---- */

/* Rows of a matrix in host memory, as blocks of a file that may be unaligned. row(of, i, buffer) is row i, or NULL for
 * zeros; it may be in `buffer`, which has `buffer` bytes. Several threads call it, each with its own buffer. Without
 * `row`, `of` has all rows one after the other. written(of), or NULL, is called when the rows read so far are not
 * needed any more. `columns`: their order, a permutation of k, or NULL. */
typedef struct tfm__quant_rows {
    const void *(*row)(const void *of, int64_t i, void *buffer);
    size_t buffer;
    void (*written)(const void *of);
    const void *of;
    const int32_t *columns;
} tfm__quant_rows;

/* Device words, tfm__quant_words of (count, k), of rows first .. first + count - 1; `first` begins a row block.
 * `buffer`: for rows->row, or NULL. */
void tfm__quant_repack(const tfm__quant_format *format, int tile_rows, uint32_t *out, const tfm__quant_rows *rows,
                       int64_t first, int64_t count, int64_t k, void *buffer);
/* A persistent matrix, written in chunks. Fails with a sentence about `name` if it does not fit the format. */
tfm_status tfm__quant_upload(tfm_context *ctx, tfm_param *out, const char *name, const tfm__quant_format *format,
                             const tfm__quant_rows *rows, int64_t n, int64_t k);
/* Marks `param`, whose value has the words of such a matrix already, as from a shared buffer. */
void tfm__quant_set(tfm_param *param, const tfm__quant_format *format, int64_t n, int64_t k);
/* The format of a block-quantized parameter with valid sizes; NULL after a failure of the context, set for `op`. */
const tfm__quant_format *tfm__quant_check(tfm_context *ctx, const char *op, const tfm_param *param);
/* The words of the order of columns; empty if there is none. */
tfm_tensor tfm__quant_columns(tfm_context *ctx, const tfm_param *param);
/* The build options of its kernels; returns `text`. */
enum { TFM__QUANT_DEFINES = 256 };
const char *tfm__quant_defines(char text[TFM__QUANT_DEFINES], const tfm_context *ctx, const tfm__quant_format *f);

/* ---- quant_linear.c ---- */

/* How activations enter a layer. A token's form does not depend on the number of rows: the caller says it. */
typedef enum tfm__quant_activation {
    TFM__QUANT_ACTIVATION_PROMPT,    /* tokens of the prompt, and of encoders */
    TFM__QUANT_ACTIVATION_GENERATED, /* generated tokens */
    TFM__QUANT_ACTIVATION_FP32       /* not rounded */
} tfm__quant_activation;

/* y_i = activation(x w_i^T + bias_i), x (..., K), for `count` outputs, 1 to TFM__QUANT_MAX_OUTPUTS, whose weights are
 * block-quantized. Outputs of one format share a launch. Weights are dequantized in registers, and sums are fp32. On
 * CPUs with AVX2, unless `form` is FP32, each 32 activations are int16 times one scale; so far, PROMPT and GENERATED
 * are equal. */
enum { TFM__QUANT_MAX_OUTPUTS = 3 };
tfm_status tfm__quant_linear(tfm_context *ctx, tfm_tensor x, int count, const tfm__fused_output *out,
                             tfm_activation activation, tfm__quant_activation form);
/* The form for layers that are called through tfm_linear and tfm__fused_linear. */
static inline tfm__quant_activation tfm__quant_activation_of(const tfm_param *weight) {
    return weight->exact_input ? TFM__QUANT_ACTIVATION_FP32 : TFM__QUANT_ACTIVATION_PROMPT;
}

#endif
