/* Pairs of lines, or texts, as ids, and the batches that they make. */
#ifndef TFM_LIB_CORPUS_H
#define TFM_LIB_CORPUS_H

#include "base/random.h"
#include "text/line_file.h"
#include "tfm/data.h"

/* What shows that a file was changed: its size or, if it was written at another time, its text. */
typedef struct tfm__stamp {
    int64_t bytes;                /* The size of the file. */
    int64_t seconds, nanoseconds; /* The time of the last change. */
    uint64_t hash;                /* A hash of the text, or of blocks spread evenly over a long one. */
} tfm__stamp;

/* Where pairs or texts come from, and how. */
typedef struct tfm__corpus {
    tfm_tokenizer *tokenizer; /* The corpus is one of its owners. */
    bool texts;               /* The files are of texts, not of pairs. */
    size_t sides;             /* How many files are read in step: two of pairs, or one of texts or a TSV file. */
    size_t count;             /* How many files each side has; they are read one after the other. */
    char **names;             /* [sides * count]: the paths, those of the sources first. */
    size_t name_count;        /* How many of them are set. */
    tfm__stamp *stamps;       /* [sides * count]: the files as they were when reading began. */
    tfm_data_options options; /* What the caller asked for. */
    char *separator;          /* Its own copy of that of options.documents, or NULL. */
    size_t around[2];         /* How many tokens stand around a text of each side, such as EOS; of texts the second. */
    int32_t end;              /* Of texts: the token that follows each, or -1. */
} tfm__corpus;

/* The files that reading has come to: both of pairs, or one of texts or a TSV file. */
typedef struct tfm__readers {
    tfm__lines files[2];
    size_t file;       /* Their number. */
    int64_t before[2]; /* Of pairs: how many bytes the files before them have, on each side. */
} tfm__readers;

/* A pair of lines as ids, which lie in a buffer; or a text, or a block of such, which is a target without a source. */
typedef struct tfm__pair {
    size_t at;              /* Where its ids begin: those of the source, then those of the target. */
    int32_t source, target; /* The number of tokens of each side, with EOS. */
    uint64_t key;           /* A random number, so that pairs of equal length have another order in each pass. */
} tfm__pair;

/* A batch: `count` rows from `first` on in the order of a buffer. */
typedef struct tfm__pair_batch {
    size_t first, count;
} tfm__pair_batch;

/* A buffer has the pairs or texts that are shuffled together, in the order of the files, and the rows that they make:
 * the pairs themselves, or blocks of the texts one after another. */
typedef struct tfm__pair_buffer {
    tfm_data_position begin;      /* The place of its batch 0. */
    tfm_data_position next;       /* The place where the next buffer begins. */
    tfm_data_counts counts;       /* The counts of this buffer alone. */
    bool whole;                   /* It has all pairs of the files, so it serves every pass. */
    int32_t *ids;                 /* The ids of all of them. */
    size_t id_count, id_room;     /* How many there are, and room for how many. */
    tfm__pair *pairs;             /* The pairs, or the texts, in the order of the files. */
    size_t pair_count, pair_room; /* How many there are, and room for how many. */
    int32_t *packed;              /* [id_count]: the ids of texts in the order of this pass. */
    tfm__pair *blocks;            /* [row_count]: blocks of those. */
    tfm__pair **order;            /* [row_count]: the rows in the order of batches. */
    size_t row_count;             /* How many there are. */
    const int32_t *row_ids;       /* Where their ids lie. */
    tfm__pair_batch *batches;     /* The batches in the order in which they are given out. */
    size_t batch_count;           /* How many there are. */
    int rank, world;              /* Of several ranks it has the lines of one: see tfm__pair_buffer_passes. */
    int64_t seen;                 /* How many lines were read that are not held out. */
    uint64_t encoded;             /* How many lines were tokenized. */
} tfm__pair_buffer;

/* Of lines of text a buffer of texts has no more than what comes to so many ids, since lines may be long. */
enum { TFM__MOST_IDS = 1 << 25 };

/* ---- Files (corpus_files.c) ---- */

/* Notes what the files are like, so that reading sees a change. */
tfm_status tfm__corpus_stamp(tfm__corpus *corpus);
/* Whether there can be such a place in the files as they were then. */
bool tfm__corpus_has(const tfm__corpus *corpus, tfm_data_position at);
/* Refuses those that are open if they have changed, where reading came to `status`. Returns that, or why not. */
tfm_status tfm__corpus_check_read(const tfm__corpus *corpus, const tfm__readers *readers, tfm_status status);
/* " and the other files" where there are more than a sentence names, or "". */
const char *tfm__corpus_others(const tfm__corpus *corpus);
/* Opens the files at a place. */
tfm_status tfm__readers_open(const tfm__corpus *corpus, tfm__readers *readers, tfm_data_position at);
/* Goes on with the files after those that are open, if there are any: *more. */
tfm_status tfm__readers_go_on(const tfm__corpus *corpus, tfm__readers *readers, bool *more);
void tfm__readers_close(tfm__readers *readers);
/* Where they are, after `line` lines. */
tfm_data_position tfm__readers_tell(const tfm__corpus *corpus, const tfm__readers *readers, int64_t line);
/* The number, within the open file of a side, of the line that was read last, which is line `line` of all. What was
 * read is lost. */
int64_t tfm__readers_line(const tfm__corpus *corpus, tfm__readers *readers, int side, int64_t line);

/* ---- Pairs and buffers (corpus.c) ---- */

/* Opens `count` files of each side that is not NULL; corpus->texts is set. The tokenizer is retained. After a failure,
 * too, tfm__corpus_close frees what it has. */
tfm_status tfm__corpus_open(tfm__corpus *corpus, const tfm_tokenizer *tokenizer, const char *const *sides[2],
                            size_t count, const tfm_data_options *options);
void tfm__corpus_close(tfm__corpus *corpus);
/* How many pairs or texts fill a buffer. */
size_t tfm__corpus_most(const tfm__corpus *corpus);
/* The next line of each side and their pair, if it is good, or the next text; *end: the files are over. */
tfm_status tfm__corpus_read(const tfm__corpus *corpus, tfm__pair_buffer *b, tfm__readers *readers, bool *end);
/* Counts a line that is not held out. Whether it is another rank's, which tokenizes it: of `world` ranks number i has
 * each line whose number modulo `world` is i. */
static inline bool tfm__pair_buffer_passes(tfm__pair_buffer *b) {
    return b->seen++ % (b->world > 1 ? b->world : 1) != b->rank;
}
/* Reads the pairs or texts of the buffer that begins at b->begin, and sets b->next. TFM_ERROR_IO if the files have
 * changed since tfm__corpus_open. If segmentations are drawn, the calling thread must be a new one: see
 * tfm__spm_draws_begin. */
tfm_status tfm__pair_buffer_read(const tfm__corpus *corpus, tfm__pair_buffer *b);
/* Sorts pairs by length, or packs texts in an order of this pass into blocks; cuts them into batches and shuffles
 * these. The order depends on the seed, the pass and the place of the buffer. With in_order nothing is sorted or
 * shuffled. TFM_ERROR_INPUT if a pass begins with none at all. */
tfm_status tfm__pair_buffer_arrange(const tfm__corpus *corpus, tfm__pair_buffer *b);
/* ---- Texts (blocks.c) ---- */

/* Finds out what the tokenizer puts around a text. */
tfm_status tfm__texts_open(tfm__corpus *corpus);
/* The next line, and its text as the last of the buffer's if it is good; *end: the files are over. What is no good
 * text is counted, or if `strict` refused. */
tfm_status tfm__text_read(const tfm__corpus *corpus, tfm__pair_buffer *b, tfm__readers *readers, bool *end);
/* The sentence for files without a good text. */
tfm_status tfm__texts_none(const tfm__corpus *corpus, const tfm_data_counts *counts);
/* Packs the texts of a buffer into rows, in an order that `random` draws. */
tfm_status tfm__texts_pack(const tfm__corpus *corpus, tfm__pair_buffer *b, tfm__random *random);

/* How many lines a reader has tokenized for the buffers that it has come to, for tests. */
uint64_t tfm__data_encoded(const tfm_data *data);

/* Frees a buffer. Does nothing for NULL. */
void tfm__pair_buffer_free(tfm__pair_buffer *b);

#endif
