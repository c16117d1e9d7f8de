/* The tensors of an adapter: which tensor of the base model each of them changes. */
#include <stdio.h>
#include <string.h>
#include "base/file.h"
#include "model/adapters/adapter.h"
#include "model/weights/weight_reader.h"

static const char PREFIX[] = "base_model.model.";

static tfm_status fail_name(const tfm__stored_tensor *t) {
    return tfm__fail(TFM_ERROR_UNSUPPORTED,
                     "%s: tensor %s is not supported: LoRA tensors of peft have names such as "
                     "base_model.model.MODULE.lora_A.weight",
                     t->file, t->name);
}

static bool ends_with(const char *text, const char *end) {
    const size_t length = strlen(text), size = strlen(end);
    return length >= size && strcmp(text + length - size, end) == 0;
}

/* Integers would need scales, which adapters do not have. */
static tfm_status check_floats(const tfm__stored_tensor *t) {
    const bool good = t->usable && (t->dtype == TFM_F32 || t->dtype == TFM_F16 || t->dtype == TFM_BF16);
    return good ? TFM_OK
                : tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: tensor %s has dtype %.20s; F32, F16 and BF16 can be used",
                            t->file, t->name, t->dtype_name);
}

/* "X.lora_A.weight" has the tail ".lora_A.weight". */
static const char *const TAILS[] = {".lora_A.weight", ".lora_A.default.weight", ".lora_embedding_A",
                                    ".lora_embedding_A.default"};

static tfm_status set_factors(tfm__adapter *x, tfm__adapter_change *out, const char *module) {
    int rank;
    tfm_status status = check_floats(out->a);
    if (status == TFM_OK)
        status = check_floats(out->b);
    if (status == TFM_OK)
        status = tfm__adapter_config_module(&x->config, module, &rank, &out->scale);
    if (status != TFM_OK)
        return status;
    if (out->a->rank != 2 || out->b->rank != 2 || out->a->dims[0] != out->b->dims[1])
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s: the shapes of %s and %s do not fit: (rank, inputs) and (outputs, rank) are needed",
                         out->a->file, out->a->name, out->b->name);
    if (out->a->dims[0] != rank)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: tensor %s has rank %lld, but %s says %d", out->a->file, out->a->name,
                         (long long)out->a->dims[0], x->config.path, rank);
    out->rank = rank;
    return TFM_OK;
}

/* Adds the change of a tensor "A"; `tail` begins its tail. The tensor "B" must exist, and is skipped itself. */
static tfm_status add_factors(tfm__adapter *x, const tfm__stored_tensor *t, const char *tail, size_t letter) {
    char other[TFM__MAX_TENSOR_NAME + 1];
    snprintf(other, sizeof(other), "%s", t->name);
    char *place = other + (tail - t->name) + letter;
    const bool first = *place == 'A';
    *place = first ? 'B' : 'A';
    const tfm__stored_tensor *found = tfm__weights_find(x->file, other);
    if (!found)
        return tfm__fail(TFM_ERROR_FORMAT, "%s has tensor %s, but no %s: copy the adapter again", t->file, t->name,
                         other);
    if (!first)
        return TFM_OK;
    char *module = tfm__format("%.*s", (int)(tail - t->name - (long)strlen(PREFIX)), t->name + strlen(PREFIX));
    tfm__adapter_change *out = &x->changes[x->count++];
    *out = (tfm__adapter_change){.a = t, .b = found, .embedding = letter > strlen(".lora_")};
    tfm_status status = module && (out->name = tfm__format("%s.weight", module)) ? TFM_OK : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = set_factors(x, out, module);
    free(module);
    return status;
}

/* A tensor of modules_to_save, a trained bias, or a resized table. */
static tfm_status add_whole(tfm__adapter *x, const tfm__stored_tensor *t) {
    static const char *const INNER[] = {".modules_to_save.default.", ".modules_to_save.", ".base_layer."};
    const char *name = t->name + strlen(PREFIX), *at = NULL;
    size_t length = 0;
    for (size_t i = 0; i < TFM__COUNT(INNER) && !at; i++)
        if ((at = strstr(name, INNER[i])))
            length = strlen(INNER[i]);
    tfm__adapter_change *out = &x->changes[x->count++];
    *out = (tfm__adapter_change){.whole = t};
    out->name = at ? tfm__format("%.*s.%s", (int)(at - name), name, at + length) : tfm__strdup(name);
    return out->name ? check_floats(t) : TFM_ERROR_MEMORY;
}

static tfm_status add_tensor(tfm__adapter *x, const tfm__stored_tensor *t) {
    char first[TFM__MAX_TENSOR_NAME + 1];
    if (strncmp(t->name, PREFIX, strlen(PREFIX)) != 0)
        return fail_name(t);
    const char *tail = strstr(t->name, ".lora_");
    if (!tail)
        return add_whole(x, t);
    const bool embedding = strncmp(tail, ".lora_embedding_", strlen(".lora_embedding_")) == 0;
    const size_t letter = strlen(embedding ? ".lora_embedding_" : ".lora_");
    snprintf(first, sizeof(first), "%s", t->name);
    if (tail[letter] == 'B')
        first[(size_t)(tail - t->name) + letter] = 'A';
    for (size_t i = 0; i < TFM__COUNT(TAILS); i++)
        if (ends_with(first, TAILS[i]) && strlen(TAILS[i]) == strlen(tail))
            return add_factors(x, t, tail, letter);
    return fail_name(t);
}

static tfm_status open_file(tfm__weights **out, const char *dir) {
    static const char *const NAMES[] = {"adapter_model.safetensors", "adapter_model.bin"};
    for (size_t i = 0; i < TFM__COUNT(NAMES); i++) {
        char *path = tfm__path_join(dir, NAMES[i]);
        const bool there = path && tfm__file_exists(path);
        const tfm_status status = !path ? TFM_ERROR_MEMORY : there ? tfm__weights_open(out, path) : TFM_OK;
        free(path);
        if (there || status != TFM_OK)
            return status;
    }
    return tfm__fail(TFM_ERROR_IO, "the adapter %s has no %s: download that file, too", dir, NAMES[0]);
}

tfm_status tfm__adapter_open(tfm__adapter *out, const char *dir) {
    *out = (tfm__adapter){0};
    tfm_status status = tfm__adapter_config_read(&out->config, dir);
    if (status == TFM_OK)
        status = open_file(&out->file, dir);
    const size_t count = status == TFM_OK ? tfm__weights_count(out->file) : 0;
    if (status == TFM_OK && !(out->changes = tfm__alloc(count, sizeof(*out->changes))))
        status = TFM_ERROR_MEMORY;
    for (size_t i = 0; i < count && status == TFM_OK; i++)
        status = add_tensor(out, tfm__weights_at(out->file, i));
    return status;
}

void tfm__adapter_free(tfm__adapter *adapter) {
    for (size_t i = 0; i < adapter->count; i++)
        free(adapter->changes[i].name);
    free(adapter->changes);
    tfm__weights_free(&adapter->file);
    tfm__adapter_config_free(&adapter->config);
    *adapter = (tfm__adapter){0};
}
