#include <string.h>
#include "ops/ops.h"
#include "tfm/nn.h"

static tfm_status logs_new(tfm_context *ctx, tfm_keys_values *logs, int layers, int64_t capacity, int64_t width) {
    const int64_t dims[] = {capacity, width};
    for (int i = 0; i < layers; i++) {
        tfm__tensor_new_lasting(ctx, &logs[i].keys, TFM_F32, 2, dims);
        tfm__tensor_new_lasting(ctx, &logs[i].values, TFM_F32, 2, dims);
    }
    return tfm_context_status(ctx);
}

tfm_status tfm_kv_cache_new(tfm_context *ctx, tfm_kv_cache *out, int layers, int64_t width, int64_t capacity) {
    *out = (tfm_kv_cache){.layers = layers, .width = width, .capacity = capacity};
    out->logs = tfm__alloc((size_t)layers, sizeof(*out->logs));
    if (!out->logs)
        return tfm__context_fail(ctx, TFM_ERROR_MEMORY, "kv_cache: out of host memory");
    return logs_new(ctx, out->logs, layers, capacity, width);
}

void tfm_kv_cache_clear(tfm_kv_cache *cache) {
    cache->rows = 0;
}

static void copy_rows(tfm_context *ctx, tfm_tensor to, tfm_tensor from, int64_t rows) {
    tfm_tensor head = {0}, source = {0};
    tfm_tensor_rows(ctx, &head, to, 0, rows);
    tfm_tensor_rows(ctx, &source, from, 0, rows);
    tfm__tensor_copy(ctx, head, source);
}

tfm_status tfm_kv_cache_reserve(tfm_context *ctx, tfm_kv_cache *cache, int64_t count) {
    if (tfm_context_status(ctx) != TFM_OK || cache->rows + count <= cache->capacity)
        return tfm_context_status(ctx);
    int64_t capacity = 2 * cache->capacity;
    if (capacity < cache->rows + count)
        capacity = cache->rows + count;
    for (int i = 0; i < cache->layers; i++) {
        tfm_keys_values larger = {{0}, {0}}, *old = &cache->logs[i];
        if (logs_new(ctx, &larger, 1, capacity, cache->width) == TFM_OK && cache->rows > 0) {
            copy_rows(ctx, larger.keys, old->keys, cache->rows);
            copy_rows(ctx, larger.values, old->values, cache->rows);
        }
        tfm_tensor_free(ctx, &old->keys);
        tfm_tensor_free(ctx, &old->values);
        *old = larger;
    }
    cache->capacity = capacity;
    return tfm_context_status(ctx);
}

void tfm_kv_cache_free(tfm_context *ctx, tfm_kv_cache *cache) {
    for (int i = 0; cache->logs && i < cache->layers; i++) {
        tfm_tensor_free(ctx, &cache->logs[i].keys);
        tfm_tensor_free(ctx, &cache->logs[i].values);
    }
    free(cache->logs);
    *cache = (tfm_kv_cache){0};
}
