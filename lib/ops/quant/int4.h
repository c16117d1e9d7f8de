/* Quantization of matrices to 4 bits on the host: a group of columns of a row has an fp16 scale and a zero point, and a
 * weight is scale x (code - zero point). Rounding is to nearest, or by GPTQ: the error of a column is added to the
 * columns after it as far as their inputs are correlated (Frantar et al., "GPTQ", ICLR 2023). */
#ifndef TFM_LIB_INT4_H
#define TFM_LIB_INT4_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/base.h"

typedef struct tfm__int4 {
    int64_t rows, columns; /* columns is a multiple of `group` */
    int group;             /* even */
    uint8_t *codes;        /* [rows][columns / 2]: the first of two in the low bits */
    uint16_t *scales;      /* [rows][columns / group], fp16 */
    uint8_t *zeros;        /* the same, 0 to 15 */
} tfm__int4;

/* Allocates the members; false if out of memory, with the error message set. */
bool tfm__int4_new(tfm__int4 *out, int64_t rows, int64_t columns, int group);
void tfm__int4_free(tfm__int4 *x);

/* Rounds a row to nearest. False for a number that is not finite or too large for an fp16 scale. */
bool tfm__int4_round(tfm__int4 *out, int64_t row, const float *weights);

/* The factor of GPTQ for `k` columns: upper (k, k) with upper^T upper = (h + damping)^-1, from h = x^T x of the inputs
 * x. Overwrites h. TFM_ERROR_INPUT if h is not finite, or TFM_ERROR_MEMORY. */
tfm_status tfm__gptq_factor(float *upper, double *h, int64_t k);

/* Rounds `count` rows by GPTQ, TFM__GPTQ_ROWS at most: row i of `weights` (count, columns) is row rows[i] of `out`. The
 * weights become the dequantized ones. False as for tfm__int4_round. */
enum { TFM__GPTQ_ROWS = 8 };
bool tfm__gptq_round(tfm__int4 *out, const int64_t *rows, int64_t count, float *weights, const float *upper);

#endif
