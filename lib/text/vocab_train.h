/* Vocabulary training shared by the tokenizer writers. */
#ifndef TFM_LIB_VOCAB_TRAIN_H
#define TFM_LIB_VOCAB_TRAIN_H

#include "base/base.h"
#include "tfm/text.h"

/* Replaces zeros by defaults, and rejects invalid options and an unwritable folder. */
tfm_status tfm__vocab_train_check_options(tfm_vocabulary_options *options, const char *dir);

/* Trains pieces on the lines of `count` files with checked options. *out has the content of a SentencePiece file, for
 * free(), also after a failure: <unk> is 0, <s> is 1, </s> is 2. */
tfm_status tfm__vocab_train_pieces(char **out, size_t *bytes, const char *const *files, size_t count,
                                   const tfm_vocabulary_options *options);

#endif
