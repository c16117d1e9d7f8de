/* What transformers takes for granted of a tokenizer by its class. */
#ifndef TFM_LIB_HF_CLASS_H
#define TFM_LIB_HF_CLASS_H

#include "text/hf_tokenizer.h"

/* Special tokens, in the order in which transformers adds them. */
enum { TFM__BOS, TFM__EOS, TFM__UNK, TFM__SEP, TFM__PAD, TFM__CLS, TFM__MASK, TFM__SPECIALS };

typedef struct tfm__hf_class {
    const char *name;                              /* Of the class, without Tokenizer and Fast after it. */
    const char *specials[TFM__SPECIALS];           /* What the tokens are called where nobody says; NULL for none. */
    tfm__language_position language_position;      /* Of the language. */
    const char *language;                          /* Of a text where nobody says. */
    const char *language_prefix, *language_suffix; /* What stands around a language's code in its token. */
    const char *codes;                             /* The languages that it has by itself, a blank after each. */
} tfm__hf_class;

/* The keys of the special tokens in tokenizer_config.json, such as "bos_token". */
extern const char *const tfm__special_keys[TFM__SPECIALS];

/* The class that tokenizer_config.json names, else the one of config.json's model_type in `dir`; *out is NULL if
 * neither names one that is known. `config` may be NULL. */
tfm_status tfm__hf_class_find(const tfm__hf_class **out, const json_t *config, const char *dir);
const tfm__hf_class *tfm__hf_class_by_name(const char *name);

#endif
