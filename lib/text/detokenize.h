/* The `decoder` of a tokenizer.json: pieces to a text. */
#ifndef TFM_LIB_DETOKENIZE_H
#define TFM_LIB_DETOKENIZE_H

#include "text/bytes.h"
#include "text/hf_json.h"

/* Texts one after another. It starts as {0}. */
typedef struct tfm__texts {
    tfm__bytes bytes;
    size_t *ends; /* where each ends in `bytes` */
    size_t count, room;
} tfm__texts;

void tfm__texts_free(tfm__texts *texts);
/* Ends the text that begins where the last one ends. Where memory is wanting, `bytes` has failed. */
void tfm__texts_end(tfm__texts *texts);

typedef struct tfm__decoder tfm__decoder;

/* Reads a decoder; null is one that puts blanks between pieces. */
tfm_status tfm__decoder_read(tfm__decoder **out, const json_t *value, const char *path);
void tfm__decoder_free(tfm__decoder **decoder);

/* Adds the text of the pieces in `texts`, which are used up. */
tfm_status tfm__decoder_run(const tfm__decoder *decoder, tfm__bytes *out, tfm__texts *texts);
/* Whether pieces such as <0xE2> are bytes, so that the text of the last ones depends on what follows. */
bool tfm__decoder_has_bytes(const tfm__decoder *decoder);
/* Whether pieces are bytes as characters (GPT-2's table). */
bool tfm__decoder_is_byte_level(const tfm__decoder *decoder);
/* The byte that a piece such as <0xE2> is, or -1. */
int tfm__byte_piece(const char *text, size_t bytes);

/* What transformers calls cleaning up: blanks before stops and in "do n't" go. */
tfm_status tfm__clean_up(tfm__bytes *out, const char *text, size_t bytes);

#endif
