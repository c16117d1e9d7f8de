/* Glossary: terms of the source whose translations are given. */
#ifndef TFM_LIB_GLOSSARY_H
#define TFM_LIB_GLOSSARY_H

#include "model/tasks/sentence_join.h"

/* Sets need[i] for the terms of a source text; the longest at each place (glossary_terms.c). */
void tfm__glossary_find(bool *need, const tfm_glossary_term *terms, size_t count, const char *text, size_t bytes);
/* Whether a text has the term as a word or, without `whole`, as the beginning of one. */
bool tfm__glossary_has(const char *text, const char *term, bool whole);

/* Whether the character is of a script without blanks between words. */
bool tfm__is_unspaced(const char *text);

/* Checks the terms and encodes their translations; freed by tfm__translations_free. */
tfm_status tfm__glossary_begin(tfm__translations *translations);

/* Replaces the hypothesis of a text by the best found one with the translations of the text's terms, each as the model
 * writes it or forced at one of the beginnings of words. */
tfm_status tfm__glossary_apply(const tfm__translations *translations, tfm_model *on, const tfm__line *line,
                               tfm_hypothesis *hypothesis);

#endif
