/* Sentence splitting of a line. */
#ifndef TFM_LIB_SENTENCES_H
#define TFM_LIB_SENTENCES_H

#include "base/base.h"
#include "tfm/text.h"

/* The rules of one language. Not thread-safe. */
typedef struct tfm__sentence_splitter tfm__sentence_splitter;

/* Opens the rules of a language. NULL, or a language without rules, gives the default rules. */
tfm_status tfm__sentence_splitter_open(tfm__sentence_splitter **out, const char *language);
void tfm__sentence_splitter_free(tfm__sentence_splitter **splitter);

/* tfm_text_sentences with open rules. */
tfm_status tfm__sentence_splitter_run(tfm__sentence_splitter *splitter, tfm_sentence **sentences, size_t *count,
                                      const char *line, size_t bytes);

/* Whether two sentences without a blank between them need one when translated: both are in scripts with spaces, unlike
 * Chinese or Japanese. */
bool tfm__sentences_need_space(const char *before, const char *after);

#endif
