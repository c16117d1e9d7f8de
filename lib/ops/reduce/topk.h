/* tfm_topk of long rows, in two steps. */
#ifndef TFM_LIB_TOPK_H
#define TFM_LIB_TOPK_H

#include "ops/ops.h"

/* Parts that rows of n entries are cut into, so that the device is full; 1: they are not. */
int64_t tfm__topk_split_count(const tfm_context *ctx, int64_t rows, int64_t n);

/* The first step: values and indices (R, parts, k) of the best of each part of x (R, N) F32, the best first, -inf and
 * -1 after the last that is above -inf; and max_and_sum (R, parts, 2), the maximum and the sum of e^(x - maximum) of
 * each part. k and N are as for tfm_topk. */
tfm_status tfm__topk_split(tfm_context *ctx, tfm_tensor *values, tfm_tensor *indices, tfm_tensor *max_and_sum,
                           tfm_tensor x, int k, int64_t parts);

#endif
