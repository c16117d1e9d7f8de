/* Data loader: batches for training from parallel text or, for decoder-only models, plain text. The files are streamed,
 * one buffer of pairs at a time, so a corpus may be larger than memory. The reader's thread prepares the next buffer
 * while the device works.
 *
 *     tfm_data_options options = {.batch_tokens = 4096, .seed = 1};
 *     tfm_data_open(&data, tokenizer, "train.de", "train.en", &options);
 *     while (more && tfm_data_next(data, &batch) == TFM_OK && tfm_trainer_update(trainer, NULL, &batch, 1) == TFM_OK)
 *         ;
 *     tfm_data_free(&data);
 *
 * The order of batches depends only on the files, the tokenizer, the options and their seed. One thread at a time may
 * use a reader. */
#ifndef TFM_DATA_H
#define TFM_DATA_H

#include "chat.h"
#include "text.h"
#include "train.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tfm_data_options {
    /* Maximum tokens of a batch with padding: the number of pairs times the width of the wider side. A longer pair is a
     * batch alone. 0 means 4096. */
    int64_t batch_tokens;
    /* Maximum tokens of a side, with EOS; pairs beyond it are skipped. 0 means 256. */
    int max_length;
    /* The shuffle buffer in pairs. 0 means 200,000. A corpus that fits into one buffer is read only once, unless
     * subword_alpha is set. */
    int64_t buffer_size;
    /* Seeds shuffling and subword sampling. */
    uint64_t seed;
    /* Skips lines N, 2N, 3N and so on, without counting them, to hold them out for validation. 0 keeps all. */
    int64_t holdout_every;
    /* Keeps the order of the files: no sorting, no shuffling. For validation. */
    bool in_order;
    /* A bad pair is an error that names its line. Otherwise it is skipped and counted. */
    bool strict;
    /* Subword regularization: 0 for none, or a number below 1; each pass then reads the text again and samples a new
     * segmentation of every line. BPE: the dropout probability of each merge ("BPE-Dropout", Provilkov et al. 2020; 0.1
     * is usual). Unigram: the exponent of the probability of a segmentation, so smaller values vary more ("Subword
     * Regularization", Kudo 2018). Word and character vocabularies have only one segmentation. max_length applies to
     * the best segmentation, so each pass has the same pairs. Tokenizers other than Marian's do not sample:
     * tfm_data_next then returns TFM_ERROR_UNSUPPORTED. SentencePiece has one seed for the whole process: the reader
     * sets it, and readers that sample exclude each other. */
    float subword_alpha;
    /* Plain text: the sequence length in tokens; with `chat`, longer conversations are skipped. 0 means 256. */
    int seq_len;
    /* Plain text: whether `eos_id` is given, the token after each text, or -1 for none. Otherwise it is the tokenizer's
     * EOS token. */
    bool has_eos_id;
    int32_t eos_id;
    /* Makes the reader one of several ranks with the same files and options. Each rank tokenizes its part of the lines,
     * the ranks exchange the ids, and all return the same batches as a reader alone. With subword_alpha, where each
     * sample depends on the earlier ones, the ranks take turns: one tokenizes a whole buffer for all. The struct is
     * copied. tfm_data_next lists the collective calls. NULL, or a world size of 1: no group. */
    const tfm_process_group *process_group;
    /* Plain text: the document boundaries. The struct and its separator are copied. */
    tfm_document_options documents;
    /* Plain text: not NULL if each line is a conversation, as for tfm_chat_encode_example. It must outlive the reader.
     */
    const tfm_chat *chat;
    uint64_t reserved[4]; /* Must be 0. */
} tfm_data_options;

/* Counts of one pass over the files: pairs or texts, and skipped lines by reason. */
typedef struct tfm_data_counts {
    uint64_t pairs;    /* Good pairs, or texts. */
    uint64_t empty;    /* Lines with a blank side. */
    uint64_t too_long; /* Lines with a side of more than max_length tokens; conversations of more than seq_len. */
    uint64_t invalid;  /* Lines that are not UTF-8, contain NUL, have no tab (TSV), or are no conversation (`chat`). */
    uint64_t unpaired; /* Lines of the longer file of a pair after the end of the other. */
    uint64_t batches;  /* Batches of the pairs or texts. */
    bool complete;     /* True for a whole pass, false for the part read so far. */
} tfm_data_counts;

/* A position in the data, to resume an interrupted run with the same batches. All zeros is the beginning. Programs
 * store it and give it back; its content is opaque. */
typedef struct tfm_data_position {
    int64_t epoch;            /* Complete passes over the files. */
    int64_t batch;            /* Batches of the current buffer that have been returned. */
    int64_t line;             /* Lines before the current buffer, in all files; without unpaired lines. */
    int64_t source_offset;    /* The byte offset of the buffer in the source file, or in all source files one after
                                 another; for plain text, in the file that it begins in. */
    int64_t target_offset;    /* The same for the target files; 0 for TSV files. For plain text, the index of the file,
                                 from 0. */
    int64_t subword_alpha_e9; /* 10^9 times subword_alpha. If it differs from the reader's, the buffer restarts. */
} tfm_data_position;

/* Opens two files of parallel lines. With `target` NULL, `source` is one file of lines `source TAB target`. The files
 * are read more than once, so pipes do not work, and must not change while the reader is open: a later tfm_data_next
 * returns TFM_ERROR_IO if it detects a change. The reader keeps the tokenizer alive, and uses it from its own thread.
 * `options` may be NULL. On failure *out is NULL: TFM_ERROR_IO for a file that cannot be opened, TFM_ERROR_ARGUMENT for
 * an option out of range. */
TFM_API tfm_status tfm_data_open(tfm_data **out, const tfm_tokenizer *tokenizer, const char *source, const char *target,
                                 const tfm_data_options *options);
/* Opens `count` >= 1 pairs of files, sources[i] with targets[i], or with `targets` NULL, TSV files. They are read one
 * after another; batches and holdout_every are those of one concatenated pair of files or TSV file. Surplus lines of
 * the longer file of a pair are unpaired, or refused if `strict`; the next pair begins with its first lines. A missing
 * newline at the end of a file is added. Files may be empty. Errors of `strict` name the files and the line in them.
 * Otherwise as tfm_data_open. */
TFM_API tfm_status tfm_data_open_pairs(tfm_data **out, const tfm_tokenizer *tokenizer, const char *const *sources,
                                       const char *const *targets, size_t count, const tfm_data_options *options);
/* Opens `count` >= 1 files of plain text for a decoder-only model, read one after another. A text is a line, or as
 * `documents` defines, encoded as by tfm_tokenizer_encode, and an EOS token; empty texts are skipped. In each pass the
 * texts of a buffer are shuffled, concatenated and cut into blocks of `seq_len` tokens, regardless of text boundaries.
 * Within a block a token attends to all earlier ones, also of other texts, and positions count from its beginning; no
 * block sees another. A batch (tfm_batch without sources) has as many whole blocks as `batch_tokens` allows, of seq_len
 * + 1 tokens each: the first is input only and the last target only. Each token except the first of a buffer is a
 * target once in a pass; the last block of a buffer may be shorter. `buffer_size` counts texts; a buffer is also full
 * at 2^25 tokens. max_length is ignored, and `strict` refuses lines that are not UTF-8.
 *
 * With `chat` each line is a conversation and a row of a batch; no row sees another. Conversations of similar length
 * share a batch. Only the assistant's tokens are learned (tfm_batch). Otherwise as tfm_data_open. */
TFM_API tfm_status tfm_data_open_texts(tfm_data **out, const tfm_tokenizer *tokenizer, const char *const *files,
                                       size_t count, const tfm_data_options *options);
/* Waits for the reader's thread, frees the reader and sets the pointer to NULL. */
TFM_API void tfm_data_free(tfm_data **data);

/* Gives the next batch. Its arrays belong to the reader and are valid until the next tfm_data_next or tfm_data_free;
 * padding is 0. After the last batch of a pass the next pass begins. TFM_ERROR_INPUT if the files have no good pair or,
 * with `strict`, at a bad pair; TFM_ERROR_IO if a file cannot be read or has changed.
 *
 * Ranks: tfm_data_next and tfm_data_seek are collective, in the same order as the other collective calls; communication
 * happens at the beginning of a buffer, on the calling thread. A failure of it on one rank fails on all:
 * TFM_ERROR_CANCELLED if another rank failed, TFM_ERROR_ARGUMENT if options, text (as far as detected) or positions
 * differ, TFM_ERROR_IO if communication failed. All further calls then fail in the same way until tfm_data_seek. A
 * failure of one rank alone, such as a lack of memory for a batch, does not stop the others: that rank has skipped the
 * batch, and must make the same calls as the others until it can report the failure to them. */
TFM_API tfm_status tfm_data_next(tfm_data *data, tfm_batch *batch);

/* The position of the batch that tfm_data_next would give now. All zeros for NULL. */
TFM_API tfm_data_position tfm_data_tell(const tfm_data *data);
/* Seeks to a position from tfm_data_tell and reads the buffer there. TFM_ERROR_INPUT if the files have no such
 * position; after a failure the reader is unchanged. A rank of a group does not wait for the buffer: errors beyond the
 * sizes of the files are reported by the next tfm_data_next. */
TFM_API tfm_status tfm_data_seek(tfm_data *data, tfm_data_position position);

/* The counts of the last complete pass. Before there is one, the counts of the part read so far, since the beginning or
 * the last tfm_data_seek. All zeros for NULL. */
TFM_API tfm_data_counts tfm_data_count(const tfm_data *data);

#ifdef __cplusplus
}
#endif
#endif
