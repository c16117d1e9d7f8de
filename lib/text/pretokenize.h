/* The `pre_tokenizer` of a tokenizer.json: splits a text into words; pieces do not cross word boundaries. */
#ifndef TFM_LIB_PRETOKENIZE_H
#define TFM_LIB_PRETOKENIZE_H

#include "text/split_steps.h"
#include "text/hf_json.h"
#include "text/regex.h"

typedef struct tfm__pretokenizer tfm__pretokenizer;

/* Reads a pre-tokenizer; null does not split. */
tfm_status tfm__pretokenizer_read(tfm__pretokenizer **out, const json_t *value, const char *path);
void tfm__pretokenizer_free(tfm__pretokenizer **pretokenizer);

/* Splits the text spans of `spans`. `spare` is working memory. */
tfm_status tfm__pretokenizer_run(const tfm__pretokenizer *pretokenizer, tfm__spans *spans, tfm__spans *spare,
                                 tfm__regex_memory *memory);

/* Reads a Metaspace pre-tokenizer or decoder. */
tfm_status tfm__metaspace_read(int32_t *replacement, tfm__prepend_scheme *prepend, bool *split, const json_t *value,
                               tfm__json_location location);

#endif
