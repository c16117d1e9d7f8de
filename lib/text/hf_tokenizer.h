/* A tokenizer as Hugging Face's library `tokenizers` has them, of its file or of the older ones. */
#ifndef TFM_LIB_HF_TOKENIZER_H
#define TFM_LIB_HF_TOKENIZER_H

#include "text/detokenize.h"
#include "text/hf_added_tokens.h"
#include "text/hf_template.h"
#include "text/normalize.h"
#include "text/subword_model.h"
#include "text/pretokenize.h"

/* Where a model wants the language of a text. */
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
    tfm__language_position language_position;      /* of the language; `template` does not count then */
    const char *language_prefix, *language_suffix; /* what stands around a language's code in its token */
    const char *codes;  /* the languages that the class has by itself, a blank after each; or NULL */
    char *languages[2]; /* by tfm_side: the ones that nobody has to name; or NULL */
    int32_t eos;        /* which ends a text with a language */
    bool legacy_files;  /* made of files from before tokenizer.json */
} tfm__hf_tokenizer;

/* Fills a tokenizer from what a tokenizer.json holds, but for a model that it has already; sentences name `path`. The
 * tokens that are to be added besides come before tfm__hf_finish. */
tfm_status tfm__hf_read(tfm__hf_tokenizer *out, const json_t *root, const char *path);
tfm_status tfm__hf_finish(tfm__hf_tokenizer *tokenizer);

/* Puts into tokenizer.json, `root`, what classes of transformers make anew by tokenizer_config.json, which may be NULL:
 * the normalizer of BERT's, and whether a blank is put before texts of bytes. */
tfm_status tfm__hf_override(json_t *root, const json_t *config, const char *dir);

/* Takes what tokenizer_config.json and special_tokens_map.json of `dir` say, and fills *info. `config` is the first of
 * them, or NULL. */
tfm_status tfm__hf_configure(tfm__hf_tokenizer *tokenizer, tfm_tokenizer_info *info, const json_t *config,
                             const char *dir);

/* What transformers makes of the older files in `dir`, in the form of a tokenizer.json; a model that has no such form
 * is in *model. *name is the file that sentences name, for free(). `config` is tokenizer_config.json, or NULL. */
tfm_status tfm__hf_convert(json_t **out, tfm__subword_model *model, char **name, const json_t *config, const char *dir);
/* Whether there are such files. */
bool tfm__hf_convertible(const char *dir);

#endif
