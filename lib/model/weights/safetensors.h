/* What those who read and who write safetensors files share. */
#ifndef TFM_LIB_SAFETENSORS_H
#define TFM_LIB_SAFETENSORS_H

#include "base/base.h"

/* Bytes of a header at most, as the format's reference implementation limits it. */
#define TFM__SAFETENSORS_HEADER 100000000u

/* The last tensor of a sealed file: U8, tfm__hash64 with seed 0 of all bytes before it, least first. A metadata
 * says that there is one, so that it cannot be lost unseen. */
#define TFM__CHECKSUM_TENSOR "checksum"
#define TFM__CHECKSUM_KEY "sealed"
enum { TFM__CHECKSUM_BYTES = 8 };

void tfm__checksum_encode(unsigned char out[TFM__CHECKSUM_BYTES], uint64_t hash);

#endif
