/* Parallel text, or for language models plain text, as batches for training. The files are read in order, one buffer of
 * pairs at a time, so a corpus may be larger than memory. A thread of the reader's own prepares the next buffer while
 * the device works.
 *
 *     tfm_data_options options = {.batch_tokens = 4096, .seed = 1};
 *     tfm_data_open(&data, tokenizer, "train.de", "train.en", &options);
 *     while (more && tfm_data_next(data, &batch) == TFM_OK && tfm_trainer_update(trainer, NULL, &batch, 1) == TFM_OK)
 *         ;
 *     tfm_data_free(&data);
 *
 * The order of the batches depends on nothing but the files, the tokenizer, the options and their seed. One thread at a
 * time may use a reader. */
#ifndef TFM_DATA_H
#define TFM_DATA_H

#include "text.h"
#include "train.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tfm_data_options {
    /* The size of a batch in tokens, padding counted: its number of pairs times the width of its wider side is at most
     * this. A single pair that is longer makes a batch of its own. 0 means 4096. */
    int64_t batch_tokens;
    /* Pairs with a side of more tokens than this are left out; the end-of-sentence token counts. 0 means 256. */
    int max_length;
    /* How many pairs are shuffled together. 0 means 200,000. A corpus that fits into one buffer is read only once,
     * unless subword_alpha is set. */
    int64_t buffer_size;
    /* Seeds the order of batches and the drawing of pieces. */
    uint64_t seed;
    /* Lines N, 2N, 3N and so on are left out and not counted, so that they can serve for validation. 0 keeps all. */
    int64_t holdout_every;
    /* Keeps the pairs in the order of the files, neither sorted nor shuffled. Validation uses this. */
    bool in_order;
    /* A bad pair is an error that names its line. Without this it is left out and counted. */
    bool strict;
    /* 0, or a number below 1 with which each pass draws new pieces for every line; the text is then read again in every
     * pass. With byte pairs, this is the probability with which each merge is left out ("BPE-Dropout", Provilkov et al.
     * 2020; 0.1 is usual). With unigrams, a segmentation is drawn with its probability raised to this power, so that
     * smaller values vary more ("Subword Regularization", Kudo 2018). Vocabularies of words or characters have only one
     * segmentation. Whether a pair is too long is judged by its best segmentation, so each pass has the same pairs.
     * Tokenizers of other kinds than Marian's draw nothing: tfm_data_next then returns TFM_ERROR_UNSUPPORTED.
     * SentencePiece has one seed for the whole process: the reader sets it, and readers that draw take turns. */
    float subword_alpha;
    /* Of plain text: how many tokens a language model reads at once. 0 means 256. */
    int seq_len;
    /* Of plain text: whether `eos_id` is given, the token that follows each text, or -1 for none. Without this it is
     * the end-of-sentence token of the tokenizer. */
    bool has_eos_id;
    int32_t eos_id;
    /* Makes the reader one of several ranks, whose readers have the same files and options: each tokenizes its part of
     * the lines, they tell each other the ids, and all give the same batches, which are those of a reader alone. With
     * subword_alpha, where what is drawn for a line follows from what was drawn before it, one rank tokenizes a whole
     * buffer for all, and they take turns. The struct is copied. See tfm_data_next for what all have to do together.
     * NULL, or a world of 1: it works alone. */
    const tfm_process_group *process_group;
    /* Of plain text: where texts begin and end. The struct and its separator are copied. */
    tfm_document_options documents;
    uint64_t reserved[5]; /* Must be 0: room for later fields. */
} tfm_data_options;

/* How many pairs, or texts, a pass over the files has, and how many lines were left out, by reason. */
typedef struct tfm_data_counts {
    uint64_t pairs;    /* Good pairs, or texts. */
    uint64_t empty;    /* Lines where a side has nothing but blanks. */
    uint64_t too_long; /* Lines where a side has more than max_length tokens. */
    uint64_t invalid;  /* Lines that are not UTF-8, contain a NUL or, in a TSV file, have no tab. */
    uint64_t unpaired; /* Lines of the longer file of a pair after the other file has ended. */
    bool complete;     /* True if the counts are of a whole pass, false if of the part that was read so far. */
} tfm_data_counts;

/* A place in the data, so that an interrupted run can go on with the same batches. All zeros is the beginning. Programs
 * store it and give it back; they need not understand it. */
typedef struct tfm_data_position {
    int64_t epoch;         /* How many passes over the files are complete. */
    int64_t batch;         /* How many batches of the current buffer have been given out. */
    int64_t line;          /* How many lines come before the current buffer, in all files; lines of the longer file of a
                              pair after the other has ended are not counted. */
    int64_t source_offset; /* The byte of the source file where the buffer begins, or of all source files one after the
                          other; of plain text, the byte of the file that it begins in. */
    int64_t target_offset; /* The same of the target files; 0 for TSV files. Of plain text, the number of the file,
                          counted from 0. */
    int64_t subword_alpha_e9; /* 10^9 times subword_alpha. If it differs from the reader's, the buffer starts again. */
} tfm_data_position;

/* Opens two files in which line i of one translates line i of the other. With `target` NULL, `source` is one file of
 * lines `source TAB target`. The files are read more than once, so pipes will not do, and their text must not change
 * while the reader is open: a later tfm_data_next that notices a change returns TFM_ERROR_IO. The reader keeps the
 * tokenizer alive, and uses it from its own thread. `options` may be NULL for all defaults. On failure *out is NULL:
 * TFM_ERROR_IO for a file that cannot be opened, TFM_ERROR_ARGUMENT for an option out of range. */
TFM_API tfm_status tfm_data_open(tfm_data **out, const tfm_tokenizer *tokenizer, const char *source, const char *target,
                                 const tfm_data_options *options);
/* Opens `count` pairs of such files, sources[i] with targets[i], or with `targets` NULL so many TSV files, which are
 * read one after the other: a pass has the lines of all of them, and batches and holdout_every are as if they were one
 * pair of files, or one TSV file. Where one file of a pair is longer than the other, its rest has no partner, or is
 * refused if `strict`, and the next pair begins with its first lines; where a file lacks the end of its last line, that
 * line ends there. Files may be empty. What `strict` refuses is named by its files and its line in them. There is at
 * least one file of each. Everything else is as with tfm_data_open. */
TFM_API tfm_status tfm_data_open_pairs(tfm_data **out, const tfm_tokenizer *tokenizer, const char *const *sources,
                                       const char *const *targets, size_t count, const tfm_data_options *options);
/* Opens `count` files of plain text, one after the other, for a language model. Each line, or what `documents` says
 * instead, is a text, as tfm_tokenizer_encode encodes it, and a token that ends it; empty ones are passed over. The
 * texts of a buffer are shuffled in each pass, put one after another, and cut into blocks of `seq_len` tokens, which
 * begin and end where they may: a block holds the end of a text, several whole ones, or a part of one. Within a block a
 * token attends to all before it, those of other texts too, and positions count from the block's beginning; the rest of
 * a long text is another block, which does not see the first. A batch is as many whole blocks as `batch_tokens` allows,
 * as tfm_batch without sources, of seq_len + 1 tokens each, since the first of them is only read and the last only
 * learned. Each token but the first of a buffer is learned once in a pass; the last block of a buffer may be shorter.
 * `buffer_size` counts texts, of which fewer fill a buffer where they have more than 2^25 tokens; max_length is not
 * looked at, and `strict` refuses lines that are not UTF-8. There is at least one file. Everything else is as with
 * tfm_data_open. */
TFM_API tfm_status tfm_data_open_texts(tfm_data **out, const tfm_tokenizer *tokenizer, const char *const *files,
                                       size_t count, const tfm_data_options *options);
/* Waits for the reader's thread, frees the reader and sets the pointer to NULL. Does nothing for NULL. */
TFM_API void tfm_data_free(tfm_data **data);

/* Gives the next batch. Its arrays belong to the reader and are valid until the next call of tfm_data_next or
 * tfm_data_free; padding is 0. After the last batch of a pass the next pass begins. TFM_ERROR_INPUT if the files have
 * no good pair at all or, with `strict`, at a bad pair; TFM_ERROR_IO if a file cannot be read or has changed.
 *
 * Of several ranks all make the same calls of tfm_data_next and tfm_data_seek, in the same order beside the other calls
 * that they make together: where a buffer begins, they talk. Only the calling thread does so. If that fails on one
 * rank, it fails on all: with TFM_ERROR_CANCELLED where it is another rank that failed, with TFM_ERROR_ARGUMENT where
 * ranks have other options or another text, as far as that is seen, or are at another place, and with TFM_ERROR_IO
 * where they cannot talk any more. Each further call then fails in the same way at once, until tfm_data_seek. A failure
 * that is one rank's alone, such as a lack of memory for a batch, leaves the others to go on: that rank has skipped the
 * batch, and is to make the calls that the others make until it can tell them. */
TFM_API tfm_status tfm_data_next(tfm_data *data, tfm_batch *batch);

/* The place of the batch that tfm_data_next would give now. All zeros for NULL. */
TFM_API tfm_data_position tfm_data_tell(const tfm_data *data);
/* Goes to a place that tfm_data_tell gave, reading the buffer there. TFM_ERROR_INPUT if the files have no such place;
 * after a failure the reader is where it was. One of several ranks does not wait for the buffer: what is wrong with the
 * place beyond what the sizes of the files show is found by the next tfm_data_next. */
TFM_API tfm_status tfm_data_seek(tfm_data *data, tfm_data_position position);

/* The counts of the last pass that was read from beginning to end. Before there is one, the counts of what has been
 * read of the current pass: from its beginning, or from where the last tfm_data_seek went. All zeros for NULL. */
TFM_API tfm_data_counts tfm_data_count(const tfm_data *data);

#ifdef __cplusplus
}
#endif
#endif
