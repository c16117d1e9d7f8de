/* Tokenizers in the metadata of GGUF files. */
#ifndef TFM_LIB_GGUF_TOKENIZER_H
#define TFM_LIB_GGUF_TOKENIZER_H

#include <jansson.h>
#include "base/gguf.h"
#include "text/tokenizer_kind.h"

/* Opens the tokenizer of a GGUF file (`tokenizer.ggml.model`: llama, gpt2, bert, t5, gemma4). */
tfm_status tfm__gguf_tokenizer_open(tfm__tokenizer_parts *out, const char *path);

/* What a tokenizer_config.json has, from an open file: `chat_template` (a string, or a list of {"name", "template"} if
 * the file has several), `bos_token` and the other special tokens, `add_bos_token`, `add_eos_token`. Release it with
 * json_decref. An empty object if the file has no tokenizer. */
tfm_status tfm__gguf_tokenizer_config(json_t **out, const tfm__gguf *file);

/* The ids that end generation, ascending, for free(): EOS, end of turn, end of message, and tokens that llama.cpp knows
 * by their text. */
tfm_status tfm__gguf_end_ids(int32_t **ids, size_t *count, const tfm__gguf *file);

#endif
