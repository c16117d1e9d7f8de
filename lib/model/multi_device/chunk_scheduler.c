/* Guided self-scheduling: chunk_scheduler.h says by what rules. */
#include "model/multi_device/chunk_scheduler.h"

/* A device of which nothing is known begins with so much of a batch, and no piece is smaller unless little is left. */
#define PROBE (1.0 / 64)
/* Pieces grow at most so much from one to the next. */
#define GROWTH 4.0
/* How much of its share of what is left a device gets at a time. */
#define GUIDED 0.5
/* What is remembered of a pace when a piece is added to it. */
#define MEMORY 0.5
/* A device that is so much slower than the fastest gets the short lines. */
#define SLOW 4.0
/* A piece takes a slower device at most so many times as long as a full batch takes the fastest: results wait for all
 * lines before their own. */
#define PATIENCE 2.0
/* A device that is slower than another takes what it would be done with in so much of the time that the others need for
 * all that is left. */
#define MARGIN 0.8

tfm_status tfm__deal_begin(tfm__deal *d, tfm__line **order, size_t count, tfm__batch_limit limit, tfm__pace *paces,
                           size_t members, bool alike) {
    *d =
        (tfm__deal){.order = order, .count = count, .limit = limit, .members = members, .alike = alike, .paces = paces};
    d->out = tfm__alloc(members, sizeof(*d->out));
    d->pieces = tfm__alloc(members, sizeof(*d->pieces));
    d->ranges = tfm__alloc(members + 1, sizeof(*d->ranges));
    d->range_count = 1;
    for (size_t i = 0; i < count; i++)
        d->left += (double)order[i]->cost;
    return d->out && d->pieces && d->ranges ? TFM_OK : TFM_ERROR_MEMORY;
}

void tfm__deal_free(tfm__deal *d) {
    free(d->out);
    free(d->pieces);
    free(d->ranges);
    *d = (tfm__deal){0};
}

/* ---- How fast devices are -------------------------------------------------------------------------------------- */

static bool known(const tfm__deal *d, size_t who) {
    return d->paces[who].seconds > 0;
}

static double speed(const tfm__deal *d, size_t who) {
    return d->paces[who].work / d->paces[who].seconds;
}

/* Tokens of the piece at hand that are not done yet, as far as the pace tells. */
static double remaining(const tfm__deal *d, size_t who, double now) {
    const tfm__piece *piece = &d->pieces[who];
    const double rest = piece->busy ? piece->work - speed(d, who) * (now - piece->since) : 0;
    return rest > 0 ? rest : 0;
}

/* What is known of the other devices. */
typedef struct others {
    size_t count; /* that are not out */
    bool first;   /* none of them stands before the device */
    double speed; /* of those that are known together, and of the fastest */
    double fastest;
    double busy;    /* tokens that they have yet to do of their pieces */
    double soonest; /* the time until one of them would be done with the next line */
} others;

static others look(const tfm__deal *d, size_t who, double least, double now) {
    others o = {.first = true};
    for (size_t i = 0; i < d->members; i++) {
        if (i == who || d->out[i])
            continue;
        o.count++;
        o.first = o.first && i > who;
        if (!known(d, i))
            continue;
        const double rest = remaining(d, i, now), until = (rest + least) / speed(d, i);
        o.soonest = o.speed > 0 && o.soonest < until ? o.soonest : until;
        o.speed += speed(d, i);
        o.fastest = o.fastest > speed(d, i) ? o.fastest : speed(d, i);
        o.busy += rest;
    }
    return o;
}

/* The tokens that `who` is to get now, of which the next line has `least`. 0: none. */
static double share_of(const tfm__deal *d, size_t who, const others *o, double least) {
    const double full = (double)d->limit.tokens;
    if (o->count == 0)
        return full;
    if (!known(d, who)) {
        if (d->left > full)
            return full * PROBE > 1 ? full * PROBE : 1;
        return o->first && o->speed <= 0 ? full : 0;
    }
    const double mine = speed(d, who), all = mine + o->speed;
    double share = GUIDED * d->left * mine / all, most = GROWTH * d->paces[who].last;
    if (o->speed > 0) {
        const double together = (d->left + o->busy) / o->speed, until = together > o->soonest ? together : o->soonest;
        const double mine_until = mine * until * (mine < o->fastest ? MARGIN : 1);
        if (least > mine_until * (1 + 1e-9)) /* the fastest always goes on, whatever is rounded */
            return 0;
        most = most < mine_until ? most : mine_until;
        most = most * o->fastest < PATIENCE * full * mine ? most : PATIENCE * full * mine / o->fastest;
    }
    share = share > full * PROBE ? share : full * PROBE;
    share = share < most ? share : most;
    return share < 1 ? 1 : share < full ? share : full;
}

/* ---- Lines ----------------------------------------------------------------------------------------------------- */

/* The lines to take from: what came back from a device that failed, else the window, and when that is empty the next
 * one. */
static tfm__range *next_range(tfm__deal *d) {
    while (d->range_count > 1 && d->ranges[d->range_count - 1].first == d->ranges[d->range_count - 1].end)
        d->range_count--;
    if (d->range_count > 1)
        return &d->ranges[d->range_count - 1];
    tfm__range *window = &d->ranges[0];
    if (window->first == window->end && d->sorted < d->count) {
        *window = (tfm__range){d->sorted, d->sorted + tfm__batch_window(d->order, d->sorted, d->count, d->limit)};
        d->sorted = window->end;
    }
    return window->first < window->end ? window : NULL;
}

/* How many lines before `end` make one batch, of lines that get shorter towards it. */
static size_t count_back(const tfm__deal *d, tfm__range range, tfm__batch_limit limit) {
    size_t n = 1;
    while (n < limit.lines && range.end - n > range.first &&
           d->order[range.end - n - 1]->cost * (n + 1) <= limit.tokens)
        n++;
    return n;
}

bool tfm__deal_take(tfm__deal *d, size_t who, double now, tfm__line *const **batch, size_t *n) {
    tfm__range *range = d->out[who] ? NULL : next_range(d);
    if (!range)
        return false;
    tfm__batch_limit limit = d->limit;
    bool slow = false;
    if (!d->alike) {
        others o = look(d, who, (double)d->order[range->first]->cost, now);
        slow = known(d, who) ? speed(d, who) * SLOW < o.fastest : d->left > (double)d->limit.tokens;
        const double least = (double)d->order[slow ? range->end - 1 : range->first]->cost;
        if (slow)
            o = look(d, who, least, now);
        const double share = share_of(d, who, &o, least);
        if (share <= 0)
            return false;
        limit.tokens = share < (double)limit.tokens ? (size_t)share : limit.tokens;
    }
    *n = slow ? count_back(d, *range, limit) : tfm__batch_next(d->order, range->first, range->end, limit);
    tfm__piece *piece = &d->pieces[who];
    *piece = (tfm__piece){.since = now, .busy = true};
    piece->lines.first = slow ? range->end - *n : range->first;
    piece->lines.end = piece->lines.first + *n;
    *(slow ? &range->end : &range->first) = slow ? piece->lines.first : piece->lines.end;
    for (size_t i = piece->lines.first; i < piece->lines.end; i++)
        piece->work += (double)d->order[i]->cost;
    d->left -= piece->work;
    *batch = d->order + piece->lines.first;
    return true;
}

void tfm__deal_done(tfm__deal *d, size_t who, double seconds) {
    tfm__piece *piece = &d->pieces[who];
    tfm__pace *pace = &d->paces[who];
    piece->busy = false;
    pace->work = MEMORY * pace->work + piece->work;
    pace->seconds = MEMORY * pace->seconds + (seconds > 1e-9 ? seconds : 1e-9);
    pace->last = piece->work;
}

void tfm__deal_drop(tfm__deal *d, size_t who) {
    tfm__piece *piece = &d->pieces[who];
    d->out[who] = true;
    if (!piece->busy)
        return;
    piece->busy = false;
    d->ranges[d->range_count++] = piece->lines;
    d->left += piece->work;
}

bool tfm__deal_over(const tfm__deal *d) {
    bool over = d->sorted == d->count;
    for (size_t i = 0; i < d->members; i++)
        over = over && !d->pieces[i].busy;
    for (size_t i = 0; i < d->range_count; i++)
        over = over && d->ranges[i].first == d->ranges[i].end;
    return over;
}
