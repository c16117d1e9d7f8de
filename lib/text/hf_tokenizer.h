/* A tokenizer of Hugging Face's library `tokenizers`, from its file or the older ones. */
#ifndef TFM_LIB_HF_TOKENIZER_H
#define TFM_LIB_HF_TOKENIZER_H

#include "text/detokenize.h"
#include "text/hf_added_tokens.h"
#include "text/hf_template.h"
#include "text/normalize.h"
#include "text/subword_model.h"
#include "text/pretokenize.h"

/* Position of the language token. */
typedef enum tfm__language_position {
    TFM__LANGUAGE_NONE,
    TFM__LANGUAGE_FIRST,
    TFM__LANGUAGE_LAST
} tfm__language_position;

typedef struct tfm__hf_tokenizer {
    tfm__normalizer *normalizer;
    tfm__pretokenizer *pretokenizer;
    tfm__subword_model model;
    tfm__hf_added_tokens added;
    tfm__template template;
    tfm__detokenizer *decoder;
    bool clean_up;                                 /* after the decoder, as tokenizer_config.json says */
    tfm__language_position language_position;      /* of the language; overrides `template` */
    const char *language_prefix, *language_suffix; /* prefix and suffix of a language code in its token */
    const char *codes;                             /* built-in languages of the class, a blank after each; or NULL */
    char *languages[2];                            /* by tfm_side: default languages; or NULL */
    int32_t eos;                                   /* ends a text with a language */
    bool legacy_files;                             /* converted from files older than tokenizer.json */
} tfm__hf_tokenizer;

/* Fills a tokenizer from the content of a tokenizer.json, except for a model that is already set; error messages name
 * `path`. Add other tokens before tfm__hf_finish. */
tfm_status tfm__hf_read(tfm__hf_tokenizer *out, const json_t *root, const char *path);
tfm_status tfm__hf_finish(tfm__hf_tokenizer *tokenizer);

/* Hands the tokenizer over to `out` if `status` is TFM_OK, else frees it; NULL is ignored. Returns `status`. */
typedef struct tfm__tokenizer_parts tfm__tokenizer_parts;
tfm_status tfm__hf_hand_over(tfm__tokenizer_parts *out, tfm__hf_tokenizer *tokenizer, tfm_status status);

/* Loads tokenizer.json of `dir`, or converts the older files (*older); then *model may be set (see tfm__hf_convert).
 * *path is the file for error messages, for free(). */
tfm_status tfm__hf_load(json_t **root, tfm__subword_model *model, bool *older, char **path, const json_t *config,
                        const char *dir);

/* Applies to `root`, a tokenizer.json, what classes of transformers rebuild from tokenizer_config.json (may be NULL):
 * BERT's normalizer, and the prefix space of byte-level texts. */
tfm_status tfm__hf_override(json_t *root, const json_t *config, const char *dir);

/* Applies tokenizer_config.json and special_tokens_map.json of `dir`, and fills *info. `config` is the former, or
 * NULL. */
tfm_status tfm__hf_configure(tfm__hf_tokenizer *tokenizer, tfm_tokenizer_info *info, const json_t *config,
                             const char *dir);

/* Converts the older files in `dir` to a tokenizer.json as transformers does; a model without such a form is in *model.
 * *name is the file for error messages, for free(). `config` is tokenizer_config.json, or NULL. */
tfm_status tfm__hf_convert(json_t **out, tfm__subword_model *model, char **name, const json_t *config, const char *dir);
/* Whether `dir` has such files. */
bool tfm__hf_convertible(const char *dir);

#endif
