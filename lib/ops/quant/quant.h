/* Block-quantized matrices in device memory: linear layers and embeddings that read them. No backward pass.
 *
 * A matrix (N, K) is stored in tiles of `rows` rows x one block of the format, a row block after the other, each with
 * its blocks along K; missing rows of the last row block are zeros. A tile holds, for its rows side by side:
 *
 *     fp16 scale[rows]                       fp16 minimum[rows]          if the format has one
 *     int8 scales[groups][rows]              int8 mins[groups][rows]     with `super`; Q2_K: one byte for both
 *     uint low[block * low_bits / 32][rows]  uint high[block * high_bits / 32][rows]
 *
 * A word of a plane holds codes of one row, as pairs of 16-bit fields, so that a shift and a mask give a pair of
 * 16-bit codes. Pair p of 32 weights is the weights tfm__quant_pair(p) and tfm__quant_pair(p) + 2. See
 * lib/docs/gemm.md. */
#ifndef TFM_LIB_QUANT_H
#define TFM_LIB_QUANT_H

#include "ops/ops.h"
#include "ops/quant/quant_format.h"

typedef struct tfm__quant_matrix {
    const tfm__quant_format *format; /* with groups */
    tfm_tensor data;                 /* I32 words of the tiles */
    int64_t n, k;
} tfm__quant_matrix;

/* Whether this matrix can be stored in blocks: the format has groups, and k is a multiple of its block. */
bool tfm__quant_fits(const tfm__quant_format *format, int64_t n, int64_t k);
/* Rows of a tile on this device: part of the key of a shared buffer. */
int tfm__quant_tile_rows(const tfm_context *ctx);
/* I32 words of the device form; the file has n * k / block * bytes bytes. */
int64_t tfm__quant_words(const tfm_context *ctx, const tfm__quant_format *format, int64_t n, int64_t k);
static inline int tfm__quant_pair(int p) {
    return p / 4 * 4 + p % 4 / 2 + p % 2 * 16;
}

/* quant_upload.c: device words of `count` rows from the file's blocks, on the host; `count` rows fill whole row blocks,
 * except the last. `out` has tfm__quant_words of (count, k). */
void tfm__quant_repack(const tfm__quant_format *format, int tile_rows, uint32_t *out, const void *blocks, int64_t count,
                       int64_t k);
/* A persistent matrix from the file's blocks in host memory (which may be unaligned), written piece by piece. Fails
 * with a sentence about `name` if it does not fit the format. */
tfm_status tfm__quant_upload(tfm_context *ctx, tfm__quant_matrix *out, const char *name,
                             const tfm__quant_format *format, const void *blocks, int64_t n, int64_t k);

/* How activations enter the layer. A token's form must not depend on the number of rows, so the caller says it. */
typedef enum tfm__quant_activation {
    TFM__QUANT_ACTIVATION_PROMPT,    /* tokens of the prompt, and of encoders */
    TFM__QUANT_ACTIVATION_GENERATED, /* generated tokens */
    TFM__QUANT_ACTIVATION_FP32       /* not rounded */
} tfm__quant_activation;

typedef struct tfm__quant_output {
    tfm_tensor *y;                   /* (..., N), F32; created if empty */
    const tfm__quant_matrix *weight; /* (N, K) */
    tfm_tensor bias;                 /* (N), or empty */
} tfm__quant_output;

/* y_i = activation(x w_i^T + bias_i), x (..., K), for `count` outputs, 1 to TFM__QUANT_MAX_OUTPUTS. Outputs of one
 * format share a launch. The weights are dequantized in registers and sums are fp32; on CPUs with AVX2, unless
 * activations are FP32, each 32 activations are int16 times one scale, and sums are integers. */
enum { TFM__QUANT_MAX_OUTPUTS = 3 };
tfm_status tfm__quant_linear(tfm_context *ctx, tfm_tensor x, int count, const tfm__quant_output *out,
                             tfm_activation activation, tfm__quant_activation form);

/* y (..., K) = scale table[ids], equal to tfm__quant_unpack times scale; NaN for an id out of range. */
tfm_status tfm__quant_embed(tfm_context *ctx, tfm_tensor *y, const tfm__quant_matrix *table, tfm_tensor ids,
                            float scale);

#endif
