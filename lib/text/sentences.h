/* Where the sentences of a line begin and end. */
#ifndef TFM_LIB_SENTENCES_H
#define TFM_LIB_SENTENCES_H

#include "base/base.h"
#include "tfm/text.h"

/* The rules of one language. One thread at a time may use them. */
typedef struct tfm__sentence_splitter tfm__sentence_splitter;

/* Opens the rules of a language. NULL, or a language that has no rules of its own, gives the rules for all. */
tfm_status tfm__sentence_splitter_open(tfm__sentence_splitter **out, const char *language);
void tfm__sentence_splitter_free(tfm__sentence_splitter **splitter);

/* Does what tfm_text_sentences does, with rules that are open already. */
tfm_status tfm__sentence_splitter_run(tfm__sentence_splitter *splitter, tfm_sentence **sentences, size_t *count,
                                      const char *line, size_t bytes);

/* Whether two sentences that stood together without a blank need one when they are translated: where both are written
 * with spaces, unlike Chinese or Japanese. */
bool tfm__sentences_need_space(const char *before, const char *after);

#endif
