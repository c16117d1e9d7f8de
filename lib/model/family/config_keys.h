/* Typed reading of config.json and generation_config.json in the manner of Hugging Face: what families share. */
#ifndef TFM_LIB_CONFIG_KEYS_H
#define TFM_LIB_CONFIG_KEYS_H

#include "base/json.h"
#include "model/family/family.h"

/* Larger than any model that could run, small enough that no product of two overflows. */
enum { TFM__MAX_WIDTH = 1 << 20, TFM__MAX_VOCABULARY = 1 << 24 };

/* A value and the file that it comes from. `value` is NULL where no file has it: null counts as absent. */
typedef struct tfm__found {
    const json_t *value;
    const char *path;
} tfm__found;

/* A value as text, for a sentence; alive until the end of the block. */
#define TFM__VALUE_TEXT(value) tfm__json_text((char[TFM__JSON_TEXT]){0}, value)

/* Keys of the network are config.json's alone; of search, generation_config.json wins. */
tfm__found tfm__network_key(const tfm__config_files *from, const char *key);
tfm__found tfm__search_key(const tfm__config_files *from, const char *key);
/* The key of generation_config.json alone, where the directory has that file, or else config.json's. */
tfm__found tfm__generation_key(const tfm__config_files *from, const char *key);

/* Leave *out as it is where the key is absent. */
tfm_status tfm__read_int(int *out, tfm__found from, const char *key, int low, int high);
tfm_status tfm__read_bool(bool *out, tfm__found from, const char *key);
/* `key` is "activation_function", or what the family calls it. */
tfm_status tfm__read_activation(tfm_activation *out, const tfm__config_files *from, const char *key);
const char *tfm__activation_name(tfm_activation activation);

/* Defaults of ids, where neither file has the key. */
typedef struct tfm__id_defaults {
    int pad, eos, start;
} tfm__id_defaults;

/* All of *rules. The vocabulary is that of what the decoder writes; `smallest` that of the smaller side. */
tfm_status tfm__read_rules(tfm__rules *rules, const tfm__config_files *from, const tfm__id_defaults *defaults,
                           int vocabulary, int smallest);

/* generation_config.json, new, or NULL without memory. */
json_t *tfm__write_rules(const tfm__rules *rules, int max_length);

#endif
