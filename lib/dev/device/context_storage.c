/* What layers above keep with a context, each under a key of its own. */
#include "dev/device/context_internal.h"

struct tfm__slot {
    const void *key;
    void *data;
    void (*release)(void *data);
    tfm__slot *next;
};

void *tfm__context_slot(const tfm_context *ctx, const void *key) {
    for (const tfm__slot *slot = ctx->slots; slot; slot = slot->next)
        if (slot->key == key)
            return slot->data;
    return NULL;
}

tfm_status tfm__context_set_slot(tfm_context *ctx, const void *key, void *data, void (*release)(void *data)) {
    tfm__slot *slot = tfm__alloc(1, sizeof(*slot));
    if (!slot) {
        release(data);
        return tfm__context_fail(ctx, TFM_ERROR_MEMORY, "%s", tfm_error_message());
    }
    *slot = (tfm__slot){.key = key, .data = data, .release = release, .next = ctx->slots};
    ctx->slots = slot;
    return TFM_OK;
}

void *tfm__context_slot_made(tfm_context *ctx, const void *key, size_t bytes) {
    void *data = tfm__context_slot(ctx, key);
    if (data || tfm_context_status(ctx) != TFM_OK)
        return data;
    data = tfm__alloc(1, bytes);
    if (!data) {
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "%s", tfm_error_message());
        return NULL;
    }
    return tfm__context_set_slot(ctx, key, data, free) == TFM_OK ? data : NULL;
}

void tfm__slots_free(tfm_context *ctx) {
    while (ctx->slots) {
        tfm__slot *slot = ctx->slots;
        ctx->slots = slot->next;
        slot->release(slot->data);
        free(slot);
    }
}
