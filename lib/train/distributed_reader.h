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
enum { TFM__MORE_LINES, TFM__LINES_END, TFM__LINE_REFUSED };

/* What a rank says before the others hear its lines. */
typedef struct tfm__told {
    int64_t status;         /* Whether it fails. */
    uint64_t place;         /* A hash of what must be the same on all. */
    int64_t covered;        /* How many lines it has read: its own are tokenized. */
    int64_t words;          /* How many words it has to tell. */
    int64_t over;           /* What follows those lines, */
    char sentence[1024];    /* for this reason, */
    tfm_data_position past; /* and where that line ends. */
    tfm_data_counts counts; /* Of a buffer that one rank makes for all: its counts, */
    tfm_data_position next; /* and where the next one begins. */
} tfm__told;

/* How a reader talks with those of the other ranks, about one buffer after another. */
typedef struct tfm__sharing {
    tfm_ranks ranks;            /* All zeros: the reader is alone. */
    uint64_t asked;             /* A hash of the options, which must be the same on all. */
    tfm__told *heads;           /* [world]: what all have said last. */
    int32_t *own, *all, *parts; /* [piece], and [world * piece] twice: words on their way. */
    size_t piece;
    int64_t lines;    /* How many lines the last full buffer took; 0 before there is one. */
    uint64_t encoded; /* How many lines this rank has tokenized. */
} tfm__sharing;

/* What one rank has told: a record for each of its lines. */
typedef struct tfm__rank_records {
    int32_t *words;
    size_t count, room, at; /* How many there are, room for how many, and where the next record begins. */
} tfm__rank_records;

/* Where the files stand after a line, and how many lines without a partner come before it. */
typedef struct tfm__mark {
    int64_t line, source_at, target_at;
    uint64_t unpaired;
} tfm__mark;

/* One rank's part of one buffer. Where segmentations are drawn, which for a line follow from those of the lines before
 * it, one rank makes the whole buffer for all, and ranks take turns. Its reading belongs to one thread until that is
 * joined; the rest, to who tells. */
typedef struct tfm__portion {
    tfm__pair_buffer line; /* What a single line becomes. */
    tfm__readers readers;
    int64_t covered;  /* How many lines that are not held out it has read, */
    tfm__mark *marks; /* [covered]: and where each ends. */
    size_t mark_room;
    int32_t *words; /* The records of own lines that are not told yet. */
    size_t word_count, word_room;
    size_t ids;                 /* How many tokens its own lines have. */
    int64_t over;               /* As in tfm__told, */
    char sentence[1024];        /* why, */
    tfm_data_position past;     /* and where. */
    int world;                  /* How many ranks there are. */
    int maker;                  /* The rank that makes the whole buffer, or -1. */
    tfm__rank_records *streams; /* [world] */
    int64_t known, taken;       /* How many lines all have told of; how many of these the buffer has looked at. */
    int64_t filled;             /* With so many of them it is full; 0: not yet. */
    tfm_data_counts counts;     /* The counts of the buffer then. */
} tfm__portion;

/* ---- Communication (portion_exchange.c) ---- */

/* Makes room to talk with the ranks of the options. Does nothing without any, and in a world of 1. */
tfm_status tfm__sharing_open(tfm__sharing *sharing, const tfm_data_options *options);
void tfm__sharing_close(tfm__sharing *sharing);
static inline bool tfm__sharing_several(const tfm__sharing *sharing) {
    return sharing->ranks.world > 1;
}

/* All ranks say whether they are well, and where they are: fails on all if it does on one. `place` and `full` must be
 * the same on all. The portion may be NULL where `status` is a failure. */
tfm_status tfm__portion_agree(tfm__sharing *sharing, const tfm__portion *portion, const tfm_data_position *place,
                              bool full, tfm_status status);
/* Then tells all ranks what this one's lines have become, and hears theirs. Comes to its end also where memory is out,
 * since the others wait for it. */
tfm_status tfm__portion_tell(tfm__sharing *sharing, tfm__portion *portion);

/* ---- Reading and taking (distributed_reader.c) ---- */

/* Begins a portion, and reads as many lines as are expected to fill a buffer. */
tfm_status tfm__portion_begin(tfm__portion **out, const tfm__sharing *sharing, const tfm__corpus *corpus,
                              tfm_data_position begin);
/* Reads on, where what all have told does not fill the buffer. */
tfm_status tfm__portion_go_on(tfm__portion *portion, const tfm__corpus *corpus, const tfm__pair_buffer *b);
void tfm__portion_free(tfm__portion **portion);
/* Puts into the buffer what was told; *full: it has all that it is to have. */
tfm_status tfm__portion_take(tfm__sharing *sharing, tfm__portion *portion, const tfm__corpus *corpus,
                             tfm__pair_buffer *b, bool *full);

#endif
