/* adapter_config.json of PEFT's LoRA. */
#include <math.h>
#include <string.h>
#include "base/file.h"
#include "base/json.h"
#include "model/adapters/adapter.h"

#define TEXT(value) tfm__json_text((char[TFM__JSON_TEXT]){0}, value)

enum { MAX_RANK = 1 << 16, MAX_PATTERNS = 4096, MAX_PATTERN = 1024 };

static tfm_status read_value(double *out, const json_t *value, const char *key, const char *path, bool rank) {
    if (!value || json_is_null(value))
        return TFM_OK;
    *out = json_number_value(value);
    const bool good = rank ? json_is_integer(value) && *out >= 1 && *out <= MAX_RANK
                           : json_is_number(value) && isfinite(*out) && fabs(*out) < 1e9;
    return good ? TFM_OK
                : tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` is %s; %s is needed", path, key, TEXT(value),
                            rank ? "an integer from 1 to 65536" : "a number");
}

/* PEFT matches (.*\.)?(KEY)$ at the beginning of the module's name. */
static tfm_status add_pattern(tfm__adapter_patterns *out, const char *key, const char *path) {
    if (strlen(key) > MAX_PATTERN)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: the pattern %.40s... has more than %d bytes", path, key, MAX_PATTERN);
    char *pattern = tfm__format("\\A(?:.*\\.)?(?:%s)\\z", key), *where = tfm__format("%s: the pattern %s", path, key);
    const tfm_status status =
        pattern && where ? tfm__regex_new_pcre2(&out->items[out->count].modules, pattern, strlen(pattern), where)
                         : TFM_ERROR_MEMORY;
    free(pattern);
    free(where);
    out->count += status == TFM_OK;
    return status;
}

static tfm_status read_patterns(tfm__adapter_patterns *out, const json_t *root, const char *key, const char *path,
                                bool rank) {
    json_t *map = json_object_get(root, key), *value;
    const char *name;
    if (!map || json_is_null(map))
        return TFM_OK;
    if (!json_is_object(map) || json_object_size(map) > MAX_PATTERNS)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` must be an object with at most %d numbers", path, key,
                         MAX_PATTERNS);
    out->items = tfm__alloc(json_object_size(map), sizeof(*out->items));
    tfm_status status = out->items || json_object_size(map) == 0 ? TFM_OK : TFM_ERROR_MEMORY;
    json_object_foreach(map, name, value) {
        if (status == TFM_OK)
            status = read_value(&out->items[out->count].value, value, key, path, rank);
        if (status == TFM_OK)
            status = add_pattern(out, name, path);
    }
    return status;
}

static bool is_set(const json_t *value) {
    const bool empty = (json_is_object(value) && json_object_size(value) == 0) ||
                       (json_is_array(value) && json_array_size(value) == 0);
    return value && !json_is_null(value) && !json_is_false(value) && !empty;
}

/* Other methods, and keys that change what an adapter computes. */
static tfm_status refuse(const json_t *root, const char *path) {
    static const char *const KEYS[] = {
        "use_dora",     "layer_replication",       "lora_bias",         "use_qalora",
        "use_bdlora",   "trainable_token_indices", "target_parameters", "alora_invocation_tokens",
        "arrow_config", "monteclora_config"};
    /* These subtract from the base model what the adapter begins with; PEFT can save such adapters as plain LoRA. */
    static const char *const INITS[] = {"pissa", "olora", "corda", "loftq", "lora_ga"};
    const json_t *type = json_object_get(root, "peft_type"), *init = json_object_get(root, "init_lora_weights");
    if (!json_is_string(type) || strcmp(json_string_value(type), "LORA") != 0)
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "%s: `peft_type` is %s, and only \"LORA\" is supported: merge the adapter with peft", path,
                         type ? TEXT(type) : "missing");
    for (size_t i = 0; i < TFM__COUNT(KEYS); i++)
        if (is_set(json_object_get(root, KEYS[i])))
            return tfm__fail(TFM_ERROR_UNSUPPORTED,
                             "%s: `%s` is %s, which is not supported: merge the adapter with peft", path, KEYS[i],
                             TEXT(json_object_get(root, KEYS[i])));
    for (size_t i = 0; json_is_string(init) && i < TFM__COUNT(INITS); i++)
        if (strncmp(json_string_value(init), INITS[i], strlen(INITS[i])) == 0)
            return tfm__fail(TFM_ERROR_UNSUPPORTED,
                             "%s: `init_lora_weights` is %s, which changes the base model: save the adapter with "
                             "path_initial_model_for_weight_conversion of peft",
                             path, TEXT(init));
    return TFM_OK;
}

static tfm_status read_config(tfm__adapter_config *out, const json_t *root) {
    const json_t *base = json_object_get(root, "base_model_name_or_path"), *rs = json_object_get(root, "use_rslora");
    out->rank.otherwise = out->alpha.otherwise = 8;
    tfm_status status = refuse(root, out->path);
    if (status == TFM_OK)
        status = read_value(&out->rank.otherwise, json_object_get(root, "r"), "r", out->path, true);
    if (status == TFM_OK)
        status = read_value(&out->alpha.otherwise, json_object_get(root, "lora_alpha"), "lora_alpha", out->path, false);
    if (status == TFM_OK)
        status = read_patterns(&out->rank, root, "rank_pattern", out->path, true);
    if (status == TFM_OK)
        status = read_patterns(&out->alpha, root, "alpha_pattern", out->path, false);
    if (status == TFM_OK && rs && !json_is_null(rs) && !json_is_boolean(rs))
        status = tfm__fail(TFM_ERROR_FORMAT, "%s: `use_rslora` is %s; true or false is needed", out->path, TEXT(rs));
    out->rank_stabilized = json_is_true(rs);
    if (status == TFM_OK && json_is_string(base) && !(out->base = tfm__strdup(json_string_value(base))))
        status = TFM_ERROR_MEMORY;
    return status;
}

tfm_status tfm__adapter_config_read(tfm__adapter_config *out, const char *dir) {
    json_t *root = NULL;
    *out = (tfm__adapter_config){.path = tfm__path_join(dir, "adapter_config.json")};
    if (!out->path)
        return TFM_ERROR_MEMORY;
    if (!tfm__file_exists(out->path))
        return tfm__fail(TFM_ERROR_IO,
                         "cannot open the adapter %s: it has no adapter_config.json; give a directory that peft saved",
                         dir);
    tfm_status status = tfm__json_load(&root, out->path);
    if (status == TFM_OK)
        status = read_config(out, root);
    json_decref(root);
    return status;
}

static void free_patterns(tfm__adapter_patterns *patterns) {
    for (size_t i = 0; i < patterns->count; i++)
        tfm__regex_free(&patterns->items[i].modules);
    free(patterns->items);
}

void tfm__adapter_config_free(tfm__adapter_config *config) {
    free_patterns(&config->rank);
    free_patterns(&config->alpha);
    free(config->path);
    free(config->base);
    *config = (tfm__adapter_config){0};
}

/* The first pattern that matches wins. */
static tfm_status value_of(double *out, const tfm__adapter_patterns *patterns, const char *module) {
    tfm__regex_memory memory = {0};
    tfm_status status = TFM_OK;
    bool found = false;
    *out = patterns->otherwise;
    for (size_t i = 0; i < patterns->count && status == TFM_OK && !found; i++) {
        status =
            tfm__regex_next(patterns->items[i].modules, &memory, &found, &(tfm__regex_iter){0}, module, strlen(module));
        if (found)
            *out = patterns->items[i].value;
    }
    tfm__regex_memory_free(&memory);
    return status;
}

tfm_status tfm__adapter_config_module(const tfm__adapter_config *config, const char *module, int *rank, double *scale) {
    double r, alpha = 0;
    tfm_status status = value_of(&r, &config->rank, module);
    if (status == TFM_OK)
        status = value_of(&alpha, &config->alpha, module);
    *rank = (int)r;
    *scale = alpha / (config->rank_stabilized ? sqrt(r) : r);
    return status;
}
