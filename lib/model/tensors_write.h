/* Writing safetensors files from the device. */
#ifndef TFM_LIB_TENSORS_WRITE_H
#define TFM_LIB_TENSORS_WRITE_H

#include <stdbool.h>
#include "dev/dev.h"

typedef struct tfm__entry {
    char name[256];
    tfm_tensor x;    /* any dtype */
    tfm_dtype dtype; /* to be stored as: x's own; or, of F32, F16 or BF16 */
} tfm__entry;

/* A word about the file, for its header's __metadata__. */
typedef struct tfm__remark {
    const char *name, *text; /* UTF-8 */
} tfm__remark;

/* The file appears when it is complete, or stays as it was. Host memory for a few MB at a time is enough. A sealed file
 * ends with one more tensor, a checksum of the rest (tfm__safetensors_verify). */
tfm_status tfm__tensors_write(tfm_context *ctx, const char *path, const tfm__entry *entries, size_t count,
                              const tfm__remark *remarks, size_t remark_count, bool sealed);

#endif
