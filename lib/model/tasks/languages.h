/* The languages of a call: how source lines say theirs, and how a model is told which one to write. */
#ifndef TFM_LIB_LANGUAGES_H
#define TFM_LIB_LANGUAGES_H

#include "model/core/model.h"

typedef struct tfm__language_choice {
    const char *source, *target; /* tfm_encode_options.language of either side, or NULL */
    char *before;                /* what stands before each source text, or NULL */
    int32_t first, start;        /* the first token that is written, and the one before it; -1: as the rules say */
    bool plain;                  /* target texts take nothing around them but the end */
} tfm__language_choice;

/* Reads the options' languages and prefix. TFM_ERROR_ARGUMENT names a language that the model does not have, and those
 * that it has. Free *out with tfm__language_choice_free, also after a failure. */
tfm_status tfm__language_choice_read(tfm__language_choice *out, const tfm_model *model,
                                     const tfm_text_options *options);
void tfm__language_choice_free(tfm__language_choice *languages);

/* *out gets the options of a search that writes the language; `given` may be NULL. */
void tfm__language_choice_apply(tfm_search_options *out, const tfm__language_choice *languages,
                                const tfm_search_options *given);

#endif
