/* Pairs of lines, or texts, as ids; and their batches. */
#ifndef TFM_LIB_CORPUS_H
#define TFM_LIB_CORPUS_H

#include "base/random.h"
#include "text/line_file.h"
#include "tfm/data.h"

/* Detects changes of a file: by size, or if the modification time differs, by content. */
typedef struct tfm__file_stamp {
    int64_t bytes;
    int64_t seconds, nanoseconds; /* Modification time. */
    uint64_t hash;                /* A hash of the text, or of blocks spread evenly over a long one. */
} tfm__file_stamp;

/* The source of pairs or texts, and its options. */
typedef struct tfm__corpus {
    tfm_tokenizer *tokenizer; /* Shared ownership. */
    bool monolingual;         /* Files of texts, not of pairs. */
    size_t sides;             /* Files read in parallel: two for pairs, one for texts or TSV. */
    size_t count;             /* Files per side, read one after the other. */
    char **paths;             /* [sides * count]: the source paths first. */
    size_t path_count;        /* How many of them are set. */
    tfm__file_stamp *stamps;  /* [sides * count]: the files when they were opened. */
    tfm_data_options options; /* As the caller passed them. */
    char *separator;          /* A copy of options.documents' separator, or NULL. */
    size_t
        special_tokens[2]; /* Special tokens around a text of each side, such as EOS; for texts the second is used. */
    int32_t end;           /* For texts: the token after each, or -1. */
} tfm__corpus;

/* The open files: both of pairs, or one of texts or TSV. */
typedef struct tfm__corpus_reader {
    tfm__line_reader files[2];
    size_t file_index;
    int64_t base_bytes[2]; /* For pairs: bytes of the files before them, per side. */
} tfm__corpus_reader;

/* A pair as ids in a buffer; or a text, or a block of texts, as a target without a source. */
typedef struct tfm__example {
    size_t at;              /* Offset of its ids: the source, then the target. */
    int32_t source, target; /* Tokens per side, with EOS. */
    uint64_t key;           /* Random, so that pairs of equal length change order in each pass. */
} tfm__example;

/* A batch: `count` rows from `first` on, in the buffer's order. */
typedef struct tfm__example_range {
    size_t first, count;
} tfm__example_range;

/* A buffer holds the pairs or texts that are shuffled together, in file order, and their rows: the pairs, or blocks of
 * the concatenated texts. */
typedef struct tfm__shuffle_buffer {
    tfm_data_position begin; /* Position of its batch 0. */
    tfm_data_position next;  /* Position of the next buffer. */
    tfm_data_counts counts;  /* Counts of this buffer. */
    bool whole;              /* It has all pairs of the files, so every pass reuses it. */
    int32_t *ids;            /* All ids. */
    size_t id_count, id_capacity;
    tfm__example *examples; /* The pairs or texts, in file order. */
    size_t example_count, example_capacity;
    int32_t *packed;      /* [id_count]: the ids of texts in the order of this pass. */
    tfm__example *blocks; /* [row_count]: blocks of `packed`. */
    tfm__example **order; /* [row_count]: the rows in batch order. */
    size_t row_count;
    const int32_t *row_ids;      /* The ids of the rows. */
    tfm__example_range *batches; /* The batches, in the order of delivery. */
    size_t batch_count;
    int rank, world;    /* With several ranks it has this rank's lines: tfm__shuffle_buffer_skips_line. */
    int64_t lines_seen; /* Lines read, without held-out ones. */
    uint64_t tokenized_lines;
} tfm__shuffle_buffer;

/* Limit of a buffer of texts, in ids, since lines may be long. */
enum { TFM__MAX_BUFFER_IDS = 1 << 25 };

/* ---- Files (corpus_files.c) ---- */

/* Stamps the files, to detect later changes. */
tfm_status tfm__corpus_stamp_files(tfm__corpus *corpus);
/* Whether the position is possible in the files as they were stamped. */
bool tfm__corpus_has_position(const tfm__corpus *corpus, tfm_data_position at);
/* Fails if the open files have changed; else returns `status`, the result of reading. */
tfm_status tfm__corpus_check_unchanged(const tfm__corpus *corpus, const tfm__corpus_reader *reader, tfm_status status);
/* " and the other files" if there are more than a message names, else "". */
const char *tfm__corpus_other_files(const tfm__corpus *corpus);
/* Opens the files at a position. */
tfm_status tfm__corpus_reader_open(const tfm__corpus *corpus, tfm__corpus_reader *reader, tfm_data_position at);
/* Continues with the next files, if there are any: *more. */
tfm_status tfm__corpus_reader_next_file(const tfm__corpus *corpus, tfm__corpus_reader *reader, bool *more);
void tfm__corpus_reader_close(tfm__corpus_reader *reader);
/* The position after `line` lines. */
tfm_data_position tfm__corpus_reader_tell(const tfm__corpus *corpus, const tfm__corpus_reader *reader, int64_t line);
/* Converts `line`, the last line read, to a line number within the open file of a side. Discards what was read. */
int64_t tfm__corpus_reader_line(const tfm__corpus *corpus, tfm__corpus_reader *reader, int side, int64_t line);

/* ---- Pairs and buffers (corpus.c) ---- */

/* Opens `count` files of each side that is not NULL; corpus->monolingual is set. Retains the tokenizer. Call
 * tfm__corpus_close also after a failure. */
tfm_status tfm__corpus_open(tfm__corpus *corpus, const tfm_tokenizer *tokenizer, const char *const *sides[2],
                            size_t count, const tfm_data_options *options);
void tfm__corpus_close(tfm__corpus *corpus);
/* Pairs or texts per buffer. */
size_t tfm__corpus_buffer_size(const tfm__corpus *corpus);
/* Reads the next line of each side and adds a valid pair, or the next text; *end: no more lines. */
tfm_status tfm__corpus_read_example(const tfm__corpus *corpus, tfm__shuffle_buffer *b, tfm__corpus_reader *reader,
                                    bool *end);
/* Counts a line that is not held out. True if another rank tokenizes it: rank i has the lines with number % world ==
 * i. */
static inline bool tfm__shuffle_buffer_skips_line(tfm__shuffle_buffer *b) {
    return b->lines_seen++ % (b->world > 1 ? b->world : 1) != b->rank;
}
/* Reads the pairs or texts of the buffer at b->begin, and sets b->next. TFM_ERROR_IO if the files have changed since
 * tfm__corpus_open. Subword sampling needs a new thread: see tfm__spm_sampling_begin. */
tfm_status tfm__shuffle_buffer_read(const tfm__corpus *corpus, tfm__shuffle_buffer *b);
/* Sorts pairs and conversations by length, or packs texts in this pass's order into blocks; splits them into batches
 * and shuffles these. The order depends on seed, pass and buffer position. With in_order nothing is sorted or shuffled.
 * TFM_ERROR_INPUT if a pass has none. */
tfm_status tfm__shuffle_buffer_make_batches(const tfm__corpus *corpus, tfm__shuffle_buffer *b);
/* ---- Texts (blocks.c) ---- */

/* Determines the special tokens around a text. */
tfm_status tfm__lm_corpus_open(tfm__corpus *corpus);
/* Reads the next line and adds a valid text to the buffer; *end: no more lines. An invalid text is counted, or with
 * `strict` rejected. */
tfm_status tfm__lm_read_text(const tfm__corpus *corpus, tfm__shuffle_buffer *b, tfm__corpus_reader *reader, bool *end);
/* The error for files without a valid text. */
tfm_status tfm__lm_no_text_error(const tfm__corpus *corpus, const tfm_data_counts *counts);
/* Packs the texts of a buffer into rows, in a random order. */
tfm_status tfm__lm_pack_blocks(const tfm__corpus *corpus, tfm__shuffle_buffer *b, tfm__random *random);

/* Lines tokenized for the buffers so far, for tests. */
uint64_t tfm__data_tokenized_lines(const tfm_data *data);

/* Frees a buffer; accepts NULL. */
void tfm__shuffle_buffer_free(tfm__shuffle_buffer *b);

#endif
