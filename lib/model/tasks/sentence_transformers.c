/* sentence-transformers directories: modules.json, and the files of each module. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/file.h"
#include "base/json.h"
#include "model/weights/weight_file.h"
#include "model/tasks/embedder.h"
#include "tfm/ops.h"

/* ---- modules.json ---- */

/* Custom modules are Python programs, under any name. */
static tfm_status check_types(const json_t *list, const char *path) {
    static const char ours[] = "sentence_transformers.", pylate[] = "pylate.models.Dense.Dense";
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *type = json_string_value(json_object_get(json_array_get(list, i), "type"));
        if (!type || (strncmp(type, ours, strlen(ours)) != 0 && strcmp(type, pylate) != 0))
            return tfm__fail(type ? TFM_ERROR_UNSUPPORTED : TFM_ERROR_FORMAT,
                             "%s: the `type` of module %zu is \"%s\"; only sentence-transformers' own, which begin "
                             "with \"%s\", are supported",
                             path, i + 1, type ? type : "", ours);
    }
    return TFM_OK;
}

/* The list of modules; NULL if the directory has none. */
static tfm_status open_list(json_t **out, const char *dir) {
    char *path = tfm__path_join(dir, "modules.json");
    *out = NULL;
    tfm_status status = path ? TFM_OK : TFM_ERROR_MEMORY;
    char *text = NULL;
    size_t size = 0;
    if (status == TFM_OK && tfm__file_exists(path)) {
        status = tfm__file_read(&text, &size, path);
        if (status == TFM_OK)
            status = tfm__json_read(out, text, size, path);
        if (status == TFM_OK && !json_is_array(*out))
            status = tfm__fail(TFM_ERROR_FORMAT, "%s is not a JSON list of modules", path);
        if (status == TFM_OK)
            status = check_types(*out, path);
    }
    if (status != TFM_OK) {
        json_decref(*out);
        *out = NULL;
    }
    free(text);
    free(path);
    return status;
}

/* Kind of a module: the last part of its `type`, such as "Pooling". */
static const char *kind_of(const json_t *module) {
    const char *type = json_string_value(json_object_get(module, "type"));
    const char *dot = type ? strrchr(type, '.') : NULL;
    return !type ? "" : dot ? dot + 1 : type;
}

/* dir/path of a module, which must be inside the directory. New. */
static tfm_status folder_of(char **out, const json_t *module, const char *dir) {
    const char *path = json_string_value(json_object_get(module, "path"));
    *out = NULL;
    if (!path || path[0] == '/' || strstr(path, ".."))
        return tfm__fail(TFM_ERROR_FORMAT, "%s/modules.json: a module's `path` must be a folder within the directory",
                         dir);
    *out = *path ? tfm__path_join(dir, path) : tfm__strdup(dir);
    return *out ? TFM_OK : TFM_ERROR_MEMORY;
}

tfm_status tfm__modules_encoder_dir(char **out, const char *dir) {
    json_t *list = NULL;
    *out = NULL;
    tfm_status status = open_list(&list, dir);
    const json_t *first = json_array_get(list, 0);
    if (status == TFM_OK && list && strcmp(kind_of(first), "Transformer") != 0)
        status =
            tfm__fail(TFM_ERROR_UNSUPPORTED, "%s/modules.json: the first module is \"%s\"; it must be a Transformer",
                      dir, kind_of(first));
    if (status == TFM_OK && list)
        status = folder_of(out, first, dir);
    if (status == TFM_OK && !list)
        *out = tfm__strdup(dir);
    json_decref(list);
    return status == TFM_OK && !*out ? TFM_ERROR_MEMORY : status;
}

static bool has_module(const json_t *list, const char *kind) {
    bool has = false;
    for (size_t i = 0; i < json_array_size(list); i++)
        has |= strcmp(kind_of(json_array_get(list, i)), kind) == 0;
    return has;
}

tfm_status tfm__modules_pool(bool *out, const char *dir) {
    json_t *list = NULL;
    const tfm_status status = open_list(&list, dir);
    *out = has_module(list, "Pooling");
    json_decref(list);
    return status;
}

/* ---- Pooling ---- */

/* In sentence-transformers' order of concatenation. */
static const struct {
    const char *key, *name;
    tfm_pooling pooling;
} POOLINGS[] = {
    {"pooling_mode_cls_token", "cls", TFM_POOL_CLS},
    {"pooling_mode_max_tokens", "max", TFM_POOL_MAX},
    {"pooling_mode_mean_tokens", "mean", TFM_POOL_MEAN},
    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", TFM_POOL_MEAN_SQRT_LEN},
    {"pooling_mode_weightedmean_tokens", "weightedmean", TFM_POOL_WEIGHTED},
    {"pooling_mode_lasttoken", "lasttoken", TFM_POOL_LAST},
};

static void add_pooling(tfm_embedder *out, tfm_pooling pooling) {
    out->poolings[out->pooling_count++] = pooling;
}

/* Adds a pooling by name; false: unknown or duplicate. */
static bool add_named(tfm_embedder *out, const json_t *name) {
    size_t i = 0;
    while (i < TFM__COUNT(POOLINGS) && !(json_is_string(name) && !strcmp(json_string_value(name), POOLINGS[i].name)))
        i++;
    for (int k = 0; i < TFM__COUNT(POOLINGS) && k < out->pooling_count; k++)
        if (out->poolings[k] == POOLINGS[i].pooling)
            return false;
    if (i < TFM__COUNT(POOLINGS))
        add_pooling(out, POOLINGS[i].pooling);
    return i < TFM__COUNT(POOLINGS);
}

/* `pooling_mode`: a name, or a list of names in order of concatenation; or the older flags, of which none set means
 * mean. */
static tfm_status read_pooling(tfm_embedder *e, const json_t *config, const char *path) {
    const json_t *mode = json_object_get(config, "pooling_mode");
    const size_t names = json_is_array(mode) ? json_array_size(mode) : 1;
    bool known = true;
    if (e->options.has_pooling)
        add_pooling(e, e->options.pooling);
    for (size_t i = 0; i < names && mode && !e->options.has_pooling; i++)
        known &= add_named(e, json_is_array(mode) ? json_array_get(mode, i) : mode);
    for (size_t i = 0; i < TFM__COUNT(POOLINGS) && !mode && !e->options.has_pooling; i++)
        if (json_is_true(json_object_get(config, POOLINGS[i].key)))
            add_pooling(e, POOLINGS[i].pooling);
    if (e->pooling_count == 0 && !mode)
        add_pooling(e, TFM_POOL_MEAN);
    e->skip_prompt = json_is_false(json_object_get(config, "include_prompt"));
    return known && e->pooling_count ? TFM_OK
                                     : tfm__fail(TFM_ERROR_UNSUPPORTED,
                                                 "%s: `pooling_mode` is %s; cls, max, mean, mean_sqrt_len_tokens, "
                                                 "weightedmean and lasttoken are supported, each once",
                                                 path, tfm__json_text((char[TFM__JSON_TEXT]){0}, mode));
}

/* Inputs and outputs of a module: text embeddings, after the pooling, or those of tokens. */
static tfm_status check_ends(const tfm_embedder *e, const json_t *config, const char *path) {
    const char *name = e->by_token ? "token_embeddings" : "sentence_embedding";
    const tfm_status status = tfm__embed_check_word(config, path, "module_input_name", name);
    return status == TFM_OK ? tfm__embed_check_word(config, path, "module_output_name", name) : status;
}

/* ---- Further layers ---- */

static int width_before(const tfm_embedder *e) {
    return e->step_count ? e->steps[e->step_count - 1].width
           : e->by_token ? e->encoder_width
                         : e->pooling_count * e->encoder_width;
}

/* Loads a tensor of a module's file, onto the device if there is one. */
static tfm_status load(tfm_context *ctx, tfm_param *out, const tfm__weights *file, const char *name, int rank,
                       const int64_t *dims) {
    const tfm__stored_tensor *stored;
    tfm_tensor raw = {0};
    const tfm_status status = tfm__weights_get(file, &stored, name, rank, dims);
    if (status != TFM_OK || !ctx)
        return status;
    tfm_scope_open(ctx);
    tfm__tensor_new_persistent(ctx, &out->value, TFM_F32, rank, dims);
    if (stored->dtype == TFM_F32) {
        tfm_tensor_write(ctx, out->value, stored->data);
    } else {
        tfm_tensor_new(ctx, &raw, stored->dtype, rank, dims);
        tfm_tensor_write(ctx, raw, stored->data);
        tfm_cast(ctx, &out->value, raw, TFM_F32);
    }
    return tfm_scope_close(ctx, 0, NULL);
}

static tfm_status read_activation(tfm__embed_step *out, const json_t *config, const char *path) {
    static const struct {
        const char *name;
        tfm_activation activation;
        bool tanh, sigmoid;
    } all[] = {
        {"Tanh", TFM_NO_ACTIVATION, true, false}, {"Identity", TFM_NO_ACTIVATION, false, false},
        {"ReLU", TFM_RELU, false, false},         {"GELU", TFM_GELU, false, false},
        {"SiLU", TFM_SILU, false, false},         {"Sigmoid", TFM_NO_ACTIVATION, false, true},
        {"Mish", TFM_MISH, false, false},         {"LeakyReLU", TFM_LEAKY_RELU, false, false},
        {"ReLU6", TFM_RELU6, false, false},       {"Hardswish", TFM_HARDSWISH, false, false},
    };
    const char *full = json_string_value(json_object_get(config, "activation_function"));
    const char *dot = full ? strrchr(full, '.') : NULL, *name = !full ? "Tanh" : dot ? dot + 1 : full;
    for (size_t i = 0; i < TFM__COUNT(all); i++) {
        if (strcmp(name, all[i].name) != 0 || (full && strncmp(full, "torch.", strlen("torch.")) != 0))
            continue;
        out->activation = all[i].activation;
        out->tanh = all[i].tanh;
        out->sigmoid = all[i].sigmoid;
        return TFM_OK;
    }
    return tfm__fail(TFM_ERROR_UNSUPPORTED,
                     "%s: `activation_function` is \"%s\"; torch's Tanh, Identity, ReLU, GELU, SiLU, Sigmoid, Mish, "
                     "LeakyReLU, ReLU6 and Hardswish are supported",
                     path, full ? full : name);
}

static tfm_status read_dense(tfm_embedder *e, const json_t *config, const char *folder, const char *path) {
    tfm_context *ctx = e->ctx;
    const int64_t in = width_before(e), out = json_integer_value(json_object_get(config, "out_features"));
    tfm__embed_step *step = &e->steps[e->step_count++];
    tfm__weights *file = NULL;
    step->kind = TFM__STEP_DENSE;
    step->width = (int)in;
    if (json_integer_value(json_object_get(config, "in_features")) != in || out < 1 || out > 1 << 20)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `in_features` and `out_features` must be %lld and a width up to %d",
                         path, (long long)in, 1 << 20);
    step->width = (int)out;
    if (json_is_true(json_object_get(config, "use_residual")))
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: `use_residual` is true, which is not supported", path);
    tfm_status status = check_ends(e, config, path);
    if (status == TFM_OK)
        status = read_activation(step, config, path);
    if (status == TFM_OK)
        status = tfm__weights_open_dir(&file, folder);
    if (status == TFM_OK)
        status = load(ctx, &step->dense.weight, file, "linear.weight", 2, (int64_t[]){out, in});
    if (status == TFM_OK && !json_is_false(json_object_get(config, "bias")))
        status = load(ctx, &step->dense.bias, file, "linear.bias", 1, &out);
    tfm__weights_free(&file);
    e->info.dense_layers++;
    return status;
}

static tfm_status read_norm(tfm_embedder *e, const char *folder) {
    const int64_t width = width_before(e);
    tfm__embed_step *step = &e->steps[e->step_count++];
    tfm__weights *file = NULL;
    *step = (tfm__embed_step){
        .kind = TFM__STEP_NORM, .width = (int)width, .norm = {.epsilon = 1e-5f, .kind = TFM_NORM_LAYER}};
    tfm_status status = tfm__weights_open_dir(&file, folder);
    if (status == TFM_OK)
        status = load(e->ctx, &step->norm.gamma, file, "norm.weight", 1, &width);
    if (status == TFM_OK)
        status = load(e->ctx, &step->norm.beta, file, "norm.bias", 1, &width);
    tfm__weights_free(&file);
    return status;
}

/* x / |x| is an RMS norm with gammas 1/sqrt(W). Zeros stay zeros. */
static tfm_status add_normalize(tfm_embedder *e) {
    tfm_context *ctx = e->ctx;
    const int64_t width = width_before(e);
    const float gamma = (float)(1 / sqrt((double)width));
    if (e->step_count == TFM__MAX_EMBED_STEPS)
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "modules.json has too many modules: the limit is %d",
                         TFM__MAX_EMBED_STEPS);
    tfm__embed_step *step = &e->steps[e->step_count++];
    *step = (tfm__embed_step){
        .kind = TFM__STEP_NORMALIZE, .width = (int)width, .norm = {.epsilon = 1e-30f, .kind = TFM_NORM_RMS}};
    if (!ctx)
        return TFM_OK;
    tfm__tensor_new_persistent(ctx, &step->norm.gamma.value, TFM_F32, 1, &width);
    return tfm__tensor_fill(ctx, step->norm.gamma.value, &gamma);
}

/* Older directories have no config.json for it. */
static tfm_status read_normalize(tfm_embedder *e, const char *folder) {
    json_t *config = NULL;
    tfm_status status = tfm__embed_load_optional(&config, folder, "config.json");
    if (status == TFM_OK)
        status = check_ends(e, config, folder);
    json_decref(config);
    return status == TFM_OK ? add_normalize(e) : status;
}

static tfm_status read_module(tfm_embedder *e, const char *kind, const char *folder) {
    json_t *config = NULL;
    const bool pools = strcmp(kind, "Pooling") == 0, dense = strcmp(kind, "Dense") == 0;
    const bool pooled = e->by_token || e->pooling_count > 0;
    if (strcmp(kind, "Dropout") == 0 || (pools && e->options.no_pooling))
        return TFM_OK;
    if (e->step_count == TFM__MAX_EMBED_STEPS || pools == pooled)
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "%s: the module \"%s\" is in an unsupported position: one Pooling follows the Transformer, "
                         "then up to %d others",
                         folder, kind, TFM__MAX_EMBED_STEPS);
    if (strcmp(kind, "Normalize") == 0)
        return read_normalize(e, folder);
    if (strcmp(kind, "LayerNorm") == 0)
        return read_norm(e, folder);
    if (!pools && !dense)
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "%s: modules.json asks for the module \"%s\"; Transformer, Pooling, Dense, LayerNorm, Dropout "
                         "and Normalize are supported",
                         folder, kind);
    char *path = tfm__path_join(folder, "config.json");
    tfm_status status = path ? tfm__json_load(&config, path) : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = pools ? read_pooling(e, config, path) : read_dense(e, config, folder, path);
    json_decref(config);
    free(path);
    return status;
}

static tfm_status read_list(tfm_embedder *e, const json_t *list, const char *dir) {
    tfm_status status = TFM_OK;
    for (size_t i = 1; i < json_array_size(list) && status == TFM_OK; i++) {
        const json_t *module = json_array_get(list, i);
        char *folder = NULL;
        status = folder_of(&folder, module, dir);
        if (status == TFM_OK)
            status = read_module(e, kind_of(module), folder);
        free(folder);
    }
    if (status == TFM_OK && e->pooling_count == 0 && !e->by_token)
        status =
            tfm__fail(TFM_ERROR_UNSUPPORTED, "%s/modules.json has no Pooling, so there is no embedding of a text", dir);
    return status;
}

/* ---- Directory ---- */

/* Late interaction compares unit vectors. */
static tfm_status apply(tfm_embedder *e, bool late) {
    if (e->options.normalize == TFM_NORMALIZE_OFF)
        while (e->step_count && e->steps[e->step_count - 1].kind == TFM__STEP_NORMALIZE)
            tfm_norm_free(e->ctx, &e->steps[--e->step_count].norm);
    const bool normalized = e->step_count && e->steps[e->step_count - 1].kind == TFM__STEP_NORMALIZE;
    const bool wanted =
        e->options.normalize == TFM_NORMALIZE_ON || (late && e->options.normalize == TFM_NORMALIZE_AS_SAVED);
    return wanted && !normalized ? add_normalize(e) : TFM_OK;
}

static void describe(tfm_embedder *e) {
    size_t used = (size_t)snprintf(e->info.pooling, sizeof(e->info.pooling), "%s", e->by_token ? "none" : "");
    for (int i = 0; i < e->pooling_count; i++)
        for (size_t k = 0; k < TFM__COUNT(POOLINGS); k++)
            if (POOLINGS[k].pooling == e->poolings[i])
                used += (size_t)snprintf(e->info.pooling + used, sizeof(e->info.pooling) - used, "%s%s",
                                         used ? "+" : "", POOLINGS[k].name);
    e->info.width = width_before(e);
    e->info.token_vectors = e->by_token;
    e->info.query_tokens = e->late.length[TFM_ROLE_QUERY] ? e->late.length[TFM_ROLE_QUERY] : e->info.max_tokens;
    e->info.normalized = e->step_count && e->steps[e->step_count - 1].kind == TFM__STEP_NORMALIZE;
}

tfm_status tfm__modules_read(tfm_embedder *e, const char *dir) {
    json_t *list = NULL;
    char *encoder = NULL;
    tfm_pooling usual = TFM_POOL_MEAN;
    tfm_status status = open_list(&list, dir);
    if (status == TFM_OK)
        status = tfm__modules_encoder_dir(&encoder, dir);
    const bool late = json_array_size(list) > 1 && !has_module(list, "Pooling");
    e->by_token = e->options.no_pooling || (late && !e->options.has_pooling);
    if (status == TFM_OK)
        status = tfm__embed_read_limits(e, encoder);
    if (status == TFM_OK)
        status = tfm__embed_read_prompts(e, dir, late);
    if (status == TFM_OK && late && e->by_token)
        status = tfm__late_interaction_read(e, dir);
    if (status == TFM_OK && !list && !e->options.has_pooling)
        status = tfm__embed_read_gguf(&usual, encoder);
    if (status == TFM_OK && !e->by_token && (!list || late))
        add_pooling(e, e->options.has_pooling ? e->options.pooling : usual);
    if (status == TFM_OK && list)
        status = read_list(e, list, dir);
    if (status == TFM_OK)
        status = apply(e, late && e->by_token);
    if (status == TFM_OK)
        describe(e);
    json_decref(list);
    free(encoder);
    return status;
}

void tfm__modules_free(tfm_embedder *e) {
    for (int i = 0; i < e->step_count; i++) {
        tfm_dense_free(e->ctx, &e->steps[i].dense);
        tfm_norm_free(e->ctx, &e->steps[i].norm);
    }
    tfm__late_interaction_free(e);
    json_decref(e->prompts);
    free(e->default_prompt);
}
