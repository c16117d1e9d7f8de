/* Regular expressions of tokenizer.json, run by PCRE2. */
#ifndef TFM_LIB_REGEX_H
#define TFM_LIB_REGEX_H

#include "base/base.h"
#include "text/bytes.h"

/* An expression. It does not change, so any number of threads may use it. */
typedef struct tfm__regex tfm__regex;

/* Compiles what `tokenizers` would give to Oniguruma. Sentences begin with `where`. TFM_ERROR_FORMAT for what is no
 * expression, TFM_ERROR_UNSUPPORTED for one that PCRE2 would read in another way. */
tfm_status tfm__regex_new(tfm__regex **out, const char *pattern, size_t bytes, const char *where);
/* The same for a text that stands for itself. */
tfm_status tfm__regex_new_literal(tfm__regex **out, const char *text, size_t bytes, const char *where);
/* The same in PCRE2's own syntax, with Unicode's properties. */
tfm_status tfm__regex_new_pcre2(tfm__regex **out, const char *pattern, size_t bytes, const char *where);
void tfm__regex_free(tfm__regex **regex);

/* One thread's memory for matching, for any expressions. It starts as {0}. */
typedef struct tfm__regex_memory {
    void *data, *context, *stack;
} tfm__regex_memory;

void tfm__regex_memory_free(tfm__regex_memory *memory);

/* A walk from one match to the next; it starts as {0}. */
typedef struct tfm__regex_iter {
    size_t begin, end; /* of the match */
    size_t at;         /* where the next search begins */
    bool any;          /* there was a match */
} tfm__regex_iter;

/* Finds the next match; *found says whether there is one. As in Oniguruma's iterator, an empty match right after the
 * last one does not count. TFM_ERROR_INPUT if the expression takes too many steps on this text. */
tfm_status tfm__regex_next(const tfm__regex *regex, tfm__regex_memory *memory, bool *found, tfm__regex_iter *iter,
                           const char *text, size_t bytes);

/* Oniguruma's syntax, as far as it is unlike PCRE2's, in PCRE2's. Sentences begin with `where`. */
tfm_status tfm__regex_translate(tfm__bytes *out, const char *pattern, size_t bytes, const char *where);

#endif
