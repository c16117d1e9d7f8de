/* Converts older files to a tokenizer.json, as transformers does: hf_convert.c, convert_sentencepiece.c for
 * SentencePiece models, with helpers in convert_build.c. */
#ifndef TFM_LIB_HF_CONVERT_H
#define TFM_LIB_HF_CONVERT_H

#include "text/hf_class.h"

typedef struct tfm__conversion {
    const json_t *config; /* tokenizer_config.json, or NULL */
    json_t *map;          /* special_tokens_map.json if it applies, or NULL */
    const char *dir;
    char *path;                /* of the file with the pieces */
    const tfm__hf_class *kind; /* never NULL */
    json_t *root;              /* the result */
    tfm__subword_model *model; /* if that has no form in `root` */
    bool failed;               /* out of memory */
} tfm__conversion;

/* Whether the class has this name. */
bool tfm__convert_is_class(const tfm__conversion *c, const char *name);
/* The name of a special token, by its index in tfm__special_keys; NULL if there is none. */
const char *tfm__convert_special_token(const tfm__conversion *c, int special);
/* A boolean of tokenizer_config.json. */
bool tfm__convert_flag(const tfm__conversion *c, const char *key, bool fallback);
/* Sets a section, and takes ownership. A NULL value means out of memory, as in the next two. */
void tfm__convert_set_section(tfm__conversion *c, const char *section, json_t *value);
/* Appends to a list, or adds to an object, and takes ownership. */
void tfm__convert_append(tfm__conversion *c, json_t *list, json_t *value);
void tfm__convert_set_key(tfm__conversion *c, json_t *object, const char *key, json_t *value); /* no-op without a key */
/* JSON written with ' for ". */
json_t *tfm__convert_json(const char *text);
/* The id of a piece of the model, or -1. */
json_int_t tfm__convert_piece_id(const tfm__conversion *c, const char *piece);
/* Adds a token. */
void tfm__convert_add_token(tfm__conversion *c, const char *text, bool special, bool lstrip);

/* Adds a special token per code, with `sign` on both sides; each code has a blank after it. If `vocab` is a list of
 * pieces, adds them there too. */
void tfm__convert_add_languages(tfm__conversion *c, json_t *vocab, const char *codes, const char *sign);
extern const char tfm__language_codes_mbart[], tfm__language_codes_mbart50[], tfm__language_codes_m2m[],
    tfm__language_codes_wmt21[], tfm__language_codes_nllb[];

/* In tfm__convert_set_template: the two texts. */
extern const char tfm__convert_seq_a[], tfm__convert_seq_b[];
/* The templates of one text, and of two: token names, NULL-terminated. */
void tfm__convert_set_template(tfm__conversion *c, const char *const *single, const char *const *pair);
/* The same as configured by tokenizer_config.json. */
void tfm__convert_set_bos_eos(tfm__conversion *c);

/* Converts a SentencePiece model. */
tfm_status tfm__convert_sentencepiece(tfm__conversion *c);

/* A model segmented by SentencePiece itself, with the ids of a vocab.json; missing pieces are `unk`. */
tfm_status tfm__spm_vocab_open(tfm__subword_model *out, const char *vocabulary, const char *spm, const char *unk);

#endif
