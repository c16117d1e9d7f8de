/* Parameters whose numbers are bytes with scales (tfm_param.scales), or of 16 bits: which they are, and how they come
 * to be. */
#ifndef TFM_LIB_QUANTIZED_PARAMS_H
#define TFM_LIB_QUANTIZED_PARAMS_H

#include "model/core/param_roles.h"

/* Whether a parameter may be bytes or of 16 bits: the matrices of linear layers and the tables of words, which are read
 * by products and embeddings alone. */
bool tfm__param_is_quantizable(const tfm__parameter *p);

/* The stored numbers from the `first` on, `count` of them `step` apart, as floats. Scales of bytes are left out. */
void tfm__stored_to_floats(float *out, const tfm__stored_tensor *stored, size_t first, size_t count, size_t step);

/* Row i of the parameter, as floats: columns of a tensor that is stored transposed, zeros where the file ends before.
 */
void tfm__parameter_row(float *out, const tfm__parameter *p, const tfm__stored_tensor *stored, int64_t i);

/* Makes (dims[0], dims[1]) bytes and dims[0] scales of a parameter, from a stored tensor of any dtype. */
tfm_status tfm__param_quantize(int8_t *bytes, float *scales, const tfm__parameter *p, const tfm__stored_tensor *stored);

/* Fills p->param, whose value (I8) and scales have memory, from a stored tensor of any dtype. */
tfm_status tfm__param_load_int8(tfm_context *ctx, const tfm__parameter *p, const tfm__stored_tensor *stored);

/* All of the parameter as floats, to be freed, of a stored tensor of any dtype. NULL without the memory. */
float *tfm__parameter_floats(const tfm__parameter *p, const tfm__stored_tensor *stored);

/* Refuses a parameter with a number that is finite, and would not be as F16. */
tfm_status tfm__param_check_fp16_range(const tfm__parameter *p, const tfm__stored_tensor *stored);

/* quantize_dir.c: a number as F16 or BF16, to the nearest, ties to even. */
uint16_t tfm__float_to_half(float value, tfm_dtype dtype);

#endif
