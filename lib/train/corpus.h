/* Pairs of lines, or texts, as ids, and the batches that they make. */
#ifndef TFM_LIB_CORPUS_H
#define TFM_LIB_CORPUS_H

#include "base/random.h"
#include "text/line_file.h"
#include "tfm/data.h"

/* What shows that a file was changed: its size or, if it was written at another time, its text. */
typedef struct tfm__file_stamp {
    int64_t bytes;                /* The size of the file. */
    int64_t seconds, nanoseconds; /* The time of the last change. */
    uint64_t hash;                /* A hash of the text, or of blocks spread evenly over a long one. */
} tfm__file_stamp;

/* Where pairs or texts come from, and how. */
typedef struct tfm__corpus {
    tfm_tokenizer *tokenizer; /* The corpus is one of its owners. */
    bool monolingual;         /* The files are of texts, not of pairs. */
    size_t sides;             /* How many files are read in step: two of pairs, or one of texts or a TSV file. */
    size_t count;             /* How many files each side has; they are read one after the other. */
    char **paths;             /* [sides * count]: the paths, those of the sources first. */
    size_t path_count;        /* How many of them are set. */
    tfm__file_stamp *stamps;  /* [sides * count]: the files as they were when reading began. */
    tfm_data_options options; /* What the caller asked for. */
    char *separator;          /* Its own copy of that of options.documents, or NULL. */
    size_t special_tokens[2]; /* How many tokens stand around a text of each side, such as EOS; of texts the second. */
    int32_t end;              /* Of texts: the token that follows each, or -1. */
} tfm__corpus;

/* The files that reading has come to: both of pairs, or one of texts or a TSV file. */
typedef struct tfm__corpus_reader {
    tfm__line_reader files[2];
    size_t file_index;     /* Their number. */
    int64_t base_bytes[2]; /* Of pairs: how many bytes the files before them have, on each side. */
} tfm__corpus_reader;

/* A pair of lines as ids, which lie in a buffer; or a text, or a block of such, which is a target without a source. */
typedef struct tfm__example {
    size_t at;              /* Where its ids begin: those of the source, then those of the target. */
    int32_t source, target; /* The number of tokens of each side, with EOS. */
    uint64_t key;           /* A random number, so that pairs of equal length have another order in each pass. */
} tfm__example;

/* A batch: `count` rows from `first` on in the order of a buffer. */
typedef struct tfm__example_range {
    size_t first, count;
} tfm__example_range;

/* A buffer has the pairs or texts that are shuffled together, in the order of the files, and the rows that they make:
 * the pairs themselves, or blocks of the texts one after another. */
typedef struct tfm__shuffle_buffer {
    tfm_data_position begin;                /* The place of its batch 0. */
    tfm_data_position next;                 /* The place where the next buffer begins. */
    tfm_data_counts counts;                 /* The counts of this buffer alone. */
    bool whole;                             /* It has all pairs of the files, so it serves every pass. */
    int32_t *ids;                           /* The ids of all of them. */
    size_t id_count, id_capacity;           /* How many there are, and room for how many. */
    tfm__example *examples;                 /* The pairs, or the texts, in the order of the files. */
    size_t example_count, example_capacity; /* How many there are, and room for how many. */
    int32_t *packed;                        /* [id_count]: the ids of texts in the order of this pass. */
    tfm__example *blocks;                   /* [row_count]: blocks of those. */
    tfm__example **order;                   /* [row_count]: the rows in the order of batches. */
    size_t row_count;                       /* How many there are. */
    const int32_t *row_ids;                 /* Where their ids lie. */
    tfm__example_range *batches;            /* The batches in the order in which they are given out. */
    size_t batch_count;                     /* How many there are. */
    int rank, world;          /* Of several ranks it has the lines of one: see tfm__shuffle_buffer_skips_line. */
    int64_t lines_seen;       /* How many lines were read that are not held out. */
    uint64_t tokenized_lines; /* How many lines were tokenized. */
} tfm__shuffle_buffer;

/* Of lines of text a buffer of texts has no more than what comes to so many ids, since lines may be long. */
enum { TFM__MAX_BUFFER_IDS = 1 << 25 };

/* ---- Files (corpus_files.c) ---- */

/* Notes what the files are like, so that reading sees a change. */
tfm_status tfm__corpus_stamp_files(tfm__corpus *corpus);
/* Whether there can be such a place in the files as they were then. */
bool tfm__corpus_has_position(const tfm__corpus *corpus, tfm_data_position at);
/* Refuses those that are open if they have changed, where reading came to `status`. Returns that, or why not. */
tfm_status tfm__corpus_check_unchanged(const tfm__corpus *corpus, const tfm__corpus_reader *reader, tfm_status status);
/* " and the other files" where there are more than a sentence names, or "". */
const char *tfm__corpus_other_files(const tfm__corpus *corpus);
/* Opens the files at a place. */
tfm_status tfm__corpus_reader_open(const tfm__corpus *corpus, tfm__corpus_reader *reader, tfm_data_position at);
/* Goes on with the files after those that are open, if there are any: *more. */
tfm_status tfm__corpus_reader_next_file(const tfm__corpus *corpus, tfm__corpus_reader *reader, bool *more);
void tfm__corpus_reader_close(tfm__corpus_reader *reader);
/* Where they are, after `line` lines. */
tfm_data_position tfm__corpus_reader_tell(const tfm__corpus *corpus, const tfm__corpus_reader *reader, int64_t line);
/* The number, within the open file of a side, of the line that was read last, which is line `line` of all. What was
 * read is lost. */
int64_t tfm__corpus_reader_line(const tfm__corpus *corpus, tfm__corpus_reader *reader, int side, int64_t line);

/* ---- Pairs and buffers (corpus.c) ---- */

/* Opens `count` files of each side that is not NULL; corpus->monolingual is set. The tokenizer is retained. After a
 * failure, too, tfm__corpus_close frees what it has. */
tfm_status tfm__corpus_open(tfm__corpus *corpus, const tfm_tokenizer *tokenizer, const char *const *sides[2],
                            size_t count, const tfm_data_options *options);
void tfm__corpus_close(tfm__corpus *corpus);
/* How many pairs or texts fill a buffer. */
size_t tfm__corpus_buffer_size(const tfm__corpus *corpus);
/* The next line of each side and their pair, if it is good, or the next text; *end: the files are over. */
tfm_status tfm__corpus_read_example(const tfm__corpus *corpus, tfm__shuffle_buffer *b, tfm__corpus_reader *reader,
                                    bool *end);
/* Counts a line that is not held out. Whether it is another rank's, which tokenizes it: of `world` ranks number i has
 * each line whose number modulo `world` is i. */
static inline bool tfm__shuffle_buffer_skips_line(tfm__shuffle_buffer *b) {
    return b->lines_seen++ % (b->world > 1 ? b->world : 1) != b->rank;
}
/* Reads the pairs or texts of the buffer that begins at b->begin, and sets b->next. TFM_ERROR_IO if the files have
 * changed since tfm__corpus_open. If segmentations are drawn, the calling thread must be a new one: see
 * tfm__spm_sampling_begin. */
tfm_status tfm__shuffle_buffer_read(const tfm__corpus *corpus, tfm__shuffle_buffer *b);
/* Sorts pairs by length, or packs texts in an order of this pass into blocks; cuts them into batches and shuffles
 * these. The order depends on the seed, the pass and the place of the buffer. With in_order nothing is sorted or
 * shuffled. TFM_ERROR_INPUT if a pass begins with none at all. */
tfm_status tfm__shuffle_buffer_make_batches(const tfm__corpus *corpus, tfm__shuffle_buffer *b);
/* ---- Texts (blocks.c) ---- */

/* Finds out what the tokenizer puts around a text. */
tfm_status tfm__lm_corpus_open(tfm__corpus *corpus);
/* The next line, and its text as the last of the buffer's if it is good; *end: the files are over. What is no good
 * text is counted, or if `strict` refused. */
tfm_status tfm__lm_read_text(const tfm__corpus *corpus, tfm__shuffle_buffer *b, tfm__corpus_reader *reader, bool *end);
/* The sentence for files without a good text. */
tfm_status tfm__lm_no_text_error(const tfm__corpus *corpus, const tfm_data_counts *counts);
/* Packs the texts of a buffer into rows, in an order that `random` draws. */
tfm_status tfm__lm_pack_blocks(const tfm__corpus *corpus, tfm__shuffle_buffer *b, tfm__random *random);

/* How many lines a reader has tokenized for the buffers that it has come to, for tests. */
uint64_t tfm__data_tokenized_lines(const tfm_data *data);

/* Frees a buffer. Does nothing for NULL. */
void tfm__shuffle_buffer_free(tfm__shuffle_buffer *b);

#endif
