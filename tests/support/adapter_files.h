/* Adapters of PEFT, and the models that they give with a base model, computed in double precision. */
#ifndef TFM_TESTS_ADAPTER_FILES_H
#define TFM_TESTS_ADAPTER_FILES_H

#include <math.h>
#include "model/core/quantized_params.h"
#include "support/scratch.h"
#include "support/tensors_file.h"

enum { RANK = 2, OTHER_RANK = 3, MAX_VALUES = 1 << 16 };

typedef struct files {
    tensors_file adapter, merged;
    json_t *ranks, *alphas;
    harness_random random;
    double scale; /* of the caller */
    bool rank_stabilized;
    bool tails; /* names have ".default" */
} files;

static inline float *random_values(files *f, int64_t count) {
    float *out = malloc((size_t)count * sizeof(*out));
    assert_non_null(out);
    for (int64_t i = 0; i < count; i++)
        out[i] = (float)harness_range(&f->random, -1000, 1000) / 2000;
    return out;
}

static inline bool has(const char *text, const char *part) {
    return strstr(text, part) != NULL;
}

/* Conv1D of GPT-2 is stored (inputs, outputs). */
static inline bool is_conv(const char *name) {
    return has(name, ".c_attn.") || has(name, ".c_proj.") || has(name, ".c_fc.");
}

static inline bool is_linear(const tfm__stored_tensor *t) {
    static const char *const LAYERS[] = {".h.", "h.0.", "layers.", "layer.", "block."};
    const size_t length = strlen(t->name);
    bool in_layer = false;
    for (size_t i = 0; i < TFM__COUNT(LAYERS); i++)
        in_layer |= has(t->name, LAYERS[i]);
    return t->rank == 2 && in_layer && length > 7 && strcmp(t->name + length - 7, ".weight") == 0 &&
           !has(t->name, "relative_attention_bias") && !has(t->name, "norm");
}

/* Adds a LoRA of this rank to `values`, (outputs, inputs) or transposed, and to the adapter. */
static inline void add_lora(files *f, const char *name, float *values, int64_t outputs, int64_t inputs, bool transposed,
                            int rank, double alpha) {
    const char *tail = f->tails ? ".default" : "";
    char part[300];
    const int stem = (int)(strlen(name) - strlen(".weight"));
    float *a = random_values(f, rank * inputs), *b = random_values(f, outputs * rank);
    const double scale = f->scale * alpha / (f->rank_stabilized ? sqrt(rank) : rank);
    for (int64_t i = 0; i < outputs; i++)
        for (int64_t k = 0; k < inputs; k++) {
            double sum = 0;
            for (int r = 0; r < rank; r++)
                sum += (double)b[i * rank + r] * (double)a[r * inputs + k];
            float *x = &values[transposed ? k * outputs + i : i * inputs + k];
            *x = (float)((double)*x + scale * sum);
        }
    snprintf(part, sizeof(part), "base_model.model.%.*s.lora_A%s.weight", stem, name, tail);
    tensors_add(&f->adapter, part, a, rank, inputs, false);
    snprintf(part, sizeof(part), "base_model.model.%.*s.lora_B%s.weight", stem, name, tail);
    tensors_add(&f->adapter, part, b, outputs, rank, false);
    free(a);
    free(b);
}

/* Every third matrix has another rank, by its full name, and every fourth another alpha, by a pattern. */
static inline void change(files *f, const tfm__stored_tensor *t, float *values, int index) {
    const bool conv = is_conv(t->name);
    char key[300];
    const int stem = (int)(strlen(t->name) - strlen(".weight"));
    const int rank = index % 3 == 0 ? OTHER_RANK : RANK;
    const double alpha = index % 4 == 0 ? 1.5 : 4;
    snprintf(key, sizeof(key), "%.*s", stem, t->name);
    if (index % 3 == 0)
        json_object_set_new(f->ranks, key, json_integer(rank));
    snprintf(key, sizeof(key), "^%.*s", stem, t->name);
    if (index % 4 == 0)
        json_object_set_new(f->alphas, key, json_real(alpha));
    add_lora(f, t->name, values, t->dims[conv], t->dims[!conv], conv, rank, alpha);
}

/* Replaces a bias or a norm by modules_to_save. */
static inline void replace(files *f, const tfm__stored_tensor *t, float *values) {
    char name[300];
    const char *last = strrchr(t->name, '.');
    float *other = random_values(f, (int64_t)t->count);
    memcpy(values, other, t->count * sizeof(*values));
    snprintf(name, sizeof(name), "base_model.model.%.*s%s%s", (int)(last - t->name), t->name,
             f->tails ? ".modules_to_save.default" : "", last);
    tensors_add(&f->adapter, name, other, 0, (int64_t)t->count, false);
    free(other);
}

static inline char *text_of(const char *dir, const char *name) {
    char path[8192], *text;
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    harness_ok(tfm__file_read(&text, NULL, path));
    return text;
}

static inline void finish_adapter(files *f, const char *name) {
    json_t *config =
        json_pack("{s:s, s:s, s:i, s:i, s:b, s:o, s:o, s:s}", "peft_type", "LORA", "base_model_name_or_path",
                  "org/base", "r", RANK, "lora_alpha", 4, "use_rslora", f->rank_stabilized, "rank_pattern", f->ranks,
                  "alpha_pattern", f->alphas, "target_modules", "all-linear");
    char *text = json_dumps(config, 0), from[512], to[512];
    harness_ok(tfm__dir_make(scratch_path(name), 0777));
    tensors_finish(&f->adapter, scratch_path(name), text);
    static const char *const NAMES[][2] = {{"config.json", "adapter_config.json"},
                                           {"model.safetensors", "adapter_model.safetensors"}};
    for (int i = 0; i < 2; i++) {
        snprintf(from, sizeof(from), "%s/%s", name, NAMES[i][0]);
        snprintf(to, sizeof(to), "%s/%s", name, NAMES[i][1]);
        assert_int_equal(rename(scratch_path(from), scratch_path(to)), 0);
    }
    free(text);
    json_decref(config);
}

/* Makes an adapter of every matrix in the layers of `dir`, and the model that it gives. */
static inline void make(const char *dir, const char *adapter, const char *merged, double scale, bool second) {
    files f = {.adapter = {.header = json_object()},
               .merged = {.header = json_object()},
               .ranks = json_object(),
               .alphas = json_object(),
               .random = {second ? 11 : 5},
               .scale = scale,
               .rank_stabilized = second,
               .tails = second};
    tfm__weights *weights;
    int matrices = 0;
    bool vector = false;
    harness_ok(tfm__weights_open_dir(&weights, dir));
    for (size_t i = 0; i < tfm__weights_count(weights); i++) {
        const tfm__stored_tensor *t = tfm__weights_at(weights, i);
        if (!t->usable || t->rank > 2 || t->rank == 0)
            continue;
        float *values = malloc(t->count * sizeof(*values));
        assert_true(values && t->count <= MAX_VALUES);
        tfm__stored_to_floats(values, t, 0, t->count, 1);
        if (is_linear(t))
            change(&f, t, values, matrices++);
        else if (t->rank == 1 && !vector && has(t->name, "ayer") && has(t->name, "norm") &&
                 !has(t->name, "LayerNorm.g"))
            replace(&f, t, values), vector = true;
        tensors_add(&f.merged, t->name, values, t->rank == 2 ? t->dims[0] : 0, t->dims[t->rank - 1], false);
        free(values);
    }
    assert_true(matrices > 3);
    tfm__weights_free(&weights);
    finish_adapter(&f, adapter);
    char *config = text_of(dir, "config.json");
    harness_ok(tfm__dir_make(scratch_path(merged), 0777));
    tensors_finish(&f.merged, scratch_path(merged), config);
    free(config);
}

#endif
