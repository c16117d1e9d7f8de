/* Shared by the reader and the writer of safetensors files. */
#ifndef TFM_LIB_SAFETENSORS_H
#define TFM_LIB_SAFETENSORS_H

#include "base/base.h"

/* Maximum header size, as in the format's reference implementation. */
#define TFM__SAFETENSORS_HEADER 100000000u

/* The last tensor of a file with a checksum: U8, tfm__hash64 with seed 0 of all bytes before it, little-endian. A
 * metadata entry says that there is one, so that its absence is detected. */
#define TFM__CHECKSUM_TENSOR "checksum"
#define TFM__CHECKSUM_KEY "sealed"
enum { TFM__CHECKSUM_BYTES = 8 };

void tfm__checksum_encode(unsigned char out[TFM__CHECKSUM_BYTES], uint64_t hash);

#endif
