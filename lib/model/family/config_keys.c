/* Keys of config.json and generation_config.json that the families share: typed reading. */
#include <string.h>
#include "model/family/config_keys.h"

static const json_t *present(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

tfm__found tfm__network_key(const tfm__config_files *from, const char *key) {
    return (tfm__found){present(from->config, key), from->config_path};
}

tfm__found tfm__search_key(const tfm__config_files *from, const char *key) {
    const json_t *value = present(from->generation, key);
    return value ? (tfm__found){value, from->generation_path} : tfm__network_key(from, key);
}

tfm__found tfm__generation_key(const tfm__config_files *from, const char *key) {
    return from->generation ? (tfm__found){present(from->generation, key), from->generation_path}
                            : tfm__network_key(from, key);
}

tfm_status tfm__read_int(int *out, tfm__found from, const char *key, int low, int high) {
    if (!from.value)
        return TFM_OK;
    json_int_t value = json_is_integer(from.value) ? json_integer_value(from.value) : -1;
    if (!json_is_integer(from.value) || value < low || value > high)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` is %s; an integer from %d to %d is allowed", from.path, key,
                         TFM__VALUE_TEXT(from.value), low, high);
    *out = (int)value;
    return TFM_OK;
}

tfm_status tfm__read_bool(bool *out, tfm__found from, const char *key) {
    if (!from.value)
        return TFM_OK;
    if (!json_is_boolean(from.value))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` is %s; true or false is allowed", from.path, key,
                         TFM__VALUE_TEXT(from.value));
    *out = json_is_true(from.value);
    return TFM_OK;
}

typedef struct activation_entry {
    const char *name;
    tfm_activation activation;
} activation_entry;

/* The first of each activation is the name that is written. */
static const activation_entry ACTIVATIONS[] = {
    {"relu", TFM_RELU},
    {"gelu", TFM_GELU},
    {"gelu_python", TFM_GELU},
    {"silu", TFM_SILU},
    {"swish", TFM_SILU},
    {"gelu_new", TFM_GELU_TANH},
    {"gelu_fast", TFM_GELU_TANH},
    {"gelu_accurate", TFM_GELU_TANH},
    {"gelu_pytorch_tanh", TFM_GELU_TANH},
    {"gelu_python_tanh", TFM_GELU_TANH},
    {"linear", TFM_NO_ACTIVATION},
};

tfm_status tfm__read_activation(tfm_activation *out, const tfm__config_files *from, const char *key) {
    const tfm__found found = tfm__network_key(from, key);
    if (!found.value)
        return TFM_OK;
    const char *name = json_string_value(found.value);
    for (size_t i = 0; name && i < TFM__COUNT(ACTIVATIONS); i++) {
        if (strcmp(name, ACTIVATIONS[i].name) == 0) {
            *out = ACTIVATIONS[i].activation;
            return TFM_OK;
        }
    }
    return tfm__fail(
        name ? TFM_ERROR_UNSUPPORTED : TFM_ERROR_FORMAT,
        "%s: `%s` is %s; \"relu\", \"gelu\", \"gelu_new\", \"silu\" (\"swish\") and \"linear\" are allowed", found.path,
        key, TFM__VALUE_TEXT(found.value));
}

const char *tfm__activation_name(tfm_activation activation) {
    size_t i = 0;
    while (i + 1 < TFM__COUNT(ACTIVATIONS) && ACTIVATIONS[i].activation != activation)
        i++;
    return ACTIVATIONS[i].name;
}
