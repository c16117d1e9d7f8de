/* The `model` of a tokenizer.json: words to pieces. tokenizer_model.c reads which one it is; bpe.c, unigram.c,
 * wordpiece.c. What these share is in subword_model.c, buffers are in id_buffer.c. */
#ifndef TFM_LIB_SUBWORD_MODEL_H
#define TFM_LIB_SUBWORD_MODEL_H

#include "text/hf_json.h"
#include "text/token_map.h"
#include "text/tokenizer_kind.h"

/* One thread's memory for cutting words. It starts as {0}. */
typedef struct tfm__scratch {
    char *memory;
    size_t capacity;
} tfm__scratch;

/* So many bytes, aligned for any type and not cleared, or NULL with the sentence set. What it gave before is gone. */
void *tfm__scratch_reserve(tfm__scratch *scratch, size_t bytes);

/* A model. It does not change, so any number of threads may use it. */
typedef struct tfm__subword_model tfm__subword_model;
struct tfm__subword_model {
    tfm__token_map *token_map;
    void *self;
    void (*close)(void *self);
    /* Adds the ids of a word, which is not empty. */
    tfm_status (*encode_word)(const tfm__subword_model *model, tfm__id_buffer *out, const char *word, size_t bytes,
                              tfm__scratch *scratch);
    int32_t unk; /* the id of what has no piece, or -1 */
    bool is_bpe; /* byte-pair encoding */
};

/* Reads a model. On failure *out is {0}. */
tfm_status tfm__subword_model_read(tfm__subword_model *out, const json_t *value, const char *path);
void tfm__subword_model_free(tfm__subword_model *model);

/* The kinds of models. Each finds `token_map` filled for it. */
tfm_status tfm__bpe_read(tfm__subword_model *out, const json_t *value, tfm__json_location location);
tfm_status tfm__unigram_read(tfm__subword_model *out, const json_t *value, tfm__json_location location);
tfm_status tfm__wordpiece_read(tfm__subword_model *out, const json_t *value, tfm__json_location location);
tfm_status tfm__wordlevel_read(tfm__subword_model *out, const json_t *value, tfm__json_location location);

/* Adds the pieces of {"piece": id, ...}. */
tfm_status tfm__token_map_read(tfm__token_map *token_map, const json_t *vocab, tfm__json_location location);
/* Finds the id of `unk_token`; -1 where there is none. TFM_ERROR_FORMAT if one is named that the vocabulary has not. */
tfm_status tfm__read_unk_token(int32_t *out, const tfm__token_map *token_map, const json_t *value,
                               tfm__json_location location);
/* The ids of the pieces <0x00> to <0xFF>, or -1. */
void tfm__find_byte_pieces(int32_t ids[256], const tfm__token_map *token_map);

#endif
