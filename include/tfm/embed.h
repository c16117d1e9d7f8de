/* Encoder-only models: text embeddings, sequence classification, and fill-mask (masked-token prediction).
 *
 *     tfm_embedder *embedder = NULL;
 *     const char *lines[] = {"The cat sits outside.", "A dog plays in the garden."};
 *     float vectors[2 * 384];
 *     if (tfm_embedder_open(&embedder, ctx, "all-MiniLM-L6-v2", NULL) == TFM_OK &&
 *         tfm_embedder_get_info(embedder)->width == 384)
 *         tfm_embed(embedder, vectors, lines, 2, NULL);
 *     tfm_embedder_free(&embedder);
 *
 * The directory is a Hugging Face directory of an encoder such as BERT, XLM-R or ModernBERT, or a sentence-transformers
 * directory with modules.json (pooling, dense layers, layer norms, normalization). Embeddings also work with
 * decoder-only models. Without pooling (ColBERT models, as PyLate saves them) each token has a vector, and texts are
 * compared by tfm_maxsim.
 *
 * An embedder works on its context, so one thread at a time may use both. */
#ifndef TFM_EMBED_H
#define TFM_EMBED_H

#include "model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Heads of encoders ----------------------------------------------------------------------------------------- */

/* tfm_model_encode for pairs of texts: types (B, T) I32 is 0 for tokens of the first text and 1 for those of the
 * second; empty means all 0. Ignored by models without a token-type table. */
TFM_API tfm_status tfm_model_encode_pairs(tfm_model *model, tfm_tensor *encoded, tfm_tensor ids, tfm_tensor types,
                                          tfm_tensor lengths);

/* Masked-token logits (..., V) of encoded (..., E), the output of tfm_model_encode or rows of it, of rank 2 or more.
 * TFM_ERROR_ARGUMENT for a model without a masked-LM head. */
TFM_API tfm_status tfm_model_mlm_logits(tfm_model *model, tfm_tensor *logits, tfm_tensor encoded);

/* Class logits (B, C) of encoded (B, T, E), the output of tfm_model_encode with the same `lengths`, which may be empty.
 * TFM_ERROR_ARGUMENT for a model without a classification head. */
TFM_API tfm_status tfm_model_class_logits(tfm_model *model, tfm_tensor *logits, tfm_tensor encoded, tfm_tensor lengths);

/* The number of classes of the classification head; 0 without one, and for NULL. */
TFM_API size_t tfm_model_class_count(const tfm_model *model);
/* The name of a class in config.json, such as "POSITIVE", or "LABEL_1" without one. The string belongs to the model.
 * NULL for an index out of range. */
TFM_API const char *tfm_model_class_name(const tfm_model *model, size_t index);

/* ---- Texts ----------------------------------------------------------------------------------------------------- */

/* Counts. A call that succeeds adds to them. */
typedef struct tfm_embed_stats {
    uint64_t lines;  /* Lines, without bad ones. */
    uint64_t tokens; /* Their tokens, with special tokens. */
    uint64_t truncated;
    double seconds;
} tfm_embed_stats;

/* Options for lines of text. */
typedef struct tfm_embed_options {
    /* The length of each line in bytes; a line may then contain NUL, and is rejected. NULL: lines end with NUL. */
    const size_t *line_bytes;
    /* A second text for each line, or NULL for none, read together with it by models that compare texts; NULL for no
     * second texts at all. */
    const char *const *text_pairs;
    const char *prompt;   /* A prefix of each line, but not of second texts, such as "query: ". NULL: none, or in
                             tfm_embed the default prompt of the directory. */
    int batch_tokens;     /* Maximum tokens of a batch, with padding. 0: 2048 or 4096, depending on the device. */
    tfm_reject_fn reject; /* Called for each bad line. If NULL, a bad line fails the call before any work. */
    void *reject_user;
    tfm_progress_fn progress; /* Called with the progress. May be NULL. */
    void *progress_user;
    tfm_embed_stats *stats; /* Counts that the call adds to. May be NULL. */
    /* [count], the `ids` of each text, with its special tokens, instead of lines, in tfm_embed. There is no prompt, and
     * a text that is empty, too long or has an id outside the vocabulary is a bad line. NULL: lines. */
    const tfm_prompt *token_ids;
    uint64_t reserved[7]; /* Must be 0. */
} tfm_embed_options;

/* Class probabilities scores [count][classes] of `count` lines: softmax over the classes; a sigmoid for each class if
 * config.json's `problem_type` is "multi_label_classification" or there is one class; the logits if it is "regression".
 * The scores of a bad line are NaN. Lines of more tokens than the model takes are truncated, of pairs the longer text
 * first. `options` may be NULL. TFM_ERROR_ARGUMENT for a model without a classification head or a tokenizer. */
TFM_API tfm_status tfm_classify(tfm_model *model, float *scores, const char *const *lines, size_t count,
                                const tfm_embed_options *options);

/* One prediction for a mask token. */
typedef struct tfm_mask_prediction {
    size_t line; /* The line, counted from 0. */
    size_t mask; /* The mask in the line, counted from 0. */
    int rank;    /* The rank, 0 for the most probable. */
    int32_t id;
    const char *piece; /* Its piece in the vocabulary, or "" for an id that has none. */
    const char *text;  /* The piece as text. */
    double probability;
} tfm_mask_prediction;

/* Receives one prediction. Return false to stop (TFM_ERROR_CANCELLED). */
typedef bool (*tfm_mask_prediction_fn)(void *user, const tfm_mask_prediction *guess);

/* Emits the `top_k` most probable tokens for each mask of each line, in order, after all lines are computed; 1 <= top_k
 * <= 64. The mask is a token such as "[MASK]" or "<mask>" in the text. A line without a mask, or with all masks
 * truncated, is a bad line; nothing is emitted for it. `options` may be NULL. TFM_ERROR_ARGUMENT for a model without a
 * masked-LM head, or a tokenizer without a mask token. */
TFM_API tfm_status tfm_fill_mask(tfm_model *model, const char *const *lines, size_t count, int top_k,
                                 const tfm_embed_options *options, tfm_mask_prediction_fn emit, void *user);

/* A sparse embedding: tokens of the vocabulary with their weights above 0, valid during the callback. */
typedef struct tfm_sparse_embedding {
    size_t line; /* The line, counted from 0. */
    size_t count;
    const int32_t *ids;   /* [count], ascending. */
    const float *weights; /* [count] */
} tfm_sparse_embedding;

/* Receives one sparse embedding. Return false to stop (TFM_ERROR_CANCELLED). */
typedef bool (*tfm_sparse_embedding_fn)(void *user, const tfm_sparse_embedding *embedding);

/* Emits the SPLADE embedding of each line, in order, after all lines are computed; none for a bad line. The weight of a
 * token is the largest log(1 + ReLU(logit)) of the masked-LM head over the tokens of the line. Lines of more tokens
 * than the model takes are truncated. Similarities are dot products. `options` may be NULL. TFM_ERROR_ARGUMENT for a
 * model without a masked-LM head or a tokenizer, TFM_ERROR_UNSUPPORTED for one whose
 * SpladePooling module sums, or takes the logarithm twice. */
TFM_API tfm_status tfm_embed_sparse(tfm_model *model, const char *const *lines, size_t count,
                                    const tfm_embed_options *options, tfm_sparse_embedding_fn emit, void *user);

/* ---- Vectors --------------------------------------------------------------------------------------------------- */

/* A model with pooling and the further modules of an embedding model. */
typedef struct tfm_embedder tfm_embedder;

/* L2 normalization of embeddings. */
typedef enum tfm_normalize {
    TFM_NORMALIZE_AS_SAVED, /* As modules.json says; off without it. */
    TFM_NORMALIZE_ON,       /* Always. */
    TFM_NORMALIZE_OFF,      /* Never: a final normalization module is skipped. */
} tfm_normalize;

typedef struct tfm_embedder_options {
    bool no_tokenizer;       /* Opens no tokenizer, so the directory needs none. Calls that take text are refused. */
    bool has_pooling;        /* Whether `pooling` is given. */
    bool no_pooling;         /* A vector of each token (tfm_embed_tokens): pooling modules are skipped. */
    tfm_pooling pooling;     /* Overrides the directory's pooling, which is TFM_POOL_MEAN without modules.json. */
    tfm_normalize normalize; /* L2 normalization of embeddings. */
    tfm_precision precision;
    tfm_precision activation_precision; /* As in tfm_model_options. */
    tfm_precision kv_precision;         /* As there, for a decoder-only model that also generates text */
    int ctx_size;                       /* (tfm_embedder_model). */
    const tfm_adapter *adapters;        /* [adapter_count]: of the encoder, as in tfm_model_options. */
    size_t adapter_count;
    uint64_t reserved[4]; /* Must be 0. */
} tfm_embedder_options;

/* Opens a directory, or a name as tfm_model_open does. The embedder keeps the context alive. `options` may be NULL. On
 * failure *out is NULL: the errors of tfm_model_open, TFM_ERROR_UNSUPPORTED for an unsupported module and for an
 * encoder-decoder, and TFM_ERROR_FORMAT for damaged module files. */
TFM_API tfm_status tfm_embedder_open(tfm_embedder **out, tfm_context *ctx, const char *dir,
                                     const tfm_embedder_options *options);
/* Releases the embedder and its model and sets the pointer to NULL. Counts as a use of the
 * context. */
TFM_API void tfm_embedder_free(tfm_embedder **embedder);

/* Embedder info. */
typedef struct tfm_embedder_info {
    int width;           /* W, the embedding dimension. */
    int max_tokens;      /* Maximum tokens of a text, with special tokens; longer texts are truncated. */
    char pooling[64];    /* "mean", or several concatenated: "cls+mean". */
    bool normalized;     /* Embeddings are L2-normalized. */
    bool lower_case;     /* Text is lowercased before tokenization. */
    int dense_layers;    /* Dense layers after the pooling. */
    size_t prompt_count; /* Prompts of the directory. */
    bool token_vectors;  /* Without pooling: tfm_embed_tokens, not tfm_embed. `pooling` is "none". */
    int query_tokens;    /* Maximum tokens of a query, with expansion; else as max_tokens. */
} tfm_embedder_info;

/* Embedder info. The struct belongs to the embedder. NULL for NULL. */
TFM_API const tfm_embedder_info *tfm_embedder_get_info(const tfm_embedder *embedder);
/* Reads the info of a directory and of the encoder in it, without a device. It fails with the same status and message
 * as tfm_embedder_open with the same options, except for weights out of range of the precision. `options` may be NULL;
 * with no_tokenizer, a directory needs no tokenizer. The strings of *encoder are static. */
TFM_API tfm_status tfm_embedder_read_info(tfm_embedder_info *out, tfm_model_info *encoder, const char *dir,
                                          const tfm_embedder_options *options);
/* The encoder, which belongs to the embedder. NULL for NULL. */
TFM_API tfm_model *tfm_embedder_model(const tfm_embedder *embedder);
/* The text of a prompt of config_sentence_transformers.json, such as "query", or NULL without one of that name. NULL
 * for `name` means the default prompt. The string belongs to the embedder. */
TFM_API const char *tfm_embedder_prompt(const tfm_embedder *embedder, const char *name);
/* The name of a prompt, counted from 0. NULL after the last. */
TFM_API const char *tfm_embedder_prompt_name(const tfm_embedder *embedder, size_t index);

/* Computes embeddings (B, W) of ids (B, T) I32. lengths (B) I32 counts the tokens of each row; empty for all T. The
 * first `skipped` tokens, 0 or more, are read but excluded from the pooling. T is at most the encoder's positions.
 * Outputs and errors follow the rules of ops.h. */
TFM_API tfm_status tfm_embed_ids(tfm_embedder *embedder, tfm_tensor *vectors, tfm_tensor ids, tfm_tensor lengths,
                                 int64_t skipped);

/* Computes embeddings [count][W] of `count` lines of UTF-8. An empty line has an embedding too. Lines of more than
 * max_tokens tokens are truncated. The embedding of a bad line is NaN. Without a prompt in the options, the default
 * prompt of the directory, if any, is put before each line; "" means none. `lines` may be NULL if the options have
 * token_ids; `options` may be NULL. TFM_ERROR_UNSUPPORTED for an embedder without pooling. */
TFM_API tfm_status tfm_embed(tfm_embedder *embedder, float *vectors, const char *const *lines, size_t count,
                             const tfm_embed_options *options);

/* ---- Late interaction ------------------------------------------------------------------------------------------ */

/* The vectors of the tokens of one line, valid during the callback. */
typedef struct tfm_token_vectors {
    size_t line; /* The line, counted from 0. */
    size_t count;
    int width;            /* W, as in tfm_embedder_info. */
    const int32_t *ids;   /* [count] */
    const float *vectors; /* [count][W] */
} tfm_token_vectors;

/* Receives the vectors of one line. Return false to stop (TFM_ERROR_CANCELLED). */
typedef bool (*tfm_token_vectors_fn)(void *user, const tfm_token_vectors *vectors);

/* What a text is: models of late interaction mark queries and documents. */
typedef enum tfm_text_role { TFM_ROLE_DOCUMENT, TFM_ROLE_QUERY } tfm_text_role;

/* Emits a vector of each token of each line, in order, after all lines are computed; none for a bad line. For an
 * embedder without pooling. A directory of PyLate (config_sentence_transformers.json) names the token after the first
 * one of queries and documents (query_prefix, document_prefix), their maximum tokens (query_length, document_length),
 * whether queries are filled up with mask tokens (do_query_expansion), whether these are attended to
 * (attend_to_expansion_tokens), and which tokens of documents have no vector (skiplist_words); token_ids of the
 * options are used as they are. `lines` may be NULL if the options have token_ids; `options` may be NULL.
 * TFM_ERROR_UNSUPPORTED for an embedder with pooling, and TFM_ERROR_FORMAT for a tokenizer without these tokens.
 * Source: github.com/lightonai/pylate, models/colbert.py. */
TFM_API tfm_status tfm_embed_tokens(tfm_embedder *embedder, const char *const *lines, size_t count, tfm_text_role role,
                                    const tfm_embed_options *options, tfm_token_vectors_fn emit, void *user);

/* The relevance of a document: the sum over the vectors of the query [query_count][width] of the largest dot product
 * with a vector of the document [document_count][width], a cosine for vectors of unit length. 0 without a vector.
 * TFM_ERROR_ARGUMENT for a NULL with a count that is not 0, or a width below 1. Any number of threads may call it at
 * once. Source: Khattab and Zaharia, 2020, ColBERT, equation 3. */
TFM_API tfm_status tfm_maxsim(double *score, const float *query, size_t query_count, const float *document,
                              size_t document_count, int width);

/* Shortens embeddings [count][width] in place to [count][dimensions], their first numbers scaled to unit length, as for
 * models trained with Matryoshka loss. Unchanged if `dimensions` is `width`. TFM_ERROR_ARGUMENT unless 1 <= dimensions
 * <= width. Any number of threads may call it at once. */
TFM_API tfm_status tfm_embeddings_truncate(float *vectors, size_t count, int width, int dimensions);

#ifdef __cplusplus
}
#endif
#endif
