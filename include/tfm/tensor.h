/* Tensors: small structs that describe a range of device memory. Elements are contiguous, in row-major order.
 *
 *     tfm_tensor x = {0};
 *     tfm_tensor_new(ctx, &x, TFM_F32, 2, (int64_t[]){4, 128});
 *     tfm_tensor_write(ctx, x, host);
 *
 * Memory comes from the context's pool and is freed by scope: tfm_scope_close frees all tensors made since the matching
 * tfm_scope_open, except the listed ones, which pass to the outer scope. Tensors made outside any scope live until
 * tfm_tensor_free or the end of the context. Ops refuse freed tensors.
 *
 * A tensor has 1 to TFM_MAX_RANK dimensions. A dimension may be 0: such a tensor has no elements, and only ops
 * documented to do so accept it. An *empty* tensor is different: its buffer is NULL. It stands for an omitted input, or
 * for an output to be allocated.
 *
 * Calls that make a tensor or a view leave *out empty on failure.
 *
 * Calls that return a status also put the context into a failed state when they fail, and return its failure at once if
 * it had failed before (device.h). One thread at a time may use the tensors of a context. */
#ifndef TFM_TENSOR_H
#define TFM_TENSOR_H

#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The maximum rank. */
#define TFM_MAX_RANK 8

/* Element types: fp32, fp16 (IEEE half), bf16, int32, uint8, int8. */
typedef enum tfm_dtype { TFM_F32, TFM_F16, TFM_BF16, TFM_I32, TFM_U8, TFM_I8 } tfm_dtype;

/* A block of device memory, owned by a context's pool. */
typedef struct tfm_buffer tfm_buffer;

/* A plain value; copies refer to the same memory. Read-only for programs. */
typedef struct tfm_tensor {
    tfm_buffer *buffer;  /* The memory. NULL means an empty tensor; an op with an empty output makes one. */
    size_t offset;       /* Where the tensor begins in the buffer, in elements. */
    uint64_t generation; /* The buffer's use count at creation; detects a freed tensor. */
    tfm_dtype dtype;
    int rank;                   /* The number of dimensions, 1 to TFM_MAX_RANK; 0 for an empty tensor. */
    int64_t dims[TFM_MAX_RANK]; /* The size of each dimension, 0 or more, the outermost first. */
} tfm_tensor;

/* The size of one element in bytes; 1 for an invalid dtype. */
TFM_API size_t tfm_dtype_size(tfm_dtype dtype);
/* The name of a type: "F32", "F16", "BF16", "I32", "U8" or "I8"; "unknown dtype" for an invalid one. Never NULL. */
TFM_API const char *tfm_dtype_name(tfm_dtype dtype);

/* Makes a tensor of the given dims in the current scope. Its elements are not initialized. TFM_ERROR_ARGUMENT for an
 * invalid dtype, rank or dim; TFM_ERROR_MEMORY if the device has not enough memory. */
TFM_API tfm_status tfm_tensor_new(tfm_context *ctx, tfm_tensor *out, tfm_dtype dtype, int rank, const int64_t *dims);
/* Frees a tensor before its scope ends and makes it empty. The whole buffer is freed, with all other tensors in it,
 * such as views. Does nothing for an empty tensor. Counts as a use of the context: one thread at a time. */
TFM_API void tfm_tensor_free(tfm_context *ctx, tfm_tensor *tensor);

/* Makes `out` a view of x with other dims and the same number of elements. */
TFM_API tfm_status tfm_tensor_reshape(tfm_context *ctx, tfm_tensor *out, tfm_tensor x, int rank, const int64_t *dims);
/* Makes `out` a view of `count` rows of x, at least one, from row `first` (counted from 0) of the first dimension. */
TFM_API tfm_status tfm_tensor_rows(tfm_context *ctx, tfm_tensor *out, tfm_tensor x, int64_t first, int64_t count);

/* The number of elements; 0 for an empty tensor and for one with a dimension of 0. */
TFM_API size_t tfm_tensor_count(tfm_tensor x);

/* Copies all elements of x from host memory. `host` may be reused after the call. */
TFM_API tfm_status tfm_tensor_write(tfm_context *ctx, tfm_tensor x, const void *host);
/* Copies all elements of x to host memory, after waiting for all work that was enqueued before. */
TFM_API tfm_status tfm_tensor_read(tfm_context *ctx, void *host, tfm_tensor x);

/* Opens a scope inside the current one. Scopes open and close in a failed context too, so that calls stay in pairs.
 * TFM_ERROR_ARGUMENT if 63 are open already, including the library's internal ones. */
TFM_API tfm_status tfm_scope_open(tfm_context *ctx);
/* Closes the innermost scope. The `count` tensors in `keep` pass to the outer scope; NULL and empty ones are skipped.
 * All other tensors made in the scope are freed. `keep` may be NULL if `count` is 0; otherwise NULL is
 * TFM_ERROR_ARGUMENT, and the scope is closed anyway. TFM_ERROR_ARGUMENT too if no scope is open. */
TFM_API tfm_status tfm_scope_close(tfm_context *ctx, size_t count, tfm_tensor *const *keep);

/* A parameter, with a packed copy in the layout of the device's GEMM. Initialize it with {0} and set `value`. After
 * writing to `value`, add 1 to `version`, so that it is packed again. */
typedef struct tfm_param {
    tfm_tensor value;        /* The parameter: F32, or as documented for tfm_linear's weights. */
    uint64_t version;        /* Count of changes to `value`, incremented by its writer. */
    tfm_tensor packed;       /* The library's copy, made at first use; empty before. */
    uint64_t packed_version; /* 1 + the version of the value that was copied; 0 if there is no copy. */
    int packed_layout;       /* The layout of the copy; set and read by the library. */
    /* (N) F32 scales of an I8 `value` (N, K): row j is scales[j] times its int8 values, -127 to 127. Empty for other
     * values. Made by tfm_param_quantize. */
    tfm_tensor scales;
    /* The ggml number of the GGUF type if `value` is a block-quantized matrix in a layout of the device, such as 12 for
     * Q4_K; more than 1023 for packed integers; else 0. Set by the library. */
    int block_type;
    int64_t block_dims[2]; /* Its dims (N, K). */
    bool exact_input; /* Layers with this weight do not round their input (tfm_model_options.activation_precision). */
} tfm_param;

/* Frees the value and its copy and zeroes the struct. Counts as a use of the context: one thread at a time. */
TFM_API void tfm_param_free(tfm_context *ctx, tfm_param *param);

#ifdef __cplusplus
}
#endif
#endif
