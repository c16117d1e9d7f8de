/* Encoder-decoder models from a directory, and what one does with them.
 *
 *     tfm_model *model;
 *     tfm_model_open(&model, ctx, "opus-mt-de-en", NULL);
 *     tfm_translate(model, lines, count, NULL, emit, user);
 *     tfm_model_free(&model);
 *
 * The directory is a Hugging Face Marian / OPUS-MT one: config.json, model.safetensors (F32, F16, BF16),
 * generation_config.json, source.spm, target.spm, vocab.json. There is no conversion step. */
#ifndef TFM_MODEL_H
#define TFM_MODEL_H

#include "nn.h"
#include "text.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tfm_model tfm_model;

typedef struct tfm_model_options {
    bool no_tokenizer; /* ids only: the directory needs no .spm and vocab files, and text calls are refused */
} tfm_model_options;

/* Reads the directory and puts the parameters on the context's device, as F32. The context must outlive the model. On
 * failure *model is NULL: TFM_ERROR_IO for a missing file, TFM_ERROR_FORMAT for a broken one or one that disagrees with
 * another, TFM_ERROR_UNSUPPORTED for a family or activation that tfm does not run. `options` may be NULL. */
TFM_API tfm_status tfm_model_open(tfm_model **out, tfm_context *ctx, const char *dir, const tfm_model_options *options);

/* How the matrices of a new model are drawn; biases begin at 0, gammas at 1, embeddings as N(0, 1/E). */
typedef enum tfm_init {
    TFM_INIT_XAVIER,   /* uniform within sqrt(6 / (inputs + outputs)) ("Understanding the difficulty of training deep
                          feedforward neural networks", Glorot and Bengio 2010) */
    TFM_INIT_GAUSSIAN, /* N(0, 0.02^2) */
    TFM_INIT_KAIMING,  /* N(0, 2 / inputs) ("Delving Deep into Rectifiers", He et al. 2015) */
} tfm_init;

/* An encoder-decoder of the paper: sinusoids, embeddings times sqrt(E), the output projection tied to the target's. */
typedef struct tfm_model_shape {
    int width, heads, feed_forward; /* heads divides width */
    int encoder_layers, decoder_layers;
    int source_vocabulary;
    int target_vocabulary; /* 0: one vocabulary, and one table, for both */
    int max_positions;
    /* Of the tokenizer: target_pad, target_eos, and for start_id, which the decoder reads first, target_pad again as in
     * Marian's models. They lie in both vocabularies. */
    int pad_id, eos_id, start_id;
    tfm_activation activation;    /* the paper's is TFM_RELU */
    bool pre_norm;                /* with a norm after the last block */
    tfm_init init;
    uint64_t seed;                /* the same seed draws the same parameters on every machine, but for roundings */
} tfm_model_shape;

/* A model with new parameters, and without a tokenizer: it takes ids, or what tfm_model_open_tokenizer reads.
 * TFM_ERROR_ARGUMENT for sizes that do not go together. */
TFM_API tfm_status tfm_model_create(tfm_model **out, tfm_context *ctx, const tfm_model_shape *shape);

/* Gives a model that has none the tokenizer of a directory: text calls work from then on. TFM_ERROR_FORMAT where its
 * vocabulary is not of this model's size or special ids; the model is then as it was. */
TFM_API tfm_status tfm_model_open_tokenizer(tfm_model *model, const char *dir);

/* Writes config.json, generation_config.json and model.safetensors into the folder `dir`, made if it is not there: what
 * tfm_model_open reads, and MarianMTModel of Hugging Face's transformers, but for pre-norm models, which that has not.
 * Matrices and tables are stored as `dtype`, F32, F16 or BF16, vectors as F32. Each file appears when it is complete; the tokenizer's files are the caller's to copy. */
TFM_API tfm_status tfm_model_save(tfm_model *model, const char *dir, tfm_dtype dtype);

/* Gives the parameters back and nulls *model. NULL is taken. */
TFM_API void tfm_model_free(tfm_model **model);

typedef struct tfm_model_info {
    const char *family; /* "marian" */
    int width;          /* E */
    int encoder_layers, decoder_layers;
    int encoder_heads, decoder_heads;
    int encoder_feed_forward, decoder_feed_forward;
    int source_vocabulary, target_vocabulary;
    int max_positions;
    tfm_activation activation;
    bool pre_norm;
    bool tied_output;            /* the output projection is the target embedding */
    const char *stored_dtype;    /* of the largest tensor in the file: "F16" */
    uint64_t parameters;         /* shared tensors counted once; tables of sinusoids not counted */
    uint64_t parameter_bytes;    /* on the device */
    uint64_t estimated_bytes;    /* on the device while translating with the default options: parameters, packed
                                    copies, activations, caches */
    int pad_id, eos_id, start_id;
    int beam;                    /* the directory's, or the default */
} tfm_model_info;

/* Strings are borrowed from the model. */
TFM_API tfm_model_info tfm_model_describe(const tfm_model *model);

/* What a directory says of its model, without a device: parameters are counted in the file, not loaded. The strings of
 * *out are static. */
TFM_API tfm_status tfm_model_inspect(tfm_model_info *out, const char *dir);

TFM_API tfm_context *tfm_model_context(const tfm_model *model);
/* NULL for a model opened with no_tokenizer. Borrowed. */
TFM_API const tfm_tokenizer *tfm_model_tokenizer(const tfm_model *model);

/* ---- Tensors --------------------------------------------------------------------------------------------------- */

/* encoded (B, S, E): the encoder's output. ids (B, S) I32, padded with anything in range behind lengths (B) I32. S is at
 * most max_positions. */
TFM_API tfm_status tfm_model_encode(tfm_model *model, tfm_tensor *encoded, tfm_tensor ids, tfm_tensor lengths);

/* logits (B, T, V): the decoder over whole targets, causal (teacher forcing). ids (B, T) I32: the decoder's input, which
 * begins with start_id. encoded (B, S, E), lengths (B) I32 as given to tfm_model_encode. */
TFM_API tfm_status tfm_model_decode(tfm_model *model, tfm_tensor *logits, tfm_tensor ids, tfm_tensor encoded,
                                    tfm_tensor lengths);

/* Which attention: the encoder's over the source, the decoder's over the target so far, the decoder's over the source. */
typedef enum tfm_attention_kind { TFM_ENCODER_SELF, TFM_DECODER_SELF, TFM_DECODER_CROSS } tfm_attention_kind;

/* Receives the weights of one attention layer, counted from 0: (B, H, rows, columns), a row for each position that
 * looks, which adds up to 1 over the positions that it looks at; alive until it returns. tfm_tensor_read fetches them.
 * Return false to stop. */
typedef bool (*tfm_attention_fn)(void *user, tfm_attention_kind kind, int layer, tfm_tensor weights);

/* Shows the attention of one forward pass with both sides given (teacher forcing): the encoder's layers (B, H, S, S), then
 * of each decoder layer TFM_DECODER_SELF (B, H, T, T), zero above the diagonal, and TFM_DECODER_CROSS (B, H, T, S). Columns
 * behind a sequence's length are zero. Arguments as for tfm_model_encode and tfm_model_decode. A pass that is not watched
 * never holds such matrices. TFM_ERROR_CANCELLED if `see` stopped it. */
TFM_API tfm_status tfm_model_attend(tfm_model *model, tfm_tensor source_ids, tfm_tensor lengths, tfm_tensor target_ids,
                                    tfm_attention_fn see, void *user);

/* ---- Search ---------------------------------------------------------------------------------------------------- */

typedef enum tfm_length_penalty {
    TFM_PENALTY_PAPER,       /* score = sum log p / ((5 + n) / 6)^alpha, n generated tokens with EOS; alpha 0.6 */
    TFM_PENALTY_HUGGINGFACE, /* score = sum log p / n^alpha; alpha is the directory's length_penalty, or 1 */
} tfm_length_penalty;

typedef struct tfm_search_stats {
    uint64_t sentences;     /* translated; bad lines not counted */
    uint64_t source_tokens; /* with EOS */
    uint64_t target_tokens; /* of the best hypotheses, with EOS */
    double seconds;
} tfm_search_stats;

/* Called for a line that cannot be translated (invalid UTF-8, NUL, too long, or its prefix is, leaves no room in the
 * maximum length, or holds what the model never writes); `message` is borrowed. The line is then
 * emitted as an empty one is. Return false to stop. */
typedef bool (*tfm_reject_fn)(void *user, size_t line, const char *message);

typedef struct tfm_search_options {
    int beam;                   /* up to 32; 0: the directory's num_beams, else 4; 1 is greedy search */
    bool has_alpha;             /* whether `alpha` is given: 0 is a fine value */
    double alpha;               /* -10 to 10 */
    tfm_length_penalty penalty;
    int max_length;             /* generated tokens; 0: source tokens with EOS + 50; at most max_positions */
    int n_best;                 /* hypotheses per line; 0 means 1; at most beam */
    int batch_tokens;           /* source tokens with padding of one batch; 0: 4096 */
    bool truncate;              /* cut lines longer than the positions instead of rejecting them */
    const size_t *line_bytes;   /* of each line, which may then hold NUL; NULL: strlen */
    const char *const *prefixes; /* per line, text that its translation begins with, or NULL; NULL: none */
    tfm_reject_fn reject;       /* NULL: a bad line fails the call, before anything is translated */
    void *reject_user;
    tfm_search_stats *stats;    /* if not NULL, added to; not by tfm_search */
    bool (*go_on)(void *user);  /* asked at each batch and step: false ends the call (TFM_ERROR_CANCELLED); or NULL */
    void *go_on_user;
} tfm_search_options;

/* Receives one hypothesis: `best` counts from 0. `text` is borrowed. A line that was not translated, because it is empty,
 * holds nothing but blanks or was rejected, has one of them, "" with score NaN. Return false to stop
 * (TFM_ERROR_CANCELLED). */
typedef bool (*tfm_emit_fn)(void *user, size_t line, int best, const char *text, double score);

/* Translates `count` lines of UTF-8, in batches of similar length, and emits them in the order of the lines when all
 * are done; an empty line gives "". Search as in the paper (section 6.1). `options` may be NULL. */
TFM_API tfm_status tfm_translate(tfm_model *model, const char *const *lines, size_t count,
                                 const tfm_search_options *options, tfm_emit_fn emit, void *user);

/* One finished hypothesis: `ids` without start and EOS, owned by the list. */
typedef struct tfm_hypothesis {
    int32_t *ids;
    size_t count;
    double score;
    double log_prob; /* sum log p */
    int tokens;      /* generated, with EOS: what the length penalty counts */
} tfm_hypothesis;

typedef struct tfm_hypotheses {
    size_t sentences;
    int n_best;
    tfm_hypothesis *items; /* [sentences * n_best], best first; score -inf where there are fewer */
} tfm_hypotheses;

/* The same on ids, one batch: ids holds the sentences one after the other, of sentence i counts[i] ids with EOS. prefixes
 * and prefix_counts, if not NULL, hold forced target ids likewise, cut at the maximum length. Free with tfm_hypotheses_free.
 * Of `options`, beam, alpha, penalty, max_length, n_best and go_on count. A batch that does not fit is not split. On failure
 * *out is empty: TFM_ERROR_INPUT for a sentence of no ids or more than the positions, TFM_ERROR_ARGUMENT for an id that is
 * in no vocabulary. */
TFM_API tfm_status tfm_search(tfm_model *model, tfm_hypotheses *out, const int32_t *ids, const size_t *counts,
                              size_t sentences, const int32_t *prefixes, const size_t *prefix_counts,
                              const tfm_search_options *options);
TFM_API void tfm_hypotheses_free(tfm_hypotheses *hypotheses);

/* Receives one scored pair: sum log p of the target with EOS, and its tokens with EOS. Return false to stop. */
typedef bool (*tfm_score_fn)(void *user, size_t line, double log_prob, size_t tokens);

/* log p of each target line given its source line, by teacher forcing; emitted in order. Of `options`, batch_tokens,
 * truncate, reject and stats count; a rejected pair is emitted with NaN and 0 tokens. */
TFM_API tfm_status tfm_score(tfm_model *model, const char *const *sources, const char *const *targets, size_t count,
                             const tfm_search_options *options, tfm_score_fn emit, void *user);

/* The tokens along one side of an attention map. */
typedef struct tfm_attention_axis {
    size_t count;
    const int32_t *ids;
    const char *const *tokens; /* the vocabulary's pieces, such as "▁Haus"; "#7" for an id that has none */
} tfm_attention_axis;

/* What one attention layer does with one pair of texts. All is borrowed. */
typedef struct tfm_attention_map {
    tfm_attention_kind kind;
    int layer; /* from 0 */
    int heads;
    tfm_attention_axis rows, columns; /* who looks, and at what */
    const float *weights;             /* [heads][rows][columns]; a row adds up to 1 */
} tfm_attention_map;

/* Receives one map. Return false to stop. */
typedef bool (*tfm_map_fn)(void *user, const tfm_attention_map *map);

/* The attention of every layer for one pair, in the order of tfm_model_attend. A NULL `target` means the model's own
 * translation by `options`. The source's axis is its tokens with EOS; the target's is what the decoder reads: start_id and
 * the tokens without EOS, so row i is position i about to write token i + 1. Of `options` (NULL: defaults) those of the
 * search count, and truncate. A text that is no UTF-8 or too long, and a source without words, is TFM_ERROR_INPUT. */
TFM_API tfm_status tfm_attend(tfm_model *model, const char *source, const char *target,
                              const tfm_search_options *options, tfm_map_fn emit, void *user);

#ifdef __cplusplus
}
#endif
#endif
