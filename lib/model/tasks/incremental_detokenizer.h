/* Tokens, as they come, to text that is final. */
#ifndef TFM_LIB_INCREMENTAL_DETOKENIZER_H
#define TFM_LIB_INCREMENTAL_DETOKENIZER_H

#include "model/core/model.h"

/* What one text's tokens have said so far. */
typedef struct tfm__incremental_detokenizer {
    const tfm_tokenizer *tokenizer;
    const char *const *stops;
    size_t stop_count;
    int32_t *ids; /* [count]: the end of the prompt, so that blanks between words are right, then the new ones */
    size_t count, room;
    size_t from, taken; /* ids from..taken are the last of which the text was taken */
    char *text;         /* [bytes], and a NUL */
    size_t bytes, text_room;
    size_t emitted_bytes; /* bytes that were given as pieces */
    bool stopped;         /* at one of the stops, before which the text ends */
} tfm__incremental_detokenizer;

/* Begins after a prompt. What it points to outlives the detokenizer. It is freed also after a failure. */
tfm_status tfm__incremental_detokenizer_begin(tfm__incremental_detokenizer *out, const tfm_tokenizer *tokenizer,
                                              const char *const *stops, size_t stop_count, const int32_t *prompt,
                                              size_t prompt_count);
/* Takes a token. The text grows by whole characters. */
tfm_status tfm__incremental_detokenizer_push(tfm__incremental_detokenizer *detokenizer, int32_t id);
/* Takes what is left, also if it is no whole character. */
tfm_status tfm__incremental_detokenizer_finish(tfm__incremental_detokenizer *detokenizer);
/* How many bytes of the text are final: what may yet begin a stop string is not, unless the text has ended. */
size_t tfm__incremental_detokenizer_final_bytes(const tfm__incremental_detokenizer *detokenizer, bool ended);
void tfm__incremental_detokenizer_free(tfm__incremental_detokenizer *detokenizer);

#endif
