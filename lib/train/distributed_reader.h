/* Buffers filled by several ranks. Each rank reads all lines, which is cheap, and tokenizes its share. Then all
 * exchange their records, and each merges the same buffer, bit-identical to a single reader's.
 *
 * The number of lines per buffer depends on how many are valid, which is unknown before the exchange. So each rank
 * reads some more than it expects to need; if those do not fill the buffer, all read on. */
#ifndef TFM_LIB_DISTRIBUTED_READER_H
#define TFM_LIB_DISTRIBUTED_READER_H

#include "tfm/train.h"
#include "train/corpus.h"

/* What follows the lines read: more lines, the end, or a line that `strict` rejects. */
enum { TFM__READ_MORE, TFM__READ_END, TFM__READ_REJECTED };

/* Sent before the records. */
typedef struct tfm__reader_header {
    int64_t status;                   /* The rank's status. */
    uint64_t position_hash;           /* A hash of what must be equal on all ranks. */
    int64_t lines_read;               /* Lines read; the own ones are tokenized. */
    int64_t word_count;               /* Words to send. */
    int64_t read_state;               /* What follows those lines, */
    char error[1024];                 /* the reason, */
    tfm_data_position error_position; /* and where that line ends. */
    tfm_data_counts counts;           /* Of a buffer that one rank reads for all: its counts, */
    tfm_data_position next;           /* and where the next one begins. */
} tfm__reader_header;

/* A reader's communication with those of the other ranks. */
typedef struct tfm__reader_exchange {
    tfm_process_group group;     /* All zeros: a single reader. */
    uint64_t options_hash;       /* A hash of the options, which must be equal on all ranks. */
    tfm__reader_header *headers; /* [world]: the last headers of all. */
    int32_t *send_words, *recv_words,
        *part_words; /* [chunk_words], and [world * chunk_words] twice: communication buffers. */
    size_t chunk_words;
    int64_t lines_per_buffer; /* Lines of the last full buffer; 0 before that. */
    uint64_t tokenized_lines; /* Lines tokenized by this rank. */
} tfm__reader_exchange;

/* A rank's records, one per own line. */
typedef struct tfm__rank_records {
    int32_t *words;
    size_t count, capacity, at; /* `at`: offset of the next record. */
} tfm__rank_records;

/* The position of the files after a line, and the number of surplus lines before it. */
typedef struct tfm__line_position {
    int64_t line, source_at, target_at;
    uint64_t unpaired;
} tfm__line_position;

/* A rank's shard of a buffer. With subword sampling a line depends on the ones before it, so one rank reads the whole
 * buffer for all, and ranks take turns. The reading part belongs to one thread until that is joined, the rest to the
 * communicating thread. */
typedef struct tfm__buffer_shard {
    tfm__shuffle_buffer scratch; /* The result of a single line. */
    tfm__corpus_reader reader;
    int64_t lines_read;            /* Lines read, without held-out ones, */
    tfm__line_position *positions; /* [lines_read]: and where each ends. */
    size_t position_capacity;
    int32_t *words; /* Records of own lines, not yet sent. */
    size_t word_count, word_capacity;
    size_t ids;                       /* Tokens of the own lines. */
    int64_t read_state;               /* As in tfm__reader_header, */
    char error[1024];                 /* the reason, */
    tfm_data_position error_position; /* and the position. */
    int world;
    int owner_rank;                   /* The rank that reads the whole buffer, or -1. */
    tfm__rank_records *records;       /* [world] */
    int64_t lines_known, lines_taken; /* Lines known from all ranks; how many of the lines are merged. */
    int64_t lines_filled;             /* Lines that fill the buffer; 0: not yet known. */
    tfm_data_counts counts;           /* The buffer's counts at that point. */
} tfm__buffer_shard;

/* ---- Communication (reader_exchange.c) ---- */

/* Sets up communication with the ranks of the options. No-op without ranks or with one. */
tfm_status tfm__reader_exchange_open(tfm__reader_exchange *exchange, const tfm_data_options *options);
void tfm__reader_exchange_close(tfm__reader_exchange *exchange);
static inline bool tfm__reader_exchange_active(const tfm__reader_exchange *exchange) {
    return exchange->group.world_size > 1;
}

/* All ranks exchange status and position: fails on all if it fails on one. `place` and `full` must be equal on all. The
 * shard may be NULL if `status` is a failure. */
tfm_status tfm__reader_exchange_agree(tfm__reader_exchange *exchange, const tfm__buffer_shard *shard,
                                      const tfm_data_position *place, bool full, tfm_status status);
/* Then exchanges the records. Completes also without memory, since the other ranks wait. */
tfm_status tfm__reader_exchange_records(tfm__reader_exchange *exchange, tfm__buffer_shard *shard);

/* ---- Reading and merging (distributed_reader.c) ---- */

/* Begins a shard, and reads the lines expected to fill a buffer. */
tfm_status tfm__buffer_shard_start(tfm__buffer_shard **out, const tfm__reader_exchange *exchange,
                                   const tfm__corpus *corpus, tfm_data_position begin);
/* Reads on, if the exchanged lines do not fill the buffer. */
tfm_status tfm__buffer_shard_read_more(tfm__buffer_shard *shard, const tfm__corpus *corpus,
                                       const tfm__shuffle_buffer *b);
void tfm__buffer_shard_free(tfm__buffer_shard **shard);
/* Merges the received records into the buffer; *full: it is complete. */
tfm_status tfm__buffer_shard_merge(tfm__reader_exchange *exchange, tfm__buffer_shard *shard, const tfm__corpus *corpus,
                                   tfm__shuffle_buffer *b, bool *full);

#endif
