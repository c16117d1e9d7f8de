/* Typed reading of config.json and generation_config.json in the manner of Hugging Face: what families share. */
#ifndef TFM_LIB_CONFIG_KEYS_H
#define TFM_LIB_CONFIG_KEYS_H

#include "base/json.h"
#include "model/arch/family.h"

/* Larger than any model that could run, small enough that no product of two overflows. */
enum { TFM__MAX_WIDTH = 1 << 20, TFM__MAX_VOCABULARY = 1 << 24 };

/* A value and the file that it comes from. `value` is NULL where no file has it: null counts as absent. */
typedef struct tfm__config_value {
    const json_t *value;
    const char *path;
} tfm__config_value;

/* A value as text, for a sentence; alive until the end of the block. */
#define TFM__VALUE_TEXT(value) tfm__json_text((char[TFM__JSON_TEXT]){0}, value)

/* A family's own name of a key, or the usual one. */
static inline const char *tfm__key_or(const char *key, const char *usual) {
    return key ? key : usual;
}

/* Keys of the network are config.json's alone; of special ids, generation_config.json wins. */
tfm__config_value tfm__network_key(const tfm__config_files *from, const char *key);
tfm__config_value tfm__token_id_key(const tfm__config_files *from, const char *key);
/* The key of generation_config.json alone, where the directory has that file, or else config.json's, of a wrapper first
 * the whole's and then the text's: so are all keys of the search, and the ids of texts that go on. */
tfm__config_value tfm__generation_key(const tfm__config_files *from, const char *key);

/* Leave *out as it is where the key is absent. */
tfm_status tfm__read_int(int *out, tfm__config_value from, const char *key, int low, int high);
tfm_status tfm__read_bool(bool *out, tfm__config_value from, const char *key);
tfm_status tfm__read_number(double *out, tfm__config_value from, const char *key, double low, double high);

/* Integers of config.json from 1 on. */
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
/* A float as the number with the fewest digits that is that float: 1e-5, not 9.99999975e-06. For writing. */
double tfm__short_number(float value);
/* Dropout in training (dropout.c): what config.json says of arch->dropout, what holds at one of these places, and what
 * it said, for a configuration that is written. */
enum { TFM__DROPOUT, TFM__ATTENTION_DROPOUT, TFM__ACTIVATION_DROPOUT, TFM__DROPOUTS };
void tfm__dropout_read(tfm__arch *arch, const tfm__family *family, const tfm__config_files *from);
double tfm__dropout_of(const tfm__arch *arch, const tfm__family *family, int place);
void tfm__dropout_write(json_t *config, const tfm__arch *arch, const tfm__family *family);
/* Refuses config.json where one of these keys, NULL last, is neither absent nor false. */
tfm_status tfm__refuse_keys(const tfm__config_files *from, const char *const *keys);
/* Refuses what would make a decoder of this family see other positions than it does, wherever transformers looks for
 * it: in all families. `windows`: the family has a say in `sliding_window` and looks after it itself. */
tfm_status tfm__check_attention_span(const tfm__config_files *from, bool windows, int positions);
/* `key` is "activation_function", or what the family calls it. */
tfm_status tfm__read_activation(tfm_activation *out, const tfm__config_files *from, const char *key);
/* The same of a value that is there, under this key or in it. */
tfm_status tfm__read_activation_value(tfm_activation *out, tfm__config_value found, const char *key);
const char *tfm__activation_name(tfm_activation activation);

/* Defaults of ids, where neither file has the key. */
typedef struct tfm__id_defaults {
    int pad, eos, start;
} tfm__id_defaults;

/* What the first of `architectures` says of a model with a decoder alone. Classes that end in `with_head`
 * ("ForCausalLM") write; plain ones ("LlamaModel") have no output projection unless it is `tied`; others, such as
 * classifiers, are refused. */
tfm_status tfm__read_head(bool *headless, const tfm__config_files *from, const char *with_head, bool tied);

/* All of *rules. The vocabulary is that of what the decoder writes; `smallest` that of the smaller side. */
tfm_status tfm__read_generation_rules(tfm__generation_rules *rules, const tfm__config_files *from,
                                      const tfm__id_defaults *defaults, int vocabulary, int smallest);

/* The same for a model with a decoder alone, which goes on with a text: `start_id` is `bos_token_id`. Ids that no file
 * gives have no defaults, as in transformers; those outside the vocabulary are of no token, and count as absent. -1
 * stands for that. */
tfm_status tfm__read_decoder_only_rules(tfm__generation_rules *rules, const tfm__config_files *from, int vocabulary);

/* generation_config.json, new, or NULL without memory. */
json_t *tfm__write_generation_rules(const tfm__generation_rules *rules, int max_length);
/* The same of a model whose directory has one: `own` with all its keys, whoever reads them, and of ids what the rules
 * say, since those may come from config.json, or have been chosen since. */
json_t *tfm__merge_generation_rules(const tfm__generation_rules *rules, const json_t *own);
/* Puts the special ids of a model with a decoder alone into config.json or generation_config.json; false: there is no
 * memory. */
bool tfm__write_decoder_only_ids(json_t *out, const tfm__generation_rules *rules);
/* The same of a new model's sizes. */
bool tfm__write_shape_ids(json_t *out, const tfm_model_shape *shape);

#endif
