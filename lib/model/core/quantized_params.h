/* Low-precision parameters: blocks, int8 with a scale per row (tfm_param.scales), fp16 and bf16. */
#ifndef TFM_LIB_QUANTIZED_PARAMS_H
#define TFM_LIB_QUANTIZED_PARAMS_H

#include "model/core/param_roles.h"

/* Whether a parameter may be int8 or 16 bits: matrices of linear layers and embedding tables, read only by GEMM and
 * embedding lookups. */
bool tfm__param_is_quantizable(const tfm__parameter *p);

/* Converts `count` stored values from `first` on, `step` apart, to float. int8 values are not scaled. */
void tfm__stored_to_floats(float *out, const tfm__stored_tensor *stored, size_t first, size_t count, size_t step);

/* Row i of the parameter as floats, an element of a vector: a column if stored transposed, zeros past the stored
 * rows. */
void tfm__parameter_row(float *out, const tfm__parameter *p, const tfm__stored_tensor *stored, int64_t i);

/* The row of the stored tensor that is row i of the parameter, not past the stored ones. */
int64_t tfm__parameter_stored_row(const tfm__parameter *p, int64_t i);

/* Quantizes a stored tensor of any dtype: (dims[0], dims[1]) int8 and dims[0] scales. */
tfm_status tfm__param_quantize(int8_t *bytes, float *scales, const tfm__parameter *p, const tfm__stored_tensor *stored);
/* The same with the fp16 scales of groups of columns: the integers, scales and minima of INT8_M32: `scales` has room
 * for both. */
tfm_status tfm__param_quantize_groups(int8_t *bytes, uint16_t *scales, const tfm__parameter *p,
                                      const tfm__stored_tensor *stored);

/* Fills p->param, whose value (I8) and scales are allocated, from a stored tensor of any dtype. */
tfm_status tfm__param_load_int8(tfm_context *ctx, const tfm__parameter *p, const tfm__stored_tensor *stored);

/* The format of the parameter as blocks on the device: those of its GGUF file, of packed integers or of int8 with
 * scales, which keep all values; with `int8`, other values become INT8_M32. NULL: it has no such form. */
const struct tfm__quant_format *tfm__param_blocks(const tfm__parameter *p, const tfm__stored_tensor *stored, bool int8);
/* Fills p->param with these blocks. */
tfm_status tfm__param_load_blocks(tfm_context *ctx, const tfm__weights *file, const tfm__parameter *p,
                                  const tfm__stored_tensor *stored, const struct tfm__quant_format *format);

/* Fails if a finite value would overflow F16. */
tfm_status tfm__param_check_fp16_range(const tfm__parameter *p, const tfm__stored_tensor *stored);

/* Rounds to F16 or BF16, to nearest even. */
uint16_t tfm__float_to_half(float value, tfm_dtype dtype);

#endif
