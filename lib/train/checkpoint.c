/* A trainer's state as one safetensors file: the flat tensors, the number of updates, and the kind of device.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "model/tensors_write.h"
#include "train/trainer.h"

/* The tuning row, which decides the order of additions. */
static void device_kind(const tfm_trainer *t, unsigned char *text, size_t size) {
    const tfm__row *row = tfm__context_row(t->ctx);
    memset(text, 0, size);
    snprintf((char *)text, size, "%s width %d group %d chunk %d fma %d gemm %dx%d clblast %d", row->name,
             row->width, row->group, row->chunk, row->fma, row->gemm_rows, row->gemm_vectors,
             row->gemm_clblast);
}

enum { KIND_BYTES = 128, FACTS = 2 };

tfm_status tfm_trainer_save(tfm_trainer *t, const char *path) {
    unsigned char kind[KIND_BYTES];
    const int32_t facts[FACTS] = {(int32_t)(t->update & 0x7fffffff), (int32_t)(t->update >> 31)};
    tfm__entry entries[] = {
        {"parameters", t->value, TFM_F32}, {"first_moments", t->m, TFM_F32},
        {"second_moments", t->v, TFM_F32}, {"update", {0}, TFM_I32},
        {"device", {0}, TFM_U8},
    };
    if (tfm_context_status(t->ctx) != TFM_OK)
        return tfm__fail(tfm_context_status(t->ctx), "%s: the context has failed before: %s", path,
                         tfm_context_error(t->ctx));
    device_kind(t, kind, sizeof(kind));
    tfm_scope_open(t->ctx);
    tfm_tensor_new(t->ctx, &entries[3].x, TFM_I32, 1, (int64_t[]){FACTS});
    tfm_tensor_new(t->ctx, &entries[4].x, TFM_U8, 1, (int64_t[]){KIND_BYTES});
    tfm_tensor_write(t->ctx, entries[3].x, facts);
    tfm_tensor_write(t->ctx, entries[4].x, kind);
    tfm_status status = tfm_context_status(t->ctx);
    if (status == TFM_OK)
        status = tfm__tensors_write(t->ctx, path, entries, TFM_COUNT(entries));
    tfm_scope_close(t->ctx, 0, NULL);
    return status;
}

static const tfm__stored *find(const tfm__safetensors *file, const char *name, tfm_dtype dtype,
                               int64_t count) {
    const tfm__stored *stored = tfm__safetensors_find(file, name);
    return stored && stored->usable && stored->dtype == dtype && stored->rank == 1 && stored->dims[0] == count
               ? stored
               : NULL;
}

tfm_status tfm_trainer_load(tfm_trainer *t, const char *path) {
    static const char *const names[] = {"parameters", "first_moments", "second_moments"};
    const tfm_tensor places[] = {t->value, t->m, t->v};
    const tfm__stored *stored[3];
    unsigned char kind[KIND_BYTES];
    tfm__safetensors *file = NULL;
    tfm_status status = tfm__safetensors_open(&file, path);
    if (status != TFM_OK)
        return status;
    const tfm__stored *update = find(file, "update", TFM_I32, FACTS),
                      *device = find(file, "device", TFM_U8, KIND_BYTES);
    bool whole = update && device;
    for (int i = 0; i < 3; i++)
        whole &= (stored[i] = find(file, names[i], TFM_F32, t->count)) != NULL;
    if (!whole) {
        tfm__safetensors_free(&file);
        return tfm__fail(TFM_ERROR_FORMAT, "%s is no checkpoint of this model, which has %" PRId64 " numbers",
                         path, t->count);
    }
    for (int i = 0; i < 3; i++)
        status = tfm_tensor_write(t->ctx, places[i], stored[i]->data);
    int32_t facts[FACTS];
    memcpy(facts, update->data, sizeof(facts));
    device_kind(t, kind, sizeof(kind));
    if (memcmp(kind, device->data, sizeof(kind)) != 0)
        tfm__log(TFM_LOG_WARNING,
                 "%s was written on another kind of device: the run goes on, but not to the bit", path);
    tfm__safetensors_free(&file);
    if (status != TFM_OK)
        return status;
    t->update = (int64_t)facts[1] << 31 | facts[0];
    for (size_t i = 0; i < t->param_count; i++)
        t->params[i]->version++;
    return TFM_OK;
}
