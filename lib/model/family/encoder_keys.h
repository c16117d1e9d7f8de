/* What the families of encoders share in config.json. */
#ifndef TFM_LIB_ENCODER_KEYS_H
#define TFM_LIB_ENCODER_KEYS_H

#include "model/family/config_keys.h"

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
tfm_status tfm__read_padding(tfm__rules *rules, const tfm__config_files *from, int pad, int vocabulary);

/* Which head `architectures` speaks of, with the number of its classes; and with that arch->headless and
 * arch->tied_output. */
tfm_status tfm__read_encoder_head(tfm__arch *arch, const tfm__config_files *from);

#endif
