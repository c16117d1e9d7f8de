/* Learning the pieces of texts: what the writers of a tokenizer's files share. */
#ifndef TFM_LIB_VOCAB_TRAIN_H
#define TFM_LIB_VOCAB_TRAIN_H

#include "base/base.h"
#include "tfm/text.h"

/* Puts the defaults in the place of zeros, and refuses options that cannot be, and a folder that cannot be written. */
tfm_status tfm__vocab_train_check_options(tfm_vocabulary_options *options, const char *dir);

/* Learns pieces of the lines of `count` files by settled options. *out has the content of a SentencePiece file, which
 * the caller frees with free(), also after a failure: <unk> is 0, <s> is 1, </s> is 2. */
tfm_status tfm__vocab_train_pieces(char **out, size_t *bytes, const char *const *files, size_t count,
                                   const tfm_vocabulary_options *options);

#endif
