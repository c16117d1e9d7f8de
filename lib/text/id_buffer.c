/* Growing buffers: ids of a text, and a thread's scratch memory. */
#include "text/subword_model.h"

tfm_status tfm__id_buffer_reserve(tfm__id_buffer *list, size_t more) {
    if (list->capacity - list->count >= more)
        return TFM_OK;
    const size_t room = 2 * list->capacity + more;
    int32_t *ids = tfm__realloc(list->ids, room, sizeof(*ids));
    if (!ids)
        return TFM_ERROR_MEMORY;
    list->ids = ids;
    list->capacity = room;
    return TFM_OK;
}

tfm_status tfm__id_buffer_add(tfm__id_buffer *list, int32_t id) {
    if (tfm__id_buffer_reserve(list, 1) != TFM_OK)
        return TFM_ERROR_MEMORY;
    list->ids[list->count++] = id;
    return TFM_OK;
}

void tfm_ids_free(int32_t **ids) {
    if (ids) {
        free(*ids);
        *ids = NULL;
    }
}

void *tfm__scratch_reserve(tfm__scratch *scratch, size_t bytes) {
    return tfm__grow(&scratch->memory, &scratch->capacity, bytes, 1) == TFM_OK ? scratch->memory : NULL;
}
