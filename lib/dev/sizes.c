/* How large tensors are: bytes of an element, elements of a tensor. */
#include "dev/dev.h"

static const struct {
    const char *name;
    size_t bytes;
} DTYPES[] = {
    [TFM_F32] = {"F32", 4}, [TFM_F16] = {"F16", 2}, [TFM_BF16] = {"BF16", 2},
    [TFM_I32] = {"I32", 4}, [TFM_U8] = {"U8", 1},   [TFM_I8] = {"I8", 1},
};

size_t tfm_dtype_size(tfm_dtype dtype) {
    return (size_t)dtype < TFM__COUNT(DTYPES) ? DTYPES[dtype].bytes : 1;
}

const char *tfm_dtype_name(tfm_dtype dtype) {
    return (size_t)dtype < TFM__COUNT(DTYPES) ? DTYPES[dtype].name : "unknown dtype";
}

size_t tfm_tensor_count(tfm_tensor x) {
    size_t count = x.rank > 0 ? 1 : 0;
    for (int i = 0; i < x.rank; i++)
        count *= (size_t)x.dims[i];
    return count;
}
