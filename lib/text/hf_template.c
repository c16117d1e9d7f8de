#include "text/hf_template.h"
#include "text/token_map.h"

enum { MAX_ITEMS = 4096 };

typedef struct reading {
    tfm__template *out;
    bool any;
} reading;

static tfm_status add(tfm__id_buffer *list, int64_t id, tfm__json_location location) {
    if (id >= TFM__MAX_IDS || id < TFM__TEMPLATE_B || list->count >= MAX_ITEMS)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` has the id %lld, or more than %d items", location.path,
                         location.section, (long long)id, MAX_ITEMS);
    return tfm__id_buffer_add(list, (int32_t)id);
}

/* The ids of a special token, from `special_tokens`. */
static tfm_status add_special(tfm__id_buffer *list, const json_t *value, const char *name,
                              tfm__json_location location) {
    const json_t *ids = json_object_get(json_object_get(json_object_get(value, "special_tokens"), name), "ids");
    const json_t *id;
    size_t i;
    tfm_status status = TFM_OK;
    if (!json_is_array(ids))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `special_tokens` in `%s` has no ids of \"%.100s\"", location.path,
                         location.section, name);
    json_array_foreach(ids, i, id) {
        if (status == TFM_OK)
            status = json_is_integer(id) && json_integer_value(id) >= 0
                         ? add(list, json_integer_value(id), location)
                         : tfm__fail(TFM_ERROR_FORMAT, "%s: `ids` in `%s` has %s; integers are needed", location.path,
                                     location.section, tfm__json_text((char[TFM__JSON_TEXT]){0}, id));
    }
    return status;
}

static tfm_status read_list(tfm__id_buffer *list, const json_t *value, const char *key, tfm__json_location location) {
    const json_t *items, *item;
    size_t i;
    tfm_status status = tfm__hf_list(&items, value, key, location);
    if (status == TFM_OK)
        json_array_foreach(items, i, item) {
            const char *text = json_string_value(json_object_get(json_object_get(item, "Sequence"), "id"));
            const char *token = json_string_value(json_object_get(json_object_get(item, "SpecialToken"), "id"));
            if (text && (strcmp(text, "A") == 0 || strcmp(text, "B") == 0))
                status = add(list, *text == 'A' ? TFM__TEMPLATE_A : TFM__TEMPLATE_B, location);
            else if (token)
                status = add_special(list, value, token, location);
            else
                status =
                    tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` in `%s` has %s; a Sequence or a SpecialToken is needed",
                              location.path, key, location.section, tfm__json_text((char[TFM__JSON_TEXT]){0}, item));
            if (status != TFM_OK)
                break;
        }
    return status;
}

/* ["[SEP]", 102] */
static tfm_status read_pair(int64_t *out, const json_t *value, const char *key, tfm__json_location location) {
    const json_t *pair = json_object_get(value, key), *id = json_array_get(pair, 1);
    *out = json_integer_value(id);
    return json_is_integer(id) && *out >= 0
               ? TFM_OK
               : tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` in `%s` is %s; a token and its id are needed", location.path,
                           key, location.section, tfm__json_text((char[TFM__JSON_TEXT]){0}, pair));
}

static tfm_status add_all(tfm__id_buffer *list, const int64_t *ids, size_t count, tfm__json_location location) {
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < count && status == TFM_OK; i++)
        status = add(list, ids[i], location);
    return status;
}

/* BERT's single separator between two texts, and RoBERTa's double one. */
static tfm_status read_bert(tfm__template *out, const json_t *value, bool roberta, tfm__json_location location) {
    int64_t sep, cls;
    tfm_status status = read_pair(&sep, value, "sep", location);
    if (status == TFM_OK)
        status = read_pair(&cls, value, "cls", location);
    if (status == TFM_OK)
        status = add_all(&out->single, (int64_t[]){cls, TFM__TEMPLATE_A, sep}, 3, location);
    if (status == TFM_OK)
        status = add_all(&out->pair, (int64_t[]){cls, TFM__TEMPLATE_A, sep}, 3, location);
    if (status == TFM_OK && roberta)
        status = add(&out->pair, sep, location);
    return status == TFM_OK ? add_all(&out->pair, (int64_t[]){TFM__TEMPLATE_B, sep}, 2, location) : status;
}

static tfm_status read_step(void *user, const json_t *value, const char *type, tfm__json_location location) {
    reading *r = user;
    if (strcmp(type, "ByteLevel") == 0) /* only adjusts offsets */
        return TFM_OK;
    if (r->any)
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: `%s` has two steps that add tokens, and tfm supports one",
                         location.path, location.section);
    r->any = true;
    if (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0)
        return read_bert(r->out, value, *type == 'R', location);
    if (strcmp(type, "TemplateProcessing") != 0)
        return tfm__hf_unknown(type, location);
    tfm_status status = read_list(&r->out->single, value, "single", location);
    return status == TFM_OK ? read_list(&r->out->pair, value, "pair", location) : status;
}

tfm_status tfm__template_read(tfm__template *out, const json_t *value, const char *path) {
    reading r = {out, false};
    tfm_status status = tfm__hf_each(value, "processors", read_step, &r, (tfm__json_location){path, "post_processor"});
    return status == TFM_OK && !r.any ? tfm__template_from_ids(out, -1, -1, -1) : status;
}

tfm_status tfm__template_from_ids(tfm__template *out, int32_t first, int32_t last, int32_t ending) {
    const tfm__json_location location = {"", ""};
    tfm_status status = TFM_OK;
    for (int both = 0; both < 2; both++) {
        tfm__id_buffer *list = both ? &out->pair : &out->single;
        list->count = 0;
        if (status == TFM_OK && first >= 0)
            status = add(list, first, location);
        if (status == TFM_OK)
            status = add(list, TFM__TEMPLATE_A, location);
        if (status == TFM_OK && both)
            status = add(list, TFM__TEMPLATE_B, location);
        if (status == TFM_OK && last >= 0)
            status = add(list, last, location);
        if (status == TFM_OK && ending >= 0)
            status = add(list, ending, location);
    }
    return status;
}

void tfm__template_free(tfm__template *value) {
    free(value->single.ids);
    free(value->pair.ids);
    *value = (tfm__template){0};
}
