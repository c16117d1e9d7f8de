/* The tokenizer of a GGUF file's metadata (`tokenizer.ggml.*`), checked. */
#ifndef TFM_LIB_GGUF_VOCAB_H
#define TFM_LIB_GGUF_VOCAB_H

#include "base/gguf.h"
#include "text/gguf_pre.h"
#include "text/hf_class.h"

/* `tokenizer.ggml.model` */
typedef enum tfm__gguf_vocab_model {
    TFM__GGUF_VOCAB_LLAMA, /* SentencePiece BPE with scores */
    TFM__GGUF_VOCAB_GPT2,  /* BPE with merges */
    TFM__GGUF_VOCAB_BERT,  /* WordPiece; U+2581 marks the pieces that begin a word */
    TFM__GGUF_VOCAB_T5     /* Unigram */
} tfm__gguf_vocab_model;

/* `tokenizer.ggml.token_type` */
enum {
    TFM__GGUF_TOKEN_NORMAL = 1,
    TFM__GGUF_TOKEN_UNKNOWN,
    TFM__GGUF_TOKEN_CONTROL,
    TFM__GGUF_TOKEN_USER_DEFINED,
    TFM__GGUF_TOKEN_UNUSED,
    TFM__GGUF_TOKEN_BYTE
};

/* Special tokens: those of transformers (TFM__BOS to TFM__MASK), and two that end a turn or a message. */
enum { TFM__GGUF_EOT = TFM__SPECIALS, TFM__GGUF_EOM, TFM__GGUF_SPECIALS };

typedef struct tfm__gguf_vocab {
    const tfm__gguf *file;
    const char *path;
    tfm__gguf_vocab_model model;
    const tfm__gguf_pre *pre;                                           /* of TFM__GGUF_VOCAB_GPT2 */
    int32_t count;                                                      /* of tokens */
    const tfm__gguf_value *tokens, *types, *scores, *merges, *charsmap; /* as long as the file is open, or NULL */
    int32_t ids[TFM__GGUF_SPECIALS];                                    /* or -1 */
    bool add_bos, add_eos, add_sep, add_space_prefix, remove_extra_whitespaces, lowercase, strip_accents;
} tfm__gguf_vocab;

/* Whether the file has a tokenizer. */
bool tfm__gguf_vocab_exists(const tfm__gguf *file);
/* Reads and checks all of it except the tokens' texts. */
tfm_status tfm__gguf_vocab_read(tfm__gguf_vocab *out, const tfm__gguf *file);

/* The text of a token: well-formed UTF-8, not empty; `spare` holds generated ones. */
tfm_status tfm__gguf_vocab_token(tfm__gguf_text *out, const tfm__gguf_vocab *vocab, int32_t id, char spare[32]);
/* Its type; a token known to end generation is TFM__GGUF_TOKEN_CONTROL. `text` is its text. */
int tfm__gguf_vocab_type(const tfm__gguf_vocab *vocab, int32_t id, tfm__gguf_text text);
float tfm__gguf_vocab_score(const tfm__gguf_vocab *vocab, int32_t id);
#endif
