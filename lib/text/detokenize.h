/* The `decoder` of a tokenizer.json: pieces to text. */
#ifndef TFM_LIB_DETOKENIZE_H
#define TFM_LIB_DETOKENIZE_H

#include "text/bytes.h"
#include "text/hf_json.h"

/* Consecutive texts, initially {0}. */
typedef struct tfm__string_list {
    tfm__bytes bytes;
    size_t *ends; /* the end of each text in `bytes` */
    size_t count, capacity;
} tfm__string_list;

void tfm__string_list_free(tfm__string_list *texts);
/* Ends the current text. Out of memory, `bytes` has failed. */
void tfm__string_list_end(tfm__string_list *texts);

typedef struct tfm__detokenizer tfm__detokenizer;

/* Reads a decoder; null joins pieces with blanks. */
tfm_status tfm__detokenizer_read(tfm__detokenizer **out, const json_t *value, const char *path);
void tfm__detokenizer_free(tfm__detokenizer **decoder);

/* Adds the text of the pieces in `texts`, which is modified. */
tfm_status tfm__detokenizer_run(const tfm__detokenizer *decoder, tfm__bytes *out, tfm__string_list *texts);
/* Adds the bytes of one piece in the middle of a text; a part of a character stays as it is. */
tfm_status tfm__detokenizer_token(const tfm__detokenizer *decoder, tfm__bytes *out, const char *piece, size_t bytes);
/* Whether pieces such as <0xE2> are bytes, so that the text of the last ones depends on later ones. */
bool tfm__detokenizer_has_byte_fallback(const tfm__detokenizer *decoder);
/* Whether pieces encode bytes as characters (GPT-2's table). */
bool tfm__detokenizer_is_byte_level(const tfm__detokenizer *decoder);
/* The byte of a piece such as <0xE2>, or -1. */
int tfm__parse_byte_piece(const char *text, size_t bytes);

#endif
