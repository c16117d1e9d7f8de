/* int8 weights: quantization, and the layers that read them. */
#ifndef TFM_LIB_QUANTIZE_H
#define TFM_LIB_QUANTIZE_H

#include "ops/ops.h"

/* On the host: out[i] = in[i] / *scale rounded to nearest, in -127 to 127; *scale is the largest |in[i]| of `count`
 * divided by 127. False if one is not finite. */
bool tfm__quantize_row(int8_t *out, float *scale, const float *in, size_t count);

/* Row length limit of int8 GEMM: its sums have 32 bits. */
enum { TFM__INT8_MAX_K = 1 << 17 };

/* Padding tokens, which have no position. They get no position embedding or, without `blank`, the row before the
 * positions, which must exist. With `counted`, later tokens of the sequence are numbered as if the padding were absent.
 */
typedef struct tfm__padding_token {
    int32_t id;
    bool counted, blank;
} tfm__padding_token;

/* tfm_embedding of a table that may be I8 too. `skip` may be NULL; otherwise no gradient of positions may be requested.
 */
tfm_status tfm__embedding_param(tfm_context *ctx, tfm_tensor *y, const tfm_param *table, tfm_tensor ids, float scale,
                                tfm_tensor positions, int64_t first, const tfm__padding_token *skip);

/* Rows `ids` (K) of a table (V, E) as a separate, persistent parameter. */
tfm_status tfm__param_rows(tfm_context *ctx, tfm_param *out, const tfm_param *table, tfm_tensor ids);

#endif
