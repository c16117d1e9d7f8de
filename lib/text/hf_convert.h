/* Making a tokenizer.json of older files, as transformers does: hf_convert.c, for SentencePiece's models
 * convert_sentencepiece.c, with the helpers of convert_build.c. */
#ifndef TFM_LIB_HF_CONVERT_H
#define TFM_LIB_HF_CONVERT_H

#include "text/hf_class.h"

typedef struct tfm__conversion {
    const json_t *config; /* tokenizer_config.json, or NULL */
    json_t *map;          /* special_tokens_map.json where that counts, or NULL */
    const char *dir;
    char *path;                /* of the file with the pieces */
    const tfm__hf_class *kind; /* never NULL */
    json_t *root;              /* what it becomes */
    tfm__subword_model *model; /* where that has no form in `root` */
    bool failed;               /* memory gave out for a part of it */
} tfm__conversion;

/* Whether the class has this name. */
bool tfm__convert_is_class(const tfm__conversion *c, const char *name);
/* What a special token is called, by its place in tfm__special_keys; NULL if there is none. */
const char *tfm__convert_special_token(const tfm__conversion *c, int special);
/* A choice of tokenizer_config.json. */
bool tfm__convert_flag(const tfm__conversion *c, const char *key, bool fallback);
/* Puts a section in its place, and takes it. A value that is NULL is want of memory, as in the next two. */
void tfm__convert_set_section(tfm__conversion *c, const char *section, json_t *value);
/* Puts a value at the end of a list, or into an object, and takes it. */
void tfm__convert_append(tfm__conversion *c, json_t *list, json_t *value);
void tfm__convert_set_key(tfm__conversion *c, json_t *object, const char *key,
                          json_t *value); /* nothing without a key */
/* JSON that is written with ' for ". */
json_t *tfm__convert_json(const char *text);
/* The id of a piece of the model, or -1. */
json_int_t tfm__convert_piece_id(const tfm__conversion *c, const char *piece);
/* Adds a token. */
void tfm__convert_add_token(tfm__conversion *c, const char *text, bool special, bool lstrip);

/* Adds a special token for each of the codes, which have a blank after each, with `sign` on both sides. If `vocab` is
 * a list of pieces it gets them too. */
void tfm__convert_add_languages(tfm__conversion *c, json_t *vocab, const char *codes, const char *sign);
extern const char tfm__language_codes_mbart[], tfm__language_codes_mbart50[], tfm__language_codes_m2m[],
    tfm__language_codes_wmt21[], tfm__language_codes_nllb[];

/* In tfm__convert_set_template: the two texts. */
extern const char tfm__convert_seq_a[], tfm__convert_seq_b[];
/* What goes around one text, and around two: names of tokens, and NULL at the end. */
void tfm__convert_set_template(tfm__conversion *c, const char *const *single, const char *const *pair);
/* That where only tokenizer_config.json asks for something. */
void tfm__convert_set_bos_eos(tfm__conversion *c);

/* Converts a SentencePiece model. */
tfm_status tfm__convert_sentencepiece(tfm__conversion *c);

/* A model that SentencePiece itself cuts for; the ids are those of a vocab.json, and what that does not have is
 * `unk`. */
tfm_status tfm__spm_vocab_open(tfm__subword_model *out, const char *vocabulary, const char *spm, const char *unk);

#endif
