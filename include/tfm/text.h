/* Text to token ids and back, the sentences of a line, and the learning of vocabularies.
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
 * A tokenizer does not change once it is open, so any number of threads may use one at the same time.
 *
 * SentencePiece has one level for what it writes to stderr, for the whole process. The calls that open its models or
 * learn pieces silence it while they run, on any thread, and then put the level back: a program that uses SentencePiece
 * itself meanwhile does not see its messages, and one that sets the level should do so before. */
#ifndef TFM_TEXT_H
#define TFM_TEXT_H

#include <stdbool.h>
#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tfm_tokenizer tfm_tokenizer;

/* Which of the two languages is meant: the one that a model reads, or the one that it writes. */
typedef enum tfm_side { TFM_SOURCE, TFM_TARGET } tfm_side;

/* The vocabularies of a tokenizer. */
typedef struct tfm_tokenizer_info {
    int32_t source_size; /* The largest id of the source side plus one. */
    int32_t target_size; /* The largest id of the target side plus one. */
    bool separate;       /* True if each side has a vocabulary of its own. */
    /* Ids of special tokens, -1 for one that there is not. A Marian tokenizer has the ends and the unknown tokens. */
    int32_t source_eos; /* The source side's end-of-sentence token. */
    int32_t source_unk; /* The source side's unknown token. */
    int32_t source_pad; /* The source side's padding token. */
    int32_t target_eos; /* The target side's end-of-sentence token. */
    int32_t target_unk; /* The target side's unknown token. */
    int32_t target_pad; /* The target side's padding token. */
    int32_t bos;        /* The token that begins a text. */
    int32_t cls;        /* The token of a whole text, as BERT has it. */
    int32_t sep;        /* The token between or after texts, as BERT has it. */
    int32_t mask;       /* The token in the place of a word that is to be guessed. */
} tfm_tokenizer_info;

/* Opens the tokenizer of a directory. What it is the files say:
 *
 * - source.spm or target.spm: Marian / OPUS-MT. Besides those two it reads vocab.json, which gives the id of each piece
 *   (SentencePiece's own ids are not used), target_vocab.json if the vocabularies are separate, and, if they exist,
 *   tokenizer_config.json and added_tokens.json, whose added tokens it takes.
 * - a directory of Marian's or Bergamot's own (model.h): vocab.spm, or one for each side, with SentencePiece's ids.
 * - tokenizer.json: what Hugging Face's library `tokenizers` reads, with BPE, Unigram, WordPiece or WordLevel.
 * - vocab.txt (BERT, MPNet); vocab.json and merges.txt (GPT-2, OPT, RoBERTa, BART, Qwen2); a SentencePiece model named
 *   spiece.model, sentencepiece.bpe.model or tokenizer.model (T5, Pegasus, XLM-R, CamemBERT, mBART, NLLB, Llama,
 *   Gemma), which for M2M-100 has a vocab.json beside it: the files from before tokenizer.json, as transformers reads
 *   them, except that the normalisations of a SentencePiece model (mBART's too) are SentencePiece's longest match,
 *   which decomposed letters need. Which class they are for is said by `tokenizer_class` in tokenizer_config.json or
 *   config.json, else by the `model_type` of the latter, else by their names.
 *
 * The last two read tokenizer_config.json, special_tokens_map.json and added_tokens.json too, where they exist and
 * count, for special and added tokens. Both sides are the same there. On failure *out is NULL: TFM_ERROR_IO for a
 * missing file, TFM_ERROR_FORMAT for a damaged one, TFM_ERROR_UNSUPPORTED for one that asks for what tfm does not do;
 * the message names it. */
TFM_API tfm_status tfm_tokenizer_open(tfm_tokenizer **out, const char *dir);
/* Gives the tokenizer up and sets the pointer to NULL. Does nothing for NULL. A model or reader of data that uses the
 * tokenizer keeps it alive. */
TFM_API void tfm_tokenizer_free(tfm_tokenizer **tokenizer);

/* What vocabularies a tokenizer has. The struct belongs to the tokenizer. NULL for NULL. */
TFM_API const tfm_tokenizer_info *tfm_tokenizer_get_info(const tfm_tokenizer *tokenizer);

/* Turns a line of `bytes` bytes of UTF-8 into *count token ids, with the special tokens that the model wants around it:
 * with Marian the end-of-sentence id last, with others what `tokenizer(text).input_ids` of transformers has, or, where
 * transformers 5 puts steps of its own in the place of those in tokenizer.json, as its LlamaTokenizer and GPT2Tokenizer
 * do, what the file's steps give, with which the model was trained. The caller frees *ids with tfm_ids_free. A piece
 * that has no id becomes the unknown id. With Marian a language code at the beginning of the line, such as `>>fra<<`,
 * is one token, but for directories of Marian's own; added tokens are single tokens wherever they stand. An empty line
 * gives the special tokens alone. On failure *ids is NULL; TFM_ERROR_INPUT for a line that tfm_text_check refuses, that
 * has more than 64 MiB, or that has a token for which a model's embeddings have no row. */
TFM_API tfm_status tfm_tokenizer_encode(const tfm_tokenizer *tokenizer, int32_t **ids, size_t *count, tfm_side side,
                                        const char *line, size_t bytes);
/* How a text is to be encoded. All zeros is what tfm_tokenizer_encode does. */
typedef struct tfm_encode_options {
    /* Leaves out the special tokens around the text. Those that stand in the text, such as `<|user|>`, are tokens all
     * the same. */
    bool no_special_tokens;
    /* The language of the text, for models whose tokens say it: a code as the model writes it, such as "fra_Latn"
     * (NLLB), "fr_XX" (mBART) or "fr" (M2M-100). NULL means the one that tokenizer_config.json names for the side, else
     * for the target that of the source, else the model's default. With `no_special_tokens` a tokenizer that has
     * languages does not look at it. TFM_ERROR_ARGUMENT for a language that the tokenizer does not have. A Marian
     * tokenizer takes none, nor a `text_pair`: TFM_ERROR_UNSUPPORTED; its codes stand in the text. */
    const char *language;
    /* A second text that follows the first, as models that compare two texts take them. NULL for none. */
    const char *text_pair;
    size_t text_pair_bytes; /* The length of the second text in bytes. */
    uint64_t reserved[8];   /* Must be 0: room for later fields. */
} tfm_encode_options;

/* Does what tfm_tokenizer_encode does, in another way. `options` may be NULL. */
TFM_API tfm_status tfm_tokenizer_encode_with(const tfm_tokenizer *tokenizer, int32_t **ids, size_t *count,
                                             tfm_side side, const char *line, size_t bytes,
                                             const tfm_encode_options *options);
/* Frees what tfm_tokenizer_encode or tfm_tokenizer_encode_with gave and sets the pointer to NULL. Does nothing for
 * NULL. */
TFM_API void tfm_ids_free(int32_t **ids);

/* Turns `count` ids of the target side into text. `ids` may be NULL if `count` is 0: no ids give "". The caller frees
 * *text with tfm_text_free; on failure it is NULL. Special tokens and ids that no piece has add nothing. With Marian
 * the text ends at the first end-of-sentence id, and the unknown id becomes " ⁇ ". With others it is what
 * `tokenizer.decode(ids, skip_special_tokens=True)` of transformers gives: bytes that are not UTF-8 become U+FFFD, and
 * so does NUL; except that an added token of a byte-level tokenizer is its own text, whose letters transformers takes
 * for bytes where they are in its table ("č"). */
TFM_API tfm_status tfm_tokenizer_decode(const tfm_tokenizer *tokenizer, char **text, const int32_t *ids, size_t count);
/* Frees what tfm_tokenizer_decode gave and sets the pointer to NULL. Does nothing for NULL. */
TFM_API void tfm_text_free(char **text);

/* The piece that has an id, such as "▁Haus", or NULL if none has it. The string belongs to the tokenizer. */
TFM_API const char *tfm_tokenizer_piece(const tfm_tokenizer *tokenizer, tfm_side side, int32_t id);

/* The id of a piece, such as "▁Haus" or "<mask>", or -1 if the side has no such piece. */
TFM_API int32_t tfm_tokenizer_piece_id(const tfm_tokenizer *tokenizer, tfm_side side, const char *piece);

/* The id of the token that says a language, such as "fra_Latn", "fr_XX" or "fr", as tfm_encode_options.language has
 * them, or with Marian "fra" for `>>fra<<`; -1 if the tokenizer has none. Multilingual models begin what they write
 * with it. */
TFM_API int32_t tfm_tokenizer_language_id(const tfm_tokenizer *tokenizer, const char *language);

/* The language of a side as tokenizer_config.json names it, such as "de", or NULL if it names none. The string belongs
 * to the tokenizer. */
TFM_API const char *tfm_tokenizer_language(const tfm_tokenizer *tokenizer, tfm_side side);

/* One sentence of a line, without the blank space around it. */
typedef struct tfm_sentence {
    size_t start; /* The byte of the line at which the sentence begins, counted from 0. */
    size_t bytes; /* The length of the sentence in bytes. */
} tfm_sentence;

/* Finds the *count sentences of a line of `bytes` bytes of UTF-8, in order. The caller frees *sentences with
 * tfm_sentences_free; a line of nothing but blanks has no sentence and gives NULL. `language` is a code such as "de",
 * or NULL if it is not known. Sentences end by Unicode's rules (UAX #29), as ICU implements them for the language. But
 * a stop does not end a sentence after an initial, after a usual abbreviation of the language ("Dr.", "z. B."), or
 * after an ordinal number of one or two digits if the language writes those with a stop; and what begins with a small
 * letter, or has no letter or digit, goes on with the sentence before it. On failure *sentences is NULL;
 * TFM_ERROR_INPUT for a line that tfm_text_check refuses or that has more than 64 MiB. */
TFM_API tfm_status tfm_text_sentences(tfm_sentence **sentences, size_t *count, const char *line, size_t bytes,
                                      const char *language);
/* Frees what tfm_text_sentences gave and sets the pointer to NULL. Does nothing for NULL. */
TFM_API void tfm_sentences_free(tfm_sentence **sentences);

/* What of a text stays as it is when the text is translated: placeholders of format strings and templates (%1$s, %d,
 * %(name)s, %@, {0}, {{name}}, ${city}, #{x}, %NAME%), tags (<b>, <x id=1/>), entities (&nbsp;), addresses of the web
 * and of mail, paths, @name, #tag, \n, TeX, code and links of Markdown, [[...]] and emoji; and what further patterns
 * match, in PCRE2's syntax. tfm_text_options.placeholders takes them. */
typedef struct tfm_placeholders tfm_placeholders;

/* Compiles the patterns besides those above; `patterns` may be NULL where there are none. TFM_ERROR_ARGUMENT for one
 * that is no regular expression, or that matches the empty text. It does not change, so any number of threads may use
 * it. */
TFM_API tfm_status tfm_placeholders_new(tfm_placeholders **out, const char *const *patterns, size_t count);
/* How many there are in a text; 0 for NULL. Neighbours with no word between them, such as "%d/%d", are one. */
TFM_API size_t tfm_placeholders_count(const tfm_placeholders *placeholders, const char *text, size_t bytes);
/* Frees it and sets the pointer to NULL. Does nothing for NULL. */
TFM_API void tfm_placeholders_free(tfm_placeholders **placeholders);

/* Where the texts of a file for language models begin and end. With zeros each line is a text. */
typedef struct tfm_document_options {
    /* Texts have any number of lines, and end where a line has this, wherever in it: "<|endoftext|>"; what follows in
     * the line belongs to the next one. "" is a line of nothing but blanks. It is no part of a text, and neither are
     * blank lines around one. Lines are joined by LF. It has no line end in it. NULL for none. */
    const char *separator;
    /* Each line is a JSON object, whose "text" is a text; other keys are ignored. Not with a separator. */
    bool json_lines;
    uint64_t reserved[2]; /* Must be 0: room for later fields. */
} tfm_document_options;

typedef struct tfm_documents tfm_documents;

/* Opens a file of such texts, to read them one after the other as training does. `options` may be NULL. On failure *out
 * is NULL: TFM_ERROR_IO for a file that cannot be read, TFM_ERROR_ARGUMENT for options that cannot be. */
TFM_API tfm_status tfm_documents_open(tfm_documents **out, const char *file, const tfm_document_options *options);
/* The next text and its length in bytes; *text is NULL after the last one. It is valid until the next call, and is not
 * checked to be UTF-8. TFM_ERROR_INPUT for a line of JSON that has no text: the next call gives the one after it. */
TFM_API tfm_status tfm_documents_next(tfm_documents *documents, const char **text, size_t *bytes);
/* Closes the file and sets the pointer to NULL. Does nothing for NULL. */
TFM_API void tfm_documents_free(tfm_documents **documents);

/* How a vocabulary is learned. All zeros is a good choice to begin with. */
typedef struct tfm_vocabulary_options {
    /* The number of pieces, at least 3 and below 2^24, with </s> and <unk> counted and <pad> not. 0 means one for every
     * 250 bytes of text, from 500 to 8000, or fewer if the text gives no more. Where that is less than the text has
     * different characters, as in Chinese, it is so many pieces besides one for each character. */
    int64_t vocab_size;
    /* Learns a vocabulary of that size for each side, not one for both. */
    bool separate_vocabs;
    /* Learns a unigram model (Kudo 2018) in place of byte-pair encoding (Sennrich et al. 2016). */
    bool unigram;
    /* The share of the text's characters that must have pieces, from 0.98 to 1; the rarest of the others become <unk>.
     * 0 means 1, all characters. */
    double character_coverage;
    /* The most lines to learn from. They are drawn evenly from the text, with the seed. They must fit into memory a few
     * times over, the files need not. 0 means 1,000,000. */
    int64_t max_sentences;
    /* SentencePiece's rule of normalization: "nmt_nfkc", which NULL means, "nfkc", "nmt_nfkc_cf", "nfkc_cf" or
     * "identity". Those with cf make letters small. */
    const char *normalization;
    /* The language of the source side, such as "de". It is only noted in tokenizer_config.json. May be NULL. */
    const char *source_language;
    /* The language of the target side. It is only noted too. May be NULL. */
    const char *target_language;
    /* Seeds the drawing of lines. */
    uint64_t seed;
    /* For tfm_tokenizer_train_texts: how texts lie in the files. It learns from the lines of each text. */
    tfm_document_options documents;
    uint64_t reserved[8]; /* Must be 0: room for later fields. */
} tfm_vocabulary_options;

/* Learns the pieces of parallel text, and writes the files of tfm_tokenizer_open and of Hugging Face's MarianTokenizer
 * into the folder `dir`, which must exist. Files of these names that are there already are replaced one by one after
 * all is learned, vocab.json last. Ids are SentencePiece's own: </s> is 0, <unk> is 1, and <pad>, which is only in
 * vocab.json, is the last. Separate vocabularies may differ in size, so there <pad> is 2 on both sides, and the other
 * pieces have ids one higher. Language codes at the beginning of lines, `>>fra<<` as in Marian's multilingual models,
 * are not learned from; the first 1000 different ones of a vocabulary get ids of their own after those of the pieces.
 *
 * `source` and `target` are files of lines. With `target` NULL, `source` is one file of lines `source TAB target`. The
 * files are read at least twice, a line at a time. Lines are left out if they are empty, not UTF-8 or longer than 4192
 * bytes, or if they contain a NUL, the character U+2585 or, in a TSV file, no tab. `options` may be NULL. The same
 * files and options give the same bytes.
 *
 * TFM_ERROR_ARGUMENT for an option out of range. TFM_ERROR_IO if a file or the folder cannot be read or written.
 * TFM_ERROR_INPUT if no line is left to learn from, or none with a letter or a digit, if the text has more characters
 * than `vocab_size`, or, for byte-pair encoding, if it gives fewer pieces than `vocab_size`; the message says how many.
 * A unigram model then has fewer pieces. */
TFM_API tfm_status tfm_tokenizer_train(const char *dir, const char *source, const char *target,
                                       const tfm_vocabulary_options *options);

/* The same of `count` pairs of files, sources[i] with targets[i], or with `targets` NULL of so many TSV files: it
 * learns what it would learn of all sources in one file and all targets in another. There is at least one of each. */
TFM_API tfm_status tfm_tokenizer_train_pairs(const char *dir, const char *const *sources, const char *const *targets,
                                             size_t count, const tfm_vocabulary_options *options);

/* Learns the pieces of the lines of `count` text files, as a language model takes them, and writes tokenizer.json and
 * tokenizer_config.json into the folder `dir`, which must exist: what tfm_tokenizer_open and Hugging Face's
 * transformers read; and the same pieces as SentencePiece's own tokenizer.model. <unk> is 0; <s>, which is put before
 * each text, is 1; </s>, which ends one, is 2; there is no padding. Options, lines that are left out, and errors are
 * those of tfm_tokenizer_train, except that `separate_vocabs` and languages are for pairs of lines and are refused, and
 * that language codes are text like any other. tokenizer.json is written last. */
TFM_API tfm_status tfm_tokenizer_train_texts(const char *dir, const char *const *files, size_t count,
                                             const tfm_vocabulary_options *options);

/* TFM_OK if the `bytes` bytes of `line` are well-formed UTF-8 without NUL; otherwise TFM_ERROR_INPUT, and the message
 * names the byte, counted from 1. */
TFM_API tfm_status tfm_text_check(const char *line, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
