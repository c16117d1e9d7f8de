/* Shared by all kinds of models: vocabularies from JSON, unknown and byte pieces. */
#include <stdio.h>
#include "text/subword_model.h"

tfm_status tfm__token_map_read(tfm__token_map *token_map, const json_t *vocab, tfm__json_location location) {
    const char *piece;
    json_t *id;
    tfm_status status = TFM_OK;
    json_object_foreach((json_t *)(uintptr_t)vocab, piece, id) {
        if (status != TFM_OK)
            break;
        const json_int_t number = json_integer_value(id);
        if (!json_is_integer(id) || number < 0 || number >= TFM__MAX_IDS)
            return tfm__fail(TFM_ERROR_FORMAT, "%s: the id of \"%.100s\" is %s; an integer from 0 to %d is allowed",
                             location.path, piece, tfm__json_text((char[TFM__JSON_TEXT]){0}, id), TFM__MAX_IDS - 1);
        status = tfm__token_map_add(token_map, piece, strlen(piece), (int32_t)number, true);
    }
    return status;
}

tfm_status tfm__read_unk_token(int32_t *out, const tfm__token_map *token_map, const json_t *value,
                               tfm__json_location location) {
    const char *unk;
    tfm_status status = tfm__hf_string(&unk, value, "unk_token", NULL, location);
    *out = status == TFM_OK && unk ? tfm__token_map_find(token_map, unk, strlen(unk)) : -1;
    if (status == TFM_OK && unk && *unk && *out < 0)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: the vocabulary has no \"%.100s\", which is the `unk_token`",
                         location.path, unk);
    return status;
}

void tfm__find_byte_pieces(int32_t ids[256], const tfm__token_map *token_map) {
    for (unsigned byte = 0; byte < 256; byte++) {
        char piece[8];
        snprintf(piece, sizeof(piece), "<0x%02X>", byte);
        ids[byte] = tfm__token_map_find(token_map, piece, 6);
    }
}

void tfm__subword_model_free(tfm__subword_model *model) {
    if (model->self)
        model->close(model->self);
    tfm__token_map_free(&model->token_map);
    *model = (tfm__subword_model){0};
}
