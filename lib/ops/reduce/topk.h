/* tfm_topk of long rows, in two steps. */
#ifndef TFM_LIB_TOPK_H
#define TFM_LIB_TOPK_H

#include "ops/ops.h"

/* Number of parts to split rows of n entries into, to fill the device; 1: no split. */
int64_t tfm__topk_split_count(const tfm_context *ctx, int64_t rows, int64_t n);

/* The first step: values and indices (R, parts, k) of each part of x (R, N) F32, in descending order, -inf and -1 after
 * the last above -inf; and max_and_sum (R, parts, 2), each part's maximum and sum of e^(x - maximum). k and N as for
 * tfm_topk. */
tfm_status tfm__topk_split(tfm_context *ctx, tfm_tensor *values, tfm_tensor *indices, tfm_tensor *max_and_sum,
                           tfm_tensor x, int k, int64_t parts);

#endif
