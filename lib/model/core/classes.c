/* Classes of a classification head: names, scores, and the settings of cross-encoders. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/file.h"
#include "base/json.h"
#include "model/core/model.h"
#include "tfm/embed.h"

/* `problem_type` if present; a single class is scored by its probability. */
static tfm__scores scores_of(const json_t *config, int count) {
    const char *type = json_string_value(json_object_get(config, "problem_type"));
    if (type && strcmp(type, "regression") == 0)
        return TFM__RAW_SCORES;
    return count == 1 || (type && strcmp(type, "multi_label_classification") == 0) ? TFM__SIGMOID_SCORES
                                                                                   : TFM__SOFTMAX_SCORES;
}

static tfm_status name_classes(tfm__classes *out, const json_t *config, int count) {
    const json_t *labels = json_object_get(config, "id2label");
    out->names = tfm__alloc((size_t)count, sizeof(*out->names));
    if (!out->names)
        return TFM_ERROR_MEMORY;
    out->scores = scores_of(config, count);
    for (out->count = 0; out->count < count; out->count++) {
        char key[16], standard[24];
        snprintf(key, sizeof(key), "%d", out->count);
        snprintf(standard, sizeof(standard), "LABEL_%d", out->count);
        const char *name = json_string_value(json_object_get(labels, key));
        out->names[out->count] = tfm__strdup(name ? name : standard);
        if (!out->names[out->count])
            return TFM_ERROR_MEMORY;
    }
    return TFM_OK;
}

/* ---- Cross-encoders ---- */

/* The activation that sentence-transformers' CrossEncoder applies to the logit: a class of torch, by default and in
 * place of other classes, which are Python programs, Sigmoid. */
static tfm__scores rerank_scores(const char *activation) {
    const char *dot = activation ? strrchr(activation, '.') : NULL;
    if (!dot || strncmp(activation, "torch.", strlen("torch.")) != 0 || strcmp(dot, ".Sigmoid") == 0)
        return TFM__SIGMOID_SCORES;
    return strcmp(dot, ".Identity") == 0 ? TFM__RAW_SCORES : TFM__SOFTMAX_SCORES;
}

static void lower_to(int *most, const json_t *value) {
    const double given = json_number_value(value);
    *most = given >= 1 && (*most == 0 || given < *most) ? (int)fmin(given, INT_MAX) : *most;
}

/* The newer key first. */
static void read_cross_encoder(tfm__classes *out, const json_t *config, const json_t *sentences,
                               const json_t *tokenizer, const json_t *limits) {
    const json_t *keys[] = {json_object_get(sentences, "activation_fn"),
                            json_object_get(json_object_get(config, "sentence_transformers"), "activation_fn"),
                            json_object_get(config, "sbert_ce_default_activation_function")};
    const char *activation = NULL;
    for (size_t i = 0; i < TFM__COUNT(keys) && !activation; i++)
        activation = json_string_value(keys[i]);
    out->rerank = rerank_scores(activation);
    lower_to(&out->max_tokens, json_object_get(tokenizer, "model_max_length"));
    lower_to(&out->max_tokens, json_object_get(limits, "max_seq_length"));
}

/* LogitScore names the tokens of a language model; SpladePooling pools masked-LM logits. */
static void read_module(tfm__classes *out, const char *kind, const json_t *config) {
    const json_t *yes = json_object_get(config, "true_token_id"), *no = json_object_get(config, "false_token_id");
    const char *pooling = json_string_value(json_object_get(config, "pooling_strategy"));
    const char *activation = json_string_value(json_object_get(config, "activation_function"));
    if (strcmp(kind, ".LogitScore") == 0) {
        out->has_tokens = json_is_integer(yes);
        out->true_id = (int)json_integer_value(yes);
        out->false_id = json_is_integer(no) ? (int)json_integer_value(no) : -1;
    } else {
        out->other_splade = (pooling && strcmp(pooling, "max") != 0) || (activation && strcmp(activation, "relu") != 0);
    }
}

/* Reads the config files of both; their folders are within the directory. */
static tfm_status read_list(tfm__classes *out, const json_t *modules, const char *dir) {
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < json_array_size(modules) && status == TFM_OK; i++) {
        const json_t *module = json_array_get(modules, i);
        const char *type = json_string_value(json_object_get(module, "type")), *dot = type ? strrchr(type, '.') : NULL;
        const char *folder = json_string_value(json_object_get(module, "path"));
        const bool known = dot && (strcmp(dot, ".LogitScore") == 0 || strcmp(dot, ".SpladePooling") == 0);
        if (!known || !folder || *folder == '/' || strstr(folder, ".."))
            continue;
        json_t *config = NULL;
        char *inner = tfm__path_join(dir, folder), *path = inner ? tfm__path_join(inner, "config.json") : NULL;
        status = path ? tfm__json_load(&config, path) : TFM_ERROR_MEMORY;
        if (status == TFM_OK)
            read_module(out, dot, config);
        json_decref(config);
        free(path);
        free(inner);
    }
    return status;
}

/* modules.json, a list, if there is one. */
static tfm_status read_modules(tfm__classes *out, const char *dir) {
    char *path = tfm__path_join(dir, "modules.json"), *text = NULL;
    json_t *modules = NULL;
    size_t bytes = 0;
    tfm_status status = path ? TFM_OK : TFM_ERROR_MEMORY;
    if (path && tfm__file_exists(path)) {
        status = tfm__file_read(&text, &bytes, path);
        if (status == TFM_OK)
            status = tfm__json_read(&modules, text, bytes, path);
        if (status == TFM_OK)
            status = read_list(out, modules, dir);
    }
    json_decref(modules);
    free(text);
    free(path);
    return status;
}

tfm_status tfm__classes_read(tfm__classes *out, const char *dir, int count) {
    static const char *const FILES[] = {"config.json", "config_sentence_transformers.json", "tokenizer_config.json",
                                        "sentence_bert_config.json"};
    json_t *read[TFM__COUNT(FILES)] = {NULL};
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < TFM__COUNT(FILES) && status == TFM_OK; i++) {
        char *path = tfm__path_join(dir, FILES[i]);
        status = path ? TFM_OK : TFM_ERROR_MEMORY;
        if (path && ((i == 0 && count > 0) || tfm__file_exists(path)))
            status = tfm__json_load(&read[i], path);
        free(path);
    }
    if (status == TFM_OK)
        status = count > 0 ? name_classes(out, read[0], count) : read_modules(out, dir);
    if (status == TFM_OK)
        read_cross_encoder(out, read[0], read[1], read[2], read[3]);
    for (size_t i = 0; i < TFM__COUNT(FILES); i++)
        json_decref(read[i]);
    return status;
}

void tfm__classes_free(tfm__classes *classes) {
    for (int i = 0; i < classes->count; i++)
        free(classes->names[i]);
    free(classes->names);
    *classes = (tfm__classes){0};
}

size_t tfm_model_class_count(const tfm_model *model) {
    return model ? (size_t)model->classes.count : 0;
}

const char *tfm_model_class_name(const tfm_model *model, size_t index) {
    return model && index < (size_t)model->classes.count ? model->classes.names[index] : NULL;
}
