/* Pairs of lines as ids, and the batches that they make. */
#ifndef TFM_LIB_CORPUS_H
#define TFM_LIB_CORPUS_H

#include "base/base.h"
#include "tfm/data.h"

/* What tells that a file was written to: its size, and of one that was written at another time its text. */
typedef struct tfm__stamp {
    int64_t bytes, seconds, nanoseconds; /* the time of the last change */
    uint64_t hash;                       /* of all, or of blocks evenly over a long one */
} tfm__stamp;

/* Where pairs come from, and how. */
typedef struct tfm__corpus {
    const tfm_tokenizer *tokenizer;
    char *names[2]; /* the second is NULL for a TSV */
    tfm__stamp stamps[2]; /* as they were when reading began: places in a file that has changed since are nobody's */
    tfm_data_options options;
} tfm__corpus;

typedef struct tfm__pair {
    size_t at;              /* of its ids: source, then target */
    int32_t source, target; /* tokens, EOS counted */
    uint64_t key;           /* random: equal lengths lie in another order each time */
} tfm__pair;

/* A batch. */
typedef struct tfm__pair_batch {
    size_t first, count; /* of the order */
} tfm__pair_batch;

/* A buffer: what is shuffled together. So many pairs in the order of the files, and an order of batches over
 * them. */
typedef struct tfm__pair_buffer {
    tfm_data_position begin; /* batch 0 of it */
    tfm_data_position next;  /* where the following buffer begins */
    tfm_data_counts counts;  /* of this buffer alone */
    bool whole;              /* all of the files, so it serves every pass */
    int32_t *ids;
    size_t id_count, id_room;
    tfm__pair *pairs;
    size_t pair_count, pair_room;
    tfm__pair **order;
    tfm__pair_batch *batches;
    size_t batch_count;
} tfm__pair_buffer;

/* Notes what the files are like, for tfm__pair_buffer_read to see a change. */
tfm_status tfm__corpus_open(tfm__corpus *corpus);
/* Reads the pairs that begin at b->begin; says where the next begin. TFM_ERROR_IO if the files have changed since
 * tfm__corpus_open. Where segmentations are drawn, in a thread that is new: see tfm__spm_draws_begin. */
tfm_status tfm__pair_buffer_read(const tfm__corpus *corpus, tfm__pair_buffer *b);
/* Pairs of one length together, and the batches in any order: by the seed, the pass, and where the buffer
 * lies. */
tfm_status tfm__pair_buffer_arrange(const tfm__corpus *corpus, tfm__pair_buffer *b);
/* Takes NULL. */
void tfm__pair_buffer_free(tfm__pair_buffer *b);

/* Room for `count` elements of an array, *room of which it has: doubled until they fit. */
tfm_status tfm__grow(void *array, size_t *room, size_t count, size_t size);

#endif
