/* Dropout rates of training in config.json. Keys and defaults are those of each family's configuration in
 * transformers. */
#include <string.h>
#include "model/arch/config_keys.h"

/* Keys for the residual stream, attention weights and feed-forward layers; NULL: the family has no such dropout. */
typedef struct entry {
    const char *family;
    const char *keys[TFM__DROPOUTS];
    double absent[TFM__DROPOUTS];
} entry;

static const entry ENTRIES[] = {
    {"marian", {"dropout", "attention_dropout", "activation_dropout"}, {0.1, 0, 0}},
    {"bart", {"dropout", "attention_dropout", "activation_dropout"}, {0.1, 0, 0}},
    {"mbart", {"dropout", "attention_dropout", "activation_dropout"}, {0.1, 0, 0}},
    {"pegasus", {"dropout", "attention_dropout", "activation_dropout"}, {0.1, 0, 0}},
    {"m2m_100", {"dropout", "attention_dropout", "activation_dropout"}, {0.1, 0.1, 0}},
    {"t5", {"dropout_rate", "dropout_rate", "dropout_rate"}, {0.1, 0.1, 0.1}},
    {"mt5", {"dropout_rate", "dropout_rate", "dropout_rate"}, {0.1, 0.1, 0.1}},
    {"umt5", {"dropout_rate", "dropout_rate", "dropout_rate"}, {0.1, 0.1, 0.1}},
    {"gpt2", {"resid_pdrop", "attn_pdrop", NULL}, {0.1, 0.1, 0}},
    {"opt", {"dropout", "attention_dropout", NULL}, {0.1, 0, 0}},
    {"phi3", {"resid_pdrop", "attention_dropout", NULL}, {0, 0, 0}},
    {"phi", {"resid_pdrop", "attention_dropout", NULL}, {0, 0, 0}},
    {"gpt_neox", {"hidden_dropout", "attention_dropout", NULL}, {0, 0, 0}},
    {"stablelm", {"hidden_dropout", "attention_dropout", NULL}, {0, 0, 0}},
    {"gptj", {"resid_pdrop", "attn_pdrop", NULL}, {0, 0, 0}},
    {"codegen", {"resid_pdrop", "attn_pdrop", NULL}, {0, 0, 0}},
    {"falcon", {"hidden_dropout", "attention_dropout", NULL}, {0, 0, 0}},
    {"bloom", {"hidden_dropout", "attention_dropout", NULL}, {0, 0, 0}},
    {"mpt", {NULL, NULL, NULL}, {0, 0, 0}},
    {"starcoder2", {"residual_dropout", "attention_dropout", NULL}, {0, 0, 0}},
};

/* Llama, Mistral, Qwen, Gemma, Granite, OLMo and other decoder-only families. */
static const entry OTHERS = {NULL, {NULL, "attention_dropout", NULL}, {0, 0, 0}};

static const entry *entry_of(const tfm__family *family) {
    for (size_t i = 0; i < TFM__COUNT(ENTRIES); i++)
        if (strcmp(ENTRIES[i].family, family->name) == 0)
            return &ENTRIES[i];
    return &OTHERS;
}

void tfm__dropout_read(tfm__arch *arch, const tfm__family *family, const tfm__config_files *from) {
    const entry *e = entry_of(family);
    for (int i = 0; i < TFM__DROPOUTS; i++) {
        const json_t *value = e->keys[i] ? tfm__network_key(from, e->keys[i]).value : NULL;
        const double p = json_number_value(value);
        arch->dropout_given[i] = json_is_number(value) && p >= 0 && (float)p < 1;
        arch->dropout[i] = arch->dropout_given[i] ? p : 0;
    }
}

double tfm__dropout_of(const tfm__arch *arch, const tfm__family *family, int place) {
    return arch->dropout_given[place] ? arch->dropout[place] : entry_of(family)->absent[place];
}

void tfm__dropout_write(json_t *config, const tfm__arch *arch, const tfm__family *family) {
    const entry *e = entry_of(family);
    for (int i = 0; i < TFM__DROPOUTS; i++)
        if (e->keys[i] && arch->dropout_given[i])
            json_object_set_new(config, e->keys[i], json_real(arch->dropout[i]));
}
