/* Tensors: small values that name a piece of device memory. Their elements lie in row-major order without gaps.
 *
 *     tfm_tensor x = {0};
 *     tfm_tensor_new(ctx, &x, TFM_F32, 2, (int64_t[]){4, 128});
 *     tfm_tensor_write(ctx, x, host);
 *
 * Memory comes from the context's pool and is given back by scope: tfm_scope_close frees all tensors made since the
 * matching tfm_scope_open, except those that it is asked to keep for the scope outside. Tensors made outside any scope
 * live until tfm_tensor_free or the end of the context. An op that is given a tensor whose memory was given back
 * refuses it, so that no wrong numbers come out.
 *
 * A tensor has 1 to TFM_MAX_RANK dimensions. A dimension may be 0: such a tensor has no elements, and only the ops
 * whose comments say so take it. An *empty* tensor is another thing: it has no memory at all, so its buffer is NULL. It
 * stands for an input that is left out, or for an output that is still to be made.
 *
 * A call of this header that makes a tensor or a view leaves *out empty when it fails.
 *
 * Calls that return a status also put the context into a failed state when they fail, and return that failure at once
 * if the context had failed before; device.h tells of it. One thread at a time may use the tensors of a context. */
#ifndef TFM_TENSOR_H
#define TFM_TENSOR_H

#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The most dimensions that a tensor may have. */
#define TFM_MAX_RANK 8

/* The type of a tensor's elements: floating point of 32 bits, IEEE half precision, bfloat16, signed 32-bit integers,
 * unsigned bytes, or signed bytes. */
typedef enum tfm_dtype { TFM_F32, TFM_F16, TFM_BF16, TFM_I32, TFM_U8, TFM_I8 } tfm_dtype;

/* A block of device memory, which a context's pool owns. */
typedef struct tfm_buffer tfm_buffer;

/* Copies of this struct name the same memory. Programs read its fields and change none. */
typedef struct tfm_tensor {
    tfm_buffer *buffer;         /* The memory. NULL means an empty tensor; an op with an empty output makes one. */
    size_t offset;              /* Where the tensor begins in the buffer, in elements. */
    uint64_t generation;        /* The buffer's count of uses when the tensor was made; it shows a freed tensor. */
    tfm_dtype dtype;            /* The type of the elements. */
    int rank;                   /* The number of dimensions, 1 to TFM_MAX_RANK; 0 for an empty tensor. */
    int64_t dims[TFM_MAX_RANK]; /* The size of each dimension, 0 or more, the outermost first. */
} tfm_tensor;

/* The size of one element in bytes; 1 for a number that is no type. */
TFM_API size_t tfm_dtype_size(tfm_dtype dtype);
/* The name of a type: "F32", "F16", "BF16", "I32", "U8" or "I8"; "unknown dtype" for a number that is none. Never NULL.
 */
TFM_API const char *tfm_dtype_name(tfm_dtype dtype);

/* Makes a tensor of the given dims in the current scope. Its elements are not initialised. TFM_ERROR_ARGUMENT for a
 * dtype that there is not, and for a rank or dims out of range, such as a negative one; TFM_ERROR_MEMORY where the
 * device has no room. */
TFM_API tfm_status tfm_tensor_new(tfm_context *ctx, tfm_tensor *out, tfm_dtype dtype, int rank, const int64_t *dims);
/* Gives the memory of a tensor back before its scope ends and makes the tensor empty. The whole buffer goes, so other
 * tensors in it, such as views, end with it. Does nothing for an empty tensor. Counts as a use of the context: one
 * thread at a time. */
TFM_API void tfm_tensor_free(tfm_context *ctx, tfm_tensor *tensor);

/* Makes `out` a view of the memory of x under other dims, which must have the same number of elements. */
TFM_API tfm_status tfm_tensor_reshape(tfm_context *ctx, tfm_tensor *out, tfm_tensor x, int rank, const int64_t *dims);
/* Makes `out` a view of `count` rows of x, at least one, from row `first` on, counted from 0 along the first dimension.
 * Nothing is copied. */
TFM_API tfm_status tfm_tensor_rows(tfm_context *ctx, tfm_tensor *out, tfm_tensor x, int64_t first, int64_t count);

/* The number of elements; 0 for an empty tensor and for one with a dimension of 0. */
TFM_API size_t tfm_tensor_count(tfm_tensor x);

/* Copies all elements of x from host memory. When the call returns, `host` may be used again. */
TFM_API tfm_status tfm_tensor_write(tfm_context *ctx, tfm_tensor x, const void *host);
/* Copies all elements of x to host memory, after waiting for all work that was enqueued before. */
TFM_API tfm_status tfm_tensor_read(tfm_context *ctx, void *host, tfm_tensor x);

/* Opens a scope inside the current one. Scopes open and close in a failed context too, so that calls stay in pairs.
 * TFM_ERROR_ARGUMENT, and none is opened, if 63 are open already, those that the library opens inside calls counted. */
TFM_API tfm_status tfm_scope_open(tfm_context *ctx);
/* Closes the innermost scope. The `count` tensors that `keep` points to pass to the scope outside; NULL and empty
 * tensors among them are skipped. All other tensors made in the scope are given back. `keep` may be NULL if `count` is
 * 0; otherwise a NULL is TFM_ERROR_ARGUMENT, and the scope is closed all the same. TFM_ERROR_ARGUMENT too if no scope
 * is open. */
TFM_API tfm_status tfm_scope_close(tfm_context *ctx, size_t count, tfm_tensor *const *keep);

/* A learned tensor, with a copy in the layout that matrix multiplication on the device prefers. Start it as {0} and set
 * `value`. Whoever writes to `value` later adds 1 to `version`, so that the copy is made again. */
typedef struct tfm_param {
    tfm_tensor value;        /* The parameter itself: F32, or what tfm_linear says of weights. */
    uint64_t version;        /* A count of changes to `value`, kept by whoever writes it. */
    tfm_tensor packed;       /* The library's copy, made at first use; empty before. */
    uint64_t packed_version; /* 1 + the version of the value that was copied; 0 if there is no copy. */
    int packed_layout;       /* Which layout the copy has; the library sets and reads it. */
    tfm_tensor scales;       /* (N) F32, of a `value` (N, K) that is I8: row j is scales[j] times its bytes, which are
                                -127 to 127. Empty for other values. tfm_param_quantize makes both. */
} tfm_param;

/* Gives the memory of the value and of its copy back and fills the struct with zeros. Counts as a use of the context:
 * one thread at a time. */
TFM_API void tfm_param_free(tfm_context *ctx, tfm_param *param);

#ifdef __cplusplus
}
#endif
#endif
