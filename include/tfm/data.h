/* Parallel text as batches for training: read in order, a buffer of pairs at a time, so a corpus may be larger than memory;
 * prepared by a thread of its own while the device works.
 *
 *     tfm_data_open(&data, tokenizer, "train.de", "train.en", &options);
 *     while (more && tfm_data_next(data, &batch) == TFM_OK && tfm_trainer_update(trainer, NULL, &batch, 1) == TFM_OK)
 *         ;
 *     tfm_data_free(&data);
 *
 * The order is a function of files, options and seed. */
#ifndef TFM_DATA_H
#define TFM_DATA_H

#include "text.h"
#include "train.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tfm_data_options {
    int64_t tokens;      /* of the wider side of a batch, padding counted: pairs x width is at most this, but for a
                            pair that is longer, a batch of its own. 0 means 4096 */
    int max_length;      /* pairs with a longer side, in tokens with EOS, are left out; 0 means 256 */
    int64_t buffer;      /* pairs that are shuffled together; 0 means 200,000. A corpus that fits is read once, but where
                            pieces are drawn */
    uint64_t seed;
    int64_t hold_every;  /* the pairs of line N, 2N, 3N ... are left out, uncounted: kept for validation; 0: none */
    bool in_order;       /* as the files have them, neither sorted nor shuffled: for validation */
    bool strict;         /* a bad pair is an error with its line number, not left out and counted */
    float subword_alpha; /* 0, or below 1: pieces are drawn anew in each pass, from text that is read anew. Byte pairs: each
                            merge is left out with this probability ("BPE-Dropout", Provilkov et al. 2020; 0.1 is usual).
                            Unigrams: one segmentation is drawn by its probability to this power, so that small ones draw
                            the most ("Subword Regularization", Kudo 2018). Words and characters stay. max_length is judged
                            by the best pieces. SentencePiece has one seed for the process: this sets it, and readers that
                            draw take turns */
} tfm_data_options;

/* Pairs of a pass over the files, and what was left out. */
typedef struct tfm_data_counts {
    uint64_t pairs; /* good ones */
    uint64_t empty; /* a side has nothing but blanks */
    uint64_t long_; /* a side is longer than max_length */
    uint64_t invalid; /* not UTF-8, NUL, or in a TSV no tab */
    uint64_t unpaired; /* lines of the longer file behind the end of the other */
    bool whole; /* of all the files; else of the part that was read */
} tfm_data_counts;

/* Where the next batch comes from: a run that goes on begins there. All zero is the beginning. */
typedef struct tfm_data_position {
    int64_t epoch;                    /* passes over the files that are over */
    int64_t batch;                    /* of the buffer that begins ... */
    int64_t line;                     /* behind so many lines, */
    int64_t source_at, target_at;     /* at these bytes */
    int64_t cut;                      /* 10^9 subword_alpha: of another one a buffer has other batches, and begins again */
} tfm_data_position;

/* Opens two files, a line of one for each of the other, or, with target NULL, one of lines `source TAB target`. Both must
 * be readable more than once, and hold the same text: one that is missing is TFM_ERROR_IO, and so is, from a later
 * tfm_data_next that has to read more of it, one with another text. Files without a good pair are TFM_ERROR_INPUT, from the first tfm_data_next. The
 * tokenizer is borrowed, and used from another thread. NULL options are all zero. */
TFM_API tfm_status tfm_data_open(tfm_data **out, const tfm_tokenizer *tokenizer, const char *source, const char *target,
                                 const tfm_data_options *options);
/* Takes NULL, and nulls. */
TFM_API void tfm_data_free(tfm_data **data);

/* The next batch, borrowed until the next call. The files begin again when they are over. */
TFM_API tfm_status tfm_data_next(tfm_data *data, tfm_pairs *batch);

/* Of the batch that tfm_data_next would give now; and to go there. */
TFM_API tfm_data_position tfm_data_tell(const tfm_data *data);
TFM_API tfm_status tfm_data_seek(tfm_data *data, tfm_data_position position);

/* Of the last pass that was read from its beginning to its end; before there is one, of what was read of the pass, since
 * tfm_data_seek if that went into its middle. */
TFM_API tfm_data_counts tfm_data_count(const tfm_data *data);

#ifdef __cplusplus
}
#endif
#endif
