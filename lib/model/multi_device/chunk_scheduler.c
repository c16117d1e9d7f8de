/* Guided self-scheduling; chunk_scheduler.h has the rules. */
#include "model/multi_device/chunk_scheduler.h"

/* The first chunk of an unmeasured device, as part of a batch; also the minimum chunk size, unless little is left. */
#define INITIAL_PART (1.0 / 64)
/* Maximum growth from one chunk to the next. */
#define MAX_GROWTH 4.0
/* Part of its share of the remaining work that a device gets at a time. */
#define SHARE_PART 0.5
/* Weight of older chunks in the measured throughput. */
#define DECAY 0.5
/* A device this much slower than the fastest gets the short lines. */
#define SLOW_RATIO 4.0
/* Maximum time of a chunk on a slower device, relative to a full batch on the fastest: results are delivered in
 * order. */
#define MAX_LATENCY_RATIO 2.0
/* A slower device only takes work that it finishes within this part of the time the others need for all remaining
 * work. */
#define MARGIN 0.8

tfm_status tfm__chunk_scheduler_begin(tfm__chunk_scheduler *d, tfm__line **order, size_t count, tfm__batch_limit limit,
                                      tfm__throughput *throughputs, size_t members, bool same_device) {
    *d = (tfm__chunk_scheduler){.order = order,
                                .count = count,
                                .limit = limit,
                                .members = members,
                                .same_device = same_device,
                                .throughputs = throughputs};
    d->excluded = tfm__alloc(members, sizeof(*d->excluded));
    d->chunks = tfm__alloc(members, sizeof(*d->chunks));
    d->ranges = tfm__alloc(members + 1, sizeof(*d->ranges));
    d->range_count = 1;
    for (size_t i = 0; i < count; i++)
        d->left += (double)order[i]->cost;
    return d->excluded && d->chunks && d->ranges ? TFM_OK : TFM_ERROR_MEMORY;
}

void tfm__chunk_scheduler_free(tfm__chunk_scheduler *d) {
    free(d->excluded);
    free(d->chunks);
    free(d->ranges);
    *d = (tfm__chunk_scheduler){0};
}

/* ---- Throughput ------------------------------------------------------------------------------------------------ */

static bool is_measured(const tfm__chunk_scheduler *d, size_t member) {
    return d->throughputs[member].seconds > 0;
}

static double speed(const tfm__chunk_scheduler *d, size_t member) {
    return d->throughputs[member].work / d->throughputs[member].seconds;
}

/* Unfinished tokens of the current chunk, estimated from the throughput. */
static double remaining(const tfm__chunk_scheduler *d, size_t member, double now) {
    const tfm__work_chunk *chunk = &d->chunks[member];
    const double rest = chunk->busy ? chunk->work - speed(d, member) * (now - chunk->since) : 0;
    return rest > 0 ? rest : 0;
}

/* Estimates for the other devices. */
typedef struct other_members {
    size_t count; /* not excluded */
    bool first;   /* the device is the first one left */
    double speed; /* sum over the measured ones, and the fastest */
    double fastest;
    double busy;    /* remaining tokens of their chunks */
    double soonest; /* earliest time at which one of them would finish the next line */
} other_members;

static other_members survey_others(const tfm__chunk_scheduler *d, size_t member, double least, double now) {
    other_members o = {.first = true};
    for (size_t i = 0; i < d->members; i++) {
        if (i == member || d->excluded[i])
            continue;
        o.count++;
        o.first = o.first && i > member;
        if (!is_measured(d, i))
            continue;
        const double rest = remaining(d, i, now), until = (rest + least) / speed(d, i);
        o.soonest = o.speed > 0 && o.soonest < until ? o.soonest : until;
        o.speed += speed(d, i);
        o.fastest = o.fastest > speed(d, i) ? o.fastest : speed(d, i);
        o.busy += rest;
    }
    return o;
}

/* Number of tokens for `member` now; `least`: tokens of the next line. 0: none. */
static double share_of(const tfm__chunk_scheduler *d, size_t member, const other_members *o, double least) {
    const double full = (double)d->limit.tokens;
    if (o->count == 0)
        return full;
    if (!is_measured(d, member)) {
        if (d->left > full)
            return full * INITIAL_PART > 1 ? full * INITIAL_PART : 1;
        return o->first && o->speed <= 0 ? full : 0;
    }
    const double mine = speed(d, member), all = mine + o->speed;
    double share = SHARE_PART * d->left * mine / all, most = MAX_GROWTH * d->throughputs[member].last;
    if (o->speed > 0) {
        const double together = (d->left + o->busy) / o->speed, until = together > o->soonest ? together : o->soonest;
        const double mine_until = mine * until * (mine < o->fastest ? MARGIN : 1);
        if (least > mine_until * (1 + 1e-9)) /* the fastest always continues, despite rounding */
            return 0;
        most = most < mine_until ? most : mine_until;
        most =
            most * o->fastest < MAX_LATENCY_RATIO * full * mine ? most : MAX_LATENCY_RATIO * full * mine / o->fastest;
    }
    share = share > full * INITIAL_PART ? share : full * INITIAL_PART;
    share = share < most ? share : most;
    return share < 1 ? 1 : share < full ? share : full;
}

/* ---- Lines ----------------------------------------------------------------------------------------------------- */

/* The lines to take from: those returned by a failed device, else the window, else the next window. */
static tfm__line_range *next_range(tfm__chunk_scheduler *d) {
    while (d->range_count > 1 && d->ranges[d->range_count - 1].first == d->ranges[d->range_count - 1].end)
        d->range_count--;
    if (d->range_count > 1)
        return &d->ranges[d->range_count - 1];
    tfm__line_range *window = &d->ranges[0];
    if (window->first == window->end && d->sorted < d->count) {
        *window = (tfm__line_range){d->sorted, d->sorted + tfm__batch_window(d->order, d->sorted, d->count, d->limit)};
        d->sorted = window->end;
    }
    return window->first < window->end ? window : NULL;
}

/* Number of lines before `end` that form a batch; lines get shorter towards `end`. */
static size_t count_from_end(const tfm__chunk_scheduler *d, tfm__line_range range, tfm__batch_limit limit) {
    size_t n = 1;
    while (n < limit.lines && range.end - n > range.first &&
           d->order[range.end - n - 1]->cost * (n + 1) <= limit.tokens)
        n++;
    return n;
}

bool tfm__chunk_scheduler_next(tfm__chunk_scheduler *d, size_t member, double now, tfm__line *const **batch,
                               size_t *n) {
    tfm__line_range *range = d->excluded[member] ? NULL : next_range(d);
    if (!range)
        return false;
    tfm__batch_limit limit = d->limit;
    bool slow = false;
    if (!d->same_device) {
        other_members o = survey_others(d, member, (double)d->order[range->first]->cost, now);
        slow = is_measured(d, member) ? speed(d, member) * SLOW_RATIO < o.fastest : d->left > (double)d->limit.tokens;
        const double least = (double)d->order[slow ? range->end - 1 : range->first]->cost;
        if (slow)
            o = survey_others(d, member, least, now);
        const double share = share_of(d, member, &o, least);
        if (share <= 0)
            return false;
        limit.tokens = share < (double)limit.tokens ? (size_t)share : limit.tokens;
    }
    *n = slow ? count_from_end(d, *range, limit) : tfm__batch_next(d->order, range->first, range->end, limit);
    tfm__work_chunk *chunk = &d->chunks[member];
    *chunk = (tfm__work_chunk){.since = now, .busy = true};
    chunk->lines.first = slow ? range->end - *n : range->first;
    chunk->lines.end = chunk->lines.first + *n;
    *(slow ? &range->end : &range->first) = slow ? chunk->lines.first : chunk->lines.end;
    for (size_t i = chunk->lines.first; i < chunk->lines.end; i++)
        chunk->work += (double)d->order[i]->cost;
    d->left -= chunk->work;
    *batch = d->order + chunk->lines.first;
    return true;
}

void tfm__chunk_scheduler_complete(tfm__chunk_scheduler *d, size_t member, double seconds) {
    tfm__work_chunk *chunk = &d->chunks[member];
    tfm__throughput *throughput = &d->throughputs[member];
    chunk->busy = false;
    throughput->work = DECAY * throughput->work + chunk->work;
    throughput->seconds = DECAY * throughput->seconds + (seconds > 1e-9 ? seconds : 1e-9);
    throughput->last = chunk->work;
}

void tfm__chunk_scheduler_drop(tfm__chunk_scheduler *d, size_t member) {
    tfm__work_chunk *chunk = &d->chunks[member];
    d->excluded[member] = true;
    if (!chunk->busy)
        return;
    chunk->busy = false;
    d->ranges[d->range_count++] = chunk->lines;
    d->left += chunk->work;
}

bool tfm__chunk_scheduler_finished(const tfm__chunk_scheduler *d) {
    bool over = d->sorted == d->count;
    for (size_t i = 0; i < d->members; i++)
        over = over && !d->chunks[i].busy;
    for (size_t i = 0; i < d->range_count; i++)
        over = over && d->ranges[i].first == d->ranges[i].end;
    return over;
}
