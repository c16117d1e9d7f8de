/* Text to token ids and back.
 *
 *     tfm_tokenizer *tokenizer;
 *     if (tfm_tokenizer_open(&tokenizer, "opus-mt-de-en") != TFM_OK) ...
 *     int32_t *ids;
 *     size_t count;
 *     tfm_tokenizer_encode(tokenizer, &ids, &count, TFM_SOURCE, "Guten Tag.", 10);
 *     ...
 *     tfm_ids_free(&ids);
 *     tfm_tokenizer_free(&tokenizer);
 *
 * A tokenizer does not change once it is open: any number of threads may use one at the same time. */
#ifndef TFM_TEXT_H
#define TFM_TEXT_H

#include <stdbool.h>
#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tfm_tokenizer tfm_tokenizer;

/* The language that is read and the one that is written. */
typedef enum tfm_side { TFM_SOURCE, TFM_TARGET } tfm_side;

typedef struct tfm_tokenizer_info {
    int32_t source_size; /* the largest id of each side, plus one */
    int32_t target_size;
    bool separate; /* the sides have a vocabulary each */
    int32_t source_eos, source_unk, source_pad;
    int32_t target_eos, target_unk, target_pad;
} tfm_tokenizer_info;

/* Opens the tokenizer of a Marian / OPUS-MT directory: source.spm, target.spm, vocab.json (piece to id; the
 * ids are this file's, not SentencePiece's own), target_vocab.json where the vocabularies are separate, and
 * tokenizer_config.json if there is one. On failure *out is NULL; a missing file is TFM_ERROR_IO, a damaged
 * one TFM_ERROR_FORMAT. */
TFM_API tfm_status tfm_tokenizer_open(tfm_tokenizer **out, const char *dir);
/* Takes NULL, and nulls. */
TFM_API void tfm_tokenizer_free(tfm_tokenizer **tokenizer);

TFM_API tfm_tokenizer_info tfm_tokenizer_get_info(const tfm_tokenizer *tokenizer);

/* Ids of one line of `bytes` bytes, the end-of-sentence id last: *ids for tfm_ids_free. A piece without an id
 * becomes the unknown id. A leading language code, `>>fra<<`, is one token. An empty line is the end alone. A
 * line that tfm_text_check refuses is TFM_ERROR_INPUT; then *ids is NULL. */
TFM_API tfm_status tfm_tokenizer_encode(const tfm_tokenizer *tokenizer, int32_t **ids, size_t *count,
                                        tfm_side side, const char *line, size_t bytes);
TFM_API void tfm_ids_free(int32_t **ids);

/* The text of target ids up to the first end-of-sentence, padding left out: *text for tfm_text_free. An
 * unknown id reads " ⁇ "; one that no piece has reads as nothing. */
TFM_API tfm_status tfm_tokenizer_decode(const tfm_tokenizer *tokenizer, char **text, const int32_t *ids,
                                        size_t count);
TFM_API void tfm_text_free(char **text);

/* The piece of one id, e.g. "▁Haus", or NULL if none has it. Borrowed from the tokenizer. */
TFM_API const char *tfm_tokenizer_piece(const tfm_tokenizer *tokenizer, tfm_side side, int32_t id);

/* TFM_OK if the `bytes` bytes are well-formed UTF-8 without NUL, else TFM_ERROR_INPUT; the sentence names the
 * byte. */
TFM_API tfm_status tfm_text_check(const char *line, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
