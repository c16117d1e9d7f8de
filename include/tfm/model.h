/* Models: open, create and save; translation, scoring, attention maps, and text generation.
 *
 *     tfm_model *model;
 *     tfm_model_open(&model, ctx, "opus-mt-de-en", NULL);
 *     tfm_translate(model, lines, count, NULL, emit, user);
 *     tfm_model_free(&model);
 *
 * A path that ends in .gguf is a GGUF file (version 2 or 3, also split). Everything that takes a directory takes the
 * path of such a file, or a directory with one. Its blocks are kept as they are, or converted on load if `precision` is
 * not TFM_PRECISION_AUTO. Otherwise a model directory has the Hugging Face layout: config.json, weights in F32, F16,
 * BF16 or int8 (tfm_model_quantize), or the 4-bit and 8-bit integers of GPTQ, AWQ (version gemm) and compressed-tensors
 * (pack-quantized, int-quantized), usually generation_config.json, and tokenizer files (tfm_tokenizer_open); for
 * Marian / OPUS-MT these are source.spm, target.spm and vocab.json. There is no conversion step.
 *
 * `model_type` in config.json is the family: an encoder-decoder such as "marian", "bart" or "t5", a decoder-only model
 * such as "gpt2" or "llama", or an encoder-only model such as "bert" (embed.h). The error for an unsupported family
 * lists the supported ones. An unsupported feature of a family, such as a RoPE scaling, is refused with the name of its
 * key.
 *
 * Weights are the first that exist of model.safetensors, the files in model.safetensors.index.json, pytorch_model.bin
 * (a state_dict saved by torch.save of any PyTorch version), and the files in pytorch_model.bin.index.json. A .bin file
 * is parsed as data; no code in it is executed.
 *
 * A directory without config.json is a native Marian or Bergamot directory. It has a weight file with Marian's
 * configuration in it: model.npz or model.*.bin. int8 weights in intgemm's format are dequantized, or kept as int8 with
 * TFM_PRECISION_INT8. It has vocab.spm, or one for each side, with SentencePiece's ids, and optionally lex.*.bin (a
 * shortlist, used by searches) and config.yml or decoder.yml with the file names. Requires tfm built with libyaml. This
 * format is not written.
 *
 * generation_config.json, or without it config.json, has the defaults of decoding. Translation and generation use
 * length_penalty, early_stopping, max_new_tokens, max_length, min_new_tokens, min_length, repetition_penalty,
 * no_repeat_ngram_size, encoder_repetition_penalty and encoder_no_repeat_ngram_size (over the source or the prompt),
 * exponential_decay_length_penalty, bad_words_ids, suppress_tokens, begin_suppress_tokens, sequence_bias,
 * renormalize_logits, forced_eos_token_id, and all of eos_token_id. Translation also uses num_beams,
 * decoder_start_token_id and forced_bos_token_id; sampling uses temperature, top_k, top_p and min_p. Options of a call
 * take precedence; tfm_length_norm and max_length below have restrictions. If the rules leave no token, as
 * no_repeat_ngram_size 1 can in a small vocabulary, the hypothesis ends with the tokens so far, possibly none.
 * do_sample is ignored. guidance_scale and watermarking_config are TFM_ERROR_UNSUPPORTED on open; other keys that would
 * change a search give a warning in the log.
 *
 * A model works on its context, so one thread at a time may use both. Callbacks run on the calling thread before the
 * call returns, and their arguments are valid only until they return. */
#ifndef TFM_MODEL_H
#define TFM_MODEL_H

#include "nn.h"
#include "chat.h"
#include "grammar.h"
#include "text.h"
#include "tune.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tfm_model tfm_model;

/* The dtype of a model's weight matrices on the device. */
typedef enum tfm_precision {
    TFM_PRECISION_AUTO, /* INT8 for int8 directories of tfm_model_quantize and compressed-tensors; block-quantized
                           matrices of a GGUF file, and packed integers of GPTQ, AWQ and compressed-tensors, as they
                           are, with int16 activations on CPUs; else F32. */
    TFM_PRECISION_FP32, /* F32 for any directory. */
    TFM_PRECISION_INT8, /* int8: linear layers, embeddings and the output projection, in a quarter of the memory. Such a
                           model can neither be trained nor saved by tfm_model_save. Decoder-only and encoder-only
                           models: blocks of 32 inputs of an output, with an fp16 scale and minimum; activations are
                           rounded to int16, with a scale per 32, on CPUs with such dot products, and not on other
                           devices. Encoder-decoders: a scale per row (tfm_param_quantize), and activations are rounded
                           to int8. Weights that have 8 bits in the directory are not quantized again. */
    TFM_PRECISION_FP16, /* fp16 for the same matrices, in half the memory, with fp32 accumulation. A number that would
                           round beyond 65504, from 65520 on, is TFM_ERROR_FORMAT. Neither training nor saving. On
                           GPU-style devices, the decoder's KV caches (cross-attention and self-attention) are fp16 too.
                         */
    TFM_PRECISION_BF16, /* The same in bf16, with the range of fp32 and two or three decimal digits. On devices with
                           fp16 or bf16 matrix hardware (GPU matrix cores; for bf16, CPUs with AMX or AVX512-BF16),
                           GEMMs of more than a few rows also round their input to the dtype. On Linux, the first such
                           GEMM, or int8 GEMM, requests AMX for all threads of the process; from then on their alternate
                           signal stacks need the size AT_MINSIGSTKSZ. If one is smaller already, Linux refuses, and
                           AVX-512 is used. */
} tfm_precision;

/* A LoRA adapter in the format of PEFT: a directory, or a name of the Hugging Face hub in the cache, with
 * adapter_config.json and adapter_model.safetensors. */
typedef struct tfm_adapter {
    const char *dir;
    double scale; /* Multiplies what the adapter adds to matrices, but not modules_to_save. 0: 1. */
} tfm_adapter;

typedef struct tfm_model_options {
    bool no_tokenizer; /* Opens no tokenizer; the directory needs none. Calls with text are refused. */
    tfm_precision precision;
    tfm_precision activation_precision; /* TFM_PRECISION_FP32: layers do not round activations, which is slower; int8
                                           weights are blocks in every model, and the KV cache is F32.
                                           TFM_PRECISION_AUTO: as `precision` says. */
    /* The dtype of the decoder's KV cache. AUTO: F16 for decoder-only models with quantized weights and RoPE, on
     * GPU-style devices that of FP16 or BF16 weights, else F32. INT8 takes about a quarter of F32: keys and values of
     * self- attention are quantized as they are written, each 32 columns of a head with a scale; those of
     * cross-attention are F32. TFM_ERROR_ARGUMENT if not AUTO for a model without a decoder, or INT8 for SSRU cells. */
    tfm_precision kv_precision;
    int ctx_size; /* Decoder-only models: the context, the maximum tokens of a sequence with its generated ones, and so
                     an upper bound of the KV cache of a sequence. 0: the model's positions, which it must not exceed.
                     TFM_ERROR_ARGUMENT for other models. */
    /* [adapter_count]: applied in turn while the model opens, which adds scale x alpha / r x B A to the weights in
     * fp32, or replaces the tensors of modules_to_save. Changed tensors that are quantized in the directory are
     * dequantized: they have the dtype of `precision`, F32 for AUTO. They take the host memory of F32 until the model
     * is open. The array and its texts may be freed after the call. */
    const tfm_adapter *adapters;
    size_t adapter_count;
    uint64_t reserved[4]; /* Must be 0. */
} tfm_model_options;

/* Opens a model directory, or a name of the Hugging Face hub in the cache (hub.h), and loads the parameters to the
 * context's device, as F32 unless the options or the directory specify another precision. Models of one directory that
 * are open at the same time, in contexts of one device, share their parameters; each model has its own packed copies
 * for GEMM. If the device is the host's CPU, parameters stored in the layout of use are memory-mapped instead of
 * copied: the file must not be written to or truncated while such a model is open; replacing it by a new file is safe.
 * The model keeps the context alive. `options` may be NULL. On failure *out is NULL: TFM_ERROR_IO for a missing file,
 * TFM_ERROR_FORMAT for a damaged or contradictory one, and for an adapter of another model, TFM_ERROR_UNSUPPORTED for
 * an unsupported family, activation or key, and for adapters of other methods than LoRA, such as DoRA. */
TFM_API tfm_status tfm_model_open(tfm_model **out, tfm_context *ctx, const char *dir, const tfm_model_options *options);

/* The initialization of a new model's matrices. Biases are 0, gammas 1, and embeddings are from N(0, 1/E). */
typedef enum tfm_init {
    TFM_INIT_XAVIER,   /* Uniform in +-sqrt(6 / (inputs + outputs)) ("Understanding the difficulty of training deep
                          feedforward neural networks", Glorot and Bengio 2010). */
    TFM_INIT_GAUSSIAN, /* N(0, 0.02^2). */
    TFM_INIT_KAIMING,  /* N(0, 2 / inputs) ("Delving Deep into Rectifiers", He et al. 2015). */
} tfm_init;

/* The shape of a new model. Encoder-decoder as in "Attention Is All You Need": sinusoidal positions, embeddings scaled
 * by sqrt(E), and the output projection tied to the target embeddings.
 *
 * Decoder-only, with `family`: encoder_layers and target_vocab_size are 0, source_vocab_size is the vocabulary
 * (target_vocab_size in tfm_model_info), pre_norm is ignored, and TFM_NO_ACTIVATION means the family's activation. The
 * output projection is the embedding table. Everything else is the family's default. */
typedef struct tfm_model_shape {
    int width, heads, ffn_dim; /* E, H, and the inner width of the feed-forward layers. H divides E. */
    int encoder_layers, decoder_layers;
    int source_vocab_size; /* The number of ids of the source side. */
    int target_vocab_size; /* The same of the target side; 0 for a shared vocabulary and embedding table. */
    int max_positions;     /* Maximum tokens of a sequence, with EOS. */
    /* Ids in both vocabularies: padding, end of sentence, and the first input of the decoder. Use target_pad and
     * target_eos of the tokenizer, and target_pad again for start_id as Marian's models do. */
    int pad_id, eos_id, start_id;
    tfm_activation activation; /* The activation of the feed-forward layers; TFM_RELU in the paper. TFM_NO_ACTIVATION,
                                  0, makes them linear in an encoder-decoder. */
    bool pre_norm;             /* Pre-norm, with a final norm after the last block. */
    tfm_init init;
    uint64_t seed; /* The seed. The same seed gives the same parameters on every machine, except for rounding. */
    const char
        *family;  /* NULL or "marian" for an encoder-decoder; the `model_type` of any decoder-only family except OPT,
                     such as "gpt2" or "llama". There, pad_id may be -1 for none, and start_id may equal eos_id. */
    int kv_heads; /* KV heads of a decoder-only model with grouped-query attention, if its family has a key for them; a
                     divisor of H. 0: H. */
    uint64_t reserved[6]; /* Must be 0. */
} tfm_model_shape;

/* Makes a model with new parameters. It has no tokenizer and takes ids until tfm_model_open_tokenizer. It keeps the
 * context alive. On failure *out is NULL; TFM_ERROR_ARGUMENT for inconsistent or excessive sizes and for an invalid
 * activation or `init`; TFM_ERROR_UNSUPPORTED for a family without support for new models. */
TFM_API tfm_status tfm_model_new(tfm_model **out, tfm_context *ctx, const tfm_model_shape *shape);

/* Opens the tokenizer of a directory for a model without one; it then takes text. TFM_ERROR_FORMAT if the vocabulary or
 * the special ids do not match the model, TFM_ERROR_ARGUMENT if the model has a tokenizer, and the errors of
 * tfm_tokenizer_open. On failure the model is unchanged. */
TFM_API tfm_status tfm_model_open_tokenizer(tfm_model *model, const char *dir);

/* Writes config.json, generation_config.json and model.safetensors into the folder `dir`, which is created if needed.
 * tfm_model_open and Hugging Face transformers read them, except for pre-norm Marian models, which transformers does
 * not have. Matrices and tables are stored as `dtype` (F32, F16 or BF16), vectors as F32. Each file is written
 * atomically. Tokenizer files are not written: copy them. All keys of the model's original generation_config.json are
 * kept. Of a multimodal model (tfm_model_info.multimodal_class) only the text model is written, as a text-only model. A
 * number that would round beyond 65504 becomes infinite in F16. TFM_ERROR_ARGUMENT for another `dtype`;
 * TFM_ERROR_UNSUPPORTED for a family that cannot be saved (tfm_model_info.can_save), and for a model with int8, fp16 or
 * bf16 weights. */
TFM_API tfm_status tfm_model_save(tfm_model *model, const char *dir, tfm_dtype dtype);

/* Releases the model and sets *model to NULL. Trainers of the model keep it alive. Does nothing for NULL. Counts as a
 * use of the context: no other thread may use it meanwhile. */
TFM_API void tfm_model_free(tfm_model **model);

/* Model info. */
/* Tensors of one type in the weight files. */
typedef struct tfm_weight_type {
    const char *name; /* "F16", "Q4_K" */
    int tensors;
    uint64_t bytes; /* In the files. */
} tfm_weight_type;

#define TFM_MAX_WEIGHT_TYPES 16

typedef struct tfm_model_info {
    const char *family;                 /* The family: "marian", "llama". */
    int width;                          /* E. */
    int encoder_layers, decoder_layers; /* Numbers of layers; 0 without an encoder or decoder. */
    int encoder_heads, decoder_heads;
    int encoder_ffn_dim, decoder_ffn_dim;     /* Inner widths of the feed-forward layers. */
    int source_vocab_size, target_vocab_size; /* Vocabulary sizes; 0 without that side. */
    int max_positions;                        /* Maximum tokens of a sequence, with EOS; not above ctx_size. */
    tfm_activation activation;
    bool pre_norm;
    bool tied_embeddings;     /* The output projection is the (target's) embedding table. */
    const char *stored_dtype; /* The type of the largest tensor in the file, such as "F16". */
    uint64_t parameters; /* The number of parameters; shared ones count once, sinusoid tables and the bias of the output
                            projection do not count. */
    uint64_t parameter_bytes; /* Bytes of the parameters on the device. */
    uint64_t estimated_bytes; /* Estimated bytes on the device for translation with default options: parameters, packed
                                 copies, activations and caches. tfm_model_read_info, without a device, assumes an F32
                                 KV cache. */
    int pad_id, eos_id,
        start_id;  /* Padding, EOS (the first of several), and the first token of the decoder or of a text; -1 for none,
                      in models without an encoder. Without a decoder all three are padding. */
    int beam_size; /* The directory's beam size, or else 4, or without an encoder 1. tfm_generate ignores it. */
    const char *weight_format; /* The file format of the weights: "safetensors", "PyTorch .bin", "NumPy .npz", "Marian
                                  .bin", "GGUF", or "none" for a new model. */
    int weight_files;
    const char *kind; /* "encoder-decoder", "encoder" or "decoder". */
    int encoder_kv_heads, decoder_kv_heads;
    int encoder_head_width, decoder_head_width; /* D. */
    const char
        *position_encoding; /* The position encoding: "sinusoids", "learned", "rotary", "relative", "alibi", "none". */
    const char *rope_type;  /* The RoPE scaling, as in config.json: "default", "yarn"; or "none". */
    int sliding_window,
        sliding_window_layers; /* The window of sliding-window layers, and the number of those layers; or 0. */
    bool rms_norm;             /* RMSNorm instead of LayerNorm. */
    bool sandwich_norm;        /* Norms before and after each sub-layer. */
    bool gated;
    bool has_lm_head;   /* Has an output projection (LM head), needed to generate. */
    bool has_ssru;      /* The decoder has SSRU cells instead of self-attention. */
    bool has_shortlist; /* The directory has a shortlist (vocabulary subset by source words). Searches use it, except
                           translations with prefixes. */
    bool can_save;      /* tfm_model_save supports the family, so it can be trained and saved. */
    int classes;        /* Classes of the classification head of an encoder, or 0. */
    const char *multimodal_class; /* The multimodal class of the directory, such as "Gemma3ForConditionalGeneration":
                                     only its text model is run. NULL for a text-only directory. */
    /* Dropout rates in the configuration, as the family defines them: of embeddings and sub-layers, of attention
     * weights, and inside feed-forward layers. tfm_trainer_options does not use them. */
    double dropout, attention_dropout, activation_dropout;
    uint64_t kv_token_bytes; /* Bytes of the decoder's KV cache for one token of one sequence, by `kv_precision`; 0
                                without a decoder or with SSRU cells. AUTO is as for estimated_bytes. */
    int weight_type_count;
    tfm_weight_type weight_types[TFM_MAX_WEIGHT_TYPES]; /* Types of the weight files' tensors, most bytes first. */
} tfm_model_info;

/* Writes a quantized copy of the model directory `dir` to `out`, with matrices of layers and embedding tables in I8,
 * F16 or BF16. I8 has the scales of TFM_PRECISION_INT8 in a tensor with the suffix _scale: (N) in F32; or
 * scale and minimum, (N, K / 32 rounded up, 2) in F16, of weights scale x (integer + 128) + minimum. All other tensors
 * are copied, and all other files except weights in other formats, such as pytorch_model.bin or the folders `onnx` and
 * `openvino`, and files of a training run (recipe.json, train.jsonl, curves.svg, checkpoint.safetensors, snapshots).
 * tfm_model_open takes the result like any directory. Needs no device. `out` is created if needed, and model files in
 * it are replaced. TFM_ERROR_ARGUMENT for an int8 directory, for `out` equal to `dir`, and for another `dtype`;
 * TFM_ERROR_UNSUPPORTED for a native Marian directory; TFM_ERROR_FORMAT for a number that is not finite with I8, or
 * would round beyond 65504 as F16. */
TFM_API tfm_status tfm_model_quantize(const char *out, const char *dir, tfm_dtype dtype);

/* Writes a copy of the model directory `dir` to `out`, with the adapters merged into its weights in turn. The tensors
 * keep their dtypes, and all other files are copied as by tfm_model_quantize. If `out` ends in .gguf it is a GGUF file
 * instead, as tfm_model_write_gguf writes it, of this `type`, or "F16" for NULL; `type` is NULL for a directory. Needs
 * no device, and the host memory of the changed tensors as F32. The errors of tfm_model_open for adapters, and those of
 * the two functions; TFM_ERROR_ARGUMENT for a quantized directory, if `out` is a directory. */
TFM_API tfm_status tfm_model_merge(const char *out, const char *dir, const tfm_adapter *adapters, size_t count,
                                   const char *type);

/* Options of tfm_model_quantize_int4. All zeros are groups of 64 and rounding to nearest. */
typedef struct tfm_int4_options {
    int group; /* Inputs per scale: 32, 64 or 128; 0 means 64. Halved until it divides the inputs of all layers. */
    const char *text; /* Calibration text of `text_bytes` bytes of UTF-8, in the language of later inputs. NULL: weights
                         are rounded to nearest. */
    size_t text_bytes;
    tfm_context *ctx;     /* The device of the calibration; required with `text`. */
    uint64_t reserved[8]; /* Must be 0. */
} tfm_int4_options;

/* tfm_model_quantize, but the matrices of blocks become 4-bit integers: a group of inputs of an output has an fp16
 * scale and a zero point. Other tensors are copied. The layout is pack-quantized of compressed-tensors, which
 * tfm_model_open and transformers open. With a text, the model runs on up to 16384 tokens of it in fp32, and
 * weights are rounded by GPTQ, so that layers change little for such inputs; the model is encoder-only or decoder-only,
 * and has a tokenizer. A text shorter than a sequence of 256 tokens is TFM_ERROR_INPUT. A model without a layer whose
 * inputs are a multiple of 32 is TFM_ERROR_UNSUPPORTED. `options` may be NULL. */
TFM_API tfm_status tfm_model_quantize_int4(const char *out, const char *dir, const tfm_int4_options *options);

/* Writes the model in `dir` (a directory, or a GGUF file) as the GGUF file `path`, with its tokenizer and chat
 * templates, for tfm_model_open, llama.cpp and others. Matrices of layers and embedding tables become `type`: "F32",
 * "F16", "BF16", "Q8_0" or "Q4_0"; rows that are no multiple of 32 columns become F16 instead of Q8_0 or Q4_0. With
 * Q4_0 the output projection becomes Q8_0. All other tensors are F32. The file is replaced atomically. Needs no device.
 * TFM_ERROR_UNSUPPORTED for a family, a property of the model or a tokenizer that GGUF has no form for;
 * TFM_ERROR_FORMAT for a number that is not finite, or too large for the type. */
TFM_API tfm_status tfm_model_write_gguf(const char *path, const char *dir, const char *type);

/* Model info. The struct and its strings belong to the model. NULL for NULL. */
TFM_API const tfm_model_info *tfm_model_get_info(const tfm_model *model);

/* Reads the info of a directory without a device: parameters are counted in the file and not loaded. It fails with the
 * same status and message as tfm_model_open with the same options, except for weights out of range of the precision,
 * which it does not read. `options` may be NULL; with no_tokenizer, a directory needs no tokenizer files. The strings
 * of *out are static; after a failure it is empty. */
TFM_API tfm_status tfm_model_read_info(tfm_model_info *out, const char *dir, const tfm_model_options *options);

/* Sets the model's default target language, used by calls without one and by training, and saved by tfm_model_save. A
 * code as in tfm_text_options.target_language. TFM_ERROR_ARGUMENT for an unknown code, and without a tokenizer;
 * TFM_ERROR_UNSUPPORTED for models that take the language as words before each source text. */
TFM_API tfm_status tfm_model_set_target_language(tfm_model *model, const char *language);

/* The context of a model, without a new reference. NULL for NULL. */
TFM_API tfm_context *tfm_model_context(const tfm_model *model);
/* The model's tokenizer, owned by the model, or NULL. */
TFM_API const tfm_tokenizer *tfm_model_tokenizer(const tfm_model *model);

/* ---- Tensors --------------------------------------------------------------------------------------------------- */

/* Runs the encoder: encoded (B, S, E) is its output for ids (B, S) I32. lengths (B) I32 counts the tokens of each row;
 * the rest is padding with any id of the vocabulary. Empty `lengths` means full rows. S is at most max_positions.
 * Outputs and errors follow the rules of ops.h. */
TFM_API tfm_status tfm_model_encode(tfm_model *model, tfm_tensor *encoded, tfm_tensor ids, tfm_tensor lengths);

/* Runs the decoder over whole targets (teacher forcing): logits (B, T, V) at each position depend on the ids up to that
 * position. ids (B, T) I32 is the decoder input, start_id first. encoded (B, S, E) is the output of tfm_model_encode
 * for `lengths` (B) I32.
 *
 * Decoder-only models: ids are the text, `encoded` and `lengths` are empty, and the last row of a sequence's logits
 * predicts the next token. Shorter texts are padded at the end with any id of the vocabulary; their logits are
 * undefined. T is at most max_positions. If RoPE frequencies depend on the text length (`rope_type` "longrope" or
 * "dynamic"), T is the length for all texts of the batch. */
TFM_API tfm_status tfm_model_decode(tfm_model *model, tfm_tensor *logits, tfm_tensor ids, tfm_tensor encoded,
                                    tfm_tensor lengths);

/* The kind of attention: encoder self-attention, decoder self-attention, or cross-attention. */
typedef enum tfm_attention_kind { TFM_ENCODER_SELF, TFM_DECODER_SELF, TFM_DECODER_CROSS } tfm_attention_kind;

/* Receives the attention weights (B, H, rows, columns) of one layer, counted from 0. Rows are queries, columns are
 * keys, and a row adds up to 1. tfm_tensor_read copies them to the host. Return false to stop. */
typedef bool (*tfm_attention_fn)(void *user, tfm_attention_kind kind, int layer, const tfm_tensor *weights);

/* Emits the attention weights of one forward pass with both sides given (teacher forcing): the encoder's layers (B, H,
 * S, S), then for each decoder layer TFM_DECODER_SELF (B, H, T, T), zero above the diagonal, and TFM_DECODER_CROSS (B,
 * H, T, S). Columns beyond the length of a sequence are zero. A decoder with SSRU cells has no TFM_DECODER_SELF. The
 * arguments are those of tfm_model_encode and tfm_model_decode. TFM_ERROR_CANCELLED if `emit` stopped it. */
TFM_API tfm_status tfm_model_attention_maps(tfm_model *model, tfm_tensor source_ids, tfm_tensor lengths,
                                            tfm_tensor target_ids, tfm_attention_fn emit, void *user);

/* ---- Search ---------------------------------------------------------------------------------------------------- */

/* Length normalization: the score of a hypothesis from the sum of log p of its n tokens, with EOS. It also decides how
 * forced and forbidden tokens count: `forced_bos_token_id` is the first token of every translation, and
 * `forced_eos_token_id` the last of a translation that reaches the maximum length. With TFM_LENGTH_NORM_HF, log p of
 * both is 0, and `bad_words_ids` does not renormalize the other tokens, as in transformers. With TFM_LENGTH_NORM_PAPER
 * both have the model's log p, and the probabilities of the allowed tokens add up to 1, unless a penalty or bias of the
 * directory changes the scores; with `renormalize_logits` they always do, in either form. Marian models never generate
 * padding: it has probability 0.
 *
 * Forced tokens override min_length and the repetition rules. A beam search ends when no better hypothesis is possible,
 * if length_penalty is not negative and no rule of the directory raises scores; hypotheses truncated at the maximum
 * length count only if too few finished. Exception: with TFM_LENGTH_NORM_HF, families other than Marian end as in
 * transformers, by the directory's `early_stopping`, and hypotheses at the maximum length count as finished. */
typedef enum tfm_length_norm {
    TFM_LENGTH_NORM_PAPER, /* score = sum log p / ((5 + n) / 6)^length_penalty; length_penalty is 0.6 unless given. */
    TFM_LENGTH_NORM_HF, /* score = sum log p / n^length_penalty; length_penalty is the directory's length_penalty, or 1.
                         */
} tfm_length_norm;

/* The maximum beam size. */
enum { TFM_MAX_BEAM_SIZE = 32 };

typedef struct tfm_search_options {
    int beam_size; /* The beam size, up to TFM_MAX_BEAM_SIZE; 1 is greedy search. 0 means the directory's num_beams,
                      or 4. */
    bool has_length_penalty; /* Whether `length_penalty` is given, since 0 is a possible value. */
    double length_penalty;   /* The exponent of the length penalty, from -10 to 10. Otherwise the default of
                                `length_norm`. */
    tfm_length_norm length_norm;
    int max_length; /* Maximum generated tokens, at most the model's positions. 0 means source tokens + 50, or the
                       directory's limit if lower (not for Marian). */
    int n_best;     /* Hypotheses for each line, at most `beam_size`. 0 means 1. */
    /* Called before each step, or with several devices or workers every hundredth of a second; false ends the call with
     * TFM_ERROR_CANCELLED. May be NULL. */
    bool (*should_continue)(void *user);
    void *should_continue_user;
    /* Override the directory's forced_bos_token_id, the first token of every translation (the target-language token of
     * some models), and its decoder_start_token_id, the token before it. */
    bool has_forced_bos_id, has_decoder_start_id;
    /* Skips scores: score, log_prob and log_probs of a greedy search are then 0. On CPUs this may be faster:
     * int8-screened argmax finds the token without the other probabilities, with an int8 copy of the output projection
     * (a quarter of its size) for each context. Texts are the same, except between two tokens that are equally likely
     * up to rounding. A beam above 1 always has scores. */
    bool skip_scores;
    int32_t forced_bos_id, decoder_start_id; /* Given if has_forced_bos_id or has_decoder_start_id is set. */
    uint64_t reserved[6];                    /* Must be 0. */
} tfm_search_options;

/* One finished hypothesis: the generated tokens, without the start token. */
typedef struct tfm_hypothesis {
    int32_t *ids; /* [tokens]: the ids; the last is EOS or another end token, unless the hypothesis was truncated at the
                     maximum length. NULL if there is no hypothesis. */
    float *log_probs; /* [tokens]: log p of each token given the tokens before it; 0 for a token forced by the directory
                         or forced_bos_id with TFM_LENGTH_NORM_HF. Includes the directory's penalties and biases with a
                         beam above 1 or renormalize_logits. NULL if there is no hypothesis. */
    size_t count;     /* The number of ids without the end token. */
    double score; /* The ranking score; -inf, and no tokens, if the search found fewer hypotheses. 0, as log_prob and
                     all log_probs, in a greedy search with `skip_scores`. */
    double log_prob;
    int tokens; /* The number of ids with the end token, as in the length penalty. */
} tfm_hypothesis;

/* The hypotheses of a batch; freed by tfm_hypotheses_free. */
typedef struct tfm_hypotheses {
    size_t sentences;
    int n_best;            /* Hypotheses of each sentence. */
    tfm_hypothesis *items; /* [sentences * n_best]: sentence by sentence, the best first. */
} tfm_hypotheses;

/* Translates one batch by beam search, as in section 6.1 of the paper. `ids` has the concatenated ids of the sentences,
 * counts[i] for sentence i, EOS included. `prefixes` and `prefix_counts` have, in the same way, target ids that the
 * translations begin with (truncated at the maximum length); both may be NULL. `options` may be NULL. The caller frees
 * *out with tfm_hypotheses_free. A batch that does not fit into memory is not split. On failure *out is empty:
 * TFM_ERROR_INPUT for a sentence without ids or with more than the model's positions, TFM_ERROR_ARGUMENT for an id
 * outside the vocabulary and for options out of range, and TFM_ERROR_FORMAT if no hypothesis has a finite probability,
 * such as for a prefix with an id that is never generated. */
TFM_API tfm_status tfm_search(tfm_model *model, tfm_hypotheses *out, const int32_t *ids, const size_t *counts,
                              size_t sentences, const int32_t *prefixes, const size_t *prefix_counts,
                              const tfm_search_options *options);
/* Frees the hypotheses and makes the struct empty. Does nothing for NULL. */
TFM_API void tfm_hypotheses_free(tfm_hypotheses *hypotheses);

/* ---- Text ------------------------------------------------------------------------------------------------------ */

/* The tokens of one side of a translation or attention map. */
typedef struct tfm_token_list {
    size_t count;
    const int32_t *ids;
    const char *const *tokens; /* Their pieces in the vocabulary, such as "▁Haus", or "#7" for an id that has none. */
} tfm_token_list;

/* Counts. A call adds to them: tfm_score and tfm_score_texts if they succeed, translation after each batch, even if the
 * call fails later. */
typedef struct tfm_search_stats {
    uint64_t sentences;     /* Lines, or with `split` sentences; without bad ones and, in translation, empty ones. */
    uint64_t source_tokens; /* Source tokens, with EOS; tfm_score_texts adds none. */
    uint64_t target_tokens; /* Tokens of the best hypotheses, with EOS; or scored tokens. */
    double seconds;
} tfm_search_stats;

/* Called for an invalid line, pair or prompt, counted from 0: not UTF-8, with NUL, or too long; or with a prefix that
 * is so, leaves no room in the maximum length, or has a token that the model never generates. `message`, valid only
 * during the call, has the reason. The comment of each function describes the result of a rejected line. Return false
 * to stop (TFM_ERROR_CANCELLED). */
typedef bool (*tfm_reject_fn)(void *user, size_t line, const char *message);

/* Called before the first batch and after each one, with `done` of the call's `total` tokens (source tokens in
 * translation and scoring of pairs). Not called without any work. Return false to stop (TFM_ERROR_CANCELLED). */
typedef bool (*tfm_progress_fn)(void *user, uint64_t done, uint64_t total);

/* A term of the source language, and its translation: UTF-8, not empty. */
typedef struct tfm_glossary_term {
    const char *source, *target;
} tfm_glossary_term;

/* Options for lines of text, apart from the search. */
typedef struct tfm_text_options {
    /* The length of each source line in bytes; a line may then contain NUL, and is rejected. NULL: lines end with NUL.
     */
    const size_t *line_bytes;
    /* Maximum source tokens of a batch, with padding; in tfm_score of the wider side, in tfm_score_texts of the texts.
     * 0 means 4096. */
    int batch_tokens;
    /* Truncates lines longer than the model's positions. Otherwise they are rejected. */
    bool truncate;

    /* The next six are for translation only. */

    /* The prefix of each translation, or NULL for none; with `split` for the first sentence of a line. NULL for no
     * prefixes at all. */
    const char *const *prefixes;
    /* Translates the sentences of a line separately (tfm_text_sentences), because models are trained on sentences and
     * often merge or drop some of several. A language code at the beginning of the line, such as `>>fra<<`, is put
     * before each sentence. Blanks between sentences are kept; if there are none, as in Chinese, a space is inserted
     * between words written with spaces. Scores are sums over the sentences. Not allowed with n_best above 1. */
    bool split;
    /* The source language for `split`, such as "de". NULL means the tokenizer's. */
    const char *language;
    /* Makes tfm_translate_lines return token alignments: cross-attention weights of one decoder layer, at the cost of
     * one more forward pass over source and translation. */
    bool alignments;
    /* The decoder layer, from 1, or 0 for the last; and the head, from 1, or 0 for the mean over all. */
    int alignment_layer, alignment_head;

    tfm_reject_fn reject; /* Called for each bad line. If NULL, a bad line fails the call before any work. */
    void *reject_user;
    tfm_progress_fn progress; /* Called with the progress. May be NULL. */
    void *progress_user;
    tfm_search_stats *stats; /* Counts that the call adds to. May be NULL. */

    /* The languages of a multilingual model, in its tokenizer's codes: "de" (M2M-100, MADLAD), "deu_Latn" (NLLB),
     * "de_DE" (mBART), "deu" (Marian, for `>>deu<<`). They are encoded as the model expects: as a token of the source
     * or of the target, or as a word before each source text. NULL means the directory's default. TFM_ERROR_ARGUMENT
     * for an unknown language; the message lists the known ones. */
    const char *source_language, *target_language;
    /* A prefix of each source text, or of each sentence with `split`, such as "translate English to German: ". NULL for
     * none. */
    const char *source_prefix;
    bool score_eos; /* tfm_score_texts also scores the end of each text. */
    bool add_bos;   /* tfm_score_texts puts the model's BOS token before texts that the tokenizer begins otherwise. */
    /* Placeholders copied to the translation, or NULL for none. They are removed before the model reads the text, and
     * inserted where the model attended to their neighbors, at the cost of one more forward pass over lines with
     * placeholders; other lines are not affected. In the token lists, each word of a placeholder is one token with the
     * id -1, aligned with itself. A line with only placeholders is copied. */
    const tfm_placeholders *placeholders;
    /* Not NULL: the texts of tfm_score_texts are conversations, as for tfm_chat_encode_example, and the assistant's
     * tokens are scored. Not with score_eos or add_bos. */
    const tfm_chat *chat;
    /* [glossary_count], terms with their translations, or NULL for none. If a sentence (with `split`) or line has a
     * term as a word, with a small or capital first letter, its translation has the term's translation, perhaps with an
     * ending: as the model writes it, or forced where the score is best, at the cost of a greedy search for each place.
     * Of terms that begin at one place the longest counts. A term without room in the maximum length is left out. Not
     * with n_best above 1. */
    const tfm_glossary_term *glossary;
    size_t glossary_count;
    uint64_t reserved[6]; /* Must be 0. */
} tfm_text_options;

/* Receives one hypothesis for a line. `line` and `rank` are counted from 0. A line that was not translated (empty,
 * blank or rejected) gets a single hypothesis: "" with the score NaN. Return false to stop (TFM_ERROR_CANCELLED). */
typedef bool (*tfm_emit_fn)(void *user, size_t line, int rank, const char *text, double score);

/* Translates `count` lines of UTF-8 and emits results in the order of the lines, each as soon as it and all earlier
 * lines are done. An empty line gives "". Soft hyphens, zero width spaces (U+200B), word joiners and byte order marks
 * are removed first, because models do not know them within words. Batches have lines of similar length: lines for 16
 * batches are sorted together, so a result waits for at most 15 later batches. A call that fails or is stopped has
 * emitted the finished results in order. `options` may be NULL. A bad line fails the call before any work with
 * TFM_ERROR_INPUT; tfm_translate_lines can skip it. TFM_ERROR_ARGUMENT for options out of range, and for a model
 * without an encoder, a decoder, an output projection or a tokenizer. */
TFM_API tfm_status tfm_translate(tfm_model *model, const char *const *lines, size_t count,
                                 const tfm_search_options *options, tfm_emit_fn emit, void *user);

/* One hypothesis for one line, with its tokens. */
typedef struct tfm_translation {
    size_t line;      /* The line, counted from 0. */
    int rank;         /* The rank of the hypothesis, counted from 0. */
    const char *text; /* The text. "" for a line that was not translated, with NaN scores and no tokens. */
    double score;    /* The score with the length penalty; -inf if the search found fewer than n_best hypotheses; 0 in a
                        greedy search with `skip_scores`. */
    double log_prob; /* The sum of log p of the tokens. */
    size_t sentences;       /* 1, or with `split` the number of sentences; 0 for a line that was not translated. */
    tfm_token_list source;  /* Source tokens, with EOS. */
    tfm_token_list target;  /* Generated tokens, with EOS; with `split`, of all sentences in order. */
    const float *log_probs; /* [target.count]: log p of each token. */
    /* [target.count][source.count]: the attention of the step of each target token over the source tokens; a row adds
     * up to 1. With `split` a sentence attends only to itself. NULL without the option `alignments`. */
    const float *alignment;
} tfm_translation;

/* Receives one translation. Return false to stop (TFM_ERROR_CANCELLED). */
typedef bool (*tfm_translation_fn)(void *user, const tfm_translation *translation);

/* tfm_translate with text options and complete results. Both options may be NULL. TFM_ERROR_ARGUMENT for options out of
 * range or in conflict. */
TFM_API tfm_status tfm_translate_lines(tfm_model *model, const char *const *lines, size_t count,
                                       const tfm_text_options *text, const tfm_search_options *search,
                                       tfm_translation_fn emit, void *user);

/* Returns the next line to translate: *line is UTF-8 of *bytes bytes, unchanged until its translation has been emitted.
 * Returns false if there is none now. */
typedef bool (*tfm_next_line_fn)(void *user, const char **line, size_t *bytes);

/* Continuous batching: translates lines that arrive during the call, for servers. `next_line` is called at the
 * beginning and between decoding steps, on the calling thread, while the batch has room (batch_tokens). Lines are
 * counted from 0 in order of arrival. A new line is admitted to the running batch, in the slots of finished sequences,
 * if all of the following holds; otherwise it waits for the next batch:
 *
 *   - The device is a CPU, and the search has begun with at least 8 rows (lines times beams).
 *   - The decoder has no rotary positions, relative bias or SSRU cells, and the model no shortlist.
 *   - No rule counts tokens or uses the source (min_length, min_new_tokens, begin_suppress_tokens,
 *     exponential_decay_length_penalty, encoder_repetition_penalty, encoder_no_repeat_ngram_size).
 *   - Beams are not searched as in transformers, and neither alignments nor placeholders are requested.
 *   - The model was not opened on a fleet, not even of a single device.
 *
 * Each line is emitted when it is done, in any order. The call ends when all are done and `next_line` has none. It uses
 * the options of tfm_translate_lines, except line_bytes and progress; prefixes are TFM_ERROR_ARGUMENT. A bad line fails
 * the call without a `reject` callback; unfinished lines are then not emitted. Both options may be NULL. */
TFM_API tfm_status tfm_translate_stream(tfm_model *model, tfm_next_line_fn next_line, void *next_line_user,
                                        const tfm_text_options *text, const tfm_search_options *search,
                                        tfm_translation_fn emit, void *user);

/* Receives one scored pair: the line counted from 0, the sum of log p over the target tokens with EOS, and their
 * number. Return false to stop (TFM_ERROR_CANCELLED). */
typedef bool (*tfm_score_fn)(void *user, size_t line, double log_prob, size_t tokens);

/* Scores `count` sentence pairs: log p of each target line given its source line, by teacher forcing. Emits the results
 * in order after all are computed. Uses line_bytes for the source lines, batch_tokens, truncate, reject, progress,
 * stats, the languages and source_prefix of the options. An empty or blank line is scored as EOS alone. A rejected pair
 * is emitted with NaN and 0 tokens. `options` may be NULL. */
TFM_API tfm_status tfm_score(tfm_model *model, const char *const *sources, const char *const *targets, size_t count,
                             const tfm_text_options *options, tfm_score_fn emit, void *user);

/* Scores `count` texts by a decoder-only model: the sum of log p over the tokens, each given those before it. Emits the
 * results in order after all are computed. Texts are tokenized as prompts of tfm_generate. The first token is not
 * scored: the tokenizer's BOS such as <s>, or without one the text's first token, unless `add_bos` adds the model's
 * BOS. Perplexity is exp(-sum log p / sum tokens). A text of more tokens than the model's positions is scored in
 * windows of that size, which overlap by half. Uses the options `chat`, `score_eos`, `add_bos`, line_bytes,
 * batch_tokens, reject, progress and stats. A text without a scored token, and a rejected one, is emitted with NaN and
 * 0 tokens. `options` may be NULL. TFM_ERROR_ARGUMENT if the model has an encoder or no tokenizer. */
TFM_API tfm_status tfm_score_texts(tfm_model *model, const char *const *texts, size_t count,
                                   const tfm_text_options *options, tfm_score_fn emit, void *user);

/* The attention of one layer for one pair of texts. */
typedef struct tfm_attention_map {
    tfm_attention_kind kind;
    int layer; /* The layer, counted from 0. */
    int heads;
    tfm_token_list rows, columns; /* The queries and the keys. */
    const float *weights;         /* [heads][rows][columns]: the weights; a row adds up to 1. */
} tfm_attention_map;

/* Receives one map. Return false to stop (TFM_ERROR_CANCELLED). */
typedef bool (*tfm_attention_map_fn)(void *user, const tfm_attention_map *map);

/* Emits the attention of every layer for one pair of texts, in the order of tfm_model_attention_maps. A NULL `target`
 * means the model's translation, searched with `search`. The source axis has its tokens with EOS. The target axis has
 * the decoder input: the start id, which may come from `search` or the language, and the tokens without the last (EOS,
 * unless truncated at the maximum length). So row i, counted from 0, is the step that generates token i. Uses truncate,
 * the languages and source_prefix of `text`. Both options may be NULL. TFM_ERROR_INPUT for a text that is not UTF-8 or
 * too long, and for a source without words; TFM_ERROR_ARGUMENT for a model without an encoder, a decoder, an output
 * projection or a tokenizer. */
TFM_API tfm_status tfm_attention_maps(tfm_model *model, const char *source, const char *target,
                                      const tfm_text_options *text, const tfm_search_options *search,
                                      tfm_attention_map_fn emit, void *user);

/* ---- Generation ------------------------------------------------------------------------------------------------ */

/* Text generation with decoder-only models such as GPT-2 or Llama. */

/* Called for each token as soon as it is chosen, including a final EOS. Prompts and their texts are counted from 0.
 * Return false to end this text with this token. */
typedef bool (*tfm_token_fn)(void *user, size_t prompt, int rank, int32_t id);

/* Called with the next part of a text as soon as it is final: whole characters that cannot begin a stop string. All
 * parts of a text make up tfm_generation.text. Return false to end this text here. */
typedef bool (*tfm_text_fn)(void *user, size_t prompt, int rank, const char *text);

/* The KV cache of one token sequence, kept between calls whose prompts begin alike, such as the turns of a chat. Of the
 * prompt of a call with the option `prompt_cache`, the longest prefix in the cache is not computed again; prompt and
 * text are in the cache afterwards. Any prompt may follow, also a shorter one or one with another beginning. The text
 * is that of a call without the option, up to rounding. After a failed call the cache is empty; after
 * TFM_ERROR_CANCELLED it has the computed part of the prompt.
 *
 * It belongs to its model's context and thread. */
typedef struct tfm_prompt_cache tfm_prompt_cache;

/* Creates an empty cache. The model stays in memory as long as it. On failure *out is NULL: TFM_ERROR_ARGUMENT for a
 * model with an encoder, without an output projection, or opened on a fleet. */
TFM_API tfm_status tfm_prompt_cache_new(tfm_prompt_cache **out, tfm_model *model);
/* Tokens in the cache; 0 for NULL. */
TFM_API size_t tfm_prompt_cache_tokens(const tfm_prompt_cache *cache);
/* Forgets the tokens and keeps the memory. Needed after a change of the model's parameters, by training for example. */
TFM_API void tfm_prompt_cache_clear(tfm_prompt_cache *cache);
/* Releases it and sets the pointer to NULL. */
TFM_API void tfm_prompt_cache_free(tfm_prompt_cache **cache);

/* Counts. tfm_generate_ids adds to them if it succeeds, tfm_generate after each batch, even if the call fails later. */
typedef struct tfm_generate_stats {
    uint64_t prompts; /* Prompts that were completed. */
    uint64_t prompt_tokens;
    uint64_t cached_tokens; /* Prompt tokens found in `prompt_cache`. */
    uint64_t new_tokens;    /* Generated tokens of all requested texts. */
    double prefill_seconds; /* Prefill time: all prompt tokens except the last of each and cached ones. */
    double decode_seconds;  /* With an engine, all time. */
} tfm_generate_stats;

/* A change of a token's logit. */
typedef struct tfm_logit_bias {
    int32_t id;
    float bias;
} tfm_logit_bias;

/* log p of a token under the model's logits, before penalties and all other rules, and of the most probable tokens
 * [count], best first. Valid during the call. */
typedef struct tfm_token_log_probs {
    float log_prob;
    size_t count;
    const int32_t *ids;
    const float *log_probs;
} tfm_token_log_probs;

/* Called for each token, before tfm_token_fn. */
typedef void (*tfm_log_probs_fn)(void *user, size_t prompt, int rank, int32_t id, const tfm_token_log_probs *log_probs);

/* Generation options. All zeros is greedy search. */
typedef struct tfm_generate_options {
    int max_new_tokens; /* Maximum new tokens. 0 means the directory's max_new_tokens, or else 256 and its max_length,
                           if any, for prompt and text together. The model's positions limit it, too. */
    int min_new_tokens; /* Minimum tokens before an end token. 0 means the directory's min_new_tokens, or else its
                           min_length, which includes the prompt. */
    int beam_size; /* The beam size, up to TFM_MAX_BEAM_SIZE; a beam search ends as in transformers. 0 means 1, greedy
                      search or sampling; the directory's num_beams is ignored. */
    int n_best;    /* Texts for each prompt: the best of the beam, or samples. 0 means 1. */
    bool has_length_penalty; /* Whether `length_penalty` is given, since 0 is a possible value. */
    double length_penalty;   /* The score of n tokens is sum log p / n^length_penalty; from -10 to 10. Otherwise the
                                directory's length_penalty, or 1. */
    bool sample; /* Sampling (tfm_sample), with a beam of 1 only; the directory's do_sample is ignored. `temperature`,
                    `top_k`, `top_p` and `min_p`, if 0, are then the directory's, or else 1, all, 1 and none. They must
                    be 0 without `sample`. */
    bool skip_scores;  /* Skips scores: without `sample`, and with a beam of 0 or 1, score, log_prob and log_probs are
                          then 0, and a step may be faster; see tfm_search_options. */
    float temperature; /* Divides the logits. */
    int top_k;         /* Keeps the k most probable tokens. */
    float top_p;       /* Keeps the smallest set of most probable tokens with total probability >= p. */
    float min_p;       /* Keeps tokens with at least this fraction of the largest probability. */
    float repetition_penalty; /* Penalizes tokens of prompt and text if above 1: positive logits (with a beam, log p)
                                 are divided by it, negative ones multiplied ("CTRL", Keskar et al. 2019). 0 means the
                                 directory's, or 1. */
    /* Equal seeds give the same samples on a device, except for rounding. Prompt i of a call has the number
     * first_prompt + i, which selects the random numbers of each of its n_best texts, independent of batches. */
    uint64_t seed, first_prompt;
    /* Subtracted from the logit of each token that the text, without its prompt, has: once, and for each occurrence.
     * From -100 to 100. With any option from here to prompt_lookup_num_tokens, tfm_generate uses an engine (engine.h):
     * a beam of 1, one device, and no prompt cache. */
    float presence_penalty, frequency_penalty;
    /* [logit_bias_count]: added to the logits of the tokens; finite, or -INFINITY to suppress one. */
    const tfm_logit_bias *logit_bias;
    size_t logit_bias_count;
    tfm_log_probs_fn on_log_probs; /* May be NULL. */
    void *on_log_probs_user;
    int top_log_probs; /* The most probable tokens for on_log_probs: 0 to 64. */
    /* The text is one of this grammar (grammar.h), up to the maximum number of tokens; it ends where nothing may
     * follow. Needs a tokenizer. May be NULL. */
    const tfm_grammar *grammar;
    /* [stop_id_count]: a text ends with any one of them, as with an end token of the directory. */
    const int32_t *stop_ids;
    size_t stop_id_count;
    /* Speculative decoding by prompt lookup: where the newest 2 or 3 tokens occur earlier in the prompt or the text,
     * the tokens that follow there are drafts, at most this many, which one step verifies. The text is the same, except
     * for rounding. A text that repeats little has few drafts, one with a grammar and one of more than 4 in an engine
     * none. 0 to 15; 0 means none. On CPUs 3 is the fastest. */
    int prompt_lookup_num_tokens;
    int batch_tokens; /* Maximum tokens of a batch, including tokens to generate. 0 means 16384. */
    /* [stop_string_count]: a text ends before the first occurrence of any stop string. Needs a tokenizer and a beam of
     * 1. */
    const char *const *stop_strings;
    size_t stop_string_count;
    tfm_token_fn on_token; /* Called for each token; needs a beam of 1. May be NULL. */
    void *on_token_user;
    tfm_text_fn on_text; /* Called for each part of a text; needs a beam of 1 and a tokenizer. May be NULL. */
    void *on_text_user;
    tfm_reject_fn reject; /* Called for each bad prompt. If NULL, a bad prompt fails the call. */
    void *reject_user;
    /* Called before each step and between chunks of the prefill, or with several devices or workers every hundredth of
     * a second; false ends the call with TFM_ERROR_CANCELLED. May be NULL. */
    bool (*should_continue)(void *user);
    void *should_continue_user;
    tfm_generate_stats *stats; /* Counts that the call adds to. May be NULL. */
    /* A KV cache kept between calls, of this model. Needs a single prompt, a beam of 1 and an n-best of 1. May be
     * NULL. */
    tfm_prompt_cache *prompt_cache;
    uint64_t reserved[8]; /* Must be 0. */
} tfm_generate_options;

/* Generates texts for one batch of prompts. `ids` has the concatenated ids of the prompts, counts[i] for prompt i. *out
 * has n_best hypotheses for each prompt in order. Their log_probs are the model's, regardless of how tokens were
 * chosen, except: 0 for an EOS forced by forced_eos_token_id; with penalties and biases in a beam search; after all
 * rules with renormalize_logits. Prefill is in chunks of 512 tokens. `options` may be NULL; stop_strings, on_text,
 * reject and batch_tokens are checked but unused here. The caller frees *out with tfm_hypotheses_free. On failure *out
 * is empty: TFM_ERROR_INPUT for a prompt without ids or with more than the model's positions, TFM_ERROR_ARGUMENT for an
 * id outside the vocabulary. */
TFM_API tfm_status tfm_generate_ids(tfm_model *model, tfm_hypotheses *out, const int32_t *ids, const size_t *counts,
                                    size_t prompts, const tfm_generate_options *options);

/* A prompt: UTF-8, or if `text` is NULL, ids. */
typedef struct tfm_prompt {
    const char *text;   /* The text, encoded with the model's special tokens. */
    size_t bytes;       /* The length of the text in bytes. */
    const int32_t *ids; /* [count]: the ids. */
    size_t count;
} tfm_prompt;

/* The finish reason. EOS: an end token, or no token left by the directory's rules. STOP: before a stop string, or by a
 * callback. LENGTH: the maximum number of tokens, or a text
 * that is not complete by its grammar, and that no token continues. */
typedef enum tfm_finish_reason { TFM_FINISH_EOS, TFM_FINISH_STOP, TFM_FINISH_LENGTH } tfm_finish_reason;

/* One text for one prompt. */
typedef struct tfm_generation {
    size_t prompt; /* The prompt, counted from 0. */
    int rank;      /* The rank of the text, or the index of the sample, counted from 0. */
    const char
        *text;    /* The text without the prompt. "" for a rejected prompt, with NaN scores, and without a tokenizer. */
    double score; /* The score; -inf if the beam found fewer than n_best; 0, as are log_prob and log_probs, with
                     `skip_scores`, without sampling and with a beam of 0 or 1. */
    double log_prob;        /* The sum of log p of the tokens. */
    size_t prompt_tokens;   /* Prompt tokens; 0 for a rejected prompt. */
    size_t cached_tokens;   /* Prompt tokens found in the KV cache of an engine (engine.h); else 0. */
    tfm_token_list tokens;  /* Generated tokens, with the end token. */
    const float *log_probs; /* [tokens.count]: log p of each token, as in tfm_generate_ids. */
    tfm_finish_reason finish_reason;
} tfm_generation;

/* Receives one text. Return false to stop (TFM_ERROR_CANCELLED). */
typedef bool (*tfm_generation_fn)(void *user, const tfm_generation *generation);

/* Generates texts for `count` prompts and emits them in the order of the prompts, each as soon as it and all earlier
 * ones are done. Prompts of similar length share a batch. A prompt without tokens begins with the model's BOS such as
 * <s>, if any. A model without a tokenizer takes and returns ids. `options` may be NULL. A bad prompt is not UTF-8, has
 * no tokens or more than the model's positions (TFM_ERROR_INPUT), or an id outside the vocabulary (TFM_ERROR_ARGUMENT).
 * It fails the call before any work, or is passed to `reject` and emitted once, as in tfm_generation.
 * TFM_ERROR_ARGUMENT for options out of range or in conflict, and for a model with an encoder or without an output
 * projection. */
TFM_API tfm_status tfm_generate(tfm_model *model, const tfm_prompt *prompts, size_t count,
                                const tfm_generate_options *options, tfm_generation_fn emit, void *user);

#ifdef __cplusplus
}
#endif
#endif
