/* Reads the special token ids of generation_config.json and config.json. */
#include <limits.h>
#include <string.h>
#include "model/arch/config_keys.h"

/* The id in one file; of a list (newer files) the first. All EOS ids are read separately. */
static tfm_status read_found_id(int *out, tfm__config_value key_found, const char *key, int size) {
    if (json_is_array(key_found.value)) {
        if (json_array_size(key_found.value) > 1 && strcmp(key, "eos_token_id") != 0)
            tfm__log(TFM_LOG_WARNING, "%s: `%s` is %s; the first one is used", key_found.path, key,
                     TFM__VALUE_TEXT(key_found.value));
        key_found.value = json_array_get(key_found.value, 0);
    }
    return tfm__read_int(out, key_found, key, 0, size - 1);
}

/* An id that generation_config.json overrides must be valid as well: an invalid one means a damaged or foreign file. */
static tfm_status read_id(int *out, const tfm__config_files *from, const char *key, int fallback, int size) {
    const tfm__config_value first = tfm__token_id_key(from, key), second = tfm__network_key(from, key);
    int overridden = 0;
    *out = fallback;
    if (!first.value && fallback >= size)
        return tfm__fail(TFM_ERROR_FORMAT, "%s has no `%s`, and the default, %d, is outside the vocabulary of %d",
                         from->config_path, key, fallback, size);
    tfm_status status = read_found_id(out, first, key, size);
    if (status == TFM_OK && second.value && second.value != first.value)
        status = read_found_id(&overridden, second, key, size);
    return status;
}

static const char FORCED_END[] = "forced_eos_token_id";

/* forced_eos_token_id at the maximum length. transformers gives all ids of a list the same score: greedy search takes
 * the smallest, and beam search any, in no defined order. `one`: requires a single id, since translation uses beams by
 * default. */
static tfm_status read_forced_end(int *out, const tfm__config_files *from, int size, bool one) {
    const tfm__config_value found = tfm__generation_key(from, FORCED_END);
    const size_t count = json_array_size(found.value);
    tfm_status status = json_is_array(found.value) ? TFM_OK : tfm__read_int(out, found, FORCED_END, 0, size - 1);
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        int id = 0;
        status = tfm__read_int(&id, (tfm__config_value){json_array_get(found.value, i), found.path}, FORCED_END, 0,
                               size - 1);
        if (status == TFM_OK && one && i > 0 && id != *out)
            return tfm__fail(TFM_ERROR_UNSUPPORTED,
                             "%s: `%s` is %s; beam search in transformers has no defined order for several: give one",
                             found.path, FORCED_END, TFM__VALUE_TEXT(found.value));
        *out = i == 0 || id < *out ? id : *out;
    }
    return status;
}

/* Default decoder start token; null means bos_token_id in transformers. */
static int start_of(const tfm__config_files *from, int fallback) {
    static const char key[] = "decoder_start_token_id";
    const tfm__config_value first = tfm__token_id_key(from, "bos_token_id");
    const json_int_t id = json_is_integer(first.value) ? json_integer_value(first.value) : -1;
    const bool null = json_is_null(json_object_get(from->config, key));
    return null && id >= 0 && id <= INT_MAX ? (int)id : fallback;
}

tfm_status tfm__read_token_ids(tfm__generation_rules *out, const tfm__config_files *from,
                               const tfm__id_defaults *defaults, int size) {
    const struct {
        const char *key;
        int *value;
        int fallback;
    } ids[] = {
        {"pad_token_id", &out->pad_id, defaults->pad},
        {"eos_token_id", &out->eos_id, defaults->eos},
        {"decoder_start_token_id", &out->start_id, start_of(from, defaults->start)},
    };
    for (size_t i = 0; i < TFM__COUNT(ids); i++) {
        tfm_status status = read_id(ids[i].value, from, ids[i].key, ids[i].fallback, size);
        if (status != TFM_OK)
            return status;
    }
    /* If there is a generation_config.json, only its keys count; else config.json without class defaults, as in
     * transformers 5.23. */
    static const char first[] = "forced_bos_token_id";
    out->forced_bos_id = -1;
    const tfm_status status = read_found_id(&out->forced_bos_id, tfm__generation_key(from, first), first, size);
    if (status != TFM_OK)
        return status;
    out->forced_eos_id = -1;
    return read_forced_end(&out->forced_eos_id, from, size, true);
}

static tfm_status read_optional_value(int *out, tfm__config_value found, const char *key, int size) {
    const tfm_status status = tfm__read_int(out, found, key, -1, INT_MAX);
    *out = *out < size ? *out : -1;
    return status;
}

/* An optional id of a decoder-only model, or -1. As in transformers: generation_config.json alone, or config.json
 * without class defaults if that file is missing. */
static tfm_status read_optional_id(int *out, const tfm__config_files *from, const char *key, int size) {
    *out = -1;
    return read_optional_value(out, tfm__generation_key(from, key), key, size);
}

tfm_status tfm__read_eos_ids(tfm__generation_rules *out, tfm__config_value found, int size) {
    static const char key[] = "eos_token_id";
    const size_t count = json_is_array(found.value) ? json_array_size(found.value) : 1;
    tfm_status status = TFM_OK;
    if (count > TFM__MAX_EOS_IDS)
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: `%s` has %zu ids; %d at most are allowed", found.path, key, count,
                         TFM__MAX_EOS_IDS);
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        const json_t *value = json_is_array(found.value) ? json_array_get(found.value, i) : found.value;
        int id = -1;
        status = read_optional_value(&id, (tfm__config_value){value, found.path}, key, size);
        if (id >= 0)
            out->eos_ids[out->eos_id_count++] = id;
    }
    out->eos_id = out->eos_id_count ? out->eos_ids[0] : -1;
    if (status == TFM_OK && out->eos_id < 0)
        tfm__log(TFM_LOG_INFO, "%s: `%s` has no id: texts continue to the maximum length", found.path, key);
    return status;
}

tfm_status tfm__read_decoder_only_ids(tfm__generation_rules *out, const tfm__config_files *from, int size) {
    out->decoder_only = true;
    out->forced_bos_id = out->forced_eos_id = -1;
    tfm_status status = tfm__read_eos_ids(out, tfm__generation_key(from, "eos_token_id"), size);
    if (status == TFM_OK)
        status = read_forced_end(&out->forced_eos_id, from, size, false);
    if (status == TFM_OK)
        status = read_optional_id(&out->pad_id, from, "pad_token_id", size);
    if (status == TFM_OK)
        status = read_optional_id(&out->start_id, from, "bos_token_id", size);
    return status;
}
