/* Defaults of transformers by tokenizer class. */
#ifndef TFM_LIB_HF_CLASS_H
#define TFM_LIB_HF_CLASS_H

#include "text/hf_tokenizer.h"

/* Special tokens, in the order in which transformers adds them. */
enum { TFM__BOS, TFM__EOS, TFM__UNK, TFM__SEP, TFM__PAD, TFM__CLS, TFM__MASK, TFM__SPECIALS };

typedef struct tfm__hf_class {
    const char *name;                              /* The class, without Tokenizer and Fast. */
    const char *specials[TFM__SPECIALS];           /* Default names; NULL for none. */
    tfm__language_position language_position;      /* Position of the language token. */
    const char *language;                          /* Default language of a text. */
    const char *language_prefix, *language_suffix; /* Prefix and suffix of a language code in its token. */
    const char *codes;                             /* Built-in languages, a blank after each. */
} tfm__hf_class;

/* The keys of the special tokens in tokenizer_config.json, such as "bos_token". */
extern const char *const tfm__special_keys[TFM__SPECIALS];

/* The class of tokenizer_config.json, else of config.json's model_type in `dir`; *out is NULL if neither names a known
 * one. `config` may be NULL. */
tfm_status tfm__hf_class_find(const tfm__hf_class **out, const json_t *config, const char *dir);
const tfm__hf_class *tfm__hf_class_by_name(const char *name);

#endif
