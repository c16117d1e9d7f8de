/* The configuration of a model directory: config.json and generation_config.json of the Marian family.
 *
 * The keys are those of Hugging Face's MarianConfig and GenerationConfig, and so are the defaults of keys
 * that are absent. generation_config.json wins over config.json where both may say a thing. What is not known
 * is ignored. */
#ifndef TFM_LIB_CONFIG_H
#define TFM_LIB_CONFIG_H

#include <stdbool.h>
#include "base/base.h"
#include "tfm/ops.h"

#define TFM_MAX_BAD_IDS 1024

typedef struct tfm__config {
    /* Sizes. Heads divide d_model. */
    int d_model;
    int encoder_layers, decoder_layers;
    int encoder_heads, decoder_heads;
    int encoder_ffn, decoder_ffn;
    int vocab_size;         /* rows of the encoder's embedding */
    int decoder_vocab_size; /* rows of the decoder's embedding and of the output; vocab_size when shared */
    int max_positions;
    tfm_activation activation;

    /* Layout. */
    bool normalize_before;    /* pre-norm blocks */
    bool normalize_embedding; /* LayerNorm over the embedding, both stacks */
    bool add_final_layer_norm;
    bool static_positions; /* sinusoids, unless the file has a table; false: the file must have one */
    int position_offset;   /* learned tables of old BART files: position p is row p + this
                              (extra_pos_embeddings); else 0 */
    bool scale_embedding;  /* times sqrt(d_model) */
    bool share_embeddings; /* encoder and decoder */
    bool tie_embeddings;   /* decoder and output */

    /* Token ids, each below both vocabulary sizes. */
    int pad_id, eos_id, start_id;
    int forced_bos_id; /* first token of every translation; -1: none */

    /* Search, as far as the directory asks for it. */
    int beams;      /* num_beams; 0: absent */
    bool has_length_penalty;
    double length_penalty; /* the exponent of the Hugging Face form */
    int bad_id_count;      /* bad_words_ids of one token */
    int bad_ids[TFM_MAX_BAD_IDS];
} tfm__config;

/* Reads the directory's files. A family other than "marian" or an activation that no kernel has is
 * TFM_ERROR_UNSUPPORTED; a key with a wrong type or an impossible value is TFM_ERROR_FORMAT with file, key,
 * value and what is allowed; a missing config.json is TFM_ERROR_IO. */
tfm_status tfm__config_load(tfm__config *out, const char *dir);

/* Whether this id pads, and does nothing else. */
bool tfm__config_is_padding(const tfm__config *config, int32_t id);
/* Whether search must never write this id. */
bool tfm__config_bans(const tfm__config *config, int32_t id);

#endif
