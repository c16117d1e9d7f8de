/* Tokenizers in the metadata of GGUF files. */
#ifndef TFM_LIB_GGUF_TOKENIZER_H
#define TFM_LIB_GGUF_TOKENIZER_H

#include <jansson.h>
#include "base/gguf_write.h"
#include "text/tokenizer_kind.h"

/* Opens the tokenizer of a GGUF file (`tokenizer.ggml.model`: llama, gpt2, bert, t5, gemma4), or if it has none, the
 * files next to it. */
tfm_status tfm__gguf_tokenizer_open(tfm__tokenizer_parts *out, const char *path);

/* The same of an open file with a tokenizer: parts->self is a tfm__hf_tokenizer. */
tfm_status tfm__gguf_tokenizer_open_file(tfm__tokenizer_parts *out, const tfm__gguf *file);
/* Its `normalizer`, `pre_tokenizer` and `decoder` as in a tokenizer.json: new, or NULL without memory. */
struct tfm__gguf_vocab;
json_t *tfm__gguf_tokenizer_sections(const struct tfm__gguf_vocab *vocab);

/* What a tokenizer_config.json has, from an open file: `chat_template` (a string, or a list of {"name", "template"} if
 * the file has several), `bos_token` and the other special tokens, `add_bos_token`, `add_eos_token`. Release it with
 * json_decref. An empty object if the file has no tokenizer. */
tfm_status tfm__gguf_tokenizer_config(json_t **out, const tfm__gguf *file);
/* The same of the path of a model: a GGUF file, or a folder with one (tfm__gguf_locate). *out is NULL, without an
 * error, for other paths, and if the file has no tokenizer. */
tfm_status tfm__gguf_tokenizer_config_of(json_t **out, const char *path);

/* Adds the chat templates of a directory: chat_template.jinja, or else those of `config`, its tokenizer_config.json or
 * NULL. */
tfm_status tfm__gguf_templates_write(tfm__gguf_writer *writer, const json_t *config, const char *dir);

/* Adds the tokenizer of a model directory as metadata (`tokenizer.*`): of tokenizer.json or older files, with chat
 * templates, or of the directory's GGUF file as they are. `rows` is the number of tokens that the model has embeddings
 * for: missing tokens are added as unused ones, others left out. TFM_ERROR_UNSUPPORTED for tokenizers that GGUF has no
 * form for. */
tfm_status tfm__gguf_tokenizer_write(tfm__gguf_writer *writer, const char *dir, int32_t rows);

#endif
