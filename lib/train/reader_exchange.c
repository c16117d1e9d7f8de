/* Communication of readers that share a buffer: headers and records of each rank go to all. */
#include <string.h>
#include "train/distributed_reader.h"
#include "train/process_group.h"

/* ---- Open and close -------------------------------------------------------------------------------------------- */

/* With different options, ranks would wait for each other forever, or train on wrong batches. */
static uint64_t hash_options(const tfm_data_options *o) {
    const int64_t numbers[] = {o->batch_tokens, o->max_length, o->buffer_size, (int64_t)o->seed, o->holdout_every,
                               o->in_order,     o->strict,     o->seq_len,     o->has_eos_id,    o->eos_id};
    tfm__hash hash = {0};
    tfm__hash_add(&hash, numbers, sizeof(numbers));
    tfm__hash_add(&hash, &o->subword_alpha, sizeof(o->subword_alpha));
    return tfm__hash_finish(&hash);
}

tfm_status tfm__reader_exchange_open(tfm__reader_exchange *s, const tfm_data_options *options) {
    enum { WORDS = 1 << 18, MIN_WORDS = 1 << 10 };
    const tfm_process_group *const ranks = options->process_group;
    if (tfm__process_group_check(ranks, "data_open") != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (!ranks || ranks->world_size == 1)
        return TFM_OK;
    const size_t world = (size_t)ranks->world_size;
    s->chunk_words = WORDS / world > MIN_WORDS ? WORDS / world : MIN_WORDS;
    s->headers = tfm__alloc(world, sizeof(*s->headers));
    s->send_words = tfm__alloc(s->chunk_words, sizeof(*s->send_words));
    s->recv_words = tfm__alloc(world * s->chunk_words, sizeof(*s->recv_words));
    s->part_words = tfm__alloc(world * s->chunk_words, sizeof(*s->part_words));
    if (!s->headers || !s->send_words || !s->recv_words || !s->part_words)
        return TFM_ERROR_MEMORY;
    s->group = *ranks;
    s->options_hash = hash_options(options);
    return TFM_OK;
}

void tfm__reader_exchange_close(tfm__reader_exchange *s) {
    free(s->headers);
    free(s->send_words);
    free(s->recv_words);
    free(s->part_words);
    *s = (tfm__reader_exchange){0};
}

/* ---- One buffer ------------------------------------------------------------------------------------------------ */

/* Ranks without errors must be at the same position of the same text. */
static tfm_status compare_headers(const tfm__reader_header *first, const tfm__reader_header *other, int rank) {
    if (first->position_hash != other->position_hash)
        return tfm__fail(
            TFM_ERROR_ARGUMENT,
            "data_next: rank %d is at another position of the text than rank 0: all ranks must read the same "
            "files with the same options, from the same place on, and make the same calls",
            rank);
    if ((first->read_state == TFM__READ_END && other->lines_read > first->lines_read) ||
        (other->read_state == TFM__READ_END && first->lines_read > other->lines_read))
        return tfm__fail(
            TFM_ERROR_ARGUMENT,
            "data_next: the text of rank %d has another number of lines than rank 0's: all ranks must have the "
            "same text",
            rank);
    return TFM_OK;
}

tfm_status tfm__reader_exchange_agree(tfm__reader_exchange *s, const tfm__buffer_shard *p,
                                      const tfm_data_position *place, bool full, tfm_status status) {
    tfm__reader_header mine = {.status = status};
    const int64_t numbers[] = {place->epoch,         place->batch,         place->line,
                               place->source_offset, place->target_offset, full ? 1 : 0};
    tfm__hash hash = {0};
    tfm__hash_add(&hash, numbers, sizeof(numbers));
    tfm__hash_add(&hash, &s->options_hash, sizeof(s->options_hash));
    mine.position_hash = tfm__hash_finish(&hash);
    if (status == TFM_OK) {
        mine.lines_read = p->lines_read;
        mine.word_count = (int64_t)p->word_count;
        mine.read_state = p->read_state;
        memcpy(mine.error, p->error, sizeof(mine.error));
        mine.error_position = p->error_position;
        mine.counts = p->scratch.counts;
        mine.next = p->scratch.next;
    }
    if (!s->group.all_gather(s->group.user, s->headers, &mine, sizeof(mine)))
        return tfm__process_group_lost("data_next");
    for (int i = 0; i < s->group.world_size && status == TFM_OK; i++)
        if (s->headers[i].status != TFM_OK)
            status = tfm__fail(TFM_ERROR_CANCELLED, "data_next: rank %d has failed, with %s", i,
                               tfm_status_name((tfm_status)s->headers[i].status));
    for (int i = 1; i < s->group.world_size && status == TFM_OK; i++)
        status = compare_headers(&s->headers[0], &s->headers[i], i);
    return status;
}

static tfm_status append_words(tfm__rank_records *to, const int32_t *words, size_t count) {
    tfm_status status = tfm__grow(&to->words, &to->capacity, to->count + count, sizeof(*words));
    if (status != TFM_OK || count == 0)
        return status;
    memcpy(to->words + to->count, words, count * sizeof(*words));
    to->count += count;
    return TFM_OK;
}

/* Broadcasts a rank's records in two steps, a part to each rank and from there to all, because an all-gather has equal
 * sizes on all ranks. */
static tfm_status broadcast_records(tfm__reader_exchange *s, tfm__buffer_shard *p) {
    const size_t count = (size_t)s->headers[p->owner_rank].word_count, world = (size_t)p->world;
    tfm_status status = TFM_OK;
    for (size_t at = 0; at < count; at += s->chunk_words * world) {
        const size_t left = count - at, even = (left + world - 1) / world,
                     size = even < s->chunk_words ? even : s->chunk_words;
        const size_t now = left < size * world ? left : size * world;
        memset(s->recv_words, 0, size * world * sizeof(*s->recv_words));
        if (p->owner_rank == s->group.rank)
            memcpy(s->recv_words, p->words + at, now * sizeof(*s->recv_words));
        if (!s->group.all_to_all(s->group.user, s->part_words, s->recv_words, size * sizeof(*s->recv_words)) ||
            !s->group.all_gather(s->group.user, s->recv_words, s->part_words + (size_t)p->owner_rank * size,
                                 size * sizeof(*s->recv_words)))
            return tfm__process_group_lost("data_next");
        if (status == TFM_OK)
            status = append_words(&p->records[p->owner_rank], s->recv_words, now);
    }
    p->word_count = 0;
    return status;
}

tfm_status tfm__reader_exchange_records(tfm__reader_exchange *s, tfm__buffer_shard *p) {
    if (p->owner_rank >= 0)
        return broadcast_records(s, p);
    tfm_status status = TFM_OK;
    size_t most = 0;
    p->lines_known = s->headers[0].lines_read;
    for (int i = 0; i < p->world; i++) {
        most = (size_t)s->headers[i].word_count > most ? (size_t)s->headers[i].word_count : most;
        p->lines_known = s->headers[i].lines_read < p->lines_known ? s->headers[i].lines_read : p->lines_known;
    }
    for (size_t at = 0; at < most; at += s->chunk_words) {
        const size_t size = most - at < s->chunk_words ? most - at : s->chunk_words;
        const size_t own = p->word_count > at ? p->word_count - at : 0;
        memset(s->send_words, 0, size * sizeof(*s->send_words));
        if (own > 0)
            memcpy(s->send_words, p->words + at, (own < size ? own : size) * sizeof(*s->send_words));
        if (!s->group.all_gather(s->group.user, s->recv_words, s->send_words, size * sizeof(*s->send_words)))
            return tfm__process_group_lost("data_next");
        for (int i = 0; i < p->world && status == TFM_OK; i++) {
            const size_t left = (size_t)s->headers[i].word_count > at ? (size_t)s->headers[i].word_count - at : 0;
            status = append_words(&p->records[i], s->recv_words + (size_t)i * size, left < size ? left : size);
        }
    }
    p->word_count = 0;
    return status;
}
