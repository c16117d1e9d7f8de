/* KV cache internals. */
#ifndef TFM_LIB_KV_CACHE_H
#define TFM_LIB_KV_CACHE_H

#include "tfm/nn.h"

/* The slots of an int8 cache as I32, for ops that copy rows of words; those of other caches as they are. */
static inline tfm_tensor tfm__kv_words(tfm_tensor slots) {
    if (slots.dtype != TFM_I8)
        return slots;
    slots.dtype = TFM_I32;
    slots.offset /= 4;
    slots.dims[1] /= 4; /* a head is a multiple of four bytes: TFM_KV_INT8_SPAN */
    return slots;
}

#endif
