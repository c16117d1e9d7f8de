/* The texts of the files that a vocabulary is trained on. */
#ifndef TFM_LIB_VOCAB_CORPUS_H
#define TFM_LIB_VOCAB_CORPUS_H

#include "text/documents.h"
#include "text/line_file.h"

/* Files one after the other, or columns of one. */
typedef struct tfm__vocab_corpus {
    const char *const *files; /* [count] */
    size_t count;
    bool tsv, columns[2];           /* the columns to read */
    bool codes;                     /* lines may begin with a language code */
    tfm_document_options documents; /* the text format of the files; their lines are used */
    char *name;                     /* for error messages */
} tfm__vocab_corpus;

/* Iterates over all of a corpus. */
typedef struct tfm__vocab_corpus_iter {
    const tfm__vocab_corpus *from;
    size_t file; /* the open file, or the last one */
    tfm__line_reader lines;
    tfm__string_view rest;     /* remaining lines of the current document */
    tfm__string_view spans[2]; /* of the line */
    int span;                  /* index of the next one */
    tfm__string_view code;     /* removed by the tokenizer before segmentation */
} tfm__vocab_corpus_iter;

tfm_status tfm__vocab_corpus_begin(tfm__vocab_corpus_iter *w, const tfm__vocab_corpus *from);
/* The next usable text; *more is false after the last. */
tfm_status tfm__vocab_corpus_next(tfm__vocab_corpus_iter *w, tfm__string_view *out, bool *more);
void tfm__vocab_corpus_end(tfm__vocab_corpus_iter *w);

#endif
