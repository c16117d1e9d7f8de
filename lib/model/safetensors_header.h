/* What the files of safetensors share: the header's check, and the seal. */
#ifndef TFM_LIB_SAFETENSORS_HEADER_H
#define TFM_LIB_SAFETENSORS_HEADER_H

#include <jansson.h>
#include "model/safetensors.h"

/* The tensors that the header of a file names, in `out`, which has room for json_object_size(header). They borrow names
 * and dtypes from the header and `path`, and lie in the `size` bytes of data behind it, all of which they cover. */
tfm_status tfm__safetensors_header(tfm__stored *out, size_t *count, json_t *header, const char *path,
                                   const unsigned char *data, size_t size);

/* The last tensor of a sealed file: U8, tfm__hash64 with seed 0 of all bytes before it, least first. A remark
 * says that there is one, so that it cannot be lost unseen. */
#define TFM__SEAL "checksum"
#define TFM__SEALED "sealed"
enum { TFM__SEAL_BYTES = 8 };

void tfm__seal(unsigned char out[TFM__SEAL_BYTES], uint64_t hash);

#endif
