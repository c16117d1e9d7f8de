#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/file.h"
#include "base/json.h"
#include "model/config.h"

/* Larger than any model that could run, small enough that no product of two overflows. */
#define MAX_WIDTH (1 << 20)
#define MAX_VOCAB (1 << 24)

typedef struct source {
    json_t *config, *generation; /* generation: NULL where the directory has none */
    char *config_path, *generation_path;
} source;

/* A value and the file that it comes from. `value` is NULL where no file has it: null counts as absent. */
typedef struct found {
    const json_t *value;
    const char *path;
} found;

/* What is wrong with a value, and whose it is. A default can be wrong too, beside other keys. */
#define VALUE_TEXT(value) tfm__json_text((char[TFM_JSON_TEXT]){0}, value)

static const json_t *present(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

/* Keys of the network are config.json's alone. */
static found network_key(const source *from, const char *key) {
    return (found){present(from->config, key), from->config_path};
}

static found search_key(const source *from, const char *key) {
    const json_t *value = present(from->generation, key);
    return value ? (found){value, from->generation_path} : network_key(from, key);
}

static tfm_status read_int(int *out, found from, const char *key, int low, int high) {
    if (!from.value)
        return TFM_OK;
    json_int_t value = json_is_integer(from.value) ? json_integer_value(from.value) : -1;
    if (!json_is_integer(from.value) || value < low || value > high)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` is %s; an integer from %d to %d is allowed", from.path,
                         key, VALUE_TEXT(from.value), low, high);
    *out = (int)value;
    return TFM_OK;
}

static tfm_status read_bool(bool *out, found from, const char *key) {
    if (!from.value)
        return TFM_OK;
    if (!json_is_boolean(from.value))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` is %s; true or false is allowed", from.path, key,
                         VALUE_TEXT(from.value));
    *out = json_is_true(from.value);
    return TFM_OK;
}

/* ---- The network -------------------------------------------------------------------------------------- */

static tfm_status check_family(const source *from) {
    const json_t *type = present(from->config, "model_type");
    const json_t *first = json_array_get(json_object_get(from->config, "architectures"), 0);
    const json_t *named = type ? type : first;
    const char *family = json_string_value(named);
    if (!family)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `model_type` is %s; a string is needed: \"marian\"",
                         from->config_path, tfm__json_text((char[TFM_JSON_TEXT]){0}, named));
    if (strcmp(family, "marian") != 0 && strncmp(family, "Marian", 6) != 0)
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: `%s` is %s; only the family \"marian\" can be run",
                         from->config_path, type ? "model_type" : "architectures", VALUE_TEXT(named));
    return TFM_OK;
}

static tfm_status read_sizes(tfm__config *out, const source *from) {
    int decoder_vocab = 0;
    const struct {
        const char *key;
        int *value;
        int fallback, high;
    } sizes[] = {
        {"d_model", &out->d_model, 1024, MAX_WIDTH},
        {"encoder_layers", &out->encoder_layers, 12, 1024},
        {"decoder_layers", &out->decoder_layers, 12, 1024},
        {"encoder_attention_heads", &out->encoder_heads, 16, 1024},
        {"decoder_attention_heads", &out->decoder_heads, 16, 1024},
        {"encoder_ffn_dim", &out->encoder_ffn, 4096, MAX_WIDTH},
        {"decoder_ffn_dim", &out->decoder_ffn, 4096, MAX_WIDTH},
        {"vocab_size", &out->vocab_size, 58101, MAX_VOCAB},
        {"decoder_vocab_size", &decoder_vocab, 0, MAX_VOCAB},
        {"max_position_embeddings", &out->max_positions, 1024, MAX_WIDTH},
    };
    for (size_t i = 0; i < TFM_COUNT(sizes); i++) {
        *sizes[i].value = sizes[i].fallback;
        tfm_status status =
            read_int(sizes[i].value, network_key(from, sizes[i].key), sizes[i].key, 1, sizes[i].high);
        if (status != TFM_OK)
            return status;
    }
    /* A shared table has one size: Hugging Face, too, looks at vocab_size alone then. */
    out->decoder_vocab_size = out->share_embeddings || !decoder_vocab ? out->vocab_size : decoder_vocab;
    for (int side = 0; side < 2; side++) {
        int heads = side ? out->decoder_heads : out->encoder_heads;
        if (out->d_model % heads != 0)
            return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` is %d; it must divide `d_model`, which is %d",
                             from->config_path, side ? "decoder_attention_heads" : "encoder_attention_heads",
                             heads, out->d_model);
    }
    return TFM_OK;
}

static tfm_status read_layout(tfm__config *out, const source *from) {
    const struct {
        const char *key;
        bool *value;
        bool fallback;
    } flags[] = {
        {"normalize_before", &out->normalize_before, false},
        {"normalize_embedding", &out->normalize_embedding, false},
        {"add_final_layer_norm", &out->add_final_layer_norm, false},
        {"static_position_embeddings", &out->static_positions, true},
        {"scale_embedding", &out->scale_embedding, false},
        {"share_encoder_decoder_embeddings", &out->share_embeddings, true},
        {"tie_word_embeddings", &out->tie_embeddings, true},
    };
    for (size_t i = 0; i < TFM_COUNT(flags); i++) {
        *flags[i].value = flags[i].fallback;
        tfm_status status = read_bool(flags[i].value, network_key(from, flags[i].key), flags[i].key);
        if (status != TFM_OK)
            return status;
    }
    /* Converted models have their padding's id + 1 here, which means nothing where positions are computed. */
    out->position_offset = out->static_positions ? 0 : 2;
    return out->static_positions ? TFM_OK
                                 : read_int(&out->position_offset, network_key(from, "extra_pos_embeddings"),
                                            "extra_pos_embeddings", 0, 1024);
}

static tfm_status read_activation(tfm__config *out, const source *from) {
    static const struct {
        const char *name;
        tfm_activation activation;
    } NAMES[] = {
        {"relu", TFM_RELU},
        {"gelu", TFM_GELU},
        {"gelu_python", TFM_GELU},
        {"silu", TFM_SILU},
        {"swish", TFM_SILU},
        {"gelu_new", TFM_GELU_TANH},
        {"gelu_fast", TFM_GELU_TANH},
        {"gelu_accurate", TFM_GELU_TANH},
        {"gelu_pytorch_tanh", TFM_GELU_TANH},
        {"gelu_python_tanh", TFM_GELU_TANH},
    };
    out->activation = TFM_GELU;
    found key = network_key(from, "activation_function");
    if (!key.value)
        return TFM_OK;
    const char *name = json_string_value(key.value);
    for (size_t i = 0; name && i < TFM_COUNT(NAMES); i++) {
        if (strcmp(name, NAMES[i].name) == 0) {
            out->activation = NAMES[i].activation;
            return TFM_OK;
        }
    }
    return tfm__fail(name ? TFM_ERROR_UNSUPPORTED : TFM_ERROR_FORMAT,
                     "%s: `activation_function` is %s; \"relu\", \"gelu\", \"gelu_new\" and \"silu\" "
                     "(\"swish\") are allowed",
                     key.path, VALUE_TEXT(key.value));
}

/* ---- Token ids and search ----------------------------------------------------------------------------- */

/* The id of `key`; a list of them, as newer files may write, gives its first. */
static tfm_status read_id(int *out, const source *from, const char *key, int fallback, int size) {
    found key_found = search_key(from, key);
    *out = fallback;
    if (json_is_array(key_found.value)) {
        if (json_array_size(key_found.value) > 1)
            tfm__log(TFM_LOG_WARNING, "%s: `%s` is %s; the first of them is taken", key_found.path, key,
                     VALUE_TEXT(key_found.value));
        key_found.value = json_array_get(key_found.value, 0);
    }
    if (!key_found.value && fallback >= size)
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s has no `%s`, and the default, %d, is outside the vocabulary of %d",
                         from->config_path, key, fallback, size);
    return read_int(out, key_found, key, 0, size - 1);
}

static tfm_status read_ids(tfm__config *out, const source *from) {
    int size = out->vocab_size < out->decoder_vocab_size ? out->vocab_size : out->decoder_vocab_size;
    const struct {
        const char *key;
        int *value;
        int fallback;
    } ids[] = {
        {"pad_token_id", &out->pad_id, 58100},
        {"eos_token_id", &out->eos_id, 0},
        {"decoder_start_token_id", &out->start_id, 58100},
        {"forced_bos_token_id", &out->forced_bos_id, -1},
    };
    for (size_t i = 0; i < TFM_COUNT(ids); i++) {
        tfm_status status = read_id(ids[i].value, from, ids[i].key, ids[i].fallback, size);
        if (status != TFM_OK)
            return status;
    }
    return TFM_OK;
}

/* `bad_words_ids` is a list of lists. Those of one id are kept; Marian's have no other. The end stays
 * allowed: Hugging Face leaves it out as well. */
static tfm_status read_bad_ids(tfm__config *out, const source *from) {
    found key = search_key(from, "bad_words_ids");
    if (key.value && !json_is_array(key.value))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `bad_words_ids` is %s; a list of lists of ids is allowed",
                         key.path, VALUE_TEXT(key.value));
    size_t index;
    json_t *word;
    json_array_foreach((json_t *)(uintptr_t)key.value, index, word) {
        if (!json_is_array(word) || json_array_size(word) == 0)
            return tfm__fail(TFM_ERROR_FORMAT, "%s: `bad_words_ids` holds %s; a list of ids is needed",
                             key.path, VALUE_TEXT(word));
        int id = 0;
        for (size_t i = 0; i < json_array_size(word); i++) {
            found item = {json_array_get(word, i), key.path};
            tfm_status status = read_int(&id, item, "bad_words_ids", 0, out->decoder_vocab_size - 1);
            if (status != TFM_OK)
                return status;
        }
        if (json_array_size(word) == 1 && id == out->eos_id)
            continue;
        if (json_array_size(word) == 1 && out->bad_id_count < TFM_MAX_BAD_IDS)
            out->bad_ids[out->bad_id_count++] = id;
        else
            tfm__log(TFM_LOG_WARNING, "%s: `bad_words_ids`: %s is left out; up to %d single ids are taken",
                     key.path, VALUE_TEXT(word), TFM_MAX_BAD_IDS);
    }
    return TFM_OK;
}

bool tfm__config_is_padding(const tfm__config *config, int32_t id) {
    return id == config->pad_id && id != config->eos_id; /* some pad with what ends a sentence */
}

bool tfm__config_bans(const tfm__config *config, int32_t id) {
    bool banned = tfm__config_is_padding(config, id);
    for (int i = 0; i < config->bad_id_count; i++)
        banned |= id == config->bad_ids[i];
    return banned;
}

/* What Hugging Face's search would obey and this one does not know is said, unless it asks for nothing. */
static void warn_of_others(const source *from) {
    static const struct {
        const char *key;
        double nothing;
    } others[] = {
        {"no_repeat_ngram_size", 0},
        {"encoder_no_repeat_ngram_size", 0},
        {"repetition_penalty", 1},
        {"min_length", 0},
        {"min_new_tokens", 0},
        {"num_beam_groups", 1},
        {"do_sample", 0},
        {"suppress_tokens", 0},
        {"begin_suppress_tokens", 0},
        {"sequence_bias", 0},
        {"force_words_ids", 0},
        {"early_stopping", 0},
        {"exponential_decay_length_penalty", 0},
    };
    for (size_t i = 0; i < TFM_COUNT(others); i++) {
        found key = search_key(from, others[i].key);
        const bool empty = json_is_false(key.value) ||
                           (json_is_array(key.value) && !json_array_size(key.value)) ||
                           (json_is_number(key.value) && json_number_value(key.value) == others[i].nothing);
        if (key.value && !empty)
            tfm__log(TFM_LOG_WARNING, "%s: `%s` is %s; the search goes without it", key.path, others[i].key,
                     VALUE_TEXT(key.value));
    }
}

static tfm_status read_search(tfm__config *out, const source *from) {
    warn_of_others(from);
    tfm_status status = read_int(&out->beams, search_key(from, "num_beams"), "num_beams", 1, 1024);
    if (status != TFM_OK)
        return status;
    found penalty = search_key(from, "length_penalty");
    if (!penalty.value)
        return TFM_OK;
    double value = json_number_value(penalty.value);
    if (!json_is_number(penalty.value) || !isfinite(value) || fabs(value) > 100)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `length_penalty` is %s; a number from -100 to 100 is allowed",
                         penalty.path, VALUE_TEXT(penalty.value));
    out->has_length_penalty = true;
    out->length_penalty = value;
    return TFM_OK;
}

/* ---- The whole ---------------------------------------------------------------------------------------- */

static tfm_status open_source(source *out, const char *dir) {
    out->config_path = tfm__path_join(dir, "config.json");
    out->generation_path = tfm__path_join(dir, "generation_config.json");
    if (!out->config_path || !out->generation_path)
        return TFM_ERROR_MEMORY;
    if (!tfm__file_exists(dir))
        return tfm__fail(
            TFM_ERROR_IO,
            "cannot open %s: there is no such directory; give one with the files of a model, downloaded "
            "before",
            out->config_path);
    tfm_status status = tfm__json_load(&out->config, out->config_path);
    if (status == TFM_OK && tfm__file_exists(out->generation_path))
        status = tfm__json_load(&out->generation, out->generation_path);
    return status;
}

tfm_status tfm__config_load(tfm__config *out, const char *dir) {
    typedef tfm_status (*reader)(tfm__config *, const source *);
    static const reader READERS[] = {read_layout, read_sizes,   read_activation,
                                     read_ids,    read_bad_ids, read_search};
    *out = (tfm__config){0};
    source from = {0};
    tfm_status status = open_source(&from, dir);
    if (status == TFM_OK)
        status = check_family(&from);
    for (size_t i = 0; i < TFM_COUNT(READERS) && status == TFM_OK; i++)
        status = READERS[i](out, &from);
    json_decref(from.config);
    json_decref(from.generation);
    free(from.config_path);
    free(from.generation_path);
    return status;
}
