/* The `model` of a tokenizer.json: words to pieces. tokenizer_model.c reads which one it is; bpe.c, unigram.c,
 * wordpiece.c. What these share is in piece_model.c, buffers are in id_buffer.c. */
#ifndef TFM_LIB_PIECE_MODEL_H
#define TFM_LIB_PIECE_MODEL_H

#include "text/hf_json.h"
#include "text/token_map.h"
#include "text/tokenizer_kind.h"

/* One thread's memory for cutting words. It starts as {0}. */
typedef struct tfm__scratch {
    char *memory;
    size_t room;
} tfm__scratch;

/* So many bytes, aligned for any type and not cleared, or NULL with the sentence set. What it gave before is gone. */
void *tfm__scratch_get(tfm__scratch *scratch, size_t bytes);

/* A model. It does not change, so any number of threads may use it. */
typedef struct tfm__piece_model tfm__piece_model;
struct tfm__piece_model {
    tfm__lexicon *lexicon;
    void *self;
    void (*close)(void *self);
    /* Adds the ids of a word, which is not empty. */
    tfm_status (*cut)(const tfm__piece_model *model, tfm__ids *out, const char *word, size_t bytes,
                      tfm__scratch *scratch);
    int32_t unk; /* the id of what has no piece, or -1 */
    bool pairs;  /* byte-pair encoding */
};

/* Reads a model. On failure *out is {0}. */
tfm_status tfm__piece_model_read(tfm__piece_model *out, const json_t *value, const char *path);
void tfm__piece_model_free(tfm__piece_model *model);

/* The kinds of models. Each finds `lexicon` filled for it. */
tfm_status tfm__bpe_read(tfm__piece_model *out, const json_t *value, tfm__place place);
tfm_status tfm__unigram_read(tfm__piece_model *out, const json_t *value, tfm__place place);
tfm_status tfm__wordpiece_read(tfm__piece_model *out, const json_t *value, tfm__place place);
tfm_status tfm__wordlevel_read(tfm__piece_model *out, const json_t *value, tfm__place place);

/* Adds the pieces of {"piece": id, ...}. */
tfm_status tfm__lexicon_read(tfm__lexicon *lexicon, const json_t *vocab, tfm__place place);
/* Finds the id of `unk_token`; -1 where there is none. TFM_ERROR_FORMAT if one is named that the vocabulary has not. */
tfm_status tfm__unk_read(int32_t *out, const tfm__lexicon *lexicon, const json_t *value, tfm__place place);
/* The ids of the pieces <0x00> to <0xFF>, or -1. */
void tfm__byte_pieces(int32_t ids[256], const tfm__lexicon *lexicon);

#endif
