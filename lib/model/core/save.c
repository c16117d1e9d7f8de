/* Saves a model as a directory for tfm_model_open and Hugging Face transformers. */
#include <stdio.h>
#include <string.h>
#include "base/file.h"
#include "base/json.h"
#include "model/arch/config_keys.h"
#include "model/weights/tensors_write.h"
#include "model/core/model.h"

/* ---- config.json, generation_config.json ---- */

static json_t *config_json(const tfm_model *model, tfm_dtype dtype) {
    json_t *root = model->family->write(model->family, &model->arch, &model->rules);
    const char *name = dtype == TFM_F16 ? "float16" : dtype == TFM_BF16 ? "bfloat16" : "float32";
    if (root) {
        json_object_set_new(root, "torch_dtype", json_string(name));
        tfm__dropout_write(root, &model->arch, model->family);
    }
    return root;
}

/* Keys that tfm does not know are kept unchanged. */
static json_t *generation_json(const tfm_model *model) {
    return model->generation ? tfm__merge_generation_rules(&model->rules, model->generation)
                             : tfm__write_generation_rules(&model->rules, model->arch.decoder.max_positions);
}

/* ---- model.safetensors ---- */

typedef struct list {
    tfm__tensor_entry *entries; /* NULL while counting */
    size_t count;
    tfm_dtype dtype;
} list;

static tfm__tensor_entry *add_entry(list *l, const char *name, tfm_tensor x, tfm_dtype dtype) {
    tfm__tensor_entry *entry = l->entries ? &l->entries[l->count] : NULL;
    l->count++;
    if (!entry)
        return NULL;
    snprintf(entry->name, sizeof(entry->name), "%s", name);
    entry->x = x;
    entry->dtype = dtype;
    return entry;
}

/* Adds rows of a parameter that are separate tensors. */
static void add_rows(list *l, const tfm__parameter *p) {
    char name[256];
    for (int i = 0; i < p->rows; i++) {
        tfm_tensor row = p->param->value;
        row.offset += (size_t)(i * p->dims[1]);
        row.rank = 1;
        row.dims[0] = p->dims[1];
        row.dims[1] = 0;
        tfm__row_name(name, sizeof(name), p->name, i);
        add_entry(l, name, row, TFM_F32);
    }
}

/* Adds a parameter: matrices and tables in the requested dtype, vectors (small) in F32. Parameters with the same name
 * are parts of one tensor. */
static tfm_status add_parameter(void *user, const tfm__parameter *p) {
    list *l = user;
    const tfm_dtype dtype = p->kind == TFM__MATRIX || p->kind == TFM__EMBEDDING ? l->dtype : TFM_F32;
    if (p->rows) {
        add_rows(l, p);
        return TFM_OK;
    }
    if (!l->entries) {
        l->count++; /* an upper bound: parts share a tensor */
        return TFM_OK;
    }
    tfm__tensor_entry *entry = NULL;
    for (size_t i = 0; p->total > p->dims[0] && i < l->count; i++)
        if (strcmp(l->entries[i].name, p->name) == 0)
            entry = &l->entries[i];
    if (!entry) {
        entry = add_entry(l, p->name, p->param->value, dtype);
        entry->part_first[0] = p->first;
        entry->transposed = p->transposed;
        entry->subtract = p->offset;
        entry->groups = p->run ? p->dims[0] / p->run : 0;
        return TFM_OK;
    }
    tfm__tensor_entry_add_part(entry, p->param->value, p->first);
    return TFM_OK;
}

/* Adds a position table as it was read, including rows before position 0. */
static void add_positions(list *l, const char *name, const tfm__stack *stack, const tfm__stack_arch *arch) {
    tfm_tensor table = stack->positions;
    const size_t before = (size_t)arch->position_offset * (size_t)arch->width;
    if (!table.buffer)
        return;
    if (table.offset >= before) {
        table.offset -= before;
        table.dims[0] += arch->position_offset;
    }
    add_entry(l, name, table, TFM_F32);
}

static tfm_status add_all(list *l, tfm_model *model) {
    const tfm__family *family = model->family;
    tfm_tensor bias = model->logits_bias;
    if (model->arch.encoder.layers > 0) { /* (1, V) in files, else (V) */
        bias.rank = 2;
        bias.dims[1] = bias.dims[0];
        bias.dims[0] = 1;
    }
    l->count = 0;
    const char *name = tfm__role_naming(family, true, TFM__OUTPUT_BIAS)->bias;
    if (name && !model->arch.headless)
        add_entry(l, name, bias, TFM_F32);
    for (int decoder = 0; decoder < 2 && model->stored_positions; decoder++)
        add_positions(l, tfm__role_naming(family, decoder, TFM__POSITIONS)->weight,
                      decoder ? &model->decoder : &model->encoder,
                      decoder ? &model->arch.decoder : &model->arch.encoder);
    /* If the output has a separate table, transformers requires a table for each side, except for families whose files
     * alone say so. */
    const bool apart = model->arch.shared_tables && !model->arch.tied_embeddings && !family->output_by_file;
    if (apart && family->keeps_shared)
        add_entry(l, tfm__role_naming(family, false, TFM__SOURCE_EMBEDDING)->weight, model->encoder.table->value,
                  l->dtype);
    if (apart)
        add_entry(l, tfm__role_naming(family, true, TFM__TARGET_EMBEDDING)->weight, model->decoder.table->value,
                  l->dtype);
    return tfm__params_visit(family, &model->arch, model, add_parameter, l);
}

static tfm_status write_tensors(tfm_model *model, const char *path, tfm_dtype dtype) {
    list l = {.dtype = dtype};
    tfm_status status = add_all(&l, model);
    l.entries = tfm__alloc(l.count, sizeof(*l.entries));
    if (!l.entries)
        return TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = add_all(&l, model);
    /* Hugging Face's loader requires this key. */
    const tfm__metadata_entry format = {"format", "pt"};
    if (status == TFM_OK)
        status = tfm__tensors_write(model->ctx, path, l.entries, l.count, &format, 1, false);
    free(l.entries);
    return status;
}

tfm_status tfm_model_save(tfm_model *model, const char *dir, tfm_dtype dtype) {
    if (TFM__NEEDS("model_save", model, dir) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (tfm__context_ready(model->ctx, "model_save") != TFM_OK)
        return tfm_context_status(model->ctx);
    if (dtype != TFM_F32 && dtype != TFM_F16 && dtype != TFM_BF16)
        return tfm__fail(TFM_ERROR_ARGUMENT, "model_save: parameters are stored as F32, F16 or BF16, not %s",
                         tfm_dtype_name(dtype));
    if (model->low_precision)
        return tfm__fail(
            TFM_ERROR_UNSUPPORTED,
            "model_save: the model's weights are %s: open it as fp32 to save it, or use tfm_model_quantize",
            model->low_precision);
    if (!model->family->write)
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "model_save: saving models of the family %s is not supported",
                         model->family->name);
    char *path = tfm__path_join(dir, "model.safetensors");
    tfm_status status = path ? tfm__dir_make(dir, 0777) : TFM_ERROR_MEMORY;
    const int depth = tfm__scope_depth(model->ctx);
    if (status == TFM_OK)
        do
            status = write_tensors(model, path, dtype);
        while (tfm__context_retry(model->ctx, depth, status));
    if (status == TFM_OK)
        status = tfm__json_write(dir, "config.json", config_json(model, dtype), "model_save");
    if (status == TFM_OK)
        status = tfm__json_write(dir, "generation_config.json", generation_json(model), "model_save");
    free(path);
    return status;
}
