/* `quantization_config` of config.json: how GPTQ, AWQ and compressed-tensors packed the weights. */
#include <string.h>
#include <strings.h>
#include "model/arch/config_keys.h"

/* A member of the object; null counts as absent. */
static tfm__config_value member(tfm__config_value object, const char *key) {
    const json_t *value = json_object_get(object.value, key);
    return (tfm__config_value){value && !json_is_null(value) ? value : NULL, object.path};
}

static tfm_status refuse(tfm__config_value found, const char *key, const char *supported) {
    return tfm__fail(TFM_ERROR_UNSUPPORTED,
                     "%s: `%s` of `quantization_config` is %s, which is not supported: use a model with %s", found.path,
                     key, TFM__VALUE_TEXT(found.value), supported);
}

/* Whether a value is one of the names, in any case, or absent. */
static bool is_one_of(tfm__config_value found, const char *const *names) {
    const char *name = json_string_value(found.value);
    bool same = !found.value;
    for (; *names && !same; names++)
        same = name && strcasecmp(name, *names) == 0;
    return same;
}

/* A list or object that would change the weights unless it is empty. */
static tfm_status refuse_unless_empty(tfm__config_value config, const char *key) {
    const tfm__config_value found = member(config, key);
    const bool empty = !found.value || json_is_false(found.value) ||
                       (json_is_object(found.value) && json_object_size(found.value) == 0) ||
                       (json_is_array(found.value) && json_array_size(found.value) == 0);
    return empty ? TFM_OK : refuse(found, key, "a configuration without it");
}

static tfm_status read_bits(int *out, tfm__config_value found, const char *key, bool eight) {
    const json_int_t bits = json_is_integer(found.value) ? json_integer_value(found.value) : 0;
    *out = (int)bits;
    if (bits == 4 || (eight && bits == 8))
        return TFM_OK;
    if (!found.value)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `quantization_config` has no `%s`: use the model's own config.json",
                         found.path, key);
    return refuse(found, key, eight ? "4 or 8 bits" : "4 bits");
}

/* -1: whole rows. */
static tfm_status read_group(int *out, tfm__config_value found, const char *key) {
    int group = -1;
    const tfm_status status = tfm__read_int(&group, found, key, -1, TFM__MAX_WIDTH);
    *out = group == -1 ? 0 : group;
    if (status != TFM_OK || group != 0)
        return status;
    return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` is 0; -1 or a positive number of columns is allowed", found.path, key);
}

static tfm_status read_gptq(tfm__packing *out, tfm__config_value config) {
    static const char *const FORMATS[] = {"gptq", "gptq_v2", NULL}, *const WORDS[] = {"int32", NULL};
    const char *key = member(config, "checkpoint_format").value ? "checkpoint_format" : "format";
    const tfm__config_value format = member(config, key), words = member(config, "pack_dtype"),
                            modules = member(config, "dynamic");
    out->layout = TFM__PACKING_GPTQ;
    out->zero_shift = format.value && strcasecmp(json_string_value(format.value) ? json_string_value(format.value) : "",
                                                 "gptq_v2") == 0
                          ? 0
                          : 1;
    out->mixed = json_object_size(modules.value) > 0 || json_array_size(modules.value) > 0;
    if (!is_one_of(format, FORMATS))
        return refuse(format, key, "the format gptq or gptq_v2");
    if (!is_one_of(words, WORDS))
        return refuse(words, "pack_dtype", "int32");
    tfm_status status = refuse_unless_empty(config, "is_marlin_format");
    if (status == TFM_OK)
        status = read_bits(&out->bits, member(config, "bits"), "bits", true);
    return status == TFM_OK ? read_group(&out->group, member(config, "group_size"), "group_size") : status;
}

static tfm_status read_awq(tfm__packing *out, tfm__config_value config) {
    static const char *const VERSIONS[] = {"gemm", "exllama", NULL};
    const tfm__config_value version = member(config, "version");
    const char *bits = member(config, "bits").value ? "bits" : "w_bit",
               *group = member(config, "group_size").value ? "group_size" : "q_group_size";
    out->layout = TFM__PACKING_AWQ;
    if (!is_one_of(version, VERSIONS))
        return refuse(version, "version", "the version gemm");
    const tfm_status status = read_bits(&out->bits, member(config, bits), bits, false);
    return status == TFM_OK ? read_group(&out->group, member(config, group), group) : status;
}

/* ---- compressed-tensors ---- */

/* The `weights` of a config group. */
static tfm_status read_scheme(tfm__packing *out, tfm__config_value weights) {
    static const char *const TYPES[] = {"int", NULL}, *const STRATEGIES[] = {"group", "channel", "tensor", NULL};
    const tfm__config_value type = member(weights, "type"), strategy = member(weights, "strategy");
    if (!json_is_object(weights.value))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `weights` of `config_groups` is %s; an object is needed", weights.path,
                         TFM__VALUE_TEXT(weights.value));
    if (!is_one_of(type, TYPES))
        return refuse(type, "type", "integer weights");
    if (!is_one_of(strategy, STRATEGIES))
        return refuse(strategy, "strategy", "scales by group or by channel");
    tfm_status status = read_bits(&out->bits, member(weights, "num_bits"), "num_bits", true);
    if (status == TFM_OK)
        status = read_group(&out->group, member(weights, "group_size"), "group_size");
    if (strategy.value && strcasecmp(json_string_value(strategy.value), "group") != 0)
        out->group = 0;
    return status;
}

/* Weights stay exact; activations have this library's own form, so only integers of 8 bits are near it. */
static tfm_status check_activations(tfm__config_value group) {
    const tfm__config_value input = member(group, "input_activations"), type = member(input, "type");
    static const char *const TYPES[] = {"int", NULL};
    return is_one_of(type, TYPES) ? TFM_OK : refuse(type, "type", "integer activations, or none");
}

static tfm_status read_compressed(tfm__packing *out, tfm__config_value config) {
    static const char *const FORMATS[] = {"pack-quantized", "int-quantized", "mixed-precision", NULL};
    const tfm__config_value format = member(config, "format"), groups = member(config, "config_groups"),
                            sparse = member(config, "sparsity_config");
    static const char *const DENSE[] = {"dense", NULL};
    const char *name;
    json_t *value;
    out->layout = TFM__PACKING_ROWS;
    if (!is_one_of(format, FORMATS))
        return refuse(format, "format", "the format pack-quantized or int-quantized");
    if (!is_one_of(member(sparse, "format"), DENSE))
        return refuse(member(sparse, "format"), "format", "dense weights");
    if (!json_is_object(groups.value) || json_object_size(groups.value) == 0)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `config_groups` of `quantization_config` is %s; an object is needed",
                         groups.path, TFM__VALUE_TEXT(groups.value));
    tfm_status status = refuse_unless_empty(member(config, "transform_config"), "config_groups");
    json_object_foreach((json_t *)(uintptr_t)groups.value, name, value) {
        const tfm__config_value group = {value, config.path};
        if (status == TFM_OK && !is_one_of(member(group, "format"), FORMATS))
            status = refuse(member(group, "format"), "format", "the format pack-quantized or int-quantized");
        if (status == TFM_OK)
            status = read_scheme(out, (tfm__config_value){json_object_get(value, "weights"), config.path});
        if (status == TFM_OK)
            status = check_activations(group);
    }
    out->mixed = json_object_size(groups.value) > 1;
    return status;
}

tfm_status tfm__quantization_config_read(tfm__packing *out, const tfm__config_files *from) {
    const tfm__config_value config = tfm__network_key(from, "quantization_config");
    const json_t *method = json_object_get(config.value, "quant_method");
    const char *name = json_string_value(method) ? json_string_value(method) : "";
    *out = (tfm__packing){0};
    if (!config.value || strcmp(name, TFM__QUANT_METHOD) == 0)
        return TFM_OK;
    if (strcmp(name, "gptq") == 0)
        return read_gptq(out, config);
    if (strcmp(name, "awq") == 0)
        return read_awq(out, config);
    if (strcmp(name, "compressed-tensors") == 0)
        return read_compressed(out, config);
    return tfm__fail(TFM_ERROR_UNSUPPORTED,
                     "%s: `quantization_config` says that the weights are quantized (%s), which is not supported: use "
                     "the model with F32, F16 or BF16 weights, or with those of GPTQ, AWQ or compressed-tensors",
                     config.path, TFM__VALUE_TEXT(method ? method : config.value));
}
