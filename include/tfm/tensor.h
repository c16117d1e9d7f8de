/* Tensors: small values that name a piece of device memory. Row-major, contiguous.
 *
 *     tfm_tensor x = {0};
 *     tfm_tensor_new(ctx, &x, TFM_F32, 2, (int64_t[]){4, 128});
 *     tfm_tensor_write(ctx, x, host);
 *
 * Memory comes from the context's pool and is given back by scope: what is made between tfm_scope_open and
 * tfm_scope_close dies there, but for the tensors that the close keeps for the scope outside. A tensor used after its
 * memory was given back is an error at the next op's door, not a wrong number. Tensors made outside any scope live
 * until tfm_tensor_free or the context's end. */
#ifndef TFM_TENSOR_H
#define TFM_TENSOR_H

#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TFM_MAX_RANK 5

typedef enum tfm_dtype { TFM_F32, TFM_F16, TFM_BF16, TFM_I32, TFM_U8 } tfm_dtype;

/* A block of device memory, owned by a context's pool. */
typedef struct tfm_buffer tfm_buffer;

typedef struct tfm_tensor {
    tfm_buffer *buffer;  /* NULL: no tensor; an op given such an output makes one */
    size_t offset;       /* in elements from the buffer's start */
    uint64_t generation; /* of the buffer when the tensor was made */
    tfm_dtype dtype;
    int rank;
    int64_t dims[TFM_MAX_RANK];
} tfm_tensor;

/* Bytes of one element. */
TFM_API size_t tfm_dtype_size(tfm_dtype dtype);
/* "F32", "F16", "BF16", "I32", "U8". */
TFM_API const char *tfm_dtype_name(tfm_dtype dtype);

/* Makes an uninitialised tensor in the current scope. Sticky: fails at once if the context already failed. */
TFM_API tfm_status tfm_tensor_new(tfm_context *ctx, tfm_tensor *out, tfm_dtype dtype, int rank, const int64_t *dims);
/* Gives a tensor's memory back before its scope ends and nulls it: that of all tensors that lie in it, too. An empty one is
 * taken. */
TFM_API void tfm_tensor_free(tfm_context *ctx, tfm_tensor *tensor);

/* The same memory under other dims with the same number of elements. */
TFM_API tfm_status tfm_tensor_reshape(tfm_context *ctx, tfm_tensor *out, tfm_tensor x, int rank, const int64_t *dims);
/* Rows first .. first+count-1 of the first dimension, without a copy. */
TFM_API tfm_status tfm_tensor_rows(tfm_context *ctx, tfm_tensor *out, tfm_tensor x, int64_t first, int64_t count);

/* Number of elements; 0 for an empty tensor. */
TFM_API size_t tfm_tensor_count(tfm_tensor x);

/* Copies count(x) elements from host memory. Returns when `host` may be reused. */
TFM_API tfm_status tfm_tensor_write(tfm_context *ctx, tfm_tensor x, const void *host);
/* Copies count(x) elements to host memory; waits for all that is enqueued before. */
TFM_API tfm_status tfm_tensor_read(tfm_context *ctx, void *host, tfm_tensor x);

TFM_API tfm_status tfm_scope_open(tfm_context *ctx);
/* Closes the innermost scope. The `count` tensors pointed to in `keep` (empty ones are skipped) go to the scope
 * outside; all others made since tfm_scope_open are given back. */
TFM_API tfm_status tfm_scope_close(tfm_context *ctx, size_t count, tfm_tensor *const *keep);

/* A learned tensor. `packed` caches the layout that the device's GEMM likes; it is made at first use and made again
 * when `version` has moved: whoever writes `value` bumps `version`. */
typedef struct tfm_param {
    tfm_tensor value;
    uint64_t version;
    tfm_tensor packed;
    uint64_t packed_version; /* version + 1 of the value that `packed` was made from; 0: never */
    int packed_layout;
} tfm_param;

/* Gives value and packed copy back and zeroes the struct. */
TFM_API void tfm_param_free(tfm_context *ctx, tfm_param *param);

#ifdef __cplusplus
}
#endif
#endif
