/* What tfm_translate_stream keeps of a call (translate_stream.c), and its chunks (translate_stream_chunks.c). */
#ifndef TFM_LIB_TRANSLATE_STREAM_H
#define TFM_LIB_TRANSLATE_STREAM_H

#include "model/decode/search.h"
#include "model/tasks/sentence_join.h"

/* A call of tfm_translate_stream. */
typedef struct tfm__stream_call {
    tfm_model *model;
    const tfm_text_options *text;
    tfm_search_options search; /* with the languages, and with a question of our own */
    const tfm_search_options *asked;
    tfm__language_choice languages;
    tfm__search_params rules;
    tfm__batch_limit limit;
    tfm_next_line_fn more;
    void *more_user;
    tfm_translation_fn emit;
    void *emit_user;
    size_t numbers;                     /* lines that were given */
    struct tfm__fed_line *first, *last; /* those that are not done, in order */
    size_t live, tokens;                /* texts that are searched for, and their tokens */
    size_t places, widest; /* the most of them at a time since there were none, and the tokens of the longest */
    size_t ready;          /* texts that wait for the search */
    int waited;            /* steps */
    tfm_status status;     /* of what failed where only the search can end */
    char message[TFM__MESSAGE_MAX];
} tfm__stream_call;

/* Lines that make up a call of their own. */
typedef struct tfm__chunk {
    tfm__stream_call *of;
    const char **texts;
    size_t *bytes, *numbers;
    size_t count, rooms[3];
} tfm__chunk;

tfm_status tfm__chunk_add(tfm__chunk *chunk, const char *text, size_t bytes, size_t number);

/* Translates the lines of the chunk unless `status` is an error, and then all that come, some at a time as calls of
 * their own. Frees what the chunk has. */
tfm_status tfm__stream_chunks(tfm__chunk *chunk, tfm_status status);

/* Names the line that a failure is about by its number among all: numbers[i] is that of line i of the call that
 * reported it. */
tfm_status tfm__stream_name_line(tfm_status status, const size_t *numbers, size_t count);

#endif
