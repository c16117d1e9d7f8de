/* Reranking: the relevance of documents to a query.
 *
 *     tfm_model *model = NULL;
 *     const char *documents[] = {"Berlin has 3.5 million inhabitants.", "Paris is the capital of France."};
 *     float scores[2];
 *     if (tfm_model_open(&model, ctx, "cross-encoder/ms-marco-MiniLM-L6-v2", NULL) == TFM_OK)
 *         tfm_rerank(model, scores, "How many people live in Berlin?", documents, 2, NULL);
 *     tfm_model_free(&model);
 *
 * A cross-encoder reads the query and a document together and is more accurate than an embedder, which computes a
 * vector of each.
 *
 * The calls work on a context, so one thread at a time may use it. */
#ifndef TFM_RERANK_H
#define TFM_RERANK_H

#include "chat.h"
#include "embed.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of models that rerank. */
typedef enum tfm_rerank_kind {
    TFM_RERANK_NONE,           /* An encoder-decoder, or a classifier of several classes. */
    TFM_RERANK_CROSS_ENCODER,  /* An encoder with a classification head of one class: tfm_rerank. */
    TFM_RERANK_LANGUAGE_MODEL, /* A decoder-only model with an output projection, such as Qwen3-Reranker: tfm_rerank. */
    TFM_RERANK_EMBEDDER,       /* Other encoders, and decoders with pooling: tfm_embedder_rerank. */
} tfm_rerank_kind;

/* Reads the kind of a directory, or of a name as tfm_model_open takes, without a device. Fails as tfm_model_read_info.
 * Any number of threads may call it at once. */
TFM_API tfm_status tfm_rerank_read_kind(tfm_rerank_kind *out, const char *dir);

typedef struct tfm_rerank_options {
    /* [count], a query for each document, so that one call serves several queries. NULL: `query` for all. */
    const char *const *queries;
    /* Of language models: the chat template, used if it has the roles "query" and "document"; else, and if NULL, the
     * prompt of Qwen3-Reranker, for models with its tokens. */
    const tfm_chat *chat;
    const char *instruction; /* Of language models: the task, in English. NULL: web search, or the template's own. */
    bool raw_scores;         /* The logit, without the activation of the directory (a sigmoid by default). */
    int batch_tokens;        /* Maximum tokens of a batch, with padding. 0: 2048 or 4096, depending on the device. */
    tfm_reject_fn reject;    /* Called for each bad document. If NULL, a bad document fails the call before any work. */
    void *reject_user;
    tfm_progress_fn progress; /* Called with the progress. May be NULL. */
    void *progress_user;
    tfm_embed_stats *stats; /* Counts that the call adds to. May be NULL. */
    uint64_t reserved[8];   /* Must be 0. */
} tfm_rerank_options;

/* Relevance scores [count] of `count` documents for the query, as sentence-transformers' CrossEncoder computes them: a
 * higher score is a more relevant document. Of pairs with more tokens than a cross-encoder takes, the longer text is
 * truncated first. A language model's logit is that of "yes", or of the true token of its LogitScore module, minus that
 * of "no"; a document whose prompt is too long is a bad one. The score of a bad document is NaN. `query` may be NULL if
 * the options have queries; `options` may be NULL. TFM_ERROR_ARGUMENT for a model without a tokenizer, or with
 * neither a classification head of one class nor a decoder with an output projection. TFM_ERROR_UNSUPPORTED for an
 * activation other than torch's Sigmoid and Identity, and for a language model without the tokens or a prompt. */
TFM_API tfm_status tfm_rerank(tfm_model *model, float *scores, const char *query, const char *const *documents,
                              size_t count, const tfm_rerank_options *options);

/* The same by the cosine of two embeddings. The query gets the directory's prompt "query", documents its first of
 * "document", "passage" and "corpus", as in sentence-transformers; without one there is no prompt. Queries
 * that follow each other and are one pointer are embedded once. `raw_scores` changes nothing. The score of an embedder
 * without pooling is tfm_maxsim. */
TFM_API tfm_status tfm_embedder_rerank(tfm_embedder *embedder, float *scores, const char *query,
                                       const char *const *documents, size_t count, const tfm_rerank_options *options);

#ifdef __cplusplus
}
#endif
#endif
