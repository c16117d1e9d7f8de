/* Models: opening, making and saving them, translation, scoring, a look at their attention, and going on with a text.
 *
 *     tfm_model *model;
 *     tfm_model_open(&model, ctx, "opus-mt-de-en", NULL);
 *     tfm_translate(model, lines, count, NULL, emit, user);
 *     tfm_model_free(&model);
 *
 * The directory is one of Hugging Face's: it has config.json, weights in F32, F16 or BF16, or in bytes as
 * tfm_model_quantize writes them, mostly generation_config.json, and the files of a tokenizer (tfm_tokenizer_open),
 * which for Marian / OPUS-MT are source.spm, target.spm and vocab.json. There is no conversion step.
 *
 * `model_type` in config.json says which family a model is of: an encoder-decoder such as "marian", "bart" or "t5", a
 * language model such as "gpt2" or "llama", which has a decoder alone, or an encoder such as "bert" (embed.h). The
 * message that refuses another family names all that are run. What a family has that is not run, such as a scaling of
 * its rotation, is refused by the name of its key.
 *
 * The weights are the first that exist of model.safetensors, the files that model.safetensors.index.json lists,
 * pytorch_model.bin (what torch.save of any PyTorch version writes of a state_dict), and the files that
 * pytorch_model.bin.index.json lists. A .bin file is read as data only; nothing in it is run.
 *
 * A directory without config.json is one of Marian's or Bergamot's: a file of weights with Marian's configuration in it
 * (model.npz, or model.*.bin, also of int8 as intgemm takes it, which becomes floating point here, unless it is opened
 * as TFM_PRECISION_INT8, which keeps its bytes), vocab.spm or one for each side, whose ids are SentencePiece's own,
 * and, if they exist, lex.*.bin, a shortlist that searches go by, and config.yml or decoder.yml, which names them. This
 * takes a tfm that was built with libyaml. They are not written.
 *
 * generation_config.json, or config.json where there is no such file, also says how texts are written. Translations and
 * texts that go on obey its length_penalty, early_stopping, max_new_tokens, max_length, min_new_tokens, min_length,
 * repetition_penalty, no_repeat_ngram_size, encoder_repetition_penalty and encoder_no_repeat_ngram_size, which look at
 * the source or at the prompt, exponential_decay_length_penalty, bad_words_ids, suppress_tokens, begin_suppress_tokens,
 * sequence_bias, renormalize_logits, forced_eos_token_id, and all ends that eos_token_id lists; translations alone
 * num_beams, decoder_start_token_id and forced_bos_token_id; and texts that are drawn temperature, top_k, top_p and
 * min_p. Options of a call, where they are given, come before these, and what is said below of tfm_length_norm and
 * max_length bounds some of them. Where these rules leave no token to choose, as no_repeat_ngram_size 1 does in a small
 * vocabulary, a hypothesis is finished with the tokens that it has, which may be none. do_sample is not asked.
 * guidance_scale and watermarking_config are TFM_ERROR_UNSUPPORTED when the model is opened; of other keys that would
 * change a search the log has a warning.
 *
 * A model works on its context, so one thread at a time may use both. Callbacks are called on the thread that made the
 * call, before it returns, and what they are given is valid only until they return. */
#ifndef TFM_MODEL_H
#define TFM_MODEL_H

#include "nn.h"
#include "text.h"
#include "tune.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tfm_model tfm_model;

/* What a model's matrices are on the device. */
typedef enum tfm_precision {
    TFM_PRECISION_AUTO, /* Bytes where tfm_model_quantize has written the directory with bytes, else F32. */
    TFM_PRECISION_FP32, /* F32, whatever the directory has. */
    TFM_PRECISION_INT8, /* Bytes: those of linear layers, embeddings and the output projection are quantised row by
                           row (tfm_param_quantize) while they are read. A quarter of the memory; results change a
                           little. Such a model can neither be trained nor saved by tfm_model_save. */
    TFM_PRECISION_FP16, /* F16: the same matrices take half the memory; products read them as they are, and sum in
                           F32. A number that would round beyond 65504, from 65520 on, is TFM_ERROR_FORMAT. Neither
                           trained nor saved either. Where a device runs work-items side by side, as GPUs do, the
                           keys and values that a decoder keeps of a source and of what it has written are F16, too.
                           */
    TFM_PRECISION_BF16, /* The same as BF16, which has the reach of F32 and two or three decimal digits. Where a device
                           multiplies numbers of 16 bits itself, as GPUs' matrix engines do, and of BF16 CPUs with
                           AMX or AVX512-BF16, products of more than a few rows round the numbers of their input to
                           them, too. Linux lets a process use the registers of AMX when it asks: the first product of
                           this kind, or of bytes, asks, for all threads of the process, whose alternate signal stacks
                           must have the room that AT_MINSIGSTKSZ says from then on. Where one has less already, Linux
                           refuses, and AVX-512 is used. */
} tfm_precision;

typedef struct tfm_model_options {
    bool no_tokenizer; /* Opens no tokenizer, so the directory needs none. Calls that take text are refused. */
    tfm_precision precision;
    uint64_t reserved[8]; /* Must be 0: room for later fields. */
} tfm_model_options;

/* Reads the directory and puts the parameters on the context's device, as F32 unless the options or the directory say
 * otherwise. Models of one directory that are open at the same time, on one context or on several of one device, share
 * their parameters there; each model has its own copies in the layout of the device's matrix multiplication. Where the
 * device is the host's processor, parameters that a file has as they are used there are not copied but read from the
 * file, which is mapped: nobody may write into it or cut it off while such a model is open. A new file that takes its
 * name does no harm. The model keeps the context alive. `options` may be NULL. On failure *out is NULL: TFM_ERROR_IO
 * for a missing file, TFM_ERROR_FORMAT for a damaged one or one that contradicts another, TFM_ERROR_UNSUPPORTED for a
 * family, an activation or a key that tfm does not run. */
TFM_API tfm_status tfm_model_open(tfm_model **out, tfm_context *ctx, const char *dir, const tfm_model_options *options);

/* How the matrices of a new model are drawn. Biases begin at 0, gammas at 1, and embeddings are drawn from N(0, 1/E).
 */
typedef enum tfm_init {
    TFM_INIT_XAVIER,   /* Uniform within +-sqrt(6 / (inputs + outputs)) ("Understanding the difficulty of training deep
                          feedforward neural networks", Glorot and Bengio 2010). */
    TFM_INIT_GAUSSIAN, /* The normal distribution N(0, 0.02^2). */
    TFM_INIT_KAIMING,  /* N(0, 2 / inputs) ("Delving Deep into Rectifiers", He et al. 2015). */
} tfm_init;

/* The sizes of an encoder-decoder as in "Attention Is All You Need": positions are sinusoids, embeddings are multiplied
 * by sqrt(E), and the output projection is the target's embedding table.
 *
 * Or those of a language model of the family that `family` names, which has a decoder alone: encoder_layers and
 * target_vocab_size are 0, source_vocab_size is its vocabulary (tfm_model_info has it as target_vocab_size, that of the
 * side that is written), and pre_norm is not looked at, since the family says where norms stand; TFM_NO_ACTIVATION
 * stands for the family's own activation. The output projection is the embedding table. Everything else is as the
 * family has it by default. */
typedef struct tfm_model_shape {
    int width, heads, ffn_dim;          /* E, H, and the inner width of the feed-forward layers. H divides E. */
    int encoder_layers, decoder_layers; /* How many layers each half has. */
    int source_vocab_size;              /* How many ids the source side has. */
    int target_vocab_size;              /* How many the target side has; 0 for one vocabulary and one table for both. */
    int max_positions;                  /* The most tokens of a sequence, with EOS. */
    /* Ids that lie in both vocabularies: padding, end of sentence, and what the decoder reads first. Take target_pad
     * and target_eos of the tokenizer, and target_pad again for start_id as Marian's models do. */
    int pad_id, eos_id, start_id;
    tfm_activation activation; /* The activation of the feed-forward layers; TFM_RELU in the paper. TFM_NO_ACTIVATION,
                                  which is 0, leaves them linear in an encoder-decoder. */
    bool pre_norm;             /* Norms stand before the sub-layers, and one more after the last block. */
    tfm_init init;             /* How matrices are drawn. */
    uint64_t seed; /* Seeds the drawing. One seed gives the same parameters on every machine, except for rounding. */
    const char *family; /* NULL or "marian" for an encoder-decoder; for a language model the `model_type` of any
                           decoder-only family but OPT, such as "gpt2" or "llama", of which pad_id may be -1 for none,
                           and start_id and eos_id may be one id. */
    int kv_heads;       /* KV heads of a language model, where its family has a key for them; they divide H. 0: all. */
    uint64_t reserved[6]; /* Must be 0: room for later fields. */
} tfm_model_shape;

/* Makes a model with new parameters. It has no tokenizer, so it takes ids until tfm_model_open_tokenizer gives it one.
 * It keeps the context alive. On failure *out is NULL; TFM_ERROR_ARGUMENT for sizes that do not go together or
 * exceed what a directory may have, and for an activation or `init` that there is not; TFM_ERROR_UNSUPPORTED for a
 * family of which no new models are made. */
TFM_API tfm_status tfm_model_new(tfm_model **out, tfm_context *ctx, const tfm_model_shape *shape);

/* Gives a model without a tokenizer the one of a directory, so that it takes text from then on. TFM_ERROR_FORMAT if the
 * tokenizer's vocabulary or its special ids do not go with the model, TFM_ERROR_ARGUMENT if the model has a tokenizer
 * already, and what tfm_tokenizer_open says. On failure the model is as it was. */
TFM_API tfm_status tfm_model_open_tokenizer(tfm_model *model, const char *dir);

/* Writes config.json, generation_config.json and model.safetensors into the folder `dir`, which is made if it does not
 * exist. tfm_model_open reads them, and so does Hugging Face's transformers, except for pre-norm models of Marian,
 * which it does not have. Matrices and tables are stored as `dtype`, which is F32, F16 or BF16; vectors are stored as
 * F32. Each file appears when it is complete. The files of the tokenizer are not written: the caller copies them. A
 * generation_config.json that the model was opened with is written with all its keys, known here or not. Of a model of
 * pictures and text (tfm_model_info.multimodal_class) the text alone is written, as a model by itself. A number that
 * would round beyond 65504 is infinite as F16. TFM_ERROR_ARGUMENT for another `dtype`; TFM_ERROR_UNSUPPORTED for a
 * family that is not written (tfm_model_info.can_save), and for a model whose matrices are bytes or of 16 bits. */
TFM_API tfm_status tfm_model_save(tfm_model *model, const char *dir, tfm_dtype dtype);

/* Gives the model up and sets *model to NULL. Trainers of the model keep it alive. Does nothing for NULL. The
 * call counts as a use of the context: no other thread may use that meanwhile. */
TFM_API void tfm_model_free(tfm_model **model);

/* What is known of a model. */
typedef struct tfm_model_info {
    const char *family;                       /* The family of models: "marian", "llama". */
    int width;                                /* E. */
    int encoder_layers, decoder_layers;       /* How many layers each half has; 0: there is no such half. */
    int encoder_heads, decoder_heads;         /* How many heads of attention they have. */
    int encoder_ffn_dim, decoder_ffn_dim;     /* The inner widths of their feed-forward layers. */
    int source_vocab_size, target_vocab_size; /* How many ids each side has; 0: there is no such side. */
    int max_positions;                        /* The most tokens of a sequence, with EOS. */
    tfm_activation activation;                /* The activation of the feed-forward layers. */
    bool pre_norm;                            /* Norms stand before the sub-layers. */
    bool tied_embeddings;                     /* The output projection is the (target's) embedding table. */
    const char *stored_dtype;                 /* The type of the largest tensor in the file, such as "F16". */
    uint64_t parameters; /* How many numbers it has; shared ones count once, tables of sinusoids and the bias of the
                            output projection do not. */
    uint64_t parameter_bytes;     /* The bytes that the parameters take on the device. */
    uint64_t estimated_bytes;     /* The bytes that translating takes there by default: parameters and their copies,
                                     activations and caches. tfm_model_read_info, which knows no device, counts F32 for
                                     keys and values. */
    int pad_id, eos_id, start_id; /* Padding, end of sentence (the first where a model has several), and what the
                                     decoder reads first, or a text begins with; -1 for none, which only models without
                                     an encoder have. Without a decoder all three are padding. */
    int beam_size; /* The beam that the directory asks for, or else 4, or without an encoder 1. tfm_generate does not go
                 by it. */
    const char *weight_format; /* What kind of files had the weights: "safetensors", "PyTorch .bin", "NumPy .npz",
                              "Marian .bin", or "none" for a new model. */
    int weight_files;          /* How many such files there are. */
    const char *kind;          /* "encoder-decoder", "encoder" or "decoder". */
    int encoder_kv_heads, decoder_kv_heads;     /* How many of their heads have keys and values of their own. */
    int encoder_head_width, decoder_head_width; /* D. */
    const char *position_encoding; /* How positions are told apart: "sinusoids", "learned", "rotary", "relative",
                                      "alibi", "none". */
    const char *rope_type; /* What their rotation was scaled by, as in config.json: "default", "yarn"; or "none". */
    int sliding_window,
        sliding_window_layers; /* How far layers see that do not see all, and how many those are; or 0. */
    bool rms_norm;             /* Norms are by the root mean square, not layer norms. */
    bool sandwich_norm;        /* Norms stand before the sub-layers and on their results. */
    bool gated;                /* The feed-forward layers have a gate. */
    bool has_lm_head;          /* There is an output projection, so that the model can write. */
    bool has_ssru;             /* SSRU cells stand in the decoder where others attend to what they have written. */
    bool has_shortlist; /* The directory has a shortlist: what may be written for which words. Searches go by it, but
                       for translations whose first tokens are given. */
    bool can_save;      /* tfm_model_save writes models of its family, so that they can be trained and kept. */
    int classes;        /* How many classes of texts the head on an encoder tells apart, or 0. */
    const char *multimodal_class; /* The class of models of pictures and text that the directory has, such as
                            "Gemma3ForConditionalGeneration": only its text is run. NULL: the directory has no more. */
    /* The dropout that its configuration says it was trained with, as its family names it: of embeddings and
     * sub-layers, of attention weights, and inside feed-forward layers. tfm_trainer_options does not go by it. */
    double dropout, attention_dropout, activation_dropout;
} tfm_model_info;

/* Writes the model directory `dir` again, as `out`, with matrices of layers and tables of words in I8, F16 or BF16: I8
 * with a scale for each output of a matrix and each word of a table, as tfm_param_quantize makes them. All other
 * tensors are copied, and so are all files but those with weights in other forms, such as pytorch_model.bin or the
 * folders `onnx` and `openvino`, and those of a training run (recipe.json, train.jsonl, curves.svg,
 * checkpoint.safetensors, snapshots). tfm_model_open takes the result like any directory. It needs no device. `out` is
 * made if it does not exist, and files of a model that are there are replaced. A directory that has bytes already,
 * `out` that is `dir` itself, and another `dtype` are TFM_ERROR_ARGUMENT; one of Marian's own files is
 * TFM_ERROR_UNSUPPORTED; and TFM_ERROR_FORMAT is for a number that is not finite where it is to be bytes, or that would
 * round beyond 65504 as F16. */
TFM_API tfm_status tfm_model_quantize(const char *out, const char *dir, tfm_dtype dtype);

/* What is known of a model. The struct and its strings belong to the model. NULL for NULL. */
TFM_API const tfm_model_info *tfm_model_get_info(const tfm_model *model);

/* Says what a directory tells of its model. It needs no device: parameters are counted in the file and not loaded. What
 * tfm_model_open would refuse of the directory with the same options, it refuses with the same status and sentence, but
 * for numbers that the precision cannot have, at which it does not look. `options` may be NULL; with no_tokenizer, a
 * directory needs no tokenizer's files. The strings of *out are static; after a failure it is empty. */
TFM_API tfm_status tfm_model_read_info(tfm_model_info *out, const char *dir, const tfm_model_options *options);

/* From now on the model writes `language` where a call names no other one: that is what a trainer teaches it, and
 * tfm_model_save keeps it. It is a code as tfm_text_options.target_language has it. TFM_ERROR_ARGUMENT for one that the
 * model does not have, and without a tokenizer; TFM_ERROR_UNSUPPORTED for models that are told by words before each
 * source text. */
TFM_API tfm_status tfm_model_set_target_language(tfm_model *model, const char *language);

/* The context that a model works on. The caller becomes no owner of it. NULL for NULL. */
TFM_API tfm_context *tfm_model_context(const tfm_model *model);
/* The tokenizer of a model, to which it belongs, or NULL if the model has none. */
TFM_API const tfm_tokenizer *tfm_model_tokenizer(const tfm_model *model);

/* ---- Tensors --------------------------------------------------------------------------------------------------- */

/* Runs the encoder: encoded (B, S, E) is its output for ids (B, S) I32. lengths (B) I32 counts the tokens of each row;
 * what follows them is padding, which may be any id of the vocabulary. An empty `lengths` means that all rows are full.
 * S is at most max_positions. Outputs and errors follow the rules of ops.h. */
TFM_API tfm_status tfm_model_encode(tfm_model *model, tfm_tensor *encoded, tfm_tensor ids, tfm_tensor lengths);

/* Runs the decoder over whole targets, which is called teacher forcing: logits (B, T, V) at each position depend on the
 * ids up to that position. ids (B, T) I32 is what the decoder reads, start_id first. encoded (B, S, E) is the output of
 * tfm_model_encode, and lengths (B) I32 is what it was given.
 *
 * A language model has no encoder: its ids are the text itself, `encoded` and `lengths` are empty, and the last row of
 * a sequence's logits is about the token that follows. Shorter texts of a batch are filled up at their ends with any id
 * of the vocabulary, and the logits there mean nothing. T is at most max_positions. Where a model turns by other rates
 * in texts beyond some length (`rope_type` "longrope" or "dynamic"), T is that length for all texts of the batch. */
TFM_API tfm_status tfm_model_decode(tfm_model *model, tfm_tensor *logits, tfm_tensor ids, tfm_tensor encoded,
                                    tfm_tensor lengths);

/* Which attention is meant: the encoder's over the source, the decoder's over the target so far, or the decoder's over
 * the source. */
typedef enum tfm_attention_kind { TFM_ENCODER_SELF, TFM_DECODER_SELF, TFM_DECODER_CROSS } tfm_attention_kind;

/* Receives the weights of one attention layer; layers are counted from 0. They are (B, H, rows, columns): each row
 * belongs to a position that looks, each column to a position that is looked at, and a row adds up to 1.
 * tfm_tensor_read copies them to the host. Return false to stop. */
typedef bool (*tfm_attention_fn)(void *user, tfm_attention_kind kind, int layer, const tfm_tensor *weights);

/* Shows the attention of one forward pass with both sides given (teacher forcing): the encoder's layers (B, H, S, S),
 * then for each decoder layer TFM_DECODER_SELF (B, H, T, T), zero above the diagonal, and TFM_DECODER_CROSS (B, H, T,
 * S). Columns after the end of a sequence are zero. A decoder of SSRU cells has no TFM_DECODER_SELF. The arguments are
 * those of tfm_model_encode and tfm_model_decode. Only this call makes such matrices. TFM_ERROR_CANCELLED if `emit`
 * stopped it. */
TFM_API tfm_status tfm_model_attention_maps(tfm_model *model, tfm_tensor source_ids, tfm_tensor lengths,
                                            tfm_tensor target_ids, tfm_attention_fn emit, void *user);

/* ---- Search ---------------------------------------------------------------------------------------------------- */

/* How the score of a hypothesis follows from the sum of log p of its n tokens, EOS counted. The form also says how
 * tokens count that the directory forces or forbids. `forced_bos_token_id` is the first token of every translation, and
 * `forced_eos_token_id` the last one of a translation that reaches the maximum length. With TFM_LENGTH_NORM_HF the
 * log p of both is 0, and no other token becomes more probable because `bad_words_ids` forbids some, as in
 * transformers. With TFM_LENGTH_NORM_PAPER both have the log p that the model gives them, and the probabilities of the
 * tokens that are allowed add up to 1, unless a penalty or a bias of the directory changes their scores; with
 * `renormalize_logits` they do in either form, and then too. Marian's models never write padding: it has no
 * probability.
 *
 * What is forced comes whatever min_length and the rules about repeated sequences would forbid. A beam search goes on
 * until nothing better can follow, if length_penalty is not negative and no rule of the directory raises scores, and
 * what is cut by the maximum length counts only where too little ended. But with TFM_LENGTH_NORM_HF that of other
 * families than Marian ends as that of transformers does, by the directory's `early_stopping`, and what reaches the
 * maximum length counts as finished. */
typedef enum tfm_length_norm {
    TFM_LENGTH_NORM_PAPER, /* score = sum log p / ((5 + n) / 6)^length_penalty; length_penalty is 0.6 unless given. */
    TFM_LENGTH_NORM_HF, /* score = sum log p / n^length_penalty; length_penalty is the directory's length_penalty, or 1.
                         */
} tfm_length_norm;

/* The largest beam that a search can have. */
enum { TFM_MAX_BEAM_SIZE = 32 };

typedef struct tfm_search_options {
    int beam_size; /* The beam, up to TFM_MAX_BEAM_SIZE; 1 is greedy search. 0 means the directory's num_beams, or 4. */
    bool has_length_penalty;     /* Whether `length_penalty` is given, since 0 is a possible value. */
    double length_penalty;       /* The exponent of the length penalty, from -10 to 10. Otherwise it is the default of
                                    `penalty`. */
    tfm_length_norm length_norm; /* The formula of the score. */
    int max_length; /* The most tokens to write; more than the model's positions count as so many. 0 means source
                       tokens + 50, or what the directory says where that is less; Marian's directories are not
                       asked. */
    int n_best;     /* How many hypotheses to give for each line, at most `beam_size`. 0 means 1. */
    /* Is asked before each step, or where several devices or workers share a call, every hundredth of a second; false
     * ends the call with TFM_ERROR_CANCELLED. May be NULL. */
    bool (*should_continue)(void *user);
    void *should_continue_user; /* The `user` pointer of should_continue. */
    /* The first token of every translation, in the place of the directory's forced_bos_token_id: the token of the
     * target language, for models that are told it so. And the token before it, in the place of decoder_start_token_id.
     */
    bool has_forced_bos_id, has_decoder_start_id;
    /* Nobody asks for scores: those of a greedy search, with its log_prob and log_probs, are 0 then. On CPUs it may be
     * faster, since a step then finds its token without the probabilities of all others, with a copy of the output
     * projection in bytes, a quarter of its size, for each context. Texts are the same, except where two tokens are
     * equally likely but for rounding. A beam above 1 has its scores all the same. */
    bool skip_scores;
    int32_t forced_bos_id,
        decoder_start_id; /* The tokens that has_forced_bos_id and has_decoder_start_id say are given. */
    uint64_t reserved[6]; /* Must be 0: room for later fields. */
} tfm_search_options;

/* One finished hypothesis. Its tokens are those that the search wrote, without the start token. */
typedef struct tfm_hypothesis {
    int32_t *ids;     /* [tokens]: the ids; the last is an end, such as EOS, unless the hypothesis ended at the maximum
                         length without one. NULL if there is no hypothesis. */
    float *log_probs; /* [tokens]: the natural log of each token's probability, given the tokens before it; 0 for a
                         token that the directory or forced_bos_id forces, with TFM_LENGTH_NORM_HF. Penalties and
                         biases of the directory are in it in a beam above 1, or with renormalize_logits. NULL if there
                         is no hypothesis. */
    size_t count;     /* The number of ids without that end. */
    double score;     /* What hypotheses are ordered by; -inf if the search found fewer hypotheses: this one then has no
                         tokens. 0, as log_prob and all log_probs, of a greedy search whose options have `skip_scores`. */
    double log_prob;  /* The sum of log_probs. */
    int tokens;       /* The number of ids with the end, as the length penalty counts them. */
} tfm_hypothesis;

/* The hypotheses of a batch, with all that they point to; tfm_hypotheses_free frees them. */
typedef struct tfm_hypotheses {
    size_t sentences;      /* How many sentences the batch has. */
    int n_best;            /* How many hypotheses each sentence has here. */
    tfm_hypothesis *items; /* [sentences * n_best]: sentence by sentence, the best first. */
} tfm_hypotheses;

/* Searches for the translations of one batch, as in section 6.1 of the paper. `ids` has the ids of the sentences one
 * after another, and sentence i has counts[i] of them, EOS included. `prefixes` and `prefix_counts` have, in the same
 * way, target ids that the translations must begin with; both may be NULL. They are cut at the maximum length.
 * `options` may be NULL. The caller frees *out with tfm_hypotheses_free. A batch that does not fit into memory is not
 * split. On failure *out is empty: TFM_ERROR_INPUT for a sentence without ids or with more than the model's positions,
 * TFM_ERROR_ARGUMENT for an id outside the vocabulary and for options that are out of range, and TFM_ERROR_FORMAT if no
 * hypothesis has a finite probability, as where a prefix has an id that is never written. */
TFM_API tfm_status tfm_search(tfm_model *model, tfm_hypotheses *out, const int32_t *ids, const size_t *counts,
                              size_t sentences, const int32_t *prefixes, const size_t *prefix_counts,
                              const tfm_search_options *options);
/* Frees what *hypotheses points to and makes it empty. Does nothing for NULL. */
TFM_API void tfm_hypotheses_free(tfm_hypotheses *hypotheses);

/* ---- Text ------------------------------------------------------------------------------------------------------ */

/* The tokens of one side, either of a translation or along an attention map. */
typedef struct tfm_token_list {
    size_t count;              /* The number of tokens. */
    const int32_t *ids;        /* Their ids. */
    const char *const *tokens; /* Their pieces in the vocabulary, such as "▁Haus", or "#7" for an id that has none. */
} tfm_token_list;

/* Counts of what was done. A call adds to them: tfm_score and tfm_score_texts if they succeed, a translation each batch
 * that is done, also if the call fails later. */
typedef struct tfm_search_stats {
    uint64_t sentences;     /* Lines, or with `split` their sentences. Those that are bad, and in translation those that
                               are empty, are not counted. */
    uint64_t source_tokens; /* Their tokens, with EOS; tfm_score_texts adds none. */
    uint64_t target_tokens; /* The tokens of the best hypotheses, with EOS; or those that are scored. */
    double seconds;         /* The time that the calls took. */
} tfm_search_stats;

/* Is called for a line, a pair or a prompt that cannot be used, because it is not UTF-8, contains a NUL or is too long,
 * or because its prefix is so, leaves no room in the maximum length, or contains a token that the model never writes.
 * They are counted from 0, and `message`, which is valid only during the call, says why. The comment of each function
 * says what takes the place of its result. Return false to stop (TFM_ERROR_CANCELLED). */
typedef bool (*tfm_reject_fn)(void *user, size_t line, const char *message);

/* Is called before the first batch and after each one, when `done` of the call's `total` tokens, in translation and
 * scoring of pairs those of the sources, have been worked on. A call without anything to work on does not call it.
 * Return false to stop (TFM_ERROR_CANCELLED). */
typedef bool (*tfm_progress_fn)(void *user, uint64_t done, uint64_t total);

/* How lines of text are taken, apart from how translations are searched for. */
typedef struct tfm_text_options {
    /* The length of each source line in bytes; a line may then contain NUL, and is rejected. NULL: lines end with NUL.
     */
    const size_t *line_bytes;
    /* The most source tokens of a batch, padding counted; in tfm_score those of the wider side, in tfm_score_texts
     * those of the texts. 0 means 4096. */
    int batch_tokens;
    /* Cuts lines that are longer than the model's positions. Without this they are rejected. */
    bool truncate;

    /* The next six are for translation alone. */

    /* For each line the text that its translation begins with, or NULL for none; with `split` its first sentence has
     * it. NULL for no prefixes at all. */
    const char *const *prefixes;
    /* Translates the sentences of a line one by one (tfm_text_sentences), because models are trained on sentences and
     * often merge or drop some of several. A language code at the beginning of the line, such as `>>fra<<`, is put
     * before each of them. The blank space between sentences is kept. Where there is none, as in Chinese, one space is
     * put between words that are written with spaces. Scores are sums over the sentences. Not allowed with n_best above
     * 1. */
    bool split;
    /* The language of the source for `split`, such as "de". NULL takes the one that the tokenizer's directory names. */
    const char *language;
    /* Has tfm_translate_lines give the alignments of tokens: the weights of the cross-attention in one decoder layer.
     * They take one more pass over source and translation. */
    bool alignments;
    /* The decoder layer, counted from 1, or 0 for the last; and the head, counted from 1, or 0 for the mean over all.
     */
    int alignment_layer, alignment_head;

    tfm_reject_fn reject;     /* Is called for each bad line. If NULL, a bad line fails the call before any work. */
    void *reject_user;        /* The `user` pointer of reject. */
    tfm_progress_fn progress; /* Is told of the progress. May be NULL. */
    void *progress_user;      /* The `user` pointer of progress. */
    tfm_search_stats *stats;  /* Counts that the call adds to. May be NULL. */

    /* The languages of a model that has several, as its tokenizer calls them: "de" (M2M-100, MADLAD), "deu_Latn"
     * (NLLB), "de_DE" (mBART), "deu" (Marian, for `>>deu<<`). The model is told in its own way: by a token of the
     * source or of the target, or by a word before each source text. NULL is what the directory says. A language that
     * the model does not have is TFM_ERROR_ARGUMENT, and the message names those that it has. */
    const char *source_language, *target_language;
    /* What stands before each source text, or sentence of it with `split`, such as "translate English to German: ".
     * NULL for nothing. */
    const char *source_prefix;
    bool score_eos; /* Has tfm_score_texts score the end of each text too. */
    bool add_bos;   /* Has it put the model's BOS token before texts that the tokenizer begins with another one. */
    /* What stays as it is in a translation, or NULL for nothing. It is taken out of the text before the model reads it,
     * and put where the model looked at its neighbours, which takes one more pass over the lines that have some; all
     * others are translated as without. Among the tokens of such a line each word of it is one with the id -1, aligned
     * with itself. A line of nothing else is copied. */
    const tfm_placeholders *placeholders;
    uint64_t reserved[3]; /* Must be 0: room for later fields. */
} tfm_text_options;

/* Receives one hypothesis for a line. `line` and `rank` are counted from 0. A line that was not translated, because it
 * is empty, has nothing but blanks or was rejected, gets a single hypothesis: "" with the score NaN. Return false to
 * stop (TFM_ERROR_CANCELLED). */
typedef bool (*tfm_emit_fn)(void *user, size_t line, int rank, const char *text, double score);

/* Translates `count` lines of UTF-8 and emits the results in the order of the lines, each as soon as it and all lines
 * before it are done. An empty line gives "". Soft hyphens, zero width spaces (U+200B), word joiners and byte order
 * marks are left out before the line is read, since models do not know them in words. Lines of similar length are put
 * into one batch: as many lines as fill 16 batches are sorted together, so a result waits for at most the 15 batches
 * after its own. A call that fails or is stopped has emitted all that was done in order by then. `options` may be NULL.
 * A bad line fails the call before any work with TFM_ERROR_INPUT; tfm_translate_lines can go on. TFM_ERROR_ARGUMENT for
 * options that are out of range, and for a model without an encoder, a decoder, an output projection or a tokenizer. */
TFM_API tfm_status tfm_translate(tfm_model *model, const char *const *lines, size_t count,
                                 const tfm_search_options *options, tfm_emit_fn emit, void *user);

/* One hypothesis for one line, with its tokens. */
typedef struct tfm_translation {
    size_t line;      /* The line, counted from 0. */
    int rank;         /* The rank of the hypothesis, counted from 0. */
    const char *text; /* The text. "" for a line that was not translated: its scores are NaN, and it has no tokens. */
    double score;     /* The score with the length penalty; -inf if the search found fewer than n_best hypotheses; 0 if
                         the options have `skip_scores` and the search is greedy. */
    double log_prob;  /* The sum of log p of the tokens. */
    size_t sentences; /* 1, or with `split` the number of sentences; 0 for a line that was not translated. */
    tfm_token_list source;  /* The tokens that the model read, with EOS. */
    tfm_token_list target;  /* The tokens that it wrote, with EOS; with `split`, those of sentence after sentence. */
    const float *log_probs; /* [target.count]: the natural log of each token's probability. */
    /* [target.count][source.count]: how much the step that wrote a token looked at each source token; a row adds up
     * to 1. With `split` a sentence looks only at itself. NULL if alignments were not asked for. */
    const float *alignment;
} tfm_translation;

/* Receives one translation. Return false to stop (TFM_ERROR_CANCELLED). */
typedef bool (*tfm_translation_fn)(void *user, const tfm_translation *translation);

/* Like tfm_translate, but with text options, and it emits all that is known of the translations. Both options may be
 * NULL. TFM_ERROR_ARGUMENT for options that are out of range or do not go together. */
TFM_API tfm_status tfm_translate_lines(tfm_model *model, const char *const *lines, size_t count,
                                       const tfm_text_options *text, const tfm_search_options *search,
                                       tfm_translation_fn emit, void *user);

/* Gives the next line that is to be translated: *line is UTF-8 of *bytes bytes, which stay as they are until its
 * translation has been emitted. Returns false if there is none now. */
typedef bool (*tfm_next_line_fn)(void *user, const char **line, size_t *bytes);

/* Translates lines that come while others are translated, as a server has them. `next_line` is called at the beginning
 * and between the steps of the search, on the thread that made the call, as long as there is room in the batch:
 * batch_tokens of the options says how much. Its lines are counted from 0 in the order in which they came. They join
 * those that are under way, in the places of sentences that are over, where the device is a CPU and the search has
 * begun with 8 rows at least, lines times beams; the decoder has no rotary positions, relative bias or SSRU cells, the
 * model no shortlist and no rule that counts tokens or looks at the source (min_length, min_new_tokens,
 * begin_suppress_tokens, exponential_decay_length_penalty, encoder_repetition_penalty, encoder_no_repeat_ngram_size); a
 * beam is not searched as transformers does it, neither alignments nor placeholders are requested, and the model was
 * not opened on a fleet, not even one of a single device. Else they make the next batch. Each line is emitted when its
 * batch is done with it, whatever comes before it. The call ends when all are done and `next_line` has none. It obeys
 * the options of tfm_translate_lines, except line_bytes and progress; prefixes are TFM_ERROR_ARGUMENT. A bad line fails
 * the call if nobody is told of it; what was not done by then is not emitted. Both options may be NULL. */
TFM_API tfm_status tfm_translate_stream(tfm_model *model, tfm_next_line_fn next_line, void *next_line_user,
                                        const tfm_text_options *text, const tfm_search_options *search,
                                        tfm_translation_fn emit, void *user);

/* Receives one scored pair: the line counted from 0, the sum of log p over the target's tokens with EOS, and the number
 * of these tokens. Return false to stop (TFM_ERROR_CANCELLED). */
typedef bool (*tfm_score_fn)(void *user, size_t line, double log_prob, size_t tokens);

/* Computes log p of each of `count` target lines given its source line, by teacher forcing, and emits the results in
 * order when all are done. It obeys line_bytes for the source lines, batch_tokens, truncate, reject, progress, stats,
 * the languages and source_prefix of the options, and ignores those for translation alone. A line that is empty or has
 * nothing but blanks is scored as a sentence of EOS alone. A rejected pair is emitted with NaN and 0 tokens. `options`
 * may be NULL. */
TFM_API tfm_status tfm_score(tfm_model *model, const char *const *sources, const char *const *targets, size_t count,
                             const tfm_text_options *options, tfm_score_fn emit, void *user);

/* Computes log p of each of `count` texts by a language model, the sum over its tokens, each given those before it, and
 * emits the results in order when all are done. A text is read as tfm_generate reads a prompt: its first token is the
 * one that the tokenizer puts there, such as <s>, and is not scored. Where the tokenizer adds none, the text's own
 * first token is not scored, unless `add_bos` puts the model's BOS token before it. Perplexity is exp(-sum log p / sum
 * tokens). A text of more tokens than the model's positions is scored in windows of so many, which overlap by half. Of
 * the options `score_eos`, `add_bos`, line_bytes, batch_tokens, reject, progress and stats matter. A text of which no
 * token counts, and a rejected one, is emitted with NaN and 0 tokens. `options` may be NULL. TFM_ERROR_ARGUMENT if the
 * model has an encoder or no tokenizer. */
TFM_API tfm_status tfm_score_texts(tfm_model *model, const char *const *texts, size_t count,
                                   const tfm_text_options *options, tfm_score_fn emit, void *user);

/* What one attention layer does with one pair of texts. */
typedef struct tfm_attention_map {
    tfm_attention_kind kind;      /* Which attention it is. */
    int layer;                    /* The layer, counted from 0. */
    int heads;                    /* The number of heads. */
    tfm_token_list rows, columns; /* The tokens that look, and those that are looked at. */
    const float *weights;         /* [heads][rows][columns]: the weights; a row adds up to 1. */
} tfm_attention_map;

/* Receives one map. Return false to stop (TFM_ERROR_CANCELLED). */
typedef bool (*tfm_attention_map_fn)(void *user, const tfm_attention_map *map);

/* Emits the attention of every layer for one pair of texts, in the order of tfm_model_attention_maps. A NULL `target`
 * stands for the model's own translation, found with the options `search`. The source's axis has its tokens with EOS.
 * The target's axis has what the decoder reads: the start id, which may be that of `search` or of the language, and
 * then the tokens but for the last, which is EOS unless a translation reached the maximum length, so that row i,
 * counted from 0, belongs to the step that writes token i. Of the options `text` truncate, the languages and
 * source_prefix matter. Both options may be NULL. TFM_ERROR_INPUT for a text that is not UTF-8 or too long, and for a
 * source without words; TFM_ERROR_ARGUMENT for a model without an encoder, a decoder, an output projection or a
 * tokenizer. */
TFM_API tfm_status tfm_attention_maps(tfm_model *model, const char *source, const char *target,
                                      const tfm_text_options *text, const tfm_search_options *search,
                                      tfm_attention_map_fn emit, void *user);

/* ---- Generation ------------------------------------------------------------------------------------------------ */

/* Models that have a decoder alone, such as GPT-2 or Llama, go on with a text. */

/* Is called for each token of a text as soon as it is chosen, with the end token, if there is one, last. Prompts and
 * their texts are counted from 0. Return false to end this text with this token. */
typedef bool (*tfm_token_fn)(void *user, size_t prompt, int rank, int32_t id);

/* Is called with the next piece of a text, as soon as it is final: whole characters, and nothing that may yet turn out
 * to be the beginning of a stop string. All pieces of a text make up tfm_generation.text. Return false to end this text
 * here. */
typedef bool (*tfm_text_fn)(void *user, size_t prompt, int rank, const char *text);

/* Counts of what was done. tfm_generate_ids adds to them if it succeeds, tfm_generate for each batch that is done, also
 * if the call fails later. */
typedef struct tfm_generate_stats {
    uint64_t prompts;       /* The prompts that were gone on with. */
    uint64_t prompt_tokens; /* Their tokens. */
    uint64_t new_tokens;    /* The tokens that were written, of all texts that were asked for. */
    double prefill_seconds; /* The time that reading the prompts took, but for the last token of each. */
    double decode_seconds;  /* The time that writing took. */
} tfm_generate_stats;

/* How to go on with a prompt. All zeros is greedy: each token is the likeliest one. */
typedef struct tfm_generate_options {
    int max_new_tokens; /* The most tokens to write. 0 means the directory's max_new_tokens, or where it has none 256,
                    and then its max_length, if it has that, limits prompt and text together. The model's positions
                    limit it, too. */
    int min_new_tokens; /* Ends are not written before so many tokens. 0 means the directory's min_new_tokens, or where
                    it has none its min_length, which counts the prompt as well. */
    int beam_size; /* The beam of a beam search, up to TFM_MAX_BEAM_SIZE, which ends as that of transformers does. 0
                 means 1: greedy, or drawing; the directory's num_beams is not asked. */
    int n_best; /* How many texts to give for each prompt: the best of the beam, or so many that are drawn. 0 means 1.
                 */
    bool has_length_penalty; /* Whether `length_penalty` is given, since 0 is a possible value. */
    double length_penalty;   /* A text of n tokens has the score sum log p / n^length_penalty; from -10 to 10. Otherwise
                       it is the   directory's length_penalty, or 1. */
    bool sample;       /* Draws tokens (tfm_sample), which goes with a beam of 1 alone; the directory's do_sample is not
                        asked.       The four from `temperature` on then are the directory's where they are 0, and if it does
                        not       say, 1,       all, 1 and none; without `sample` they must be 0. */
    bool skip_scores;  /* Nobody asks for scores: without `sample`, and with a beam of 0 or 1, they are 0 then, as are
                       log_prob and log_probs, and a step may be faster; see tfm_search_options. */
    float temperature; /* What logits are divided by. */
    int top_k;         /* Only so many of the likeliest may be drawn. */
    float top_p;       /* Only the likeliest that add up to p may be drawn. */
    float min_p;       /* Only what is at least so many times as likely as the likeliest may be drawn. */
    float repetition_penalty; /* Tokens of prompt and text get less likely by it, if it is above 1: logits, or in a beam
                                 search log p, are divided by it where they are positive and multiplied where they are
                                 negative ("CTRL", Keskar et al. 2019). 0 means the directory's, or 1. */
    /* Equal seeds draw the same on a device, but for rounding. Prompt i of a call has the number first_prompt + i, by
     * which each of its n_best texts has random numbers of its own, whatever batch it is in. */
    uint64_t seed, first_prompt;
    int batch_tokens; /* The most tokens of a batch, those that will be written counted. 0 means 16384. */
    /* [stop_string_count]: a text ends before the first of these. They need a tokenizer and a beam of 1. */
    const char *const *stop_strings;
    size_t stop_string_count; /* How many there are. */
    tfm_token_fn on_token;    /* Is told of each token; needs a beam of 1. May be NULL. */
    void *on_token_user;      /* The `user` pointer of on_token. */
    tfm_text_fn on_text;      /* Is told of each piece of text; needs a beam of 1 and a tokenizer. May be NULL. */
    void *on_text_user;       /* The `user` pointer of on_text. */
    tfm_reject_fn reject;     /* Is called for each bad prompt. If NULL, a bad prompt fails the call. */
    void *reject_user;        /* The `user` pointer of reject. */
    /* Is asked before each step, or where several devices or workers share a call, every hundredth of a second; false
     * ends the call with TFM_ERROR_CANCELLED. May be NULL. */
    bool (*should_continue)(void *user);
    void *should_continue_user; /* The `user` pointer of should_continue. */
    tfm_generate_stats *stats;  /* Counts that the call adds to. May be NULL. */
    uint64_t reserved[8];       /* Must be 0: room for later fields. */
} tfm_generate_options;

/* Goes on with the prompts of one batch. `ids` has their ids one after another, and prompt i has counts[i] of them. The
 * hypotheses are those of the prompts in order, n_best each; their log_probs are what the model gives each token,
 * whatever else made the choice, but 0 for an end that forced_eos_token_id forces, with the penalties and biases in a
 * beam search, and with renormalize_logits as the rules have left them. Prompts are read in pieces of 512 tokens.
 * `options` may be NULL; stop_strings, on_text, reject and batch_tokens are for tfm_generate alone: this call checks
 * them and does without them. The caller frees *out with tfm_hypotheses_free. On failure *out is empty: TFM_ERROR_INPUT
 * for a prompt without ids or with more than the model's positions, TFM_ERROR_ARGUMENT for an id outside the
 * vocabulary. */
TFM_API tfm_status tfm_generate_ids(tfm_model *model, tfm_hypotheses *out, const int32_t *ids, const size_t *counts,
                                    size_t prompts, const tfm_generate_options *options);

/* What a model is to go on with: UTF-8, or if `text` is NULL, ids. */
typedef struct tfm_prompt {
    const char *text;   /* The text, which the tokenizer encodes with the special tokens that the model wants. */
    size_t bytes;       /* The length of the text in bytes. */
    const int32_t *ids; /* [count]: the ids. */
    size_t count;       /* How many ids there are. */
} tfm_prompt;

/* Why a text ended: with an end token, or because the rules of its directory left no token to choose; before a stop
 * string, or because a callback wanted it; or at its most tokens. */
typedef enum tfm_finish_reason { TFM_FINISH_EOS, TFM_FINISH_STOP, TFM_FINISH_LENGTH } tfm_finish_reason;

/* One text for one prompt. */
typedef struct tfm_generation {
    size_t prompt;         /* The prompt, counted from 0. */
    int rank;              /* The rank of the text, or which one of those drawn it is, counted from 0. */
    const char *text;      /* The text without the prompt. "" for a rejected prompt, whose scores are NaN, and without a
                              tokenizer. */
    double score;          /* The score; -inf if the beam found fewer than n_best; 0, as are log_prob
                              and log_probs, if the options have `skip_scores`, nothing is drawn and the beam is 0 or 1. */
    double log_prob;       /* The sum of log p of the tokens. */
    size_t prompt_tokens;  /* How many tokens the prompt has; 0 for a rejected one. */
    tfm_token_list tokens; /* The tokens that were written, with the end. */
    const float *log_probs; /* [tokens.count]: the natural log of each token's probability, as in tfm_generate_ids. */
    tfm_finish_reason finish_reason; /* Why the text ended. */
} tfm_generation;

/* Receives one text. Return false to stop (TFM_ERROR_CANCELLED). */
typedef bool (*tfm_generation_fn)(void *user, const tfm_generation *generation);

/* Goes on with `count` prompts and emits the texts in the order of the prompts, each as soon as it and all before it
 * are done. Prompts of similar length are put into one batch. A prompt without any token begins with the model's first
 * one, such as <s>, where it has one. A model without its tokenizer takes ids and gives ids. `options` may be NULL. A
 * bad prompt, which is not UTF-8, has no tokens or more than the model's positions, fails the call before any work with
 * TFM_ERROR_INPUT, or with TFM_ERROR_ARGUMENT if it has an id outside the vocabulary; or else it is rejected by the
 * options. A rejected prompt is emitted once, as tfm_generation says. TFM_ERROR_ARGUMENT for options that are out of
 * range or do not go together, and for a model with an encoder or without an output projection. */
TFM_API tfm_status tfm_generate(tfm_model *model, const tfm_prompt *prompts, size_t count,
                                const tfm_generate_options *options, tfm_generation_fn emit, void *user);

#ifdef __cplusplus
}
#endif
#endif
