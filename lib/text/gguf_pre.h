/* `tokenizer.ggml.pre` of GGUF files: how byte-pair tokenizers split a text into words. */
#ifndef TFM_LIB_GGUF_PRE_H
#define TFM_LIB_GGUF_PRE_H

#include <jansson.h>
#include <stddef.h>
#include "base/base.h"

enum { TFM__GGUF_PRE_STEPS = 6 };

typedef struct tfm__gguf_pre {
    const char *names;                      /* values of the key, a blank between them; the first is written */
    const char *steps[TFM__GGUF_PRE_STEPS]; /* regular expressions; each splits the parts of the one before */
    bool ignore_merges;                     /* a word that is a token is not built by merges */
    bool add_bos, add_sep;                  /* defaults */
    bool raw;                               /* tokens are text with U+2581 for a blank, not byte-level characters */
} tfm__gguf_pre;

/* The entry of a name, or NULL. */
const tfm__gguf_pre *tfm__gguf_pre_find(const char *name, size_t bytes);

/* Its `pre_tokenizer` of a tokenizer.json: new, or NULL without memory. */
json_t *tfm__gguf_pre_section(const tfm__gguf_pre *pre);

/* The first entry that splits texts as the `pre_tokenizer` of `root`, a tokenizer.json with a byte-level model:
 * compared on a text with all that the entries tell apart. *out is NULL if there is none. */
tfm_status tfm__gguf_pre_match(const tfm__gguf_pre **out, const json_t *root, const char *path);

#endif
