/* Placeholders of texts that are translated: taken out before, put back after. */
#ifndef TFM_LIB_MASKED_H
#define TFM_LIB_MASKED_H

#include "text/placeholders.h"

/* One of a text. */
typedef struct tfm__masked_unit {
    const char *text; /* as it stood in the original */
    size_t bytes;
    size_t at;                      /* where it was in the bare text */
    bool blank_before, blank_after; /* blanks stood around it, or the text began or ended there */
    bool glue_before, glue_after;   /* letters did */
    bool tag;                       /* it stands behind the one before it, as an end tag behind its start tag */
    bool parts;                     /* the text before it and after it is parted */
} tfm__masked_unit;

/* A word of one among tokens: it stands before token `at`. The piece belongs to the tfm__masked. */
typedef struct tfm__masked_word {
    size_t at;
    size_t word; /* which of the words of all units of the text */
} tfm__masked_word;

/* The placeholders of one text. */
typedef struct tfm__masked {
    char *bare; /* the text without them; NULL: it has none */
    size_t bare_bytes;
    char *original;
    size_t original_bytes;
    tfm__masked_unit *units; /* [count], of the original */
    size_t count;
    char **pieces; /* [words]: of all units, as tokens */
    size_t words;
    tfm__masked_word *source; /* [words]: among the source tokens; NULL before they are known */
    bool copied;              /* it has nothing else */
} tfm__masked;

/* Takes out what was found. `code` bytes at the beginning are no part of the text. */
tfm_status tfm__masked_strip(tfm__masked *kept, const char *text, size_t bytes, size_t code,
                             const tfm__placeholder *found, size_t count);
void tfm__masked_free(tfm__masked *kept);

/* Tokens, and the text that they are of. */
typedef struct tfm__masked_side {
    const char *text;
    size_t bytes;
    const char *const *pieces;
    size_t count;
} tfm__masked_side;

/* Puts the placeholders into a translation: *out is the text with them, *words where their words are among its tokens,
 * in order. `weights` [target tokens][source tokens] are the alignment. Both are the caller's. */
tfm_status tfm__masked_restore(tfm__masked *kept, char **out, tfm__masked_word **words, const tfm__masked_side *source,
                               const tfm__masked_side *target, const float *weights);

#endif
