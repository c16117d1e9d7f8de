/* What the kinds of models share: vocabularies from JSON, unknown and byte pieces. */
#include <stdio.h>
#include "text/piece_model.h"

tfm_status tfm__lexicon_read(tfm__lexicon *lexicon, const json_t *vocab, tfm__place place) {
    const char *piece;
    json_t *id;
    tfm_status status = TFM_OK;
    json_object_foreach((json_t *)(uintptr_t)vocab, piece, id) {
        if (status != TFM_OK)
            break;
        const json_int_t number = json_integer_value(id);
        if (!json_is_integer(id) || number < 0 || number >= TFM__MAX_IDS)
            return tfm__fail(TFM_ERROR_FORMAT, "%s: the id of \"%.100s\" is %s; an integer from 0 to %d is allowed",
                             place.path, piece, tfm__json_text((char[TFM__JSON_TEXT]){0}, id), TFM__MAX_IDS - 1);
        status = tfm__lexicon_add(lexicon, piece, strlen(piece), (int32_t)number, true);
    }
    return status;
}

tfm_status tfm__unk_read(int32_t *out, const tfm__lexicon *lexicon, const json_t *value, tfm__place place) {
    const char *unk;
    tfm_status status = tfm__hf_string(&unk, value, "unk_token", NULL, place);
    *out = status == TFM_OK && unk ? tfm__lexicon_find(lexicon, unk, strlen(unk)) : -1;
    if (status == TFM_OK && unk && *unk && *out < 0)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: the vocabulary has no \"%.100s\", which is the `unk_token`", place.path,
                         unk);
    return status;
}

void tfm__byte_pieces(int32_t ids[256], const tfm__lexicon *lexicon) {
    for (unsigned byte = 0; byte < 256; byte++) {
        char piece[8];
        snprintf(piece, sizeof(piece), "<0x%02X>", byte);
        ids[byte] = tfm__lexicon_find(lexicon, piece, 6);
    }
}

void tfm__piece_model_free(tfm__piece_model *model) {
    if (model->self)
        model->close(model->self);
    tfm__lexicon_free(&model->lexicon);
    *model = (tfm__piece_model){0};
}
