#include "base/file.h"
#include "text/hf_convert.h"

const char *const tfm__special_keys[TFM__SPECIALS] = {
    [TFM__BOS] = "bos_token", [TFM__EOS] = "eos_token", [TFM__UNK] = "unk_token",   [TFM__SEP] = "sep_token",
    [TFM__PAD] = "pad_token", [TFM__CLS] = "cls_token", [TFM__MASK] = "mask_token",
};

#define FAIRSEQ                                                                                                        \
    { "<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>" }
#define GPT2 "<|endoftext|>"

static const tfm__hf_class CLASSES[] = {
    {.name = "GPT2", .specials = {GPT2, GPT2, GPT2}},
    {.name = "Qwen2", .specials = {NULL, GPT2, GPT2, NULL, GPT2}},
    {.name = "Roberta", .specials = FAIRSEQ},
    {.name = "Bart", .specials = FAIRSEQ},
    {.name = "Bert", .specials = {NULL, NULL, "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"}},
    {.name = "DistilBert", .specials = {NULL, NULL, "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"}},
    {.name = "MPNet", .specials = {"<s>", "</s>", "[UNK]", "</s>", "<pad>", "<s>", "<mask>"}},
    {.name = "Albert", .specials = {"[CLS]", "[SEP]", "<unk>", "[SEP]", "<pad>", "[CLS]", "[MASK]"}},
    {.name = "T5", .specials = {NULL, "</s>", "<unk>", NULL, "<pad>"}},
    {.name = "XLMRoberta", .specials = FAIRSEQ},
    {.name = "Camembert", .specials = FAIRSEQ},
    {.name = "Pegasus", .specials = {NULL, "</s>", "<unk>", NULL, "<pad>", NULL, "<mask_2>"}},
    {.name = "MBart",
     .specials = FAIRSEQ,
     .language_position = TFM__LANGUAGE_LAST,
     .language = "en_XX",
     .codes = tfm__language_codes_mbart},
    {.name = "MBart50",
     .specials = FAIRSEQ,
     .language_position = TFM__LANGUAGE_FIRST,
     .language = "en_XX",
     .codes = tfm__language_codes_mbart50},
    {.name = "Nllb",
     .specials = FAIRSEQ,
     .language_position = TFM__LANGUAGE_FIRST,
     .language = "eng_Latn",
     .codes = tfm__language_codes_nllb},
    {.name = "M2M100",
     .specials = {"<s>", "</s>", "<unk>", "</s>", "<pad>"},
     .language_position = TFM__LANGUAGE_FIRST,
     .language = "en",
     .language_prefix = "__",
     .language_suffix = "__",
     .codes = tfm__language_codes_m2m},
    {.name = "Llama", .specials = {"<s>", "</s>", "<unk>"}},
    {.name = "Gemma", .specials = {"<bos>", "<eos>", "<unk>", NULL, "<pad>", NULL, "<mask>"}},
};

/* Aliases of classes. */
static const char *const ALIASES[][2] = {
    {"MT5", "T5"},
    {"Electra", "Bert"},
    {"CodeLlama", "Llama"},
    {"CodeGen", "GPT2"},
};

/* The tokenizer class by model_type of config.json. */
static const char *const MODELS[][2] = {
    {"gpt2", "GPT2"},
    {"opt", "GPT2"},
    {"gptj", "GPT2"},
    {"codegen", "GPT2"},
    {"roberta", "Roberta"},
    {"bart", "Bart"},
    {"bert", "Bert"},
    {"distilbert", "Bert"},
    {"mpnet", "MPNet"},
    {"electra", "Bert"},
    {"nomic_bert", "Bert"},
    {"gte", "XLMRoberta"},
    {"albert", "Albert"},
    {"t5", "T5"},
    {"mt5", "T5"},
    {"umt5", "T5"},
    {"mbart", "MBart"},
    {"xlm-roberta", "XLMRoberta"},
    {"camembert", "Camembert"},
    {"pegasus", "Pegasus"},
    {"m2m_100", "M2M100"},
    {"llama", "Llama"},
    {"gemma", "Gemma"},
    {"gemma2", "Gemma"},
    {"gemma3_text", "Gemma"},
    {"gemma3", "Gemma"},
    {"mistral3", "Llama"},
    {"llava", "Llama"},
    {"qwen2", "Qwen2"},
    {"qwen2_vl", "Qwen2"},
    {"qwen2_5_vl", "Qwen2"},
    {"qwen3", "Qwen2"},
    {"mistral", "Llama"},
};

/* Whether `name` is the class, with or without a library suffix. */
static bool is_class(const char *name, const char *class) {
    const size_t length = strlen(class);
    const char *behind = strncmp(name, class, length) == 0 ? name + length : "-";
    return !*behind || strcmp(behind, "Tokenizer") == 0 || strcmp(behind, "TokenizerFast") == 0;
}

const tfm__hf_class *tfm__hf_class_by_name(const char *name) {
    for (size_t i = 0; i < TFM__COUNT(ALIASES); i++)
        if (is_class(name, ALIASES[i][0]))
            name = ALIASES[i][1];
    for (size_t i = 0; i < TFM__COUNT(CLASSES); i++)
        if (is_class(name, CLASSES[i].name))
            return &CLASSES[i];
    return NULL;
}

/* NLLB has the model_type of M2M-100, and no vocab.json. */
static bool is_nllb(const char *type, const char *dir) {
    return strcmp(type, "m2m_100") == 0 && !tfm__file_exists_in(dir, "vocab.json");
}

tfm_status tfm__hf_class_find(const tfm__hf_class **out, const json_t *config, const char *dir) {
    const char *name = json_string_value(json_object_get(config, "tokenizer_class"));
    const tfm__hf_class *found = name ? tfm__hf_class_by_name(name) : NULL;
    char *path = found ? NULL : tfm__path_join(dir, "config.json");
    json_t *model = NULL;
    tfm_status status = path || found ? TFM_OK : TFM_ERROR_MEMORY;
    if (path && tfm__file_exists(path))
        status = tfm__json_load(&model, path);
    *out = NULL;
    if (status == TFM_ERROR_MEMORY) {
        free(path);
        return status;
    }
    if (status != TFM_OK)
        model = NULL; /* the code that opens the model reports the error */
    if (!name && (name = json_string_value(json_object_get(model, "tokenizer_class"))))
        found = tfm__hf_class_by_name(name);
    const char *type = json_string_value(json_object_get(model, "model_type"));
    for (size_t i = 0; type && !found && i < TFM__COUNT(MODELS); i++)
        if (strcmp(type, MODELS[i][0]) == 0)
            found = tfm__hf_class_by_name(is_nllb(type, dir) ? "Nllb" : MODELS[i][1]);
    json_decref(model);
    free(path);
    *out = found;
    return TFM_OK;
}
