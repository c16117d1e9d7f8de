/* Translations of lines on their way from the search to the caller: what was found for each text, and lines that are
 * put together from their sentences. */
#ifndef TFM_LIB_SENTENCE_JOIN_H
#define TFM_LIB_SENTENCE_JOIN_H

#include "model/tasks/batch.h"
#include "model/tasks/masked.h"
#include "text/line_file.h"

/* What was found for one text, kept until all lines before its own are done. */
typedef struct tfm__translation_result {
    char *text;
    tfm_hypothesis hypothesis; /* ids and log_probs NULL where nobody asks for details */
    float *alignment;
    tfm__masked_word *words; /* of the placeholders, where they stand among the tokens; in order */
} tfm__translation_result;

void tfm__translation_result_clear(tfm__translation_result *result);

/* One call. Texts are the caller's lines, or their sentences, in order. */
typedef struct tfm__translations {
    tfm_model *model;
    const tfm_text_options *text;
    const tfm_search_options *search; /* may be NULL */
    size_t count;                     /* of the caller's lines */
    int n_best;
    tfm_translation_fn emit;
    void *user;
    bool detailed; /* the caller is told of tokens */
    tfm__language_choice languages;
    tfm_search_options own; /* `search` with the languages */

    tfm__text_batch texts;
    const char **sentences; /* what `texts` refers to, where lines are split */
    size_t *bytes, *line_of;
    tfm__string_view
        *spans; /* what of the caller's line each of them is; with a language code before it, it is a copy */

    tfm__masked *masked; /* [texts.count], or NULL where no text has placeholders */
    const char **bare;   /* [texts.count]: the texts without them, and their bytes */
    size_t *bare_bytes;
    tfm__line *lines, *prefixes;      /* [texts.count]; prefixes may be NULL */
    tfm__translation_result *results; /* [texts.count * n_best] */
    size_t emitted, next;             /* lines that are, and the first text of the next one */
} tfm__translations;

/* Makes the texts of the lines' sentences. A line that is bad or blank is one text. The language code that a line
 * begins with stands before each of its sentences. */
tfm_status tfm__translations_split(tfm__translations *translations, const char *const *lines);

/* Whether options go together and with the model; needs `model`, `text` and `n_best` alone (translate.c). */
tfm_status tfm__translations_check(const tfm__translations *translations);
/* Makes the texts that are translated, and their ids. The lines and their lengths outlive them. */
tfm_status tfm__translations_encode(tfm__translations *translations, const char *const *lines);
/* Takes the placeholders out of the texts (masked.c). */
tfm_status tfm__translations_mask_placeholders(tfm__translations *translations);
/* Whether a text has some; and puts them into its results, whose alignments are there. */
bool tfm__translations_has_placeholders(const tfm__translations *translations, size_t text);
tfm_status tfm__translations_restore_placeholders(tfm__translations *translations, size_t text);
/* Makes a text that has nothing else its own translation, the only one. */
tfm_status tfm__translations_copy(tfm__translations *translations, size_t text);

/* Keeps what was found for one text, [n_best], and takes over its arrays. */
tfm_status tfm__translations_keep(tfm__translations *translations, size_t text, tfm_hypothesis *items);

/* Makes room for the results, when all texts are encoded; lines that are not translated at the beginning are emitted.
 */
tfm_status tfm__translations_begin(tfm__translations *translations);

/* Emits the lines that are done, up to the first one that is not. */
tfm_status tfm__translations_emit(tfm__translations *translations);

/* Frees all but what is the caller's. */
void tfm__translations_free(tfm__translations *translations);

#endif
