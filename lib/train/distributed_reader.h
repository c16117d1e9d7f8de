/* Buffers that several ranks fill together. Each rank reads all lines, which is cheap, and tokenizes its portion of
 * them. Then all tell each other what their lines have become, and each puts the same buffer together: the one that a
 * reader alone makes, to the bit.
 *
 * How many lines a buffer takes follows from how many of them are good, which no rank knows before the others have told
 * it. So each reads a few more than it expects to need, and where all of those do not fill the buffer, all read on. */
#ifndef TFM_LIB_DISTRIBUTED_READER_H
#define TFM_LIB_DISTRIBUTED_READER_H

#include "tfm/train.h"
#include "train/corpus.h"

/* What follows the lines that a rank has read: more of them, the end, or a line that `strict` refuses. */
enum { TFM__READ_MORE, TFM__READ_END, TFM__READ_REJECTED };

/* What a rank says before the others hear its lines. */
typedef struct tfm__reader_header {
    int64_t status;                   /* Whether it fails. */
    uint64_t position_hash;           /* A hash of what must be the same on all. */
    int64_t lines_read;               /* How many lines it has read: its own are tokenized. */
    int64_t word_count;               /* How many words it has to tell. */
    int64_t read_state;               /* What follows those lines, */
    char error[1024];                 /* for this reason, */
    tfm_data_position error_position; /* and where that line ends. */
    tfm_data_counts counts;           /* Of a buffer that one rank makes for all: its counts, */
    tfm_data_position next;           /* and where the next one begins. */
} tfm__reader_header;

/* How a reader talks with those of the other ranks, about one buffer after another. */
typedef struct tfm__reader_exchange {
    tfm_process_group group;     /* All zeros: the reader is alone. */
    uint64_t options_hash;       /* A hash of the options, which must be the same on all. */
    tfm__reader_header *headers; /* [world]: what all have said last. */
    int32_t *send_words, *recv_words,
        *part_words; /* [chunk_words], and [world * chunk_words] twice: words on their way. */
    size_t chunk_words;
    int64_t lines_per_buffer; /* How many lines the last full buffer took; 0 before there is one. */
    uint64_t tokenized_lines; /* How many lines this rank has tokenized. */
} tfm__reader_exchange;

/* What one rank has told: a record for each of its lines. */
typedef struct tfm__rank_records {
    int32_t *words;
    size_t count, capacity, at; /* How many there are, room for how many, and where the next record begins. */
} tfm__rank_records;

/* Where the files stand after a line, and how many lines without a partner come before it. */
typedef struct tfm__line_position {
    int64_t line, source_at, target_at;
    uint64_t unpaired;
} tfm__line_position;

/* One rank's part of one buffer. Where segmentations are drawn, which for a line follow from those of the lines before
 * it, one rank makes the whole buffer for all, and ranks take turns. Its reading belongs to one thread until that is
 * joined; the rest, to who tells. */
typedef struct tfm__buffer_shard {
    tfm__shuffle_buffer scratch; /* What a single line becomes. */
    tfm__corpus_reader reader;
    int64_t lines_read;            /* How many lines that are not held out it has read, */
    tfm__line_position *positions; /* [lines_read]: and where each ends. */
    size_t position_capacity;
    int32_t *words; /* The records of own lines that are not told yet. */
    size_t word_count, word_capacity;
    size_t ids;                       /* How many tokens its own lines have. */
    int64_t read_state;               /* As in tfm__reader_header, */
    char error[1024];                 /* why, */
    tfm_data_position error_position; /* and where. */
    int world;                        /* How many ranks there are. */
    int owner_rank;                   /* The rank that makes the whole buffer, or -1. */
    tfm__rank_records *records;       /* [world] */
    int64_t lines_known, lines_taken; /* How many lines all have told of; how many of these the buffer has looked at. */
    int64_t lines_filled;             /* With so many of them it is full; 0: not yet. */
    tfm_data_counts counts;           /* The counts of the buffer then. */
} tfm__buffer_shard;

/* ---- Communication (reader_exchange.c) ---- */

/* Makes room to talk with the ranks of the options. Does nothing without any, and in a world of 1. */
tfm_status tfm__reader_exchange_open(tfm__reader_exchange *exchange, const tfm_data_options *options);
void tfm__reader_exchange_close(tfm__reader_exchange *exchange);
static inline bool tfm__reader_exchange_active(const tfm__reader_exchange *exchange) {
    return exchange->group.world_size > 1;
}

/* All ranks say whether they are well, and where they are: fails on all if it does on one. `place` and `full` must be
 * the same on all. The portion may be NULL where `status` is a failure. */
tfm_status tfm__reader_exchange_agree(tfm__reader_exchange *exchange, const tfm__buffer_shard *shard,
                                      const tfm_data_position *place, bool full, tfm_status status);
/* Then tells all ranks what this one's lines have become, and hears theirs. Comes to its end also where memory is out,
 * since the others wait for it. */
tfm_status tfm__reader_exchange_records(tfm__reader_exchange *exchange, tfm__buffer_shard *shard);

/* ---- Reading and taking (distributed_reader.c) ---- */

/* Begins a portion, and reads as many lines as are expected to fill a buffer. */
tfm_status tfm__buffer_shard_start(tfm__buffer_shard **out, const tfm__reader_exchange *exchange,
                                   const tfm__corpus *corpus, tfm_data_position begin);
/* Reads on, where what all have told does not fill the buffer. */
tfm_status tfm__buffer_shard_read_more(tfm__buffer_shard *shard, const tfm__corpus *corpus,
                                       const tfm__shuffle_buffer *b);
void tfm__buffer_shard_free(tfm__buffer_shard **shard);
/* Puts into the buffer what was told; *full: it has all that it is to have. */
tfm_status tfm__buffer_shard_merge(tfm__reader_exchange *exchange, tfm__buffer_shard *shard, const tfm__corpus *corpus,
                                   tfm__shuffle_buffer *b, bool *full);

#endif
