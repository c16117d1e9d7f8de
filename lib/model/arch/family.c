/* Registry of model families. */
#include <stdio.h>
#include <string.h>
#include "base/file.h"
#include "model/arch/config_keys.h"
#include "model/arch/gguf_arch.h"
#include "model/arch/marian_nmt.h"
#include "model/arch/multimodal.h"
#include "model/weights/weight_file.h"

static const tfm__family *const FAMILIES[] = {
    &tfm__family_marian,     &tfm__family_gpt2,    &tfm__family_opt,        &tfm__family_llama,
    &tfm__family_mistral,    &tfm__family_qwen2,   &tfm__family_qwen3,      &tfm__family_smollm3,
    &tfm__family_phi3,       &tfm__family_gemma,   &tfm__family_gemma2,     &tfm__family_gemma3_text,
    &tfm__family_bert,       &tfm__family_roberta, &tfm__family_mpnet,      &tfm__family_distilbert,
    &tfm__family_modernbert, &tfm__family_bart,    &tfm__family_mbart,      &tfm__family_pegasus,
    &tfm__family_m2m100,     &tfm__family_t5,      &tfm__family_mt5,        &tfm__family_umt5,
    &tfm__family_gpt_neox,   &tfm__family_phi,     &tfm__family_starcoder2, &tfm__family_stablelm,
    &tfm__family_granite,    &tfm__family_olmo2,   &tfm__family_electra,    &tfm__family_albert,
    &tfm__family_ministral,  &tfm__family_cohere,  &tfm__family_gptj,       &tfm__family_falcon,
    &tfm__family_bloom,      &tfm__family_mpt,     &tfm__family_codegen,    &tfm__family_nomic_bert,
    &tfm__family_gte,        &tfm__family_gte_new,
};

/* "\"marian\", \"t5\"": the supported families. */
static const char *known_families(char *text, size_t size) {
    size_t used = 0;
    for (size_t i = 0; i < TFM__COUNT(FAMILIES); i++)
        for (const char *const *type = FAMILIES[i]->types; *type && used < size; type++)
            used += (size_t)snprintf(text + used, size - used, "%s\"%s\"", used ? ", " : "", *type);
    for (size_t i = 0; tfm__multimodal_type(i) && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, ", \"%s\"", tfm__multimodal_type(i));
    return text;
}

/* Whether the rest of a class name belongs to the same family: "PhiForCausalLM" is Phi, "PhimoeForCausalLM" is not. */
static bool ends_class(const char *rest) {
    static const char *const KNOWN[] = {"For", "Model", "MT", "LMHead", "DoubleHeads"};
    for (size_t i = 0; i < TFM__COUNT(KNOWN); i++)
        if (strncmp(rest, KNOWN[i], strlen(KNOWN[i])) == 0)
            return true;
    return !*rest;
}

/* The family of a `model_type`; or of a class, by the longest matching prefix, since "Gemma" is a prefix of "Gemma2".
 * NULL: not registered. */
static const tfm__family *lookup(const char *name, bool is_class) {
    const tfm__family *best = NULL;
    size_t most = 0;
    for (size_t i = 0; i < TFM__COUNT(FAMILIES); i++)
        for (const char *const *known = is_class ? FAMILIES[i]->classes : FAMILIES[i]->types; *known; known++) {
            const size_t length = strlen(*known);
            const bool is_it = is_class
                                   ? strncmp(name, *known, length) == 0 && ends_class(name + length) && length > most
                                   : strcmp(name, *known) == 0;
            if (is_it) {
                best = FAMILIES[i];
                most = length;
            }
        }
    return best;
}

const tfm__family *tfm__family_find(const char *type) {
    return lookup(type, false);
}

static bool is_encoder_only(const tfm__config_files *from) {
    static const char end[] = "EncoderModel";
    const char *name = json_string_value(json_array_get(tfm__network_key(from, "architectures").value, 0));
    const size_t length = name ? strlen(name) : 0;
    return (length >= strlen(end) && strcmp(name + length - strlen(end), end) == 0) ||
           (!from->outer && json_is_true(tfm__network_key(from, TFM__BIDIRECTIONAL_KEY).value));
}

static tfm_status find_family(const tfm__family **out, const tfm__config_files *from) {
    const tfm__config_value type = tfm__network_key(from, "model_type");
    const json_t *named = type.value ? type.value : json_array_get(tfm__network_key(from, "architectures").value, 0);
    const char *name = json_string_value(named);
    char known[1024];
    if (!name)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `model_type` is %s; a string is needed: %s", from->config_path,
                         TFM__VALUE_TEXT(named), known_families(known, sizeof(known)));
    *out = lookup(name, !type.value);
    if (*out && (*out)->encoder_only && is_encoder_only(from))
        *out = (*out)->encoder_only;
    if (*out)
        return TFM_OK;
    return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: `%s` is %s; supported families are %s", from->config_path,
                     type.value ? "model_type" : "architectures", TFM__VALUE_TEXT(named),
                     known_families(known, sizeof(known)));
}

/* Per-layer overrides: any key of the configuration, or a part left out. */
static tfm_status refuse_layers(const tfm__config_files *from) {
    const tfm__config_value found = tfm__network_key(from, "per_layer_config");
    if (!found.value || (json_is_object(found.value) && json_object_size(found.value) == 0))
        return TFM_OK;
    return tfm__fail(TFM_ERROR_UNSUPPORTED,
                     "%s: `per_layer_config` is %s, which is not supported: use a model with equal layers", found.path,
                     TFM__VALUE_TEXT(found.value));
}

static tfm_status open_files(tfm__config_files *out, const char *dir) {
    out->config_path = tfm__path_join(dir, "config.json");
    out->generation_path = tfm__path_join(dir, "generation_config.json");
    if (!out->config_path || !out->generation_path)
        return TFM_ERROR_MEMORY;
    if (!tfm__file_exists(dir))
        return tfm__fail(TFM_ERROR_IO, "cannot open %s: there is no such directory; give one with a downloaded model",
                         out->config_path);
    tfm_status status = TFM_OK;
    if (!tfm__file_exists(out->config_path))
        status = tfm__weights_check_unsupported(dir);
    if (status == TFM_OK && !tfm__file_exists(out->config_path))
        status = tfm__fail(
            TFM_ERROR_IO,
            "cannot open %s: there is no such file; give the folder with it and the model's weights and vocabulary",
            out->config_path);
    if (status == TFM_OK)
        status = tfm__json_load(&out->config, out->config_path);
    if (status == TFM_OK && tfm__file_exists(out->generation_path))
        status = tfm__json_load(&out->generation, out->generation_path);
    return status;
}

void tfm__family_files_free(tfm__family_files *files) {
    tfm__weights_free(&files->weights);
    free(files->shortlist);
    free(files->stored);
    json_decref(files->generation);
    *files = (tfm__family_files){0};
}

tfm_status tfm__family_open_weights(tfm__family_files *files, const char *dir) {
    if (files->weights)
        return TFM_OK;
    const tfm_status status = tfm__weights_open_dir(&files->weights, dir);
    return status == TFM_OK ? tfm__weights_unpack(files->weights, &files->packing) : status;
}

tfm_status tfm__family_read(const tfm__family **family, tfm__arch *arch, tfm__generation_rules *rules,
                            const char *dir) {
    tfm__family_files files = {0};
    const tfm_status status = tfm__family_open(family, arch, rules, &files, dir);
    tfm__family_files_free(&files);
    return status;
}

/* A model directory of Hugging Face. */
static tfm_status open_directory(const tfm__family **family, tfm__config_files *from, const tfm__multimodal **wrapper,
                                 tfm__packing *packing, const char *dir) {
    tfm_status status = open_files(from, dir);
    if (status == TFM_OK)
        status = tfm__multimodal_open(wrapper, from);
    if (status == TFM_OK)
        status = find_family(family, from);
    if (status == TFM_OK)
        status = tfm__quantization_config_read(packing, from);
    return status == TFM_OK ? refuse_layers(from) : status;
}

/* A GGUF file: its metadata are the configuration. */
static tfm_status open_gguf(const tfm__family **family, tfm__config_files *from, tfm__family_files *files,
                            const char *path) {
    tfm__gguf *gguf = NULL;
    const tfm__gguf_arch *arch = NULL;
    from->config_path = tfm__strdup(path);
    tfm_status status = from->config_path ? tfm__gguf_open(&gguf, path) : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = tfm__gguf_arch_find(&arch, gguf);
    if (status == TFM_OK)
        *family = tfm__family_find(arch->model_type);
    if (status == TFM_OK)
        status = tfm__gguf_config(&from->config, gguf, arch, *family);
    if (status == TFM_OK && (*family)->encoder_only && is_encoder_only(from))
        *family = (*family)->encoder_only;
    if (status == TFM_OK && !(files->stored = tfm__gguf_family_new(arch, *family, gguf)))
        status = TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = tfm__weights_open_gguf(&files->weights, &gguf);
    tfm__gguf_close(&gguf);
    return status;
}

tfm_status tfm__family_open(const tfm__family **family, tfm__arch *arch, tfm__generation_rules *rules,
                            tfm__family_files *files, const char *dir) {
    tfm__config_files from = {0};
    tfm__marian_folder marian = {0};
    const tfm__multimodal *wrapper = NULL;
    char *gguf = NULL;
    *arch = (tfm__arch){0};
    memset(rules, 0, sizeof(*rules));
    tfm_status status = tfm__gguf_locate(&gguf, dir);
    if (status == TFM_OK && !gguf)
        status = tfm__marian_folder_find(&marian, dir);
    if (status != TFM_OK || marian.model) {
        if (status == TFM_OK)
            status = tfm__marian_nmt_read(family, arch, rules, files, &marian);
        tfm__marian_folder_free(&marian);
        return status;
    }
    status =
        gguf ? open_gguf(family, &from, files, gguf) : open_directory(family, &from, &wrapper, &files->packing, dir);
    free(gguf);
    from.family = *family;
    if (status == TFM_OK)
        status = (*family)->read(arch, rules, &from);
    if (status == TFM_OK)
        tfm__dropout_read(arch, *family, &from);
    arch->multimodal = wrapper;
    files->generation = from.generation;
    json_decref(from.config);
    json_decref(from.outer);
    free(from.config_path);
    free(from.generation_path);
    return status;
}
