/* Typed reading of keys in config.json and generation_config.json, shared by the families. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "model/arch/config_keys.h"

static const json_t *present(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

tfm__config_value tfm__network_key(const tfm__config_files *from, const char *key) {
    return (tfm__config_value){present(from->config, key), from->config_path};
}

tfm__config_value tfm__token_id_key(const tfm__config_files *from, const char *key) {
    const json_t *value = present(from->generation, key);
    return value ? (tfm__config_value){value, from->generation_path} : tfm__network_key(from, key);
}

tfm__config_value tfm__generation_key(const tfm__config_files *from, const char *key) {
    if (from->generation)
        return (tfm__config_value){present(from->generation, key), from->generation_path};
    const json_t *outer = present(from->outer, key);
    return outer ? (tfm__config_value){outer, from->config_path} : tfm__network_key(from, key);
}

tfm_status tfm__read_int(int *out, tfm__config_value from, const char *key, int low, int high) {
    if (!from.value)
        return TFM_OK;
    json_int_t value = json_is_integer(from.value) ? json_integer_value(from.value) : -1;
    if (!json_is_integer(from.value) || value < low || value > high)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` is %s; an integer from %d to %d is allowed", from.path, key,
                         TFM__VALUE_TEXT(from.value), low, high);
    *out = (int)value;
    return TFM_OK;
}

tfm_status tfm__read_bool(bool *out, tfm__config_value from, const char *key) {
    if (!from.value)
        return TFM_OK;
    if (!json_is_boolean(from.value))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` is %s; true or false is allowed", from.path, key,
                         TFM__VALUE_TEXT(from.value));
    *out = json_is_true(from.value);
    return TFM_OK;
}

tfm_status tfm__read_number(double *out, tfm__config_value from, const char *key, double low, double high) {
    const double value = json_number_value(from.value);
    if (!from.value)
        return TFM_OK;
    if (!json_is_number(from.value) || !(value >= low && value <= high))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` is %s; a number from %g to %g is allowed", from.path, key,
                         TFM__VALUE_TEXT(from.value), low, high);
    *out = value;
    return TFM_OK;
}

tfm_status tfm__read_ints(const tfm__config_files *from, const tfm__int_key *keys, size_t count) {
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < count && status == TFM_OK; i++)
        status = tfm__read_int(keys[i].value, tfm__network_key(from, keys[i].key), keys[i].key, 1, keys[i].high);
    return status;
}

tfm_status tfm__read_bools(const tfm__config_files *from, const tfm__bool_key *keys, size_t count) {
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < count && status == TFM_OK; i++)
        status = tfm__read_bool(keys[i].value, tfm__network_key(from, keys[i].key), keys[i].key);
    return status;
}

tfm_status tfm__refuse_keys(const tfm__config_files *from, const char *const *keys) {
    for (; *keys; keys++) {
        const tfm__config_value found = tfm__network_key(from, *keys);
        if (found.value && !json_is_false(found.value))
            return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: `%s` is %s, which is not supported: use a model without it",
                             found.path, *keys, TFM__VALUE_TEXT(found.value));
    }
    return TFM_OK;
}

tfm_status tfm__check_attention_span(const tfm__config_files *from, bool windows, int positions) {
    static const char *const chunks[] = {"attention_chunk_size", NULL};
    static const char causal_key[] = "is_causal", window_key[] = "sliding_window";
    bool causal = true;
    int window = positions;
    const tfm__config_value found = tfm__network_key(from, window_key);
    tfm_status status = tfm__read_bool(&causal, tfm__network_key(from, causal_key), causal_key);
    if (status == TFM_OK && !causal)
        status = tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: `%s` is false, which is not supported: decoders must be causal",
                           from->config_path, causal_key);
    if (status == TFM_OK)
        status = tfm__refuse_keys(from, chunks);
    if (status == TFM_OK && !windows)
        status = tfm__read_int(&window, found, window_key, 0, INT_MAX);
    /* in transformers this family has no window in the forward pass, but limits the KV cache to it */
    return status == TFM_OK && !windows && window < positions
               ? tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: `%s` is %d, which is not supported for this family", found.path,
                           window_key, window)
               : status;
}

double tfm__short_number(float value) {
    char text[32];
    double out = (double)value;
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, (double)value);
        out = strtod(text, NULL);
        if ((float)out == value)
            break;
    }
    return out;
}

static bool ends_in(const char *text, const char *end) {
    const size_t length = strlen(text), most = strlen(end);
    return length >= most && strcmp(text + length - most, end) == 0;
}

tfm_status tfm__read_head(bool *headless, const tfm__config_files *from, const char *with_head, bool tied) {
    const tfm__config_value found = tfm__network_key(from, "architectures");
    const json_t *first = json_array_get(found.value, 0);
    const char *name = json_string_value(first);
    *headless = false;
    if (!first || (name && ends_in(name, with_head)))
        return TFM_OK;
    if (!name || !ends_in(name, "Model"))
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "%s: `architectures` has %s; supported are classes that end in \"%s\" or \"Model\"",
                         found.path, TFM__VALUE_TEXT(first), with_head);
    *headless = !tied;
    return TFM_OK;
}

typedef struct activation_entry {
    const char *name;
    tfm_activation activation;
} activation_entry;

/* The first name of each activation is the one that is written. */
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
    {"quick_gelu", TFM_QUICK_GELU},
    {"relu2", TFM_RELU2},
    {"relu6", TFM_RELU6},
    {"leaky_relu", TFM_LEAKY_RELU},
    {"sigmoid", TFM_SIGMOID},
    {"tanh", TFM_TANH},
    {"mish", TFM_MISH},
    {"laplace", TFM_LAPLACE},
    {"gelu_10", TFM_GELU_10},
    {"hardswish", TFM_HARDSWISH},
};

tfm_status tfm__read_activation(tfm_activation *out, const tfm__config_files *from, const char *key) {
    const tfm__config_value found = tfm__network_key(from, key);
    return found.value ? tfm__read_activation_value(out, found, key) : TFM_OK;
}

tfm_status tfm__read_activation_value(tfm_activation *out, tfm__config_value found, const char *key) {
    const char *name = json_string_value(found.value);
    for (size_t i = 0; name && i < TFM__COUNT(ACTIVATIONS); i++) {
        if (strcmp(name, ACTIVATIONS[i].name) == 0) {
            *out = ACTIVATIONS[i].activation;
            return TFM_OK;
        }
    }
    return tfm__fail(name ? TFM_ERROR_UNSUPPORTED : TFM_ERROR_FORMAT,
                     "%s: `%s` is %s; \"relu\", \"gelu\", \"gelu_new\", \"silu\" (\"swish\"), \"linear\" and other "
                     "activations of transformers without parameters are allowed",
                     found.path, key, TFM__VALUE_TEXT(found.value));
}

const char *tfm__activation_name(tfm_activation activation) {
    size_t i = 0;
    while (i + 1 < TFM__COUNT(ACTIVATIONS) && ACTIVATIONS[i].activation != activation)
        i++;
    return ACTIVATIONS[i].name;
}
