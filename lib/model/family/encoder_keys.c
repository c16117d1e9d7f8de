#include "model/family/encoder_keys.h"
#include <string.h>

tfm_status tfm__read_sizes(const tfm__size_key *keys, size_t count, const tfm__config_files *from) {
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        *keys[i].value = keys[i].fallback;
        status = tfm__read_ints(from, &(tfm__int_key){keys[i].key, keys[i].value, keys[i].high}, 1);
    }
    return status;
}

tfm_status tfm__check_heads(const tfm__config_files *from, const char *key, int heads, const char *width_key,
                            int width) {
    return width % heads == 0 ? TFM_OK
                              : tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` is %d; it must divide `%s`, which is %d",
                                          from->config_path, key, heads, width_key, width);
}

tfm_status tfm__check_encoder(const tfm__config_files *from) {
    static const char *const OTHERS[] = {"is_decoder", "add_cross_attention", NULL};
    const tfm_status status = tfm__refuse_keys(from, OTHERS);
    if (status != TFM_OK)
        return status;
    const tfm__found found = tfm__network_key(from, "position_embedding_type");
    const char *type = json_string_value(found.value);
    if (found.value && !(type && strcmp(type, "absolute") == 0))
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "%s: `position_embedding_type` is %s, which tfm does not run: only \"absolute\" is known",
                         found.path, TFM__VALUE_TEXT(found.value));
    return TFM_OK;
}

tfm_status tfm__read_epsilon(float *out, const tfm__config_files *from, const char *key) {
    double value = (double)*out;
    const tfm_status status = tfm__read_number(&value, tfm__network_key(from, key), key, 1e-30, 1);
    *out = (float)value;
    return status;
}

tfm_status tfm__read_padding(tfm__rules *rules, const tfm__config_files *from, int pad, int vocabulary) {
    rules->pad_id = pad < vocabulary ? pad : 0;
    const tfm_status status =
        tfm__read_int(&rules->pad_id, tfm__network_key(from, "pad_token_id"), "pad_token_id", 0, vocabulary - 1);
    rules->eos_id = rules->start_id = rules->pad_id;
    rules->forced_bos_id = rules->forced_eos_id = -1;
    return status;
}

/* `id2label`, or `num_labels`, or two. */
static tfm_status read_class_count(int *out, const tfm__config_files *from) {
    const tfm__found labels = tfm__network_key(from, "id2label");
    *out = 2;
    if (labels.value && json_object_size(labels.value) > 0 && json_object_size(labels.value) <= TFM__MAX_WIDTH) {
        *out = (int)json_object_size(labels.value);
        return TFM_OK;
    }
    if (labels.value)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `id2label` is %s; an object with a name for each class is needed",
                         labels.path, TFM__VALUE_TEXT(labels.value));
    return tfm__read_int(out, tfm__network_key(from, "num_labels"), "num_labels", 1, TFM__MAX_WIDTH);
}

static bool ends_with(const char *text, const char *end) {
    const size_t length = strlen(text), size = strlen(end);
    return length >= size && strcmp(text + length - size, end) == 0;
}

tfm_status tfm__read_encoder_head(tfm__arch *arch, const tfm__config_files *from) {
    const char *name = json_string_value(json_array_get(tfm__network_key(from, "architectures").value, 0));
    tfm__head_arch *head = &arch->head;
    head->kind = !name                                                                 ? TFM__NO_HEAD
                 : ends_with(name, "ForMaskedLM") || ends_with(name, "ForPreTraining") ? TFM__WORDS_HEAD
                 : ends_with(name, "ForSequenceClassification")                        ? TFM__CLASSES_HEAD
                                                                                       : TFM__NO_HEAD;
    arch->headless = head->kind != TFM__WORDS_HEAD;
    arch->tied_output = true;
    tfm_status status =
        tfm__read_bool(&arch->tied_output, tfm__network_key(from, "tie_word_embeddings"), "tie_word_embeddings");
    if (status == TFM_OK && head->kind == TFM__CLASSES_HEAD)
        status = read_class_count(&head->classes, from);
    return status;
}
