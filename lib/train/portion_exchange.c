/* The communication of readers that share a buffer: what each rank has read, and the records of its lines, go to all.
 */
#include <string.h>
#include "train/distributed_reader.h"
#include "train/process_group.h"

/* ---- Open and close -------------------------------------------------------------------------------------------- */

/* Ranks that were asked for other batches would wait for each other in vain, or learn what none was asked for. */
static uint64_t hash_of(const tfm_data_options *o) {
    const int64_t numbers[] = {o->tokens,   o->max_length, o->buffer, (int64_t)o->seed, o->hold_every,
                               o->in_order, o->strict,     o->block,  o->has_end,       o->end};
    tfm__hash hash = {0};
    tfm__hash_add(&hash, numbers, sizeof(numbers));
    tfm__hash_add(&hash, &o->subword_alpha, sizeof(o->subword_alpha));
    return tfm__hash_finish(&hash);
}

tfm_status tfm__sharing_open(tfm__sharing *s, const tfm_data_options *options) {
    enum { WORDS = 1 << 18, LEAST = 1 << 10 };
    const tfm_ranks *const ranks = options->ranks;
    if (tfm__ranks_check(ranks, "data_open") != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (!ranks || ranks->world == 1)
        return TFM_OK;
    const size_t world = (size_t)ranks->world;
    s->piece = WORDS / world > LEAST ? WORDS / world : LEAST;
    s->heads = tfm__alloc(world, sizeof(*s->heads));
    s->own = tfm__alloc(s->piece, sizeof(*s->own));
    s->all = tfm__alloc(world * s->piece, sizeof(*s->all));
    s->parts = tfm__alloc(world * s->piece, sizeof(*s->parts));
    if (!s->heads || !s->own || !s->all || !s->parts)
        return TFM_ERROR_MEMORY;
    s->ranks = *ranks;
    s->asked = hash_of(options);
    return TFM_OK;
}

void tfm__sharing_close(tfm__sharing *s) {
    free(s->heads);
    free(s->own);
    free(s->all);
    free(s->parts);
    *s = (tfm__sharing){0};
}

/* ---- One buffer ------------------------------------------------------------------------------------------------ */

/* Of ranks that are well, all must be at one place of one text. */
static tfm_status compare(const tfm__told *first, const tfm__told *other, int rank) {
    if (first->place != other->place)
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "data_next: rank %d is at another place of the text than rank 0: all ranks read the same "
                         "files with the same options, from the same place on, and make the same calls",
                         rank);
    if ((first->over == TFM__LINES_END && other->covered > first->covered) ||
        (other->over == TFM__LINES_END && first->covered > other->covered))
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "data_next: the text of rank %d has not as many lines as that of rank 0: all must have the "
                         "same",
                         rank);
    return TFM_OK;
}

tfm_status tfm__portion_agree(tfm__sharing *s, const tfm__portion *p, const tfm_data_position *place, bool full,
                              tfm_status status) {
    tfm__told mine = {.status = status};
    const int64_t numbers[] = {place->epoch,     place->batch,     place->line,
                               place->source_at, place->target_at, full ? 1 : 0};
    tfm__hash hash = {0};
    tfm__hash_add(&hash, numbers, sizeof(numbers));
    tfm__hash_add(&hash, &s->asked, sizeof(s->asked));
    mine.place = tfm__hash_finish(&hash);
    if (status == TFM_OK) {
        mine.covered = p->covered;
        mine.words = (int64_t)p->word_count;
        mine.over = p->over;
        memcpy(mine.sentence, p->sentence, sizeof(mine.sentence));
        mine.past = p->past;
        mine.counts = p->line.counts;
        mine.next = p->line.next;
    }
    if (!s->ranks.gather(s->ranks.user, s->heads, &mine, sizeof(mine)))
        return tfm__ranks_lost("data_next");
    for (int i = 0; i < s->ranks.world && status == TFM_OK; i++)
        if (s->heads[i].status != TFM_OK)
            status = tfm__fail(TFM_ERROR_CANCELLED, "data_next: rank %d has failed, with %s", i,
                               tfm_status_name((tfm_status)s->heads[i].status));
    for (int i = 1; i < s->ranks.world && status == TFM_OK; i++)
        status = compare(&s->heads[0], &s->heads[i], i);
    return status;
}

static tfm_status append(tfm__rank_records *to, const int32_t *words, size_t count) {
    tfm_status status = tfm__grow(&to->words, &to->room, to->count + count, sizeof(*words));
    if (status != TFM_OK || count == 0)
        return status;
    memcpy(to->words + to->count, words, count * sizeof(*words));
    to->count += count;
    return TFM_OK;
}

/* What one rank has to tell goes to all in two steps, a part of it to each and from there to all, since a gathering has
 * as many words of each rank. */
static tfm_status tell_from_one(tfm__sharing *s, tfm__portion *p) {
    const size_t count = (size_t)s->heads[p->maker].words, world = (size_t)p->world;
    tfm_status status = TFM_OK;
    for (size_t at = 0; at < count; at += s->piece * world) {
        const size_t left = count - at, even = (left + world - 1) / world, size = even < s->piece ? even : s->piece;
        const size_t now = left < size * world ? left : size * world;
        memset(s->all, 0, size * world * sizeof(*s->all));
        if (p->maker == s->ranks.rank)
            memcpy(s->all, p->words + at, now * sizeof(*s->all));
        if (!s->ranks.exchange(s->ranks.user, s->parts, s->all, size * sizeof(*s->all)) ||
            !s->ranks.gather(s->ranks.user, s->all, s->parts + (size_t)p->maker * size, size * sizeof(*s->all)))
            return tfm__ranks_lost("data_next");
        if (status == TFM_OK)
            status = append(&p->streams[p->maker], s->all, now);
    }
    p->word_count = 0;
    return status;
}

tfm_status tfm__portion_tell(tfm__sharing *s, tfm__portion *p) {
    if (p->maker >= 0)
        return tell_from_one(s, p);
    tfm_status status = TFM_OK;
    size_t most = 0;
    p->known = s->heads[0].covered;
    for (int i = 0; i < p->world; i++) {
        most = (size_t)s->heads[i].words > most ? (size_t)s->heads[i].words : most;
        p->known = s->heads[i].covered < p->known ? s->heads[i].covered : p->known;
    }
    for (size_t at = 0; at < most; at += s->piece) {
        const size_t size = most - at < s->piece ? most - at : s->piece;
        const size_t own = p->word_count > at ? p->word_count - at : 0;
        memset(s->own, 0, size * sizeof(*s->own));
        if (own > 0)
            memcpy(s->own, p->words + at, (own < size ? own : size) * sizeof(*s->own));
        if (!s->ranks.gather(s->ranks.user, s->all, s->own, size * sizeof(*s->own)))
            return tfm__ranks_lost("data_next");
        for (int i = 0; i < p->world && status == TFM_OK; i++) {
            const size_t left = (size_t)s->heads[i].words > at ? (size_t)s->heads[i].words - at : 0;
            status = append(&p->streams[i], s->all + (size_t)i * size, left < size ? left : size);
        }
    }
    p->word_count = 0;
    return status;
}
