/* Incremental detokenization. */
#ifndef TFM_LIB_INCREMENTAL_DETOKENIZER_H
#define TFM_LIB_INCREMENTAL_DETOKENIZER_H

#include "model/core/model.h"

/* State of one text. */
typedef struct tfm__incremental_detokenizer {
    const tfm_tokenizer *tokenizer;
    const char *const *stops;
    size_t stop_count;
    int32_t *ids; /* [count]: end of the prompt (for correct blanks between words), then new ids */
    size_t count, room;
    size_t from, taken; /* ids from..taken were decoded last */
    char *text;         /* [bytes], and a NUL */
    size_t bytes, text_room;
    size_t emitted_bytes; /* bytes already returned as pieces */
    bool stopped;         /* a stop string was found; the text ends before it */
} tfm__incremental_detokenizer;

/* Starts after a prompt. Pointers are borrowed. Free *out also after a failure. */
tfm_status tfm__incremental_detokenizer_begin(tfm__incremental_detokenizer *out, const tfm_tokenizer *tokenizer,
                                              const char *const *stops, size_t stop_count, const int32_t *prompt,
                                              size_t prompt_count);
/* Adds a token. The text grows by whole characters. */
tfm_status tfm__incremental_detokenizer_push(tfm__incremental_detokenizer *detokenizer, int32_t id);
/* Adds the remaining bytes, even if they are an incomplete character. */
tfm_status tfm__incremental_detokenizer_finish(tfm__incremental_detokenizer *detokenizer);
/* Number of final bytes: a possible beginning of a stop string is not final unless the text has ended. */
size_t tfm__incremental_detokenizer_final_bytes(const tfm__incremental_detokenizer *detokenizer, bool ended);
/* Calls back with the bytes that became final, if any. Returns false if the callback does. */
bool tfm__incremental_detokenizer_emit(tfm__incremental_detokenizer *detokenizer, bool ended, tfm_text_fn on_text,
                                       void *user, size_t prompt, int rank);
void tfm__incremental_detokenizer_free(tfm__incremental_detokenizer *detokenizer);

#endif
