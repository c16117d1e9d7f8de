/* Regular expressions of tokenizer.json, run with PCRE2. */
#ifndef TFM_LIB_REGEX_H
#define TFM_LIB_REGEX_H

#include "base/base.h"
#include "text/bytes.h"

/* An immutable expression; thread-safe. */
typedef struct tfm__regex tfm__regex;

/* Compiles Oniguruma syntax, as in `tokenizers`. Error messages begin with `where`. TFM_ERROR_FORMAT for invalid
 * syntax, TFM_ERROR_UNSUPPORTED for syntax with another meaning in PCRE2. */
tfm_status tfm__regex_new(tfm__regex **out, const char *pattern, size_t bytes, const char *where);
/* The same for literal text. */
tfm_status tfm__regex_new_literal(tfm__regex **out, const char *text, size_t bytes, const char *where);
/* The same for PCRE2's own syntax, with Unicode properties. */
tfm_status tfm__regex_new_pcre2(tfm__regex **out, const char *pattern, size_t bytes, const char *where);
void tfm__regex_free(tfm__regex **regex);

/* One thread's match memory, for any expression. Initially {0}. */
typedef struct tfm__regex_memory {
    void *data, *context, *stack;
} tfm__regex_memory;

void tfm__regex_memory_free(tfm__regex_memory *memory);

/* An iteration over matches, initially {0}. */
typedef struct tfm__regex_iter {
    size_t begin, end; /* of the match */
    size_t at;         /* start of the next search */
    bool any;          /* a match was found */
} tfm__regex_iter;

/* Finds the next match; *found says whether there is one. As in Oniguruma's iterator, an empty match right after the
 * last one is skipped. TFM_ERROR_INPUT if the expression takes too many steps. */
tfm_status tfm__regex_next(const tfm__regex *regex, tfm__regex_memory *memory, bool *found, tfm__regex_iter *iter,
                           const char *text, size_t bytes);

/* Translates Oniguruma syntax to PCRE2's. Error messages begin with `where`. */
tfm_status tfm__regex_translate(tfm__bytes *out, const char *pattern, size_t bytes, const char *where);

#endif
