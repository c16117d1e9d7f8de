/* Writes safetensors files from the device. */
#ifndef TFM_LIB_TENSORS_WRITE_H
#define TFM_LIB_TENSORS_WRITE_H

#include <jansson.h>
#include <stdbool.h>
#include "dev/dev.h"

/* Maximum number of tensors per entry: more than a block has matrices. */
enum { TFM__ENTRY_PARTS = 16 };

typedef struct tfm__tensor_entry {
    char name[256];
    tfm_tensor x;    /* any dtype */
    tfm_dtype dtype; /* dtype in the file: x's, or F16 or BF16 for F32 */
    float subtract;  /* subtracted before storing */
    bool transposed; /* matrices are stored (inputs, outputs) */
    /* Further tensors of x's dtype and width, appended as rows, or as columns if `transposed`. */
    tfm_tensor parts[TFM__ENTRY_PARTS - 1];
    size_t part_count;
    int64_t part_first[TFM__ENTRY_PARTS]; /* first row of x and of each part in the stored tensor, ascending */
    int64_t groups; /* if > 1: x and parts are split into this many equal runs of rows, stored interleaved */
} tfm__tensor_entry;

/* Adds a part that starts at row `first` of the stored tensor (of each run of rows, with `groups`). Parts may be added
 * in any order; x then is the first of them. An entry has room for TFM__ENTRY_PARTS - 1 calls. */
void tfm__tensor_entry_add_part(tfm__tensor_entry *entry, tfm_tensor part, int64_t first);

/* The data starts at a multiple of TFM__DATA_ALIGNMENT, tensors with sizes divisible by TFM__TENSOR_ALIGNMENT come
 * first and are so aligned: GPUs that share the host's memory read them in place (dev/memory/mmap_tensor.c). */
enum { TFM__DATA_ALIGNMENT = 64, TFM__TENSOR_ALIGNMENT = 16 };

/* Padded size of a header text of this length, without the 8-byte length before it. */
size_t tfm__tensors_header_size(size_t length);

/* Adds an entry to a header, of a tensor with `bytes` bytes at *at, which moves on; false: out of memory. */
bool tfm__tensors_name(json_t *header, const char *name, const char *dtype, int rank, const int64_t *dims, size_t *at,
                       size_t bytes);

/* An entry of the header's __metadata__. */
typedef struct tfm__metadata_entry {
    const char *name, *text; /* UTF-8 */
} tfm__metadata_entry;

/* The file is replaced atomically when complete. Uses a few MB of host memory. With a checksum, the last tensor is a
 * hash of the rest (tfm__weights_verify). */
tfm_status tfm__tensors_write(tfm_context *ctx, const char *path, const tfm__tensor_entry *entries, size_t count,
                              const tfm__metadata_entry *metadata_entries, size_t metadata_count, bool with_checksum);

#endif
