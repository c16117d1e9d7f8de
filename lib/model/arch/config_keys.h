/* Typed reading of Hugging Face's config.json and generation_config.json, shared by the families. */
#ifndef TFM_LIB_CONFIG_KEYS_H
#define TFM_LIB_CONFIG_KEYS_H

#include "base/json.h"
#include "model/arch/family.h"

/* Larger than any model that could run, small enough that a product of two cannot overflow. */
enum { TFM__MAX_WIDTH = 1 << 20, TFM__MAX_VOCABULARY = 1 << 24 };

/* A value and its file. `value` is NULL if no file has it; null counts as absent. */
typedef struct tfm__config_value {
    const json_t *value;
    const char *path;
} tfm__config_value;

/* A value as text, for messages; valid until the end of the block. */
#define TFM__VALUE_TEXT(value) tfm__json_text((char[TFM__JSON_TEXT]){0}, value)

/* A family's name of a key, or the usual one. */
static inline const char *tfm__key_or(const char *key, const char *usual) {
    return key ? key : usual;
}

/* Network keys come from config.json; for special ids, generation_config.json wins. */
tfm__config_value tfm__network_key(const tfm__config_files *from, const char *key);
tfm__config_value tfm__token_id_key(const tfm__config_files *from, const char *key);
/* A generation key: from generation_config.json if the directory has that file, else from config.json (of a multimodal
 * model: the outer object first, then the text's). Used for search keys and for the ids of decoder-only models. */
tfm__config_value tfm__generation_key(const tfm__config_files *from, const char *key);

/* An absent key leaves *out unchanged. */
tfm_status tfm__read_int(int *out, tfm__config_value from, const char *key, int low, int high);
tfm_status tfm__read_bool(bool *out, tfm__config_value from, const char *key);
tfm_status tfm__read_number(double *out, tfm__config_value from, const char *key, double low, double high);

/* Integers >= 1 of config.json. */
typedef struct tfm__int_key {
    const char *key;
    int *value, high;
} tfm__int_key;
tfm_status tfm__read_ints(const tfm__config_files *from, const tfm__int_key *keys, size_t count);
/* Flags of config.json. */
typedef struct tfm__bool_key {
    const char *key;
    bool *value;
} tfm__bool_key;
tfm_status tfm__read_bools(const tfm__config_files *from, const tfm__bool_key *keys, size_t count);
/* The shortest decimal that reads back as this float: 1e-5, not 9.99999975e-06. For writing. */
double tfm__short_number(float value);
/* Dropout in training (dropout.c): reads arch->dropout from config.json, returns the effective value, and writes the
 * configured values back. */
enum { TFM__DROPOUT, TFM__ATTENTION_DROPOUT, TFM__ACTIVATION_DROPOUT, TFM__DROPOUTS };
void tfm__dropout_read(tfm__arch *arch, const tfm__family *family, const tfm__config_files *from);
double tfm__dropout_of(const tfm__arch *arch, const tfm__family *family, int place);
void tfm__dropout_write(json_t *config, const tfm__arch *arch, const tfm__family *family);
/* Fails if a key of the NULL-terminated list is present and not false. */
tfm_status tfm__refuse_keys(const tfm__config_files *from, const char *const *keys);
/* Fails if a key would change which positions a decoder attends to, wherever transformers reads it. `windows`: the
 * family handles `sliding_window`. */
tfm_status tfm__check_attention_span(const tfm__config_files *from, bool windows, int positions);
/* `key`: "activation_function", or the family's name of it. */
tfm_status tfm__read_activation(tfm_activation *out, const tfm__config_files *from, const char *key);
/* The same for a value that was found, under this key or in it. */
tfm_status tfm__read_activation_value(tfm_activation *out, tfm__config_value found, const char *key);
const char *tfm__activation_name(tfm_activation activation);

/* Default ids, used if neither file has the key. */
typedef struct tfm__id_defaults {
    int pad, eos, start;
} tfm__id_defaults;

/* Reads the first of `architectures` of a decoder-only model. Classes that end in `with_head` ("ForCausalLM") have an
 * output projection; base classes ("LlamaModel") have none unless it is `tied`; others, such as classifiers, are
 * refused. */
tfm_status tfm__read_head(bool *headless, const tfm__config_files *from, const char *with_head, bool tied);

/* Fills *rules. The vocabulary is the decoder's; `smallest` is the smaller one of both sides. */
tfm_status tfm__read_generation_rules(tfm__generation_rules *rules, const tfm__config_files *from,
                                      const tfm__id_defaults *defaults, int vocabulary, int smallest);

/* The same for a decoder-only model: `start_id` is `bos_token_id`. Absent ids have no defaults, as in transformers; ids
 * outside the vocabulary count as absent. Absent ids are -1. */
tfm_status tfm__read_decoder_only_rules(tfm__generation_rules *rules, const tfm__config_files *from, int vocabulary);

/* The special ids of the rules (generation_ids_read.c). */
tfm_status tfm__read_token_ids(tfm__generation_rules *out, const tfm__config_files *from,
                               const tfm__id_defaults *defaults, int size);
tfm_status tfm__read_decoder_only_ids(tfm__generation_rules *out, const tfm__config_files *from, int size);
/* All EOS ids: those of `found`, which may be a list, or -1 for none. */
tfm_status tfm__read_eos_ids(tfm__generation_rules *out, tfm__config_value found, int size);

/* quantization_config.c: how `quantization_config` packs the weights; none if it is absent, or written by
 * tfm_model_quantize for int8. Others are TFM_ERROR_UNSUPPORTED, by name. */
tfm_status tfm__quantization_config_read(tfm__packing *out, const tfm__config_files *from);

/* A new generation_config.json, or NULL if out of memory. */
json_t *tfm__write_generation_rules(const tfm__generation_rules *rules, int max_length);
/* The same for a model loaded from a directory with that file: `own` with all its keys, and the ids of `rules`, since
 * those may come from config.json or have been changed. */
json_t *tfm__merge_generation_rules(const tfm__generation_rules *rules, const json_t *own);
/* Puts the special ids of a decoder-only model into config.json or generation_config.json; false: out of memory. */
bool tfm__write_decoder_only_ids(json_t *out, const tfm__generation_rules *rules);
/* The same for the shape of a new model. */
bool tfm__write_shape_ids(json_t *out, const tfm_model_shape *shape);

#endif
