/* Heads of an int8 KV cache on the host: TFM_KV_INT8_SPAN of tfm/ops.h. */
#ifndef TFM_TESTS_KV_INT8_H
#define TFM_TESTS_KV_INT8_H

#include "support/harness.h"
#include "tfm/ops.h"

/* Bytes of a head before its integers. */
int64_t kv_int8_header(int64_t width);
/* The scale of a column of a head in int8. */
float kv_int8_scale(const char *head, int64_t column);
/* The largest absolute value of the columns that share a scale with this one; NaN if one is. */
float kv_int8_largest(const float *head, int64_t column, int64_t width);
/* Heads of `width` floats in int8, which the floats become; with a NaN the scale is NaN. Free with free(). */
char *kv_int8_round(float *host, int64_t heads, int64_t width);
/* A guarded I8 tensor of such heads, at a multiple of four bytes; dims are those of the floats. */
tfm_tensor kv_int8_tensor(const char *bytes, int64_t width, int rank, const int64_t *dims);

#endif
