/* A buffer whose lines are tokenized by several ranks.
 *
 * A record is what one line has become: of a pair the numbers of tokens of both sides and the ids, of a text the same
 * without a source, of a bad line a negative word that says which count it belongs to. The records of a rank stand one
 * after another, and line i is the next one of rank i modulo the number of ranks. */
#include "train/distributed_reader.h"
#include <stdio.h>
#include <string.h>

enum { EMPTY = -1, LONG = -2, INVALID = -3 }; /* bad lines, in records */
enum { SPARE = 64 /* lines, and a SPARE-th of a buffer, that are read beyond what is expected */ };

/* ---- Life ------------------------------------------------------------------------------------------------------ */

/* What was told, and what was to be told. */
static void forget_words(tfm__portion *p) {
    for (int i = 0; p->streams && i < p->world; i++)
        free(p->streams[i].words);
    free(p->streams);
    free(p->words);
    p->streams = NULL;
    p->words = NULL;
    p->word_room = 0;
}

void tfm__portion_free(tfm__portion **pointer) {
    tfm__portion *p = *pointer;
    *pointer = NULL;
    if (!p)
        return;
    tfm__readers_close(&p->readers);
    forget_words(p);
    free(p->line.ids);
    free(p->line.pairs);
    free(p->marks);
    free(p);
}

/* ---- Reading --------------------------------------------------------------------------------------------------- */

/* Adds a good line, of which the ids are given. */
static tfm_status add_pair(tfm__portion *p, const tfm__pair *pair, const int32_t *ids) {
    const size_t count = (size_t)(pair->source + pair->target);
    tfm_status status = tfm__grow(&p->words, &p->word_room, p->word_count + count + 2, sizeof(*p->words));
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

/* Adds what an own line has become: the only pair of p->line, or what was counted since `before`. */
static tfm_status add_record(tfm__portion *p, const tfm_data_counts *before) {
    const tfm__pair_buffer *b = &p->line;
    if (b->pair_count > 0)
        return add_pair(p, &b->pairs[0], b->ids);
    tfm_status status = tfm__grow(&p->words, &p->word_room, p->word_count + 1, sizeof(*p->words));
    if (status == TFM_OK)
        p->words[p->word_count++] = b->counts.empty > before->empty   ? EMPTY
                                    : b->counts.long_ > before->long_ ? LONG
                                                                      : INVALID;
    return status;
}

static void refuse(tfm__portion *p) {
    p->over = TFM__LINE_REFUSED;
    snprintf(p->sentence, sizeof(p->sentence), "%s", tfm_error_message());
}

/* The next line of the files, whosever it is. */
static tfm_status read_line(tfm__portion *p, const tfm__corpus *c) {
    tfm__pair_buffer *b = &p->line;
    const tfm_data_counts before = b->counts;
    const int64_t seen = b->seen;
    bool end = false;
    b->pair_count = b->id_count = 0;
    tfm_status status = tfm__corpus_read(c, b, &p->readers, &end);
    if (status == TFM_ERROR_INPUT && c->options.strict) {
        refuse(p);
        p->past = tfm__readers_tell(c, &p->readers, b->next.line);
        return TFM_OK;
    }
    if (status == TFM_OK && end)
        p->over = TFM__LINES_END;
    if (status != TFM_OK || b->seen == seen) /* the end, or a line that is held out */
        return status;
    if (seen % b->world == b->rank)
        status = add_record(p, &before);
    if (status == TFM_OK)
        status = tfm__grow(&p->marks, &p->mark_room, (size_t)p->covered + 1, sizeof(*p->marks));
    if (status != TFM_OK)
        return status;
    const tfm_data_position at = tfm__readers_tell(c, &p->readers, b->next.line);
    p->marks[p->covered++] = (tfm__mark){at.line, at.source_at, at.target_at, b->counts.unpaired};
    return TFM_OK;
}

/* Reads until there are so many lines or, of texts, so many tokens. */
static tfm_status read_until(tfm__portion *p, const tfm__corpus *c, int64_t lines, size_t ids) {
    tfm_status status = TFM_OK;
    while (status == TFM_OK && p->over == TFM__MORE_LINES && p->covered < lines && (!c->texts || p->ids < ids))
        status = read_line(p, c);
    return tfm__corpus_check_read(c, &p->readers, status);
}

/* Makes the whole buffer, for all ranks. */
static tfm_status make_whole(tfm__portion *p, const tfm__corpus *c) {
    tfm__pair_buffer *b = &p->line;
    tfm_status status = tfm__pair_buffer_read(c, b);
    if (status == TFM_ERROR_INPUT && c->options.strict) {
        refuse(p);
        return TFM_OK;
    }
    for (size_t i = 0; i < b->pair_count && status == TFM_OK; i++)
        status = add_pair(p, &b->pairs[i], b->ids + b->pairs[i].at);
    free(b->ids);
    b->ids = NULL;
    b->id_count = b->id_room = 0;
    return status;
}

/* Another rank makes it, and checks all files that it reads: here only those in which it begins are looked at. */
static tfm_status look_only(tfm__portion *p, const tfm__corpus *c) {
    tfm_status status = tfm__readers_open(c, &p->readers, p->line.begin);
    return tfm__corpus_check_read(c, &p->readers, status);
}

tfm_status tfm__portion_begin(tfm__portion **out, const tfm__sharing *s, const tfm__corpus *c,
                              tfm_data_position begin) {
    const size_t most = tfm__corpus_most(c), many = SIZE_MAX / 4;
    const int64_t lines = s->lines ? s->lines : (int64_t)(most < many ? most : many);
    tfm__portion *p = *out = tfm__alloc(1, sizeof(*p));
    if (!p)
        return TFM_ERROR_MEMORY;
    p->world = s->ranks.world;
    p->line.begin = p->line.next = begin;
    p->maker = c->options.subword_alpha > 0 ? (int)((begin.epoch + begin.line / lines) % p->world) : -1;
    p->streams = tfm__alloc((size_t)p->world, sizeof(*p->streams));
    if (!p->streams)
        return TFM_ERROR_MEMORY;
    if (p->maker >= 0)
        return p->maker == s->ranks.rank ? make_whole(p, c) : look_only(p, c);
    p->line.world = s->ranks.world;
    p->line.rank = s->ranks.rank;
    tfm_status status = tfm__readers_open(c, &p->readers, begin);
    return status == TFM_OK ? read_until(p, c, lines + lines / SPARE + (lines < SPARE ? lines : SPARE),
                                         TFM__MOST_IDS / (size_t)p->world + TFM__MOST_IDS / SPARE)
                            : status;
}

/* As many as are lacking, if the lines go on as they were; each time some more of them. */
tfm_status tfm__portion_go_on(tfm__portion *p, const tfm__corpus *c, const tfm__pair_buffer *b) {
    const double lack = p->filled ? 0 : (double)(tfm__corpus_most(c) - b->pair_count), known = (double)p->known;
    const double each = known / ((double)b->pair_count + known / 8 + 1); /* lines for a good one: up to eight */
    const double more = lack * each + known / 8 + SPARE, many = (double)(INT64_MAX / 4);
    const size_t ids = b->id_count < TFM__MOST_IDS ? TFM__MOST_IDS - b->id_count : 0;
    return read_until(p, c, p->known + (int64_t)(more < many ? more : many),
                      p->ids + ids / (size_t)p->world + TFM__MOST_IDS / SPARE);
}

/* ---- Taking ---------------------------------------------------------------------------------------------------- */

/* The record of the next line: NULL with a sentence where a rank has told none. */
static const int32_t *peek(tfm__portion *p, tfm__rank_records **from, size_t *words) {
    const int rank = p->maker >= 0 ? p->maker : (int)(p->taken % p->world);
    tfm__rank_records *s = *from = &p->streams[rank];
    const size_t left = s->count - s->at;
    const int32_t *at = left > 0 ? s->words + s->at : NULL;
    if (at && *at < 0)
        *words = 1;
    else
        *words = left > 1 ? (size_t)at[0] + (size_t)at[1] + 2 : SIZE_MAX;
    if (*words <= left)
        return at;
    tfm__fail(TFM_ERROR_ARGUMENT, "data_next: rank %d has not told what its lines are: all must have the same text",
              rank);
    return NULL;
}

static void count_bad(tfm_data_counts *counts, int32_t what) {
    counts->empty += what == EMPTY;
    counts->long_ += what == LONG;
    counts->invalid += what == INVALID;
}

static tfm_status add_good(tfm__pair_buffer *b, const int32_t *record, size_t words) {
    const tfm__pair pair = {.at = b->id_count, .source = record[0], .target = record[1]};
    tfm_status status = tfm__grow(&b->ids, &b->id_room, b->id_count + words - 2, sizeof(*b->ids));
    if (status == TFM_OK)
        status = tfm__grow(&b->pairs, &b->pair_room, b->pair_count + 1, sizeof(*b->pairs));
    if (status != TFM_OK)
        return status;
    memcpy(b->ids + b->id_count, record + 2, (words - 2) * sizeof(*b->ids));
    b->id_count += words - 2;
    b->pairs[b->pair_count++] = pair;
    b->counts.pairs++;
    return TFM_OK;
}

/* Takes lines while they are known. After a full buffer they are only looked at: if a good one follows, or one that
 * `strict` refuses, they belong to the next buffer, and if none does, to this one. *full: that is decided. */
static tfm_status take_known(tfm__portion *p, const tfm__corpus *c, tfm__pair_buffer *b, bool *full) {
    const size_t most = tfm__corpus_most(c);
    for (; p->taken < p->known; p->taken++) {
        tfm__rank_records *from;
        size_t words;
        const int32_t *record = peek(p, &from, &words);
        if (!record)
            return TFM_ERROR_ARGUMENT;
        if (*record >= 0 && p->filled) {
            *full = true;
            return TFM_OK;
        }
        if (*record < 0)
            count_bad(&b->counts, *record);
        else if (add_good(b, record, words) != TFM_OK)
            return TFM_ERROR_MEMORY;
        from->at += words;
        if (!p->filled && (b->pair_count >= most || (c->texts && b->id_count >= TFM__MOST_IDS))) {
            p->filled = p->taken + 1;
            p->counts = b->counts;
        }
    }
    return TFM_OK;
}

/* What stands after all known lines. */
static const tfm__told *find_over(const tfm__sharing *s, const tfm__portion *p) {
    for (int i = 0; i < p->world; i++)
        if (s->heads[i].over != TFM__MORE_LINES && s->heads[i].covered == p->known)
            return &s->heads[i];
    return NULL;
}

/* A buffer that one rank has made. */
static tfm_status take_whole(const tfm__told *told, tfm__portion *p, tfm__pair_buffer *b) {
    tfm__rank_records *from = &p->streams[p->maker];
    size_t words;
    if (told->over == TFM__LINE_REFUSED)
        return tfm__fail(TFM_ERROR_INPUT, "%s", told->sentence);
    for (const int32_t *record; from->at < from->count; from->at += words) {
        if (!(record = peek(p, &from, &words)))
            return TFM_ERROR_ARGUMENT;
        if (add_good(b, record, words) != TFM_OK)
            return TFM_ERROR_MEMORY;
    }
    b->counts = told->counts;
    b->next = told->next;
    forget_words(p);
    return TFM_OK;
}

/* A line that a rank has refused. Where it ends elsewhere in the text that is here, it is that rank's alone. */
static tfm_status fail_refused(const tfm__sharing *s, const tfm__portion *p, const tfm__told *over) {
    const tfm__mark *mark = p->covered > over->covered ? &p->marks[over->covered] : NULL;
    if (mark && (mark->source_at != over->past.source_at || mark->target_at != over->past.target_at))
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "data_next: %.800s; so it is in the text of rank %d, and rank %d has another: all must have "
                         "the same",
                         over->sentence, (int)(over - s->heads), s->ranks.rank);
    return tfm__fail(TFM_ERROR_INPUT, "%s", over->sentence);
}

tfm_status tfm__portion_take(tfm__sharing *s, tfm__portion *p, const tfm__corpus *c, tfm__pair_buffer *b, bool *full) {
    if (p->maker >= 0) {
        *full = true;
        return take_whole(&s->heads[p->maker], p, b);
    }
    tfm_status status = take_known(p, c, b, full);
    const tfm__told *over = status == TFM_OK && !*full ? find_over(s, p) : NULL;
    if (status != TFM_OK)
        return status;
    if (over && over->over == TFM__LINE_REFUSED && !p->filled)
        return fail_refused(s, p, over);
    if (over && over->over == TFM__LINES_END) { /* this rank too was there, and has counted what has no partner */
        b->counts.unpaired = p->line.counts.unpaired;
        b->whole = b->begin.line == 0;
        b->next = (tfm_data_position){.epoch = b->begin.epoch + 1};
        *full = true;
        forget_words(p);
        return TFM_OK;
    }
    *full = *full || over;
    if (*full) { /* what was told of further lines is told again for the next buffer */
        forget_words(p);
        const tfm__mark at = p->marks[p->filled - 1];
        b->counts = p->counts;
        b->counts.unpaired = at.unpaired;
        b->next.line = at.line;
        b->next.source_at = at.source_at;
        b->next.target_at = at.target_at;
        s->lines = p->filled;
    }
    return TFM_OK;
}
