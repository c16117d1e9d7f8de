/* Placeholders: removed before translation, restored afterwards. */
#ifndef TFM_LIB_MASKED_H
#define TFM_LIB_MASKED_H

#include "text/placeholders.h"

/* A placeholder. */
typedef struct tfm__masked_unit {
    const char *text; /* in the original */
    size_t bytes;
    size_t at;                      /* position in the bare text */
    bool blank_before, blank_after; /* next to a blank, or at the beginning or end of the text */
    bool glue_before, glue_after;   /* next to a letter */
    bool tag;                       /* must follow the previous one, as an end tag its start tag */
    bool parts;                     /* separates the text before and after it */
} tfm__masked_unit;

/* A word of a placeholder among tokens: before token `at`. Its piece belongs to the tfm__masked. */
typedef struct tfm__masked_word {
    size_t at;
    size_t word; /* index among the words of all units of the text */
} tfm__masked_word;

/* Placeholders of a text. */
typedef struct tfm__masked {
    char *bare; /* text without them; NULL: there are none */
    size_t bare_bytes;
    char *original;
    size_t original_bytes;
    tfm__masked_unit *units; /* [count] */
    size_t count;
    char **pieces; /* [words]: tokens of all units */
    size_t words;
    tfm__masked_word *source; /* [words]: among the source tokens; NULL until those are known */
    bool copied;              /* nothing else is in the text */
} tfm__masked;

/* Removes placeholders. The first `code` bytes are not part of the text. */
tfm_status tfm__masked_strip(tfm__masked *kept, const char *text, size_t bytes, size_t code,
                             const tfm__placeholder *found, size_t count);
void tfm__masked_free(tfm__masked *kept);

/* Tokens of a text. */
typedef struct tfm__masked_side {
    const char *text;
    size_t bytes;
    const char *const *pieces;
    size_t count;
} tfm__masked_side;

/* Restores the placeholders: *out is the translation with them, *words the positions of their words among its tokens,
 * in order. `weights` [target tokens][source tokens]: the alignment. The caller frees both. */
tfm_status tfm__masked_restore(tfm__masked *kept, char **out, tfm__masked_word **words, const tfm__masked_side *source,
                               const tfm__masked_side *target, const float *weights);

#endif
