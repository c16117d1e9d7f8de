/* State of tfm_translate_stream (translate_stream.c), and its chunks (translate_stream_chunks.c). */
#ifndef TFM_LIB_TRANSLATE_STREAM_H
#define TFM_LIB_TRANSLATE_STREAM_H

#include "model/decode/search.h"
#include "model/tasks/sentence_join.h"

/* A call of tfm_translate_stream. */
typedef struct tfm__stream_call {
    tfm_model *model;
    const tfm_text_options *text;
    tfm_search_options search; /* with the languages and an internal should_continue */
    const tfm_search_options *asked;
    tfm__language_choice languages;
    tfm__search_params rules;
    tfm__batch_limit limit;
    tfm_next_line_fn more;
    void *more_user;
    tfm_translation_fn emit;
    void *emit_user;
    size_t numbers;                     /* number of lines received */
    struct tfm__fed_line *first, *last; /* unfinished lines, in order */
    size_t live, tokens;                /* texts in the search, and their tokens */
    size_t places, widest;              /* maximum of live texts since the batch was empty, and tokens of the longest */
    size_t ready;                       /* waiting texts */
    int waited;                         /* in steps */
    tfm_status status;                  /* of a failure that ends the search */
    char message[TFM__MESSAGE_MAX];
} tfm__stream_call;

/* Lines translated in a separate call. */
typedef struct tfm__chunk {
    tfm__stream_call *of;
    const char **texts;
    size_t *bytes, *numbers;
    size_t count, rooms[3];
} tfm__chunk;

tfm_status tfm__chunk_add(tfm__chunk *chunk, const char *text, size_t bytes, size_t number);

/* Translates the lines of the chunk unless `status` is an error, then all further lines in chunks. Frees the chunk. */
tfm_status tfm__stream_chunks(tfm__chunk *chunk, tfm_status status);

/* Replaces the line number in an error message: numbers[i] is that of line i of the reporting call. */
tfm_status tfm__stream_name_line(tfm_status status, const size_t *numbers, size_t count);

#endif
