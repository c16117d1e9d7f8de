/* LoRA adapters ("LoRA: Low-Rank Adaptation of Large Language Models", Hu et al. 2021) in the format of PEFT: a
 * directory with adapter_config.json and adapter_model.safetensors. adapter_config.c reads the configuration,
 * adapter_tensors.c finds the changes of tensors, adapter_apply.c applies them to the weights of a model. */
#ifndef TFM_LIB_ADAPTER_H
#define TFM_LIB_ADAPTER_H

#include <jansson.h>
#include "model/arch/family.h"
#include "model/weights/weight_file.h"
#include "text/regex.h"

/* ---- Configuration ---- */

/* An entry of rank_pattern or alpha_pattern: module names that match, whole or after a dot, have this value. */
typedef struct tfm__adapter_pattern {
    tfm__regex *modules;
    double value;
} tfm__adapter_pattern;

typedef struct tfm__adapter_patterns {
    tfm__adapter_pattern *items; /* [count] */
    size_t count;
    double otherwise;
} tfm__adapter_patterns;

typedef struct tfm__adapter_config {
    char *path;
    char *base; /* base_model_name_or_path, or NULL */
    tfm__adapter_patterns rank, alpha;
    bool rank_stabilized; /* use_rslora: the scale is alpha / sqrt(rank) */
} tfm__adapter_config;

/* TFM_ERROR_UNSUPPORTED for another method than LoRA and for keys that change what an adapter computes, by name. The
 * caller frees it, also on failure. */
tfm_status tfm__adapter_config_read(tfm__adapter_config *out, const char *dir);
void tfm__adapter_config_free(tfm__adapter_config *config);

/* The rank and the scale of a module, "model.layers.0.self_attn.q_proj". */
tfm_status tfm__adapter_config_module(const tfm__adapter_config *config, const char *module, int *rank, double *scale);

/* ---- Tensors ---- */

/* A change of the base model's tensor `name`: it is replaced by `whole`, or scale B A is added. Both are (outputs,
 * inputs); a transposed tensor of the model, as GPT-2's, has the same change. */
typedef struct tfm__adapter_change {
    char *name; /* "model.layers.0.self_attn.q_proj.weight" */
    const tfm__stored_tensor *whole;
    const tfm__stored_tensor *a, *b; /* (R, inputs), (outputs, R); of an embedding table (R, outputs), (inputs, R) */
    bool embedding;
    int rank;
    double scale;
    bool used;
} tfm__adapter_change;

typedef struct tfm__adapter {
    tfm__adapter_config config;
    tfm__weights *file;
    tfm__adapter_change *changes; /* [count] */
    size_t count;
} tfm__adapter;

/* Opens a directory. TFM_ERROR_FORMAT names the tensor or key. The caller frees it, also on failure. */
tfm_status tfm__adapter_open(tfm__adapter *out, const char *dir);
void tfm__adapter_free(tfm__adapter *adapter);

/* ---- Lists (adapter_list.c) ---- */

/* TFM_ERROR_ARGUMENT for a missing directory and for a scale that is not finite. */
tfm_status tfm__adapters_check(const tfm_adapter *adapters, size_t count);
/* A copy with local paths, or NULL for none. Free it with tfm__adapters_free, which sets the pointer to NULL. */
tfm_status tfm__adapters_copy(tfm_adapter **out, const tfm_adapter *adapters, size_t count);
void tfm__adapters_free(tfm_adapter **adapters, size_t count);

/* ---- Applying ---- */

/* Replaces the tensors that the adapters change, one adapter after the other: those are F32 in host memory, until the
 * weights are freed. `keep_dtype`: F16 and BF16 tensors are rounded to their dtype at the end. TFM_ERROR_FORMAT if an
 * adapter belongs to another base model. */
tfm_status tfm__adapters_apply(tfm__family_files *files, const tfm__family *family, const tfm__arch *arch,
                               const tfm_adapter *adapters, size_t count, bool keep_dtype);

#endif
