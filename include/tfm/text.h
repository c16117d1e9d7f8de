/* Text to token ids and back.
 *
 *     tfm_tokenizer *tokenizer;
 *     if (tfm_tokenizer_open(&tokenizer, "opus-mt-de-en") != TFM_OK) ...
 *     int32_t *ids;
 *     size_t count;
 *     tfm_tokenizer_encode(tokenizer, &ids, &count, TFM_SOURCE, "Guten Tag.", 10);
 *     ...
 *     tfm_ids_free(&ids);
 *     tfm_tokenizer_free(&tokenizer);
 *
 * A tokenizer does not change once it is open: any number of threads may use one at the same time. */
#ifndef TFM_TEXT_H
#define TFM_TEXT_H

#include <stdbool.h>
#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tfm_tokenizer tfm_tokenizer;

/* The language that is read and the one that is written. */
typedef enum tfm_side { TFM_SOURCE, TFM_TARGET } tfm_side;

typedef struct tfm_tokenizer_info {
    int32_t source_size; /* the largest id of each side, plus one */
    int32_t target_size;
    bool separate; /* the sides have a vocabulary each */
    int32_t source_eos, source_unk, source_pad; /* pad: -1 where the vocabulary has none */
    int32_t target_eos, target_unk, target_pad;
} tfm_tokenizer_info;

/* Opens the tokenizer of a Marian / OPUS-MT directory: source.spm, target.spm, vocab.json (piece to id; the
 * ids are this file's, not SentencePiece's own), target_vocab.json where the vocabularies are separate, and, if
 * they are there, tokenizer_config.json and the tokens that it or added_tokens.json adds. On failure *out is
 * NULL; a missing file is TFM_ERROR_IO, a damaged one TFM_ERROR_FORMAT. */
TFM_API tfm_status tfm_tokenizer_open(tfm_tokenizer **out, const char *dir);
/* Takes NULL, and nulls. */
TFM_API void tfm_tokenizer_free(tfm_tokenizer **tokenizer);

TFM_API tfm_tokenizer_info tfm_tokenizer_get_info(const tfm_tokenizer *tokenizer);

/* Ids of one line of `bytes` bytes, the end-of-sentence id last: *ids for tfm_ids_free. A piece without an id
 * becomes the unknown id. A leading language code, `>>fra<<`, is one token, and so is each added token, wherever
 * it stands. An empty line is the end alone. A line that tfm_text_check refuses is TFM_ERROR_INPUT; then *ids is
 * NULL. */
TFM_API tfm_status tfm_tokenizer_encode(const tfm_tokenizer *tokenizer, int32_t **ids, size_t *count,
                                        tfm_side side, const char *line, size_t bytes);
TFM_API void tfm_ids_free(int32_t **ids);

/* The text of target ids up to the first end-of-sentence, padding left out: *text for tfm_text_free. An
 * unknown id reads " ⁇ "; one that no piece has reads as nothing. */
TFM_API tfm_status tfm_tokenizer_decode(const tfm_tokenizer *tokenizer, char **text, const int32_t *ids,
                                        size_t count);
TFM_API void tfm_text_free(char **text);

/* The piece of one id, e.g. "▁Haus", or NULL if none has it. Borrowed from the tokenizer. */
TFM_API const char *tfm_tokenizer_piece(const tfm_tokenizer *tokenizer, tfm_side side, int32_t id);

/* How a vocabulary is learned. All zero is a good beginning. */
typedef struct tfm_vocabulary_options {
    /* Pieces, </s> and <unk> counted, <pad> not; 0 means 8000, or as many as the text gives if that is less; or 8000
     * and one for each character, where it has more than that of them. */
    int64_t size;
    bool separate; /* one of that size for each side, not one for both */
    bool unigram;  /* a unigram model (Kudo 2018), not byte-pair encoding (Sennrich et al. 2016) */
    /* Of the characters that occur, from 0.98 to 1: the rarest become <unk>. 0 means 1, all of them. */
    double coverage;
    /* At most so many lines, drawn evenly by the seed; 0 means 1,000,000. They, not the files, must fit into
     * memory, a few times over. */
    int64_t sentences;
    /* nmt_nfkc (NULL), nfkc, nmt_nfkc_cf, nfkc_cf, identity: SentencePiece's rules; cf makes letters small.
     */
    const char *normalization;
    /* "de", "en": only noted in tokenizer_config.json. Or NULL. */
    const char *source_language, *target_language;
    uint64_t seed;
} tfm_vocabulary_options;

/* Learns the pieces of parallel text: the files of tfm_tokenizer_open, and of Hugging Face's MarianTokenizer,
 * in `dir`, which exists. Those that are there are replaced, each at once, after all is learned, vocab.json
 * last. Ids are SentencePiece's own: </s> is 0, <unk> 1, and <pad>, which only vocab.json has, is the last;
 * but of separate vocabularies, which may differ in size, it is 2 in both, and the other pieces are one
 * further. Where lines begin with a language's code, `>>fra<<` as in Marian's multilingual models, it is no text: the
 * codes, at most 1000 words, have ids of their own behind the pieces'.
 *
 * `source` and `target` are files of lines; with target NULL, source is one of lines `source TAB target`.
 * They are read twice, a line at a time. Lines do not count that are empty, no UTF-8, longer than 4192 bytes,
 * or have a NUL, the sign U+2585 or, in a TSV, no tab. NULL options are all zero. The same files and options
 * give the same bytes.
 *
 * TFM_ERROR_IO for a file or folder; TFM_ERROR_INPUT where the text has no line that counts, more characters
 * than `size`, or, for byte-pair encoding, fewer pieces than are asked for, and the sentence says how many; a
 * unigram model is smaller then. */
TFM_API tfm_status tfm_tokenizer_train(const char *dir, const char *source, const char *target,
                                       const tfm_vocabulary_options *options);

/* TFM_OK if the `bytes` bytes are well-formed UTF-8 without NUL, else TFM_ERROR_INPUT; the sentence names the
 * byte. */
TFM_API tfm_status tfm_text_check(const char *line, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
