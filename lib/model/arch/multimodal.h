/* Models of several parts, one of which is a language model of a family that tfm runs: its configuration is an object
 * within config.json, its tensors have a prefix of their own, and those of the other parts are left aside. One line of
 * the table in multimodal.c is all that such a class takes, and one in lib/text/hf_class.c where its tokenizer may be
 * of the older files alone. */
#ifndef TFM_LIB_MULTIMODAL_H
#define TFM_LIB_MULTIMODAL_H

#include "model/arch/config_keys.h"

struct tfm__multimodal {
    const char *type;         /* The `model_type` of config.json. */
    const char *class_name;   /* The class that writes, as `architectures` has it. */
    const char *const *texts; /* The `model_type`s of its `text_config` that are run, the default first, NULL last. */
    bool fixed;               /* `text_config` is of that default whatever it says itself. */
    const char *absent;       /* What `text_config` is where there is none, in JSON; NULL: an empty object; */
    bool flat;                /* or its keys stand beside those of the whole then. */
    const char *defaults; /* What its keys are by themselves, in JSON, where that is not as in the text's own family;
                             or NULL. */
    bool sections;        /* Pairs of columns turn by one of three positions, which text has all alike: "mrope". */
    bool tied;            /* The default of `tie_word_embeddings`, which stands beside `text_config`; */
    bool tied_within;     /* where that is false, the one within counts. */
    const char *const *unread; /* Keys of `text_config` that the class does not obey, NULL last. */
    const char *const *aside;  /* How the names of the other parts' tensors begin, NULL last. */
};

typedef struct tfm__multimodal tfm__multimodal;

/* Where config.json is that of a wrapper, sets *out to it, puts its text's configuration in the place of from->config,
 * as a model of that text alone would have it, and the whole into from->outer. Else sets *out to NULL. A text that is
 * not run, and a class of another program, are TFM_ERROR_UNSUPPORTED; a `text_config` that is no object is
 * TFM_ERROR_FORMAT. */
tfm_status tfm__multimodal_open(const tfm__multimodal **out, tfm__config_files *from);

/* The `model_type`s of all wrappers, one at a time; NULL after the last. */
const char *tfm__multimodal_type(size_t index);

/* Whether a stored tensor belongs to another part. */
bool tfm__multimodal_ignores(const tfm__multimodal *wrapper, const char *name);

/* Where files have the tensors of the text that begin with its family's own prefix, and the others, such as the output
 * projection: NULL last, the spelling of today first. */
extern const char *const tfm__multimodal_text_prefixes[], *const tfm__multimodal_other_prefixes[];

#endif
