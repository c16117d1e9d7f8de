/* config.json of encoders: one reader, and a table for what a family differs by. */
#ifndef TFM_LIB_ENCODER_KEYS_H
#define TFM_LIB_ENCODER_KEYS_H

#include "model/arch/config_keys.h"

/* An integer key from 1 on, and what it is where it is absent. */
typedef struct tfm__size_key {
    const char *key;
    int *value;
    int fallback, high;
} tfm__size_key;

tfm_status tfm__read_sizes(const tfm__size_key *keys, size_t count, const tfm__config_files *from);

/* Refuses heads that do not divide the width; `key` and `width_key` are the names of the two. */
tfm_status tfm__check_heads(const tfm__config_files *from, const char *key, int heads, const char *width_key,
                            int width);

/* Refuses what would be other arithmetic under the same names: a decoder, positions that are not absolute. */
tfm_status tfm__check_encoder(const tfm__config_files *from);

/* The epsilon of norms; stays as it is where the key is absent. */
tfm_status tfm__read_epsilon(float *out, const tfm__config_files *from, const char *key);

/* Rules of a model that writes nothing: the padding, which is `pad` where no key says it. */
tfm_status tfm__read_padding(tfm__generation_rules *rules, const tfm__config_files *from, int pad, int vocabulary);

/* Which head `architectures` speaks of, with the number of its classes; and with that arch->headless and
 * arch->tied_embeddings. */
tfm_status tfm__read_encoder_head(tfm__arch *arch, const tfm__config_files *from);

/* What one family of post-norm encoders has of its own, and its defaults. A zero is what BERT does. */
typedef struct tfm__encoder_kind {
    const char *width_key, *layers_key, *heads_key, *feed_forward_key, *activation_key; /* NULL: BERT's keys */
    bool common_keys;      /* BERT's keys are read as well, and win, as in transformers */
    bool fixed_epsilon;    /* there is no `layer_norm_eps` */
    bool no_token_types;   /* there is no `type_vocab_size` */
    bool narrow;           /* there is `embedding_size`, */
    bool always_projected; /* and a matrix from it to the width even where both are the same */
    bool grouped;          /* there are `num_hidden_groups` and `inner_group_num` */
    bool relative;         /* scores have T5's bias by distance */
    int vocabulary, pad, width, layers, heads, feed_forward; /* defaults */
    tfm_activation activation;                               /* a default, too */
    enum {
        TFM__POSITIONS_FROM_0,
        TFM__POSITIONS_AFTER_PAD,  /* position 0 is the row after that of `pad_token_id`, */
        TFM__POSITIONS_AFTER_FIXED /* or after that of `pad` below, whatever the key is */
    } position_base;
    tfm_activation mlm_activation;   /* of the masked-token head; TFM_NO_ACTIVATION: that of the stack */
    tfm_activation class_activation; /* of the classification head; TFM_NO_ACTIVATION: tanh */
} tfm__encoder_kind;

/* `read` of a family with an encoder_kind. */
tfm_status tfm__encoder_read(tfm__arch *arch, tfm__generation_rules *rules, const tfm__config_files *from);

#endif
