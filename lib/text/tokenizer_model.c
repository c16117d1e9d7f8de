/* The `model` of a tokenizer.json: its type, and its vocabulary. */
#include "text/subword_model.h"

/* [["piece", score], ...] */
static tfm_status read_scored(tfm__token_map *token_map, const json_t *vocab, tfm__json_location location) {
    size_t i;
    json_t *item;
    tfm_status status = TFM_OK;
    json_array_foreach(vocab, i, item) {
        const char *piece = json_string_value(json_array_get(item, 0));
        if (status != TFM_OK)
            break;
        if (!piece || !json_is_number(json_array_get(item, 1)) || i >= TFM__MAX_IDS)
            return tfm__fail(TFM_ERROR_FORMAT, "%s: entry %zu of `vocab` is %s; a piece and its score are needed",
                             location.path, i, tfm__json_text((char[TFM__JSON_TEXT]){0}, item));
        status = tfm__token_map_add(token_map, piece, strlen(piece), (int32_t)i, true);
    }
    return status;
}

/* Older files lack the type. */
static const char *type_of(const json_t *value) {
    const json_t *type = json_object_get(value, "type");
    if (type)
        return json_string_value(type) ? json_string_value(type) : "";
    if (json_object_get(value, "merges"))
        return "BPE";
    if (json_is_array(json_object_get(value, "vocab")))
        return "Unigram";
    return json_object_get(value, "max_input_chars_per_word") ? "WordPiece" : "WordLevel";
}

static tfm_status read_model(tfm__subword_model *out, const json_t *value, tfm__json_location location) {
    static const struct {
        const char *type;
        tfm_status (*read)(tfm__subword_model *, const json_t *, tfm__json_location);
        bool scored;
    } TYPES[] = {{"BPE", tfm__bpe_read, false},
                 {"Unigram", tfm__unigram_read, true},
                 {"WordPiece", tfm__wordpiece_read, false},
                 {"WordLevel", tfm__wordlevel_read, false}};
    const json_t *vocab = json_object_get(value, "vocab");
    const char *type = type_of(value);
    size_t i = 0;
    while (i < TFM__COUNT(TYPES) && strcmp(type, TYPES[i].type) != 0)
        i++;
    if (i == TFM__COUNT(TYPES))
        return tfm__hf_unknown(type, location);
    if (TYPES[i].scored ? !json_is_array(vocab) : !json_is_object(vocab))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `vocab` in `%s` is %s; %s is needed", location.path, location.section,
                         tfm__json_kind(vocab), TYPES[i].scored ? "a list" : "an object");
    tfm_status status = tfm__token_map_new(&out->token_map);
    if (status == TFM_OK)
        status = (TYPES[i].scored ? read_scored : tfm__token_map_read)(out->token_map, vocab, location);
    if (status == TFM_OK)
        tfm__token_map_seal(out->token_map);
    return status == TFM_OK ? TYPES[i].read(out, value, location) : status;
}

tfm_status tfm__subword_model_read(tfm__subword_model *out, const json_t *value, const char *path) {
    const tfm__json_location location = {path, "model"};
    *out = (tfm__subword_model){.unk = -1};
    tfm_status status = json_is_object(value) ? read_model(out, value, location)
                                              : tfm__fail(TFM_ERROR_FORMAT, "%s: `model` is %s; an object is needed",
                                                          path, tfm__json_kind(value));
    if (status != TFM_OK)
        tfm__subword_model_free(out);
    return status;
}
