/* Multimodal models with a language model of a supported family: its configuration is an object in config.json, its
 * tensors have a separate prefix, and tensors of the other parts are ignored. A class takes one line in the table of
 * multimodal.c, and one in lib/text/hf_class.c if its tokenizer has only the older files. */
#ifndef TFM_LIB_MULTIMODAL_H
#define TFM_LIB_MULTIMODAL_H

#include "model/arch/config_keys.h"

struct tfm__multimodal {
    const char *type;          /* `model_type` of config.json */
    const char *class_name;    /* generating class in `architectures` */
    const char *const *texts;  /* supported `model_type`s of `text_config`, the default first, NULL-terminated */
    bool fixed;                /* `text_config` always has the default type */
    const char *absent;        /* JSON of a missing `text_config`; NULL: an empty object; */
    bool flat;                 /* or its keys are in the outer object */
    const char *defaults;      /* JSON of defaults that differ from the text's family, or NULL */
    bool sections;             /* M-RoPE ("mrope"): pairs of columns use one of three positions, equal in text */
    bool tied;                 /* default of the outer `tie_word_embeddings`; */
    bool tied_within;          /* if that is false, the inner one counts */
    const char *const *unread; /* keys of `text_config` that the class ignores, NULL-terminated */
    const char *const *aside;  /* tensor prefixes of the other parts, NULL-terminated */
};

typedef struct tfm__multimodal tfm__multimodal;

/* If config.json is multimodal, sets *out, replaces from->config by the text's configuration in the form of a text-only
 * model, and sets from->outer to the whole. Else sets *out to NULL. An unsupported text model or a class of another
 * program is TFM_ERROR_UNSUPPORTED; a `text_config` that is not an object is TFM_ERROR_FORMAT. */
tfm_status tfm__multimodal_open(const tfm__multimodal **out, tfm__config_files *from);

/* The `model_type` of the index-th multimodal class; NULL after the last. */
const char *tfm__multimodal_type(size_t index);

/* Whether a stored tensor belongs to another part. */
bool tfm__multimodal_ignores(const tfm__multimodal *wrapper, const char *name);

/* Prefixes of the text's tensors: of those with the family's own prefix, and of the others, such as the output
 * projection. NULL-terminated, the current spelling first. */
extern const char *const tfm__multimodal_text_prefixes[], *const tfm__multimodal_other_prefixes[];

#endif
