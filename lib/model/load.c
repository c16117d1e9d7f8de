/* From named tensors in a file to the parameters of a model: the name map of Hugging Face's Marian checkpoints. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "model/model.h"

typedef struct loader {
    tfm_model *model;
    const tfm__safetensors *file;
    const tfm__stored **used; /* [count of the file] */
    size_t used_count;
    tfm_status status;
} loader;

/* One stored tensor on the device, as F32: halves are sent as they are and cast there. */
static tfm_status upload(tfm_context *ctx, tfm_tensor *out, const tfm__stored *stored, int rank, const int64_t *dims) {
    if (tfm__tensor_new_lasting(ctx, out, TFM_F32, rank, dims) != TFM_OK || stored->dtype == TFM_F32)
        return tfm_tensor_write(ctx, *out, stored->data);
    tfm_tensor raw = {0};
    tfm_scope_open(ctx);
    tfm_tensor_new(ctx, &raw, stored->dtype, rank, dims);
    tfm_tensor_write(ctx, raw, stored->data);
    tfm_cast(ctx, out, raw, TFM_F32);
    return tfm_scope_close(ctx, 0, NULL);
}

/* The name as the file has it: in that of a model saved without its head, the "model." in front is missing. */
static const char *stored_name(const tfm__safetensors *file, const char *name) {
    static const char PREFIX[] = "model.";
    const bool other = !tfm__safetensors_find(file, name) && strncmp(name, PREFIX, sizeof(PREFIX) - 1) == 0;
    const char *bare = name + sizeof(PREFIX) - 1;
    return other && tfm__safetensors_find(file, bare) ? bare : name;
}

static void load(loader *l, tfm_param *param, int rank, const int64_t *dims, const char *name) {
    const tfm__stored *stored;
    if (l->status == TFM_OK)
        l->status = tfm__safetensors_get(l->file, &stored, stored_name(l->file, name), rank, dims);
    if (l->status == TFM_OK)
        l->status = upload(l->model->ctx, &param->value, stored, rank, dims);
    if (l->status == TFM_OK) {
        l->model->info.parameters += stored->count;
        l->used[l->used_count++] = stored; /* each name is loaded once: there is a place for all */
    }
}

static tfm_status load_parameter(void *user, const tfm__parameter *p) {
    loader *l = user;
    load(l, p->param, p->rank, p->dims, p->name);
    return l->status;
}

static const char SHARED[] = "model.shared.weight";
static const char ENCODER_TABLE[] = "model.encoder.embed_tokens.weight";
static const char DECODER_TABLE[] = "model.decoder.embed_tokens.weight";
static const char OUTPUT_TABLE[] = "lm_head.weight";

/* Checkpoints of different ages hold any subset of the aliases of a tied table, and some all of them. */
const tfm__stored *tfm__model_find_table(const tfm__safetensors *file, const tfm__config *config, int role) {
    static const char *const names[TFM__TABLES][4] = {
        [TFM__SOURCE_TABLE] = {ENCODER_TABLE, SHARED, DECODER_TABLE, OUTPUT_TABLE},
        [TFM__TARGET_TABLE] = {DECODER_TABLE, SHARED, OUTPUT_TABLE},
        [TFM__OUTPUT_TABLE] = {OUTPUT_TABLE},
    };
    const bool share = config->share_embeddings, tie = config->tie_embeddings;
    const int usable[TFM__TABLES] = {
        [TFM__SOURCE_TABLE] = share && tie ? 4 : share ? 3 : 2,
        [TFM__TARGET_TABLE] = tie ? 3 : 2,
        [TFM__OUTPUT_TABLE] = 1, /* a matrix of its own, which nothing can stand in for */
    };
    if (role == TFM__OUTPUT_TABLE && tie)
        role = TFM__TARGET_TABLE;
    if (role == TFM__TARGET_TABLE && share)
        role = TFM__SOURCE_TABLE;
    for (int i = 0; i < usable[role]; i++) {
        const tfm__stored *stored = tfm__safetensors_find(file, stored_name(file, names[role][i]));
        if (stored)
            return stored;
    }
    tfm__fail(TFM_ERROR_FORMAT, "%s: %s is missing%s", tfm__safetensors_at(file, 0)->file, names[role][0],
              usable[role] > 1 ? ", and so are its aliases" : "");
    return NULL;
}

static void load_tables(loader *l) {
    tfm_model *model = l->model;
    tfm_param **roles[TFM__TABLES] = {&model->source, &model->target, &model->output};
    const tfm__stored *found[TFM__TABLES] = {NULL};
    for (int role = 0; role < TFM__TABLES && l->status == TFM_OK; role++) {
        int64_t rows = role == TFM__SOURCE_TABLE ? model->config.vocab_size : model->config.decoder_vocab_size;
        found[role] = tfm__model_find_table(l->file, &model->config, role);
        if (!found[role]) {
            l->status = TFM_ERROR_FORMAT;
            return;
        }
        int same = 0;
        while (found[same] != found[role])
            same++;
        *roles[role] = &model->tables[same];
        const int64_t dims[] = {rows, model->config.d_model};
        if (same == role)
            load(l, &model->tables[role], 2, dims, found[role]->name);
        else if (found[role]->dims[0] != rows)
            l->status = tfm__fail(TFM_ERROR_FORMAT,
                                  "%s: %s has %lld rows and serves as a table of %lld: the configuration says otherwise",
                                  found[role]->file, found[role]->name, (long long)found[role]->dims[0],
                                  (long long)rows);
    }
    model->info.tied_output = model->output == model->target;
}

/* Marian's sinusoids are seldom stored; where a file has a table, that table counts. */
static void load_positions(loader *l, tfm_tensor *out, const char *name) {
    tfm__config *config = &l->model->config;
    if (l->status != TFM_OK)
        return;
    const tfm__stored *stored = tfm__safetensors_find(l->file, stored_name(l->file, name));
    if (!stored && config->static_positions) {
        tfm_tensor table = {0};
        tfm__tensor_new_lasting(l->model->ctx, &table, TFM_F32, 2, (int64_t[]){config->max_positions, config->d_model});
        l->status = tfm_sinusoid(l->model->ctx, &table, 0, 0, TFM_SINUSOID_SPLIT);
        *out = table;
        return;
    }
    /* BART's learned tables begin with rows for padding; files of newer versions have none, whatever the flag says. */
    int64_t skipped = stored && stored->rank == 2 && stored->dims[0] == config->max_positions ? 0 : config->position_offset;
    tfm_param table = {0};
    l->model->stored_positions = true;
    load(l, &table, 2, (int64_t[]){config->max_positions + skipped, config->d_model}, name);
    *out = table.value;
    if (l->status == TFM_OK && skipped > 0)
        l->status = tfm_tensor_rows(l->model->ctx, out, table.value, skipped, config->max_positions);
    if (config->static_positions && stored && l->status == TFM_OK)
        l->model->info.parameters -= stored->count; /* not learned */
}

/* The file's F32, F16 or BF16 numbers as host floats. */
static float stored_float(const tfm__stored *stored, size_t index) {
    if (stored->dtype == TFM_F32) {
        float value;
        memcpy(&value, stored->data + 4 * index, 4);
        return value;
    }
    uint16_t half;
    memcpy(&half, stored->data + 2 * index, 2);
    if (stored->dtype == TFM_BF16) {
        uint32_t bits = (uint32_t)half << 16;
        float value;
        memcpy(&value, &bits, 4);
        return value;
    }
    int exponent = half >> 10 & 31, fraction = half & 1023;
    double value = exponent == 31 ? (fraction ? NAN : INFINITY)
                   : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                  : ldexp(fraction, -24);
    return (float)(half >> 15 ? -value : value);
}

static void load_biases(loader *l) {
    tfm_model *model = l->model;
    const int64_t size = model->config.decoder_vocab_size;
    const tfm__stored *stored = NULL;
    if (l->status == TFM_OK && tfm__safetensors_find(l->file, "final_logits_bias"))
        l->status = tfm__safetensors_get(l->file, &stored, "final_logits_bias", 2, (int64_t[]){1, size});
    float *bias = l->status == TFM_OK ? tfm__alloc((size_t)size, sizeof(*bias)) : NULL;
    if (l->status == TFM_OK && !bias)
        l->status = TFM_ERROR_MEMORY;
    for (int64_t i = 0; stored && bias && i < size; i++)
        bias[i] = stored_float(stored, (size_t)i);
    if (l->status == TFM_OK)
        l->status = tfm__model_set_biases(model, bias);
    free(bias);
}

/* A block or a norm that nothing uses means that config.json tells of another model; text would come out all the same. */
static tfm_status check_unused(const loader *l) {
    for (size_t i = 0; i < tfm__safetensors_count(l->file); i++) {
        const tfm__stored *stored = tfm__safetensors_at(l->file, i);
        size_t k = 0;
        while (k < l->used_count && l->used[k] != stored)
            k++;
        bool used = k < l->used_count, part = strstr(stored->name, "layers.") || strstr(stored->name, "layer_norm") ||
                                              strstr(stored->name, "layernorm");
        if (!used && part)
            return tfm__fail(TFM_ERROR_FORMAT,
                             "%s: %s has no place in the model that config.json describes: check its numbers of layers "
                             "and its norms",
                             stored->file, stored->name);
    }
    return TFM_OK;
}

tfm_status tfm__model_load(tfm_model *model, const tfm__safetensors *file) {
    loader l = {.model = model, .file = file};
    l.used = tfm__alloc(tfm__safetensors_count(file), sizeof(*l.used));
    if (!l.used)
        return TFM_ERROR_MEMORY;
    load_tables(&l);
    load_positions(&l, &model->source_positions, "model.encoder.embed_positions.weight");
    load_positions(&l, &model->target_positions, "model.decoder.embed_positions.weight");
    load_biases(&l);
    if (l.status == TFM_OK)
        l.status = tfm__model_walk(model, load_parameter, &l);
    if (l.status == TFM_OK)
        l.status = check_unused(&l);
    free(l.used);
    return l.status;
}
