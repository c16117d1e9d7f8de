#include <string.h>
#include "nn/kv_cache.h"
#include "ops/ops.h"

static tfm_status kv_new(tfm_context *ctx, tfm_kv *logs, int layers, int64_t capacity, int64_t width, tfm_dtype dtype) {
    const int64_t dims[] = {capacity, width};
    for (int i = 0; i < layers; i++) {
        tfm__tensor_new_persistent(ctx, &logs[i].keys, dtype, 2, dims);
        tfm__tensor_new_persistent(ctx, &logs[i].values, dtype, 2, dims);
    }
    return tfm_context_status(ctx);
}

tfm_status tfm_kv_cache_new(tfm_context *ctx, tfm_kv_cache *out, int layers, int64_t width, int64_t capacity) {
    return tfm_kv_cache_new_dtype(ctx, out, layers, width, capacity, TFM_F32);
}

tfm_status tfm_kv_cache_new_dtype(tfm_context *ctx, tfm_kv_cache *out, int layers, int64_t width, int64_t capacity,
                                  tfm_dtype dtype) {
    if (out) /* the caller frees it also after a failure */
        *out = (tfm_kv_cache){0};
    if (TFM__NEEDS_ON(ctx, "kv_cache_new", out) != TFM_OK)
        return tfm_context_status(ctx);
    if (dtype != TFM_F32 && dtype != TFM_F16 && dtype != TFM_BF16 && dtype != TFM_I8)
        return tfm__op_error(ctx, "kv_cache_new", "keys and values cannot be %s: they are F32, F16, BF16 or I8",
                             tfm_dtype_name(dtype));
    if (dtype == TFM_I8 && width % 4 != 0)
        return tfm__op_error(ctx, "kv_cache_new",
                             "an int8 slot of %lld bytes is no sum of TFM_KV_INT8_SPAN of each head", (long long)width);
    tfm_kv *logs = tfm__alloc((size_t)layers, sizeof(*logs));
    if (!logs)
        return tfm__context_fail(ctx, TFM_ERROR_MEMORY, "kv_cache: out of host memory");
    *out = (tfm_kv_cache){.layers = layers, .width = width, .capacity = capacity, .kv = logs};
    return kv_new(ctx, out->kv, layers, capacity, width, dtype);
}

void tfm_kv_cache_clear(tfm_kv_cache *cache) {
    if (!cache)
        return;
    cache->slots = 0;
}

static void copy_rows(tfm_context *ctx, tfm_tensor to, tfm_tensor from, int64_t rows) {
    tfm_tensor head = {0}, source = {0};
    tfm_tensor_rows(ctx, &head, to, 0, rows);
    tfm_tensor_rows(ctx, &source, from, 0, rows);
    tfm__tensor_copy(ctx, head, source);
}

static void kv_free(tfm_context *ctx, tfm_kv *logs, int layers) {
    for (int i = 0; logs && i < layers; i++) {
        tfm_tensor_free(ctx, &logs[i].keys);
        tfm_tensor_free(ctx, &logs[i].values);
    }
    free(logs);
}

tfm_status tfm_kv_cache_reserve(tfm_context *ctx, tfm_kv_cache *cache, int64_t count) {
    if (TFM__NEEDS_ON(ctx, "kv_cache_reserve", cache) != TFM_OK)
        return tfm_context_status(ctx);
    if (tfm__context_sticky(ctx) != TFM_OK || count <= cache->capacity - cache->slots)
        return tfm_context_status(ctx);
    int64_t doubled = 2 * cache->capacity;
    if (cache->limit && doubled > cache->limit)
        doubled = cache->limit;
    const int64_t capacity = doubled > cache->slots + count ? doubled : cache->slots + count;
    tfm_kv *larger = tfm__alloc((size_t)cache->layers, sizeof(*larger));
    if (!larger)
        return tfm__context_fail(ctx, TFM_ERROR_MEMORY, "kv_cache: out of host memory");
    kv_new(ctx, larger, cache->layers, capacity, cache->width, cache->layers ? cache->kv[0].keys.dtype : TFM_F32);
    for (int i = 0; i < cache->layers && cache->slots > 0; i++) {
        copy_rows(ctx, larger[i].keys, cache->kv[i].keys, cache->slots);
        copy_rows(ctx, larger[i].values, cache->kv[i].values, cache->slots);
    }
    if (tfm_context_status(ctx) != TFM_OK) { /* the cache stays unchanged */
        kv_free(ctx, larger, cache->layers);
        return tfm_context_status(ctx);
    }
    kv_free(ctx, cache->kv, cache->layers);
    cache->kv = larger;
    cache->capacity = capacity;
    return TFM_OK;
}

static void compact(tfm_context *ctx, tfm_tensor x, tfm_tensor list) {
    tfm_tensor kept = {0}, front = {0};
    tfm_scope_open(ctx);
    tfm_gather(ctx, &kept, x, list);
    tfm_tensor_rows(ctx, &front, x, 0, list.dims[0]);
    tfm__tensor_copy(ctx, front, kept);
    tfm_scope_close(ctx, 0, NULL);
}

tfm_status tfm__kv_cache_compact(tfm_context *ctx, tfm_kv_cache *cache, tfm_tensor list) {
    for (int i = 0; i < cache->layers; i++) {
        compact(ctx, tfm__kv_words(cache->kv[i].keys), list);
        compact(ctx, tfm__kv_words(cache->kv[i].values), list);
    }
    cache->slots = list.dims[0];
    return tfm_context_status(ctx);
}

void tfm_kv_cache_free(tfm_context *ctx, tfm_kv_cache *cache) {
    if (!ctx || !cache)
        return;
    kv_free(ctx, cache->kv, cache->layers);
    *cache = (tfm_kv_cache){0};
}
