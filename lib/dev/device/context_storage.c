/* Context-local storage of the layers above, by key. */
#include "dev/device/context_internal.h"

struct tfm__storage_entry {
    const void *key;
    void *data;
    void (*release)(void *data);
    tfm__storage_entry *next;
};

void *tfm__context_storage_get(const tfm_context *ctx, const void *key) {
    for (const tfm__storage_entry *entry = ctx->storage; entry; entry = entry->next)
        if (entry->key == key)
            return entry->data;
    return NULL;
}

tfm_status tfm__context_storage_set(tfm_context *ctx, const void *key, void *data, void (*release)(void *data)) {
    tfm__storage_entry *entry = tfm__alloc(1, sizeof(*entry));
    if (!entry) {
        release(data);
        return tfm__context_fail(ctx, TFM_ERROR_MEMORY, "%s", tfm_error_message());
    }
    *entry = (tfm__storage_entry){.key = key, .data = data, .release = release, .next = ctx->storage};
    ctx->storage = entry;
    return TFM_OK;
}

void *tfm__context_storage_get_or_create(tfm_context *ctx, const void *key, size_t bytes) {
    void *data = tfm__context_storage_get(ctx, key);
    if (data || tfm_context_status(ctx) != TFM_OK)
        return data;
    data = tfm__alloc(1, bytes);
    if (!data) {
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "%s", tfm_error_message());
        return NULL;
    }
    return tfm__context_storage_set(ctx, key, data, free) == TFM_OK ? data : NULL;
}

void tfm__context_storage_free(tfm_context *ctx) {
    while (ctx->storage) {
        tfm__storage_entry *entry = ctx->storage;
        ctx->storage = entry->next;
        entry->release(entry->data);
        free(entry);
    }
}
