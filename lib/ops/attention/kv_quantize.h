/* The int8 KV cache. */
#ifndef TFM_LIB_KV_QUANTIZE_H
#define TFM_LIB_KV_QUANTIZE_H

#include "dev/dev.h"
#include "tfm/ops.h"

/* Elements of a head of `width` columns in keys and values: KV_SPAN in cl/attention/attention_common.cl. */
static inline int64_t tfm__kv_span(tfm_dtype dtype, int64_t width) {
    return dtype == TFM_I8 ? TFM_KV_INT8_SPAN(width) : width;
}

/* Writes k and v (..., heads D), F32, as rows of an int8 KV cache: keys and values (R, heads TFM_KV_INT8_SPAN(D)), I8,
 * which begin at multiples of four bytes. No backward pass: cl/attention/kv_quantize.cl. */
tfm_status tfm__kv_quantize(tfm_context *ctx, tfm_tensor keys, tfm_tensor values, tfm_tensor k, tfm_tensor v,
                            int64_t heads);

#endif
