/* Encoders by themselves: vectors of texts, classes of texts, and what masked words may be.
 *
 *     tfm_embedder *embedder = NULL;
 *     const char *lines[] = {"The cat sits outside.", "A dog plays in the garden."};
 *     float vectors[2 * 384];
 *     if (tfm_embedder_open(&embedder, ctx, "all-MiniLM-L6-v2", NULL) == TFM_OK &&
 *         tfm_embedder_get_info(embedder)->width == 384)
 *         tfm_embed(embedder, vectors, lines, 2, NULL);
 *     tfm_embedder_free(&embedder);
 *
 * The directory is one of Hugging Face's for an encoder, such as BERT, XLM-R or ModernBERT, or one of
 * sentence-transformers, whose modules.json names what comes after the encoder: pooling, dense layers, layer norms,
 * normalisation. For vectors, a language model, which has a decoder alone, may stand in the place of the encoder.
 *
 * An embedder works on its context, so one thread at a time may use both. */
#ifndef TFM_EMBED_H
#define TFM_EMBED_H

#include "model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Heads of encoders ----------------------------------------------------------------------------------------- */

/* Does what tfm_model_encode does for ids of two texts each: types (B, T) I32 is 0 for tokens of the first text and 1
 * for those of the second; empty `types` are all 0. A model without a table of token types leaves them aside. */
TFM_API tfm_status tfm_model_encode_pairs(tfm_model *model, tfm_tensor *encoded, tfm_tensor ids, tfm_tensor types,
                                          tfm_tensor lengths);

/* logits (..., V) of which word stands at each position of encoded (..., E), what tfm_model_encode gave or rows of it,
 * of two dimensions or more. TFM_ERROR_ARGUMENT for a model without a head for masked words. */
TFM_API tfm_status tfm_model_mlm_logits(tfm_model *model, tfm_tensor *logits, tfm_tensor encoded);

/* logits (B, C) of the classes of texts, of which encoded (B, T, E) is what tfm_model_encode gave with these `lengths`,
 * which may be empty. TFM_ERROR_ARGUMENT for a model without a head for classes. */
TFM_API tfm_status tfm_model_class_logits(tfm_model *model, tfm_tensor *logits, tfm_tensor encoded, tfm_tensor lengths);

/* How many classes a model tells apart; 0 if it has no such head. 0 for NULL. */
TFM_API size_t tfm_model_class_count(const tfm_model *model);
/* What config.json calls a class, such as "POSITIVE", or "LABEL_1" where it does not. The string belongs to the model.
 * NULL for a class that there is not. */
TFM_API const char *tfm_model_class_name(const tfm_model *model, size_t index);

/* ---- Texts ----------------------------------------------------------------------------------------------------- */

/* Counts of what was done. A call that succeeds adds to them. */
typedef struct tfm_embed_stats {
    uint64_t lines;     /* The lines. Bad ones are not counted. */
    uint64_t tokens;    /* Their tokens, with special ones. */
    uint64_t truncated; /* How many lines were cut, since they had more tokens than the model takes. */
    double seconds;     /* The time that the calls took. */
} tfm_embed_stats;

/* How lines are taken. */
typedef struct tfm_embed_options {
    /* The length of each line in bytes; a line may then contain NUL, and is rejected. NULL: lines end with NUL. */
    const size_t *line_bytes;
    /* For each line a second text, or NULL for none, which the model reads with it; NULL for no second texts at all.
     * Models that compare texts take them. */
    const char *const *text_pairs;
    const char *prompt;   /* What is put before each line, not before second texts, such as "query: ". NULL: nothing, or
                             where tfm_embed is called, what the directory names for that. */
    int batch_tokens;     /* The most tokens of a batch, padding counted. 0: 2048 or 4096, as suits the device. */
    tfm_reject_fn reject; /* Is called for each bad line. If NULL, a bad line fails the call before any work. */
    void *reject_user;    /* The `user` pointer of reject. */
    tfm_progress_fn progress; /* Is told of the progress. May be NULL. */
    void *progress_user;      /* The `user` pointer of progress. */
    tfm_embed_stats *stats;   /* Counts that the call adds to. May be NULL. */
    uint64_t reserved[8];     /* Must be 0: room for later fields. */
} tfm_embed_options;

/* scores [count][classes]: how likely each of `count` lines is of each class, by a softmax over the classes; or by a
 * sigmoid for each where config.json's `problem_type` is "multi_label_classification" and where there is one class; or
 * the logits where it is "regression". The scores of a bad line are NaN. Lines of more tokens than the model takes are
 * cut, of two texts the longer one first. `options` may be NULL. TFM_ERROR_ARGUMENT for a model without a head for
 * classes or without a tokenizer. */
TFM_API tfm_status tfm_classify(tfm_model *model, float *scores, const char *const *lines, size_t count,
                                const tfm_embed_options *options);

/* A word that may stand in the place of a mask. */
typedef struct tfm_mask_prediction {
    size_t line;        /* The line, counted from 0. */
    size_t mask;        /* Which of its masks, counted from 0. */
    int rank;           /* The rank of the word, 0 for the likeliest. */
    int32_t id;         /* The id of the word. */
    const char *piece;  /* Its piece in the vocabulary, or "" for an id that has none. */
    const char *text;   /* The piece as text. */
    double probability; /* How probable the word is there, from 0 to 1. */
} tfm_mask_prediction;

/* Receives one guess. Return false to stop (TFM_ERROR_CANCELLED). */
typedef bool (*tfm_mask_prediction_fn)(void *user, const tfm_mask_prediction *guess);

/* Emits the `top` likeliest words for each mask of each line, in order, when all are done; 1 <= top <= 64. A line
 * without a mask, and one whose masks are all cut off, is a bad line; nothing is emitted for such a one. The mask is a
 * token such as "[MASK]" or "<mask>" in the text. `options` may be NULL. TFM_ERROR_ARGUMENT for a model without a head
 * for masked words, or whose tokenizer has no mask. */
TFM_API tfm_status tfm_fill_mask(tfm_model *model, const char *const *lines, size_t count, int top_k,
                                 const tfm_embed_options *options, tfm_mask_prediction_fn emit, void *user);

/* ---- Vectors --------------------------------------------------------------------------------------------------- */

/* An encoder, and what makes vectors out of what it gives. */
typedef struct tfm_embedder tfm_embedder;

/* Whether vectors are made 1 long. */
typedef enum tfm_normalize {
    TFM_NORMALIZE_AS_SAVED, /* As modules.json says; without it, no. */
    TFM_NORMALIZE_ON,       /* Yes, whatever modules.json says. */
    TFM_NORMALIZE_OFF,      /* No: a normalisation at the end is left out. */
} tfm_normalize;

typedef struct tfm_embedder_options {
    bool no_tokenizer;       /* Opens no tokenizer, so the directory needs none. Calls that take text are refused. */
    bool has_pooling;        /* Whether `pooling` is given. */
    tfm_pooling pooling;     /* In the place of the directory's own; which is TFM_POOL_MEAN without modules.json. */
    tfm_normalize normalize; /* Whether vectors are made 1 long. */
    tfm_precision precision; /* What the encoder's matrices are. */
    uint64_t reserved[8];    /* Must be 0: room for later fields. */
} tfm_embedder_options;

/* Opens a directory. The embedder keeps the context alive. `options` may be NULL. On failure *out is NULL: what
 * tfm_model_open says of it, TFM_ERROR_UNSUPPORTED for a module that tfm does not run and for a model that has both an
 * encoder and a decoder, and TFM_ERROR_FORMAT for damaged files of modules. */
TFM_API tfm_status tfm_embedder_open(tfm_embedder **out, tfm_context *ctx, const char *dir,
                                     const tfm_embedder_options *options);
/* Gives the embedder and its model up and sets the pointer to NULL. Does nothing for NULL. Counts as a use of the
 * context. */
TFM_API void tfm_embedder_free(tfm_embedder **embedder);

/* What is known of an embedder. */
typedef struct tfm_embedder_info {
    int width;           /* W, the numbers of a vector. */
    int max_tokens;      /* The most tokens of a text, with special ones; longer ones are cut. */
    char pooling[64];    /* "mean", or several joined: "cls+mean". */
    bool normalized;     /* Vectors are 1 long. */
    bool lower_case;     /* Letters are made small before the tokenizer sees them. */
    int dense_layers;    /* How many dense layers follow the pooling. */
    size_t prompt_count; /* How many prompts the directory names. */
} tfm_embedder_info;

/* What is known of an embedder. The struct belongs to it. NULL for NULL. */
TFM_API const tfm_embedder_info *tfm_embedder_get_info(const tfm_embedder *embedder);
/* Says what a directory tells of its embedder, and of the encoder within it. It needs no device. What tfm_embedder_open
 * would refuse of the directory with the same options, it refuses with the same status and sentence, but for numbers
 * that the precision cannot have. `options` may be NULL; with no_tokenizer, a directory needs none. The strings of
 * *encoder are static. */
TFM_API tfm_status tfm_embedder_read_info(tfm_embedder_info *out, tfm_model_info *encoder, const char *dir,
                                          const tfm_embedder_options *options);
/* The encoder, which belongs to the embedder. NULL for NULL. */
TFM_API tfm_model *tfm_embedder_model(const tfm_embedder *embedder);
/* The text of a prompt that config_sentence_transformers.json names, such as "query", or NULL if there is none of that
 * name. NULL for `name` asks for the default prompt. The string belongs to the embedder. */
TFM_API const char *tfm_embedder_prompt(const tfm_embedder *embedder, const char *name);
/* The name of a prompt, counted from 0. NULL after the last. */
TFM_API const char *tfm_embedder_prompt_name(const tfm_embedder *embedder, size_t index);

/* vectors (B, W) of ids (B, T) I32. lengths (B) I32 counts the tokens of each row; empty for all T. The first `skipped`
 * tokens, 0 or more, are read but left out of the pooling. T is at most the encoder's positions. Outputs and errors
 * follow the rules of ops.h. */
TFM_API tfm_status tfm_embed_ids(tfm_embedder *embedder, tfm_tensor *vectors, tfm_tensor ids, tfm_tensor lengths,
                                 int64_t skipped);

/* vectors [count][W] of `count` lines of UTF-8. An empty line has a vector too. Lines of more tokens than max_tokens
 * are cut. The vector of a bad line is NaN. If the options give no prompt, the default prompt of the directory is put
 * before each line, if it names one; "" puts none. `options` may be NULL. */
TFM_API tfm_status tfm_embed(tfm_embedder *embedder, float *vectors, const char *const *lines, size_t count,
                             const tfm_embed_options *options);

#ifdef __cplusplus
}
#endif
#endif
