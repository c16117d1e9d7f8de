/* Weights as bytes: what quantises them, and the layers that read them. */
#ifndef TFM_LIB_QUANTIZE_H
#define TFM_LIB_QUANTIZE_H

#include "ops/ops.h"

/* On the host: out[i] times *scale is in[i] as near as bytes of -127 to 127 come, *scale being the largest of `count`
 * numbers without its sign, by 127. False where one of them is not finite. */
bool tfm__quantize_row(int8_t *out, float *scale, const float *in, size_t count);

/* The longest row that products of bytes take: their sums have 32 bits. */
enum { TFM__INT8_MAX_K = 1 << 17 };

/* Tokens that stand at no position: those of this id get nothing for one, or where not `blank`, the row before the
 * positions, which there must be then; and where `counted`, those after them in a sequence stand as if they were not
 * there. */
typedef struct tfm__padding_token {
    int32_t id;
    bool counted, blank;
} tfm__padding_token;

/* tfm_embedding of a table that may be I8 too. `skip` may be NULL, and no gradient of positions be asked for where it
 * is not. */
tfm_status tfm__embedding_param(tfm_context *ctx, tfm_tensor *y, const tfm_param *table, tfm_tensor ids, float scale,
                                tfm_tensor positions, int64_t first, const tfm__padding_token *skip);

/* Rows `ids` (K) of a table (V, E) as a parameter of its own, which lasts. */
tfm_status tfm__param_rows(tfm_context *ctx, tfm_param *out, const tfm_param *table, tfm_tensor ids);

#endif
