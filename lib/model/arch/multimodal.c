/* Vision-language models with an ordinary decoder, in the layouts of Hugging Face's transformers. Keys and defaults are
 * those of its configurations. */
#include "model/arch/multimodal.h"
#include <string.h>

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})
/* Qwen2 text model with other sizes and M-RoPE: a pair of columns uses the position in time, height or width; the three
 * are equal in text. */
#define QWEN2_VL(kind, class_start)                                                                                    \
    {                                                                                                                  \
        .type = kind, .class_name = class_start "ForConditionalGeneration", .texts = NAMES("qwen2"), .fixed = true,    \
        .flat = true, .sections = true, .tied_within = true, .unread = NAMES("head_dim"),                              \
        .aside = NAMES("visual.", "model.visual."),                                                                    \
        .defaults = "{\"hidden_size\": 8192, \"intermediate_size\": 29568, \"num_hidden_layers\": 80, "                \
                    "\"num_attention_heads\": 64, \"num_key_value_heads\": 8, \"vocab_size\": 152064, "                \
                    "\"rms_norm_eps\": 1e-05, \"rope_theta\": 1000000.0, \"max_window_layers\": 80}",                  \
    }

#define VISION NAMES("vision_tower.", "multi_modal_projector.", "model.vision_tower.", "model.multi_modal_projector.")

static const tfm__multimodal MULTIMODAL_CLASSES[] = {
    {.type = "gemma3",
     .class_name = "Gemma3ForConditionalGeneration",
     .texts = NAMES("gemma3_text"),
     .fixed = true,
     .tied = true,
     .unread = NAMES("final_logit_softcapping"),
     .aside = VISION},
    {.type = "mistral3",
     .class_name = "Mistral3ForConditionalGeneration",
     .texts = NAMES("mistral"),
     .absent = "{\"head_dim\": 128, \"hidden_size\": 5120, \"intermediate_size\": 32768, \"num_hidden_layers\": 40, "
               "\"num_key_value_heads\": 8, \"rms_norm_eps\": 1e-05, \"rope_theta\": 1000000000.0, "
               "\"sliding_window\": null, \"vocab_size\": 131072}",
     .tied = true,
     .aside = VISION},
    {.type = "llava",
     .class_name = "LlavaForConditionalGeneration",
     .texts = NAMES("llama", "mistral", "qwen2"),
     .tied_within = true,
     .aside = VISION},
    QWEN2_VL("qwen2_vl", "Qwen2VL"),
    QWEN2_VL("qwen2_5_vl", "Qwen2_5_VL"),
};

const char *const tfm__multimodal_text_prefixes[] = {"model.language_model.", "language_model.model.",
                                                     "language_model.", NULL};
const char *const tfm__multimodal_other_prefixes[] = {"", "language_model.", NULL};

const char *tfm__multimodal_type(size_t index) {
    return index < TFM__COUNT(MULTIMODAL_CLASSES) ? MULTIMODAL_CLASSES[index].type : NULL;
}

bool tfm__multimodal_ignores(const tfm__multimodal *wrapper, const char *name) {
    for (const char *const *start = wrapper->aside; *start; start++)
        if (strncmp(name, *start, strlen(*start)) == 0)
            return true;
    return false;
}

static const char *class_of(const json_t *config) {
    return json_string_value(json_array_get(json_object_get(config, "architectures"), 0));
}

static const tfm__multimodal *find(const json_t *config) {
    const json_t *type = json_object_get(config, "model_type");
    const char *name = json_string_value(type), *class_name = class_of(config);
    const bool given = type && !json_is_null(type);
    for (size_t i = 0; i < TFM__COUNT(MULTIMODAL_CLASSES); i++)
        if (given ? name && strcmp(name, MULTIMODAL_CLASSES[i].type) == 0
                  : class_name && strcmp(class_name, MULTIMODAL_CLASSES[i].class_name) == 0)
            return &MULTIMODAL_CLASSES[i];
    return NULL;
}

/* Other programs use the same `model_type` for other classes, with different keys. */
static tfm_status check_class(const tfm__multimodal *w, const json_t *config, const char *path) {
    static const char ending[] = "ForCausalLM";
    const char *name = class_of(config);
    const size_t length = name ? strlen(name) : 0;
    if (length < sizeof(ending) - 1 || strcmp(name + length - (sizeof(ending) - 1), ending) != 0)
        return TFM_OK;
    return tfm__fail(
        TFM_ERROR_UNSUPPORTED,
        "%s: `architectures` has %s; of the `model_type` \"%s\" only %s is supported, in transformers' layout", path,
        name, w->type, w->class_name);
}

/* The family of the text model; fails if it is not supported. */
static tfm_status find_text(const char **out, const tfm__multimodal *w, const json_t *text, const char *path) {
    const json_t *type = json_object_get(text, "model_type");
    const char *name = json_string_value(type);
    char known[128] = "";
    *out = w->texts[0];
    if (w->fixed || !type)
        return TFM_OK;
    for (const char *const *one = w->texts; *one; one++) {
        snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s\"%s\"", *known ? ", " : "", *one);
        if (name && strcmp(name, *one) == 0) {
            *out = *one;
            return TFM_OK;
        }
    }
    return tfm__fail(TFM_ERROR_UNSUPPORTED,
                     "%s: `model_type` within `text_config` is %s; the class %s is supported with text models of %s",
                     path, TFM__VALUE_TEXT(type), w->class_name, known);
}

/* M-RoPE is plain RoPE in text. */
static int simplify_mrope(json_t *text) {
    static const char *const KEYS[] = {"rope_scaling", "rope_parameters"};
    int bad = 0;
    for (size_t i = 0; i < TFM__COUNT(KEYS); i++) {
        json_t *rotation = json_object_get(text, KEYS[i]);
        const json_t *type = json_object_get(rotation, "rope_type");
        const char *name = json_string_value(type ? type : json_object_get(rotation, "type"));
        if (name && strcmp(name, "mrope") == 0)
            bad |= json_object_set_new(rotation, "rope_type", json_string("default"));
    }
    return bad;
}

/* Turns the text's object into config.json of a text-only model; false: out of memory. */
static bool stand_alone(json_t *text, const tfm__multimodal *w, const char *type, const json_t *outer,
                        const char *path) {
    static const char tie_key[] = "tie_word_embeddings", class_key[] = "architectures", small[] = "quantization_config";
    json_t *tie = json_object_get(outer, tie_key), *class_names = json_object_get(outer, class_key);
    const char *class_name = json_string_value(json_array_get(class_names, 0));
    int bad = json_object_set_new(text, "model_type", json_string(type));
    json_t *defaults = w->defaults ? json_loads(w->defaults, 0, NULL) : NULL;
    bad |= w->defaults && (!defaults || json_object_update_missing(text, defaults) != 0);
    json_decref(defaults);
    bad |= w->sections && simplify_mrope(text) != 0;
    for (const char *const *key = w->unread; key && *key; key++) {
        const json_t *value = json_object_get(text, *key);
        if (value && !json_is_null(value))
            tfm__log(TFM_LOG_WARNING, "%s: `%s` is %s; the class %s ignores it, as in transformers", path, *key,
                     TFM__VALUE_TEXT(value), w->class_name);
        bad |= json_object_set_new(text, *key, json_null());
    }
    /* the inner class may differ; the outer one says whether there is a head */
    json_object_del(text, class_key);
    if (class_name && strcmp(class_name, w->class_name) != 0)
        bad |= json_object_set(text, class_key, class_names);
    if (json_object_get(outer, small))
        bad |= json_object_set(text, small, json_object_get(outer, small));
    const bool within = w->tied_within && (tie ? json_is_false(tie) : !w->tied);
    if (!within)
        bad |= json_is_null(tie) ? json_object_set_new(text, tie_key, json_false())
               : tie             ? json_object_set(text, tie_key, tie)
                                 : json_object_set_new(text, tie_key, json_boolean(w->tied));
    return bad == 0;
}

tfm_status tfm__multimodal_open(const tfm__multimodal **out, tfm__config_files *from) {
    const tfm__multimodal *w = *out = find(from->config);
    if (!w)
        return TFM_OK;
    const json_t *given = json_object_get(from->config, "text_config");
    const bool none = !given || json_is_null(given);
    const char *type;
    if (check_class(w, from->config, from->config_path) != TFM_OK)
        return TFM_ERROR_UNSUPPORTED;
    if (!none && !json_is_object(given))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `text_config` is %s; an object is needed", from->config_path,
                         TFM__VALUE_TEXT(given));
    json_t *text = !none || w->flat ? json_deep_copy(none ? from->config : given)
                   : w->absent      ? json_loads(w->absent, 0, NULL)
                                    : json_object();
    tfm_status status = text ? find_text(&type, w, text, from->config_path) : TFM_ERROR_MEMORY;
    if (status == TFM_OK && !stand_alone(text, w, type, from->config, from->config_path))
        status = TFM_ERROR_MEMORY;
    if (status != TFM_OK) {
        json_decref(text);
        return status == TFM_ERROR_MEMORY
                   ? tfm__fail(TFM_ERROR_MEMORY, "%s: no host memory to read it", from->config_path)
                   : status;
    }
    from->outer = from->config;
    from->config = text;
    return TFM_OK;
}
