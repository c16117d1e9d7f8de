/* Translations from search results to the caller: results of each text, and lines joined from their sentences. */
#ifndef TFM_LIB_SENTENCE_JOIN_H
#define TFM_LIB_SENTENCE_JOIN_H

#include "model/tasks/batch.h"
#include "model/tasks/masked.h"
#include "text/line_file.h"

/* Result of a text, kept until all earlier lines are finished. */
typedef struct tfm__translation_result {
    char *text;
    tfm_hypothesis hypothesis; /* ids and log_probs are NULL without details */
    float *alignment;
    tfm__masked_word *words; /* placeholders among the tokens, in order */
} tfm__translation_result;

void tfm__translation_result_clear(tfm__translation_result *result);

/* Ids of a term of the glossary: its translation, the same with a capital first letter, and the source. */
enum { TFM__TERM_TARGET, TFM__TERM_CAPITAL, TFM__TERM_SOURCE, TFM__TERM_KINDS };

/* State of a call. Texts are the caller's lines or their sentences, in order. */
typedef struct tfm__translations {
    tfm_model *model;
    const tfm_text_options *text;
    const tfm_search_options *search; /* may be NULL */
    size_t count;                     /* number of the caller's lines */
    int n_best;
    tfm_translation_fn emit;
    void *user;
    bool detailed; /* the caller receives tokens */
    tfm__language_choice languages;
    tfm_search_options own; /* `search` with the languages */

    tfm__text_batch texts;
    const char **sentences; /* memory of `texts`, if lines are split */
    size_t *bytes, *line_of;
    tfm__string_view *spans; /* part of the caller's line of each sentence; a copy if a language code was prepended */

    tfm__masked *masked; /* [texts.count], or NULL without any placeholders */
    const char **bare;   /* [texts.count]: texts without placeholders, and their sizes */
    size_t *bare_bytes;
    tfm__line *lines, *prefixes; /* [texts.count]; prefixes may be NULL */
    int32_t **term_ids;          /* [TFM__TERM_KINDS * glossary_count], [term_counts[i]]; NULL: there are none */
    size_t *term_counts;
    tfm__translation_result *results; /* [texts.count * n_best] */
    size_t emitted, next;             /* emitted lines, and the first text of the next one */
} tfm__translations;

/* Splits lines into sentences. A bad or blank line is one text. A language code at the beginning of a line applies to
 * each sentence. */
tfm_status tfm__translations_split(tfm__translations *translations, const char *const *lines);

/* Checks the options against each other and the model; uses only `model`, `text` and `n_best` (translate.c). */
tfm_status tfm__translations_check(const tfm__translations *translations);
/* Makes the texts and encodes them. The lines and their lengths outlive them. */
tfm_status tfm__translations_encode(tfm__translations *translations, const char *const *lines);
/* Masks the placeholders in the texts (masked.c). */
tfm_status tfm__translations_mask_placeholders(tfm__translations *translations);
/* Whether a text has placeholders; and restores them in its results, using the alignments. */
bool tfm__translations_has_placeholders(const tfm__translations *translations, size_t text);
tfm_status tfm__translations_restore_placeholders(tfm__translations *translations, size_t text);
/* Translates a text that consists of placeholders: a copy, the only hypothesis. */
tfm_status tfm__translations_copy(tfm__translations *translations, size_t text);

/* Stores the hypotheses of a text, [n_best], and takes ownership of their arrays. */
tfm_status tfm__translations_keep(tfm__translations *translations, size_t text, tfm_hypothesis *items);

/* Allocates the results after encoding, and emits lines at the beginning that need no translation. */
tfm_status tfm__translations_begin(tfm__translations *translations);

/* Emits finished lines, up to the first unfinished one. */
tfm_status tfm__translations_emit(tfm__translations *translations);

/* Frees everything except the caller's memory. */
void tfm__translations_free(tfm__translations *translations);

#endif
