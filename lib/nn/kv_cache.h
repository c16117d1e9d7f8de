/* KV cache internals. */
#ifndef TFM_LIB_KV_CACHE_H
#define TFM_LIB_KV_CACHE_H

#include "tfm/nn.h"

/* The slots of an int8 or 16-bit cache as I32, for ops that copy rows of words; those of other caches as they are. */
static inline tfm_tensor tfm__kv_words(tfm_tensor slots) {
    const int each = slots.dtype == TFM_I8 ? 4 : slots.dtype == TFM_F16 || slots.dtype == TFM_BF16 ? 2 : 1;
    if (each == 1 || slots.dims[1] % each != 0 || slots.offset % each != 0)
        return slots;
    slots.dtype = TFM_I32;
    slots.offset /= each;
    slots.dims[1] /= each; /* an int8 head is a multiple of four bytes: TFM_KV_INT8_SPAN */
    return slots;
}

/* Slot i of the cache becomes slot list[i] of it; list (N) I32. The cache then has N slots. */
tfm_status tfm__kv_cache_compact(tfm_context *ctx, tfm_kv_cache *cache, tfm_tensor list);

#endif
