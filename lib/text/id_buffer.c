/* Growing buffers: ids of a text, and scratch memory of a thread. */
#include "text/piece_model.h"

tfm_status tfm__ids_reserve(tfm__ids *list, size_t more) {
    if (list->room - list->count >= more)
        return TFM_OK;
    const size_t room = 2 * list->room + more;
    int32_t *ids = tfm__realloc(list->ids, room, sizeof(*ids));
    if (!ids)
        return TFM_ERROR_MEMORY;
    list->ids = ids;
    list->room = room;
    return TFM_OK;
}

tfm_status tfm__ids_add(tfm__ids *list, int32_t id) {
    if (tfm__ids_reserve(list, 1) != TFM_OK)
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

void *tfm__scratch_get(tfm__scratch *scratch, size_t bytes) {
    return tfm__grow(&scratch->memory, &scratch->room, bytes, 1) == TFM_OK ? scratch->memory : NULL;
}
