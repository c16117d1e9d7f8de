/* A family of models: how its files say what tfm__arch says. One file a family, and one line in family.c. */
#ifndef TFM_LIB_FAMILY_H
#define TFM_LIB_FAMILY_H

#include <jansson.h>
#include "base/base.h"
#include "model/arch.h"
#include "model/generate/rules.h"

/* What a parameter does in the model. */
typedef enum tfm__role {
    TFM__NO_ROLE,
    /* The tables: (V, E) each. */
    TFM__SHARED_TABLE, /* the name under which all of the next three are stored where they are one table */
    TFM__SOURCE_TABLE,
    TFM__TARGET_TABLE,
    TFM__OUTPUT_TABLE,
    /* Of a stack. */
    TFM__EMBEDDING_NORM,
    TFM__FINAL_NORM,
    TFM__POSITIONS,
    /* Of a block. */
    TFM__SELF_QUERY,
    TFM__SELF_KEY,
    TFM__SELF_VALUE,
    TFM__SELF_OUT,
    TFM__SELF_NORM,
    TFM__CROSS_QUERY,
    TFM__CROSS_KEY,
    TFM__CROSS_VALUE,
    TFM__CROSS_OUT,
    TFM__CROSS_NORM,
    TFM__UP,
    TFM__GATE,
    TFM__DOWN,
    TFM__FEED_FORWARD_NORM,
    TFM__OUTPUT_BIAS, /* (1, V) in files */
    TFM__ROLES
} tfm__role;

/* How one role is stored. Names may hold one `#`, which stands for the layer's number. Roles of one name are parts of
 * one tensor, one after the other along the outputs, in the order of the roles. */
typedef struct tfm__naming {
    const char *weight, *bias; /* a norm's gamma and beta; NULL: the family has none */
    bool transposed;           /* matrices: stored (inputs, outputs) */
} tfm__naming;

/* The files that say what a model is. */
typedef struct tfm__config_files {
    json_t *config, *generation; /* generation: NULL where the directory has none */
    char *config_path, *generation_path;
} tfm__config_files;

typedef struct tfm__family {
    const char *name;        /* `model_type` of config.json */
    const char *class_name;  /* the beginning of the names in its `architectures` */
    const char *base_prefix; /* in front of most names; missing in files of models saved without their head */
    tfm_status (*read)(tfm__arch *arch, tfm__rules *rules, const tfm__config_files *from);
    /* config.json of such a model, new, or NULL without memory. */
    json_t *(*write)(const tfm__arch *arch, const tfm__rules *rules);
    const tfm__naming *encoder, *decoder; /* [TFM__ROLES]; tables and the output's bias are in the decoder's */
} tfm__family;

extern const tfm__family tfm__family_marian;

/* Reads the directory's config.json and generation_config.json. A family that nobody has registered, or a feature that
 * no kernel has, is TFM_ERROR_UNSUPPORTED; a key with a wrong type or an impossible value is TFM_ERROR_FORMAT with
 * file, key, value and what is allowed; a missing config.json is TFM_ERROR_IO. What is not known is ignored. */
tfm_status tfm__family_read(const tfm__family **family, tfm__arch *arch, tfm__rules *rules, const char *dir);

#endif
