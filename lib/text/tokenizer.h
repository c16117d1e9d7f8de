/* Internal functions of tokenizers. */
#ifndef TFM_LIB_TOKENIZER_H
#define TFM_LIB_TOKENIZER_H

#include <pthread.h>
#include "base/base.h"
#include "text/grammar/matcher.h"
#include "tfm/text.h"

/* The longest line that is encoded or split into sentences. */
enum { TFM__MAX_LINE = 64 << 20 };

/* tfm_tokenizer_open on another thread, while this one does other work. `dir` stays valid until the end, which must be
 * called; the error message is then that of this thread. */
typedef struct tfm__tokenizer_opening {
    const char *dir;
    pthread_t thread;
    bool started;
    tfm_tokenizer *tokenizer;
    tfm_status status;
    char message[TFM__MESSAGE_MAX];
} tfm__tokenizer_opening;
void tfm__tokenizer_open_begin(tfm__tokenizer_opening *opening, const char *dir);
tfm_status tfm__tokenizer_open_end(tfm_tokenizer **out, tfm__tokenizer_opening *opening);

/* Adds a reference, released by tfm_tokenizer_free. Returns the tokenizer. */
tfm_tokenizer *tfm__tokenizer_retain(const tfm_tokenizer *tokenizer);

/* tfm_tokenizer_encode; with `alpha` > 0 each call samples a segmentation, as described at tfm__spm_sample. */
tfm_status tfm__tokenizer_encode_sampled(const tfm_tokenizer *tokenizer, int32_t **ids, size_t *count, tfm_side side,
                                         const char *line, size_t bytes, float alpha);

/* Encoding rejects ids from these on, by side: a model's embeddings have no rows for them. */
void tfm__tokenizer_set_vocab_limit(tfm_tokenizer *tokenizer, int32_t source, int32_t target);

/* Whether it is a Marian tokenizer. */
bool tfm__tokenizer_is_marian(const tfm_tokenizer *tokenizer);

/* How many of `count` ids at the end have no final text until others follow: byte pieces, which only decode as a whole
 * run. */
size_t tfm__tokenizer_incomplete(const tfm_tokenizer *tokenizer, const int32_t *ids, size_t count);

/* The bytes of the tokens of the target side, for constrained decoding, with `vocabulary` entries: as many as logits.
 * Special tokens have none, so they are never allowed. The bytes of tokens are those of the decoded text, with these
 * exceptions: decoders that drop a blank at the beginning of a text (SentencePiece, WordPiece) drop that of the first
 * token, which is in its bytes; and `clean_up_tokenization_spaces` is not applied. */
tfm_status tfm__tokenizer_token_trie(tfm__token_trie **out, const tfm_tokenizer *tokenizer, size_t vocabulary);

/* The length in bytes of a leading `>>xxx<<`, the language code of Marian's models; 0 if there is none. */
size_t tfm__language_code_bytes(const char *line, size_t bytes);

#endif
