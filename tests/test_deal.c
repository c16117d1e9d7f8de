/* Who of several devices gets which lines, with devices whose speed is made up and a clock that only this test moves.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "harness.h"
#include "model/task/deal.h"

enum { MEMBERS = 4, MOST_LINES = 4000 };

/* A device that works on so many tokens a second, after so many seconds for each piece, and fails at a time. Once it
 * has lost a piece it ends it in a step. */
typedef struct simulated {
    double speed, latency, fails;
} simulated;

static const double STEP = 0.01;

typedef struct run {
    size_t members;
    simulated devices[MEMBERS];
    tfm__pace paces[MEMBERS];
    tfm__batch_limit limit;
    size_t lines, pieces[MEMBERS];
    double work[MEMBERS], until[MEMBERS], largest[MEMBERS], total, seconds;
    size_t last;           /* who was done last */
    size_t again[MEMBERS]; /* pieces that were another one's at the time */
    size_t lost[MEMBERS];
} run;

static tfm__line lines[MOST_LINES];
static tfm__line *order[MOST_LINES];
static int times[MOST_LINES];

static void make_lines(run *r, size_t count, uint64_t seed) {
    harness_random random = {seed};
    r->lines = count;
    r->total = 0;
    for (size_t i = 0; i < count; i++) {
        lines[i] = (tfm__line){.index = i, .line = i, .cost = (size_t)harness_range(&random, 1, 60)};
        lines[i].count = lines[i].cost;
        order[i] = &lines[i];
        times[i] = 0;
        r->total += (double)lines[i].cost;
    }
}

/* The next device that is done, or -1. */
static int soonest(const run *r, const bool *busy) {
    int best = -1;
    for (size_t i = 0; i < r->members; i++)
        if (busy[i] && (best < 0 || r->until[i] < r->until[best]))
            best = (int)i;
    return best;
}

/* Gives each device that waits what it may have. */
static void give(run *r, tfm__deal *deal, bool *busy, double now) {
    for (size_t i = 0; i < r->members; i++) {
        tfm__line *const *batch;
        size_t n;
        if (busy[i] || !tfm__deal_take(deal, i, now, &batch, &n))
            continue;
        double work = 0;
        assert_true(n >= 1 && n <= r->limit.lines);
        for (size_t k = 0; k < n; k++) {
            work += (double)batch[k]->cost;
            assert_int_equal(times[batch[k]->index], deal->pieces[i].twin ? 1 : 0);
            times[batch[k]->index] = 1; /* until it is done or comes back */
        }
        if (deal->pieces[i].twin) {
            const size_t other = deal->pieces[i].twin - 1;
            assert_true(busy[other] && deal->pieces[other].twin == i + 1);
            assert_int_equal(deal->pieces[other].lines.first, deal->pieces[i].lines.first);
            r->again[i]++;
        }
        assert_true(n == 1 || work <= (double)r->limit.tokens);
        busy[i] = true;
        r->pieces[i]++;
        r->until[i] = now + r->devices[i].latency + work / r->devices[i].speed;
        r->largest[i] = work > r->largest[i] ? work : r->largest[i];
    }
}

/* When a device that waits asks again, though nothing has happened. */
static double next_ask(const run *r, const tfm__deal *deal, const bool *busy) {
    double at = INFINITY;
    for (size_t i = 0; i < r->members; i++)
        if (!busy[i])
            at = fmin(at, tfm__deal_ask_at(deal, i));
    return at;
}

/* A device is done with its piece, or fails, or ends what it has lost. */
static void finish(run *r, tfm__deal *deal, size_t who, double now, bool failed) {
    const tfm__piece piece = deal->pieces[who];
    size_t loser;
    if (failed) {
        for (size_t i = piece.lines.first; i < piece.lines.end && !piece.twin && !piece.lost; i++)
            times[order[i]->index] = 0;
        tfm__deal_drop(deal, who);
        return;
    }
    assert_int_equal(tfm__deal_lost(deal, who), !tfm__deal_keep(deal, who, &loser));
    if (piece.lost) {
        r->lost[who]++;
    } else {
        assert_int_equal(loser, piece.twin ? piece.twin - 1 : r->members);
        if (piece.twin)
            r->until[loser] = fmin(r->until[loser], now + STEP);
        r->work[who] += piece.work;
        r->last = who;
        r->seconds = now;
    }
    tfm__deal_done(deal, who, now - piece.since);
}

/* Deals all lines. A device that fails in the middle of a piece gives it back. */
static void deal_all(run *r) {
    tfm__deal deal;
    bool busy[MEMBERS] = {false};
    double now = 0;
    for (size_t i = 0; i < r->members; i++)
        r->pieces[i] = r->again[i] = r->lost[i] = 0, r->work[i] = r->until[i] = r->largest[i] = 0;
    harness_ok(tfm__deal_begin(&deal, order, r->lines, r->limit, r->paces, r->members, false));
    for (int who; give(r, &deal, busy, now), (who = soonest(r, busy)) >= 0;) {
        const double fails = r->devices[who].fails, asks = next_ask(r, &deal, busy);
        const double then = fails > 0 && r->until[who] > fails ? fmax(fails, now) : r->until[who];
        assert_true(deal.pieces[who].lost || !tfm__deal_over(&deal));
        if (asks < then) {
            assert_true(asks > now);
            now = asks;
            continue;
        }
        now = then;
        busy[who] = false;
        finish(r, &deal, (size_t)who, now, now < r->until[who]);
    }
    assert_true(now <= r->seconds + STEP + 1e-9); /* what is lost keeps nobody */
    assert_true(tfm__deal_over(&deal));
    for (size_t i = 0; i < r->lines; i++)
        assert_int_equal(times[i], 1);
    tfm__deal_free(&deal);
}

static double ideal(const run *r) {
    double speed = 0;
    for (size_t i = 0; i < r->members; i++)
        speed += r->devices[i].speed;
    return r->total / speed;
}

static run made(size_t members, double first, double second, double third) {
    return (run){.members = members,
                 .devices = {{first, 0.001, 0}, {second, 0.001, 0}, {third, 0.001, 0}},
                 .limit = {.tokens = 512, .lines = 64, .ahead = 16}};
}

static void test_equal_devices_share_evenly(void **state) {
    (void)state;
    run r = made(2, 1000, 1000, 0);
    make_lines(&r, 2000, 1);
    deal_all(&r);
    assert_true(r.seconds < 1.1 * ideal(&r));
    assert_true(r.work[0] > 0.45 * r.total && r.work[1] > 0.45 * r.total);
}

/* Contexts on one device, whoever asks and however fast he was: the batches that one alone makes, in their order. */
static void test_one_device(void **state) {
    (void)state;
    const tfm__batch_limit limit = {.tokens = 512, .lines = 64, .ahead = 4};
    tfm__pace paces[MEMBERS] = {{100, 1, 100}, {0, 0, 0}, {100, 1000, 1}};
    harness_random random = {3};
    run r = {0};
    tfm__deal deal;
    size_t first = 0, sorted = 0;
    static tfm__line *alone[MOST_LINES];
    make_lines(&r, 1000, 5);
    memcpy(alone, order, sizeof(order));
    harness_ok(tfm__deal_begin(&deal, order, r.lines, limit, paces, 3, true));
    while (first < r.lines) {
        tfm__line *const *batch;
        const size_t who = (size_t)harness_range(&random, 0, 2);
        size_t n;
        assert_true(tfm__deal_take(&deal, who, 0, &batch, &n));
        if (first == sorted)
            sorted += tfm__batch_window(alone, first, r.lines, limit);
        assert_int_equal(n, tfm__batch_next(alone, first, sorted, limit));
        assert_memory_equal(batch, alone + first, n * sizeof(*batch));
        tfm__deal_done(&deal, who, 1 + (double)who);
        first += n;
    }
    assert_true(tfm__deal_over(&deal));
    tfm__deal_free(&deal);
}

/* Ten and a hundred times slower, whichever stands first: small pieces, its share at most, and never the last one. */
static void test_a_slow_device(void **state) {
    (void)state;
    for (int k = 0; k < 4; k++) {
        const double slow = k < 2 ? 100 : 10;
        const size_t which = (size_t)k % 2;
        run r = which ? made(2, 1000, slow, 0) : made(2, slow, 1000, 0);
        for (uint64_t call = 0; call < 5; call++) {
            make_lines(&r, 1500, 7 + call);
            deal_all(&r);
            assert_int_equal(r.last, 1 - which);
            assert_true(r.seconds < 1.15 * ideal(&r) + 0.2);
            assert_true(r.largest[which] < 0.4 * r.largest[1 - which] + 64);
            assert_true(call == 0 || r.work[which] > 0.3 * r.total * slow / (1000 + slow));
        }
    }
}

/* One that is so slow that the other is done with all before it is with its first piece: what it was at is done again,
 * and nobody waits for it. That is not known of it at the first call, and known at the second. */
static void test_a_piece_is_done_again(void **state) {
    (void)state;
    for (size_t which = 0; which < 2; which++) {
        run r = which ? made(2, 1000, 0.01, 0) : made(2, 0.01, 1000, 0);
        for (uint64_t call = 0; call < 3; call++) {
            make_lines(&r, 200, 7 + call);
            deal_all(&r);
            assert_int_equal(r.last, 1 - which);
            assert_true(r.seconds < 1.1 * r.total / 1000 + 0.1);
            assert_int_equal(r.again[1 - which], call == 0 ? 1 : r.lost[which]);
            assert_true(r.lost[which] == 1 || call > 0);
            assert_true(r.work[which] == 0);
        }
    }
}

/* A device gets slower than it was by far; and the one that does its piece again may be the one that fails, or lose. */
static void test_a_device_that_hangs(void **state) {
    (void)state;
    for (int k = 0; k < 40; k++) {
        run r = made(2, 1000, 800, 0);
        make_lines(&r, 400, 3);
        deal_all(&r);
        assert_int_equal(r.again[0] + r.again[1], 0); /* what is as fast as ever is let alone */
        r.devices[k % 2].latency = 100 + k;
        if (k % 3 == 0)
            r.devices[1 - k % 2].fails = ideal(&r) + 0.05 * k;
        make_lines(&r, 400, 5);
        deal_all(&r);
        assert_true(r.work[0] + r.work[1] == r.total);
        if (k % 3)
            assert_true(r.again[1 - k % 2] > 0 && r.lost[k % 2] > 0 && r.seconds < 2.5 * ideal(&r));
    }
}

/* One line of 50 tokens, which three devices of a thousand a second would have. */
static void begin_one(tfm__deal *deal, tfm__pace *paces, tfm__line *const **batch, size_t *n) {
    run r = {0};
    make_lines(&r, 1, 1);
    lines[0].cost = lines[0].count = 50;
    for (size_t i = 0; i < 3; i++)
        paces[i] = (tfm__pace){1000, 1, 100};
    harness_ok(
        tfm__deal_begin(deal, order, 1, (tfm__batch_limit){.tokens = 512, .lines = 64, .ahead = 4}, paces, 3, false));
    assert_true(tfm__deal_take(deal, 0, 0, batch, n));
    assert_false(tfm__deal_take(deal, 1, 0.1, batch, n));
    assert_true(fabs(tfm__deal_ask_at(deal, 1) - 0.1125) < 1e-9);
    assert_true(tfm__deal_take(deal, 1, 0.1125, batch, n));
    assert_true(*batch == order && *n == 1);
    assert_false(tfm__deal_take(deal, 2, 9, batch, n)); /* two are enough */
    assert_true(tfm__deal_ask_at(deal, 2) == INFINITY);
}

static void test_two_at_one_piece(void **state) {
    (void)state;
    tfm__deal deal;
    tfm__pace paces[3];
    tfm__line *const *batch;
    size_t n, loser;
    begin_one(&deal, paces, &batch, &n);
    tfm__deal_drop(&deal, 1); /* the first still has it, and the third may help */
    assert_false(tfm__deal_over(&deal));
    assert_true(tfm__deal_take(&deal, 2, 9, &batch, &n));
    assert_int_equal(deal.pieces[2].twin, 1);
    assert_true(tfm__deal_keep(&deal, 0, &loser));
    assert_int_equal(loser, 2);
    assert_true(tfm__deal_keep(&deal, 0, &loser)); /* as often as it likes */
    assert_int_equal(loser, 3);
    const tfm__deal kept = deal;
    tfm__piece pieces[3];
    tfm__pace known[3];
    memcpy(pieces, deal.pieces, sizeof(pieces));
    memcpy(known, paces, sizeof(known));
    tfm__deal_done(&deal, 2, 0.001); /* it ends before the first one has put its results away, */
    assert_false(tfm__deal_take(&deal, 2, 9.1, &batch, &n)); /* and does not begin with them anew */
    deal = kept;
    memcpy(deal.pieces, pieces, sizeof(pieces));
    memcpy(paces, known, sizeof(known));
    tfm__deal_done(&deal, 0, 9);
    assert_true(tfm__deal_over(&deal)); /* whatever the third is at */
    assert_true(tfm__deal_lost(&deal, 2) && !tfm__deal_keep(&deal, 2, &loser));
    tfm__deal_done(&deal, 2, 0.001); /* hardly begun: that says nothing of its speed */
    assert_true(paces[2].work == 1000 && paces[2].seconds == 1);
    tfm__deal_free(&deal);

    begin_one(&deal, paces, &batch, &n);
    tfm__deal_drop(&deal, 0); /* the second has it alone */
    assert_false(tfm__deal_take(&deal, 2, 0.1125, &batch, &n));
    assert_true(tfm__deal_keep(&deal, 1, &loser));
    assert_int_equal(loser, 3);
    tfm__deal_drop(&deal, 1); /* after all */
    assert_true(tfm__deal_take(&deal, 2, 0.2, &batch, &n));
    assert_int_equal(deal.pieces[2].twin, 0);
    tfm__deal_free(&deal);

    begin_one(&deal, paces, &batch, &n);
    assert_true(tfm__deal_keep(&deal, 1, &loser));
    assert_int_equal(loser, 0);
    tfm__deal_drop(&deal, 0); /* what has lost does not come back */
    tfm__deal_done(&deal, 1, 0.05);
    assert_true(tfm__deal_over(&deal));
    tfm__deal_free(&deal);

    begin_one(&deal, paces, &batch, &n);
    assert_true(tfm__deal_keep(&deal, 1, &loser));
    tfm__deal_done(&deal, 1, 0.05);
    tfm__deal_done(&deal, 0, 10); /* it is no faster than that */
    assert_true(paces[0].seconds == 10.5);
    tfm__deal_free(&deal);
}

/* With the little that is left at the end, and where there is little from the beginning, the fast one is not kept
 * waiting. */
static void test_a_few_lines(void **state) {
    (void)state;
    for (size_t count = 1; count <= 12; count++) {
        run r = made(3, 500, 1000, 10);
        make_lines(&r, count, count);
        deal_all(&r);
        assert_int_equal(r.pieces[1] + r.pieces[2], 0); /* nothing is known: the first device, all of it */
        make_lines(&r, 1500, 5);
        deal_all(&r);
        make_lines(&r, count, count);
        deal_all(&r);
        assert_int_equal(r.pieces[2], 0);
        assert_true(r.seconds <= r.total / 500 + 0.1);
    }
}

static void test_three_devices(void **state) {
    (void)state;
    run r = made(3, 1000, 300, 40);
    make_lines(&r, MOST_LINES, 3);
    deal_all(&r);
    assert_true(r.seconds < 1.15 * ideal(&r));
    assert_true(r.work[0] > r.work[1] && r.work[1] > r.work[2] && r.work[2] > 0);
}

/* What fails at any time is done by the others, once. */
static void test_a_device_fails(void **state) {
    (void)state;
    for (int k = 0; k < 60; k++) {
        run r = made(3, 1000, 700, 100);
        make_lines(&r, 600, 11);
        r.devices[k % 3].fails = 1e-6 + ideal(&r) * (k / 3) / 18;
        if (k % 2)
            r.devices[(k + 1) % 3].fails = ideal(&r) / 2;
        deal_all(&r);
        assert_true(r.work[0] + r.work[1] + r.work[2] == r.total);
    }
}

/* Limits of memory hold for every piece: harness lines of one token, few at a time. */
static void test_limits(void **state) {
    (void)state;
    run r = made(2, 1000, 900, 0);
    r.limit.lines = 3;
    make_lines(&r, 500, 2);
    deal_all(&r);
    r.limit = (tfm__batch_limit){.tokens = 10, .lines = SIZE_MAX, .ahead = SIZE_MAX};
    make_lines(&r, 500, 4);
    deal_all(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_devices_share_evenly),
        cmocka_unit_test(test_one_device),
        cmocka_unit_test(test_a_slow_device),
        cmocka_unit_test(test_a_piece_is_done_again),
        cmocka_unit_test(test_a_device_that_hangs),
        cmocka_unit_test(test_two_at_one_piece),
        cmocka_unit_test(test_a_few_lines),
        cmocka_unit_test(test_three_devices),
        cmocka_unit_test(test_a_device_fails),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
