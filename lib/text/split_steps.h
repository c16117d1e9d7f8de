/* One step of a pre-tokenizer. pretokenize.c reads and chains them; split_steps.c does them. */
#ifndef TFM_LIB_SPLIT_STEPS_H
#define TFM_LIB_SPLIT_STEPS_H

#include "text/spans.h"
#include "text/regex.h"

/* What becomes of what separates. */
typedef enum tfm__behaviour {
    TFM__ISOLATED,      /* a part of its own */
    TFM__REMOVED,       /* nothing */
    TFM__CONTIGUOUS,    /* a part of its own, with others of its kind */
    TFM__WITH_PREVIOUS, /* the end of the part before */
    TFM__WITH_NEXT,     /* the beginning of the part after it */
} tfm__behaviour;

typedef enum tfm__prepend { TFM__ALWAYS, TFM__FIRST, TFM__NEVER } tfm__prepend;

typedef struct tfm__cutting {
    tfm_status (*run)(const struct tfm__cutting *step, tfm__spans *out, tfm__spans *in, tfm__regex_memory *memory);
    tfm__regex *regex;            /* what separates: this, */
    bool (*separates)(int32_t c); /* or characters of a kind, */
    int32_t character;            /* or one character */
    tfm__behaviour behaviour;
    bool invert;          /* what matches is what stays */
    int32_t replacement;  /* what Metaspace writes for a blank */
    tfm__prepend prepend; /* where it writes one more */
    size_t characters;    /* of FixedLength */
} tfm__cutting;

/* Cuts at what separates. */
tfm_status tfm__cutting_split(const tfm__cutting *step, tfm__spans *out, tfm__spans *in, tfm__regex_memory *memory);
/* Cuts into runs of word characters and of others, without blanks. */
tfm_status tfm__cutting_words(const tfm__cutting *step, tfm__spans *out, tfm__spans *in, tfm__regex_memory *memory);
/* Cuts where the script changes. */
tfm_status tfm__cutting_scripts(const tfm__cutting *step, tfm__spans *out, tfm__spans *in, tfm__regex_memory *memory);
/* Cuts after every so many characters. */
tfm_status tfm__cutting_lengths(const tfm__cutting *step, tfm__spans *out, tfm__spans *in, tfm__regex_memory *memory);
/* Writes the replacement for blanks, and one in front. */
tfm_status tfm__cutting_metaspace(const tfm__cutting *step, tfm__spans *out, tfm__spans *in, tfm__regex_memory *memory);
/* Writes a blank in front of parts that have none there. */
tfm_status tfm__cutting_prefix(const tfm__cutting *step, tfm__spans *out, tfm__spans *in, tfm__regex_memory *memory);
/* Writes a character for each byte. */
tfm_status tfm__cutting_bytes(const tfm__cutting *step, tfm__spans *out, tfm__spans *in, tfm__regex_memory *memory);

#endif
