/* Scheduling of lines over several devices, with simulated speeds and a simulated clock. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "support/harness.h"
#include "model/multi_device/chunk_scheduler.h"

enum { MEMBERS = 4, MOST_LINES = 4000 };

/* A device with a speed in tokens per second, an overhead in seconds per chunk, and a time of failure. */
typedef struct simulated {
    double speed, latency, fails;
} simulated;

typedef struct run {
    size_t members;
    simulated devices[MEMBERS];
    tfm__throughput throughputs[MEMBERS];
    tfm__batch_limit limit;
    size_t lines, chunks[MEMBERS];
    double work[MEMBERS], until[MEMBERS], largest[MEMBERS], total, seconds;
    size_t last; /* the device that finished last */
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

/* The next device to finish, or -1. */
static int soonest(const run *r, const bool *busy) {
    int best = -1;
    for (size_t i = 0; i < r->members; i++)
        if (busy[i] && (best < 0 || r->until[i] < r->until[best]))
            best = (int)i;
    return best;
}

/* Gives each idle device a chunk, if it gets one. */
static void give(run *r, tfm__chunk_scheduler *scheduler, bool *busy, double now) {
    for (size_t i = 0; i < r->members; i++) {
        tfm__line *const *batch;
        size_t n;
        if (busy[i] || !tfm__chunk_scheduler_next(scheduler, i, now, &batch, &n))
            continue;
        double work = 0;
        assert_true(n >= 1 && n <= r->limit.lines);
        for (size_t k = 0; k < n; k++) {
            work += (double)batch[k]->cost;
            assert_int_equal(times[batch[k]->index], 0);
            times[batch[k]->index] = 1; /* until it is done or recovers */
        }
        assert_true(n == 1 || work <= (double)r->limit.tokens);
        busy[i] = true;
        r->chunks[i]++;
        r->until[i] = now + r->devices[i].latency + work / r->devices[i].speed;
        r->largest[i] = work > r->largest[i] ? work : r->largest[i];
    }
}

/* Schedules all lines. A device that fails during a chunk returns it. */
static void schedule_all(run *r) {
    tfm__chunk_scheduler scheduler;
    bool busy[MEMBERS] = {false};
    double now = 0;
    for (size_t i = 0; i < r->members; i++)
        r->chunks[i] = 0, r->work[i] = r->until[i] = r->largest[i] = 0;
    harness_ok(tfm__chunk_scheduler_begin(&scheduler, order, r->lines, r->limit, r->throughputs, r->members, false));
    for (int who; give(r, &scheduler, busy, now), (who = soonest(r, busy)) >= 0;) {
        const tfm__line_range chunk = scheduler.chunks[who].lines;
        const double fails = r->devices[who].fails;
        assert_false(tfm__chunk_scheduler_finished(&scheduler));
        now = fails > 0 && r->until[who] > fails ? (fails > now ? fails : now) : r->until[who];
        busy[who] = false;
        if (now < r->until[who]) {
            for (size_t i = chunk.first; i < chunk.end; i++)
                times[order[i]->index] = 0;
            tfm__chunk_scheduler_drop(&scheduler, (size_t)who);
            continue;
        }
        r->work[who] += scheduler.chunks[who].work;
        tfm__chunk_scheduler_complete(&scheduler, (size_t)who, now - scheduler.chunks[who].since);
        r->last = (size_t)who;
    }
    assert_true(tfm__chunk_scheduler_finished(&scheduler));
    r->seconds = now;
    for (size_t i = 0; i < r->lines; i++)
        assert_int_equal(times[i], 1);
    tfm__chunk_scheduler_free(&scheduler);
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
    schedule_all(&r);
    assert_true(r.seconds < 1.1 * ideal(&r));
    assert_true(r.work[0] > 0.45 * r.total && r.work[1] > 0.45 * r.total);
}

/* Contexts on one device, in any order and at any speed: the batches of one alone, in order. */
static void test_scheduler_on_one_device_keeps_batches_and_order(void **state) {
    (void)state;
    const tfm__batch_limit limit = {.tokens = 512, .lines = 64, .ahead = 4};
    tfm__throughput throughputs[MEMBERS] = {{100, 1, 100}, {0, 0, 0}, {100, 1000, 1}};
    harness_random random = {3};
    run r = {0};
    tfm__chunk_scheduler scheduler;
    size_t first = 0, sorted = 0;
    static tfm__line *alone[MOST_LINES];
    make_lines(&r, 1000, 5);
    memcpy(alone, order, sizeof(order));
    harness_ok(tfm__chunk_scheduler_begin(&scheduler, order, r.lines, limit, throughputs, 3, true));
    while (first < r.lines) {
        tfm__line *const *batch;
        const size_t who = (size_t)harness_range(&random, 0, 2);
        size_t n;
        assert_true(tfm__chunk_scheduler_next(&scheduler, who, 0, &batch, &n));
        if (first == sorted)
            sorted += tfm__batch_window(alone, first, r.lines, limit);
        assert_int_equal(n, tfm__batch_next(alone, first, sorted, limit));
        assert_memory_equal(batch, alone + first, n * sizeof(*batch));
        tfm__chunk_scheduler_complete(&scheduler, who, 1 + (double)who);
        first += n;
    }
    assert_true(tfm__chunk_scheduler_finished(&scheduler));
    tfm__chunk_scheduler_free(&scheduler);
}

/* Ten and a hundred times slower, in either order: small chunks, its share at most, and never the last one. */
static void test_slow_device_gets_small_chunks_and_never_the_last(void **state) {
    (void)state;
    for (int k = 0; k < 4; k++) {
        const double slow = k < 2 ? 100 : 10;
        const size_t which = (size_t)k % 2;
        run r = which ? made(2, 1000, slow, 0) : made(2, slow, 1000, 0);
        for (uint64_t call = 0; call < 5; call++) {
            make_lines(&r, 1500, 7 + call);
            schedule_all(&r);
            assert_int_equal(r.last, 1 - which);
            assert_true(r.seconds < 1.15 * ideal(&r) + 0.2);
            assert_true(r.largest[which] < 0.4 * r.largest[1 - which] + 64);
            assert_true(call == 0 || r.work[which] > 0.3 * r.total * slow / (1000 + slow));
        }
    }
}

/* Near the end, and with few lines, the fast one does not wait. */
static void test_few_lines_do_not_wait_for_a_slow_device(void **state) {
    (void)state;
    for (size_t count = 1; count <= 12; count++) {
        run r = made(3, 500, 1000, 10);
        make_lines(&r, count, count);
        schedule_all(&r);
        assert_int_equal(r.chunks[1] + r.chunks[2], 0); /* no speeds known: the first device gets everything */
        make_lines(&r, 1500, 5);
        schedule_all(&r);
        make_lines(&r, count, count);
        schedule_all(&r);
        assert_int_equal(r.chunks[2], 0);
        assert_true(r.seconds <= r.total / 500 + 0.1);
    }
}

static void test_three_devices_share_by_speed(void **state) {
    (void)state;
    run r = made(3, 1000, 300, 40);
    make_lines(&r, MOST_LINES, 3);
    schedule_all(&r);
    assert_true(r.seconds < 1.15 * ideal(&r));
    assert_true(r.work[0] > r.work[1] && r.work[1] > r.work[2] && r.work[2] > 0);
}

/* Work of a device that fails at any time is done by the others, once. */
static void test_chunks_of_a_failed_device_are_done_once_by_others(void **state) {
    (void)state;
    for (int k = 0; k < 60; k++) {
        run r = made(3, 1000, 700, 100);
        make_lines(&r, 600, 11);
        r.devices[k % 3].fails = 1e-6 + ideal(&r) * (k / 3) / 18;
        if (k % 2)
            r.devices[(k + 1) % 3].fails = ideal(&r) / 2;
        schedule_all(&r);
        assert_true(r.work[0] + r.work[1] + r.work[2] == r.total);
    }
}

/* Memory limits apply to every chunk: harness lines of one token, few at a time. */
static void test_scheduler_keeps_batch_limits(void **state) {
    (void)state;
    run r = made(2, 1000, 900, 0);
    r.limit.lines = 3;
    make_lines(&r, 500, 2);
    schedule_all(&r);
    r.limit = (tfm__batch_limit){.tokens = 10, .lines = SIZE_MAX, .ahead = SIZE_MAX};
    make_lines(&r, 500, 4);
    schedule_all(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_devices_share_evenly),
        cmocka_unit_test(test_scheduler_on_one_device_keeps_batches_and_order),
        cmocka_unit_test(test_slow_device_gets_small_chunks_and_never_the_last),
        cmocka_unit_test(test_few_lines_do_not_wait_for_a_slow_device),
        cmocka_unit_test(test_three_devices_share_by_speed),
        cmocka_unit_test(test_chunks_of_a_failed_device_are_done_once_by_others),
        cmocka_unit_test(test_scheduler_keeps_batch_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
