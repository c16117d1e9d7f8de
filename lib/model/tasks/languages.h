/* Languages of a call: tokens that mark the source language and select the target language. */
#ifndef TFM_LIB_LANGUAGES_H
#define TFM_LIB_LANGUAGES_H

#include "model/core/model.h"

typedef struct tfm__language_choice {
    const char *source, *target; /* tfm_encode_options.language of each side, or NULL */
    char *before;                /* prefix of each source text, or NULL */
    int32_t first, start;        /* forced first token, and decoder start token; -1: by the rules */
    bool plain;                  /* target texts have no special tokens except EOS */
} tfm__language_choice;

/* Reads languages and prefix from the options. TFM_ERROR_ARGUMENT names an unknown language, and the known ones. Free
 * *out by tfm__language_choice_free, also after a failure. */
tfm_status tfm__language_choice_read(tfm__language_choice *out, const tfm_model *model,
                                     const tfm_text_options *options);
void tfm__language_choice_free(tfm__language_choice *languages);

/* Sets *out to `given` (may be NULL) with the target language. */
void tfm__language_choice_apply(tfm_search_options *out, const tfm__language_choice *languages,
                                const tfm_search_options *given);

#endif
