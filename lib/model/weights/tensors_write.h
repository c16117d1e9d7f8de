/* Writing safetensors files from the device. */
#ifndef TFM_LIB_TENSORS_WRITE_H
#define TFM_LIB_TENSORS_WRITE_H

#include <stdbool.h>
#include "dev/dev.h"

/* How many tensors one entry may be made of: more than a block has matrices. */
enum { TFM__ENTRY_PARTS = 16 };

typedef struct tfm__tensor_entry {
    char name[256];
    tfm_tensor x;    /* What is written, of any dtype. */
    tfm_dtype dtype; /* The dtype in the file: x's own, or F16 or BF16 for an x that is F32. */
    float subtract;  /* What is taken from each number before it is stored. */
    bool transposed; /* Matrices are stored transposed, as (inputs, outputs). */
    /* Further tensors of x's dtype and width. They become rows after those of x, or columns if `transposed`. */
    tfm_tensor parts[TFM__ENTRY_PARTS - 1];
    size_t part_count;
    int64_t part_first[TFM__ENTRY_PARTS]; /* first row of x and of each part in the stored tensor, ascending */
    int64_t
        groups; /* Above 1: x and those are cut into so many equal runs of rows, and of each in turn a run is stored. */
} tfm__tensor_entry;

/* Adds a part that starts at row `first` of the stored tensor (of each run of rows, with `groups`). Parts may be added
 * in any order; x then is the first of them. An entry has room for TFM__ENTRY_PARTS - 1 calls. */
void tfm__tensor_entry_add_part(tfm__tensor_entry *entry, tfm_tensor part, int64_t first);

/* The data begins at a multiple of TFM__DATA_ALIGNMENT, and first come tensors of multiples of TFM__TENSOR_ALIGNMENT
 * bytes, so that all of these lie at such: GPUs that share the host's memory then read them where they are
 * (dev/memory/mmap_tensor.c).
 */
enum { TFM__DATA_ALIGNMENT = 64, TFM__TENSOR_ALIGNMENT = 16 };

/* What the text of the header, of so many bytes, is filled up to, after the eight bytes that say how long it is. */
size_t tfm__tensors_header_size(size_t length);

/* A word about the file, for its header's __metadata__. */
typedef struct tfm__metadata_entry {
    const char *name, *text; /* UTF-8 */
} tfm__metadata_entry;

/* The file appears when it is complete, or stays as it was. Host memory for a few MB at a time is enough. A sealed file
 * ends with one more tensor, a checksum of the rest (tfm__weights_verify). */
tfm_status tfm__tensors_write(tfm_context *ctx, const char *path, const tfm__tensor_entry *entries, size_t count,
                              const tfm__metadata_entry *metadata_entries, size_t metadata_count, bool with_checksum);

#endif
