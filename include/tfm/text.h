/* Tokenizers (text to token ids and back), sentence splitting, placeholders, and training of vocabularies.
 *
 *     tfm_tokenizer *tokenizer = NULL;
 *     int32_t *ids = NULL;
 *     size_t count;
 *     if (tfm_tokenizer_open(&tokenizer, "opus-mt-de-en") == TFM_OK &&
 *         tfm_tokenizer_encode(tokenizer, &ids, &count, TFM_SOURCE, "Guten Tag.", 10) == TFM_OK)
 *         printf("%zu tokens\n", count);
 *     tfm_ids_free(&ids);
 *     tfm_tokenizer_free(&tokenizer);
 *
 * An open tokenizer is immutable, so any number of threads may use it at the same time.
 *
 * SentencePiece has one process-wide log level for stderr. Calls that open its models or train vocabularies silence it
 * while they run, on any thread, and then restore it. A program that uses SentencePiece itself sees none of its
 * messages meanwhile, and should set the level before. */
#ifndef TFM_TEXT_H
#define TFM_TEXT_H

#include <stdbool.h>
#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tfm_tokenizer tfm_tokenizer;

/* The source side is read by a model, the target side is generated. */
typedef enum tfm_side { TFM_SOURCE, TFM_TARGET } tfm_side;

/* Vocabulary info of a tokenizer. */
typedef struct tfm_tokenizer_info {
    int32_t source_size; /* The largest id of the source side plus one. */
    int32_t target_size; /* The largest id of the target side plus one. */
    bool separate;       /* True if each side has its own vocabulary. */
    /* Ids of special tokens, or -1. A Marian tokenizer has EOS and UNK only. */
    int32_t source_eos;
    int32_t source_unk;
    int32_t source_pad;
    int32_t target_eos;
    int32_t target_unk;
    int32_t target_pad;
    int32_t bos;  /* Begins a text. */
    int32_t cls;  /* Represents a whole text (BERT). */
    int32_t sep;  /* Between or after texts (BERT). */
    int32_t mask; /* The mask token for fill-mask. */
} tfm_tokenizer_info;

/* Opens the tokenizer of a directory, or of a GGUF file. The files decide its kind:
 *
 *   - a path of a GGUF file, or a directory whose only model file is one: its metadata (tokenizer.ggml.model of llama,
 *     gpt2, gemma4, bert or t5), with llama.cpp's ids; if it has none, the files next to it.
 *   - source.spm or target.spm: Marian / OPUS-MT. Besides those two it reads vocab.json (the id of each piece;
 *     SentencePiece's own ids are not used), target_vocab.json if the vocabularies are separate, and, if they exist,
 *     tokenizer_config.json and added_tokens.json for added tokens.
 *   - a native Marian or Bergamot directory (model.h): vocab.spm, or one for each side, with SentencePiece's ids.
 *   - tokenizer.json: the format of Hugging Face `tokenizers`, with BPE, Unigram, WordPiece or WordLevel.
 *   - older formats, read as transformers does: vocab.txt (BERT, MPNet); vocab.json and merges.txt (GPT-2, OPT,
 *     RoBERTa, BART, Qwen2); a SentencePiece model named spiece.model, sentencepiece.bpe.model or tokenizer.model (T5,
 *     Pegasus, XLM-R, CamemBERT, mBART, NLLB, Llama, Gemma), for M2M-100 together with vocab.json. One difference: the
 *     normalizations of a SentencePiece model (mBART's too) are SentencePiece's longest match, which decomposed letters
 *     need. The class is the `tokenizer_class` in tokenizer_config.json or config.json, else it follows from the
 *     latter's `model_type`, else from the file names.
 *
 * The last two also read tokenizer_config.json, special_tokens_map.json and added_tokens.json, where they exist and
 * apply, for special and added tokens. Both sides are the same there. On failure *out is NULL: TFM_ERROR_IO for a
 * missing file, TFM_ERROR_FORMAT for a damaged one, TFM_ERROR_UNSUPPORTED for an unsupported feature; the message names
 * it. `dir` may be a name of the Hugging Face hub in the cache (hub.h). */
TFM_API tfm_status tfm_tokenizer_open(tfm_tokenizer **out, const char *dir);
/* Releases the tokenizer and sets the pointer to NULL. Models and data readers keep their
 * tokenizer alive. */
TFM_API void tfm_tokenizer_free(tfm_tokenizer **tokenizer);

/* Vocabulary info. The struct belongs to the tokenizer. NULL for NULL. */
TFM_API const tfm_tokenizer_info *tfm_tokenizer_get_info(const tfm_tokenizer *tokenizer);

/* Encodes a line of `bytes` bytes of UTF-8 to *count token ids, with the model's special tokens: the EOS id last for
 * Marian, and otherwise `tokenizer(text).input_ids` of transformers. Exception: where transformers 5 replaces the
 * pipeline of tokenizer.json with its own, as LlamaTokenizer and GPT2Tokenizer do, the file's pipeline is used, because
 * the model was trained with it. The caller frees *ids with tfm_ids_free. A piece without an id becomes UNK. With
 * Marian, except native Marian directories, a language code at the beginning of the line, such as `>>fra<<`, is one
 * token. Added tokens are single tokens anywhere. An empty line gives only the special tokens. On failure *ids is NULL;
 * TFM_ERROR_INPUT for a line that tfm_text_check refuses, that exceeds 64 MiB, or that has a token without a row in the
 * model's embeddings. */
TFM_API tfm_status tfm_tokenizer_encode(const tfm_tokenizer *tokenizer, int32_t **ids, size_t *count, tfm_side side,
                                        const char *line, size_t bytes);
/* Options of encoding. All zeros is tfm_tokenizer_encode. */
typedef struct tfm_encode_options {
    /* Omits the special tokens around the text. Special tokens in the text, such as `<|user|>`, remain tokens. */
    bool no_special_tokens;
    /* The language of the text, for models with language tokens: the model's own code, such as "fra_Latn" (NLLB),
     * "fr_XX" (mBART) or "fr" (M2M-100). NULL means the side's language in tokenizer_config.json, for the target else
     * that of the source, else the model's default. Ignored with `no_special_tokens` by a tokenizer with languages.
     * TFM_ERROR_ARGUMENT for an unknown language. A Marian tokenizer, whose codes are part of the text, takes neither a
     * language nor a `text_pair`: TFM_ERROR_UNSUPPORTED. */
    const char *language;
    /* A second text after the first, for models that compare two texts. NULL for none. */
    const char *text_pair;
    size_t text_pair_bytes; /* The length of the second text in bytes. */
    uint64_t reserved[8];   /* Must be 0. */
} tfm_encode_options;

/* tfm_tokenizer_encode with options, which may be NULL. */
TFM_API tfm_status tfm_tokenizer_encode_with(const tfm_tokenizer *tokenizer, int32_t **ids, size_t *count,
                                             tfm_side side, const char *line, size_t bytes,
                                             const tfm_encode_options *options);
/* Frees ids and sets the pointer to NULL. */
TFM_API void tfm_ids_free(int32_t **ids);

/* Decodes `count` ids of the target side to text. `ids` may be NULL if `count` is 0, which gives "". The caller frees
 * *text with tfm_text_free; on failure it is NULL. Special tokens and ids without a piece are skipped. With Marian the
 * text ends at the first EOS id, and UNK becomes " ⁇ ". With others it is `tokenizer.decode(ids,
 * skip_special_tokens=True)` of transformers: NUL and bytes that are not UTF-8 become U+FFFD. Exception: an added token
 * of a byte-level tokenizer is its own text; transformers decodes letters in its byte table ("č") as bytes. */
TFM_API tfm_status tfm_tokenizer_decode(const tfm_tokenizer *tokenizer, char **text, const int32_t *ids, size_t count);
/* Frees a text and sets the pointer to NULL. */
TFM_API void tfm_text_free(char **text);

/* The bytes that a token adds to a text of other tokens, with the blank before a word; of a special token those of its
 * piece. The caller frees *bytes with tfm_text_free; it ends with a NUL, which *count does not include.
 * TFM_ERROR_ARGUMENT for an id without a piece. */
TFM_API tfm_status tfm_tokenizer_token_bytes(const tfm_tokenizer *tokenizer, char **bytes, size_t *count, int32_t id);

/* The piece of an id, such as "▁Haus", or NULL if there is none. The string belongs to the tokenizer. */
TFM_API const char *tfm_tokenizer_piece(const tfm_tokenizer *tokenizer, tfm_side side, int32_t id);

/* The id of a piece, such as "▁Haus" or "<mask>", or -1 if the side has no such piece. */
TFM_API int32_t tfm_tokenizer_piece_id(const tfm_tokenizer *tokenizer, tfm_side side, const char *piece);

/* The id of a language token, such as "fra_Latn", "fr_XX" or "fr" as in tfm_encode_options.language, or with Marian
 * "fra" for `>>fra<<`; -1 if there is none. Multilingual models generate it first. */
TFM_API int32_t tfm_tokenizer_language_id(const tfm_tokenizer *tokenizer, const char *language);

/* The language of a side in tokenizer_config.json, such as "de", or NULL. The string belongs to the tokenizer. */
TFM_API const char *tfm_tokenizer_language(const tfm_tokenizer *tokenizer, tfm_side side);

/* One sentence of a line, without surrounding blanks. */
typedef struct tfm_sentence {
    size_t start; /* Byte offset in the line. */
    size_t bytes; /* The length of the sentence in bytes. */
} tfm_sentence;

/* Splits a line of `bytes` bytes of UTF-8 into *count sentences, in order. The caller frees *sentences with
 * tfm_sentences_free; a blank line gives NULL. `language` is a code such as "de", or NULL if unknown. Sentences end by
 * Unicode's rules (UAX #29), as implemented by ICU for the language, with these exceptions. A full stop does not end a
 * sentence after an initial, a common abbreviation of the language ("Dr.", "z. B."), or an ordinal number of one or two
 * digits in languages that write them with a stop. A part that begins with a lowercase letter, or has no letter or
 * digit, belongs to the sentence before it. No sentence ends in a placeholder that tfm_placeholders finds. On failure
 * *sentences is NULL; TFM_ERROR_INPUT for a line that tfm_text_check refuses or that exceeds 64 MiB. */
TFM_API tfm_status tfm_text_sentences(tfm_sentence **sentences, size_t *count, const char *line, size_t bytes,
                                      const char *language);
/* Frees sentences and sets the pointer to NULL. */
TFM_API void tfm_sentences_free(tfm_sentence **sentences);

/* Placeholders: parts of a text that translation copies. Format strings and templates (%1$s, %d, %(name)s, %@, {0},
 * {{name}}, ${city}, #{x}, %NAME%), tags (<b>, <x id=1/>), entities (&nbsp;), URLs and mail addresses, paths, @name,
 * #tag, \n, TeX, Markdown code and links, [[...]], emoji, and the matches of further patterns in PCRE2 syntax. See
 * tfm_text_options.placeholders. */
typedef struct tfm_placeholders tfm_placeholders;

/* Compiles `count` patterns in addition to those above; `patterns` may be NULL if there are none. TFM_ERROR_ARGUMENT
 * for an invalid regular expression, or one that matches the empty text. The object is immutable, so any number of
 * threads may use it. */
TFM_API tfm_status tfm_placeholders_new(tfm_placeholders **out, const char *const *patterns, size_t count);
/* The number of placeholders in a text; 0 for NULL. Adjacent ones without a word between them, such as "%d/%d", count
 * as one. */
TFM_API size_t tfm_placeholders_count(const tfm_placeholders *placeholders, const char *text, size_t bytes);
/* Frees the object and sets the pointer to NULL. */
TFM_API void tfm_placeholders_free(tfm_placeholders **placeholders);

/* Document boundaries in a file of plain text. With zeros each line is a text. */
typedef struct tfm_document_options {
    /* Ends a text at each line that contains this, such as "<|endoftext|>"; the rest of the line belongs to the next
     * text. "" means a blank line. The separator and blank lines around a text are not part of it. The lines of a text
     * are joined by LF. No newline in it. NULL for none. */
    const char *separator;
    /* JSON Lines: each line is an object, and its "text" is a text; other keys are ignored. Not with a separator. */
    bool json_lines;
    uint64_t reserved[2]; /* Must be 0. */
} tfm_document_options;

typedef struct tfm_documents tfm_documents;

/* Opens a file of texts, to read them in order, as training does. `options` may be NULL. On failure *out is NULL:
 * TFM_ERROR_IO for a file that cannot be read, TFM_ERROR_ARGUMENT for invalid options. */
TFM_API tfm_status tfm_documents_open(tfm_documents **out, const char *file, const tfm_document_options *options);
/* The next text and its length in bytes; *text is NULL after the last. Valid until the next call; not checked to be
 * UTF-8. TFM_ERROR_INPUT for a JSON line without a text: the next call gives the one after it. */
TFM_API tfm_status tfm_documents_next(tfm_documents *documents, const char **text, size_t *bytes);
/* Closes the file and sets the pointer to NULL. */
TFM_API void tfm_documents_free(tfm_documents **documents);

/* Options of vocabulary training. All zeros is a good start. */
typedef struct tfm_vocabulary_options {
    /* The number of pieces, at least 3 and below 2^24, with </s> and <unk> but without <pad>. 0 means one for every 250
     * bytes of text, from 500 to 8000, or fewer if the text gives no more. If the text has more different characters
     * than that, as in Chinese, it is that number plus one for each character. */
    int64_t vocab_size;
    /* Trains a vocabulary of that size for each side instead of a shared one. */
    bool separate_vocabs;
    /* Unigram (Kudo 2018) instead of BPE (Sennrich et al. 2016). */
    bool unigram;
    /* The share of the text's characters covered by pieces, from 0.98 to 1; the rarest become <unk>. 0 means 1, all
     * characters. */
    double character_coverage;
    /* Maximum lines to train on, sampled uniformly with the seed. They must fit into memory a few times over, the files
     * need not. 0 means 1,000,000. */
    int64_t max_sentences;
    /* SentencePiece's normalization: "nmt_nfkc", the default for NULL, "nfkc", "nmt_nfkc_cf", "nfkc_cf" or "identity".
     * The cf rules lowercase (case folding). */
    const char *normalization;
    /* The language of the source side, such as "de"; only stored in tokenizer_config.json. May be NULL. */
    const char *source_language;
    /* The language of the target side, likewise. May be NULL. */
    const char *target_language;
    /* Seeds the sampling of lines. */
    uint64_t seed;
    /* For tfm_tokenizer_train_texts: the document boundaries. It trains on the lines of each text. */
    tfm_document_options documents;
    uint64_t reserved[8]; /* Must be 0. */
} tfm_vocabulary_options;

/* Trains a vocabulary on parallel text, and writes the files of tfm_tokenizer_open and of Hugging Face's
 * MarianTokenizer into the existing folder `dir`. Existing files with the same names are replaced one by one at the
 * end, vocab.json last. Ids are SentencePiece's: </s> is 0, <unk> is 1, and <pad>, which is only in vocab.json, is the
 * last. Separate vocabularies may differ in size, so <pad> is 2 on both sides there, and the other pieces have ids one
 * higher. Language codes at the beginning of lines, `>>fra<<` as in Marian's multilingual models, are not training
 * text; the first 1000 different ones of a vocabulary get ids after those of the pieces.
 *
 * `source` and `target` are files of lines. With `target` NULL, `source` is one file of lines `source TAB target`. The
 * files are streamed at least twice. Lines are skipped if they are empty, not UTF-8 or longer than 4192 bytes, or if
 * they contain NUL, the character U+2585 or, in a TSV file, no tab. `options` may be NULL. The same files and options
 * give the same bytes.
 *
 * TFM_ERROR_ARGUMENT for an option out of range. TFM_ERROR_IO if a file or the folder cannot be read or written.
 * TFM_ERROR_INPUT if no line is left, or none with a letter or a digit, if the text has more characters than
 * `vocab_size`, or, for BPE, if it gives fewer pieces than `vocab_size`; the message has the number. A unigram model
 * then has fewer pieces. */
TFM_API tfm_status tfm_tokenizer_train(const char *dir, const char *source, const char *target,
                                       const tfm_vocabulary_options *options);

/* tfm_tokenizer_train on `count` >= 1 pairs of files, sources[i] with targets[i], or with `targets` NULL, TSV files:
 * equivalent to the concatenated files. */
TFM_API tfm_status tfm_tokenizer_train_pairs(const char *dir, const char *const *sources, const char *const *targets,
                                             size_t count, const tfm_vocabulary_options *options);

/* Trains a vocabulary on `count` plain-text files for decoder-only models, and writes tokenizer.json and
 * tokenizer_config.json, for tfm_tokenizer_open and Hugging Face transformers, and the same pieces as SentencePiece's
 * tokenizer.model, into the existing folder `dir`. <unk> is 0; <s>, before each text, is 1; </s>, after it, is 2; there
 * is no padding. Options, skipped lines and errors are those of tfm_tokenizer_train, except that `separate_vocabs` and
 * languages are refused, and language codes are ordinary text. tokenizer.json is written last. */
TFM_API tfm_status tfm_tokenizer_train_texts(const char *dir, const char *const *files, size_t count,
                                             const tfm_vocabulary_options *options);

/* Writes the tokenizer of a GGUF file as tokenizer.json and tokenizer_config.json, with its special tokens and chat
 * templates, for tfm_tokenizer_open and Hugging Face transformers, into the existing folder `dir`. `model` is a file, a
 * directory whose only model file is one, or a name of the hub (hub.h). Ids stay. The scores of a tokenizer.ggml.model
 * "llama" become merges: of two pairs that form the same piece, the one with the shorter left side is then merged
 * first, not the one that comes first in the text. tokenizer.json is written last. TFM_ERROR_UNSUPPORTED if `model` is
 * no GGUF file or has no tokenizer in it; otherwise the errors of tfm_tokenizer_open. */
TFM_API tfm_status tfm_tokenizer_convert(const char *dir, const char *model);

/* TFM_OK if the `bytes` bytes of `line` are well-formed UTF-8 without NUL; otherwise TFM_ERROR_INPUT, and the message
 * names the byte, counted from 1. */
TFM_API tfm_status tfm_text_check(const char *line, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
