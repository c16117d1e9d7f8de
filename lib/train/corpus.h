/* Pairs of lines as ids, and the batches that they make. */
#ifndef TFM_LIB_CORPUS_H
#define TFM_LIB_CORPUS_H

#include "base/base.h"
#include "tfm/data.h"

/* What shows that a file was changed: its size or, if it was written at another time, its text. */
typedef struct tfm__stamp {
    int64_t bytes;                /* The size of the file. */
    int64_t seconds, nanoseconds; /* The time of the last change. */
    uint64_t hash;                /* A hash of the text, or of blocks spread evenly over a long one. */
} tfm__stamp;

/* Where pairs come from, and how. */
typedef struct tfm__corpus {
    tfm_tokenizer *tokenizer; /* The corpus is one of its owners. */
    char *names[2];           /* The paths; the second is NULL for a TSV file. */
    tfm__stamp stamps[2];     /* The files as they were when reading began. */
    tfm_data_options options; /* What the caller asked for. */
    size_t around[2];         /* How many tokens stand around a text of each side, such as EOS. */
} tfm__corpus;

/* A pair of lines as ids, which lie in a buffer. */
typedef struct tfm__pair {
    size_t at;              /* Where its ids begin: those of the source, then those of the target. */
    int32_t source, target; /* The number of tokens of each side, with EOS. */
    uint64_t key;           /* A random number, so that pairs of equal length have another order in each pass. */
} tfm__pair;

/* A batch: `count` pairs from `first` on in the order of a buffer. */
typedef struct tfm__pair_batch {
    size_t first, count;
} tfm__pair_batch;

/* A buffer has the pairs that are shuffled together, in the order of the files, and the order of batches over them. */
typedef struct tfm__pair_buffer {
    tfm_data_position begin;      /* The place of its batch 0. */
    tfm_data_position next;       /* The place where the next buffer begins. */
    tfm_data_counts counts;       /* The counts of this buffer alone. */
    bool whole;                   /* It has all pairs of the files, so it serves every pass. */
    int32_t *ids;                 /* The ids of all pairs. */
    size_t id_count, id_room;     /* How many there are, and room for how many. */
    tfm__pair *pairs;             /* The pairs in the order of the files. */
    size_t pair_count, pair_room; /* How many there are, and room for how many. */
    tfm__pair **order;            /* [pair_count]: the pairs in the order of batches. */
    tfm__pair_batch *batches;     /* The batches in the order in which they are given out. */
    size_t batch_count;           /* How many there are. */
} tfm__pair_buffer;

/* Notes what stands around a text, and what the files are like, so that tfm__pair_buffer_read sees a change. */
tfm_status tfm__corpus_open(tfm__corpus *corpus);
/* Reads the pairs of the buffer that begins at b->begin, and sets b->next. TFM_ERROR_IO if the files have changed since
 * tfm__corpus_open. If segmentations are drawn, the calling thread must be a new one: see tfm__spm_draws_begin. */
tfm_status tfm__pair_buffer_read(const tfm__corpus *corpus, tfm__pair_buffer *b);
/* Sorts pairs by length, cuts them into batches and shuffles these. The order depends on the seed, the pass and the
 * place of the buffer. With in_order nothing is sorted or shuffled. */
tfm_status tfm__pair_buffer_arrange(const tfm__corpus *corpus, tfm__pair_buffer *b);
/* Frees a buffer. Does nothing for NULL. */
void tfm__pair_buffer_free(tfm__pair_buffer *b);

#endif
