/* config.json of encoder-only models: one reader and a table of differences per family. */
#ifndef TFM_LIB_ENCODER_KEYS_H
#define TFM_LIB_ENCODER_KEYS_H

#include "model/arch/config_keys.h"

/* An integer key >= 1 and its default. */
typedef struct tfm__size_key {
    const char *key;
    int *value;
    int fallback, high;
} tfm__size_key;

tfm_status tfm__read_sizes(const tfm__size_key *keys, size_t count, const tfm__config_files *from);

/* Fails if the number of heads does not divide the width; `key` and `width_key` are named in the message. */
tfm_status tfm__check_heads(const tfm__config_files *from, const char *key, int heads, const char *width_key,
                            int width);

/* Fails for a different architecture under the same names: a decoder, or other `position_embedding_type`s. */
tfm_status tfm__check_encoder(const tfm__config_files *from, const char *positions);

/* Epsilon of norms; an absent key leaves *out unchanged. */
tfm_status tfm__read_epsilon(float *out, const tfm__config_files *from, const char *key);

/* Rules of a model that does not generate: the padding id, `pad` by default. */
tfm_status tfm__read_padding(tfm__generation_rules *rules, const tfm__config_files *from, int pad, int vocabulary);

/* The head that `architectures` names and its number of classes, arch->headless and arch->tied_embeddings. */
tfm_status tfm__read_encoder_head(tfm__arch *arch, const tfm__config_files *from);

/* Properties and defaults of a family of post-norm encoders. Zero: as BERT. */
typedef struct tfm__encoder_kind {
    const char *width_key, *layers_key, *heads_key, *feed_forward_key, *positions_key, *activation_key,
        *epsilon_key;      /* NULL: BERT's keys */
    bool common_keys;      /* BERT's keys are read as well, and win, as in transformers */
    bool fixed_epsilon;    /* no `layer_norm_eps` */
    bool no_token_types;   /* no `type_vocab_size` */
    bool narrow;           /* has `embedding_size`, */
    bool always_projected; /* and a projection even if both widths are equal */
    bool grouped;          /* has `num_hidden_groups` and `inner_group_num` */
    bool relative;         /* T5's relative position bias */
    bool gated;            /* gated feed-forward layers */
    enum {
        TFM__ALL_BIASES,
        TFM__NO_BIASES,
        TFM__NO_GATE_BIASES,           /* gate and up have none */
    } biases;                          /* of matrices */
    const struct tfm__rope_spec *rope; /* instead of learned positions; NULL: these */
    int vocabulary, pad, width, layers, heads, feed_forward, max_positions, token_types; /* defaults; 0 of the last two:
                                                                                            512 and 2 */
    tfm_activation activation;                                                           /* default */
    enum {
        TFM__POSITIONS_FROM_0,
        TFM__POSITIONS_AFTER_PAD,  /* position 0 is the row after `pad_token_id`, */
        TFM__POSITIONS_AFTER_FIXED /* or after `pad` below, regardless of the key */
    } position_base;
    tfm_activation mlm_activation;   /* masked-token head; TFM_NO_ACTIVATION: the stack's */
    tfm_activation class_activation; /* classification head; TFM_NO_ACTIVATION: tanh */
} tfm__encoder_kind;

/* `read` of a family with an encoder_kind, and of one that selects a kind. */
tfm_status tfm__encoder_read(tfm__arch *arch, tfm__generation_rules *rules, const tfm__config_files *from);
tfm_status tfm__encoder_read_as(tfm__arch *arch, tfm__generation_rules *rules, const tfm__config_files *from,
                                const tfm__encoder_kind *kind);

#endif
