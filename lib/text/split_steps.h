/* Steps of a pre-tokenizer: pretokenize.c reads and chains them; split_steps.c runs them. */
#ifndef TFM_LIB_SPLIT_STEPS_H
#define TFM_LIB_SPLIT_STEPS_H

#include "text/spans.h"
#include "text/regex.h"

/* Handling of delimiters. */
typedef enum tfm__split_behavior {
    TFM__SPLIT_ISOLATED,             /* a separate part */
    TFM__SPLIT_REMOVED,              /* dropped */
    TFM__SPLIT_CONTIGUOUS,           /* a separate part, joined with adjacent ones */
    TFM__SPLIT_MERGED_WITH_PREVIOUS, /* joined with the previous part */
    TFM__SPLIT_MERGED_WITH_NEXT,     /* joined with the next part */
} tfm__split_behavior;

typedef enum tfm__prepend_scheme { TFM__PREPEND_ALWAYS, TFM__PREPEND_FIRST, TFM__PREPEND_NEVER } tfm__prepend_scheme;

typedef struct tfm__split_step {
    tfm_status (*run)(const struct tfm__split_step *step, tfm__spans *out, tfm__spans *in, tfm__regex_memory *memory);
    tfm__regex *regex;               /* the delimiter: this, */
    bool (*is_delimiter)(int32_t c); /* or characters of a class, */
    int32_t character;               /* or one character */
    tfm__split_behavior behavior;
    bool invert;                 /* matches are the parts to keep */
    int32_t replacement;         /* Metaspace's sign for a blank */
    tfm__prepend_scheme prepend; /* where it prepends one */
    size_t characters;           /* of FixedLength */
} tfm__split_step;

/* Splits at delimiters. */
tfm_status tfm__split_at_delimiter(const tfm__split_step *step, tfm__spans *out, tfm__spans *in,
                                   tfm__regex_memory *memory);
/* Splits into runs of word characters and of others, without blanks. */
tfm_status tfm__split_words(const tfm__split_step *step, tfm__spans *out, tfm__spans *in, tfm__regex_memory *memory);
/* Splits where the script changes. */
tfm_status tfm__split_scripts(const tfm__split_step *step, tfm__spans *out, tfm__spans *in, tfm__regex_memory *memory);
/* Splits into parts of `characters` characters. */
tfm_status tfm__split_fixed_length(const tfm__split_step *step, tfm__spans *out, tfm__spans *in,
                                   tfm__regex_memory *memory);
/* Replaces blanks, and prepends the replacement. */
tfm_status tfm__split_metaspace(const tfm__split_step *step, tfm__spans *out, tfm__spans *in,
                                tfm__regex_memory *memory);
/* Prepends a blank to parts without one. */
tfm_status tfm__split_prefix_space(const tfm__split_step *step, tfm__spans *out, tfm__spans *in,
                                   tfm__regex_memory *memory);
/* Maps each byte to a character. */
tfm_status tfm__split_byte_level(const tfm__split_step *step, tfm__spans *out, tfm__spans *in,
                                 tfm__regex_memory *memory);

#endif
