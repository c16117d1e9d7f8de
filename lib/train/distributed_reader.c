/* A buffer whose lines are tokenized by several ranks.
 *
 * A record is the result of a line: for a pair the token counts of both sides and the ids, for a text the same without
 * a source, for a bad line a negative word that tells which count it belongs to. A rank's records are contiguous; line
 * i is the next record of rank i modulo the number of ranks. */
#include "train/distributed_reader.h"
#include <stdio.h>
#include <string.h>

enum { EMPTY = -1, LONG = -2, INVALID = -3 }; /* bad lines, in records */
enum { READ_AHEAD = 64 /* lines read beyond the estimate: this many, plus 1/READ_AHEAD of a buffer */ };

/* ---- Creation and release -------------------------------------------------------------------------------------- */

/* Records received, and records to send. */
static void free_records(tfm__buffer_shard *p) {
    for (int i = 0; p->records && i < p->world; i++)
        free(p->records[i].words);
    free(p->records);
    free(p->words);
    p->records = NULL;
    p->words = NULL;
    p->word_capacity = 0;
}

void tfm__buffer_shard_free(tfm__buffer_shard **pointer) {
    tfm__buffer_shard *p = *pointer;
    *pointer = NULL;
    if (!p)
        return;
    tfm__corpus_reader_close(&p->reader);
    free_records(p);
    free(p->scratch.ids);
    free(p->scratch.examples);
    free(p->positions);
    free(p);
}

/* ---- Reading --------------------------------------------------------------------------------------------------- */

/* Adds the ids of a valid line. */
static tfm_status append_example(tfm__buffer_shard *p, const tfm__example *pair, const int32_t *ids) {
    const size_t count = (size_t)(pair->source + pair->target);
    tfm_status status = tfm__grow(&p->words, &p->word_capacity, p->word_count + count + 2, sizeof(*p->words));
    if (status != TFM_OK)
        return status;
    int32_t *to = p->words + p->word_count;
    to[0] = pair->source;
    to[1] = pair->target;
    memcpy(to + 2, ids, count * sizeof(*to));
    p->word_count += count + 2;
    p->ids += count;
    return TFM_OK;
}

/* Adds the record of an own line: the only pair of p->scratch, or what was counted since `before`. */
static tfm_status add_record(tfm__buffer_shard *p, const tfm_data_counts *before) {
    const tfm__shuffle_buffer *b = &p->scratch;
    if (b->example_count > 0)
        return append_example(p, &b->examples[0], b->ids);
    tfm_status status = tfm__grow(&p->words, &p->word_capacity, p->word_count + 1, sizeof(*p->words));
    if (status == TFM_OK)
        p->words[p->word_count++] = b->counts.empty > before->empty         ? EMPTY
                                    : b->counts.too_long > before->too_long ? LONG
                                                                            : INVALID;
    return status;
}

static void note_rejected(tfm__buffer_shard *p) {
    p->read_state = TFM__READ_REJECTED;
    snprintf(p->error, sizeof(p->error), "%s", tfm_error_message());
}

/* Reads the next line of the files, of any rank. */
static tfm_status read_line(tfm__buffer_shard *p, const tfm__corpus *c) {
    tfm__shuffle_buffer *b = &p->scratch;
    const tfm_data_counts before = b->counts;
    const int64_t seen = b->lines_seen;
    bool end = false;
    b->example_count = b->id_count = 0;
    tfm_status status = tfm__corpus_read_example(c, b, &p->reader, &end);
    if (status == TFM_ERROR_INPUT && c->options.strict) {
        note_rejected(p);
        p->error_position = tfm__corpus_reader_tell(c, &p->reader, b->next.line);
        return TFM_OK;
    }
    if (status == TFM_OK && end)
        p->read_state = TFM__READ_END;
    if (status != TFM_OK || b->lines_seen == seen) /* the end, or a held-out line */
        return status;
    if (seen % b->world == b->rank)
        status = add_record(p, &before);
    if (status == TFM_OK)
        status = tfm__grow(&p->positions, &p->position_capacity, (size_t)p->lines_read + 1, sizeof(*p->positions));
    if (status != TFM_OK)
        return status;
    const tfm_data_position at = tfm__corpus_reader_tell(c, &p->reader, b->next.line);
    p->positions[p->lines_read++] =
        (tfm__line_position){at.line, at.source_offset, at.target_offset, b->counts.unpaired};
    return TFM_OK;
}

/* Reads until a number of lines, or for texts of tokens. */
static tfm_status read_until(tfm__buffer_shard *p, const tfm__corpus *c, int64_t lines, size_t ids) {
    tfm_status status = TFM_OK;
    while (status == TFM_OK && p->read_state == TFM__READ_MORE && p->lines_read < lines &&
           (!c->monolingual || p->ids < ids))
        status = read_line(p, c);
    return tfm__corpus_check_unchanged(c, &p->reader, status);
}

/* Reads the whole buffer, for all ranks. */
static tfm_status read_whole_buffer(tfm__buffer_shard *p, const tfm__corpus *c) {
    tfm__shuffle_buffer *b = &p->scratch;
    tfm_status status = tfm__shuffle_buffer_read(c, b);
    if (status == TFM_ERROR_INPUT && c->options.strict) {
        note_rejected(p);
        return TFM_OK;
    }
    for (size_t i = 0; i < b->example_count && status == TFM_OK; i++)
        status = append_example(p, &b->examples[i], b->ids + b->examples[i].at);
    free(b->ids);
    b->ids = NULL;
    b->id_count = b->id_capacity = 0;
    return status;
}

/* The rank that reads the buffer checks all its files: here only the first ones are checked. */
static tfm_status check_files_only(tfm__buffer_shard *p, const tfm__corpus *c) {
    tfm_status status = tfm__corpus_reader_open(c, &p->reader, p->scratch.begin);
    return tfm__corpus_check_unchanged(c, &p->reader, status);
}

tfm_status tfm__buffer_shard_start(tfm__buffer_shard **out, const tfm__reader_exchange *s, const tfm__corpus *c,
                                   tfm_data_position begin) {
    const size_t most = tfm__corpus_buffer_size(c), many = SIZE_MAX / 4;
    const int64_t lines = s->lines_per_buffer ? s->lines_per_buffer : (int64_t)(most < many ? most : many);
    tfm__buffer_shard *p = *out = tfm__alloc(1, sizeof(*p));
    if (!p)
        return TFM_ERROR_MEMORY;
    p->world = s->group.world_size;
    p->scratch.begin = p->scratch.next = begin;
    p->owner_rank = c->options.subword_alpha > 0 ? (int)((begin.epoch + begin.line / lines) % p->world) : -1;
    p->records = tfm__alloc((size_t)p->world, sizeof(*p->records));
    if (!p->records)
        return TFM_ERROR_MEMORY;
    if (p->owner_rank >= 0)
        return p->owner_rank == s->group.rank ? read_whole_buffer(p, c) : check_files_only(p, c);
    p->scratch.world = s->group.world_size;
    p->scratch.rank = s->group.rank;
    tfm_status status = tfm__corpus_reader_open(c, &p->reader, begin);
    return status == TFM_OK ? read_until(p, c, lines + lines / READ_AHEAD + (lines < READ_AHEAD ? lines : READ_AHEAD),
                                         TFM__MAX_BUFFER_IDS / (size_t)p->world + TFM__MAX_BUFFER_IDS / READ_AHEAD)
                            : status;
}

/* Reads the estimated missing lines; the extra grows in each round. */
tfm_status tfm__buffer_shard_read_more(tfm__buffer_shard *p, const tfm__corpus *c, const tfm__shuffle_buffer *b) {
    const double lack = p->lines_filled ? 0 : (double)(tfm__corpus_buffer_size(c) - b->example_count),
                 known = (double)p->lines_known;
    const double each = known / ((double)b->example_count + known / 8 + 1); /* lines per valid one: at most eight */
    const double more = lack * each + known / 8 + READ_AHEAD, many = (double)(INT64_MAX / 4);
    const size_t ids = b->id_count < TFM__MAX_BUFFER_IDS ? TFM__MAX_BUFFER_IDS - b->id_count : 0;
    return read_until(p, c, p->lines_known + (int64_t)(more < many ? more : many),
                      p->ids + ids / (size_t)p->world + TFM__MAX_BUFFER_IDS / READ_AHEAD);
}

/* ---- Merging --------------------------------------------------------------------------------------------------- */

/* The record of the next line: NULL with the error message set if a rank has sent none. */
static const int32_t *peek_record(tfm__buffer_shard *p, tfm__rank_records **from, size_t *words) {
    const int rank = p->owner_rank >= 0 ? p->owner_rank : (int)(p->lines_taken % p->world);
    tfm__rank_records *s = *from = &p->records[rank];
    const size_t left = s->count - s->at;
    const int32_t *at = left > 0 ? s->words + s->at : NULL;
    if (at && *at < 0)
        *words = 1;
    else
        *words = left > 1 ? (size_t)at[0] + (size_t)at[1] + 2 : SIZE_MAX;
    if (*words <= left)
        return at;
    tfm__fail(TFM_ERROR_ARGUMENT, "data_next: rank %d has not sent its records: all ranks must have the same text",
              rank);
    return NULL;
}

static void count_rejected(tfm_data_counts *counts, int32_t what) {
    counts->empty += what == EMPTY;
    counts->too_long += what == LONG;
    counts->invalid += what == INVALID;
}

static tfm_status add_example(tfm__shuffle_buffer *b, const int32_t *record, size_t words) {
    const tfm__example pair = {.at = b->id_count, .source = record[0], .target = record[1]};
    tfm_status status = tfm__grow(&b->ids, &b->id_capacity, b->id_count + words - 2, sizeof(*b->ids));
    if (status == TFM_OK)
        status = tfm__grow(&b->examples, &b->example_capacity, b->example_count + 1, sizeof(*b->examples));
    if (status != TFM_OK)
        return status;
    memcpy(b->ids + b->id_count, record + 2, (words - 2) * sizeof(*b->ids));
    b->id_count += words - 2;
    b->examples[b->example_count++] = pair;
    b->counts.pairs++;
    return TFM_OK;
}

/* Takes lines as long as they are known. After a full buffer it only inspects them: a following valid line, or one that
 * `strict` rejects, belongs to the next buffer; if none is valid, they belong to this one. *full: that is decided. */
static tfm_status merge_known(tfm__buffer_shard *p, const tfm__corpus *c, tfm__shuffle_buffer *b, bool *full) {
    const size_t most = tfm__corpus_buffer_size(c);
    for (; p->lines_taken < p->lines_known; p->lines_taken++) {
        tfm__rank_records *from;
        size_t words;
        const int32_t *record = peek_record(p, &from, &words);
        if (!record)
            return TFM_ERROR_ARGUMENT;
        if (*record >= 0 && p->lines_filled) {
            *full = true;
            return TFM_OK;
        }
        if (*record < 0)
            count_rejected(&b->counts, *record);
        else if (add_example(b, record, words) != TFM_OK)
            return TFM_ERROR_MEMORY;
        from->at += words;
        if (!p->lines_filled && (b->example_count >= most || (c->monolingual && b->id_count >= TFM__MAX_BUFFER_IDS))) {
            p->lines_filled = p->lines_taken + 1;
            p->counts = b->counts;
        }
    }
    return TFM_OK;
}

/* The rank whose read state follows all known lines. */
static const tfm__reader_header *find_end(const tfm__reader_exchange *s, const tfm__buffer_shard *p) {
    for (int i = 0; i < p->world; i++)
        if (s->headers[i].read_state != TFM__READ_MORE && s->headers[i].lines_read == p->lines_known)
            return &s->headers[i];
    return NULL;
}

/* Takes a buffer that one rank has read. */
static tfm_status merge_whole(const tfm__reader_header *header, tfm__buffer_shard *p, tfm__shuffle_buffer *b) {
    tfm__rank_records *from = &p->records[p->owner_rank];
    size_t words;
    if (header->read_state == TFM__READ_REJECTED)
        return tfm__fail(TFM_ERROR_INPUT, "%s", header->error);
    for (const int32_t *record; from->at < from->count; from->at += words) {
        if (!(record = peek_record(p, &from, &words)))
            return TFM_ERROR_ARGUMENT;
        if (add_example(b, record, words) != TFM_OK)
            return TFM_ERROR_MEMORY;
    }
    b->counts = header->counts;
    b->next = header->next;
    free_records(p);
    return TFM_OK;
}

/* A line that a rank has rejected. If it ends at another position here, the ranks' texts differ. */
static tfm_status rejected_error(const tfm__reader_exchange *s, const tfm__buffer_shard *p,
                                 const tfm__reader_header *header) {
    const tfm__line_position *mark = p->lines_read > header->lines_read ? &p->positions[header->lines_read] : NULL;
    if (mark && (mark->source_at != header->error_position.source_offset ||
                 mark->target_at != header->error_position.target_offset))
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "data_next: %.800s; this is rank %d's text, and rank %d's is different: all ranks must have "
                         "the same text",
                         header->error, (int)(header - s->headers), s->group.rank);
    return tfm__fail(TFM_ERROR_INPUT, "%s", header->error);
}

tfm_status tfm__buffer_shard_merge(tfm__reader_exchange *s, tfm__buffer_shard *p, const tfm__corpus *c,
                                   tfm__shuffle_buffer *b, bool *full) {
    if (p->owner_rank >= 0) {
        *full = true;
        return merge_whole(&s->headers[p->owner_rank], p, b);
    }
    tfm_status status = merge_known(p, c, b, full);
    const tfm__reader_header *header = status == TFM_OK && !*full ? find_end(s, p) : NULL;
    if (status != TFM_OK)
        return status;
    if (header && header->read_state == TFM__READ_REJECTED && !p->lines_filled)
        return rejected_error(s, p, header);
    if (header &&
        header->read_state == TFM__READ_END) { /* this rank reached the end too, and has counted surplus lines */
        b->counts.unpaired = p->scratch.counts.unpaired;
        b->whole = b->begin.line == 0;
        b->next = (tfm_data_position){.epoch = b->begin.epoch + 1};
        *full = true;
        free_records(p);
        return TFM_OK;
    }
    *full = *full || header;
    if (*full) { /* records of further lines are sent again for the next buffer */
        free_records(p);
        const tfm__line_position at = p->positions[p->lines_filled - 1];
        b->counts = p->counts;
        b->counts.unpaired = at.unpaired;
        b->next.line = at.line;
        b->next.source_offset = at.source_at;
        b->next.target_offset = at.target_at;
        s->lines_per_buffer = p->lines_filled;
    }
    return TFM_OK;
}
