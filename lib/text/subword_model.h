/* The `model` of a tokenizer.json: words to pieces. tokenizer_model.c selects bpe.c, unigram.c or wordpiece.c; shared
 * code is in subword_model.c, buffers in id_buffer.c. */
#ifndef TFM_LIB_SUBWORD_MODEL_H
#define TFM_LIB_SUBWORD_MODEL_H

#include "text/hf_json.h"
#include "text/token_map.h"
#include "text/tokenizer_kind.h"

/* One thread's working memory, initially {0}. */
typedef struct tfm__scratch {
    char *memory;
    size_t capacity;
} tfm__scratch;

/* Uninitialized memory, aligned for any type, or NULL with the error message set. Invalidates earlier results. */
void *tfm__scratch_reserve(tfm__scratch *scratch, size_t bytes);

/* An immutable model; thread-safe. */
typedef struct tfm__subword_model tfm__subword_model;
struct tfm__subword_model {
    tfm__token_map *token_map;
    void *self;
    void (*close)(void *self);
    /* Adds the ids of a non-empty word. */
    tfm_status (*encode_word)(const tfm__subword_model *model, tfm__id_buffer *out, const char *word, size_t bytes,
                              tfm__scratch *scratch);
    int32_t unk; /* the id of unknown pieces, or -1 */
    bool is_bpe; /* byte-pair encoding */
};

/* Reads a model. On failure *out is {0}. */
tfm_status tfm__subword_model_read(tfm__subword_model *out, const json_t *value, const char *path);
void tfm__subword_model_free(tfm__subword_model *model);

/* A byte-pair model without merges, with space for `merges`. `token_map` is sealed; `options` are those of a model of
 * tokenizer.json. Then its merges, by rank: two pieces each. */
tfm_status tfm__bpe_new(tfm__subword_model *out, const json_t *options, size_t merges, tfm__json_location location);
tfm_status tfm__bpe_add_merge(tfm__subword_model *model, const char *const sides[2], const size_t bytes[2],
                              tfm__json_location location);
/* The same for two ids of the vocabulary. */
tfm_status tfm__bpe_add_merge_ids(tfm__subword_model *model, int32_t left, int32_t right, tfm__json_location location);

/* A SentencePiece BPE model: merges the two adjacent symbols that form the piece with the highest score, leftmost
 * first, then writes characters without a piece as byte pieces if there are all 256, else as one `unk`. `token_map` is
 * sealed with the pieces that texts may have; scores by id are taken over, also on failure. */
tfm_status tfm__scored_bpe_new(tfm__subword_model *out, float *scores, int32_t unk);

/* A unigram model. `token_map` has all pieces; NaN marks scores of pieces that texts cannot have. `scores` by id, one
 * for each id of `token_map`. */
tfm_status tfm__unigram_new(tfm__subword_model *out, const float *scores, int32_t unk);

/* The kinds of models. `token_map` is already filled and sealed. */
tfm_status tfm__bpe_read(tfm__subword_model *out, const json_t *value, tfm__json_location location);
tfm_status tfm__unigram_read(tfm__subword_model *out, const json_t *value, tfm__json_location location);
tfm_status tfm__wordpiece_read(tfm__subword_model *out, const json_t *value, tfm__json_location location);
tfm_status tfm__wordlevel_read(tfm__subword_model *out, const json_t *value, tfm__json_location location);

/* Adds the pieces of {"piece": id, ...}. */
tfm_status tfm__token_map_read(tfm__token_map *token_map, const json_t *vocab, tfm__json_location location);
/* The id of `unk_token`; -1 if there is none. TFM_ERROR_FORMAT if the vocabulary lacks it. */
tfm_status tfm__read_unk_token(int32_t *out, const tfm__token_map *token_map, const json_t *value,
                               tfm__json_location location);
/* The ids of the pieces <0x00> to <0xFF>, or -1. */
void tfm__find_byte_pieces(int32_t ids[256], const tfm__token_map *token_map);

#endif
