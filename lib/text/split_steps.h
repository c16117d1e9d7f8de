/* One step of a pre-tokenizer. pretokenize.c reads and chains them; split_steps.c does them. */
#ifndef TFM_LIB_SPLIT_STEPS_H
#define TFM_LIB_SPLIT_STEPS_H

#include "text/spans.h"
#include "text/regex.h"

/* What becomes of what separates. */
typedef enum tfm__split_behavior {
    TFM__SPLIT_ISOLATED,             /* a part of its own */
    TFM__SPLIT_REMOVED,              /* nothing */
    TFM__SPLIT_CONTIGUOUS,           /* a part of its own, with others of its kind */
    TFM__SPLIT_MERGED_WITH_PREVIOUS, /* the end of the part before */
    TFM__SPLIT_MERGED_WITH_NEXT,     /* the beginning of the part after it */
} tfm__split_behavior;

typedef enum tfm__prepend_scheme { TFM__PREPEND_ALWAYS, TFM__PREPEND_FIRST, TFM__PREPEND_NEVER } tfm__prepend_scheme;

typedef struct tfm__split_step {
    tfm_status (*run)(const struct tfm__split_step *step, tfm__spans *out, tfm__spans *in, tfm__regex_memory *memory);
    tfm__regex *regex;               /* what separates: this, */
    bool (*is_delimiter)(int32_t c); /* or characters of a kind, */
    int32_t character;               /* or one character */
    tfm__split_behavior behavior;
    bool invert;                 /* what matches is what stays */
    int32_t replacement;         /* what Metaspace writes for a blank */
    tfm__prepend_scheme prepend; /* where it writes one more */
    size_t characters;           /* of FixedLength */
} tfm__split_step;

/* Cuts at what separates. */
tfm_status tfm__split_at_delimiter(const tfm__split_step *step, tfm__spans *out, tfm__spans *in,
                                   tfm__regex_memory *memory);
/* Cuts into runs of word characters and of others, without blanks. */
tfm_status tfm__split_words(const tfm__split_step *step, tfm__spans *out, tfm__spans *in, tfm__regex_memory *memory);
/* Cuts where the script changes. */
tfm_status tfm__split_scripts(const tfm__split_step *step, tfm__spans *out, tfm__spans *in, tfm__regex_memory *memory);
/* Cuts after every so many characters. */
tfm_status tfm__split_fixed_length(const tfm__split_step *step, tfm__spans *out, tfm__spans *in,
                                   tfm__regex_memory *memory);
/* Writes the replacement for blanks, and one in front. */
tfm_status tfm__split_metaspace(const tfm__split_step *step, tfm__spans *out, tfm__spans *in,
                                tfm__regex_memory *memory);
/* Writes a blank in front of parts that have none there. */
tfm_status tfm__split_prefix_space(const tfm__split_step *step, tfm__spans *out, tfm__spans *in,
                                   tfm__regex_memory *memory);
/* Writes a character for each byte. */
tfm_status tfm__split_byte_level(const tfm__split_step *step, tfm__spans *out, tfm__spans *in,
                                 tfm__regex_memory *memory);

#endif
